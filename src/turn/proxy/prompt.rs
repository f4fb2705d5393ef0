//! What is laid before the model: the client's own list, and what it lacks.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::memory::{InjectInto, MemorySettings};
use crate::message::{Message, Role};
use crate::session::{
    Asked, ClientIds, Fingerprint, Template, Turn, fit, unwrap_question, window, without_memory_blocks,
};
use crate::turn::inject::{block, inject};

/// Fields of a body that are for us and nobody else.
pub(super) const OUR_FIELDS: [&str; 3] = ["memory", "session_id", "user_id"];

/// The client's list as messages, its wrappers taken off. Roles we do not know are set-up, not conversation.
pub(super) fn said(body: &Map<String, Value>, now: jiff::Timestamp) -> Vec<Message> {
    let list = body.get("messages").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|wire| Message::from_wire(wire.clone(), now)).filter_map(bare).collect()
}

/// What the user said, without what a client wrapped around it. A wrapper that came alone, as it does after a
/// tool was called, is nothing anybody said.
fn bare(mut message: Message) -> Option<Message> {
    if message.role != Role::User {
        return Some(message);
    }
    if let Some(unwrapped) = unwrap_question(&message.text) {
        if unwrapped.question.is_empty() {
            return None;
        }
        message.text = unwrapped.question;
        message.raw = None;
        message.metadata.insert("sources".into(), unwrapped.sources.into());
    } else if let std::borrow::Cow::Owned(text) = without_memory_blocks(&message.text) {
        message.text = text;
        message.raw = None;
    }
    Some(message)
}

/// Reads the request as a conversation.
pub(super) fn read(body: &Map<String, Value>, ids: ClientIds, retry: bool, now: jiff::Timestamp) -> Option<Asked> {
    Asked::read(said(body, now), ids, retry)
}

/// What a request is sent on with.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Laid {
    /// The window as messages of its own, for a client that sends only what is new.
    pub(super) window: Vec<Value>,
    /// The block inside the last user message, for a client that left something out.
    pub(super) block: String,
    /// How many remembered messages these are.
    pub(super) items: usize,
}

/// Decides what the model lacks. A client that keeps its own history and sent all of it lacks nothing.
pub(super) fn lay_out(asked: &Asked, turns: &[Turn], template: &Template, settings: &MemorySettings) -> Laid {
    let recent = window(turns, settings.context_messages);
    let sent: HashSet<Fingerprint> = asked
        .exchanges
        .iter()
        .flat_map(|exchange| &exchange.messages)
        .chain(&asked.open)
        .map(Fingerprint::of)
        .collect();
    let missing: Vec<&Message> =
        recent.into_iter().filter(|message| !sent.contains(&Fingerprint::of(message))).collect();
    let limit = settings.model_tokens_max.saturating_sub(settings.answer_tokens);
    let question = asked.open.first().map_or("", |message| message.text.as_str());
    // A question too long for our idea of the model's limit is still the client's to ask.
    let Ok(fitted) = fit(missing, &[question], limit) else { return Laid::default() };
    let items = fitted.messages.len();
    if asked.carries_answers() {
        return Laid { block: block(&template.conversation(&fitted.messages)), items, ..Laid::default() };
    }
    Laid { window: fitted.messages.iter().map(|message| message.to_wire()).collect(), items, ..Laid::default() }
}

/// The body as it is sent on: our own fields gone, what the model lacks laid in.
pub(super) fn onward(mut body: Map<String, Value>, laid: &Laid, into: InjectInto) -> Bytes {
    for field in OUR_FIELDS {
        body.shift_remove(field);
    }
    if let Some(Value::Array(messages)) = body.get_mut("messages") {
        inject(messages, &laid.block, into);
        let is_setup = |message: &Value| matches!(message["role"].as_str(), Some("system" | "developer"));
        let first = messages.iter().position(|message| !is_setup(message)).unwrap_or(messages.len());
        messages.splice(first..first, laid.window.iter().cloned());
    }
    Bytes::from(Value::Object(body).to_string())
}
