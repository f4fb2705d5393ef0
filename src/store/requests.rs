//! What a store keeps of requests that carried an `Idempotency-Key`: what each made, for a day.
//!
//! A row is written in the transaction of the write that the request asked for, so a repeated request finds what was made or
//! finds that nothing was. It holds hashes and ids, never a word of what was said: the answer to a repeated request is made from
//! what is stored, and what was erased is gone from it as well.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::{KnowledgeBounds, NewDocument, StoreFuture, Undo, Undone};
use crate::fact::{Change, Statement};
use crate::id::{DocumentId, FactId, SessionId, TurnId, UndoId};
use crate::knowledge::Document;
use crate::scope::Scope;
use crate::session::{AddedMessage, RequestMark, Turn, TurnDraft};

/// Requests that are kept of each user; the oldest goes first.
pub const REQUESTS_MAX: usize = 1_000;

/// How long one is kept.
pub const REQUEST_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The part of a store that keeps which requests were done.
pub trait Requests: Send + Sync {
    /// The request that was done with this key, if one was within a day.
    fn done_request(&self, scope: &Scope, key: [u8; 32]) -> StoreFuture<'_, Option<DoneRequest>>;

    /// Writes, and notes in the same transaction what the request made. [`Repeated`](super::StoreError::Repeated) when a request
    /// with this key was done: then nothing is written.
    fn write_once(&self, scope: &Scope, request: RequestMark, write: OnceWrite) -> StoreFuture<'_, OnceWritten>;
}

/// What a request asks to be written.
#[derive(Debug, Clone)]
pub enum OnceWrite {
    /// See [`Store::add_turns`](super::Store::add_turns).
    Turns(SessionId, Vec<TurnDraft>),
    /// See [`Store::add_messages`](super::Store::add_messages).
    Messages(SessionId, Vec<AddedMessage>, Vec<TurnId>),
    /// See [`Facts::say`](super::Facts::say).
    Facts(Vec<Statement>),
    /// See [`Facts::undo`](super::Facts::undo).
    Undo(Undo, UndoId),
    /// See [`Knowledge::keep`](super::Knowledge::keep); the tenant is the scope's.
    Documents(Vec<NewDocument>, KnowledgeBounds),
    /// Nothing: it is written already, in steps that may be repeated.
    Noted(Made),
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub enum OnceWritten {
    /// Turns that were added, or that messages became or joined.
    Turns(Vec<Turn>),
    /// What changed of facts.
    Facts(Vec<Change>),
    /// What undoing came to.
    Undone(Undone),
    /// Documents as they are kept.
    Documents(Vec<Document>),
    /// Nothing.
    Noted,
}

/// A request that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneRequest {
    /// What it asked, as a hash.
    pub content: [u8; 32],
    /// What it made.
    pub made: Made,
    /// Whether that still waits for the store.
    pub waits: bool,
}

/// What a request made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// A question, and its answer by now.
    Turn(SessionId, TurnId),
    /// Turns.
    Turns(Vec<TurnId>),
    /// A fact.
    Fact(FactId),
    /// An undoing, and the facts that it changed.
    Undo(UndoId, Vec<FactId>),
    /// Documents.
    Documents(Vec<DocumentId>),
    /// The counts of an import, and the lines that were refused.
    Import(Box<MadeImport>),
}

/// What an import came to, without a word of what was in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MadeImport {
    /// Its counts, in the order of their names on the wire.
    pub counts: Vec<u64>,
    /// Whether the lines broke off before their end.
    pub truncated: bool,
    /// The numbers of lines that were refused.
    pub refused: Vec<u64>,
}

/// Why a request with a used key is not answered as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It asks something else.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// What it made is gone.
    #[error("what this Idempotency-Key made was removed meanwhile; use a new key to make it again")]
    Gone,
}

impl DoneRequest {
    /// What a repeated request is answered with.
    pub fn answer_to(self, request: &RequestMark) -> Result<Made, RequestError> {
        if self.content == request.content { Ok(self.made) } else { Err(RequestError::KeyReused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_request_is_answered_alike() {
        let done = DoneRequest { content: [1; 32], made: Made::Turns(Vec::new()), waits: false };
        let asks = |content| RequestMark { key: [7; 32], content: [content; 32] };
        assert_eq!(done.clone().answer_to(&asks(1)), Ok(Made::Turns(Vec::new())));
        assert_eq!(done.answer_to(&asks(2)), Err(RequestError::KeyReused));
    }
}
