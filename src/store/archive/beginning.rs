//! Which words may begin here: most lengths are ruled out before any word is looked up.
//!
//! A long word is known by its first five bytes, a short one by three, a pair by itself. Two beginnings may be taken for one, which
//! costs a search and nothing else.

/// Kinds of beginnings that are told apart.
const KINDS: usize = 1 << 15;
const SHORT_BYTES: usize = 3;
const LONG_BYTES: usize = 5;
/// Bytes of a pair, and how many pairs there are.
const PAIR_BYTES: usize = 2;
const PAIRS: usize = 1 << 16;

/// How long the words are that begin alike, one bit for each length: bit 5 for five bytes.
pub(super) struct Beginnings {
    pairs: Vec<u64>,
    short: Vec<u16>,
    long: Vec<u16>,
}

impl Beginnings {
    pub(super) fn new() -> Self {
        Self { pairs: vec![0; PAIRS / 64], short: vec![0; KINDS], long: vec![0; KINDS] }
    }

    /// Notes a word of two bytes or more.
    pub(super) fn add(&mut self, word: u128, length: usize) {
        match length {
            PAIR_BYTES => self.pairs[pair(word) / 64] |= 1 << (pair(word) % 64),
            SHORT_BYTES..LONG_BYTES => self.short[kind::<SHORT_BYTES>(word)] |= 1 << length,
            _ => self.long[kind::<LONG_BYTES>(word)] |= 1 << length,
        }
    }

    /// The lengths of the words that what is seen may begin with.
    pub(super) fn lengths(&self, seen: u128) -> u16 {
        let pair = self.pairs[pair(seen) / 64] >> (pair(seen) % 64) & 1;
        (pair as u16) << PAIR_BYTES | self.short[kind::<SHORT_BYTES>(seen)] | self.long[kind::<LONG_BYTES>(seen)]
    }
}

fn pair(seen: u128) -> usize {
    seen as usize % PAIRS
}

fn kind<const BYTES: usize>(seen: u128) -> usize {
    let first = (seen as u64) << (64 - 8 * BYTES);
    (first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KINDS.ilog2())) as usize
}
