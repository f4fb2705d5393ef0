//! What search keeps of a turn: words, marks, names and times, without the text.
//!
//! Rows are made from turns by [`rows_of`] and can be made again at any time; the store keeps their bytes so that a
//! scope is loaded without reading and taking apart its texts.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::Timestamp;

use super::index::vocabulary::Vocabulary;
use super::marks::Marks;
use super::text::{MATCHED_BYTES_MAX, beginning, matching_text};
use crate::language::{Tongue, inner_capitals, is_stop, tongue, words};
use crate::message::{Message, Role};
use crate::session::Turn;

/// The form of the bytes. Rows of another form are made anew.
pub(crate) const ROW_FORM: u8 = 1;

/// Distinct words kept of one message.
const WORDS_MAX: usize = 2_000;
/// Bytes of a speaker's name that are kept.
const NAME_BYTES_MAX: usize = 120;

/// Who said it, as far as search cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// A person: such messages are what is searched.
    Person,
    /// The model: its replies come with the message they answer.
    Model,
}

/// A word of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordUse<'a> {
    /// In lower case.
    pub(crate) word: Cow<'a, str>,
    /// How often, 127 at most.
    pub(crate) times: u8,
    /// Whether it was written with a capital inside a sentence.
    pub(crate) capital: bool,
}

/// What search keeps of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// The message's place in its turn.
    pub(crate) position: u16,
    /// Who said it.
    pub(crate) voice: Voice,
    /// The speaker's name, if they have one.
    pub(crate) name: Option<Cow<'a, str>>,
    /// The language it is in.
    pub(crate) tongue: Tongue,
    /// When it was said.
    pub(crate) said_at: Timestamp,
    /// What was noticed in it.
    pub(crate) marks: Marks,
    /// Its words without stop words.
    pub(crate) words: Vec<WordUse<'a>>,
}

/// The rows of a turn: what people and the model said in it. Tools and set-up are not searched.
pub(crate) fn rows_of(turn: &Turn) -> Vec<Row<'static>> {
    let spoken = turn.messages.iter().enumerate().filter(|(_, message)| searched(message));
    spoken.map(|(position, message)| row_of(position as u16, message)).collect()
}

/// The texts that are embedded for a turn, in the order of its rows.
pub(crate) fn texts_of(turn: &Turn) -> Vec<String> {
    turn.messages.iter().filter(|message| searched(message)).map(vector_text).collect()
}

fn searched(message: &Message) -> bool {
    message.is_spoken() && !message.text.trim().is_empty()
}

/// A person's name says who speaks, and questions ask by it.
fn vector_text(message: &Message) -> String {
    let text = matching_text(&message.text);
    match &message.name {
        Some(name) => format!("{name}: {text}"),
        None => text.into_owned(),
    }
}

fn row_of(position: u16, message: &Message) -> Row<'static> {
    let text = matching_text(&message.text);
    let tongue = tongue(&text, Tongue::English);
    let said: Vec<String> = words(&text).map(Cow::into_owned).collect();
    let marks_text = beginning(&message.text, MATCHED_BYTES_MAX);
    let marks = Marks::read(marks_text, said.iter().map(String::as_str), tongue);
    let voice = if message.role == Role::Assistant { Voice::Model } else { Voice::Person };
    let name = message.name.as_deref().map(|name| beginning(name, NAME_BYTES_MAX).to_owned().into());
    let words = count_words(said, &inner_capitals(&text), tongue);
    Row { position, voice, name, tongue, said_at: message.created_at, marks, words }
}

fn count_words(said: Vec<String>, capitals: &[String], tongue: Tongue) -> Vec<WordUse<'static>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut words: Vec<WordUse<'static>> = Vec::new();
    for word in said.into_iter().filter(|word| !is_stop(word, tongue)) {
        match places.get(&word) {
            Some(&at) => words[at].times = (words[at].times + 1).min(TIMES_MAX),
            None if words.len() == WORDS_MAX => {}
            None => {
                places.insert(word.clone(), words.len());
                words.push(WordUse { capital: capitals.contains(&word), word: word.into(), times: 1 });
            }
        }
    }
    words
}

const TIMES_MAX: u8 = 127;
const CAPITAL: u8 = 0x80;

/// The bytes of a turn's rows.
pub(crate) fn encode(rows: &[Row<'_>]) -> Vec<u8> {
    let mut bytes = vec![ROW_FORM];
    put_number(&mut bytes, rows.len() as u64);
    for row in rows {
        put_number(&mut bytes, row.position.into());
        bytes.push(u8::from(row.voice == Voice::Model) | (row.tongue as u8) << 1 | u8::from(row.name.is_some()) << 7);
        if let Some(name) = &row.name {
            put_text(&mut bytes, name);
        }
        bytes.extend(row.said_at.as_microsecond().to_le_bytes());
        bytes.extend(row.marks.pack().to_le_bytes());
        put_number(&mut bytes, row.words.len() as u64);
        for word in &row.words {
            bytes.push(word.times.min(TIMES_MAX) | if word.capital { CAPITAL } else { 0 });
            put_text(&mut bytes, &word.word);
        }
    }
    bytes
}

/// Reads what [`encode`] wrote; `None` for another form, or for anything else.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Row<'_>>> {
    let mut rest = Bytes(bytes);
    if rest.byte()? != ROW_FORM {
        return None;
    }
    let count = rest.number()?;
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push(decode_row(&mut rest)?);
    }
    Some(rows)
}

fn decode_row<'a>(rest: &mut Bytes<'a>) -> Option<Row<'a>> {
    let position = u16::try_from(rest.number()?).ok()?;
    let head = rest.byte()?;
    let voice = if head & 1 == 1 { Voice::Model } else { Voice::Person };
    let tongue = *Tongue::ALL.get(usize::from(head >> 1 & 0x3f))?;
    let name = if head & 0x80 != 0 { Some(rest.text()?.into()) } else { None };
    let said_at = Timestamp::from_microsecond(i64::from_le_bytes(rest.array()?)).ok()?;
    let marks = Marks::unpack(u16::from_le_bytes(rest.array()?));
    let count = rest.number()?;
    let mut words = Vec::with_capacity(usize::try_from(count).ok()?.min(WORDS_MAX));
    for _ in 0..count {
        let times = rest.byte()?;
        let word = rest.text()?.into();
        words.push(WordUse { word, times: times & TIMES_MAX, capital: times & CAPITAL != 0 });
    }
    Some(Row { position, voice, name, tongue, said_at, marks, words })
}

/// Rows that were read from their bytes and whose words were hashed, so that taking them in does neither.
#[derive(Default)]
pub(crate) struct ReadRows {
    bytes: Vec<u8>,
    pub(crate) rows: Vec<ReadRow>,
}

/// A row among its bytes.
pub(crate) struct ReadRow {
    pub(crate) position: u16,
    pub(crate) voice: Voice,
    pub(crate) name: Option<String>,
    pub(crate) tongue: Tongue,
    pub(crate) said_at: Timestamp,
    pub(crate) marks: Marks,
    pub(crate) words: Vec<ReadWord>,
}

/// A word among the bytes of its row.
pub(crate) struct ReadWord {
    /// What a vocabulary knows it by.
    pub(crate) hash: u64,
    at: u32,
    length: u32,
    pub(crate) times: u8,
    pub(crate) capital: bool,
}

impl ReadRows {
    /// Reads what [`encode`] wrote; nothing of anything else.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        let read = |row: Row<'_>| ReadRow {
            position: row.position,
            voice: row.voice,
            name: row.name.map(Cow::into_owned),
            tongue: row.tongue,
            said_at: row.said_at,
            marks: row.marks,
            words: row.words.iter().map(|word| ReadWord::of(word, &bytes)).collect(),
        };
        let rows = decode(&bytes).unwrap_or_default().into_iter().map(read).collect();
        Self { bytes, rows }
    }

    /// The letters of a word of these rows.
    pub(crate) fn letters(&self, word: &ReadWord) -> &str {
        let bytes = self.bytes.get(word.at as usize..(word.at + word.length) as usize);
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl ReadWord {
    fn of(word: &WordUse<'_>, bytes: &[u8]) -> Self {
        // What was decoded lies among the bytes.
        let at = word.word.as_ptr() as usize - bytes.as_ptr() as usize;
        Self {
            hash: Vocabulary::hash(&word.word),
            at: at as u32,
            length: word.word.len() as u32,
            times: word.times,
            capital: word.capital,
        }
    }
}

/// Seven bits at a time, lowest first.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Bytes that are yet to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(text: &str) -> Row<'static> {
        row_of(3, &Message::new(Role::User, text, Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn a_row_holds_the_words_that_matter() {
        let row = row("My dog Rex ate the other dog's food in Lisbon.");
        let words: Vec<&str> = row.words.iter().map(|word| &*word.word).collect();
        assert_eq!(words, ["dog", "rex", "ate", "other", "food", "lisbon"]);
        assert_eq!(row.words[0].times, 2);
        let capitals: Vec<&str> = row.words.iter().filter(|word| word.capital).map(|word| &*word.word).collect();
        assert_eq!(capitals, ["rex", "lisbon"]);
    }

    proptest! {
        #[test]
        fn rows_survive_their_bytes(texts in proptest::collection::vec("\\PC{0,80}", 0..4), name in proptest::option::of("[A-Z][a-z]{1,9}")) {
            let rows: Vec<Row<'static>> = texts.iter().map(|text| Row { name: name.clone().map(Cow::Owned), ..row(text) }).collect();
            let bytes = encode(&rows);
            prop_assert_eq!(decode(&bytes), Some(rows.clone()));
            let read = ReadRows::of(bytes);
            let words: Vec<(&str, u64, u8, bool)> = read.rows.iter().flat_map(|row| &row.words)
                .map(|word| (read.letters(word), word.hash, word.times, word.capital)).collect();
            let expected: Vec<(&str, u64, u8, bool)> = rows.iter().flat_map(|row| &row.words)
                .map(|word| (&*word.word, Vocabulary::hash(&word.word), word.times, word.capital)).collect();
            prop_assert_eq!(words, expected);
        }

        #[test]
        fn any_bytes_can_be_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            decode(&bytes);
        }
    }
}
