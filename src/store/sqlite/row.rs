//! A turn as a row: encoding, decoding, and the checksum between them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use super::archive::{self, NoText};
use super::sql::{self, Connection, Row, ValueRef};
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::session::{Turn, TurnStatus, answer_of, last_answer};
use crate::store::StoreError;
use crate::store::archive::Archived;

/// The columns of a turn, in the order of [`TurnRow::read`].
pub(super) const COLUMNS: &str = "turn.number, turn.id, turn.status, turn.role, turn.question, turn.answer, turn.extra, turn.metadata, \
     turn.created_at, turn.answered_at, turn.checksum, turn.key, turn.superseded, turn.block";

/// Where the key is among them.
pub(super) const KEY: usize = 11;

/// The first column behind [`COLUMNS`].
pub(super) const NEXT: usize = 14;

/// The content of a turn's row.
#[derive(Debug)]
pub(super) struct TurnRow {
    pub(super) number: u64,
    pub(super) id: TurnId,
    pub(super) status: String,
    pub(super) role: String,
    pub(super) question: String,
    pub(super) answer: Option<String>,
    pub(super) extra: Option<String>,
    pub(super) metadata: String,
    pub(super) created_at: i64,
    pub(super) answered_at: Option<i64>,
    pub(super) checksum: i64,
    pub(super) key: i64,
    pub(super) superseded: bool,
    /// Where its text is, if not here.
    pub(super) block: Option<i64>,
}

/// What question and answer are beside their text, and what was said between them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Extra {
    #[serde(default, skip_serializing_if = "Side::is_plain")]
    question: Side,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    between: Vec<Message>,
    #[serde(default, skip_serializing_if = "Side::is_plain")]
    answer: Side,
    /// Results of tools that followed the answer: it was a call, and nothing more was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<Message>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Side {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
}

impl Side {
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    fn of(message: &Message) -> Self {
        Self { name: message.name.clone(), raw: message.raw.clone(), metadata: message.metadata.clone() }
    }

    fn with(self, role: Role, text: String, created_at: i64) -> Message {
        let created_at = from_micros(created_at);
        Message { role, name: self.name, text, raw: self.raw, metadata: self.metadata, created_at }
    }
}

impl TurnRow {
    /// Encodes a turn. The row's key is not known yet.
    pub(super) fn of(turn: &Turn) -> Self {
        let last = last_answer(&turn.messages);
        let is_complete = turn.status == TurnStatus::Complete;
        let answer = if is_complete { last } else { answer_of(&turn.messages) };
        let said = &turn.messages[1..];
        let at = answer.and_then(|answer| said.iter().rposition(|message| std::ptr::eq(message, answer)));
        let extra = Extra {
            question: Side::of(turn.question()),
            between: said[..at.unwrap_or(said.len())].to_vec(),
            answer: answer.map(Side::of).unwrap_or_default(),
            after: at.map(|at| said[at + 1..].to_vec()).unwrap_or_default(),
        };
        let mut row = Self {
            number: turn.number,
            id: turn.id,
            status: turn.status.as_str().to_owned(),
            role: turn.question().role.as_str().to_owned(),
            question: turn.question().text.clone(),
            answer: answer.map(|message| message.text.clone()),
            extra: (extra != Extra::default()).then(|| to_json(&extra)),
            metadata: to_json(&turn.metadata),
            created_at: turn.created_at.as_microsecond(),
            answered_at: last.map(|message| message.created_at.as_microsecond()),
            checksum: 0,
            key: 0,
            superseded: turn.superseded,
            block: None,
        };
        row.checksum = row.sum(turn.session);
        row
    }

    /// Reads [`COLUMNS`], whatever is in them: whether that is what was written, the checksum tells.
    pub(super) fn read(row: &Row<'_>) -> sql::Result<Self> {
        let id = row.get_ref(1)?.as_blob().ok().and_then(|bytes| Uuid::from_slice(bytes).ok());
        Ok(Self {
            number: integer(row, 0)?.unwrap_or_default() as u64,
            id: TurnId::from_uuid(id.unwrap_or_default()),
            status: text(row, 2)?.unwrap_or_default(),
            role: text(row, 3)?.unwrap_or_default(),
            question: text(row, 4)?.unwrap_or_default(),
            answer: text(row, 5)?,
            extra: text(row, 6)?,
            metadata: text(row, 7)?.unwrap_or_default(),
            created_at: integer(row, 8)?.unwrap_or_default(),
            answered_at: integer(row, 9)?,
            checksum: integer(row, 10)?.unwrap_or_default(),
            key: row.get(KEY)?,
            superseded: integer(row, 12)?.unwrap_or_default() != 0,
            block: integer(row, 13)?,
        })
    }

    /// Decodes the row after comparing its checksum, its text from a block if that is where it is. A damaged row is
    /// an error, never a turn.
    pub(super) fn turn(mut self, db: &Connection, session: SessionId) -> Result<Turn, StoreError> {
        self.make_whole(db, session)?;
        let notes = std::mem::take(&mut self.metadata);
        let metadata = serde_json::from_str(&notes).map_err(|_| self.damaged(session, "its metadata is unreadable"))?;
        Ok(Turn { metadata, ..self.said_in(session)? })
    }

    /// The same without what was noted about the turn, for whoever asks what was said: the notes may be longer than that.
    pub(super) fn said(mut self, db: &Connection, session: SessionId) -> Result<Turn, StoreError> {
        self.make_whole(db, session)?;
        self.said_in(session)
    }

    fn damaged(&self, session: SessionId, what: &str) -> StoreError {
        StoreError::Damaged { session, number: self.number, what: what.to_owned() }
    }

    fn without_text(&self, session: SessionId, why: NoText) -> StoreError {
        match why {
            NoText::Damaged(what) => self.damaged(session, &what),
            NoText::Unreadable(what) => StoreError::Unreadable { session, number: self.number, what },
        }
    }

    /// Fetches its text if that is elsewhere, and compares its checksum.
    fn make_whole(&mut self, db: &Connection, session: SessionId) -> Result<(), StoreError> {
        if let Some(block) = self.block {
            archive::read_through(db, block, self).map_err(|why| self.without_text(session, why))?;
        }
        match self.is_whole(session) {
            true => Ok(()),
            false => Err(self.damaged(session, "its content does not match its checksum")),
        }
    }

    fn said_in(self, session: SessionId) -> Result<Turn, StoreError> {
        let number = self.number;
        let damaged = |what: &str| StoreError::Damaged { session, number, what: what.to_owned() };
        let status = TurnStatus::parse(&self.status).ok_or_else(|| damaged("its status is unknown"))?;
        let role = Role::parse(&self.role).ok_or_else(|| damaged("its role is unknown"))?;
        let extra: Extra = match &self.extra {
            Some(json) => serde_json::from_str(json).map_err(|_| damaged("its extra is unreadable"))?,
            None => Extra::default(),
        };
        let mut messages = Vec::with_capacity(extra.between.len() + extra.after.len() + 2);
        messages.push(extra.question.with(role, self.question, self.created_at));
        messages.extend(extra.between);
        if let Some(text) = self.answer {
            let at = self.answered_at.unwrap_or(self.created_at);
            messages.push(extra.answer.with(Role::Assistant, text, at));
        }
        messages.extend(extra.after);
        let created_at = from_micros(self.created_at);
        let superseded = self.superseded;
        let metadata = Map::new();
        Ok(Turn { id: self.id, session, number, status, messages, metadata, created_at, superseded })
    }

    /// Whether it is what was written.
    pub(super) fn is_whole(&self, session: SessionId) -> bool {
        self.sum(session) == self.checksum
    }

    /// Its text, for a block.
    pub(super) fn archived(&self) -> Archived {
        let (answer, extra) = (self.answer.clone(), self.extra.clone());
        Archived { number: self.number, question: self.question.clone(), answer, extra }
    }

    /// Bytes of its text.
    pub(super) fn text_bytes(&self) -> usize {
        let others = [&self.answer, &self.extra].into_iter().flatten();
        self.question.len() + others.map(String::len).sum::<usize>()
    }

    fn sum(&self, session: SessionId) -> i64 {
        let mut hash = Xxh3::new();
        hash.update(session.as_uuid().as_bytes());
        hash.update(self.id.as_uuid().as_bytes());
        for number in [self.number as i64, self.created_at, self.answered_at.unwrap_or(i64::MIN)] {
            hash.update(&number.to_le_bytes());
        }
        let answer = self.answer.as_deref();
        let texts = [Some(&*self.status), Some(&*self.role), Some(&*self.question), answer];
        for text in texts.into_iter().chain([self.extra.as_deref(), Some(&*self.metadata)]) {
            // The length goes in too, so that text cannot move from one column to the next.
            hash.update(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        }
        hash.digest() as i64
    }
}

fn integer(row: &Row<'_>, column: usize) -> sql::Result<Option<i64>> {
    Ok(row.get_ref(column)?.as_i64().ok())
}

/// Bytes that are no text any more come back changed, which the checksum notices.
fn text(row: &Row<'_>, column: usize) -> sql::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    })
}

/// JSON of a value of ours.
pub(super) fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our own structs with string keys always serialise")
}
