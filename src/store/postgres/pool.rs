//! Connections, and what is done with one: a transaction for somebody, on a thread that nobody can interrupt.
//!
//! **Invariant:** a transaction is begun, run and ended on one blocking thread. Whoever waits for it may leave at any time;
//! it is then whole or undone.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tracing::debug;

use super::connect::{PostgresSettings, Who, connect_until, meaning};
use super::failure::Failure;
use super::session::send;
use super::sql::{Connection, params};
use super::writer::Notes;
use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{Circuit, StoreError};

/// How often a transaction is tried when others are in the way, or its connection is gone.
const TRIES_MAX: u32 = 5;
/// Lines that users wait in; those of two users may be the same one, which costs time and nothing else.
const LINES: usize = 256;
/// Most sessions of one user whose last look is remembered until the next write.
const TOUCHED_MAX: usize = 1_000;
/// Most users of whom any is.
const TOUCHED_SCOPES_MAX: usize = 10_000;

/// The pool. Connections are opened when first needed and kept.
pub(super) struct Pool {
    settings: PostgresSettings,
    instance: String,
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
    /// Whoever writes for the same user waits here, and not with a connection in hand.
    lines: Vec<Arc<tokio::sync::Mutex<()>>>,
    notes: Notes,
    touched: Mutex<HashMap<Scope, HashMap<i64, i64>>>,
    tenants: Mutex<HashSet<String>>,
    circuit: Arc<Circuit>,
    /// How often something was asked so far.
    asked: AtomicU64,
    /// Whether the database can search what large tenants know.
    searches: AtomicBool,
}

impl Pool {
    pub(super) fn new(settings: PostgresSettings, instance: String) -> Self {
        let places = Arc::new(Semaphore::new(settings.connections_max.max(1)));
        let lines = (0..LINES).map(|_| Arc::default()).collect();
        let (idle, notes) = (Mutex::default(), Notes::default());
        let (touched, tenants, circuit) = (Mutex::default(), Mutex::default(), Arc::default());
        let (asked, searches) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { settings, instance, idle, places, lines, notes, touched, tenants, circuit, asked, searches }
    }

    /// Whether the database is there.
    pub(super) fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    /// Whether the database searches what large tenants know.
    pub(super) fn searches(&self) -> bool {
        self.searches.load(Ordering::Relaxed)
    }

    /// The tables were looked at: whether they can be searched.
    pub(super) fn found(&self, searches: bool) {
        self.searches.store(searches, Ordering::Relaxed);
    }

    /// How often something was asked so far: who compares two numbers knows whether others are at work.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Who this process is to the database.
    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn notes(&self) -> &Notes {
        &self.notes
    }

    pub(super) fn settings(&self) -> &PostgresSettings {
        &self.settings
    }

    /// Reads: all that is looked at is of one moment.
    pub(super) async fn read<T, F>(self: &Arc<Self>, whose: Whose, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        self.run(None, move |pool, db| pool.reading(db, &whose, work.clone())).await
    }

    /// Writes: one transaction, answered after COMMIT.
    pub(super) async fn write<T, F>(self: &Arc<Self>, whose: Whose, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        let line = self.line_of(&whose);
        self.run(line, move |pool, db| pool.writing(db, &whose, work.clone())).await
    }

    /// Does something, unless the database is away. What takes long, or fails as if it were, raises a doubt.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        line: Option<Arc<tokio::sync::Mutex<()>>>,
        attempt: impl Fn(&Self, &Connection) -> Attempt<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.circuit.check()?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut working = std::pin::pin!(self.work(line, attempt));
        let done = match tokio::time::timeout(self.settings.doubt_after, &mut working).await {
            Ok(done) => done,
            Err(_) => {
                self.circuit.doubt();
                working.await
            }
        };
        done.inspect_err(|error| {
            if matches!(error, StoreError::Away(_)) {
                self.circuit.doubt();
            }
        })
    }

    /// Does something on a thread of its own, again if that may help.
    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        line: Option<Arc<tokio::sync::Mutex<()>>>,
        attempt: impl Fn(&Self, &Connection) -> Attempt<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let free = async {
            let alone = match line {
                Some(line) => Some(line.lock_owned().await),
                None => None,
            };
            Ok((alone, Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)?))
        };
        let busy = |_| StoreError::Away(format!("all {} connections are in use", self.settings.connections_max));
        let place = tokio::time::timeout(self.settings.wait_timeout, free).await.map_err(busy)??;
        let pool = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let done = pool.attempts(attempt);
            drop(place);
            done
        });
        done.await.map_err(|error| StoreError::Disk(error.to_string()))?
    }

    fn line_of(&self, whose: &Whose) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let Whose::User(scope) = whose else { return None };
        let mut hash = DefaultHasher::new();
        scope.hash(&mut hash);
        self.lines.get(hash.finish() as usize % LINES).cloned()
    }

    fn attempts<T>(&self, attempt: impl Fn(&Self, &Connection) -> Attempt<T>) -> Result<T, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (db, is_new) = self.take()?;
            db.fresh_start();
            let done = attempt(self, &db);
            if db.failure() == Failure::Lost {
                // Those that lay beside it are likely gone as well.
                self.forget_idle();
            } else {
                self.put_back(db);
            }
            match done {
                Attempt::Done(done) => return done,
                Attempt::Again(error) if tries >= TRIES_MAX => return Err(error),
                // A server that cannot be reached is not waited for here: whoever asked decides what to do.
                Attempt::Again(error) if is_new && matches!(error, StoreError::Away(_)) && tries > 2 => {
                    return Err(error);
                }
                Attempt::Again(_) => std::thread::sleep(Duration::from_millis(u64::from(tries * tries))),
            }
        }
    }

    fn take(&self) -> Result<(Connection, bool), StoreError> {
        self.circuit.check()?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(db) => Ok((db, false)),
            None => self.connect().map(|db| (db, true)),
        }
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        connect_until(&self.settings, Who::Runtime, &self.instance, Some(self.circuit.cut()))
    }

    fn put_back(&self, db: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.places.is_closed() {
            idle.push(db);
        }
    }

    fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Lets go of all connections when what is under way is done; what comes later fails.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.settings.connections_max.max(1)).unwrap_or(u32::MAX);
        // Closed already is closed.
        let last = self.places.acquire_many(all).await;
        self.places.close();
        drop(last);
        self.forget_idle();
    }

    fn reading<T>(
        &self,
        db: &Connection,
        whose: &Whose,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Attempt<T> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let set = "SELECT set_config('recalld.tenant', ?1, true)";
        let begun = db.begin(begin, set, [tenant_of(whose)]);
        let found = begun.map_err(|error| meaning(&error)).and_then(|_| work(db));
        db.end_reading();
        match found {
            Ok(found) => Attempt::Done(Ok(found)),
            Err(error) if db.failure() == Failure::None => Attempt::Done(Err(error)),
            Err(error) => Attempt::Again(error),
        }
    }

    fn writing<T>(
        &self,
        db: &Connection,
        whose: &Whose,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Attempt<T> {
        Notes::begin();
        let transaction = match begin(db, whose) {
            Ok(transaction) => transaction,
            Err(error) => return self.undone(db, error),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.note_tenant(db, whose)?;
            let done = work(db)?;
            self.write_touched(db, whose)?;
            Ok(done)
        }));
        let bug = || Err(StoreError::Refused("the write met a bug in recalld; the log has its trace".into()));
        match outcome.unwrap_or_else(|_| bug()) {
            Err(error) => self.undone(db, error),
            Ok(done) => match db.batch("COMMIT").map_err(|error| meaning(&error)) {
                Ok(()) => {
                    self.notes.committed();
                    self.known(whose);
                    Attempt::Done(Ok(done))
                }
                Err(error) => self.was_committed(db, transaction.get(), done, error),
            },
        }
    }

    /// Nothing was written; whether to try again.
    fn undone<T>(&self, db: &Connection, error: StoreError) -> Attempt<T> {
        let failure = db.failure();
        if failure != Failure::Lost {
            // Likewise.
            let _ = db.batch("ROLLBACK");
        }
        match failure {
            Failure::None => Attempt::Done(Err(error)),
            Failure::TryAgain | Failure::Lost => Attempt::Again(error),
        }
    }

    /// The answer to COMMIT never came: the server knows what became of the transaction.
    fn was_committed<T>(
        &self,
        db: &Connection,
        transaction: Option<&String>,
        done: T,
        error: StoreError,
    ) -> Attempt<T> {
        // Without a number it never began.
        let (Failure::Lost, Some(transaction)) = (db.failure(), transaction) else {
            return self.undone(db, error);
        };
        let status = self.connect().and_then(|db| {
            let sql = "SELECT coalesce(pg_xact_status(?1::text::xid8), 'unknown')";
            db.query_row(sql, [transaction], |row| row.get::<_, String>(0)).map_err(|error| meaning(&error))
        });
        match status.as_deref() {
            Ok("committed") => {
                self.notes.committed();
                Attempt::Done(Ok(done))
            }
            Ok("aborted") => Attempt::Again(error),
            // Whoever writes turns writes them again under the same ids, and finds them if they are there.
            _ => {
                debug!(error = %error, "It is not known whether a transaction was written: {error}");
                Attempt::Done(Err(error))
            }
        }
    }

    /// Notes that somebody looked at a session; written along with the user's next write.
    pub(super) fn touch(&self, scope: &Scope, session_key: i64, at: i64) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if touched.contains_key(scope) || touched.len() < TOUCHED_SCOPES_MAX {
            let sessions = touched.entry(scope.clone()).or_default();
            if sessions.len() < TOUCHED_MAX {
                sessions.insert(session_key, at);
            }
        }
    }

    /// The users of whom somebody looked at something.
    pub(super) fn touched_scopes(&self) -> Vec<Scope> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn write_touched(&self, db: &Connection, whose: &Whose) -> Result<(), StoreError> {
        let Whose::User(scope) = whose else { return Ok(()) };
        let touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner).remove(scope);
        for (key, at) in touched.unwrap_or_default() {
            let sql = "UPDATE session SET last_accessed = max(last_accessed, ?2) WHERE key = ?1";
            send(db, sql, params![key, at])?;
        }
        Ok(())
    }

    /// A tenant that is written for the first time is written down.
    fn note_tenant(&self, db: &Connection, whose: &Whose) -> Result<(), StoreError> {
        let tenant = tenant_of(whose);
        if tenant.is_empty() || self.tenants.lock().unwrap_or_else(PoisonError::into_inner).contains(tenant) {
            return Ok(());
        }
        send(db, "INSERT OR IGNORE INTO known_tenant (name) VALUES (?1)", [tenant])
    }

    /// A tenant that is gone is written down again when somebody writes for it.
    pub(super) fn forget_tenant(&self, tenant: &str) {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }

    /// Forgets the tenants that another process erased.
    pub(super) async fn know_again(self: &Arc<Self>) -> Result<(), StoreError> {
        let names = self
            .read(Whose::Ours, |db| {
                let mut statement =
                    db.prepare_cached("SELECT name FROM known_tenant").map_err(|error| meaning(&error))?;
                let rows = statement.query_map([], |row| row.get(0)).map_err(|error| meaning(&error))?;
                rows.collect::<Result<HashSet<String>, _>>().map_err(|error| meaning(&error))
            })
            .await?;
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| names.contains(known));
        Ok(())
    }

    fn known(&self, whose: &Whose) {
        let tenant = tenant_of(whose);
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if !tenant.is_empty() && !tenants.contains(tenant) {
            tenants.insert(tenant.to_owned());
        }
    }
}

/// What came of one try.
enum Attempt<T> {
    /// It is over.
    Done(Result<T, StoreError>),
    /// Nothing was done, and the same may go well now.
    Again(StoreError),
}

fn tenant_of(whose: &Whose) -> &str {
    match whose {
        Whose::Ours => "",
        Whose::Tenant(tenant) => tenant,
        Whose::User(scope) => scope.tenant().as_str(),
    }
}

/// Begins a write. Whoever writes for a user is alone in that, and whoever writes for a tenant is alone with all its users: what
/// is read is still so when it is written. Answers where the transaction's number will be; nothing is waited for.
fn begin(db: &Connection, whose: &Whose) -> Result<Arc<OnceLock<String>>, StoreError> {
    let settings = "set_config('recalld.tenant', ?1, true)";
    let number = "pg_current_xact_id()::text";
    let begun = match whose {
        Whose::Ours => {
            let sql = format!("SELECT {number} FROM {settings}");
            db.begin("BEGIN", &sql, [tenant_of(whose)])
        }
        Whose::Tenant(tenant) => {
            let sql = format!("SELECT {number} FROM {settings}, pg_advisory_xact_lock(hashtextextended(?1, 7077))");
            db.begin("BEGIN", &sql, [tenant])
        }
        Whose::User(scope) => {
            let sql = format!(
                "SELECT {number} FROM {settings}, pg_advisory_xact_lock_shared(hashtextextended(?1, 7077)),
                     pg_advisory_xact_lock(hashtextextended(?2, hashtext(?1)))"
            );
            db.begin("BEGIN", &sql, [scope.tenant().as_str(), scope.user().as_str()])
        }
    };
    begun.map_err(|error| meaning(&error))
}
