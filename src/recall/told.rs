//! What a context says already, so that a summary does not say it again, nor a message what a summary has said.

use memchr::memmem;

use super::render::one_line;
use crate::model::builtin::summary::{Summary, sentences};

/// The texts in a context so far. They stand below each other, so that a sentence, which is on one line, is looked for in all
/// of them at once.
#[derive(Debug, Default)]
pub(crate) struct Told {
    said: String,
    summaries: String,
}

/// Shorter sentences are in many texts.
const SENTENCE_BYTES_MIN: usize = 12;

impl Told {
    /// A message was taken.
    pub(crate) fn say(&mut self, text: &str) {
        put_below(&mut self.said, text);
    }

    /// A summary was taken.
    pub(crate) fn tell(&mut self, text: &str) {
        put_below(&mut self.summaries, text);
    }

    /// Whether a summary says this, word for word.
    pub(crate) fn has(&self, text: &str) -> bool {
        is_in(&self.summaries, text)
    }

    /// What of a summary is not there yet, on one line; empty for nothing.
    pub(crate) fn news(&self, summary: &str) -> String {
        if self.said.is_empty() && self.summaries.is_empty() {
            return one_line(summary).into_owned();
        }
        let lines: Vec<String> = summary.lines().filter_map(|line| self.news_of(line)).collect();
        one_line(&lines.join(" ")).into_owned()
    }

    fn news_of(&self, line: &str) -> Option<String> {
        let whole = Summary::speaker_and_said(line);
        let sentences = sentences(whole.1);
        let new: Vec<&str> =
            sentences.iter().map(|piece| &whole.1[piece.at.clone()]).filter(|one| self.is_new(one)).collect();
        match new.len() {
            0 => None,
            all if all == sentences.len() => Some(line.to_owned()),
            _ => Some(format!("{}{}", whole.0, new.join(" … "))),
        }
    }

    fn is_new(&self, sentence: &str) -> bool {
        let sentence = one_line(sentence);
        let is_there = || is_in(&self.said, &sentence) || is_in(&self.summaries, &sentence);
        sentence.len() < SENTENCE_BYTES_MIN || !is_there()
    }
}

/// Messages and sentences are many, and what is told already is long.
fn is_in(texts: &str, text: &str) -> bool {
    memmem::find(texts.as_bytes(), text.as_bytes()).is_some()
}

fn put_below(texts: &mut String, text: &str) {
    texts.push_str(text);
    texts.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &[&str], told: &[&str], summary: &str, expected: &str) {
        let mut context = Told::default();
        said.iter().for_each(|text| context.say(text));
        told.iter().for_each(|text| context.tell(text));
        assert_eq!(context.news(summary), expected);
    }

    #[test]
    fn what_is_there_is_not_told_again() {
        let summary = "user: My dog is called Rex. I moved to Porto.\nassistant: Rex is a fine name.";
        check(&[], &[], summary, "user: My dog is called Rex. I moved to Porto. assistant: Rex is a fine name.");
        check(&["My dog is called Rex."], &[], summary, "user: I moved to Porto. assistant: Rex is a fine name.");
        check(&[], &["user: I moved to Porto. assistant: Rex is a fine name."], summary, "user: My dog is called Rex.");
        check(&["My dog is called Rex. I moved to Porto."], &["assistant: Rex is a fine name."], summary, "");
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
