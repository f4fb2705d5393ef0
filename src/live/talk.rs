//! What is said in a session: questions open turns, answers close them, and a client may move about in its history.
//!
//! The rules are those of durable sessions (`store/conformance` says what they are), without their disk.

use std::sync::Arc;

use jiff::Timestamp;

use super::{LiveMessage, LiveRevision, LiveSession, LiveTurn, Notes, Stub};
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::session::{
    ClientIds, ClosedTurn, Fingerprint, Held, OpenTurn, Outline, ReviseTurn, Revision, Shift, Turn, TurnDraft,
    TurnStatus,
};

/// Other answers that are kept of a turn.
const REVISIONS_MAX: usize = 4;
/// Turns whose explanation is kept.
const TRACES_MAX: u64 = 10;
/// What was laid before the model for a question, which only its tool rounds need.
const INJECTED: &str = "injected";

/// A turn that is not there, or not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no turn `{0}` in this session")]
pub struct NoSuchTurn(pub TurnId);

impl LiveSession {
    /// Takes a question in. Opening the same turn twice is one turn. Answers its number.
    pub fn open(&mut self, open: OpenTurn, now: Timestamp) -> u64 {
        if let Some(turn) = self.turns.iter().find(|turn| turn.id == open.id) {
            return turn.number;
        }
        let now = self.time_of_next(now);
        self.shift(&open.place.shift);
        let mut parent = open.place.parent.unwrap_or_else(|| self.head());
        for draft in open.place.imported {
            parent = self.put(draft, parent, &ClientIds::default(), now);
        }
        let mut messages = vec![Message { created_at: now, ..open.question }];
        messages.extend(open.place.then);
        let draft = TurnDraft { id: open.id, messages, metadata: open.metadata, created_at: Some(now) };
        let number = self.put(draft, parent, &open.place.ids, now);
        self.alter(number, |turn| turn.status = TurnStatus::Pending);
        number
    }

    /// Adds turns that others completed. Answers their numbers.
    pub fn add(&mut self, drafts: Vec<TurnDraft>, now: Timestamp) -> Vec<u64> {
        let put = |draft| self.put(draft, self.head(), &ClientIds::default(), self.time_of_next(now));
        drafts.into_iter().map(put).collect()
    }

    /// The time of a turn that is said now: after the one before it, also when the clock was set back in between.
    pub(crate) fn time_of_next(&self, now: Timestamp) -> Timestamp {
        self.turns.last().map_or(now, |last| now.max(from_micros(last.created_at.as_microsecond().saturating_add(1))))
    }

    fn put(&mut self, draft: TurnDraft, parent: u64, ids: &ClientIds, now: Timestamp) -> u64 {
        self.last_number += 1;
        self.updated_at = self.updated_at.max(now);
        let status = draft.status();
        let mut turn = LiveTurn {
            id: draft.id,
            number: self.last_number,
            parent,
            superseded: false,
            status,
            attempt: 0,
            created_at: draft.created_at.unwrap_or(now),
            question: draft.messages.first().map_or_else(|| Fingerprint::beginning("", ""), Fingerprint::of),
            answer: None,
            ids: ids.clone(),
            messages: draft.messages.into_iter().map(LiveMessage::from).collect(),
            metadata: Notes::of(&draft.metadata),
            revisions: Vec::new(),
            trace: None,
        };
        turn.answer = turn.answer_print();
        self.bytes += turn.bytes();
        self.turns.push(Arc::new(turn));
        self.last_number
    }

    /// Takes an ending in. A turn that is closed already stays as it is; an ending that another try has overtaken
    /// becomes a revision. An answer with which the turn alone would be over `bytes_max` is not kept.
    pub fn close(&mut self, closed: ClosedTurn, bytes_max: usize, now: Timestamp) -> Result<(), NoSuchTurn> {
        let number = self.number_of(closed.id)?;
        self.updated_at = self.updated_at.max(now);
        self.tokens_used += tokens_used(&closed);
        let room = bytes_max.saturating_sub(self.bare());
        self.alter(number, |turn| turn.close(closed, room, now));
        let old = number.saturating_sub(TRACES_MAX);
        if self.turns.iter().any(|turn| turn.number == old && turn.trace.is_some()) {
            self.alter(old, |turn| turn.trace = None);
        }
        Ok(())
    }

    /// Begins another try at a turn's answer; what it said becomes a revision. Answers which try it is.
    pub fn revise(&mut self, revise: ReviseTurn, now: Timestamp) -> Result<u32, NoSuchTurn> {
        let number = self.number_of(revise.id)?;
        self.updated_at = self.updated_at.max(now);
        self.shift(&revise.shift);
        Ok(self.alter(number, |turn| turn.revise(revise, now)).unwrap_or(0))
    }

    /// Hides, shows and swaps what a client's move in its history asks for.
    pub(super) fn shift(&mut self, shift: &Shift) {
        for (numbers, superseded) in [(&shift.hide, true), (&shift.show, false)] {
            for number in numbers {
                self.alter(*number, |turn| turn.superseded = superseded);
                self.gone
                    .iter_mut()
                    .filter(|stub| stub.number == *number)
                    .for_each(|stub| stub.superseded = superseded);
            }
        }
        for (number, attempt) in &shift.activate {
            self.alter(*number, |turn| turn.activate(*attempt));
        }
        self.mode = shift.mode.unwrap_or(self.mode);
    }

    /// The newest turns as outlines, superseded ones and those included that are only told of any more.
    pub fn held(&self, turns_max: usize) -> Held {
        let outlines = self.gone.iter().map(Stub::outline).chain(self.turns.iter().map(|turn| turn.outline()));
        let past = (self.gone.len() + self.turns.len()).saturating_sub(turns_max);
        Held { mode: self.mode, turns: outlines.skip(past).collect(), earlier: 0 }
    }

    /// A turn, if it is kept as it was said.
    pub fn turn(&self, session: SessionId, id: TurnId) -> Option<Turn> {
        self.turns.iter().find(|turn| turn.id == id).map(|turn| turn.turn(session))
    }

    /// The turns that are kept as they were said, oldest first.
    pub fn turns(&self, session: SessionId) -> impl Iterator<Item = Turn> {
        self.turns.iter().map(move |turn| turn.turn(session))
    }

    /// Other answers to a turn's question, oldest first.
    pub fn revisions(&self, id: TurnId) -> Option<Vec<Revision>> {
        let turn = self.turns.iter().find(|turn| turn.id == id)?;
        let revision = |other: &LiveRevision| Revision {
            attempt: other.attempt,
            status: other.status,
            messages: other.messages.iter().map(Message::from).collect(),
            created_at: other.created_at,
        };
        Some(turn.revisions.iter().map(revision).collect())
    }

    /// Why the model was reminded of what it was, for one of the newest turns.
    pub fn trace(&self, id: TurnId) -> Option<&str> {
        self.turns.iter().find(|turn| turn.id == id)?.trace.as_deref()
    }

    /// Whether somebody waits for an answer at this moment, or is about to bring the results of tools.
    pub fn is_busy(&self, since: Timestamp) -> bool {
        self.turns.iter().any(|turn| turn.status == TurnStatus::Pending && turn.created_at > since)
    }

    /// The number of the visible branch's last turn; 0 when there is none.
    fn head(&self) -> u64 {
        let shown = self.turns.iter().rev().find(|turn| !turn.superseded).map(|turn| turn.number);
        let told = || self.gone.iter().rev().find(|stub| !stub.superseded).map(|stub| stub.number);
        shown.or_else(told).unwrap_or(0)
    }

    fn number_of(&self, id: TurnId) -> Result<u64, NoSuchTurn> {
        self.turns.iter().find(|turn| turn.id == id).map(|turn| turn.number).ok_or(NoSuchTurn(id))
    }

    /// What it takes without its turns.
    fn bare(&self) -> usize {
        self.bytes - self.turns.iter().map(|turn| turn.bytes()).sum::<usize>()
    }

    /// Changes a turn, and what the session takes along with it. `None` when there is no such turn.
    fn alter<T>(&mut self, number: u64, change: impl FnOnce(&mut LiveTurn) -> T) -> Option<T> {
        let turn = self.turns.iter_mut().find(|turn| turn.number == number)?;
        let before = turn.bytes();
        let turn = Arc::make_mut(turn);
        let changed = change(turn);
        turn.answer = turn.answer_print();
        self.bytes = self.bytes + turn.bytes() - before;
        Some(changed)
    }
}

fn tokens_used(closed: &ClosedTurn) -> u64 {
    closed.messages.iter().filter_map(|message| message.metadata.get("tokens_used")?.as_u64()).sum()
}

fn print(messages: &[LiveMessage]) -> Option<Fingerprint> {
    let answer = messages.iter().skip(1).rev().find(|message| message.role == Role::Assistant)?;
    Some(Fingerprint::of(&Message::from(answer)))
}

impl Stub {
    fn outline(&self) -> Outline {
        Outline {
            id: self.id,
            number: self.number,
            parent: self.parent,
            visible: !self.superseded,
            status: TurnStatus::Complete,
            question: self.question,
            answer: self.answer,
            revisions: Vec::new(),
            ids: ClientIds::default(),
            open_calls: Vec::new(),
            attempt: 0,
        }
    }
}

impl LiveTurn {
    /// How many of its messages are the user's or the model's.
    pub(super) fn spoken(&self) -> usize {
        self.messages.iter().filter(|message| message.is_spoken()).count()
    }

    pub(super) fn turn(&self, session: SessionId) -> Turn {
        Turn {
            id: self.id,
            session,
            number: self.number,
            status: self.status,
            messages: self.messages.iter().map(Message::from).collect(),
            metadata: self.metadata.map(),
            created_at: self.created_at,
            superseded: self.superseded,
        }
    }

    fn answer_print(&self) -> Option<Fingerprint> {
        print(&self.messages)
    }

    fn outline(&self) -> Outline {
        let waits = self.status != TurnStatus::Failed;
        let calls = || self.turn(SessionId::ephemeral("", "")).open_calls();
        Outline {
            id: self.id,
            number: self.number,
            parent: self.parent,
            visible: !self.superseded,
            status: self.status,
            question: self.question,
            answer: self.answer,
            revisions: self.revisions.iter().map(|other| (other.attempt, other.answer)).collect(),
            ids: self.ids.clone(),
            open_calls: if waits { calls() } else { Vec::new() },
            attempt: self.attempt,
        }
    }

    fn close(&mut self, closed: ClosedTurn, room: usize, now: Timestamp) {
        let overtaken = self.attempt != closed.attempt;
        let waits_for_tools = self.status != TurnStatus::Failed && self.awaits_tools();
        if !overtaken && self.status != TurnStatus::Pending && !waits_for_tools {
            return;
        }
        if overtaken {
            let said = self.messages.iter().take(1).cloned().chain(closed.messages.into_iter().map(LiveMessage::from));
            let said: Vec<LiveMessage> = said.collect();
            self.put_aside(closed.attempt, closed.status, &said, now);
            if self.status == TurnStatus::Failed {
                self.restore();
            }
        } else {
            self.settle(closed.status, closed.messages, &closed.metadata);
            self.trace = closed.trace.map(String::into_boxed_str);
        }
        for other in closed.others {
            let next = self.last_attempt() + 1;
            let said = [self.messages[0].clone(), other.into()];
            self.put_aside(next, TurnStatus::Complete, &said, now);
        }
        self.fit(room);
    }

    /// Writes an ending in its place; a try that came to nothing gives way to an earlier whole answer.
    fn settle(
        &mut self,
        status: TurnStatus,
        messages: Vec<Message>,
        notes: &serde_json::Map<String, serde_json::Value>,
    ) {
        self.status = status;
        self.messages.extend(messages.into_iter().map(LiveMessage::from));
        let mut metadata = self.metadata.map();
        metadata.extend(notes.clone());
        if status != TurnStatus::Pending && !self.awaits_tools() {
            metadata.shift_remove(INJECTED);
        }
        self.metadata = Notes::of(&metadata);
        if status == TurnStatus::Failed {
            self.restore();
        }
    }

    /// Lets go of what is too much for the session: other answers and the explanation first, then the answer itself.
    fn fit(&mut self, room: usize) {
        if self.bytes() > room {
            (self.revisions, self.trace) = (Vec::new(), None);
        }
        if self.bytes() > room {
            self.messages.truncate(1);
            self.status = TurnStatus::Failed;
            let mut metadata = self.metadata.map();
            metadata.shift_remove(INJECTED);
            metadata
                .insert("reason".into(), "the answer is larger than a session may be (`session_memory_max_mb`)".into());
            self.metadata = Notes::of(&metadata);
        }
    }

    fn revise(&mut self, revise: ReviseTurn, now: Timestamp) -> u32 {
        // The tool rounds of a failed try go on in the next one.
        let goes_on = self.status == TurnStatus::Failed && (2..=1 + revise.then.len()).contains(&self.messages.len());
        if self.status != TurnStatus::Pending && !goes_on {
            let (attempt, status, said) = (self.attempt, self.status, self.messages.clone());
            self.put_aside(attempt, status, &said, now);
        }
        self.attempt = self.last_attempt().max(self.attempt) + 1;
        self.messages.truncate(1);
        self.messages.extend(revise.then.into_iter().map(LiveMessage::from));
        (self.status, self.ids, self.trace, self.superseded) = (TurnStatus::Pending, revise.ids, None, false);
        let mut metadata = self.metadata.map();
        metadata.shift_remove("reason");
        self.metadata = Notes::of(&metadata);
        self.attempt
    }

    /// Makes a revision of what was said; the oldest goes when there are too many.
    fn put_aside(&mut self, attempt: u32, status: TurnStatus, said: &[LiveMessage], now: Timestamp) {
        // A try that was overtaken while it waited for tools will not hear from them.
        let status = if status == TurnStatus::Pending { TurnStatus::Partial } else { status };
        let messages = said.iter().skip(1).cloned().collect();
        self.revisions.retain(|other| other.attempt != attempt);
        self.revisions.push(LiveRevision { attempt, status, answer: print(said), messages, created_at: now });
        let spare = self.revisions.len().saturating_sub(REVISIONS_MAX);
        self.revisions.drain(..spare);
    }

    /// After a try that came to nothing, the newest whole answer is shown again.
    fn restore(&mut self) {
        let whole = self.revisions.iter().filter(|other| other.status == TurnStatus::Complete);
        if let Some(best) = whole.map(|other| other.attempt).max() {
            self.activate(best);
        }
    }

    /// Shows a revision in place of the current answer; the two change places.
    fn activate(&mut self, attempt: u32) {
        let Some(at) = self.revisions.iter().position(|other| other.attempt == attempt) else { return };
        let wanted = self.revisions.remove(at);
        if self.status != TurnStatus::Pending {
            let (current, status, said) = (self.attempt, self.status, self.messages.clone());
            self.put_aside(current, status, &said, wanted.created_at);
        }
        self.messages.truncate(1);
        self.messages.extend(wanted.messages);
        (self.status, self.attempt) = (wanted.status, wanted.attempt);
    }

    fn last_attempt(&self) -> u32 {
        self.revisions.iter().map(|other| other.attempt).max().unwrap_or(0).max(self.attempt)
    }

    /// Whether the user's words count, as [`Turn::enters_context`] says.
    pub(super) fn enters_context(&self) -> bool {
        let has_spoken = || self.messages.iter().skip(1).any(|message| message.role == Role::Assistant);
        self.status.enters_context() || (self.status == TurnStatus::Pending && has_spoken())
    }

    fn awaits_tools(&self) -> bool {
        let last = self.messages.last().map(Message::from);
        last.is_some_and(|message| message.calls_tools() || message.role == Role::Tool)
    }
}
