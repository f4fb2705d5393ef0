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

/// Longest word, one byte less than a key has: the last one is for the length.
const WORD_BYTES_MAX: usize = 15;
/// Longest stretch without letters that is looked up as one.
const OTHER_BYTES_MAX: usize = 6;
const FIRST_CODE: usize = 128;
const ESCAPE: u8 = 255;
/// Codes have one byte or two.
const CODE_BYTES_MAX: usize = 2;

/// Places of the table, several times as many as there are words.
const PLACES: usize = 1 << 16;
/// Kinds of beginnings that are told apart.
const BEGINNINGS: usize = 1 << 12;
/// No word has this number.
const EMPTY: u16 = u16::MAX;

/// A list of words, ready for reading and writing.
pub(super) struct Words {
    /// The words in the order of their codes, then each byte as if it were a word.
    keys: Vec<Key>,
    /// What is written for each.
    codes: Vec<Code>,
    /// How many have a code of one byte.
    one_byte: usize,
    /// Numbers of words, at the place that their key gives or one soon after it.
    places: Vec<u16>,
    /// How long words are that begin alike: bit 5 for five bytes.
    beginnings: Vec<u16>,
}

/// The bytes of a word, zeros behind them, and its length in the last byte, so that one comparison is enough.
#[derive(Clone, Copy, PartialEq)]
struct Key(u128);

#[derive(Clone, Copy)]
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
            places: vec![EMPTY; PLACES],
            beginnings: vec![0; BEGINNINGS],
        };
        while let Some((length, after)) = rest.split_first() {
            let (word, after) = after.split_at(usize::from(*length));
            words.add(word, words.code(words.keys.len()));
            rest = after;
        }
        (0..=u8::MAX).for_each(|byte| words.add(&[byte], code_of_byte(byte)));
        words
    }

    fn add(&mut self, word: &[u8], code: Code) {
        let seen = window(word, 0);
        let key = Key::of(seen, word.len());
        let mut place = key.place();
        while self.places[place] != EMPTY {
            place = (place + 1) % PLACES;
        }
        self.places[place] = u16::try_from(self.keys.len()).expect("codes of two bytes are fewer");
        self.beginnings[beginning(seen)] |= 1 << word.len();
        self.keys.push(key);
        self.codes.push(code);
    }

    fn code(&self, number: usize) -> Code {
        match number.checked_sub(self.one_byte) {
            None => Code { bytes: [(FIRST_CODE + number) as u8, 0], length: 1 },
            Some(far) => {
                Code { bytes: [(FIRST_CODE + self.one_byte + far / 256) as u8, (far % 256) as u8], length: 2 }
            }
        }
    }

    /// Some bytes, in codes.
    pub(super) fn encode(&self, text: &[u8]) -> Vec<u8> {
        let runs = Runs::of(text);
        let mut coded = vec![0; CODE_BYTES_MAX * text.len() + CODE_BYTES_MAX];
        let (mut at, mut end) = (0, 0);
        while at < text.len() {
            let seen = window(text, at);
            let run = runs.from(at);
            // What is likely is decided without branches: a wrong guess costs the processor more than all the rest.
            let (number, length) = match self.find(seen, run) {
                Some(number) => (number, run),
                None => self.find_shorter(seen, run),
            };
            let code = self.codes[number];
            coded[end..end + CODE_BYTES_MAX].copy_from_slice(&code.bytes);
            end += usize::from(code.length);
            at += length;
        }
        coded.truncate(end);
        coded
    }

    fn find(&self, seen: u128, length: usize) -> Option<usize> {
        let key = Key::of(seen, length);
        let mut place = key.place();
        loop {
            let number = usize::from(self.places[place]);
            match self.keys.get(number) {
                Some(found) if *found == key => return Some(number),
                Some(_) => place = (place + 1) % PLACES,
                None => return None,
            }
        }
    }

    /// The longest word that the bytes begin with, if it is shorter than all of them.
    #[cold]
    fn find_shorter(&self, seen: u128, than: usize) -> (usize, usize) {
        let mut lengths = self.beginnings[beginning(seen)] & ((1 << than) - 1);
        while lengths > 0 {
            let length = lengths.ilog2() as usize;
            if let Some(number) = self.find(seen, length) {
                return (number, length);
            }
            lengths ^= 1 << length;
        }
        (self.bytes_from() + usize::from(seen as u8), 1)
    }

    /// Where the single bytes begin.
    fn bytes_from(&self) -> usize {
        self.keys.len() - 256
    }

    /// What the codes stand for, if it has so many bytes; `None` if they make no sense.
    pub(super) fn decode(&self, coded: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let pages = self.pages();
        // Room for a whole key at the end, because all of it is copied.
        let mut text = vec![0; bytes + size_of::<Key>()];
        let (mut at, mut end) = (0, 0);
        while let Some(&code) = coded.get(at) {
            let two = usize::from(usize::from(code) >= FIRST_CODE + self.one_byte);
            let second = usize::from(*coded.get(at + two)?) * two;
            let key = self.keys.get(pages[usize::from(code)] + second)?;
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
            ..FIRST_CODE => self.bytes_from() + code,
            code if code == usize::from(ESCAPE) => self.bytes_from(),
            code if code < two_bytes_from => code - FIRST_CODE,
            code => self.one_byte + 256 * (code - two_bytes_from),
        })
    }
}

fn code_of_byte(byte: u8) -> Code {
    match usize::from(byte) < FIRST_CODE {
        true => Code { bytes: [byte, 0], length: 1 },
        false => Code { bytes: [ESCAPE, byte], length: 2 },
    }
}

impl Key {
    /// Of the first bytes that are seen.
    fn of(seen: u128, length: usize) -> Self {
        Self(seen & FIRST_BYTES[length] | (length as u128) << (8 * WORD_BYTES_MAX))
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

/// The kind of beginning that the first two bytes are.
fn beginning(seen: u128) -> usize {
    let folded = u32::from(seen as u16).wrapping_mul(0x9e37_79b1);
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

/// How a text falls into stretches that one code may stand for.
struct Runs {
    bytes: usize,
    /// A bit for each byte: whether it is a letter. Found beforehand, eight at once, because looking for the end of each
    /// word costs more than looking the word up.
    letters: Vec<u8>,
    /// The same for spaces.
    spaces: Vec<u8>,
}

impl Runs {
    fn of(text: &[u8]) -> Self {
        let (eights, rest) = text.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // Four bytes are read from each on, also from the last.
        let bits = |which: fn([u8; 8]) -> u8| {
            let mut bits = Vec::with_capacity(eights.len() + 4);
            bits.extend(eights.iter().map(|eight| which(*eight)));
            bits.extend_from_slice(&[which(last), 0, 0, 0]);
            bits
        };
        Self { bytes: text.len(), letters: bits(letters), spaces: bits(spaces) }
    }

    /// How many bytes: a word with the space before it, or a few others without the space of the next word.
    fn from(&self, at: usize) -> usize {
        let (letters, spaces) = (bits(&self.letters, at), bits(&self.spaces, at));
        let space = spaces & 1;
        let word = (!(letters >> space)).trailing_zeros();
        let others = letters.trailing_zeros().clamp(1, OTHER_BYTES_MAX as u32);
        let next_word = (letters >> others) & (spaces >> (others - 1)) & 1;
        let run = if word > 0 { space + word } else { others - next_word };
        (run as usize).min(WORD_BYTES_MAX).min(self.bytes - at)
    }
}

/// The bits from a byte on: more than the longest word has.
fn bits(of: &[u8], at: usize) -> u32 {
    let four = of[at / 8..].first_chunk().expect("four bytes from the last one on");
    u32::from_le_bytes(*four) >> (at % 8)
}

const EACH: u64 = u64::MAX / 0xff;
/// The highest bit of each byte.
const HIGH: u64 = EACH * 0x80;

/// Which bytes are letters: a to z of either case, an apostrophe, or part of one beyond ASCII.
fn letters(eight: [u8; 8]) -> u8 {
    let seen = u64::from_le_bytes(eight);
    let lower_case = (seen & !HIGH) | (EACH * 0x20);
    // Nothing is carried into the next byte: the largest sum is 0x7f + 0x7f.
    let from_a = lower_case + EACH * u64::from(0x80 - b'a');
    let after_z = lower_case + EACH * u64::from(0x7f - b'z');
    gathered((from_a & !after_z) | equal(seen, b'\'') | seen)
}

fn spaces(eight: [u8; 8]) -> u8 {
    gathered(equal(u64::from_le_bytes(eight), b' '))
}

/// The highest bit of each byte that is this one.
fn equal(seen: u64, byte: u8) -> u64 {
    let other = seen ^ (EACH * u64::from(byte));
    !(((other & !HIGH) + EACH * 0x7f) | other) & HIGH
}

/// The highest bits of eight bytes as one byte.
fn gathered(bytes: u64) -> u8 {
    (((bytes & HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
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
        for (number, key) in words.keys.iter().enumerate() {
            assert_eq!(words.find(key.0, key.length()), Some(number));
        }
        let two_byte = 256 * (usize::from(ESCAPE) - FIRST_CODE - words.one_byte);
        assert!(words.bytes_from() <= words.one_byte + two_byte);
        assert!(words.keys.len() < PLACES / 2, "a table that is half full is slow");
    }

    /// What [`Runs`] finds all at once, one byte after the other.
    fn slow_run(text: &[u8]) -> usize {
        let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'\'' || *byte >= 128;
        let space = usize::from(text[0] == b' ');
        let word = text[space..].iter().take_while(|byte| letter(byte)).count();
        if word > 0 {
            return (space + word).min(WORD_BYTES_MAX);
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
        fn runs_are_the_same_all_at_once(text in "([ a-z'.A-Z@\\[`{é1\n]|[a-z]{3,20}|[ .]{2,8}){1,30}") {
            let runs = Runs::of(text.as_bytes());
            for at in 0..text.len() {
                prop_assert_eq!(runs.from(at), slow_run(&text.as_bytes()[at..]), "from {}", at);
            }
        }

        #[test]
        fn any_codes_are_read_or_refused(coded in proptest::collection::vec(any::<u8>(), 0..200), bytes in 0..400usize) {
            let text = few().decode(&coded, bytes);
            prop_assert!(text.is_none_or(|text| text.len() == bytes));
        }
    }
}
