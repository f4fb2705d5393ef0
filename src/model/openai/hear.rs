//! Hearing the answer: whole, or piece by piece.
//!
//! Servers differ in how they end a stream. A `[DONE]` ends it, and so does a connection that closes
//! after a `finish_reason`; an answer with neither broke off. Once it is complete, nothing that
//! follows can spoil it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream as streams;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use super::redact::Redaction;
use super::{OpenAiSettings, error_message, tidy};
use crate::model::http::root_cause;
use crate::model::relay::RelayBody;
use crate::model::sse::Events;
use crate::model::{Ending, ModelError, Piece, Pieces};

/// How large an answer may be that comes whole.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A response body with time limits, and with the operator's key redacted.
pub(super) struct Body {
    incoming: Incoming,
    redaction: Redaction,
    /// How long the next chunk may take. Many servers send their headers at once and then think, so
    /// the first chunk is given the time of the first byte.
    patience: Duration,
    idle_timeout: Duration,
}

impl Body {
    pub(super) fn new(incoming: Incoming, settings: &OpenAiSettings) -> Self {
        let redaction = Redaction::of(settings);
        Self { incoming, redaction, patience: settings.first_byte_timeout, idle_timeout: settings.idle_timeout }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        loop {
            let patience = self.patience;
            let frame = timeout(patience, self.incoming.frame()).await.map_err(|_| ModelError::Silent(patience))?;
            self.patience = self.idle_timeout;
            match frame {
                None => return Ok(Some(self.redaction.finish()).filter(|held| !held.is_empty())),
                Some(Err(error)) => return Err(ModelError::BrokeOff(root_cause(&error))),
                // What is not data is a trailer, and nobody sends anything of interest in those.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => match self.redaction.push(data) {
                        passed if passed.is_empty() => continue,
                        passed => return Ok(Some(passed)),
                    },
                    Err(_) => continue,
                },
            }
        }
    }

    /// The chunks as they come. An error is the last of them.
    pub(super) fn relay(self) -> RelayBody {
        Box::pin(streams::unfold(Some(self), |body| async {
            let mut body = body?;
            let chunk = body.chunk().await.transpose()?;
            let rest = chunk.is_ok().then_some(body);
            Some((chunk, rest))
        }))
    }

    pub(super) async fn all(mut self) -> Result<Vec<u8>, ModelError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(ModelError::Unreadable(format!("it is longer than {ANSWER_BYTES_MAX} bytes")));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// The beginning of the body: as much as came, was wanted and did not take too long.
    pub(super) async fn start(mut self, bytes_max: usize) -> Vec<u8> {
        let (mut start, patience) = (Vec::new(), self.idle_timeout);
        let reading = async {
            while let Ok(Some(chunk)) = self.chunk().await {
                start.extend_from_slice(&chunk[..chunk.len().min(bytes_max - start.len())]);
                if start.len() == bytes_max {
                    break;
                }
            }
        };
        // Whatever came in time is enough: it only decorates an error.
        let _ = timeout(patience, reading).await;
        start
    }
}

/// An answer that comes whole.
pub(super) async fn whole(body: Body, settings: &OpenAiSettings) -> Result<Pieces, ModelError> {
    let bytes = body.all().await?;
    let pieces = read_whole(&bytes, settings)?;
    Ok(Box::pin(streams::iter(pieces.into_iter().map(Ok))))
}

/// The words of an answer that came whole, and how it ended.
pub(super) fn read_whole(bytes: &[u8], settings: &OpenAiSettings) -> Result<Vec<Piece>, ModelError> {
    let unreadable = |reason: &str| ModelError::Unreadable(tidy(reason, settings));
    let answer: Value = serde_json::from_slice(bytes)
        .map_err(|_| unreadable(&format!("it is not JSON: {}", String::from_utf8_lossy(bytes))))?;
    // Some gateways send their errors with status 200.
    if let Some(message) = error_message(&answer) {
        return Err(unreadable(&format!("it is an error: {message}")));
    }
    let message = answer.pointer("/choices/0/message").ok_or_else(|| unreadable("it has no choices[0].message"))?;
    let mut ending = Ending::default();
    note(&answer, &mut ending);
    let text = text_of(message).map(Piece::Text);
    Ok(text.into_iter().chain([Piece::End(ending)]).collect())
}

/// An answer that comes piece by piece.
pub(super) fn stream(body: Body, settings: Arc<OpenAiSettings>) -> Pieces {
    let hearing = Hearing { body, events: Events::default(), heard: Heard::new(settings) };
    Box::pin(streams::unfold(hearing, |mut hearing| async { hearing.next().await.map(|piece| (piece, hearing)) }))
}

struct Hearing {
    body: Body,
    events: Events,
    heard: Heard,
}

impl Hearing {
    async fn next(&mut self) -> Option<Result<Piece, ModelError>> {
        while self.heard.waiting.is_empty() && !self.heard.over {
            match self.body.chunk().await {
                Ok(Some(bytes)) => self.take(&bytes),
                Ok(None) => {
                    self.heard.stop(ModelError::BrokeOff("the connection closed before it was complete".into()))
                }
                Err(error) => self.heard.stop(error),
            }
        }
        self.heard.waiting.pop_front()
    }

    fn take(&mut self, bytes: &[u8]) {
        let pushed = self.events.push(bytes);
        while let Some(data) = self.events.take() {
            self.heard.hear(&data);
        }
        if let Err(error) = pushed {
            self.heard.stop(ModelError::Unreadable(error.to_string()));
        }
    }
}

/// What was heard so far, apart from how it arrived.
struct Heard {
    settings: Arc<OpenAiSettings>,
    ending: Ending,
    waiting: VecDeque<Result<Piece, ModelError>>,
    over: bool,
}

impl Heard {
    fn new(settings: Arc<OpenAiSettings>) -> Self {
        Self { settings, ending: Ending::default(), waiting: VecDeque::new(), over: false }
    }

    /// Takes in the data of one event. After the end nothing is heard: some servers say `[DONE]` twice.
    fn hear(&mut self, data: &str) {
        match data.trim() {
            _ if self.over => {}
            "" => {}
            "[DONE]" => self.end(),
            data => match serde_json::from_str(data) {
                Ok(chunk) => self.hear_chunk(&chunk),
                Err(_) => self.stop(ModelError::Unreadable(tidy(&format!("it is not JSON: {data}"), &self.settings))),
            },
        }
    }

    fn hear_chunk(&mut self, chunk: &Value) {
        if let Some(message) = error_message(chunk) {
            return self.stop(ModelError::BrokeOff(tidy(&message, &self.settings)));
        }
        note(chunk, &mut self.ending);
        let text = chunk.pointer("/choices/0/delta").and_then(text_of);
        self.waiting.extend(text.map(|text| Ok(Piece::Text(text))));
    }

    /// Nothing more will come. That is a failure unless the model had finished.
    fn stop(&mut self, error: ModelError) {
        match self.ending.finish_reason {
            _ if self.over => {}
            Some(_) => self.end(),
            None => {
                self.over = true;
                self.waiting.push_back(Err(error));
            }
        }
    }

    fn end(&mut self) {
        self.over = true;
        self.waiting.push_back(Ok(Piece::End(std::mem::take(&mut self.ending))));
    }
}

/// Notes what an answer, or a part of one, tells about itself.
fn note(value: &Value, ending: &mut Ending) {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    ending.model = text("/model").filter(|model| !model.is_empty()).or(ending.model.take());
    ending.finish_reason = text("/choices/0/finish_reason").or(ending.finish_reason.take());
    ending.tokens_used = value.pointer("/usage/total_tokens").and_then(Value::as_u64).or(ending.tokens_used);
}

/// The words of a message or delta: a string, or the text parts of an array. `None` when there are none.
fn text_of(message: &Value) -> Option<String> {
    let text = match message.get("content")? {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    /// Hears events and then a closed connection; shows text, and how it ended after a bar.
    fn heard(events: &[&str]) -> String {
        let mut heard = Heard::new(Arc::new(settings("http://unused/v1")));
        events.iter().for_each(|data| heard.hear(data));
        heard.stop(ModelError::BrokeOff("closed".into()));
        heard.waiting.iter().map(show).collect()
    }

    fn show(piece: &Result<Piece, ModelError>) -> String {
        match piece {
            Ok(Piece::Text(text)) => text.clone(),
            Ok(Piece::End(Ending { model, tokens_used, finish_reason })) => {
                let (model, reason) = (model.as_deref().unwrap_or("-"), finish_reason.as_deref().unwrap_or("-"));
                format!("|{model} {} {reason}", tokens_used.map_or("-".into(), |tokens| tokens.to_string()))
            }
            Err(error) => format!("|{error}"),
        }
    }

    #[track_caller]
    fn check(events: &[&str], expected: &str) {
        assert_eq!(heard(events), expected);
    }

    const HEL: &str =
        r#"{"model":"m","choices":[{"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}"#;
    const LO: &str = r#"{"choices":[{"delta":{"content":"lo"}}]}"#;
    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}"#;
    const USAGE: &str = r#"{"choices":[],"usage":{"total_tokens":7}}"#;

    #[test]
    fn a_stream_is_heard_to_its_end() {
        check(&[HEL, LO, STOP, USAGE, "[DONE]"], "Hello|m 7 stop");
        check(&[HEL, LO, STOP, USAGE, "[DONE]", "[DONE]"], "Hello|m 7 stop");
        check(&[HEL, "[DONE]", LO], "Hel|m - -");
    }

    #[test]
    fn a_finish_reason_is_an_end_too() {
        check(&[HEL, LO, STOP], "Hello|m - stop");
        check(&[HEL, LO, STOP, r#"{"error":{"message":"late"}}"#], "Hello|m - stop");
    }

    #[test]
    fn neither_means_it_broke_off() {
        check(&[HEL], "Hel|the model's answer broke off: closed");
        check(&[], "|the model's answer broke off: closed");
    }

    #[test]
    fn an_error_on_the_way_ends_it() {
        check(
            &[HEL, r#"{"error":{"message":"out of memory"}}"#, LO],
            "Hel|the model's answer broke off: out of memory",
        );
        check(&[HEL, r#"{"error":"out of memory"}"#], "Hel|the model's answer broke off: out of memory");
        check(&[HEL, "{{"], "Hel|the model's answer cannot be read: it is not JSON: {{");
    }

    #[test]
    fn what_is_not_the_answer_is_passed_over() {
        let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm","content":null}}],"error":null}"#;
        check(&[thought, "", HEL, STOP, "[DONE]"], "Hel|m - stop");
    }

    #[track_caller]
    fn check_whole(body: &str, expected: &str) {
        let pieces = read_whole(body.as_bytes(), &settings("http://unused/v1"));
        let shown: String = match pieces {
            Ok(pieces) => pieces.into_iter().map(|piece| show(&Ok(piece))).collect(),
            Err(error) => show(&Err(error)),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_whole_answer_is_read() {
        check_whole(
            r#"{"model":"m","choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}"#,
            "Hi|m 3 stop",
        );
        check_whole(r#"{"choices":[{"message":{"content":[{"text":"H"},{"text":"i"}]}}]}"#, "Hi|- - -");
        check_whole(r#"{"choices":[{"message":{"content":null},"finish_reason":"length"}]}"#, "|- - length");
        check_whole(r#"{"choices":[{"message":{"content":""}}]}"#, "|- - -");
    }

    #[test]
    fn what_is_no_answer_says_why() {
        check_whole("<html>", "|the model's answer cannot be read: it is not JSON: <html>");
        check_whole("{}", "|the model's answer cannot be read: it has no choices[0].message");
        check_whole(r#"{"error":{"message":"quota"}}"#, "|the model's answer cannot be read: it is an error: quota");
    }
}
