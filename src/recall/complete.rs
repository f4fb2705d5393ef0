//! Follow-ups: "which products do you have for that?" is searched for with what "that" is about.
//!
//! A question that leans on the conversation is completed with how the conversation came to its running topic (the first
//! question about it; where it comes back to one only now, that one's title) and with its most salient names: those that return often in it and are rare elsewhere. One that seems to stand on its own ("was
//! the album a success?") gets the names as well, at a lower weight, because it may mean something new.

use std::collections::HashMap;

use super::question::Question;
use crate::language::{inner_capitals, is_stop, words};

/// Names that are added.
const NAMES: usize = 5;
/// Words of the first question that are added.
const TITLE_WORDS: usize = 8;
/// Texts of the running conversation that are read, from its end.
const TEXTS_MAX: usize = 64;
/// How much added words count where the question does not clearly lean on them, and where it has names of its own.
const IN_DOUBT: f64 = 0.5;
const WITH_OWN_NAMES: f64 = 0.25;

/// Words that were added to a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Added {
    pub(crate) words: Vec<String>,
    /// How much they count beside the question's own.
    pub(crate) share: f64,
}

impl Added {
    /// A text with what was added, where the question leans on it; in doubt its meaning stays its own.
    pub(crate) fn to(&self, text: &str) -> String {
        if self.words.is_empty() || self.share < 1.0 {
            text.to_owned()
        } else {
            format!("{text} {}", self.words.join(" "))
        }
    }

    /// What a follow-up refers to, for the model to read; `None` in doubt.
    pub(crate) fn referred_to(&self) -> Option<String> {
        (self.share >= 1.0 && !self.words.is_empty()).then(|| self.words.join(", "))
    }

    /// The question as it was searched for, if anything was added.
    pub(crate) fn completed(&self, text: &str) -> Option<String> {
        (!self.words.is_empty()).then(|| format!("{text} {}", self.words.join(" ")))
    }
}

/// What is known of the running conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    /// Names that were said in it, and how often.
    pub(crate) names: Vec<(String, usize)>,
    /// What it began with.
    pub(crate) title: Option<String>,
}

impl Running {
    /// What texts tell, oldest first.
    pub(crate) fn of_texts(texts: &[String]) -> Self {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for name in texts.iter().rev().take(TEXTS_MAX).flat_map(|text| inner_capitals(text)) {
            *counts.entry(name).or_default() += 1;
        }
        Self { names: counts.into_iter().collect(), title: texts.first().cloned() }
    }
}

/// What a question is to be completed with. `rarity` says how much a word tells in this scope.
pub(crate) fn complete(question: &Question, running: &Running, rarity: impl Fn(&str) -> f32) -> Added {
    let mut added = salient_names(&running.names, &rarity);
    if let Some(title) = running.title.as_ref().filter(|_| question.follows_up) {
        added.extend(title_words(question, title));
    }
    let mut seen: Vec<String> = words(&question.text).map(std::borrow::Cow::into_owned).collect();
    added.retain(|word| {
        let new = !seen.contains(word);
        seen.push(word.clone());
        new
    });
    Added { words: added, share: share(question) }
}

fn share(question: &Question) -> f64 {
    let names_somebody = !question.named.is_empty() || !inner_capitals(&question.text).is_empty();
    match (question.follows_up, names_somebody) {
        (true, _) => 1.0,
        (false, false) => IN_DOUBT,
        (false, true) => WITH_OWN_NAMES,
    }
}

/// Names by how often they return and how rare they are elsewhere.
fn salient_names(said: &[(String, usize)], rarity: &impl Fn(&str) -> f32) -> Vec<String> {
    let salience = |name: &str, count: usize| (1.0 + count as f32).ln() * rarity(name);
    let mut names: Vec<(f32, &str)> =
        said.iter().map(|(name, count)| (salience(name, *count), name.as_str())).collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    names.into_iter().take(NAMES).map(|(_, name)| name.to_owned()).collect()
}

fn title_words(question: &Question, first: &str) -> Vec<String> {
    let words = words(first).filter(|word| !is_stop(word, question.tongue));
    words.map(std::borrow::Cow::into_owned).take(TITLE_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Tongue;
    use crate::recall::question::{Reading, read};
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    #[track_caller]
    fn check(running: &[&str], question: &str, expected: &str, share: f64) {
        let reading = Reading {
            participants: &[],
            now: Timestamp::UNIX_EPOCH,
            zone: TimeZone::UTC,
            tongue_otherwise: Tongue::English,
            from: None,
            to: None,
        };
        let running: Vec<String> = running.iter().map(|text| (*text).to_owned()).collect();
        let added = complete(&read(question, &reading), &Running::of_texts(&running), |_| 1.0);
        assert_eq!(
            (added.words.join(" ").as_str(), added.share),
            (expected, if expected.is_empty() { added.share } else { share })
        );
    }

    #[test]
    fn a_follow_up_gets_the_title_and_the_names() {
        let running = ["What are the rules for working at height?", "Use a harness by Petzl. A Petzl lanyard fits."];
        check(&running, "Which products do you have for that?", "petzl rules working height", 1.0);
    }

    #[test]
    fn in_dutch_too() {
        let running = ["Wat zijn de vereisten voor werken op hoogte?", "Gebruik een harnas van Petzl."];
        check(&running, "Welke producten heb je daarvoor?", "petzl vereisten werken hoogte", 1.0);
    }

    #[test]
    fn a_question_that_names_nobody_gets_the_names_in_doubt() {
        check(&["Who was Ada?", "The work of Ada Lovelace."], "Was the book a success?", "ada lovelace", IN_DOUBT);
    }

    #[test]
    fn beside_names_of_its_own_they_count_little() {
        let running = ["Who was Ada?", "The work of Ada Lovelace."];
        check(&running, "When did we visit Lisbon?", "ada lovelace", WITH_OWN_NAMES);
        check(&[], "Which products do you have for that?", "", 1.0);
    }
}
