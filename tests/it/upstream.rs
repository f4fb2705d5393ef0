//! A server that answers in OpenAI's format as told, and remembers what it was sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use futures_util::stream;
use recalld::model::ModelError;
use recalld::model::relay::{PassFuture, Passed, Relayed, Upstream};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// One answer.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A message of the model, whole or streamed as the client wishes.
    Says(Value),
    /// Several answers to one question.
    Choices(Vec<String>),
    /// Pieces of a stream, as they are; then it breaks off, or not.
    Raw(Vec<&'static str>, Option<ModelError>),
    /// A status and a body of its own.
    Refuses(u16, Value),
    /// Not even a connection.
    Fails(ModelError),
}

/// The server. When its script is over it answers `answer N`, counted from 1.
pub(crate) struct Recording {
    script: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Passed>>,
    /// One place for each answer that may be given; closed gates are for tests of what happens meanwhile.
    gate: Semaphore,
}

impl Default for Recording {
    fn default() -> Self {
        Self { script: Mutex::default(), seen: Mutex::default(), gate: Semaphore::new(Semaphore::MAX_PERMITS) }
    }
}

impl Recording {
    /// A server that answers only when told.
    pub(crate) fn gated() -> Self {
        Self { gate: Semaphore::new(0), ..Self::default() }
    }

    /// Lets so many answers out.
    pub(crate) fn let_go(&self, answers: usize) {
        self.gate.add_permits(answers);
    }

    /// Adds an answer to the script.
    pub(crate) fn then(&self, reply: Reply) {
        lock(&self.script).push_back(reply);
    }

    /// A plain answer.
    pub(crate) fn says(&self, text: &str) {
        self.then(Reply::Says(json!({"role": "assistant", "content": text})));
    }

    /// A call of a tool.
    pub(crate) fn calls(&self, id: &str) {
        let function = json!({"name": "clock", "arguments": "{}"});
        let call = json!({"id": id, "type": "function", "function": function});
        self.then(Reply::Says(json!({"role": "assistant", "content": null, "tool_calls": [call]})));
    }

    /// What it was sent, oldest first.
    pub(crate) fn seen(&self) -> Vec<Passed> {
        lock(&self.seen).clone()
    }

    /// The body of the last request, as text.
    pub(crate) fn last_text(&self) -> String {
        let seen = self.seen();
        String::from_utf8(seen.last().expect("a request").body.to_vec()).expect("text")
    }

    /// The body of the last request.
    pub(crate) fn last(&self) -> Value {
        serde_json::from_str(&self.last_text()).expect("JSON")
    }

    /// Contents of the messages of the last request.
    pub(crate) fn last_contents(&self) -> Vec<Value> {
        self.last()["messages"].as_array().expect("messages").iter().map(|message| message["content"].clone()).collect()
    }

    async fn reply(&self, request: Passed) -> Result<Relayed, ModelError> {
        let number = {
            let mut seen = lock(&self.seen);
            seen.push(request.clone());
            seen.len()
        };
        let scripted = lock(&self.script).pop_front();
        self.gate.acquire().await.expect("an open gate").forget();
        let stream = serde_json::from_slice::<Value>(&request.body).is_ok_and(|body| body["stream"] == json!(true));
        let usual = || Reply::Says(json!({"role": "assistant", "content": format!("answer {number}")}));
        match scripted.unwrap_or_else(usual) {
            Reply::Says(message) if stream => Ok(pieces(events(&message))),
            Reply::Says(message) => Ok(whole(200, &completion(vec![message]))),
            Reply::Choices(texts) => Ok(whole(200, &completion(texts.into_iter().map(assistant).collect()))),
            Reply::Raw(parts, error) => Ok(raw(parts, error)),
            Reply::Refuses(status, body) => Ok(whole(status, &body)),
            Reply::Fails(error) => Err(error),
        }
    }
}

impl Upstream for Recording {
    fn name(&self) -> &str {
        "recording"
    }

    fn pass(&self, request: Passed) -> PassFuture<'_> {
        Box::pin(self.reply(request))
    }
}

fn assistant(text: String) -> Value {
    json!({"role": "assistant", "content": text})
}

fn finish(message: &Value) -> &'static str {
    if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" }
}

fn completion(messages: Vec<Value>) -> Value {
    let choice = |(index, message): (usize, Value)| {
        let finish = finish(&message);
        json!({"index": index, "message": message, "finish_reason": finish})
    };
    let choices: Vec<Value> = messages.into_iter().enumerate().map(choice).collect();
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "stub", "choices": choices,
           "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
}

/// A message as chunks; its text comes in two pieces.
fn events(message: &Value) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    if let Some(calls) = message["tool_calls"].as_array() {
        let indexed = |(index, call): (usize, &Value)| {
            let mut call = call.clone();
            call["index"] = json!(index);
            call
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(indexed).collect();
        events.push(chunk(json!({"tool_calls": calls}), Value::Null));
    }
    let text: Vec<char> = message["content"].as_str().unwrap_or("").chars().collect();
    for half in text.chunks(text.len().div_ceil(2).max(1)) {
        events.push(chunk(json!({"content": half.iter().collect::<String>()}), Value::Null));
    }
    events.push(chunk(json!({}), json!(finish(message))));
    events.push("data: [DONE]\n\n".into());
    events
}

fn pieces(events: Vec<String>) -> Relayed {
    let body = Box::pin(stream::iter(events.into_iter().map(|event| Ok(Bytes::from(event)))));
    Relayed { status: StatusCode::OK, headers: kind("text/event-stream"), body }
}

fn raw(parts: Vec<&'static str>, error: Option<ModelError>) -> Relayed {
    let parts = parts.into_iter().map(|part| Ok(Bytes::from(part))).chain(error.map(Err));
    let body = Box::pin(stream::iter(parts.collect::<Vec<_>>()));
    Relayed { status: StatusCode::OK, headers: kind("text/event-stream"), body }
}

fn whole(status: u16, body: &Value) -> Relayed {
    let body = Box::pin(stream::iter([Ok(Bytes::from(body.to_string()))]));
    Relayed { status: StatusCode::from_u16(status).expect("a status"), headers: kind("application/json"), body }
}

fn kind(value: &'static str) -> HeaderMap {
    let headers = [("content-type", value), ("x-request-id", "req-1")];
    let pair = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    headers.map(pair).into_iter().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shared one, for a house.
pub(crate) fn recording() -> Arc<Recording> {
    Arc::new(Recording::default())
}
