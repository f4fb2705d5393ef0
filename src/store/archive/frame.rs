//! Turns as bytes, before they are compressed.
//!
//! ```text
//! version · count · columns · texts
//! ```
//!
//! A column has one kind of value of every turn, because like beside like compresses best: by how much
//! the numbers grow, which texts there are, how long they are. The texts follow, `extra` of all turns first (they resemble
//! each other), then questions and answers as they were said. An `extra` that a turn shortly before had already is not said
//! again: two people who take turns have one each. The first version did say it again.

use super::column::{Columns, Reader, put_runs, put_short};
use super::{Archived, CONTENT_BYTES_MAX};

/// How frames are written now.
const VERSION: u64 = 3;
/// The first that did not say an `extra` again.
const SAME_EXTRA_SINCE: u64 = 2;

const HAS_ANSWER: u64 = 1;
const HAS_EXTRA: u64 = 2;
/// How many turns before the same `extra` was, in the bits above; none if it is said here.
const SAME_EXTRA: u32 = 2;
/// So far back it is looked for.
const SAME_TURNS_MAX: usize = 8;

/// The bytes of some turns. They are in the order of their numbers, none twice.
pub(super) fn write(turns: &[Archived]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(turns.iter().map(Archived::bytes).sum::<usize>() + 8 * turns.len() + 16);
    put_short(&mut bytes, VERSION);
    put_short(&mut bytes, turns.len() as u64);
    let parts: Vec<u64> = (0..turns.len()).map(|at| parts(turns, at)).collect();
    put_runs(&mut bytes, &growths(turns));
    put_runs(&mut bytes, &parts);
    for text in extras(turns, &parts).chain(said(turns)) {
        put_short(&mut bytes, text.len() as u64);
    }
    for text in extras(turns, &parts).chain(said(turns)) {
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

/// By how much the numbers grow.
fn growths(turns: &[Archived]) -> Vec<u64> {
    let before = std::iter::once(0).chain(turns.iter().map(|turn| turn.number));
    turns.iter().zip(before).map(|(turn, before)| turn.number - before).collect()
}

/// Which texts a turn has.
fn parts(turns: &[Archived], at: usize) -> u64 {
    let answer = if turns[at].answer.is_some() { HAS_ANSWER } else { 0 };
    let Some(extra) = &turns[at].extra else { return answer };
    let same = |back: &usize| turns[at - back].extra.as_ref() == Some(extra);
    let back = (1..=at.min(SAME_TURNS_MAX)).find(same).unwrap_or(0);
    answer | HAS_EXTRA | (back as u64) << SAME_EXTRA
}

/// Those that are said here.
fn extras<'a>(turns: &'a [Archived], parts: &'a [u64]) -> impl Iterator<Item = &'a str> {
    let said_here = |(turn, parts): (&'a Archived, &u64)| turn.extra.as_deref().filter(|_| parts >> SAME_EXTRA == 0);
    turns.iter().zip(parts).filter_map(said_here)
}

fn said(turns: &[Archived]) -> impl Iterator<Item = &str> {
    turns.iter().flat_map(|turn| [Some(turn.question.as_str()), turn.answer.as_deref()].into_iter().flatten())
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
    /// How many turns before the same `extra` was.
    fn back(&self) -> usize {
        usize::try_from(self.parts >> SAME_EXTRA).unwrap_or(usize::MAX)
    }

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
        let version = reader.varint().filter(|version| (1..=VERSION).contains(version))?;
        let mut columns = Columns { reader, version };
        let mut entries = numbers(&mut columns)?;
        let parts = columns.runs(entries.len())?;
        for (entry, parts) in entries.iter_mut().zip(parts) {
            entry.parts = parts;
            if entry.back() > 0 && (columns.version < SAME_EXTRA_SINCE || entry.parts & HAS_EXTRA == 0) {
                return None;
            }
        }
        let lengths: Vec<usize> =
            (0..entries.iter().map(texts).sum()).map(|_| columns.length()).collect::<Option<_>>()?;
        let mut texts = Texts { lengths: lengths.into_iter(), rest: std::str::from_utf8(columns.reader.rest).ok()? };
        for at in 0..entries.len() {
            entries[at].extra = match entries[at].back() {
                0 if entries[at].parts & HAS_EXTRA == 0 => "",
                0 => texts.next()?,
                back => entries[..at].iter().nth_back(back - 1).filter(|same| same.parts & HAS_EXTRA != 0)?.extra,
            };
        }
        for entry in &mut entries {
            entry.question = texts.next()?;
            if entry.parts & HAS_ANSWER != 0 {
                entry.answer = texts.next()?;
            }
        }
        // What is said once and meant many times must not grow without end.
        let bytes = entries.iter().fold(0_usize, |sum, entry| sum.saturating_add(entry.extra.len()));
        (texts.rest.is_empty() && bytes <= CONTENT_BYTES_MAX).then_some(Self { entries })
    }
}

/// Entries that have nothing yet but their numbers, each larger than the one before.
fn numbers<'a>(columns: &mut Columns<'a>) -> Option<Vec<Entry<'a>>> {
    let count = columns.length()?;
    // An entry takes at least a byte, so a forged count cannot ask for more memory than there is content.
    if count > columns.reader.rest.len() {
        return None;
    }
    let mut entries: Vec<Entry<'a>> = Vec::with_capacity(count);
    for growth in columns.runs(count)? {
        let number = match entries.last() {
            Some(before) => before.number.checked_add(growth).filter(|_| growth > 0)?,
            None => growth,
        };
        entries.push(Entry { number, ..Entry::default() });
    }
    Some(entries)
}

/// How many texts of an entry are said here.
fn texts(entry: &Entry<'_>) -> usize {
    let extra = entry.parts & HAS_EXTRA != 0 && entry.back() == 0;
    1 + usize::from(entry.parts & HAS_ANSWER != 0) + usize::from(extra)
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
        assert_eq!(bytes, b"\x03\x02\x71\x3c\x01\x01\x01\x01\x01\x00\x01\x02\x02\x02HiHoHi");
        assert_eq!(read(&bytes), Some(vec![turn(300, Some("Ho")), turn(301, None)]));
        assert_eq!(read_one(&bytes, 301), Some(Some(turn(301, None))));
        assert_eq!(read_one(&bytes, 302), Some(None));
        assert_eq!(read(&write(&[])), Some(Vec::new()));
    }

    #[test]
    fn what_two_have_in_turns_is_said_once() {
        let named = |number, name: &str| Archived { number, extra: Some(name.to_owned()), ..Archived::default() };
        let turns = [named(1, "Ann"), named(2, "Bo"), named(3, "Ann"), Archived { number: 4, ..Archived::default() }];
        let bytes = write(&turns);
        assert_eq!(bytes, b"\x03\x04\x01\x04\x02\x02\x0a\x01\x00\x01\x03\x02\x00\x00\x00\x00AnnBo");
        assert_eq!(read(&bytes).as_deref(), Some(&turns[..]));
        let first_version = b"\x01\x02\x01\x01\x02\x02\x03\x03\x00\x00AnnAnn";
        assert_eq!(read(first_version), Some(vec![named(1, "Ann"), named(2, "Ann")]));
    }

    #[test]
    fn what_is_no_frame_is_told() {
        for bytes in [
            &b""[..],
            b"\x04\x00",                                                     // of another version
            b"\x01\x01\x05\x00\x03Hi",                                       // shorter than it says
            b"\x01\x01\x05\x00\x01Hi",                                       // longer than it says
            b"\x01\x01\x05\x04\x02Hi",                                       // with a part that nobody knows
            b"\x02\x01\x05\x06\x00",                                         // with what the turn before the first has
            b"\x02\x02\x05\x01\x00\x06\x00\x00",                             // with what a turn has that has none
            b"\x02\x02\x05\x01\x02\x04\x00\x00\x00",                         // with what another has and without
            b"\x01\x02\x05\x00\x00\x00\x00\x00",                             // with a number twice
            b"\x01\x01\x05\x00\x02\xc3\x28",                                 // no text
            b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f",                     // as many turns as there are numbers
            b"\x03\x01\x80\x00\x01\x00\x01\x00",                             // a byte that begins no number
            b"\x03\x02\x01\x03\x00\x02\x00\x00",                             // a run of more turns than there are
            b"\x03\x01\x01\x00\x01\x01\x00\x01\x00",                         // a run of none
            b"\x03\x01\x7f\x80",                                             // a number that does not end
            b"\x01\x01\x05\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // a number of more than 64 bits
        ] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn numbers_are_short_and_what_older_versions_wrote_is_read() {
        let check = |number: u64, expected: &[u8]| {
            let turns = [Archived { number, ..Archived::default() }];
            let bytes = write(&turns);
            assert_eq!(bytes, [b"\x03\x01", expected, b"\x01\x00\x01\x00"].concat(), "{number}");
            assert_eq!(read(&bytes).as_deref(), Some(&turns[..]), "{number}");
        };
        check(111, b"\x6f");
        check(112, b"\x70\x00");
        check(239, b"\x70\x7f");
        check(240, b"\x71\x00");
        check(2031, b"\x7e\x7f");
        check(2032, b"\x7f\xf0\x0f");
        let hi = Archived { number: 300, question: "Hi".into(), ..Archived::default() };
        for older in [&b"\x01\x01\xac\x02\x00\x02Hi"[..], b"\x02\x01\xac\x02\x00\x02Hi"] {
            assert_eq!(read(older), Some(vec![hi.clone()]));
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
            read(&[&[2, 3][..], &bytes].concat());
            read(&[&[3, 3][..], &bytes].concat());
        }
    }
}
