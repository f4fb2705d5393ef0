//! Takes pieces out of a text and closes the gaps.

use std::ops::Range;

/// The text without some of its bytes, blanks brought together.
///
/// The pieces are in order of where they begin; they may overlap.
pub(super) fn cut(text: &str, pieces: &[Range<usize>]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        kept.push_str(text.get(at..piece.start).unwrap_or_default());
        at = at.max(piece.end);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    let words: Vec<&str> = kept.split_whitespace().collect();
    // What stood between the pieces is no text of its own: ", ?" becomes nothing.
    let is_text = |word: &&str| word.contains(char::is_alphanumeric);
    let last_mark = words.last().filter(|word| !is_text(word)).copied();
    let joined = words.iter().filter(|word| is_text(word)).copied().collect::<Vec<_>>().join(" ");
    match last_mark.filter(|_| !joined.is_empty()) {
        Some(mark) => format!("{}{mark}", joined.trim_end_matches([',', ';', ':'])),
        None => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, gone: &[&str], expected: &str) {
        let pieces: Vec<Range<usize>> = gone
            .iter()
            .map(|piece| {
                let at = text.find(piece).expect("in the text");
                at..at + piece.len()
            })
            .collect();
        assert_eq!(cut(text, &pieces), expected);
    }

    #[test]
    fn gaps_close() {
        check("What did Ann's dog eat?", &["Ann's"], "What did dog eat?");
        check("Can you tell me, please, my name?", &["Can you tell me", "please"], "my name?");
        check("my name, please?", &["please"], "my name?");
        check("where?", &["where"], "");
        check("a b c", &[], "a b c");
    }
}
