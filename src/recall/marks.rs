//! What can be seen of a message without understanding it: does it ask, does it name a time, a number, a place.
//!
//! Each mark is a prior of its own in the score; see `signals`.

use crate::language::{Tongue, is_first_person, is_number_word, is_time_word};

/// What was noticed in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    /// It ends in a question mark.
    pub(crate) asks: bool,
    /// The speaker speaks of themselves.
    pub(crate) first_person: bool,
    /// A word for a time is in it.
    pub(crate) time: bool,
    /// A number is in it, in digits or as a word.
    pub(crate) number: bool,
    /// It goes on with a capital after "in", "at", "from" and the like.
    pub(crate) place: bool,
    /// A double quote opens before a word.
    pub(crate) quote: bool,
    /// It says how to answer from now on.
    pub(crate) instructs: bool,
    /// It says what the speaker likes better.
    pub(crate) prefers: bool,
    /// Runs of digits, four at most.
    pub(crate) digits: u8,
}

/// Most digit runs that count.
const DIGITS_MAX: u8 = 4;

impl Marks {
    /// Reads a message; `words` are its words in lower case.
    pub(crate) fn read<'a>(text: &str, words: impl Iterator<Item = &'a str>, tongue: Tongue) -> Self {
        let trimmed = text.trim_end();
        let digits = digit_runs(text);
        let mut marks = Self {
            asks: trimmed.ends_with(['?', '？']),
            place: names_a_place(text, tongue),
            quote: opens_quote(text),
            instructs: super::stance::instructs(text),
            prefers: super::stance::prefers(text),
            number: digits > 0,
            digits,
            ..Self::default()
        };
        for word in words {
            marks.first_person |= is_first_person(word, tongue);
            marks.time |= is_time_word(word, tongue);
            marks.number |= is_number_word(word, tongue);
        }
        marks
    }

    /// The marks in sixteen bits.
    pub(crate) fn pack(self) -> u16 {
        let flags = [
            self.asks,
            self.first_person,
            self.time,
            self.number,
            self.place,
            self.quote,
            self.instructs,
            self.prefers,
        ];
        let bits = flags.iter().enumerate().fold(0, |bits, (at, flag)| bits | (u16::from(*flag) << at));
        bits | (u16::from(self.digits) << 8)
    }

    /// Reads what [`Marks::pack`] wrote.
    pub(crate) fn unpack(bits: u16) -> Self {
        let flag = |at: u16| bits >> at & 1 == 1;
        Self {
            asks: flag(0),
            first_person: flag(1),
            time: flag(2),
            number: flag(3),
            place: flag(4),
            quote: flag(5),
            instructs: flag(6),
            prefers: flag(7),
            digits: ((bits >> 8) as u8).min(DIGITS_MAX),
        }
    }
}

fn digit_runs(text: &str) -> u8 {
    let mut runs = 0;
    let mut inside = false;
    for byte in text.bytes() {
        let digit = byte.is_ascii_digit();
        runs += u8::from(digit && !inside);
        inside = digit;
        if runs == DIGITS_MAX {
            break;
        }
    }
    runs
}

/// Words before a place, by language.
fn place_words(tongue: Tongue) -> &'static [&'static str] {
    match tongue {
        Tongue::English => &["in", "at", "to", "from", "near", "around"],
        Tongue::Dutch => &["in", "te", "naar", "uit", "bij", "vanuit", "rond"],
        Tongue::German => &["in", "nach", "aus", "bei", "von", "um"],
        Tongue::French => &["à", "en", "au", "aux", "de", "vers", "près"],
        Tongue::Spanish => &["en", "a", "de", "desde", "cerca", "hacia"],
    }
}

/// Articles that may stand between.
const ARTICLES: [&str; 10] = ["the", "de", "het", "der", "die", "das", "la", "le", "el", "los"];

fn names_a_place(text: &str, tongue: Tongue) -> bool {
    let before = place_words(tongue);
    let mut expects = false;
    for word in text.split_whitespace() {
        if expects && word.chars().next().is_some_and(char::is_uppercase) {
            return true;
        }
        let lower = word.to_lowercase();
        expects = before.contains(&lower.as_str()) || (expects && ARTICLES.contains(&lower.as_str()));
    }
    false
}

fn opens_quote(text: &str) -> bool {
    let mut before = ' ';
    let mut opened = false;
    for c in text.chars() {
        if opened && c.is_alphanumeric() {
            return true;
        }
        opened = matches!(c, '"' | '“' | '„' | '«') && !before.is_alphanumeric();
        before = c;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::words;

    fn read(text: &str, tongue: Tongue) -> Marks {
        let words: Vec<String> = words(text).map(std::borrow::Cow::into_owned).collect();
        Marks::read(text, words.iter().map(String::as_str), tongue)
    }

    #[test]
    fn a_message_shows_its_marks() {
        let marks = read("I moved to Porto last week.", Tongue::English);
        assert!(marks.first_person && marks.time && marks.place && !marks.asks && !marks.number);
        let marks = read("Have you read \"The Trial\" twice?", Tongue::English);
        assert!(marks.asks && marks.quote && marks.number && !marks.place);
        let marks = read("Wij wonen sinds mei in de Jordaan, nummer 12.", Tongue::Dutch);
        assert!(marks.first_person && marks.time && marks.place && marks.digits == 1);
    }

    #[test]
    fn marks_survive_packing() {
        let marks = Marks { asks: true, place: true, prefers: true, digits: 3, ..Marks::default() };
        assert_eq!(Marks::unpack(marks.pack()), marks);
        assert_eq!(Marks::unpack(Marks::default().pack()), Marks::default());
    }
}
