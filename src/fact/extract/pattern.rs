//! Patterns with slots: `my name is|s {name}`, `{things} is my favourite {what}`.
//!
//! Between its slots a pattern is a [`Phrase`]. A slot at the end reaches as far as its kind allows; one in the middle up to
//! the words that follow it in the pattern; one at the beginning back to where its clause begins.

use std::ops::Range;

use super::slot::{Slot, View};
use crate::language::Phrase;

/// Words that a slot in the middle may hold.
const MIDDLE_WORDS_MAX: usize = 8;

/// One way of saying something.
#[derive(Debug)]
pub(super) struct Pattern {
    before: Option<Slot>,
    pieces: Vec<Piece>,
    /// The words it may begin with.
    pub(super) anchors: Vec<String>,
}

#[derive(Debug)]
struct Piece {
    phrase: Phrase,
    then: Option<Slot>,
}

/// Where a pattern was found, and what its slots hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The words it covers.
    pub(super) at: Range<usize>,
    /// What stands in each slot: words, several where the slot is a list.
    pub(super) held: Vec<(Slot, Vec<Range<usize>>)>,
}

impl Pattern {
    /// Reads a pattern as written above.
    pub(super) fn read(text: &str) -> Pattern {
        let mut pattern = Pattern { before: None, pieces: Vec::new(), anchors: Vec::new() };
        let mut words: Vec<&str> = Vec::new();
        for part in text.split_whitespace() {
            match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) if pattern.pieces.is_empty() && words.is_empty() => pattern.before = Some(Slot::read(name)),
                Some(name) => pattern.push(&mut words, Some(Slot::read(name))),
                None => words.push(part),
            }
        }
        if !words.is_empty() {
            pattern.push(&mut words, None);
        }
        pattern
    }

    fn push(&mut self, words: &mut Vec<&str>, then: Option<Slot>) {
        if self.pieces.is_empty() {
            self.anchors = anchors(words);
        }
        self.pieces.push(Piece { phrase: Phrase::read(&words.join(" ")), then });
        words.clear();
    }

    /// Whether the pattern begins at word `at`, or its first words do where a slot stands before them.
    pub(super) fn find(&self, view: &View<'_>, at: usize) -> Option<Found> {
        let mut found = Found { at: at..at, held: Vec::new() };
        if let Some(slot) = &self.before {
            let start = view.clause_start(at);
            let held = view.read(slot, start, at).filter(|read| read.end == at)?;
            found.at.start = start;
            found.held.push((slot.clone(), held.values));
        }
        let mut next = at;
        for (number, piece) in self.pieces.iter().enumerate() {
            next = piece.phrase.end_at(&view.words, next)?;
            let Some(slot) = &piece.then else { continue };
            let held = match self.pieces.get(number + 1) {
                None => view.read(slot, next, view.words.len())?,
                Some(after) => view.read_until(slot, next, &after.phrase, MIDDLE_WORDS_MAX)?,
            };
            next = held.end;
            found.held.push((slot.clone(), held.values));
        }
        found.at.end = next;
        Some(found)
    }
}

/// The words that a phrase may begin with.
fn anchors(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for word in words {
        let maybe = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        found.extend(maybe.unwrap_or(word).split('|').map(str::to_owned));
        if maybe.is_none() {
            break;
        }
    }
    found
}
