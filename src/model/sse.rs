//! Server-sent events, read as they arrive.
//!
//! Bytes may be cut anywhere: inside a character, inside a line, between CR and LF. Lines are
//! therefore kept as bytes and become text only once they are whole.
//!
//! Only `data` is read. Comments, and the fields that reconnecting browsers need, stay in the bytes of
//! their event for whoever passes events on.

use std::collections::VecDeque;

/// How large an event may be that has not ended yet. A model's piece is a few hundred bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many bytes of a stream may be comments and empty events. A comment every second that the model is still thinking
/// is 100 KB in an hour.
const SILENT_BYTES_MAX: usize = 1024 * 1024;

/// A stream has outgrown a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooLong {
    /// An event, or one line of it.
    #[error("an event is longer than {bytes_max} bytes")]
    Event {
        /// The bound.
        bytes_max: usize,
    },
    /// Comments and empty events, all together.
    #[error("more than {SILENT_BYTES_MAX} bytes of it are comments")]
    Comments,
}

/// Everything up to and including a blank line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    /// Its bytes as they came.
    pub(crate) raw: Vec<u8>,
    /// Its `data` lines, joined; `None` when it has none.
    pub(crate) data: Option<String>,
    /// It is only the LF of a CR LF whose CR ended the event before it.
    pub(crate) is_tail: bool,
}

/// The reader: bytes go in, whole events come out.
#[derive(Debug)]
pub(crate) struct Events {
    bytes_max: usize,
    /// The event that has not ended yet.
    event: Event,
    /// Where in it the line begins that has not ended yet.
    line_at: usize,
    whole: VecDeque<Event>,
    /// The last byte was a CR: an LF after it belongs to the same line end.
    after_cr: bool,
    /// A byte order mark is allowed before the first line, and nowhere else.
    at_start: bool,
    /// Bytes of events without data.
    silent_bytes: usize,
}

impl Default for Events {
    fn default() -> Self {
        Self::with_bound(EVENT_BYTES_MAX)
    }
}

impl Events {
    pub(crate) fn with_bound(bytes_max: usize) -> Self {
        let (event, whole) = (Event::default(), VecDeque::new());
        Self { bytes_max, event, line_at: 0, whole, after_cr: false, at_start: true, silent_bytes: 0 }
    }

    /// Takes in what arrived. Events that became whole before an error can still be taken.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                self.end_line_end();
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.grow(rest);
            };
            self.grow(&rest[..end])?;
            self.after_cr = rest[end] == b'\r';
            self.end_line(rest[end]);
            if self.silent_bytes > SILENT_BYTES_MAX {
                return Err(TooLong::Comments);
            }
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// The data of the next whole event that has any.
    pub(crate) fn take(&mut self) -> Option<String> {
        std::iter::from_fn(|| self.take_event()).find_map(|event| event.data)
    }

    /// The next whole event, comments and all. Together they are the bytes that came.
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        self.whole.pop_front()
    }

    /// Nothing more will come: what lacks only its line ends is given them.
    pub(crate) fn close(&mut self) {
        if !self.event.raw.is_empty() {
            // After a CR the first of these is its other half.
            let _ = self.push(b"\n\n");
        }
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        // A line end is never too long: it is what brings an event to its end.
        if !bytes.is_empty() && self.event.raw.len() + bytes.len() > self.bytes_max {
            return Err(TooLong::Event { bytes_max: self.bytes_max });
        }
        self.event.raw.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, line_end: u8) {
        let line = String::from_utf8_lossy(&self.event.raw[self.line_at..]);
        let line = if std::mem::take(&mut self.at_start) { line.trim_start_matches('\u{feff}') } else { &line };
        let is_blank = line.is_empty();
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            add_line(&mut self.event.data, value.strip_prefix(' ').unwrap_or(value));
        }
        self.event.raw.push(line_end);
        self.line_at = self.event.raw.len();
        if is_blank {
            self.end_event();
        }
    }

    fn end_event(&mut self) {
        let event = std::mem::take(&mut self.event);
        self.line_at = 0;
        if event.data.as_deref().is_none_or(|data| data.trim().is_empty()) {
            self.silent_bytes += event.raw.len();
        }
        match self.whole.back_mut() {
            // A flood of line breaks is one event without data, not a million.
            Some(last) if last.data.is_none() && event.data.is_none() && !last.is_tail => last.raw.extend(event.raw),
            _ => self.whole.push_back(event),
        }
    }

    /// The LF of a CR LF.
    fn end_line_end(&mut self) {
        if self.line_at > 0 {
            self.event.raw.push(b'\n');
            self.line_at += 1;
        } else if let Some(last) = self.whole.back_mut() {
            last.raw.push(b'\n');
        } else {
            self.whole.push_back(Event { raw: b"\n".to_vec(), data: None, is_tail: true });
        }
    }
}

fn add_line(data: &mut Option<String>, value: &str) {
    match data {
        Some(data) => {
            data.push('\n');
            data.push_str(value);
        }
        None => *data = Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut events = Events::default();
        for chunk in chunks {
            events.push(chunk).expect("within the bound");
        }
        std::iter::from_fn(|| events.take()).collect()
    }

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        assert_eq!(read([stream.as_bytes()]), expected);
        assert_eq!(read(stream.as_bytes().chunks(1)), expected, "byte by byte");
    }

    #[test]
    fn every_line_end_is_understood() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
    }

    #[test]
    fn data_lines_of_one_event_are_joined() {
        check("data: a\ndata:b\ndata\ndata:  c\n\n", &["a\nb\n\n c"]);
    }

    #[test]
    fn comments_and_other_fields_are_passed_over() {
        check(": keep-alive\n\nevent: message\nid: 7\ndata: één\nretry: 3\n\n:\n\n", &["één"]);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        check("\u{feff}data: a\n\n", &["a"]);
    }

    #[test]
    fn an_event_that_has_not_ended_is_not_an_event() {
        check("data: a\n\ndata: b\n", &["a"]);
    }

    #[test]
    fn an_event_may_fill_its_bound_and_no_more() {
        let mut events = Events::with_bound(12);
        assert_eq!(events.push(b"data: 123456\n\n"), Ok(()));
        assert_eq!(events.push(b"data: 1234567"), Err(TooLong::Event { bytes_max: 12 }));
        assert_eq!(events.take().as_deref(), Some("123456"), "what was whole is not lost");
    }

    #[test]
    fn many_lines_count_as_one_event() {
        let mut events = Events::with_bound(27);
        assert_eq!(events.push(b"data: 1234\n: comment\n"), Ok(()));
        assert_eq!(events.push(b"data: 9\n"), Err(TooLong::Event { bytes_max: 27 }));
    }

    #[test]
    fn comments_have_a_bound_of_their_own() {
        let comment = format!(": {}\n\n", "x".repeat(60));
        for (filler, name) in [(comment.as_str(), "comments"), ("\n", "blank lines"), ("data:\n\n", "empty data")] {
            let mut events = Events::default();
            let fitting = SILENT_BYTES_MAX / filler.len();
            for _ in 0..fitting {
                events.push(filler.as_bytes()).expect("within the bound");
            }
            events.push(b"data: said\n\n").expect("words are not bounded here");
            assert_eq!(events.push(filler.repeat(2).as_bytes()), Err(TooLong::Comments), "{name}");
            let said = std::iter::from_fn(|| events.take()).filter(|data| !data.is_empty());
            assert_eq!(said.collect::<Vec<_>>(), ["said"], "{name}");
        }
    }

    #[test]
    fn what_lacks_only_its_line_ends_is_given_them() {
        for stream in ["data: a", "data: a\n", "data: a\r", "data: a\r\n"] {
            let mut events = Events::default();
            events.push(stream.as_bytes()).expect("within the bound");
            events.close();
            assert_eq!(events.take().as_deref(), Some("a"), "{stream:?}");
        }
    }

    /// The bytes of all events, taken as soon as they are whole, and of what has not ended.
    fn raw<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let (mut events, mut raw) = (Events::default(), Vec::new());
        for chunk in chunks {
            events.push(chunk).expect("within the bound");
            std::iter::from_fn(|| events.take_event()).for_each(|event| raw.extend(event.raw));
        }
        raw.extend(&events.event.raw);
        raw
    }

    /// Pieces from which streams of every shape are made.
    fn stream() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "data: ", "data:", "data", ":", "event: x", "é", "日", "🦀", "a", "\n", "\r", "\r\n", "\n\n",
        ]);
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_events(
            stream in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = stream.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            at.sort_unstable();
            let chunks = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(read(chunks.clone()), read([bytes]));
            prop_assert_eq!(raw(chunks), bytes, "events are the bytes that came");
        }
    }
}
