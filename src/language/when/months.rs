//! The months a question names, to prefer what was said in them. Looser than a stretch of time: a month
//! is taken from any place in the sentence, and nothing is excluded by it.

use super::calendar::Point;
use super::read::{Reader, year};
use crate::language::{Tongue, month, month_or_short};

/// A month in a question, with the year and the days named beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthNamed {
    /// From 1.
    pub month: u8,
    /// The year beside it, or else the only year the question names.
    pub year: Option<i16>,
    /// The days of it, in the order they were named.
    pub days: Vec<u8>,
}

/// The months a text names. Words that are no month everywhere (may, march, mars) need a preposition or
/// a number beside them.
pub fn months(text: &str, tongue: Tongue) -> Vec<MonthNamed> {
    let reader = Reader::new(text, tongue);
    let mut found: Vec<MonthNamed> = (0..reader.words.len()).filter_map(|at| reader.month_at(at)).collect();
    let years: Vec<i16> = reader.words.iter().filter_map(|word| year(&word.text)).collect();
    if let [only] = years[..] {
        found.iter_mut().for_each(|month| month.year = month.year.or(Some(only)));
    }
    found
}

impl Reader<'_> {
    fn month_at(&self, at: usize) -> Option<MonthNamed> {
        if let Some((Point::Day { day, month, year }, _)) = self.numeric(at, false) {
            return Some(MonthNamed { month: month as u8, year, days: vec![day as u8] });
        }
        let word = self.word(at)?;
        let number = month_or_short(word, self.tongue)?;
        let (mut days, next) = (self.days_before(at), self.days_after(at));
        let last = at + next.len();
        days.extend(next);
        let year_at = self.skip(&self.table.of, last + 1);
        let year = self.word(year_at).and_then(year);
        let beside_a_number = !days.is_empty() || year.is_some();
        let led = || at.checked_sub(1).is_some_and(|before| self.is(before, &self.table.doubtful_after));
        let full = month(word, self.tongue).is_some();
        let sure = beside_a_number || (full && (!self.table.doubtful.has(word) || led()));
        sure.then_some(MonthNamed { month: number, year, days })
    }

    /// "3, 5 and 7 May": the days before a month.
    fn days_before(&self, month_at: usize) -> Vec<u8> {
        let mut days = Vec::new();
        let mut at = month_at;
        if at.checked_sub(1).is_some_and(|before| self.is(before, &self.table.of)) {
            at -= 1;
        }
        while let Some(day) = at.checked_sub(1).and_then(|before| self.day(before)) {
            days.insert(0, day as u8);
            at -= 1;
            let joined = 2 <= at && self.is(at - 1, &self.table.and) && self.day(at - 2).is_some();
            at -= usize::from(joined);
        }
        days
    }

    /// "May 3 and 5": the days after a month, where the month comes first.
    fn days_after(&self, month_at: usize) -> Vec<u8> {
        let days = (month_at + 1..).map_while(|at| self.day(at)).map(|day| day as u8);
        if self.table.month_first { days.collect() } else { Vec::new() }
    }
}
