//! From a word to its rows, without a copy of any word.
//!
//! The words stay in the table's file, one a line; what is made at start is where each line begins and a hash
//! table of row numbers. A slot holds a row and twelve bits of the word's hash, so that a word is compared with
//! its own line and hardly ever with another.

use xxhash_rust::xxh3::xxh3_64;

use super::TableError;
use super::layout::Layout;

/// Bits of a slot that hold a row (plus one: an empty slot is zero); the others hold a piece of the hash.
const ROW_BITS: u32 = 20;
const ROW_MASK: u32 = (1 << ROW_BITS) - 1;

/// The rows of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    pub(super) english: Option<u32>,
    pub(super) other: Option<u32>,
}

/// Where the rows of words are.
pub(super) struct Index {
    slots: Vec<u32>,
    english: Vocabulary,
    other: Vocabulary,
    /// No word of the table is longer.
    pub(super) word_bytes_max: usize,
}

impl Index {
    pub(super) fn new(layout: &Layout) -> Result<Self, TableError> {
        let english = Vocabulary::read(layout.english_words, layout.english_rows())?;
        let other = Vocabulary::read(layout.other_words, layout.other_rows())?;
        if layout.rows() >= ROW_MASK as usize {
            return Err(TableError::NotATable);
        }
        let slots = fill(english.words().chain(other.words()), layout.rows());
        let word_bytes_max = english.longest().max(other.longest());
        Ok(Self { slots, english, other, word_bytes_max })
    }

    /// The rows of a word.
    pub(super) fn find(&self, word: &[u8]) -> Found {
        let mut found = Found::default();
        if word.len() > self.word_bytes_max {
            return found;
        }
        let (mask, (mut at, mark)) = (self.slots.len() - 1, home(word, self.slots.len()));
        while self.slots[at] != 0 {
            if self.slots[at] & !ROW_MASK == mark {
                self.note(word, (self.slots[at] & ROW_MASK) - 1, &mut found);
            }
            at = (at + 1) & mask;
        }
        found
    }

    /// Notes a row if it is the word's own.
    fn note(&self, word: &[u8], row: u32, found: &mut Found) {
        match (row as usize).checked_sub(self.english.len()) {
            None if self.english.word(row as usize) == word => found.english = Some(row),
            Some(at) if self.other.word(at) == word => found.other = Some(row),
            _ => {}
        }
    }
}

/// A slot for each word. Less than half of them are taken, so that a search ends soon, and at all.
fn fill<'a>(words: impl Iterator<Item = &'a [u8]>, rows: usize) -> Vec<u32> {
    let mut slots = vec![0; (2 * rows + 1).next_power_of_two()];
    let mask = slots.len() - 1;
    for (row, word) in words.enumerate() {
        let (mut at, mark) = home(word, slots.len());
        while slots[at] != 0 {
            at = (at + 1) & mask;
        }
        slots[at] = mark | (row as u32 + 1);
    }
    slots
}

/// Where the search for a word begins, and the piece of its hash that its slot carries.
fn home(word: &[u8], slots: usize) -> (usize, u32) {
    let hash = xxh3_64(word);
    (hash as usize & (slots - 1), (hash >> 32) as u32 & !ROW_MASK)
}

/// Words, one a line.
struct Vocabulary {
    lines: &'static [u8],
    /// Where each line begins, and where one after the last would.
    starts: Vec<u32>,
}

impl Vocabulary {
    fn read(lines: &'static [u8], words: usize) -> Result<Self, TableError> {
        let mut starts = Vec::with_capacity(words + 1);
        starts.push(0);
        for_each_break(lines, |at| starts.push(at as u32 + 1));
        starts.push(lines.len() as u32 + 1);
        if starts.len() != words + 1 {
            return Err(TableError::Words { rows: words, words: starts.len() - 1 });
        }
        Ok(Self { lines, starts })
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn word(&self, at: usize) -> &'static [u8] {
        &self.lines[self.starts[at] as usize..self.starts[at + 1] as usize - 1]
    }

    fn words(&self) -> impl Iterator<Item = &'static [u8]> {
        self.starts.windows(2).map(|line| &self.lines[line[0] as usize..line[1] as usize - 1])
    }

    fn longest(&self) -> usize {
        self.starts.windows(2).map(|line| line[1] - line[0] - 1).max().unwrap_or(0) as usize
    }
}

/// Calls back with the place of every line break. Eight bytes are looked at together: reading the words is half
/// of what a start costs.
fn for_each_break(lines: &[u8], mut found: impl FnMut(usize)) {
    let (eights, rest) = lines.as_chunks::<8>();
    for (at, &eight) in eights.iter().enumerate() {
        let mut breaks = breaks_in(eight);
        while breaks != 0 {
            found(at * 8 + breaks.trailing_zeros() as usize / 8);
            breaks &= breaks - 1;
        }
    }
    let rest_start = lines.len() - rest.len();
    (rest_start..lines.len()).filter(|&at| lines[at] == b'\n').for_each(found);
}

/// The highest bit of each byte that is a line break.
fn breaks_in(eight: [u8; 8]) -> u64 {
    const LOW_BITS: u64 = u64::from_ne_bytes([0x7f; 8]);
    // A byte becomes zero exactly if it is a break, and then adding 0x7f does not reach its highest bit.
    let other = u64::from_le_bytes(eight) ^ u64::from_ne_bytes([b'\n'; 8]);
    !(((other & LOW_BITS) + LOW_BITS) | other | LOW_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_break_is_found(lines in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..64)) {
            let mut found = Vec::new();
            for_each_break(&lines, |at| found.push(at));
            let expected: Vec<usize> = (0..lines.len()).filter(|&at| lines[at] == b'\n').collect();
            prop_assert_eq!(found, expected);
        }
    }
}
