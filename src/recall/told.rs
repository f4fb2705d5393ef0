//! What a context says already, so that a summary does not say it again, nor a message what a summary has said.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memchr::memmem;
use xxhash_rust::xxh3::xxh3_64;

use super::render::one_line;
use crate::model::builtin::summary::{Summary, sentences};
use crate::tokens;

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

    /// What of a summary is not there yet.
    pub(crate) fn news(&self, summary: &str, cuts: &Cuts) -> News {
        let mut news = News::default();
        summary.lines().for_each(|line| self.add_news_of(line, cuts, &mut news));
        news
    }

    fn add_news_of(&self, line: &str, cuts: &Cuts, news: &mut News) {
        let (speaker, said) = Summary::speaker_and_said(line);
        let cut = cuts.line(line);
        let is_new = |sentence: &&Sentence| self.is_new(&said[sentence.at.clone()]);
        let new: Vec<&Sentence> = cut.sentences.iter().filter(is_new).collect();
        if !new.is_empty() && new.len() == cut.sentences.len() {
            news.add(line, cut.tokens);
            return;
        }
        for (nth, sentence) in new.into_iter().enumerate() {
            let (before, tokens) = if nth == 0 { (speaker, cut.speaker_tokens) } else { (GAP, GAP_TOKENS) };
            news.add(before, tokens);
            news.add(&said[sentence.at.clone()], sentence.tokens);
        }
    }

    fn is_new(&self, sentence: &str) -> bool {
        let sentence = one_line(sentence);
        let is_there = || is_in(&self.said, &sentence) || is_in(&self.summaries, &sentence);
        sentence.len() < SENTENCE_BYTES_MIN || !self.pieces.may_have(&sentence) || !is_there()
    }
}

/// Stands where sentences were left out.
const GAP: &str = "…";
const GAP_TOKENS: usize = 1;

/// What of a summary is new.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// On one line; empty for nothing.
    pub(crate) text: String,
    /// Tokens of it behind a blank.
    pub(crate) tokens: usize,
}

impl News {
    fn add(&mut self, text: &str, tokens: usize) {
        let text = one_line(text);
        if !text.is_empty() {
            self.text.extend([if self.text.is_empty() { "" } else { " " }, &text]);
            self.tokens += tokens;
        }
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

/// Lines of summaries that are remembered; about six megabytes. When there are more, all are forgotten.
const CUTS_MAX: usize = 32_768;

/// Where the sentences of lines are and how many tokens they have: both are asked about again and again, and finding out takes
/// longer than finding a summary.
#[derive(Default)]
pub(crate) struct Cuts(Mutex<HashMap<u64, Arc<CutLine>>>);

/// A line of a summary. Whatever begins behind a blank has as many tokens there as anywhere else, so that tokens add up.
struct CutLine {
    bytes: usize,
    tokens: usize,
    speaker_tokens: usize,
    sentences: Vec<Sentence>,
}

/// A sentence in what was said.
struct Sentence {
    at: Range<usize>,
    tokens: usize,
}

impl Cuts {
    /// Cuts a summary before anybody asks about it.
    pub(crate) fn prepare(&self, summary: &str) {
        summary.lines().for_each(|line| drop(self.line(line)));
    }

    fn line(&self, line: &str) -> Arc<CutLine> {
        let hash = xxh3_64(line.as_bytes());
        // Two lines of one hash are not to be expected; a cut must be one of this line all the same.
        let known = self.lock().get(&hash).filter(|known| known.fits(line)).cloned();
        known.unwrap_or_else(|| {
            let cut = Arc::new(CutLine::of(line));
            let mut cuts = self.lock();
            if cuts.len() >= CUTS_MAX {
                cuts.clear();
            }
            cuts.insert(hash, Arc::clone(&cut));
            cut
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<CutLine>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CutLine {
    fn of(line: &str) -> Self {
        let (speaker, said) = Summary::speaker_and_said(line);
        let sentence = |at: Range<usize>| Sentence { tokens: behind_a_blank(&said[at.clone()]), at };
        Self {
            bytes: line.len(),
            tokens: behind_a_blank(line),
            speaker_tokens: behind_a_blank(speaker),
            sentences: sentences(said).into_iter().map(|piece| sentence(piece.at)).collect(),
        }
    }

    fn fits(&self, line: &str) -> bool {
        let said = Summary::speaker_and_said(line).1;
        self.bytes == line.len() && self.sentences.iter().all(|sentence| said.get(sentence.at.clone()).is_some())
    }
}

/// Tokens of a text that stands behind others.
fn behind_a_blank(text: &str) -> usize {
    tokens::count(&format!(" {}", one_line(text)))
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
        let tokens = if expected.is_empty() { 0 } else { behind_a_blank(expected) };
        let expected = News { text: expected.to_owned(), tokens };
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
        fn tokens_of_news_are_those_of_its_text(
            lines in proptest::collection::vec(("(user|Ann \\(2026-05-07\\)): ", "[A-Za-z0-9 .,!?'é€-]{0,80}"), 0..4),
            told in 0_usize..4,
        ) {
            let summary: String = lines.iter().map(|(speaker, said)| format!("{speaker}{said}\n")).collect();
            let mut context = Told::default();
            let sentence = lines.get(told).and_then(|(_, said)| said.split_inclusive('.').next());
            context.say(sentence.unwrap_or("Something else."));
            let news = context.news(&summary, &Cuts::default());
            let counted = if news.text.is_empty() { 0 } else { behind_a_blank(&news.text) };
            prop_assert_eq!(news.tokens, counted, "{:?}", news.text);
        }

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
