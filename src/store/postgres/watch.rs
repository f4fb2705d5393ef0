//! Somebody who watches over the database: tries it when there is a doubt, and again and again while it is away.
//!
//! Silence is judged with care. On a machine that has too much to do a small write takes long as well, and whoever is cut off then
//! comes back with even more to do. So a database that turns out to be there after all is given more time when it is silent next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::connect::{Who, connect, meaning};
use super::pool::Pool;
use super::sql::Connection;
use super::{on_a_thread, schema, session};
use crate::store::StoreError;

/// How soon a database that is away is tried again, at first and at most.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long one that answered is believed, whatever others doubt.
const BELIEVED: Duration = Duration::from_millis(500);
/// An outage that was over so soon was none: it had too much to do.
const SHORT: Duration = Duration::from_secs(2);
/// How many times the usual time it has at most, and after how long without a false alarm it has the usual time again.
const TIMES_MAX: u32 = 8;
const CALM: Duration = Duration::from_secs(60);

/// Watches for as long as the store is there. `ready` says whether its tables are known to be those of this version.
pub(super) async fn watch_over(pool: Weak<Pool>, ready: bool) {
    let Some(circuit) = pool.upgrade().map(|pool| Arc::clone(pool.circuit())) else { return };
    let (probe, mut times, mut last_alarm) = (Arc::new(Probe::new(ready)), 1, Instant::now());
    while pool.strong_count() > 0 {
        // A store that went is noticed when this has waited for long enough.
        if tokio::time::timeout(PAUSE_MAX, circuit.doubted()).await.is_err() {
            continue;
        }
        if last_alarm.elapsed() > CALM {
            times = 1;
        }
        let (mut pause, mut away_since, mut silent) = (PAUSE, None, false);
        while let Some(pool) = pool.upgrade() {
            let Err(error) = probe.try_for(pool, times).await else { break };
            silent |= matches!(error, NotThere::Silent(_));
            circuit.went_away(&error.to_string());
            away_since.get_or_insert_with(Instant::now);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        circuit.came_back();
        if silent && away_since.is_some_and(|since| since.elapsed() < SHORT) {
            (times, last_alarm) = ((times * 2).min(TIMES_MAX), Instant::now());
        }
        tokio::time::sleep(BELIEVED).await;
    }
}

/// Why a database is away.
#[derive(Debug, thiserror::Error)]
enum NotThere {
    #[error("it did not take a small write within {0:?}")]
    Silent(Duration),
    #[error("{0}")]
    Refuses(String),
}

/// What tries it.
struct Probe {
    /// Whether its tables are known to be those of this version.
    ready: AtomicBool,
    /// A connection of its own, while that is good.
    kept: Mutex<Option<Connection>>,
}

impl Probe {
    fn new(ready: bool) -> Self {
        Self { ready: AtomicBool::new(ready), kept: Mutex::default() }
    }

    /// Whether the database takes a small write in time, which is so many times the usual one. The first time its tables are
    /// looked at, too.
    async fn try_for(self: &Arc<Self>, pool: Arc<Pool>, times: u32) -> Result<(), NotThere> {
        let limit = pool.settings().probe_timeout * times;
        // Bringing tables up to date takes the time it takes.
        let patience =
            if self.ready.load(Ordering::Relaxed) { limit } else { limit.max(pool.settings().statement_timeout) };
        let probe = Arc::clone(self);
        let trying = on_a_thread(move || probe.try_it(&pool, limit));
        match tokio::time::timeout(patience, trying).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(StoreError::Away(reason))) => Err(NotThere::Refuses(reason)),
            Ok(Err(error)) => Err(NotThere::Refuses(error.to_string())),
            Err(_) => Err(NotThere::Silent(limit)),
        }
    }

    fn try_it(&self, pool: &Pool, limit: Duration) -> Result<(), StoreError> {
        let mut settings = pool.settings().clone();
        settings.connect_timeout = settings.connect_timeout.min(limit);
        if !self.ready.load(Ordering::Relaxed) {
            let db = connect(&settings, Who::Owner, "migrate")?;
            pool.found(schema::bring_up_to_date(&db, &settings.schema)?.1);
            self.ready.store(true, Ordering::Relaxed);
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let db = match kept.filter(|db| small_write(db).is_ok()) {
            Some(db) => db,
            // The one that was kept may be all that is gone.
            None => {
                settings.statement_timeout = limit;
                let db = connect(&settings, Who::Runtime, pool.instance())?;
                small_write(&db)?;
                db
            }
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(db);
        Ok(())
    }
}

fn small_write(db: &Connection) -> Result<(), StoreError> {
    db.batch("BEGIN").map_err(|error| meaning(&error))?;
    session::execute(db, super::alive::SAY, [])?;
    db.batch("COMMIT").map_err(|error| meaning(&error))
}
