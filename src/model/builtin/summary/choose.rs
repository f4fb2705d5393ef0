//! The best sentences that fit, none of which tells what the others have told.
//!
//! A sentence is worth what it states that no chosen one has stated. That only falls as others are chosen, so the
//! sentence at the top of a heap need only be weighed anew to know whether it is still the best.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::Said;
use super::line::{Summary, speaker};
use super::weigh::{Candidate, Candidates};
use crate::tokens;

/// A sentence of which less than this is new is a repetition.
const NEW_SHARE_MIN: f64 = 0.4;
/// A sentence that brings less is small talk, and left out even if there is room.
const NEW_WORTH_MIN: f64 = 1.5;
/// How much length counts against a sentence: at 1 short ones always win.
const LENGTH_POWER: f64 = 0.8;
/// More bytes than tokens have on average, in any language.
const TOKEN_BYTES: usize = 8;
/// About what naming its speaker adds to a sentence.
const LINE_BYTES: usize = 8;
/// What a line needs beside its speaker and its words: the colon and the line's end.
const LINE_TOKENS: usize = 2;

/// The summary of a stretch.
pub(super) fn choose(stretch: &[Said<'_>], candidates: &Candidates, tokens_max: usize) -> Summary {
    let mut choice = Choice::new(stretch, candidates, tokens_max);
    choice.take_best();
    choice.fit()
}

struct Choice<'a> {
    stretch: &'a [Said<'a>],
    candidates: &'a Candidates,
    tokens_max: usize,
    stated: HashSet<u32>,
    /// Chosen candidates in the order they were said, by sentence, each with what it was worth when it was chosen.
    chosen: BTreeMap<usize, (usize, f64)>,
    tokens: usize,
}

/// A candidate on the heap, with what it was worth when it was last weighed.
struct Offer {
    worth: f64,
    candidate: usize,
}

impl<'a> Choice<'a> {
    fn new(stretch: &'a [Said<'a>], candidates: &'a Candidates, tokens_max: usize) -> Self {
        Self { stretch, candidates, tokens_max, stated: HashSet::new(), chosen: BTreeMap::new(), tokens: 0 }
    }

    fn take_best(&mut self) {
        let offer = |candidate| Offer { worth: self.worth(candidate), candidate };
        let mut heap: BinaryHeap<Offer> = (0..self.candidates.all.len()).map(offer).collect();
        while let Some(best) = heap.pop() {
            let worth = self.worth(best.candidate);
            if self.is_told(best.candidate) || self.is_too_long(best.candidate) {
                continue;
            }
            if heap.peek().is_some_and(|next| worth < next.worth) {
                heap.push(Offer { worth, ..best });
                continue;
            }
            let tokens = self.tokens + self.cost(best.candidate);
            if tokens <= self.tokens_max {
                self.tokens = tokens;
                self.take(best.candidate, worth);
            }
        }
    }

    /// What a candidate would add, by its length. Bytes will do here: tokens are counted of those that are about to be taken.
    fn worth(&self, candidate: usize) -> f64 {
        let candidate = &self.candidates.all[candidate];
        let length = (candidate.piece.at.len() + LINE_BYTES) as f64;
        candidate.factor * self.new_in(candidate) / length.powf(LENGTH_POWER)
    }

    fn text(&self, candidate: &Candidate) -> &'a str {
        &self.stretch[candidate.said].text[candidate.piece.at.clone()]
    }

    fn new_in(&self, candidate: &Candidate) -> f64 {
        let new = candidate.items.iter().filter(|item| !self.stated.contains(item));
        new.map(|item| self.candidates.worth[*item as usize]).sum()
    }

    /// Whether the sentence was chosen, in whole or in part, or has hardly anything new to say.
    fn is_told(&self, candidate: usize) -> bool {
        let candidate = &self.candidates.all[candidate];
        let all: f64 = candidate.items.iter().map(|item| self.candidates.worth[*item as usize]).sum();
        let new = self.new_in(candidate);
        let is_little = new < NEW_SHARE_MIN * all || candidate.factor * new < NEW_WORTH_MIN;
        is_little || self.chosen.contains_key(&candidate.sentence)
    }

    /// Whether a candidate cannot fit, as far as that is seen without counting.
    fn is_too_long(&self, candidate: usize) -> bool {
        let left = self.tokens_max - self.tokens;
        self.candidates.all[candidate].piece.at.len() > left.saturating_mul(TOKEN_BYTES)
    }

    /// The tokens a candidate would take: its speaker is named only where the line before is another's.
    fn cost(&self, candidate: usize) -> usize {
        let candidate = &self.candidates.all[candidate];
        let said = |(_, (other, _)): (&usize, &(usize, f64))| self.candidates.all[*other].said;
        let before = self.chosen.range(..candidate.sentence).next_back().map(said);
        let after = self.chosen.range(candidate.sentence..).next().map(said);
        let same = |other: Option<usize>| other.is_some_and(|other| self.in_one_line(other, candidate.said));
        // Between two lines of somebody else both need their speaker.
        let splits = before.zip(after).is_some_and(|(before, after)| self.in_one_line(before, after));
        let name = match same(before) || same(after) {
            true => 1,
            false => {
                self.name_tokens(candidate.said) + before.filter(|_| splits).map_or(0, |said| self.name_tokens(said))
            }
        };
        let marks = usize::from(candidate.piece.cut.0) + usize::from(candidate.piece.cut.1);
        tokens::count(self.text(candidate)) + marks + name
    }

    fn name_tokens(&self, said: usize) -> usize {
        tokens::count(&speaker(self.stretch[said].speaker)) + LINE_TOKENS
    }

    fn in_one_line(&self, one: usize, other: usize) -> bool {
        self.stretch[one].speaker == self.stretch[other].speaker
    }

    fn take(&mut self, candidate: usize, worth: f64) {
        self.stated.extend(&self.candidates.all[candidate].items);
        self.chosen.insert(self.candidates.all[candidate].sentence, (candidate, worth));
    }

    /// The chosen sentences as a summary that keeps to its bound. What was reckoned above is nearly right; the text is counted.
    fn fit(mut self) -> Summary {
        loop {
            let summary = self.summary();
            if summary.tokens <= self.tokens_max {
                return summary;
            }
            let least = self.chosen.iter().min_by(|a, b| a.1.1.total_cmp(&b.1.1)).map(|(sentence, _)| *sentence);
            match least {
                Some(sentence) => self.chosen.remove(&sentence),
                None => return Summary::default(),
            };
        }
    }

    fn summary(&self) -> Summary {
        let pieces = self.chosen.values().map(|(candidate, _)| {
            let candidate = &self.candidates.all[*candidate];
            (self.stretch[candidate.said], &candidate.piece)
        });
        Summary::of(pieces)
    }
}

impl Ord for Offer {
    /// The more worth, then the earlier.
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then(other.candidate.cmp(&self.candidate))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Offer {}
