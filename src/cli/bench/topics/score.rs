//! How well messages were placed.
//!
//! B-cubed precision and recall, their F1 and the adjusted Rand index are worked out for each stream and averaged. What a
//! message does (stay, open, return) is right or wrong by itself and counted over all messages.

use std::collections::HashMap;

use super::streams::{Kind, Stream, kinds};

/// Shares from 0 to 1; the Rand index may be below.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Score {
    pub(super) b_cubed: f64,
    pub(super) precision: f64,
    pub(super) recall: f64,
    pub(super) rand: f64,
    /// Messages of each kind that did what they should; none where there are no such messages.
    pub(super) stay: Option<f64>,
    pub(super) new: Option<f64>,
    pub(super) returned: Option<f64>,
    /// F1 of the messages that leave the topic of the one before.
    pub(super) shift: Option<f64>,
    /// How many topics a stream was taken to have.
    pub(super) topics: f64,
}

/// Scores the topics that messages were given.
pub(super) fn score(streams: &[Stream], placed: &[Vec<usize>]) -> Score {
    let (mut score, mut right, mut shifts) = (Score::default(), Right::default(), Shifts::default());
    for (stream, placed) in streams.iter().zip(placed) {
        let gold = stream.topics();
        let (precision, recall) = b_cubed(&gold, placed);
        let share = 1.0 / streams.len() as f64;
        score.precision += share * precision;
        score.recall += share * recall;
        score.b_cubed += share * 2.0 * precision * recall / (precision + recall);
        score.rand += share * adjusted_rand(&gold, placed);
        score.topics += share * counts(placed.iter().copied()).len() as f64;
        right.count(&gold, placed);
        shifts.count(&gold, placed);
    }
    Score {
        stay: right.share(Kind::Stay),
        new: right.share(Kind::New),
        returned: right.share(Kind::Return),
        shift: shifts.f1(),
        ..score
    }
}

fn counts<T: Eq + std::hash::Hash>(of: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    of.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

/// Precision and recall: of the messages placed together with one, the share that belongs to it, and the reverse.
fn b_cubed(gold: &[usize], placed: &[usize]) -> (f64, f64) {
    let both = counts(gold.iter().zip(placed));
    let (in_gold, in_placed) = (counts(gold.iter()), counts(placed.iter()));
    let (mut precision, mut recall) = (0.0, 0.0);
    for (gold, placed) in gold.iter().zip(placed) {
        let together = both[&(gold, placed)] as f64;
        precision += together / in_placed[placed] as f64;
        recall += together / in_gold[gold] as f64;
    }
    (precision / gold.len() as f64, recall / gold.len() as f64)
}

/// How much more pairs agree than by chance.
fn adjusted_rand(gold: &[usize], placed: &[usize]) -> f64 {
    let pairs = |count: usize| (count * count.saturating_sub(1)) as f64 / 2.0;
    let sum = |counts: Vec<usize>| counts.into_iter().map(pairs).sum::<f64>();
    let both = sum(counts(gold.iter().zip(placed)).into_values().collect());
    let in_gold = sum(counts(gold.iter()).into_values().collect());
    let in_placed = sum(counts(placed.iter()).into_values().collect());
    let by_chance = in_gold * in_placed / pairs(gold.len()).max(1.0);
    let most = (in_gold + in_placed) / 2.0;
    if most == by_chance { 1.0 } else { (both - by_chance) / (most - by_chance) }
}

/// Messages that did what they should, and all, by kind.
#[derive(Default)]
struct Right {
    of: [(usize, usize); 3],
}

impl Right {
    fn count(&mut self, gold: &[usize], placed: &[usize]) {
        let (should, does) = (kinds(gold), kinds(placed));
        for n in 0..gold.len() {
            // A return is right when it goes to where most of its topic is.
            let finds_home = should[n] != Kind::Return || Some(placed[n]) == home(&gold[..n], &placed[..n], gold[n]);
            let (right, all) = &mut self.of[should[n] as usize];
            *right += usize::from(does[n] == should[n] && finds_home);
            *all += 1;
        }
    }

    fn share(&self, kind: Kind) -> Option<f64> {
        let (right, all) = self.of[kind as usize];
        (all > 0).then(|| right as f64 / all as f64)
    }
}

/// Where most messages of a topic were placed; of several the one that began first.
fn home(gold: &[usize], placed: &[usize], topic: usize) -> Option<usize> {
    let members = gold.iter().zip(placed).filter(|(gold, _)| **gold == topic).map(|(_, placed)| *placed);
    counts(members)
        .into_iter()
        .max_by_key(|(placed, count)| (*count, std::cmp::Reverse(*placed)))
        .map(|(placed, _)| placed)
}

/// Messages that leave the topic of the one before: found, taken for such, there.
#[derive(Default)]
struct Shifts {
    found: usize,
    taken: usize,
    there: usize,
}

impl Shifts {
    fn count(&mut self, gold: &[usize], placed: &[usize]) {
        for (gold, placed) in gold.windows(2).zip(placed.windows(2)) {
            let (there, taken) = (gold[0] != gold[1], placed[0] != placed[1]);
            self.found += usize::from(there && taken);
            self.taken += usize::from(taken);
            self.there += usize::from(there);
        }
    }

    fn f1(&self) -> Option<f64> {
        let all = self.taken + self.there;
        (self.there > 0).then(|| 2.0 * self.found as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams::Entry;
    use super::*;

    fn stream(topics: &[usize]) -> Stream {
        let entry = |topic: &usize| Entry { topic: *topic, user: String::new(), answer: None };
        Stream { messages: topics.iter().map(entry).collect(), sources: Vec::new() }
    }

    /// Numbers worked out with the public scorer.
    #[test]
    fn clusters_are_scored_as_the_public_scorer_does() {
        let (gold, placed) = ([0, 0, 1, 1, 0, 2], [0, 0, 0, 1, 1, 2]);
        let (precision, recall) = b_cubed(&gold, &placed);
        assert!((precision - 0.611_111_11).abs() < 1e-6, "{precision}");
        assert!((recall - 0.611_111_11).abs() < 1e-6, "{recall}");
        assert!((adjusted_rand(&gold, &placed) + 0.022_727_27).abs() < 1e-6, "{}", adjusted_rand(&gold, &placed));
        assert_eq!((b_cubed(&gold, &gold), adjusted_rand(&gold, &gold)), ((1.0, 1.0), 1.0));
    }

    #[test]
    fn what_messages_do_is_right_or_wrong() {
        let gold = [0, 0, 1, 0, 1];
        let score = |placed: &[usize]| score(&[stream(&gold)], &[placed.to_vec()]);
        let perfect = score(&[5, 5, 6, 5, 6]);
        assert_eq!(
            (perfect.stay, perfect.new, perfect.returned, perfect.shift),
            (Some(1.0), Some(1.0), Some(1.0), Some(1.0))
        );
        let lumped = score(&[0, 0, 0, 0, 0]);
        assert_eq!(
            (lumped.stay, lumped.new, lumped.returned, lumped.shift),
            (Some(1.0), Some(0.5), Some(0.0), Some(0.0))
        );
        let strayed = score(&[0, 0, 1, 0, 2]);
        assert_eq!((strayed.returned, strayed.topics), (Some(0.5), 3.0));
    }

    #[test]
    fn what_is_not_there_is_not_scored() {
        let score = score(&[stream(&[0, 0])], &[vec![0, 0]]);
        assert_eq!((score.returned, score.shift, score.stay), (None, None, Some(1.0)));
    }
}
