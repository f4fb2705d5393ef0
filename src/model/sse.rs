//! Server-sent events, read as they arrive.
//!
//! Bytes may be cut anywhere: inside a character, inside a line, between CR and LF. Lines are
//! therefore kept as bytes and become text only once they are whole.
//!
//! Only `data` is read. Comments, and the fields that reconnecting browsers need, are passed over.

use std::collections::VecDeque;

/// How large an event may be that has not ended yet. A model's piece is a few hundred bytes.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An event, or one line of it, has outgrown its bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {bytes_max} bytes")]
pub(crate) struct TooLong {
    bytes_max: usize,
}

/// The reader: bytes go in, the data of whole events comes out.
#[derive(Debug)]
pub(crate) struct Events {
    bytes_max: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data of the event that has not ended yet; `None` until its first `data` line.
    data: Option<String>,
    whole: VecDeque<String>,
    /// The last byte was a CR: an LF after it belongs to the same line end.
    after_cr: bool,
    /// A byte order mark is allowed before the first line, and nowhere else.
    at_start: bool,
}

impl Default for Events {
    fn default() -> Self {
        Self::with_bound(EVENT_BYTES_MAX)
    }
}

impl Events {
    fn with_bound(bytes_max: usize) -> Self {
        let (line, data, whole) = (Vec::new(), None, VecDeque::new());
        Self { bytes_max, line, data, whole, after_cr: false, at_start: true }
    }

    /// Takes in what arrived. Events that became whole before an error can still be taken.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.grow(rest);
            };
            self.grow(&rest[..end])?;
            self.after_cr = rest[end] == b'\r';
            self.end_line();
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// The data of the next whole event.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.whole.pop_front()
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held + bytes.len() > self.bytes_max {
            return Err(TooLong { bytes_max: self.bytes_max });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if std::mem::take(&mut self.at_start) { line.trim_start_matches('\u{feff}') } else { &line };
        if line.is_empty() {
            self.whole.extend(self.data.take());
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            self.add_data(value.strip_prefix(' ').unwrap_or(value));
        }
    }

    fn add_data(&mut self, value: &str) {
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
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
        assert_eq!(events.push(b"data: 1234567"), Err(TooLong { bytes_max: 12 }));
        assert_eq!(events.take().as_deref(), Some("123456"), "what was whole is not lost");
    }

    #[test]
    fn many_lines_count_as_one_event() {
        let mut events = Events::with_bound(15);
        assert_eq!(events.push(b"data: 1234\ndata: 5678\n"), Ok(()));
        assert_eq!(events.push(b"data: 9\n"), Err(TooLong { bytes_max: 15 }));
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
            prop_assert_eq!(read(chunks), read([bytes]));
        }
    }
}
