//! What was said in an answer: deltas put together to the message they are.
//!
//! The message is kept in wire format, with fields nobody knew when this was written. Reasoning is
//! left out: it is not what was said, and clients do not send it back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

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

/// What a value in a list or an object takes beside its text.
const VALUE_BYTES: usize = 32;

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
        let hears = self.choices.entry(index).or_default();
        hears.finish_reason = finish_reason(choice).or(hears.finish_reason.take());
        let added = choice.get("delta").and_then(Value::as_object).map_or(0, |delta| hears.hear(delta));
        self.pay(added)
    }

    fn pay(&mut self, bytes: usize) -> Result<(), TooMuch> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TooMuch)?;
        Ok(())
    }
}

impl Hears {
    /// Takes in a delta, and tells how many bytes it brought.
    fn hear(&mut self, delta: &Map<String, Value>) -> usize {
        let hear = |(key, value): (&String, &Value)| match (key.as_str(), value) {
            (key, thought) if is_thought(key) => weight(thought),
            ("tool_calls", Value::Array(calls)) => calls.iter().map(|call| self.hear_call(call)).sum(),
            // Parts of text are text that came in parts.
            ("content", Value::Array(parts)) => merge(&mut self.message, key, &text_of(parts).into()),
            _ => merge(&mut self.message, key, value),
        };
        delta.iter().map(hear).sum()
    }

    fn hear_call(&mut self, call: &Value) -> usize {
        let Some(delta) = call.as_object() else { return 0 };
        let (index, held) = (index(call), self.calls.len());
        let at = self.call_at(index, text(delta, "id")).unwrap_or(held);
        if at == held {
            self.calls.push(Call { index, fields: Map::new() });
        }
        let fields = delta.iter().filter(|(key, _)| *key != "index");
        let added: usize = fields.map(|(key, value)| merge(&mut self.calls[at].fields, key, value)).sum();
        if at == held { added + BEGINNING_BYTES } else { added }
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

/// Adds a delta to what is held under its name, and tells how many bytes it brought.
fn merge(held: &mut Map<String, Value>, key: &str, delta: &Value) -> usize {
    match (held.get_mut(key), delta) {
        (_, Value::Null) => return 0,
        (Some(Value::String(held)), Value::String(more)) if PIECES.contains(&key) => held.push_str(more),
        (Some(Value::Array(held)), Value::Array(more)) => held.extend(more.iter().cloned()),
        (Some(Value::Object(held)), Value::Object(more)) => {
            return more.iter().map(|(key, value)| merge(held, key, value)).sum();
        }
        // A field repeated, with its value or without, has not changed.
        (Some(held), delta) if held == delta || delta == "" => return 0,
        _ => {
            held.insert(key.to_owned(), delta.clone());
            return key.len() + weight(delta);
        }
    }
    weight(delta)
}

/// What a value takes to keep, in bytes and roughly.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| VALUE_BYTES + weight(item)).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| VALUE_BYTES + key.len() + weight(value)).sum(),
        _ => VALUE_BYTES,
    }
}

/// The words of content that comes in parts.
fn text_of(parts: &[Value]) -> String {
    parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hear(chunks: &[Value]) -> Said {
        let mut hearing = Hearing::new(1 << 20);
        chunks.iter().for_each(|chunk| hearing.hear(chunk).expect("within the bound"));
        hearing.finish()
    }

    /// Hears deltas of one choice; shows the message they make.
    #[track_caller]
    fn check(deltas: &[Value], message: Value) {
        let chunks: Vec<Value> = deltas.iter().map(|delta| json!({ "choices": [{ "delta": delta }] })).collect();
        assert_eq!(hear(&chunks).choices, [Choice { message, finish_reason: None }]);
    }

    #[test]
    fn text_is_put_together() {
        check(
            &[json!({ "role": "assistant", "content": "" }), json!({ "content": "Hel" }), json!({ "content": "lo" })],
            json!({ "role": "assistant", "content": "Hello" }),
        );
        check(
            &[json!({ "content": [{ "type": "text", "text": "H" }] })],
            json!({ "content": "H", "role": "assistant" }),
        );
        check(
            &[json!({ "refusal": "I " }), json!({ "refusal": "won't" })],
            json!({ "refusal": "I won't", "role": "assistant", "content": null }),
        );
    }

    #[test]
    fn reasoning_is_not_what_was_said() {
        check(
            &[json!({ "reasoning_content": "hm", "content": null }), json!({ "reasoning": "hm", "content": "Yes" })],
            json!({ "content": "Yes", "role": "assistant" }),
        );
    }

    fn call(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        let mut call = json!({ "function": { "arguments": arguments } });
        for (key, value) in [("index", index.map(Value::from)), ("id", id.map(Value::from))] {
            call[key] = value.unwrap_or_default();
        }
        call["function"]["name"] = name.map(Value::from).unwrap_or_default();
        json!({ "tool_calls": [call] })
    }

    /// Hears deltas of tool calls; shows them as `id name(arguments)`.
    #[track_caller]
    fn check_calls(deltas: &[Value], expected: &[&str]) {
        let chunks: Vec<Value> = deltas.iter().map(|delta| json!({ "choices": [{ "delta": delta }] })).collect();
        let message = hear(&chunks).choices.remove(0).message;
        let text = |call: &Value, at: &str| call.pointer(at).and_then(Value::as_str).unwrap_or("-").to_owned();
        let show = |call: &Value| {
            assert!(call.get("index").is_none(), "an index belongs to the stream, not to the call");
            format!("{} {}({})", text(call, "/id"), text(call, "/function/name"), text(call, "/function/arguments"))
        };
        let calls: Vec<String> = message["tool_calls"].as_array().into_iter().flatten().map(show).collect();
        assert_eq!(calls, expected);
        assert_eq!(message["content"], Value::Null);
    }

    #[test]
    fn tool_calls_are_put_together() {
        let one = [
            call(Some(0), Some("a"), Some("add"), ""),
            call(Some(1), Some("b"), Some("mul"), ""),
            call(Some(0), None, None, "{1"),
            call(Some(1), Some("b"), Some("mul"), "{2}"),
            call(Some(0), Some(""), Some(""), "}"),
        ];
        check_calls(&one, &["a add({1})", "b mul({2})"]);
    }

    #[test]
    fn tool_calls_are_told_apart_where_indexes_do_not() {
        let same = [call(Some(0), Some("a"), Some("add"), "{1}"), call(Some(0), Some("b"), Some("mul"), "{2}")];
        check_calls(&same, &["a add({1})", "b mul({2})"]);
        let none =
            [call(None, Some("a"), Some("add"), "{"), call(None, None, None, "}"), call(None, Some("b"), None, "x")];
        check_calls(&none, &["a add({})", "b -(x)"]);
    }

    #[test]
    fn choices_come_in_order_and_end_one_by_one() {
        let part = |index: u64, text: &str, reason: Option<&str>| json!({ "model": "m", "choices": [{ "index": index, "delta": { "content": text }, "finish_reason": reason }] });
        let mut chunks = vec![part(1, "b", None), part(0, "a", Some("stop"))];
        let said = hear(&chunks);
        let texts: Vec<_> = said.choices.iter().map(|choice| choice.message["content"].as_str()).collect();
        assert_eq!((texts, said.ended), (vec![Some("a"), Some("b")], false));
        chunks.push(part(1, "", Some("length")));
        chunks.push(json!({ "choices": [], "usage": { "total_tokens": 7 } }));
        let said = hear(&chunks);
        assert_eq!((said.ended, said.model.as_deref(), said.tokens_used), (true, Some("m"), Some(7)));
    }

    #[test]
    fn an_error_is_told() {
        assert_eq!(hear(&[json!({ "error": { "message": "out of memory" } })]).error.as_deref(), Some("out of memory"));
        assert_eq!(hear(&[json!({ "error": "a" }), json!({ "error": "b" })]).error.as_deref(), Some("a"));
        assert_eq!(hear(&[json!({ "error": null })]).error, None);
    }

    #[test]
    fn what_is_repeated_is_kept_once() {
        let chunk =
            json!({ "choices": [{ "delta": { "role": "assistant", "tool_calls": [{ "index": 0, "id": "a" }] } }] });
        let mut hearing = Hearing::new(1000);
        (0..200).for_each(|_| hearing.hear(&chunk).expect("within the bound"));
        assert_eq!(hearing.finish().choices[0].message["tool_calls"], json!([{ "id": "a" }]));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let chunk = |delta: Value| json!({ "choices": [{ "delta": delta }] });
        let mut hearing = Hearing::new(BEGINNING_BYTES + 1 + "content".len() + 5);
        assert_eq!(hearing.hear(&chunk(json!({ "content": "12345" }))), Ok(()));
        assert_eq!(hearing.hear(&chunk(json!({}))), Err(TooMuch), "an endless stream of nothing ends too");
        let mut hearing = Hearing::new(10 * BEGINNING_BYTES + 1);
        let calls: Vec<Value> = (0..10).map(|index| json!({ "index": index })).collect();
        let many = chunk(json!({ "tool_calls": calls }));
        assert_eq!(hearing.hear(&many), Err(TooMuch));
    }

    #[test]
    fn a_whole_answer_is_kept_as_it_came() {
        let mut hearing = Hearing::new(0);
        hearing.hear_whole(&json!({
            "model": "m", "usage": { "total_tokens": 3 },
            "choices": [{ "message": { "role": "assistant", "content": "Hi", "reasoning_content": "hm", "audio": null } }],
        }));
        let said = hearing.finish();
        let message = json!({ "role": "assistant", "content": "Hi", "audio": null });
        assert_eq!(said.choices, [Choice { message, finish_reason: None }]);
        assert_eq!((said.ended, said.tokens_used, said.error), (true, Some(3), None));
    }
}
