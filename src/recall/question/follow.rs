//! Whether a question leans on the one before it: "Which products do you have for that?", "and in winter?".

use super::table::Table;
use crate::language::{Tongue, Word, is_first_person, is_stop};

/// A question with more words of its own than this stands alone.
const OWN_WORDS_MAX: usize = 5;

/// Whether a pronoun or an ellipsis needs something said before, and the question brings little itself.
pub(super) fn follows_up(text: &str, words: &[Word<'_>], tongue: Tongue, named: bool) -> bool {
    let table = Table::of(tongue);
    let own = words.iter().filter(|word| is_own(word, tongue, table)).count();
    if words.is_empty() || OWN_WORDS_MAX < own {
        return false;
    }
    let has_name = named || has_name(text, words, tongue);
    if let Some(opened) = table.follow.open.end_at(words, 0) {
        let is_whole = words.get(opened).is_some_and(|word| table.follow.asking.contains(&*word.text));
        // "And in winter?" and "And Lisbon?" say nothing alone, "and how expensive?" neither.
        if !is_whole || (own <= 1 && !has_name && !is_about_me(words, tongue)) {
            return true;
        }
    }
    let bare = own == 0 && words.len() <= 2 && !is_about_me(words, tongue);
    bare || (!has_name && points_back(words, table))
}

/// Whether a word of the question points at something outside it.
fn points_back(words: &[Word<'_>], table: &Table) -> bool {
    let inside = table.follow.not.found(words);
    let is_free = |at: usize| !inside.iter().any(|range| range.contains(&at));
    let pointing = table.follow.points.found(words);
    pointing.into_iter().any(|mut range| range.all(is_free))
}

fn is_own(word: &Word<'_>, tongue: Tongue, table: &Table) -> bool {
    !is_stop(&word.text, tongue) && !table.clean_words.contains(&*word.text)
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
