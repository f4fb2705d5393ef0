//! An exchange goes from its conversation; the conversation stays.

use jiff::Timestamp;

use super::super::connect::meaning;
use super::super::row::{COLUMNS, TurnRow};
use super::super::session::execute;
use super::super::sql::{Connection, Row, params};
use super::super::{archive, episode, facts, job, ledger};
use super::{count, document, strays};
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::erasure::Counts;

const TOPICS: &str = "SELECT count(*) FROM topic WHERE tenant = ?1 AND user = ?2";

/// Whether anything is kept of a turn. What was learned from it may have outlived it.
pub(super) fn is_there(db: &Connection, scope: &Scope, id: TurnId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM turn JOIN session ON session.key = turn.session
                              WHERE turn.id = ?3 AND tenant = ?1 AND user = ?2)
                   OR EXISTS (SELECT 1 FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND message BETWEEN ?3 AND ?4)";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let last = id.message(u16::MAX - 1);
    let values = params![tenant, user, id.as_uuid().as_bytes(), last.as_uuid().as_bytes()];
    db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Whether its block can be written without it, in every session that has it.
pub(super) fn check(db: &Connection, scope: &Scope, id: TurnId) -> Result<(), StoreError> {
    let unreadable = |found: Found| found.row.turn(db, found.session).err().filter(StoreError::wants_newer);
    found(db, scope, id)?.into_iter().find_map(unreadable).map_or(Ok(()), Err)
}

/// Removes a turn, in every session that has it.
pub(super) fn erase(db: &Connection, scope: &Scope, id: TurnId, now: Timestamp) -> Result<Counts, StoreError> {
    let unsaid = facts::forget(db, scope, facts::SaidIn::Turn(id), now)?;
    let mut counts = Counts { statements: unsaid.statements, facts: unsaid.facts, ..Counts::default() };
    let topics = count(db, TOPICS, scope)?;
    for found in found(db, scope, id)? {
        counts += remove(db, scope, found, now)?;
    }
    counts.topics = topics - count(db, TOPICS, scope)?;
    counts += strays::of_user(db, scope)?;
    Ok(counts)
}

struct Found {
    session: SessionId,
    session_key: i64,
    parent: u64,
    row: TurnRow,
}

fn found(db: &Connection, scope: &Scope, id: TurnId) -> Result<Vec<Found>, StoreError> {
    const NEXT: usize = super::super::row::NEXT;
    let sql = format!(
        "SELECT {COLUMNS}, session.id, session.key, coalesce(place.parent, 0) FROM turn
         JOIN session ON session.key = turn.session LEFT JOIN place ON place.turn = turn.key
         WHERE turn.id = ?1 AND tenant = ?2 AND user = ?3"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let session = SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(NEXT)?));
        Ok(Found { session, session_key: row.get(NEXT + 1)?, parent: row.get(NEXT + 2)?, row: TurnRow::read(row)? })
    };
    let values = params![id.as_uuid().as_bytes(), scope.tenant().as_str(), scope.user().as_str()];
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

fn remove(db: &Connection, scope: &Scope, found: Found, now: Timestamp) -> Result<Counts, StoreError> {
    let Found { session, session_key, parent, row } = found;
    let (key, number, block) = (row.key, row.number, row.block);
    let mut counts = match row.turn(db, session) {
        Ok(turn) => document::unlearn(db, scope.tenant().as_str(), &turn.question().text, now)?,
        Err(error) if error.wants_newer() => return Err(error),
        Err(_) => Counts::default(),
    };
    if let Some(block) = block {
        archive::erase(db, block, number)?;
        counts.blocks += 1;
    }
    // Whoever stood behind it stands behind what was before it.
    let stand = "UPDATE place SET parent = ?3 WHERE parent = ?2 AND turn IN (SELECT key FROM turn WHERE session = ?1)";
    execute(db, stand, params![session_key, number, parent])?;
    counts += rows(db, key)?;
    execute(db, "UPDATE session SET turns = turns - 1 WHERE key = ?1", [session_key])?;
    counts.episodes += episode::untell(db, session_key, number)?;
    counts += of_session(db, scope, session, session_key)?;
    Ok(counts)
}

/// A turn stays and is told of no more: by summaries, which are made anew without it, and by its topic, which it leaves.
pub(super) fn untell(db: &Connection, scope: &Scope, id: TurnId) -> Result<Counts, StoreError> {
    let mut counts = Counts::default();
    for Found { session, session_key, row, .. } in found(db, scope, id)? {
        execute(db, "DELETE FROM topic_turn WHERE turn = ?1", [row.key])?;
        execute(db, "DELETE FROM topic_todo WHERE turn = ?1", [row.key])?;
        counts.episodes += episode::untell(db, session_key, row.number)?;
        counts += of_session(db, scope, session, session_key)?;
    }
    Ok(counts)
}

fn rows(db: &Connection, key: i64) -> Result<Counts, StoreError> {
    let gone =
        |table: &str| execute(db, &format!("DELETE FROM {table} WHERE turn = ?1"), [key]).map(|gone| gone as u64);
    Ok(Counts {
        revisions: gone("revision")?,
        traces: gone("recall_trace")?,
        recall_rows: gone("recall_row")? + gone("recall_vector")?,
        turns: execute(db, "DELETE FROM turn WHERE key = ?1", [key])? as u64,
        ..Counts::default()
    })
}

/// What was made of the whole conversation and may repeat the turn: a job that is being done begins again, and what a webhook would
/// have told is not told.
fn of_session(db: &Connection, scope: &Scope, session: SessionId, key: i64) -> Result<Counts, StoreError> {
    let again = "UPDATE job SET state = iif(state = 'running', 'queued', state), run_at = 0, fence = fence + 1,
                     last_error = NULL WHERE session = ?1";
    execute(db, again, [key])?;
    job::begin_topics_again(db, scope)?;
    let posted = "DELETE FROM outbox WHERE tenant = ?1 AND user = ?2 AND session = ?3";
    let who = params![scope.tenant().as_str(), scope.user().as_str(), session.to_string()];
    Ok(Counts {
        model_answers: ledger::forget(db, key)?,
        webhooks: execute(db, posted, who)? as u64,
        ..Counts::default()
    })
}
