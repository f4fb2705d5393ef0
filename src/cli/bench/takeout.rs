//! `recalld bench takeout`: a memory out to a file and into another store, through the same code as the doors: messages a
//! second, and how much memory that takes at most.

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Map;
use tokio::sync::mpsc::channel;

use super::chatter::{Chatter, SESSION_TURNS};
use super::recall::stage::parts;
use super::table::{Row, Table, machine};
use crate::clock::{Clock, SystemClock};
use crate::id::{Ids, RandomIds};
use crate::memory::{Memory, MemorySettings};
use crate::message::{Message, Role};
use crate::model::embed::Builtin;
use crate::review::ExportRequest;
use crate::scope::{Scope, Tenant, User, Whose};
use crate::session::{SessionSeed, TurnDraft};
use crate::store::{Sqlite, Store};
use crate::takeout::{Around, Format, Found, read};

/// Flags of `bench takeout`.
#[derive(Debug, Args)]
pub(super) struct TakeoutArgs {
    /// How many messages are exported and imported.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    messages: usize,
    /// Where to work; the folder needs about 2 GB for a million messages and is emptied afterwards.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Records that are read ahead of the store.
const AHEAD: usize = 256;

pub(super) async fn run(args: &TakeoutArgs) -> anyhow::Result<Table> {
    let name = format!("recalld-takeout-{}", std::process::id());
    let folder = args.folder.clone().unwrap_or_else(std::env::temp_dir).join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let measured = measure(args, &folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

async fn measure(args: &TakeoutArgs, folder: &Path) -> anyhow::Result<Table> {
    let file = folder.join("export.jsonl");
    let first = memory(&folder.join("first.db"))?;
    fill(&first, args.messages).await?;
    let mut rows = Vec::new();
    let (messages, seconds) = export(&first, &file).await?;
    rows.push(row("export", messages, seconds));
    first.close(std::time::Duration::from_secs(5)).await?;
    drop(first);
    for what in ["import into an empty store", "the same again"] {
        let second = memory(&folder.join("second.db"))?;
        let seconds = import(&second, &file).await?;
        rows.push(row(what, messages, seconds));
        second.close(std::time::Duration::from_secs(5)).await?;
    }
    let bytes = std::fs::metadata(&file).map_or(0, |about| about.len());
    rows.push(plain("the file", format!("{:.1} MB", bytes as f64 / 1e6)));
    rows.push(plain("most memory, filling included", format!("{:.0} MB", peak_bytes()? as f64 / 1e6)));
    Ok(Table { machine: machine(), rows })
}

fn row(what: &str, messages: u64, seconds: f64) -> Row {
    plain(what, format!("{:.0} messages/s ({messages} in {seconds:.1} s)", messages as f64 / seconds))
}

fn plain(what: &str, measured: String) -> Row {
    Row { what: what.to_owned(), measured, beside: None, ratio: None, must: None, goal: None }
}

/// The most memory that this process ever had.
fn peak_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("no /proc here")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("VmHWM is no number")?;
    Ok(kilobytes * 1024)
}

fn memory(data: &Path) -> anyhow::Result<Memory> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(data, Arc::clone(&clock))?);
    Ok(Memory::new(parts(store, clock, Arc::new(Builtin::default())), MemorySettings::default()))
}

fn scope() -> Scope {
    Scope::new(Tenant::default(), User::anonymous())
}

/// Conversations of twenty turns, two messages each. Not measured.
async fn fill(memory: &Memory, messages: usize) -> anyhow::Result<()> {
    let mut chatter = Chatter::new(7);
    let mut left = messages / 2;
    while left > 0 {
        let drafts: Vec<TurnDraft> = (0..SESSION_TURNS.min(left)).map(|_| draft(&mut chatter)).collect();
        left -= drafts.len();
        let session = memory.new_session_id();
        memory.parts.store.add_turns(&scope(), session, Some(SessionSeed::default()), drafts).await?;
    }
    Ok(())
}

fn draft(chatter: &mut Chatter) -> TurnDraft {
    let at = Timestamp::now();
    let messages =
        vec![Message::new(Role::User, chatter.message(), at), Message::new(Role::Assistant, chatter.reply(), at)];
    TurnDraft { id: RandomIds.turn(at), messages, metadata: Map::new(), created_at: Some(at) }
}

async fn export(memory: &Memory, file: &Path) -> anyhow::Result<(u64, f64)> {
    let whose = Whose::Everyone(Tenant::default());
    let request = ExportRequest { whose, session: None, since: None, live: false, after: None };
    let (pieces, mut taken) = channel(4);
    let started = Instant::now();
    let memory = memory.clone();
    let task = tokio::spawn(async move { memory.export(request, pieces).await });
    let mut out = std::fs::File::create(file)?;
    while let Some(piece) = taken.recv().await {
        out.write_all(&piece)?;
    }
    let summary = task.await??;
    Ok((summary.messages, started.elapsed().as_secs_f64()))
}

async fn import(memory: &Memory, file: &Path) -> anyhow::Result<f64> {
    let around = Around { name: "bench".into(), undated: Timestamp::UNIX_EPOCH, zone: TimeZone::UTC };
    let input = BufReader::new(std::fs::File::open(file)?);
    let started = Instant::now();
    let (sender, mut found) = channel(AHEAD);
    let work = move || read(Format::Recalld, input, &around, &mut |next| sender.blocking_send(next).is_ok());
    let reading = tokio::task::spawn_blocking(work);
    let mut importer = memory.import(Whose::Everyone(Tenant::default()), false, false);
    while let Some(next) = found.recv().await {
        if let Found::Line(_, line) = next {
            importer.take(0, *line).await?;
        }
    }
    reading.await??;
    let report = importer.finish().await?;
    anyhow::ensure!(report.refused_count == 0, "{} lines were refused", report.refused_count);
    Ok(started.elapsed().as_secs_f64())
}
