//! Since when something is so, and until when it will be: "until Friday", "for two weeks", "since 2019".
//!
//! A question looks back ([`range`](super::range)), a statement about oneself looks ahead.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::calendar::{Point, Unit};
use super::moment;
use super::read::Reader;
use crate::language::Tongue;

/// The moment until which something is said to be so: the end of the day, month or year that is named.
pub fn until(text: &str, tongue: Tongue, said_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    end(text, tongue, said_at, zone, |reader, at, today| reader.until_at(at, today))
}

/// The moment when a length of time is over that begins now: "for two weeks". Of what began before, the same words tell
/// how long it has been so.
pub fn lasting(text: &str, tongue: Tongue, said_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    end(text, tongue, said_at, zone, |reader, at, today| reader.lasting_at(at, today))
}

/// The moment since which something is said to be so.
pub fn since(text: &str, tongue: Tongue, said_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = zone.to_datetime(said_at).date();
    let reader = Reader::new(text, tongue);
    let point = (0..reader.words.len()).find_map(|at| reader.after(&reader.table.since, at, Reader::since_point));
    let (from, _) = point?.0.stretch(today)?;
    Some(moment(from, zone)).filter(|from| *from <= said_at)
}

/// Where the words end that stand first in a text and say since or until when something is so, in bytes.
pub fn named_first(text: &str, tongue: Tongue) -> Option<usize> {
    let reader = Reader::new(text, tongue);
    let table = reader.table;
    let led = reader.after(&table.until, 0, Reader::led).or_else(|| reader.after(&table.since, 0, Reader::since_point));
    let lasting = || reader.length(table.lasting.end_at(&reader.words, 0)?).map(|(_, next)| next);
    let next = led.map(|(_, next)| next).or_else(lasting)?;
    Some(reader.words[next.checked_sub(1)?].at.end)
}

type EndAt = fn(&Reader<'_>, usize, Date) -> Option<DateTime>;

fn end(text: &str, tongue: Tongue, said_at: Timestamp, zone: &TimeZone, read: EndAt) -> Option<Timestamp> {
    let today = zone.to_datetime(said_at).date();
    let reader = Reader::new(text, tongue);
    let end = (0..reader.words.len()).find_map(|at| read(&reader, at, today))?;
    Some(moment(end, zone)).filter(|end| said_at < *end)
}

impl Reader<'_> {
    fn until_at(&self, at: usize, today: Date) -> Option<DateTime> {
        let (point, _) = self.after(&self.table.until, at, Reader::led)?;
        Some(ending(point, today)?.1)
    }

    fn lasting_at(&self, at: usize, today: Date) -> Option<DateTime> {
        let ((count, unit), _) = self.length(self.table.lasting.end_at(&self.words, at)?)?;
        let span = Span::new();
        let span = match unit {
            Unit::Day => span.try_days(count),
            Unit::Week | Unit::Weekend => span.try_weeks(count),
            Unit::Month => span.try_months(count),
            Unit::Year => span.try_years(count),
        };
        Some(today.tomorrow().ok()?.checked_add(span.ok()?).ok()?.into())
    }
}

/// "Until May" is over when May begins, "until 12 May" when that day is.
fn ending(point: Point, today: Date) -> Option<(DateTime, DateTime)> {
    let (from, to) = point.ahead(today)?;
    let is_long = matches!(point, Point::Month { .. } | Point::Year(_));
    Some(if is_long && DateTime::from(today) < from { (from, from) } else { (from, to) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `text = since..until`, seen from a Wednesday.
    #[track_caller]
    fn check(code: &str, rows: &str) {
        let tongue = Tongue::from_code(code).expect("one of the five");
        let now: Timestamp = "2024-05-15T14:30:00Z".parse().expect("a time");
        let day = |at: Option<Timestamp>| at.map_or(String::new(), |at| at.to_string()[..10].to_owned());
        for row in rows.lines() {
            let (text, expected) = row.trim().rsplit_once(" = ").expect("text = since..until");
            let ends = until(text, tongue, now, &TimeZone::UTC).or_else(|| lasting(text, tongue, now, &TimeZone::UTC));
            let found = (since(text, tongue, now, &TimeZone::UTC), ends);
            assert_eq!(format!("{}..{}", day(found.0), day(found.1)), expected, "{text}");
        }
    }

    #[test]
    fn a_time_that_stands_first_is_measured() {
        for (code, text, first) in [
            ("en", "until Friday and then home", Some("until Friday")),
            ("en", "since 2019", Some("since 2019")),
            ("en", "for two weeks, by car", Some("for two weeks")),
            ("en", "home until Friday", None),
            ("de", "bis morgen einen Klempner", Some("bis morgen")),
            ("nl", "tot vrijdag", Some("tot vrijdag")),
        ] {
            let tongue = Tongue::from_code(code).expect("one of the five");
            assert_eq!(named_first(text, tongue).map(|end| &text[..end]), first, "{text}");
        }
    }

    #[test]
    fn plans_look_ahead() {
        check(
            "en",
            "I'm on vacation until Friday = ..2024-05-18
             out of office until 12 August = ..2024-08-13
             I'm away until May 3rd = ..2025-05-04
             until June = ..2024-06-01
             until 2026 = ..2026-01-01
             I'm away for two weeks = ..2024-05-30
             I'm in Paris for the next 3 days = ..2024-05-19
             until next week = ..2024-05-27
             until yesterday = ..
             vegan since 2019 = 2019-01-01..
             since last March = 2024-03-01..
             I waited for you = ..
             until the cows come home = ..",
        );
        check(
            "nl",
            "ik ben op vakantie tot vrijdag = ..2024-05-18\nik ben twee weken weg = ..\nsinds 2020 = 2020-01-01..",
        );
        check("de", "bis Freitag = ..2024-05-18\nseit 2020 = 2020-01-01..");
        check("fr", "jusqu'à vendredi = ..2024-05-18\ndepuis 2020 = 2020-01-01..");
        check("es", "hasta el viernes = ..2024-05-18\ndesde 2020 = 2020-01-01..");
    }
}
