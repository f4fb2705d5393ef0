//! What a store takes in: the same for every backend and wrapper, checked before anything is written.
//!
//! The databases refuse most of this by themselves. It is checked here as well, so that a turn that
//! waits for the disk is not found wanting when nobody is there any more to be told.

use serde_json::{Map, Value};

use super::StoreError;
use crate::message::{Message, Role};
use crate::session::{ClosedTurn, OpenTurn, SessionPatch, SessionSeed, TURN_MESSAGES_MAX, TurnDraft, TurnStatus};

/// Deepest nesting of JSON that is stored. Reading stops at 128, and a row adds levels of its own.
const JSON_DEPTH_MAX: usize = 120;

/// A session to be made.
pub(super) fn seed(seed: &SessionSeed) -> Result<(), StoreError> {
    metadata(&seed.metadata)
}

/// A change of a session.
pub(super) fn patch(patch: &SessionPatch) -> Result<(), StoreError> {
    metadata(&patch.metadata)
}

/// A question.
pub(super) fn opening(turn: &OpenTurn) -> Result<(), StoreError> {
    seed(&turn.seed)?;
    metadata(&turn.metadata)?;
    messages(std::slice::from_ref(&turn.question))?;
    turn.place.imported.iter().try_for_each(draft)?;
    readable(&turn.place.then)
}

/// An ending.
pub(super) fn ending(turn: &ClosedTurn) -> Result<(), StoreError> {
    // What tools say of a structured answer may follow it, or come alone when it is there already.
    let results = turn.messages.iter().rev().take_while(|message| message.role == Role::Tool).count();
    let before_results = turn.messages.len() - results;
    let answer = turn.messages[..before_results].last().filter(|message| message.role == Role::Assistant);
    let has_answer = answer.is_some_and(has_content) || (before_results == 0 && results > 0);
    match turn.status {
        // Only a turn that waits for its tools, or hands over what they said, goes on.
        TurnStatus::Pending if !turn.messages.last().is_some_and(waits) => {
            return refused("a turn cannot end as pending");
        }
        TurnStatus::Complete if !has_answer => {
            return refused("a complete turn must have an answer");
        }
        _ => {}
    }
    metadata(&turn.metadata)?;
    readable(&turn.messages)
}

/// A turn that somebody else completed.
pub(super) fn draft(turn: &TurnDraft) -> Result<(), StoreError> {
    metadata(&turn.metadata)?;
    messages(&turn.messages)
}

/// A turn that was kept elsewhere.
pub(super) fn record(
    status: TurnStatus,
    messages: &[Message],
    metadata: &Map<String, Value>,
) -> Result<(), StoreError> {
    let mut said = messages.iter().skip(1).rev().skip_while(|message| message.role == Role::Tool);
    let answer = said.next().filter(|message| message.role == Role::Assistant);
    if status == TurnStatus::Complete && !answer.is_some_and(has_content) {
        return refused("a complete turn must have an answer");
    }
    self::metadata(metadata)?;
    self::messages(messages)
}

/// The messages of a whole turn.
pub(super) fn messages(messages: &[Message]) -> Result<(), StoreError> {
    match messages.first() {
        None => return refused("a turn must have a message"),
        Some(first) if !has_content(first) => return refused("a question must not be blank"),
        Some(_) => {}
    }
    readable(messages)
}

pub(super) fn metadata(metadata: &Map<String, Value>) -> Result<(), StoreError> {
    if metadata.values().any(|value| !fits(value, JSON_DEPTH_MAX - 1)) {
        return refused("metadata is nested too deeply");
    }
    Ok(())
}

/// What is written must be readable again, and bounded.
pub(super) fn readable(messages: &[Message]) -> Result<(), StoreError> {
    if messages.len() > TURN_MESSAGES_MAX {
        return refused("a turn has too many messages");
    }
    if messages.iter().filter_map(|message| message.raw.as_ref()).any(|raw| !fits(raw, JSON_DEPTH_MAX)) {
        return refused("a message is nested too deeply");
    }
    messages.iter().try_for_each(|message| metadata(&message.metadata))
}

/// Words, or whatever else the client sent in their place. The schema says the same in SQL.
fn has_content(message: &Message) -> bool {
    !message.text.trim().is_empty() || message.raw.as_ref().is_some_and(|raw| !raw.is_null())
}

/// Whether the turn goes on after this message: tools were asked, or have answered.
fn waits(message: &Message) -> bool {
    message.calls_tools() || message.role == Role::Tool
}

fn fits(value: &Value, depth_max: usize) -> bool {
    match value {
        Value::Array(items) => depth_max > 0 && items.iter().all(|item| fits(item, depth_max - 1)),
        Value::Object(fields) => depth_max > 0 && fields.values().all(|field| fits(field, depth_max - 1)),
        _ => true,
    }
}

fn refused(why: &str) -> Result<(), StoreError> {
    Err(StoreError::Refused(why.to_owned()))
}
