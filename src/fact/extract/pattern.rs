//! Patterns with slots: `my name is|s {name}`, `{things} is my favourite {what}`.
//!
//! Between its slots a pattern is a [`Phrase`]. A slot at the end reaches as far as its kind allows; one in the middle up to
//! the words that follow it in the pattern; one at the beginning back to where its clause begins.

use std::collections::HashSet;
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
    /// All words that it names.
    named: HashSet<String>,
    /// Whether any word may stand somewhere in it.
    has_wild: bool,
    /// For each word that must be there: the bits of the words it may be.
    needs: Vec<u128>,
}

#[derive(Debug)]
struct Piece {
    phrase: Phrase,
    /// Whether all of its words may be missing.
    optional: bool,
    then: Option<Slot>,
}

/// Where a pattern was found, and what its slots hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The words it covers.
    pub(super) at: Range<usize>,
    /// What stands in each slot: words, several where the slot is a list.
    pub(super) held: Vec<Held>,
}

impl Pattern {
    /// Reads a pattern as written above.
    pub(super) fn read(text: &str) -> Pattern {
        let mut pattern = Pattern {
            before: None,
            pieces: Vec::new(),
            anchors: Vec::new(),
            named: HashSet::new(),
            has_wild: text.contains('*'),
            needs: Vec::new(),
        };
        let mut words: Vec<&str> = Vec::new();
        for part in text.split_whitespace() {
            match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                Some(name) if pattern.pieces.is_empty() && words.is_empty() => pattern.before = Some(Slot::read(name)),
                Some(name) => pattern.push(&mut words, Some(Slot::read(name))),
                None => {
                    let plain = part.trim_matches(['[', ']']);
                    pattern.named.extend(plain.split('|').map(str::to_owned));
                    words.push(part);
                }
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
        let optional = words.iter().all(|word| word.starts_with('['));
        self.needs.extend(words.iter().filter(|word| is_needed(word)).map(|word| bits(word.split('|'))));
        self.pieces.push(Piece { phrase: Phrase::read(&words.join(" ")), optional, then });
        words.clear();
    }

    /// Whether the pattern begins at word `at`, or its first words do where a slot stands before them.
    pub(super) fn find(&self, view: &View<'_>, at: usize) -> Option<Found> {
        if self.needs.iter().any(|need| need & view.bits == 0) {
            return None;
        }
        let mut found = Found { at: at..at, held: Vec::new() };
        if let Some(slot) = &self.before {
            let start = view.clause_start(at);
            let held = view.read(slot, start, at).filter(|read| read.end == at)?;
            found.at.start = start;
            found.held.push((slot.clone(), held.values));
        }
        found.at.end = self.go_on(view, 0, at, &mut found.held)?;
        (!self.is_denied(view, &found)).then_some(found)
    }

    /// Whether a word that may be any word says no, or begins something else: "ich arbeite [*] [*] bei" is not "ich arbeite
    /// nicht mehr bei", and "i have a [*] [*] {animal}" is not "I have a weakness for fish".
    fn is_denied(&self, view: &View<'_>, found: &Found) -> bool {
        let is_held = |at: usize| found.held.iter().any(|(_, values)| values.iter().any(|value| value.contains(&at)));
        let denies =
            |word: &str| view.table.negation.contains(word) || (self.has_wild && view.table.stop.contains(word));
        let is_denied = |at: usize| denies(view.word(at)) && !self.named.contains(view.word(at)) && !is_held(at);
        let taken_back = view.table.negation.contains(view.word(found.at.end)) && !self.says_no(view);
        taken_back || Self::spoken(found).any(is_denied)
    }

    fn says_no(&self, view: &View<'_>) -> bool {
        self.named.iter().any(|word| view.table.negation.contains(word))
    }

    /// The words of a match up to its last value.
    fn spoken(found: &Found) -> Range<usize> {
        let last = found.held.last().and_then(|(_, values)| values.first()).map_or(found.at.end, |value| value.start);
        found.at.start..last
    }

    /// Reads piece `number` and those behind it from word `at` on; the word after all of them.
    fn go_on(&self, view: &View<'_>, number: usize, at: usize, held: &mut Vec<Held>) -> Option<usize> {
        let Some(piece) = self.pieces.get(number) else { return Some(at) };
        let kept = held.len();
        let starts = piece.phrase.ends_at(&view.words, at).into_iter().filter(|start| at < *start || 0 < number);
        starts.into_iter().find_map(|start| {
            held.truncate(kept);
            let Some(slot) = &piece.then else { return self.go_on(view, number + 1, start, held) };
            let read = match self.pieces.get(number + 1) {
                Some(after) if !after.optional => view.read_until(slot, start, &after.phrase, MIDDLE_WORDS_MAX)?,
                _ => view.read(slot, start, view.words.len())?,
            };
            held.push((slot.clone(), read.values));
            self.go_on(view, number + 1, read.end, held)
        })
    }
}

/// A slot, and the words in it.
pub(super) type Held = (Slot, Vec<Range<usize>>);

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

/// Whether a word of a pattern must be there as it is written.
fn is_needed(word: &str) -> bool {
    !word.starts_with('[') && !word.contains('*') && !matches!(word, "^" | "$" | "...")
}

/// Words as bits: a word whose bit is missing from a sentence is not in it.
pub(super) fn bits<'a>(words: impl Iterator<Item = &'a str>) -> u128 {
    let bit = |word: &str| {
        1 << (word.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte))) % 128)
    };
    words.fold(0, |bits, word| bits | bit(word))
}
