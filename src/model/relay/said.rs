//! What was said in an answer: deltas put together to the message they are.
//!
//! The message is kept in wire format, with fields nobody knew when this was written. Reasoning is
//! left out: it is not what was said, and clients do not send it back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::model::openai::hear::text_of;
use crate::model::openai::{error_message, shorten};

/// What is known of an answer once it is over.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    /// The answers, by index; more than one when more were asked for.
    pub choices: Vec<Choice>,
    /// The model that answered, by its own word.
    pub model: Option<String>,
    /// Tokens of question and answer together, by the model's count.
    pub tokens_used: Option<u64>,
    /// Whether it is complete: every choice has its `finish_reason`, or `[DONE]` was seen.
    pub ended: bool,
    /// What went wrong on the way, in the upstream's words or ours. An answer that had ended before
    /// is complete all the same.
    pub error: Option<String>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The assistant's message in wire format: `role`, `content` (text or null), `tool_calls`, …
    pub message: Value,
    /// Why it ended: `stop`, `length`, `tool_calls`, …
    pub finish_reason: Option<String>,
}

/// More has been said than is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// The listener: chunks go in, what was said comes out.
#[derive(Debug)]
pub(super) struct Hearing {
    choices: BTreeMap<u64, Hears>,
    said: Said,
    bytes_left: usize,
}

/// One answer while it is coming.
#[derive(Debug, Default)]
struct Hears {
    message: Map<String, Value>,
    calls: Vec<Call>,
    finish_reason: Option<String>,
}

/// A tool call while it is coming.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    fields: Map<String, Value>,
}

/// What beginning a choice or a call costs beside its text: they are small and there may be many.
const BEGINNING_BYTES: usize = 256;

impl Hearing {
    /// Keeps about so many bytes and no more.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { choices: BTreeMap::new(), said: Said::default(), bytes_left: bytes_max }
    }

    /// Takes in one chunk of a stream.
    pub(super) fn hear(&mut self, chunk: &Value) -> Result<(), TooMuch> {
        // A byte for every chunk, so that an endless stream of nothing ends too.
        self.pay(1)?;
        self.note(chunk);
        for choice in chunk.get("choices").and_then(Value::as_array).into_iter().flatten() {
            self.hear_choice(choice)?;
        }
        Ok(())
    }

    /// Takes in an answer that came whole.
    pub(super) fn hear_whole(&mut self, answer: &Value) {
        self.note(answer);
        let choices = answer.get("choices").and_then(Value::as_array);
        for (at, choice) in choices.into_iter().flatten().enumerate() {
            let Some(Value::Object(message)) = choice.get("message") else { continue };
            let kept = message.iter().filter(|(key, _)| !is_thought(key));
            let message = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
            let hears = Hears { message, calls: Vec::new(), finish_reason: finish_reason(choice) };
            self.choices.insert(index(choice).unwrap_or(at as u64), hears);
        }
        self.said.ended = !self.choices.is_empty();
        if !self.said.ended {
            self.fail("it has no choices[0].message");
        }
    }

    /// `[DONE]` was seen.
    pub(super) fn end(&mut self) {
        self.said.ended = true;
    }

    /// Something went wrong. The first error is the one to tell.
    pub(super) fn fail(&mut self, error: &str) {
        self.said.error.get_or_insert_with(|| shorten(error));
    }

    /// Whether nothing that follows can spoil the answer.
    pub(super) fn is_complete(&self) -> bool {
        let finished = !self.choices.is_empty() && self.choices.values().all(|choice| choice.finish_reason.is_some());
        self.said.ended || finished
    }

    pub(super) fn finish(self) -> Said {
        let ended = self.is_complete();
        let choices = self.choices.into_values().map(Hears::finish).collect();
        Said { choices, ended, ..self.said }
    }

    fn note(&mut self, value: &Value) {
        let model = value.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
        self.said.model = model.map(str::to_owned).or(self.said.model.take());
        self.said.tokens_used = value.pointer("/usage/total_tokens").and_then(Value::as_u64).or(self.said.tokens_used);
        if let Some(message) = error_message(value) {
            self.fail(&message);
        }
    }

    fn hear_choice(&mut self, choice: &Value) -> Result<(), TooMuch> {
        let index = index(choice).unwrap_or(0);
        if !self.choices.contains_key(&index) {
            self.pay(BEGINNING_BYTES)?;
        }
        let delta = choice.get("delta");
        self.pay(delta.map_or(0, words_in))?;
        let hears = self.choices.entry(index).or_default();
        hears.finish_reason = finish_reason(choice).or(hears.finish_reason.take());
        if let Some(Value::Object(delta)) = delta {
            hears.hear(delta);
        }
        Ok(())
    }

    fn pay(&mut self, bytes: usize) -> Result<(), TooMuch> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TooMuch)?;
        Ok(())
    }
}

impl Hears {
    fn hear(&mut self, delta: &Map<String, Value>) {
        for (key, value) in delta.iter().filter(|(key, _)| !is_thought(key)) {
            match (key.as_str(), value) {
                ("tool_calls", Value::Array(calls)) => calls.iter().for_each(|call| self.hear_call(call)),
                // Parts of text are text that came in parts.
                ("content", Value::Array(_)) => {
                    let text = text_of(&Value::Object(delta.clone())).unwrap_or_default();
                    merge(&mut self.message, key, &text.into());
                }
                _ => merge(&mut self.message, key, value),
            }
        }
    }

    fn hear_call(&mut self, call: &Value) {
        let Some(delta) = call.as_object() else { return };
        let (index, id) = (index(call), text(delta, "id"));
        let at = self.call_at(index, id).unwrap_or_else(|| {
            self.calls.push(Call { index, fields: Map::new() });
            self.calls.len() - 1
        });
        for (key, value) in delta.iter().filter(|(key, _)| *key != "index") {
            merge(&mut self.calls[at].fields, key, value);
        }
    }

    /// The call a delta continues. An id that is not the one held begins a new call: some servers
    /// number all their calls 0, and some do not number them.
    fn call_at(&self, index: Option<u64>, id: Option<&str>) -> Option<usize> {
        let is_other = |call: &Call| matches!((text(&call.fields, "id"), id), (Some(held), Some(id)) if held != id);
        let is_it = |call: &Call| match index {
            Some(_) => call.index == index && !is_other(call),
            None => !is_other(call),
        };
        self.calls.iter().rposition(is_it)
    }

    fn finish(mut self) -> Choice {
        self.message.entry("role").or_insert_with(|| "assistant".into());
        self.message.entry("content").or_insert(Value::Null);
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(|call| Value::Object(call.fields)).collect();
            self.message.insert("tool_calls".into(), Value::Array(calls));
        }
        Choice { message: Value::Object(self.message), finish_reason: self.finish_reason }
    }
}

/// The fields whose deltas are pieces of one text. Others come whole, and may be repeated.
const PIECES: [&str; 6] = ["content", "refusal", "arguments", "input", "transcript", "data"];

/// Adds a delta to what is held under its name.
fn merge(held: &mut Map<String, Value>, key: &str, delta: &Value) {
    match (held.get_mut(key), delta) {
        (_, Value::Null) => {}
        (Some(Value::String(held)), Value::String(more)) if PIECES.contains(&key) => held.push_str(more),
        // A field repeated without its value has not lost it.
        (Some(Value::String(_)), Value::String(more)) if more.is_empty() => {}
        (Some(Value::Array(held)), Value::Array(more)) => held.extend(more.iter().cloned()),
        (Some(Value::Object(held)), Value::Object(more)) => {
            more.iter().for_each(|(key, value)| merge(held, key, value))
        }
        _ => drop(held.insert(key.to_owned(), delta.clone())),
    }
}

/// What a delta can make us keep, in bytes: its texts, and something for each value around them.
fn words_in(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| words_in(item) + BEGINNING_BYTES).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + words_in(value)).sum(),
        _ => 0,
    }
}

fn is_thought(key: &str) -> bool {
    key.starts_with("reasoning") || key.starts_with("thinking")
}

fn index(value: &Value) -> Option<u64> {
    value.get("index")?.as_u64()
}

fn finish_reason(choice: &Value) -> Option<String> {
    choice.get("finish_reason")?.as_str().map(str::to_owned)
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str().filter(|text| !text.is_empty())
}
