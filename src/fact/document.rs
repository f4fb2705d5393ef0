//! Messages that hand over a document: prompts around retrieved texts, pastes with a question about them, texts that have
//! a model try again, and examples. None of it is the user's; only words before a question about a text that follows are.
//!
//! In doubt a short message is the user's own: `I live in Lisbon. Which museums are near?` is no document.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::Refusal;
use crate::language::{Phrases, words};

/// Words of a text that was hardly typed along with a question.
const PASTED_WORDS_MIN: usize = 80;
/// Words before a colon that are still a label.
const LABEL_WORDS_MAX: usize = 4;

/// Where a message stops to be the user's own, and why, if a document is handed over in it.
pub(super) fn handed_over(text: &str) -> Option<(usize, Refusal)> {
    let said: Vec<Cow<'_, str>> = words(text).collect();
    if CUES.retries.are_in(&said) || CUES.prompts.are_in(&said) || is_labelled(text) {
        return Some((0, Refusal::Pasted));
    }
    asked_about(text).map(|start| (start, Refusal::TaskText))
}

/// Whether labels divide a message into question and documents, or into examples.
fn is_labelled(text: &str) -> bool {
    let labels: Vec<Label> = text.lines().filter_map(Label::of).collect();
    let has = |words: &HashSet<String>| labels.iter().any(|label| label.has(words));
    let stands_alone = |label: &Label| label.alone && label.words.iter().all(|word| CUES.giving.contains(word));
    if has(&CUES.asking) && has(&CUES.giving)
        || labels.iter().any(|label| label.begins(&CUES.examples))
        || labels.iter().any(stands_alone)
    {
        return true;
    }
    let mut often: HashMap<&[String], usize> = HashMap::new();
    labels.iter().for_each(|label| *often.entry(&label.words).or_default() += 1);
    1 < often.len() && often.values().any(|times| 1 < *times)
}

/// `Question:`, `### Context:`, `Example 2:` at the beginning of a line.
struct Label {
    words: Vec<String>,
    /// Nothing stands behind it in its line.
    alone: bool,
}

impl Label {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || "#*-_[(>|".contains(c));
        let (before, behind) = line.split_once([':', '：'])?;
        let is_time =
            before.ends_with(|c: char| c.is_ascii_digit()) && behind.starts_with(|c: char| c.is_ascii_digit());
        let plain = |word: &Cow<'_, str>| word.chars().any(char::is_alphabetic);
        let words: Vec<String> = words(before).filter(plain).map(Cow::into_owned).collect();
        let fits = !is_time && !behind.starts_with("//") && (1..=LABEL_WORDS_MAX).contains(&words.len());
        let alone = behind.trim_matches(|c: char| c.is_whitespace() || c == '*').is_empty();
        fits.then_some(Self { words, alone })
    }

    fn has(&self, known: &HashSet<String>) -> bool {
        self.words.iter().any(|word| known.contains(word))
    }

    fn begins(&self, known: &HashSet<String>) -> bool {
        known.contains(&self.words[0])
    }
}

/// Where a text of others begins that a message asks about.
fn asked_about(text: &str) -> Option<usize> {
    let (asked, told): (Vec<Sentence<'_>>, Vec<Sentence<'_>>) = sentences(text).partition(Sentence::is_request);
    let told_words: Vec<&str> = told.iter().flat_map(|sentence| sentence.words.iter().map(AsRef::as_ref)).collect();
    if told_words.is_empty() {
        return None;
    }
    let speaks_of_others = told_words.iter().any(|word| CUES.kin.contains(*word));
    let names = names(&told_words);
    let points = |sentence: &&Sentence<'_>| {
        let about_person = !speaks_of_others && CUES.about_person.are_in(&sentence.words);
        let by_name = sentence.words.iter().any(|word| names.contains(&&**word));
        sentence.handles() || CUES.about_text.are_in(&sentence.words) || about_person || by_name
    };
    let for_oneself = |sentence: &Sentence<'_>| sentence.words.iter().any(|word| CUES.asker.contains(&**word));
    let is_pasted = || PASTED_WORDS_MIN <= told_words.len() && !asked.iter().any(for_oneself);
    let question = asked.iter().find(points).or_else(|| asked.first().filter(|_| is_pasted()))?;
    let (before, behind) = (&text[..question.at.start], &text[question.at.end..]);
    // A few words on the question's own line were typed with it, if the text begins below.
    let ends_line = text[..question.at.end].ends_with('\n') || behind.trim_start_matches(' ').starts_with('\n');
    let is_below = ends_line && before.len() < behind.len() && !before.trim().contains('\n');
    let follows = told.iter().any(|sentence| question.at.end <= sentence.at.start);
    Some(if is_below && follows { question.at.end } else { 0 })
}

/// The names that a text gives as its author's own.
fn names<'t>(told: &[&'t str]) -> Vec<&'t str> {
    CUES.named.found(told).into_iter().filter_map(|found| told.get(found.end).copied()).collect()
}

struct Sentence<'a> {
    at: Range<usize>,
    words: Vec<Cow<'a, str>>,
    asks: bool,
}

impl Sentence<'_> {
    fn is_request(&self) -> bool {
        self.asks || self.handles()
    }

    fn handles(&self) -> bool {
        CUES.handling.end_at(&self.words, 0).is_some()
    }
}

/// The sentences of a text; a line ends one.
fn sentences(text: &str) -> impl Iterator<Item = Sentence<'_>> {
    let mut end = 0;
    let pieces = text.split_inclusive(['.', '!', '?', '？', '。', '…', '\n']).map(move |piece| {
        let at = end..end + piece.len();
        end = at.end;
        Sentence { at, words: words(piece).collect(), asks: piece.trim_end().ends_with(['?', '？']) }
    });
    pieces.filter(|sentence| !sentence.words.is_empty())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    prompts: Vec<String>,
    retries: Vec<String>,
    asking: String,
    giving: String,
    examples: String,
    about_text: Vec<String>,
    handling: Vec<String>,
    about_person: Vec<String>,
    kin: String,
    named: Vec<String>,
    asker: String,
}

struct Cues {
    prompts: Phrases,
    retries: Phrases,
    asking: HashSet<String>,
    giving: HashSet<String>,
    examples: HashSet<String>,
    about_text: Phrases,
    handling: Phrases,
    about_person: Phrases,
    kin: HashSet<String>,
    named: Phrases,
    asker: HashSet<String>,
}

static CUES: LazyLock<Cues> = LazyLock::new(|| {
    let written: Written =
        toml::from_str(include_str!("document.toml")).expect("the table is compiled in and read by every test");
    let set = |text: &str| -> HashSet<String> { text.split_whitespace().map(str::to_owned).collect() };
    Cues {
        prompts: Phrases::read(&written.prompts),
        retries: Phrases::read(&written.retries),
        asking: set(&written.asking),
        giving: set(&written.giving),
        examples: set(&written.examples),
        about_text: Phrases::read(&written.about_text),
        handling: Phrases::read(&written.handling),
        about_person: Phrases::read(&written.about_person),
        kin: set(&written.kin),
        named: Phrases::read(&written.named),
        asker: set(&written.asker),
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Refusal>) {
        assert_eq!(handed_over(text).map(|(_, why)| why), expected, "{text}");
    }

    #[test]
    fn words_before_a_request_stay_the_users() {
        let check =
            |text: &str, own: &str| assert_eq!(handed_over(text).map(|(at, _)| &text[..at]), Some(own), "{text}");
        check(
            "I'm Ann. What does this letter say?\n\nMy name is Victor. I live in Oslo.",
            "I'm Ann. What does this letter say?",
        );
        check("My name is Victor. I live in Oslo.\n\nWho wrote this? Answer briefly.", "");
        check("My name is Victor. I live in Oslo. Who wrote this?\nAnswer briefly.", "");
        check("Question: where?\nContext: I live in Oslo.", "");
    }

    #[test]
    fn prompts_and_examples_are_pasted() {
        let pasted = Some(Refusal::Pasted);
        check("Use the following pieces of context.\n\nI live in Oslo.", pasted);
        check("Question: where?\nContext: I live in Oslo.", pasted);
        check("Context:\nI live in Oslo.", pasted);
        check("Validation Error found:\nI live in Oslo.", pasted);
        check("Text: I live in Oslo.\nCity: Oslo\nText: I am vegan.\nCity:", pasted);
        check("Context: I live in Oslo and need a plumber.", None);
        check("Name: Ann\nCity: Oslo", None);
        check("At 12:30 I eat.\nAt 13:30 I sleep.", None);
    }

    #[test]
    fn texts_that_somebody_asks_about_are_to_be_worked_on() {
        let about = Some(Refusal::TaskText);
        check("I live in Oslo. Who wrote this?", about);
        check("Where does he live? I live in Oslo.", about);
        check("My name is Victor. Where is Victor?", about);
        check("I live in Oslo.\nTranslate this.", about);
        check("My son is ill. What does he need?", None);
        check("My name is Ann and I live in Porto. Which museums and parks are near?", None);
        check("I live in Oslo. Which museums are near?", None);
        check("Who wrote this?", None);
        let long = "The lease begins in May. ".repeat(PASTED_WORDS_MIN / 5);
        check(&format!("{long}Which clause is it?"), about);
        check(&format!("{long}Which clause do I need?"), None);
        check(&format!("{}Which clause is it?", long.replacen("The lease begins in May. ", "", 1)), None);
    }
}
