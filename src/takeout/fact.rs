//! What is known about a user, as records: what was said under a name and the facts that follow, with their history; what was
//! undone, and what is not to be understood any more.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::line::{LineError, check_number};
use super::{is_false, is_none_left};
use crate::fact::{
    Act, Category, Evidence, Fact, Key, Maker, QUOTE_BYTES_MAX, Statement, Status, VALUE_BYTES_MAX, What,
};
use crate::id::{FactId, MessageId, SessionId, UndoId};

/// Something that is kept about what is known of a user.
#[derive(Debug, Clone, PartialEq)]
pub enum FactRecord {
    /// What a person undid.
    Undo(UndoRecord),
    /// A message that is not understood to say something any more.
    Unsaid(UnsaidRecord),
    /// Everything under one name.
    Known(KnownRecord),
}

/// What a person undid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// Its name.
    pub id: UndoId,
    /// When.
    pub at: Timestamp,
    /// Whether it is undone itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lifted: bool,
    /// Statements, or messages with all their statements.
    pub what: Vec<Uuid>,
}

/// A message that is not understood to say something any more: that was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsaidRecord {
    /// The message.
    pub message: MessageId,
    /// A hash of what it is about; never the words.
    pub about: i64,
}

/// Everything that was said under a name, and what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRecord {
    /// The kind.
    pub category: Category,
    /// The name, without items.
    pub name: String,
    /// What was said, in the order in which it was learned, and whether its message is shown.
    pub statements: Vec<(Statement, bool)>,
    /// The facts, each with the statement that ended it.
    pub facts: Vec<(Fact, Option<FactId>)>,
    /// What happened to them, oldest first.
    pub events: Vec<EventRecord>,
}

/// Something that happened to a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Which fact.
    pub fact: FactId,
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
    /// What it was afterwards.
    pub status: Status,
    /// Why, in a word.
    pub cause: String,
    /// The message that said so.
    pub message: Option<MessageId>,
    /// What was undone.
    pub undo: Option<UndoId>,
}

/// A record as written.
#[derive(Serialize, Deserialize)]
pub(super) struct KnownWire {
    category: String,
    name: String,
    facts: Vec<FactWire>,
    statements: Vec<StatementWire>,
    events: Vec<EventWire>,
}

#[derive(Serialize, Deserialize)]
struct SaidWire {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    said_at: Timestamp,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    quote: String,
}

#[derive(Serialize, Deserialize)]
struct StatementWire {
    id: FactId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    act: String,
    value: String,
    confidence: f64,
    importance: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(flatten)]
    said: SaidWire,
    made_by: String,
    standing: String,
    learned_at: Timestamp,
    /// How many others were counted instead of kept.
    #[serde(default, skip_serializing_if = "is_none_left")]
    also: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    hidden: bool,
}

#[derive(Serialize, Deserialize)]
struct FactWire {
    id: FactId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    value: String,
    status: String,
    confidence: f64,
    importance: f64,
    valid_from: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_to: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    learned_at: Timestamp,
    #[serde(flatten)]
    said: SaidWire,
    last_said_at: Timestamp,
    confirmations: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_by: Option<MessageId>,
    /// The statement that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ender: Option<FactId>,
}

#[derive(Serialize, Deserialize)]
struct EventWire {
    fact: FactId,
    at: Timestamp,
    what: String,
    status: String,
    cause: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undo: Option<UndoId>,
}

impl From<&KnownRecord> for KnownWire {
    fn from(record: &KnownRecord) -> Self {
        Self {
            category: record.category.as_str().to_owned(),
            name: record.name.clone(),
            facts: record.facts.iter().map(FactWire::from).collect(),
            statements: record.statements.iter().map(StatementWire::from).collect(),
            events: record.events.iter().map(EventWire::from).collect(),
        }
    }
}

impl From<&Evidence> for SaidWire {
    fn from(evidence: &Evidence) -> Self {
        let Evidence { message, session, said_at, quote } = evidence.clone();
        Self { message, session, said_at, quote }
    }
}

impl From<&(Statement, bool)> for StatementWire {
    fn from((said, shown): &(Statement, bool)) -> Self {
        Self {
            id: said.id,
            item: said.key.item.clone(),
            act: said.act.as_str().to_owned(),
            value: said.value.clone(),
            confidence: said.confidence,
            importance: said.importance,
            from: said.from,
            until: said.until,
            said: SaidWire::from(&said.evidence),
            made_by: said.maker.as_str().to_owned(),
            standing: said.standing.as_str().to_owned(),
            learned_at: said.learned_at,
            also: said.also,
            hidden: !shown,
        }
    }
}

impl From<&(Fact, Option<FactId>)> for FactWire {
    fn from((fact, ender): &(Fact, Option<FactId>)) -> Self {
        Self {
            id: fact.id,
            item: fact.key.item.clone(),
            value: fact.value.clone(),
            status: fact.status.as_str().to_owned(),
            confidence: fact.confidence,
            importance: fact.importance,
            valid_from: fact.valid_from,
            valid_to: fact.valid_to,
            until: fact.until,
            learned_at: fact.learned_at,
            said: SaidWire::from(&fact.evidence),
            last_said_at: fact.last_said_at,
            confirmations: fact.confirmations,
            ended_by: fact.ended_by,
            ender: *ender,
        }
    }
}

impl From<&EventRecord> for EventWire {
    fn from(event: &EventRecord) -> Self {
        Self {
            fact: event.fact,
            at: event.at,
            what: event.what.as_str().to_owned(),
            status: event.status.as_str().to_owned(),
            cause: event.cause.clone(),
            message: event.message,
            undo: event.undo,
        }
    }
}

fn word<T>(known: Option<T>, what: &str) -> Result<T, LineError> {
    known.ok_or_else(|| LineError::Shape(format!("its {what} is not known to this version")))
}

/// A share from 0 to 1.
fn share(value: f64, what: &str) -> Result<f64, LineError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(LineError::Shape(format!("its {what} is not from 0 to 1")))
    }
}

/// Words as short as ours are.
fn short(text: String, bytes_max: usize, what: &str) -> Result<String, LineError> {
    if text.len() <= bytes_max {
        Ok(text)
    } else {
        Err(LineError::Shape(format!("its {what} is longer than {bytes_max} bytes")))
    }
}

impl SaidWire {
    fn evidence(self) -> Result<Evidence, LineError> {
        let Self { message, session, said_at, quote } = self;
        Ok(Evidence { message, session, said_at, quote: short(quote, QUOTE_BYTES_MAX, "quote")? })
    }
}

impl StatementWire {
    fn statement(self, category: Category, name: &str) -> Result<(Statement, bool), LineError> {
        let shown = !self.hidden;
        check_number(self.also, "also")?;
        let statement = Statement {
            id: self.id,
            key: Key { category, name: name.to_owned(), item: self.item },
            value: short(self.value, VALUE_BYTES_MAX, "value")?,
            act: word(Act::parse(&self.act), "act")?,
            confidence: share(self.confidence, "confidence")?,
            importance: share(self.importance, "importance")?,
            from: self.from,
            until: self.until,
            evidence: self.said.evidence()?,
            maker: word(Maker::parse(&self.made_by), "maker")?,
            standing: word(Status::parse(&self.standing), "standing")?,
            learned_at: self.learned_at,
            order: 0,
            also: self.also,
        };
        match statement.standing {
            Status::Active | Status::Provisional | Status::Quarantined => Ok((statement, shown)),
            _ => Err(LineError::Shape("its standing is none that a statement can have".into())),
        }
    }
}

impl FactWire {
    fn fact(self, category: Category, name: &str) -> Result<(Fact, Option<FactId>), LineError> {
        check_number(self.confirmations, "confirmations")?;
        let fact = Fact {
            id: self.id,
            key: Key { category, name: name.to_owned(), item: self.item },
            value: short(self.value, VALUE_BYTES_MAX, "value")?,
            confidence: share(self.confidence, "confidence")?,
            importance: share(self.importance, "importance")?,
            status: word(Status::parse(&self.status), "status")?,
            valid_from: self.valid_from,
            valid_to: self.valid_to,
            until: self.until,
            learned_at: self.learned_at,
            evidence: self.said.evidence()?,
            last_said_at: self.last_said_at,
            confirmations: self.confirmations,
            ended_by: self.ended_by,
        };
        Ok((fact, self.ender))
    }
}

impl EventWire {
    fn event(self) -> Result<EventRecord, LineError> {
        Ok(EventRecord {
            fact: self.fact,
            at: self.at,
            what: word(What::parse(&self.what), "event")?,
            status: word(Status::parse(&self.status), "status")?,
            cause: short(self.cause, 32, "cause")?,
            message: self.message,
            undo: self.undo,
        })
    }
}

impl TryFrom<KnownWire> for KnownRecord {
    type Error = LineError;

    fn try_from(wire: KnownWire) -> Result<Self, LineError> {
        let category = word(Category::parse(&wire.category), "category")?;
        let name = short(wire.name, VALUE_BYTES_MAX, "name")?;
        if name.is_empty() || name.contains('/') {
            return Err(LineError::Shape("its name is none".into()));
        }
        let statements =
            wire.statements.into_iter().map(|said| said.statement(category, &name)).collect::<Result<_, _>>()?;
        let facts = wire.facts.into_iter().map(|fact| fact.fact(category, &name)).collect::<Result<_, _>>()?;
        let events = wire.events.into_iter().map(EventWire::event).collect::<Result<_, _>>()?;
        Ok(Self { category, name, statements, facts, events })
    }
}
