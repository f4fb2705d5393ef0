//! The words of one language that say when, as written in its table and as they are used.

use serde::Deserialize;

use super::calendar::{Part, Relative, Unit};
use crate::language::{self, Phrases, Tables, Tongue, texts_beside};

/// A table as it is written.
#[derive(Deserialize)]
struct Written {
    today: Vec<String>,
    yesterday: Vec<String>,
    before_yesterday: Vec<String>,
    tomorrow: Vec<String>,
    after_tomorrow: Vec<String>,
    last_night: Vec<String>,
    this_morning: Vec<String>,
    this_afternoon: Vec<String>,
    tonight: Vec<String>,
    not_after: Vec<String>,
    last: String,
    this: String,
    next: String,
    past: String,
    last_after: Vec<String>,
    next_after: Vec<String>,
    day: String,
    week: String,
    weekend: String,
    month: String,
    year: String,
    one: String,
    few: String,
    couple: Vec<String>,
    ago: Vec<String>,
    ago_before: Vec<String>,
    article: String,
    of: String,
    led: Vec<String>,
    led_year: Vec<String>,
    early: String,
    middle: String,
    late: String,
    since: Vec<String>,
    until: Vec<String>,
    lasting: Vec<String>,
    before: Vec<String>,
    before_dates: Vec<String>,
    after: Vec<String>,
    between: Vec<String>,
    and: String,
    from: Vec<String>,
    to: Vec<String>,
    ordinals: String,
    doubtful: Vec<String>,
    doubtful_after: String,
    not_month_before: String,
    month_first: bool,
}

/// A list of words.
pub(super) struct List(Vec<String>);

impl List {
    fn read(text: &str) -> List {
        List(text.split_whitespace().map(str::to_owned).collect())
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.0.iter().any(|known| known == word)
    }
}

/// A table as it is used.
pub(super) struct Table {
    /// Phrases that are a date by themselves.
    pub(super) fixed: Vec<(Phrases, Relative)>,
    pub(super) not_after: List,
    pub(super) last: List,
    pub(super) this: List,
    pub(super) next: List,
    /// "the past week": up to now.
    pub(super) past: List,
    pub(super) last_after: Phrases,
    pub(super) next_after: Phrases,
    units: Vec<(List, Unit)>,
    pub(super) one: List,
    pub(super) few: List,
    pub(super) couple: Phrases,
    pub(super) ago: Phrases,
    pub(super) ago_before: Phrases,
    pub(super) article: List,
    pub(super) of: List,
    pub(super) led: Phrases,
    pub(super) led_year: Phrases,
    parts: Vec<(List, Part)>,
    pub(super) since: Phrases,
    pub(super) until: Phrases,
    /// What a length of time follows that begins now: "for two weeks".
    pub(super) lasting: Phrases,
    pub(super) before: Phrases,
    /// Before, if a date of the calendar follows: "voor 7 mei", never "voor vandaag".
    pub(super) before_dates: Phrases,
    pub(super) after: Phrases,
    pub(super) between: Phrases,
    pub(super) and: List,
    pub(super) from: Phrases,
    pub(super) to: Phrases,
    ordinals: Vec<String>,
    pub(super) doubtful: List,
    pub(super) doubtful_after: List,
    pub(super) not_month_before: List,
    /// "May 7" is said, and 5/7 is the seventh of May.
    pub(super) month_first: bool,
}

impl Table {
    pub(super) fn of(tongue: Tongue) -> &'static Table {
        static ALL: Tables<Table> = Tables::new(texts_beside!(), Table::read);
        ALL.of(tongue)
    }

    fn read(text: &'static str) -> Table {
        let written: Written = language::written(text);
        let fixed = [
            (&written.today, Relative::Day(0)),
            (&written.yesterday, Relative::Day(-1)),
            (&written.before_yesterday, Relative::Day(-2)),
            (&written.tomorrow, Relative::Day(1)),
            (&written.after_tomorrow, Relative::Day(2)),
            (&written.last_night, Relative::Hours { day: -1, from: 18, to: 30 }),
            (&written.this_morning, Relative::Hours { day: 0, from: 0, to: 12 }),
            (&written.this_afternoon, Relative::Hours { day: 0, from: 12, to: 18 }),
            (&written.tonight, Relative::Hours { day: 0, from: 18, to: 30 }),
        ];
        let units = [
            (&written.day, Unit::Day),
            (&written.week, Unit::Week),
            (&written.weekend, Unit::Weekend),
            (&written.month, Unit::Month),
            (&written.year, Unit::Year),
        ];
        let parts = [(&written.early, Part::Early), (&written.middle, Part::Middle), (&written.late, Part::Late)];
        Table {
            fixed: fixed.into_iter().map(|(phrases, relative)| (Phrases::read(phrases), relative)).collect(),
            not_after: List(written.not_after),
            last: List::read(&written.last),
            this: List::read(&written.this),
            next: List::read(&written.next),
            past: List::read(&written.past),
            last_after: Phrases::read(&written.last_after),
            next_after: Phrases::read(&written.next_after),
            units: units.into_iter().map(|(words, unit)| (List::read(words), unit)).collect(),
            one: List::read(&written.one),
            few: List::read(&written.few),
            couple: Phrases::read(&written.couple),
            ago: Phrases::read(&written.ago),
            ago_before: Phrases::read(&written.ago_before),
            article: List::read(&written.article),
            of: List::read(&written.of),
            led: Phrases::read(&written.led),
            led_year: Phrases::read(&written.led_year),
            parts: parts.into_iter().map(|(words, part)| (List::read(words), part)).collect(),
            since: Phrases::read(&written.since),
            until: Phrases::read(&written.until),
            lasting: Phrases::read(&written.lasting),
            before: Phrases::read(&written.before),
            before_dates: Phrases::read(&written.before_dates),
            after: Phrases::read(&written.after),
            between: Phrases::read(&written.between),
            and: List::read(&written.and),
            from: Phrases::read(&written.from),
            to: Phrases::read(&written.to),
            ordinals: written.ordinals.split_whitespace().map(str::to_owned).collect(),
            doubtful: List(written.doubtful),
            doubtful_after: List::read(&written.doubtful_after),
            not_month_before: List::read(&written.not_month_before),
            month_first: written.month_first,
        }
    }

    pub(super) fn unit(&self, word: &str) -> Option<Unit> {
        self.units.iter().find(|(words, _)| words.has(word)).map(|(_, unit)| *unit)
    }

    pub(super) fn part(&self, word: &str) -> Option<Part> {
        self.parts.iter().find(|(words, _)| words.has(word)).map(|(_, part)| *part)
    }

    /// The day of a month that a word names: 7, 7th, 7e.
    pub(super) fn day(&self, word: &str) -> Option<i8> {
        let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, ending) = word.split_at(digits);
        let known = ending.is_empty() || self.ordinals.iter().any(|ordinal| ordinal == ending);
        number.parse().ok().filter(|day| known && number.len() <= 2 && (1..=31).contains(day))
    }
}
