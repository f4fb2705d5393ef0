//! Looking through a whole data file: every page, the schema, and whether what is kept fits together.

use std::path::Path;

use rusqlite::Connection;

use super::connect::{self, SCHEMA_VERSION, check_ours, meaning, open_noting};
use super::kept_logs::{self, KeptLog};
use super::lock::{Lock, check_names, held_by};
use super::{Sqlite, examine, pages};
use crate::store::{Findings, StoreError};

/// Most problems that SQLite is asked for.
const PROBLEMS_MAX: usize = 200;

impl Sqlite {
    /// Looks through a data file, at one moment of it. Nobody has to stop for that, and nothing is changed.
    pub fn verify(path: &Path) -> Result<Findings, StoreError> {
        check_names(path)?;
        // Before SQLite opens it. A process that has the file has looked at the log, and writes to it.
        let log = if held_by(path).is_none() { kept_logs::damage(path)? } else { None };
        let (mut found, damaged) = looked_through(path)?;
        found.problems_first(damaged.into_iter().map(|page| format!("page {page} is not what was written")));
        found.problems_first(log.into_iter().map(|damage| format!("the write-ahead log is damaged: {damage}")));
        for KeptLog { path, found_at } in kept_logs::list(path) {
            found.problem(format!(
                "a damaged write-ahead log was found at {found_at}, and turns in it may be lost; remove its copy `{}` when you \
                 do not need it any more",
                path.display()
            ));
        }
        Ok(found)
    }

    /// Gives sums to the pages that another program wrote, if everything else is as it should be; answers how many. Whoever asks for
    /// this knows that there was such a program: what only the sum of a page tells is believed from now on.
    pub fn accept_pages(path: &Path) -> Result<(Findings, usize), StoreError> {
        let _alone = Lock::take(path)?;
        if let Some(damage) = kept_logs::damage(path)? {
            let mut found = Findings::default();
            found.problem(format!("the write-ahead log is damaged: {damage}; a start keeps a copy of it"));
            return Ok((found, 0));
        }
        // What is still in the log goes to its place first, with sums.
        let db = pages::connection(path).map_err(|error| meaning(&error))?;
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(|error| meaning(&error))?;
        drop(db);
        let (found, written) = looked_through(path)?;
        if found.is_well() {
            pages::accept(path, &written).map_err(|error| StoreError::Disk(error.to_string()))?;
        }
        Ok((found, written.len()))
    }

    /// A connection that can only read, for whoever copies a file that this process holds.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn bare_reader(path: &Path) -> Result<Connection, StoreError> {
        connect::open_reader(path)
    }

    /// The secret that the keys of a file are sealed with, if it has one.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn secret_of(data: &Path) -> Option<Vec<u8>> {
        super::seal::held(data)
    }

    /// How many rows each table of a data file has.
    pub(super) fn count_rows(db: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
        let sql =
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1";
        let tables = db.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
        let count = |table: String| {
            let sql = format!("SELECT count(*) FROM \"{table}\" NOT INDEXED");
            db.query_row(&sql, [], |row| row.get(0)).map(|count| (table, count))
        };
        tables.into_iter().map(count).collect()
    }
}

/// What is wrong with a file but for its pages, and the pages that are not what was written.
fn looked_through(path: &Path) -> Result<(Findings, Vec<u32>), StoreError> {
    let db = open_noting(path)?;
    let mut found = Findings::default();
    let looked = look(&db, path, &mut found);
    let damaged = pages::noted(&db).map_err(|error| meaning(&error))?;
    if let Err(error) = looked {
        // What is too damaged to be read is damaged; what was never a file of ours is no damage.
        if damaged.is_empty() {
            return Err(error);
        }
        found.problem(error.to_string());
    }
    Ok((found, damaged))
}

fn look(db: &Connection, path: &Path, found: &mut Findings) -> Result<(), StoreError> {
    let version = check_ours(db, path)?;
    // What is read from here on is of one moment.
    db.execute_batch("BEGIN").map_err(|error| meaning(&error))?;
    if pages::has_sums(db).map_err(|error| meaning(&error))? {
        noting(found, "the pages", |found| count_pages(db, found));
    }
    if version == SCHEMA_VERSION {
        noting(found, "the schema", |found| schema(db, found));
    }
    noting(found, "the pages", |found| structure(db, found));
    noting(found, "the rows", |found| strangers(db, found));
    if version == SCHEMA_VERSION {
        noting(found, "the rows", |found| count(db, found));
        examine::examine(db, found);
    }
    Ok(())
}

/// What cannot be read is damaged.
fn noting(found: &mut Findings, what: &str, look: impl FnOnce(&mut Findings) -> rusqlite::Result<()>) {
    if let Err(error) = look(found) {
        found.problem(format!("{what} cannot be read: {error}"));
    }
}

fn count_pages(db: &Connection, found: &mut Findings) -> rusqlite::Result<()> {
    found.looked("pages with a sum", db.query_row("PRAGMA page_count", [], |row| row.get(0))?);
    Ok(())
}

/// Tables, indexes and triggers must be those that a new file has.
fn schema(db: &Connection, found: &mut Findings) -> rusqlite::Result<()> {
    let of = |db: &Connection| -> rusqlite::Result<Vec<(String, Option<String>)>> {
        let sql = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' ORDER BY 1";
        db.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let (held, wanted) = (of(db)?, of(&connect::newest_schema()?)?);
    for (name, sql) in &wanted {
        match held.iter().find(|(held, _)| held == name) {
            Some((_, held)) if held == sql => {}
            Some(_) => found.problem(format!("the {name} is not as it was made")),
            None => found.problem(format!("the {name} is missing")),
        }
    }
    for (name, _) in held.iter().filter(|(name, _)| !wanted.iter().any(|(wanted, _)| wanted == name)) {
        found.problem(format!("the {name} is not ours"));
    }
    Ok(())
}

/// SQLite's own look at every page, index and row. On its way every page is read, and so compared with its sum.
fn structure(db: &Connection, found: &mut Findings) -> rusqlite::Result<()> {
    let mut statement = db.prepare(&format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    let mut told = statement.query([])?;
    while let Some(row) = told.next()? {
        let problem: String = row.get(0)?;
        if problem != "ok" {
            found.problem(problem);
        }
    }
    Ok(())
}

/// Rows that name others which are not there.
fn strangers(db: &Connection, found: &mut Findings) -> rusqlite::Result<()> {
    let mut statement = db.prepare("PRAGMA foreign_key_check")?;
    let mut told = statement.query([])?;
    while let Some(row) = told.next()? {
        let (table, of): (String, String) = (row.get(0)?, row.get(2)?);
        found.problem(format!("a row of table {table} names a {of} that is not there"));
    }
    Ok(())
}

fn count(db: &Connection, found: &mut Findings) -> rusqlite::Result<()> {
    let rows = Sqlite::count_rows(db)?;
    found.looked("tables", rows.len() as u64);
    found.looked("rows", rows.iter().map(|(_, count)| count).sum());
    Ok(())
}
