//! What was said, to hold a model's lines against: what has nothing to do with it, and numbers that nobody said, are inventions.

use std::collections::HashSet;

use crate::language::{Tongue, number, words};
use crate::model::summarise::Talk;

/// A shorter word that two texts share says nothing.
const WORD_CHARS_MIN: usize = 4;

/// All that was said.
pub(super) struct Heard {
    /// In lower case.
    text: String,
    /// As digits, without zeros before them.
    numbers: HashSet<String>,
}

impl Heard {
    pub(super) fn of(talk: &Talk) -> Self {
        let said = talk.said.iter().map(|told| told.text.as_str());
        let text = talk.before.as_deref().into_iter().chain(said).collect::<Vec<_>>().join("\n").to_lowercase();
        // A model is shown the days on which things were said, and may tell them.
        let days = talk.said.iter().map(|told| told.at.strftime("%Y-%m-%d").to_string());
        let spelled = words(&text).flat_map(|word| Tongue::ALL.map(|tongue| number(&word, tongue)));
        let spelled = spelled.flatten().map(|number| number.to_string());
        let grouped = numbers(&without_groups(&text)).collect::<Vec<_>>();
        let shown = days.flat_map(|day| numbers(&day).collect::<Vec<_>>());
        let all = numbers(&text).chain(grouped).chain(shown).chain(spelled);
        Self { numbers: all.collect(), text }
    }

    /// Whether a line can have been said: it is about something that was, and has no number that nobody said.
    pub(super) fn has(&self, line: &str) -> bool {
        self.is_about(line) && self.has_numbers_of(line)
    }

    /// Whether a line has anything in common with what was said: a number, a word of some length, or two letters in a row where
    /// words are not told apart by blanks.
    fn is_about(&self, line: &str) -> bool {
        let line = line.to_lowercase();
        let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
        let is_pair_said = |(one, next): (char, char)| self.text.contains(&format!("{one}{next}"));
        let is_said = |word: &str| match word.is_ascii() {
            true => (word.len() >= WORD_CHARS_MIN || has_digit(word)) && self.text.contains(word),
            false => word.chars().zip(word.chars().skip(1)).any(is_pair_said),
        };
        line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).any(is_said)
    }

    /// Whether all numbers of a line were said, however their thousands are set apart.
    pub(super) fn has_numbers_of(&self, line: &str) -> bool {
        let are_said = |text: &str| numbers(text).all(|number| self.numbers.contains(&number));
        are_said(line) || are_said(&without_groups(line))
    }
}

/// The runs of digits in a text, without zeros before them.
fn numbers(text: &str) -> impl Iterator<Item = String> + '_ {
    let runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| run.trim_start_matches('0').to_owned())
}

/// A text without the marks that set thousands apart: 1,200 and 1.200 are 1200.
fn without_groups(text: &str) -> String {
    let bytes = text.as_bytes();
    let digits_from = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_in_number = |at: usize| at > 0 && bytes[at - 1].is_ascii_digit() && digits_from(at + 1) == 3;
    let is_mark = |(at, c): &(usize, char)| matches!(c, ',' | '.' | '\'') && is_in_number(*at);
    text.char_indices().filter(|next| !is_mark(next)).map(|(_, c)| c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::summarise::Told;
    use proptest::prelude::*;

    fn heard(text: &str) -> Heard {
        let at = "2026-03-01T10:00:00Z".parse().expect("a time");
        let said = vec![Told { speaker: "user".into(), text: text.into(), at }];
        Heard::of(&Talk { before: Some("Ann: We live in Porto at 12.".into()), said, ..Talk::default() })
    }

    #[test]
    fn what_was_not_said_is_seen() {
        let heard = heard("My Sister moves to 東京都 on 7 May, über Köln.");
        for line in ["A sister.", "On the 7th, or 7", "京都へ", "Über!", "She lives in Porto"] {
            assert!(heard.has(line), "{line}");
        }
        for line in ["…", "A", "You", "one or two sentences", "大阪"] {
            assert!(!heard.has(line), "{line}");
        }
    }

    #[test]
    fn numbers_that_nobody_said_are_seen() {
        let heard = heard("Ana wants 1.200 roses and three tulips by 07:30, for 45,50 in room B12; 3,500 would do.");
        for line in
            ["1200 roses", "1,200 roses", "3 tulips", "at 7:30", "45.50", "B12", "2026-03-01", "12", "3500", "no"]
        {
            assert!(heard.has_numbers_of(line), "{line}");
        }
        for line in ["21 roses", "120 roses", "12000", "4 tulips", "7:35", "2025", "3,501"] {
            assert!(!heard.has_numbers_of(line), "{line}");
        }
    }

    proptest! {
        /// Whatever is repeated as it was said was said.
        #[test]
        fn what_was_said_has_its_own_numbers(text in "([0-9]{1,5}|[,.' ]|two |zwölf |é){0,30}") {
            prop_assert!(heard(&text).has_numbers_of(&text));
        }
    }
}
