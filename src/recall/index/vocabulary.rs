//! The words of a scope: each with its term (what it is matched by) and its vector (what it is near to).
//!
//! A word belongs to the language it was said in, because its stem does; terms are shared by all languages.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::kernel;
use crate::language::{Tongue, term};
use crate::model::embed::StaticTable;
use crate::quick::HashedMap;

/// A word's number in its scope.
pub(crate) type WordNo = u32;
/// A term's number in its scope.
pub(crate) type TermNo = u32;

/// Dimensions of word vectors: the first of the built-in table's, whichever embedder is set for messages. The table is
/// sorted by how much each dimension tells, and these tell words apart as well as all.
pub(crate) const WORD_DIMENSIONS: usize = 112;

/// What words are compared by, in one place.
pub(crate) struct WordVector {
    /// Zeros where it has none.
    pub(crate) bytes: [i8; WORD_DIMENSIONS],
    /// What a byte is worth.
    pub(crate) scale: f32,
    /// Its term.
    pub(crate) term: TermNo,
}

impl WordVector {
    fn of(word: &str, tongue: Tongue, term: TermNo) -> Self {
        let mut bytes = Vec::with_capacity(WORD_DIMENSIONS);
        let scale = word_vector(word, tongue, &mut bytes).unwrap_or(0.0);
        bytes.resize(WORD_DIMENSIONS, 0);
        Self { bytes: bytes.try_into().expect("it was brought to this length"), scale, term }
    }
}

/// A word that has a vector as soon as one asks for it. It comes from memory in two pieces: words of a message lie anywhere, and each
/// of them is waited for.
#[repr(align(64))]
struct Word {
    vector: OnceLock<WordVector>,
    tongue: Tongue,
}

const _: () = assert!(size_of::<Word>() == 128, "a word is no more than two pieces");

/// All words of a scope. Words are never removed; a scope that forgets much is loaded anew.
///
/// A word is known by a hash of 64 bits and not by its letters: comparing those was half of the work of loading a scope, and of
/// a million words two would share a hash once in forty million scopes.
#[derive(Default)]
pub(crate) struct Vocabulary {
    /// By language: a word's stem is that of the language it was said in.
    words: [HashedMap<WordNo>; 5],
    /// All words, one behind the other, and where each ends.
    letters: String,
    ends: Vec<u32>,
    terms: HashedMap<TermNo>,
    /// The term of each word.
    term_of: Vec<TermNo>,
    /// The language and the vector of each word, which is worked out when one asks for it or when nobody waits: it was a quarter
    /// of the work of loading a scope.
    vectors: Vec<Word>,
    /// Up to which word vectors were worked out.
    prepared: AtomicUsize,
}

impl Vocabulary {
    /// The number of a word, new or known.
    pub(crate) fn learn(&mut self, word: &str, tongue: Tongue) -> WordNo {
        self.learn_hashed(Self::hash(word), tongue, || word)
    }

    /// What a word is known by.
    pub(crate) fn hash(word: &str) -> u64 {
        xxh3_64(word.as_bytes())
    }

    /// The same for a word whose hash is known; its letters are asked for if it is new.
    pub(crate) fn learn_hashed<'a>(&mut self, hash: u64, tongue: Tongue, letters: impl FnOnce() -> &'a str) -> WordNo {
        if let Some(no) = self.words[tongue as usize].get(&hash) {
            return *no;
        }
        let (no, word) = (self.term_of.len() as WordNo, letters());
        let term = self.learn_term(&term(word, tongue));
        self.letters.push_str(word);
        self.ends.push(self.letters.len() as u32);
        self.words[tongue as usize].insert(hash, no);
        self.term_of.push(term);
        self.vectors.push(Word { vector: OnceLock::new(), tongue });
        no
    }

    fn learn_term(&mut self, term: &str) -> TermNo {
        let next = self.terms.len() as TermNo;
        *self.terms.entry(Self::hash(term)).or_insert(next)
    }

    /// The number of a term, if anybody ever used it.
    pub(crate) fn term(&self, term: &str) -> Option<TermNo> {
        self.terms.get(&Self::hash(term)).copied()
    }

    /// The number of a word as it is said in a language.
    #[cfg(test)]
    pub(crate) fn word(&self, word: &str, tongue: Tongue) -> Option<WordNo> {
        self.words[tongue as usize].get(&Self::hash(word)).copied()
    }

    /// The number of a word as it is said in a language, else in any other that was spoken here.
    pub(crate) fn word_in_any(&self, word: &str, tongue: Tongue) -> Option<WordNo> {
        let hash = Self::hash(word);
        let others = Tongue::ALL.into_iter().filter(|other| *other != tongue);
        std::iter::once(tongue).chain(others).find_map(|tongue| self.words[tongue as usize].get(&hash).copied())
    }

    /// A word as it was said, in lower case.
    pub(crate) fn text(&self, word: WordNo) -> &str {
        let at = word as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.letters[start as usize..self.ends[at] as usize]
    }

    /// The term of a word.
    pub(crate) fn term_of(&self, word: WordNo) -> TermNo {
        self.term_of[word as usize]
    }

    /// A word's vector, and its term.
    pub(crate) fn vector(&self, word: WordNo) -> &WordVector {
        let Word { vector, tongue } = &self.vectors[word as usize];
        vector.get_or_init(|| WordVector::of(self.text(word), *tongue, self.term_of(word)))
    }

    /// Has a word's vector brought nearer, without waiting for it.
    pub(crate) fn fetch(&self, word: WordNo) {
        kernel::fetch(&self.vectors[word as usize]);
    }

    /// Works out the vectors of some words that nobody has asked for yet. Answers whether there are more.
    pub(crate) fn prepare(&self, count: usize) -> bool {
        let from = self.prepared.fetch_add(count, Ordering::Relaxed).min(self.len());
        let to = (from + count).min(self.len());
        for word in from..to {
            self.vector(word as WordNo);
        }
        self.prepared.fetch_min(self.len(), Ordering::Relaxed);
        to < self.len()
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        self.term_of.len()
    }

    /// How many terms there are.
    pub(crate) fn terms(&self) -> usize {
        self.terms.len()
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        const WORD: usize = 4 + 4 + 2 * HASHED;
        const TERM: usize = 2 * HASHED;
        // A hash and a number, and room to grow.
        const HASHED: usize = 17;
        self.letters.capacity() + self.len() * WORD + self.vectors.capacity() * size_of::<Word>() + self.terms() * TERM
    }
}

/// Appends the vector of a word on its own; answers what a byte of it is worth.
pub(crate) fn word_vector(word: &str, tongue: Tongue, into: &mut Vec<i8>) -> Option<f32> {
    StaticTable::shared().word_bytes(word, tongue == Tongue::English, WORD_DIMENSIONS, into)
}
