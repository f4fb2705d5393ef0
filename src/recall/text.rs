//! What of a message is worth matching, and where a long one can be cut.
//!
//! Code and logs drown the words around them: they are full of rare words that nobody asks about. They stay in
//! the message, and out of the search.

use std::borrow::Cow;
use std::ops::Range;

/// Bytes of a message that search reads; the rest is kept and shown, but not found.
pub(crate) const MATCHED_BYTES_MAX: usize = 64 * 1024;

/// What is matched of a message that is nothing but code.
const CODE_CHARS: usize = 300;

/// Words of a passage.
const PASSAGE_WORDS: usize = 40;
/// A sentence longer than this is cut.
const SENTENCE_WORDS_MAX: usize = 60;

/// The text without fenced blocks, code and log lines; its beginning if nothing else is left.
pub(crate) fn matching_text(text: &str) -> Cow<'_, str> {
    let text = beginning(text, MATCHED_BYTES_MAX);
    if !text.contains("```") && text.lines().all(|line| !is_code(line)) {
        return Cow::Borrowed(text);
    }
    let kept = without_code(text);
    if kept.trim().is_empty() {
        let end = text.char_indices().nth(CODE_CHARS).map_or(text.len(), |(at, _)| at);
        return Cow::Borrowed(&text[..end]);
    }
    Cow::Owned(kept)
}

/// The first bytes of a text, cut between characters.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn without_code(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !is_code(line) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Words that begin a line of code.
const CODE_WORDS: [&str; 16] = [
    "import", "from", "def", "class", "const", "let", "var", "return", "public", "private", "npm", "pip", "git",
    "SELECT", "INSERT", "CREATE",
];

/// Longer lines with fewer letters than this share of them are logs, tables or code.
const LETTERS_MIN: f64 = 0.62;
const SHORT_LINE: usize = 25;

fn is_code(line: &str) -> bool {
    let line = line.trim();
    let first = line.split(' ').next().unwrap_or("");
    (CODE_WORDS.contains(&first) && has_code_signs(line))
        || (matches!(first, "at" | "File") && looks_traced(line))
        || line.starts_with("Traceback")
        || begins_with_time(line)
        || (!line.is_empty() && line.chars().all(|c| "()[]{};,".contains(c)))
        || few_letters(line)
}

/// "let us meet" is no code, "let x = 1" is.
fn has_code_signs(line: &str) -> bool {
    line.contains(['=', '(', ')', '{', '}', ';', '<', '>', '_', '/', '"', '*']) || line.contains(" -")
}

/// Stack traces: `at Object.run (x.js:1:2)`, `File "x.py", line 3`.
fn looks_traced(line: &str) -> bool {
    line.contains('"') || line.contains('(') || line.contains(':')
}

/// An ISO date with a time, as logs begin.
fn begins_with_time(line: &str) -> bool {
    let digits = |at: Range<usize>| line.get(at).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && matches!(line.as_bytes().get(10), Some(b'T' | b' '))
        && digits(11..13)
}

fn few_letters(line: &str) -> bool {
    let (mut all, mut letters) = (0_usize, 0_usize);
    for c in line.chars() {
        all += 1;
        letters += usize::from(c.is_alphabetic() || c.is_whitespace());
    }
    all > SHORT_LINE && (letters as f64) < LETTERS_MIN * all as f64
}

/// Overlapping stretches of whole sentences, about forty words each, as byte ranges. A text of ordinary length is
/// one passage.
pub(crate) fn passages(text: &str) -> Vec<Range<usize>> {
    let sentences = sentences(text);
    let mut found = Vec::new();
    let mut first = 0;
    while first < sentences.len() {
        let last = end_of_passage(&sentences, first);
        found.push(sentences[first].0.start..sentences[last - 1].0.end);
        if last == sentences.len() {
            break;
        }
        first = (first + 1).max((first + last).div_ceil(2));
    }
    found
}

fn end_of_passage(sentences: &[(Range<usize>, usize)], first: usize) -> usize {
    let mut words = 0;
    for (at, (_, count)) in sentences.iter().enumerate().skip(first) {
        words += count;
        if words > PASSAGE_WORDS && at > first {
            return at;
        }
    }
    sentences.len()
}

/// Sentences with their number of words. They end at `.!?` before a blank, at a line's end, or after sixty words.
fn sentences(text: &str) -> Vec<(Range<usize>, usize)> {
    let mut found = Vec::new();
    let (mut start, mut words, mut in_word, mut before) = (0, 0, false, ' ');
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            let ends =
                c == '\n' || matches!(before, '.' | '!' | '?' | '。' | '！' | '？') || words >= SENTENCE_WORDS_MAX;
            if ends && words > 0 {
                found.push((start..at, words));
                (start, words) = (at + c.len_utf8(), 0);
            }
            in_word = false;
        } else if !in_word {
            if words == 0 {
                start = at;
            }
            words += 1;
            in_word = true;
        }
        before = c;
    }
    if words > 0 {
        found.push((start..text.trim_end().len(), words));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(matching_text(text).trim(), expected);
    }

    #[test]
    fn prose_is_matched_as_it_is() {
        check("I moved to Porto.\nFrom there I work remotely.", "I moved to Porto.\nFrom there I work remotely.");
        check("let us meet at noon\nfrom my place", "let us meet at noon\nfrom my place");
    }

    #[test]
    fn code_and_logs_are_left_out() {
        check("see\nimport os.path as p; p()\nlet x = 1", "see");
        check("why?\n```\nlet x = 1;\n```\nthanks", "why?\nthanks");
        check("it says\n2026-01-02T10:00:00Z ERROR pool timed out\nhelp", "it says\nhelp");
        check("Traceback (most recent call last):\n  File \"a.py\", line 3\nwhat is this", "what is this");
        check("x = {a[1]: 3, b[2]: 4, c[3]: 5, d[4]: 6};\nfix it", "fix it");
    }

    #[test]
    fn a_message_of_nothing_but_code_is_matched_by_its_beginning() {
        let code = format!("```\n{}\n```", "fn main() {} ".repeat(100));
        assert_eq!(matching_text(&code).chars().count(), CODE_CHARS);
    }

    #[test]
    fn long_texts_are_cut_into_overlapping_passages() {
        let text = "One two three four five six seven eight nine ten. ".repeat(10);
        let passages = passages(&text);
        assert!(passages.len() > 2, "{passages:?}");
        assert!(passages.windows(2).all(|pair| pair[1].start < pair[0].end), "they overlap: {passages:?}");
        assert_eq!(super::passages("Short. Very short.").len(), 1);
    }

    proptest! {
        #[test]
        fn passages_lie_in_the_text_and_cover_its_words(text in "[a-z.!?\\n é]{0,600}") {
            let found = passages(&text);
            for passage in &found {
                prop_assert!(text.get(passage.clone()).is_some_and(|part| !part.trim().is_empty()));
            }
            let covered = |at: usize| found.iter().any(|passage| passage.contains(&at));
            for (at, c) in text.char_indices() {
                prop_assert!(c.is_whitespace() || covered(at), "{at} in {text:?}");
            }
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC{0,400}") {
            matching_text(&text);
        }
    }
}
