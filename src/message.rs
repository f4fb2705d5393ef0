//! Messages: what was said, by whom, as it was said.
//!
//! A message keeps two forms of its content: `text`, which people and search read, and `raw`, the
//! object the client sent, when that was more than a plain string (images, tool calls, files).
//! What the client sent is never rewritten.

pub mod block;
mod speaker;
mod visible;

pub(crate) use speaker::speaker_name;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// Whoever set the conversation up.
    System,
    /// A tool the model called.
    Tool,
}

impl Role {
    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Tool => "tool",
        }
    }

    /// Reads the word written by [`Role::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::User, Self::Assistant, Self::System, Self::Tool].into_iter().find(|role| role.as_str() == word)
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// The speaker's name, where several people share a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What was said, as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The message as the client sent it, when it was more than text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
    /// What is known about it: `model`, `tokens_used`, `citations`, and what clients add.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it was said.
    pub created_at: Timestamp,
}

impl Message {
    /// A plain text message.
    pub fn new(role: Role, text: impl Into<String>, created_at: Timestamp) -> Self {
        Self { role, name: None, text: text.into(), raw: None, metadata: Map::new(), created_at }
    }

    /// Reads a message in the wire format of chat models: `role`, `content` (text or parts), and
    /// whatever else it carries. `None` when the role is not one of ours or there is no content.
    pub fn from_wire(value: Value, created_at: Timestamp) -> Option<Self> {
        let object = value.as_object()?;
        let role = Role::parse(object.get("role")?.as_str()?)?;
        let name = object.get("name").and_then(Value::as_str).map(str::to_owned);
        let text = content_text(object.get("content"));
        let plain = object.get("content").is_some_and(Value::is_string)
            && object.keys().all(|key| matches!(key.as_str(), "role" | "name" | "content"));
        let raw = (!plain).then_some(value);
        Some(Self { role, name, text, raw, metadata: Map::new(), created_at })
    }

    /// The message in the wire format of chat models, as it came.
    pub fn to_wire(&self) -> Value {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut wire = Map::new();
        wire.insert("role".into(), self.role.as_str().into());
        if let Some(name) = &self.name {
            wire.insert("name".into(), name.as_str().into());
        }
        wire.insert("content".into(), self.text.as_str().into());
        Value::Object(wire)
    }

    /// Whether a person or the model said it, as opposed to a tool or whoever set things up.
    pub fn is_spoken(&self) -> bool {
        matches!(self.role, Role::User | Role::Assistant)
    }

    /// What its speaker is called: a name that does not pose as another speaker, else the role.
    pub(crate) fn speaker(&self) -> Cow<'_, str> {
        self.name.as_deref().and_then(speaker_name).unwrap_or(Cow::Borrowed(self.role.as_str()))
    }

    /// Whether there is anything in it: words, parts or tool calls.
    pub fn says_something(&self) -> bool {
        !self.text.trim().is_empty() || self.has_parts() || self.calls_tools()
    }

    /// Whether the model asks for tools here, in today's form or in the old one (`function_call`).
    pub fn calls_tools(&self) -> bool {
        self.tool_calls().next().is_some() || self.function_call().is_some()
    }

    /// The ids of the calls in it. The old form has none, so its results cannot be matched.
    pub fn call_ids(&self) -> impl Iterator<Item = &str> {
        self.tool_calls().filter_map(|call| call.get("id")?.as_str())
    }

    /// The call that this message of a tool answers.
    pub fn answers_call(&self) -> Option<&str> {
        self.raw_field("tool_call_id").and_then(Value::as_str).filter(|_| self.role == Role::Tool)
    }

    /// What the tools are called with, a line for each: of structured output this is the answer.
    pub fn call_arguments(&self) -> String {
        let modern = self.tool_calls().filter_map(|call| call.get("function").or(call.get("custom")));
        let arguments = modern.chain(self.function_call());
        let text = arguments.filter_map(|call| call.get("arguments").or(call.get("input"))?.as_str());
        text.collect::<Vec<_>>().join("\n")
    }

    fn tool_calls(&self) -> impl Iterator<Item = &Value> {
        self.raw_field("tool_calls").and_then(Value::as_array).into_iter().flatten()
    }

    fn function_call(&self) -> Option<&Value> {
        self.raw_field("function_call").filter(|call| call.is_object())
    }

    fn has_parts(&self) -> bool {
        self.raw_field("content").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty())
    }

    fn raw_field(&self, key: &str) -> Option<&Value> {
        self.raw.as_ref()?.get(key)
    }
}

/// The words of a wire `content`: a string, or the text parts of an array joined by line breaks.
pub(crate) fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(wire: Value, text: &str) {
        let message = Message::from_wire(wire.clone(), Timestamp::UNIX_EPOCH).expect("a message");
        assert_eq!(message.text, text);
        assert_eq!(message.to_wire(), wire, "what came in goes out");
    }

    #[test]
    fn text_goes_through() {
        check(json!({"role": "user", "content": "hello"}), "hello");
        check(json!({"role": "user", "name": "Ann", "content": "hello"}), "hello");
    }

    #[test]
    fn parts_and_unknown_fields_go_through() {
        check(
            json!({"role": "user", "content": [{"type": "text", "text": "what is"}, {"type": "image_url"}, {"type": "text", "text": "this?"}]}),
            "what is\nthis?",
        );
        check(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]}), "");
        check(json!({"role": "tool", "tool_call_id": "c1", "content": "42"}), "42");
    }

    #[test]
    fn an_unknown_role_is_no_message() {
        assert_eq!(Message::from_wire(json!({"role": "robot", "content": "x"}), Timestamp::UNIX_EPOCH), None);
    }
}
