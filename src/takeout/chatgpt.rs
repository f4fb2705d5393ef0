//! ChatGPT's `conversations.json`: a list of conversations, each a tree of messages under `mapping`, of which `current_node` is
//! shown last.

use serde_json::{Map, Value};

use super::Format;
use super::value::{clean, copied, text, time};
use super::weave::{Node, Talk};
use crate::message::{Message, Role};

/// Reads one conversation.
pub(super) fn talk(value: Value) -> Result<Talk, String> {
    let mapping = value.get("mapping").and_then(Value::as_object).ok_or("it has no `mapping` of messages")?;
    let key = text(value.get("conversation_id")).or_else(|| text(value.get("id"))).ok_or("it has no id")?;
    let mut talk = Talk::new(Format::ChatGpt, key);
    talk.metadata = copied(&value, &[("title", "title"), ("default_model_slug", "model"), ("gizmo_id", "gizmo_id")]);
    talk.created_at = time(value.get("create_time"));
    talk.updated_at = time(value.get("update_time"));
    talk.current = text(value.get("current_node")).map(str::to_owned);
    for (key, node) in mapping {
        let message = node.get("message").filter(|message| !message.is_null());
        let read = message.map_or(Ok(None), read_message);
        let message_read = read.unwrap_or_else(|aside| {
            match aside {
                Aside::Bad(reason) => talk.bad.push((format!(".mapping.{key}"), reason)),
                Aside::Passed(why) => talk.passed.push(why),
            }
            None
        });
        talk.nodes.push(Node {
            key: key.clone(),
            parent: text(node.get("parent")).map(str::to_owned),
            at: message.and_then(|message| time(message.get("create_time"))),
            message: message_read,
        });
    }
    Ok(talk)
}

/// Why a message is left out.
enum Aside {
    Bad(String),
    Passed(&'static str),
}

fn read_message(message: &Value) -> Result<Option<Message>, Aside> {
    let author = message.pointer("/author/role").and_then(Value::as_str).unwrap_or_default();
    let role = Role::parse(author).ok_or_else(|| Aside::Bad("its author has no role that is known".into()))?;
    let metadata = message.get("metadata").unwrap_or(&Value::Null);
    if metadata.get("is_visually_hidden_from_conversation").and_then(Value::as_bool) == Some(true) {
        return Err(Aside::Passed("hidden from the conversation"));
    }
    let content = message.get("content").unwrap_or(&Value::Null);
    let kind = content.get("content_type").and_then(Value::as_str).unwrap_or("text");
    if matches!(kind, "thoughts" | "reasoning_recap") {
        return Err(Aside::Passed("the model's reasoning"));
    }
    if matches!(kind, "user_editable_context" | "model_editable_context") {
        return Err(Aside::Passed("settings of the other program"));
    }
    let said = said(content);
    // Every conversation begins with a system message that is empty.
    if said.text.trim().is_empty() && said.parts.is_empty() {
        return Err(Aside::Passed("nothing was said in it"));
    }
    let mut read = Message::new(role, said.text, jiff::Timestamp::UNIX_EPOCH);
    read.name = message.pointer("/author/name").and_then(Value::as_str).filter(|name| !name.is_empty()).map(clean);
    read.metadata = copied(metadata, &[("model_slug", "model"), ("attachments", "attachments")]);
    // What is said to a tool is no answer yet, but part of the turn.
    if let Some(to) = text(message.get("recipient")).filter(|to| *to != "all") {
        read.metadata.insert("recipient".into(), to.into());
    }
    if !said.parts.is_empty() {
        read.raw = Some(raw(role, &read.text, said.parts));
    }
    Ok(Some(read))
}

/// The words of a message, and what it has beside them.
struct Said {
    text: String,
    parts: Vec<Value>,
}

fn said(content: &Value) -> Said {
    let mut texts: Vec<&str> =
        ["text", "result", "content"].iter().filter_map(|name| text(content.get(name))).collect();
    let mut parts = Vec::new();
    for part in content.get("parts").and_then(Value::as_array).into_iter().flatten() {
        match part {
            Value::String(text) => texts.push(text),
            // What was spoken is kept as what was heard.
            Value::Object(_) => match text(part.get("text")) {
                Some(heard) => texts.push(heard),
                None => parts.push(part.clone()),
            },
            _ => {}
        }
    }
    Said { text: clean(texts.join("\n").trim_matches('\n')), parts }
}

/// The message in the wire format of chat models, with the parts as they were exported.
fn raw(role: Role, text: &str, parts: Vec<Value>) -> Value {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(Value::Object(Map::from_iter([
            ("type".to_owned(), "text".into()),
            ("text".to_owned(), text.into()),
        ])));
    }
    for part in parts {
        let mut typed = Map::new();
        typed.insert("type".into(), part.get("content_type").cloned().unwrap_or_else(|| "part".into()));
        typed.extend(part.as_object().cloned().unwrap_or_default());
        content.push(typed.into());
    }
    Map::from_iter([("role".to_owned(), role.as_str().into()), ("content".to_owned(), content.into())]).into()
}
