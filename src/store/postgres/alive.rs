//! Instances say that they are there; what one was doing that has fallen silent is taken over by the others.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::pool::Pool;
use super::session;
use super::sql::Connection;
use crate::store::StoreError;
use crate::store::whose::Whose;

/// How often a process says that it is there, and writes down what was looked at.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// Says that this process is there.
pub(super) const SAY: &str = "INSERT INTO instance (id) VALUES (current_setting('recalld.instance'))
     ON CONFLICT (id) DO UPDATE SET seen_at = now()";

/// Frees what processes were doing that have not been heard of for a minute. Whoever was not heard of itself until now cannot
/// tell: it may have been the database that was away.
fn free_of_the_lost(db: &Connection) -> Result<(), StoreError> {
    for list in ["job", "outbox"] {
        let sql = format!(
            "UPDATE {list} SET state = 'queued', run_at = 0 WHERE state = 'running'
                 AND EXISTS (SELECT 1 FROM instance WHERE id = current_setting('recalld.instance')
                     AND seen_at > now() - interval '30 seconds')
                 AND NOT EXISTS (SELECT 1 FROM instance WHERE id = {list}.owner
                     AND seen_at > now() - interval '60 seconds')"
        );
        let freed = session::execute(db, &sql, [])?;
        if freed > 0 {
            tracing::info!(freed, list, "Took over {freed} things of `{list}` from an instance that is gone");
        }
    }
    Ok(())
}

/// Says that this process is there. Turns that others began to answer are theirs while they say so.
pub(super) async fn say(pool: &Arc<Pool>) -> Result<(), StoreError> {
    let old = "DELETE FROM instance WHERE seen_at < now() - interval '1 day'";
    pool.write(Whose::Ours, move |db| {
        session::execute(db, old, [])?;
        free_of_the_lost(db)?;
        session::execute(db, SAY, []).map(drop)
    })
    .await
}

/// Says that this process is there no more.
pub(super) async fn leave(pool: &Arc<Pool>) {
    let sql = "DELETE FROM instance WHERE id = current_setting('recalld.instance')";
    // If it cannot be said, it is seen in a minute.
    let _ = pool.write(Whose::Ours, move |db| session::execute(db, sql, []).map(drop)).await;
}

/// Says so again and again, as long as there is a pool.
pub(super) async fn stay(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(ALIVE_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        let known = pool.know_again().await;
        match say(&pool).await.and(super::write_down_looks(&pool).await).and(known) {
            Err(StoreError::Closed) => return,
            Err(error) => tracing::debug!(error = %error, "The database does not answer: {error}"),
            Ok(()) => {}
        }
    }
}
