//! The book of what was erased, in a table of its own. It has no rows of any tenant, so it can be kept apart from them: whoever
//! puts back an older copy of the data puts the newer book back beside it.

use jiff::Timestamp;

use super::connect::meaning;
use super::session::execute;
use super::sql::{Connection, Row, params};
use crate::clock::from_micros;
use crate::store::StoreError;
use crate::store::erasure::{Entry, Erasure, ErasureKind, Mark, Marks, Meanwhile, Waited};

/// What makes marks: the same for every instance. `fresh`, which is random, becomes their key when there is none.
pub(super) fn marks(db: &Connection, fresh: [u8; 32]) -> Result<Marks, StoreError> {
    let sql = "UPDATE access SET erased_key = coalesce(erased_key, ?1) RETURNING erased_key";
    let key: Vec<u8> = db.query_row(sql, [fresh], |row| row.get(0)).map_err(|error| meaning(&error))?;
    Ok(Marks::new(&key))
}

/// Writes down that something is erased; its number is above `follows`, which is where the data are.
pub(super) fn write_down(
    db: &Connection,
    what: &Erasure,
    at: Timestamp,
    follows: u64,
    fresh: [u8; 32],
) -> Result<Entry, StoreError> {
    let (kind, mark) = (what.kind(), marks(db, fresh)?.of(what));
    let sql = "INSERT INTO erased (id, at, kind, mark)
               SELECT greatest(coalesce((SELECT max(id) FROM erased), 0), ?1) + 1, ?2, ?3, ?4 RETURNING id";
    let values = params![follows, at.as_microsecond(), kind.as_str(), mark.0];
    let id = db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))?;
    Ok(Entry { id, at: from_micros(at.as_microsecond()), kind, mark })
}

/// What was erased while a turn waited: in the book before the first row of it goes, and that needs the lock that whoever writes
/// the turn holds.
pub(super) fn meanwhile(db: &Connection, waited: &Waited) -> Result<Meanwhile, StoreError> {
    let key: Option<Vec<u8>> =
        db.query_row("SELECT erased_key FROM access", [], |row| row.get(0)).map_err(|error| meaning(&error))?;
    let Some(key) = key else { return Ok(Meanwhile::Nothing) };
    let [tenant, user, session, turn] = waited.lines(&Marks::new(&key)).map(|(_, mark)| mark.0);
    // A mark covers its kind.
    let sql = "SELECT count(*) FILTER (WHERE mark IN (?2, ?3, ?4, ?5)) > 0, count(*) > 0 FROM erased WHERE at >= ?1";
    let values = params![waited.since.as_microsecond(), tenant, user, session, turn];
    let read = |row: &Row<'_>| Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?));
    Ok(match db.query_row(sql, values, read).map_err(|error| meaning(&error))? {
        (true, _) => Meanwhile::This,
        (false, true) => Meanwhile::Another,
        (false, false) => Meanwhile::Nothing,
    })
}

/// The lines behind the one that the data follow, and those that were not carried out.
pub(super) fn not_applied(db: &Connection, follows: u64) -> Result<Vec<Entry>, StoreError> {
    let sql = "SELECT id, at, kind, mark FROM erased WHERE id > ?1 OR done = 0 ORDER BY id";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let kind = ErasureKind::parse(row.get_ref(2)?.as_str()?);
        Ok(kind.map(|kind| Ok(Entry { id: row.get(0)?, at: from_micros(row.get(1)?), kind, mark: Mark(row.get(3)?) })))
    };
    let rows = statement.query_map(params![follows], read).map_err(|error| meaning(&error))?;
    // A kind of a newer version is a newer version's to erase.
    rows.filter_map(|row| row.and_then(Option::transpose).transpose())
        .collect::<Result<_, _>>()
        .map_err(|error| meaning(&error))
}

/// How many lines the book has, and when the last was written.
pub(super) fn size(db: &Connection) -> Result<(u64, Option<Timestamp>), StoreError> {
    let sql = "SELECT count(*), max(at) FROM erased";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(from_micros)));
    db.query_row(sql, [], read).map_err(|error| meaning(&error))
}

/// Notes that an erasure was carried out.
pub(super) fn done(db: &Connection, line: u64) -> Result<(), StoreError> {
    execute(db, "UPDATE erased SET done = 1 WHERE id = ?1", params![line]).map(drop)
}
