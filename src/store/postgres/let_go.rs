//! Letting old turns go while people chat.
//!
//! What is too old is looked for without a lock and goes user by user, a few turns in each transaction: whoever chats meanwhile waits for
//! nobody, and those whose own turns go wait for one such batch. While others are at work the store rests as long as it works.

use std::time::{Duration, Instant};

use super::Postgres;
use super::connect::meaning;
use super::expire::{self, Old};
use super::for_whom::grouped;
use super::requests;
use super::session::{rows_max, send};
use super::sql::{Connection, Row, params};
use crate::period::Period;
use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{Expired, Expiry, StoreError, StoreFuture};

/// Most turns of a user that go in one transaction: nobody can write for that user meanwhile.
const AT_ONCE: usize = 50;
/// The longest rest between two of them.
const REST_MAX: Duration = Duration::from_millis(200);

/// Turns that are too old. A pending turn is being answered.
const TOO_OLD: &str = "turn.status <> 'pending'
     AND (turn.expires_at <= ?1 OR (turn.expires_at IS NULL AND turn.created_at <= ?2))";
/// Sessions without turns that nobody used for as long.
const IDLE: &str = "session.turns = 0 AND coalesce(session.ttl, ?2) > 0
     AND session.last_accessed <= ?1 - coalesce(session.ttl, ?2)";

/// Something whose time is over, and whose it is.
#[derive(Debug, Clone)]
struct Over {
    whose: Scope,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Turn(i64),
    Session(i64),
}

impl Postgres {
    /// Lets turns and sessions go that are too old, tenant by tenant until the limit is used up.
    pub(super) fn let_go(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        Box::pin(async move {
            let (mut gone, mut left) = (Expired::default(), expiry.turns_max);
            for tenant in self.tenants_of("known_tenant").await? {
                let one = self.let_go_of(tenant, Expiry { turns_max: left, ..expiry }).await?;
                left = left.saturating_sub(usize::try_from(one.turns).unwrap_or(usize::MAX));
                gone = gone.and(one);
                if left == 0 {
                    break;
                }
            }
            Ok(gone)
        })
    }

    async fn let_go_of(&self, tenant: String, expiry: Expiry) -> Result<Expired, StoreError> {
        let whose = Whose::Tenant(tenant);
        if self.pool.read(whose.clone(), move |db| requests::any_expired(db, expiry.now)).await? {
            self.pool.write(whose.clone(), move |db| requests::expire(db, expiry.now)).await?;
        }
        let over = self.pool.read(whose, move |db| over(db, expiry)).await?;
        let mut gone = Expired { more: over.len() >= expiry.turns_max, ..Expired::default() };
        for (whose, over) in grouped(over, |over| Whose::from(&over.whose)) {
            for some in over.chunks(AT_ONCE).map(<[Over]>::to_vec) {
                let (started, asked) = (Instant::now(), self.pool.asked());
                gone = gone.and(self.pool.write(whose.clone(), move |db| remove(db, &some, expiry)).await?);
                // One of them was this one.
                if self.pool.asked() - asked > 1 {
                    tokio::time::sleep(started.elapsed().min(REST_MAX)).await;
                }
            }
        }
        Ok(gone)
    }
}

/// From when on a turn without a time of its own is young enough, and how long sessions are kept.
fn bounds(expiry: Expiry) -> (i64, i64, i64) {
    let (now, ttl) = (expiry.now.as_microsecond(), expiry.server_ttl.0.map(Period::micros));
    (now, ttl.map_or(i64::MIN, |ttl| now.saturating_sub(ttl)), ttl.unwrap_or(-1))
}

/// What is too old of a tenant.
fn over(db: &Connection, expiry: Expiry) -> Result<Vec<Over>, StoreError> {
    let (now, until, ttl) = bounds(expiry);
    let of = "SELECT session.tenant, session.user, ";
    // Each along its own index.
    let by_own = format!(
        "{of} turn.key FROM turn JOIN session ON session.key = turn.session
         WHERE turn.status <> 'pending' AND turn.expires_at <= ?1 ORDER BY turn.expires_at LIMIT ?2"
    );
    let by_age = format!(
        "{of} turn.key FROM turn JOIN session ON session.key = turn.session
         WHERE turn.status <> 'pending' AND turn.expires_at IS NULL AND turn.created_at <= ?1
         ORDER BY turn.created_at LIMIT ?2"
    );
    let idle = format!("{of} session.key FROM session WHERE {IDLE} LIMIT ?3");
    let mut found = found(db, &by_own, params![now, rows_max(expiry.turns_max)], What::Turn)?;
    let left = rows_max(expiry.turns_max - found.len());
    found.extend(self::found(db, &by_age, params![until, left], What::Turn)?);
    let left = rows_max(expiry.turns_max - found.len());
    found.extend(self::found(db, &idle, params![now, ttl, left], What::Session)?);
    Ok(found)
}

fn found(
    db: &Connection,
    sql: &str,
    values: impl super::sql::Params,
    what: fn(i64) -> What,
) -> Result<Vec<Over>, StoreError> {
    let read = |row: &Row<'_>| {
        let whose = Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        Ok(Over { whose, what: what(row.get(2)?) })
    };
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// Removes what is still too old, now that nobody else writes for the user.
fn remove(db: &Connection, over: &[Over], expiry: Expiry) -> Result<Expired, StoreError> {
    let turns = over.iter().filter_map(|over| if let What::Turn(key) = over.what { Some(key) } else { None });
    let old = still_old(db, &turns.collect::<Vec<_>>(), expiry)?;
    expire::take_out_of_blocks(db, &old)?;
    let keys: Vec<String> = old.iter().map(|old| old.key.to_string()).collect();
    send(db, "DELETE FROM turn WHERE key = ANY(string_to_array(?1::text, ' ')::bigint[])", [keys.join(" ")])?;
    let mut sessions = 0;
    for (session, turns) in expire::by_session(&old) {
        send(db, "UPDATE session SET turns = turns - ?2 WHERE key = ?1", params![session, turns])?;
        sessions += expire::end_session(db, session, expiry.now)?;
    }
    for over in over {
        if let What::Session(key) = over.what {
            sessions += forget_idle(db, key, expiry)?;
        }
    }
    Ok(Expired { sessions: sessions as u64, turns: old.len() as u64, more: false })
}

fn still_old(db: &Connection, keys: &[i64], expiry: Expiry) -> Result<Vec<Old>, StoreError> {
    let (now, until, _) = bounds(expiry);
    let sql = format!(
        "SELECT key, session, block, number FROM turn
         WHERE key = ANY(string_to_array(?3::text, ' ')::bigint[]) AND {TOO_OLD}"
    );
    let keys: Vec<String> = keys.iter().map(i64::to_string).collect();
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![now, until, keys.join(" ")], Old::read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

fn forget_idle(db: &Connection, key: i64, expiry: Expiry) -> Result<usize, StoreError> {
    let (now, _, ttl) = bounds(expiry);
    super::session::execute(db, &format!("DELETE FROM session WHERE key = ?3 AND {IDLE}"), params![now, ttl, key])
}
