//! When: the dates and stretches of time that somebody names, in five languages.
//!
//! ```text
//! yesterday · last night · this morning · last/this/next week · the past two months · two weeks ago
//! last Monday · on Monday · in March · early March · in 2022 · 7 May 2023 · May 7th · 2023-05-07 · 5/7/2023
//! since March · until Monday · before 2022 · after May 7 · between 3 and 7 May · from March to June 2023
//! ```
//!
//! Reading order: the nouns here, `read` (words to what was said), `numeric` (dates in digits), `calendar`
//! (what was said to days), `ahead` (the same for plans, which look forward), `table` (the words; one file per language).
//!
//! **Invariant:** the clock and the time zone are handed in; a stretch that is found is never empty.

mod ahead;
mod calendar;
mod months;
mod numeric;
mod read;
mod table;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::language::Tongue;
use read::Reader;

pub use ahead::{lasting, named_first, since, until};
pub use months::{MonthNamed, months};

/// A stretch of time: `from` belongs to it, `to` does not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Its first moment.
    pub from: Timestamp,
    /// The moment it is over; always later than `from`.
    pub to: Timestamp,
}

impl TimeRange {
    /// A stretch between two ends; an end left open reaches as far as time does. `None` if nothing lies
    /// between them.
    pub fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<TimeRange> {
        let (from, to) = (from.unwrap_or(Timestamp::MIN), to.unwrap_or(Timestamp::MAX));
        (from < to).then_some(TimeRange { from, to })
    }

    /// Whether a moment lies in it.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && at < self.to
    }
}

/// The first stretch of time that a text names, seen from `now` in somebody's time zone.
pub fn range(text: &str, tongue: Tongue, now: Timestamp, zone: &TimeZone) -> Option<TimeRange> {
    let today = zone.to_datetime(now).date();
    let (from, to) = Reader::new(text, tongue).stretch(today)?;
    TimeRange::between(Some(moment(from, zone)), Some(moment(to, zone)))
}

/// A time zone by its name or offset: `Europe/Amsterdam`, `UTC`, `+02:00`, `-0330`, `Z`.
///
/// Offsets need nothing; names are looked up in the system's database.
pub fn zone(name: &str) -> Option<TimeZone> {
    let name = name.trim();
    if matches!(name, "UTC" | "utc" | "Z" | "z" | "GMT") {
        return Some(TimeZone::UTC);
    }
    match name.starts_with(['+', '-']) {
        true => offset(name),
        false => TimeZone::get(name).ok(),
    }
}

fn offset(text: &str) -> Option<TimeZone> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    let number = |text: &str| text.parse::<i32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (hours, minutes) = match digits.len() {
        1 | 2 => (number(&digits)?, 0),
        4 if digits.is_ascii() => (number(&digits[..2])?, number(&digits[2..])?),
        _ => return None,
    };
    let seconds = sign * (hours * 3600 + minutes * 60);
    (minutes < 60).then(|| jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed))?
}

/// A local time as a moment; beyond the ends of time, its end.
fn moment(local: DateTime, zone: &TimeZone) -> Timestamp {
    let beyond = if local.year() < 0 { Timestamp::MIN } else { Timestamp::MAX };
    zone.to_timestamp(local).unwrap_or(beyond)
}
