//! Tokens of lines that were counted before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::tokens;

/// Lines that are remembered; less than a megabyte. When there are more, all are forgotten: they are soon counted again.
const LINES_MAX: usize = 32_768;

/// How many tokens lines have.
#[derive(Default)]
pub(crate) struct Counted(Mutex<HashMap<u64, u32>>);

impl Counted {
    /// The tokens of a line.
    pub(crate) fn line(&self, line: &str) -> usize {
        let hash = xxh3_64(line.as_bytes());
        let known = self.lock().get(&hash).copied();
        known.map_or_else(|| self.count(line, hash), |tokens| tokens as usize)
    }

    /// Counting takes a while; others may look meanwhile.
    fn count(&self, line: &str, hash: u64) -> usize {
        let tokens = tokens::count(line);
        let mut lines = self.lock();
        if lines.len() >= LINES_MAX {
            lines.clear();
        }
        lines.insert(hash, tokens as u32);
        tokens
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_counted_once() {
        let counted = Counted::default();
        assert_eq!((counted.line("one two"), counted.line("one two")), (2, 2));
        assert_eq!(counted.lock().len(), 1);
        for n in 0..LINES_MAX {
            counted.line(&n.to_string());
        }
        assert!(counted.lock().len() <= LINES_MAX);
    }
}
