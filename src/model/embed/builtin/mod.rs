//! The built-in embedder: a table of words compiled in, no file, no server, microseconds.
//!
//! A text's vector is the sum of the rows of its words, at length one. English and sixteen other languages in
//! Latin script share one space, so that a Dutch question finds an English answer. A spelling may have two
//! rows, one English ("die", to end) and one for the other languages ("die", the): the text as a whole is first
//! read as English or not, and that decides.
//!
//! `assets/NOTICE.md` tells where the table comes from and `tools/make_static_table.py` how it is made.
//!
//! Reading order: [`StaticTable`] here, `layout` (the file's parts, checked), `index` (word to rows), `sum` (rows to a
//! vector).

mod index;
mod layout;
mod sum;

use std::sync::OnceLock;

use super::words::{Words, add_pieces};
use super::{EmbedError, EmbedFuture, Embedder, EmbedderId, beginning};
use index::{Found, Index};
use layout::Layout;
use sum::Sum;

/// How long the vectors are.
pub const DIMENSIONS: usize = 256;

/// How much of a text is read. The sum of so many words hardly changes with more of them, and whoever hands in a
/// whole book still gets an answer within milliseconds.
pub const TEXT_BYTES_MAX: usize = 32 * 1024;

/// A text whose words sum up to less is read as another language than English.
const ENGLISH_SCORE_MIN: i32 = -32;

/// Rows of signs and single letters before the first English word, and of words that are everywhere.
const SIGN_ROWS: f32 = 900.0;
const COMMON_ROWS: f32 = 100.0;

/// How long the vector of a word is that is known by its pieces only.
const OF_PIECES: f32 = 0.8;

/// How many texts are embedded before others get their turn on the thread.
const TEXTS_IN_A_ROW_MAX: usize = 32;

static ASSET: &[u8] = include_bytes!("../../../../assets/multilingual-static-256-i8.bin");

/// Why a table cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is something else, or of another version.
    #[error("this is not a table of words (SEMBML, version 1, {DIMENSIONS} dimensions, 4 bits)")]
    NotATable,
    /// Its parts do not add up to its size.
    #[error("the table has {got} bytes where its head promises {expected}; was it copied whole?")]
    Size {
        /// What the head promises.
        expected: usize,
        /// What there is.
        got: usize,
    },
    /// It names more or fewer words than it has rows.
    #[error("the table has {rows} rows for {words} words")]
    Words {
        /// Rows.
        rows: usize,
        /// Words that name them.
        words: usize,
    },
}

/// Rows for words, and how texts become rows.
pub struct StaticTable {
    layout: Layout,
    index: Index,
}

impl StaticTable {
    /// The table compiled in, unfolded on first use: a few milliseconds and 1.5 MB.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<StaticTable> = OnceLock::new();
        SHARED.get_or_init(|| Self::read(ASSET).expect("a test reads the very bytes that are compiled in"))
    }

    fn read(bytes: &'static [u8]) -> Result<Self, TableError> {
        let layout = Layout::read(bytes)?;
        let index = Index::new(&layout)?;
        Ok(Self { layout, index })
    }

    /// The vector of a text: of length one, or zero when no word of it is known. Only the first
    /// [`TEXT_BYTES_MAX`] bytes are read.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let (_, rows) = self.rows(text);
        self.sum(&rows).into_vector()
    }

    /// The vector of one lower-case word, read as English or as another language. `None` when it is unknown.
    pub fn word(&self, word: &str, english: bool) -> Option<Vec<f32>> {
        let mut rows = Vec::new();
        self.add_rows(word, self.index.find(word.as_bytes()), english, &mut rows);
        let vector = self.sum(&rows).into_vector();
        vector.iter().any(|&value| value != 0.0).then_some(vector)
    }

    /// The first dimensions of a word's vector in bytes, appended to `into`; answers what a byte is worth so that their
    /// length is one, or `None` when nothing is known of the word. A word without a row of its own is often a name or a
    /// code, which is less near to others than its pieces look: its vector is shorter. One with an English row is copied,
    /// not computed.
    pub(crate) fn word_bytes(&self, word: &str, english: bool, dimensions: usize, into: &mut Vec<i8>) -> Option<f32> {
        let found = self.index.find(word.as_bytes());
        let sure = if found == Found::default() { OF_PIECES } else { 1.0 };
        let mut rows = Vec::new();
        self.add_rows(word, found, english, &mut rows);
        let start = into.len();
        match (rows.as_slice(), rows.first().map(|row| self.layout.row(*row))) {
            ([_], Some(layout::Row::English(bytes))) => {
                into.extend(bytes[..dimensions].iter().map(|byte| byte.cast_signed().max(-127)));
            }
            _ => {
                let sum = self.sum(&rows).into_sum();
                let largest = sum[..dimensions].iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
                if largest == 0.0 {
                    return None;
                }
                // Rounded by hand: `round` is a call for each value.
                let step = 127.0 / largest;
                let rounded = |value: &f32| (value * step + 0.5_f32.copysign(*value)) as i32 as i8;
                into.extend(sum[..dimensions].iter().map(rounded));
            }
        }
        let square: i32 = into[start..].iter().map(|byte| i32::from(*byte) * i32::from(*byte)).sum();
        if square == 0 {
            into.truncate(start);
            return None;
        }
        Some(sure / (square as f32).sqrt())
    }

    /// How rare a lower-case word is, from 0 (in every text) to 1 (unknown: mostly a name).
    ///
    /// The English words are in the order of how common they are. The other languages follow each other, so a word
    /// that only they know is taken to be in the middle.
    pub fn rarity(&self, word: &str) -> f32 {
        let found = self.index.find(word.as_bytes());
        match (found.english, found.other) {
            (Some(row), _) => {
                let steps = |row: f32| ((row - SIGN_ROWS) / COMMON_ROWS).max(1.0).ln();
                steps(row as f32) / steps(self.layout.english_rows() as f32)
            }
            (None, Some(_)) => 0.5,
            (None, None) => 1.0,
        }
    }

    /// Whether a text is read as English. Short texts in doubt are.
    pub fn reads_as_english(&self, text: &str) -> bool {
        let words = Words::of(beginning(text, TEXT_BYTES_MAX));
        self.is_english(words.iter().map(|word| self.index.find(word.as_bytes())))
    }

    /// How a text is read, and the rows of its words.
    fn rows(&self, text: &str) -> (bool, Vec<u32>) {
        let words = Words::of(beginning(text, TEXT_BYTES_MAX));
        let found: Vec<Found> = words.iter().map(|word| self.index.find(word.as_bytes())).collect();
        let english = self.is_english(found.iter().copied());
        let mut rows = Vec::with_capacity(found.len() + found.len() / 4);
        for (word, found) in words.iter().zip(found) {
            self.add_rows(word, found, english, &mut rows);
        }
        (english, rows)
    }

    fn is_english(&self, words: impl Iterator<Item = Found>) -> bool {
        let score = |found: Found| found.english.or(found.other).map_or(0, |row| self.layout.english_score(row));
        words.map(score).sum::<i32>() >= ENGLISH_SCORE_MIN
    }

    /// Adds the rows of a word: of the whole word if there is one, else of its pieces. What cannot be taken
    /// apart completely adds nothing.
    fn add_rows(&self, word: &str, found: Found, english: bool, rows: &mut Vec<u32>) {
        let (first, second): (Tongue, Tongue) = if english { (ENGLISH, OTHER) } else { (OTHER, ENGLISH) };
        if let Some(row) = first(found).or(second(found)) {
            rows.push(row);
            return;
        }
        // English was fitted without the pieces of the other languages.
        let split = self.add_pieces(word, first, rows);
        if !split && !english {
            self.add_pieces(word, second, rows);
        }
    }

    fn add_pieces(&self, word: &str, tongue: Tongue, rows: &mut Vec<u32>) -> bool {
        add_pieces(word, self.index.word_bytes_max, |piece| tongue(self.index.find(piece)), rows)
    }

    fn sum(&self, rows: &[u32]) -> Sum {
        let mut sum = Sum::default();
        for &row in rows {
            sum.add(self.layout.scale(row), self.layout.row(row));
        }
        sum
    }
}

impl std::fmt::Debug for StaticTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticTable").field("rows", &self.layout.rows()).finish_non_exhaustive()
    }
}

/// Which of a word's two rows.
type Tongue = fn(Found) -> Option<u32>;
const ENGLISH: Tongue = |found| found.english;
const OTHER: Tongue = |found| found.other;

/// The embedder that is always there.
#[derive(Debug, Clone)]
pub struct Builtin {
    id: EmbedderId,
}

impl Default for Builtin {
    fn default() -> Self {
        Self { id: EmbedderId::new("builtin-256-1") }
    }
}

impl Builtin {
    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(TEXTS_IN_A_ROW_MAX) {
            vectors.extend(some.iter().map(|text| StaticTable::shared().embed(text)));
            tokio::task::yield_now().await;
        }
        Ok(vectors)
    }
}

impl Embedder for Builtin {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn at_once(&self, text: &str) -> Option<Vec<f32>> {
        Some(StaticTable::shared().embed(text))
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        Box::pin(self.embed_all(texts))
    }
}

#[cfg(test)]
mod tests;
