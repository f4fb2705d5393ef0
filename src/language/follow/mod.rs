//! Whether a question leans on the one before it: "Which products do you have for that?", "and in winter?".
//!
//! One table of patterns per language, beside this file.

use std::collections::HashSet;

use serde::Deserialize;

use super::phrase::Phrases;
use super::table::{Tables, phrases, texts_beside, word_set, written};
use super::tongue::Tongue;
use super::vocabulary::{is_first_person, is_stop};
use super::words::Word;

/// A question with more words of its own than this stands alone.
const OWN_WORDS_MAX: usize = 5;

/// Whether a pronoun or an ellipsis needs something said before, and the question brings little itself.
///
/// `words` are those of the text; `named` says that it names somebody known, which capitals alone may not show.
pub fn follows_up(text: &str, words: &[Word<'_>], tongue: Tongue, named: bool) -> bool {
    let own = own_words(words, tongue);
    if words.is_empty() || OWN_WORDS_MAX < own {
        return false;
    }
    let has_name = named || has_name(text, words, tongue);
    leaves_out(words, tongue, own, has_name) || (!has_name && points_back(words, tongue))
}

/// Whether a text leaves out what was said before: "and in winter", "why". A pronoun alone does not make it so.
pub fn is_elliptic(text: &str, words: &[Word<'_>], tongue: Tongue) -> bool {
    let own = own_words(words, tongue);
    !words.is_empty() && own <= OWN_WORDS_MAX && leaves_out(words, tongue, own, has_name(text, words, tongue))
}

fn leaves_out(words: &[Word<'_>], tongue: Tongue, own: usize, has_name: bool) -> bool {
    let table = Table::of(tongue);
    if let Some(opened) = table.open.end_at(words, 0) {
        let is_whole = words.get(opened).is_some_and(|word| table.asking.contains(&*word.text));
        // "And in winter?" and "And Lisbon?" say nothing alone, "and how expensive?" neither.
        if !is_whole || (own <= 1 && !has_name && !is_about_me(words, tongue)) {
            return true;
        }
    }
    own == 0 && words.len() <= 2 && !is_about_me(words, tongue)
}

fn own_words(words: &[Word<'_>], tongue: Tongue) -> usize {
    words.iter().filter(|word| is_own(&word.text, tongue)).count()
}

/// Whether a word of the text points at something outside it: a pronoun, "for that", "the same".
fn points_back(words: &[Word<'_>], tongue: Tongue) -> bool {
    let table = Table::of(tongue);
    let inside = table.not.found(words);
    let is_free = |at: usize| !inside.iter().any(|range| range.contains(&at));
    table.points.found(words).into_iter().any(|mut range| range.all(is_free))
}

/// A word that only says that something was said: mention, list, conversation.
pub fn is_saying(word: &str, tongue: Tongue) -> bool {
    Table::of(tongue).saying.contains(word)
}

fn is_own(word: &str, tongue: Tongue) -> bool {
    !is_stop(word, tongue) && !is_saying(word, tongue)
}

fn is_about_me(words: &[Word<'_>], tongue: Tongue) -> bool {
    words.iter().any(|word| is_first_person(&word.text, tongue))
}

/// A capitalised word inside a sentence. German writes every noun so; there it says nothing.
fn has_name(text: &str, words: &[Word<'_>], tongue: Tongue) -> bool {
    let is_name = |word: &Word<'_>| {
        let before = text[..word.at.start].trim_end();
        let starts = before.is_empty() || before.ends_with(['.', '!', '?', ':', '¿', '¡', '"']);
        let capital = text[word.at.clone()].starts_with(char::is_uppercase);
        capital && !starts && !is_stop(&word.text, tongue)
    };
    tongue != Tongue::German && words.iter().any(is_name)
}

/// A table as it is written, with its patterns read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(deserialize_with = "word_set")]
    saying: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    open: Phrases,
    #[serde(deserialize_with = "word_set")]
    asking: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    points: Phrases,
    #[serde(deserialize_with = "phrases")]
    not: Phrases,
}

impl Table {
    fn of(tongue: Tongue) -> &'static Table {
        static ALL: Tables<Table> = Tables::new(texts_beside!(), written);
        ALL.of(tongue)
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::spans;
    use super::*;

    /// Rows of `question = follows` or `question = -`.
    #[track_caller]
    fn check(code: &str, rows: &str) {
        let tongue = Tongue::from_code(code).expect("one of the five");
        for row in rows.lines() {
            let (text, expected) = row.trim().rsplit_once(" = ").expect("question = what is seen");
            let words: Vec<Word<'_>> = spans(text).collect();
            assert_eq!(follows_up(text, &words, tongue, false), expected == "follows", "{text}");
        }
    }

    #[test]
    fn questions_that_lean_on_the_one_before() {
        check(
            "en",
            "Which products do you have for that? = follows
             and in winter? = follows
             what about her brother? = follows
             And Lisbon? = follows
             How much does it cost? = follows
             How much is that? = follows
             Why? = follows
             And how expensive? = follows
             When did she move? = follows
             What else? = follows
             Is the first one better? = follows
             Where do I live? = -
             Who am I? = -
             When did Ann move? = -
             And where does Ann live? = -
             Did I say that I like tea? = -
             What did Ann say about her brother? = -
             What did my sister say about her dog? = -
             What did I do this week? = -
             What time is it? = -
             How long does it take to boil an egg? = -
             How do I clean the filter of that old coffee machine from Italy? = -
             How many kinds of tea are there? = -
             Is green tea the same as white tea? = -
             Did he win any prizes for his work? = follows
             What is the capital of France? = -",
        );
        check(
            "nl",
            "Welke producten heb je daarvoor? = follows
             En hoe duur is dat? = follows
             en in de winter? = follows
             En Amsterdam? = follows
             Hoeveel kost het? = follows
             Wanneer is hij verhuisd? = follows
             Waarom? = follows
             Waar woon ik? = -
             Wie ben ik? = -
             Wat is de naam van mijn hond? = -
             Hoe lang is mijn haar? = -
             Wat zei Anna over haar broer? = -
             Wat deed ik deze week? = -",
        );
        check(
            "de",
            "Welche Produkte hast du dafür? = follows\nUnd im Winter? = follows\nWas kostet das? = follows\nWo wohne ich? = -\nWie heißt mein Hund? = -",
        );
        check("fr", "Et en hiver ? = follows\nCombien coûte cela ? = follows\nOù est-ce que j'habite ? = -");
        check("es", "¿Y en invierno? = follows\n¿Cuánto cuesta eso? = follows\n¿Dónde vivo? = -");
    }

    #[test]
    fn somebody_who_is_known_to_be_named_makes_it_whole() {
        let text = "when did she meet ann?";
        let words: Vec<Word<'_>> = spans(text).collect();
        assert!(follows_up(text, &words, Tongue::English, false) && !follows_up(text, &words, Tongue::English, true));
    }

    #[test]
    fn words_about_saying() {
        assert!(is_saying("mentioned", Tongue::English) && is_saying("gezegd", Tongue::Dutch));
        assert!(!is_saying("garden", Tongue::English));
    }
}
