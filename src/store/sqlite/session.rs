//! Sessions in SQL.

use uuid::Uuid;

use super::connect::meaning;
use super::row::to_json;
use super::sql::{self, Connection, OptionalExtension, Row, params};
use crate::clock::from_micros;
use crate::id::SessionId;
use crate::period::{Period, Ttl};
use crate::scope::Scope;
use crate::session::{Session, SessionKind, SessionPatch, SessionSeed};
use crate::store::check;
use crate::store::{Page, PageRequest, Stats, StoreError};

pub(super) const COLUMNS: &str = "key, id, kind, metadata, ttl, turns, created_at, updated_at, last_accessed, ended_at";

/// A TTL as stored: microseconds, -1 for never.
pub(super) fn ttl_column(ttl: Option<Ttl>) -> Option<i64> {
    ttl.map(|ttl| ttl.0.map_or(-1, Period::micros))
}

fn read_ttl(column: Option<i64>) -> Option<Ttl> {
    column.map(|micros| Ttl((micros >= 0).then(|| Period::from_micros(micros))))
}

/// When a turn of a session with this TTL ends by it; `None` when the server's setting rules.
pub(super) fn turn_expiry(ttl: Option<i64>, created_at: i64) -> Option<i64> {
    ttl.map(|micros| if micros < 0 { i64::MAX } else { created_at.saturating_add(micros) })
}

pub(super) fn read(row: &Row<'_>) -> sql::Result<(i64, Session)> {
    let kind: String = row.get(2)?;
    let metadata: String = row.get(3)?;
    let session = Session {
        id: SessionId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        kind: if kind == "ephemeral" { SessionKind::Ephemeral } else { SessionKind::Durable },
        // The database checks that it is JSON.
        metadata: serde_json::from_str(&metadata).unwrap_or_default(),
        ttl: read_ttl(row.get(4)?),
        turns: row.get(5)?,
        created_at: from_micros(row.get(6)?),
        updated_at: from_micros(row.get(7)?),
        last_accessed: from_micros(row.get(8)?),
        ended_at: row.get::<_, Option<i64>>(9)?.map(from_micros),
    };
    Ok((row.get(0)?, session))
}

/// Looks a session up within its scope, with its key.
pub(super) fn find(db: &Connection, scope: &Scope, id: SessionId) -> Result<Option<(i64, Session)>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM session WHERE tenant = ?1 AND user = ?2 AND id = ?3");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let key = (scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes());
    statement.query_row(key, read).optional().map_err(|error| meaning(&error))
}

/// A session's place for new turns: its key, the first number to use, its own TTL.
pub(super) struct Place {
    pub(super) key: i64,
    pub(super) number: u64,
    pub(super) ttl: Option<i64>,
}

pub(super) const RESERVE: &str = "INSERT INTO session
       (tenant, user, id, kind, metadata, ttl, ttl_of_tenant, next_number, turns, created_at, updated_at, last_accessed)
     VALUES (?1, ?2, ?3, ?8, ?4, coalesce(?5, (SELECT ttl FROM tenant WHERE name = ?1)), CASE WHEN ?5 IS NULL THEN 1 ELSE 0 END,
       1 + ?6, ?6, ?7, ?7, ?7)
     ON CONFLICT (tenant, user, id) DO UPDATE SET
       next_number = session.next_number + ?6, turns = session.turns + ?6,
       updated_at = max(session.updated_at, ?7), last_accessed = max(session.last_accessed, ?7)
     RETURNING key, next_number - ?6, ttl";

/// Makes the session if need be and reserves the next `turns` numbers in it.
pub(super) fn reserve(
    db: &Connection,
    scope: &Scope,
    id: SessionId,
    seed: &SessionSeed,
    turns: u64,
    now: i64,
) -> Result<Place, StoreError> {
    let mut statement = db.prepare_cached(RESERVE).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![
        tenant,
        user,
        id.as_uuid().as_bytes(),
        to_json(&seed.metadata),
        ttl_column(seed.ttl),
        turns,
        now,
        seed.kind.as_str()
    ];
    let place = |row: &Row<'_>| Ok(Place { key: row.get(0)?, number: row.get(1)?, ttl: row.get(2)? });
    statement.query_row(values, place).map_err(|error| meaning(&error))
}

/// Takes the next `turns` numbers of a session that was looked at.
pub(super) fn take_numbers(db: &Connection, place: Place, turns: u64, now: i64) -> Result<Place, StoreError> {
    let sql = "UPDATE session SET next_number = next_number + ?2, turns = turns + ?2, updated_at = max(updated_at, ?3),
                           last_accessed = max(last_accessed, ?3) WHERE key = ?1";
    send(db, sql, params![place.key, turns, now])?;
    Ok(place)
}

/// Keeps numbers free before the first turn of a new session.
pub(super) fn keep_free(db: &Connection, place: &mut Place, numbers: u64) -> Result<(), StoreError> {
    if numbers == 0 {
        return Ok(());
    }
    place.number += numbers;
    let sql = "UPDATE session SET next_number = next_number + ?2, earlier = ?2 WHERE key = ?1";
    send(db, sql, params![place.key, numbers])
}

/// Gives out the numbers that were kept free, once. Answers how many there are, and when the first turn behind them was
/// asked.
pub(super) fn take_free(db: &Connection, place: &Place, wanted: u64) -> Result<(u64, Option<i64>), StoreError> {
    let sql = "SELECT earlier, (SELECT turn.created_at FROM turn WHERE turn.session = session.key ORDER BY turn.number LIMIT 1)
               FROM session WHERE key = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((row.get::<_, u64>(0)?, row.get(1)?));
    let (free, first) = statement.query_row([place.key], read).map_err(|error| meaning(&error))?;
    let taken = wanted.min(free);
    send(db, "UPDATE session SET earlier = 0, turns = turns + ?2 WHERE key = ?1", params![place.key, taken])?;
    Ok((taken, first))
}

pub(super) fn create(
    db: &Connection,
    scope: &Scope,
    id: SessionId,
    seed: &SessionSeed,
    now: i64,
) -> Result<Session, StoreError> {
    if let Some((_, session)) = find(db, scope, id)? {
        return Ok(session);
    }
    check::seed(seed)?;
    reserve(db, scope, id, seed, 0, now)?;
    let made = find(db, scope, id)?;
    made.map(|(_, session)| session).ok_or_else(|| StoreError::Refused("the new session is not there".into()))
}

pub(super) fn update(
    db: &Connection,
    scope: &Scope,
    id: SessionId,
    patch: SessionPatch,
    now: i64,
) -> Result<Option<Session>, StoreError> {
    check::patch(&patch)?;
    let Some((key, session)) = find(db, scope, id)? else { return Ok(None) };
    let metadata = patch.applied_to(&session.metadata);
    let set =
        "UPDATE session SET metadata = ?2, updated_at = max(updated_at, ?3), last_accessed = max(last_accessed, ?3)
               WHERE key = ?1";
    send(db, set, params![key, to_json(&metadata), now])?;
    if let Some(ttl) = ttl_column(patch.ttl) {
        send(db, "UPDATE session SET ttl = ?2, ttl_of_tenant = 0 WHERE key = ?1", params![key, ttl])?;
        // As `turn_expiry` says, and never beyond the end of time.
        let turns = "UPDATE turn SET expires_at = iif(?2 < 0 OR created_at > ?3 - max(?2, 0), ?3, created_at + ?2)
                     WHERE session = ?1";
        send(db, turns, params![key, ttl, i64::MAX])?;
    }
    Ok(find(db, scope, id)?.map(|(_, session)| session))
}

/// Sessions of visitors that older versions kept.
pub(super) fn visits(db: &Connection, limit: usize) -> Result<Vec<(Scope, SessionId)>, StoreError> {
    let sql = "SELECT tenant, user, id FROM session WHERE kind = 'ephemeral' LIMIT ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let scope = Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        Ok((scope, SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(2)?))))
    };
    let rows = statement.query_map([rows_max(limit)], read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// A user's sessions in the order they began; the cursor is the session's key.
pub(super) fn list(db: &Connection, scope: &Scope, page: PageRequest) -> Result<Page<Session>, StoreError> {
    let mut statement = db.prepare_cached(&list_sql()).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, cursor(page), rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    let found = rows.map(|row| row.map(|(key, session)| (key as u64, session)).map_err(|error| meaning(&error)));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, page.limit))
}

pub(super) fn list_sql() -> String {
    format!("SELECT {COLUMNS} FROM session WHERE tenant = ?1 AND user = ?2 AND key > ?3 ORDER BY key LIMIT ?4")
}

/// A bound as SQL has it.
pub(super) fn rows_max(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The cursor as SQL has it; one from nowhere finds nothing.
pub(super) fn cursor(page: PageRequest) -> i64 {
    page.after.map_or(0, |after| i64::try_from(after).unwrap_or(i64::MAX))
}

pub(super) fn stats(db: &Connection, scope: &Scope) -> Result<Stats, StoreError> {
    let sql = "SELECT count(*), coalesce(sum(turns), 0) FROM session WHERE tenant = ?1 AND user = ?2";
    let who = (scope.tenant().as_str(), scope.user().as_str());
    let (sessions, turns) =
        db.query_row(sql, who, |row| Ok((row.get(0)?, row.get(1)?))).map_err(|error| meaning(&error))?;
    let bytes = db.query_row(sql::BYTES, [], |row| row.get(0)).map_err(|error| meaning(&error))?;
    Ok(Stats { sessions, turns, bytes })
}

/// Runs a statement of whose answer nothing is needed. A database that is elsewhere need not be waited for.
pub(super) fn send(db: &Connection, sql: &str, values: impl sql::Params) -> Result<(), StoreError> {
    sql::send(db, sql, values).map_err(|error| meaning(&error))
}

/// Runs a statement from the cache.
pub(super) fn execute(db: &Connection, sql: &str, values: impl sql::Params) -> Result<usize, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.execute(values).map_err(|error| meaning(&error))
}
