//! In a large scope: the messages that are worth a closer look, at first sight.
//!
//! Words, the first signs of vectors and the time asked about bring messages up. What speaks for one of them is added up from numbers that lie close
//! together, so no message itself is touched unless it is chosen: most of the time of a search is spent waiting for memory.

use super::index::ScopeIndex;
use super::index::docs::{DAY, Day, DocNo};
use super::index::nearest::{HEAD, head};
use super::signals::{Asked, Marked, Pool, WordScores, highest};
use crate::language::when::TimeRange;

/// Messages that are brought up by vectors, or this part of a larger scope.
const NEAR: usize = 512;
const NEAR_PART: usize = 24;
/// So many are chosen, with what was said right before and after this many of them. `docs/recall.md` tells how these were chosen.
const CHOSEN: usize = 192;
const WITH_NEIGHBOURS: usize = 32;
/// And this many replies, with what they answer.
const REPLIES: usize = 32;
/// And this many, evenly spread, give the measure.
const SAMPLE: usize = 32;

/// What it counts that a message was said at the time that is asked about, and by whom is asked about, beside the spread of all else.
const DATE: f32 = 3.0;
const SPEAKER: f32 = 1.0;

/// The messages that are worth a closer look, and a sample for the measure.
pub(super) fn choose(index: &ScopeIndex, asked: &Asked<'_>, words: &WordScores) -> Pool {
    let mut keys = seen_first(index, asked, words);
    let replies = words.best_replies(REPLIES);
    let answered: Vec<DocNo> = replies.iter().filter_map(|reply| index.replies.card(*reply).partner()).collect();
    keys.extend(&answered);
    keys.sort_unstable();
    keys.dedup();
    let pool = Pool {
        keys,
        replies,
        answered,
        key_sample: spread(index.keys.len()),
        reply_sample: spread(index.replies.len()),
    };
    // All of it lies anywhere in memory, and comes while words are still being weighed.
    pool.keys.iter().chain(&pool.key_sample).for_each(|key| index.keys.fetch(*key));
    pool
}

/// Evenly spread numbers below `count`.
fn spread(count: usize) -> Vec<DocNo> {
    let step = count.div_ceil(SAMPLE).max(1);
    (0..count as DocNo).step_by(step).collect()
}

/// The messages for which most speaks, and the neighbours of the best.
fn seen_first(index: &ScopeIndex, asked: &Asked<'_>, words: &WordScores) -> Vec<DocNo> {
    let chosen = highest(brought_up(index, asked, words), CHOSEN);
    let beside = |(_, no): &(f32, DocNo)| {
        let card = index.keys.card(*no);
        [card.before(), card.after()].into_iter().flatten()
    };
    let best = highest(chosen.clone(), WITH_NEIGHBOURS);
    best.iter().for_each(|(_, no)| index.keys.fetch_card(*no));
    let neighbours: Vec<DocNo> = best.iter().flat_map(beside).collect();
    chosen.into_iter().map(|(_, no)| no).chain(neighbours).collect()
}

/// The messages that words, vectors or the time asked about bring up, each once, with what speaks for it.
fn brought_up(index: &ScopeIndex, asked: &Asked<'_>, words: &WordScores) -> Vec<(f32, DocNo)> {
    let mut sight = Sight::new(index, asked, words);
    let mut brought_up: Vec<(f32, DocNo)> = words.own.found().map(|(no, own)| (sight.of(no, own), no)).collect();
    let found: Vec<DocNo> = brought_up.iter().map(|(_, no)| *no).collect();
    let by_words = Marked::new(index.keys.len(), &found);
    let (heads, head) = (&index.keys.heads, asked.plain().map(|vector| head(&vector.bytes)));
    let near = |head| heads.near(head, NEAR.max(index.keys.len() / NEAR_PART), CHOSEN);
    let near = head.map(near).unwrap_or_default();
    let mut others = sight.said_then();
    others.retain(|no| near.binary_search(no).is_err());
    others.extend(near);
    others.retain(|no| !by_words.has(*no));
    brought_up.extend(others.iter().map(|no| (sight.of(*no, 0.0), *no)));
    if let Some(head) = head {
        let differing = heads.differing(head, &found).into_iter().chain(heads.differing(head, &others));
        brought_up.iter_mut().zip(differing).for_each(|((speaks, _), differing)| *speaks += similar(differing));
    }
    brought_up
}

/// What it says that a vector differs in so many signs: how many spreads fewer than those of any two vectors.
fn similar(differing: u8) -> f32 {
    let (usual, spread) = (HEAD as f32 / 2.0, (HEAD as f32).sqrt() / 2.0);
    (usual - f32::from(differing)) / spread
}

/// What can be seen of messages without reading their cards.
struct Sight<'a> {
    index: &'a ScopeIndex,
    asked: &'a Asked<'a>,
    words: &'a WordScores,
    /// What scores of messages and of sessions count, the latter where there are several.
    own: f32,
    sessions: Option<f32>,
    days: Option<Days<'a>>,
}

impl<'a> Sight<'a> {
    fn new(index: &'a ScopeIndex, asked: &'a Asked<'a>, words: &'a WordScores) -> Self {
        let sessions = (index.spoken_in > 1).then(|| words.moments_of_sessions(index).of_one());
        let days = asked.question.is_dated().then(|| Days::new(asked));
        Self { index, asked, words, own: words.own.moments().of_one(), sessions, days }
    }

    /// What speaks for a message whose own words have this score, but for its vector.
    fn of(&mut self, no: DocNo, own: f32) -> f32 {
        let of_date = self.days.as_mut().map_or(0.0, |days| DATE * days.of(self.index.keys.day(no)));
        self.own * own + self.of_origin(no) + of_date
    }

    /// The newest messages of the time that is asked about, as many as can be chosen: whatever they say, they may be what is wanted.
    fn said_then(&mut self) -> Vec<DocNo> {
        let Some(days) = &mut self.days else { return Vec::new() };
        let all = (0..self.index.keys.len() as DocNo).rev();
        all.filter(|no| days.of(self.index.keys.day(*no)) > 0.0).take(CHOSEN).collect()
    }

    fn of_origin(&self, no: DocNo) -> f32 {
        if self.sessions.is_none() && self.asked.speaker().is_none() {
            return 0.0;
        }
        let (session, speaker) = self.index.keys.origin(no);
        let of_session = self.sessions.map_or(0.0, |of_one| of_one * self.words.sessions.of(session));
        of_session + if self.asked.speaker() == Some(speaker) { SPEAKER } else { 0.0 }
    }
}

/// Days that are remembered, so that a calendar is seldom looked at. The next ones take the places of those so many before.
const REMEMBERED: usize = 64;

/// How much days have to do with the time that is asked about.
struct Days<'a> {
    asked: &'a Asked<'a>,
    remembered: [Option<(Day, f32)>; REMEMBERED],
}

impl<'a> Days<'a> {
    fn new(asked: &'a Asked<'a>) -> Self {
        Self { asked, remembered: [None; REMEMBERED] }
    }

    fn of(&mut self, day: Day) -> f32 {
        let place = usize::from(day) % REMEMBERED;
        if let Some((_, share)) = self.remembered[place].filter(|(other, _)| *other == day) {
            return share;
        }
        let share = self.found_out(day);
        self.remembered[place] = Some((day, share));
        share
    }

    /// A day counts as a whole, whatever part of it is asked about: this only chooses what is looked at.
    fn found_out(&self, day: Day) -> f32 {
        let (begins, ends) = (i64::from(day) * DAY, (i64::from(day) + 1) * DAY);
        let is_in = |range: TimeRange| range.from.as_microsecond() < ends && begins < range.to.as_microsecond();
        match self.asked.question.range {
            Some(range) if is_in(range) => 1.0,
            _ => self.asked.date(begins + DAY / 2),
        }
    }
}

#[cfg(test)]
mod tests;
