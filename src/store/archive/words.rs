//! Words that have a code: text is written in codes before zstd sees it.
//!
//! zstd needs a repetition of five bytes or more before it can save anything, and a small block repeats little. A word that
//! we knew beforehand costs one byte or two at its first appearance already, and zstd has half as much to look at.
//!
//! | byte | meaning |
//! | --- | --- |
//! | below 128 | itself |
//! | 128 and some more | a word; how many of these there are, the list says |
//! | the rest | together with the byte that follows, a word |
//! | 255 | the byte that follows says how many after it are themselves |
//!
//! Any bytes can be written so, text or not. `tools/make_archive_dictionary.py` chooses the words.

use super::beginning::Beginnings;
use super::stretch::stretches;

/// Longest word, one byte less than a key has: the last one is for the length.
const WORD_BYTES_MAX: usize = 15;
const FIRST_CODE: usize = 128;
const ESCAPE: u8 = 255;
/// How much longer bytes can get: by the two before a single one that is itself.
pub(super) const CODED_BYTES_MAX: usize = 3;
/// Codes have one byte or two.
const CODE_BYTES_MAX: usize = 2;

/// Places of the table, eight times as many as there are words: looking at a second one costs more than the memory.
const PLACES: usize = 1 << 17;
/// Room for words, single bytes and one that is none: a power of two, so that a number needs no check.
const ENTRIES: usize = 1 << 14;
/// The number of what is none.
const NONE: usize = ENTRIES - 1;
/// Stretches that are looked up at once.
const AHEAD: usize = 32;

/// A list of words, ready for reading and writing.
pub(super) struct Words {
    /// The words in the order of their codes, then each byte as if it were a word.
    keys: Box<[Key; ENTRIES]>,
    /// What is written for each.
    codes: Box<[Code; ENTRIES]>,
    /// How many of them there are.
    entries: usize,
    /// How many have a code of one byte.
    one_byte: usize,
    /// How many there are before the single bytes.
    count: usize,
    /// Their numbers, at the place that the key gives or one soon after it. Frequent words lie side by side in `keys`, which
    /// is why they do not lie here themselves: what is often used together stays near the processor.
    places: Box<[u16; PLACES]>,
    beginnings: Beginnings,
    /// The number of the first word behind each first byte of a code.
    pages: [usize; 256],
}

/// The bytes of a word, zeros behind them, and its length in the last byte, so that one comparison is enough.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Key(u128);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Code {
    bytes: [u8; CODE_BYTES_MAX],
    length: u8,
}

impl Words {
    /// Reads a list: how many words have a code of one byte, then all words, each with its length before it.
    pub(super) fn read(list: &[u8]) -> Self {
        let (one_byte, mut rest) = list.split_first().expect("a list says how many words have a code of one byte");
        let mut words = Self::none(usize::from(*one_byte));
        while let Some((length, after)) = rest.split_first() {
            let (word, after) = after.split_at(usize::from(*length));
            let key = Key::of(window(word, 0), word.len());
            words.add(key, words.code(words.entries));
            words.beginnings.add(key.0, key.length());
            rest = after;
        }
        words.count = words.entries;
        for byte in 0..FIRST_CODE as u8 {
            words.add(Key::of(byte.into(), 1), Code { bytes: [byte, 0], length: 1 });
        }
        words.pages = words.pages();
        words
    }

    /// An empty list.
    fn none(one_byte: usize) -> Self {
        Self {
            keys: filled(Key(u128::MAX)),
            codes: filled(Code { bytes: [0; CODE_BYTES_MAX], length: 0 }),
            entries: 0,
            one_byte,
            count: 0,
            places: filled(NONE as u16),
            beginnings: Beginnings::new(),
            pages: [0; 256],
        }
    }

    /// Frequent words come first and get the best places.
    fn add(&mut self, key: Key, code: Code) {
        assert!(self.entries < NONE, "codes of two bytes are fewer");
        let mut place = key.place();
        while usize::from(self.places[place]) != NONE {
            place = (place + 1) % PLACES;
        }
        self.places[place] = self.entries as u16;
        self.keys[self.entries] = key;
        self.codes[self.entries] = code;
        self.entries += 1;
    }

    fn code(&self, number: usize) -> Code {
        match number.checked_sub(self.one_byte) {
            None => Code { bytes: [(FIRST_CODE + number) as u8, 0], length: 1 },
            Some(far) => Code { bytes: [(FIRST_CODE + self.one_byte + far / 256) as u8, (far % 256) as u8], length: 2 },
        }
    }

    /// The number of the first word behind each first byte of a code.
    fn pages(&self) -> [usize; 256] {
        let two_bytes_from = FIRST_CODE + self.one_byte;
        std::array::from_fn(|code| match code {
            ..FIRST_CODE => self.count + code,
            code if code < two_bytes_from => code - FIRST_CODE,
            code => self.one_byte + 256 * (code - two_bytes_from),
        })
    }

    /// Some bytes, in codes.
    pub(super) fn encode(&self, text: &[u8]) -> Vec<u8> {
        let mut coded = vec![0; CODED_BYTES_MAX * text.len() + CODE_BYTES_MAX];
        let (mut at, mut written) = (0, 0);
        let (mut keys, mut numbers) = ([Key(0); AHEAD], [0; AHEAD]);
        for ends in stretches(text).chunks(AHEAD) {
            self.look_up(text, at, ends, &mut keys, &mut numbers);
            for ((key, number), end) in keys.iter().zip(&numbers).zip(ends) {
                let (number, end) = (usize::from(*number) % ENTRIES, *end as usize);
                // One whose place is taken by another is found when it is spelled.
                written += match self.keys[number].is(*key) {
                    true => self.codes[number].put(&mut coded[written..]),
                    false => self.spell(text, at..end, &mut coded[written..]),
                };
                at = end;
            }
        }
        coded.truncate(written);
        coded
    }

    /// The keys of some stretches, and the numbers at their places. All are looked up before any is written: so the processor waits
    /// for memory once, and not once for each.
    fn look_up(&self, text: &[u8], from: usize, ends: &[u32], keys: &mut [Key; AHEAD], numbers: &mut [u16; AHEAD]) {
        let mut from = from;
        for ((key, number), end) in keys.iter_mut().zip(numbers).zip(ends) {
            let bytes = *end as usize - from;
            *key = Key::of(window(text, from), if bytes <= WORD_BYTES_MAX { bytes } else { 0 });
            *number = self.places[key.place()];
            from = *end as usize;
        }
    }

    /// Writes a stretch word by word, and answers how many bytes that took.
    #[inline(never)]
    fn spell(&self, text: &[u8], stretch: std::ops::Range<usize>, coded: &mut [u8]) -> usize {
        if let [one, two] = text[stretch.clone()]
            && (one | two).is_ascii()
        {
            coded[..2].copy_from_slice(&[one, two]);
            return 2;
        }
        let (mut at, mut written) = (stretch.start, 0);
        while at < stretch.end {
            let seen = window(text, at);
            let (read, wrote) = match self.longest(seen, (stretch.end - at).min(WORD_BYTES_MAX)) {
                Some((code, length)) => (length, code.put(&mut coded[written..])),
                None => put_itself(&text[at..], &mut coded[written..]),
            };
            at += read;
            written += wrote;
        }
        written
    }

    /// The longest word that these bytes begin with, and how many of them it is.
    fn longest(&self, seen: u128, bytes: usize) -> Option<(Code, usize)> {
        let mut lengths = self.beginnings.lengths(seen) & (u16::MAX >> (WORD_BYTES_MAX - bytes));
        while lengths > 0 {
            let length = lengths.ilog2() as usize;
            if let Some(code) = self.find(Key::of(seen, length)) {
                return Some((code, length));
            }
            lengths ^= 1 << length;
        }
        None
    }

    fn find(&self, key: Key) -> Option<Code> {
        let mut place = key.place();
        loop {
            let number = usize::from(self.places[place]) % ENTRIES;
            if self.keys[number].is(key) {
                return Some(self.codes[number]);
            }
            if number == NONE {
                return None;
            }
            place = (place + 1) % PLACES;
        }
    }

    /// What the codes stand for, if it has so many bytes; `None` if they make no sense.
    pub(super) fn decode(&self, coded: &[u8], bytes: usize) -> Option<Vec<u8>> {
        // Room for a whole key at the end, because all of it is copied.
        let mut text = vec![0; bytes + size_of::<Key>()];
        let (mut at, mut end) = (0, 0);
        while let Some(&code) = coded.get(at) {
            if code == ESCAPE {
                let length = copy_themselves(&coded[at..], text.get_mut(end..)?)?;
                end += length;
                at += 2 + length;
                continue;
            }
            let two = usize::from(usize::from(code) >= FIRST_CODE + self.one_byte);
            let second = usize::from(*coded.get(at + two)?) * two;
            let key = self.keys[..self.entries].get(self.pages[usize::from(code)] + second)?;
            text.get_mut(end..end + size_of::<Key>())?.copy_from_slice(&key.0.to_le_bytes());
            end += key.length();
            at += 1 + two;
        }
        text.truncate(bytes);
        (end == bytes).then_some(text)
    }
}

fn filled<T: Clone + std::fmt::Debug, const N: usize>(with: T) -> Box<[T; N]> {
    vec![with; N].into_boxed_slice().try_into().expect("as many as were asked for")
}

/// Writes what no word begins with: a byte of ASCII as it is, others with their number before them. Answers how many bytes were
/// read and written.
fn put_itself(text: &[u8], coded: &mut [u8]) -> (usize, usize) {
    if usize::from(text[0]) < FIRST_CODE {
        coded[0] = text[0];
        return (1, 1);
    }
    let most = text.len().min(usize::from(u8::MAX));
    let length = text[..most].iter().take_while(|byte| usize::from(**byte) >= FIRST_CODE).count();
    coded[..2].copy_from_slice(&[ESCAPE, length as u8]);
    coded[2..2 + length].copy_from_slice(&text[..length]);
    (length, 2 + length)
}

/// Reads the bytes back that were written with their number before them.
fn copy_themselves(coded: &[u8], text: &mut [u8]) -> Option<usize> {
    let length = usize::from(*coded.get(1)?);
    text.get_mut(..length)?.copy_from_slice(coded.get(2..2 + length)?);
    Some(length)
}

impl Code {
    /// Writes it, and answers how many bytes that took.
    fn put(self, coded: &mut [u8]) -> usize {
        coded[..CODE_BYTES_MAX].copy_from_slice(&self.bytes);
        usize::from(self.length)
    }
}

impl Key {
    /// Of the first bytes that are seen.
    fn of(seen: u128, length: usize) -> Self {
        Self(seen & FIRST_BYTES[length % FIRST_BYTES.len()] | (length as u128) << (8 * WORD_BYTES_MAX))
    }

    /// Whether they are the same. In halves, because a comparison of the whole is made of two branches.
    fn is(self, other: Self) -> bool {
        let differing = self.0 ^ other.0;
        differing as u64 | (differing >> 64) as u64 == 0
    }

    fn length(self) -> usize {
        (self.0 >> (8 * WORD_BYTES_MAX)) as usize
    }

    /// Where the search for it begins.
    fn place(self) -> usize {
        let folded = (self.0 as u64).wrapping_add((self.0 >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (folded >> (64 - PLACES.ilog2())) as usize
    }
}

/// What is left of a window of which only the first bytes count.
const FIRST_BYTES: [u128; WORD_BYTES_MAX + 1] = {
    let mut masks = [0; WORD_BYTES_MAX + 1];
    let mut length = 1;
    while length <= WORD_BYTES_MAX {
        masks[length] = masks[length - 1] << 8 | 0xff;
        length += 1;
    }
    masks
};

/// The bytes from here on, at least as many as a word can have, with zeros behind the end.
fn window(text: &[u8], at: usize) -> u128 {
    if let Some(bytes) = text[at..].first_chunk() {
        return u128::from_le_bytes(*bytes);
    }
    let mut bytes = [0; size_of::<u128>()];
    bytes[..text.len() - at].copy_from_slice(&text[at..]);
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `" the"`, `" a"`, `"the"`, `"ing"`, `".\n\n"`, `".\n\n##"`; the first two have a code of one byte.
    fn few() -> Words {
        Words::read(b"\x02\x04 the\x02 a\x03the\x03ing\x03.\n\n\x05.\n\n##")
    }

    fn check(text: &str, expected: &[u8]) {
        assert_eq!(few().encode(text.as_bytes()), expected, "{text:?}");
        assert_eq!(few().decode(expected, text.len()).as_deref(), Some(text.as_bytes()), "{text:?}");
    }

    #[test]
    fn words_become_their_codes() {
        check("", b"");
        check(" the", b"\x80");
        check("the a the", b"\x82\0\x81\x80");
        check("sing", b"s\x82\x01");
        check("go.\n\nthe", b"go\x82\x02\x82\0");
        check("+ the", b"+\x80");
    }

    #[test]
    fn the_longest_beginning_is_taken() {
        check(" them", b"\x80m");
        check(" at", b"\x81t");
        check(".\n\n\0\0", b"\x82\x02\0\0");
        check(" thingamabobs of the a", b" th\x82\x01amabobs of\x80\x81");
    }

    #[test]
    fn bytes_that_look_like_codes_are_escaped() {
        check("é", b"\xff\x02\xc3\xa9");
        check("né the", b"n\xff\x02\xc3\xa9\x80");
        let long = "价".repeat(100);
        let coded = [b"\xff\xff", &long.as_bytes()[..255], b"\xff\x2d", &long.as_bytes()[255..]].concat();
        check(&long, &coded);
    }

    #[test]
    fn codes_without_sense_are_refused() {
        for (coded, bytes) in [(&b"\x82"[..], 3), (b"\x82\x05", 3), (b"\xff", 1), (b"ab", 1), (b"ab", 3), (b"\x80", 3)]
        {
            assert_eq!(few().decode(coded, bytes), None, "{coded:?}");
        }
    }

    #[test]
    fn every_word_of_a_released_list_can_be_found() {
        let words = Words::read(include_bytes!("../../../assets/archive-2.words"));
        for (number, key) in words.keys[..words.count].iter().enumerate() {
            assert_eq!(words.find(*key), Some(words.code(number)));
            assert_eq!(words.longest(key.0, key.length()), Some((words.code(number), key.length())));
        }
        let two_byte = 256 * (usize::from(ESCAPE) - FIRST_CODE - words.one_byte);
        assert!(words.count <= words.one_byte + two_byte);
        assert!(words.entries < PLACES / 4, "a full table is slow");
    }

    proptest! {
        #[test]
        fn any_bytes_survive(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let words = few();
            prop_assert_eq!(words.decode(&words.encode(&text), text.len()), Some(text));
        }

        #[test]
        fn any_talk_survives(text in "([ a-z]{0,5}| the| a|ing|\\.\n\n|é|'){0,60}") {
            let words = few();
            prop_assert_eq!(words.decode(&words.encode(text.as_bytes()), text.len()), Some(text.into_bytes()));
        }

        #[test]
        fn any_codes_are_read_or_refused(coded in proptest::collection::vec(any::<u8>(), 0..200), bytes in 0..400usize) {
            let text = few().decode(&coded, bytes);
            prop_assert!(text.is_none_or(|text| text.len() == bytes));
        }
    }
}
