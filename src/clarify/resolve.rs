//! Which options an answer means.
//!
//! Ways of answering are tried from the surest to the least sure, each in every language, those of question and answer first.
//! An answer that fits two options equally well fits none.

use std::collections::HashSet;

use super::close::nearly;
use super::compare::extreme;
use super::table::Table;
use super::{By, ChoiceOption, Clarification, Resolution, same};
use crate::language::{Tongue, Word, is_stop, number, spans, term, tongue};

/// A longer text is no answer to "which one?".
const ANSWER_BYTES_MAX: usize = 1_000;
/// Most words of an answer that does nothing but choose.
const WORDS_MAX: usize = 16;
/// A question with more words than this is not "the blue one?".
const DOUBTING_WORDS_MAX: usize = 4;

/// Which options an answer means; `None` when it is no answer to the question, or could mean several things.
pub fn resolve(clarification: &Clarification, answer: &str) -> Option<Resolution> {
    if answer.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let called = same(answer);
    if let Some(at) = clarification.options.iter().position(|option| same(&option.label) == called) {
        return Some(Resolution { options: vec![at], by: By::Name });
    }
    let readings = readings(clarification, answer);
    for way in ways() {
        match readings.iter().map(way).find(|found| *found != Found::Nothing) {
            Some(Found::These(options, by)) => return Some(Resolution { options, by }),
            Some(Found::Unclear) => return None,
            Some(Found::Nothing) | None => {}
        }
    }
    None
}

/// What one way of reading an answer finds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    These(Vec<usize>, By),
    /// It fits several options equally well, or one that is not there.
    Unclear,
    Nothing,
}

type Way<'a> = fn(&Reading<'a>) -> Found;

/// From the surest to the least sure.
fn ways<'a>() -> [Way<'a>; 8] {
    [
        Reading::all_or_none,
        Reading::places,
        Reading::names,
        Reading::attributes,
        Reading::comparison,
        Reading::both_parts,
        Reading::close_matches,
        Reading::first_clause,
    ]
}

/// An answer, read in one language.
struct Reading<'a> {
    options: &'a [ChoiceOption],
    table: &'static Table,
    tongue: Tongue,
    text: &'a str,
    words: Vec<Word<'a>>,
    /// The words of each option's label, and of its attributes.
    labels: Vec<HashSet<String>>,
    attributes: Vec<HashSet<String>>,
    /// The words of the question, and those of them that no option has.
    question: HashSet<String>,
    asked: HashSet<String>,
}

fn readings<'a>(clarification: &'a Clarification, answer: &'a str) -> Vec<Reading<'a>> {
    let asked_in = tongue(&clarification.question, Tongue::English);
    let mut tongues = vec![tongue(answer, asked_in), asked_in];
    tongues.extend(Tongue::ALL);
    let mut seen = HashSet::new();
    tongues.retain(|tongue| seen.insert(*tongue));
    tongues.into_iter().map(|tongue| Reading::of(clarification, answer, tongue)).collect()
}

impl<'a> Reading<'a> {
    fn of(clarification: &'a Clarification, text: &'a str, tongue: Tongue) -> Self {
        let options = &clarification.options[..];
        let labels: Vec<_> = options.iter().map(|option| keys(&option.label, tongue)).collect();
        let known = |option: &ChoiceOption| option.attributes.values().flat_map(|value| keys(value, tongue)).collect();
        let attributes: Vec<HashSet<String>> = options.iter().map(known).collect();
        let question = keys(&clarification.question, tongue);
        let mut asked = question.clone();
        asked.retain(|word| !labels.iter().chain(&attributes).any(|option| option.contains(word)));
        Self {
            options,
            table: Table::of(tongue),
            tongue,
            text,
            words: spans(text).collect(),
            labels,
            attributes,
            question,
            asked,
        }
    }

    /// The same for a part of the answer.
    fn part(&self, text: &'a str) -> Self {
        Reading {
            text,
            words: spans(text).collect(),
            labels: self.labels.clone(),
            attributes: self.attributes.clone(),
            question: self.question.clone(),
            asked: self.asked.clone(),
            ..*self
        }
    }

    /// Whether somebody asks instead of answering.
    fn asks(&self) -> bool {
        let first = self.words.first().is_some_and(|word| self.table.asking.contains(&*word.text));
        let doubts = self.text.trim_end().ends_with(['?', '？']) && self.words.len() > DOUBTING_WORDS_MAX;
        (first || doubts) && self.table.polite.end_at(&self.words, 0).is_none()
    }

    /// Whether the answer may do nothing but choose.
    fn may_choose(&self) -> bool {
        (1..=WORDS_MAX).contains(&self.words.len()) && !self.asks()
    }

    /// Whether something is not wanted. "No. 2" is a place.
    fn refuses(&self) -> bool {
        let is_place = |at: usize| {
            let next = self.words.get(at + 1).map_or("", |word| &*word.text);
            self.table.place.contains(&*self.words[at].text) && next.parse::<usize>().is_ok()
        };
        let mut words = self.words.iter().enumerate();
        words.any(|(at, word)| self.table.not.contains(&*word.text) && !is_place(at))
    }

    fn is_filler(&self, word: &str) -> bool {
        self.table.fillers.contains(word) || is_stop(word, self.tongue)
    }

    /// Whether a word says nothing about which option is meant.
    fn is_noise(&self, word: &str) -> bool {
        let key = key(word, self.tongue);
        let in_all = self.labels.iter().all(|label| label.contains(&key));
        self.is_filler(word) || self.question.contains(&key) || in_all
    }

    /// Words that say which option is meant.
    fn telling(&self) -> HashSet<String> {
        let in_label = |key: &String| self.labels.iter().any(|label| label.contains(key));
        let keyed = self.words.iter().map(|word| (&*word.text, key(&word.text, self.tongue)));
        let telling = keyed.filter(|(word, key)| in_label(key) || !(self.is_filler(word) || self.asked.contains(key)));
        telling.map(|(_, key)| key).collect()
    }

    /// "Both", "all three", "neither of them".
    fn all_or_none(&self) -> Found {
        if !self.may_choose() {
            return Found::Nothing;
        }
        let count = self.options.len();
        if self.table.neither.end_at(&self.words, 0) == Some(self.words.len()) {
            return Found::These(Vec::new(), By::Neither);
        }
        let (both, all) = (self.are_but(&self.table.both), self.are_but(&self.table.all));
        let said = self.words.iter().filter_map(|word| number(&word.text, self.tongue)).find(|number| *number > 1);
        match (both, all) {
            (false, false) => Found::Nothing,
            _ if self.refuses() => Found::Unclear,
            (true, _) if count != 2 => Found::Unclear,
            (_, true) if said.is_some_and(|said| usize::from(said) != count) => Found::Unclear,
            _ => Found::These((0..count).collect(), By::All),
        }
    }

    /// Whether these phrases are in the answer, and nothing else but words that say nothing, and numbers.
    fn are_but(&self, phrases: &crate::language::Phrases) -> bool {
        let found = phrases.found(&self.words);
        let is_inside = |at: usize| found.iter().any(|range| range.contains(&at));
        let says_nothing = |word: &str| self.is_noise(word) || number(word, self.tongue).is_some();
        let rest = self.words.iter().enumerate().filter(|(at, _)| !is_inside(*at));
        !found.is_empty() && rest.into_iter().all(|(_, word)| says_nothing(&word.text))
    }

    /// "The second one", "2", "option b", "the first two", "1 and 3".
    fn places(&self) -> Found {
        if !self.may_choose() || self.refuses() {
            return Found::Nothing;
        }
        let whole = self.place();
        if whole != Found::Nothing {
            return whole;
        }
        let parts = self.parts();
        let found: Vec<Found> = parts.iter().map(|part| self.part(part).place()).collect();
        if parts.len() < 2 { Found::Nothing } else { united(found) }
    }

    fn place(&self) -> Found {
        let (words, count) = (&self.words, self.options.len());
        if let Some(range) = self.run_of_places() {
            return if range.end <= count { Found::These(range.collect(), By::Ordinal) } else { Found::Nothing };
        }
        let penultimate = self.table.before_last.found(words).pop();
        if penultimate.is_some_and(|range| self.only(range)) {
            return Found::These(vec![count - 2], By::Ordinal);
        }
        if self.table.last.found(words).pop().is_some_and(|range| self.only(range)) {
            return Found::These(vec![count - 1], By::Ordinal);
        }
        let ordinal = words.iter().position(|word| self.table.ordinal(&word.text).is_some());
        if let Some(at) = ordinal.filter(|at| self.only(*at..at + 1)) {
            let place = self.table.ordinal(&words[at].text).filter(|place| *place < count);
            return place.map_or(Found::Nothing, |place| Found::These(vec![place], By::Ordinal));
        }
        self.numbered()
    }

    /// "The first two", "the last three".
    fn run_of_places(&self) -> Option<std::ops::Range<usize>> {
        let at = self.words.windows(2).position(|pair| {
            let first = self.table.ordinal(&pair[0].text) == Some(0) || self.table.last.end_at(&pair[..1], 0).is_some();
            first && self.count_at(&pair[1].text).is_some_and(|count| count > 1)
        })?;
        let many = self.count_at(&self.words[at + 1].text)?;
        let from_start = self.table.ordinal(&self.words[at].text) == Some(0);
        let count = self.options.len();
        self.only(at..at + 2).then(|| if from_start { 0..many } else { count.saturating_sub(many)..count.max(many) })
    }

    fn count_at(&self, word: &str) -> Option<usize> {
        word.parse().ok().or_else(|| number(word, self.tongue).map(usize::from))
    }

    /// Whether the answer says nothing but these words.
    fn only(&self, range: std::ops::Range<usize>) -> bool {
        let is_word_of_place = |word: &str| self.table.place.contains(word);
        let mut rest = self.words.iter().enumerate().filter(|(at, _)| !range.contains(at));
        rest.all(|(_, word)| self.is_noise(&word.text) || is_word_of_place(&word.text))
    }

    /// "2", "#2", "number two", "option b", "b)".
    fn numbered(&self) -> Found {
        let after_word = self
            .words
            .windows(2)
            .position(|pair| self.table.place.contains(&*pair[0].text) && self.position(&pair[1].text, true).is_some());
        if let Some(at) = after_word.map(|at| at + 1).filter(|at| self.only(*at..at + 1)) {
            return match self.at_place(self.position(&self.words[at].text, true)) {
                Found::Nothing => Found::Unclear,
                found => found,
            };
        }
        let first = self.words.first().map_or("", |word| &*word.text);
        let last = self.words.last().map_or("", |word| &*word.text);
        let marked = self.text.trim_start().starts_with(['#', '(']) || is_marked(self.text, &self.words);
        match self.words.len() {
            1 => self.bare(self.position(first, true), first, marked),
            2 if self.is_filler(last) && (self.position(first, false).is_some() || marked) => {
                self.bare(self.position(first, marked), first, marked)
            }
            2 if self.is_filler(first) => self.bare(self.position(last, false), last, marked),
            _ => Found::Nothing,
        }
    }

    fn at_place(&self, place: Option<usize>) -> Found {
        let place = place.filter(|place| *place < self.options.len());
        place.map_or(Found::Nothing, |place| Found::These(vec![place], By::Number))
    }

    /// A number that nothing says is a place: it may be part of a name as well.
    fn bare(&self, place: Option<usize>, word: &str, marked: bool) -> Found {
        let key = key(word, self.tongue);
        let has = |at: &usize| self.labels[*at].contains(&key) || self.attributes[*at].contains(&key);
        let named: Vec<usize> = (0..self.options.len()).filter(has).collect();
        match self.at_place(place) {
            Found::These(these, by) if marked || named.is_empty() || named == these => Found::These(these, by),
            Found::These(..) => Found::Unclear,
            other => other,
        }
    }

    /// The place that a number, a number word or a letter stands for.
    fn position(&self, word: &str, in_words: bool) -> Option<usize> {
        let digits = word.parse::<usize>().ok();
        let named = || number(word, self.tongue).map(usize::from).filter(|_| in_words);
        let letter = || {
            let mut letters = word.chars();
            let letter = letters.next().filter(|letter| in_words && letter.is_ascii_lowercase());
            letter.filter(|_| letters.next().is_none()).map(|letter| (letter as usize) - ('a' as usize) + 1)
        };
        digits.or_else(named).or_else(letter)?.checked_sub(1)
    }

    fn names(&self) -> Found {
        self.by_words(&self.labels, By::Name)
    }

    fn attributes(&self) -> Found {
        let all = self.labels.iter().zip(&self.attributes).map(|(label, more)| label.union(more).cloned().collect());
        self.by_words(&all.collect::<Vec<_>>(), By::Attribute)
    }

    /// The one option that has all words that tell.
    fn by_words(&self, options: &[HashSet<String>], by: By) -> Found {
        let telling = self.telling();
        if telling.is_empty() || !self.may_choose() || self.refuses() {
            return Found::Nothing;
        }
        let fitting: Vec<usize> = (0..options.len()).filter(|at| telling.is_subset(&options[*at])).collect();
        let whole: Vec<usize> = fitting.iter().copied().filter(|at| self.labels[*at] == telling).collect();
        match (fitting.len(), whole.len()) {
            (0, _) => Found::Nothing,
            (1, _) => Found::These(fitting, by),
            (_, 1) => Found::These(whole, by),
            _ => Found::Unclear,
        }
    }

    /// "The cheaper one", "the biggest".
    fn comparison(&self) -> Found {
        if !self.may_choose() || self.refuses() {
            return Found::Nothing;
        }
        let says_nothing = |word: &str| self.is_noise(word);
        match extreme(self.options, self.table, &self.words, says_nothing) {
            Some(at) => Found::These(vec![at], By::Comparison),
            None => Found::Nothing,
        }
    }

    /// "The blue and the red one": each part means one.
    fn both_parts(&self) -> Found {
        let parts = self.parts();
        if parts.len() < 2 || !self.may_choose() || self.refuses() {
            return Found::Nothing;
        }
        let single = |part: &&'a str| {
            let part = self.part(part);
            let ways: [Way<'a>; 3] = [Self::place, Self::names, Self::attributes];
            ways.into_iter().map(|way| way(&part)).find(|found| *found != Found::Nothing).unwrap_or(Found::Nothing)
        };
        united(parts.iter().map(single).collect())
    }

    /// The answer, cut at its commas and ands.
    fn parts(&self) -> Vec<&'a str> {
        let mut parts = Vec::new();
        let mut from = 0;
        for word in self.words.iter().filter(|word| self.table.and.contains(&*word.text)) {
            parts.push(&self.text[from..word.at.start]);
            from = word.at.end;
        }
        parts.push(&self.text[from..]);
        let parts = parts.into_iter().flat_map(|part| part.split([',', '+', '&', ';']));
        parts.map(str::trim).filter(|part| part.contains(char::is_alphanumeric)).collect()
    }

    fn close_matches(&self) -> Found {
        if !self.may_choose() || self.refuses() {
            return Found::Nothing;
        }
        let said: Vec<&str> = self.words.iter().map(|word| &*word.text).filter(|word| !self.is_noise(word)).collect();
        let fits = |at: &usize| nearly(&said, &self.options[*at].label);
        let fitting: Vec<usize> = (0..self.options.len()).filter(fits).collect();
        match fitting.len() {
            0 => Found::Nothing,
            1 => Found::These(fitting, By::CloseMatch),
            _ => Found::Unclear,
        }
    }

    /// "The second one, and what does it cost?": a clear choice, then something else.
    fn first_clause(&self) -> Found {
        let Some(head) = self.parts().first().copied().and_then(|head| head.split(['.', '!']).next()) else {
            return Found::Nothing;
        };
        let clause = self.part(head);
        if head.len() == self.text.len() || clause.words.len() < 2 || !clause.may_choose() || clause.refuses() {
            return Found::Nothing;
        }
        let whole = |found: &Found| match found {
            Found::These(these, By::Name) => these.iter().all(|at| self.labels[*at] == clause.telling()),
            _ => true,
        };
        match clause.place() {
            Found::Nothing => Some(clause.names()).filter(whole).unwrap_or(Found::Nothing),
            found => found,
        }
    }
}

/// What all parts together mean, if each means something.
fn united(parts: Vec<Found>) -> Found {
    let mut all: Vec<usize> = Vec::new();
    let mut told_by = None;
    for part in parts {
        match part {
            Found::These(these, by) => {
                all.extend(these);
                told_by.get_or_insert(by);
            }
            other => return other,
        }
    }
    all.sort_unstable();
    all.dedup();
    told_by.map_or(Found::Nothing, |by| Found::These(all, by))
}

/// Whether the first word is followed by the mark of a list: `b)`, `2.`
fn is_marked(text: &str, words: &[Word<'_>]) -> bool {
    words.first().is_some_and(|word| text[word.at.end..].starts_with([')', '.', ',', ':']))
}

/// The words of a text that can tell it from others; all of them if none can.
fn keys(text: &str, tongue: Tongue) -> HashSet<String> {
    let told: HashSet<String> =
        spans(text).filter(|word| !is_stop(&word.text, tongue)).map(|word| key(&word.text, tongue)).collect();
    if told.is_empty() { spans(text).map(|word| key(&word.text, tongue)).collect() } else { told }
}

/// A word without its ending and accents, so that "blauwe" is "blauw".
fn key(word: &str, tongue: Tongue) -> String {
    super::close::plain(&term(word, tongue))
}
