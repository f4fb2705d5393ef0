//! What is looked at before a turn is written, in SQL: one look for each writing, since each may be a way to a server and back.
//!
//! **Invariant:** whoever writes for a user is alone in that, so what was seen is so until it is written over.

use jiff::Timestamp;

use super::connect::meaning;
use super::recall::{Before, SHOWN};
use super::row::{COLUMNS, NEXT, TurnRow};
use super::session::Place;
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::topic::Member;
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::job::JobKind;
use crate::scope::Scope;
use crate::session::Fingerprint;
use crate::store::StoreError;

/// The visible turn of a session that was said last; the first column is to be filled in.
macro_rules! head {
    ($column:literal) => {
        concat!(
            "(SELECT ",
            $column,
            " FROM turn WHERE turn.session = session.key AND turn.superseded = 0 ORDER BY turn.number DESC LIMIT 1)"
        )
    };
}

/// A session as a question finds it.
pub(super) struct Ground {
    /// Where its next turn goes.
    pub(super) place: Place,
    /// Whether the question is there already.
    pub(super) is_asked: bool,
    /// The number of the visible branch's last turn, and the chain after it.
    pub(super) head: (u64, Option<Fingerprint>),
    /// The time of the turn with the highest number.
    pub(super) said_last: Timestamp,
}

pub(super) const GROUND: &str = concat!(
    "SELECT session.key, session.next_number, session.ttl,
       EXISTS (SELECT 1 FROM turn WHERE turn.id = ?4 AND turn.session = session.key), ",
    head!("turn.number"),
    ", (SELECT place.chain FROM place WHERE place.turn = ",
    head!("turn.key"),
    "), (SELECT turn.created_at FROM turn WHERE turn.session = session.key ORDER BY turn.number DESC LIMIT 1)
       FROM session WHERE session.tenant = ?1 AND session.user = ?2 AND session.id = ?3"
);

/// Looks at a session before a question is written.
pub(super) fn before_question(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    id: TurnId,
) -> Result<Option<Ground>, StoreError> {
    let mut statement = db.prepare_cached(GROUND).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, session.as_uuid().as_bytes(), id.as_uuid().as_bytes()];
    let read = |row: &Row<'_>| {
        let number: Option<u64> = row.get(4)?;
        let chain: Option<[u8; 16]> = row.get(5)?;
        Ok(Ground {
            place: Place { key: row.get(0)?, number: row.get(1)?, ttl: row.get(2)? },
            is_asked: row.get(3)?,
            head: (number.unwrap_or(0), chain.map(Fingerprint::from_bytes)),
            said_last: row.get::<_, Option<i64>>(6)?.map_or(Timestamp::MIN, from_micros),
        })
    };
    statement.query_row(values, read).optional().map_err(|error| meaning(&error))
}

/// What stands around a turn, when it is written again.
pub(super) struct Around {
    pub(super) before: Before,
    /// The chain that it follows.
    pub(super) follows: Option<Fingerprint>,
    /// The topic that it is in.
    pub(super) member: Option<Member>,
}

/// Its columns, in the order of [`Around::read`]. Not by joins: in a new PostgreSQL database those became
/// slower with every row.
const AROUND: &str = "(SELECT place.before FROM place WHERE place.turn = turn.key),
    (SELECT topic_turn.topic FROM topic_turn WHERE topic_turn.turn = turn.key),
    (SELECT topic_turn.messages FROM topic_turn WHERE topic_turn.turn = turn.key),
    (SELECT topic_turn.taken_in FROM topic_turn WHERE topic_turn.turn = turn.key)";

impl Around {
    fn read(row: &Row<'_>, first: usize, before: Before) -> sql::Result<Self> {
        let follows: Option<[u8; 16]> = row.get(first)?;
        let member = match row.get::<_, Option<i64>>(first + 1)? {
            Some(topic) => Some(Member { topic, messages: row.get(first + 2)?, taken_in: row.get(first + 3)? }),
            None => None,
        };
        Ok(Self { before, follows: follows.map(Fingerprint::from_bytes), member })
    }
}

/// Looks around a turn.
pub(super) fn around(db: &Connection, key: i64) -> Result<Around, StoreError> {
    let sql =
        format!("SELECT turn.session, turn.superseded, turn.block, {SHOWN}, {AROUND} FROM turn WHERE turn.key = ?1");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Around::read(row, 4, Before::read(row)?);
    statement.query_row([key], read).map_err(|error| meaning(&error))
}

/// A turn as its ending finds it.
pub(super) struct Unended {
    pub(super) row: TurnRow,
    pub(super) around: Around,
    pub(super) session_key: i64,
    /// Which try it shows.
    pub(super) attempt: u32,
    pub(super) session: Summarised,
}

/// How far a session is summarised.
pub(super) struct Summarised {
    pub(super) until: u64,
    pub(super) is_ephemeral: bool,
    /// Whether asking for more would change nothing: it waits, will run again, or is dead.
    pub(super) is_asked_for: bool,
}

pub(super) fn unended_sql() -> String {
    format!(
        "SELECT {COLUMNS}, {AROUND}, session.key,
           coalesce((SELECT place.attempt FROM place WHERE place.turn = turn.key), 0), session.consolidated,
           session.kind = 'ephemeral', EXISTS (SELECT 1 FROM job WHERE job.session = session.key AND job.kind = ?5
                                               AND (job.state <> 'running' OR job.again = 1))
         FROM turn JOIN session ON session.key = turn.session
         WHERE turn.id = ?4 AND session.tenant = ?1 AND session.user = ?2 AND session.id = ?3"
    )
}

/// Looks at a turn before its ending is written.
pub(super) fn before_ending(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    id: TurnId,
) -> Result<Option<Unended>, StoreError> {
    let mut statement = db.prepare_cached(&unended_sql()).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (session, id, kind) = (session.as_uuid().as_bytes(), id.as_uuid().as_bytes(), JobKind::CONSOLIDATE);
    let values = params![tenant, user, session, id, kind.as_str()];
    statement.query_row(values, unended).optional().map_err(|error| meaning(&error))
}

fn unended(row: &Row<'_>) -> sql::Result<Unended> {
    let (turn, behind) = (TurnRow::read(row)?, NEXT + 4);
    let session_key = row.get(behind)?;
    let around = Around::read(row, NEXT, Before::of(&turn, session_key))?;
    let session = Summarised {
        until: row.get(behind + 2)?,
        is_ephemeral: row.get(behind + 3)?,
        is_asked_for: row.get(behind + 4)?,
    };
    Ok(Unended { row: turn, around, session_key, attempt: row.get(behind + 1)?, session })
}
