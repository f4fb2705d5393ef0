//! What a sentence states: names, numbers, dates, decisions. And whether it is small talk.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::language::{
    Phrases, Tongue, Word, is_first_person, is_number_word, is_stop, is_time_word, month, weekday, words,
};

/// What a word is to a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A person, a place, a work, a company.
    Name,
    Number,
    /// A month or a weekday.
    Date,
    /// `yesterday`, `last week`.
    Time,
    /// Any other word that is none of the most common.
    Term,
}

/// How a sentence speaks, apart from its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Manner {
    pub(super) asks: bool,
    pub(super) decides: bool,
    pub(super) chats: bool,
    pub(super) about_self: bool,
}

/// What is known of the words of a stretch before single sentences are looked at.
pub(super) struct Names {
    /// Who takes part: each line says so already.
    speakers: HashSet<String>,
    /// Words that were written with a capital where none had to be.
    capital: HashSet<String>,
    /// Words that were also written without one.
    plain: HashSet<String>,
}

impl Names {
    pub(super) fn of(speakers: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let mut names = Self { speakers: HashSet::new(), capital: HashSet::new(), plain: HashSet::new() };
        for speaker in speakers {
            names.speakers.extend(words(speaker.as_ref()).map(Cow::into_owned));
        }
        names
    }

    /// Learns how the words of a sentence are written. The first has its capital whatever it is.
    pub(super) fn learn(&mut self, sentence: &str, words: &[Word<'_>]) {
        for (at, word) in words.iter().enumerate() {
            let capital = sentence[word.at.clone()].starts_with(char::is_uppercase);
            let known = if capital { &mut self.capital } else { &mut self.plain };
            if (at > 0 || !capital) && !known.contains(word.as_ref()) {
                known.insert(word.text.clone().into_owned());
            }
        }
    }

    /// Whether a capitalised word is a name. German writes every noun so, which tells little.
    fn include(&self, word: &str, tongue: Tongue) -> bool {
        tongue != Tongue::German && self.capital.contains(word) && !self.plain.contains(word)
    }

    /// Whether it is one of those who speak, or short for one: Mel is Melanie.
    fn speaks(&self, word: &str, capital: bool) -> bool {
        let short = |speaker: &String| word.chars().count() >= SHORT_NAME_CHARS_MIN && speaker.starts_with(word);
        self.speakers.contains(word) || (capital && self.speakers.iter().any(short))
    }
}

/// Two letters are the beginning of too much.
const SHORT_NAME_CHARS_MIN: usize = 3;

/// What a word of a sentence is; `None` for words too common to count.
pub(super) fn kind(sentence: &str, word: &Word<'_>, tongue: Tongue, names: &Names) -> Option<Kind> {
    let text = word.as_ref();
    if text.contains(char::is_numeric) || is_number_word(text, tongue) {
        return Some(Kind::Number);
    }
    if is_time_word(text, tongue) {
        let exact = month(text, tongue).or_else(|| weekday(text, tongue)).is_some();
        return Some(if exact { Kind::Date } else { Kind::Time });
    }
    let capital = sentence[word.at.clone()].starts_with(char::is_uppercase);
    if is_stop(text, tongue) || names.speaks(text, capital) {
        return None;
    }
    Some(if capital && names.include(text, tongue) { Kind::Name } else { Kind::Term })
}

/// How a sentence speaks.
pub(super) fn manner(sentence: &str, words: &[Word<'_>], tongue: Tongue) -> Manner {
    let cues = &CUES[&tongue];
    Manner {
        asks: sentence.ends_with(['?', '？']),
        decides: cues.decided.are_in(words),
        chats: cues.chatter.are_in(&words[..words.len().min(CHATTER_WORDS)]),
        about_self: words.iter().any(|word| is_first_person(word.as_ref(), tongue)),
    }
}

/// Small talk shows in its first words.
const CHATTER_WORDS: usize = 8;

/// A language's table as it is written.
#[derive(Deserialize)]
struct Table {
    decided: Vec<String>,
    chatter: Vec<String>,
}

struct Cues {
    decided: Phrases,
    chatter: Phrases,
}

static CUES: LazyLock<HashMap<Tongue, Cues>> = LazyLock::new(|| {
    let tables: HashMap<String, Table> =
        toml::from_str(include_str!("cues.toml")).expect("the table is compiled in and read by every test");
    let cues = |table: &Table| Cues { decided: Phrases::read(&table.decided), chatter: Phrases::read(&table.chatter) };
    Tongue::ALL.into_iter().map(|tongue| (tongue, cues(&tables[tongue.code()]))).collect()
});

#[cfg(test)]
mod tests {
    use super::super::sentence::sentences;
    use super::*;
    use crate::language::spans;

    /// The words that state something, by kind.
    #[track_caller]
    fn check(text: &str, tongue: Tongue, expected: &str) {
        let sentences: Vec<&str> = sentences(text).into_iter().map(|piece| &text[piece.at]).collect();
        let mut names = Names::of(["Annabel"].into_iter());
        sentences.iter().for_each(|sentence| names.learn(sentence, &spans(sentence).collect::<Vec<_>>()));
        let mut found = Vec::new();
        for sentence in sentences {
            for word in spans(sentence) {
                let kind = kind(sentence, &word, tongue, &names).filter(|kind| *kind != Kind::Term);
                found.extend(kind.map(|kind| format!("{} {kind:?}", word.text)));
            }
        }
        assert_eq!(found.join(", ").to_lowercase(), expected);
    }

    #[test]
    fn what_is_stated_is_seen() {
        check(
            "I met Bob in Porto on 3 May. Bob laughed.",
            Tongue::English,
            "bob name, porto name, 3 number, may date, bob name",
        );
        check(
            "Hello Anna! So, Ann, Cats are fine, but Cats cost 20 euros.",
            Tongue::English,
            "cats name, cats name, 20 number",
        );
        check(
            "Ik ging gisteren met twee vrienden naar Utrecht",
            Tongue::Dutch,
            "gisteren time, twee number, utrecht name",
        );
        check("Wir haben am Montag ein Haus gekauft", Tongue::German, "montag date");
    }

    #[track_caller]
    fn check_manner(text: &str, tongue: Tongue, expected: &str) {
        let words: Vec<Word<'_>> = spans(text).collect();
        let Manner { asks, decides, chats, about_self } = manner(text, &words, tongue);
        let said = [(asks, "asks"), (decides, "decides"), (chats, "chats"), (about_self, "self")];
        let said: Vec<&str> = said.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
        assert_eq!(said.join(" "), expected, "{text}");
    }

    #[test]
    fn decisions_are_told_from_small_talk() {
        check_manner("We decided to take the train.", Tongue::English, "decides self");
        check_manner("Thanks, that's great!", Tongue::English, "chats");
        check_manner("Wanneer gaan we verhuizen?", Tongue::Dutch, "asks decides self");
        check_manner("Danke schön!", Tongue::German, "chats");
        check_manner("J'ai décidé de partir.", Tongue::French, "decides self");
        check_manner("Hemos decidido ir en tren.", Tongue::Spanish, "decides");
        check_manner("The walls are white.", Tongue::English, "");
    }

    #[test]
    fn every_language_has_its_cues() {
        assert_eq!(CUES.len(), Tongue::ALL.len());
    }
}
