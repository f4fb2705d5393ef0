//! A document as words and vectors. It never changes: a new version is a new one.

use crate::id::DocumentId;
use crate::kernel::{Bytes, dot, quantise};
use crate::knowledge::{AskedTerm, Seen, terms_of};
use crate::store::HeldDocument;

/// How soon more of a word counts no more, and how much the length of a passage counts, as everywhere in BM25.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

/// That a passage has a word.
#[derive(Debug, Clone, Copy)]
struct Posting {
    passage: u16,
    count: u8,
}

#[derive(Debug)]
pub(super) struct DocumentIndex {
    pub(super) id: DocumentId,
    pub(super) mark: u64,
    pub(super) version: u32,
    pub(super) name: String,
    pub(super) title: String,
    /// Words in each passage.
    lengths: Vec<u16>,
    /// Terms in order, and where the postings of each begin.
    terms: Vec<(u32, u32)>,
    postings: Vec<Posting>,
    vectors: Vec<Option<Bytes>>,
}

impl DocumentIndex {
    pub(super) fn of(held: HeldDocument) -> Self {
        let HeldDocument { document, passages, mark } = held;
        let (mut lengths, mut all) = (Vec::new(), Vec::new());
        for (at, (passage, _)) in passages.iter().enumerate() {
            let terms = terms_of(&passage.searched(&document.title));
            lengths.push(terms.length);
            all.extend(terms.counts.into_iter().map(|(term, count)| (term, Posting { passage: at as u16, count })));
        }
        all.sort_unstable_by_key(|(term, posting)| (*term, posting.passage));
        let firsts = all.iter().enumerate().filter(|(at, (term, _))| *at == 0 || all[at - 1].0 != *term);
        let terms = firsts.map(|(at, (term, _))| (*term, at as u32)).collect();
        Self {
            id: document.id,
            mark,
            version: document.version,
            name: document.name,
            title: document.title,
            lengths,
            terms,
            postings: all.iter().map(|(_, posting)| *posting).collect(),
            vectors: passages.into_iter().map(|(_, vector)| vector.as_deref().and_then(quantise)).collect(),
        }
    }

    pub(super) fn passages(&self) -> usize {
        self.lengths.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().flatten().map(|vector| vector.bytes.len()).sum();
        size_of::<Self>()
            + self.terms.len() * 8
            + self.postings.len() * size_of::<Posting>()
            + self.passages() * (2 + size_of::<Option<Bytes>>())
            + vectors
    }

    fn with(&self, term: u32) -> &[Posting] {
        let Ok(at) = self.terms.binary_search_by_key(&term, |(term, _)| *term) else { return &[] };
        let end = self.terms.get(at + 1).map_or(self.postings.len(), |(_, begin)| *begin as usize);
        &self.postings[self.terms[at].1 as usize..end]
    }

    /// The passages that have a word of the question, by its stem or as it is.
    fn asked(&self, term: &AskedTerm) -> &[Posting] {
        let by_stem = self.with(term.stem);
        if by_stem.is_empty() { self.with(term.word) } else { by_stem }
    }

    /// What is seen of each passage.
    pub(super) fn look(&self, asked: &[AskedTerm], statistics: &Statistics, vector: Option<&Bytes>) -> Vec<Seen> {
        let mut seen: Vec<Seen> =
            self.vectors.iter().map(|own| Seen { similarity: near(own, vector), ..Seen::default() }).collect();
        let all: f32 = asked.iter().map(|term| term.weight).sum();
        for (term, idf) in asked.iter().zip(&statistics.idf) {
            for posting in self.asked(term) {
                let at = usize::from(posting.passage);
                let long = 1.0 - LENGTH + LENGTH * f32::from(self.lengths[at]) / statistics.length;
                let count = f32::from(posting.count);
                seen[at].bm25 += idf * count * (SATURATION + 1.0) / (count + SATURATION * long);
                seen[at].share += term.weight / all;
            }
        }
        seen
    }
}

fn near(own: &Option<Bytes>, asked: Option<&Bytes>) -> Option<f32> {
    let (own, asked) = (own.as_ref()?, asked?);
    let same = own.bytes.len() == asked.bytes.len();
    same.then(|| dot(&own.bytes, &asked.bytes) as f32 * own.scale * asked.scale)
}

/// What is known of all a tenant's passages together.
pub(super) struct Statistics {
    /// How rare each word of the question is among them.
    idf: Vec<f32>,
    /// How long they are on average.
    length: f32,
}

impl Statistics {
    pub(super) fn of(documents: &[std::sync::Arc<DocumentIndex>], asked: &[AskedTerm]) -> Self {
        let passages: usize = documents.iter().map(|document| document.passages()).sum();
        let words: f32 = documents.iter().flat_map(|document| &document.lengths).map(|length| f32::from(*length)).sum();
        let idf = asked.iter().map(|term| {
            let with: usize = documents.iter().map(|document| document.asked(term).len()).sum();
            (1.0 + (passages as f32 - with as f32 + 0.5) / (with as f32 + 0.5)).ln()
        });
        Self { idf: idf.collect(), length: (words / passages.max(1) as f32).max(1.0) }
    }
}
