//! A summary as lines: who said what, on which day if there are several. And read back from its text.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::Said;
use super::sentence::{Piece, is_line_end};
use crate::tokens;

/// A longer name is cut.
const SPEAKER_CHARS_MAX: usize = 40;
/// Who speaks when nobody was named.
const NOBODY: &str = "?";
/// What was left out.
const ELLIPSIS: char = '…';

/// What carries a stretch of talk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// In the order they were said.
    pub lines: Vec<Line>,
    /// How many tokens [`Summary::text`] has.
    pub tokens: usize,
}

/// Sentences that one person said, one after the other as far as the summary shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Who said them.
    pub speaker: String,
    /// The sentences, on one line.
    pub text: String,
    /// When the first of them was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Summary {
    /// The summary as text: `Anna: …`, a line for each change of speaker, with the day where it changes if it ever does.
    pub fn text(&self) -> String {
        let dated = self.lines.windows(2).any(|pair| pair[0].day() != pair[1].day());
        let mut text = String::new();
        let mut before = None;
        for line in &self.lines {
            if !text.is_empty() {
                text.push('\n');
            }
            if let Some(day) = line.day().filter(|day| dated && before != Some(*day)) {
                text.push_str(&format!("{day} "));
                before = Some(day);
            }
            text.push_str(&format!("{}: {}", line.speaker, line.text));
        }
        text
    }

    /// Reads what [`Summary::text`] wrote. Lines without a day were said at `at`, or on the day of the line before.
    pub fn read(text: &str, at: Option<Timestamp>) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (day, rest) = day_of(line);
            let at = day.or_else(|| lines.last().map_or(at, |before| before.at));
            let (speaker, text) = rest.split_once(": ").unwrap_or((NOBODY, rest));
            lines.push(Line { speaker: speaker.to_owned(), text: text.to_owned(), at });
        }
        Self::counted(lines)
    }

    /// A line of [`Summary::text`] in two: who spoke, with the day and the colon, and what was said.
    pub fn speaker_and_said(line: &str) -> (&str, &str) {
        line.split_once(": ").map_or(("", line), |(speaker, said)| (&line[..speaker.len() + 2], said))
    }

    /// The summary of some pieces of what was said.
    pub(super) fn of<'a>(pieces: impl Iterator<Item = (Said<'a>, &'a Piece)>) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for (said, piece) in pieces {
            let line = Line { speaker: speaker(said.speaker), text: String::new(), at: said.at };
            if lines.last().is_none_or(|last| last.speaker != line.speaker || last.day() != line.day()) {
                lines.push(line);
            }
            let last = lines.last_mut().expect("one was pushed if there was none");
            last.say(&said.text[piece.at.clone()], piece.cut);
        }
        Self::counted(lines)
    }

    fn counted(lines: Vec<Line>) -> Self {
        let mut summary = Self { lines, tokens: 0 };
        summary.tokens = tokens::count(&summary.text());
        summary
    }
}

impl Line {
    fn day(&self) -> Option<Date> {
        self.at.map(|at| at.to_zoned(TimeZone::UTC).date())
    }

    /// Adds a sentence. Where something was left out of one, and between two that would run into each other, is an ellipsis.
    fn say(&mut self, sentence: &str, cut: (bool, bool)) {
        let ends = self.text.is_empty() || self.text.ends_with(['.', '!', '?', '。', '！', '？', ELLIPSIS]);
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        if !ends || (cut.0 && !self.text.ends_with("… ")) {
            self.text.push(ELLIPSIS);
            self.text.push(' ');
        }
        self.text.push_str(sentence);
        if cut.1 {
            self.text.push_str(" …");
        }
    }
}

/// The day a line begins with, as an instant, and the rest of the line.
fn day_of(line: &str) -> (Option<Timestamp>, &str) {
    let read = |(day, rest)| {
        let midnight = str::parse::<Date>(day).ok()?.to_zoned(TimeZone::UTC).ok()?;
        Some((Some(midnight.timestamp()), rest))
    };
    line.split_once(' ').and_then(read).unwrap_or((None, line))
}

/// A name as it stands before a colon: one line, no colon of its own, not endless.
pub(super) fn speaker(name: &str) -> String {
    let plain = |c: char| if c == ':' || c.is_control() || is_line_end(c) { ' ' } else { c };
    let words: String = name.chars().map(plain).take(SPEAKER_CHARS_MAX).collect();
    let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() { NOBODY.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(speaker: &str, text: &str, at: Option<&str>) -> Line {
        Line { speaker: speaker.into(), text: text.into(), at: at.map(|at| at.parse().expect("a time")) }
    }

    #[test]
    fn days_are_told_when_there_are_several() {
        let one_day = vec![
            line("Ann", "I moved.", Some("2026-03-01T09:00:00Z")),
            line("Bo", "Where?", Some("2026-03-01T09:01:00Z")),
        ];
        assert_eq!(Summary::counted(one_day.clone()).text(), "Ann: I moved.\nBo: Where?");
        let two_days = [one_day, vec![line("Ann", "Porto.", Some("2026-03-02T00:00:00Z"))]].concat();
        let text = Summary::counted(two_days).text();
        assert_eq!(text, "2026-03-01 Ann: I moved.\nBo: Where?\n2026-03-02 Ann: Porto.");
        assert_eq!(Summary::read(&text, None).text(), text);
    }

    #[test]
    fn a_summary_is_read_back() {
        let at = "2026-03-01T09:00:00Z".parse().ok();
        let read = Summary::read("Ann: I moved: to Porto.\n\nno speaker", at);
        let expected = [line("Ann", "I moved: to Porto.", None), line("?", "no speaker", None)];
        let expected: Vec<Line> = expected.into_iter().map(|line| Line { at, ..line }).collect();
        assert_eq!(read.lines, expected);
    }

    #[test]
    fn a_line_is_who_and_what() {
        assert_eq!(Summary::speaker_and_said("2026-03-01 Ann: I moved: far."), ("2026-03-01 Ann: ", "I moved: far."));
        assert_eq!(Summary::speaker_and_said("It rains."), ("", "It rains."));
    }

    #[test]
    fn names_stay_before_their_colon() {
        assert_eq!(speaker(" Ann:\n the  first "), "Ann the first");
        assert_eq!(speaker(":"), "?");
        assert_eq!(speaker(&"x".repeat(100)).len(), SPEAKER_CHARS_MAX);
    }

    #[test]
    fn what_is_left_out_is_marked() {
        let mut line = line("Ann", "", None);
        line.say("I moved", (false, false));
        line.say("It rains.", (false, false));
        line.say("my brother", (true, true));
        line.say("came too", (true, false));
        assert_eq!(line.text, "I moved … It rains. … my brother … came too");
    }
}
