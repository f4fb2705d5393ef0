//! Dates written in digits: 2023-05-07, 7/5/2023, 7.5.2023.
//!
//! A date that begins with its year is what it says. Otherwise the day comes first, except in English with
//! slashes, where the month does (5/7 is the seventh of May) unless that makes no date. Two numbers alone
//! may be a score or a half, so they need a word that leads to them: "on 5/7", "op 7-5", "am 7.5.".

use super::calendar::Point;
use super::read::{Reader, year};
use crate::language::Tongue;

impl Reader<'_> {
    /// A date in digits that begins at word `at`, and the word after it.
    pub(super) fn numeric(&self, at: usize, led: bool) -> Option<(Point, usize)> {
        let first_joint = self.joint(at)?;
        if at.checked_sub(1).is_some_and(|before| self.joint(before).is_some()) {
            return None;
        }
        let second_joint = self.joint(at + 1);
        if second_joint.is_some() && (second_joint != Some(first_joint) || self.joint(at + 2).is_some()) {
            return None;
        }
        let (first, second) = (self.word(at)?, self.word(at + 1)?);
        match second_joint {
            Some(_) => Some((three(self, [first, second, self.word(at + 2)?], first_joint)?, at + 3)),
            None => Some((self.two(first, second, first_joint, led)?, at + 2)),
        }
    }

    /// What joins the number at `at` to the number after it.
    pub(super) fn joint(&self, at: usize) -> Option<char> {
        let (word, next) = (self.words.get(at)?, self.words.get(at + 1)?);
        let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let mut between = self.text.get(word.at.end..next.at.start)?.chars();
        let joint = between.next().filter(|c| matches!(c, '-' | '/' | '.'))?;
        (between.next().is_none() && digits(&word.text) && digits(&next.text)).then_some(joint)
    }

    fn two(&self, first: &str, second: &str, joint: char, led: bool) -> Option<Point> {
        if let (Some(year), '-', Some(month)) = (year(first), joint, small(second, 12)) {
            return (second.len() == 2).then_some(Point::Month { month, year: Some(year), part: None });
        }
        let usual = match self.tongue {
            Tongue::English => joint == '/',
            Tongue::German => joint == '.',
            _ => joint != '.',
        };
        let (day, month) = self.ordered(small(first, 31)?, small(second, 31)?, joint)?;
        (led && usual).then_some(Point::Day { day, month, year: None })
    }

    /// Which of two numbers is the day and which the month.
    fn ordered(&self, first: i8, second: i8, joint: char) -> Option<(i8, i8)> {
        let month_first = self.table.month_first && joint == '/';
        let (day, month) = if month_first { (second, first) } else { (first, second) };
        match (month <= 12, day <= 12) {
            (true, _) => Some((day, month)),
            (false, true) if self.table.month_first => Some((month, day)),
            _ => None,
        }
    }
}

fn three(reader: &Reader<'_>, [first, second, third]: [&str; 3], joint: char) -> Option<Point> {
    if let Some(year) = year(first) {
        // An hour may follow: 2023-05-07T10:00.
        let day = small(third.split('t').next()?, 31)?;
        return valid(day, small(second, 12)?, year);
    }
    let short = |word: &str| word.parse::<i16>().ok().filter(|_| word.len() == 2).map(|year| 2000 + year);
    let (day, month) = reader.ordered(small(first, 31)?, small(second, 31)?, joint)?;
    valid(day, month, year(third).or_else(|| short(third))?)
}

fn valid(day: i8, month: i8, year: i16) -> Option<Point> {
    jiff::civil::Date::new(year, month, day).ok()?;
    Some(Point::Day { day, month, year: Some(year) })
}

fn small(word: &str, max: i8) -> Option<i8> {
    let digits = word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|number| digits && (1..=max).contains(number))
}
