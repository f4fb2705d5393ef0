//! A turn that waits for the disk: its question, its ending, or both.

use jiff::Timestamp;
use serde_json::Map;

use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::scope::Scope;
use crate::session::{ClosedTurn, Fingerprint, OpenTurn, Outline, Tail, Turn, TurnStatus, chained, last_answer};
use crate::store::erasure::INJECTED;
use crate::store::{DoneRequest, Erasure, Made, TRACE_BYTES_MAX, Trail, UNANSWERED};

/// A turn, or what of it is not on disk yet.
#[derive(Debug, Clone)]
pub(super) struct WaitingTurn {
    pub(super) id: TurnId,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    /// When it was asked, or began to wait.
    pub(super) at: Timestamp,
    /// The question, until it is on disk.
    pub(super) open: Option<(OpenTurn, Timestamp)>,
    /// Whether the question was on disk before the turn began to wait.
    pub(super) known: bool,
    /// The ending, once there is one.
    pub(super) closed: Option<ClosedTurn>,
    /// The number that others were told it will get.
    pub(super) foreseen: Option<u64>,
    /// What both weigh.
    pub(super) bytes: usize,
}

impl WaitingTurn {
    pub(super) fn is(&self, scope: &Scope, session: SessionId, id: TurnId) -> bool {
        self.id == id && self.belongs_to(scope, session)
    }

    pub(super) fn belongs_to(&self, scope: &Scope, session: SessionId) -> bool {
        self.session == session && self.scope == *scope
    }

    /// Whether it goes with what is erased.
    pub(super) fn is_part_of(&self, what: &Erasure) -> bool {
        match what {
            Erasure::Tenant(tenant) => self.scope.tenant() == tenant,
            Erasure::User(scope) => self.scope == *scope,
            Erasure::Session(scope, id) => self.belongs_to(scope, *id),
            Erasure::Turn(scope, id) => self.scope == *scope && self.id == *id,
            Erasure::Document(..) | Erasure::Fact(..) => false,
        }
    }

    /// Whether it says what the model was shown beside the question.
    pub(super) fn shows_anything(&self) -> bool {
        let asked = self.open.as_ref().is_some_and(|(open, _)| open.metadata.contains_key(INJECTED));
        let ended = |closed: &ClosedTurn| closed.trace.is_some() || closed.metadata.contains_key(INJECTED);
        asked || self.closed.as_ref().is_some_and(ended)
    }

    /// Forgets what the model was shown beside the question: it may repeat what is erased.
    pub(super) fn forget_shown(&mut self) {
        if let Some((open, _)) = &mut self.open {
            open.metadata.shift_remove(INJECTED);
        }
        if let Some(closed) = &mut self.closed {
            closed.metadata.shift_remove(INJECTED);
            closed.trace = None;
        }
    }

    /// The hash of the key of the request that asked it, while the question waits, and what that request made.
    pub(super) fn request(&self) -> Option<([u8; 32], DoneRequest)> {
        let (open, _) = self.open.as_ref()?;
        let request = open.place.request?;
        let made = Made::Turn(self.session, self.id);
        Some((request.key, DoneRequest { content: request.content, made, waits: true }))
    }

    pub(super) fn asked(scope: Scope, mut open: OpenTurn, created_at: Timestamp) -> Self {
        open.asked_at = Some(created_at);
        let (id, session, bytes, at) = (open.id, open.session, bytes_of(&open.question), created_at);
        let (open, closed, foreseen) = (Some((open, created_at)), None, None);
        Self { id, scope, session, at, open, known: false, closed, foreseen, bytes }
    }

    /// An ending whose question is on disk.
    pub(super) fn answered(scope: Scope, closed: ClosedTurn, at: Timestamp) -> Self {
        let (id, session, known, foreseen) = (closed.id, closed.session, true, None);
        let mut turn = Self { id, scope, session, at, open: None, known, closed: None, foreseen, bytes: 0 };
        turn.end(closed);
        turn
    }

    /// A turn that waited when a process ended. What that process was still to answer is not answered any more.
    pub(super) fn found(
        scope: Scope,
        at: Timestamp,
        known: bool,
        open: Option<OpenTurn>,
        closed: Option<ClosedTurn>,
    ) -> Option<Self> {
        let mut turn = match (open, closed) {
            (None, None) => return None,
            (None, Some(closed)) => Self::answered(scope, closed, at),
            (Some(open), None) => {
                let closed = given_up(&open);
                let mut turn = Self::asked(scope, open, at);
                turn.end(closed);
                turn
            }
            (Some(open), Some(closed)) => {
                let mut turn = Self::asked(scope, open, at);
                turn.end(closed);
                turn
            }
        };
        turn.known = known;
        Some(turn)
    }

    /// Takes the ending, unless there is one. A turn that waits for its tools goes on.
    pub(super) fn end(&mut self, mut closed: ClosedTurn) {
        closed.trace = closed.trace.filter(|trace| trace.len() <= TRACE_BYTES_MAX);
        let trace = closed.trace.as_ref().map_or(0, String::len);
        let bytes = closed.messages.iter().map(bytes_of).sum::<usize>() + trace;
        match &mut self.closed {
            Some(so_far) if goes_on(so_far) => {
                so_far.status = closed.status;
                so_far.messages.extend(closed.messages);
                so_far.metadata.extend(closed.metadata);
                so_far.others = closed.others;
                so_far.trace = closed.trace.or(so_far.trace.take());
            }
            Some(_) => return,
            None => self.closed = Some(closed),
        }
        self.bytes += bytes;
    }

    /// The turn as it will be stored, as far as it has come.
    pub(super) fn turn(&self, number: u64) -> Option<Turn> {
        let question = self.question(number)?;
        Some(self.ended(question.clone()).unwrap_or(question))
    }

    /// The turn as an outline, and the number after it. The question must wait here.
    pub(super) fn outline(&self, last: u64) -> Option<Outline> {
        let (open, _) = self.open.as_ref()?;
        let number = last + 1 + open.place.kept_free + open.place.imported.len() as u64;
        let turn = self.turn(number)?;
        let answer = turn.messages.iter().skip(1).rev().find(|message| message.role == Role::Assistant);
        Some(Outline {
            id: self.id,
            number,
            parent: open.place.parent.unwrap_or(last),
            visible: true,
            status: turn.status,
            question: Fingerprint::of(turn.question()),
            answer: answer.map(Fingerprint::of),
            revisions: Vec::new(),
            ids: open.place.ids.clone(),
            open_calls: turn.open_calls(),
            attempt: 0,
        })
    }

    /// Whether the conversation goes on, or is asked again, where this turn stands.
    pub(super) fn follows(&self, trail: &Trail) -> bool {
        let Some((open, turn)) = self.open.as_ref().map(|(open, _)| open).zip(self.turn(1)) else { return false };
        let question = Fingerprint::of(turn.question());
        let answer = last_answer(&turn.messages).map(Fingerprint::of);
        let Some(before) = open.place.before else { return false };
        let calls = turn.open_calls();
        match trail.calls.is_empty() {
            true => {
                chained(before, question, answer) == trail.chain || (before, question) == (trail.chain, trail.question)
            }
            false => trail.calls.iter().any(|call| calls.contains(call)),
        }
    }

    /// Whether this turn is the last exchange of a client's history, and not also its first.
    pub(super) fn ends_with(&self, tail: &Tail) -> bool {
        let Some((open, turn)) = self.open.as_ref().map(|(open, _)| open).zip(self.turn(1)) else { return false };
        let said = (Fingerprint::of(turn.question()), turn.answer().map(Fingerprint::of));
        let begins = open.place.parent == Some(0) && open.place.kept_free == 0;
        said == (tail.question, Some(tail.answer)) && !(begins && tail.follows_others)
    }

    /// The question as it will be stored. Its number is a guess until it is.
    pub(super) fn question(&self, number: u64) -> Option<Turn> {
        let (open, created_at) = self.open.as_ref()?;
        let (id, session, created_at) = (self.id, self.session, *created_at);
        let mut messages = vec![Message { created_at, ..open.question.clone() }];
        messages.extend(open.place.then.iter().cloned());
        let (status, metadata) = (TurnStatus::Pending, open.metadata.clone());
        Some(Turn { id, session, number, status, messages, metadata, created_at, superseded: false })
    }

    /// The turn as the model is shown it, from its question and the ending that waits.
    pub(super) fn ended(&self, mut turn: Turn) -> Option<Turn> {
        let closed = self.closed.clone().filter(|_| turn.status == TurnStatus::Pending)?;
        turn.status = closed.status;
        turn.messages.extend(closed.messages);
        turn.metadata.extend(closed.metadata);
        Some(turn)
    }
}

/// Whether more may follow: it waits for its tools, or its answer is a call that has no result yet.
fn goes_on(closed: &ClosedTurn) -> bool {
    let last = closed.messages.last().is_some_and(|last| last.calls_tools() || last.role == Role::Tool);
    closed.status == TurnStatus::Pending || (closed.status != TurnStatus::Failed && last)
}

/// The ending of a turn whose process ended first.
fn given_up(open: &OpenTurn) -> ClosedTurn {
    let mut metadata = Map::new();
    metadata.insert("reason".into(), UNANSWERED.into());
    ClosedTurn {
        id: open.id,
        session: open.session,
        status: TurnStatus::Failed,
        messages: Vec::new(),
        metadata,
        attempt: 0,
        others: Vec::new(),
        trace: None,
        topic: None,
        waits_since: None,
    }
}

/// Words, and what came in their place: an image weighs more than its caption.
fn bytes_of(message: &Message) -> usize {
    message.text.len() + message.raw.as_ref().map_or(0, |raw| raw.to_string().len())
}
