//! The one thread that writes. It drains its queue into one transaction and answers after COMMIT, so
//! sixty-four writers share one sync of the disk.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::warn;

use super::changes::ChangeLog;
use super::connect::meaning;
use crate::store::StoreError;

/// Most writes waiting for the thread; a caller beyond that waits its turn.
const QUEUE_MAX: usize = 4_096;
/// Most writes in one transaction.
const BATCH_MAX: usize = 512;
/// How long "somebody looked at this session" may wait for a transaction to travel with.
const TOUCH_EVERY: Duration = Duration::from_secs(10);
/// Idle time after which the log is emptied: only SQLite's own checksums protect what is in it, and a start reads all of it.
const IDLE: Duration = Duration::from_secs(1);
/// How long SQLite waits for a lock on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most sessions whose last look is remembered until then.
const TOUCHED_MAX: usize = 10_000;

/// A handle to the writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<Option<Sender<Command>>>,
    places: Arc<Semaphore>,
    notes: Arc<Notes>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread is to do along with the next transaction.
#[derive(Debug, Default)]
pub(super) struct Notes {
    touched: Mutex<Touched>,
    erased: AtomicBool,
    changes: Arc<ChangeLog>,
    jobs: AtomicBool,
    job_news: Arc<Notify>,
    parcels: AtomicBool,
    parcel_news: Arc<Notify>,
}

/// Session keys and when somebody last looked, in microseconds.
type Touched = HashMap<i64, i64>;

impl Notes {
    /// Says that text was removed: before the write is answered, it is gone from the log as well.
    pub(super) fn erased(&self, something: bool) {
        self.erased.fetch_or(something, Ordering::Relaxed);
    }

    /// Says that a job was asked for: whoever does jobs is told when it is on disk.
    pub(super) fn jobs(&self, some: bool) {
        self.jobs.fetch_or(some, Ordering::Relaxed);
    }

    /// Told when a job was asked for.
    pub(super) fn job_news(&self) -> Arc<Notify> {
        Arc::clone(&self.job_news)
    }

    /// Says that there is a webhook to deliver: whoever does that is told when it is on disk.
    pub(super) fn parcels(&self, some: bool) {
        self.parcels.fetch_or(some, Ordering::Relaxed);
    }

    /// Told when there is a webhook to deliver.
    pub(super) fn parcel_news(&self) -> Arc<Notify> {
        Arc::clone(&self.parcel_news)
    }

    fn touched(&self) -> MutexGuard<'_, Touched> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Command {
    write: Box<dyn Write>,
    /// Held until the write is answered; bounds the queue.
    _place: OwnedSemaphorePermit,
}

/// One write: run inside the transaction, answered after it.
trait Write: Send {
    /// Whether it went well enough to keep; an error that condemns the whole transaction is returned.
    fn run(&mut self, db: &Connection) -> Result<(), StoreError>;
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

struct Task<F, T> {
    work: Option<F>,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Write for Task<F, T>
where
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn run(&mut self, db: &Connection) -> Result<(), StoreError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let outcome = within_savepoint(db, work);
        let fatal = outcome.as_ref().err().filter(|error| error.ends_transaction()).cloned();
        self.outcome = Some(outcome);
        fatal.map_or(Ok(()), Err)
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let outcome = match fate {
            Ok(()) => self.outcome.unwrap_or(Err(StoreError::Closed)),
            // Damage is the answer to the write that met it; what was written beside it may well be written later.
            Err(StoreError::DamagedFile(what)) => match self.outcome {
                Some(Err(own)) => Err(own),
                _ => Err(StoreError::Disk(format!("a write in the same transaction met damage: {what}"))),
            },
            Err(error) => Err(error),
        };
        // The caller may be gone; the write stands all the same.
        let _ = self.reply.send(outcome);
    }
}

/// A refused write leaves nothing behind, whatever it had done before it was refused.
fn within_savepoint<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    run(db, "SAVEPOINT write")?;
    let outcome = catch_unwind(AssertUnwindSafe(|| work(db))).unwrap_or_else(|_| {
        // Without this thread nothing is remembered any more, so it outlives a bug in one write.
        Err(StoreError::Refused("the write met a bug in recalld; the log has its trace".into()))
    });
    match outcome {
        Ok(value) => run(db, "RELEASE write").map(|()| value),
        Err(error) if error.ends_transaction() => Err(error),
        Err(error) => run(db, "ROLLBACK TO write").and_then(|()| run(db, "RELEASE write")).and(Err(error)),
    }
}

/// Runs a statement without values from the cache.
pub(super) fn run(db: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.execute([]).map(drop).map_err(|error| meaning(&error))
}

impl Writer {
    /// Starts the thread on its connection, which notes its changes in the log.
    pub(super) fn start(db: Connection, changes: Arc<ChangeLog>) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let notes = Arc::new(Notes { changes, ..Notes::default() });
        let shared = Arc::clone(&notes);
        let thread =
            std::thread::Builder::new().name("recalld-writer".into()).spawn(move || serve(&db, &receiver, &shared))?;
        Ok(Self {
            queue: Mutex::new(Some(sender)),
            places: Arc::new(Semaphore::new(QUEUE_MAX)),
            notes,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Runs a write in the next transaction and answers when that is on disk.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let write = Box::new(Task { work: Some(work), outcome: None, reply });
        self.send(Command { write, _place: place })?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().and_then(|queue| queue.send(command).ok()).ok_or(StoreError::Closed)
    }

    /// Notes that somebody looked at a session; written along with the next transaction.
    pub(super) fn touch(&self, session_key: i64, at: i64) {
        let mut touched = self.notes.touched();
        if touched.len() < TOUCHED_MAX {
            touched.insert(session_key, at);
        }
    }

    /// What changed for whoever holds turns in memory.
    pub(super) fn changes(&self) -> &ChangeLog {
        &self.notes.changes
    }

    /// Whether nothing that was erased is left in the log.
    pub(super) fn log_is_empty(&self) -> bool {
        !self.notes.erased.load(Ordering::Relaxed)
    }

    /// What a write can ask of the thread.
    pub(super) fn notes(&self) -> Arc<Notes> {
        Arc::clone(&self.notes)
    }

    /// Finishes the queue and ends the thread. Blocks until it is done.
    pub(super) fn stop(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// The thread: waits for a write, takes what else has come meanwhile, writes it all in one go.
fn serve(db: &Connection, queue: &Receiver<Command>, notes: &Notes) {
    let mut log_is_empty = true;
    loop {
        match queue.recv_timeout(if log_is_empty { TOUCH_EVERY } else { IDLE }) {
            Ok(first) => {
                let rest = queue.try_iter().take(BATCH_MAX - 1);
                commit(db, std::iter::once(first).chain(rest).collect(), notes);
                log_is_empty = false;
            }
            Err(RecvTimeoutError::Timeout) if !log_is_empty => log_is_empty = empty_log_unless_busy(db),
            Err(RecvTimeoutError::Timeout) => log_is_empty = !follow(db, notes),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    follow(db, notes);
    let _ = db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);");
}

/// Does what the notes say when no write comes to take it along. Answers whether that was a write.
fn follow(db: &Connection, notes: &Notes) -> bool {
    let writes = !notes.touched().is_empty();
    if writes {
        commit(db, Vec::new(), notes);
    }
    empty_log(db, notes);
    writes
}

/// Checkpoints the log and truncates it, without waiting for readers: one that reads an older state keeps the log from being emptied.
/// Answers whether it is empty.
pub(super) fn empty_log_unless_busy(db: &Connection) -> bool {
    let _ = db.busy_timeout(Duration::ZERO);
    let busy = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    let _ = db.busy_timeout(BUSY_TIMEOUT);
    busy == Ok(0)
}

/// Empties the log after text was removed. When a reader is in the way it is tried again later.
fn empty_log(db: &Connection, notes: &Notes) {
    if notes.erased.swap(false, Ordering::Relaxed) {
        let busy = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        notes.erased(busy != Ok(0));
    }
}

/// One transaction for all; then everybody is answered.
fn commit(db: &Connection, mut batch: Vec<Command>, notes: &Notes) {
    let looked_at = std::mem::take(&mut *notes.touched());
    let fate = transaction(db, &mut batch, &looked_at);
    if let Err(error) = &fate {
        warn!(writes = batch.len(), error = %error, "A transaction of {} writes failed: {error}", batch.len());
    }
    notes.changes.publish();
    if notes.jobs.swap(false, Ordering::Relaxed) {
        notes.job_news.notify_one();
    }
    if notes.parcels.swap(false, Ordering::Relaxed) {
        notes.parcel_news.notify_one();
    }
    empty_log(db, notes);
    for command in batch {
        command.write.answer(fate.clone());
    }
}

fn transaction(db: &Connection, batch: &mut [Command], touched: &Touched) -> Result<(), StoreError> {
    let done = run(db, "BEGIN IMMEDIATE").and_then(|()| {
        batch.iter_mut().try_for_each(|command| command.write.run(db))?;
        touched.iter().try_for_each(|(key, at)| write_touch(db, *key, *at))?;
        run(db, "COMMIT")
    });
    if done.is_err() && !db.is_autocommit() {
        // SQLite may have rolled back by itself; if not, do it now.
        let _ = db.execute_batch("ROLLBACK");
    }
    done
}

fn write_touch(db: &Connection, key: i64, at: i64) -> Result<(), StoreError> {
    let sql = "UPDATE session SET last_accessed = max(last_accessed, ?2) WHERE key = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.execute((key, at)).map(drop).map_err(|error| meaning(&error))
}
