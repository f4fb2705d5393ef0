//! SQLite: the default store, one file and nothing else.
//!
//! Reading order: `schema.sql` and those after it, `connect` (opening a file), `writer` (group commit),
//! `readers`, `row` (a turn as a row), then the statements: `session`, `look`, `turn`, `expire` and `let_go`, `recall`, `job`, `episode`,
//! `told` (what of those is recalled), `topic` (which turn belongs to which), `topics` (what is kept of them), `archive` (text in
//! blocks), `fact` (which turns are to be understood), `facts` (what was said and what follows), `ledger` (what the memory
//! model costs), `requests` (what requests with a key made), `tenants` and `seal` (who may come in), `takeout` (records for a file and from one), `erase` (what goes for
//! good) and `book` (what did), `outbox` (webhooks to deliver), `knowledge` (what tenants know), `pages` (a sum in every
//! page), `examine` and `verify` (whether all is what was written), `copy` and `restore` (backups). `changes` tells what the
//! writer touched, `inspect` looks at a file from outside.

mod archive;
mod book;
mod calls;
mod changes;
pub(super) mod connect;
mod consolidate;
mod copy;
mod episode;
mod erase;
mod examine;
mod expire;
mod fact;
mod facts;
mod inspect;
mod job;
pub(super) mod kept_logs;
mod knowledge;
mod ledger;
mod let_go;
pub(super) mod lock;
mod look;
mod made;
mod outbox;
mod pages;
mod place;
mod readers;
mod recall;
mod requests;
mod restore;
mod revision;
mod row;
pub(super) mod seal;
mod session;
mod sql;
mod takeout;
mod tenants;
mod told;
mod topic;
mod topics;
mod trace;
mod turn;
mod verify;
mod wal_check;
mod writer;

pub use inspect::Inspection;
pub use kept_logs::KeptLog;
pub use pages::connection;
pub use restore::Restored;

use std::future::ready;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;

use self::book::Book;
use self::changes::{ChangeLog, Told, Touched};
use self::job::Due;
use self::kept_logs::KeptLogs;
use self::lock::Lock;
use self::readers::Readers;
use self::writer::{Notes, Writer};
use super::backup::Backup;
use super::erasure::{Entry, Erasure, Marks, Meanwhile, Waited};
use super::whose::Whose;
use super::{AskedPassages, ChangeMark, SeenPassages, StoreError, StoreFuture};
use crate::clock::Clock;
use crate::episode::EpisodeSettings;
use crate::scope::{Scope, TenantScope};
use crate::tenant::Seal;

/// What the calls of this folder are the calls of.
use Sqlite as Backend;

/// The statements of opening and closing a turn, for measuring what the rest of the store costs.
pub(crate) struct BareStatements {
    pub(crate) find: String,
    pub(crate) reserve: &'static str,
    pub(crate) insert: &'static str,
    pub(crate) rewrite: &'static str,
    pub(crate) used: &'static str,
    pub(crate) place: &'static str,
    pub(crate) answered: &'static str,
}

impl Default for BareStatements {
    fn default() -> Self {
        Self {
            find: turn::find_sql(),
            reserve: session::RESERVE,
            insert: turn::INSERT,
            rewrite: turn::REWRITE,
            used: turn::USED,
            place: place::INSERT,
            answered: place::ANSWERED,
        }
    }
}

/// A connection set up as the writer's, for measuring.
pub(crate) fn bare_connection(path: &Path) -> Result<Connection, StoreError> {
    connect::open_writer(path)
}

/// Most turns that are looked up on the calling thread.
const LOOKED_UP_HERE_MAX: usize = 32;

/// How often it is looked whether what was erased is gone from the log, and how long after the last look: somebody who reads
/// for longer than all of it is not waited for.
const LOG_LOOKS: usize = 100;
const LOG_PAUSE: Duration = Duration::from_millis(20);

/// A store in one SQLite file.
pub struct Sqlite {
    writer: Arc<Writer>,
    readers: Readers,
    clock: Arc<dyn Clock>,
    due: Due,
    lock: Lock,
    /// Copies of damaged logs, oldest first.
    kept_logs: KeptLogs,
    /// What was erased.
    book: Arc<Book>,
    /// Held by whoever erases.
    erasing: tokio::sync::Mutex<()>,
    /// Removed with the store, for tests and trials.
    temporary: Option<PathBuf>,
    /// Every write is followed by moving all text into blocks.
    #[cfg(test)]
    moves_at_once: bool,
}

impl Sqlite {
    /// Opens a data file, making it if it does not exist. One process at a time can have it open.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            let cannot =
                |error: std::io::Error| StoreError::CannotOpen { path: path.into(), reason: error.to_string() };
            std::fs::create_dir_all(folder).map_err(cannot)?;
        }
        let lock = Lock::take(path)?;
        let kept_logs = KeptLogs::guard(path, clock.reading().wall)?;
        let book = Arc::new(Book::open(path)?);
        copy::tidy(path);
        let db = connect::open_writer(path)?;
        // Frames behind damage must not be reported again at the next start.
        writer::empty_log_unless_busy(&db);
        let changes = Arc::new(ChangeLog::default());
        changes::listen(&db, &changes)?;
        let writer = Writer::start(db, changes).map_err(|error| StoreError::Disk(error.to_string()))?;
        Ok(Self {
            writer: Arc::new(writer),
            readers: Readers::new(path),
            clock,
            due: Due::of(&EpisodeSettings::default()),
            lock,
            kept_logs,
            book,
            erasing: tokio::sync::Mutex::default(),
            temporary: None,
            #[cfg(test)]
            moves_at_once: false,
        })
    }

    /// Sets when a session has left its window, so that a job is asked for.
    pub fn with_windows(mut self, settings: &EpisodeSettings) -> Self {
        self.due = Due::of(settings);
        self
    }

    /// Opens a store in a new folder that vanishes with it.
    pub fn temporary(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let folder = std::env::temp_dir().join(format!("recalld-{}", uuid::Uuid::new_v4()));
        let mut store = Self::open(&folder.join("recalld.db"), clock)?;
        store.temporary = Some(folder);
        Ok(store)
    }

    /// Copies of damaged logs beside a file, oldest first.
    pub fn kept_logs(path: &Path) -> Vec<KeptLog> {
        kept_logs::list(path)
    }

    /// Tells other processes where this one serves.
    pub fn announce(&self, url: &str) {
        self.lock.note(Some(url.to_owned()));
    }

    fn write<T, F>(&self, scope: &Scope, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Send + 'static,
    {
        let scope = scope.clone();
        self.write_for(Whose::Ours, move |db| work(db, &scope))
    }

    fn write_for<T, F>(&self, _whose: Whose, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        #[cfg(test)]
        let work = {
            let moves_at_once = self.moves_at_once;
            move |db: &Connection| {
                let done = work(db)?;
                if moves_at_once {
                    archive::move_everything(db)?;
                }
                Ok(done)
            }
        };
        Box::pin(self.writer.write(work))
    }

    /// Writes for every tenant; in a file that is one transaction.
    fn write_each<T, F>(&self, work: F) -> StoreFuture<'_, Vec<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.write_for(Whose::Ours, move |db| work(db).map(|done| vec![done]))
    }

    /// Writes things of several users; in a file that is one transaction.
    fn write_groups<I, T, F>(&self, items: Vec<I>, _whose: fn(&I) -> Whose, work: F) -> StoreFuture<'_, Vec<T>>
    where
        I: Send + 'static,
        T: Send + 'static,
        F: FnOnce(&Connection, &[I]) -> Result<T, StoreError> + Send + 'static,
    {
        self.write_for(Whose::Ours, move |db| work(db, &items).map(|done| vec![done]))
    }

    fn read<T, F>(&self, scope: &Scope, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Send + 'static,
    {
        let scope = scope.clone();
        self.read_for(Whose::Ours, move |db| work(db, &scope))
    }

    fn read_for<T, F>(&self, _whose: Whose, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        Box::pin(self.readers.read(work))
    }

    /// Reads of every tenant, up to a limit. The first word names a list of what there is to do.
    fn read_each<T, F>(&self, _list: &'static str, limit: usize, work: F) -> StoreFuture<'_, Vec<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, usize) -> Result<Vec<T>, StoreError> + Send + 'static,
    {
        self.read_for(Whose::Ours, move |db| work(db, limit))
    }

    /// Reads a little, on the calling thread.
    fn read_here<T, F>(&self, scope: &Scope, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Send + 'static,
    {
        let scope = scope.clone();
        self.read_here_for(Whose::Ours, move |db| work(db, &scope))
    }

    fn read_here_for<T, F>(&self, _whose: Whose, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        Box::pin(self.readers.read_here(work))
    }

    /// Reads a few turns here, many on a thread of their own.
    fn look_up<T, F>(&self, scope: &Scope, turns: usize, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Send + 'static,
    {
        match turns <= LOOKED_UP_HERE_MAX {
            true => self.read_here(scope, work),
            false => self.read(scope, work),
        }
    }

    /// A note that somebody looked, for reads that find a session.
    fn looked(&self, _scope: &Scope) -> impl Fn(i64) + Send + 'static {
        let (writer, clock) = (Arc::clone(&self.writer), Arc::clone(&self.clock));
        move |session_key| writer.touch(session_key, clock.reading().wall.as_microsecond())
    }

    /// What a write can ask of the thread.
    fn notes(&self) -> Arc<Notes> {
        self.writer.notes()
    }

    /// What changed in a scope since a mark.
    fn told_since<T: Copy + Eq + Hash + Send + 'static>(
        &self,
        scope: &Scope,
        since: Option<ChangeMark>,
        of: fn(Touched) -> Option<T>,
    ) -> StoreFuture<'_, Told<T>> {
        Box::pin(ready(Ok(self.writer.changes().since(scope, since, of))))
    }

    /// A file's knowledge is held in memory, whoever's it is.
    fn shelve_some(&self, _limit: usize) -> StoreFuture<'_, u64> {
        Box::pin(ready(Ok(0)))
    }

    fn search_here(&self, _tenant: &TenantScope, _asked: AskedPassages) -> StoreFuture<'_, Option<SeenPassages>> {
        Box::pin(ready(Ok(None)))
    }

    fn end_watch(&self, scope: &Scope) {
        self.writer.changes().unwatch(scope);
    }

    /// The seal of the keys; its secret lies beside the file.
    fn sealed(&self, fresh: [u8; 32]) -> StoreFuture<'_, Seal> {
        let data = self.readers.path().to_owned();
        Box::pin(on_a_thread(move || seal::seal(&data, fresh)))
    }

    /// Writes down that something is erased, in the file that has the book.
    async fn write_down(&self, what: &Erasure, follows: u64, now: Timestamp) -> Result<Entry, StoreError> {
        let (book, what) = (Arc::clone(&self.book), what.clone());
        on_a_thread(move || book.write_down(&what, now, follows)).await
    }

    /// Nothing of a file waits elsewhere.
    fn may_wait_elsewhere(&self) -> bool {
        false
    }

    /// Tells what was erased while a turn waited.
    fn meanwhile(&self) -> impl Fn(&Connection, &Waited) -> Result<Meanwhile, StoreError> + Clone + Send + use<> {
        let book = Arc::clone(&self.book);
        move |_, waited| book.meanwhile(waited)
    }

    /// The lines of the book behind the one that the data follow.
    async fn not_applied(&self, follows: u64) -> Result<Vec<Entry>, StoreError> {
        Ok(self.book.after(follows))
    }

    /// How many lines the book has, and when the last was written.
    async fn book_size(&self) -> Result<(u64, Option<Timestamp>), StoreError> {
        let entries = self.book.entries();
        Ok((entries.len() as u64, entries.last().map(|entry| entry.at)))
    }

    /// What makes the marks of the book.
    async fn marks(&self) -> Result<Marks, StoreError> {
        let book = Arc::clone(&self.book);
        on_a_thread(move || book.marks()).await
    }

    /// When damage was found in the log.
    fn log_damaged_at(&self) -> Option<Timestamp> {
        self.kept_logs.found_at()
    }

    /// Removes copies of damaged logs; answers whether none is left.
    fn remove_log_copies(&self) -> bool {
        self.kept_logs.remove_all()
    }

    /// Waits a while until what was erased is gone from the log; answers whether it is.
    async fn log_emptied(&self) -> bool {
        for _ in 0..LOG_LOOKS {
            if self.writer.log_is_empty() {
                return true;
            }
            tokio::time::sleep(LOG_PAUSE).await;
            // Whatever is written, the log is emptied after it.
            if self.writer.write(|_| Ok(())).await.is_err() {
                return false;
            }
        }
        self.writer.log_is_empty()
    }

    /// Nothing here remembers tenants by name.
    fn tenant_gone(&self, _what: &Erasure) {}

    /// A copy of the file as it is now.
    fn copied(&self) -> StoreFuture<'_, Backup> {
        let (data, now) = (self.readers.path().to_owned(), self.clock.now());
        Box::pin(async move {
            let made = tokio::task::spawn_blocking(move || copy::copy(&data, now)).await;
            made.map_err(|error| StoreError::Disk(error.to_string()))?
        })
    }

    /// Writes what is left and lets go of the file.
    fn end(&self) -> StoreFuture<'_, ()> {
        let writer = Arc::clone(&self.writer);
        self.readers.close();
        Box::pin(async move {
            let stopped = tokio::task::spawn_blocking(move || writer.stop()).await;
            stopped.map_err(|error| StoreError::Disk(error.to_string()))?;
            self.lock.release();
            Ok(())
        })
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Disk(error.to_string()))?
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.readers.close();
        self.writer.stop();
        if let Some(folder) = &self.temporary {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests;
