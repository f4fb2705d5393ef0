//! Text that moves into blocks and is read through them, in SQL.

use std::ops::Range;

use super::connect::meaning;
use super::row::{COLUMNS, TurnRow};
use super::session::{self, execute, rows_max, send};
use super::sql::{self, Connection, OptionalExtension, params};
use crate::id::SessionId;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::archive::{
    ArchiveSize, Archived, BlockError, CONTENT_BYTES_MAX, Level, Moved, OpenBlock, Packed, extended, pack, unpack,
    without,
};

/// A block takes in more turns until it has this many: more make it a little smaller and each look slower.
const BLOCK_TURNS: usize = 20;

/// And until its text has this many bytes. A turn with more than the second number stays where it is.
const BLOCK_BYTES: usize = 1 << 20;
const TURN_BYTES_MAX: usize = CONTENT_BYTES_MAX / 2;

/// Turns that are looked at, the last ones and as many further back: the time it takes must not grow with the session.
const LOOKED_AT: u64 = 500;

/// What a row holds in place of its text; the rules of the table want something there.
const ELSEWHERE: &str = ".";

const LEAVE: &str = "UPDATE turn SET question = ?3, answer = iif(answer IS NULL, answer, ?3), extra = NULL, block = ?2
                     WHERE key = ?1";

/// Moves the text of a session's oldest turns.
pub(super) fn move_out(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    before: u64,
    turns_max: usize,
) -> Result<Moved, StoreError> {
    match session::find(db, scope, session)? {
        Some((session_key, _)) => move_from(db, session_key, session, before, turns_max),
        None => Ok(Moved::default()),
    }
}

fn move_from(
    db: &Connection,
    session_key: i64,
    session: SessionId,
    before: u64,
    turns_max: usize,
) -> Result<Moved, StoreError> {
    let before = before.min(last_number(db, session_key)?.saturating_add(1));
    let mut rows = movable(db, session_key, older(before), turns_max)?;
    rows.extend(movable(db, session_key, recent(before), turns_max - rows.len())?);
    let more = rows.len() == turns_max;
    let can_move = |row: &TurnRow| row.is_whole(session) && row.text_bytes() <= TURN_BYTES_MAX;
    let whole: Vec<TurnRow> = rows.into_iter().filter(can_move).collect();
    let mut left = whole.as_slice();
    while !left.is_empty() {
        left = fill_block(db, session_key, left)?;
    }
    Ok(Moved { turns: whole.len() as u64, more: more && !whole.is_empty() })
}

fn last_number(db: &Connection, session_key: i64) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(max(number), 0) FROM turn WHERE session = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row([session_key], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Where text leaves as the conversation goes on.
fn recent(before: u64) -> Range<u64> {
    before.saturating_sub(LOOKED_AT)..before
}

/// Where something may have been left: the end of a topic that has gone on since, or what could not be moved in its time. One
/// part of what is older, another one at each look, by chance that can be repeated.
fn older(before: u64) -> Range<u64> {
    let end = recent(before).start;
    let parts = end.div_ceil(LOOKED_AT).max(1);
    let part = (before.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % parts;
    part * LOOKED_AT..((part + 1) * LOOKED_AT).min(end)
}

/// Turns of these numbers with their text in the row, oldest first. The last four of a topic stay, however old they are.
fn movable(
    db: &Connection,
    session_key: i64,
    numbers: Range<u64>,
    turns_max: usize,
) -> Result<Vec<TurnRow>, StoreError> {
    let sql = movable_sql();
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let values = params![session_key, number(numbers.start), number(numbers.end), rows_max(turns_max)];
    let rows = statement.query_map(values, TurnRow::read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// What [`movable`] asks.
pub(super) fn movable_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM turn WHERE session = ?1 AND number >= ?2 AND number < ?3 AND block IS NULL
         AND status <> 'pending' AND NOT EXISTS (
            SELECT 1 FROM topic_turn AS mine WHERE mine.turn = turn.key AND mine.turn >= coalesce(
                (SELECT turn FROM topic_turn AS last WHERE last.topic = mine.topic ORDER BY turn DESC LIMIT 1 OFFSET 3), 0))
         ORDER BY number LIMIT ?4"
    )
}

/// Puts as many turns into the session's last block as it takes, or into a new one. Answers the others.
fn fill_block<'a>(db: &Connection, session_key: i64, rows: &'a [TurnRow]) -> Result<&'a [TurnRow], StoreError> {
    let (last, held) = last_block(db, session_key)?;
    let mut bytes = held.bytes;
    let fits = |row: &&TurnRow| {
        bytes += row.text_bytes();
        bytes <= BLOCK_BYTES
    };
    let fitting = rows.iter().take(BLOCK_TURNS - held.turns).take_while(fits).count();
    // A turn that is larger than a block gets one of its own.
    let last = last.filter(|_| fitting > 0);
    let (now, later) = rows.split_at(fitting.max(1));
    let turns: Vec<Archived> = now.iter().map(TurnRow::archived).collect();
    let bytes = match &last {
        Some(last) => extended(&last.bytes, &turns),
        None => pack(&turns, Level::Quick),
    };
    let bytes = checked(bytes.map_err(refused)?, &turns)?;
    let block = match last {
        Some(last) => keep(db, last.key, &bytes, now.len() as i64)?,
        None => begin(db, session_key, &bytes, now.len() as i64)?,
    };
    for row in now {
        send(db, LEAVE, params![row.key, block, ELSEWHERE])?;
    }
    sql::close_ranks(db, now.iter().map(|row| row.key))?;
    Ok(later)
}

/// How full a block is.
#[derive(Default)]
struct Load {
    turns: usize,
    bytes: usize,
}

/// The block that takes in more, and how full it is. A damaged one is left alone.
fn last_block(db: &Connection, session_key: i64) -> Result<(Option<Packed>, Load), StoreError> {
    let sql = "SELECT block.key, bytes, tenant FROM block CROSS JOIN session ON session.key = block.session
               WHERE block.session = ?1 ORDER BY block.key DESC LIMIT 1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let last = statement.query_row([session_key], read_block).optional().map_err(|error| meaning(&error))?;
    let held = last.as_ref().and_then(|block| unpack(&block.bytes).ok()).unwrap_or_default();
    let load = Load { turns: held.len(), bytes: held.iter().map(Archived::bytes).sum() };
    Ok(if (1..BLOCK_TURNS).contains(&load.turns) { (last, load) } else { (None, Load::default()) })
}

fn read_block(row: &sql::Row<'_>) -> sql::Result<Packed> {
    Ok(Packed { key: row.get(0)?, bytes: row.get(1)?, tenant: row.get(2)? })
}

/// A block that holds what it is to hold; the rows give their text away on its word.
fn checked(bytes: Vec<u8>, turns: &[Archived]) -> Result<Vec<u8>, StoreError> {
    let held = unpack(&bytes).map_err(refused)?;
    match turns.iter().all(|turn| held.contains(turn)) {
        true => Ok(bytes),
        false => Err(StoreError::Refused("a block does not hold what was put into it".into())),
    }
}

fn begin(db: &Connection, session_key: i64, bytes: &[u8], turns: i64) -> Result<i64, StoreError> {
    send(db, "INSERT INTO block (session, turns, bytes) VALUES (?1, ?2, ?3)", params![session_key, turns, bytes])?;
    Ok(db.last_insert_rowid())
}

fn keep(db: &Connection, key: i64, bytes: &[u8], more_turns: i64) -> Result<i64, StoreError> {
    let sql = "UPDATE block SET bytes = ?2, turns = turns + ?3, thorough = 0 WHERE key = ?1";
    execute(db, sql, params![key, bytes, more_turns]).map(|_| key)
}

/// Why the text of a row that lies in a block is not to be had.
pub(super) enum NoText {
    /// The block is damaged, or gone.
    Damaged(String),
    /// It may be whole: a newer recalld wrote it, or there was no memory for it.
    Unreadable(String),
}

impl NoText {
    fn of(error: BlockError) -> Self {
        let what = format!("its block cannot be read: {error}");
        if is_damage(&error) { Self::Damaged(what) } else { Self::Unreadable(what) }
    }

    fn damaged(what: impl ToString) -> Self {
        Self::Damaged(what.to_string())
    }

    /// In words.
    pub(super) fn what(self) -> String {
        match self {
            Self::Damaged(what) | Self::Unreadable(what) => what,
        }
    }
}

/// Whether nobody can read the block any more, however new.
fn is_damage(error: &BlockError) -> bool {
    matches!(error, BlockError::NotABlock | BlockError::Damaged(_))
}

/// Fills in the text of a row that lies in a block.
pub(super) fn read_through(db: &Connection, block: i64, row: &mut TurnRow) -> Result<(), NoText> {
    Opened::default().fill(db, block, row)
}

/// The block that was opened last: turns of one block mostly follow each other.
#[derive(Default)]
pub(super) struct Opened(Option<(i64, OpenBlock)>);

impl Opened {
    /// Fetches the text of a row that lies in a block; the row then needs none.
    pub(super) fn fetch(&mut self, db: &Connection, row: &mut TurnRow) -> Result<(), NoText> {
        row.block.take().map_or(Ok(()), |block| self.fill(db, block, row))
    }

    fn fill(&mut self, db: &Connection, block: i64, row: &mut TurnRow) -> Result<(), NoText> {
        let opened = match self.0.take() {
            Some((key, opened)) if key == block => opened,
            _ => {
                let bytes = bytes_of(db, block).map_err(NoText::damaged)?;
                let bytes = bytes.ok_or_else(|| NoText::damaged("its block is gone"))?;
                OpenBlock::of(&bytes).map_err(NoText::of)?
            }
        };
        let archived = opened.turn(row.number).map_err(NoText::of)?;
        self.0 = Some((block, opened));
        let Archived { question, answer, extra, .. } =
            archived.ok_or_else(|| NoText::damaged("its block does not hold it"))?;
        (row.question, row.answer, row.extra) = (question, answer, extra);
        Ok(())
    }
}

fn bytes_of(db: &Connection, block: i64) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = db.prepare_cached("SELECT bytes FROM block WHERE key = ?1").map_err(|error| meaning(&error))?;
    statement.query_row([block], |row| row.get(0)).optional().map_err(|error| meaning(&error))
}

/// Puts a turn's text back into its row, because the turn is about to be rewritten.
pub(super) fn bring_back(db: &Connection, key: i64, block: i64) -> Result<(), StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM turn WHERE key = ?1");
    let mut row = db.query_row(&sql, [key], TurnRow::read).map_err(|error| meaning(&error))?;
    read_through(db, block, &mut row).map_err(|why| StoreError::Refused(why.what()))?;
    let sql = "UPDATE turn SET question = ?2, answer = ?3, extra = ?4, block = NULL WHERE key = ?1";
    send(db, sql, params![key, row.question, row.answer, row.extra])?;
    take_out(db, block, &[row.number])
}

/// Takes turns out of a block; an emptied one goes. What cannot be read any more cannot be taken out either: it is
/// removed with its last turn.
pub(super) fn take_out(db: &Connection, block: i64, numbers: &[u64]) -> Result<(), StoreError> {
    let Some(bytes) = bytes_of(db, block)? else { return Ok(()) };
    let rest = match without(&bytes, numbers) {
        Ok(rest) => rest,
        Err(_) => Some(bytes).filter(|_| turns_of(db, block).is_ok_and(|turns| turns > numbers.len() as i64)),
    };
    match rest {
        Some(bytes) => keep(db, block, &bytes, -(numbers.len() as i64)).map(drop),
        None => send(db, "DELETE FROM block WHERE key = ?1", [block]),
    }
}

/// Takes a turn out of a block for good. A damaged block tells nobody anything, and goes as a whole: what it says can only be
/// lost, and what is to be erased may be in it. One that is merely newer has the text of others, so it stays, and the erasure is refused.
pub(super) fn erase(db: &Connection, block: i64, number: u64) -> Result<(), StoreError> {
    let Some(bytes) = bytes_of(db, block)? else { return Ok(()) };
    match without(&bytes, &[number]) {
        Ok(Some(bytes)) => keep(db, block, &bytes, -1).map(drop),
        Err(error) if !is_damage(&error) => Err(refused(error)),
        Ok(None) | Err(_) => execute(db, "DELETE FROM block WHERE key = ?1", [block]).map(drop),
    }
}

fn turns_of(db: &Connection, block: i64) -> Result<i64, StoreError> {
    db.query_row("SELECT turns FROM block WHERE key = ?1", [block], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Blocks that were packed in a hurry and take in no more turns: a session's last one is packed again anyway until it is full.
pub(super) fn quick_blocks(db: &Connection, limit: usize) -> Result<Vec<Packed>, StoreError> {
    let sql = "SELECT block.key, bytes, tenant FROM block CROSS JOIN session ON session.key = block.session
               WHERE thorough = 0 AND (block.turns >= ?2 OR EXISTS (
                   SELECT 1 FROM block AS later WHERE later.session = block.session AND later.key > block.key))
               ORDER BY block.key LIMIT ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement
        .query_map(params![rows_max(limit), BLOCK_TURNS as i64], read_block)
        .map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// Puts a block in the place of another one that has not changed.
pub(super) fn replace_block(db: &Connection, before: &Packed, bytes: &[u8]) -> Result<bool, StoreError> {
    let sql = "UPDATE block SET bytes = ?3, thorough = 1 WHERE key = ?1 AND bytes = ?2";
    Ok(execute(db, sql, params![before.key, before.bytes, bytes])? > 0)
}

/// How much is in blocks.
pub(super) fn size(db: &Connection) -> Result<ArchiveSize, StoreError> {
    let sql = "SELECT count(*), coalesce(sum(turns), 0), coalesce(sum(length(bytes)), 0) FROM block";
    let read = |row: &sql::Row<'_>| Ok(ArchiveSize { blocks: row.get(0)?, turns: row.get(1)?, bytes: row.get(2)? });
    db.query_row(sql, [], read).map_err(|error| meaning(&error))
}

/// Moves whatever can be moved.
#[cfg(test)]
pub(super) fn move_everything(db: &Connection) -> Result<(), StoreError> {
    let mut statement = db
        .prepare_cached("SELECT DISTINCT session.key, session.id FROM turn JOIN session ON session.key = turn.session WHERE block IS NULL")
        .map_err(|error| meaning(&error))?;
    let sessions: Vec<(i64, [u8; 16])> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(|error| meaning(&error))?;
    for (key, id) in sessions {
        move_from(db, key, SessionId::from_uuid(uuid::Uuid::from_bytes(id)), u64::MAX, 1_000)?;
    }
    Ok(())
}

fn refused(error: BlockError) -> StoreError {
    StoreError::Refused(format!("a block cannot be made: {error}"))
}
