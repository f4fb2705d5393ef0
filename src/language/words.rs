//! Text to words: what search compares.
//!
//! A word is a run of letters and digits in lower case. Scripts that put no blanks between words are cut
//! into pairs of characters, which is how they are searched without a dictionary.

use std::borrow::Cow;
use std::ops::Range;

/// Longer words are cut here: nobody asks for the rest of a hash or of a page without blanks.
pub const WORD_CHARS_MAX: usize = 64;

/// A word and where it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word<'a> {
    /// In lower case, at most [`WORD_CHARS_MAX`] characters.
    pub text: Cow<'a, str>,
    /// Its bytes in the text. A word that was cut still covers all of them.
    pub at: Range<usize>,
}

impl AsRef<str> for Word<'_> {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// The words of a text, in order, in lower case; `'s` before a blank is dropped (`Ann's dog`: ann, dog).
///
/// Pieces of the text are borrowed where they are in lower case already.
pub fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    spans(text).map(|word| word.text)
}

/// The words of a text with their places.
pub fn spans(text: &str) -> Spans<'_> {
    Spans { text, at: 0, pairs: None }
}

/// The iterator behind [`spans`].
#[derive(Debug, Clone)]
pub struct Spans<'a> {
    text: &'a str,
    at: usize,
    /// What is left of a run without blanks: the pairs in it are still to come.
    pairs: Option<Range<usize>>,
}

impl<'a> Iterator for Spans<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        if let Some(run) = self.pairs.take() {
            return Some(self.pair(run));
        }
        loop {
            let rest = &self.text[self.at..];
            let start = self.at + rest.find(|c: char| c.is_alphanumeric())?;
            let crowded = self.text[start..].chars().next().is_some_and(is_crowded);
            let inside = |c: char| if crowded { is_crowded(c) } else { continues(c) && !is_crowded(c) };
            let end = self.text[start..].find(|c| !inside(c)).map_or(self.text.len(), |length| start + length);
            self.at = end;
            if crowded {
                return Some(self.pair(start..end));
            }
            if !is_dropped_s(self.text, start..end) {
                return Some(Word { text: lower(cut(&self.text[start..end])), at: start..end });
            }
        }
    }
}

impl<'a> Spans<'a> {
    /// The first two characters of the run; the pair that begins with the second comes next.
    fn pair(&mut self, run: Range<usize>) -> Word<'a> {
        let mut ends = self.text[run.clone()].char_indices().map(|(at, c)| run.start + at + c.len_utf8());
        let first = ends.next().unwrap_or(run.end);
        let second = ends.next().unwrap_or(first);
        if second < run.end {
            self.pairs = Some(first..run.end);
        }
        Word { text: Cow::Borrowed(&self.text[run.start..second]), at: run.start..second }
    }
}

/// A letter, a digit, or an accent written after its letter.
fn continues(c: char) -> bool {
    c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c)
}

/// Scripts without blanks between words, and Hangul, whose endings hide the word from a plain comparison.
fn is_crowded(c: char) -> bool {
    matches!(c,
        '\u{3005}' | '\u{3007}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{1100}'..='\u{11ff}'
        | '\u{20000}'..='\u{323af}')
        && c.is_alphanumeric()
}

/// The `s` of `Ann's dog`. At the end of a sentence it stays, and is a stop word.
fn is_dropped_s(text: &str, at: Range<usize>) -> bool {
    matches!(&text[at.clone()], "s" | "S")
        && text[at.end..].starts_with(' ')
        && (text[..at.start].ends_with('\'') || text[..at.start].ends_with('’'))
}

fn cut(word: &str) -> &str {
    match word.len() <= WORD_CHARS_MAX {
        true => word,
        false => word.char_indices().nth(WORD_CHARS_MAX).map_or(word, |(at, _)| &word[..at]),
    }
}

fn lower(word: &str) -> Cow<'_, str> {
    let is_lower = match word.is_ascii() {
        true => !word.bytes().any(|byte| byte.is_ascii_uppercase()),
        false => !word.chars().any(char::is_uppercase),
    };
    if is_lower { Cow::Borrowed(word) } else { Cow::Owned(word.to_lowercase()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(words(text).collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn english() {
        check("Where do I live?", "where do i live");
        check("Ann's dog, Bob’s cat", "ann dog bob cat");
        check("It was Ann's. It's here", "it was ann s it here");
        check("I'm 42, don't ask: C3PO@home", "i m 42 don t ask c3po home");
        check("  ", "");
        check("snake_case and kebab-case", "snake case and kebab case");
        check("THE 'S END 's", "the end s");
    }

    #[test]
    fn other_alphabets() {
        check("Één café, Straße und ÜBUNG", "één café straße und übung");
        check("Foto's van 's avonds", "foto van avonds");
        check("J’ai mangé l’œuf", "j ai mangé l œuf");
        check("¿Dónde está el niño?", "dónde está el niño");
        check("Где ты живёшь?", "где ты живёшь");
        check("cafe\u{301} noir", "cafe\u{301} noir");
    }

    #[test]
    fn scripts_without_blanks_become_pairs() {
        check("我住在北京", "我住 住在 在北 北京");
        check("猫 and 犬", "猫 and 犬");
        check("iPhone手机", "iphone 手机");
        check("東京タワー", "東京 京タ タワ ワー");
        check("서울에 살아요", "서울 울에 살아 아요");
    }

    #[test]
    fn endless_words_are_cut() {
        let endless = "A".repeat(1000);
        check(&endless, &"a".repeat(WORD_CHARS_MAX));
        check(&"é".repeat(65), &"é".repeat(64));
        assert_eq!(spans(&endless).next().map(|word| word.at), Some(0..1000));
    }

    /// The rule as it was measured with: lower case, `'s ` replaced, runs of `[a-z0-9]`.
    fn plain(text: &str) -> Vec<String> {
        let text = text.to_lowercase().replace("'s ", " ");
        let parts = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        parts.map(|part| part.chars().take(WORD_CHARS_MAX).collect()).collect()
    }

    proptest! {
        #[test]
        fn ascii_is_cut_as_it_was_measured(text in "[ -~]{0,80}", possessive in "([a-zA-Z]{1,4}'[sS]?[ .a-z]?){0,8}") {
            prop_assert_eq!(words(&text).collect::<Vec<_>>(), plain(&text));
            prop_assert_eq!(words(&possessive).collect::<Vec<_>>(), plain(&possessive));
        }

        #[test]
        fn any_text_is_cut_in_order(text in "\\PC{0,60}") {
            let mut before = 0;
            for word in spans(&text) {
                prop_assert!(!word.text.is_empty() && word.at.start < word.at.end);
                prop_assert!(before <= word.at.start);
                prop_assert!(text.get(word.at.clone()).is_some());
                before = word.at.start;
            }
        }
    }
}
