//! What a message states about whoever wrote it, found by patterns, without a model.
//!
//! Precise rather than greedy: a fact that is missed is said again one day, a wrong one is believed. A pattern is contiguous and
//! in the first person, and what may stand before it is listed, so that most of what is no statement never matches.
//!
//! Reading order: the nouns here, `token` (words and marks), `table` (how a language says it; one file per language),
//! `pattern` and `slot` (where a value begins and ends), `frame` (how it is said), `clause` (which words belong to it), `state` (from a match to a proposal).

mod clause;
mod frame;
mod pattern;
mod slot;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod token;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::clause::own_clause;
use self::frame::{Frame, asks, frame};
use self::pattern::Found;
use self::slot::View;
use self::state::{Said, proposals};
use self::table::{Rule, Table};
use self::token::{ASKED, ends, is_mark, spelled, tokens};
use super::own::{self, Foreign};
use super::{Act, Category, Proposal, Refusal, masked};
use crate::language::{Phrases, Tongue, Word, tongue};

/// Facts of one message.
const PROPOSALS_MAX: usize = 32;
/// Refusals of one message.
const REFUSED_MAX: usize = 32;
/// Words of a sentence that are read.
const SENTENCE_WORDS_MAX: usize = 120;
/// Bytes of a refusal's quote.
const REFUSED_BYTES_MAX: usize = 160;

/// What was heard, and what is needed to understand it.
#[derive(Debug, Clone)]
pub struct Heard<'a> {
    /// The user's own message, out of its wrapper and without reminders.
    pub text: &'a str,
    /// When it was said.
    pub said_at: Timestamp,
    /// Where the user's days begin and end.
    pub zone: TimeZone,
    /// What the model said before, newest last: whoever copies it has not said it.
    pub echoes: &'a [&'a str],
}

/// What was understood of a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extracted {
    /// Facts that it may have stated, in the order in which they were said.
    pub proposals: Vec<Proposal>,
    /// What looked like one and was none.
    pub refused: Vec<Refused>,
}

/// Words that looked like a fact and were not taken for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Refusal,
    /// The words, secrets masked.
    pub quote: String,
}

/// Finds what a message states. The same message gives the same facts.
pub fn extract(heard: &Heard<'_>) -> Extracted {
    let text = own::read_part(heard.text);
    let foreign = own::foreign(text);
    let own = own::blanked(text, &foreign);
    let mut reader = Reader { heard, foreign: &foreign, extracted: Extracted::default() };
    reader.read(&own, None);
    // What others wrote is looked at only to say what was left out, and why.
    for part in &foreign {
        reader.read(&text[part.at.clone()], Some(part.why));
    }
    reader.extracted
}

/// Whether the built-in reads the same fact in the same message.
pub(super) fn agrees(proposal: &Proposal, heard: &Heard<'_>) -> bool {
    let is_same = |one: &Proposal| {
        let value = one.value.to_lowercase() == proposal.value.to_lowercase();
        one.key == proposal.key && one.act == proposal.act && value
    };
    extract(heard).proposals.iter().any(is_same)
}

/// Why the sentence that holds a quote speaks against being a statement about the user: it is a question, supposed, reported, or about
/// somebody else. A coarse look, for what the patterns do not know.
pub(super) fn stance(line: &str, proposal: &Proposal) -> Option<Refusal> {
    let tongue = tongue(line, Tongue::default());
    let words = tokens(line);
    let sentences = sentences(&words);
    let quoted = tokens(&proposal.quote);
    let held = sentences.iter().position(|sentence| holds(sentence, &quoted)).unwrap_or(0);
    let sentence = sentences.get(held)?;
    let view = View::new(line, spelled(sentence.words, &Table::of(tongue).spelling), tongue);
    let is_wish = proposal.key.category == Category::Instruction;
    let denied = Context::of(&sentences, tongue).denies(held).or_else(|| frame::stance(&view, 0..view.words.len()));
    denied
        .filter(|reason| !is_wish || *reason != Refusal::Question)
        .or((sentence.asks && !is_wish).then_some(Refusal::Question))
        .or((!is_wish && frame::is_about_others(&view, &proposal.key)).then_some(Refusal::NotFirstPerson))
}

/// Whether a sentence holds the first words of a quote.
fn holds(sentence: &Sentence<'_, '_>, quoted: &[Word<'_>]) -> bool {
    let begins: Vec<&str> = quoted.iter().take(4).map(|word| &*word.text).collect();
    let same = |words: &[Word<'_>]| words.iter().map(|word| &*word.text).eq(begins.iter().copied());
    !begins.is_empty() && sentence.words.windows(begins.len()).any(same)
}

struct Reader<'a> {
    heard: &'a Heard<'a>,
    foreign: &'a [Foreign],
    extracted: Extracted,
}

/// A sentence: its words, where they begin and end, and whether it is a question.
struct Sentence<'w, 'a> {
    words: &'w [Word<'a>],
    asks: bool,
}

impl Reader<'_> {
    fn read(&mut self, text: &str, foreign: Option<Refusal>) {
        let words = tokens(text);
        let sentences = sentences(&words);
        let mut contexts: [Option<Context>; 5] = [None; 5];
        for (number, sentence) in sentences.iter().enumerate() {
            for tongue in signed(sentence.words) {
                let table = Table::of(tongue);
                let view = View::new(text, spelled(sentence.words, &table.spelling), tongue);
                let found = scan(&view, sentence.asks);
                if found.is_empty() {
                    continue;
                }
                let context = contexts[tongue as usize].get_or_insert_with(|| Context::of(&sentences, tongue));
                let denied = foreign.or_else(|| context.denies(number));
                for match_ in found {
                    self.take(&view, match_, denied);
                }
            }
        }
    }

    /// Keeps what a match states, or why it states nothing.
    fn take(&mut self, view: &View<'_>, found: Match<'_>, denied: Option<Refusal>) {
        let quote = quote(view, &found, self.foreign.is_empty());
        let said = match (denied, found.frame) {
            (Some(reason), _) | (None, Err(reason)) => Err(reason),
            (None, Ok(frame)) => {
                let said = Said { view, rule: found.rule, found: &found.found, frame, quote };
                proposals(&said, self.heard)
            }
        };
        match said {
            Ok(proposals) => proposals.into_iter().for_each(|proposal| self.propose(proposal)),
            Err(reason) => self.refuse(reason, quote),
        }
    }

    fn propose(&mut self, proposal: Proposal) {
        let all = &mut self.extracted.proposals;
        let known =
            all.iter().any(|one| one.key == proposal.key && one.act == proposal.act && one.value == proposal.value);
        if all.len() < PROPOSALS_MAX && !known {
            all.push(proposal.masked());
        }
    }

    fn refuse(&mut self, reason: Refusal, quote: &str) {
        let quote = masked(own::cut(quote, REFUSED_BYTES_MAX)).into_owned();
        let all = &mut self.extracted.refused;
        if all.len() < REFUSED_MAX && !all.iter().any(|one| one.quote == quote) {
            all.push(Refused { reason, quote });
        }
    }
}

/// A rule that was found in a sentence.
struct Match<'t> {
    rule: &'t Rule,
    found: Found,
    frame: Result<Frame, Refusal>,
}

/// The rules that a sentence follows, in the order of its words.
fn scan(view: &View<'_>, is_question: bool) -> Vec<Match<'static>> {
    let mut matches: Vec<Match<'static>> = Vec::new();
    for at in 0..view.words.len() {
        matches.extend(found_at(view, at).into_iter().map(|found| judged(view, found, is_question)));
    }
    if matches.iter().any(|one| one.frame.is_ok()) {
        matches.extend(implied(view, is_question));
    }
    matches
}

fn judged(view: &View<'_>, (rule, found): (&'static Rule, Found), is_question: bool) -> Match<'static> {
    let mut frame = frame(view, found.at.start);
    let in_play = || view.table.fiction.are_in(&view.words) || view.table.played.are_in(&view.words);
    if let Ok(how) = frame {
        let asked = is_question && !rule.manner.asked && !how.notes && !how.ends && asks(view, found.at.end);
        frame = match () {
            () if asked => Err(Refusal::Question),
            () if in_play() => Err(Refusal::Hypothetical),
            // A wish begins its sentence or its clause: "they laugh and always make us smile" is none.
            () if rule.category == Category::Instruction && !begins(view, how.start) => Err(Refusal::Aside),
            () if is_once(view, rule, &found) => Err(Refusal::Temporary),
            () => Ok(how),
        };
    }
    Match { rule, found, frame }
}

/// "Be brief in this summary" is about one answer, "I use Vim in this container" about one machine.
fn is_once(view: &View<'_>, rule: &Rule, found: &Found) -> bool {
    let clause = || view.words.get(found.at.end..own_clause(view, found.at.clone()).end).unwrap_or_default();
    match rule.category {
        // It says itself until when.
        _ if rule.manner.brief => false,
        Category::Identity => false,
        Category::Instruction => view.table.once.are_in(&view.words[found.at.start..]),
        Category::Preference | Category::Constraint => rule.act == Act::State && view.table.once.are_in(clause()),
    }
}

fn begins(view: &View<'_>, start: usize) -> bool {
    start.checked_sub(1).is_none_or(|before| is_mark(&view.words[before]))
}

/// The rules whose words begin at `at`, longest first; of one key only the longest.
fn found_at(view: &View<'_>, at: usize) -> Vec<(&'static Rule, Found)> {
    let table = view.table;
    let Some(anchored) = table.anchors.get(view.word(at)) else { return Vec::new() };
    let find = |(rule, way): &(usize, usize)| {
        let rule = &table.rule[*rule];
        let found = rule.say[*way].find(view, at)?;
        let next = view.words.get(found.at.end);
        let closed = next.is_none_or(|word| is_mark(word) || closes(table, word)) || !rule.manner.closed;
        let ended = next.is_none_or(|word| is_mark(word) || ends_clause(table, word)) || !rule.manner.ended;
        let begins = |(_, values): &(_, Vec<Range<usize>>)| {
            values.first().is_some_and(|value| rule.unless.end_at(&view.words, value.start).is_some())
        };
        let excepted = found.held.iter().any(begins)
            || rule.unless.end_at(&view.words, found.at.start).is_some()
            || rule.unless_then.end_at(&view.words, found.at.end).is_some();
        (closed && ended && !excepted).then_some((rule, found))
    };
    let mut all: Vec<(&Rule, Found)> = anchored.iter().filter_map(find).collect();
    all.sort_by_key(|(_, found)| std::cmp::Reverse(found.at.end));
    let special = all.iter().any(|(rule, _)| !rule.manner.fallback);
    all.retain(|(rule, _)| !special || !rule.manner.fallback);
    let mut kept: Vec<(&Rule, Found)> = Vec::new();
    for (rule, found) in all {
        if !kept.iter().any(|(other, _)| is_same_key(other, rule)) {
            kept.push((rule, found));
        }
    }
    kept
}

fn is_same_key(one: &Rule, other: &Rule) -> bool {
    (one.category, &one.name, &one.item, one.shape) == (other.category, &other.name, &other.item, other.shape)
}

fn ends_clause(table: &Table, word: &Word<'_>) -> bool {
    [&table.clause, &table.join, &table.harmless].iter().any(|words| words.contains(&*word.text))
}

fn closes(table: &Table, word: &Word<'_>) -> bool {
    table.clause.contains(&*word.text) || table.join.contains(&*word.text) || table.stop.contains(&*word.text)
}

/// What is stated without its subject: "I live in Porto and work as a nurse".
fn implied(view: &View<'_>, is_question: bool) -> Vec<Match<'static>> {
    let Some(subject) = view.table.implied.iter().find(|subject| view.words.iter().any(|word| word.text == ***subject))
    else {
        return Vec::new();
    };
    let mut matches = Vec::new();
    for (at, _) in view.words.iter().enumerate().filter(|(_, word)| view.table.join.contains(&*word.text)) {
        let mut words: Vec<Word<'_>> = view.words[at..].to_vec();
        words[0].text = subject.clone().into();
        let rest = View::new(view.text, words, view.tongue);
        if rest.words.len() > 1 && !view.table.subject.contains(rest.word(1)) {
            matches.extend(found_at(&rest, 0).into_iter().map(|(rule, mut found)| {
                let mut one = judged(&rest, (rule, found.clone()), is_question);
                found.at = found.at.start + at..found.at.end + at;
                let shift = |range: &Range<usize>| range.start + at..range.end + at;
                for (_, values) in &mut found.held {
                    values.iter_mut().for_each(|value| *value = shift(value));
                }
                // What holds for the clause before holds on.
                one.frame =
                    one.frame.and_then(|_| frame(view, at + 1).map(|_| Frame { start: at, ..Frame::default() }));
                Match { found, ..one }
            }));
        }
    }
    matches
}

/// The words a fact was read from: its sentence, unless that is long or holds what others wrote.
fn quote<'v>(view: &'v View<'_>, found: &Match<'_>, all_own: bool) -> &'v str {
    let start = found.frame.map_or(found.found.at.start, |frame| frame.start);
    let whole = view.written(0..view.words.len());
    let part = view.written(start..found.found.at.end);
    let quote = if all_own && whole.len() <= super::QUOTE_BYTES_MAX / 2 { whole } else { part };
    own::cut(quote, super::QUOTE_BYTES_MAX).trim()
}

/// What the rest of a message says about its sentences.
#[derive(Debug, Clone, Copy)]
struct Context {
    /// The first sentence that begins a play or a story.
    played: Option<usize>,
    /// Whether the message asks about its own wording.
    about_text: bool,
}

impl Context {
    fn of(sentences: &[Sentence<'_, '_>], tongue: Tongue) -> Context {
        let table = Table::of(tongue);
        let says =
            |phrases: &Phrases, sentence: &Sentence<'_, '_>| phrases.are_in(&spelled(sentence.words, &table.spelling));
        let played = sentences.iter().position(|sentence| says(&table.played, sentence));
        let about_text = sentences.iter().any(|sentence| says(&table.about_text, sentence));
        Context { played, about_text }
    }

    fn denies(&self, number: usize) -> Option<Refusal> {
        match self.played {
            _ if self.about_text => Some(Refusal::TaskText),
            Some(begun) if begun < number => Some(Refusal::Hypothetical),
            _ => None,
        }
    }
}

/// The sentences of a text. An endless one is cut.
fn sentences<'w, 'a>(words: &'w [Word<'a>]) -> Vec<Sentence<'w, 'a>> {
    let whole = words.split_inclusive(ends);
    let cut = whole.flat_map(|sentence| {
        let asks = sentence.last().is_some_and(|last| last.text == ASKED);
        let words =
            sentence.strip_suffix(sentence.last().filter(|last| ends(last)).map_or(&[][..], std::slice::from_ref));
        words.unwrap_or(sentence).chunks(SENTENCE_WORDS_MAX).map(move |words| Sentence { words, asks })
    });
    cut.collect()
}

/// The languages of which a word that may begin a pattern is among these.
fn signed(words: &[Word<'_>]) -> impl Iterator<Item = Tongue> {
    static SIGNS: LazyLock<HashMap<&str, u8>> = LazyLock::new(|| {
        let mut signs = HashMap::new();
        for tongue in Tongue::ALL {
            for word in &Table::of(tongue).signs {
                *signs.entry(word.as_str()).or_default() |= 1 << tongue as u8;
            }
        }
        signs
    });
    let mask = words.iter().filter_map(|word| SIGNS.get(&*word.text)).fold(0, |mask, sign| mask | sign);
    Tongue::ALL.into_iter().filter(move |tongue| mask & (1 << *tongue as u8) != 0)
}
