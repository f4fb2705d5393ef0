//! The words of a scope: each with its term (what it is matched by) and its vector (what it is near to).
//!
//! A word belongs to the language it was said in, because its stem does; terms are shared by all languages.

use std::sync::{Arc, OnceLock};

use crate::language::{Tongue, term};
use crate::model::embed::StaticTable;
use crate::quick::QuickMap;

/// A word's number in its scope.
pub(crate) type WordNo = u32;
/// A term's number in its scope.
pub(crate) type TermNo = u32;

/// Dimensions of word vectors: the first of the built-in table's, whichever embedder is set for messages. The table is
/// sorted by how much each dimension tells, and half of them tell words apart as well as all.
pub(crate) const WORD_DIMENSIONS: usize = 128;

/// A word's vector, zeros where it has none, and what a byte of it is worth.
struct WordVector {
    bytes: [i8; WORD_DIMENSIONS],
    scale: f32,
}

impl WordVector {
    fn of(word: &str, tongue: Tongue) -> Self {
        let mut bytes = Vec::with_capacity(WORD_DIMENSIONS);
        let scale = word_vector(word, tongue, &mut bytes).unwrap_or(0.0);
        bytes.resize(WORD_DIMENSIONS, 0);
        Self { bytes: bytes.try_into().expect("it was brought to this length"), scale }
    }
}

/// All words of a scope. Words are never removed; a scope that forgets much is loaded anew.
#[derive(Default)]
pub(crate) struct Vocabulary {
    /// By language: a word's stem is that of the language it was said in.
    words: [QuickMap<Arc<str>, WordNo>; 5],
    texts: Vec<Arc<str>>,
    terms: QuickMap<Box<str>, TermNo>,
    /// The term of each word.
    term_of: Vec<TermNo>,
    /// The language and the vector of each word. Most words are never compared with a question: their vectors are worked
    /// out when one asks for them, which makes loading a scope a quarter faster.
    vectors: Vec<(Tongue, OnceLock<Box<WordVector>>)>,
    text_bytes: usize,
}

impl Vocabulary {
    /// The number of a word, new or known.
    pub(crate) fn learn(&mut self, word: &str, tongue: Tongue) -> WordNo {
        if let Some(no) = self.word(word, tongue) {
            return no;
        }
        let no = self.term_of.len() as WordNo;
        let term = self.learn_term(&term(word, tongue));
        let text: Arc<str> = word.into();
        self.texts.push(Arc::clone(&text));
        self.words[tongue as usize].insert(text, no);
        self.term_of.push(term);
        self.vectors.push((tongue, OnceLock::new()));
        self.text_bytes += word.len();
        no
    }

    fn learn_term(&mut self, term: &str) -> TermNo {
        if let Some(&no) = self.terms.get(term) {
            return no;
        }
        let no = self.terms.len() as TermNo;
        self.terms.insert(term.into(), no);
        self.text_bytes += term.len();
        no
    }

    /// The number of a term, if anybody ever used it.
    pub(crate) fn term(&self, term: &str) -> Option<TermNo> {
        self.terms.get(term).copied()
    }

    /// The number of a word as it is said in a language.
    pub(crate) fn word(&self, word: &str, tongue: Tongue) -> Option<WordNo> {
        self.words[tongue as usize].get(word).copied()
    }

    /// The number of a word as it is said in a language, else in any other that was spoken here.
    pub(crate) fn word_in_any(&self, word: &str, tongue: Tongue) -> Option<WordNo> {
        let others = Tongue::ALL.into_iter().filter(|other| *other != tongue);
        let spoken = |tongue: &Tongue| !self.words[*tongue as usize].is_empty();
        std::iter::once(tongue).chain(others).filter(spoken).find_map(|tongue| self.word(word, tongue))
    }

    /// A word as it was said, in lower case.
    pub(crate) fn text(&self, word: WordNo) -> &str {
        &self.texts[word as usize]
    }

    /// The term of a word.
    pub(crate) fn term_of(&self, word: WordNo) -> TermNo {
        self.term_of[word as usize]
    }

    /// A word's vector and what a byte of it is worth; nothing for a word without one.
    pub(crate) fn vector(&self, word: WordNo) -> (&[i8], f32) {
        let (tongue, vector) = &self.vectors[word as usize];
        let vector = vector.get_or_init(|| Box::new(WordVector::of(self.text(word), *tongue)));
        (&vector.bytes, vector.scale)
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        self.term_of.len()
    }

    /// How many terms there are.
    pub(crate) fn terms(&self) -> usize {
        self.terms.len()
    }

    /// About how much memory it takes once all its vectors are there.
    pub(crate) fn bytes(&self) -> usize {
        const WORD: usize = 80;
        const TERM: usize = 40;
        self.text_bytes + self.len() * (WORD + size_of::<WordVector>() + 24) + self.terms() * TERM
    }
}

/// Appends the vector of a word on its own; answers what a byte of it is worth.
pub(crate) fn word_vector(word: &str, tongue: Tongue, into: &mut Vec<i8>) -> Option<f32> {
    StaticTable::shared().word_bytes(word, tongue == Tongue::English, WORD_DIMENSIONS, into)
}
