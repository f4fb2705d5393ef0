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
/// Kinds of beginnings that are told apart.
const BEGINNINGS: usize = 1 << 15;
/// Of how many bytes a beginning is.
const BEGINNING_BYTES: usize = 3;
/// Stretches that are looked up at once.
const AHEAD: usize = 32;
/// No word has this number.
const EMPTY: u16 = u16::MAX;

/// A list of words, ready for reading and writing.
pub(super) struct Words {
    /// The words in the order of their codes, each byte as if it were a word, and ends of two letters.
    keys: Vec<Key>,
    /// What is written for each.
    codes: Vec<Code>,
    /// How many have a code of one byte.
    one_byte: usize,
    /// How many there are before the single bytes.
    count: usize,
    /// Their numbers, at the place that the key gives or one soon after it. Frequent words lie side by side in `keys`, which
    /// is why they do not lie here themselves: what is often used together stays near the processor.
    places: Box<[u16; PLACES]>,
    /// How long words are that begin alike: bit 5 for five bytes. Shorter ones than a beginning are not in it.
    beginnings: Vec<u16>,
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
        let mut words = Self {
            keys: Vec::new(),
            codes: Vec::new(),
            one_byte: usize::from(*one_byte),
            count: 0,
            places: vec![EMPTY; PLACES].into_boxed_slice().try_into().expect("as many as were asked for"),
            beginnings: vec![0; BEGINNINGS],
        };
        while let Some((length, after)) = rest.split_first() {
            let (word, after) = after.split_at(usize::from(*length));
            words.add(Key::of(window(word, 0), word.len()), words.code(words.keys.len()));
            rest = after;
        }
        words.count = words.keys.len();
        words.mark_beginnings();
        for byte in 0..FIRST_CODE as u8 {
            words.add(Key::of(byte.into(), 1), Code { bytes: [byte, 0], length: 1 });
        }
        words.add_ends();
        words
    }

    /// Frequent words come first and get the best places.
    fn add(&mut self, key: Key, code: Code) {
        let mut place = key.place();
        while self.places[place] != EMPTY {
            place = (place + 1) % PLACES;
        }
        self.places[place] = u16::try_from(self.keys.len()).expect("codes of two bytes are fewer");
        self.keys.push(key);
        self.codes.push(code);
    }

    fn mark_beginnings(&mut self) {
        for key in self.keys.iter().filter(|key| key.length() >= BEGINNING_BYTES) {
            self.beginnings[beginning(key.0)] |= 1 << key.length();
        }
    }

    /// Two letters without a code are often left of a word. They stand for themselves, and need not be searched for.
    fn add_ends(&mut self) {
        for (one, two) in (b'a'..=b'z').flat_map(|one| (b'a'..=b'z').map(move |two| (one, two))) {
            let key = Key::of(u16::from_le_bytes([one, two]).into(), 2);
            if self.find(key).is_none() {
                self.add(key, Code { bytes: [one, two], length: 2 });
            }
        }
    }

    fn code(&self, number: usize) -> Code {
        match number.checked_sub(self.one_byte) {
            None => Code { bytes: [(FIRST_CODE + number) as u8, 0], length: 1 },
            Some(far) => Code { bytes: [(FIRST_CODE + self.one_byte + far / 256) as u8, (far % 256) as u8], length: 2 },
        }
    }

    /// Some bytes, in codes.
    pub(super) fn encode(&self, text: &[u8]) -> Vec<u8> {
        let mut coded = vec![0; CODED_BYTES_MAX * text.len() + CODE_BYTES_MAX];
        let (mut at, mut written) = (0, 0);
        for ends in stretches(text).chunks(AHEAD) {
            for (number, end) in self.whole(text, at, ends).into_iter().zip(ends) {
                written += match self.codes.get(usize::from(number)) {
                    Some(code) => code.put(&mut coded[written..]),
                    None => self.spell(text, at..*end as usize, &mut coded[written..]),
                };
                at = *end as usize;
            }
        }
        coded.truncate(written);
        coded
    }

    /// The numbers of the stretches that are words as a whole, [`EMPTY`] for the others. All of them are looked for before any
    /// is written: so the processor waits for memory once, and not once for each.
    fn whole(&self, text: &[u8], from: usize, ends: &[u32]) -> [u16; AHEAD] {
        let (mut keys, mut numbers, mut from) = ([Key(0); AHEAD], [EMPTY; AHEAD], from);
        for ((key, number), end) in keys.iter_mut().zip(&mut numbers).zip(ends) {
            let bytes = *end as usize - from;
            *key = Key::of(window(text, from), if bytes <= WORD_BYTES_MAX { bytes } else { 0 });
            *number = self.places[key.place()];
            from = *end as usize;
        }
        // Without a branch, because which words are known cannot be guessed. One whose place is taken by another is found when it
        // is spelled.
        for (key, number) in keys.iter().zip(&mut numbers) {
            let held = self.keys[usize::from(*number).min(self.keys.len() - 1)];
            *number |= u16::from(held == *key).wrapping_sub(1);
        }
        numbers
    }

    /// Writes a stretch word by word, and answers how many bytes that took.
    fn spell(&self, text: &[u8], stretch: std::ops::Range<usize>, coded: &mut [u8]) -> usize {
        let (mut at, mut written) = (stretch.start, 0);
        while at < stretch.end {
            let bytes = (stretch.end - at).min(WORD_BYTES_MAX);
            if let Some((code, length)) = self.longest(window(text, at), bytes) {
                written += code.put(&mut coded[written..]);
                at += length;
            } else {
                let length = put_themselves(&text[at..], &mut coded[written..]);
                written += 2 + length;
                at += length;
            }
        }
        written
    }

    /// The longest word that these bytes begin with, and how many of them it is: all of them, as a rule. There is none only if
    /// the first is beyond ASCII.
    fn longest(&self, seen: u128, bytes: usize) -> Option<(Code, usize)> {
        match self.find(Key::of(seen, bytes)) {
            Some(code) => Some((code, bytes)),
            None => self.shorter(seen, bytes),
        }
    }

    /// The longest word that is shorter than these bytes.
    fn shorter(&self, seen: u128, bytes: usize) -> Option<(Code, usize)> {
        let mut lengths = self.beginnings[beginning(seen)] & (u16::MAX >> (WORD_BYTES_MAX + 1 - bytes));
        while lengths > 0 {
            let length = lengths.ilog2() as usize;
            if let Some(code) = self.find(Key::of(seen, length)) {
                return Some((code, length));
            }
            lengths ^= 1 << length;
        }
        // Two letters that stand for themselves may be the beginning of nothing and hide a word that begins with the second.
        let two = self.find(Key::of(seen, 2)).filter(|code| bytes > 1 && usize::from(code.bytes[0]) >= FIRST_CODE);
        match two {
            Some(code) => Some((code, 2)),
            None => self.find(Key::of(seen, 1)).map(|code| (code, 1)),
        }
    }

    fn find(&self, key: Key) -> Option<Code> {
        let mut place = key.place();
        loop {
            let number = usize::from(self.places[place]);
            match self.keys.get(number) {
                Some(found) if *found == key => return Some(self.codes[number]),
                Some(_) => place = (place + 1) % PLACES,
                None => return None,
            }
        }
    }

    /// What the codes stand for, if it has so many bytes; `None` if they make no sense.
    pub(super) fn decode(&self, coded: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let pages = self.pages();
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
            let key = self.keys[..self.count + FIRST_CODE].get(pages[usize::from(code)] + second)?;
            text.get_mut(end..end + size_of::<Key>())?.copy_from_slice(&key.0.to_le_bytes());
            end += key.length();
            at += 1 + two;
        }
        text.truncate(bytes);
        (end == bytes).then_some(text)
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
}

/// Writes the bytes beyond ASCII that the text begins with, and answers how many they are.
fn put_themselves(text: &[u8], coded: &mut [u8]) -> usize {
    let most = text.len().min(usize::from(u8::MAX));
    let length = text[..most].iter().take_while(|byte| usize::from(**byte) >= FIRST_CODE).count();
    coded[..2].copy_from_slice(&[ESCAPE, length as u8]);
    coded[2..2 + length].copy_from_slice(&text[..length]);
    length
}

/// Reads them back.
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

/// The kind of beginning that the first bytes are.
fn beginning(seen: u128) -> usize {
    let folded = (seen as u32 & 0x00ff_ffff).wrapping_mul(0x9e37_79b1);
    (folded >> (32 - BEGINNINGS.ilog2())) as usize
}

/// The bytes from here on, at least as many as a word can have, with zeros behind the end.
fn window(text: &[u8], at: usize) -> u128 {
    if let Some(bytes) = text[at..].first_chunk() {
        return u128::from_le_bytes(*bytes);
    }
    let mut bytes = [0; size_of::<u128>()];
    bytes[..text.len() - at].copy_from_slice(&text[at..]);
    u128::from_le_bytes(bytes)
}

/// Where the stretches end that words are looked for in: letters with the space before them, or whatever is between.
///
/// All of them are found beforehand, with a bit for each byte. If each were found when the one before it is done, the
/// processor would have to wait for that.
fn stretches(text: &[u8]) -> Vec<u32> {
    let (chunks, rest) = text.as_chunks();
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    let marks: Vec<Marks> = chunks.iter().chain([&last, &[0; 64]]).map(Marks::of).collect();
    let mut ends = Vec::with_capacity(text.len() / 3 + 2);
    let mut before = Marks::default();
    for (at, pair) in marks.windows(2).enumerate() {
        // One ends where the next one starts.
        let mut starts = pair[0].starts(before, pair[1]);
        while starts > 0 {
            ends.push(64 * at as u32 + starts.trailing_zeros());
            starts &= starts - 1;
        }
        before = pair[0];
    }
    ends.push(text.len() as u32);
    ends
}

/// What 64 bytes are, the lowest bit for the first.
#[derive(Clone, Copy, Default)]
struct Marks {
    letters: u64,
    spaces: u64,
}

impl Marks {
    fn of(bytes: &[u8; 64]) -> Self {
        let mut marks = Self::default();
        for (at, eight) in bytes.as_chunks().0.iter().enumerate() {
            let eight = u64::from_le_bytes(*eight);
            marks.letters |= letters(eight) << (8 * at);
            marks.spaces |= spaces(eight) << (8 * at);
        }
        marks
    }

    /// Where stretches start.
    fn starts(self, before: Self, next: Self) -> u64 {
        let after_letter = self.letters << 1 | before.letters >> 63;
        let after_space = self.spaces << 1 | before.spaces >> 63;
        let before_letter = self.letters >> 1 | next.letters << 63;
        let first_letter = self.letters & !after_letter & !after_space;
        let first_other = !self.letters & after_letter;
        first_letter | first_other | self.spaces & before_letter
    }
}

const EACH: u64 = u64::MAX / 0xff;
/// The highest bit of each byte.
const HIGH: u64 = EACH * 0x80;

/// A bit for each letter: a to z of either case, an apostrophe, or part of one beyond ASCII.
fn letters(eight: u64) -> u64 {
    let lower_case = (eight & !HIGH) | (EACH * 0x20);
    // Nothing is carried into the next byte: the largest sum is 0x7f + 0x7f.
    let from_a = lower_case + EACH * u64::from(0x80 - b'a');
    let after_z = lower_case + EACH * u64::from(0x7f - b'z');
    gathered((from_a & !after_z) | equal(eight, b'\'') | eight)
}

fn spaces(eight: u64) -> u64 {
    gathered(equal(eight, b' '))
}

/// The highest bit of each byte that is this one.
fn equal(eight: u64, byte: u8) -> u64 {
    let other = eight ^ (EACH * u64::from(byte));
    !(((other & !HIGH) + EACH * 0x7f) | other)
}

/// The highest bits of eight bytes, side by side.
fn gathered(eight: u64) -> u64 {
    ((eight & HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
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
        }
        let two_byte = 256 * (usize::from(ESCAPE) - FIRST_CODE - words.one_byte);
        assert!(words.count <= words.one_byte + two_byte);
        assert!(words.keys.len() < PLACES / 4, "a full table is slow");
    }

    /// What [`stretches`] does all at once, one byte after the other.
    fn slow_stretches(text: &[u8]) -> Vec<u32> {
        let letter =
            |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'\'' || *byte > 127);
        let word_space = |at: usize| text[at] == b' ' && letter(at + 1);
        let ends = |at: usize| word_space(at) || letter(at) != letter(at - 1) && !word_space(at - 1);
        (1..text.len()).filter(|at| ends(*at)).map(|at| at as u32).collect()
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
        fn stretches_are_the_same_all_at_once(text in "([ a-z'.A-Z@\\[`{é1\n]|[a-z]{3,20}|[ .]{2,8}){1,60}") {
            let text = text.as_bytes();
            let inside = |end: &u32| (1..text.len()).contains(&(*end as usize));
            prop_assert_eq!(stretches(text).into_iter().filter(inside).collect::<Vec<_>>(), slow_stretches(text));
        }

        #[test]
        fn any_codes_are_read_or_refused(coded in proptest::collection::vec(any::<u8>(), 0..200), bytes in 0..400usize) {
            let text = few().decode(&coded, bytes);
            prop_assert!(text.is_none_or(|text| text.len() == bytes));
        }
    }
}
