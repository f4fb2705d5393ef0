//! A sum beside every row, so that no bit of what is kept changes unseen.
//!
//! Turns, revisions and blocks carry checksums of their own, which are looked at whenever one is read. All other content, and what
//! those leave out, is covered by an index for each table whose last part is the sum of the whole row. SQLite keeps such an
//! index up with every write, whatever statement makes it, and `PRAGMA integrity_check` works each sum out anew. No
//! statement has to know.
//!
//! The indexes follow from the tables: a migration that adds a column changes the sums of its table at the next start.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use xxhash_rust::xxh3::Xxh3;

/// The sum of a row as its index keeps it.
const SUM: &str = "row_sum";

/// The same, which no index knows: SQLite works it out from the row.
const SUM_NOW: &str = "row_sum_now";

/// What the names of the indexes begin with.
const NAME: &str = "sum_of_";

/// Lists of what there is to do hold nothing but keys of turns; [`super::examine`] compares them with those.
const LISTS: &str = "%\\_todo";

/// Teaches a connection to sum rows. Without that nobody can write to a data file.
pub(super) fn teach(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function(SUM, -1, flags, |context| Ok(sum(context)))?;
    db.create_scalar_function(SUM_NOW, -1, flags, |context| Ok(sum(context)))
}

/// Kinds and lengths go in too, so that nothing can move from one column to the next.
fn sum(context: &Context<'_>) -> i64 {
    let mut hash = Xxh3::new();
    for column in 0..context.len() {
        match context.get_raw(column) {
            ValueRef::Null => hash.update(b"n"),
            ValueRef::Integer(number) => {
                hash.update(b"i");
                hash.update(&number.to_le_bytes());
            }
            ValueRef::Real(number) => {
                hash.update(b"r");
                hash.update(&number.to_bits().to_le_bytes());
            }
            ValueRef::Text(bytes) => add(&mut hash, b"t", bytes),
            ValueRef::Blob(bytes) => add(&mut hash, b"b", bytes),
        }
    }
    hash.digest() as i64
}

fn add(hash: &mut Xxh3, kind: &[u8], bytes: &[u8]) {
    hash.update(kind);
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// A table whose rows have sums.
pub(super) struct Summed {
    pub(super) table: String,
    /// The columns that name a row.
    names: Vec<String>,
    columns: Vec<String>,
}

impl Summed {
    fn index(&self) -> String {
        format!("{NAME}{}", self.table)
    }

    fn sum(&self, function: &str) -> String {
        format!("{function}({})", self.columns.join(", "))
    }

    /// In the order of the rows, so that new ones are added at the end.
    fn definition(&self) -> String {
        format!("CREATE INDEX {} ON {} ({}, {})", self.index(), self.table, self.names.join(", "), self.sum(SUM))
    }

    /// A condition that holds while a row of this table, in a statement that calls it by its name, is what was written.
    pub(super) fn intact(&self) -> String {
        let same: Vec<String> = self.names.iter().map(|name| format!("kept.{name} = {}.{name}", self.table)).collect();
        let beside = |prefix: &str| -> Vec<String> { self.columns.iter().map(|c| format!("{prefix}.{c}")).collect() };
        format!(
            "EXISTS (SELECT 1 FROM {table} AS kept INDEXED BY {index} WHERE {same} AND {SUM}({kept}) = {SUM_NOW}({now}))",
            table = self.table,
            index = self.index(),
            same = same.join(" AND "),
            kept = beside("kept").join(", "),
            now = beside(&self.table).join(", "),
        )
    }
}

/// The tables of a file whose rows have sums: all but lists.
pub(super) fn summed(db: &Connection) -> Result<Vec<Summed>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
               AND name NOT LIKE ?1 ESCAPE '\\' ORDER BY name";
    let mut statement = db.prepare(sql)?;
    let tables = statement.query_map([LISTS], |row| row.get(0))?.collect::<Result<Vec<String>>>()?;
    tables.into_iter().map(|table| of(db, table)).collect()
}

fn of(db: &Connection, table: String) -> Result<Summed> {
    let mut statement = db.prepare_cached("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid")?;
    let rows = statement.query_map([&table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let mut found = rows.collect::<Result<Vec<_>>>()?;
    let columns = found.iter().map(|(name, _)| name.clone()).collect();
    found.retain(|(_, place)| *place > 0);
    found.sort_by_key(|(_, place)| *place);
    Ok(Summed { table, names: found.into_iter().map(|(name, _)| name).collect(), columns })
}

/// Makes the indexes that are missing, and those anew whose table has changed.
pub(super) fn keep(db: &Connection) -> Result<()> {
    let wanted: Vec<Summed> = summed(db)?;
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND name LIKE 'sum\\_of\\_%' ESCAPE '\\'";
    let mut statement = db.prepare(sql)?;
    let held = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<Vec<(String, String)>>>()?;
    drop(statement);
    let mut steps = String::new();
    for (name, sql) in &held {
        if !wanted.iter().any(|table| table.definition() == *sql) {
            steps.push_str(&format!("DROP INDEX {name};\n"));
        }
    }
    for table in wanted {
        let definition = table.definition();
        if !held.iter().any(|(_, sql)| *sql == definition) {
            steps.push_str(&format!("{definition};\n"));
        }
    }
    if steps.is_empty() { Ok(()) } else { db.execute_batch(&format!("BEGIN IMMEDIATE;\n{steps}COMMIT;")) }
}

/// The table that an index with sums is of.
pub(super) fn table_of(index: &str) -> Option<&str> {
    index.strip_prefix(NAME)
}
