//! The summaries that are about a question: by what they mean and by the words they have.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{EpisodeShelf, HeldEpisode, terms_of};
use crate::kernel::{Bytes, fetch};
use crate::language::Tongue;
use crate::language::when::TimeRange;
use crate::model::embed::StaticTable;
use crate::recall::index::nearest::HEAD;
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

/// Summaries that are looked at: all, or of more those that seem best.
const LOOKED_AT: usize = 64;

/// The best summaries for a question, best first; of equal ones the finer, then the older.
pub(crate) fn find(shelf: &EpisodeShelf, sought: &Sought<'_>, limit: usize) -> Vec<FoundEpisode> {
    let shares = shares(shelf, sought);
    let asked_about = sought.range.as_ref().map(|range| (range.from.as_microsecond(), range.to.as_microsecond()));
    // Nothing is read of a summary itself: there are many, and each lies somewhere else.
    let slots = candidates(shelf, sought, asked_about, &shares, limit);
    let scored = slots.into_iter().filter_map(|slot| {
        let held = shelf.slots[slot as usize].as_ref()?;
        let signals = Signals::of(shelf, slot, sought, asked_about, shares[slot as usize]);
        Some(Scored { score: signals.score(), signals, held })
    });
    let mut found: Vec<Scored<'_>> = scored.collect();
    if found.len() > limit && limit > 0 {
        found.select_nth_unstable_by(limit - 1, Scored::order);
    }
    found.truncate(limit);
    found.iter().for_each(|scored| fetch(&**scored.held));
    found.sort_by(Scored::order);
    found.into_iter().map(Scored::told).collect()
}

/// The slots that are looked at, none from another time: all where there are few, else those that seem best while what they
/// mean is known by signs alone.
fn candidates(
    shelf: &EpisodeShelf,
    sought: &Sought<'_>,
    range: Option<(i64, i64)>,
    shares: &[f32],
    limit: usize,
) -> Vec<u32> {
    let is_there = |slot: &u32| {
        let slot = *slot as usize;
        shelf.slots[slot].is_some() && (sought.within.holds_all() || overlaps(shelf.times[slot], sought.within))
    };
    let vector = sought.vector.as_ref().filter(|_| limit <= LOOKED_AT / 2 && shares.len() > LOOKED_AT);
    let Some(differing) = vector.and_then(|vector| shelf.vectors.differing(vector)) else {
        return (0..shares.len() as u32).filter(is_there).collect();
    };
    let guess = |differing: u32| sought.thresholds.measured(shelf.vectors.guessed(differing));
    let guesses: Vec<f32> = (0..=HEAD).map(guess).collect();
    let mut seems: Vec<f32> = shares.iter().map(|share| WORDS * share).collect();
    let compared = seems.iter_mut().zip(&differing).zip(&shelf.vectors.scales);
    compared.filter(|(_, scale)| **scale != 0.0).for_each(|((seems, differing), _)| {
        *seems += guesses[usize::from(*differing)];
    });
    by_time(&mut seems, &shelf.times, range, sought.within);
    let mut best = about_highest(&seems, LOOKED_AT);
    best.retain(is_there);
    best.iter().for_each(|slot| shelf.vectors.fetch(*slot));
    best
}

/// Where a time is asked about, what is of that time seems better; where one is given, nothing else seems any good.
fn by_time(seems: &mut [f32], times: &[(i64, i64)], range: Option<(i64, i64)>, within: Within) {
    if let Some(range) = range {
        let of_it = seems.iter_mut().zip(times).filter(|(_, times)| is_about(**times, range));
        of_it.for_each(|(seems, _)| *seems += DATE);
    }
    if !within.holds_all() {
        let others = seems.iter_mut().zip(times).filter(|(_, times)| !overlaps(**times, within));
        others.for_each(|(seems, _)| *seems = f32::MIN);
    }
}

/// Into how many classes scores are put, and between which scores they lie: what is beyond is as good as the first or the last.
const CLASSES: usize = 256;
const SEEMS: (f32, f32) = (-0.5, 1.5);

/// The slots with the highest scores: so many, and all others whose scores are of the same class as the last of them.
fn about_highest(scores: &[f32], count: usize) -> Vec<u32> {
    let class = |score: &f32| ((score - SEEMS.0) * (CLASSES as f32 / (SEEMS.1 - SEEMS.0))) as u8;
    let classes: Vec<u8> = scores.iter().map(class).collect();
    let mut sizes = [0; CLASSES];
    classes.iter().for_each(|class| sizes[usize::from(*class)] += 1);
    let mut taken = 0;
    let least = (0..=u8::MAX).rev().find(|class| {
        taken += sizes[usize::from(*class)];
        taken >= count
    });
    let least = least.unwrap_or(0);
    // Which are among them cannot be foreseen: each is written down, and the next one over it if it is not.
    let (mut highest, mut count) = (vec![0; classes.len()], 0);
    for (slot, class) in (0..).zip(classes) {
        highest[count] = slot;
        count += usize::from(class >= least);
    }
    highest.truncate(count);
    highest
}

/// Whether something that began and ended then is about a time.
fn is_about((begins, ends): (i64, i64), (from, to): (i64, i64)) -> bool {
    from <= ends && begins < to
}

/// A summary on its way: nothing is made for the many that are not among the best.
struct Scored<'a> {
    score: f32,
    signals: Signals,
    held: &'a Arc<HeldEpisode>,
}

impl Scored<'_> {
    fn order(a: &Self, b: &Self) -> Ordering {
        let by = |held: &HeldEpisode| (held.level, held.from, *held.id.as_uuid());
        b.score.total_cmp(&a.score).then_with(|| by(a.held).cmp(&by(b.held)))
    }

    fn told(self) -> FoundEpisode {
        let least = if self.signals.similar.is_some() { SCORE_MIN } else { WORDS_MIN };
        FoundEpisode {
            episode: Arc::clone(self.held),
            score: self.score,
            related: self.score >= least,
            signals: self.signals.named().collect(),
        }
    }
}

/// What speaks for a summary.
#[derive(Clone, Copy)]
struct Signals {
    words: f32,
    /// Where vectors can be compared.
    similar: Option<f32>,
    /// Where it tells of the time that is asked about.
    date: Option<f32>,
}

impl Signals {
    fn of(shelf: &EpisodeShelf, slot: u32, sought: &Sought<'_>, range: Option<(i64, i64)>, share: f32) -> Self {
        let similar = sought.vector.as_ref().and_then(|asked| shelf.vectors.similarity(slot, asked));
        Self {
            words: WORDS * share,
            similar: similar.map(|similarity| sought.thresholds.measured(similarity)),
            date: range.is_some_and(|range| is_about(shelf.times[slot as usize], range)).then_some(DATE),
        }
    }

    fn named(self) -> impl Iterator<Item = (&'static str, f32)> {
        let others = [("similar", self.similar), ("date", self.date)];
        let others = others.into_iter().filter_map(|(name, part)| Some((name, part?)));
        std::iter::once(("words", self.words)).chain(others)
    }

    fn score(self) -> f32 {
        self.named().map(|(_, part)| part).sum()
    }
}

/// Which share of the question's weight each summary has, by slot. A word is worth more the rarer it is.
fn shares(shelf: &EpisodeShelf, sought: &Sought<'_>) -> Vec<f32> {
    let mut asked: Vec<(u64, f32)> = terms_of(sought.text, sought.tongue)
        .map(|(word, term)| (term, ANY_WORD + StaticTable::shared().rarity(&word)))
        .collect();
    asked.sort_unstable_by_key(|(term, _)| *term);
    asked.dedup_by_key(|(term, _)| *term);
    let all: f32 = asked.iter().map(|(_, weight)| weight).sum();
    let mut shares = vec![0.0; shelf.slots.len()];
    for (term, weight) in &asked {
        for slot in shelf.by_term.get(term).into_iter().flatten() {
            shares[*slot as usize] += weight / all;
        }
    }
    shares
}

fn overlaps((begins, ends): (i64, i64), within: Within) -> bool {
    within.from.is_none_or(|from| from <= ends) && within.to.is_none_or(|to| begins < to)
}
