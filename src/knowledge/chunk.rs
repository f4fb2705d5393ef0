//! Blocks to passages: small enough to be packed beside others, large enough to be understood, never across a heading.

use super::{Passage, parse::Block};
use crate::tokens;

/// Longest passage.
pub const PASSAGE_TOKENS_MAX: usize = 140;
/// Between headings that a passage stands under.
const BELOW: &str = " › ";

/// Cuts blocks into passages, in order.
pub fn chunk(blocks: &[Block]) -> Vec<Passage> {
    let mut cutting = Cutting::default();
    for block in blocks {
        match block.level {
            Some(level) => cutting.heading(level, block),
            None => pieces(&block.text).into_iter().for_each(|(text, tokens)| cutting.add(block, text, tokens)),
        }
    }
    cutting.end();
    cutting.passages
}

#[derive(Default)]
struct Cutting {
    passages: Vec<Passage>,
    /// The headings that are open, with their levels.
    headings: Vec<(u8, String)>,
    open: Passage,
    /// Whether nothing stood under the last heading so far.
    bare: bool,
}

impl Default for Passage {
    fn default() -> Self {
        Self { number: 1, heading: String::new(), place: String::new(), text: String::new(), tokens: 0 }
    }
}

impl Cutting {
    fn heading(&mut self, level: u8, block: &Block) {
        self.end();
        self.headings.retain(|(above, _)| *above < level);
        self.headings.push((level, super::one_line(&block.text)));
        self.open.place.clone_from(&block.place);
        self.bare = true;
    }

    fn add(&mut self, block: &Block, text: String, tokens: usize) {
        let moved = !self.open.text.is_empty() && self.open.place != block.place;
        if moved || self.open.tokens as usize + tokens > PASSAGE_TOKENS_MAX {
            self.end();
        }
        if self.open.text.is_empty() {
            self.open.place.clone_from(&block.place);
        } else {
            self.open.text.push('\n');
        }
        self.bare = false;
        self.open.text.push_str(&text);
        self.open.tokens += tokens as u32;
    }

    fn end(&mut self) {
        let mut done = std::mem::take(&mut self.open);
        if done.text.is_empty()
            && std::mem::take(&mut self.bare)
            && let Some((_, last)) = self.headings.last()
        {
            // A heading with nothing below it may be all that is said.
            done.text.clone_from(last);
            done.tokens = tokens::count(last) as u32;
        }
        if !done.text.is_empty() {
            done.heading = self.headings.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(BELOW);
            done.number = self.passages.len() as u32 + 1;
            self.passages.push(done);
        }
    }
}

/// A text in pieces that fit, cut where it hurts least: at lines, sentences, words, and anywhere if need be.
fn pieces(text: &str) -> Vec<(String, usize)> {
    let text = text.trim();
    if text.is_empty() {
        return Vec::new();
    }
    if let Some(tokens) = fits(text) {
        return vec![(text.to_owned(), tokens)];
    }
    let mut found: Vec<(String, usize)> = Vec::new();
    for part in parts(text) {
        for (piece, tokens) in pieces(part) {
            match found.last_mut() {
                Some((last, before)) if *before + tokens < PASSAGE_TOKENS_MAX => {
                    last.push(if text.contains('\n') { '\n' } else { ' ' });
                    last.push_str(&piece);
                    *before += tokens + 1;
                }
                _ => found.push((piece, tokens)),
            }
        }
    }
    found
}

/// The tokens of a text that is no longer than a passage. What is far too long is not counted.
fn fits(text: &str) -> Option<usize> {
    // Hardly any text has more than sixteen bytes in each of its tokens.
    if text.len() > 16 * PASSAGE_TOKENS_MAX {
        return None;
    }
    Some(tokens::count(text)).filter(|tokens| *tokens <= PASSAGE_TOKENS_MAX)
}

/// The parts of a text that is too long: its lines, else its sentences, else its words, else its two halves.
fn parts(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > 1 {
        return lines;
    }
    let sentences: Vec<&str> =
        text.split_inclusive(['.', '!', '?', '。', ';']).filter(|part| !part.trim().is_empty()).collect();
    if sentences.len() > 1 {
        return sentences;
    }
    let middle = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let blank = text[..middle].rfind(char::is_whitespace).filter(|at| *at > text.len() / 4);
    let (first, second) = text.split_at(blank.unwrap_or(middle));
    vec![first, second]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(blocks: &[Block]) -> Vec<(String, String)> {
        chunk(blocks).into_iter().map(|passage| (passage.heading, passage.text)).collect()
    }

    fn pair(heading: &str, text: &str) -> (String, String) {
        (heading.to_owned(), text.to_owned())
    }

    #[test]
    fn passages_stand_under_their_headings() {
        let blocks = [
            Block::paragraph("Before."),
            Block::heading(1, "Lamps"),
            Block::paragraph("They shine."),
            Block::paragraph("Brightly."),
            Block::heading(2, "Red ones"),
            Block::paragraph("They are red."),
            Block::heading(1, "Chairs"),
            Block::heading(1, "Tables"),
            Block::paragraph("Four legs."),
        ];
        let expected = [
            pair("", "Before."),
            pair("Lamps", "They shine.\nBrightly."),
            pair("Lamps › Red ones", "They are red."),
            pair("Chairs", "Chairs"),
            pair("Tables", "Four legs."),
        ];
        assert_eq!(told(&blocks), expected);
    }

    #[test]
    fn long_text_is_cut_at_its_sentences() {
        let sentence = "The lamp in the hall is red and shines all night long. ";
        let passages = chunk(&[Block::paragraph(&sentence.repeat(40))]);
        assert!(passages.len() > 2);
        assert!(passages.iter().all(|passage| passage.text.ends_with("long.")), "{passages:?}");
    }

    #[test]
    fn what_cannot_be_cut_well_is_cut_anyway() {
        let passages = chunk(&[Block::paragraph(&"x7Kq".repeat(5_000))]);
        assert_eq!(passages.iter().map(|passage| passage.text.len()).sum::<usize>(), 20_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_passage_is_too_long_and_no_word_is_lost(texts in proptest::collection::vec("[a-zé]{1,9}([ .\n][a-zé]{1,9}){0,300}", 1..6)) {
            let blocks: Vec<Block> = texts.iter().map(|text| Block::paragraph(text)).collect();
            let passages = chunk(&blocks);
            for passage in &passages {
                prop_assert!(tokens::count(&passage.text) <= PASSAGE_TOKENS_MAX + PASSAGE_TOKENS_MAX / 4, "{}", passage.text);
            }
            let words = |text: &str| text.split([' ', '\n', '.']).filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
            let said: Vec<String> = texts.iter().flat_map(|text| words(text)).collect();
            let kept: Vec<String> = passages.iter().flat_map(|passage| words(&passage.text)).collect();
            prop_assert_eq!(said, kept);
            let numbers: Vec<u32> = passages.iter().map(|passage| passage.number).collect();
            prop_assert_eq!(numbers, (1..=passages.len() as u32).collect::<Vec<_>>());
        }
    }
}
