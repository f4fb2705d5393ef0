//! The spool: a small file of our own that turns wait in while a database that others share is away.
//!
//! It is the queue on disk: what is added to the one is added to the other before anybody is answered, and what has reached the
//! database leaves both. One thread writes it, many orders in one transaction. It also holds a copy of what is needed to go on when a
//! process starts while the database is away.
//!
//! **Invariant:** what leaves the spool is overwritten, and gone from its log when the last turn has left, or when somebody erases.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tracing::warn;
use xxhash_rust::xxh3::xxh3_64;

use super::turn::WaitingTurn;
use crate::id::TurnId;
use crate::scope::Scope;
use crate::session::{ClosedTurn, OpenTurn};
use crate::store::sqlite::connect::{make_private, meaning};
use crate::store::sqlite::kept_logs::KeptLogs;
use crate::store::sqlite::lock::Lock;
use crate::store::{Erasure, StoreError};

/// Most orders in one transaction.
const BATCH_MAX: usize = 256;
/// Most spools of instances on one machine that share a folder.
const SPOOLS_MAX: usize = 16;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA secure_delete = ON;
    PRAGMA temp_store = MEMORY;
    CREATE TABLE IF NOT EXISTS turn (
        id        BLOB    PRIMARY KEY,
        opened_at INTEGER NOT NULL,
        body      TEXT    NOT NULL,
        checksum  INTEGER NOT NULL,
        -- Why the database would not have it, for somebody to look into.
        refused   TEXT
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS note (
        name  TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;";

/// A spool that is open.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    orders: Mutex<Option<Sender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lock: Lock,
    kept_logs: KeptLogs,
    found: Mutex<Vec<Found>>,
    notes: Mutex<HashMap<String, String>>,
    #[cfg(test)]
    folder: Option<tempfile::TempDir>,
}

/// A turn that lay there, and why the database would not have it, if it would not.
type Found = (WaitingTurn, Option<String>);

/// Says when an order is on disk.
pub(super) type Written = oneshot::Receiver<Result<(), StoreError>>;

struct Order {
    work: Work,
    written: oneshot::Sender<Result<(), StoreError>>,
}

enum Work {
    Put(Row),
    /// The database has it.
    Forget(TurnId),
    /// The database would not have it, for this reason.
    Refuse(TurnId, String),
    /// Somebody wants these gone, and what was refused of the same.
    Erase(Vec<TurnId>, Option<Erasure>),
    Note(&'static str, String),
}

struct Row {
    id: TurnId,
    opened_at: i64,
    body: String,
}

/// A turn as it lies in the file.
#[derive(Serialize, Deserialize)]
struct Body {
    tenant: String,
    user: String,
    at: Timestamp,
    known: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<OpenTurn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<ClosedTurn>,
}

impl Spool {
    /// Opens a spool, making it if need be. When another instance has it, the next name is tried; what an instance that is gone
    /// left under another name is taken over. Blocks until that is done.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut in_use = None;
        for n in 1..=SPOOLS_MAX {
            match Self::open_one(&numbered(path, n)) {
                Ok(spool) => {
                    spool.take_over(path, n);
                    return Ok(spool);
                }
                Err(error @ StoreError::InUse { .. }) => in_use = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(in_use.unwrap_or(StoreError::Closed))
    }

    fn open_one(path: &Path) -> Result<Self, StoreError> {
        make_private(path)?;
        let lock = Lock::take(path)?;
        let kept_logs = KeptLogs::guard(path, Timestamp::now())?;
        let cannot = |error: rusqlite::Error| StoreError::CannotOpen { path: path.into(), reason: error.to_string() };
        let db = Connection::open(path).map_err(cannot)?;
        db.execute_batch(SCHEMA).map_err(cannot)?;
        let found = read_turns(&db, path).map_err(cannot)?;
        let notes = read_notes(&db).map_err(cannot)?;
        let (sender, orders) = channel();
        let thread = std::thread::Builder::new().name("spool".into()).spawn(move || work(db, orders));
        let thread = thread.map_err(|error| StoreError::CannotOpen { path: path.into(), reason: error.to_string() })?;
        Ok(Self {
            path: path.into(),
            orders: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            lock,
            kept_logs,
            found: Mutex::new(found),
            notes: Mutex::new(notes),
            #[cfg(test)]
            folder: None,
        })
    }

    /// A spool in a folder that vanishes with it.
    #[cfg(test)]
    pub(super) fn temporary() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Self::open(&folder.path().join("r.spool.db")).expect("a new spool");
        spool.folder = Some(folder);
        spool
    }

    /// Brings over what lies in spools that nobody has. What cannot be read stays where it is.
    fn take_over(&self, path: &Path, ours: usize) {
        for n in (1..=SPOOLS_MAX).filter(|n| *n != ours) {
            let other = numbered(path, n);
            if !other.exists() {
                continue;
            }
            let Ok(left) = Self::open_one(&other) else { continue };
            let turns = std::mem::take(&mut *left.found.lock().unwrap_or_else(PoisonError::into_inner));
            let ids: Vec<TurnId> = turns.iter().map(|(turn, _)| turn.id).collect();
            let put: Vec<Written> = turns.iter().flat_map(|found| self.put_found(found)).collect();
            if !ids.is_empty() && put.into_iter().all(|written| matches!(written.blocking_recv(), Ok(Ok(())))) {
                warn!(turns = ids.len(), "Took over {} turns from {}", ids.len(), other.display());
                let _ = left.erase(ids, None).blocking_recv();
                self.found.lock().unwrap_or_else(PoisonError::into_inner).extend(turns);
            }
            left.close();
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The turns that waited in it when it was opened. Those that the database would not have are tried once more: it may be
    /// another one by now, and what was erased meanwhile is found out by trying.
    pub(super) fn take_found(&self) -> Vec<WaitingTurn> {
        let found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        let refused = found.iter().filter(|(_, refused)| refused.is_some()).count();
        if refused > 0 {
            let path = self.path.display();
            warn!(turns = refused, "{refused} turns in {path} that the database would not have are tried once more");
        }
        found.into_iter().map(|(turn, _)| turn).collect()
    }

    fn put_found(&self, (turn, refused): &Found) -> Vec<Written> {
        let refuse = |reason: &String| self.order(Work::Refuse(turn.id, reason.clone()));
        [self.put(turn)].into_iter().chain(refused.iter().map(refuse)).collect()
    }

    pub(super) fn put(&self, turn: &WaitingTurn) -> Written {
        let (tenant, user) = (turn.scope.tenant().to_string(), turn.scope.user().to_string());
        let (open, closed) = (turn.open.as_ref().map(|(open, _)| open.clone()), turn.closed.clone());
        let body = Body { tenant, user, at: turn.at, known: turn.known, open, closed };
        let body = serde_json::to_string(&body).expect("what was read as JSON is written as JSON");
        self.order(Work::Put(Row { id: turn.id, opened_at: turn.at.as_microsecond(), body }))
    }

    pub(super) fn forget(&self, id: TurnId) -> Written {
        self.order(Work::Forget(id))
    }

    /// Puts a turn aside that the database would not have: it was acknowledged, so it is not thrown away.
    pub(super) fn refuse(&self, id: TurnId, reason: &StoreError) -> Written {
        self.order(Work::Refuse(id, reason.to_string()))
    }

    /// Copies of logs of this file that were damaged.
    pub(super) fn kept_logs(&self) -> &KeptLogs {
        &self.kept_logs
    }

    /// Removes turns without a trace, those that were put aside as well.
    pub(super) fn erase(&self, ids: Vec<TurnId>, what: Option<Erasure>) -> Written {
        if what.is_some() {
            self.kept_logs.remove_all();
        }
        self.order(Work::Erase(ids, what))
    }

    /// Waits until all that was ordered is done.
    pub(super) async fn settled(&self) -> Result<(), StoreError> {
        written(self.erase(Vec::new(), None)).await
    }

    /// What was noted under a name.
    pub fn noted(&self, name: &str) -> Option<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Notes something for a start without the database. What cannot be written is noted again with the next change.
    pub fn note(&self, name: &'static str, value: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value.clone());
        drop(self.order(Work::Note(name, value)));
    }

    fn order(&self, work: Work) -> Written {
        let (written, receiver) = oneshot::channel();
        if let Some(orders) = &*self.orders.lock().unwrap_or_else(PoisonError::into_inner) {
            // A thread that is gone answers nobody, which is heard.
            let _ = orders.send(Order { work, written });
        }
        receiver
    }

    /// Writes what was ordered and lets go of the file.
    pub fn close(&self) {
        drop(self.orders.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
        self.lock.release();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits until an order is on disk.
pub(super) async fn written(order: Written) -> Result<(), StoreError> {
    order.await.unwrap_or(Err(StoreError::Closed))
}

/// The name of the n-th spool in a folder.
fn numbered(path: &Path, n: usize) -> PathBuf {
    if n == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{n}.{}", path.extension().unwrap_or_default().to_string_lossy()))
}

fn read_turns(db: &Connection, path: &Path) -> rusqlite::Result<Vec<Found>> {
    let mut statement = db.prepare("SELECT body, checksum, refused FROM turn ORDER BY opened_at, id")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get(2)?)))?;
    let mut turns = Vec::new();
    for row in rows {
        let (body, checksum, refused) = row?;
        match read_turn(&body, checksum) {
            Some(turn) => turns.push((turn, refused)),
            // It stays in the file, for somebody who can read it.
            None => warn!("A turn in {} is damaged and is left there", path.display()),
        }
    }
    Ok(turns)
}

fn read_turn(body: &str, checksum: i64) -> Option<WaitingTurn> {
    if xxh3_64(body.as_bytes()).cast_signed() != checksum {
        return None;
    }
    let Body { tenant, user, at, known, open, closed } = serde_json::from_str(body).ok()?;
    let scope = Scope::as_stored(&tenant, &user);
    WaitingTurn::found(scope, at, known, open, closed)
}

fn read_notes(db: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = db.prepare("SELECT name, value FROM note")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The thread: one transaction for all orders that have come meanwhile.
fn work(db: Connection, orders: Receiver<Order>) {
    while let Ok(first) = orders.recv() {
        let mut batch = vec![first];
        batch.extend(orders.try_iter().take(BATCH_MAX - 1));
        let done = in_one(&db, &batch).map_err(|error| meaning(&error));
        for order in batch {
            // Whoever does not wait for it does not want to know.
            let _ = order.written.send(done.clone());
        }
    }
}

fn in_one(db: &Connection, batch: &[Order]) -> rusqlite::Result<()> {
    let writing = db.unchecked_transaction()?;
    for order in batch {
        match &order.work {
            Work::Put(row) => put(db, row)?,
            Work::Forget(id) => remove(db, *id)?,
            Work::Refuse(id, reason) => {
                let sql = "UPDATE turn SET refused = ?2 WHERE id = ?1";
                db.prepare_cached(sql)?.execute(params![id.as_uuid().as_bytes(), reason])?;
            }
            Work::Erase(ids, what) => {
                ids.iter().try_for_each(|id| remove(db, *id))?;
                what.iter().try_for_each(|what| remove_refused(db, what))?;
            }
            Work::Note(name, value) => {
                let sql = "INSERT INTO note (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
                db.prepare_cached(sql)?.execute([*name, value])?;
            }
        }
    }
    writing.commit()?;
    let erases =
        batch.iter().any(|order| matches!(&order.work, Work::Erase(ids, what) if !ids.is_empty() || what.is_some()));
    let leaves = batch.iter().any(|order| matches!(&order.work, Work::Forget(_)));
    if erases || (leaves && is_empty(db)?) {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

fn put(db: &Connection, row: &Row) -> rusqlite::Result<()> {
    let sql = "INSERT INTO turn (id, opened_at, body, checksum) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (id) DO UPDATE SET body = ?3, checksum = ?4";
    let checksum = xxh3_64(row.body.as_bytes()).cast_signed();
    db.prepare_cached(sql)?.execute(params![row.id.as_uuid().as_bytes(), row.opened_at, row.body, checksum])?;
    Ok(())
}

fn remove(db: &Connection, id: TurnId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM turn WHERE id = ?1")?.execute([id.as_uuid().as_bytes()])?;
    Ok(())
}

/// Removes what was put aside of something that is erased.
fn remove_refused(db: &Connection, what: &Erasure) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached("SELECT body, checksum FROM turn WHERE refused IS NOT NULL")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    for row in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        if let Some(turn) = read_turn(&row.0, row.1).filter(|turn| turn.is_part_of(what)) {
            remove(db, turn.id)?;
        }
    }
    Ok(())
}

fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM turn WHERE refused IS NULL)")?.query_row([], |row| row.get(0))
}
