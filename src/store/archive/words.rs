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
//! | 255 | the byte that follows is itself |
//!
//! Any bytes can be written so, text or not. `tools/make_archive_dictionary.py` chooses the words.

/// Longest word.
const WORD_BYTES_MAX: usize = 16;
/// Longest stretch without letters that is looked up as one.
const OTHER_BYTES_MAX: usize = 6;
const FIRST_CODE: u8 = 128;
const ESCAPE: u8 = 255;

/// Places of the table, several times as many as there are words.
const PLACES: usize = 1 << 15;
/// Kinds of beginnings that are told apart.
const BEGINNINGS: usize = 1 << 12;
/// No word has this number.
const EMPTY: u16 = u16::MAX;

/// A list of words, ready for reading and writing.
pub(super) struct Words {
    /// Words in the order of their codes, as little-endian numbers with zeros behind.
    words: Vec<u128>,
    lengths: Vec<u8>,
    /// How many have a code of one byte.
    one_byte: usize,
    /// Numbers of words, at the place that their hash gives or one soon after it.
    places: Vec<u16>,
    /// How long words are that begin alike: bit 5 for five bytes.
    beginnings: Vec<u32>,
}

impl Words {
    /// Reads a list: how many words have a code of one byte, then all words, each with its length before it.
    pub(super) fn read(list: &[u8]) -> Self {
        let (one_byte, mut rest) = list.split_first().expect("a list says how many words have a code of one byte");
        let mut words = Self {
            words: Vec::new(),
            lengths: Vec::new(),
            one_byte: usize::from(*one_byte),
            places: vec![EMPTY; PLACES],
            beginnings: vec![0; BEGINNINGS],
        };
        while let Some((length, after)) = rest.split_first() {
            let (word, after) = after.split_at(usize::from(*length));
            words.add(word);
            rest = after;
        }
        words
    }

    fn add(&mut self, word: &[u8]) {
        let key = window(word, 0);
        let mut place = place(key);
        while self.places[place] != EMPTY {
            place = (place + 1) % PLACES;
        }
        self.places[place] = u16::try_from(self.words.len()).expect("a code has no more than two bytes");
        self.beginnings[beginning(key)] |= 1 << word.len();
        self.words.push(key);
        self.lengths.push(word.len() as u8);
    }

    /// Some bytes, in codes.
    pub(super) fn encode(&self, text: &[u8]) -> Vec<u8> {
        let mut coded = Vec::with_capacity(text.len() + text.len() / 8 + 16);
        let mut at = 0;
        while at < text.len() {
            let seen = window(text, at);
            match self.longest(seen, run(seen).min(text.len() - at)) {
                Some((number, length)) => {
                    self.put(&mut coded, number);
                    at += length;
                }
                None => {
                    put_byte(&mut coded, text[at]);
                    at += 1;
                }
            }
        }
        coded
    }

    /// The longest word that the bytes begin with, and its length.
    fn longest(&self, seen: u128, most: usize) -> Option<(usize, usize)> {
        let mut lengths = self.beginnings[beginning(seen)] & ((2 << most) - 1);
        while lengths != 0 {
            let length = lengths.ilog2() as usize;
            // Of another length is a word that is followed by zeros here.
            let number = self.find(first(seen, length)).filter(|number| usize::from(self.lengths[*number]) == length);
            if let Some(number) = number {
                return Some((number, length));
            }
            lengths ^= 1 << length;
        }
        None
    }

    fn find(&self, key: u128) -> Option<usize> {
        let mut place = place(key);
        loop {
            let number = self.places[place];
            if number == EMPTY {
                return None;
            }
            if self.words[usize::from(number)] == key {
                return Some(usize::from(number));
            }
            place = (place + 1) % PLACES;
        }
    }

    fn put(&self, coded: &mut Vec<u8>, number: usize) {
        match number.checked_sub(self.one_byte) {
            None => coded.push(FIRST_CODE + number as u8),
            Some(far) => {
                let page = usize::from(FIRST_CODE) + self.one_byte + far / 256;
                coded.extend_from_slice(&[page as u8, far as u8]);
            }
        }
    }

    /// What the codes stand for, if it has so many bytes; `None` if they make no sense.
    pub(super) fn decode(&self, coded: &[u8], bytes: usize) -> Option<Vec<u8>> {
        // Room for a whole word at the end, because words are copied with the zeros behind them.
        let mut text = vec![0; bytes + WORD_BYTES_MAX];
        let (mut at, mut rest) = (0, coded.iter());
        while let Some(&code) = rest.next() {
            let (word, length) = match code {
                ..FIRST_CODE => (u128::from(code), 1),
                ESCAPE => (u128::from(*rest.next()?), 1),
                _ => self.word(usize::from(code - FIRST_CODE), &mut rest)?,
            };
            text.get_mut(at..at + WORD_BYTES_MAX)?.copy_from_slice(&word.to_le_bytes());
            at += length;
        }
        text.truncate(bytes);
        (at == bytes).then_some(text)
    }

    fn word(&self, code: usize, rest: &mut std::slice::Iter<'_, u8>) -> Option<(u128, usize)> {
        let number = match code.checked_sub(self.one_byte) {
            None => code,
            Some(page) => self.one_byte + 256 * page + usize::from(*rest.next()?),
        };
        Some((*self.words.get(number)?, usize::from(self.lengths[number])))
    }
}

fn put_byte(coded: &mut Vec<u8>, byte: u8) {
    if byte >= FIRST_CODE {
        coded.push(ESCAPE);
    }
    coded.push(byte);
}

/// The bytes from here on, as many as a word can have, with zeros behind the end.
fn window(text: &[u8], at: usize) -> u128 {
    if let Some(bytes) = text[at..].first_chunk::<WORD_BYTES_MAX>() {
        return u128::from_le_bytes(*bytes);
    }
    let mut bytes = [0; WORD_BYTES_MAX];
    bytes[..text.len() - at].copy_from_slice(&text[at..]);
    u128::from_le_bytes(bytes)
}

fn first(seen: u128, length: usize) -> u128 {
    seen & (u128::MAX >> (8 * (WORD_BYTES_MAX - length)))
}

/// How many bytes one code may stand for: a word with the space before it, or a few other bytes without the space of the
/// next word.
fn run(seen: u128) -> usize {
    let letters = letters(seen);
    let space = usize::from(seen as u8 == b' ');
    let word = ((!letters & HIGH) >> (8 * space)).trailing_zeros() as usize / 8;
    if word > 0 {
        return (space + word).min(WORD_BYTES_MAX);
    }
    let others = letters.trailing_zeros() as usize / 8;
    let ends_with_space = others > 1 && others <= OTHER_BYTES_MAX && (seen >> (8 * (others - 1))) as u8 == b' ';
    others.min(OTHER_BYTES_MAX) - usize::from(ends_with_space)
}

const EACH: u128 = u128::MAX / 0xff;
/// The highest bit of each byte.
const HIGH: u128 = EACH * 0x80;

/// The highest bit of each byte that is a letter: a to z of either case, an apostrophe, or part of one beyond ASCII.
/// All sixteen at once, because a loop that ends at another byte each time costs more than the lookup.
fn letters(seen: u128) -> u128 {
    let low = seen & !HIGH;
    // Nothing is carried into the next byte: the largest sum is 0x7f + 0x7f.
    let lower_case = low | (EACH * 0x20);
    let from_a = lower_case + EACH * u128::from(0x80 - b'a');
    let after_z = lower_case + EACH * u128::from(0x7f - b'z');
    let no_apostrophe = (low ^ (EACH * u128::from(b'\''))) + EACH * 0x7f;
    ((from_a & !after_z) | !no_apostrophe | seen) & HIGH
}

/// Where the search for a word begins.
fn place(key: u128) -> usize {
    let folded = (key as u64).wrapping_add((key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (folded >> (64 - PLACES.ilog2())) as usize
}

/// The kind of beginning that the first two bytes are.
fn beginning(seen: u128) -> usize {
    let folded = u32::from(seen as u16).wrapping_mul(0x9e37_79b1);
    (folded >> (32 - BEGINNINGS.ilog2())) as usize
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
        check("é", b"\xff\xc3\xff\xa9");
    }

    #[test]
    fn codes_without_sense_are_refused() {
        for (coded, bytes) in [(&b"\x82"[..], 3), (b"\x82\x05", 3), (b"\xff", 1), (b"ab", 1), (b"ab", 3), (b"\x80", 3)] {
            assert_eq!(few().decode(coded, bytes), None, "{coded:?}");
        }
    }

    #[test]
    fn every_word_of_a_released_list_can_be_found() {
        let words = Words::read(include_bytes!("../../../assets/archive-2.words"));
        for (number, word) in words.words.iter().enumerate() {
            assert_eq!(words.find(*word), Some(number));
            assert!(first(*word, words.lengths[number].into()) == *word, "{number}");
        }
        assert!(words.words.len() <= words.one_byte + 256 * (usize::from(ESCAPE - FIRST_CODE) - words.one_byte));
        assert!(words.words.len() < PLACES / 2, "a table that is half full is slow");
    }

    /// What [`run`] does all at once, one byte after the other.
    fn slow_run(text: &[u8]) -> usize {
        let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'\'' || *byte >= 128;
        let space = usize::from(text[0] == b' ');
        let word = text[space..].iter().take_while(|byte| letter(byte)).count();
        if word > 0 {
            return space + word;
        }
        let others = text.iter().take_while(|byte| !letter(byte)).count();
        let next_word = (2..=OTHER_BYTES_MAX).contains(&others) && others < text.len() && text[others - 1] == b' ';
        others.min(OTHER_BYTES_MAX) - usize::from(next_word)
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
        fn runs_are_the_same_all_at_once(text in "[ a-z'.A-Z@\\[`{é1\n]{16,20}") {
            let text = &text.as_bytes()[..WORD_BYTES_MAX];
            prop_assert_eq!(run(window(text, 0)), slow_run(text));
        }

        #[test]
        fn any_codes_are_read_or_refused(coded in proptest::collection::vec(any::<u8>(), 0..200), bytes in 0..400usize) {
            let text = few().decode(&coded, bytes);
            prop_assert!(text.is_none_or(|text| text.len() == bytes));
        }
    }
}
