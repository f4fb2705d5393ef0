//! Moving a data file into a database: every table, row by row, with the keys that it has.
//!
//! One transaction: the database has everything of the file, or is as it was. Before that ends, what arrived is read back and
//! compared with the file, by counts and by a digest of every row.
//!
//! The tables are those of both schemas; one that is added to both later is moved, too. What the database has beside is the tenant of
//! each row (`home`), which follows from the row that it belongs to.

use rusqlite::types::Value;
use tokio_postgres::types::Type;
use xxhash_rust::xxh3::Xxh3;

use super::connect::{PostgresSettings, Who, connect, meaning};
use super::schema::{AT_HOME, BY_TENANT};
use super::sql::{Connection, ValueRef};
use super::value::Param;
use super::{Postgres, on_a_thread};
use crate::store::StoreError;
use crate::store::sqlite::Sqlite;

/// Tables in an order in which every row finds those that it names.
const ORDER: [&str; 35] = [
    "tenant",
    "api_key",
    "recall_made_with",
    "recall_embedder",
    "session",
    "turn",
    "place",
    "revision",
    "recall_row",
    "recall_vector",
    "recall_trace",
    "recall_row_todo",
    "recall_vector_todo",
    "topic_todo",
    "fact_todo",
    "job",
    "episode",
    "topic",
    "topic_sketch",
    "topic_turn",
    "block",
    "memory_spent",
    "memory_answer",
    "fact",
    "fact_statement",
    "fact_undo",
    "fact_event",
    "fact_undone",
    "fact_refused",
    "fact_erased",
    "idempotent_request",
    "knowledge",
    "document",
    "original",
    "passage",
];

/// Last, because it is guarded in a way of its own.
const OUTBOX: &str = "outbox";

/// What was moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MovedIn {
    /// How many rows of each table.
    pub rows: Vec<(String, u64)>,
    /// Whether the secret of the keys came along.
    pub secret: bool,
}

/// Columns that say whose a row is, where the file leaves that to another row.
fn home(table: &str) -> Option<&'static str> {
    match table {
        "turn" | "block" | "job" => Some("(SELECT s.tenant FROM session AS s WHERE s.key = it.session)"),
        "place" | "revision" | "recall_row" | "recall_vector" | "recall_trace" | "recall_row_todo"
        | "recall_vector_todo" | "topic_todo" | "fact_todo" | "topic_turn" | "fact_refused" => {
            Some("(SELECT s.tenant FROM turn AS t JOIN session AS s ON s.key = t.session WHERE t.key = it.turn)")
        }
        "topic_sketch" => Some("(SELECT t.tenant FROM topic AS t WHERE t.key = it.topic)"),
        "fact_event" => Some("(SELECT f.tenant FROM fact AS f WHERE f.key = it.fact)"),
        "fact_undone" => Some("(SELECT u.tenant FROM fact_undo AS u WHERE u.key = it.undo)"),
        "original" | "passage" => Some("(SELECT d.tenant FROM document AS d WHERE d.key = it.document)"),
        _ => None,
    }
}

impl Postgres {
    /// Moves everything of a data file, which this process has open, into an empty database. `told` hears of each table.
    pub async fn move_in(
        settings: PostgresSettings,
        data: std::path::PathBuf,
        told: impl Fn(&str, u64) + Send + 'static,
    ) -> Result<MovedIn, StoreError> {
        Self::migrate(settings.clone()).await?;
        on_a_thread(move || {
            let file = Sqlite::bare_reader(&data)?;
            let db = connect(&settings, Who::Owner, "move-in")?;
            db.batch("BEGIN").map_err(|error| meaning(&error))?;
            let moved = move_all(&file, &db, &settings.schema, &data, &told)?;
            db.batch("COMMIT").map_err(|error| meaning(&error))?;
            Ok(moved)
        })
        .await
    }
}

fn move_all(
    file: &rusqlite::Connection,
    db: &Connection,
    schema: &str,
    data: &std::path::Path,
    told: &dyn Fn(&str, u64),
) -> Result<MovedIn, StoreError> {
    file.execute_batch("BEGIN").map_err(|error| unread(&error))?;
    let tables = tables_of(file)?;
    check_empty(db, &tables)?;
    let mut moved = MovedIn::default();
    open_up(db, &tables)?;
    for table in &tables {
        let plan = Plan::of(file, db, schema, table)?;
        let sent = send(file, db, &plan, told)?;
        let arrived = arrived(db, &plan)?;
        if sent != arrived {
            let told =
                format!("{} rows of `{table}` were sent and {} arrived, or not as they were", sent.rows, arrived.rows);
            return Err(StoreError::Refused(format!("{told}; nothing was moved")));
        }
        moved.rows.push((table.clone(), sent.rows));
    }
    moved.secret = finish(file, db, data, &tables)?;
    close_again(db, &tables)?;
    Ok(moved)
}

/// The tables of the file, in order. One that this list does not know would be left behind, so it is an error.
fn tables_of(file: &rusqlite::Connection) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> 'access'";
    let mut statement = file.prepare(sql).map_err(|error| unread(&error))?;
    let found: Vec<String> =
        statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(|error| unread(&error))?;
    let known = || ORDER.into_iter().chain([OUTBOX]);
    match found.iter().find(|table| !known().any(|known| known == *table)) {
        Some(table) => Err(StoreError::Refused(format!("it is not known how table `{table}` is moved"))),
        None => Ok(known().filter(|known| found.iter().any(|table| table == known)).map(str::to_owned).collect()),
    }
}

/// A database that somebody uses, or that has something already, is left alone.
fn check_empty(db: &Connection, tables: &[String]) -> Result<(), StoreError> {
    let sql = "SELECT count(*) FROM instance WHERE seen_at > now() - interval '60 seconds'";
    let using: i64 = db.query_row(sql, [], |row| row.get(0)).map_err(|error| meaning(&error))?;
    if using > 0 {
        return Err(StoreError::Refused("a server uses this database, or did a minute ago; stop it first".into()));
    }
    // Notes of what a database was made with are no content; they are replaced.
    for table in tables.iter().filter(|table| !table.starts_with("recall_made") && *table != "recall_embedder") {
        let sql = format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY");
        db.batch(&sql).map_err(|error| meaning(&error))?;
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        if db.query_row(&sql, [], |row| row.get(0)).map_err(|error| meaning(&error))? {
            let told =
                format!("the database is not empty: table `{table}` has rows; name an empty one, or another schema");
            return Err(StoreError::Refused(told));
        }
    }
    Ok(())
}

/// Nobody else looks at the tables until this is over, so that their guards and triggers are not needed: every row says itself whose
/// it is, and what triggers would derive is moved.
fn open_up(db: &Connection, tables: &[String]) -> Result<(), StoreError> {
    db.batch("DELETE FROM recall_made_with; DELETE FROM recall_embedder; DELETE FROM known_tenant;")
        .map_err(|error| meaning(&error))?;
    for table in tables {
        db.batch(&format!("ALTER TABLE {table} DISABLE TRIGGER USER")).map_err(|error| meaning(&error))?;
    }
    Ok(())
}

fn close_again(db: &Connection, tables: &[String]) -> Result<(), StoreError> {
    for table in tables {
        let guarded = AT_HOME.contains(&table.as_str())
            || BY_TENANT.contains(&table.as_str())
            || ["fact_refused", OUTBOX].contains(&table.as_str());
        let force = if guarded { format!("ALTER TABLE {table} FORCE ROW LEVEL SECURITY;") } else { String::new() };
        db.batch(&format!("ALTER TABLE {table} ENABLE TRIGGER USER; {force}")).map_err(|error| meaning(&error))?;
    }
    Ok(())
}

/// How a table is moved.
struct Plan {
    table: String,
    /// The columns as both name them.
    columns: Vec<String>,
    types: Vec<Type>,
    /// What the file is asked for: the columns, in order.
    asked: String,
}

impl Plan {
    fn of(file: &rusqlite::Connection, db: &Connection, schema: &str, table: &str) -> Result<Self, StoreError> {
        let mut statement = file.prepare("SELECT name FROM pragma_table_info(?1)").map_err(|error| unread(&error))?;
        let held: Vec<String> = statement
            .query_map([table], |row| row.get(0))
            .and_then(Iterator::collect)
            .map_err(|error| unread(&error))?;
        let wanted = db.columns(&format!("{schema}.{table}")).map_err(|error| meaning(&error))?;
        if let Some(missing) = held.iter().find(|name| !wanted.iter().any(|(wanted, _)| wanted == *name)) {
            let told =
                format!("the database has no column `{missing}` in `{table}`; run `recalld migrate` of this version");
            return Err(StoreError::Refused(told));
        }
        let (mut columns, mut types, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for (name, kind) in wanted {
            let from = match (held.contains(&name), home(table).filter(|_| name == "home")) {
                (true, _) => format!("it.\"{name}\""),
                (false, Some(home)) => home.to_owned(),
                // Which process does something: none does.
                (false, None) => continue,
            };
            asked.push(from);
            columns.push(name);
            types.push(kind);
        }
        let asked = format!("SELECT {} FROM {table} AS it NOT INDEXED", asked.join(", "));
        Ok(Self { table: table.to_owned(), columns, types, asked })
    }

    fn names(&self) -> String {
        self.columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    }
}

/// Rows, and what they come to in whatever order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    rows: u64,
    sum: u128,
}

impl Tally {
    fn add<'a>(&mut self, row: impl Iterator<Item = Cell<'a>>) {
        let mut hash = Xxh3::new();
        row.for_each(|cell| cell.hash(&mut hash));
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash.digest128());
    }
}

/// A value as both databases have it: what is text in one may be bytes in the other.
enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Bytes(&'a [u8]),
}

impl Cell<'_> {
    fn hash(&self, hash: &mut Xxh3) {
        match self {
            Self::Null => hash.update(b"n"),
            Self::Integer(value) => {
                hash.update(b"i");
                hash.update(&value.to_le_bytes());
            }
            Self::Real(value) => {
                hash.update(b"r");
                hash.update(&value.to_bits().to_le_bytes());
            }
            Self::Bytes(bytes) => {
                hash.update(b"b");
                hash.update(&(bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
        }
    }
}

fn cell(value: &Value) -> Cell<'_> {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(value) => Cell::Integer(*value),
        Value::Real(value) => Cell::Real(*value),
        Value::Text(text) => Cell::Bytes(text.as_bytes()),
        Value::Blob(bytes) => Cell::Bytes(bytes),
    }
}

fn param(value: &Value) -> Param<'_> {
    match value {
        Value::Null => Param::Null,
        Value::Integer(value) => Param::Integer(*value),
        Value::Real(value) => Param::Real(*value),
        Value::Text(text) => Param::Bytes(text.as_bytes()),
        Value::Blob(bytes) => Param::Bytes(bytes),
    }
}

/// Rows between two words about how far it is.
const TOLD_EVERY: u64 = 10_000;

fn send(
    file: &rusqlite::Connection,
    db: &Connection,
    plan: &Plan,
    told: &dyn Fn(&str, u64),
) -> Result<Tally, StoreError> {
    let mut statement = file.prepare(&plan.asked).map_err(|error| unread(&error))?;
    let mut rows = statement.query([]).map_err(|error| unread(&error))?;
    let (mut tally, width) = (Tally::default(), plan.columns.len());
    let mut broken = None;
    let next = || {
        let row = rows.next().and_then(|row| row.map(|row| (0..width).map(|n| row.get(n)).collect()).transpose());
        let row: Option<Vec<Value>> = row.unwrap_or_else(|error| {
            broken = Some(unread(&error));
            None
        });
        if let Some(row) = &row {
            tally.add(row.iter().map(cell));
            if tally.rows.is_multiple_of(TOLD_EVERY) {
                told(&plan.table, tally.rows);
            }
        }
        row
    };
    let sql = format!("COPY {} ({}) FROM STDIN BINARY", plan.table, plan.names());
    db.copy_in(&sql, &plan.types, next, param).map_err(|error| meaning(&error))?;
    told(&plan.table, tally.rows);
    broken.map_or(Ok(tally), Err)
}

/// What the database has of a table now.
fn arrived(db: &Connection, plan: &Plan) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    let sql = format!("SELECT {} FROM {}", plan.names(), plan.table);
    let width = plan.columns.len();
    db.each_row(&sql, |row| {
        let cells: Vec<ValueRef<'_>> = (0..width).map(|n| row.get_ref(n)).collect::<super::sql::Result<_>>()?;
        tally.add(cells.into_iter().map(|value| match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Integer(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Bytes(bytes),
        }));
        Ok(())
    })
    .map_err(|error| meaning(&error))?;
    Ok(tally)
}

/// Who there is, and what the doors are opened with. Answers whether the secret of the keys came along.
fn finish(
    file: &rusqlite::Connection,
    db: &Connection,
    data: &std::path::Path,
    tables: &[String],
) -> Result<bool, StoreError> {
    for table in tables.iter().filter(|table| BY_TENANT.contains(&table.as_str()) || *table == OUTBOX) {
        let sql = format!("INSERT INTO known_tenant SELECT DISTINCT tenant FROM {table} ON CONFLICT DO NOTHING");
        db.batch(&sql).map_err(|error| meaning(&error))?;
    }
    db.batch("INSERT INTO known_tenant SELECT name FROM tenant ON CONFLICT DO NOTHING")
        .map_err(|error| meaning(&error))?;
    let version: i64 =
        file.query_row("SELECT version FROM access", [], |row| row.get(0)).map_err(|error| unread(&error))?;
    let secret = Sqlite::secret_of(data);
    let sql = "UPDATE access SET version = ?1, secret = ?2";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.execute(super::sql::params![version, secret]).map_err(|error| meaning(&error))?;
    Ok(secret.is_some())
}

fn unread(error: &rusqlite::Error) -> StoreError {
    StoreError::Disk(format!("the data file cannot be read: {error}"))
}
