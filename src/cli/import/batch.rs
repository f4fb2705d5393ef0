//! What is sent at once: whole conversations where they are short, parts of one where it is long.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::cli::client::{Ask, Client};
use crate::cli::failure::Failure;
use crate::takeout::{Line, seal};

/// Turns in a batch at which no other conversation is begun, and at which it is sent whatever comes.
const TURNS_ENOUGH: usize = 250;
const TURNS_MAX: usize = 500;
/// The same in bytes.
const BYTES_ENOUGH: usize = 1 << 20;
const BYTES_MAX: usize = 4 << 20;

/// Lines that are sent together.
#[derive(Default)]
pub(super) struct Batch {
    text: String,
    /// Where each line comes from.
    origins: Vec<String>,
    turns: usize,
    /// The conversation that turns belong to, as a line.
    session: Option<(String, String)>,
    goes_on: bool,
}

/// A batch on its way.
pub(super) struct Lines {
    pub(super) body: String,
    /// Whether the first conversation was begun by an earlier one.
    pub(super) goes_on: bool,
}

impl Batch {
    /// Whether it is to be sent before the next line; `begins` says that a conversation begins with it.
    pub(super) fn is_full(&self, begins: bool) -> bool {
        let (turns, bytes) = if begins { (TURNS_ENOUGH, BYTES_ENOUGH) } else { (TURNS_MAX, BYTES_MAX) };
        self.turns >= turns || self.text.len() >= bytes
    }

    /// Adds a line. One that was sent before is left out, but for the conversation that others belong to.
    pub(super) fn push(&mut self, at: String, line: &Line, sent: bool) {
        match line {
            Line::Session(..) => {
                let text = seal(line, None).as_str().to_owned();
                self.session = Some((at.clone(), text.clone()));
                // A conversation that is gone on with is told again before its next turn.
                if !sent {
                    self.add(at, &text);
                }
            }
            _ if sent => {}
            _ => {
                let belongs = matches!(line, Line::Turn(..)) || matches!(line, Line::Episode(_, told) if !told.gone);
                if belongs {
                    self.begin_again();
                }
                self.turns += usize::from(matches!(line, Line::Turn(..)));
                self.add(at, seal(line, None).as_str());
            }
        }
    }

    /// A batch that goes on with a conversation begins with it.
    fn begin_again(&mut self) {
        if let (true, Some((at, text))) = (self.origins.is_empty(), self.session.clone()) {
            self.goes_on = true;
            self.add(at, &text);
        }
    }

    fn add(&mut self, at: String, text: &str) {
        self.text.push_str(text);
        self.origins.push(at);
    }

    /// What is to be sent, and where its lines come from.
    pub(super) fn take(&mut self) -> Option<(Lines, Vec<String>)> {
        self.turns = 0;
        let (body, goes_on) = (std::mem::take(&mut self.text), std::mem::take(&mut self.goes_on));
        let origins = std::mem::take(&mut self.origins);
        (!body.is_empty()).then_some((Lines { body, goes_on }, origins))
    }
}

/// Where batches go.
pub(super) struct Sender<'a> {
    client: &'a Client,
    headers: HeaderMap,
    path: String,
}

impl<'a> Sender<'a> {
    /// Sends to the users that the lines name, or all to whoever imports.
    pub(super) fn new(client: &'a Client, everyone: bool, dry: bool) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        Self { client, headers, path: format!("/api/v1/import?everyone={everyone}&dry_run={dry}") }
    }

    pub(super) async fn send(&self, body: String, goes_on: bool) -> Result<Value, Failure> {
        let path = format!("{}&again={goes_on}", self.path);
        let ask = Ask { method: Method::POST, path: &path, headers: self.headers.clone(), body: None };
        self.client.whole_of(ask, Bytes::from(body)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::takeout::{Around, Format, Found, read};

    fn lines(turns: usize) -> Vec<Line> {
        let text: String =
            (0..turns).map(|n| format!("[2026-05-12 14:{:02}:{:02}] Ann: {n}\n", n / 60, n % 60)).collect();
        let around = Around { name: "x".into(), undated: jiff::Timestamp::UNIX_EPOCH, zone: jiff::tz::TimeZone::UTC };
        let mut lines = Vec::new();
        let mut take = |found| {
            if let Found::Line(_, line) = found {
                lines.push(*line);
            }
            true
        };
        read(Format::Transcript, text.as_bytes(), &around, &mut take).expect("a transcript");
        lines
    }

    #[test]
    fn a_long_conversation_is_told_again_in_each_batch() {
        let (mut batch, mut sent) = (Batch::default(), Vec::new());
        for line in lines(TURNS_MAX + 3) {
            if batch.is_full(matches!(line, Line::Session(..))) {
                sent.extend(batch.take());
            }
            batch.push("here".into(), &line, false);
        }
        sent.extend(batch.take());
        let told: Vec<_> = sent.iter().map(|(lines, origins)| (lines.goes_on, origins.len())).collect();
        assert_eq!(told, [(false, TURNS_MAX + 1), (true, 4)]);
    }

    #[test]
    fn what_was_sent_before_is_left_out() {
        let mut batch = Batch::default();
        for (n, line) in lines(5).iter().enumerate() {
            batch.push("here".into(), line, n < 3);
        }
        let (lines, origins) = batch.take().expect("something to send");
        assert_eq!((lines.goes_on, origins.len()), (true, 4), "the conversation, and three turns");
    }
}
