//! How well a ranking finds the evidence of a question, and means over many questions.
//!
//! The unit is one message. `r@k` is the share of a question's evidence among the first k, `hit@k` whether any is
//! there, `full@k` whether all is, `r<n tok` the share that comes before n tokens of whole messages are spent.

use std::collections::HashSet;
use std::hash::Hash;

use super::chats::ADVERSARIAL;

/// What is measured of each ranking, as the columns are called.
pub(crate) const METRICS: [&str; 10] =
    ["r@1", "r@5", "r@10", "r@50", "hit@10", "full@10", "MRR", "nDCG@10", "r<500tok", "r<1000tok"];

/// Most messages of a ranking that count.
pub(crate) const RANKED_MAX: usize = 50;

/// One number for each of [`METRICS`], from 0 to 1.
pub(crate) type Score = [f64; METRICS.len()];

/// Scores a ranking, best first and each message once, against a question's evidence, which is at least one message.
pub(crate) fn score<T: Copy + Eq + Hash>(ranked: &[T], evidence: &[T], tokens: impl Fn(T) -> usize) -> Score {
    let evidence: HashSet<T> = evidence.iter().copied().collect();
    let found: Vec<bool> = ranked.iter().map(|message| evidence.contains(message)).collect();
    let share = |first: &[bool]| first.iter().filter(|hit| **hit).count() as f64 / evidence.len() as f64;
    let recall = |k: usize| share(&found[..k.min(found.len())]);
    let within = |budget: usize| share(&found[..fitting(ranked.iter().map(|message| tokens(*message)), budget)]);
    let gain = |at: usize| 1.0 / (at as f64 + 2.0).log2();
    let gained: f64 = found.iter().take(10).enumerate().filter(|(_, hit)| **hit).map(|(at, _)| gain(at)).sum();
    let possible: f64 = (0..evidence.len().min(10)).map(gain).sum();
    let first = found.iter().position(|hit| *hit);
    [
        recall(1),
        recall(5),
        recall(10),
        recall(50),
        f64::from(u8::from(recall(10) > 0.0)),
        f64::from(u8::from(recall(10) >= 1.0)),
        first.map_or(0.0, |at| 1.0 / (at as f64 + 1.0)),
        gained / possible,
        within(500),
        within(1_000),
    ]
}

/// How many of the first fit into a budget; the first that does not fit ends it.
fn fitting(tokens: impl Iterator<Item = usize>, budget: usize) -> usize {
    let mut used = 0;
    tokens
        .take_while(|tokens| {
            used += tokens;
            used <= budget
        })
        .count()
}

/// Some numbers of each of many questions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally<const N: usize = { METRICS.len() }> {
    scores: Vec<(Option<String>, [f64; N])>,
}

/// Questions that are counted together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group<const N: usize> {
    pub(crate) name: String,
    pub(crate) questions: usize,
    pub(crate) mean: [f64; N],
}

impl<const N: usize> Tally<N> {
    pub(crate) fn add(&mut self, category: Option<&str>, score: [f64; N]) {
        self.scores.push((category.map(str::to_owned), score));
    }

    /// All questions, all but the adversarial ones, and each category by its name.
    pub(crate) fn groups(&self) -> Vec<Group<N>> {
        let mut categories: Vec<&str> = self.scores.iter().filter_map(|(category, _)| category.as_deref()).collect();
        categories.sort_unstable();
        categories.dedup();
        let mut groups = vec![self.group("all", |_| true)];
        if categories.contains(&ADVERSARIAL) && categories.len() > 1 {
            groups.push(self.group("all but adversarial", |category| category != Some(ADVERSARIAL)));
        }
        groups.extend(categories.into_iter().map(|name| self.group(name, |category| category == Some(name))));
        groups
    }

    fn group(&self, name: &str, belongs: impl Fn(Option<&str>) -> bool) -> Group<N> {
        let scores: Vec<&[f64; N]> =
            self.scores.iter().filter(|(category, _)| belongs(category.as_deref())).map(|(_, score)| score).collect();
        let count = scores.len().max(1) as f64;
        let mean = std::array::from_fn(|at| scores.iter().map(|score| score[at]).sum::<f64>() / count);
        Group { name: name.to_owned(), questions: scores.len(), mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ranked: &[u32], evidence: &[u32], tokens: usize, expected: Score) {
        let scored = score(ranked, evidence, |_| tokens);
        for ((name, scored), expected) in METRICS.iter().zip(scored).zip(expected) {
            assert!((scored - expected).abs() < 1e-9, "{name} is {scored}, not {expected}");
        }
    }

    #[test]
    fn the_first_is_the_only_one_wanted() {
        check(&[7, 8], &[7], 1, [1.0; 10]);
    }

    #[test]
    fn nothing_is_found() {
        check(&[1, 2, 3], &[7], 1, [0.0; 10]);
        check(&[], &[7], 1, [0.0; 10]);
    }

    #[test]
    fn one_of_two_is_found_in_third_place() {
        // nDCG: 1 / log2(4) against 1 + 1 / log2(3). Two messages of 250 tokens fit into 500, four into 1,000.
        let ndcg = 0.5 / (1.0 + 1.0 / 3.0_f64.log2());
        check(&[1, 2, 7, 3, 4], &[7, 9], 250, [0.0, 0.5, 0.5, 0.5, 1.0, 0.0, 1.0 / 3.0, ndcg, 0.0, 0.5]);
    }

    #[test]
    fn a_late_find_counts_only_where_it_is_within() {
        let ranked: Vec<u32> = (0..60).collect();
        check(&ranked, &[11], 40, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0 / 12.0, 0.0, 1.0, 1.0]);
        check(&ranked, &[55], 1, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0 / 56.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn more_evidence_than_ten_can_still_be_perfect_in_ndcg() {
        let ranked: Vec<u32> = (0..20).collect();
        let scored = score(&ranked, &ranked[..12], |_| 1);
        assert_eq!((scored[2], scored[5], scored[7]), (10.0 / 12.0, 0.0, 1.0));
    }

    #[test]
    fn what_does_not_fit_ends_the_budget() {
        assert_eq!(fitting([300, 200, 1].into_iter(), 500), 2);
        assert_eq!(fitting([300, 300, 1].into_iter(), 500), 1, "the small one behind is not reached");
    }

    #[test]
    fn means_are_by_category() {
        let mut tally: Tally = Tally::default();
        for (category, value) in [(Some("b"), 1.0), (Some("adversarial"), 0.0), (Some("b"), 0.0), (None, 1.0)] {
            tally.add(category, [value; 10]);
        }
        let shown: Vec<(String, usize, f64)> =
            tally.groups().into_iter().map(|group| (group.name, group.questions, group.mean[0])).collect();
        let expected = [("all", 4, 0.5), ("all but adversarial", 3, 2.0 / 3.0), ("adversarial", 1, 0.0), ("b", 2, 0.5)];
        assert_eq!(shown, expected.map(|(name, questions, mean)| (name.to_owned(), questions, mean)));
    }
}
