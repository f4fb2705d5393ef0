//! Claude's `conversations.json`: a list of conversations with `chat_messages`, in a row or with the message before each.

use serde_json::{Map, Value};

use super::Format;
use super::value::{clean, copied, text, time};
use super::weave::{Node, Talk};
use crate::message::{Message, Role};

/// Reads one conversation.
pub(super) fn talk(value: Value) -> Result<Talk, String> {
    let messages = value.get("chat_messages").and_then(Value::as_array).ok_or("it has no `chat_messages`")?;
    let key = text(value.get("uuid")).ok_or("it has no uuid")?;
    let mut talk = Talk::new(Format::Claude, key);
    talk.metadata = copied(&value, &[("name", "title"), ("model", "model")]);
    talk.created_at = time(value.get("created_at"));
    talk.updated_at = time(value.get("updated_at"));
    talk.current = text(value.get("current_leaf_message_uuid")).map(str::to_owned);
    // Older exports do not say which message came before.
    let told = messages.iter().any(|message| message.get("parent_message_uuid").is_some_and(Value::is_string));
    let mut last = None;
    for (n, message) in messages.iter().enumerate() {
        let key = text(message.get("uuid")).map_or_else(|| format!("#{n}"), str::to_owned);
        let parent = if told { text(message.get("parent_message_uuid")).map(str::to_owned) } else { last.take() };
        let read = talk.noted(&format!(".chat_messages[{n}]"), read_message(message));
        last = Some(key.clone());
        talk.nodes.push(Node { key, parent, at: time(message.get("created_at")), message: read });
    }
    Ok(talk)
}

fn read_message(message: &Value) -> Result<Option<Message>, String> {
    let role = match message.get("sender").and_then(Value::as_str) {
        Some("human" | "user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err("its sender is neither `human` nor `assistant`".into()),
    };
    let empty = Vec::new();
    let parts = message.get("content").and_then(Value::as_array).unwrap_or(&empty);
    let is = |part: &Value, kind: &str| part.get("type").and_then(Value::as_str) == Some(kind);
    let texts: Vec<&str> =
        parts.iter().filter(|part| is(part, "text")).filter_map(|part| text(part.get("text"))).collect();
    let said = match texts.is_empty() {
        true => text(message.get("text")).unwrap_or_default().to_owned(),
        false => texts.join("\n"),
    };
    // What the model thought is not what it said; budgets of tokens are nothing anybody said.
    let aside = |part: &&Value| ["text", "thinking", "token_budget"].iter().any(|kind| is(part, kind));
    let mut others: Vec<Value> = parts.iter().filter(|part| !aside(part)).cloned().collect();
    for (name, kind) in [("attachments", "attachment"), ("files", "file")] {
        let files = message.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
        others.extend(files.map(|file| typed(kind, file)));
    }
    let text = clean(said.trim_matches('\n'));
    if text.trim().is_empty() && others.is_empty() {
        return Ok(None);
    }
    let mut read = Message::new(role, text, jiff::Timestamp::UNIX_EPOCH);
    if !others.is_empty() {
        let words =
            Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), read.text.as_str().into())]);
        let content: Vec<Value> = (!read.text.is_empty()).then(|| words.into()).into_iter().chain(others).collect();
        let raw = [("role".to_owned(), role.as_str().into()), ("content".to_owned(), content.into())];
        read.raw = Some(Map::from_iter(raw).into());
    }
    Ok(Some(read))
}

fn typed(kind: &str, fields: &Map<String, Value>) -> Value {
    let mut typed = Map::new();
    typed.insert("type".into(), kind.into());
    typed.extend(fields.clone());
    typed.into()
}
