//! Tokens, counted by a real tokenizer (o200k, the one of current OpenAI models).
//!
//! The tokenizer's tables take tens of milliseconds to unfold, so they are touched only when a count
//! matters: a text never has more tokens than bytes, and most conversations fit by that bound alone.

use std::cell::RefCell;

use bpe_openai::Tokenizer;

use crate::quick::QuickMap;

/// Longer pieces of text are rare and counted anew.
const PIECE_BYTES_MAX: usize = 24;
/// Pieces of a generation, about half a megabyte; a thread remembers two.
const PIECES_MAX: usize = 8_192;

thread_local! {
    /// How many tokens a piece has: people say most things with few words.
    static PIECES: RefCell<Pieces> = RefCell::default();
}

/// Pieces that were counted, in two generations: when the younger is full it becomes the older, and what nobody said since
/// the last time is forgotten.
#[derive(Default)]
struct Pieces {
    younger: QuickMap<Box<str>, u32>,
    older: QuickMap<Box<str>, u32>,
}

impl Pieces {
    fn get(&mut self, piece: &str) -> Option<u32> {
        if let Some(tokens) = self.younger.get(piece) {
            return Some(*tokens);
        }
        let (piece, tokens) = self.older.remove_entry(piece)?;
        self.keep(piece, tokens);
        Some(tokens)
    }

    fn keep(&mut self, piece: Box<str>, tokens: u32) {
        if self.younger.len() >= PIECES_MAX {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(piece, tokens);
    }
}

/// How many tokens a text has.
pub fn count(text: &str) -> usize {
    let tokenizer = bpe_openai::o200k_base();
    PIECES.with_borrow_mut(|known| tokenizer.split(text).map(|piece| of_piece(tokenizer, piece, known)).sum())
}

/// How many tokens a piece has, as the tokenizer cut it.
fn of_piece(tokenizer: &Tokenizer, piece: &str, known: &mut Pieces) -> usize {
    if let Some(tokens) = known.get(piece) {
        return tokens as usize;
    }
    let tokens = tokenizer.bpe.count(piece.as_bytes());
    if piece.len() <= PIECE_BYTES_MAX {
        known.keep(piece.into(), tokens as u32);
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

    proptest! {
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
