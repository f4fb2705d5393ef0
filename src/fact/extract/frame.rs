//! How something is said: stated, corrected, hedged, remembered, forgotten; or asked, supposed, played, reported.
//!
//! What may stand before a statement is listed, everything else makes it none: "The house I live in is old" states nothing
//! about where somebody lives.

use std::collections::HashSet;

use super::slot::View;
use super::table::Table;
use super::token::{BREAK, COMMA, is_mark};
use crate::fact::{Key, Refusal};
use crate::language::{Phrases, Tongue};

/// Words before a statement that are looked at.
const LEAD_WORDS_MAX: usize = 16;

/// What was said before a statement, in its clause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// The first word of it.
    pub(super) start: usize,
    pub(super) greets: bool,
    pub(super) hedges: bool,
    pub(super) corrects: bool,
    pub(super) notes: bool,
    /// It is over, by what leads it in.
    pub(super) ends: bool,
    /// And it is asked to be forgotten.
    pub(super) forgets: bool,
    pub(super) now: bool,
}

/// How the statement at word `at` is led in, or why it is none.
pub(super) fn frame(view: &View<'_>, at: usize) -> Result<Frame, Refusal> {
    let earliest = at.saturating_sub(LEAD_WORDS_MAX);
    let starts = (earliest..=at).filter(|start| begins_clause(view, *start));
    let Some(frame) = starts.into_iter().find_map(|start| led(view, start, at)) else {
        return Err(stance(view, 0..at).unwrap_or(Refusal::Aside));
    };
    // What was supposed or reported before holds on: "If I live in Ghent and work in Lille".
    match stance(view, 0..frame.start) {
        Some(Refusal::Hypothetical) if is_if_of_others(view, frame.start) => Ok(frame),
        // "I used to live in Rome, but now I live in Milan": what was over is what came before.
        Some(Refusal::Past) if frame.now => Ok(frame),
        Some(reason) => Err(reason),
        None => Ok(frame),
    }
}

/// Whether a question is asked by the words up to `end`, rather than by what comes behind them.
pub(super) fn asks(view: &View<'_>, end: usize) -> bool {
    let table = view.table;
    let begins = |at: &usize| {
        is_mark(&view.words[*at])
            || table.clause.contains(view.word(*at))
            || table.asked.end_at(&view.words, *at).is_some()
    };
    let Some(behind) = (end..view.words.len()).find(begins) else { return true };
    let behind = if is_mark(&view.words[behind]) { behind + 1 } else { behind };
    let left = view.words.len().saturating_sub(behind);
    left < 2 || table.tag.end_at(&view.words, behind) == Some(view.words.len())
}

/// Why words state nothing, by what they say themselves.
pub(super) fn stance(view: &View<'_>, words: std::ops::Range<usize>) -> Option<Refusal> {
    let table = view.table;
    let words = &view.words[words];
    let signs: [(&Phrases, Refusal); 6] = [
        (&table.task, Refusal::TaskText),
        (&table.played, Refusal::Hypothetical),
        (&table.fiction, Refusal::Hypothetical),
        (&table.supposed, Refusal::Hypothetical),
        (&table.reported, Refusal::Quoted),
        (&table.past, Refusal::Past),
    ];
    let found = signs.into_iter().find(|(phrases, _)| phrases.are_in(words)).map(|(_, reason)| reason);
    found.or_else(|| table.asked.end_at(words, 0).map(|_| Refusal::Question))
}

/// Whether nobody speaks of themselves here, or "my friend" is who it is about.
pub(super) fn is_about_others(view: &View<'_>, key: &Key) -> bool {
    let table = view.table;
    let is = |words: &HashSet<String>, at: usize| words.contains(view.word(at));
    let spanish =
        view.tongue == Tongue::Spanish && (0..view.words.len()).any(|at| table.anchors.contains_key(view.word(at)));
    let own = spanish || (0..view.words.len()).any(|at| Tongue::ALL.iter().any(|one| is(&Table::of(*one).own, at)));
    let theirs = |at: usize| {
        is(&table.own, at) && (is(&table.others, at + 1) || table.relations.contains_key(view.word(at + 1)))
    };
    let speaks = (0..view.words.len()).any(|at| table.implied.iter().any(|subject| view.word(at) == subject));
    let close = ["family", "friend", "pet"].contains(&key.name.as_str());
    !own || (!close && !speaks && (0..view.words.len()).any(theirs))
}

fn begins_clause(view: &View<'_>, at: usize) -> bool {
    let after = |word: &crate::language::Word<'_>| is_mark(word) || view.table.clause.contains(&*word.text);
    at.checked_sub(1).is_none_or(|before| after(&view.words[before]))
}

/// What a lead tells about what follows it.
type Mark = Option<fn(&mut Frame)>;

/// The frame if all words from `start` to `at` are known to lead in a statement.
fn led(view: &View<'_>, start: usize, at: usize) -> Option<Frame> {
    let table = view.table;
    let mut frame = Frame { start, ..Frame::default() };
    let mut next = start;
    while next < at {
        if matches!(view.word(next), COMMA | BREAK) {
            next += 1;
            continue;
        }
        let leads: [(&Phrases, Mark); 8] = [
            (&table.lead, None),
            (&table.now, Some(|frame| frame.now = true)),
            (&table.greet, Some(|frame| frame.greets = true)),
            (&table.hedge, Some(|frame| frame.hedges = true)),
            (&table.correct, Some(|frame| frame.corrects = true)),
            (&table.note, Some(|frame| frame.notes = true)),
            (&table.over, Some(|frame| frame.ends = true)),
            (&table.forget, Some(|frame| (frame.ends, frame.forgets) = (true, true))),
        ];
        let longest = leads
            .into_iter()
            .filter_map(|(phrases, mark)| phrases.end_at(&view.words[..at], next).map(|end| (end, mark)));
        let (end, mark) = longest.max_by_key(|(end, _)| *end)?;
        if let Some(mark) = mark {
            mark(&mut frame);
        }
        next = end;
    }
    Some(frame)
}

/// "If you need it, my name is Ann": the condition is not about the speaker, and a comma ends it.
fn is_if_of_others(view: &View<'_>, start: usize) -> bool {
    let before = &view.words[..start];
    let own = before.iter().any(|word| view.table.own.contains(&*word.text));
    let serious = view.table.played.are_in(before) || view.table.fiction.are_in(before);
    !own && !serious && start.checked_sub(1).is_some_and(|comma| view.word(comma) == COMMA)
}
