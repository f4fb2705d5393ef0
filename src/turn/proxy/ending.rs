//! What was said, as the ending of a turn.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::id::{SessionId, TurnId};
use crate::message::Message;
use crate::model::ModelError;
use crate::model::relay::{Choice, Said};
use crate::session::{ClosedTurn, InTopic, TurnStatus};
use crate::turn::clarify::Answered;
use crate::turn::notes;

/// How an answer came to its end, beside what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The upstream ended it.
    Ended,
    /// The client left.
    ClientGone,
    /// The upstream fell silent.
    Silent(Duration),
    /// The upstream refused or broke, in its words or ours.
    Broke(String),
}

impl Outcome {
    /// What a client is told when nothing of the answer has left yet.
    pub(super) fn error(&self, whole: bool) -> Option<ModelError> {
        match self {
            Self::Silent(patience) => Some(ModelError::Silent(*patience)),
            Self::Broke(reason) if whole => Some(ModelError::Unreadable(reason.clone())),
            Self::Broke(reason) => Some(ModelError::BrokeOff(reason.clone())),
            Self::Ended | Self::ClientGone => None,
        }
    }

    fn reason(&self, said: &Said) -> Option<String> {
        match self {
            Self::Ended => said.error.clone(),
            Self::ClientGone => Some("the client left before the answer was complete".into()),
            Self::Silent(patience) => Some(ModelError::Silent(*patience).to_string()),
            Self::Broke(reason) => Some(reason.clone()),
        }
    }
}

/// Which turn, which try at it, and what its ending carries beside what was said.
#[derive(Debug, Clone)]
pub(super) struct Which {
    pub(super) id: TurnId,
    pub(super) session: SessionId,
    pub(super) attempt: u32,
    /// Keys to set in the turn's metadata.
    pub(super) notes: Map<String, Value>,
    /// Keys to set in the metadata of the answer, and of other answers to the same question.
    pub(super) answer_notes: Map<String, Value>,
    /// Why the model was reminded of what it was.
    pub(super) trace: Option<String>,
    /// The topic it belongs to.
    pub(super) topic: Option<InTopic>,
    /// The clarification that its question answers.
    pub(super) answered: Option<Answered>,
    /// Whether the model had no choice but to call a tool: then the call is the answer.
    pub(super) forced: bool,
}

/// Whether a request leaves the model no choice but to call a tool, in any of the forms that servers take. It is how
/// clients ask for structured output.
pub(super) fn forces_a_call(body: &Map<String, Value>) -> bool {
    let forces = |choice: &Value| match choice {
        Value::String(word) => matches!(word.as_str(), "required" | "any"),
        Value::Object(choice) => match choice.get("type").and_then(Value::as_str) {
            Some("auto" | "none") => false,
            Some("allowed_tools") => {
                let allowed = choice.get("allowed_tools").and_then(Value::as_object).unwrap_or(choice);
                allowed.get("mode").is_some_and(|mode| mode == "required")
            }
            _ => !choice.is_empty(),
        },
        _ => false,
    };
    ["tool_choice", "function_call"].iter().filter_map(|field| body.get(*field)).any(forces)
}

impl Which {
    /// An ending that carries nothing yet but what it is of.
    pub(super) fn of(
        (id, session): (TurnId, SessionId),
        attempt: u32,
        topic: Option<InTopic>,
        answered: Option<Answered>,
    ) -> Self {
        let (notes, answer_notes) = Default::default();
        Self { id, session, attempt, notes, answer_notes, trace: None, topic, answered, forced: false }
    }
}

/// The ending of a turn, from what was said.
pub(super) fn ending(which: &Which, said: &Said, outcome: &Outcome, model: &str, now: Timestamp) -> ClosedTurn {
    let mut answers = said.choices.iter().filter_map(|choice| message(which, choice, said, model, now));
    let answer = answers.next();
    let spoke = answer.as_ref().is_some_and(Message::says_something);
    let reason = outcome.reason(said);
    let status = match &answer {
        // A call without an id cannot be matched with a result, so none is awaited.
        Some(answer) if said.ended && answer.calls_tools() && !which.forced => match answer.call_ids().next() {
            Some(_) => TurnStatus::Pending,
            None => TurnStatus::Partial,
        },
        Some(_) if said.ended && spoke => TurnStatus::Complete,
        Some(_) if spoke => TurnStatus::Partial,
        _ => TurnStatus::Failed,
    };
    let reason = match status {
        TurnStatus::Complete | TurnStatus::Pending => Value::Null,
        TurnStatus::Partial if said.ended => Value::Null,
        _ => reason.unwrap_or_else(|| "the model's answer was empty or broke off".into()).into(),
    };
    let mut metadata = which.notes.clone();
    metadata.extend(notes([("reason", reason)]));
    ClosedTurn {
        id: which.id,
        session: which.session,
        status,
        others: answers.filter(|other| status == TurnStatus::Complete && other.says_something()).collect(),
        messages: answer.filter(|_| spoke).into_iter().collect(),
        metadata,
        attempt: which.attempt,
        trace: which.trace.clone(),
        topic: which.topic.clone(),
        waits_since: None,
    }
}

fn message(which: &Which, choice: &Choice, said: &Said, model: &str, now: Timestamp) -> Option<Message> {
    let mut message = Message::from_wire(choice.message.clone(), now)?;
    message.metadata = notes([
        ("model", json!(said.model.as_deref().unwrap_or(model))),
        ("tokens_used", json!(said.tokens_used)),
        ("finish_reason", json!(choice.finish_reason)),
    ]);
    message.metadata.extend(which.answer_notes.clone());
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};

    #[track_caller]
    fn check(message: Value, ended: bool, outcome: Outcome, status: TurnStatus, messages: usize) {
        check_forced(false, message, ended, outcome, status, messages);
    }

    #[track_caller]
    fn check_forced(forced: bool, message: Value, ended: bool, outcome: Outcome, status: TurnStatus, messages: usize) {
        let ids = CountedIds::default();
        let (id, session) = (ids.turn(Timestamp::UNIX_EPOCH), ids.session());
        let which = Which { forced, ..Which::of((id, session), 0, None, None) };
        let choices = vec![Choice { message, finish_reason: None }];
        let said = Said { choices, ended, ..Said::default() };
        let closed = ending(&which, &said, &outcome, "m", Timestamp::UNIX_EPOCH);
        assert_eq!((closed.status, closed.messages.len()), (status, messages));
        let broke_off = matches!(status, TurnStatus::Partial | TurnStatus::Failed);
        assert_eq!(closed.metadata.contains_key("reason"), broke_off);
    }

    #[test]
    fn endings_are_told_apart() {
        let text = |text: &str| json!({"role": "assistant", "content": text});
        let calls = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]});
        check(text("so"), true, Outcome::Ended, TurnStatus::Complete, 1);
        check(text("so"), false, Outcome::ClientGone, TurnStatus::Partial, 1);
        check(text("so"), false, Outcome::Broke("reset".into()), TurnStatus::Partial, 1);
        check(text(""), true, Outcome::Ended, TurnStatus::Failed, 0);
        check(calls.clone(), true, Outcome::Ended, TurnStatus::Pending, 1);
        check(calls.clone(), false, Outcome::ClientGone, TurnStatus::Partial, 1);
        check_forced(true, calls.clone(), true, Outcome::Ended, TurnStatus::Complete, 1);
        check_forced(true, calls, false, Outcome::ClientGone, TurnStatus::Partial, 1);
        check_forced(true, text("I cannot."), true, Outcome::Ended, TurnStatus::Complete, 1);
        check_forced(true, text(""), true, Outcome::Ended, TurnStatus::Failed, 0);
    }

    #[test]
    fn a_request_may_force_a_call() {
        let forces = |body: Value| forces_a_call(body.as_object().expect("an object"));
        for forced in [
            json!({"tool_choice": "required"}),
            json!({"tool_choice": "any"}),
            json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}),
            json!({"tool_choice": {"type": "tool", "name": "f"}}),
            json!({"tool_choice": {"type": "custom", "custom": {"name": "f"}}}),
            json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}}),
            json!({"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
            json!({"function_call": {"name": "f"}}),
        ] {
            assert!(forces(forced.clone()), "{forced}");
        }
        for free in [
            json!({}),
            json!({"tool_choice": null}),
            json!({"tool_choice": "auto"}),
            json!({"tool_choice": "none"}),
            json!({"tool_choice": {"type": "auto"}}),
            json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
            json!({"function_call": "auto"}),
        ] {
            assert!(!forces(free.clone()), "{free}");
        }
    }
}
