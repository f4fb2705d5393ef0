//! Plain text transcripts: a line with a time and a speaker begins a message, lines without go on with it.
//!
//! `12/05/2026, 14:03 - Ann: …` (WhatsApp), `[12.05.26, 14:03:22] Ann: …`, `5/12/26, 2:03 PM - Ann: …`, `[2026-05-12 14:03] Ann: …`,
//! `2026-05-12T14:03:00Z Ann: …`, `2026-05-12 14:03 <Ann> …`.

use std::collections::HashMap;
use std::io::BufRead;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use xxhash_rust::xxh3::xxh3_64;

use super::own::Lines;
use super::thread::{Next, Thread};
use super::value::clean;
use super::{Around, Format, Found, ReadError, Taker};
use crate::message::{Message, Role};

/// Longest name of a speaker, in characters: what is longer is a sentence with a colon.
const SPEAKER_CHARS_MAX: usize = 60;
/// Lines that are held back until it is known whether the day or the month comes first.
const UNDECIDED_MAX: usize = 20_000;

/// Whether a text looks like one: several of its first lines begin a message.
pub(super) fn is_one(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(50).collect();
    let heads = lines.iter().filter(|line| Head::of(line).is_some_and(|head| head.speaker.is_some())).count();
    heads >= 1 && heads * 10 >= lines.len()
}

/// Reads a transcript as one conversation.
pub(super) fn read(input: impl BufRead, around: &Around, taker: Taker<'_>) -> Result<(), ReadError> {
    let mut lines = Lines::of(input);
    let mut reading = Reading { zone: &around.zone, order: None, held: Vec::new(), talk: Talk::default() };
    while let Some(line) = lines.next()? {
        let text = String::from_utf8_lossy(&line).into_owned();
        if !reading.take(lines.number, text, taker) {
            return Ok(());
        }
    }
    let order = reading.order.unwrap_or_else(|| Order::usual(&reading.held));
    reading.decide(order, taker);
    reading.talk.finish(taker);
    Ok(())
}

/// Which number of a date is the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    DayFirst,
    MonthFirst,
}

impl Order {
    /// What a date says about it, if anything.
    fn told(head: &Head<'_>) -> Option<Self> {
        match head.date {
            Written::Iso(_) => None,
            Written::Numbers(first, _, _) if first > 12 => Some(Self::DayFirst),
            Written::Numbers(_, second, _) if second > 12 => Some(Self::MonthFirst),
            Written::Numbers(..) => None,
        }
    }

    /// Those who write AM and PM put the month first; most others do not.
    fn usual(held: &[(u64, String)]) -> Self {
        let american = held.iter().any(|(_, line)| Head::of(line).is_some_and(|head| head.half_day));
        if american { Self::MonthFirst } else { Self::DayFirst }
    }
}

struct Reading<'a> {
    zone: &'a TimeZone,
    order: Option<Order>,
    held: Vec<(u64, String)>,
    talk: Talk,
}

impl Reading<'_> {
    fn take(&mut self, number: u64, line: String, taker: Taker<'_>) -> bool {
        if self.order.is_some() {
            return self.line(number, &line, taker);
        }
        let told = Head::of(&line).map(|head| (Order::told(&head), matches!(head.date, Written::Iso(_))));
        self.held.push((number, line));
        match told {
            Some((Some(order), _)) => self.decide(order, taker),
            Some((None, true)) => self.decide(Order::DayFirst, taker),
            _ if self.held.len() >= UNDECIDED_MAX => self.decide(Order::usual(&self.held), taker),
            _ => true,
        }
    }

    /// Now that the order of dates is known, what was held back is read.
    fn decide(&mut self, order: Order, taker: Taker<'_>) -> bool {
        self.order = Some(order);
        std::mem::take(&mut self.held).into_iter().all(|(number, line)| self.line(number, &line, taker))
    }

    fn line(&mut self, number: u64, line: &str, taker: Taker<'_>) -> bool {
        let order = self.order.unwrap_or(Order::DayFirst);
        let line = line.trim_end_matches(['\n', '\r']);
        let Some(head) = Head::of(line) else { return self.talk.go_on(number, line, taker) };
        let at = head.at(order, self.zone);
        match (at, head.speaker) {
            (Some(at), Some(speaker)) => self.talk.begin(number, at, speaker, head.text, taker),
            (Some(_), None) => self.talk.end(taker) && taker(Found::Passed("nobody said it")),
            (None, _) => {
                self.talk.end(taker) && taker(Found::Bad(format!("line {number}"), "there is no such date".into()))
            }
        }
    }
}

/// The conversation as far as it was read.
#[derive(Default)]
struct Talk {
    thread: Option<Thread>,
    /// The message that lines still belong to, and where it begins.
    open: Option<(u64, Message)>,
    /// How often a message was said in the same words at this time.
    again: (Timestamp, HashMap<u64, u32>),
}

impl Talk {
    fn begin(&mut self, number: u64, at: Timestamp, speaker: &str, text: &str, taker: Taker<'_>) -> bool {
        let goes_on = self.end(taker);
        let mut message = Message::new(role_of(speaker), text, at);
        message.name = (message.role == Role::User && !is_me(speaker)).then(|| clean(speaker));
        self.open = Some((number, message));
        goes_on
    }

    fn go_on(&mut self, number: u64, line: &str, taker: Taker<'_>) -> bool {
        match &mut self.open {
            Some((_, message)) => {
                message.text.push('\n');
                message.text.push_str(line);
                true
            }
            None if line.trim().trim_start_matches('\u{feff}').is_empty() => true,
            None => taker(Found::Bad(format!("line {number}"), "it has no time and no speaker".into())),
        }
    }

    /// Hands over the message that was read.
    fn end(&mut self, taker: Taker<'_>) -> bool {
        let Some((number, mut message)) = self.open.take() else { return true };
        message.text = clean(message.text.trim());
        if message.text.is_empty() {
            return taker(Found::Passed("nothing was said in it"));
        }
        let name = message.name.as_deref().unwrap_or_default();
        let said = [&message.created_at.to_string(), "\0", message.role.as_str(), name, "\0", &message.text].concat();
        let print = xxh3_64(said.as_bytes());
        if self.again.0 != message.created_at {
            self.again = (message.created_at, HashMap::new());
        }
        let again = self.again.1.entry(print).or_default();
        *again += 1;
        let key = format!("{print:016x}.{again}");
        let begun = message.created_at;
        let thread = self.thread.get_or_insert_with(|| Thread::new(Format::Transcript, &key, begun));
        thread.push(&format!("line {number}"), Next { key, message, dated: true }, taker)
    }

    fn finish(&mut self, taker: Taker<'_>) {
        if self.end(taker)
            && let Some(thread) = &mut self.thread
        {
            thread.close(taker);
        }
    }
}

/// Who speaks: programs by their usual names, everybody else is a person.
fn role_of(speaker: &str) -> Role {
    match speaker.trim().to_lowercase().as_str() {
        "assistant" | "ai" | "bot" | "chatgpt" | "gpt" | "claude" | "gemini" | "copilot" | "model" | "llm" => {
            Role::Assistant
        }
        "system" => Role::System,
        "tool" => Role::Tool,
        _ => Role::User,
    }
}

fn is_me(speaker: &str) -> bool {
    matches!(speaker.trim().to_lowercase().as_str(), "user" | "me" | "you" | "human")
}

/// The beginning of a message.
#[derive(Debug)]
struct Head<'a> {
    date: Written,
    time: Time,
    /// The zone, when it is written: the offset in seconds.
    offset: Option<i32>,
    half_day: bool,
    speaker: Option<&'a str>,
    text: &'a str,
}

/// A date as it is written.
#[derive(Debug, Clone, Copy)]
enum Written {
    Iso(Date),
    /// Two numbers, and the year.
    Numbers(i8, i8, i16),
}

impl<'a> Head<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let marks: [char; 4] = ['\u{feff}', '\u{200e}', '\u{200f}', ' '];
        let line = line.trim_start_matches(marks).trim_end_matches(['\n', '\r']);
        let (inside, bracketed) = match line.strip_prefix('[') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let mut scan = Scan { rest: inside };
        let date = scan.date()?;
        scan.skip(&[',', ' ', 'T', '\u{202f}']);
        let (time, half_day) = scan.time()?;
        let offset = scan.offset();
        if bracketed {
            scan.rest = scan.rest.strip_prefix(']')?;
        }
        scan.skip(&[' ', '\u{200e}', '\u{202f}']);
        // Between the time and the speaker there is a dash, a colon, or nothing.
        for dash in ["- ", "– ", "— ", "| "] {
            scan.rest = scan.rest.strip_prefix(dash).unwrap_or(scan.rest);
        }
        let (speaker, text) = speaker(scan.rest);
        Some(Self { date, time, offset, half_day, speaker, text })
    }

    fn at(&self, order: Order, zone: &TimeZone) -> Option<Timestamp> {
        let date = match self.date {
            Written::Iso(date) => date,
            Written::Numbers(first, second, year) => match order {
                Order::DayFirst => Date::new(year, second, first).ok()?,
                Order::MonthFirst => Date::new(year, first, second).ok()?,
            },
        };
        let local = DateTime::from_parts(date, self.time);
        let zone = match self.offset {
            Some(seconds) => TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?),
            None => zone.clone(),
        };
        zone.to_timestamp(local).ok()
    }
}

/// `Ann: text` or `<Ann> text`.
fn speaker(rest: &str) -> (Option<&str>, &str) {
    if let Some((name, text)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return (Some(name.trim()), text.trim_start());
    }
    match rest.split_once(':') {
        Some((name, text)) if !name.trim().is_empty() && name.chars().count() <= SPEAKER_CHARS_MAX => {
            (Some(name.trim()), text.trim_start_matches(' '))
        }
        _ => (None, rest),
    }
}

/// Reads a line from its front.
struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    fn skip(&mut self, these: &[char]) {
        self.rest = self.rest.trim_start_matches(these);
    }

    /// A number of so many digits.
    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<i16> {
        let end = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest.get(..end).filter(|_| digits.contains(&end))?.parse().ok()?;
        self.rest = &self.rest[end..];
        Some(number)
    }

    fn one_of(&mut self, these: &[char]) -> Option<char> {
        let found = self.rest.chars().next().filter(|c| these.contains(c))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn date(&mut self) -> Option<Written> {
        let first = self.number(1..=4)?;
        let between = self.one_of(&['-', '/', '.'])?;
        let second = self.number(1..=2)?;
        self.one_of(&[between])?;
        if first > 31 {
            let day = self.number(1..=2)?;
            return Date::new(first, second as i8, day as i8).ok().map(Written::Iso);
        }
        let year = self.number(2..=4)?;
        let year = if year < 100 { 2000 + year } else { year };
        Some(Written::Numbers(first as i8, second as i8, year))
    }

    /// The time, and whether it counts to twelve twice.
    fn time(&mut self) -> Option<(Time, bool)> {
        let mut hour = self.number(1..=2)?;
        self.one_of(&[':', '.'])?;
        let minute = self.number(2..=2)?;
        let mut second = 0;
        if self.rest.starts_with(':') && self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
            self.rest = &self.rest[1..];
            second = self.number(2..=2)?;
        }
        if self.rest.starts_with('.') {
            self.rest = self.rest[1..].trim_start_matches(|c: char| c.is_ascii_digit());
        }
        let half = self.half();
        match half {
            Some(true) if hour < 12 => hour += 12,
            Some(false) if hour == 12 => hour = 0,
            _ => {}
        }
        Some((Time::new(hour as i8, minute as i8, second as i8, 0).ok()?, half.is_some()))
    }

    /// AM is `false`, PM is `true`.
    fn half(&mut self) -> Option<bool> {
        let rest = self.rest.trim_start_matches([' ', '\u{202f}', '\u{a0}']);
        let (word, afternoon) = [("am", false), ("pm", true), ("a.m.", false), ("p.m.", true)]
            .into_iter()
            .find(|(word, _)| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))?;
        self.rest = &rest[word.len()..];
        Some(afternoon)
    }

    /// `Z`, `+02:00` or `+0200`, directly behind the time.
    fn offset(&mut self) -> Option<i32> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Some(0);
        }
        let before = self.rest;
        let read = |scan: &mut Self| {
            let sign = if scan.one_of(&['+', '-'])? == '-' { -1 } else { 1 };
            let hours = scan.number(2..=2).or_else(|| scan.number(4..=4))?;
            if hours >= 100 {
                return Some(sign * (i32::from(hours) / 100 * 3600 + i32::from(hours) % 100 * 60));
            }
            scan.one_of(&[':'])?;
            Some(sign * (i32::from(hours) * 3600 + i32::from(scan.number(2..=2)?) * 60))
        };
        let found = read(self);
        if found.is_none() {
            self.rest = before;
        }
        found
    }
}
