//! A question as search reads it: what it asks for, about whom, and about when.
//!
//! Reading order: the nouns here, `names` (who is named), `table` (how a language asks; one file of patterns
//! each). What leans on the question before is known to `language`.
//!
//! **Invariant:** a plain function of the text, the participants and the clock that is handed in.

mod cut;
mod names;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::language::when::{self, MonthNamed, TimeRange};
use crate::language::{Phrases, Tongue, Word, follows_up, is_first_person, is_saying, is_stop, spans, tongue, words};
use cut::cut;
use names::names;
use table::Table;

/// A question as search reads it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    /// As it was asked.
    pub text: String,
    /// The language it is in.
    pub tongue: Tongue,
    /// Without the phrases that only say "tell me what I said"; the text itself if nothing else is left.
    pub cleaned: String,
    /// The participants it names, by index, in order.
    pub named: Vec<usize>,
    /// The text without the participants' names, for vectors; the text itself if nothing else is left.
    pub without_names: String,
    /// The stretch of time asked about: given with the question, or else read from it.
    pub range: Option<TimeRange>,
    /// The months it names.
    pub months: Vec<MonthNamed>,
    /// It asks when something was.
    pub when: bool,
    /// It asks how many, how much, how long or how old.
    pub many: bool,
    /// It asks for a place.
    pub place: bool,
    /// It asks for a name or a title.
    pub title: bool,
    /// It is about the user: said in the first person, and not about what the assistant said.
    pub about_user: bool,
    /// It is about what the assistant said.
    pub about_assistant: bool,
    /// What kind of answer it wants.
    pub kind: Kinds,
    /// It needs the question before it to be understood.
    pub follows_up: bool,
}

impl Question {
    /// Whether it asks about a time.
    pub(crate) fn is_dated(&self) -> bool {
        self.range.is_some() || !self.months.is_empty()
    }
}

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds {
    /// A summary.
    pub sum: bool,
    /// An order of events.
    pub ord: bool,
    /// Either of them: many messages make the answer.
    pub list: bool,
    /// What the assistant said.
    pub you: bool,
    /// What was said or happened.
    pub past: bool,
    /// Something new: neither a list nor the past.
    pub req: bool,
}

/// What is known beside the question.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// The names of those who take part; empty where they are a user and an assistant.
    pub participants: &'a [String],
    /// The time.
    pub now: Timestamp,
    /// Where the user's days begin.
    pub zone: TimeZone,
    /// The language of a question that does not show one.
    pub tongue_otherwise: Tongue,
    /// The beginning of the time asked about, if the caller gave one.
    pub from: Option<Timestamp>,
    /// The end of the time asked about, if the caller gave one.
    pub to: Option<Timestamp>,
}

/// Reads a question.
pub fn read(question: &str, reading: &Reading<'_>) -> Question {
    let tongue = tongue(question, reading.tongue_otherwise);
    let table = Table::of(tongue);
    let said: Vec<Word<'_>> = spans(question).collect();
    let is = |phrases: &Phrases| phrases.are_in(&said);
    let names = names(question, &said, reading.participants);
    let about_assistant = is(&table.assistant) && !is(&table.assistant_not);
    let first_person = said.iter().any(|word| is_first_person(&word.text, tongue)) || is(&table.user);
    let given = reading.from.is_some() || reading.to.is_some();
    Question {
        text: question.to_owned(),
        tongue,
        cleaned: clean(question, &said, tongue),
        without_names: Some(cut(question, &names.at)).filter(|text| !text.is_empty()).unwrap_or(question.to_owned()),
        range: match given {
            true => TimeRange::between(reading.from, reading.to),
            false => when::range(question, tongue, reading.now, &reading.zone),
        },
        months: when::months(question, tongue),
        when: is(&table.when),
        many: is(&table.many),
        place: is(&table.place),
        title: is(&table.title),
        about_user: first_person && !about_assistant,
        about_assistant,
        kind: kinds(question, &said, table),
        follows_up: follows_up(question, &said, tongue, !names.named.is_empty()),
        named: names.named,
    }
}

/// The question without the words that only say that something was said.
fn clean(question: &str, said: &[Word<'_>], tongue: Tongue) -> String {
    let table = Table::of(tongue);
    let phrases = table.clean.found(said);
    let is_phrase = |at: usize| phrases.iter().any(|range| range.contains(&at));
    let is_gone = |at: &usize| is_phrase(*at) || is_saying(&said[*at].text, tongue);
    // A phrase goes as one piece, with the apostrophes inside it.
    let of_phrases = phrases.iter().map(|range| said[range.start].at.start..said[range.end - 1].at.end);
    let of_words = (0..said.len()).filter(is_gone).map(|at| said[at].at.clone());
    let mut pieces: Vec<Range<usize>> = of_phrases.chain(of_words).collect();
    pieces.sort_by_key(|piece| piece.start);
    let left = cut(question, &pieces);
    let has_content = words(&left).any(|word| !is_stop(&word, tongue));
    if has_content { left } else { question.to_owned() }
}

/// What kind of answer is wanted. Lists may be asked for anywhere; the rest is in the sentence that asks.
fn kinds(question: &str, said: &[Word<'_>], table: &Table) -> Kinds {
    let asking: Vec<Word<'_>> = spans(asking_sentence(question)).collect();
    let (sum, ord) = (table.sum.are_in(said), table.ord.are_in(said));
    let list = sum || ord;
    let you = table.you.are_in(&asking);
    let past = !list && (you || table.past.are_in(&asking));
    Kinds { sum, ord, list, you, past, req: !list && !past }
}

/// The last sentence with a question mark, or else the last.
fn asking_sentence(text: &str) -> &str {
    let sentences: Vec<&str> = text.lines().flat_map(sentences).collect();
    let asking = sentences.iter().rfind(|sentence| sentence.ends_with('?')).or(sentences.last());
    asking.copied().unwrap_or(text)
}

/// The sentences of a line: they end at `.`, `!` or `?` before a blank.
fn sentences(line: &str) -> Vec<&str> {
    let ends = line.match_indices(['.', '!', '?']).map(|(at, mark)| at + mark.len());
    let ends = ends.filter(|end| line[*end..].starts_with(char::is_whitespace)).chain([line.len()]);
    let cuts = ends.scan(0, |start, end| Some(std::mem::replace(start, end)..end));
    cuts.map(|range| line[range].trim()).filter(|sentence| sentence.contains(char::is_alphanumeric)).collect()
}
