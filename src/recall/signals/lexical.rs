//! BM25 on a message, on it with its neighbours, and on its session.
//!
//! Neighbourhoods have no postings of their own: the counts of a term in a message and beside it are added up while
//! the term's postings are walked, so a memory that grows keeps one list per term.

use crate::recall::index::ScopeIndex;
use crate::recall::index::docs::{DocNo, Docs, NONE, Posting};
use crate::recall::index::vocabulary::TermNo;
use crate::recall::signals::Moments;
use crate::recall::signals::spare::Spare;

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

/// Scores of those messages that have one. Most of a large memory has nothing to do with a question: whoever goes
/// through scores goes through these alone.
pub(crate) struct Scores {
    docs: usize,
    values: Spare<f32>,
    found: Vec<DocNo>,
    sum: f64,
    squares: f64,
}

impl Scores {
    /// For so many in all, of which about so many will have one.
    fn new(docs: usize, about: usize) -> Self {
        let found = Vec::with_capacity(about.min(docs));
        Self { docs, values: Spare::take(docs), found, sum: 0.0, squares: 0.0 }
    }

    /// Adds to a message's score; what is added is above zero.
    fn add(&mut self, no: DocNo, value: f32) {
        let score = &mut self.values.zeros[no as usize];
        if *score == 0.0 {
            self.found.push(no);
        }
        let before = f64::from(*score);
        *score += value;
        let now = f64::from(*score);
        self.sum += now - before;
        self.squares += now * now - before * before;
    }

    /// A message's score, zero for those that were not found.
    pub(crate) fn of(&self, no: DocNo) -> f32 {
        self.values.zeros[no as usize]
    }

    /// The messages that have a score, each once.
    pub(crate) fn found(&self) -> &[DocNo] {
        &self.found
    }

    /// Mean and spread over all messages.
    pub(crate) fn moments(&self) -> Moments {
        self.moments_among(self.docs)
    }

    /// Mean and spread where there are so many, most of them without a score.
    pub(crate) fn moments_among(&self, count: usize) -> Moments {
        Moments::told(self.sum, self.squares, count)
    }
}

impl Drop for Scores {
    fn drop(&mut self) {
        for no in &self.found {
            self.values.zeros[*no as usize] = 0.0;
        }
    }
}

/// In how many messages terms are used, each counted for itself.
fn uses(docs: &Docs, terms: &[Wanted]) -> usize {
    terms.iter().map(|(term, _)| docs.postings(*term).len()).sum()
}

/// BM25 of every message of a table for the given terms.
pub(crate) fn own(docs: &Docs, terms: &[Wanted]) -> Scores {
    let mut scores = Scores::new(docs.len(), uses(docs, terms));
    let mean = docs.length_mean();
    for (term, share) in terms {
        let postings = docs.postings(*term);
        let bm25 = Bm25::new(share * idf(docs.len(), postings.len()), mean);
        for posting in postings {
            let length = docs.lengths[posting.doc() as usize];
            scores.add(posting.doc(), bm25.of(posting.times().into(), length));
        }
    }
    scores
}

/// The share of the question's weight whose terms occur in a message, for some messages in the order of their numbers.
pub(crate) fn coverage(index: &ScopeIndex, terms: &[AskedTerm], of: &[DocNo]) -> Vec<f32> {
    let docs = &index.keys;
    let mut covered = vec![0.0; of.len()];
    let mut whole = 0.0;
    for asked in terms.iter().filter(|asked| !asked.is_name) {
        let postings = asked.term.map_or(&[][..], |term| docs.postings(term));
        let idf = (asked.share * idf(docs.len(), postings.len())) as f32;
        whole += idf;
        each_among(postings, of, |at| covered[at] += idf);
    }
    covered.iter_mut().filter(|_| whole > 0.0).for_each(|share| *share /= whole);
    covered
}

/// Calls with the place of every message that a posting is about. The longer of the two lists is looked up in.
fn each_among(postings: &[Posting], of: &[DocNo], mut call: impl FnMut(usize)) {
    if postings.len() < of.len() {
        postings.iter().filter_map(|posting| of.binary_search(&posting.doc()).ok()).for_each(call);
    } else {
        let is_there = |no: &DocNo| postings.binary_search_by_key(no, |posting| posting.doc()).is_ok();
        of.iter().enumerate().filter(|(_, no)| is_there(no)).for_each(|(at, _)| call(at));
    }
}

/// BM25 where the speaker's name counts as a word of the message.
pub(crate) fn with_names(index: &ScopeIndex, terms: &[(Wanted, Vec<u16>)]) -> Scores {
    let docs = &index.keys;
    let mean = if docs.len() == 0 { 0.0 } else { (docs.length_total + index.named()) as f64 / docs.len() as f64 };
    let mut scores = Scores::new(docs.len(), 0);
    let mut counts = Counts::new(docs.len());
    for ((term, share), speakers) in terms {
        let mut uses: Vec<(DocNo, u32)> = Vec::new();
        if !speakers.is_empty() {
            counts.fill(docs.postings(*term));
            let spoke = |no: &DocNo| speakers.contains(&docs.speakers[*no as usize]);
            uses.extend((0..docs.len() as DocNo).filter(spoke).map(|no| (no, 1 + counts.of(no))));
            counts.clear(docs.postings(*term));
        }
        let others =
            docs.postings(*term).iter().filter(|posting| !speakers.contains(&docs.speakers[posting.doc() as usize]));
        uses.extend(others.map(|posting| (posting.doc(), u32::from(posting.times()))));
        let bm25 = Bm25::new(share * idf(docs.len(), uses.len()), mean);
        for (no, times) in uses {
            let at = no as usize;
            let length = docs.lengths[at] + u32::from(docs.speakers[at] != 0);
            scores.add(no, bm25.of(times, length));
        }
    }
    scores
}

/// Which neighbours a message is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    /// The message before it.
    Before,
    /// The messages before and after it.
    Both,
}

/// BM25 of every message together with its neighbours in the session.
pub(crate) fn around(index: &ScopeIndex, terms: &[Wanted], around: Around) -> Scores {
    let docs = &index.keys;
    let total = match around {
        Around::Before => index.key.length_with_before,
        Around::Both => index.key.length_with_both,
    };
    let mean = if docs.len() == 0 { 0.0 } else { total as f64 / docs.len() as f64 };
    let about = 2 * uses(docs, terms);
    let mut scores = Scores::new(docs.len(), about);
    let mut uses = Uses { counts: Spare::take(docs.len()), touched: Vec::with_capacity(about.min(docs.len())) };
    for (term, share) in terms {
        docs.postings(*term).iter().for_each(|posting| uses.note(index, *posting, around));
        let bm25 = Bm25::new(share * idf(docs.len(), uses.touched.len()), mean);
        for no in uses.touched.drain(..) {
            let times = std::mem::take(&mut uses.counts.zeros[no as usize]);
            scores.add(no, bm25.of(times.into(), length(index, no, around)));
        }
    }
    scores
}

/// How long a message is with its neighbours.
fn length(index: &ScopeIndex, no: DocNo, around: Around) -> u32 {
    let with_before = index.key.lengths_with_before[no as usize].into();
    match around {
        Around::Before => with_before,
        Around::Both => with_before + length_of(index, index.key.after(no)),
    }
}

fn length_of(index: &ScopeIndex, no: DocNo) -> u32 {
    if no == NONE { 0 } else { index.keys.lengths[no as usize] }
}

/// How often messages with their neighbours use the term at hand.
struct Uses {
    counts: Spare<u16>,
    /// The messages that do, each once.
    touched: Vec<DocNo>,
}

impl Uses {
    /// A message is read with the one before it, so what it says counts for the one after it as well; and the other way round.
    fn note(&mut self, index: &ScopeIndex, posting: Posting, around: Around) {
        let no = posting.doc();
        self.add(no, posting.times());
        self.add(index.key.after(no), posting.times());
        if around == Around::Both {
            self.add(index.key.before(no), posting.times());
        }
    }

    fn add(&mut self, no: DocNo, times: u8) {
        if no == NONE {
            return;
        }
        let count = &mut self.counts.zeros[no as usize];
        if *count == 0 {
            self.touched.push(no);
        }
        *count += u16::from(times);
    }
}

/// BM25 of every session as one document, by the session's number.
pub(crate) fn sessions(index: &ScopeIndex, terms: &[Wanted]) -> Scores {
    let mean = if index.spoken_in == 0 { 0.0 } else { index.keys.length_total as f64 / index.spoken_in as f64 };
    let mut scores = Scores::new(index.sessions.len(), uses(&index.keys, terms));
    let mut times = vec![0_u32; index.sessions.len()];
    for (term, share) in terms {
        let mut touched = Vec::new();
        for posting in index.keys.postings(*term) {
            let session = index.keys.sessions[posting.doc() as usize] as usize;
            if times[session] == 0 {
                touched.push(session);
            }
            times[session] += u32::from(posting.times());
        }
        let bm25 = Bm25::new(share * idf(index.spoken_in, touched.len()), mean);
        for session in touched {
            let length = u32::try_from(index.sessions[session].length).unwrap_or(u32::MAX);
            scores.add(session as DocNo, bm25.of(times[session], length));
            times[session] = 0;
        }
    }
    scores
}

/// How often the messages use the term at hand.
struct Counts(Spare<u16>);

impl Counts {
    fn new(docs: usize) -> Self {
        Self(Spare::take(docs))
    }

    fn fill(&mut self, postings: &[Posting]) {
        for posting in postings {
            self.0.zeros[posting.doc() as usize] = posting.times().into();
        }
    }

    fn clear(&mut self, postings: &[Posting]) {
        for posting in postings {
            self.0.zeros[posting.doc() as usize] = 0;
        }
    }

    fn of(&self, no: DocNo) -> u32 {
        self.0.zeros[no as usize].into()
    }
}
