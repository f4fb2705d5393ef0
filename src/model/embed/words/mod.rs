//! Words: a text as BERT-uncased reads it.
//!
//! Accents and case are ignored. White space separates, every punctuation mark and every CJK character is a
//! word of its own, control characters are not there. Whoever learnt from words split in this way must be
//! shown words split in this way, to the letter.

mod pieces;
mod ranges;

use std::cmp::Ordering;

use unicode_normalization::char::{decompose_canonical, is_combining_mark};

pub(super) use pieces::add_pieces;

/// The words of a text, in one buffer.
#[derive(Debug, Default)]
pub(super) struct Words {
    letters: String,
    /// Where each word ends; it begins where the one before it ends.
    ends: Vec<usize>,
}

impl Words {
    /// Splits a text. Time and space grow with its length and nothing else.
    pub(super) fn of(text: &str) -> Self {
        let mut words = Self { letters: String::with_capacity(text.len()), ends: Vec::with_capacity(text.len() / 4) };
        for character in text.chars() {
            words.read(character);
        }
        words.end_word();
        words
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.letters[start..end])
    }

    fn read(&mut self, character: char) {
        if character.is_ascii_alphanumeric() {
            self.letters.push(character.to_ascii_lowercase());
        } else if character.is_ascii() {
            self.take(character);
        } else {
            // An accented letter is a letter and its accents; the order of accents is of no interest here.
            decompose_canonical(character, |part| part.to_lowercase().for_each(|lower| self.take(lower)));
        }
    }

    fn take(&mut self, character: char) {
        match kind(character) {
            Kind::Letter => self.letters.push(character),
            Kind::Space => self.end_word(),
            Kind::Nothing => {}
            Kind::Alone => {
                self.end_word();
                self.letters.push(character);
                self.end_word();
            }
        }
    }

    fn end_word(&mut self) {
        if self.letters.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.letters.len());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Space,
    /// A word by itself.
    Alone,
    /// Not there.
    Nothing,
}

/// What a lower-case character does to the words around it.
fn kind(character: char) -> Kind {
    if character.is_alphanumeric() && (character.is_ascii() || !is_cjk(character)) && !is_combining_mark(character) {
        Kind::Letter
    } else if character.is_whitespace() {
        Kind::Space
    } else if is_accent(character) || is_invisible(character) {
        Kind::Nothing
    } else if character.is_ascii_punctuation() || is_cjk(character) || within(&ranges::PUNCTUATION, character) {
        Kind::Alone
    } else {
        Kind::Letter
    }
}

/// Unicode's Mn.
fn is_accent(character: char) -> bool {
    is_combining_mark(character) && !within(&ranges::SPACING_MARKS, character)
}

/// Control and format characters, and the mark of bytes that were no text.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(u32::from(character),
            0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890..=0x891 | 0x8E2 | 0x180E | 0x200B..=0x200F
            | 0x202A..=0x202E | 0x2060..=0x2064 | 0x2066..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0xFFFD | 0x110BD
            | 0x110CD | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0001 | 0xE0020..=0xE007F)
}

fn is_cjk(character: char) -> bool {
    matches!(u32::from(character),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B820..=0x2CEAF | 0x2F800..=0x2FA1F)
}

fn within(ranges: &[(u32, u32)], character: char) -> bool {
    let code = u32::from(character);
    let side = |&(first, last): &(u32, u32)| match () {
        () if last < code => Ordering::Less,
        () if code < first => Ordering::Greater,
        () => Ordering::Equal,
    };
    ranges.binary_search_by(side).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Words::of(text).iter().collect::<Vec<_>>().join("|"), expected, "{text:?}");
    }

    #[test]
    fn words_are_lower_case_without_accents() {
        check("Where did  Caroline\tgo?", "where|did|caroline|go|?");
        check("Ünïcödé É İstanbul STRASSE Straße", "unicode|e|istanbul|strasse|straße");
        check("it's 09:30", "it|'|s|09|:|30");
    }

    #[test]
    fn an_accent_typed_apart_is_the_same() {
        check("e\u{301}te\u{301}", "ete");
        check("\u{301}\u{302}", "");
    }

    #[test]
    fn punctuation_and_cjk_stand_alone() {
        check("«oui»…—no।", "«|oui|»|…|—|no|।");
        check("北京ok東", "北|京|ok|東");
        check("a\u{fa10}b", "a|塚|b");
        // Kana and Hangul are letters; Hangul comes apart into its own.
        check("ひら カタ", "ひら|カタ");
        check("가", "\u{1100}\u{1161}");
    }

    #[test]
    fn vowel_signs_stay_and_accents_of_other_scripts_go() {
        check("हिन्दी", "हिनदी");
        check("שָׁלוֹם", "שלום");
    }

    #[test]
    fn what_cannot_be_seen_is_not_there() {
        check("a\u{0}b\u{7f}c\u{200b}d\u{ad}e\u{feff}f\u{fffd}g", "abcdefg");
        check("a\u{a0}b\u{3000}c\r\nd", "a|b|c|d");
        check("", "");
        check(" \n ", "");
    }
}
