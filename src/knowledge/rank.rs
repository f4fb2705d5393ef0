//! Which passages are about a question: by words and by meaning, each measured against all the tenant's passages, added.

use std::cmp::Ordering;

use crate::topic::Thresholds;

/// What meaning counts beside words, once both are normalised.
const MEANING: f32 = 1.0;
/// What the share of the question's words counts beside the similarity, and what both must come to; without a vector words alone
/// must do. The numbers are those of summaries (`recall/episodes`), which are passages of conversations.
const WORDS: f32 = 0.5;
const RELATED_MIN: f32 = 0.35;
const WORDS_MIN: f32 = 0.25;

/// What was seen of a passage.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// Its score by words.
    pub bm25: f32,
    /// Which share of the question's words it has, by what they tell.
    pub share: f32,
    /// How near it is in meaning, if that can be compared.
    pub similarity: Option<f32>,
}

/// A passage in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Which of those that were seen.
    pub at: usize,
    /// Its score; only comparable within one answer.
    pub score: f32,
    /// Whether it has anything to do with the question.
    pub related: bool,
    /// What each signal contributed.
    pub signals: Vec<(&'static str, f32)>,
}

/// The best passages, best first; of equal ones the earlier. Those that are about the question come before those that are not.
pub fn rank(seen: &[Seen], thresholds: Thresholds, limit: usize) -> Vec<Ranked> {
    let words = Measure::of(seen.iter().map(|seen| seen.bm25));
    let meaning = Measure::of(seen.iter().filter_map(|seen| seen.similarity));
    rank_among(seen, &Measures { words, meaning }, thresholds, limit)
}

/// The same for passages that are not all there are: what the others are like is known by their measures.
pub fn rank_among(seen: &[Seen], all: &Measures, thresholds: Thresholds, limit: usize) -> Vec<Ranked> {
    let Measures { words, meaning } = all;
    let ranked = |(at, seen): (usize, &Seen)| {
        let (words, meaning) =
            (words.of_one(seen.bm25), MEANING * seen.similarity.map_or(0.0, |near| meaning.of_one(near)));
        let signals = vec![("words", words), ("similar", meaning)];
        Ranked { at, score: words + meaning, related: is_related(seen, thresholds), signals }
    };
    let mut all: Vec<Ranked> = seen.iter().enumerate().filter(|(_, seen)| may_matter(seen)).map(ranked).collect();
    if all.len() > limit && limit > 0 {
        all.select_nth_unstable_by(limit - 1, order);
    }
    all.truncate(limit);
    all.sort_by(order);
    all
}

fn order(a: &Ranked, b: &Ranked) -> Ordering {
    b.related.cmp(&a.related).then(b.score.total_cmp(&a.score)).then(a.at.cmp(&b.at))
}

/// What has neither a word nor a meaning in common with the question is not worth a place.
fn may_matter(seen: &Seen) -> bool {
    seen.share > 0.0 || seen.similarity.is_some_and(|near| near > 0.0)
}

/// Whether a passage has anything to do with the question.
fn is_related(seen: &Seen, thresholds: Thresholds) -> bool {
    match seen.similarity {
        Some(near) => WORDS * seen.share + thresholds.measured(near) >= RELATED_MIN,
        None => WORDS * seen.share >= WORDS_MIN,
    }
}

/// What all of a tenant's passages are like, measured by a question.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measures {
    /// Their scores by words.
    pub words: Measure,
    /// How near they are in meaning.
    pub meaning: Measure,
}

/// The middle of many numbers, and how far they lie from it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measure {
    /// The middle.
    pub mean: f32,
    /// How far they lie from it.
    pub spread: f32,
}

impl Measure {
    /// Of these numbers.
    pub fn of(numbers: impl Iterator<Item = f32> + Clone) -> Self {
        let count = numbers.clone().count().max(1) as f32;
        let mean = numbers.clone().sum::<f32>() / count;
        let spread = (numbers.map(|number| (number - mean).powi(2)).sum::<f32>() / count).sqrt();
        Self { mean, spread }
    }

    /// A number in spreads from the middle; where all are alike none stands out.
    fn of_one(self, number: f32) -> f32 {
        if self.spread > 1e-6 { (number - self.mean) / self.spread } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(bm25: f32, share: f32, similarity: f32) -> Seen {
        Seen { bm25, share, similarity: Some(similarity) }
    }

    #[test]
    fn words_and_meaning_are_added_by_how_far_they_stand_out() {
        let all = [seen(0.0, 0.0, 0.1), seen(8.0, 0.9, 0.3), seen(1.0, 0.2, 0.6), seen(0.0, 0.0, 0.0)];
        let ranked = rank(&all, Thresholds::default(), 9);
        let told: Vec<(usize, bool)> = ranked.iter().map(|ranked| (ranked.at, ranked.related)).collect();
        assert_eq!(told, [(1, true), (2, true), (0, false)]);
    }

    #[test]
    fn without_vectors_words_must_do() {
        let all = [Seen { bm25: 3.0, share: 0.6, similarity: None }, Seen { bm25: 1.0, share: 0.3, similarity: None }];
        let ranked = rank(&all, Thresholds::default(), 9);
        assert_eq!((ranked[0].related, ranked[1].related), (true, false));
    }

    proptest! {
        #[test]
        fn more_words_and_more_meaning_never_stand_behind(
            others in proptest::collection::vec((0.0_f32..9.0, 0.0_f32..1.0, -0.2_f32..1.0), 1..20),
        ) {
            let mut all: Vec<Seen> = others.iter().map(|(bm25, share, near)| seen(*bm25, *share, *near)).collect();
            all.push(seen(9.5, 1.0, 1.0));
            prop_assert_eq!(rank(&all, Thresholds::default(), 3)[0].at, all.len() - 1);
        }
    }
}
