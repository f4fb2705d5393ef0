//! Somebody who watches over the database: tries it when there is a doubt, and again and again while it is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::connect::{Who, connect, meaning};
use super::pool::Pool;
use super::{on_a_thread, schema, session};
use crate::store::StoreError;

/// How soon a database that is away is tried again, at first and at most.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long one that answered is believed, whatever others doubt.
const BELIEVED: Duration = Duration::from_millis(250);

/// Watches for as long as the store is there. `ready` says whether its tables are known to be those of this version.
pub(super) async fn watch_over(pool: Weak<Pool>, ready: bool) {
    let ready = Arc::new(AtomicBool::new(ready));
    let Some(circuit) = pool.upgrade().map(|pool| Arc::clone(pool.circuit())) else { return };
    while pool.strong_count() > 0 {
        // A store that went is noticed when this has waited for long enough.
        if tokio::time::timeout(PAUSE_MAX, circuit.doubted()).await.is_err() {
            continue;
        }
        let mut pause = PAUSE;
        while let Some(pool) = pool.upgrade() {
            let Err(error) = probe(pool, &ready).await else { break };
            circuit.went_away(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        circuit.came_back();
        tokio::time::sleep(BELIEVED).await;
    }
}

/// Whether the database takes a small write in time, on a connection of its own. The first time its tables are looked at, too.
async fn probe(pool: Arc<Pool>, ready: &Arc<AtomicBool>) -> Result<(), String> {
    let (limit, patience) = (pool.settings().probe_timeout, pool.settings().statement_timeout);
    let is_ready = ready.load(Ordering::Relaxed);
    let ready = Arc::clone(ready);
    let trying = on_a_thread(move || try_it(&pool, &ready));
    // Bringing tables up to date takes the time it takes.
    match tokio::time::timeout(if is_ready { limit } else { patience }, trying).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(StoreError::Away(reason))) => Err(reason),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it did not take a small write within {limit:?}")),
    }
}

fn try_it(pool: &Pool, ready: &AtomicBool) -> Result<(), StoreError> {
    let mut settings = pool.settings().clone();
    settings.connect_timeout = settings.connect_timeout.min(settings.probe_timeout);
    if !ready.load(Ordering::Relaxed) {
        let db = connect(&settings, Who::Owner, "migrate")?;
        pool.found(schema::bring_up_to_date(&db, &settings.schema)?.1);
        ready.store(true, Ordering::Relaxed);
    }
    settings.statement_timeout = settings.probe_timeout;
    let db = connect(&settings, Who::Runtime, pool.instance())?;
    db.batch("BEGIN").map_err(|error| meaning(&error))?;
    session::execute(&db, super::SAY_ALIVE, [])?;
    db.batch("COMMIT").map_err(|error| meaning(&error))
}
