//! What only SQLite can be asked: its file, its constraints, its checksums, its plans.

mod archive;
mod checksum;
mod constraints;
mod file;
mod pages;
mod plan;
mod recall;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::{Map, json};
use tempfile::TempDir;

use super::Sqlite;
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds, SessionId};
use crate::message::{Message, Role};
use crate::scope::{Scope, Tenant, User};
use crate::session::{SessionSeed, TurnDraft};
use crate::store::{Store, StoreError};

mod conformance {
    use super::*;

    crate::conformance! { Sqlite::temporary(Arc::new(SystemClock::default())).expect("a store in a new folder") }
}

/// The same promises where all text lies in blocks.
mod conformance_in_blocks {
    use super::*;

    fn moving() -> Sqlite {
        let mut store = Sqlite::temporary(Arc::new(SystemClock::default())).expect("a store in a new folder");
        store.moves_at_once = true;
        store
    }

    crate::conformance! { moving() }
}

/// A data file in a folder of its own.
struct DataFile {
    _folder: TempDir,
    path: PathBuf,
}

impl DataFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { path: folder.path().join("recalld.db"), _folder: folder }
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(end);
        path.into()
    }

    /// A second connection to the same file, past everything that guards it but the sums of its pages.
    fn raw(&self) -> Connection {
        super::connection(&self.path).expect("a connection")
    }

    fn open(&self) -> Sqlite {
        open(&self.path).expect("a store")
    }
}

fn open(path: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, Arc::new(SystemClock::default()))
}

fn ann() -> Scope {
    Scope::new(Tenant::default(), User::parse("ann").expect("a user"))
}

fn draft(question: &str, answer: &str) -> TurnDraft {
    let said = |role, text: &str| Message::new(role, text, Timestamp::UNIX_EPOCH);
    let messages = vec![said(Role::User, question), said(Role::Assistant, answer)];
    TurnDraft { id: RandomIds.turn(Timestamp::UNIX_EPOCH), messages, metadata: Map::new(), created_at: None }
}

/// A draft that fills every column of its row.
fn full_draft(question: &str, answer: &str) -> TurnDraft {
    let mut draft = draft(question, answer);
    draft.messages[0].name = Some("Ann".into());
    draft.messages[1].metadata = json!({"model": "m"}).as_object().cloned().expect("an object");
    draft.metadata = json!({"intent": "ask"}).as_object().cloned().expect("an object");
    draft
}

async fn add(store: &Sqlite, session: SessionId, drafts: Vec<TurnDraft>) {
    store.add_turns(&ann(), session, Some(SessionSeed::default()), drafts).await.expect("the turns are added");
}
