//! A data file before and after its text has moved into blocks.
//!
//! The file is filled with the turns of some chats, again and again; a block repeats nothing of another, so that changes
//! nothing. Only what turns themselves take is measured: nothing is derived from them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Map;

use super::recall::chats::Chat;
use super::recall::progress;
use super::recall::stage::parts;
use super::table::Row;
use crate::clock::{Clock, SystemClock};
use crate::id::{Ids, RandomIds, SessionId};
use crate::memory::{Memory, MemorySettings};
use crate::message::{Message, Role};
use crate::model::embed::Builtin;
use crate::scope::{Scope, Tenant, User};
use crate::session::{SessionSeed, TurnDraft};
use crate::store::{Sqlite, Store};

/// Turns of a session, and those of them that stay in its window.
const SESSION_TURNS: usize = 110;
const WINDOW_TURNS: usize = 10;

/// Fills a file with so many turns, moves their text, and says what each came to.
pub(super) async fn rows(chats: &[Chat], turns: usize) -> anyhow::Result<Vec<Row>> {
    let folder = std::env::temp_dir().join(format!("recalld-shrink-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let measured = measure(chats, turns, &folder.join("r.db")).await;
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

async fn measure(chats: &[Chat], turns: usize, data: &Path) -> anyhow::Result<Vec<Row>> {
    let memory = open(data)?;
    let sessions = fill(&memory, chats, turns).await?;
    let before = close(memory, data).await?;
    let memory = open(data)?;
    for (session, turns) in &sessions {
        memory.archive(&scope(), *session, (turns.saturating_sub(WINDOW_TURNS) + 1) as u64).await?;
    }
    let quick = close(memory, data).await?;
    let memory = open(data)?;
    while memory.pack_blocks().await? > 0 {}
    let thorough = close(memory, data).await?;
    let row = |what: &str, bytes: u64, ratio: Option<f64>| Row {
        what: format!("data file, {turns} turns: {what}"),
        measured: format!("{:.1} MB", bytes as f64 / 1e6),
        beside: ratio.map(|_| format!("{:.1} MB", before as f64 / 1e6)),
        ratio,
        must: None,
        goal: None,
    };
    let beside = |bytes: u64| Some(bytes as f64 / before as f64);
    Ok(vec![
        row("text in its rows", before, None),
        row("text in blocks", quick, beside(quick)),
        row("full blocks packed thoroughly", thorough, beside(thorough)),
    ])
}

fn open(data: &Path) -> anyhow::Result<Memory> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(data, Arc::clone(&clock))?);
    Ok(Memory::new(parts(store, clock, Arc::new(Builtin::default())), MemorySettings::default()))
}

fn scope() -> Scope {
    Scope::new(Tenant::default(), User::anonymous())
}

/// Closes the file and answers how much of it is in use: pages that became free are filled before it grows again.
async fn close(memory: Memory, data: &Path) -> anyhow::Result<u64> {
    memory.close(Duration::from_secs(30)).await?;
    drop(memory);
    let used = "SELECT (page_count - freelist_count) * page_size
                FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    Ok(Connection::open(data)?.query_row(used, [], |row| row.get(0))?)
}

/// Sessions of some turns each. Answers which, and how many turns each has.
async fn fill(memory: &Memory, chats: &[Chat], turns: usize) -> anyhow::Result<Vec<(SessionId, usize)>> {
    let said = exchanges(chats);
    ensure!(!said.is_empty(), "nobody asks anything in these chats");
    let bar = progress("filling", "turns", turns)?;
    let (mut all, mut sessions) = (said.iter().cycle().take(turns).peekable(), Vec::new());
    while all.peek().is_some() {
        let drafts: Vec<TurnDraft> = all.by_ref().take(SESSION_TURNS).map(|said| draft(said)).collect();
        let (session, count) = (memory.new_session_id(), drafts.len());
        memory.parts.store.add_turns(&scope(), session, Some(SessionSeed::default()), drafts).await?;
        sessions.push((session, count));
        bar.inc(count as u64);
    }
    bar.finish_and_clear();
    Ok(sessions)
}

/// Each question with its answer, if it has one.
fn exchanges(chats: &[Chat]) -> Vec<Vec<Message>> {
    let mut all: Vec<Vec<Message>> = Vec::new();
    for said in chats.iter().flat_map(|chat| &chat.messages) {
        let message =
            Message { name: said.name.clone(), ..Message::new(said.role, said.text.clone(), Timestamp::now()) };
        match all.last_mut().filter(|turn| said.role == Role::Assistant && turn.len() == 1) {
            Some(turn) => turn.push(message),
            None if said.role == Role::User => all.push(vec![message]),
            None => {}
        }
    }
    all
}

fn draft(messages: &[Message]) -> TurnDraft {
    let at = Timestamp::now();
    TurnDraft { id: RandomIds.turn(at), messages: messages.to_vec(), metadata: Map::new(), created_at: Some(at) }
}
