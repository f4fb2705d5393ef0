//! Messages as LangChain writes them: `{"type", "data"}` or the serialised form with `lc`; a list of them, a list of lists, or
//! under `messages`.
//!
//! LangChain keeps no dates. Where a program noted some in the usual places they are used, else the file's.

use std::io::BufRead;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::stream::{Element, elements};
use super::thread::{Next, Thread};
use super::value::{clean, copied, text, time};
use super::{Around, Format, Found, ReadError, Taker};
use crate::message::{Message, Role, content_text};

/// Reads messages; each list of them is a conversation.
pub(super) fn read(input: impl BufRead, around: &Around, taker: Taker<'_>) -> Result<(), ReadError> {
    let mut reading = Reading { around, talks: 0, open: None };
    let read = elements(input, &["messages"], &mut |element| reading.take(element, taker));
    reading.close(taker);
    read
}

struct Reading<'a> {
    around: &'a Around,
    talks: usize,
    /// The list that messages are read from, by its name, and how many came.
    open: Option<(String, Thread, usize)>,
}

impl Reading<'_> {
    fn take(&mut self, element: Element<'_>, taker: Taker<'_>) -> bool {
        let Element { at, value, about } = element;
        let list = value.as_array().or_else(|| value.get("messages").and_then(Value::as_array));
        match list {
            Some(messages) => {
                let name = value.as_object().and_then(named).unwrap_or_default();
                let mut each = messages.iter().enumerate();
                let goes_on = self.close(taker)
                    && each.all(|(n, message)| self.message(&name, &format!("{at}[{n}]"), message, taker));
                goes_on && self.close(taker)
            }
            None => self.message(&named(about).unwrap_or_default(), &at, &value, taker),
        }
    }

    fn message(&mut self, name: &str, at: &str, value: &Value, taker: Taker<'_>) -> bool {
        let (message, id, dated) = match read_message(value, self.around) {
            Ok(Some(read)) => read,
            Ok(None) => return taker(Found::Passed("nothing was said in it")),
            Err(reason) => return taker(Found::Bad(at.to_owned(), reason)),
        };
        if self.open.is_none() {
            let key = if name.is_empty() { self.unnamed(id.as_deref(), &message) } else { name.to_owned() };
            self.open = Some((key.clone(), Thread::new(Format::LangChain, &key, message.created_at), 0));
            self.talks += 1;
        }
        let Some((_, thread, count)) = &mut self.open else { return true };
        *count += 1;
        let key = id.unwrap_or_else(|| format!("{count}:{:016x}", print(&message)));
        thread.push(at, Next { key, message, dated }, taker)
    }

    /// A conversation without a name is known by its file, its place there and what it began with.
    fn unnamed(&self, id: Option<&str>, first: &Message) -> String {
        match id {
            Some(id) => format!("after {id}"),
            None => format!("{}#{}:{:016x}", self.around.name, self.talks, print(first)),
        }
    }

    fn close(&mut self, taker: Taker<'_>) -> bool {
        self.open.take().is_none_or(|(_, mut thread, _)| thread.close(taker))
    }
}

/// What a list of messages is called.
fn named(about: &Map<String, Value>) -> Option<String> {
    ["session_id", "thread_id", "conversation_id", "id"]
        .iter()
        .find_map(|name| text(about.get(*name)))
        .map(str::to_owned)
}

fn print(message: &Message) -> u64 {
    xxh3_64([message.role.as_str(), "\0", &message.text].concat().as_bytes())
}

/// A message with its id, and whether it is dated.
type ReadMessage = (Message, Option<String>, bool);

fn read_message(value: &Value, around: &Around) -> Result<Option<ReadMessage>, String> {
    let data = value.get("data").or_else(|| value.get("kwargs")).unwrap_or(value);
    let role = role(value, data).ok_or("its type is no message that is known")?;
    let dated = when(data);
    let said_at = dated.unwrap_or(around.undated);
    let said = clean(&content_text(data.get("content")));
    let mut message = Message::new(role, said, said_at);
    message.name = text(data.get("name")).map(clean);
    message.metadata = copied(data.get("response_metadata").unwrap_or(&Value::Null), &[("model_name", "model")]);
    message.raw = raw(role, data);
    if !message.says_something() && message.raw.is_none() {
        return Ok(None);
    }
    Ok(Some((message, text(data.get("id")).map(str::to_owned), dated.is_some())))
}

fn role(value: &Value, data: &Value) -> Option<Role> {
    let class = value.pointer("/id").and_then(Value::as_array).and_then(|path| path.last()).and_then(Value::as_str);
    let words = [data.get("role"), data.get("type"), value.get("type")];
    let words = words.into_iter().flatten().filter_map(Value::as_str).chain(class);
    words.map(str::to_lowercase).find_map(|word| match word.trim_end_matches("chunk").trim_end_matches("message") {
        "human" | "user" => Some(Role::User),
        "ai" | "assistant" => Some(Role::Assistant),
        "system" | "developer" => Some(Role::System),
        "tool" | "function" => Some(Role::Tool),
        _ => None,
    })
}

/// The places where programs note when something was said.
fn when(data: &Value) -> Option<jiff::Timestamp> {
    let places = ["", "/additional_kwargs", "/response_metadata", "/metadata"];
    let names = ["created_at", "timestamp", "created", "date"];
    places.iter().find_map(|place| {
        let of = data.pointer(place)?;
        names.iter().find_map(|name| time(of.get(*name)))
    })
}

/// What is more than words, in the wire format of chat models: parts, tool calls, the call that a tool answers.
fn raw(role: Role, data: &Value) -> Option<Value> {
    let content = data.get("content").cloned().unwrap_or_default();
    let mut wire = Map::from_iter([("role".to_owned(), role.as_str().into()), ("content".to_owned(), content)]);
    let plain = wire.len();
    let calls = data.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
    if let Some(calls) = calls {
        wire.insert("tool_calls".into(), calls.iter().map(call).collect::<Vec<_>>().into());
    } else if let Some(calls) = data.pointer("/additional_kwargs/tool_calls").filter(|calls| calls.is_array()) {
        wire.insert("tool_calls".into(), calls.clone());
    }
    if let Some(id) = text(data.get("tool_call_id")) {
        wire.insert("tool_call_id".into(), id.into());
    }
    (wire.len() > plain || wire["content"].is_array()).then(|| wire.into())
}

/// A tool call as chat models write it.
fn call(call: &Value) -> Value {
    if call.get("function").is_some() {
        return call.clone();
    }
    let arguments = call.get("args").cloned().unwrap_or_default().to_string();
    serde_json::json!({
        "id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": arguments},
    })
}
