//! PostgreSQL: the store that several processes share.
//!
//! The statements are those of `sqlite`, compiled once more for the connection of this folder: one way of deciding, one set of
//! answers. What is PostgreSQL's own is here. Reading order: `schema_1.sql` and `schema` (tables, and who may see which rows),
//! `connect`, `sql` and `value` (a connection as the statements speak to it), `pipeline` (what is sent without waiting), `dialect` (what is called otherwise), `pool` (a
//! transaction) and `for_whom` (for somebody, or for each), `let_go` (what time removes), `changes` and `writer` (what others are told afterwards), `watch` (whether it is there), `shelf` (what
//! large tenants know, searched here).

mod alive;
mod bare;
#[cfg(test)]
mod blind;
mod book;
mod changes;
mod connect;
mod dialect;
mod failure;
mod for_whom;
mod let_go;
mod move_in;
mod pipeline;
mod pool;
mod schema;
mod shelf;
mod sql;
mod tls;
mod value;
mod watch;
mod writer;

#[path = "../sqlite/archive.rs"]
mod archive;
#[path = "../sqlite/calls.rs"]
mod calls;
#[path = "../sqlite/consolidate.rs"]
mod consolidate;
#[path = "../sqlite/episode.rs"]
mod episode;
#[path = "../sqlite/erase/mod.rs"]
mod erase;
#[path = "../sqlite/examine.rs"]
mod examine;
#[path = "../sqlite/expire.rs"]
mod expire;
#[path = "../sqlite/fact.rs"]
mod fact;
#[cfg_attr(test, allow(unused_imports, reason = "the plans of SQLite are looked at by its own tests"))]
#[path = "../sqlite/facts/mod.rs"]
mod facts;
#[path = "../sqlite/job.rs"]
mod job;
#[path = "../sqlite/knowledge.rs"]
mod knowledge;
#[path = "../sqlite/ledger.rs"]
mod ledger;
#[path = "../sqlite/look.rs"]
mod look;
#[path = "../sqlite/made.rs"]
mod made;
#[path = "../sqlite/outbox.rs"]
mod outbox;
#[path = "../sqlite/place.rs"]
mod place;
#[path = "../sqlite/recall.rs"]
mod recall;
#[path = "../sqlite/requests.rs"]
mod requests;
#[path = "../sqlite/revision.rs"]
mod revision;
#[path = "../sqlite/row.rs"]
mod row;
#[path = "../sqlite/session.rs"]
mod session;
#[path = "../sqlite/takeout/mod.rs"]
mod takeout;
#[allow(clippy::needless_question_mark, reason = "rusqlite has two kinds of errors there")]
#[path = "../sqlite/tenants.rs"]
mod tenants;
#[path = "../sqlite/told.rs"]
mod told;
#[path = "../sqlite/topic.rs"]
mod topic;
#[cfg_attr(test, allow(unused_imports, reason = "likewise"))]
#[path = "../sqlite/topics/mod.rs"]
mod topics;
#[path = "../sqlite/trace.rs"]
mod trace;
#[path = "../sqlite/turn.rs"]
mod turn;

pub(crate) use bare::Bare;
pub use connect::PostgresSettings;
pub use move_in::MovedIn;

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use jiff::Timestamp;

use self::changes::{Told, Touched, Watched};
use self::connect::{Who, connect, meaning};
use self::job::Due;
use self::pool::Pool;
use self::sql::Connection;
use self::writer::Notes;
use super::backup::Backup;
use super::erasure::{Entry, Erasure, Marks, Meanwhile, Waited};
use super::whose::Whose;
use super::{ChangeMark, Circuit, Findings, StoreError, StoreFuture};
use crate::clock::Clock;
use crate::episode::EpisodeSettings;
use crate::id::{Ids, RandomIds};
use crate::scope::Scope;
use crate::tenant::Seal;

/// What the calls of `sqlite` are the calls of, here.
use Postgres as Backend;

/// How long a statement of a look through everything may take.
const VERIFY_PATIENCE: Duration = Duration::from_secs(3_600);

/// A store in a PostgreSQL database.
pub struct Postgres {
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
    due: Due,
    watched: Watched,
    /// Held by whoever erases, here; others are alone with their tenants.
    erasing: tokio::sync::Mutex<()>,
    /// Where to begin when something is done for all tenants, so that none is always last.
    turn_of: AtomicUsize,
    /// Whether the schema is removed with the store, for tests and trials.
    temporary: bool,
    /// Every write for a user is followed by moving all text into blocks.
    #[cfg(test)]
    moves_at_once: bool,
}

/// What a database is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaState {
    /// The version of its schema; 0 when there is none.
    pub found: i64,
    /// The version this binary writes.
    pub known: i64,
    /// Whether what large tenants know is searched by the database, which takes pgvector.
    pub searches: bool,
}

impl Postgres {
    /// The version of the tables that this binary works with.
    pub const SCHEMA_VERSION: i64 = schema::SCHEMA_VERSION;

    /// Opens a database: makes the tables if they are missing, and brings them up to date.
    pub async fn open(settings: PostgresSettings, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let searches = Self::migrate(settings.clone()).await?.searches;
        let store = Self::over(settings, clock);
        store.pool.found(searches);
        alive::say(&store.pool).await?;
        tokio::spawn(watch::watch_over(Arc::downgrade(&store.pool), true));
        Ok(store)
    }

    /// Opens a database that is away, of which it is known that its tables are those of this version. They are looked at when
    /// it is back, before anything is asked of it.
    pub fn open_away(settings: PostgresSettings, clock: Arc<dyn Clock>, reason: &StoreError) -> Self {
        let store = Self::over(settings, clock);
        store.pool.circuit().went_away(&reason.to_string());
        store.pool.circuit().doubt();
        tokio::spawn(watch::watch_over(Arc::downgrade(&store.pool), false));
        store
    }

    fn over(settings: PostgresSettings, clock: Arc<dyn Clock>) -> Self {
        let pool = Arc::new(Pool::new(settings, uuid::Uuid::new_v4().to_string()));
        let due = Due::of(&EpisodeSettings::default());
        tokio::spawn(alive::stay(Arc::downgrade(&pool)));
        Self {
            pool,
            clock,
            due,
            watched: Watched::default(),
            erasing: tokio::sync::Mutex::default(),
            turn_of: AtomicUsize::new(0),
            temporary: false,
            #[cfg(test)]
            moves_at_once: false,
        }
    }

    /// Whether the database is there.
    pub fn circuit(&self) -> Arc<Circuit> {
        Arc::clone(self.pool.circuit())
    }

    /// Opens a store in a new schema that vanishes with it.
    pub async fn temporary(url: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::passing(PostgresSettings::new(url), clock).await
    }

    /// The same with other settings than the usual ones.
    pub(crate) async fn passing(usual: PostgresSettings, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let schema = format!("temporary_{}", uuid::Uuid::new_v4().simple());
        // Trials may be many at once, on a machine that has other things to do.
        let patience = Duration::from_secs(300);
        let (wait_timeout, statement_timeout, doubt_after, probe_timeout) = (patience, patience, patience, patience);
        let settings =
            PostgresSettings { schema, wait_timeout, statement_timeout, doubt_after, probe_timeout, ..usual };
        let mut store = Self::open(settings, clock).await?;
        store.temporary = true;
        Ok(store)
    }

    /// Makes the tables, or brings them up to date, as whoever the address names. Answers what they were before.
    pub async fn migrate(settings: PostgresSettings) -> Result<SchemaState, StoreError> {
        let migrate = move || {
            let db = connect(&settings, Who::Owner, "migrate")?;
            let (found, searches) = schema::bring_up_to_date(&db, &settings.schema)?;
            Ok(SchemaState { found, known: schema::SCHEMA_VERSION, searches })
        };
        on_a_thread(migrate).await
    }

    /// Looks at a database without changing it.
    pub async fn inspect(settings: PostgresSettings) -> Result<SchemaState, StoreError> {
        let inspect = move || {
            let db = connect(&settings, Who::Owner, "inspect")?;
            let found = schema::version(&db, &settings.schema)?;
            let searches = shelf::is_there(&db, &settings.schema)?;
            Ok(SchemaState { found, known: schema::SCHEMA_VERSION, searches })
        };
        on_a_thread(inspect).await
    }

    /// Looks through everything that is kept, tenant by tenant. Damage to pages is PostgreSQL's to find: see its data checksums.
    pub async fn verify(settings: PostgresSettings) -> Result<Findings, StoreError> {
        let patience = VERIFY_PATIENCE;
        let settings = PostgresSettings { statement_timeout: patience, ..settings };
        on_a_thread(move || {
            let db = connect(&settings, Who::Owner, "verify")?;
            let found = schema::version(&db, &settings.schema)?;
            if found != schema::SCHEMA_VERSION {
                let known = schema::SCHEMA_VERSION;
                return Err(StoreError::Refused(format!(
                    "its schema has version {found}, this binary looks at {known}"
                )));
            }
            let mut found = Findings::default();
            let tenants: Vec<String> = {
                let mut statement = db
                    .prepare_cached("SELECT name FROM known_tenant ORDER BY name")
                    .map_err(|error| meaning(&error))?;
                let rows = statement.query_map([], |row| row.get(0)).map_err(|error| meaning(&error))?;
                rows.collect::<sql::Result<_>>().map_err(|error| meaning(&error))?
            };
            found.looked("tenants", tenants.len() as u64);
            for tenant in tenants {
                db.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").map_err(|error| meaning(&error))?;
                sql::enter(&db, &tenant)?;
                examine::examine(&db, &mut found);
                db.batch("ROLLBACK").map_err(|error| meaning(&error))?;
            }
            Ok(found)
        })
        .await
    }

    /// Sets when a session has left its window, so that a job is asked for.
    pub fn with_windows(mut self, settings: &EpisodeSettings) -> Self {
        self.due = Due::of(settings);
        self
    }

    /// Where the database is.
    pub fn place(&self) -> String {
        self.pool.settings().place()
    }

    /// Most connections at one time.
    pub fn connections_max(&self) -> usize {
        self.pool.settings().connections_max
    }

    /// Has the server look at what the tables hold now, as it does by itself after a while.
    pub async fn analyse(&self) -> Result<(), StoreError> {
        let settings = self.pool.settings().clone();
        on_a_thread(move || {
            connect(&settings, Who::Owner, "analyse")?.batch("ANALYZE").map_err(|error| meaning(&error))
        })
        .await
    }

    /// A note that somebody looked, for reads that find a session.
    fn looked(&self, scope: &Scope) -> impl Fn(i64) + Clone + Send + 'static {
        let (pool, clock, scope) = (Arc::clone(&self.pool), Arc::clone(&self.clock), scope.clone());
        move |session_key| pool.touch(&scope, session_key, clock.reading().wall.as_microsecond())
    }

    /// What a write can ask for.
    fn notes(&self) -> Arc<Notes> {
        Arc::new(self.pool.notes().clone())
    }

    /// What changed in a scope since a mark.
    fn told_since<T: Copy + Eq + Hash + Send + 'static>(
        &self,
        scope: &Scope,
        since: Option<ChangeMark>,
        of: fn(Touched) -> Option<T>,
    ) -> StoreFuture<'_, Told<T>> {
        // Whoever was not watching has missed something, whatever the mark says.
        let watched = self.watched.watch(scope);
        let since = since.filter(|_| watched);
        self.read(scope, move |db, scope| changes::since(db, scope, since, of))
    }

    fn end_watch(&self, scope: &Scope) {
        self.watched.unwatch(scope);
    }

    /// The seal of the keys. Every instance must have the same, so its secret is in the database.
    fn sealed(&self, fresh: [u8; 32]) -> StoreFuture<'_, Seal> {
        self.write_for(Whose::Ours, move |db| {
            let sql = "UPDATE access SET secret = coalesce(secret, ?1) RETURNING secret";
            let secret: Vec<u8> = db.query_row(sql, [fresh], |row| row.get(0)).map_err(|error| meaning(&error))?;
            Ok(Seal::new(&secret))
        })
    }

    /// Writes down that something is erased.
    async fn write_down(&self, what: &Erasure, follows: u64, now: Timestamp) -> Result<Entry, StoreError> {
        let (what, fresh) = (what.clone(), RandomIds.chance());
        self.write_for(Whose::Ours, move |db| book::write_down(db, &what, now, follows, fresh)).await
    }

    /// Whether turns may wait where nobody can see them now: in the spool of an instance that is down.
    fn may_wait_elsewhere(&self) -> bool {
        true
    }

    /// Tells what was erased while a turn waited.
    fn meanwhile(&self) -> impl Fn(&Connection, &Waited) -> Result<Meanwhile, StoreError> + Clone + Send + use<> {
        book::meanwhile
    }

    /// The lines of the book that the data do not follow.
    async fn not_applied(&self, follows: u64) -> Result<Vec<Entry>, StoreError> {
        self.read_for(Whose::Ours, move |db| book::not_applied(db, follows)).await
    }

    /// How many lines the book has, and when the last was written.
    async fn book_size(&self) -> Result<(u64, Option<Timestamp>), StoreError> {
        self.read_for(Whose::Ours, book::size).await
    }

    /// What makes the marks of the book.
    async fn marks(&self) -> Result<Marks, StoreError> {
        let fresh = RandomIds.chance();
        self.write_for(Whose::Ours, move |db| book::marks(db, fresh)).await
    }

    /// Rows that are gone are out of sight at once; PostgreSQL takes them out of its files when it vacuums.
    /// A database looks after its own log.
    fn remove_log_copies(&self) -> bool {
        true
    }

    /// A database looks after its own log.
    fn log_damaged_at(&self) -> Option<Timestamp> {
        None
    }

    async fn log_emptied(&self) -> bool {
        true
    }

    /// A tenant that was erased is written down again when it comes back.
    fn tenant_gone(&self, what: &Erasure) {
        if let Erasure::Tenant(tenant) = what {
            self.pool.forget_tenant(tenant.as_str());
        }
    }

    /// PostgreSQL has tools for that, which also know of the rest of its database.
    fn copied(&self) -> StoreFuture<'_, Backup> {
        let told = "a PostgreSQL database is copied with its own tools: pg_dump, or a backup of the whole server";
        Box::pin(std::future::ready(Err(StoreError::Refused(told.into()))))
    }

    /// Finishes what is under way and lets go of the connections.
    fn end(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if write_down_looks(&self.pool).await.is_ok() {
                alive::leave(&self.pool).await;
            }
            self.pool.close().await;
            Ok(())
        })
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Disk(error.to_string()))?
}

/// Writes down what was looked at by those who wrote nothing since.
async fn write_down_looks(pool: &Arc<Pool>) -> Result<(), StoreError> {
    for scope in pool.touched_scopes() {
        pool.write(Whose::User(scope), |_| Ok(())).await?;
    }
    Ok(())
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if !self.temporary {
            return;
        }
        let settings = self.pool.settings().clone();
        let remove = move || {
            let db = connect(&settings, Who::Owner, "remove")?;
            db.batch(&format!("DROP SCHEMA IF EXISTS {} CASCADE", settings.schema)).map_err(|error| meaning(&error))
        };
        // A runtime cannot be waited for where others run, so this has a thread of its own.
        let removed = std::thread::spawn(remove).join();
        if !matches!(removed, Ok(Ok(()))) {
            tracing::warn!("The temporary schema of {} could not be removed", self.place());
        }
    }
}

#[cfg(test)]
mod tests;
