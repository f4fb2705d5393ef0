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
}

/// The ending of a turn, from what was said.
pub(super) fn ending(which: &Which, said: &Said, outcome: &Outcome, model: &str, now: Timestamp) -> ClosedTurn {
    let mut answers = said.choices.iter().filter_map(|choice| message(which, choice, said, model, now));
    let answer = answers.next();
    let spoke = answer.as_ref().is_some_and(Message::says_something);
    let reason = outcome.reason(said);
    let status = match &answer {
        Some(answer) if said.ended && spoke && answer.calls_tools() => TurnStatus::Pending,
        Some(_) if said.ended && spoke => TurnStatus::Complete,
        Some(_) if spoke => TurnStatus::Partial,
        _ => TurnStatus::Failed,
    };
    let reason = match status {
        TurnStatus::Complete | TurnStatus::Pending => Value::Null,
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
        let ids = CountedIds::default();
        let (id, session) = (ids.turn(Timestamp::UNIX_EPOCH), ids.session());
        let notes = Map::new();
        let (attempt, answer_notes) = (0, Map::new());
        let which = Which { id, session, attempt, notes, answer_notes, trace: None, topic: None, answered: None };
        let choices = vec![Choice { message, finish_reason: None }];
        let said = Said { choices, ended, ..Said::default() };
        let closed = ending(&which, &said, &outcome, "m", Timestamp::UNIX_EPOCH);
        assert_eq!((closed.status, closed.messages.len()), (status, messages));
        assert_eq!(closed.metadata.contains_key("reason"), matches!(status, TurnStatus::Partial | TurnStatus::Failed));
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
        check(calls, false, Outcome::ClientGone, TurnStatus::Partial, 1);
    }
}
