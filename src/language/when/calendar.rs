//! What was said about time, laid on the calendar.
//!
//! A memory is asked about the past: a month, a day or a weekday without its year or week is the latest
//! one that has begun. Weeks begin on Monday. Where the calendar ends, so does the answer (`None`).

use jiff::civil::{Date, DateTime, date};
use jiff::{Span, ToSpan};

/// A stretch of local time, half open.
pub(super) type Stretch = (DateTime, DateTime);

/// What a calendar is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Weekend,
    Month,
    Year,
}

/// A third of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Early,
    Middle,
    Late,
}

/// Counted from today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relative {
    /// Days from today.
    Day(i32),
    /// Hours of a day so many days from today; more than 24 reach into the next.
    Hours { day: i32, from: i32, to: i32 },
    /// The week, month or year so many before or after this one.
    Unit(Unit, i32),
    /// The last so many units, up to and with today.
    Rolling(Unit, i32),
    /// The past week, month or year: since the last one began, up to and with today. People mean either
    /// the last whole one or so many days; this holds both.
    Past(Unit),
    /// A weekday (Monday is 1): the latest before today, this week's, the first after today, or, if
    /// nothing is said, today's or the latest.
    Weekday(i8, Step),
    /// A month by name: the latest before this one, this year's, or the next.
    Month(i8, Step),
}

/// Which one of those that come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Last,
    This,
    Next,
    Plain,
}

/// A date as it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Relative(Relative),
    Year(i16),
    Month { month: i8, year: Option<i16>, part: Option<Part> },
    Day { day: i8, month: i8, year: Option<i16> },
}

impl Point {
    /// Whether it stands on the calendar by itself, wherever today is.
    pub(super) fn is_date(&self) -> bool {
        !matches!(self, Point::Relative(_))
    }

    /// The stretch it means, seen from `today`.
    pub(super) fn stretch(self, today: Date) -> Option<Stretch> {
        match self {
            Point::Relative(relative) => relative.stretch(today),
            Point::Year(year) => days(Date::new(year, 1, 1).ok()?, 1.year()),
            Point::Month { month, year, part } => {
                let latest = if month <= today.month() { today.year() } else { today.year() - 1 };
                let first = Date::new(year.unwrap_or(latest), month, 1).ok()?;
                match part {
                    None => days(first, 1.month()),
                    Some(Part::Early) => days(first, 10.days()),
                    Some(Part::Middle) => days(moved(first, 10)?, 10.days()),
                    Some(Part::Late) => Some((moved(first, 20)?.into(), first.checked_add(1.month()).ok()?.into())),
                }
            }
            Point::Day { day, month, year: Some(year) } => days(Date::new(year, month, day).ok()?, 1.day()),
            Point::Day { day, month, year: None } => {
                // The 29th of February may be years ago.
                let began = |back: i16| Date::new(today.year() - back, month, day).ok().filter(|date| *date <= today);
                days((0..9).find_map(began)?, 1.day())
            }
        }
    }
}

impl Point {
    /// The same seen from a plan, which looks ahead: "until Friday" is the coming one, "until May" too.
    pub(super) fn ahead(self, today: Date) -> Option<Stretch> {
        match self {
            Point::Relative(Relative::Weekday(weekday, Step::Plain)) => {
                let ahead = i32::from(weekday - today.weekday().to_monday_one_offset()).rem_euclid(7);
                days(moved(today, ahead)?, 1.day())
            }
            Point::Month { month, year: None, part } => {
                let year = if month < today.month() { today.year() + 1 } else { today.year() };
                Point::Month { month, year: Some(year), part }.stretch(today)
            }
            Point::Day { day, month, year: None } => {
                let comes = |on: i16| Date::new(today.year() + on, month, day).ok().filter(|date| today <= *date);
                days((0..9).find_map(comes)?, 1.day())
            }
            said => said.stretch(today),
        }
    }
}

impl Relative {
    fn stretch(self, today: Date) -> Option<Stretch> {
        match self {
            Relative::Day(offset) => days(moved(today, offset)?, 1.day()),
            Relative::Hours { day, from, to } => {
                let midnight = DateTime::from(moved(today, day)?);
                Some((midnight.checked_add(from.hours()).ok()?, midnight.checked_add(to.hours()).ok()?))
            }
            Relative::Unit(unit, offset) => unit.stretch(today, offset),
            Relative::Rolling(unit, count) => {
                let back = match unit {
                    Unit::Day => today.checked_sub(count.days()),
                    Unit::Week | Unit::Weekend => today.checked_sub(count.checked_mul(7)?.days()),
                    Unit::Month => today.checked_sub(count.months()),
                    Unit::Year => today.checked_sub(count.years()),
                };
                Some((back.ok()?.into(), moved(today, 1)?.into()))
            }
            Relative::Past(Unit::Weekend) => Unit::Weekend.stretch(today, -1),
            Relative::Past(unit) => Some((unit.stretch(today, -1)?.0, moved(today, 1)?.into())),
            Relative::Weekday(weekday, step) => {
                let ahead = i32::from(weekday - today.weekday().to_monday_one_offset());
                let offset = match step {
                    Step::This => ahead,
                    Step::Last if 0 <= ahead => ahead - 7,
                    Step::Plain if 0 < ahead => ahead - 7,
                    Step::Next if ahead <= 0 => ahead + 7,
                    _ => ahead,
                };
                days(moved(today, offset)?, 1.day())
            }
            Relative::Month(month, step) => {
                let year = today.year()
                    + match step {
                        Step::Last if today.month() <= month => -1,
                        Step::Plain if today.month() < month => -1,
                        Step::Next if month <= today.month() => 1,
                        _ => 0,
                    };
                days(Date::new(year, month, 1).ok()?, 1.month())
            }
        }
    }
}

impl Unit {
    /// The unit so many after the one that holds `today`.
    fn stretch(self, today: Date, offset: i32) -> Option<Stretch> {
        match self {
            Unit::Day => days(moved(today, offset)?, 1.day()),
            Unit::Week => days(moved(monday(today)?, offset.checked_mul(7)?)?, 7.days()),
            Unit::Weekend => {
                // On a Saturday "last weekend" is the one before, as it is on a Monday.
                days(moved(moved(monday(today)?, offset.checked_mul(7)?)?, 5)?, 2.days())
            }
            Unit::Month => {
                let first = date(today.year(), today.month(), 1);
                days(first.checked_add(Span::new().try_months(offset).ok()?).ok()?, 1.month())
            }
            Unit::Year => {
                let year = i32::from(today.year()).checked_add(offset)?;
                days(Date::new(year.try_into().ok()?, 1, 1).ok()?, 1.year())
            }
        }
    }
}

/// From the beginning of a day on, for a while.
fn days(first: Date, long: Span) -> Option<Stretch> {
    Some((first.into(), first.checked_add(long).ok()?.into()))
}

fn monday(today: Date) -> Option<Date> {
    moved(today, -i32::from(today.weekday().to_monday_zero_offset()))
}

fn moved(from: Date, days: i32) -> Option<Date> {
    from.checked_add(Span::new().try_days(days).ok()?).ok()
}
