//! Tokens of lines that were counted before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::id::MessageId;
use crate::tokens;

/// Lines that are remembered; about a megabyte. When there are more, all are forgotten: they are soon counted again.
const LINES_MAX: usize = 32_768;

/// How many tokens lines have, by message and text. A message is always rendered with the same date and speaker.
#[derive(Default)]
pub(crate) struct Counted(Mutex<HashMap<(MessageId, u64), u32>>);

impl Counted {
    /// The tokens of a line, if they were counted.
    pub(crate) fn get(&self, message: MessageId, text: &str) -> Option<usize> {
        self.lock().get(&(message, xxh3_64(text.as_bytes()))).map(|tokens| *tokens as usize)
    }

    /// The tokens of a line that is no message's.
    pub(crate) fn line(&self, line: &str) -> usize {
        let nobody = MessageId::from_uuid(Uuid::nil());
        self.get(nobody, line).unwrap_or_else(|| {
            let tokens = tokens::count(line);
            self.keep(nobody, line, tokens);
            tokens
        })
    }

    /// Remembers the tokens of a line.
    pub(crate) fn keep(&self, message: MessageId, text: &str, tokens: usize) {
        let mut lines = self.lock();
        if lines.len() >= LINES_MAX {
            lines.clear();
        }
        lines.insert((message, xxh3_64(text.as_bytes())), tokens as u32);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(MessageId, u64), u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use jiff::Timestamp;

    #[test]
    fn a_line_is_known_by_message_and_text() {
        let message = CountedIds::default().turn(Timestamp::UNIX_EPOCH).message(0);
        let counted = Counted::default();
        counted.keep(message, "one", 7);
        assert_eq!(counted.get(message, "one"), Some(7));
        assert_eq!(counted.get(message, "two"), None);
        assert_eq!((counted.line("one two"), counted.line("one two")), (2, 2));
        for n in 0..LINES_MAX {
            counted.keep(message, &n.to_string(), 1);
        }
        assert!(counted.lock().len() <= LINES_MAX);
    }
}
