//! Statements and facts as rows.

use uuid::Uuid;

use super::super::connect::meaning;
use super::super::sql::{self, Connection, OptionalExtension, Row, ToSql, params};
use crate::clock::from_micros;
use crate::fact::{Act, Category, Evidence, Fact, Key, Maker, Statement, Status};
use crate::id::{FactId, MessageId, SessionId};
use crate::scope::Scope;
use crate::store::StoreError;

/// A user's facts about one name, its items included: they change together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Family {
    pub(super) category: Category,
    pub(super) name: String,
}

impl Family {
    pub(super) fn of(key: &Key) -> Self {
        Self { category: key.category, name: key.name.clone() }
    }

    pub(super) fn read(row: &Row<'_>, first: usize) -> sql::Result<Self> {
        Ok(Self { category: category(row, first)?, name: row.get(first + 1)? })
    }
}

/// A fact and where it is kept.
#[derive(Debug)]
pub(super) struct KeptFact {
    pub(super) key: i64,
    pub(super) fact: Fact,
    /// The statement that ended it.
    pub(super) ender: Option<i64>,
}

/// A statement and where it is kept; `order` is its key.
#[derive(Debug)]
pub(super) struct KeptStatement {
    pub(super) statement: Statement,
    /// Whether it has a say: shown, and not undone.
    pub(super) in_force: bool,
    /// The fact that it speaks for.
    pub(super) fact: Option<i64>,
}

/// The columns of a fact, in the order of [`read_fact`].
pub(super) const FACT: &str =
    "fact.key, fact.id, fact.category, fact.path, fact.value, fact.confidence, fact.importance,
     fact.status, fact.valid_from, fact.valid_to, fact.until_at, fact.learned_at, fact.message, fact.session,
     fact.said_at, fact.quote, fact.last_said_at, fact.confirmations, fact.ended_by, fact.ender";

/// The first column behind [`FACT`].
pub(super) const AFTER_FACT: usize = 20;

pub(super) fn read_fact(row: &Row<'_>) -> sql::Result<KeptFact> {
    let fact = Fact {
        id: FactId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        key: key(row, 2)?,
        value: row.get(4)?,
        confidence: row.get(5)?,
        importance: row.get(6)?,
        status: status(row, 7)?,
        valid_from: from_micros(row.get(8)?),
        valid_to: time(row, 9)?,
        until: time(row, 10)?,
        learned_at: from_micros(row.get(11)?),
        evidence: evidence(row, 12)?,
        last_said_at: from_micros(row.get(16)?),
        confirmations: row.get(17)?,
        ended_by: message(row, 18)?,
    };
    Ok(KeptFact { key: row.get(0)?, fact, ender: row.get(19)? })
}

/// The columns of a statement, in the order of [`read_statement`].
pub(super) const STATEMENT: &str =
    "said.key, said.id, said.category, said.path, said.value, said.act, said.confidence, said.importance,
     said.from_at, said.until_at, said.message, said.session, said.said_at, said.quote, said.maker, said.standing,
     said.learned_at, said.also, said.fact,
     said.shown = 1 AND NOT EXISTS (
         SELECT 1 FROM fact_undone AS undone CROSS JOIN fact_undo AS undo ON undo.key = undone.undo
         WHERE undone.what IN (said.id, said.message) AND undo.in_force = 1
           AND undo.tenant = said.tenant AND undo.user = said.user)";

/// The first column behind [`STATEMENT`].
pub(super) const AFTER_STATEMENT: usize = 20;

pub(super) fn read_statement(row: &Row<'_>) -> sql::Result<KeptStatement> {
    let statement = Statement {
        order: row.get(0)?,
        id: FactId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        key: key(row, 2)?,
        value: row.get(4)?,
        act: Act::parse(row.get_ref(5)?.as_str()?).unwrap_or(Act::State),
        confidence: row.get(6)?,
        importance: row.get(7)?,
        from: time(row, 8)?,
        until: time(row, 9)?,
        evidence: evidence(row, 10)?,
        // The database checks the words.
        maker: Maker::parse(row.get_ref(14)?.as_str()?).unwrap_or(Maker::Builtin),
        standing: status(row, 15)?,
        learned_at: from_micros(row.get(16)?),
        also: row.get(17)?,
    };
    Ok(KeptStatement { statement, fact: row.get(18)?, in_force: row.get(19)? })
}

fn key(row: &Row<'_>, first: usize) -> sql::Result<Key> {
    Ok(Key::from_path(category(row, first)?, row.get_ref(first + 1)?.as_str()?))
}

/// The database checks the word.
fn category(row: &Row<'_>, at: usize) -> sql::Result<Category> {
    Ok(Category::parse(row.get_ref(at)?.as_str()?).unwrap_or(Category::Identity))
}

/// Likewise. What cannot be read is not told.
pub(super) fn status(row: &Row<'_>, at: usize) -> sql::Result<Status> {
    Ok(Status::parse(row.get_ref(at)?.as_str()?).unwrap_or(Status::Quarantined))
}

fn evidence(row: &Row<'_>, first: usize) -> sql::Result<Evidence> {
    let session: Option<[u8; 16]> = row.get(first + 1)?;
    Ok(Evidence {
        message: message(row, first)?,
        session: session.map(|bytes| SessionId::from_uuid(Uuid::from_bytes(bytes))),
        said_at: from_micros(row.get(first + 2)?),
        quote: row.get(first + 3)?,
    })
}

pub(super) fn message(row: &Row<'_>, at: usize) -> sql::Result<Option<MessageId>> {
    let bytes: Option<[u8; 16]> = row.get(at)?;
    Ok(bytes.map(|bytes| MessageId::from_uuid(Uuid::from_bytes(bytes))))
}

fn time(row: &Row<'_>, at: usize) -> sql::Result<Option<jiff::Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(from_micros))
}

/// The bytes of an id that may be missing.
pub(super) fn bytes(uuid: Option<&Uuid>) -> Option<&[u8]> {
    uuid.map(|uuid| &uuid.as_bytes()[..])
}

/// Looks a fact up.
pub(super) fn find(db: &Connection, scope: &Scope, id: FactId) -> Result<Option<KeptFact>, StoreError> {
    let sql = format!("SELECT {FACT} FROM fact WHERE tenant = ?1 AND user = ?2 AND id = ?3");
    let values = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    statement.query_row(values, read_fact).optional().map_err(|error| meaning(&error))
}

/// All rows of a query.
pub(super) fn all<T>(
    db: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnMut(&Row<'_>) -> sql::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}
