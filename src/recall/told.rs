//! What a context says already, so that a summary does not say it again, nor a message what a summary has said.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memmem;
use xxhash_rust::xxh3::xxh3_64;

use super::render::one_line;
use crate::model::builtin::summary::{Summary, sentences};

/// The texts in a context so far. They stand below each other, so that a sentence, which is on one line, is looked for in all
/// of them at once.
#[derive(Default)]
pub(crate) struct Told {
    said: String,
    summaries: String,
    pieces: Pieces,
}

/// Shorter sentences are in many texts.
const SENTENCE_BYTES_MIN: usize = 12;

impl Told {
    /// A message was taken.
    pub(crate) fn say(&mut self, text: &str) {
        put_below(&mut self.said, text);
        self.pieces.note(text);
    }

    /// A summary was taken.
    pub(crate) fn tell(&mut self, text: &str) {
        put_below(&mut self.summaries, text);
        self.pieces.note(text);
    }

    /// Whether a summary says this, word for word.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.pieces.may_have(text) && is_in(&self.summaries, text)
    }

    /// What of a summary is not there yet, on one line; empty for nothing.
    pub(crate) fn news(&self, summary: &str, cuts: &Cuts) -> String {
        if self.said.is_empty() && self.summaries.is_empty() {
            return one_line(summary).into_owned();
        }
        let lines: Vec<String> = summary.lines().filter_map(|line| self.news_of(line, cuts)).collect();
        one_line(&lines.join(" ")).into_owned()
    }

    fn news_of(&self, line: &str, cuts: &Cuts) -> Option<String> {
        let whole = Summary::speaker_and_said(line);
        let sentences = cuts.sentences(whole.1);
        let new: Vec<&str> =
            sentences.iter().map(|at| &whole.1[at.clone()]).filter(|sentence| self.is_new(sentence)).collect();
        match new.len() {
            0 => None,
            all if all == sentences.len() => Some(line.to_owned()),
            _ => Some(format!("{}{}", whole.0, new.join(" … "))),
        }
    }

    fn is_new(&self, sentence: &str) -> bool {
        let sentence = one_line(sentence);
        let is_there = || is_in(&self.said, &sentence) || is_in(&self.summaries, &sentence);
        sentence.len() < SENTENCE_BYTES_MIN || !self.pieces.may_have(&sentence) || !is_there()
    }
}

fn is_in(texts: &str, text: &str) -> bool {
    memmem::find(texts.as_bytes(), text.as_bytes()).is_some()
}

fn put_below(texts: &mut String, text: &str) {
    texts.push_str(text);
    texts.push('\n');
}

/// A bit for every eight bytes that stand together in some texts; some share one. Sentences are many and the texts are long: nearly
/// all that are not in them are told from this.
struct Pieces(Box<[u64; Pieces::WORDS]>);

impl Default for Pieces {
    fn default() -> Self {
        Self(Box::new([0; Self::WORDS]))
    }
}

impl Pieces {
    const WORDS: usize = 512;
    const LENGTH: usize = 8;

    fn note(&mut self, text: &str) {
        for piece in text.as_bytes().windows(Self::LENGTH) {
            let (word, bit) = Self::place(piece);
            self.0[word] |= bit;
        }
    }

    /// Whether a text may be in those that were noted.
    fn may_have(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let Some(last) = bytes.len().checked_sub(Self::LENGTH) else { return true };
        [0, last / 3, last / 3 * 2, last].into_iter().all(|at| {
            let (word, bit) = Self::place(&bytes[at..at + Self::LENGTH]);
            self.0[word] & bit != 0
        })
    }

    fn place(piece: &[u8]) -> (usize, u64) {
        let piece = u64::from_le_bytes(piece.try_into().expect("a piece has eight bytes"));
        // A multiplication brings what differs to the top.
        let hash = piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - (Self::WORDS * 64).ilog2());
        ((hash / 64) as usize, 1 << (hash % 64))
    }
}

/// Lines of summaries that are remembered; about a megabyte. When there are more, all are forgotten.
const CUTS_MAX: usize = 8_192;

/// Where the sentences of lines are, which are asked about again and again.
#[derive(Default)]
pub(crate) struct Cuts(Mutex<HashMap<u64, Sentences>>);

type Sentences = Arc<[Range<usize>]>;

impl Cuts {
    fn sentences(&self, line: &str) -> Sentences {
        let (hash, bytes) = (xxh3_64(line.as_bytes()), line.len());
        let mut cuts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Two lines of one hash are not to be expected; a cut must be one of this line all the same.
        let fits =
            |at: &Range<usize>| at.end <= bytes && line.is_char_boundary(at.start) && line.is_char_boundary(at.end);
        match cuts.get(&hash) {
            Some(known) if known.iter().all(fits) => Arc::clone(known),
            _ => {
                let found: Sentences = sentences(line).into_iter().map(|piece| piece.at).collect();
                if cuts.len() >= CUTS_MAX {
                    cuts.clear();
                }
                cuts.insert(hash, Arc::clone(&found));
                found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(said: &[&str], told: &[&str], summary: &str, expected: &str) {
        let mut context = Told::default();
        said.iter().for_each(|text| context.say(text));
        told.iter().for_each(|text| context.tell(text));
        let cuts = Cuts::default();
        assert_eq!(context.news(summary, &cuts), expected);
        assert_eq!(context.news(summary, &cuts), expected, "with its sentences known");
    }

    #[test]
    fn what_is_there_is_not_told_again() {
        let summary = "user: My dog is called Rex. I moved to Porto.\nassistant: Rex is a fine name.";
        check(&[], &[], summary, "user: My dog is called Rex. I moved to Porto. assistant: Rex is a fine name.");
        check(&["My dog is called Rex."], &[], summary, "user: I moved to Porto. assistant: Rex is a fine name.");
        check(&[], &["user: I moved to Porto. assistant: Rex is a fine name."], summary, "user: My dog is called Rex.");
        check(&["My dog is called Rex. I moved to Porto."], &["assistant: Rex is a fine name."], summary, "");
    }

    proptest! {
        #[test]
        fn whatever_was_noted_may_be_there(before in "[a-zé ]{0,40}", text in "[a-zé .]{0,60}", after in "[a-zé ]{0,40}") {
            let mut pieces = Pieces::default();
            pieces.note(&format!("{before}{text}{after}"));
            prop_assert!(pieces.may_have(&text));
        }
    }

    #[test]
    fn what_is_nowhere_is_seen_to_be_nowhere() {
        let mut pieces = Pieces::default();
        pieces.note("My dog is called Rex, and he likes the sea.");
        assert!(!pieces.may_have("We met Ann in Porto."));
    }

    #[test]
    fn a_message_that_a_summary_has_is_known() {
        let mut context = Told::default();
        context.say("We met Ann in Porto.");
        assert!(!context.has("We met Ann in Porto."), "messages know each other by their words");
        context.tell("user: We met Ann in Porto. Then it rained.");
        assert!(context.has("We met Ann in Porto.") && !context.has("We met Bo in Porto."));
    }
}
