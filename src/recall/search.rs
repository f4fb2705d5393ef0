//! The score of every message for a question: signals, weighted and added up.

use std::rc::Rc;

use super::SignalTable;
use super::choose::choose;
use super::index::ScopeIndex;
use super::index::docs::DocNo;
use super::signals::{Asked, Board, KeySignal, Pool, ReplySignal};
use super::weights::Weights;
use crate::id::MessageId;

/// Up to this many messages of people, every signal is worked out for every message: choosing some would take as long.
pub(crate) const EXACT_MAX: usize = 256;
/// Beyond, some of those that were chosen are looked at closely. What is remembered of fewer messages comes from memory faster, so
/// more of them can be looked at in the same time: this many times the messages, within bounds. `docs/recall.md` tells how
/// these were chosen.
const CLOSE_TIMES_MESSAGES: usize = 96 * 1_024;
const CLOSE_MIN: usize = 48;
const CLOSE_MAX: usize = 128;

/// A message and its score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) id: MessageId,
    pub(crate) is_key: bool,
    pub(crate) no: DocNo,
    pub(crate) score: f32,
    /// Whether it has anything to do with the question.
    pub(crate) related: bool,
    /// Whether it is one of the few that mention a code or a name of the question.
    pub(crate) singled_out: bool,
    /// What each signal contributed, where that is wanted.
    pub(crate) parts: Vec<(&'static str, f32)>,
}

/// Filters that a message must pass whatever its score.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Within {
    /// Microseconds, inclusive.
    pub(crate) from: Option<i64>,
    /// Microseconds, exclusive.
    pub(crate) to: Option<i64>,
}

impl Within {
    /// Whether nothing is left out.
    pub(crate) fn holds_all(self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    fn holds(self, said_at: i64) -> bool {
        self.from.is_none_or(|from| from <= said_at) && self.to.is_none_or(|to| said_at < to)
    }
}

/// What is wanted of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) within: Within,
    /// Most messages.
    pub(crate) limit: usize,
    /// How many of them, the best, are told what each signal contributed.
    pub(crate) explained: usize,
    /// The similarity from which two texts of this embedder are about the same.
    pub(crate) near: f32,
}

/// The best messages for a question, best first; of equal ones the older.
pub(crate) fn search(index: &ScopeIndex, asked: &Asked<'_>, weights: &Weights, wanted: Wanted) -> Vec<Found> {
    let Wanted { within, limit, explained: told, near } = wanted;
    let words = asked.word_scores(index);
    let large = index.keys.len() > EXACT_MAX;
    let pool = if large { choose(index, asked, &words) } else { Pool::whole(index) };
    let mut board = Board::new(index, asked, words, pool);
    if large {
        board.narrow(&weights.keys, looked_at_closely(index.keys.len()));
    }
    let keys: Vec<(KeySignal, f32, Rc<Vec<f32>>)> =
        weights.keys.iter().map(|(signal, weight)| (*signal, *weight, board.column(*signal))).collect();
    let replies: Vec<(ReplySignal, f32, Rc<Vec<f32>>)> = weights
        .replies
        .iter()
        .map(|(signal, weight)| (*signal, *weight, Rc::new(board.reply_column(*signal))))
        .collect();
    let mut scored = Vec::with_capacity(board.keys().len() + board.replies().len());
    score(&mut scored, &keys, board.keys(), |no| within.holds(index.keys.card(no).said_at), true);
    if !replies.is_empty() {
        score(&mut scored, &replies, board.replies(), |no| within.holds(index.replies.card(no).said_at), false);
    }
    let best = best(scored, limit);
    let mut related = |scored: &Scored| board.is_related(scored.is_key, scored.no, near);
    let related: Vec<bool> = best.iter().map(&mut related).collect();
    let found = |(rank, (scored, related)): (usize, (&Scored, bool))| {
        let Scored { no, is_key, score, .. } = *scored;
        let id = if is_key { index.keys.ids[no as usize] } else { index.replies.ids[no as usize] };
        let singled_out = asked.singles_out(index, is_key, no);
        let parts = if rank < told { explained(scored, &keys, &replies) } else { Vec::new() };
        Found { id, is_key, no, score, related: related || singled_out, singled_out, parts }
    };
    best.iter().zip(related).enumerate().map(found).collect()
}

/// How many messages are looked at closely in a large scope.
fn looked_at_closely(messages: usize) -> usize {
    (CLOSE_TIMES_MESSAGES / messages).clamp(CLOSE_MIN, CLOSE_MAX)
}

/// Every signal of every message.
pub(crate) fn signal_table(index: &ScopeIndex, asked: &Asked<'_>) -> SignalTable {
    let mut board = Board::new(index, asked, asked.word_scores(index), Pool::whole(index));
    let keys: Vec<Rc<Vec<f32>>> = KeySignal::ALL.iter().map(|signal| board.column(*signal)).collect();
    let replies: Vec<Vec<f32>> = ReplySignal::ALL.iter().map(|signal| board.reply_column(*signal)).collect();
    let names = KeySignal::ALL.iter().map(|signal| format!("key:{}", signal.name()));
    let names = names.chain(ReplySignal::ALL.iter().map(|signal| format!("reply:{}", signal.name()))).collect();
    let key_row = |at: usize| {
        let zeros = std::iter::repeat_n(0.0, replies.len());
        keys.iter().map(|column| column[at]).chain(zeros).collect::<Vec<f32>>()
    };
    let reply_row = |at: usize| {
        let zeros = std::iter::repeat_n(0.0, keys.len());
        zeros.chain(replies.iter().map(|column| column[at])).collect::<Vec<f32>>()
    };
    let rows = (0..index.keys.len()).map(key_row).chain((0..index.replies.len()).map(reply_row)).collect();
    let messages = index.keys.ids.iter().chain(&index.replies.ids).copied().collect();
    SignalTable { messages, names, rows }
}

/// A message at its place in a column.
struct Scored {
    no: DocNo,
    at: usize,
    is_key: bool,
    score: f32,
}

fn score<S>(
    scored: &mut Vec<Scored>,
    columns: &[(S, f32, Rc<Vec<f32>>)],
    docs: &[DocNo],
    holds: impl Fn(DocNo) -> bool,
    is_key: bool,
) {
    let mut scores = vec![0.0_f32; docs.len()];
    for (_, weight, column) in columns {
        scores.iter_mut().zip(column.iter()).for_each(|(score, value)| *score += weight * value);
    }
    let kept = docs.iter().enumerate().filter(|(_, no)| holds(**no));
    scored.extend(kept.map(|(at, no)| Scored { no: *no, at, is_key, score: scores[at] }));
}

fn best(mut scored: Vec<Scored>, limit: usize) -> Vec<Scored> {
    let order =
        |a: &Scored, b: &Scored| b.score.total_cmp(&a.score).then(b.is_key.cmp(&a.is_key)).then(a.no.cmp(&b.no));
    if scored.len() > limit && limit > 0 {
        scored.select_nth_unstable_by(limit - 1, order);
    }
    scored.truncate(limit);
    scored.sort_unstable_by(order);
    scored
}

/// What each signal contributed to a score.
fn explained(
    scored: &Scored,
    keys: &[(KeySignal, f32, Rc<Vec<f32>>)],
    replies: &[(ReplySignal, f32, Rc<Vec<f32>>)],
) -> Vec<(&'static str, f32)> {
    let at = scored.at;
    match scored.is_key {
        true => keys.iter().map(|(signal, weight, column)| (signal.name(), weight * column[at])).collect(),
        false => replies.iter().map(|(signal, weight, column)| (signal.name(), weight * column[at])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_messages_the_fewer_are_looked_at_closely() {
        let closely = [EXACT_MAX + 1, 768, 1_024, 1_536, 2_048, 100_000].map(looked_at_closely);
        assert_eq!(closely, [128, 128, 96, 64, 48, 48]);
    }
}
