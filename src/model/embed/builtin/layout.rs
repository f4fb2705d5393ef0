//! The parts of a table's file, checked once so that nothing has to be checked again.
//!
//! | part | size |
//! | --- | --- |
//! | `SEMBML\0\x01` | 8 bytes |
//! | English rows, other rows, dimensions, bytes of each vocabulary, bits of the other rows | 6 × u32 |
//! | English words, then the others, one a line | as said |
//! | how English a word is | i8 per row |
//! | what a row is multiplied with | f32 per row |
//! | English rows | i8 per dimension |
//! | other rows | 4 bits per dimension, the lower half of a byte first |
//!
//! Numbers are little endian. Everything stays where it is: the parts are slices of the program itself.

use super::{DIMENSIONS, TableError};

const MAGIC: &[u8] = b"SEMBML\0\x01";
const HEAD_BYTES: usize = 32;
const OTHER_BITS: usize = 4;

/// A row as it is stored.
pub(super) enum Row {
    /// A value per byte.
    English(&'static [u8; DIMENSIONS]),
    /// Two values per byte.
    Other(&'static [u8; DIMENSIONS / 2]),
}

/// The parts.
pub(super) struct Layout {
    pub(super) english_words: &'static [u8],
    pub(super) other_words: &'static [u8],
    english_scores: &'static [u8],
    scales: &'static [[u8; 4]],
    english: &'static [[u8; DIMENSIONS]],
    other: &'static [[u8; DIMENSIONS / 2]],
}

impl Layout {
    pub(super) fn read(bytes: &'static [u8]) -> Result<Self, TableError> {
        let [english, other, dimensions, english_words, other_words, bits] = head(bytes)?;
        if (dimensions, bits) != (DIMENSIONS, OTHER_BITS) {
            return Err(TableError::NotATable);
        }
        let rows = english + other;
        let sizes =
            [HEAD_BYTES, english_words, other_words, rows, 4 * rows, english * DIMENSIONS, other * DIMENSIONS / 2];
        let [_, english_words, other_words, english_scores, scales, english, other] = cut(bytes, sizes)?;
        let (scales, english, other) = (scales.as_chunks().0, english.as_chunks().0, other.as_chunks().0);
        Ok(Self { english_words, other_words, english_scores, scales, english, other })
    }

    pub(super) fn english_rows(&self) -> usize {
        self.english.len()
    }

    pub(super) fn other_rows(&self) -> usize {
        self.other.len()
    }

    pub(super) fn rows(&self) -> usize {
        self.scales.len()
    }

    /// How much a word speaks for English, or against it.
    pub(super) fn english_score(&self, row: u32) -> i32 {
        i32::from(self.english_scores[row as usize].cast_signed())
    }

    pub(super) fn scale(&self, row: u32) -> f32 {
        f32::from_le_bytes(self.scales[row as usize])
    }

    pub(super) fn row(&self, row: u32) -> Row {
        let row = row as usize;
        match row.checked_sub(self.english.len()) {
            None => Row::English(&self.english[row]),
            Some(row) => Row::Other(&self.other[row]),
        }
    }
}

/// The six numbers after the magic.
fn head(bytes: &[u8]) -> Result<[usize; 6], TableError> {
    let numbers = bytes.strip_prefix(MAGIC).ok_or(TableError::NotATable)?.as_chunks::<4>().0;
    let numbers = numbers.first_chunk::<6>().ok_or(TableError::NotATable)?;
    Ok(numbers.map(|number| u32::from_le_bytes(number) as usize))
}

/// Cuts bytes into parts of these sizes; together they are all of it.
fn cut<const PARTS: usize>(bytes: &'static [u8], sizes: [usize; PARTS]) -> Result<[&'static [u8]; PARTS], TableError> {
    let expected = sizes.iter().fold(0_usize, |sum, &size| sum.saturating_add(size));
    if expected != bytes.len() {
        return Err(TableError::Size { expected, got: bytes.len() });
    }
    let mut rest = bytes;
    Ok(sizes.map(|size| {
        let (part, after) = rest.split_at(size);
        rest = after;
        part
    }))
}
