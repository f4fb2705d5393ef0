//! What a topic is called at first: the beginning of the message that opens it.

use unicode_normalization::char::is_combining_mark;

/// Characters of a title.
pub const TITLE_CHARS_MAX: usize = 80;

/// Joins the signs on both sides of it to one.
const JOINER: char = '\u{200d}';

/// The title of a topic that this message opens: its first eighty characters, on one line. A sign that does not fit as a whole
/// is left out.
pub fn title_of(first_message: &str) -> String {
    // So many words are longer than a title.
    let words: Vec<&str> = first_message.split_whitespace().take(TITLE_CHARS_MAX).collect();
    let line: Vec<char> = words.join(" ").chars().take(TITLE_CHARS_MAX + 1).collect();
    let title: String = line[..fitting(&line)].iter().collect();
    title.trim_end().to_owned()
}

/// How many characters make whole signs.
fn fitting(line: &[char]) -> usize {
    let most = line.len().min(TITLE_CHARS_MAX);
    // What is one sign from its beginning on is cut all the same.
    (1..=most).rev().find(|at| !is_inside(line, *at)).unwrap_or(most)
}

/// Whether the characters on both sides of a place belong to one sign.
fn is_inside(line: &[char], at: usize) -> bool {
    let (before, Some(next)) = (&line[..at], line.get(at)) else { return false };
    // A flag is a pair of letters.
    let letters = before.iter().rev().take_while(|sign| is_flag_letter(**sign)).count();
    let halves_a_flag = is_flag_letter(*next) && letters % 2 == 1;
    halves_a_flag || before.last() == Some(&JOINER) || changes_what_is_before(*next)
}

fn is_flag_letter(sign: char) -> bool {
    matches!(sign, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Accents, vowel signs, colours of skin and the like.
fn changes_what_is_before(sign: char) -> bool {
    is_combining_mark(sign) || matches!(sign, JOINER | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn d1_a_title_is_the_first_eighty_characters() {
        assert_eq!(title_of("  Which paint\n\tfor the  shed? "), "Which paint for the shed?");
        assert_eq!(title_of(&"é".repeat(200)), "é".repeat(80));
        assert_eq!(title_of(&format!("{} tail", "a".repeat(79))), "a".repeat(79));
        assert_eq!(title_of(""), "");
    }

    /// Seventy-eight letters and what comes then; of the last sign all is kept or nothing.
    #[track_caller]
    fn check_end(then: &str, kept: &str) {
        let before = "a".repeat(78);
        assert_eq!(title_of(&format!("{before}{then}")), format!("{before}{kept}"), "{then:?}");
    }

    #[test]
    fn a_title_ends_with_a_whole_sign() {
        check_end("xe\u{301}y", "x");
        check_end("e\u{301}y", "e\u{301}");
        check_end("👩\u{200d}🚀 off", "");
        check_end("x👍🏽 ok", "x");
        check_end("❤\u{fe0f}\u{200d}🔥 hot", "");
        check_end("🇳🇱🇵🇹", "🇳🇱");
        check_end("x🇳🇱🇵🇹", "x");
        check_end("xนี่คือ", "x");
        check_end("xनमस्ते", "xन");
        assert_eq!(title_of(&"\u{301}".repeat(200)).chars().count(), TITLE_CHARS_MAX, "nothing but marks");
    }

    proptest! {
        #[test]
        fn any_text_gives_a_title(text in "\\PC{0,200}") {
            let title = title_of(&text);
            prop_assert!(title.chars().count() <= TITLE_CHARS_MAX);
            prop_assert_eq!(title.trim(), &title);
        }
    }
}
