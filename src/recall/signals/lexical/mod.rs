//! BM25 on a message, on it with its neighbours, and on its session.
//!
//! Neighbourhoods have no postings of their own: the counts of a term in a message and beside it are added up while
//! the term's postings are walked, so a memory that grows keeps one list per term.

mod scores;

pub(crate) use scores::Scores;
pub(super) use scores::Table;

use crate::recall::index::ScopeIndex;
use crate::recall::index::docs::{DocNo, Docs, Posting};
use crate::recall::index::vocabulary::TermNo;

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How much a term tells: `documents` in all, `with_it` of them use it.
pub(crate) fn idf(documents: usize, with_it: usize) -> f64 {
    let (all, with_it) = (documents as f64, with_it as f64);
    (1.0 + (all - with_it + 0.5) / (with_it + 0.5)).ln()
}

/// One term's share of BM25 scores.
#[derive(Clone, Copy)]
struct Bm25 {
    /// What a use is worth at most.
    most: f32,
    /// What is taken off however long a message is, and for each of its words.
    any: f32,
    by_length: f32,
}

impl Bm25 {
    /// For a term of this idf, where a message has so many words on average.
    fn new(idf: f64, length_mean: f64) -> Self {
        let by_length = if length_mean > 0.0 { K1 * B / length_mean } else { 0.0 };
        let any = if length_mean > 0.0 { K1 * (1.0 - B) } else { K1 };
        Self { most: (idf * (K1 + 1.0)) as f32, any: any as f32, by_length: by_length as f32 }
    }

    /// What a use is worth in a message of the mean length.
    fn usual(self, length_mean: f64) -> f32 {
        self.of(1, length_mean as u32)
    }

    fn of_use(self, posting: &Posting) -> f32 {
        self.of(posting.times().into(), posting.length())
    }

    #[inline]
    fn of(self, times: u32, length: u32) -> f32 {
        let times = times as f32;
        self.most * times / (times + self.any + self.by_length * length as f32)
    }
}

/// A term of the question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AskedTerm {
    /// `None` for a term that nobody ever used.
    pub(crate) term: Option<TermNo>,
    /// Whether it is the name of a participant.
    pub(crate) is_name: bool,
    /// One for a word of the question, less for one that was added.
    pub(crate) share: f64,
    /// Whether it is in no dictionary: a name or a code.
    pub(crate) is_code: bool,
}

/// A term that is searched for, and how much of its weight counts.
pub(crate) type Wanted = (TermNo, f64);

/// Terms of a question in one table of messages.
pub(crate) struct Terms<T = Wanted> {
    /// Those that are looked for.
    pub(crate) followed: Vec<T>,
    /// Those that so many messages use that they only count for how scores are measured.
    pub(crate) left: Vec<T>,
}

/// In how many messages terms are used, each counted for itself.
fn uses(docs: &Docs, terms: &Terms) -> usize {
    terms.followed.iter().map(|(term, _)| docs.postings(*term).len()).sum()
}

/// BM25 of every message of a table for the given terms.
pub(crate) fn own(docs: &Docs, terms: &Terms) -> Scores {
    let mut scores = Scores::new(docs.len(), uses(docs, terms));
    let mean = docs.length_mean();
    let bm25 = |(term, share): &Wanted| Bm25::new(share * idf(docs.len(), docs.postings(*term).len()), mean);
    for term in &terms.followed {
        let (postings, bm25) = (docs.postings(term.0), bm25(term));
        postings.iter().for_each(|posting| scores.add(posting.doc(), bm25.of_use(posting)));
    }
    for term in &terms.left {
        scores.expect(docs.postings(term.0).len(), bm25(term).usual(mean));
    }
    scores
}

/// The share of the question's weight whose terms occur in a message, for some messages.
pub(crate) fn coverage(index: &ScopeIndex, terms: &[AskedTerm], of: &[DocNo]) -> Vec<f32> {
    let docs = &index.keys;
    let marked = Marked::new(docs.len(), of);
    let mut covered = Table::<f32>::new(of.len());
    let mut whole = 0.0;
    for asked in terms.iter().filter(|asked| !asked.is_name) {
        let postings = asked.term.map_or(&[][..], |term| docs.postings(term));
        let idf = (asked.share * idf(docs.len(), postings.len())) as f32;
        whole += idf;
        marked.each_use(postings, |no| *covered.of(no) += idf);
    }
    let share = |no: &DocNo| if whole > 0.0 { covered.get(*no) / whole } else { 0.0 };
    of.iter().map(share).collect()
}

/// Where a term has so many times as many uses as there are messages, each message is looked up among them.
const LOOKED_UP: usize = 16;

/// Some messages of a table: a bit for each of all.
pub(crate) struct Marked<'a> {
    bits: Vec<u64>,
    docs: &'a [DocNo],
}

impl<'a> Marked<'a> {
    pub(crate) fn new(all: usize, docs: &'a [DocNo]) -> Self {
        let mut bits = vec![0; all.div_ceil(u64::BITS as usize)];
        docs.iter().map(|no| bit(*no)).for_each(|(word, bit)| bits[word] |= bit);
        Self { bits, docs }
    }

    #[inline]
    pub(crate) fn has(&self, no: DocNo) -> bool {
        let (word, bit) = bit(no);
        self.bits[word] & bit != 0
    }

    /// Calls with those that use a term.
    fn each_use(&self, postings: &[Posting], call: impl FnMut(DocNo)) {
        if postings.len() > LOOKED_UP * self.docs.len() {
            let is_there = |no: &DocNo| postings.binary_search_by_key(no, |posting| posting.doc()).is_ok();
            self.docs.iter().copied().filter(is_there).for_each(call);
        } else {
            postings.iter().map(|posting| posting.doc()).filter(|no| self.has(*no)).for_each(call);
        }
    }
}

fn bit(no: DocNo) -> (usize, u64) {
    ((no / u64::BITS) as usize, 1 << (no % u64::BITS))
}

/// BM25 where the speaker's name counts as a word of the message.
pub(crate) fn with_names(index: &ScopeIndex, terms: &Terms<Named>) -> Scores {
    let docs = &index.keys;
    let mean = if docs.len() == 0 { 0.0 } else { (docs.length_total + index.named()) as f64 / docs.len() as f64 };
    let mut scores = Scores::new(docs.len(), terms.followed.iter().map(|term| uses_with_names(index, term)).sum());
    for named @ ((term, share), speakers) in &terms.followed {
        let mut counts = Table::<u32>::new(uses_with_names(index, named));
        docs.postings(*term).iter().for_each(|posting| *counts.of(posting.doc()) += u32::from(posting.times()));
        let spoken = speakers.iter().flat_map(|speaker| &index.spoken[*speaker as usize]);
        spoken.for_each(|no| *counts.of(*no) += 1);
        let bm25 = Bm25::new(share * idf(docs.len(), counts.all().count()), mean);
        for (no, times) in counts.all() {
            let card = docs.card(no);
            scores.add(no, bm25.of(times, card.length + u32::from(card.speaker != 0)));
        }
    }
    for named @ ((_, share), _) in &terms.left {
        let with_it = uses_with_names(index, named).min(docs.len());
        scores.expect(with_it, Bm25::new(share * idf(docs.len(), with_it), mean).usual(mean));
    }
    scores
}

/// A term, and the speakers whose name it is.
pub(crate) type Named = (Wanted, Vec<u16>);

/// In how many messages a term is used at most, where the names of these speakers are words of what they say.
pub(crate) fn uses_with_names(index: &ScopeIndex, ((term, _), speakers): &Named) -> usize {
    let spoken: usize = speakers.iter().map(|speaker| index.spoken[*speaker as usize].len()).sum();
    spoken + index.keys.postings(*term).len()
}

/// Which neighbours a message is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    /// The message before it.
    Before,
    /// The messages before and after it.
    Both,
}

/// BM25 of messages together with their neighbours in the session: of all, or of some. Where it is of some, how scores are measured is
/// foreseen from how often terms are used, and nothing is told of others.
pub(crate) fn around(index: &ScopeIndex, terms: &Terms, around: Around, of: Option<&[DocNo]>) -> Scores {
    let docs = &index.keys;
    let total = match around {
        Around::Before => index.key.length_with_before,
        Around::Both => index.key.length_with_both,
    };
    let mean = if docs.len() == 0 { 0.0 } else { total as f64 / docs.len() as f64 };
    let neighbours = if around == Around::Both { 3 } else { 2 };
    let with_it = |(term, _): &Wanted| (neighbours * docs.postings(*term).len()).min(docs.len());
    let bm25 = |(_, share): &Wanted, with_it: usize| Bm25::new(share * idf(docs.len(), with_it), mean);
    let read = of.map(|of| with_neighbours(index, of));
    let marked = read.as_ref().map(|read| Marked::new(docs.len(), read));
    let mut scores = Scores::new(docs.len(), neighbours * uses(docs, terms));
    for term in &terms.followed {
        let mut counts = Table::<u32>::new(with_it(term));
        let counting = |posting: &&Posting| marked.as_ref().is_none_or(|marked| marked.has(posting.doc()));
        let postings = docs.postings(term.0).iter().filter(counting);
        postings.for_each(|posting| note(&mut counts, index, posting, around));
        let bm25 = bm25(term, if of.is_some() { with_it(term) } else { counts.all().count() });
        for (no, times) in counts.all() {
            scores.add(no, bm25.of(times, length(index, no, around)));
        }
    }
    let foreseen: &[Wanted] = if of.is_some() { &terms.followed } else { &[] };
    let mut scores = if of.is_some() { scores.unmeasured() } else { scores };
    for term in foreseen.iter().chain(&terms.left) {
        scores.expect(with_it(term), bm25(term, with_it(term)).usual(mean));
    }
    scores
}

/// Messages, and those beside them.
fn with_neighbours(index: &ScopeIndex, of: &[DocNo]) -> Vec<DocNo> {
    let beside = |no: &DocNo| {
        let card = index.keys.card(*no);
        [Some(*no), card.before(), card.after()].into_iter().flatten()
    };
    of.iter().flat_map(beside).collect()
}

/// A message is read with the one before it, so what it says counts for the one after it as well; and the other way round.
fn note(counts: &mut Table<u32>, index: &ScopeIndex, posting: &Posting, around: Around) {
    let card = index.keys.card(posting.doc());
    let before = card.before().filter(|_| around == Around::Both);
    let counting = [Some(posting.doc()), card.after(), before].into_iter().flatten();
    counting.for_each(|no| *counts.of(no) += u32::from(posting.times()));
}

/// How long a message is with its neighbours.
fn length(index: &ScopeIndex, no: DocNo, around: Around) -> u32 {
    let card = index.keys.card(no);
    let after = || card.after().map_or(0, |after| index.keys.card(after).length);
    u32::from(card.length_with_before) + if around == Around::Both { after() } else { 0 }
}

/// BM25 of every session as one document, by the session's number. Where there is but one, it tells nothing.
pub(crate) fn sessions(index: &ScopeIndex, terms: &Terms) -> Scores {
    if index.spoken_in <= 1 {
        return Scores::new(index.sessions.len(), 0);
    }
    let mean = if index.spoken_in == 0 { 0.0 } else { index.keys.length_total as f64 / index.spoken_in as f64 };
    let mut scores = Scores::new(index.sessions.len(), uses(&index.keys, terms));
    for (term, share) in &terms.followed {
        let postings = index.keys.postings(*term);
        let mut counts = Table::<u32>::new(postings.len().min(index.sessions.len()));
        for posting in postings {
            *counts.of(index.keys.session_of(posting)) += u32::from(posting.times());
        }
        let bm25 = Bm25::new(share * idf(index.spoken_in, counts.all().count()), mean);
        for (session, times) in counts.all() {
            let length = u32::try_from(index.sessions[session as usize].length).unwrap_or(u32::MAX);
            scores.add(session, bm25.of(times, length));
        }
    }
    scores
}
