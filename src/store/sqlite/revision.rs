//! Other answers to the same question, in SQL.

use xxhash_rust::xxh3::Xxh3;

use super::connect::meaning;
use super::place::{self, ids_column, read_ids};
use super::row::{COLUMNS, NEXT, TurnRow, to_json};
use super::session::send;
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::turn::{find, rewrite};
use super::{episode, trace};
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::scope::Scope;
use crate::session::{ClientIds, Fingerprint, ReviseTurn, Revision, Turn, TurnStatus};
use crate::store::{Revised, StoreError};
use crate::takeout::RevisionRecord;

/// Begins another try at a turn's answer: what there is becomes a revision, the question is pending again.
pub(super) fn revise(db: &Connection, scope: &Scope, revise: ReviseTurn, now: i64) -> Result<Revised, StoreError> {
    let Some((session_key, row)) = find(db, scope, revise.session, revise.id)? else {
        return Err(StoreError::UnknownTurn(revise.id));
    };
    place::shift(db, session_key, &revise.shift)?;
    let key = row.key;
    let mut turn = row.turn(db, revise.session)?;
    let current = attempt(db, key)?;
    // The tool rounds of a failed try go on in the next one.
    let goes_on = turn.status == TurnStatus::Failed && (2..=1 + revise.then.len()).contains(&turn.messages.len());
    if turn.status != TurnStatus::Pending && !goes_on {
        put_aside(db, key, current, &turn, now)?;
    }
    let next = last_attempt(db, key)?.max(current) + 1;
    turn.messages.truncate(1);
    turn.messages.extend(revise.then);
    turn.status = TurnStatus::Pending;
    turn.metadata.shift_remove("reason");
    rewrite(db, key, &turn)?;
    trace::forget(db, key)?;
    show_attempt(db, key, next)?;
    send(db, "UPDATE place SET ids = ?2 WHERE turn = ?1", params![key, ids_column(&revise.ids)])?;
    send(db, "UPDATE turn SET superseded = 0 WHERE key = ?1", [key])?;
    episode::turn_changed(db, session_key, turn.number)?;
    Ok(Revised { attempt: next, number: turn.number, created_at: turn.created_at })
}

/// Keeps further answers of the same try.
pub(super) fn keep_others(
    db: &Connection,
    key: i64,
    turn: &Turn,
    others: Vec<Message>,
    now: i64,
) -> Result<(), StoreError> {
    for message in others {
        let next = last_attempt(db, key)?.max(attempt(db, key)?) + 1;
        let mut other = turn.clone();
        other.status = TurnStatus::Complete;
        other.messages.truncate(1);
        other.messages.push(message);
        put_aside(db, key, next, &other, now)?;
    }
    Ok(())
}

/// After a try that came to nothing, the newest whole answer is shown again. Answers whether there is one.
pub(super) fn restore(db: &Connection, session_key: i64, number: u64, key: i64) -> Result<bool, StoreError> {
    let sql = "SELECT max(attempt) FROM revision WHERE turn = ?1 AND status = 'complete'";
    let best: Option<u32> = db.query_row(sql, [key], |row| row.get(0)).map_err(|error| meaning(&error))?;
    match best {
        Some(best) => activate(db, session_key, number, best).map(|()| true),
        None => Ok(false),
    }
}

/// Shows a revision in place of the current answer; the two change places.
pub(super) fn activate(db: &Connection, session_key: i64, number: u64, wanted: u32) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM turn JOIN session ON session.key = turn.session
         WHERE turn.session = ?1 AND turn.number = ?2"
    );
    let read = |row: &Row<'_>| Ok((SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(NEXT)?)), TurnRow::read(row)?));
    let found = db.query_row(&sql, params![session_key, number], read).optional().map_err(|error| meaning(&error))?;
    let Some((session, row)) = found else { return Ok(()) };
    let key = row.key;
    let mut turn = row.turn(db, session)?;
    let Some(revision) = list(db, key, turn.id)?.into_iter().find(|revision| revision.attempt == wanted) else {
        return Ok(());
    };
    if turn.status != TurnStatus::Pending {
        put_aside(db, key, attempt(db, key)?, &turn, revision.created_at.as_microsecond())?;
    }
    send(db, "DELETE FROM revision WHERE turn = ?1 AND attempt = ?2", params![key, wanted])?;
    turn.messages.truncate(1);
    turn.messages.extend(revision.messages);
    turn.status = revision.status;
    rewrite(db, key, &turn)?;
    show_attempt(db, key, wanted)
}

/// A try that is there already is written over.
const REPLACE: &str =
    "ON CONFLICT (turn, attempt) DO UPDATE SET status = excluded.status, messages = excluded.messages,
     answer = excluded.answer, ids = excluded.ids, created_at = excluded.created_at, checksum = excluded.checksum";

/// Makes a revision of what a turn says.
pub(super) fn put_aside(db: &Connection, key: i64, attempt: u32, turn: &Turn, now: i64) -> Result<(), StoreError> {
    let messages = to_json(&turn.messages[1..].to_vec());
    // A try that was overtaken while it waited for tools will not hear from them.
    let status = if turn.status == TurnStatus::Pending { TurnStatus::Partial } else { turn.status };
    let status = status.as_str();
    let answer = turn.messages.iter().skip(1).rev().find(|message| message.role == Role::Assistant);
    let sql = "INSERT INTO revision (turn, attempt, status, messages, answer, ids, created_at, checksum)
               VALUES (?1, ?2, ?3, ?4, ?5, (SELECT ids FROM place WHERE turn = ?1), ?6, ?7)";
    let sql = format!("{sql} {REPLACE}");
    let print = answer.map(|answer| Fingerprint::of(answer).to_bytes());
    let sum = sum(turn.id, attempt, status, &messages);
    send(db, &sql, params![key, attempt, status, messages, print, now, sum])?;
    send(db, "UPDATE place SET revised = 1 WHERE turn = ?1", [key])
}

/// Writes a revision that came from elsewhere.
pub(super) fn take_in(db: &Connection, key: i64, turn: TurnId, record: &RevisionRecord) -> Result<(), StoreError> {
    let messages = to_json(&record.messages);
    let status = if record.status == TurnStatus::Pending { TurnStatus::Partial } else { record.status };
    let answer = record.messages.iter().rev().find(|message| message.role == Role::Assistant);
    let sql = "INSERT INTO revision (turn, attempt, status, messages, answer, ids, created_at, checksum)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let sql = format!("{sql} {REPLACE}");
    let values = params![
        key,
        record.attempt,
        status.as_str(),
        messages,
        answer.map(|answer| Fingerprint::of(answer).to_bytes()),
        ids_column(&record.client),
        record.created_at.as_microsecond(),
        sum(turn, record.attempt, status.as_str(), &messages),
    ];
    send(db, &sql, values)
}

/// A revision and what its client calls its parts, unless it is damaged.
pub(super) type NamedRevision = Result<(Revision, ClientIds), StoreError>;

/// A turn's revisions with what their client calls them, oldest first, each whole or damaged.
pub(super) fn with_ids(db: &Connection, key: i64, turn: TurnId) -> Result<Vec<NamedRevision>, StoreError> {
    let sql =
        "SELECT attempt, status, messages, created_at, checksum, ids FROM revision WHERE turn = ?1 ORDER BY attempt";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let named = |row: &Row<'_>| {
        let ids = read_ids(row.get(5)?);
        Ok(read(row, turn)?.map(|revision| (revision, ids)))
    };
    let rows = statement.query_map([key], named).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// A turn's revisions, oldest first; a damaged one is an error.
pub(super) fn list(db: &Connection, key: i64, turn: TurnId) -> Result<Vec<Revision>, StoreError> {
    let sql = "SELECT attempt, status, messages, created_at, checksum FROM revision WHERE turn = ?1 ORDER BY attempt";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let mut rows = statement.query([key]).map_err(|error| meaning(&error))?;
    let mut revisions = Vec::new();
    while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
        revisions.push(read(row, turn).map_err(|error| meaning(&error))??);
    }
    Ok(revisions)
}

fn read(row: &Row<'_>, turn: TurnId) -> sql::Result<Result<Revision, StoreError>> {
    let (attempt, status, messages): (u32, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let whole = sum(turn, attempt, &status, &messages) == row.get::<_, i64>(4)?;
    let decoded = TurnStatus::parse(&status).zip(serde_json::from_str(&messages).ok()).filter(|_| whole);
    let Some((status, messages)) = decoded else {
        return Ok(Err(StoreError::DamagedRevision { turn, attempt }));
    };
    Ok(Ok(Revision { attempt, status, messages, created_at: from_micros(row.get(3)?) }))
}

fn sum(turn: TurnId, attempt: u32, status: &str, messages: &str) -> i64 {
    let mut hash = Xxh3::new();
    hash.update(turn.as_uuid().as_bytes());
    hash.update(&attempt.to_le_bytes());
    hash.update(status.as_bytes());
    hash.update(b"\0");
    hash.update(messages.as_bytes());
    hash.digest() as i64
}

/// Which try the turn shows.
pub(super) fn attempt(db: &Connection, key: i64) -> Result<u32, StoreError> {
    let sql = "SELECT attempt FROM place WHERE turn = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let found = statement.query_row([key], |row| row.get(0)).optional().map_err(|error| meaning(&error))?;
    Ok(found.unwrap_or(0))
}

fn last_attempt(db: &Connection, key: i64) -> Result<u32, StoreError> {
    let sql = "SELECT coalesce(max(attempt), 0) FROM revision WHERE turn = ?1";
    db.query_row(sql, [key], |row| row.get(0)).map_err(|error| meaning(&error))
}

fn show_attempt(db: &Connection, key: i64, attempt: u32) -> Result<(), StoreError> {
    send(db, "UPDATE place SET attempt = ?2 WHERE turn = ?1", params![key, attempt])
}
