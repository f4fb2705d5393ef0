//! The summaries that are about a question: by what they mean and by the words they have.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{EpisodeShelf, HeldEpisode, terms_of};
use crate::language::Tongue;
use crate::language::when::TimeRange;
use crate::model::embed::StaticTable;
use crate::recall::index::kernel::{Bytes, dot};
use crate::recall::search::Within;
use crate::topic::Thresholds;

/// What the share of the question's words counts beside the similarity.
const WORDS: f32 = 0.5;
/// What it counts that a summary tells of the time that is asked about.
const DATE: f32 = 0.2;
/// A summary with less has nothing to do with the question, or, where only words can be compared, with less than that.
/// `docs/recall.md` tells how these were chosen.
const SCORE_MIN: f32 = 0.35;
const WORDS_MIN: f32 = 0.25;
/// What any word of a question is worth, beside how rare it is.
const ANY_WORD: f32 = 0.1;

/// What is looked for.
pub(crate) struct Sought<'a> {
    /// The question's words, as they are embedded.
    pub(crate) text: &'a str,
    pub(crate) tongue: Tongue,
    pub(crate) vector: Option<Bytes>,
    /// How the embedder's similarities are measured.
    pub(crate) thresholds: Thresholds,
    /// Nothing from another time.
    pub(crate) within: Within,
    /// The time that is asked about.
    pub(crate) range: Option<TimeRange>,
}

/// A summary and its score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FoundEpisode {
    pub(crate) episode: Arc<HeldEpisode>,
    pub(crate) score: f32,
    /// Whether it has anything to do with the question.
    pub(crate) related: bool,
    pub(crate) signals: Vec<(&'static str, f32)>,
}

/// The best summaries for a question, best first; of equal ones the finer, then the older.
pub(crate) fn find(shelf: &EpisodeShelf, sought: &Sought<'_>, limit: usize) -> Vec<FoundEpisode> {
    let shares = shares(shelf, sought);
    let within = shelf.all().filter(|(_, held)| overlaps(held, sought.within));
    let mut found: Vec<FoundEpisode> =
        within.map(|(slot, held)| scored(held, sought, shares.get(&slot).copied().unwrap_or(0.0))).collect();
    let order = |a: &FoundEpisode, b: &FoundEpisode| {
        let by = |found: &FoundEpisode| {
            let HeldEpisode { level, from, id, .. } = *found.episode;
            (level, from, *id.as_uuid())
        };
        b.score.total_cmp(&a.score).then_with(|| by(a).cmp(&by(b)))
    };
    if found.len() > limit && limit > 0 {
        found.select_nth_unstable_by(limit - 1, order);
    }
    found.truncate(limit);
    found.sort_by(order);
    found
}

fn scored(held: &Arc<HeldEpisode>, sought: &Sought<'_>, share: f32) -> FoundEpisode {
    let mut signals = vec![("words", WORDS * share)];
    let mut least = WORDS_MIN;
    if let (Some(vector), Some(asked)) = (&held.vector, &sought.vector)
        && vector.bytes.len() == asked.bytes.len()
    {
        let similarity = dot(&vector.bytes, &asked.bytes) as f32 * vector.scale * asked.scale;
        signals.push(("similar", sought.thresholds.measured(similarity)));
        least = SCORE_MIN;
    }
    let asked_about = |range: &TimeRange| range.from <= held.to && held.from < range.to;
    if sought.range.as_ref().is_some_and(asked_about) {
        signals.push(("date", DATE));
    }
    let score = signals.iter().map(|(_, part)| part).sum();
    FoundEpisode { episode: Arc::clone(held), score, related: score >= least, signals }
}

/// Which share of the question's weight each summary has, by slot. A word is worth more the rarer it is.
fn shares(shelf: &EpisodeShelf, sought: &Sought<'_>) -> HashMap<u32, f32> {
    let mut asked: Vec<(u64, f32)> = terms_of(sought.text, sought.tongue)
        .map(|(word, term)| (term, ANY_WORD + StaticTable::shared().rarity(&word)))
        .collect();
    asked.sort_unstable_by_key(|(term, _)| *term);
    asked.dedup_by_key(|(term, _)| *term);
    let all: f32 = asked.iter().map(|(_, weight)| weight).sum();
    let mut shares = HashMap::new();
    for (term, weight) in &asked {
        for slot in shelf.by_term.get(term).into_iter().flatten() {
            *shares.entry(*slot).or_insert(0.0) += weight / all;
        }
    }
    shares
}

fn overlaps(held: &HeldEpisode, within: Within) -> bool {
    let micros = Timestamp::as_microsecond;
    within.from.is_none_or(|from| from <= micros(held.to)) && within.to.is_none_or(|to| micros(held.from) < to)
}
