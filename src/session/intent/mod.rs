//! What kind of thing was said, by its form and by what was open when it was said.
//!
//! How sure a reading is says what it was decided by: a question mark is surer than a first word. One table of patterns per
//! language lies beside this file.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::language::{
    Phrases, Tables, Tongue, Word, follows_up, is_elliptic, is_first_person, phrases, spans, texts_beside, tongue,
    word_set, written,
};

/// A reading of what was said and how sure it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Intent {
    /// `clarification`, `correction`, `follow_up`, `question`, `instruction` or `statement`.
    pub name: &'static str,
    /// Between 0 and 1.
    pub confidence: f64,
    /// What it was decided by.
    pub decided_by: &'static str,
}

/// What was said, and what was known when it was.
#[derive(Debug, Clone, Copy, Default)]
pub struct Saying<'a> {
    /// The words.
    pub text: &'a str,
    /// The language of the conversation, for a text that does not say its own.
    pub tongue: Tongue,
    /// Whether anything was said before.
    pub has_history: bool,
    /// How sure it is that this answers an open clarification, if it does.
    pub answers: Option<f64>,
}

/// An elliptic text without a question mark has at most this many words: "and in winter".
const ELLIPSIS_WORDS_MAX: usize = 3;

/// Reads what kind of thing was said.
pub fn read_intent(saying: &Saying<'_>) -> Intent {
    if let Some(confidence) = saying.answers {
        return Intent { name: "clarification", confidence, decided_by: "answer to an open clarification" };
    }
    let text = saying.text.trim();
    let tongue = tongue(text, saying.tongue);
    let heard: Vec<Word<'_>> = spans(text).collect();
    let table = Table::of(tongue);
    let words = table.without_opening(&heard);
    let reading = Reading { text, words, table, tongue, has_history: saying.has_history };
    let (name, confidence, decided_by) = reading.decide();
    Intent { name, confidence, decided_by }
}

struct Reading<'a> {
    text: &'a str,
    words: &'a [Word<'a>],
    table: &'static Table,
    tongue: Tongue,
    has_history: bool,
}

impl Reading<'_> {
    fn decide(&self) -> (&'static str, f64, &'static str) {
        let asks = self.text.trim_end_matches(|c: char| !(c.is_alphanumeric() || is_mark(c))).ends_with(is_mark);
        let begins = |phrases: &Phrases| phrases.end_at(self.words, 0).is_some();
        if begins(&self.table.correction) {
            ("correction", 0.9, "words of correction")
        } else if begins(&self.table.request) {
            ("instruction", 0.75, "polite request")
        } else if asks && self.leans() {
            ("follow_up", 0.85, "question mark, and it leans on what was said before")
        } else if asks {
            ("question", 0.95, "question mark")
        } else if begins(&self.table.instruction) {
            ("instruction", 0.8, "imperative")
        } else if self.begins_as_question() && self.leans() {
            ("follow_up", 0.7, "first word, and it leans on what was said before")
        } else if self.begins_as_question() {
            ("question", 0.7, "first word")
        } else if self.has_history && begins(&self.table.denial) {
            ("correction", 0.65, "denial")
        } else if self.is_left_unsaid() {
            ("follow_up", 0.6, "it leans on what was said before")
        } else if self.is_about_me() {
            ("statement", 0.85, "first person")
        } else {
            ("statement", 0.6, "neither question nor instruction")
        }
    }

    fn leans(&self) -> bool {
        self.has_history && follows_up(self.text, self.words, self.tongue, false)
    }

    /// "And in winter", without a question mark.
    fn is_left_unsaid(&self) -> bool {
        let short = self.words.len() <= ELLIPSIS_WORDS_MAX;
        self.has_history && short && !self.is_about_me() && is_elliptic(self.text, self.words, self.tongue)
    }

    fn begins_as_question(&self) -> bool {
        self.words.first().is_some_and(|word| self.table.asking.contains(&*word.text))
    }

    fn is_about_me(&self) -> bool {
        self.words.iter().any(|word| is_first_person(&word.text, self.tongue))
    }
}

fn is_mark(c: char) -> bool {
    matches!(c, '?' | '？' | '؟')
}

/// A table as it is written, with its patterns read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Words before what is really said: "ok", "hey".
    #[serde(deserialize_with = "word_set")]
    opening: HashSet<String>,
    /// First words of questions.
    #[serde(deserialize_with = "word_set")]
    asking: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    correction: Phrases,
    /// What corrects only if there is something to correct.
    #[serde(deserialize_with = "phrases")]
    denial: Phrases,
    /// Instructions in the form of questions.
    #[serde(deserialize_with = "phrases")]
    request: Phrases,
    #[serde(deserialize_with = "phrases")]
    instruction: Phrases,
}

impl Table {
    fn of(tongue: Tongue) -> &'static Table {
        static ALL: Tables<Table> = Tables::new(texts_beside!(), written);
        ALL.of(tongue)
    }

    /// The words after those that only open; all of them when nothing else is said.
    fn without_opening<'a>(&self, words: &'a [Word<'a>]) -> &'a [Word<'a>] {
        let said = words.iter().position(|word| !self.opening.contains(&*word.text)).unwrap_or(0);
        &words[said..]
    }
}
