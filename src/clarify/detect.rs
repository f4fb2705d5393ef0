//! The choice that a reply ends in.
//!
//! A choice is a question with options: in a list before or behind it, within it, or in the sentence before. A list without
//! a question is none, nor is a question that asks for something else ("anything else?"), nor one that the reply goes on
//! to answer itself.

use super::inline::{offered, within};
use super::list::{List, last_list};
use super::table::Table;
use super::{ChoiceOption, OPTIONS_MAX, OPTIONS_MIN, QUESTION_CHARS_MAX};
use crate::language::{Tongue, Word, spans, tongue};

/// How much of a reply is read, from its end.
const READ_BYTES_MAX: usize = 6_000;
/// How much of that tells the language.
const LANGUAGE_BYTES_MAX: usize = 240;
/// Longest text behind a list that still belongs to it.
const TAIL_CHARS_MAX: usize = 300;

/// What a reply asks at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// To choose one of these.
    Choice {
        /// The question.
        question: String,
        /// What there is to choose from.
        options: Vec<ChoiceOption>,
    },
    /// To choose, without saying what from: what was open before is open still.
    Again,
    /// Something else.
    Else,
    /// Nothing.
    Nothing,
}

/// What a reply asks at its end.
pub fn hear(reply: &str) -> Heard {
    let read = end_of(answer_of(reply), READ_BYTES_MAX);
    let lines: Vec<&str> = read.lines().collect();
    let list = last_list(&lines);
    let asks_nothing = list.is_none() && !read.contains(['?', '？']);
    if asks_nothing || lines.last().is_some_and(|line| is_fence(line)) {
        return Heard::Nothing;
    }
    let table = Table::of(tongue(end_of(read, LANGUAGE_BYTES_MAX), Tongue::English));
    if let Some(heard) = list.as_ref().and_then(|list| listed(list, table)) {
        return heard;
    }
    let after_list = list.map_or(&lines[..], |list| list.behind);
    asked(after_list, table)
}

/// The reply without what the model thought before it.
fn answer_of(reply: &str) -> &str {
    reply.rsplit_once("</think>").map_or(reply, |(_, answer)| answer)
}

fn end_of(text: &str, bytes: usize) -> &str {
    let from = text.len().saturating_sub(bytes);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[if text.len() <= bytes { 0 } else { from }..]
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// A list with its question before or behind it.
fn listed(list: &List<'_>, table: &'static Table) -> Option<Heard> {
    let tail = list.behind.join(" ");
    if tail.chars().count() > TAIL_CHARS_MAX {
        return None;
    }
    let behind = without_closing(sentences(&tail), table);
    let question = match behind.last() {
        Some(last) if is_question(last) && asks_to_choose(last, table) => last,
        Some(_) => return None,
        None => before(list, table)?,
    };
    choice(question, list.options()?)
}

/// The question before a list. A heading is none: "Which fruits are healthy?" and then the fruits is an answer.
fn before<'a>(list: &List<'a>, table: &Table) -> Option<&'a str> {
    let intro = list.intro?;
    let last = sentences(intro).pop()?;
    let asks = is_question(last) && (asks_to_choose(last, table) || is_addressed(last, table));
    let tells_to_pick = table.pick.are_in(&words_of(last));
    (!intro.trim_start().starts_with('#') && (asks || tells_to_pick)).then_some(last)
}

/// A choice within the last sentences.
fn asked(lines: &[&str], table: &'static Table) -> Heard {
    let paragraph = lines.iter().rev().skip_while(|line| line.trim().is_empty());
    let mut last: Vec<&str> = paragraph.take_while(|line| !is_fence(line)).take(4).copied().collect();
    last.reverse();
    let text = last.join("\n");
    let mut sentences = without_closing(sentences(&text), table);
    let Some(question) = sentences.pop().filter(|last| is_question(last)) else { return Heard::Nothing };
    let options = within(to_mark(question), table).or_else(|| {
        let before = sentences.pop().filter(|before| !is_question(before))?;
        asks_to_choose(question, table).then(|| offered(before, table))?
    });
    match options {
        Some(options) => choice(question, options).unwrap_or(Heard::Else),
        None if asks_to_choose(question, table) => Heard::Again,
        None => Heard::Else,
    }
}

fn choice(question: &str, options: Vec<ChoiceOption>) -> Option<Heard> {
    let question = bare(question);
    let fits = (OPTIONS_MIN..=OPTIONS_MAX).contains(&options.len()) && question.chars().count() <= QUESTION_CHARS_MAX;
    fits.then_some(Heard::Choice { question, options })
}

/// A text without what only sets it off.
fn bare(text: &str) -> String {
    let text: String = to_mark(text).chars().filter(|c| !matches!(c, '*' | '_' | '`')).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ").trim_start_matches(['#', '>', ' ']).to_owned()
}

/// A question up to its mark: behind it stands nothing that anybody chooses.
fn to_mark(text: &str) -> &str {
    text.rfind(['?', '？']).and_then(|at| text.get(..at + 1)).unwrap_or(text)
}

fn words_of(text: &str) -> Vec<Word<'_>> {
    spans(text).collect()
}

/// "Which one would you like?"
fn asks_to_choose(question: &str, table: &Table) -> bool {
    table.choosing.are_in(&words_of(question))
}

/// "Which version do you have?"
fn is_addressed(question: &str, table: &Table) -> bool {
    let words = words_of(question);
    let has = |set: &std::collections::HashSet<String>| words.iter().any(|word| set.contains(&*word.text));
    has(&table.which) && has(&table.addressing)
}

/// Whether a sentence ends as questions do, whatever stands behind the mark: a quotation mark, a smile.
fn is_question(sentence: &str) -> bool {
    let end = sentence.trim_end_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '?' | '？' | '.' | '!' | ':')));
    end.ends_with(['?', '？'])
}

/// What is left when a friendly word at the end is not counted.
fn without_closing<'a>(mut sentences: Vec<&'a str>, table: &Table) -> Vec<&'a str> {
    let is_closing = |sentence: &&str| !is_question(sentence) && table.closing.end_at(&words_of(sentence), 0).is_some();
    if sentences.last().is_some_and(is_closing) {
        sentences.pop();
    }
    sentences
}

/// Words with a point that end no sentence.
const SHORT: [&str; 12] = ["dr", "mr", "mrs", "ms", "st", "prof", "no", "nr", "vs", "approx", "dhr", "mevr"];

/// A text as sentences. A line break ends one, too.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    let marks = text.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?' | '？' | '\n'));
    for (at, mark) in marks {
        let end = at + mark.len_utf8();
        if from <= at && (mark == '\n' || ends_here(text, at, end, mark)) {
            found.push(&text[from..end]);
            from = end;
        }
    }
    found.push(&text[from.min(text.len())..]);
    // What stands behind the last mark is a smile, or a bracket that closes.
    merge_unspoken(found, text)
}

fn ends_here(text: &str, at: usize, end: usize, mark: char) -> bool {
    let next = text[end..].chars().next();
    let spaced = next.is_none_or(|c| c.is_whitespace());
    let before = text[..at].rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_lowercase();
    let short = mark == '.' && SHORT.contains(&before.as_str());
    spaced && !short
}

/// Pieces without a letter belong to the sentence before.
fn merge_unspoken<'a>(pieces: Vec<&'a str>, text: &'a str) -> Vec<&'a str> {
    let start = |piece: &str| piece.as_ptr() as usize - text.as_ptr() as usize;
    let mut merged: Vec<&str> = Vec::new();
    for piece in pieces {
        let speaks = piece.contains(char::is_alphanumeric);
        match merged.pop() {
            Some(last) if !speaks => merged.push(&text[start(last)..start(piece) + piece.len()]),
            last => {
                merged.extend(last);
                if speaks {
                    merged.push(piece);
                }
            }
        }
    }
    merged.into_iter().map(str::trim).collect()
}
