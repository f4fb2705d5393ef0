//! A passage as words: their stems and themselves, as numbers. They are compared, and never shown.

use xxhash_rust::xxh3::xxh3_64;

use crate::language::{Tongue, is_stop, term, tongue, words};
use crate::model::embed::StaticTable;

/// What any word of a question is worth, beside how rare it is.
const ANY_WORD: f32 = 0.1;

/// The words of a passage, each with how often it is there, in order; and how many words there are in all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// Stems, and words that are not their own stem: a question in another language may have the word.
    pub counts: Vec<(u32, u8)>,
    /// Words in all.
    pub length: u16,
}

/// A word of a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AskedTerm {
    /// Its stem.
    pub stem: u32,
    /// Itself.
    pub word: u32,
    /// How much it tells.
    pub weight: f32,
}

fn hash(text: &str) -> u32 {
    xxh3_64(text.as_bytes()) as u32
}

/// The words of a text.
pub fn terms_of(text: &str) -> Terms {
    let tongue = tongue(text, Tongue::English);
    let (mut all, mut length) = (Vec::new(), 0_usize);
    for word in words(text).filter(|word| !is_stop(word, tongue)) {
        length += 1;
        let (stem, word) = (hash(&term(&word, tongue)), hash(&word));
        all.push(stem);
        all.extend((word != stem).then_some(word));
    }
    all.sort_unstable();
    let counts = all.chunk_by(|a, b| a == b).map(|same| (same[0], same.len().min(255) as u8)).collect();
    Terms { counts, length: length.min(usize::from(u16::MAX)) as u16 }
}

/// The words of a question that tell something, each once.
pub fn asked_terms(question: &str, tongue: Tongue) -> Vec<AskedTerm> {
    let telling = words(question).filter(|word| !is_stop(word, tongue));
    let mut asked: Vec<AskedTerm> = telling
        .map(|word| {
            let weight = ANY_WORD + StaticTable::shared().rarity(&word);
            AskedTerm { stem: hash(&term(&word, tongue)), word: hash(&word), weight }
        })
        .collect();
    asked.sort_unstable_by_key(|term| term.stem);
    asked.dedup_by_key(|term| term.stem);
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_meets_a_passage_by_stems() {
        let passage = terms_of("The lamps are delivered within three working days.");
        let has = |question: &str| {
            let asked = asked_terms(question, Tongue::English);
            let found = |hash: u32| passage.counts.binary_search_by_key(&hash, |(term, _)| *term).is_ok();
            asked.iter().filter(|term| found(term.stem) || found(term.word)).count()
        };
        assert_eq!((has("When is my lamp delivered?"), has("Who paints chairs?")), (2, 0));
        assert_eq!(terms_of("the of and"), Terms::default());
    }
}
