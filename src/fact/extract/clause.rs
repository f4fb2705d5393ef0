//! The clause that states a fact. A time in another clause says nothing about it: in "I live in Leeds and need a plumber by tomorrow"
//! the plumber is needed by then.

use std::ops::Range;

use super::slot::View;
use super::token::is_mark;
use crate::language::{Word, when};

/// The words of the clause around a statement. A time that only a comma parts from it belongs to it: "on vacation, until Friday".
pub(super) fn own_clause(view: &View<'_>, stated: Range<usize>) -> Range<usize> {
    // A pattern may reach over the word that begins the next clause: "i am {diet} and".
    let begins = |word: &&Word<'_>| begins_clause(view, word);
    let reached = view.words[stated.clone()].iter().rev().take_while(begins).count();
    start(view, stated.start)..end(view, stated.end - reached)
}

/// "Until Friday, I'm on vacation": the clause begins with the time.
fn start(view: &View<'_>, stated: usize) -> usize {
    let Some(mark) = stated.checked_sub(1).filter(|before| is_mark(&view.words[*before])) else { return stated };
    let part = view.words[..mark].iter().rposition(is_mark).map_or(0, |before| before + 1);
    if time_at(view, part) == Some(mark) { part } else { stated }
}

fn end(view: &View<'_>, stated: usize) -> usize {
    let mut at = stated;
    while let Some(word) = view.words.get(at) {
        let is_mark_here = is_mark(word);
        if !is_mark_here && !begins_clause(view, word) {
            at += 1;
            continue;
        }
        let time = time_at(view, at + usize::from(is_mark_here));
        // "I'm on vacation, by tomorrow I need a plumber": what goes on behind the time is another clause.
        let is_whole = |next: &usize| !is_mark_here || view.words.get(*next).is_none_or(is_mark);
        match time.filter(is_whole) {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

fn begins_clause(view: &View<'_>, word: &Word<'_>) -> bool {
    view.table.clause.contains(&*word.text) || view.table.implied.iter().any(|subject| *subject == word.text)
}

/// The word behind a time that begins at word `at`.
fn time_at(view: &View<'_>, at: usize) -> Option<usize> {
    let rest = view.written(at..view.words.len());
    let end = view.words.get(at)?.at.start + when::named_first(rest, view.tongue)?;
    Some(view.words.iter().position(|word| end <= word.at.start).unwrap_or(view.words.len()))
}
