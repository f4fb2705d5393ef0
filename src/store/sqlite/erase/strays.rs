//! What other exchanges had been shown: the memories that were laid before the model and the explanations of them repeat what was
//! said elsewhere, and nothing tells which. So all of a user's go; what is asked from now on has its own.

use super::super::connect::meaning;
use super::super::row::{COLUMNS, NEXT, TurnRow, to_json};
use super::super::session::execute;
use super::super::sql::{self, Connection, Row, params};
use crate::id::SessionId;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::erasure::{Counts, INJECTED};

const OF_USER: &str = "session.tenant = ?1 AND session.user = ?2";

/// Takes it away from all that a user said.
pub(super) fn of_user(db: &Connection, scope: &Scope) -> Result<Counts, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    take(db, OF_USER, params![tenant, user], tenant)
}

/// Whether it can be taken away from all that a user said.
pub(super) fn check(db: &Connection, scope: &Scope) -> Result<(), StoreError> {
    let who = params![scope.tenant().as_str(), scope.user().as_str()];
    let unreadable = |(session, row): (SessionId, TurnRow)| row.turn(db, session).err().filter(StoreError::wants_newer);
    injected(db, OF_USER, who)?.into_iter().find_map(unreadable).map_or(Ok(()), Err)
}

/// Takes it away from all that a tenant's users said.
pub(super) fn of_tenant(db: &Connection, tenant: &str) -> Result<Counts, StoreError> {
    take(db, "session.tenant = ?1", params![tenant], tenant)
}

fn take(db: &Connection, whose: &str, values: &[&dyn sql::ToSql], tenant: &str) -> Result<Counts, StoreError> {
    let traces = format!(
        "DELETE FROM recall_trace WHERE turn IN (
             SELECT turn.key FROM turn JOIN session ON session.key = turn.session WHERE {whose})"
    );
    let mut counts = Counts { traces: execute(db, &traces, values)? as u64, ..Counts::default() };
    for (session, row) in injected(db, whose, values)? {
        strip(db, session, row)?;
        counts.mentions += 1;
    }
    // What a memory model said wrong may have been about it.
    execute(
        db,
        "UPDATE memory_spent SET last_failure = NULL WHERE tenant = ?1 AND last_failure IS NOT NULL",
        [tenant],
    )?;
    Ok(counts)
}

fn injected(db: &Connection, whose: &str, values: &[&dyn sql::ToSql]) -> Result<Vec<(SessionId, TurnRow)>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM session JOIN turn ON turn.session = session.key
         WHERE {whose} AND turn.metadata LIKE '%\"{INJECTED}\"%'"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(NEXT)?)), TurnRow::read(row)?));
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// Writes a turn's metadata without it. A damaged turn stays damaged; one that cannot be read here must not become so.
fn strip(db: &Connection, session: SessionId, row: TurnRow) -> Result<(), StoreError> {
    let (key, metadata, checksum) = (row.key, row.metadata.clone(), row.checksum);
    let (metadata, checksum) = match row.turn(db, session) {
        Ok(mut turn) => {
            turn.metadata.shift_remove(INJECTED);
            let row = TurnRow::of(&turn);
            (row.metadata, row.checksum)
        }
        Err(error) if error.wants_newer() => return Err(error),
        Err(_) => {
            let mut known: serde_json::Map<_, serde_json::Value> = serde_json::from_str(&metadata).unwrap_or_default();
            known.shift_remove(INJECTED);
            (to_json(&known), checksum)
        }
    };
    execute(db, "UPDATE turn SET metadata = ?2, checksum = ?3 WHERE key = ?1", params![key, metadata, checksum])
        .map(drop)
}
