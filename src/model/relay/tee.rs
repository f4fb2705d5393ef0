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
mod tests;
