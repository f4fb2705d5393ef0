//! A sum beside every row, so that no bit of what is kept changes unseen.
//!
//! Turns, revisions and blocks carry checksums of their own, which are looked at whenever one is read. All other content, and what
//! those leave out, is covered by an index for each table whose last part is the sum of the whole row. SQLite keeps such an
//! index up with every write, whatever statement makes it, and `PRAGMA integrity_check` works each sum out anew. Readers see
//! views in place of tables, which leave out what is damaged ([`guard`]). No statement has to know.
//!
//! The indexes follow from the tables: a migration that adds a column changes the sums of its table at the next start.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};
use tracing::error;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The sum of a row as its index keeps it.
const SUM: &str = "row_sum";

/// The same, which no index knows: SQLite works it out from the row.
const SUM_NOW: &str = "row_sum_now";

/// Compares the two.
const WHOLE: &str = "row_is_whole";

/// Tables whose rows are compared whenever they are read: what people are shown or let in by.
const GUARDED: [&str; 16] = [
    "api_key",
    "document",
    "episode",
    "fact",
    "fact_event",
    "fact_statement",
    "fact_undo",
    "fact_undone",
    "memory_answer",
    "original",
    "outbox",
    "passage",
    "recall_trace",
    "session",
    "tenant",
    "topic",
];

/// Damaged rows that are told one by one.
const TOLD_MAX: usize = 1_000;

/// What the names of the indexes begin with.
const NAME: &str = "sum_of_";

/// Lists of what there is to do hold nothing but keys of turns; [`super::examine`] compares them with those.
const LISTS: &str = "%\\_todo";

/// Teaches a connection to sum rows. Without that nobody can write to a data file.
pub(super) fn teach(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function(SUM, -1, flags, |context| Ok(sum(context)))?;
    db.create_scalar_function(SUM_NOW, -1, flags, |context| Ok(sum(context)))?;
    db.create_scalar_function(WHOLE, 4, flags, whole)
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

    /// What readers see in place of the table: its rows that are what was written. A row that was damaged and written again since
    /// has two sums, and is not.
    fn view(&self) -> String {
        let Self { table, names, columns } = self;
        let same: Vec<String> = names.iter().map(|name| format!("kept.{name} = {table}.{name}")).collect();
        let of = |prefix: &str| columns.iter().map(|c| format!("{prefix}.{c}")).collect::<Vec<_>>().join(", ");
        format!(
            "CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} AS {table} WHERE {WHOLE}('{table}', {table}.{name},
                (SELECT iif(count(*) = 1, max({SUM}({kept})), NULL) FROM main.{table} AS kept INDEXED BY {index} WHERE {same}),
                {SUM_NOW}({now}));",
            name = names[0],
            index = self.index(),
            same = same.join(" AND "),
            kept = of("kept"),
            now = of(table),
        )
    }
}

/// Has a reading connection see nothing but rows that are what was written. Turns, their revisions and blocks are looked at by
/// whoever decodes them; what recall derived is no text.
pub(super) fn guard(db: &Connection) -> Result<()> {
    let views: String = summed(db)?.iter().filter(|table| GUARDED.contains(&&*table.table)).map(Summed::view).collect();
    db.execute_batch(&format!("PRAGMA query_only = OFF; {views} PRAGMA query_only = ON;"))
}

/// Whether a row is what was written. Who reads damage tells the log, once for each row.
fn whole(context: &Context<'_>) -> Result<bool> {
    let (kept, now) = (context.get_raw(2).as_i64().ok(), context.get_raw(3).as_i64().ok());
    if kept.is_some() && kept == now {
        return Ok(true);
    }
    let table = context.get_raw(0).as_str().unwrap_or_default().to_owned();
    let row = match context.get_raw(1) {
        ValueRef::Integer(key) => key.to_string(),
        ValueRef::Text(name) => String::from_utf8_lossy(name).into_owned(),
        _ => "with no name".to_owned(),
    };
    let told = format!("row {row} of table `{table}` is damaged; `recalld verify` says more");
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).add(&table, &row) {
        error!("{told}");
    }
    // A conversation that is left out would be begun anew, so whoever looks for it is told.
    if table == "session" { Err(Error::UserFunctionError(told.into())) } else { Ok(false) }
}

/// Damage that the log was told of.
static TOLD: LazyLock<Mutex<Told>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Told(HashSet<u64>);

impl Told {
    /// Whether it is new, and there is room to remember it.
    fn add(&mut self, table: &str, row: &str) -> bool {
        self.0.len() < TOLD_MAX && self.0.insert(xxh3_64(format!("{table} {row}").as_bytes()))
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
    let held =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<Vec<(String, String)>>>()?;
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
