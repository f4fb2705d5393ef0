//! Chats exported from Open WebUI: a list of chats, each a tree under `chat.history.messages`, of which `currentId` is shown last.
//!
//! A chat has the session here that it has when Open WebUI talks through us, so that it goes on where it was exported.

use serde_json::{Map, Value};

use super::Format;
use super::value::{clean, copied, text, time};
use super::weave::{Node, Talk};
use crate::id::SessionId;
use crate::message::{Message, Role};

/// Reads one chat.
pub(super) fn talk(value: Value) -> Result<Talk, String> {
    let chat = value.get("chat").unwrap_or(&value);
    let history = chat.get("history").ok_or("it has no `history`")?;
    let messages = history.get("messages").and_then(Value::as_object).ok_or("its `history` has no `messages`")?;
    let key = [&value, chat].into_iter().find_map(|of| text(of.get("id"))).ok_or("it has no id")?;
    let mut talk = Talk::new(Format::OpenWebUi, key);
    talk.session = SessionId::parse(key);
    talk.names_messages = true;
    talk.metadata = copied(chat, &[("title", "title"), ("tags", "tags")]);
    let when = |names: [&str; 2]| names.iter().find_map(|name| time(value.get(*name).or_else(|| chat.get(*name))));
    talk.created_at = when(["created_at", "timestamp"]);
    talk.updated_at = when(["updated_at", "updatedAt"]);
    talk.current = text(history.get("currentId")).map(str::to_owned);
    for (key, message) in messages {
        let read = talk.noted(&format!(".chat.history.messages.{key}"), read_message(message));
        talk.nodes.push(Node {
            key: key.clone(),
            parent: text(message.get("parentId")).map(str::to_owned),
            at: time(message.get("timestamp")),
            message: read,
        });
    }
    Ok(talk)
}

fn read_message(message: &Value) -> Result<Option<Message>, String> {
    let role = message.get("role").and_then(Value::as_str).and_then(Role::parse);
    let role = role.ok_or("it has no role that is known")?;
    let said = clean(message.get("content").and_then(Value::as_str).unwrap_or_default());
    let files = message.get("files").and_then(Value::as_array).filter(|files| !files.is_empty());
    if said.trim().is_empty() && files.is_none() {
        return Ok(None);
    }
    let mut read = Message::new(role, said, jiff::Timestamp::UNIX_EPOCH);
    read.metadata = copied(message, &[("model", "model"), ("error", "error")]);
    if let Some(files) = files {
        let words =
            Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), read.text.as_str().into())]);
        let words = (!read.text.is_empty()).then(|| words.into());
        let content: Vec<Value> = words.into_iter().chain(files.iter().map(part)).collect();
        let raw = [("role".to_owned(), role.as_str().into()), ("content".to_owned(), content.into())];
        read.raw = Some(Map::from_iter(raw).into());
    }
    Ok(Some(read))
}

/// A picture as it is sent to models, anything else as it was exported.
fn part(file: &Value) -> Value {
    match (file.get("type").and_then(Value::as_str), file.get("url")) {
        (Some("image"), Some(url)) => serde_json::json!({"type": "image_url", "image_url": {"url": url}}),
        _ => file.clone(),
    }
}
