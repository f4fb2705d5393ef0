//! Late interaction: each word of the question looks for its nearest word in a message.
//!
//! A word is nearest to itself in another form (same term), else to the word with the most similar vector. What the
//! words find is added up by how much each of them tells.

use crate::kernel::{dots, fetch};
use crate::language::Tongue;
use crate::recall::index::ScopeIndex;
use crate::recall::index::docs::{DocNo, Docs};
use crate::recall::index::vocabulary::{TermNo, WordNo, WordVector};
use crate::recall::signals::lexical::Table;

/// A word of the question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AskedWord {
    pub(crate) term: Option<TermNo>,
    /// What a byte of its vector is worth; zero without a vector.
    pub(crate) scale: f32,
    /// How much it tells.
    pub(crate) idf: f32,
}

/// Words that are met in a search of a large scope, about.
const MET: usize = 768;
/// Words that are fetched before they are compared.
const AHEAD: usize = 24;

/// Similarities of the question's words to words of the scope, as they are asked for.
pub(crate) struct Late<'a> {
    index: &'a ScopeIndex,
    words: Vec<AskedWord>,
    /// The vectors of those words, one behind the other.
    vectors: Vec<i8>,
    products: Vec<i32>,
    idf_total: f32,
    /// Where the similarities of words begin that were met, plus one; zero for all others.
    places: Table<u32>,
    /// The words that have a place.
    met: Vec<WordNo>,
    similarities: Vec<f32>,
    best: Vec<f32>,
}

impl<'a> Late<'a> {
    pub(crate) fn new(index: &'a ScopeIndex, words: Vec<AskedWord>, vectors: Vec<i8>) -> Self {
        let idf_total = words.iter().map(|word| word.idf).sum();
        let best = vec![0.0; words.len()];
        let products = vec![0; words.len()];
        Self {
            index,
            vectors,
            products,
            idf_total,
            places: Table::new(MET),
            met: Vec::with_capacity(MET),
            similarities: Vec::with_capacity(MET * words.len()),
            best,
            words,
        }
    }

    /// Compares the words of some messages beforehand. Their vectors lie anywhere in memory: each is fetched while those before it
    /// are compared.
    pub(crate) fn meet(&mut self, docs: &Docs, messages: &[DocNo]) {
        messages.iter().for_each(|no| fetch(docs.words(*no)));
        let mut compared = self.met.len();
        for word in messages.iter().flat_map(|no| docs.words(*no)).map(|word| word.word()) {
            if self.places.get(word) == 0 {
                self.index.vocabulary.fetch(word);
                self.place(word, self.met.len() * self.words.len());
                if self.met.len() - compared > AHEAD {
                    self.compare(self.met[compared]);
                    compared += 1;
                }
            }
        }
        (compared..self.met.len()).for_each(|at| self.compare(self.met[at]));
    }

    /// How much of the question a message answers to, from 0 to 1.
    pub(crate) fn of(&mut self, docs: &Docs, no: DocNo) -> f32 {
        self.of_words(docs.words(no).iter().map(|word| word.word()))
    }

    /// The number of a word, if the scope knows it in this language or another.
    pub(crate) fn known(&self, word: &str, tongue: Tongue) -> Option<WordNo> {
        self.index.vocabulary.word_in_any(word, tongue)
    }

    /// How much of the question a list of words answers to, from 0 to 1.
    pub(crate) fn of_words(&mut self, words: impl Iterator<Item = WordNo>) -> f32 {
        if self.idf_total <= 0.0 {
            return 0.0;
        }
        self.best.fill(0.0);
        for word in words {
            let start = self.similar(word);
            let found = &self.similarities[start..start + self.words.len()];
            self.best.iter_mut().zip(found).for_each(|(best, found)| *best = best.max(*found));
        }
        self.best.iter().zip(&self.words).map(|(best, word)| best * word.idf).sum::<f32>() / self.idf_total
    }

    /// Whether a message answers to at least such a share of the question. Words of the question that are in it settle that
    /// for most without comparing any other.
    pub(crate) fn reaches(&mut self, docs: &Docs, no: DocNo, share: f32) -> bool {
        self.idf_total > 0.0 && (self.in_it(docs, no) >= share || self.of(docs, no) >= share)
    }

    /// How much of the question is in a message, word by word.
    fn in_it(&mut self, docs: &Docs, no: DocNo) -> f32 {
        self.best.fill(0.0);
        for word in docs.words(no) {
            let term = Some(self.index.vocabulary.term_of(word.word()));
            let same = self.best.iter_mut().zip(&self.words).filter(|(_, asked)| asked.term == term);
            same.for_each(|(best, _)| *best = 1.0);
        }
        self.best.iter().zip(&self.words).map(|(best, word)| best * word.idf).sum::<f32>() / self.idf_total
    }

    fn similar(&mut self, word: WordNo) -> usize {
        if let Some(place) = (self.places.get(word) as usize).checked_sub(1) {
            return place;
        }
        let place = self.met.len() * self.words.len();
        self.place(word, place);
        self.compare(word);
        place
    }

    fn place(&mut self, word: WordNo, first: usize) {
        if self.met.len() == self.places.room() {
            self.places.grow();
        }
        *self.places.of(word) = first as u32 + 1;
        self.met.push(word);
    }

    /// The similarities of all words of the question to one of the scope.
    fn compare(&mut self, word: WordNo) {
        let WordVector { bytes, scale, term } = self.index.vocabulary.vector(word);
        dots(bytes, &self.vectors, &mut self.products);
        for (asked, product) in self.words.iter().zip(&self.products) {
            let similarity = (*product as f32 * scale * asked.scale).max(0.0);
            self.similarities.push(if asked.term == Some(*term) { 1.0 } else { similarity });
        }
    }
}
