//! Precision and recall of what was learned.

use serde::Serialize;

use super::Learned;
use super::corpus::{Expected, Utterance, shown};
use crate::cli::bench::recall::sheet::{Cell, Sheet};
use crate::fact::{Category, Proposal};

/// What was right, wrong and missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Score {
    utterances: usize,
    negative: usize,
    right: usize,
    wrong: usize,
    missed: usize,
}

impl Score {
    pub(super) fn plus(self, other: &Score) -> Score {
        Score {
            utterances: self.utterances + other.utterances,
            negative: self.negative + other.negative,
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            missed: self.missed + other.missed,
        }
    }

    pub(super) fn precision(&self) -> f64 {
        self.right as f64 / (self.right + self.wrong).max(1) as f64
    }

    pub(super) fn recall(&self) -> f64 {
        self.right as f64 / (self.right + self.missed).max(1) as f64
    }

    pub(super) fn row(&self, name: &str) -> Vec<Cell> {
        let (precision, recall) = (self.precision(), self.recall());
        let f1 = 2.0 * precision * recall / (precision + recall).max(f64::MIN_POSITIVE);
        let counts = [self.utterances, self.negative, self.right + self.missed].map(Cell::Count);
        let shares = [precision, recall, f1].map(Cell::percent);
        [Cell::text(name)].into_iter().chain(counts).chain(shares).collect()
    }
}

/// What of an utterance was learned. Each fact answers for one that was expected.
pub(super) fn judge(one: &Utterance, learned: &[Proposal]) -> Score {
    let (wrong, missed) = differences(one, learned);
    Score {
        utterances: 1,
        negative: usize::from(one.facts.is_empty()),
        right: one.facts.len() - missed.len(),
        wrong: wrong.len(),
        missed: missed.len(),
    }
}

fn differences<'a>(one: &'a Utterance, learned: &'a [Proposal]) -> (Vec<&'a Proposal>, Vec<&'a Expected>) {
    let mut wrong: Vec<&Proposal> = learned.iter().collect();
    let mut missed = Vec::new();
    for expected in &one.facts {
        match wrong.iter().position(|fact| expected.is(fact)) {
            Some(at) => drop(wrong.remove(at)),
            None => missed.push(expected),
        }
    }
    (wrong, missed)
}

/// The same by category.
pub(super) fn by_category(judged: &[(&Utterance, Learned)]) -> Sheet {
    let mut sheet = Sheet::new("By category, %", &["category", "facts", "precision", "recall"]);
    for category in Category::ALL {
        let score = judged.iter().fold(Score::default(), |score, (one, learned)| {
            let facts = one.facts.iter().filter(|fact| fact.key.category == category).cloned().collect();
            let learned: Vec<Proposal> =
                learned.facts.iter().filter(|fact| fact.key.category == category).cloned().collect();
            score.plus(&judge(&Utterance { facts, ..(*one).clone() }, &learned))
        });
        let facts = Cell::Count(score.right + score.missed);
        sheet.rows.push(vec![
            Cell::text(category.as_str()),
            facts,
            Cell::percent(score.precision()),
            Cell::percent(score.recall()),
        ]);
    }
    sheet
}

/// An utterance of which something else was learned than expected.
#[derive(Debug, Serialize)]
pub(super) struct Miss {
    id: String,
    text: String,
    missed: Vec<String>,
    wrong: Vec<String>,
}

impl Miss {
    pub(super) fn of(one: &Utterance, learned: &[Proposal]) -> Option<Miss> {
        let (wrong, missed) = differences(one, learned);
        let wrong: Vec<String> = wrong.iter().map(|fact| shown(fact.act, &fact.key, &fact.value)).collect();
        let missed: Vec<String> = missed.iter().map(|fact| fact.shown()).collect();
        let differs = !wrong.is_empty() || !missed.is_empty();
        differs.then(|| Miss { id: one.id.clone(), text: one.text.clone(), missed, wrong })
    }
}
