//! Messages in a row to turns, one at a time, so that a conversation may be as long as it likes.

use jiff::Timestamp;
use serde_json::Map;

use super::weave::{came_by, status_of};
use super::{Format, Found, Line, SessionRecord, Taker, TurnRecord};
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::session::{ClientIds, HistoryMode, SessionKind, TURN_MESSAGES_MAX};

/// A conversation that grows at its end.
pub(super) struct Thread {
    session: SessionRecord,
    begun: bool,
    last: Option<TurnId>,
    open: Option<(String, TurnRecord)>,
    messages: u64,
}

/// A message on its way into a conversation.
pub(super) struct Next {
    /// What it is called there, or what tells it from the others.
    pub(super) key: String,
    pub(super) message: Message,
    /// Whether it says when it was said.
    pub(super) dated: bool,
}

impl Thread {
    /// A conversation that another program calls this.
    pub(super) fn new(format: Format, key: &str, begun: Timestamp) -> Self {
        let session = SessionRecord {
            id: SessionId::imported(format.as_str(), key),
            kind: SessionKind::Durable,
            created_at: begun,
            updated_at: begun,
            last_accessed: begun,
            ttl: None,
            history: HistoryMode::Server,
            next_number: 1,
            metadata: came_by(format, key, Map::new()),
        };
        Self { session, begun: false, last: None, open: None, messages: 0 }
    }

    /// Takes a message: a user's opens a turn, others join the open one. Answers whether to go on.
    pub(super) fn push(&mut self, at: &str, next: Next, taker: Taker<'_>) -> bool {
        self.messages += 1;
        let joins = next.message.role != Role::User;
        if let Some((_, turn)) = self.open.as_mut().filter(|(_, turn)| joins && turn.messages.len() < TURN_MESSAGES_MAX)
        {
            turn.messages.push(next.message);
            return true;
        }
        let goes_on = self.close(taker);
        self.open = Some((at.to_owned(), self.opened(next)));
        goes_on
    }

    /// Takes a message that is a turn of its own.
    pub(super) fn note(
        &mut self,
        at: &str,
        next: Next,
        metadata: Map<String, serde_json::Value>,
        taker: Taker<'_>,
    ) -> bool {
        let goes_on = self.close(taker);
        let mut turn = self.opened(next);
        turn.metadata.extend(metadata);
        // Notes stand side by side: none follows from another.
        turn.parent = None;
        self.open = Some((at.to_owned(), turn));
        goes_on && self.close(taker)
    }

    fn opened(&mut self, next: Next) -> TurnRecord {
        // An undated message has a date that may change with the file's; its id must not.
        let stable = if next.dated { next.message.created_at } else { from_micros(self.messages as i64) };
        TurnRecord {
            id: TurnId::imported(stable, self.session.id, &next.key),
            number: None,
            parent: self.last,
            status: status_of(&[]),
            superseded: false,
            created_at: next.message.created_at,
            messages: vec![next.message],
            metadata: Map::from_iter([("source_id".to_owned(), next.key.into())]),
            attempt: 0,
            revisions: Vec::new(),
            client: ClientIds::default(),
            topic: None,
        }
    }

    /// Hands over the open turn, and the conversation before its first.
    pub(super) fn close(&mut self, taker: Taker<'_>) -> bool {
        let Some((at, mut turn)) = self.open.take() else { return true };
        turn.status = status_of(&turn.messages);
        self.last = Some(turn.id);
        let begins = !std::mem::replace(&mut self.begun, true);
        let session = || Found::Line(at.clone(), Box::new(Line::Session(None, self.session.clone())));
        (!begins || taker(session())) && taker(Found::Line(at.clone(), Box::new(Line::Turn(self.session.id, turn))))
    }
}
