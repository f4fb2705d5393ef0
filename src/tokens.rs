//! Tokens, counted by a real tokenizer (o200k, the one of current OpenAI models).
//!
//! The tokenizer's tables take tens of milliseconds to unfold, so they are touched only when a count
//! matters: a text never has more tokens than bytes, and most conversations fit by that bound alone.

/// How many tokens a text has.
pub fn count(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
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
        fn a_text_never_has_more_tokens_than_bytes(text in "\\PC{0,200}") {
            prop_assert!(count(&text) <= at_most(&text));
        }
    }
}
