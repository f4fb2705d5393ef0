//! Options within a sentence: "tea, coffee or water?"

use std::collections::HashSet;

use super::list::{is_marked, plain};
use super::table::Table;
use super::{ChoiceOption, OPTIONS_MIN};
use crate::language::{Word, spans};

/// Longest option, in words and characters.
const ITEM_WORDS_MAX: usize = 10;
const ITEM_CHARS_MAX: usize = 80;

/// The options that a question itself lists.
pub(super) fn within(question: &str, table: &Table) -> Option<Vec<ChoiceOption>> {
    let words: Vec<Word<'_>> = spans(question).collect();
    let asks_which = |text: &str| spans(text).any(|word| table.which.contains(&*word.text));
    // "Tea or coffee – which do you prefer?"
    if let Some((list, tail)) = split_last(question).filter(|(list, tail)| asks_which(tail) && !asks_which(list)) {
        let lists_none = options(tail, &table.or, table, false).is_none();
        if let Some(options) = options(list, &table.or, table, true).filter(|_| lists_none) {
            return Some(options);
        }
    }
    // "Which one: tea or coffee?", "Would you like tea or coffee?"
    if let Some((_, list)) = split_last(question).filter(|(head, _)| asks_which(head) || leads(head, table)) {
        return options(list, &table.or, table, false);
    }
    let lead = table.leads.found(&words).into_iter().next();
    let from = match lead {
        Some(range) => words[range.end - 1].at.end,
        None => {
            let which = words.iter().find(|word| table.which.contains(&*word.text))?;
            which.at.end + question[which.at.end..].find(", ")? + 1
        }
    };
    options(&question[from..], &table.or, table, true)
}

/// The options that the sentence before a question lists.
pub(super) fn offered(sentence: &str, table: &Table) -> Option<Vec<ChoiceOption>> {
    let both: HashSet<String> = table.or.union(&table.and).cloned().collect();
    if let Some((_, list)) = split_last(sentence) {
        return options(list, &both, table, true);
    }
    let words: Vec<Word<'_>> = spans(sentence).collect();
    let lead = table.offers.found(&words).into_iter().next()?;
    options(&sentence[words[lead.end - 1].at.end..], &both, table, true)
}

fn leads(text: &str, table: &Table) -> bool {
    table.leads.are_in(&spans(text).collect::<Vec<_>>())
}

/// A sentence at its last colon or dash.
fn split_last(text: &str) -> Option<(&str, &str)> {
    let marks = [": ", " - ", " – ", " — ", "—"].iter().filter_map(|mark| Some((text.rfind(mark)?, mark.len())));
    let (at, length) = marks.max()?;
    Some((&text[..at], &text[at + length..]))
}

/// The items of a list within a sentence; `None` when it is none. `joined`: a word must stand before its last item.
fn options(list: &str, conjunctions: &HashSet<String>, table: &Table, joined: bool) -> Option<Vec<ChoiceOption>> {
    let (items, has_conjunction) = items(list, conjunctions);
    if (joined && !has_conjunction) || items.len() < OPTIONS_MIN {
        return None;
    }
    let words = |item: &str| spans(item).map(|word| word.text.into_owned()).collect::<Vec<_>>();
    let is_none = |item: &&str| table.otherwise.end_at(&words(item), 0).is_some();
    // "Do you want it or not?" asks for a yes.
    if items.iter().any(|item| words(item).len() == 1 && table.not.contains(&words(item)[0])) {
        return None;
    }
    let labels: Option<Vec<String>> =
        items.into_iter().filter(|item| !is_none(item)).map(|item| label(item, table)).collect();
    let labels = labels?;
    let yes_no = labels.iter().all(|label| table.yes_no.contains(&label.to_lowercase()));
    let distinct: HashSet<String> = labels.iter().map(|label| label.to_lowercase()).collect();
    let fits = labels.len() >= OPTIONS_MIN && distinct.len() == labels.len() && !yes_no;
    fits.then(|| labels.into_iter().map(ChoiceOption::named).collect())
}

/// A list cut at its commas, slashes and conjunctions, and whether it had one of these.
fn items<'a>(list: &'a str, conjunctions: &HashSet<String>) -> (Vec<&'a str>, bool) {
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    let mut depth = 0_usize;
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' | ';' if depth == 0 && !list[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {
                cuts.push((at, at + 1))
            }
            '/' if depth == 0 && list[..at].ends_with(' ') && list[at + 1..].starts_with(' ') => {
                cuts.push((at, at + 1))
            }
            _ => {}
        }
    }
    let inside = |at: usize| list[..at].matches('(').count() > list[..at].matches(')').count();
    let joins: Vec<Word<'_>> =
        spans(list).filter(|word| conjunctions.contains(&*word.text) && !inside(word.at.start)).collect();
    let has_conjunction = !joins.is_empty();
    cuts.extend(joins.into_iter().map(|word| (word.at.start, word.at.end)));
    cuts.sort_unstable();
    let mut items = Vec::new();
    let mut from = 0;
    for (start, end) in cuts.into_iter().chain([(list.len(), list.len())]) {
        items.push(list[from..start].trim());
        from = end;
    }
    items.retain(|item| item.contains(char::is_alphanumeric));
    (items, has_conjunction)
}

/// An item without its mark and article; `None` when it is no thing to choose.
fn label(item: &str, table: &Table) -> Option<String> {
    let item = is_marked(item).unwrap_or(item);
    let text = plain(item);
    let words: Vec<Word<'_>> = spans(&text).collect();
    if words.len() > ITEM_WORDS_MAX || table.restart.end_at(&words, 0).is_some() {
        return None;
    }
    let article = words.first().filter(|word| words.len() > 1 && table.articles.contains(&*word.text));
    let label = article.map_or(text.as_str(), |word| text[word.at.end..].trim_start_matches(['\'', '’', ' ']));
    let pointing = words.iter().all(|word| POINTING.contains(&&*word.text));
    (!pointing && !label.is_empty() && label.chars().count() <= ITEM_CHARS_MAX).then(|| label.to_owned())
}

/// Words that name nothing by themselves, in all five languages.
const POINTING: [&str; 23] = [
    "this", "that", "these", "those", "it", "them", "not", "dit", "dat", "deze", "die", "het", "dies", "das", "es",
    "cela", "ça", "ceci", "eso", "esto", "so", "more", "less",
];
