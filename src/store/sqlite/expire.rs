//! What time removes, in SQL: what is done with turns that are too old. Which ones are, `let_go` finds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::connect::meaning;
use super::session::execute;
use super::sql::{self, Connection, OptionalExtension, Row};
use super::{archive, facts, job, ledger};
use crate::id::SessionId;
use crate::scope::Scope;
use crate::store::StoreError;

/// Removes a session if its last turn is gone. Answers how many that were.
pub(super) fn end_session(db: &Connection, session: i64, now: Timestamp) -> Result<usize, StoreError> {
    forget_visit(db, session, now)?;
    ledger::forget(db, session)?;
    let gone = execute(db, "DELETE FROM session WHERE key = ?1 AND turns = 0", [session])?;
    if gone > 0 {
        job::forget(db, session)?;
    }
    Ok(gone)
}

/// A visit that is over leaves nothing behind: nobody can ask what was learned in it.
fn forget_visit(db: &Connection, session: i64, now: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT tenant, user, id FROM session WHERE key = ?1 AND turns = 0 AND kind = 'ephemeral'";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let scope = Scope::as_stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        Ok((scope, SessionId::from_uuid(Uuid::from_bytes(row.get(2)?))))
    };
    match statement.query_row([session], read).optional().map_err(|error| meaning(&error))? {
        Some((scope, id)) => facts::forget(db, &scope, facts::SaidIn::Session(id), now).map(drop),
        None => Ok(()),
    }
}

/// A turn that is too old.
pub(super) struct Old {
    pub(super) key: i64,
    session: i64,
    /// Where its text is, if not in its row, and its number there.
    block: Option<i64>,
    number: u64,
}

impl Old {
    /// Reads key, session, block and number.
    pub(super) fn read(row: &Row<'_>) -> sql::Result<Self> {
        Ok(Self { key: row.get(0)?, session: row.get(1)?, block: row.get(2)?, number: row.get(3)? })
    }
}

/// How many of them each session has.
pub(super) fn by_session(old: &[Old]) -> BTreeMap<i64, u64> {
    let mut sessions = BTreeMap::new();
    old.iter().for_each(|old| *sessions.entry(old.session).or_default() += 1);
    sessions
}

/// What goes, goes from the blocks as well.
pub(super) fn take_out_of_blocks(db: &Connection, old: &[Old]) -> Result<(), StoreError> {
    let mut blocks: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for Old { block, number, .. } in old {
        block.iter().for_each(|block| blocks.entry(*block).or_default().push(*number));
    }
    blocks.iter().try_for_each(|(block, numbers)| archive::take_out(db, *block, numbers))
}
