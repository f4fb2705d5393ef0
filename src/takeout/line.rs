//! A record as a line of a file: JSON with a type, sealed by a checksum.
//!
//! The checksum is the last field. It is the xxh3 of all bytes of the line before `,"sum":`, so that anybody can check a line
//! without knowing what is in it. A line without one was written by hand, and is taken as it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::document::{DocumentWire, PartWire};
use super::fact::KnownWire;
use super::{
    Cursor, EpisodeRecord, FactRecord, KnownRecord, PartRecord, SessionRecord, TopicRecord, TurnRecord, is_false,
};
use crate::episode::{Episode, Level, Meaning};
use crate::id::{DocumentId, EpisodeId, SessionId, TopicId};
use crate::knowledge::{Document, Passage};
use crate::session::{TextError, check_text};
use crate::topic::Topic;

/// The version of the format that is written. The first had no facts and no documents.
pub const VERSION: u32 = 2;

/// Highest turn number, and highest count, that a line may carry. No conversation comes near it, and the numbers that follow
/// it, as well as message cursors (a turn number shifted by 16 bits), stay far from an overflow.
pub const NUMBER_MAX: u64 = 1 << 40;

/// What the first line calls the format.
const FORMAT: &str = "recalld-export";

/// A line of an export.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// The first one.
    Header(Header),
    /// A topic of a user.
    Topic(Option<String>, TopicRecord),
    /// Something that is kept about what is known of a user.
    Fact(Option<String>, FactRecord),
    /// A conversation of a user; what is in it follows.
    Session(Option<String>, SessionRecord),
    /// A stretch of a user's conversation.
    Episode(Option<String>, EpisodeRecord),
    /// A turn of the conversation before it.
    Turn(SessionId, TurnRecord),
    /// A document of the tenant; its file and its passages follow.
    Document(Document),
    /// A part of the file of the document before it.
    Part(PartRecord),
    /// A passage of the document before it.
    Passage(DocumentId, Passage),
    /// Something that could not be read when the file was written.
    Damaged(Damage),
    /// The last one.
    End(Summary),
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// What the format is called.
    pub format: String,
    /// Which version of it.
    pub version: u32,
    /// The tenant.
    pub tenant: String,
    /// The user; not there when it is about all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The conversation, when it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Only what was said since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Behind which line it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Header {
    /// The header of a file about a tenant.
    pub fn of(tenant: &str) -> Self {
        let (format, tenant) = (FORMAT.to_owned(), tenant.to_owned());
        Self { format, version: VERSION, tenant, user: None, session: None, since: None, after: None }
    }
}

/// Something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Where.
    pub session: SessionId,
    /// Which turn.
    pub number: u64,
    /// In what way.
    pub what: String,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Lines before this one.
    pub lines: u64,
    /// Topics.
    pub topics: u64,
    /// Names under which something is known about a user.
    #[serde(default)]
    pub facts: u64,
    /// Conversations.
    pub sessions: u64,
    /// Their episodes, and those that outlived theirs.
    pub episodes: u64,
    /// Turns.
    pub turns: u64,
    /// Messages in them, without those of other answers.
    pub messages: u64,
    /// Documents.
    #[serde(default)]
    pub documents: u64,
    /// What could not be read.
    pub damaged: u64,
    /// The xxh3 of all bytes before this line.
    pub checksum: String,
}

impl Summary {
    /// Counts a line.
    pub fn count(&mut self, line: &Line) {
        self.lines += 1;
        match line {
            Line::Fact(_, FactRecord::Known(_)) => self.facts += 1,
            Line::Header(_) | Line::End(_) | Line::Fact(..) | Line::Part(_) | Line::Passage(..) => {}
            Line::Topic(..) => self.topics += 1,
            Line::Document(_) => self.documents += 1,
            Line::Session(..) => self.sessions += 1,
            Line::Episode(..) => self.episodes += 1,
            Line::Turn(_, turn) => {
                self.turns += 1;
                self.messages += turn.messages.len() as u64;
            }
            Line::Damaged(_) => self.damaged += 1,
        }
    }
}

/// Why a line is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Not what was written.
    #[error("its checksum does not match")]
    Sum,
    /// Not JSON of ours.
    #[error("{0}")]
    Shape(String),
    /// A kind of line that is not known here.
    #[error("lines of type `{0}` are not known to this version")]
    Unknown(String),
}

/// A line as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed(String);

impl Sealed {
    /// The line, with its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const SEAL: &str = ",\"sum\":\"";
/// The seal, sixteen digits, a quote and a bracket.
const SEAL_BYTES: usize = SEAL.len() + 16 + 2;

/// Writes a line. `cursor` is where an export goes on behind it.
pub fn seal(line: &Line, cursor: Option<&Cursor>) -> Sealed {
    let (kind, whose, body) = parts(line);
    let mut text = format!("{{\"type\":\"{kind}\"");
    for (name, value) in whose.into_iter().chain(cursor.map(|cursor| ("cursor", cursor.to_string()))) {
        text.push_str(&format!(",\"{name}\":{}", Value::from(value)));
    }
    // The body is an object of its own and becomes part of this one.
    text.push(',');
    text.push_str(&body[1..body.len() - 1]);
    let sum = xxh3_64(text.as_bytes());
    text.push_str(&format!("{SEAL}{sum:016x}\"}}\n"));
    Sealed(text)
}

/// Type, whose it is, and the rest as JSON.
fn parts(line: &Line) -> (&'static str, Option<(&'static str, String)>, String) {
    let whose = |user: &Option<String>| user.clone().map(|user| ("user", user));
    match line {
        Line::Header(header) => ("header", None, json(header)),
        Line::Topic(user, topic) => ("topic", whose(user), json(&TopicWire::from(topic))),
        Line::Fact(user, FactRecord::Undo(undo)) => ("undo", whose(user), json(undo)),
        Line::Fact(user, FactRecord::Unsaid(unsaid)) => ("unsaid", whose(user), json(unsaid)),
        Line::Fact(user, FactRecord::Known(known)) => ("fact", whose(user), json(&KnownWire::from(known))),
        Line::Session(user, session) => ("session", whose(user), json(session)),
        Line::Episode(user, episode) => ("episode", whose(user), json(&EpisodeWire::from(episode))),
        Line::Turn(session, turn) => ("turn", Some(("session", session.to_string())), json(turn)),
        Line::Document(document) => ("document", None, json(&DocumentWire::from(document))),
        Line::Part(part) => ("part", Some(("document", part.document.to_string())), json(&PartWire::from(part))),
        Line::Passage(document, passage) => ("passage", Some(("document", document.to_string())), json(passage)),
        Line::Damaged(damage) => ("damaged", None, json(damage)),
        Line::End(summary) => ("end", None, json(summary)),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own records with string keys always serialise")
}

/// Reads a line, with or without its end.
pub fn open(text: &str) -> Result<Line, LineError> {
    let text = text.trim_end();
    let sealed = check_sum(text)?;
    let shape = |error: serde_json::Error| LineError::Shape(format!("it is not a line of an export: {error}"));
    let mut value: Value = serde_json::from_str(text).map_err(shape)?;
    let field = |value: &mut Value, name: &str| value.get_mut(name).map(Value::take);
    let kind = field(&mut value, "type").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    let user = field(&mut value, "user").and_then(|user| user.as_str().map(str::to_owned));
    match kind.as_str() {
        "header" => header(value, user).map(Line::Header),
        "topic" => Ok(Line::Topic(user, read::<TopicWire>(value)?.try_into()?)),
        "undo" => Ok(Line::Fact(user, FactRecord::Undo(read(value)?))),
        "unsaid" => Ok(Line::Fact(user, FactRecord::Unsaid(read(value)?))),
        "fact" => Ok(Line::Fact(user, FactRecord::Known(KnownRecord::try_from(read::<KnownWire>(value)?)?))),
        "session" => session(value).map(|session| Line::Session(user, session)),
        "episode" => Ok(Line::Episode(user, EpisodeRecord::try_from(read::<EpisodeWire>(value)?)?)),
        "turn" => turn(value, sealed),
        "document" => Ok(Line::Document(read::<DocumentWire>(value)?.try_into()?)),
        "part" => of_document(value).and_then(|(id, rest)| Ok(Line::Part(read::<PartWire>(rest)?.part(id)?))),
        "passage" => of_document(value).and_then(|(id, rest)| Ok(Line::Passage(id, read(rest)?))),
        "damaged" => Ok(Line::Damaged(read(value)?)),
        "end" => Ok(Line::End(read(value)?)),
        _ => Err(LineError::Unknown(kind.chars().filter(|c| c.is_alphanumeric()).take(20).collect())),
    }
}

/// Checks the checksum. Answers whether there is one.
fn check_sum(text: &str) -> Result<bool, LineError> {
    let at = text.len().saturating_sub(SEAL_BYTES);
    match text.get(at..).filter(|tail| tail.starts_with(SEAL)) {
        Some(tail) => {
            let sum = tail.get(SEAL.len()..SEAL.len() + 16).and_then(|sum| u64::from_str_radix(sum, 16).ok());
            if sum == Some(xxh3_64(&text.as_bytes()[..at])) { Ok(true) } else { Err(LineError::Sum) }
        }
        None if text.contains(SEAL) && !text.ends_with('}') => Err(LineError::Sum),
        None => Ok(false),
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, LineError> {
    serde_json::from_value(value).map_err(|error| LineError::Shape(format!("it is not as it should be: {error}")))
}

fn header(value: Value, user: Option<String>) -> Result<Header, LineError> {
    let header: Header = read(value)?;
    match header.format == FORMAT {
        true => Ok(Header { user, ..header }),
        false => Err(LineError::Shape(format!("its format is not `{FORMAT}`"))),
    }
}

/// The document that something belongs to, and the rest.
fn of_document(mut value: Value) -> Result<(DocumentId, Value), LineError> {
    let document = value.get_mut("document").map(Value::take).unwrap_or_default();
    Ok((read(document)?, value))
}

/// Checks that a number leaves room for those that follow it.
pub(super) fn check_number(number: u64, what: &str) -> Result<(), LineError> {
    if number <= NUMBER_MAX { Ok(()) } else { Err(LineError::Shape(format!("its {what} is higher than {NUMBER_MAX}"))) }
}

fn session(value: Value) -> Result<SessionRecord, LineError> {
    let session: SessionRecord = read(value)?;
    check_number(session.next_number.saturating_sub(1), "next_number")?;
    Ok(session)
}

/// A sealed line holds a text as it was stored, and `/v1` stores control characters. Text written by hand has none.
fn turn(mut value: Value, sealed: bool) -> Result<Line, LineError> {
    let session = value.get_mut("session").map(Value::take).unwrap_or_default();
    let (session, turn): (SessionId, TurnRecord) = (read(session)?, read(value)?);
    let wrong = |what: &str| Err(LineError::Shape(what.to_owned()));
    check_number(turn.number.unwrap_or_default(), "number")?;
    let control = turn.texts().find_map(|text| check_text(text, usize::MAX).err()).filter(|_| !sealed);
    if let Some(error @ TextError::Control(_)) = control {
        return wrong(&format!("a message of it {error}"));
    }
    if !turn.id.has_room_for_messages() {
        return wrong("its id does not end with four zeros, as ids of turns do");
    }
    if turn.number == Some(0) {
        return wrong("turns are counted from 1");
    }
    Ok(Line::Turn(session, turn))
}

/// A topic, as written.
#[derive(Serialize, Deserialize)]
struct TopicWire {
    id: TopicId,
    title: String,
    #[serde(default, skip_serializing_if = "is_false")]
    named: bool,
    importance: f64,
    accesses: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    created_at: Timestamp,
    last_used: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgotten_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merged_into: Option<TopicId>,
}

impl From<&TopicRecord> for TopicWire {
    fn from(record: &TopicRecord) -> Self {
        let Topic { id, title, importance, accesses, tags, created_at, last_used, .. } = record.topic.clone();
        let TopicRecord { named, forgotten_at, merged_into, .. } = *record;
        Self { id, title, named, importance, accesses, tags, created_at, last_used, forgotten_at, merged_into }
    }
}

impl TryFrom<TopicWire> for TopicRecord {
    type Error = LineError;

    fn try_from(wire: TopicWire) -> Result<Self, LineError> {
        check_number(wire.accesses, "accesses")?;
        let topic = Topic {
            id: wire.id,
            title: wire.title,
            summary: None,
            importance: wire.importance,
            accesses: wire.accesses,
            messages: 0,
            tags: wire.tags,
            created_at: wire.created_at,
            last_used: wire.last_used,
        };
        Ok(Self { topic, named: wire.named, forgotten_at: wire.forgotten_at, merged_into: wire.merged_into })
    }
}

/// An episode, as written.
#[derive(Serialize, Deserialize)]
struct EpisodeWire {
    id: EpisodeId,
    session: SessionId,
    level: Level,
    first: u64,
    last: u64,
    weight: usize,
    from: Timestamp,
    to: Timestamp,
    summary: String,
    made_by: String,
    version: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    stale: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    gone: bool,
    /// The embedder, and little-endian 32-bit floats in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<(String, String)>,
}

impl From<&EpisodeRecord> for EpisodeWire {
    fn from(record: &EpisodeRecord) -> Self {
        let Episode { id, session, level, first, last, weight, from, to, summary, vector, made_by, version } =
            record.episode.clone();
        let vector = vector.map(|vector| {
            let bytes: Vec<u8> = vector.values.iter().flat_map(|value| value.to_le_bytes()).collect();
            (vector.embedder, STANDARD.encode(bytes))
        });
        let EpisodeRecord { stale, gone, .. } = *record;
        Self { id, session, level, first, last, weight, from, to, summary, made_by, version, stale, gone, vector }
    }
}

impl TryFrom<EpisodeWire> for EpisodeRecord {
    type Error = LineError;

    fn try_from(wire: EpisodeWire) -> Result<Self, LineError> {
        let EpisodeWire { id, session, level, first, last, weight, from, to, summary, made_by, version, .. } = wire;
        if first == 0 || last < first || version == 0 {
            return Err(LineError::Shape("its range of turns is none".into()));
        }
        check_number(last, "last")?;
        check_number(weight as u64, "weight")?;
        let vector = wire.vector.map(|(embedder, bytes)| meaning(embedder, &bytes)).transpose()?;
        let episode = Episode { id, session, level, first, last, weight, from, to, summary, vector, made_by, version };
        Ok(Self { episode, stale: wire.stale, gone: wire.gone })
    }
}

fn meaning(embedder: String, base64: &str) -> Result<Meaning, LineError> {
    let wrong = || LineError::Shape("its vector is not base64 of 32-bit floats".into());
    let bytes = STANDARD.decode(base64).map_err(|_| wrong())?;
    let (floats, []) = bytes.as_chunks::<4>() else { return Err(wrong()) };
    Ok(Meaning { embedder, values: floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect() })
}
