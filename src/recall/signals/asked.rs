//! A question in the words and vectors of one scope, and what its words find there.

use jiff::tz::TimeZone;

use super::late::{AskedWord, Late};
use super::lexical::{self, AskedTerm, Named, Scores, Terms, idf};
use super::{Moments, priors};
use crate::kernel::{Bytes, quantise};
use crate::language::{Tongue, is_stop, term, words};
use crate::model::embed::StaticTable;
use crate::recall::complete::Added;
use crate::recall::index::ScopeIndex;
use crate::recall::index::docs::{DocNo, Docs};
use crate::recall::index::vocabulary::{TermNo, Vocabulary, WORD_DIMENSIONS, word_vector};
use crate::recall::question::Question;
use crate::recall::search::EXACT_MAX;

/// More words of a question than this are not told apart.
const WORDS_MAX: usize = 64;

/// A code or a name that no more messages than this mention tells them from all others.
const FEW: usize = 3;

/// A question in the words and vectors of one scope.
pub(crate) struct Asked<'a> {
    pub(crate) question: &'a Question,
    pub(crate) zone: TimeZone,
    pub(super) terms: Vec<AskedTerm>,
    /// Terms with the speakers whose name they are.
    pub(super) named: Vec<Named>,
    words: Vec<AskedWord>,
    /// The vectors of those words, one behind the other.
    word_vectors: Vec<i8>,
    /// The person the question is about, if it names one.
    pub(super) speaker: Option<u16>,
    pub(super) full: Option<Bytes>,
    pub(super) plain: Option<Bytes>,
}

/// The vectors of a question: as asked, and without names.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuestionVectors {
    pub(crate) full: Option<Vec<f32>>,
    pub(crate) plain: Option<Vec<f32>>,
}

impl<'a> Asked<'a> {
    /// Reads a question's text and what was added to it in the words of a scope. `participants` are speakers' numbers
    /// in the order in which the question was read with their names, 0 for who does not speak in it.
    pub(crate) fn new(
        index: &ScopeIndex,
        question: &'a Question,
        text: &str,
        added: &Added,
        participants: &[u16],
        vectors: &QuestionVectors,
        zone: TimeZone,
    ) -> Self {
        let names = name_terms(index, participants);
        let speaker = match question.named[..] {
            [one] => participants.get(one).copied().filter(|speaker| *speaker != 0),
            _ => None,
        };
        let mut asked = Self {
            question,
            zone,
            terms: Vec::new(),
            named: Vec::new(),
            words: Vec::new(),
            word_vectors: Vec::new(),
            speaker,
            full: vectors.full.as_deref().and_then(quantise),
            plain: vectors.plain.as_deref().and_then(quantise),
        };
        let own = words(text).map(|word| (word, 1.0));
        let added = added.words.iter().map(|word| (std::borrow::Cow::from(word.as_str()), added.share));
        let mut seen: Vec<String> = Vec::new();
        for (word, share) in own.chain(added).filter(|(word, _)| !is_stop(word, question.tongue)).take(WORDS_MAX) {
            let stem = term(&word, question.tongue);
            if !seen.contains(&stem) {
                asked.add(index, &word, &stem, share, &names);
                seen.push(stem);
            }
        }
        asked
    }

    fn add(&mut self, index: &ScopeIndex, word: &str, stem: &str, share: f64, names: &[(String, u16)]) {
        let tongue = self.question.tongue;
        let found = find_term(&index.vocabulary, word, stem, tongue);
        let speakers: Vec<u16> = names.iter().filter(|(name, _)| name == stem).map(|(_, speaker)| *speaker).collect();
        let is_name = !speakers.is_empty();
        let is_code = StaticTable::shared().rarity(word) >= 1.0;
        self.terms.push(AskedTerm { term: found, is_name, share, is_code });
        if let Some(term) = found {
            self.named.push(((term, share), speakers));
        }
        if !is_name {
            let with_it = found.map_or(0, |term| index.keys.postings(term).len());
            let scale = word_vector(word, tongue, &mut self.word_vectors).unwrap_or(0.0);
            let idf = (share * idf(index.keys.len(), with_it)) as f32;
            self.words.push(AskedWord { term: found, scale, idf });
            self.word_vectors.resize(self.words.len() * WORD_DIMENSIONS, 0);
        }
    }

    /// The terms to look for in a table of messages.
    fn plain_terms(&self, docs: &Docs) -> Terms {
        let plain = self.terms.iter().filter(|asked| !asked.is_name);
        let terms = plain.filter_map(|asked| Some((asked.term?, asked.share))).collect();
        followed(docs.len(), terms, |(term, _)| docs.postings(*term).len())
    }

    /// The same among what people said, with the names of speakers, each with the speakers whose name it is.
    pub(super) fn named_terms(&self, index: &ScopeIndex) -> Terms<Named> {
        followed(index.keys.len(), self.named.clone(), |named| lexical::uses_with_names(index, named))
    }

    /// What the words of the question find.
    pub(crate) fn word_scores(&self, index: &ScopeIndex) -> WordScores {
        let terms = self.plain_terms(&index.keys);
        WordScores {
            own: lexical::own(&index.keys, &terms),
            sessions: lexical::sessions(index, &terms),
            replies: lexical::own(&index.replies, &self.plain_terms(&index.replies)),
            terms,
        }
    }

    /// Whether a message is one of the few that mention a code or a name of the question: that is what was asked for, however
    /// little else it has to do with it.
    pub(crate) fn singles_out(&self, index: &ScopeIndex, is_key: bool, no: DocNo) -> bool {
        let codes = self.terms.iter().filter(|asked| asked.is_code && !asked.is_name && asked.share >= 1.0);
        codes.filter_map(|asked| asked.term).any(|term| {
            let (keys, replies) = (index.keys.postings(term), index.replies.postings(term));
            let among = if is_key { keys } else { replies };
            keys.len() + replies.len() <= FEW && among.iter().any(|posting| posting.doc() == no)
        })
    }

    /// The question's words, looking for their nearest.
    pub(crate) fn late<'i>(&self, index: &'i ScopeIndex) -> Late<'i> {
        Late::new(index, self.words.clone(), self.word_vectors.clone())
    }

    /// The person the question is about, if it names one.
    pub(crate) fn speaker(&self) -> Option<u16> {
        self.speaker
    }

    /// Whether something was said at the time that is asked about.
    pub(crate) fn date(&self, said_at: i64) -> f32 {
        priors::date(self.question, said_at, &self.zone)
    }

    /// The question's vector without names.
    pub(crate) fn plain(&self) -> Option<&Bytes> {
        self.plain.as_ref()
    }
}

/// Uses of terms that are followed in a large scope, and in a larger one this part of its messages if that is more.
/// `docs/recall.md` tells what fewer would cost.
const FOLLOWED: usize = 768;
const FOLLOWED_PART: usize = 16;

/// The terms that are followed in a scope: all in a small one. In a large one the rarest, and others as long as all of them together
/// are not used too often: a term that many messages use tells little and costs much, and the more the longer somebody has talked.
fn followed<T>(messages: usize, terms: Vec<T>, uses: impl Fn(&T) -> usize) -> Terms<T> {
    if messages <= EXACT_MAX {
        return Terms { followed: terms, left: Vec::new() };
    }
    let mut by_uses: Vec<usize> = terms.iter().map(&uses).collect();
    by_uses.sort_unstable();
    let (most, mut sum) = (FOLLOWED.max(messages / FOLLOWED_PART), 0);
    let is_followed = |uses: &&usize| {
        sum += **uses;
        sum <= most
    };
    let count = by_uses.iter().take_while(is_followed).count().max(1);
    let limit = by_uses.get(count - 1).copied().unwrap_or(0);
    let (followed, left) = terms.into_iter().partition(|term| uses(term) <= limit);
    Terms { followed, left }
}

/// What the words of a question find in a scope: it chooses candidates, and several signals are made of it.
pub(crate) struct WordScores {
    pub(super) terms: Terms,
    /// BM25 of each message.
    pub(crate) own: Scores,
    /// BM25 of each session, where there are several.
    pub(crate) sessions: Scores,
    /// BM25 of each reply.
    pub(super) replies: Scores,
}

impl WordScores {
    /// Mean and spread of the scores of messages' sessions, over all messages.
    pub(crate) fn moments_of_sessions(&self, index: &ScopeIndex) -> Moments {
        let said = |session: &DocNo| index.sessions[*session as usize].keys.len();
        let found = self.sessions.found().map(|(session, score)| (score, said(&session)));
        Moments::with_zeros(found, index.keys.len())
    }

    /// The replies that have most to do with the words.
    pub(crate) fn best_replies(&self, count: usize) -> Vec<DocNo> {
        let best = highest(self.replies.found().map(|(no, score)| (score, no)).collect(), count);
        best.into_iter().map(|(_, no)| no).collect()
    }
}

/// The highest scores, in no order; of equal ones the older.
pub(crate) fn highest(scored: Vec<(f32, DocNo)>, count: usize) -> Vec<(f32, DocNo)> {
    if scored.len() <= count {
        return scored;
    }
    let mut ranks: Vec<u64> = scored.into_iter().map(rank).collect();
    if count > 0 {
        ranks.select_nth_unstable(count - 1);
    }
    ranks.into_iter().take(count).map(ranked).collect()
}

/// A number that is the lower the higher a score is, and of equal ones the older: comparing numbers is quick.
fn rank((score, no): (f32, DocNo)) -> u64 {
    let bits = score.to_bits();
    let falling = if bits >> 31 == 0 { !(bits | 1 << 31) } else { bits };
    u64::from(falling) << u32::BITS | u64::from(no)
}

/// The score and the message of a rank.
fn ranked(rank: u64) -> (f32, DocNo) {
    let falling = (rank >> u32::BITS) as u32;
    let bits = if falling >> 31 == 0 { !falling & !(1 << 31) } else { falling };
    (f32::from_bits(bits), rank as DocNo)
}

/// A term as the scope knows it: by the question's language, else by the same word in another.
fn find_term(vocabulary: &Vocabulary, word: &str, stem: &str, tongue: Tongue) -> Option<TermNo> {
    let elsewhere = || vocabulary.word_in_any(word, tongue).map(|word| vocabulary.term_of(word));
    vocabulary.term(stem).or_else(elsewhere)
}

/// The stems of participants' names.
fn name_terms(index: &ScopeIndex, participants: &[u16]) -> Vec<(String, u16)> {
    let mut names = Vec::new();
    for speaker in participants {
        for word in words(&index.speakers[*speaker as usize]) {
            names.push((term(&word, Tongue::English), *speaker));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_highest_are_the_first_of_all_in_order(scores in proptest::collection::vec(-3.0_f32..3.0, 0..50), count in 1_usize..60) {
            let scored: Vec<(f32, DocNo)> = scores.iter().map(|score| score.round()).zip(0..).collect();
            let mut expected = scored.clone();
            expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            expected.truncate(count);
            let mut found = highest(scored, count);
            found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            prop_assert_eq!(found, expected);
        }
    }

    #[track_caller]
    fn check(messages: usize, uses: &[usize], expected: &[usize]) {
        let terms = followed(messages, uses.to_vec(), |uses| *uses);
        assert_eq!(terms.followed, expected);
        let all: usize = terms.followed.iter().chain(&terms.left).sum();
        assert_eq!(all, uses.iter().sum::<usize>(), "none is lost");
    }

    #[test]
    fn the_rarest_terms_are_followed() {
        check(256, &[200, 256, 5, 250, 199], &[200, 256, 5, 250, 199]);
        check(1_000, &[900, 5, 700], &[5, 700]);
        check(10_000, &[4_000, 5, 700, 300], &[5, 300]);
        check(100_000, &[4_000, 5, 700, 300], &[4_000, 5, 700, 300]);
        check(10_000, &[4_000, 900], &[900]);
        check(10_000, &[], &[]);
    }
}
