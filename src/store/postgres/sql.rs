//! What the statements beside `sqlite` are run with here: a connection that is spoken to as they speak to theirs.
//!
//! A connection belongs to one thread at a time and waits there for each answer; nothing a client does can interrupt it half-way.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql as Encode, Type};
use tokio_postgres::{Client, Statement};

use super::connect::{cut_off, meaning};
use super::dialect::translate;
use super::failure::Failure;
use super::pipeline::Pipeline;
use super::value::Owned;
pub(super) use super::value::{Param, Read, ToSql, ValueRef};
use crate::store::StoreError;

/// Bytes of everything that is kept.
pub(super) const BYTES: &str = "SELECT pg_database_size(current_database())";

/// Everything that belongs to a tenant says so in a column of this name; a table that is added later is found, too. What tells others
/// of changes comes last, because the others' going is told there.
pub(super) const TABLES_WITH_TENANTS: &str = "SELECT table_name::text FROM information_schema.columns
     WHERE table_schema = current_schema() AND column_name = 'tenant' AND table_name <> 'session'
     ORDER BY table_name LIKE 'scope%', table_name";

/// The same for users.
pub(super) const TABLES_WITH_USERS: &str = "SELECT table_name::text FROM information_schema.columns
     WHERE table_schema = current_schema() AND column_name = 'user' ORDER BY table_name LIKE 'scope%', table_name";

/// Everybody who may have something.
pub(super) const TENANTS: &str = "SELECT name FROM known_tenant UNION SELECT name FROM tenant
     UNION SELECT tenant FROM api_key WHERE tenant IS NOT NULL";

/// The job that is to be done first, and whose it is.
pub(super) const FIRST_DUE: &str =
    "SELECT key, home FROM job WHERE state <> 'dead' AND run_at <= ?1 ORDER BY run_at, key LIMIT 1";

/// The same for whoever takes it: what somebody else is about to take is passed over.
pub(super) const TAKE_FIRST_DUE: &str =
    "SELECT key, home FROM job WHERE state <> 'dead' AND run_at <= ?1 ORDER BY run_at, key LIMIT 1
     FOR UPDATE SKIP LOCKED";

/// Frees the jobs that this process was doing; those of others are theirs until their leases lapse.
pub(super) const RELEASE: &str = "UPDATE job SET state = 'queued', run_at = 0
     WHERE state = 'running' AND owner = current_setting('recalld.instance', true)";

/// The same for webhooks that it was sending.
pub(super) const RELEASE_PARCELS: &str = "UPDATE outbox SET state = 'queued', run_at = 0
     WHERE state = 'running' AND owner = current_setting('recalld.instance', true)";

/// What is said behind a query for whoever takes what it finds: what somebody else is about to take is passed over.
pub(super) const SKIPPING_TAKEN: &str = "FOR UPDATE SKIP LOCKED";

/// Turns that nobody will answer any more: whoever was to do so has not been seen for a while, or asks.
pub(super) const ABANDONED: &str = "turn.status = 'pending' AND (
     turn.owner = current_setting('recalld.instance', true) OR NOT EXISTS (
        SELECT 1 FROM instance WHERE instance.id = turn.owner AND instance.seen_at > now() - interval '60 seconds'))";

/// Turns of another process that has not been seen for a while, for one that was: else it may have been the database that was away.
pub(super) const DESERTED: &str = "turn.status = 'pending'
     AND EXISTS (SELECT 1 FROM instance WHERE id = current_setting('recalld.instance', true)
         AND seen_at > now() - interval '30 seconds')
     AND NOT EXISTS (SELECT 1 FROM instance WHERE instance.id = turn.owner
         AND instance.seen_at > now() - interval '60 seconds')";

/// Room that rows left is used again once PostgreSQL has vacuumed.
pub(super) fn close_ranks(_: &Connection, _turns: impl Iterator<Item = i64>) -> std::result::Result<(), StoreError> {
    Ok(())
}

/// No values are taken down to plan queries by: see `schema_4.sql`.
pub(super) fn forget_samples(_: &Connection) -> std::result::Result<(), StoreError> {
    Ok(())
}

/// Removes the name of a tenant that is gone.
pub(super) fn forget_tenant(db: &Connection, tenant: &str) -> std::result::Result<(), StoreError> {
    super::session::execute(db, "DELETE FROM known_tenant WHERE name = ?1", [tenant]).map(drop)
}

/// Notes in the book that an erasure was carried out.
pub(super) fn erasure_done(db: &Connection, line: u64) -> std::result::Result<(), StoreError> {
    super::book::done(db, line)
}

/// Begins to look at a tenant's rows, for the rest of the transaction.
pub(super) fn enter(db: &Connection, tenant: &str) -> std::result::Result<(), StoreError> {
    let set = "SELECT set_config('recalld.tenant', ?1, true)";
    db.query_row(set, [tenant], |_| Ok(())).map_err(|error| meaning(&error))
}

/// Runs a statement of whose answer nothing is needed; what goes wrong is told later, at the latest with COMMIT.
pub(super) fn send(db: &Connection, sql: &str, values: impl Params) -> Result<()> {
    db.send(sql, values)
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[allow(clippy::enum_variant_names, reason = "the statements name it as rusqlite does")]
pub(super) enum Error {
    /// PostgreSQL says so, or cannot be heard.
    #[error("{}", told(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// No answer came in time.
    #[error("the database did not answer within {0:?}")]
    Late(Duration),
    /// The database went away while an answer was awaited.
    #[error("the database went away before it answered")]
    CutOff,
    /// There was no row.
    #[error("there is no such row")]
    NoRow,
    /// Something else was in a column.
    #[error("{0}")]
    Unexpected(String),
    /// A value that cannot be what it says.
    #[error("{0}")]
    UserFunctionError(Box<dyn std::error::Error + Send + Sync>),
}

/// The words of the server, which say more than those of the client.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

/// What running a statement comes to.
pub(super) type Result<T> = std::result::Result<T, Error>;

/// Finding nothing is no failure.
pub(super) trait OptionalExtension<T> {
    /// What was found, if anything.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The values of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::store::postgres::sql::ToSql),*] as &[&dyn $crate::store::postgres::sql::ToSql]
    };
}
pub(super) use params;

/// Values in the forms that they come in.
pub(super) trait Params {
    /// All of them.
    fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T>;
}

impl Params for &[&dyn ToSql] {
    fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
        let params: Vec<Param<'_>> = self.iter().map(|value| value.param()).collect::<Result<_>>()?;
        work(&params)
    }
}

impl Params for &Vec<&dyn ToSql> {
    fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
        self.as_slice().with(work)
    }
}

impl Params for [&(dyn ToSql + Send + Sync); 0] {
    fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
        work(&[])
    }
}

macro_rules! arrays {
    ($($length:literal),*) => {$(
        impl<V: ToSql> Params for [V; $length] {
            fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
                let params: Vec<Param<'_>> = self.iter().map(ToSql::param).collect::<Result<_>>()?;
                work(&params)
            }
        }
    )*};
}
arrays!(1, 2, 3);

impl<A: ToSql, B: ToSql> Params for (A, B) {
    fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
        work(&[self.0.param()?, self.1.param()?])
    }
}

impl<A: ToSql, B: ToSql, C: ToSql> Params for (A, B, C) {
    fn with<T>(&self, work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
        work(&[self.0.param()?, self.1.param()?, self.2.param()?])
    }
}

/// The words of a statement, and the types of its values.
type Asked = (String, Vec<u8>);
/// It as the server has it, and whether it tells a new row's key.
type Prepared = (Statement, bool);

/// A connection, with the thread's own small runtime that it is driven by.
pub(super) struct Connection {
    runtime: Option<Runtime>,
    client: Arc<Client>,
    pipeline: Pipeline,
    /// Prepared statements, by their words and the types of their values.
    prepared: RefCell<HashMap<Asked, Prepared>>,
    last_key: Cell<i64>,
    patience: Duration,
    /// Tells when the database goes away.
    cut: RefCell<Option<watch::Receiver<bool>>>,
    failure: Cell<Failure>,
    #[cfg(test)]
    blind: Option<Arc<super::blind::Blind>>,
}

/// Most statements that a connection keeps prepared.
const PREPARED_MAX: usize = 512;

impl Connection {
    pub(super) fn new(
        runtime: Runtime,
        client: Client,
        patience: Duration,
        cut: Option<watch::Receiver<bool>>,
    ) -> Self {
        let (prepared, last_key, failure) = (RefCell::default(), Cell::new(0), Cell::default());
        let (runtime, client, pipeline) = (Some(runtime), Arc::new(client), Pipeline::default());
        Self {
            runtime,
            client,
            pipeline,
            prepared,
            last_key,
            patience,
            cut: RefCell::new(cut),
            failure,
            #[cfg(test)]
            blind: None,
        }
    }

    /// For tests: a connection that may forget to say whose rows are meant.
    #[cfg(test)]
    pub(super) fn with_blind(mut self, blind: Option<Arc<super::blind::Blind>>) -> Self {
        self.blind = blind;
        self
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a connection has its runtime until it is dropped")
    }

    /// Waits for an answer, but not for ever.
    fn wait<T>(&self, answer: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>) -> Result<T> {
        let answer = self.pipeline.and(answer);
        let mut cut = self.cut.borrow_mut();
        let answer = self.runtime().block_on(async {
            tokio::select! {
                answer = tokio::time::timeout(self.patience, answer) => match answer {
                    Ok(answer) => answer.map_err(Error::from),
                    Err(_) => Err(Error::Late(self.patience)),
                },
                () = cut_off(&mut cut) => Err(Error::CutOff),
            }
        });
        answer.inspect_err(|error| self.note(error))
    }

    fn note(&self, error: &Error) {
        let failure = match error {
            Error::Late(_) | Error::CutOff => Failure::Lost,
            Error::Postgres(error) => Failure::of(error),
            _ => Failure::None,
        };
        if failure != Failure::None {
            self.failure.set(failure);
        }
    }

    /// What became of it since this was asked last.
    pub(super) fn failure(&self) -> Failure {
        if self.client.is_closed() { Failure::Lost } else { self.failure.get() }
    }

    /// Forgets failures of the past.
    pub(super) fn fresh_start(&self) {
        self.failure.set(Failure::None);
    }

    /// Runs statements without values.
    pub(super) fn batch(&self, sql: &str) -> Result<()> {
        self.wait(self.client.batch_execute(sql))
    }

    /// Runs a statement without waiting for its answer. One that tells a new row's key is waited for.
    fn send(&self, sql: &str, values: impl Params) -> Result<()> {
        values.with(|values| {
            let (statement, tells_key) = self.statement(sql, values)?;
            if tells_key {
                return self.run_prepared(&statement, true, values).map(drop);
            }
            let (client, values) = (Arc::clone(&self.client), values.iter().map(Param::owned).collect::<Vec<Owned>>());
            let answer = async move {
                let values: Vec<&(dyn Encode + Sync)> = values.iter().map(|value| value as _).collect();
                client.execute(&statement, &values).await.map(drop)
            };
            if self.pipeline.send(answer) { self.wait(async { Ok(()) }) } else { Ok(()) }
        })
    }

    /// The columns of a table, and their types.
    pub(super) fn columns(&self, table: &str) -> Result<Vec<(String, Type)>> {
        let statement = self.wait(self.client.prepare(&format!("SELECT * FROM {table}")))?;
        Ok(statement.columns().iter().map(|column| (column.name().to_owned(), column.type_().clone())).collect())
    }

    /// Sends rows to a table as they come.
    pub(super) fn copy_in<T>(
        &self,
        sql: &str,
        types: &[Type],
        mut next: impl FnMut() -> Option<Vec<T>>,
        param: fn(&T) -> Param<'_>,
    ) -> Result<u64> {
        self.wait(async {
            let writer = BinaryCopyInWriter::new(self.client.copy_in(sql).await?, types);
            let mut writer = std::pin::pin!(writer);
            while let Some(row) = next() {
                let params: Vec<Param<'_>> = row.iter().map(param).collect();
                let params: Vec<&(dyn Encode + Sync)> = params.iter().map(|value| value as _).collect();
                writer.as_mut().write(&params).await?;
            }
            writer.finish().await
        })
    }

    /// Reads rows as they come, however many.
    pub(super) fn each_row(&self, sql: &str, mut read: impl FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        let mut outcome = Ok(());
        self.wait(async {
            let none: [&(dyn Encode + Sync); 0] = [];
            let rows = self.client.query_raw(sql, none).await?;
            let mut rows = std::pin::pin!(rows);
            while let Some(row) = rows.next().await {
                outcome = read(&Row::of(row?));
                if outcome.is_err() {
                    break;
                }
            }
            Ok(())
        })?;
        outcome
    }

    /// Runs statements without values and one with, without waiting; the first column of its row is told when it is known.
    pub(super) fn begin(&self, batch: &'static str, sql: &str, values: impl Params) -> Result<Arc<OnceLock<String>>> {
        values.with(|values| {
            let (statement, _) = self.statement(sql, values)?;
            let (client, told) = (Arc::clone(&self.client), Arc::new(OnceLock::new()));
            self.pipeline.send(async move { client.batch_execute(batch).await });
            let (client, values) = (Arc::clone(&self.client), values.iter().map(Param::owned).collect::<Vec<Owned>>());
            let tell = Arc::clone(&told);
            self.pipeline.send(async move {
                let values: Vec<&(dyn Encode + Sync)> = values.iter().map(|value| value as _).collect();
                let row = client.query_one(&statement, &values).await?;
                // Told once: nobody else holds it.
                let _ = tell.set(row.get(0));
                Ok(())
            });
            Ok(told)
        })
    }

    /// Ends a transaction that nothing is kept of. What follows on this connection waits for it, and nobody else.
    pub(super) fn end_reading(&self) {
        let client = Arc::clone(&self.client);
        self.pipeline.send(async move { client.batch_execute("ROLLBACK").await });
        // Once round the runtime and the words are on their way: the server must not be left in a transaction.
        self.runtime().block_on(tokio::task::yield_now());
    }

    fn statement(&self, sql: &str, values: &[Param<'_>]) -> Result<(Statement, bool)> {
        #[cfg(test)]
        let sql = &*self.blind.as_ref().map_or_else(|| sql.to_owned(), |blind| blind.asked(sql));
        let types: Vec<_> = values.iter().map(Param::wanted).collect();
        let is_null: Vec<bool> = values.iter().map(|value| matches!(value, Param::Null)).collect();
        let signature = types.iter().zip(&is_null).map(|(ty, null)| if *null { 0 } else { ty.oid() as u8 });
        let key = (sql.to_owned(), signature.collect::<Vec<u8>>());
        if let Some(prepared) = self.prepared.borrow().get(&key) {
            return Ok(prepared.clone());
        }
        let translated = translate(sql, &is_null);
        let statement = self.wait(self.client.prepare_typed(&translated.sql, &types))?;
        let mut prepared = self.prepared.borrow_mut();
        if prepared.len() >= PREPARED_MAX {
            prepared.clear();
        }
        prepared.insert(key, (statement.clone(), translated.tells_key));
        Ok((statement, translated.tells_key))
    }

    /// Runs a query that is made for one question, in PostgreSQL's own words: it is not kept prepared.
    pub(super) fn query_once(&self, sql: &str) -> Result<Vec<Row<'static>>> {
        Ok(self.wait(self.client.query(sql, &[]))?.into_iter().map(Row::of).collect())
    }

    fn rows(&self, sql: &str, values: impl Params) -> Result<Vec<tokio_postgres::Row>> {
        values.with(|values| {
            let (statement, _) = self.statement(sql, values)?;
            let values: Vec<&(dyn Encode + Sync)> = values.iter().map(|value| value as _).collect();
            self.wait(self.client.query(&statement, &values))
        })
    }

    /// Runs a statement and answers how many rows it changed.
    fn run(&self, sql: &str, values: impl Params) -> Result<usize> {
        values.with(|values| {
            let (statement, tells_key) = self.statement(sql, values)?;
            self.run_prepared(&statement, tells_key, values)
        })
    }

    fn run_prepared(&self, statement: &Statement, tells_key: bool, values: &[Param<'_>]) -> Result<usize> {
        let values: Vec<&(dyn Encode + Sync)> = values.iter().map(|value| value as _).collect();
        if !tells_key {
            let changed = self.wait(self.client.execute(statement, &values))?;
            return Ok(usize::try_from(changed).unwrap_or(usize::MAX));
        }
        let rows = self.wait(self.client.query(statement, &values))?;
        if let Some(row) = rows.last() {
            self.last_key.set(row.get(0));
        }
        Ok(rows.len())
    }

    /// The key of the row that was added last.
    pub(super) fn last_insert_rowid(&self) -> i64 {
        self.last_key.get()
    }

    /// A statement to be run. It is prepared when its values are known.
    pub(super) fn prepare_cached(&self, sql: &str) -> Result<CachedStatement<'_>> {
        Ok(CachedStatement { db: self, sql: sql.to_owned() })
    }

    /// The first row of a query.
    pub(super) fn query_row<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let first = self.rows(sql, values)?.into_iter().next().ok_or(Error::NoRow)?;
        read(&Row::of(first))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Dropping a runtime would wait for its tasks, which is not allowed where other futures run.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A statement to be run.
pub(super) struct CachedStatement<'a> {
    db: &'a Connection,
    sql: String,
}

impl CachedStatement<'_> {
    /// Runs it and answers how many rows it changed.
    pub(super) fn execute(&mut self, values: impl Params) -> Result<usize> {
        self.db.run(&self.sql, values)
    }

    /// The first row that it finds.
    pub(super) fn query_row<T>(&mut self, values: impl Params, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<T> {
        self.db.query_row(&self.sql, values, read)
    }

    /// What it finds.
    pub(super) fn query(&mut self, values: impl Params) -> Result<Rows> {
        Ok(Rows { rest: self.db.rows(&self.sql, values)?.into_iter(), current: None })
    }

    /// What it finds, read.
    pub(super) fn query_map<T, F>(&mut self, values: impl Params, read: F) -> Result<MappedRows<F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        Ok(MappedRows { rest: self.db.rows(&self.sql, values)?.into_iter(), read })
    }
}

/// Rows that were found, and how they are read.
pub(super) struct MappedRows<F> {
    rest: std::vec::IntoIter<tokio_postgres::Row>,
    read: F,
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for MappedRows<F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.rest.next().map(|row| (self.read)(&Row::of(row)))
    }
}

/// Rows that were found.
pub(super) struct Rows {
    rest: std::vec::IntoIter<tokio_postgres::Row>,
    current: Option<Row<'static>>,
}

impl Rows {
    /// The next one.
    pub(super) fn next(&mut self) -> Result<Option<&Row<'static>>> {
        self.current = self.rest.next().map(Row::of);
        Ok(self.current.as_ref())
    }
}

/// A row that was found.
pub(super) struct Row<'a> {
    row: tokio_postgres::Row,
    _of: PhantomData<&'a ()>,
}

/// Which column.
pub(super) trait Column {
    /// Its place.
    fn place(self) -> usize;
}

impl Column for usize {
    fn place(self) -> usize {
        self
    }
}

impl Row<'_> {
    fn of(row: tokio_postgres::Row) -> Self {
        Self { row, _of: PhantomData }
    }

    /// What is in a column.
    pub(super) fn get<C: Column, T: Read>(&self, column: C) -> Result<T> {
        T::read(self.get_ref(column.place())?)
    }

    /// The same, as it came.
    pub(super) fn get_ref(&self, column: usize) -> Result<ValueRef<'_>> {
        Ok(self.row.try_get(column)?)
    }
}
