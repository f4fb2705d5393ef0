//! Messages: what a search reads together lies together.
//!
//! There are two such tables in a scope, one of what people said and one of what the model replied. Messages are
//! added and taken away at the end only; see `ScopeIndex` for changes further back.

use super::card::Card;
use super::nearest::Heads;
use super::vocabulary::{TermNo, Vocabulary, WordNo};
use crate::id::MessageId;
use crate::kernel::{Bytes, Rows, fetch};
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

/// A message that uses a term, how often, how long it is and in which session: what scores are made of lies in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting {
    /// 24 bits and eight.
    doc_and_times: u32,
    length: u16,
    /// The largest for a session whose number is larger.
    session: u16,
}

impl Posting {
    fn new(doc: DocNo, times: u8, length: u32, session: u32) -> Self {
        let doc_and_times = doc << 8 | u32::from(times);
        Self { doc_and_times, length: two_bytes(length), session: two_bytes(session) }
    }

    #[inline]
    pub(crate) fn doc(self) -> DocNo {
        self.doc_and_times >> 8
    }

    #[inline]
    pub(crate) fn times(self) -> u8 {
        self.doc_and_times as u8
    }

    /// No more than two bytes hold.
    #[inline]
    pub(crate) fn length(self) -> u32 {
        self.length.into()
    }
}

/// By whom a message was said, and in which session.
#[derive(Debug, Clone, Copy)]
struct Origin {
    /// The largest for a session whose number is larger.
    session: u16,
    speaker: u16,
}

/// The days since 1970 on which something may have been said: those before and after are taken for the first and the last.
pub(crate) type Day = u16;

/// The time of a day, in microseconds.
pub(crate) const DAY: i64 = 86_400_000_000;

/// Most messages in one table: their numbers have 24 bits.
pub(crate) const DOCS_MAX: usize = (1 << 24) - 1;

/// Messages, with a card for each.
#[derive(Default)]
pub(crate) struct Docs {
    pub(crate) ids: Vec<MessageId>,
    cards: Vec<Card>,
    pub(crate) length_total: u64,
    words: Vec<PackedWord>,
    vectors: Rows,
    /// Of the vectors.
    pub(crate) heads: Heads,
    /// Little memory for all of them, where no card has to be read for it.
    origins: Vec<Origin>,
    days: Vec<Day>,
    postings: Vec<Vec<Posting>>,
    postings_total: usize,
}

impl Docs {
    pub(crate) fn new(dimensions: usize) -> Self {
        Self { vectors: Rows::new(dimensions), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a message behind all others; answers the terms it uses, each once, with their counts.
    pub(crate) fn push(&mut self, doc: &Doc, vocabulary: &Vocabulary) -> Vec<(TermNo, u8)> {
        let no = self.len() as DocNo;
        let terms = terms_of(&doc.words, vocabulary);
        let length = doc.words.iter().map(|word| u32::from(word.times())).sum();
        self.postings.resize_with(vocabulary.terms().max(self.postings.len()), Vec::new);
        for (term, times) in &terms {
            self.postings[*term as usize].push(Posting::new(no, *times, length, doc.session));
        }
        self.postings_total += terms.len();
        self.length_total += u64::from(length);
        self.ids.push(doc.id);
        self.origins.push(Origin { session: two_bytes(doc.session), speaker: doc.speaker });
        self.days.push(doc.said_at.div_euclid(DAY).clamp(0, Day::MAX.into()) as Day);
        let words_start = self.words.len() as u32;
        self.words.extend(&doc.words);
        let scale = self.push_vector(doc.vector.as_ref());
        self.cards.push(Card {
            said_at: doc.said_at,
            session: doc.session,
            length,
            words: (words_start, self.words.len() as u32),
            scale,
            before: NONE,
            after: NONE,
            partner: NONE,
            novelty: 0.0,
            length_with_before: two_bytes(length),
            speaker: doc.speaker,
            marks: doc.marks,
            capitals: doc.words.iter().filter(|word| word.capital()).count().min(u8::MAX.into()) as u8,
        });
        terms
    }

    /// Puts the last message behind another one of its session.
    pub(super) fn link(&mut self, before: DocNo) {
        let no = self.len() as DocNo - 1;
        let length = self.card(before).length + self.card(no).length;
        self.cards[before as usize].after = no;
        self.cards[no as usize].before = before;
        self.cards[no as usize].length_with_before = two_bytes(length);
    }

    /// Notes how new the last message is.
    pub(super) fn set_novelty(&mut self, novelty: f32) {
        self.cards.last_mut().expect("there is a last message").novelty = novelty;
    }

    /// Notes a message's reply, or what a reply answers.
    pub(super) fn set_partner(&mut self, no: DocNo, partner: DocNo) {
        self.cards[no as usize].partner = partner;
    }

    /// What is known of a message.
    #[inline]
    pub(crate) fn card(&self, no: DocNo) -> &Card {
        &self.cards[no as usize]
    }

    /// The session of a message that uses a term.
    #[inline]
    pub(crate) fn session_of(&self, posting: &Posting) -> u32 {
        if posting.session == u16::MAX { self.card(posting.doc()).session } else { posting.session.into() }
    }

    /// The session of a message, and who said it. No card is read for it.
    #[inline]
    pub(crate) fn origin(&self, no: DocNo) -> (u32, u16) {
        let Origin { session, speaker } = self.origins[no as usize];
        let session = if session == u16::MAX { self.card(no).session } else { session.into() };
        (session, speaker)
    }

    /// The day on which a message was said. No card is read for it.
    #[inline]
    pub(crate) fn day(&self, no: DocNo) -> Day {
        self.days[no as usize]
    }

    /// What is known of all of them.
    pub(crate) fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// Has what is known of a message brought nearer, without waiting for it.
    #[inline]
    pub(crate) fn fetch_card(&self, no: DocNo) {
        fetch(self.card(no));
    }

    /// The same with what it means.
    #[inline]
    pub(crate) fn fetch(&self, no: DocNo) {
        self.fetch_card(no);
        fetch(self.vectors.get(no as usize));
    }

    /// Answers what a byte of it is worth.
    fn push_vector(&mut self, vector: Option<&Bytes>) -> f32 {
        let (no, dimensions) = (self.heads.len(), self.vectors.dimensions());
        self.vectors.resize(no + 1);
        let fits = vector.filter(|vector| vector.bytes.len() == dimensions);
        if let Some(vector) = fits {
            self.vectors.put(no, &vector.bytes);
        }
        self.heads.push(self.vectors.get(no));
        fits.map_or(0.0, |vector| vector.scale)
    }

    /// Takes the last message away.
    pub(crate) fn pop(&mut self, vocabulary: &Vocabulary) -> Option<Doc> {
        let no = self.len().checked_sub(1)? as DocNo;
        let doc = self.doc(no);
        for (term, _) in terms_of(&doc.words, vocabulary) {
            self.postings[term as usize].pop();
            self.postings_total -= 1;
        }
        let card = *self.card(no);
        if let Some(before) = card.before() {
            self.cards[before as usize].after = NONE;
        }
        self.length_total -= u64::from(card.length);
        let at = no as usize;
        self.ids.truncate(at);
        self.cards.truncate(at);
        self.words.truncate(self.words.len() - doc.words.len());
        self.vectors.truncate(at);
        self.heads.truncate(at);
        self.origins.truncate(at);
        self.days.truncate(at);
        Some(doc)
    }

    /// A message as it came in.
    pub(crate) fn doc(&self, no: DocNo) -> Doc {
        let card = self.card(no);
        let vector = self.vector(no).map(|(bytes, scale)| Bytes { bytes: bytes.to_vec(), scale });
        Doc {
            id: self.ids[no as usize],
            session: card.session,
            speaker: card.speaker,
            said_at: card.said_at,
            marks: card.marks,
            words: self.words(no).to_vec(),
            vector,
        }
    }

    /// The words of a message.
    #[inline]
    pub(crate) fn words(&self, no: DocNo) -> &[PackedWord] {
        let (start, end) = self.card(no).words;
        &self.words[start as usize..end as usize]
    }

    /// The vector of a message and its scale; `None` while it has none.
    #[inline]
    pub(crate) fn vector(&self, no: DocNo) -> Option<(&[i8], f32)> {
        let scale = self.card(no).scale;
        (scale != 0.0).then(|| (self.vectors.get(no as usize), scale))
    }

    /// The messages that use a term, oldest first.
    #[inline]
    pub(crate) fn postings(&self, term: TermNo) -> &[Posting] {
        self.postings.get(term as usize).map_or(&[], Vec::as_slice)
    }

    /// Gives back memory that was taken to grow into.
    pub(crate) fn shrink(&mut self) {
        self.words.shrink_to_fit();
        self.vectors.shrink();
        self.heads.shrink();
        self.origins.shrink_to_fit();
        self.days.shrink_to_fit();
        self.postings.iter_mut().for_each(Vec::shrink_to_fit);
        self.postings.shrink_to_fit();
        self.ids.shrink_to_fit();
        self.cards.shrink_to_fit();
    }

    /// The mean length.
    pub(crate) fn length_mean(&self) -> f64 {
        if self.ids.is_empty() { 0.0 } else { self.length_total as f64 / self.len() as f64 }
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<MessageId>()
            + self.cards.capacity() * size_of::<Card>()
            + self.words.capacity() * 4
            + self.vectors.bytes()
            + self.heads.bytes()
            + self.origins.capacity() * size_of::<Origin>()
            + self.days.capacity() * size_of::<Day>()
            + self.postings.capacity() * 24
            + self.postings_total * (size_of::<Posting>() + 1)
    }
}

fn two_bytes(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
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
