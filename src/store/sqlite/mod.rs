//! SQLite: the default store, one file and nothing else.
//!
//! Reading order: `schema.sql` and those after it, `connect` (opening a file), `writer` (group commit),
//! `readers`, `row` (a turn as a row), then the statements: `session`, `turn`, `expire`, `recall`, `job`, `episode`,
//! `told` (what of those is recalled), `topic` (which turn belongs to which), `topics` (what is kept of them), `archive` (text in
//! blocks), `fact` (which turns are to be understood), `facts` (what was said and what follows), `ledger` (what the memory
//! model costs), `tenants` and `seal` (who may come in), `takeout` (records for a file and from one), `outbox` (webhooks to deliver), `knowledge` (what tenants know). `changes` tells what the
//! writer touched, `inspect` looks at a file from outside.

mod archive;
mod changes;
mod connect;
mod consolidate;
mod episode;
mod expire;
mod fact;
mod facts;
mod inspect;
mod job;
mod knowledge;
mod ledger;
mod lock;
mod outbox;
mod place;
mod readers;
mod recall;
mod revision;
mod row;
mod seal;
mod session;
mod takeout;
mod tenants;
mod told;
mod topic;
mod topics;
mod trace;
mod turn;
mod writer;

pub use inspect::Inspection;

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use self::changes::{ChangeLog, Told, Touched};
use self::connect::meaning;
use self::job::{Due, Follow};
use self::lock::Lock;
use self::readers::Readers;
use self::writer::Writer;
use super::archive::{Archive, ArchiveSize, Moved, Packed};
use super::{
    ChangeMark, Changes, DerivedRow, DueTurn, Episodes, Expired, Expiry, Facts, HistoryMatch, Jobs, Kept, Knowledge, Ledger,
    Opened, Outbox, Page, PageRequest, RecallCursor, RecallPage, Recent, Revised, Stats, Store, StoreError,
    StoreFuture, Takeout, Tenants, Todo, Topics, Trail,
};
use crate::clock::Clock;
use crate::episode::EpisodeSettings;
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{
    AddedMessage, ClosedTurn, Held, OpenTurn, ReviseTurn, Revision, Session, SessionPatch, SessionSeed, Turn, TurnDraft,
};

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

/// Turns a transaction marks as failed at start; more than this is done in several.
const ABANDONED_BATCH: usize = 1_000;

/// Most turns that are looked up on the calling thread.
const LOOKED_UP_HERE_MAX: usize = 32;

/// A store in one SQLite file.
pub struct Sqlite {
    writer: Arc<Writer>,
    readers: Readers,
    clock: Arc<dyn Clock>,
    due: Due,
    lock: Lock,
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
        let db = connect::open_writer(path)?;
        let changes = Arc::new(ChangeLog::default());
        changes::listen(&db, &changes)?;
        let writer = Writer::start(db, changes).map_err(|error| StoreError::Disk(error.to_string()))?;
        Ok(Self {
            writer: Arc::new(writer),
            readers: Readers::new(path),
            clock,
            due: due(&EpisodeSettings::default()),
            lock,
            temporary: None,
            #[cfg(test)]
            moves_at_once: false,
        })
    }

    /// Sets when a session has left its window, so that a job is asked for.
    pub fn with_windows(mut self, settings: &EpisodeSettings) -> Self {
        self.due = due(settings);
        self
    }

    /// Opens a store in a new folder that vanishes with it.
    pub fn temporary(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let folder = std::env::temp_dir().join(format!("recalld-{}", uuid::Uuid::new_v4()));
        let mut store = Self::open(&folder.join("recalld.db"), clock)?;
        store.temporary = Some(folder);
        Ok(store)
    }

    /// Tells other processes where this one serves.
    pub fn announce(&self, url: &str) {
        self.lock.note(Some(url.to_owned()));
    }

    fn write<T, F>(&self, work: F) -> StoreFuture<'_, T>
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

    fn read<T, F>(&self, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        Box::pin(self.readers.read(work))
    }

    /// Reads a few turns here, many on a thread of their own.
    fn look_up<T, F>(&self, turns: usize, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        match turns <= LOOKED_UP_HERE_MAX {
            true => Box::pin(self.readers.read_here(work)),
            false => self.read(work),
        }
    }

    /// A note that somebody looked, for reads that find a session.
    fn looked(&self) -> impl Fn(i64) + Send + 'static {
        let (writer, clock) = (Arc::clone(&self.writer), Arc::clone(&self.clock));
        move |session_key| writer.touch(session_key, clock.reading().wall.as_microsecond())
    }
}

impl Archive for Sqlite {
    fn move_out(&self, scope: &Scope, session: SessionId, before: u64, turns_max: usize) -> StoreFuture<'_, Moved> {
        let scope = scope.clone();
        self.write(move |db| archive::move_out(db, &scope, session, before, turns_max))
    }

    fn quick_blocks(&self, limit: usize) -> StoreFuture<'_, Vec<Packed>> {
        self.read(move |db| archive::quick_blocks(db, limit))
    }

    fn replace_block(&self, before: Packed, bytes: Vec<u8>) -> StoreFuture<'_, bool> {
        self.write(move |db| archive::replace_block(db, &before, &bytes))
    }

    fn archived(&self) -> StoreFuture<'_, ArchiveSize> {
        self.read(archive::size)
    }
}

/// From how many turns on a session is due. An ephemeral one counts messages, and a turn is two of them.
fn due(settings: &EpisodeSettings) -> Due {
    Due {
        durable: settings.durable.at as u64,
        ephemeral: settings.ephemeral.at.div_ceil(2) as u64,
        topic: settings.topic.at as u64,
    }
}

impl Store for Sqlite {
    fn archive(&self) -> &dyn Archive {
        self
    }

    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        self.write(move |db| session::create(db, &scope, id, &seed, clock.now().as_microsecond()))
    }

    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>> {
        let scope = scope.clone();
        self.read(move |db| Ok(session::find(db, &scope, id)?.map(|(_, session)| session)))
    }

    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>> {
        let scope = scope.clone();
        self.read(move |db| session::list(db, &scope, page))
    }

    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        self.write(move |db| session::update(db, &scope, id, patch, clock.now().as_microsecond()))
    }

    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let (scope, notes, clock) = (scope.clone(), self.writer.notes(), Arc::clone(&self.clock));
        self.write(move |db| {
            let turns = session::delete(db, &scope, id, clock.now())?;
            notes.erased(turns.is_some());
            Ok(turns)
        })
    }

    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        self.write(move |db| turn::open(db, &scope, turn, clock.now()))
    }

    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        let (due, notes) = (self.due, self.writer.notes());
        self.write(move |db| turn::close(db, &scope, turn, clock.now().as_microsecond(), Follow { due, notes: &notes }))
    }

    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        self.write(move |db| revision::revise(db, &scope, turn, clock.now().as_microsecond()))
    }

    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held> {
        let scope = scope.clone();
        Box::pin(async move { self.readers.read_here(|db| place::held(db, &scope, session, turns_max)).await })
    }

    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>> {
        let scope = scope.clone();
        Box::pin(async move { self.readers.read_here(|db| place::match_history(db, &scope, &trail)).await })
    }

    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>> {
        let scope = scope.clone();
        self.read(move |db| turn::by_id(db, &scope, id)?.map(|(session, row)| row.turn(db, session)).transpose())
    }

    fn revisions(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Vec<Revision>>> {
        let scope = scope.clone();
        self.read(move |db| match turn::by_id(db, &scope, id)? {
            Some((_, row)) => revision::list(db, row.key, id).map(Some),
            None => Ok(None),
        })
    }

    fn give_up_on_tools(&self, before: jiff::Timestamp) -> StoreFuture<'_, u64> {
        self.write(move |db| turn::give_up_on_tools(db, before.as_microsecond(), ABANDONED_BATCH))
    }

    fn add_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        let (due, notes) = (self.due, self.writer.notes());
        self.write(move |db| {
            let follow = Follow { due, notes: &notes };
            turn::add(db, &scope, session, seed.as_ref(), turns, || clock.now(), follow)
        })
    }

    fn add_messages(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        messages: Vec<AddedMessage>,
        ids: Vec<TurnId>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        let (scope, clock) = (scope.clone(), Arc::clone(&self.clock));
        let (due, notes) = (self.due, self.writer.notes());
        self.write(move |db| {
            let follow = Follow { due, notes: &notes };
            turn::add_messages(db, &scope, session, seed.as_ref(), (messages, ids), || clock.now(), follow)
        })
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, messages_max: usize) -> StoreFuture<'_, Recent> {
        let scope = scope.clone();
        Box::pin(async move {
            let read = |db: &Connection| turn::recent(db, &scope, session, messages_max);
            let (key, recent) = self.readers.read_here(read).await?;
            key.into_iter().for_each(self.looked());
            Ok(recent)
        })
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        let (scope, looked) = (scope.clone(), self.looked());
        self.read(move |db| {
            let found = turn::list(db, &scope, session, page)?;
            Ok(found.map(|(key, page)| {
                looked(key);
                page
            }))
        })
    }

    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        let notes = self.writer.notes();
        self.write(move |db| {
            let expired = expire::expire(db, expiry)?;
            // Once for all batches: emptying the log costs more than a batch.
            notes.erased(!expired.more);
            Ok(expired)
        })
    }

    fn recall_entries(
        &self,
        scope: &Scope,
        embedder: &str,
        after: Option<RecallCursor>,
        limit: usize,
    ) -> StoreFuture<'_, RecallPage> {
        let (scope, embedder) = (scope.clone(), embedder.to_owned());
        self.read(move |db| recall::entries(db, &scope, &embedder, after, limit))
    }

    fn recall_changes(&self, scope: &Scope, since: Option<ChangeMark>, embedder: &str) -> StoreFuture<'_, Changes> {
        let (mark, touched) = match self.writer.changes().since(scope, since, Touched::turn) {
            Told::Nothing(mark) => return Box::pin(ready(Ok(Changes::None(mark)))),
            Told::Everything(mark) => return Box::pin(ready(Ok(Changes::Reload { mark }))),
            Told::Touched(mark, turns) => (mark, turns),
        };
        let (scope, embedder) = (scope.clone(), embedder.to_owned());
        self.look_up(touched.len(), move |db| {
            let (entries, gone) = recall::touched(db, &scope, &embedder, &touched)?;
            Ok(Changes::Turns { mark, entries, gone })
        })
    }

    fn unwatch(&self, scope: &Scope) {
        self.writer.changes().unwatch(scope);
    }

    fn recall_todo(&self, what: Todo, limit: usize) -> StoreFuture<'_, Vec<DueTurn>> {
        self.read(move |db| recall::todo(db, what, limit))
    }

    fn keep_recall_rows(&self, rows: Vec<DerivedRow>) -> StoreFuture<'_, ()> {
        let notes = self.writer.notes();
        self.write(move |db| recall::keep(db, rows, notes.changes()))
    }

    fn recall_again(&self, what: Todo) -> StoreFuture<'_, u64> {
        let notes = self.writer.notes();
        self.write(move |db| recall::again(db, what, notes.changes()))
    }

    fn recall_made_with(&self, what: Todo) -> StoreFuture<'_, Option<String>> {
        self.read(move |db| recall::made_with(db, what))
    }

    fn note_recall_made_with(&self, what: Todo, made_with: &str) -> StoreFuture<'_, ()> {
        let made_with = made_with.to_owned();
        self.write(move |db| recall::note_made_with(db, what, &made_with))
    }

    fn turns_by_id(&self, scope: &Scope, ids: &[TurnId]) -> StoreFuture<'_, Vec<Turn>> {
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.look_up(ids.len(), move |db| recall::turns_by_id(db, &scope, &ids))
    }

    fn trace(&self, scope: &Scope, turn: TurnId) -> StoreFuture<'_, Option<String>> {
        let scope = scope.clone();
        self.look_up(1, move |db| trace::find(db, &scope, turn))
    }

    fn jobs(&self) -> &dyn Jobs {
        self
    }

    fn episodes(&self) -> &dyn Episodes {
        self
    }

    fn topics(&self) -> &dyn Topics {
        self
    }

    fn takeout(&self) -> &dyn Takeout {
        self
    }

    fn tenants(&self) -> &dyn Tenants {
        self
    }

    fn facts(&self) -> &dyn Facts {
        self
    }

    fn ledger(&self) -> &dyn Ledger {
        self
    }

    fn outbox(&self) -> &dyn Outbox {
        self
    }

    fn knowledge(&self) -> &dyn Knowledge {
        self
    }

    fn stats(&self, scope: &Scope) -> StoreFuture<'_, Stats> {
        let scope = scope.clone();
        self.read(move |db| session::stats(db, &scope))
    }

    fn fail_abandoned(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let mut total = 0;
            loop {
                let failed = self.writer.write(|db| turn::fail_abandoned(db, ABANDONED_BATCH)).await?;
                total += failed;
                if failed < ABANDONED_BATCH as u64 {
                    return Ok(total);
                }
            }
        })
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.read(|db| db.query_row("SELECT 1", [], |_| Ok(())).map_err(|error| meaning(&error)))
    }

    fn close(&self) -> StoreFuture<'_, ()> {
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
