//! The tee: what of an answer goes on to the client, and a copy that is listened to.
//!
//! Events go on byte for byte as soon as each is whole. Three things do not: `[DONE]`, which leaves by
//! the door's own hand once the turn is durable; the chunk with nothing but usage when it was asked for
//! on our own account; and what comes after the end.

use bytes::{Bytes, BytesMut};
use hyper::header::HeaderMap;
use serde_json::Value;

use super::said::{Hearing, Said};
use crate::model::openai::is_stream;
use crate::model::sse::{EVENT_BYTES_MAX, Event, Events};

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeeKind {
    /// As server-sent events.
    Events,
    /// As one JSON object.
    Whole,
}

impl TeeKind {
    /// What the answer's headers say it is; where they do not say, it is what was asked for.
    pub fn of(headers: &HeaderMap, asked_to_stream: bool) -> Self {
        if is_stream(headers, asked_to_stream) { Self::Events } else { Self::Whole }
    }
}

/// How large an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TeeBounds {
    /// One event, or one line of it.
    pub event_bytes_max: usize,
    /// Everything that is said, reasoning included; or the whole body, when it comes whole.
    pub answer_bytes_max: usize,
}

impl TeeBounds {
    /// Events of up to 8 MiB, and an answer of this size.
    pub fn new(answer_bytes_max: usize) -> Self {
        Self { event_bytes_max: EVENT_BYTES_MAX, answer_bytes_max }
    }
}

/// The answer cannot be passed on any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct TeeError {
    /// What became whole before it and still goes on.
    pub before: Bytes,
    /// What is wrong with it.
    pub fault: TeeFault,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TeeFault {
    /// An event has outgrown its bound.
    #[error("the model's answer cannot be read: {0}")]
    EventTooLong(String),
    /// The answer has outgrown its bound.
    #[error("the model's answer is longer than {bytes_max} bytes")]
    AnswerTooLong {
        /// The bound.
        bytes_max: usize,
    },
    /// No client could read it either.
    #[error("the model's answer cannot be read: it is not a JSON object")]
    NotJson,
}

/// Sits in an answer on its way to the client.
#[derive(Debug)]
pub struct Tee {
    kind: TeeKind,
    drop_usage: bool,
    bounds: TeeBounds,
    events: Events,
    whole: BytesMut,
    hearing: Hearing,
    /// Whether the last event went on; the other half of its line end goes where it went.
    went_on: bool,
    over: bool,
}

/// What becomes of an event.
enum Verdict {
    GoesOn,
    StaysHere,
}

impl Tee {
    /// A tee for one answer. `drop_usage` says that usage was asked for on our own account.
    pub fn new(kind: TeeKind, drop_usage: bool, bounds: TeeBounds) -> Self {
        let (events, hearing) = (Events::with_bound(bounds.event_bytes_max), Hearing::new(bounds.answer_bytes_max));
        Self { kind, drop_usage, bounds, events, whole: BytesMut::new(), hearing, went_on: true, over: false }
    }

    /// Takes in what arrived, and gives what goes on now. After an error nothing more does.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Bytes, TeeError> {
        match self.kind {
            _ if self.over => Ok(Bytes::new()),
            TeeKind::Whole => self.collect(bytes),
            TeeKind::Events => self.feed_events(bytes),
        }
    }

    /// The upstream closed: what is left to go on. For an answer that comes whole that is all of it;
    /// of events it is the last, when only its line ends were missing.
    pub fn end(&mut self) -> Bytes {
        match self.kind {
            _ if self.over => Bytes::new(),
            TeeKind::Whole => self.end_whole(),
            TeeKind::Events => {
                self.events.close();
                let left = self.pass_events();
                self.over = true;
                // An event cut short is no event: the answer broke off before it.
                left.unwrap_or_else(|error| error.before)
            }
        }
    }

    /// Whether nothing more will go on, so that the upstream need not be listened to.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the answer is complete, so that nothing that follows can spoil it.
    pub fn is_complete(&self) -> bool {
        self.hearing.is_complete()
    }

    /// What was said.
    pub fn finish(mut self) -> Said {
        self.end();
        self.hearing.finish()
    }

    fn feed_events(&mut self, bytes: &[u8]) -> Result<Bytes, TeeError> {
        let pushed = self.events.push(bytes);
        let forward = self.pass_events()?;
        match pushed {
            Err(error) if !self.over => self.fail(forward, TeeFault::EventTooLong(error.to_string())),
            _ => Ok(forward),
        }
    }

    fn pass_events(&mut self) -> Result<Bytes, TeeError> {
        let mut forward = BytesMut::new();
        while let Some(event) = self.events.take_event() {
            match self.judge(&event) {
                Ok(verdict) => self.went_on = matches!(verdict, Verdict::GoesOn),
                Err(fault) => return self.fail(forward.freeze(), fault),
            }
            if self.went_on {
                forward.extend_from_slice(&event.raw);
            }
        }
        Ok(forward.freeze())
    }

    fn judge(&mut self, event: &Event) -> Result<Verdict, TeeFault> {
        match event.data.as_deref().map(str::trim) {
            _ if self.over => Ok(Verdict::StaysHere),
            _ if event.is_tail && !self.went_on => Ok(Verdict::StaysHere),
            None | Some("") => Ok(Verdict::GoesOn),
            Some(data) if data.starts_with("[DONE]") => {
                self.hearing.end();
                self.over = true;
                Ok(Verdict::StaysHere)
            }
            Some(data) => self.judge_chunk(data),
        }
    }

    fn judge_chunk(&mut self, data: &str) -> Result<Verdict, TeeFault> {
        let chunk: Value = serde_json::from_str(data).unwrap_or_default();
        if !chunk.is_object() {
            return Err(TeeFault::NotJson);
        }
        let too_long = |_| TeeFault::AnswerTooLong { bytes_max: self.bounds.answer_bytes_max };
        self.hearing.hear(&chunk).map_err(too_long)?;
        Ok(if self.drop_usage && is_only_usage(&chunk) { Verdict::StaysHere } else { Verdict::GoesOn })
    }

    /// Ends the answer here. One that is complete already is not spoilt by what followed it.
    fn fail(&mut self, before: Bytes, fault: TeeFault) -> Result<Bytes, TeeError> {
        self.over = true;
        if self.is_complete() {
            return Ok(before);
        }
        self.hearing.fail(&fault.to_string());
        Err(TeeError { before, fault })
    }

    fn collect(&mut self, bytes: &[u8]) -> Result<Bytes, TeeError> {
        let bytes_max = self.bounds.answer_bytes_max;
        if self.whole.len() + bytes.len() > bytes_max {
            self.whole.clear();
            return self.fail(Bytes::new(), TeeFault::AnswerTooLong { bytes_max });
        }
        self.whole.extend_from_slice(bytes);
        Ok(Bytes::new())
    }

    fn end_whole(&mut self) -> Bytes {
        self.over = true;
        match serde_json::from_slice::<Value>(&self.whole) {
            Ok(answer) if answer.is_object() => self.hearing.hear_whole(&answer),
            _ => self.hearing.fail(&TeeFault::NotJson.to_string()),
        }
        std::mem::take(&mut self.whole).freeze()
    }
}

/// The chunk that is sent only because usage was asked for: it has usage, and no choices.
fn is_only_usage(chunk: &Value) -> bool {
    let has_usage = chunk.get("usage").is_some_and(Value::is_object);
    has_usage && chunk.get("choices").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const BOUNDS: TeeBounds = TeeBounds { event_bytes_max: 1000, answer_bytes_max: 100_000 };

    /// What goes on, what was said, and what was wrong.
    type Outcome = (String, Said, Option<TeeFault>);

    fn tee<'a>(kind: TeeKind, drop_usage: bool, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        let (mut tee, mut forward, mut fault) = (Tee::new(kind, drop_usage, BOUNDS), Vec::new(), None);
        for chunk in chunks {
            match tee.feed(chunk) {
                Ok(bytes) => forward.extend(bytes),
                Err(error) => {
                    forward.extend(error.before);
                    fault = Some(error.fault);
                }
            }
        }
        forward.extend(tee.end());
        (String::from_utf8(forward).expect("text"), tee.finish(), fault)
    }

    fn events(stream: &str) -> Outcome {
        let whole = tee(TeeKind::Events, true, [stream.as_bytes()]);
        assert_eq!(tee(TeeKind::Events, true, stream.as_bytes().chunks(1)), whole, "byte by byte");
        whole
    }

    #[track_caller]
    fn check(stream: &str, forwarded: &str, content: &str) -> Said {
        let (forward, said, fault) = events(stream);
        assert_eq!((forward.as_str(), fault), (forwarded, None));
        assert_eq!(said.choices.first().map_or("", |choice| choice.message["content"].as_str().unwrap_or("")), content);
        said
    }

    const HEL: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    const LO: &str = "data:{\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\r\n\r\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"total_tokens\":7}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn everything_goes_on_but_done_and_our_usage() {
        let odd = ": ping\n\nevent: x\nid: 1\nunknown\n\n\n";
        let said = check(&format!("{odd}{HEL}{LO}{USAGE}{DONE}{DONE}"), &format!("{odd}{HEL}{LO}"), "Hello");
        assert_eq!((said.ended, said.tokens_used), (true, Some(7)));
    }

    #[test]
    fn usage_that_was_asked_for_goes_on() {
        let stream = format!("{HEL}{LO}{USAGE}");
        assert_eq!(tee(TeeKind::Events, false, [format!("{stream}{DONE}").as_bytes()]).0, stream);
        let beside = "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"total_tokens\":7}}\n\n";
        assert_eq!(check(beside, beside, "").tokens_used, Some(7));
    }

    #[test]
    fn an_end_is_known_with_and_without_done() {
        assert!(check(&format!("{HEL}{LO}"), &format!("{HEL}{LO}"), "Hello").ended);
        assert!(check(&format!("{HEL}{DONE}{LO}"), HEL, "Hel").ended);
        assert!(check(&format!("{HEL}data: [DONE]"), HEL, "Hel").ended, "without its line ends");
        assert!(!check(HEL, HEL, "Hel").ended);
    }

    #[test]
    fn a_last_event_without_its_blank_line_goes_on_with_one() {
        let cut = HEL.trim_end();
        check(cut, HEL, "Hel");
        check(&format!("{HEL}data: {{\"choices\":[{{"), HEL, "Hel");
    }

    #[test]
    fn the_text_done_is_only_text() {
        let event = HEL.replace("Hel", "data: [DONE]");
        check(&event, &event, "data: [DONE]");
    }

    #[test]
    fn an_error_on_the_way_goes_on_and_is_told() {
        let error = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
        let said = check(&format!("{HEL}{error}{DONE}"), &format!("{HEL}{error}"), "Hel");
        assert_eq!(said.error.as_deref(), Some("out of memory"));
    }

    #[test]
    fn nothing_spoils_an_answer_that_is_complete() {
        let said = check(&format!("{HEL}{LO}data: {{{{\n\n{HEL}"), &format!("{HEL}{LO}"), "Hello");
        assert_eq!((said.ended, said.error), (true, None));
        let long = "x".repeat(BOUNDS.event_bytes_max + 1);
        assert!(check(&format!("{HEL}{LO}data: {long}"), &format!("{HEL}{LO}"), "Hello").ended);
    }

    #[test]
    fn bounds_end_the_stream() {
        let long = "x".repeat(BOUNDS.event_bytes_max + 1);
        let (forward, said, fault) = events(&format!("{HEL}data: {long}\n\n{LO}"));
        assert_eq!((forward.as_str(), said.ended), (HEL, false));
        assert!(matches!(fault, Some(TeeFault::EventTooLong(_))));
        assert!(said.error.is_some());

        let (forward, _, fault) = tee(TeeKind::Events, true, [HEL.repeat(30_000).as_bytes()]);
        assert_eq!(fault, Some(TeeFault::AnswerTooLong { bytes_max: 100_000 }));
        assert!(forward.len() % HEL.len() == 0 && forward.len() < HEL.len() * 30_000);
    }

    #[test]
    fn a_whole_answer_goes_on_whole() {
        let body = json!({ "choices": [{ "message": { "content": "Hi" }, "finish_reason": "stop" }] }).to_string();
        let (forward, said, fault) = tee(TeeKind::Whole, true, body.as_bytes().chunks(3));
        assert_eq!((forward, fault, said.ended), (body, None, true));
        assert_eq!(said.choices[0].finish_reason.as_deref(), Some("stop"));

        let at_bound = "x".repeat(BOUNDS.answer_bytes_max);
        assert_eq!(tee(TeeKind::Whole, true, [at_bound.as_bytes()]).0, at_bound);
        let (forward, said, fault) = tee(TeeKind::Whole, true, [at_bound.as_bytes(), b"x"]);
        assert_eq!((forward.as_str(), said.ended), ("", false));
        assert_eq!(fault, Some(TeeFault::AnswerTooLong { bytes_max: BOUNDS.answer_bytes_max }));
    }

    fn chunk(delta: Value) -> String {
        json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string()
    }

    /// An event of a stream, without its line ends: what it adds to the content, and its lines.
    fn event() -> impl Strategy<Value = (String, Vec<String>)> {
        let data = |data: String| vec![format!("data: {data}")];
        prop_oneof![
            6 => "(\\[DONE\\]|[a-zé🦀\\n\" ]){0,6}".prop_map(move |text| {
                (text.clone(), data(chunk(json!({ "content": text }))))
            }),
            1 => Just((String::new(), data(chunk(json!({ "reasoning_content": "hm" }))))),
            1 => (0..3_u64, "[a-c]{0,3}").prop_map(move |(index, text)| {
                let call = json!({ "index": index, "function": { "arguments": text } });
                (String::new(), data(chunk(json!({ "tool_calls": [call] }))))
            }),
            1 => Just((String::new(), vec![": ping".into()])),
            1 => Just((String::new(), vec!["event: x".into(), "data:".into(), "é".into()])),
            1 => Just((String::new(), data(r#"{"choices":[],"usage":{"total_tokens":7}}"#.into()))),
            1 => Just((String::new(), vec![])),
        ]
    }

    /// What may come last, or too early.
    fn ending() -> impl Strategy<Value = String> {
        let endings =
            ["[DONE]", " [DONE] ", "{{", "7", r#"{"error":"x"}"#, r#"{"choices":[{"finish_reason":"stop"}]}"#];
        prop::sample::select(endings.to_vec()).prop_map(|data| format!("data: {data}"))
    }

    fn stream() -> impl Strategy<Value = (String, String)> {
        let events = || prop::collection::vec(event(), 0..8);
        let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
        (events(), prop::collection::vec(ending(), 0..3), events(), line_end).prop_map(
            |(first, endings, late, line_end)| {
                let write = |lines: &[String]| {
                    lines.iter().map(|line| format!("{line}{line_end}")).collect::<String>() + line_end
                };
                let stream: String = first.iter().map(|(_, lines)| write(lines)).collect();
                let ends: String = endings.iter().map(|line| write(std::slice::from_ref(line))).collect();
                let late: String = if endings.is_empty() {
                    String::new()
                } else {
                    late.iter().map(|(_, lines)| write(lines)).collect()
                };
                (first.into_iter().map(|(text, _)| text).collect(), stream + &ends + &late)
            },
        )
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same(
            (said_first, stream) in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            drop_usage in any::<bool>(),
        ) {
            let bytes = stream.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            at.sort_unstable();
            let chunks = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let (forward, said, fault) = tee(TeeKind::Events, drop_usage, chunks);
            prop_assert_eq!(&(forward.clone(), said.clone(), fault), &tee(TeeKind::Events, drop_usage, [bytes]));

            let mut events = Events::default();
            events.push(forward.as_bytes()).expect("within the bound");
            while let Some(data) = events.take() {
                prop_assert!(!data.trim().starts_with("[DONE]"), "the door alone says it");
                prop_assert!(!drop_usage || !data.contains("usage"));
            }
            let content = said.choices.first().map_or("", |choice| choice.message["content"].as_str().unwrap_or(""));
            prop_assert!(content.starts_with(&said_first), "{:?} begins with {:?}", content, said_first);
        }

        #[test]
        fn without_an_end_of_its_own_everything_goes_on(parts in prop::collection::vec(event(), 0..12)) {
            let stream: String = parts.iter().map(|(_, lines)| format!("{}\n\n", lines.join("\n"))).collect();
            let (forward, said, fault) = tee(TeeKind::Events, false, stream.as_bytes().chunks(5));
            prop_assert_eq!((forward, fault), (stream, None));
            let content = said.choices.first().map_or("", |choice| choice.message["content"].as_str().unwrap_or(""));
            prop_assert_eq!(content, parts.into_iter().map(|(text, _)| text).collect::<String>());
        }
    }
}
