//! Webhooks that are yet to be delivered, in SQL.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::Backend;
use super::connect::meaning;
use super::session::{cursor, execute, rows_max, send};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use crate::clock::from_micros;
use crate::job::told;
use crate::scope::{Scope, Tenant};
use crate::store::whose::Whose;
use crate::store::{
    Finished, OUTBOX_DEAD_MAX, OUTBOX_WAITING_MAX, Outbox, Page, PageRequest, Parcel, ParcelClaim, ParcelCounts,
    PostedParcel, StoreError, StoreFuture,
};
use crate::webhook::ATTEMPTS_MAX;

/// Said of a webhook that took its process with it each time.
const LAPSED: &str = "whoever sent it stopped before there was an answer";
/// Said of one that found no place to wait.
const TOO_MANY: &str = "too many webhooks of this tenant wait already";

fn put(db: &Connection, parcel: &Parcel) -> Result<(), StoreError> {
    let tenant = parcel.tenant.as_str();
    let (state, error) = if is_full(db, tenant)? { ("dead", Some(TOO_MANY)) } else { ("queued", None) };
    let sql = "INSERT INTO outbox (id, tenant, user, session, reason, body, state, last_error, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING";
    let user = parcel.user.as_ref().map(|user| user.as_str());
    let Parcel { id, session, reason, body, created_at, .. } = parcel;
    let at = created_at.as_microsecond();
    send(db, sql, params![id, tenant, user, session, reason, &body[..], state, error, at])?;
    if error.is_some() { drop_oldest_dead(db, tenant) } else { Ok(()) }
}

/// Whether no more of a tenant's may wait. They are counted only if their keys lie so far apart that there may be too many.
fn is_full(db: &Connection, tenant: &str) -> Result<bool, StoreError> {
    let span = "SELECT coalesce((SELECT max(key) FROM outbox WHERE tenant = ?1 AND state = 'queued')
                              - (SELECT min(key) FROM outbox WHERE tenant = ?1 AND state = 'queued') + 1, 0)";
    let count = "SELECT count(*) FROM outbox WHERE tenant = ?1 AND state = 'queued'";
    let at_most = |sql: &str| -> Result<usize, StoreError> {
        let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
        statement.query_row([tenant], |row| row.get(0)).map_err(|error| meaning(&error))
    };
    Ok(at_most(span)? >= OUTBOX_WAITING_MAX && at_most(count)? >= OUTBOX_WAITING_MAX)
}

/// Of too many that were given up the oldest go.
fn drop_oldest_dead(db: &Connection, tenant: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM outbox WHERE tenant = ?1 AND state = 'dead' AND key <= coalesce((
                   SELECT key FROM outbox WHERE tenant = ?1 AND state = 'dead' ORDER BY key DESC LIMIT 1 OFFSET ?2), 0)";
    send(db, sql, params![tenant, rows_max(OUTBOX_DEAD_MAX)])
}

/// Tenants as SQL reads a list.
fn names(tenants: &[Tenant]) -> String {
    serde_json::Value::from(tenants.iter().map(Tenant::as_str).collect::<Vec<_>>()).to_string()
}

const FIRST_DUE: &str = "SELECT key, attempts, tenant FROM outbox WHERE state <> 'dead' AND run_at <= ?1
                         AND tenant NOT IN (SELECT value FROM json_each(?2)) ORDER BY run_at, key LIMIT 1";

fn first_due(db: &Connection, sql: &str, now: i64, busy: &str) -> Result<Option<(i64, u32, String)>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    statement.query_row(params![now, busy], read).optional().map_err(|error| meaning(&error))
}

/// Takes the first one that is due. One that took its process with it too often is given up.
fn claim(db: &Connection, now: i64, lease: SignedDuration, busy: &str) -> Result<Option<ParcelClaim>, StoreError> {
    let take = format!("{FIRST_DUE} {}", sql::SKIPPING_TAKEN);
    loop {
        let Some((key, attempts, tenant)) = first_due(db, &take, now, busy)? else { return Ok(None) };
        if attempts >= ATTEMPTS_MAX {
            let sql = "UPDATE outbox SET state = 'dead', last_error = coalesce(last_error, ?2) WHERE key = ?1";
            send(db, sql, params![key, LAPSED])?;
            drop_oldest_dead(db, &tenant)?;
            continue;
        }
        let until = now.saturating_add(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX));
        let run = "UPDATE outbox SET state = 'running', attempts = attempts + 1, fence = fence + 1, run_at = ?2
                    WHERE key = ?1";
        send(db, run, params![key, until])?;
        return read_claim(db, key).map(Some);
    }
}

fn read_claim(db: &Connection, key: i64) -> Result<ParcelClaim, StoreError> {
    let sql = "SELECT id, tenant, user, session, reason, body, created_at, attempts, fence FROM outbox WHERE key = ?1";
    let read = |row: &Row<'_>| {
        // A tenant's ends without a user are kept beside those of its users; the scope says how both are spelled.
        let user: Option<String> = row.get(2)?;
        let scope = Scope::as_stored(row.get_ref(1)?.as_str()?, user.as_deref().unwrap_or_default());
        let parcel = Parcel {
            id: row.get(0)?,
            tenant: scope.tenant().clone(),
            user: user.is_some().then(|| scope.user().clone()),
            session: row.get(3)?,
            reason: row.get(4)?,
            body: Bytes::from(row.get::<_, Vec<u8>>(5)?),
            created_at: from_micros(row.get(6)?),
        };
        Ok(ParcelClaim { parcel, attempts: row.get(7)?, key, fence: row.get(8)? })
    };
    db.query_row(sql, [key], read).map_err(|error| meaning(&error))
}

/// What a claim is good for: changes its row, if it is the newest claim of it.
fn with_claim(
    db: &Connection,
    claim: &ParcelClaim,
    sql: &str,
    values: &[&dyn sql::ToSql],
) -> Result<Finished, StoreError> {
    let held = "SELECT 1 FROM outbox WHERE key = ?1 AND fence = ?2 AND state = 'running'";
    let held = db.query_row(held, params![claim.key, claim.fence], |_| Ok(())).optional();
    if held.map_err(|error| meaning(&error))?.is_none() {
        return Ok(Finished::Lost);
    }
    send(db, sql, values)?;
    Ok(Finished::Done)
}

fn undelivered(
    db: &Connection,
    claim: &ParcelClaim,
    error: &str,
    next_try: Option<Timestamp>,
) -> Result<Finished, StoreError> {
    let state = if next_try.is_some() { "queued" } else { "dead" };
    let run_at = next_try.map_or(0, |at| at.as_microsecond().max(1));
    let sql = "UPDATE outbox SET state = ?2, run_at = ?3, last_error = ?4 WHERE key = ?1";
    let finished = with_claim(db, claim, sql, &[&claim.key, &state, &run_at, &told(error)])?;
    drop_oldest_dead(db, claim.parcel.tenant.as_str())?;
    Ok(finished)
}

const POSTED: &str =
    "SELECT key, id, user, session, reason, state, attempts, run_at, last_error, created_at, octet_length(body)";

fn posted(row: &Row<'_>) -> sql::Result<(u64, PostedParcel)> {
    let run_at: i64 = row.get(7)?;
    let posted = PostedParcel {
        id: row.get(1)?,
        user: row.get(2)?,
        session: row.get(3)?,
        reason: row.get(4)?,
        state: row.get(5)?,
        attempts: row.get(6)?,
        run_at: (run_at != 0).then(|| from_micros(run_at)),
        last_error: row.get(8)?,
        created_at: from_micros(row.get(9)?),
        bytes: row.get(10)?,
    };
    Ok((row.get(0)?, posted))
}

fn list(db: &Connection, tenant: &str, page: PageRequest) -> Result<Page<PostedParcel>, StoreError> {
    let sql = format!("{POSTED} FROM outbox WHERE tenant = ?1 AND key > ?2 ORDER BY key LIMIT ?3");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let values = params![tenant, cursor(page), rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, posted).map_err(|error| meaning(&error))?;
    let found = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    Ok(Page::cut(found, page.limit))
}

fn one(db: &Connection, tenant: &str, id: &str) -> Result<Option<(PostedParcel, Bytes)>, StoreError> {
    let sql = format!("{POSTED}, body FROM outbox WHERE tenant = ?1 AND id = ?2");
    let read = |row: &Row<'_>| Ok((posted(row)?.1, Bytes::from(row.get::<_, Vec<u8>>(11)?)));
    db.query_row(&sql, (tenant, id), read).optional().map_err(|error| meaning(&error))
}

/// Counts the webhooks of a tenant, or of everybody.
pub(super) fn counts(db: &Connection, tenant: Option<&str>) -> Result<ParcelCounts, StoreError> {
    let sql = "SELECT count(*) FILTER (WHERE state <> 'dead'),
                      count(*) FILTER (WHERE state <> 'dead' AND last_error IS NOT NULL),
                      count(*) FILTER (WHERE state = 'dead'),
                      (SELECT last_error FROM outbox WHERE (?1 IS NULL OR tenant = ?1) AND last_error IS NOT NULL
                       ORDER BY key DESC LIMIT 1)
               FROM outbox WHERE ?1 IS NULL OR tenant = ?1";
    let read = |row: &Row<'_>| {
        Ok(ParcelCounts { queued: row.get(0)?, failing: row.get(1)?, dead: row.get(2)?, last_error: row.get(3)? })
    };
    db.query_row(sql, [tenant], read).map_err(|error| meaning(&error))
}

impl Outbox for Backend {
    fn put(&self, parcel: Parcel) -> StoreFuture<'_, ()> {
        let notes = self.notes();
        // Those of visitors are nobody's; they wait for each other by session.
        let user = parcel.user.as_ref().map_or(parcel.session.as_str(), |user| user.as_str());
        let whose = Whose::User(Scope::as_stored(parcel.tenant.as_str(), user));
        self.write_for(whose, move |db| {
            put(db, &parcel)?;
            notes.parcels(true);
            Ok(())
        })
    }

    fn claim(&self, now: Timestamp, lease: SignedDuration, busy: Vec<Tenant>) -> StoreFuture<'_, Option<ParcelClaim>> {
        Box::pin(async move {
            // A look costs no transaction; most of the time there is nothing.
            let (now, busy) = (now.as_microsecond(), names(&busy));
            let names = busy.clone();
            match self.read_here_for(Whose::Ours, move |db| first_due(db, FIRST_DUE, now, &names)).await? {
                Some(_) => self.write_for(Whose::Ours, move |db| claim(db, now, lease, &busy)).await,
                None => Ok(None),
            }
        })
    }

    fn delivered(&self, claim: &ParcelClaim) -> StoreFuture<'_, Finished> {
        let (claim, notes) = (claim.clone(), self.notes());
        self.write_for(Whose::Ours, move |db| {
            let finished = with_claim(db, &claim, "DELETE FROM outbox WHERE key = ?1", &[&claim.key])?;
            notes.erased(finished == Finished::Done);
            Ok(finished)
        })
    }

    fn undelivered(&self, claim: &ParcelClaim, error: &str, next_try: Option<Timestamp>) -> StoreFuture<'_, Finished> {
        let (claim, error, notes) = (claim.clone(), error.to_owned(), self.notes());
        self.write_for(Whose::Ours, move |db| {
            notes.erased(next_try.is_none());
            undelivered(db, &claim, &error, next_try)
        })
    }

    fn return_parcel(&self, claim: &ParcelClaim) -> StoreFuture<'_, Finished> {
        let claim = claim.clone();
        let sql = "UPDATE outbox SET state = 'queued', run_at = 0, attempts = attempts - 1 WHERE key = ?1";
        self.write_for(Whose::Ours, move |db| with_claim(db, &claim, sql, &[&claim.key]))
    }

    fn release_parcels(&self) -> StoreFuture<'_, u64> {
        self.write_for(Whose::Ours, |db| execute(db, sql::RELEASE_PARCELS, []).map(|released| released as u64))
    }

    fn parcels(&self, tenant: &Tenant, page: PageRequest) -> StoreFuture<'_, Page<PostedParcel>> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(&tenant), move |db| list(db, tenant.as_str(), page))
    }

    fn parcel(&self, tenant: &Tenant, id: &str) -> StoreFuture<'_, Option<(PostedParcel, Bytes)>> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.read_for(Whose::from(&tenant), move |db| one(db, tenant.as_str(), &id))
    }

    fn parcel_counts(&self, tenant: Option<&Tenant>) -> StoreFuture<'_, ParcelCounts> {
        let tenant = tenant.cloned();
        self.read_for(tenant.as_ref().map_or(Whose::Ours, Whose::from), move |db| {
            counts(db, tenant.as_ref().map(Tenant::as_str))
        })
    }

    fn retry_parcels(&self, tenant: &Tenant, id: Option<&str>) -> StoreFuture<'_, u64> {
        let (tenant, id, notes) = (tenant.clone(), id.map(str::to_owned), self.notes());
        let sql = "UPDATE outbox SET state = 'queued', attempts = 0, run_at = 0 WHERE tenant = ?1
                   AND (?2 IS NULL OR id = ?2) AND (state = 'dead' OR (state = 'queued' AND run_at > 0))";
        self.write_for(Whose::from(&tenant), move |db| {
            let retried = execute(db, sql, params![tenant.as_str(), id])? as u64;
            notes.parcels(retried > 0);
            Ok(retried)
        })
    }

    fn drop_parcel(&self, tenant: &Tenant, id: &str) -> StoreFuture<'_, bool> {
        let (tenant, id, notes) = (tenant.clone(), id.to_owned(), self.notes());
        self.write_for(Whose::from(&tenant), move |db| {
            let gone = execute(db, "DELETE FROM outbox WHERE tenant = ?1 AND id = ?2", (tenant.as_str(), &id))? > 0;
            notes.erased(gone);
            Ok(gone)
        })
    }

    fn forget_dead_parcels(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        let notes = self.notes();
        self.write_for(Whose::Ours, move |db| {
            let sql = "DELETE FROM outbox WHERE state = 'dead' AND created_at < ?1";
            let gone = execute(db, sql, [before.as_microsecond()])? as u64;
            notes.erased(gone > 0);
            Ok(gone)
        })
    }

    fn parcel_news(&self) -> Arc<Notify> {
        self.notes().parcel_news()
    }
}
