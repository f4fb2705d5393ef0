//! What may stand in a slot, and where it ends. Here values are cut out: without articles, trailing clauses or asides, in
//! the letters in which they were written.

use std::ops::Range;

use super::pattern::bits;
use super::table::Table;
use super::token::{COMMA, is_mark};
use crate::language::{Phrase, Tongue, Word, is_stop, month_or_short, number};

/// Words of a value.
const VALUE_WORDS_MAX: usize = 7;
/// Words of a name.
const NAME_WORDS_MAX: usize = 5;
/// Words of a rule.
const RULE_WORDS_MAX: usize = 24;
/// Values of a list.
const LIST_MAX: usize = 12;

/// The list of relatives, and that of words for keys: both say what their words mean.
pub(super) const RELATION: &str = "relation";
pub(super) const KEY: &str = "key";
/// The list of animals.
pub(super) const ANIMAL: &str = "animal";

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// A person's name, or a pet's.
    Name,
    /// The same, written with a capital.
    Proper,
    /// The same, with a capital unless the whole message has none.
    Nick,
    /// The same after a greeting, where nobody writes capitals.
    Greeted,
    Place,
    /// The same, written with a capital.
    Town,
    /// A company, a school.
    Org,
    /// The same, written with a capital.
    Firm,
    /// Anything short.
    Thing,
    /// Several of those: "jazz, blues and soul".
    Things,
    /// An occupation: its last word is in the table.
    Job,
    /// How many: a number, an article.
    Count,
    /// Years of age.
    Age,
    /// A day of the calendar.
    Day,
    /// An amount of money.
    Money,
    /// What is said up to the end of the clause.
    Rest,
    /// The same, beginning with a word that says when.
    Time,
    /// A wish for how to behave: up to the end of the sentence, beginning with a verb of the table.
    Rule,
    /// One of a list in the table, by name.
    Listed(String),
    /// Several of those.
    AllListed(String),
    /// A name that begins with one of a list: a maker and its model.
    Made(String),
}

impl Slot {
    pub(super) fn read(name: &str) -> Slot {
        match name {
            "name" => Slot::Name,
            "proper" => Slot::Proper,
            "nick" => Slot::Nick,
            "greeted" => Slot::Greeted,
            "place" => Slot::Place,
            "town" => Slot::Town,
            "firm" => Slot::Firm,
            "org" => Slot::Org,
            "thing" => Slot::Thing,
            "things" => Slot::Things,
            "job" => Slot::Job,
            "count" => Slot::Count,
            "age" => Slot::Age,
            "day" => Slot::Day,
            "money" => Slot::Money,
            "rest" => Slot::Rest,
            "time" => Slot::Time,
            "rule" => Slot::Rule,
            _ => match (name.strip_suffix('+'), name.strip_suffix('~')) {
                (Some(list), _) => Slot::AllListed(list.to_owned()),
                (_, Some(list)) => Slot::Made(list.to_owned()),
                _ => Slot::Listed(name.to_owned()),
            },
        }
    }
}

/// How a name must be written to be one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelt {
    Anyhow,
    Capital,
    Greeted,
}

/// Words of a text as one language sees them.
pub(super) struct View<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<Word<'a>>,
    /// Which words there are, for a quick look.
    pub(super) bits: u128,
    pub(super) table: &'static Table,
    pub(super) tongue: Tongue,
}

impl<'a> View<'a> {
    pub(super) fn new(text: &'a str, words: Vec<Word<'a>>, tongue: Tongue) -> Self {
        let bits = bits(words.iter().map(|word| &*word.text));
        Self { text, words, bits, table: Table::of(tongue), tongue }
    }
}

/// What a slot holds, and the word after it.
pub(super) struct Read {
    pub(super) values: Vec<Range<usize>>,
    pub(super) end: usize,
}

impl Read {
    fn one(value: Range<usize>, end: usize) -> Option<Read> {
        (!value.is_empty()).then(|| Read { values: vec![value], end })
    }
}

impl View<'_> {
    /// What a slot holds from word `at` on, before word `limit`.
    pub(super) fn read(&self, slot: &Slot, at: usize, limit: usize) -> Option<Read> {
        match slot {
            Slot::Name => self.name(at, limit, Spelt::Anyhow),
            Slot::Proper => self.name(at, limit, Spelt::Capital),
            Slot::Nick if self.text.contains(char::is_uppercase) => self.name(at, limit, Spelt::Capital),
            Slot::Nick => self.name(at, limit, Spelt::Anyhow),
            Slot::Greeted => self.name(at, limit, Spelt::Greeted),
            Slot::Place => self.place(at, limit),
            Slot::Town => self.place(at, limit).filter(|read| self.is_capital(read.values[0].start)),
            Slot::Org => self.org(at, limit),
            Slot::Firm => self.org(at, limit).filter(|read| self.is_capital(read.values[0].start)),
            Slot::Thing => self.thing(at, limit).and_then(|(value, end)| Read::one(value, end)),
            Slot::Things => self.listed(at, limit, |at, limit| self.thing(at, limit)),
            Slot::Job => self.job(at, limit),
            Slot::Count => self.count(at, limit),
            Slot::Age => self.age(at, limit),
            Slot::Day => self.day(at, limit),
            Slot::Money => self.money(at, limit),
            Slot::Rest => self.rest(at, limit),
            Slot::Time => self.table.list("when")?.end_at(&self.words, at).and_then(|_| self.rest(at, limit)),
            Slot::Rule => self.rule(at, limit),
            Slot::Listed(list) => self.known(list, at, limit).and_then(|(value, end)| Read::one(value, end)),
            Slot::AllListed(list) => self.listed(at, limit, |at, limit| self.known(list, at, limit)),
            Slot::Made(list) => self.made(list, at, limit),
        }
    }

    /// What a slot holds that words of its pattern follow: the nearest ones.
    pub(super) fn read_until(&self, slot: &Slot, at: usize, after: &Phrase, words_max: usize) -> Option<Read> {
        let last = self.words.len().min(at + words_max);
        (at + 1..=last).find_map(|limit| {
            after.end_at(&self.words, limit)?;
            self.read(slot, at, limit).filter(|read| read.end == limit)
        })
    }

    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &word.text)
    }

    /// The words as they were written.
    pub(super) fn written(&self, words: Range<usize>) -> &str {
        match self.words.get(words) {
            Some([first, .., last]) => &self.text[first.at.start..last.at.end.max(first.at.start)],
            Some([only]) => &self.text[only.at.clone()],
            _ => "",
        }
    }

    fn is_capital(&self, at: usize) -> bool {
        self.words.get(at).is_some_and(|word| {
            !is_mark(word) && self.text[word.at.clone()].starts_with(|c: char| c.is_uppercase() || c.is_numeric())
        })
    }

    fn is_end(&self, at: usize, limit: usize) -> bool {
        limit <= at || self.words.get(at).is_none_or(is_mark)
    }

    /// Whether a value cannot go on with this word.
    fn stops(&self, at: usize, limit: usize) -> bool {
        self.is_end(at, limit) || self.table.stop.contains(self.word(at)) || self.table.join.contains(self.word(at))
    }

    /// Where the clause that ends before `at` begins.
    pub(super) fn clause_start(&self, at: usize) -> usize {
        let begins = |word: &Word<'_>| is_mark(word) || self.table.clause.contains(&*word.text);
        self.words[..at].iter().rposition(begins).map_or(0, |mark| mark + 1)
    }

    /// Words with a capital, and those between them that names are joined by.
    fn capitals(&self, at: usize, limit: usize, words_max: usize) -> usize {
        self.joined_capitals(at, limit, words_max, |word| self.table.particles.contains(word))
    }

    fn joined_capitals(&self, at: usize, limit: usize, words_max: usize, joins: impl Fn(&str) -> bool) -> usize {
        let is_name = |at: usize| self.is_capital(at) && !self.is_own_word(at);
        let mut end = at;
        while end < limit && end - at < words_max {
            let joined = (1..=2).find(|on| is_name(end + on)).unwrap_or(0);
            let between = (end..end + joined).all(|at| joins(self.word(at)));
            if is_name(end) {
                end += 1;
            } else if at < end && 0 < joined && between {
                end += joined;
            } else if at < end && self.word(end) == "s" && self.is_capital(end + 1) {
                end += 1;
            } else {
                break;
            }
        }
        end
    }

    /// `I`, and words that begin a clause however they are written.
    fn is_own_word(&self, at: usize) -> bool {
        self.table.subject.contains(self.word(at)) || self.table.clause.contains(self.word(at))
    }

    fn name(&self, at: usize, limit: usize, spelt: Spelt) -> Option<Read> {
        let at = self.skip(&self.table.name_head, at);
        let titled = self.table.titles.contains(self.word(at)) && self.is_capital(at);
        let first = at + usize::from(titled);
        if self.is_end(first, limit) || self.table.not_name.contains(self.word(first)) || self.is_listed_word(first) {
            return None;
        }
        let end = self.capitals(at, limit, NAME_WORDS_MAX);
        let numbered = self.word(first).starts_with(char::is_numeric);
        if first < end && !numbered {
            return Read::one(at..end, end);
        }
        if spelt == Spelt::Capital {
            return None;
        }
        // In lower case a name is one word that is nothing else, and the clause ends behind it.
        let greeted = spelt == Spelt::Greeted;
        let plain = self.word(first);
        let is_word = is_stop(plain, self.tongue) || plain.contains(char::is_numeric) || plain.chars().count() < 2;
        let alone = self.stops(first + 1, limit) || (!greeted && self.word(first + 1) == "s");
        let odd = greeted && (plain.ends_with("ing") || plain.ends_with("ed"));
        (!is_word && alone && !odd).then(|| Read::one(first..first + 1, first + 1))?
    }

    /// Words of the table that say what somebody is: nobody is called so.
    fn is_listed_word(&self, at: usize) -> bool {
        let lists = ["diet", "nation", "status", "tongue", "medical", "animal"];
        let word = self.word(at);
        let alone = |list: &&str| self.table.list(list).is_some_and(|list| list.end_at(&self.words, at).is_some());
        self.table.jobs.contains(word) || self.table.relations.contains_key(word) || lists.iter().any(alone)
    }

    /// What people move to without moving house.
    fn is_tool(&self, at: usize) -> bool {
        let named = |list: &&str| self.table.list(list).is_some_and(|list| list.end_at(&self.words, at).is_some());
        ["os", "editor", "tool"].iter().any(named) || self.word(at).starts_with(|c: char| c.is_ascii_digit())
    }

    fn place(&self, at: usize, limit: usize) -> Option<Read> {
        let first = self.skip(&self.table.place_head, at);
        let barred = self.table.not_place.contains(self.word(first)) || self.is_own_word(first) || self.is_tool(first);
        if self.is_end(first, limit) || barred {
            return None;
        }
        let end = self.capitals(first, limit, NAME_WORDS_MAX);
        let articled = at < first && self.table.articles.contains(self.word(first - 1));
        let unknown = articled && !self.table.places.contains(self.word(first));
        // Where every noun has a capital, an article shows that it is a common one.
        if first < end && !(unknown && self.tongue == Tongue::German) {
            let end = self.region(end, limit);
            return Read::one(first..end, end);
        }
        if unknown {
            return None;
        }
        let end = (first + 1..=first + 3).find(|end| self.stops(*end, limit))?;
        let common = |at: usize| is_stop(self.word(at), self.tongue) || self.table.not_place.contains(self.word(at));
        (!(first..end).any(common)).then(|| Read::one(first..end, end))?
    }

    /// "Portland, Oregon": the second name, if nothing else follows.
    fn region(&self, end: usize, limit: usize) -> usize {
        let next = self.capitals(end + 1, limit, 2);
        let is_region = end < limit && self.word(end) == COMMA && end + 1 < next && self.stops(next, limit);
        if is_region && !is_stop(self.word(end + 1), self.tongue) { next } else { end }
    }

    fn org(&self, at: usize, limit: usize) -> Option<Read> {
        let first = self.skip(&self.table.org_head, at);
        if self.is_end(first, limit) || self.table.not_org.contains(self.word(first)) {
            return None;
        }
        let joins = |word: &str| self.table.particles.contains(word) || self.table.org_particles.contains(word);
        let end = self.joined_capitals(first, limit, NAME_WORDS_MAX, joins);
        if first < end {
            return Read::one(first..end, end);
        }
        let articled = first != at && self.tongue != Tongue::German;
        let alone = !articled && self.stops(first + 1, limit) && !is_stop(self.word(first), self.tongue);
        alone.then(|| Read::one(first..first + 1, first + 1))?
    }

    /// A short value; what belongs to it and what follows it is known to the table.
    fn thing(&self, at: usize, limit: usize) -> Option<(Range<usize>, usize)> {
        let mut first = at;
        while let Some(next) = self.table.head.end_at(&self.words, first).filter(|next| *next <= limit) {
            first = next;
        }
        let bare =
            |at: usize| self.table.not_value.contains(self.word(at)) || self.table.subject.contains(self.word(at));
        if self.is_end(first, limit) || bare(first) || (first != at && self.refers(at, first)) {
            return None;
        }
        let to_do = first != at && self.table.to.contains(self.word(first - 1));
        let mut end = first;
        while !self.is_end(end, limit) && !self.ends_value(first, end, to_do) {
            if end - first == VALUE_WORDS_MAX {
                return None;
            }
            end += 1;
        }
        let value = self.without_tail(first..end);
        let has_word =
            value.clone().any(|at| !is_stop(self.word(at), self.tongue) && self.word(at).contains(char::is_alphabetic));
        let personal = value.clone().any(|at| self.table.personal.contains(self.word(at)));
        // "Sam's idea" is one thing of somebody's.
        let owned = |at: usize| at + 1 < value.end && self.word(at) == "s" && first < at && self.is_capital(at - 1);
        let personal = personal || (self.tongue == Tongue::English && value.clone().any(owned));
        (has_word && !personal).then_some((value, end))
    }

    /// "the second one", "the way you": an article before a word that points at something in the conversation.
    fn refers(&self, at: usize, first: usize) -> bool {
        let definite = (at..first).any(|at| self.table.definite.contains(self.word(at)));
        let generic = &self.table.generic;
        definite && !generic.contains("*") && !generic.contains(self.word(first)) && !self.is_capital(first)
    }

    fn ends_value(&self, first: usize, at: usize, to_do: bool) -> bool {
        if self.table.join.contains(self.word(at)) || self.table.clause.contains(self.word(at)) {
            return true;
        }
        // "being in nature", "to listen to music at night": what a doing needs comes right behind it.
        let does = to_do || self.table.doing.iter().any(|ending| self.word(first).ends_with(ending.as_str()));
        self.table.stop.contains(self.word(at)) && !(does && at == first + 1)
    }

    /// Without "a lot", "these days", "lol".
    fn without_tail(&self, mut value: Range<usize>) -> Range<usize> {
        let tail = |value: &Range<usize>| {
            (value.start + 1..value.end)
                .find(|at| self.table.tail.end_at(&self.words[..value.end], *at) == Some(value.end))
        };
        while let Some(at) = tail(&value) {
            value.end = at;
        }
        value
    }

    /// Values with commas between them and a joining word before the last. Without that word the first is all.
    fn listed<F>(&self, at: usize, limit: usize, one: F) -> Option<Read>
    where
        F: Fn(usize, usize) -> Option<(Range<usize>, usize)>,
    {
        let (first, mut end) = one(at, limit)?;
        let (mut values, mut sure, mut sure_end) = (vec![first], 1, end);
        while values.len() < LIST_MAX && end < limit {
            let comma = self.word(end) == COMMA;
            let join_at = end + usize::from(comma);
            let joined = self.table.join.contains(self.word(join_at));
            let start = join_at + usize::from(joined);
            if !(comma || joined) || self.is_clause(start, limit) {
                break;
            }
            let Some((value, next)) = one(start, limit) else { break };
            values.push(value);
            end = next;
            if joined {
                (sure, sure_end) = (values.len(), end);
            }
        }
        values.truncate(sure);
        Some(Read { values, end: sure_end })
    }

    /// Whether something new begins here rather than another value: a verb, a subject.
    fn is_clause(&self, at: usize, limit: usize) -> bool {
        let subject =
            |at: usize| self.table.subject.contains(self.word(at)) || self.table.verbs.contains(self.word(at));
        (at..limit.min(at + 4)).take_while(|at| !self.is_end(*at, limit)).any(subject)
    }

    fn job(&self, at: usize, limit: usize) -> Option<Read> {
        let first = self.skip(&self.table.job_head, at);
        let mut head = None;
        for at in first..limit.min(first + 5) {
            if self.is_end(at, limit) || is_stop(self.word(at), self.tongue) || self.table.stop.contains(self.word(at))
            {
                break;
            }
            if self.table.is_job(self.word(at)) {
                head = Some(at);
            }
        }
        let end = head? + 1;
        let possessive = self.word(end) == "s";
        let adjective = (first..end).any(|at| self.table.not_job.contains(self.word(at)));
        (!possessive && !adjective).then(|| Read::one(first..end, end))?
    }

    fn count(&self, at: usize, limit: usize) -> Option<Read> {
        let word = self.word(at);
        let counts =
            word.parse::<u16>().is_ok() || number(word, self.tongue).is_some() || self.table.articles.contains(word);
        (counts && at < limit).then(|| Read::one(at..at + 1, at + 1))?
    }

    fn age(&self, at: usize, limit: usize) -> Option<Read> {
        let word = self.word(at);
        let years = word.parse().ok().or_else(|| number(word, self.tongue).map(u32::from))?;
        let next = self.words.get(at).map_or("", |word| &self.text[word.at.end..]);
        let measured = next.trim_start().starts_with(['%', '°', '€', '$', '.', '/', ':'])
            && !next.starts_with(". ")
            && next != ".";
        let fits = (4..=110).contains(&years) && !measured && at < limit;
        fits.then(|| Read::one(at..at + 1, at + 1))?
    }

    /// "March 3rd", "14 July 1988", "3 mei".
    fn day(&self, at: usize, limit: usize) -> Option<Read> {
        let first = self.skip(&self.table.articles, at);
        let is_month = |at: usize| month_or_short(self.word(at), self.tongue).is_some();
        let is_number = |at: usize| self.word(at).starts_with(|c: char| c.is_ascii_digit());
        let is_part = |at: usize| is_month(at) || is_number(at) || self.table.of.contains(self.word(at));
        let mut end = first;
        while end < limit && end < first + 6 && (is_part(end) || (self.word(end) == COMMA && is_number(end + 1))) {
            end += 1;
        }
        let whole = (first..end).any(is_month) && (first..end).any(is_number);
        let digits = || {
            self.words.get(first).is_some_and(|word| {
                let date: &str = self.text[word.at.start..].split_whitespace().next().unwrap_or_default();
                date.matches(['/', '-', '.']).count() >= 2 && date.trim_end_matches(['.', ',', '!']).len() >= 6
            })
        };
        match whole {
            true => Read::one(first..end, end),
            false => (is_number(first) && digits())
                .then(|| Read::one(first..(first + 3).min(limit), (first + 3).min(limit)))?,
        }
    }

    fn money(&self, at: usize, limit: usize) -> Option<Read> {
        let mut end = self.table.about.end_at(&self.words, at).unwrap_or(at);
        let first = end;
        while end < limit && self.word(end).starts_with(|c: char| c.is_ascii_digit()) {
            end += 1;
        }
        if end == first {
            return None;
        }
        let named = self.table.money.contains(self.word(end));
        let end = end + usize::from(named && end < limit);
        let signed = self.text[..self.words[first].at.start].ends_with(['$', '€', '£', '¥']);
        let sign_after = self.text[self.words[end - 1].at.end..].trim_start().starts_with(['$', '€', '£', '¥']);
        (named || signed || sign_after).then(|| Read::one(first..end, end))?
    }

    fn rest(&self, at: usize, limit: usize) -> Option<Read> {
        let mut end = at;
        while !self.is_end(end, limit) && !self.table.clause.contains(self.word(end)) && end - at < VALUE_WORDS_MAX {
            end += 1;
        }
        let value = self.without_tail(at..end);
        let bare = value.clone().all(|at| is_stop(self.word(at), self.tongue));
        (!bare && self.is_end_or_clause(end, limit)).then(|| Read::one(value, end))?
    }

    fn is_end_or_clause(&self, at: usize, limit: usize) -> bool {
        self.is_end(at, limit) || self.table.clause.contains(self.word(at))
    }

    fn rule(&self, at: usize, limit: usize) -> Option<Read> {
        if !self.table.rule_verbs.contains(self.word(at)) {
            return None;
        }
        let mut end = at;
        while end < limit && !matches!(self.word(end), super::token::STOP | super::token::ASKED | super::token::BREAK) {
            end += 1;
        }
        let value = self.without_tail(at..end);
        let fits = value.len() <= RULE_WORDS_MAX && 1 < value.len();
        let points = value.clone().any(|at| self.table.here.contains(self.word(at)));
        (fits && !points).then(|| Read::one(value, end))?
    }

    /// One of a list of the table.
    fn known(&self, list: &str, at: usize, limit: usize) -> Option<(Range<usize>, usize)> {
        if list == RELATION {
            return (at < limit && self.table.relations.contains_key(self.word(at))).then_some((at..at + 1, at + 1));
        }
        if list == KEY {
            return (at < limit && self.table.keys.contains_key(self.word(at))).then_some((at..at + 1, at + 1));
        }
        let first = self.table.head.end_at(&self.words, at).filter(|next| *next < limit).unwrap_or(at);
        let list = self.table.list(list)?;
        let found = list.end_at(&self.words, first).map(|end| (first, end));
        let (first, end) = found.or_else(|| list.end_at(&self.words, at).map(|end| (at, end)))?;
        (end <= limit).then_some((first..end, end))
    }

    /// A maker and its model.
    fn made(&self, list: &str, at: usize, limit: usize) -> Option<Read> {
        let first = self.skip(&self.table.articles, at);
        let end = self.table.list(list)?.end_at(&self.words, first).filter(|end| *end <= limit)?;
        let mut end = end.max(self.capitals(first, limit, NAME_WORDS_MAX));
        while end < limit && self.word(end).contains(|c: char| c.is_ascii_digit()) {
            end += 1;
        }
        Read::one(first..end, end)
    }

    fn skip(&self, words: &std::collections::HashSet<String>, at: usize) -> usize {
        (at..self.words.len()).find(|at| !words.contains(self.word(*at))).unwrap_or(at)
    }
}
