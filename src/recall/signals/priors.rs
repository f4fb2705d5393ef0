//! What makes a message worth more for a kind of question, whatever its words: it names a time where "when" is asked,
//! a number where "how many" is; it is by the person who is asked about; it was said in the month that is named.
//!
//! Each prior is a small number, zero where it does not apply. They are added as they are, not normalised.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::language::when::{MonthNamed, TimeRange};
use crate::recall::marks::Marks;
use crate::recall::question::Question;

/// "When …?" and the message names a time.
pub(crate) fn when(question: &Question, marks: Marks) -> f32 {
    both(question.when, marks.time)
}

/// "How many …?" and the message has a number.
pub(crate) fn number(question: &Question, marks: Marks) -> f32 {
    both(question.many, marks.number)
}

/// "Where …?" and the message has names, or goes on with one after "in" or "at".
pub(crate) fn place(question: &Question, marks: Marks, capitals: usize) -> f32 {
    if !question.place { 0.0 } else { names(capitals).max(both(true, marks.place)) }
}

/// "What is it called?" and the message has names or opens a quote.
pub(crate) fn title(question: &Question, marks: Marks, capitals: usize) -> f32 {
    if !question.title { 0.0 } else { names(capitals).max(both(true, marks.quote)) }
}

fn names(capitals: usize) -> f32 {
    capitals.min(2) as f32 / 2.0
}

fn both(asked: bool, there: bool) -> f32 {
    f32::from(u8::from(asked && there))
}

/// The logarithm of a message's length in words that matter.
pub(crate) fn length(terms: u32) -> f32 {
    (1.0 + terms as f32).ln()
}

/// How much longer than thirty words.
pub(crate) fn long(terms: u32) -> f32 {
    (length(terms) - 31_f32.ln()).max(0.0)
}

/// Days around a named day that still count.
const DAYS_AROUND: i64 = 4;

/// The message was said at the time that is asked about.
pub(crate) fn date(question: &Question, said_at: i64, zone: &TimeZone) -> f32 {
    let in_range = question.range.map_or(0.0, |range| in_range(range, said_at));
    if question.months.is_empty() {
        return in_range;
    }
    let Ok(said_at) = Timestamp::from_microsecond(said_at) else { return 0.0 };
    let in_month = question.months.iter().map(|month| in_month(month, said_at, zone)).fold(0.0, f32::max);
    in_month.max(in_range)
}

fn in_range(range: TimeRange, said_at: i64) -> f32 {
    both(range.from.as_microsecond() <= said_at, said_at < range.to.as_microsecond())
}

/// One for the month, and up to one more for a day near it.
fn in_month(named: &MonthNamed, said_at: Timestamp, zone: &TimeZone) -> f32 {
    let said = zone.to_datetime(said_at);
    let year_fits = named.year.is_none_or(|year| year == said.year());
    if said.month() as u8 != named.month || !year_fits {
        return 0.0;
    }
    let distance = named.days.iter().map(|day| (i64::from(*day) - i64::from(said.day())).abs()).min();
    1.0 + distance.map_or(0.0, |days| (1.0 - days as f32 / DAYS_AROUND as f32).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Question {
        Question::default()
    }

    #[test]
    fn a_prior_needs_both_question_and_message() {
        let marks = Marks { time: true, number: true, ..Marks::default() };
        let question = Question { when: true, ..asked() };
        assert_eq!((when(&question, marks), number(&question, marks)), (1.0, 0.0));
        assert_eq!(when(&question, Marks::default()), 0.0);
    }

    #[test]
    fn names_answer_where_and_what_it_is_called() {
        let (place_asked, title_asked) = (Question { place: true, ..asked() }, Question { title: true, ..asked() });
        assert_eq!(place(&place_asked, Marks::default(), 1), 0.5);
        assert_eq!(place(&place_asked, Marks { place: true, ..Marks::default() }, 0), 1.0);
        assert_eq!(title(&title_asked, Marks { quote: true, ..Marks::default() }, 0), 1.0);
        assert_eq!(title(&asked(), Marks::default(), 3), 0.0);
    }

    #[test]
    fn a_named_month_and_day_pull_their_messages_up() {
        let months = vec![MonthNamed { month: 5, year: Some(2023), days: vec![7] }];
        let question = Question { months, ..asked() };
        let at = |time: &str| time.parse::<Timestamp>().expect("a time").as_microsecond();
        assert_eq!(date(&question, at("2023-05-07T10:00:00Z"), &TimeZone::UTC), 2.0);
        assert_eq!(date(&question, at("2023-05-09T10:00:00Z"), &TimeZone::UTC), 1.5);
        assert_eq!(date(&question, at("2023-05-29T10:00:00Z"), &TimeZone::UTC), 1.0);
        assert_eq!(date(&question, at("2022-05-07T10:00:00Z"), &TimeZone::UTC), 0.0);
    }

    #[test]
    fn longer_is_counted_by_its_logarithm() {
        assert_eq!(length(0), 0.0);
        assert_eq!(long(30), 0.0);
        assert!(long(100) > 1.0);
    }
}
