//! Tokens, counted by a real tokenizer (o200k, the one of current OpenAI models).
//!
//! The tokenizer's tables take tens of milliseconds to unfold, so they are touched only when a count
//! matters: a text never has more tokens than bytes, and most conversations fit by that bound alone.

use std::cell::RefCell;
use std::sync::OnceLock;

use bpe_openai::Tokenizer;
use xxhash_rust::xxh3::xxh3_64;

use crate::quick::HashedMap;

/// Longer pieces of text are rare and counted anew.
const PIECE_BYTES_MAX: usize = 24;
/// Pieces of a generation, about a quarter of a megabyte; a thread remembers two.
const PIECES_MAX: usize = 8_192;

thread_local! {
    /// How many tokens a piece has that is not a single one: people say most things with few words.
    static PIECES: RefCell<Pieces> = RefCell::default();
}

/// Pieces that were counted, in two generations: when the younger is full it becomes the older, and what nobody said since
/// the last time is forgotten. A piece is known by a hash of 64 bits, here and in [`Singles`]: of a billion pieces one
/// would be taken for another once in many lives.
#[derive(Default)]
struct Pieces {
    younger: HashedMap<u32>,
    older: HashedMap<u32>,
}

impl Pieces {
    fn get(&mut self, piece: u64) -> Option<u32> {
        if let Some(tokens) = self.younger.get(&piece) {
            return Some(*tokens);
        }
        let tokens = self.older.remove(&piece)?;
        self.keep(piece, tokens);
        Some(tokens)
    }

    fn keep(&mut self, piece: u64, tokens: u32) {
        if self.younger.len() >= PIECES_MAX {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(piece, tokens);
    }
}

/// The pieces that are a single token, which most words are: two megabytes of hashes, each in the first free place from its own
/// on. A zero is a free place.
struct Singles(Box<[u64]>);

/// Places for the 200,000 tokens.
const PLACES: usize = 1 << 18;

impl Singles {
    fn of(tokenizer: &Tokenizer) -> Self {
        let mut places = vec![0; PLACES].into_boxed_slice();
        for token in 0..tokenizer.bpe.num_tokens() as u32 {
            let hash = xxh3_64(tokenizer.bpe.token_bytes(token));
            let free = Self::places(hash).find(|at| places[*at] == 0).expect("there are more places than tokens");
            places[free] = hash;
        }
        Self(places)
    }

    fn shared(tokenizer: &Tokenizer) -> &'static Self {
        static SINGLES: OnceLock<Singles> = OnceLock::new();
        SINGLES.get_or_init(|| Self::of(tokenizer))
    }

    fn has(&self, hash: u64) -> bool {
        let there = Self::places(hash).map(|at| self.0[at]).find(|there| *there == hash || *there == 0);
        there == Some(hash)
    }

    /// Where a hash may be, the likeliest place first.
    fn places(hash: u64) -> impl Iterator<Item = usize> {
        (0..PLACES).map(move |step| (hash as usize).wrapping_add(step) % PLACES)
    }
}

/// How many tokens a text has.
pub fn count(text: &str) -> usize {
    let tokenizer = bpe_openai::o200k_base();
    let singles = Singles::shared(tokenizer);
    PIECES
        .with_borrow_mut(|known| pieces(tokenizer, text).map(|piece| of_piece(tokenizer, piece, singles, known)).sum())
}

/// The pieces that the tokenizer counts one by one. Cutting by its own pattern takes most of the time of counting, so that is
/// asked only where the next piece is not plain.
fn pieces<'a>(tokenizer: &'a Tokenizer, mut rest: &'a str) -> impl Iterator<Item = &'a str> {
    std::iter::from_fn(move || {
        let piece = match plain_piece(rest.as_bytes()) {
            Some(end) => &rest[..end],
            None => tokenizer.split(rest).next()?,
        };
        rest = &rest[piece.len()..];
        Some(piece)
    })
}

/// Where the first piece of a text ends, if that is easily told: a word of plain letters, digits or signs, with the blank before
/// it. `None` where anything that is not plain could belong to it.
fn plain_piece(text: &[u8]) -> Option<usize> {
    let blank = usize::from(text.first() == Some(&b' '));
    let run = |from: usize, is: fn(&u8) -> bool| text[from..].iter().take_while(|byte| is(byte)).count();
    let end = match text.get(blank)? {
        b'a'..=b'z' | b'A'..=b'Z' => {
            let capitals = run(blank, u8::is_ascii_uppercase);
            let end = blank + capitals + run(blank + capitals, u8::is_ascii_lowercase);
            end + contraction(&text[end..])?
        }
        b'0'..=b'9' if blank == 1 => return Some(blank),
        b'0'..=b'9' => run(0, u8::is_ascii_digit).min(DIGITS_MAX),
        sign if sign.is_ascii_punctuation() => {
            let end = blank + run(blank, u8::is_ascii_punctuation);
            // A single sign belongs to the word behind it, and what follows signs may be a line's end.
            let goes_on = end == 1 && text.get(end).is_some_and(u8::is_ascii_alphabetic);
            (!goes_on && text.get(end).is_none_or(|next| !next.is_ascii_control())).then_some(end)?
        }
        _ => return None,
    };
    text.get(end).is_none_or(u8::is_ascii).then_some(end)
}

/// The length of what is drawn together with the word before it ("'s", "'ll").
fn contraction(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'\'') {
        return Some(0);
    }
    let letter = |at: usize| text.get(at).map_or(b' ', u8::to_ascii_lowercase);
    match (letter(1), letter(2)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', b'e') | (b'l', b'l') => Some(3),
        (first, second) => (first.is_ascii() && second.is_ascii()).then_some(0),
    }
}

/// Digits that make a piece.
const DIGITS_MAX: usize = 3;

/// How many tokens a piece has, as the tokenizer cut it.
fn of_piece(tokenizer: &Tokenizer, piece: &str, singles: &Singles, known: &mut Pieces) -> usize {
    let hash = xxh3_64(piece.as_bytes());
    if singles.has(hash) {
        return 1;
    }
    if let Some(tokens) = known.get(hash) {
        return tokens as usize;
    }
    let tokens = tokenizer.bpe.count(piece.as_bytes());
    if piece.len() <= PIECE_BYTES_MAX {
        known.keep(hash, tokens as u32);
    }
    tokens
}

/// What a chat format adds around each message.
pub const MESSAGE_OVERHEAD: usize = 4;

/// The most tokens a text can have, known without counting.
pub fn at_most(text: &str) -> usize {
    text.len()
}

/// About how many tokens so many bytes of text have, where nobody counted and a guess will do.
pub fn by_length(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_counted_as_the_model_counts_them() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert_eq!(count("Wat zijn de vereisten voor werken op hoogte?"), 10);
    }

    #[test]
    fn every_token_is_a_single_one() {
        let tokenizer = bpe_openai::o200k_base();
        let singles = Singles::shared(tokenizer);
        let tokens = (0..tokenizer.bpe.num_tokens() as u32).map(|token| tokenizer.bpe.token_bytes(token));
        assert!(tokens.clone().all(|token| singles.has(xxh3_64(token))));
        let split: Vec<&[u8]> = tokens.filter(|token| tokenizer.bpe.count(token) != 1).collect();
        assert!(split.is_empty(), "{split:?} are never said as one token");
        assert!(!singles.has(xxh3_64(b" zirconiumish")));
    }

    proptest! {
        #[test]
        fn pieces_are_those_of_the_tokenizer(text in "([ -~]{0,40}|([a-zA-Z]{1,12}[ ,.\n\r\t'’(é1/-]{1,3}){0,20}|[aB1 '.\né\t]{0,30})") {
            let tokenizer = bpe_openai::o200k_base();
            prop_assert_eq!(pieces(tokenizer, &text).collect::<Vec<_>>(), tokenizer.split(&text).collect::<Vec<_>>());
        }

        #[test]
        fn remembered_pieces_count_as_the_tokenizer_counts(text in "(\\PC{0,40}|([a-zA-Z]{1,12}[ ,.\n'’-]{1,2}){0,20})") {
            let counted = bpe_openai::o200k_base().count(text.as_str());
            prop_assert_eq!((count(&text), count(&text)), (counted, counted));
        }

        #[test]
        fn a_text_never_has_more_tokens_than_bytes(text in "\\PC{0,200}") {
            prop_assert!(count(&text) <= at_most(&text));
        }
    }
}
