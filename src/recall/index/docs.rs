//! Messages in columns: what a search reads together lies together.
//!
//! There are two such tables in a scope, one of what people said and one of what the model replied. Messages are
//! added and taken away at the end only; see `ScopeIndex` for changes further back.

use super::vocabulary::{TermNo, Vocabulary, WordNo};
use crate::id::MessageId;
use crate::kernel::{Bytes, signs};
use crate::recall::marks::Marks;

/// A message's number in its table.
pub(crate) type DocNo = u32;

/// "No such message."
pub(crate) const NONE: DocNo = DocNo::MAX;

/// A message on its way in or out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Doc {
    pub(crate) id: MessageId,
    pub(crate) session: u32,
    pub(crate) speaker: u16,
    pub(crate) said_at: i64,
    pub(crate) marks: Marks,
    /// Words, how often, and whether with a capital.
    pub(crate) words: Vec<PackedWord>,
    pub(crate) vector: Option<Bytes>,
}

/// A word's number in the upper 24 bits, its count in seven, a capital in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedWord(u32);

impl PackedWord {
    pub(crate) fn new(word: WordNo, times: u8, capital: bool) -> Self {
        Self(word << 8 | u32::from(times & 0x7f) | if capital { 0x80 } else { 0 })
    }

    pub(crate) fn word(self) -> WordNo {
        self.0 >> 8
    }

    pub(crate) fn times(self) -> u8 {
        self.0 as u8 & 0x7f
    }

    pub(crate) fn capital(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// A message that uses a term, and how often: 24 bits and eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting(u32);

impl Posting {
    fn new(doc: DocNo, times: u8) -> Self {
        Self(doc << 8 | u32::from(times))
    }

    pub(crate) fn doc(self) -> DocNo {
        self.0 >> 8
    }

    pub(crate) fn times(self) -> u8 {
        self.0 as u8
    }
}

/// Most messages in one table: their numbers have 24 bits.
pub(crate) const DOCS_MAX: usize = (1 << 24) - 1;

/// Messages in columns.
#[derive(Default)]
pub(crate) struct Docs {
    dimensions: usize,
    pub(crate) ids: Vec<MessageId>,
    pub(crate) sessions: Vec<u32>,
    pub(crate) speakers: Vec<u16>,
    pub(crate) said_at: Vec<i64>,
    pub(crate) marks: Vec<Marks>,
    /// How many words have a capital; no more than a byte holds.
    pub(crate) capitals: Vec<u8>,
    /// Words after stop words, repeated ones counted each time.
    pub(crate) lengths: Vec<u32>,
    pub(crate) length_total: u64,
    word_ends: Vec<u32>,
    words: Vec<PackedWord>,
    vectors: Vec<i8>,
    /// Zero where a message has no vector (yet).
    scales: Vec<f32>,
    signs: Vec<u64>,
    postings: Vec<Vec<Posting>>,
    postings_total: usize,
}

impl Docs {
    pub(crate) fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a message behind all others; answers the terms it uses, each once, with their counts.
    pub(crate) fn push(&mut self, doc: &Doc, vocabulary: &Vocabulary) -> Vec<(TermNo, u8)> {
        let no = self.len() as DocNo;
        let terms = terms_of(&doc.words, vocabulary);
        self.postings.resize_with(vocabulary.terms().max(self.postings.len()), Vec::new);
        for (term, times) in &terms {
            self.postings[*term as usize].push(Posting::new(no, *times));
        }
        self.postings_total += terms.len();
        let length = doc.words.iter().map(|word| u32::from(word.times())).sum();
        self.lengths.push(length);
        self.length_total += u64::from(length);
        self.ids.push(doc.id);
        self.sessions.push(doc.session);
        self.speakers.push(doc.speaker);
        self.said_at.push(doc.said_at);
        self.marks.push(doc.marks);
        self.capitals.push(doc.words.iter().filter(|word| word.capital()).count().min(u8::MAX.into()) as u8);
        self.words.extend(&doc.words);
        self.word_ends.push(self.words.len() as u32);
        self.push_vector(doc.vector.as_ref());
        terms
    }

    fn push_vector(&mut self, vector: Option<&Bytes>) {
        let fits = vector.filter(|vector| vector.bytes.len() == self.dimensions);
        let zeros = vec![0; if fits.is_some() { 0 } else { self.dimensions }];
        let bytes = fits.map_or(zeros.as_slice(), |vector| &vector.bytes);
        self.signs.extend(signs(bytes));
        self.vectors.extend(bytes);
        self.scales.push(fits.map_or(0.0, |vector| vector.scale));
    }

    /// Takes the last message away.
    pub(crate) fn pop(&mut self, vocabulary: &Vocabulary) -> Option<Doc> {
        let no = self.len().checked_sub(1)? as DocNo;
        let doc = self.doc(no);
        for (term, _) in terms_of(&doc.words, vocabulary) {
            self.postings[term as usize].pop();
            self.postings_total -= 1;
        }
        self.length_total -= u64::from(self.lengths[no as usize]);
        let at = no as usize;
        self.ids.truncate(at);
        self.sessions.truncate(at);
        self.speakers.truncate(at);
        self.said_at.truncate(at);
        self.marks.truncate(at);
        self.capitals.truncate(at);
        self.lengths.truncate(at);
        self.word_ends.truncate(at);
        self.words.truncate(self.words.len() - doc.words.len());
        self.vectors.truncate(at * self.dimensions);
        self.scales.truncate(at);
        self.signs.truncate(at * self.sign_words());
        Some(doc)
    }

    /// A message as it came in.
    pub(crate) fn doc(&self, no: DocNo) -> Doc {
        let at = no as usize;
        let vector = self.vector(no).map(|(bytes, scale)| Bytes { bytes: bytes.to_vec(), scale });
        Doc {
            id: self.ids[at],
            session: self.sessions[at],
            speaker: self.speakers[at],
            said_at: self.said_at[at],
            marks: self.marks[at],
            words: self.words(no).to_vec(),
            vector,
        }
    }

    /// The words of a message.
    pub(crate) fn words(&self, no: DocNo) -> &[PackedWord] {
        let at = no as usize;
        let start = if at == 0 { 0 } else { self.word_ends[at - 1] };
        &self.words[start as usize..self.word_ends[at] as usize]
    }

    /// The vector of a message and its scale; `None` while it has none.
    pub(crate) fn vector(&self, no: DocNo) -> Option<(&[i8], f32)> {
        let at = no as usize * self.dimensions;
        let scale = self.scales[no as usize];
        (scale != 0.0).then(|| (&self.vectors[at..at + self.dimensions], scale))
    }

    fn sign_words(&self) -> usize {
        self.dimensions.div_ceil(64)
    }

    /// The signs of all messages' vectors, one behind the other.
    pub(crate) fn all_signs(&self) -> &[u64] {
        &self.signs
    }

    /// The messages that use a term, oldest first.
    pub(crate) fn postings(&self, term: TermNo) -> &[Posting] {
        self.postings.get(term as usize).map_or(&[], Vec::as_slice)
    }

    /// Gives back memory that was taken to grow into.
    pub(crate) fn shrink(&mut self) {
        self.words.shrink_to_fit();
        self.vectors.shrink_to_fit();
        self.signs.shrink_to_fit();
        self.postings.iter_mut().for_each(Vec::shrink_to_fit);
        self.postings.shrink_to_fit();
        self.ids.shrink_to_fit();
    }

    /// The mean length.
    pub(crate) fn length_mean(&self) -> f64 {
        if self.ids.is_empty() { 0.0 } else { self.length_total as f64 / self.len() as f64 }
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        const COLUMNS: usize = 16 + 4 + 2 + 8 + 10 + 1 + 4 + 4 + 4;
        self.ids.capacity() * COLUMNS
            + self.words.capacity() * 4
            + self.vectors.capacity()
            + self.signs.capacity() * 8
            + self.postings.capacity() * 24
            + self.postings_total * 5
    }
}

/// The terms of a list of words, each once.
fn terms_of(words: &[PackedWord], vocabulary: &Vocabulary) -> Vec<(TermNo, u8)> {
    let mut terms: Vec<(TermNo, u8)> =
        words.iter().map(|word| (vocabulary.term_of(word.word()), word.times())).collect();
    terms.sort_unstable();
    terms.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
    terms
}
