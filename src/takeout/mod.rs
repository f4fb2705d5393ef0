//! Takeout: a memory as a file that anybody can read, and files of other programs as a memory.
//!
//! An export is JSON lines, each with a type, a place to go on from and a checksum. Whatever comes from elsewhere is read into
//! the same records, with ids that follow from its source, so that what is imported twice is there once.
//!
//! Reading order: the records here, `fact` and `document` (what is known of users, and what tenants know), `line` (a record as a line of a file), `cursor` (where an export goes on), `own` (our own
//! file), `weave` (messages with parents to turns, branches and other answers) and `thread` (messages in a row to turns), then a
//! file for each format: `chatgpt`, `claude`, `openwebui`, `mem0`, `langchain`, `transcript`. `detect` tells them apart by their
//! content, `stream` reads long JSON lists element by element.
//!
//! **Invariant:** this room is handed bytes and hands back records. It knows no store, no clock and no socket.

mod chatgpt;
mod claude;
mod cursor;
mod detect;
mod document;
mod fact;
mod langchain;
mod line;
mod mem0;
mod openwebui;
mod own;
mod stream;
mod thread;
mod transcript;
mod value;
mod weave;

pub use cursor::{Cursor, Position};
pub use detect::{SAMPLE_BYTES, detect};
pub use document::{DocumentRecord, PART_BYTES, PartRecord};
pub use fact::{EventRecord, FactRecord, KnownRecord, UndoRecord, UnsaidRecord};
pub use line::{Damage, Header, Line, LineError, NUMBER_MAX, Sealed, Summary, VERSION, open, seal};
pub use own::LINE_BYTES_MAX;

use std::io::BufRead;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::episode::Episode;
use crate::id::{SessionId, TopicId, TurnId};
use crate::message::Message;
use crate::period::Ttl;
use crate::session::{ClientIds, HistoryMode, SessionKind, TurnStatus};
use crate::topic::Topic;

/// A conversation, with what it takes to keep it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its name.
    pub id: SessionId,
    /// Whether it outlives its visitors.
    #[serde(default)]
    pub kind: SessionKind,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said or changed.
    pub updated_at: Timestamp,
    /// When somebody last looked.
    pub last_accessed: Timestamp,
    /// Its own time to live; not there when it follows the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    /// Who keeps the history.
    #[serde(default)]
    pub history: HistoryMode,
    /// The number that its next turn gets, whatever became of those before.
    #[serde(default = "one")]
    pub next_number: u64,
    /// How it came, and what clients noted about it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

fn one() -> u64 {
    1
}

/// A turn, with its place in the conversation and its other answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Its name.
    pub id: TurnId,
    /// Its place; not there when it gets the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The turn before it on its branch; not there at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TurnId>,
    /// How far it has come.
    pub status: TurnStatus,
    /// Whether an edit replaced it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub superseded: bool,
    /// When it was opened.
    pub created_at: Timestamp,
    /// What was said, in order.
    pub messages: Vec<Message>,
    /// What is known about the exchange.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Which try at an answer this is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The other tries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<RevisionRecord>,
    /// What the client calls its parts.
    #[serde(default, skip_serializing_if = "is_unnamed")]
    pub client: ClientIds,
    /// The topic it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicLink>,
}

impl TurnRecord {
    /// The texts of its messages and of its other tries; a message may have none.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let others = self.revisions.iter().flat_map(|other| &other.messages);
        self.messages.iter().chain(others).map(|message| message.text.as_str()).filter(|text| !text.trim().is_empty())
    }
}

/// Another answer to a turn's question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RevisionRecord {
    /// Which try it was.
    pub attempt: u32,
    /// How it ended.
    pub status: TurnStatus,
    /// When it was put aside.
    pub created_at: Timestamp,
    /// What followed the question.
    pub messages: Vec<Message>,
    /// What the client calls its parts.
    #[serde(default, skip_serializing_if = "is_unnamed")]
    pub client: ClientIds,
}

/// The topic that a turn belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicLink {
    /// Which.
    pub id: TopicId,
    /// Whether the topic is called after this turn.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gives_title: bool,
    /// Whether a model found the title that knows this turn.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_title: bool,
}

/// A topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicRecord {
    /// The topic; its messages are not counted, and it is told anew.
    pub topic: Topic,
    /// Whether a person named it.
    pub named: bool,
    /// When it faded, if it did.
    pub forgotten_at: Option<Timestamp>,
    /// The topic that it became part of.
    pub merged_into: Option<TopicId>,
}

/// A stretch of a conversation, summarised.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeRecord {
    /// The episode.
    pub episode: Episode,
    /// Whether a turn of it changed since it was made.
    pub stale: bool,
    /// Whether it outlived its conversation.
    pub gone: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none_left(number: &u64) -> bool {
    *number == 0
}

fn is_unnamed(ids: &ClientIds) -> bool {
    *ids == ClientIds::default()
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Our own export.
    Recalld,
    /// ChatGPT's `conversations.json`.
    ChatGpt,
    /// Claude's `conversations.json`.
    Claude,
    /// Chats exported from Open WebUI.
    OpenWebUi,
    /// Memories of mem0.
    Mem0,
    /// Messages as LangChain writes them.
    LangChain,
    /// Plain text, a line with a time and a speaker for each message.
    Transcript,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Recalld, Self::ChatGpt, Self::Claude, Self::OpenWebUi, Self::Mem0, Self::LangChain, Self::Transcript];

    /// The word used on the command line, and in ids: it must never change.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recalld => "recalld",
            Self::ChatGpt => "chatgpt",
            Self::Claude => "claude",
            Self::OpenWebUi => "openwebui",
            Self::Mem0 => "mem0",
            Self::LangChain => "langchain",
            Self::Transcript => "transcript",
        }
    }

    /// Reads the word written by [`Format::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == word)
    }
}

/// What a file does not say about itself.
#[derive(Debug, Clone)]
pub struct Around {
    /// What it is called, without its folder. Part of the ids of conversations that have no name of their own.
    pub name: String,
    /// When undated messages were said, as far as anybody knows.
    pub undated: Timestamp,
    /// Where clocks without a zone stood.
    pub zone: TimeZone,
}

/// Something that was read, and where.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A record.
    Line(String, Box<Line>),
    /// Something that is no part of a memory, and why: expected, and only counted.
    Passed(&'static str),
    /// Something that should have been a record, where, and what is wrong with it.
    Bad(String, String),
}

/// Why reading ended before the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file does not go on as it should.
    #[error("the file breaks off or is damaged: {0}")]
    Broken(String),
    /// Another version wrote it.
    #[error("the file is of version {0}, this recalld reads up to {VERSION}; use a newer one")]
    Newer(u32),
    /// The file cannot be read at all.
    #[error("the file cannot be read: {0}")]
    Io(String),
}

/// Who takes what is found; `false` ends reading.
pub type Taker<'a> = &'a mut dyn FnMut(Found) -> bool;

/// Reads a file to its end, a conversation at a time. What was found before an error stands.
pub fn read(format: Format, input: impl BufRead, around: &Around, taker: Taker<'_>) -> Result<(), ReadError> {
    match format {
        Format::Recalld => own::read(input, taker),
        Format::ChatGpt => stream::conversations(input, &["conversations"], chatgpt::talk, taker),
        Format::Claude => stream::conversations(input, &["conversations"], claude::talk, taker),
        Format::OpenWebUi => stream::conversations(input, &["chats", "data"], openwebui::talk, taker),
        Format::Mem0 => mem0::read(input, around, taker),
        Format::LangChain => langchain::read(input, around, taker),
        Format::Transcript => transcript::read(input, around, taker),
    }
}

#[cfg(test)]
mod tests;
