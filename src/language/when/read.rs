//! Finds in a text what it says about time. Precise rather than greedy: a question that is held to the
//! wrong dates finds nothing, one without dates still finds everything.

use jiff::civil::{Date, DateTime};

use super::calendar::{Point, Relative, Step, Stretch, Unit};
use super::table::{List, Table};
use crate::language::{Phrases, Tongue, Word, month, month_or_short, number, spans, weekday};

/// A few, where it has to be a number: "the past few weeks".
const FEW: i32 = 5;

/// A text read for dates.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<Word<'a>>,
    pub(super) table: &'static Table,
    pub(super) tongue: Tongue,
}

/// Something that was read, and the word after it.
pub(super) type Read<T> = Option<(T, usize)>;

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, tongue: Tongue) -> Reader<'a> {
        Reader { text, words: spans(text).collect(), table: Table::of(tongue), tongue }
    }

    /// The first stretch of time the text names.
    pub(super) fn stretch(&self, today: Date) -> Option<Stretch> {
        (0..self.words.len()).find_map(|at| self.stretch_at(at, today))
    }

    fn stretch_at(&self, at: usize, today: Date) -> Option<Stretch> {
        let table = self.table;
        let now_ends = || today.tomorrow().ok().map(DateTime::from);
        let of = |point: Point| point.stretch(today);
        // Before "vor" and "avant" are read as before: "vor zwei Wochen", "avant-hier".
        if let Some((point, _)) = self.ago(at).or_else(|| self.fixed(at)) {
            return of(point);
        }
        if let Some(pair) =
            self.pair(at, &table.between, PairEnd::And).or_else(|| self.pair(at, &table.from, PairEnd::To))
        {
            return between(pair, today);
        }
        if let Some((point, _)) = self.after(&table.since, at, Self::since_point) {
            let (from, to) = of(point)?;
            return Some((from, now_ends()?.max(to)));
        }
        if let Some((point, _)) = self.after(&table.before, at, Self::led) {
            return Some((DateTime::MIN, of(point)?.0));
        }
        if let Some((point, _)) = self.after(&table.before_dates, at, Self::led).filter(|(point, _)| point.is_date()) {
            return Some((DateTime::MIN, of(point)?.0));
        }
        if let Some((point, _)) = self.after(&table.until, at, Self::led) {
            return Some((DateTime::MIN, of(point)?.1));
        }
        if let Some((point, _)) = self.after(&table.after, at, Self::led) {
            let from = of(point)?.1;
            return Some((from, now_ends()?.max(from.checked_add(jiff::Span::new().days(1)).ok()?)));
        }
        let led = || self.after(&table.led, at, Self::led).or_else(|| self.after(&table.led_year, at, Self::year));
        let (point, _) = self.point(at).or_else(led)?;
        of(point)
    }

    /// Reads on after one of the phrases.
    pub(super) fn after(&self, phrases: &Phrases, at: usize, read: fn(&Self, usize) -> Read<Point>) -> Read<Point> {
        read(self, phrases.end_at(&self.words, at)?)
    }

    /// "between 3 and 7 May", "from March to June 2023".
    fn pair(&self, at: usize, opening: &Phrases, end: PairEnd) -> Option<(End, Point)> {
        let first_at = self.skip(&self.table.article, opening.end_at(&self.words, at)?);
        let rest = |at: usize| match end {
            PairEnd::And => self.is(at, &self.table.and).then_some(at + 1),
            PairEnd::To => self.table.to.end_at(&self.words, at),
        };
        if let Some((first, at)) = self.led(first_at) {
            let at = self.skip(&self.table.article, rest(at)?);
            if let Some((second, _)) = self.led(at) {
                return Some((End::Point(first), second));
            }
            // "between May 3 and 7"
            let (Point::Day { month, year, .. }, day) = (first, self.day(at)?) else { return None };
            return Some((End::Point(first), Point::Day { day, month, year }));
        }
        let day = self.day(first_at)?;
        let (second, _) = self.led(self.skip(&self.table.article, rest(first_at + 1)?))?;
        matches!(second, Point::Day { .. }).then_some((End::Day(day), second))
    }

    /// After "since" a length of time is one too: "since two weeks", as Dutch and German say.
    pub(super) fn since_point(&self, at: usize) -> Read<Point> {
        if let Some(found) = self.led(at) {
            return Some(found);
        }
        let at = self.table.ago_before.end_at(&self.words, at).unwrap_or(at);
        let ((count, unit), at) = self.length(at)?;
        Some((Point::Relative(Relative::Rolling(unit, count)), at))
    }

    /// A date after a word that promises one: a month, a weekday or a year alone will do.
    pub(super) fn led(&self, at: usize) -> Read<Point> {
        let at = self.table.led.end_at(&self.words, at).unwrap_or(at);
        let at = self.skip(&self.table.article, at);
        self.point(at).or_else(|| self.date(at, true)).or_else(|| self.year(at)).or_else(|| {
            let weekday = weekday(self.word(at)?, self.tongue)?;
            Some((Point::Relative(Relative::Weekday(weekday as i8, Step::Plain)), at + 1))
        })
    }

    /// A date that needs no word before it.
    fn point(&self, at: usize) -> Read<Point> {
        self.fixed(at)
            .or_else(|| self.stepped(at))
            .or_else(|| self.stepped_after(at))
            .or_else(|| self.ago(at))
            .or_else(|| self.date(at, false))
    }

    fn fixed(&self, at: usize) -> Read<Point> {
        if at.checked_sub(1).is_some_and(|before| self.is(before, &self.table.not_after)) {
            return None;
        }
        let ends = self.table.fixed.iter().filter_map(|(phrases, relative)| {
            phrases.end_at(&self.words, at).map(|end| (Point::Relative(*relative), end))
        });
        ends.max_by_key(|(_, end)| *end)
    }

    /// "last week", "this Monday", "next March", "the past two months".
    fn stepped(&self, at: usize) -> Read<Point> {
        let table = self.table;
        let counted = || self.count(at).filter(|(_, next)| self.is(*next, &table.last));
        if let Some((count, next)) = counted() {
            // "les deux dernières semaines"
            let unit = table.unit(self.word(next + 1)?)?;
            return Some((Point::Relative(Relative::Rolling(unit, count)), next + 2));
        }
        let word = self.word(at)?;
        let past = table.past.has(word);
        let step = match word {
            _ if table.last.has(word) || past => Step::Last,
            _ if table.this.has(word) => Step::This,
            _ if table.next.has(word) => Step::Next,
            _ => return None,
        };
        if step == Step::Last
            && let Some(((count, unit), next)) = self.length(at + 1).filter(|((count, _), _)| *count != 1)
        {
            return Some((Point::Relative(Relative::Rolling(unit, count)), next));
        }
        let next = self.word(at + 1)?;
        let relative = match table.unit(next) {
            // "the last day" is no date, and "the last week of March" is in March.
            Some(Unit::Day) => return None,
            Some(_) if self.is_of_a_month(at + 2) => return None,
            Some(unit) if past => Relative::Past(unit),
            Some(unit) => Relative::Unit(unit, step.offset()),
            None => self.named(at + 1, step)?,
        };
        Some((Point::Relative(relative), at + 2))
    }

    /// "la semaine dernière", "el lunes pasado".
    fn stepped_after(&self, at: usize) -> Read<Point> {
        let word = self.word(at)?;
        let (step, next) = match self.table.last_after.end_at(&self.words, at + 1) {
            Some(next) => (Step::Last, next),
            None => (Step::Next, self.table.next_after.end_at(&self.words, at + 1)?),
        };
        let relative = match self.table.unit(word) {
            Some(Unit::Day) => return None,
            Some(unit) => Relative::Unit(unit, step.offset()),
            None => self.named(at, step)?,
        };
        Some((Point::Relative(relative), next))
    }

    /// A weekday or a month that "last", "this" or "next" stands before.
    fn named(&self, at: usize, step: Step) -> Option<Relative> {
        let word = self.word(at)?;
        if let Some(weekday) = weekday(word, self.tongue) {
            return Some(Relative::Weekday(weekday as i8, step));
        }
        let month = month(word, self.tongue)?;
        let doubtful = step == Step::This && self.table.doubtful.has(word);
        (!doubtful).then_some(Relative::Month(month as i8, step))
    }

    /// "two weeks ago", "il y a deux semaines".
    fn ago(&self, at: usize) -> Read<Point> {
        let (at, said_before) = match self.table.ago_before.end_at(&self.words, at) {
            Some(next) => (next, true),
            None => (at, false),
        };
        let ((count, unit), next) = self.length(at)?;
        let vague = self.words[at..next].iter().any(|word| self.table.few.has(&word.text));
        let end = if said_before { next } else { self.table.ago.end_at(&self.words, next)? };
        (!vague).then_some((Point::Relative(Relative::Unit(unit, -count)), end))
    }

    /// "two weeks", "a couple of months", "few days".
    pub(super) fn length(&self, at: usize) -> Read<(i32, Unit)> {
        let couple = self.table.couple.end_at(&self.words, at).map(|next| (2, next));
        let (count, next) = couple.or_else(|| self.count(at))?;
        let unit = self.table.unit(self.word(next)?).filter(|unit| *unit != Unit::Weekend)?;
        Some(((count, unit), next + 1))
    }

    fn count(&self, at: usize) -> Read<i32> {
        let word = self.word(at)?;
        if self.table.one.has(word) {
            // "een paar weken"
            let few = self.is(at + 1, &self.table.few);
            return Some(if few { (FEW, at + 2) } else { (1, at + 1) });
        }
        let digits = || word.parse().ok().filter(|count| (1..=999).contains(count));
        let few = self.table.few.has(word).then_some(FEW);
        let count = few.or_else(|| number(word, self.tongue).map(i32::from)).or_else(digits)?;
        Some((count, at + 1))
    }

    /// A date of the calendar: 2023-05-07, 7 May 2023, May 7th, March 2023; `led`: a month alone too.
    fn date(&self, at: usize, led: bool) -> Read<Point> {
        self.numeric(at, led).or_else(|| self.day_month(at)).or_else(|| self.month_day(at, led))
    }

    /// "7 May 2023", "the 7th of May", "7 de mayo de 2023".
    fn day_month(&self, at: usize) -> Read<Point> {
        let day = self.day(at)?;
        let month_at = self.skip(&self.table.of, at + 1);
        let word = self.word(month_at)?;
        let month = month_or_short(word, self.tongue)? as i8;
        if self.table.doubtful.has(word) && self.is(month_at + 1, &self.table.not_month_before) {
            return None;
        }
        let (year, next) = self.year_after(month_at);
        Some((Point::Day { day, month, year }, next))
    }

    /// "May 7th, 2023", "March 2023", "early March", and after a word that leads to it "March".
    fn month_day(&self, at: usize, led: bool) -> Read<Point> {
        let part = self.table.part(self.word(at)?);
        let month_at = if part.is_some() { self.skip(&self.table.of, at + 1) } else { at };
        let word = self.word(month_at)?;
        if let Some(day) = self.day(month_at + 1).filter(|_| self.table.month_first && part.is_none()) {
            let month = month_or_short(word, self.tongue)? as i8;
            let (year, next) = self.year_after(month_at + 1);
            let ordinal = self.word(month_at + 1)?.ends_with(char::is_alphabetic);
            let sure = led || ordinal || year.is_some() || !self.table.doubtful.has(word) || self.is_capital(month_at);
            return sure.then_some((Point::Day { day, month, year }, next));
        }
        if let (Some(year), next) = self.year_after(month_at) {
            let month = month_or_short(word, self.tongue)? as i8;
            return Some((Point::Month { month, year: Some(year), part }, next));
        }
        let month = month(word, self.tongue)? as i8;
        let whose = self.text[self.words[month_at].at.end..].starts_with(['\'', '’']);
        let sure = (led || part.is_some()) && !whose;
        sure.then_some((Point::Month { month, year: None, part }, month_at + 1))
    }

    /// The year right after a word, "de" in between allowed, and the word after it.
    fn year_after(&self, at: usize) -> (Option<i16>, usize) {
        let year_at = self.skip(&self.table.of, at + 1);
        match self.word(year_at).and_then(year) {
            Some(year) => (Some(year), year_at + 1),
            None => (None, at + 1),
        }
    }

    pub(super) fn year(&self, at: usize) -> Read<Point> {
        let year = year(self.word(at)?)?;
        // 2000/3, 1990-95 and 2020.5 are no years.
        let joined = self.joint(at).is_some() || at.checked_sub(1).is_some_and(|before| self.joint(before).is_some());
        (!joined).then_some((Point::Year(year), at + 1))
    }

    /// Whether "of March" or "of 2023" follows.
    fn is_of_a_month(&self, at: usize) -> bool {
        let after = self.word(self.skip(&self.table.article, self.skip(&self.table.of, at)));
        self.is(at, &self.table.of)
            && after.is_some_and(|word| month(word, self.tongue).is_some() || year(word).is_some())
    }

    pub(super) fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(|word| &*word.text)
    }

    pub(super) fn day(&self, at: usize) -> Option<i8> {
        self.table.day(self.word(at)?)
    }

    pub(super) fn is(&self, at: usize, list: &List) -> bool {
        self.word(at).is_some_and(|word| list.has(word))
    }

    /// The place after `at` if one of the words stands there.
    pub(super) fn skip(&self, list: &List, at: usize) -> usize {
        at + usize::from(self.is(at, list))
    }

    fn is_capital(&self, at: usize) -> bool {
        self.words.get(at).is_some_and(|word| self.text[word.at.clone()].starts_with(char::is_uppercase))
    }
}

/// Years that people talk about; other numbers of four digits are prices and distances.
pub(super) fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1900..=2100).contains(year))
}

enum PairEnd {
    And,
    To,
}

/// How a pair begins: with a date, or with the day alone ("between 3 and 7 May").
enum End {
    Point(Point),
    Day(i8),
}

/// From the beginning of the first to the end of the second; what the first leaves out it has from the
/// second: its month, its year.
fn between((first, second): (End, Point), today: Date) -> Option<Stretch> {
    let last = second.stretch(today)?;
    let first = match (first, second) {
        (End::Day(day), Point::Day { month, year, .. }) => Point::Day { day, month, year },
        (End::Day(_), _) => return None,
        (End::Point(first), _) => first,
    };
    let first = match first {
        Point::Month { month, year: None, part } => Point::Month { month, year: before(month, 1, last.0), part },
        Point::Day { day, month, year: None } => Point::Day { day, month, year: before(month, day, last.0) },
        known => known,
    };
    let begun = first.stretch(today)?;
    Some((begun.0.min(last.0), begun.1.max(last.1)))
}

/// The year in which a day of a month was last seen from `end`.
fn before(month: i8, day: i8, end: DateTime) -> Option<i16> {
    let same_year = (month, day) <= (end.month(), end.day());
    Some(if same_year { end.year() } else { end.year() - 1 })
}

impl Step {
    fn offset(self) -> i32 {
        match self {
            Step::Last => -1,
            Step::This | Step::Plain => 0,
            Step::Next => 1,
        }
    }
}
