//! Turns as bytes, before they are compressed.
//!
//! ```text
//! version · count · columns · texts
//! ```
//!
//! Numbers are varints. A column has one kind of value of every turn, because like beside like compresses best: by how much
//! the numbers grow, which texts there are, how long they are. The texts follow, `extra` of all turns first (they resemble
//! each other), then questions and answers as they were said.

use super::Archived;

/// How frames are written now.
const VERSION: u64 = 1;

const HAS_ANSWER: u64 = 1;
const HAS_EXTRA: u64 = 2;

/// The bytes of some turns. They are in the order of their numbers, none twice.
pub(super) fn write(turns: &[Archived]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(turns.iter().map(text_bytes).sum::<usize>() + 8 * turns.len() + 16);
    put(&mut bytes, VERSION);
    put(&mut bytes, turns.len() as u64);
    let mut before = 0;
    for turn in turns {
        put(&mut bytes, turn.number - before);
        before = turn.number;
    }
    turns.iter().for_each(|turn| put(&mut bytes, parts(turn)));
    for text in extras(turns).chain(said(turns)) {
        put(&mut bytes, text.len() as u64);
    }
    for text in extras(turns).chain(said(turns)) {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Reads all turns; `None` if the bytes are no frame.
pub(super) fn read(bytes: &[u8]) -> Option<Vec<Archived>> {
    let frame = Frame::read(bytes)?;
    Some(frame.entries.iter().map(Entry::owned).collect())
}

/// Reads one turn: the outer `None` if the bytes are no frame, the inner if the turn is not in it.
pub(super) fn read_one(bytes: &[u8], number: u64) -> Option<Option<Archived>> {
    let frame = Frame::read(bytes)?;
    let found = frame.entries.binary_search_by_key(&number, |entry| entry.number).ok();
    Some(found.map(|at| frame.entries[at].owned()))
}

fn text_bytes(turn: &Archived) -> usize {
    let optional = [&turn.answer, &turn.extra].into_iter().flatten().map(String::len).sum::<usize>();
    turn.question.len() + optional
}

fn parts(turn: &Archived) -> u64 {
    let answer = if turn.answer.is_some() { HAS_ANSWER } else { 0 };
    let extra = if turn.extra.is_some() { HAS_EXTRA } else { 0 };
    answer | extra
}

fn extras(turns: &[Archived]) -> impl Iterator<Item = &str> {
    turns.iter().filter_map(|turn| turn.extra.as_deref())
}

fn said(turns: &[Archived]) -> impl Iterator<Item = &str> {
    turns.iter().flat_map(|turn| [Some(turn.question.as_str()), turn.answer.as_deref()].into_iter().flatten())
}

/// Appends a number, seven bits to a byte.
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A frame whose texts are still where they were read from.
struct Frame<'a> {
    entries: Vec<Entry<'a>>,
}

#[derive(Default)]
struct Entry<'a> {
    number: u64,
    parts: u64,
    question: &'a str,
    answer: &'a str,
    extra: &'a str,
}

impl Entry<'_> {
    fn owned(&self) -> Archived {
        let text = |part: u64, text: &str| (self.parts & part != 0).then(|| text.to_owned());
        Archived {
            number: self.number,
            question: self.question.to_owned(),
            answer: text(HAS_ANSWER, self.answer),
            extra: text(HAS_EXTRA, self.extra),
        }
    }
}

impl<'a> Frame<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        if reader.varint()? != VERSION {
            return None;
        }
        let mut entries = reader.numbers()?;
        for entry in &mut entries {
            entry.parts = reader.varint().filter(|parts| *parts <= HAS_ANSWER | HAS_EXTRA)?;
        }
        let lengths: Vec<usize> =
            (0..entries.iter().map(texts).sum()).map(|_| reader.length()).collect::<Option<_>>()?;
        let mut texts = Texts { lengths: lengths.into_iter(), rest: std::str::from_utf8(reader.rest).ok()? };
        for entry in entries.iter_mut().filter(|entry| entry.parts & HAS_EXTRA != 0) {
            entry.extra = texts.next()?;
        }
        for entry in &mut entries {
            entry.question = texts.next()?;
            if entry.parts & HAS_ANSWER != 0 {
                entry.answer = texts.next()?;
            }
        }
        texts.rest.is_empty().then_some(Self { entries })
    }
}

/// How many texts an entry has.
fn texts(entry: &Entry<'_>) -> usize {
    1 + entry.parts.count_ones() as usize
}

/// What is left to read.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Entries that have nothing yet but their numbers, each larger than the one before.
    fn numbers(&mut self) -> Option<Vec<Entry<'a>>> {
        let count = self.length()?;
        // An entry takes at least three bytes, so a forged count cannot ask for more memory than there is content.
        if count > self.rest.len() {
            return None;
        }
        let mut entries: Vec<Entry<'a>> = Vec::with_capacity(count);
        for _ in 0..count {
            let growth = self.varint()?;
            let number = match entries.last() {
                Some(before) => before.number.checked_add(growth).filter(|_| growth > 0)?,
                None => growth,
            };
            entries.push(Entry { number, ..Entry::default() });
        }
        Some(entries)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

struct Texts<'a> {
    lengths: std::vec::IntoIter<usize>,
    rest: &'a str,
}

impl<'a> Texts<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (text, rest) = self.rest.split_at_checked(self.lengths.next()?)?;
        self.rest = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_is_as_small_as_it_reads() {
        let turn = |number, answer: Option<&str>| Archived {
            number,
            question: "Hi".into(),
            answer: answer.map(str::to_owned),
            extra: None,
        };
        let bytes = write(&[turn(300, Some("Ho")), turn(301, None)]);
        assert_eq!(bytes, b"\x01\x02\xac\x02\x01\x01\x00\x02\x02\x02HiHoHi");
        assert_eq!(read(&bytes), Some(vec![turn(300, Some("Ho")), turn(301, None)]));
        assert_eq!(read_one(&bytes, 301), Some(Some(turn(301, None))));
        assert_eq!(read_one(&bytes, 302), Some(None));
        assert_eq!(read(&write(&[])), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_frame_is_told() {
        for bytes in [
            &b""[..],
            b"\x02\x00",                                                     // of another version
            b"\x01\x01\x05\x00\x03Hi",                                       // shorter than it says
            b"\x01\x01\x05\x00\x01Hi",                                       // longer than it says
            b"\x01\x01\x05\x04\x02Hi",                                       // with a part that nobody knows
            b"\x01\x02\x05\x00\x00\x00\x00\x00",                             // with a number twice
            b"\x01\x01\x05\x00\x02\xc3\x28",                                 // no text
            b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f",                     // as many turns as there are numbers
            b"\x01\x01\x05\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // a number of more than 64 bits
        ] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_of_any_size_come_back(numbers in prop::collection::btree_set(any::<u64>(), 0..20)) {
            let turns: Vec<Archived> = numbers.into_iter().map(|number| Archived { number, ..Archived::default() }).collect();
            prop_assert_eq!(read(&write(&turns)), Some(turns));
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
            read(&[&[1, 3][..], &bytes].concat());
        }
    }
}
