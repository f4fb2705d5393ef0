//! What is read of a message to know where it belongs: its words and what each is worth, names, its meaning.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::sketch::direction;
use crate::kernel::Bytes;
use crate::language::{Tongue, Word, follows_up, is_stop, spans, term, tongue};
use crate::model::embed::{EmbedderId, StaticTable};

/// Words of a message that are read: a page says what it is about near its beginning.
const WORDS_READ_MAX: usize = 512;

/// What any word is worth, and what a name is worth on top of its rarity.
const ANY_WORD: f32 = 0.2;
const NAME: f32 = 0.8;

/// What a number is worth beside [`ANY_WORD`]: years and sizes belong to many topics.
const NUMBER: f32 = 0.25;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The user, who decides what is talked about.
    User,
    /// The assistant, whose answers bring words that the user takes up.
    Assistant,
}

/// What a message means, as a vector, and whose vector it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Meaning {
    /// Who made it. Vectors of different embedders are never compared.
    pub by: EmbedderId,
    /// The vector, of any length.
    pub vector: Arc<[f32]>,
    /// Where it points.
    pub(super) direction: Option<Bytes>,
}

impl Meaning {
    /// A vector with its maker.
    pub fn new(by: EmbedderId, vector: impl Into<Arc<[f32]>>) -> Self {
        let vector = vector.into();
        Self { by, direction: direction(&vector), vector }
    }
}

/// A message as placement reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark {
    /// Its words without those that every text has, each once, in order.
    pub(super) words: Vec<RemarkWord>,
    /// It needs what was said before to be understood, and names nobody.
    pub(super) leans: bool,
    /// What it means, when an embedder was fast enough to tell.
    pub(super) meaning: Option<Meaning>,
    /// The language it is in.
    pub tongue: Tongue,
}

/// A word of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RemarkWord {
    /// Its stem, hashed: sketches are kept for long and compared often.
    pub(super) stem: u64,
    /// What it is worth.
    pub(super) weight: f32,
    /// It is written as a name.
    pub(super) is_name: bool,
}

impl Remark {
    /// Whether it needs what was said before it to be understood.
    pub fn leans(&self) -> bool {
        self.leans
    }

    /// Reads a message; `otherwise` is the language of one that does not show its own.
    pub fn read(text: &str, otherwise: Tongue) -> Self {
        let tongue = tongue(text, otherwise);
        let said: Vec<Word<'_>> = spans(text).take(WORDS_READ_MAX).collect();
        let mut words: Vec<RemarkWord> = Vec::new();
        for word in said.iter().filter(|word| !is_stop(&word.text, tongue)) {
            add(&mut words, read_word(text, word, tongue));
        }
        let names_nobody = !words.iter().any(|word| word.is_name);
        let leans = names_nobody && follows_up(text, &said, tongue, false);
        Self { words, leans, meaning: None, tongue }
    }

    /// The same with what it means.
    pub fn meaning(self, meaning: Option<Meaning>) -> Self {
        Self { meaning, ..self }
    }
}

fn read_word(text: &str, word: &Word<'_>, tongue: Tongue) -> RemarkWord {
    let is_name = is_name(text, word, tongue);
    let rarity = match word.text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => NUMBER,
        false => StaticTable::shared().rarity(&word.text).powi(2),
    };
    let weight = ANY_WORD + rarity + if is_name { NAME } else { 0.0 };
    RemarkWord { stem: xxh3_64(term(&word.text, tongue).as_bytes()), weight, is_name }
}

/// A word counts once, as much as its weightiest use.
fn add(words: &mut Vec<RemarkWord>, word: RemarkWord) {
    match words.iter_mut().find(|known| known.stem == word.stem) {
        Some(known) if known.weight < word.weight => *known = word,
        Some(_) => {}
        None => words.push(word),
    }
}

/// A capital inside a sentence. German writes every noun so; there it says nothing.
fn is_name(text: &str, word: &Word<'_>, tongue: Tongue) -> bool {
    let before = text[..word.at.start].trim_end();
    let begins = before.is_empty() || before.ends_with(['.', '!', '?', ':', '¿', '¡', '"']);
    tongue != Tongue::German && !begins && text[word.at.clone()].starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Remark {
        Remark::read(text, Tongue::English)
    }

    #[track_caller]
    fn check_leans(code: &str, texts: &str, expected: bool) {
        let tongue = Tongue::from_code(code).expect("one of the five");
        for text in texts.split('|').map(str::trim) {
            assert_eq!(Remark::read(text, tongue).leans, expected, "{text}");
        }
    }

    #[test]
    fn names_weigh_most_and_common_words_least() {
        let remark = read("Can the painter Vermeulen work on Monday?");
        let weights: Vec<f32> = remark.words.iter().map(|word| word.weight).collect();
        let named: Vec<bool> = remark.words.iter().map(|word| word.is_name).collect();
        assert_eq!(named, [false, true, false, true], "painter, Vermeulen, work, Monday");
        assert!(weights[2] < weights[0] && weights[0] < weights[1], "{weights:?}");
    }

    #[test]
    fn a_word_counts_once() {
        assert_eq!(read("paint, painted, paints").words.len(), 1);
        assert!(read("the of and").words.is_empty() && read("").words.is_empty());
    }

    #[test]
    fn d1_bare_follow_ups_lean_on_what_was_said() {
        check_leans(
            "en",
            "How much does it cost? | and in winter? | Why? | Which products do you have for that?",
            true,
        );
        check_leans("en", "And what about Vermeulen? | How do I paint a shed? | Did she meet Vermeulen?", false);
        check_leans("nl", "Welke producten heb je daarvoor? | en in de winter? | Hoeveel kost het?", true);
        check_leans("nl", "Hoe verf ik een schuur?", false);
        check_leans("de", "Was kostet das? | Und im Winter?", true);
        check_leans("de", "Wie streiche ich einen Schuppen?", false);
        check_leans("fr", "Combien coûte cela ? | Et en hiver ?", true);
        check_leans("es", "¿Cuánto cuesta eso? | ¿Y en invierno?", true);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "\\PC{0,120}") {
            for tongue in Tongue::ALL {
                let remark = Remark::read(&text, tongue);
                prop_assert!(remark.words.len() <= WORDS_READ_MAX);
                prop_assert!(remark.words.iter().all(|word| (0.0..=2.0).contains(&word.weight)));
            }
        }
    }
}
