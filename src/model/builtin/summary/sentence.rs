//! A text to its sentences, and long sentences to clauses.

use std::ops::Range;

/// A longer sentence is cut: about forty words.
const SENTENCE_BYTES_MAX: usize = 280;
/// Sentences are looked for in this much of a message.
const READ_BYTES_MAX: usize = 16 * 1024;

/// Words before a full stop that ends no sentence, in the five languages.
const ABBREVIATIONS: [&str; 24] = [
    "dr", "mr", "mrs", "ms", "prof", "st", "vs", "no", "nr", "ca", "bzw", "usw", "bijv", "mevr", "dhr", "mme", "mlle",
    "sr", "sra", "ej", "approx", "inc", "jr", "tel",
];

/// A sentence, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its bytes in the text.
    pub(crate) at: Range<usize>,
    /// Whether the sentence goes on before and after it.
    pub(crate) cut: (bool, bool),
}

/// The sentences of a text, without what marks lists and headings. Code between fences is none.
pub(crate) fn sentences(text: &str) -> Vec<Piece> {
    let read = &text[..boundary(text, READ_BYTES_MAX)];
    let mut found = Vec::new();
    let mut fenced = false;
    for line in read.split_inclusive(is_line_end) {
        let start = line.as_ptr() as usize - read.as_ptr() as usize;
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(in_line(read, start..start + line.len()).into_iter().flat_map(|at| short(read, at)));
        }
    }
    found
}

/// The clauses of a sentence, alone and in pairs, that are worth showing without the rest.
pub(super) fn clauses(text: &str, sentence: &Piece) -> Vec<Piece> {
    let parts = cuts(text, &sentence.at, is_clause_end);
    let mut found = Vec::new();
    for length in 1..=2 {
        for run in parts.windows(length).filter(|_| length < parts.len()) {
            let at = trimmed(text, run[0].start..run[length - 1].end);
            let (begins, ends) = (at.start > sentence.at.start, at.end < sentence.at.end);
            if words(&text[at.clone()]) >= CLAUSE_WORDS_MIN {
                found.push(Piece { at, cut: (begins || sentence.cut.0, ends || sentence.cut.1) });
            }
        }
    }
    found
}

/// A clause of fewer words says nothing by itself.
const CLAUSE_WORDS_MIN: usize = 5;

fn words(text: &str) -> usize {
    crate::language::words(text).count()
}

/// All that Unicode ends a line with, so that no sentence has a line end in it.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn in_line(text: &str, line: Range<usize>) -> Vec<Range<usize>> {
    let parts = cuts(text, &unnumbered(text, trimmed(text, line)), is_sentence_end);
    let parts = parts.into_iter().map(|at| trimmed(text, at));
    parts.filter(|at| text[at.clone()].contains(char::is_alphanumeric)).collect()
}

/// A line without the `1.` or `2)` of a list, which is no number that somebody stated.
fn unnumbered(text: &str, line: Range<usize>) -> Range<usize> {
    let rest = text[line.clone()].trim_start_matches(|c: char| c.is_ascii_digit());
    let marked = rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "));
    if marked { trimmed(text, line.end - rest.len() + 1..line.end) } else { line }
}

/// Cuts a range after each character that ends a part. The judge is shown what comes before and after that character.
fn cuts(text: &str, range: &Range<usize>, ends: impl Fn(&str, char, &str) -> bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = range.start;
    for (at, c) in text[range.clone()].char_indices() {
        let (at, after) = (range.start + at, range.start + at + c.len_utf8());
        if ends(&text[start..at], c, &text[after..range.end]) {
            found.push(start..after);
            start = after;
        }
    }
    if start < range.end {
        found.push(start..range.end);
    }
    found
}

fn is_sentence_end(before: &str, c: char, after: &str) -> bool {
    match c {
        '。' | '！' | '？' | '…' => true,
        '!' | '?' => after.chars().next().is_none_or(char::is_whitespace),
        // A quotation or a bracket that ends with its sentence.
        '"' | '”' | '’' | '\'' | ')' | '»' => {
            before.ends_with(['.', '!', '?']) && after.chars().next().is_none_or(char::is_whitespace)
        }
        '.' => after.chars().next().is_none_or(char::is_whitespace) && !is_short_form(before, after),
        _ => false,
    }
}

/// `Dr.`, `J.`, `z.B.`, and whatever goes on in lower case.
fn is_short_form(before: &str, after: &str) -> bool {
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let goes_on = after.trim_start().chars().next().is_some_and(char::is_lowercase);
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic) && word != "I";
    goes_on || is_initial || ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

fn is_clause_end(_before: &str, c: char, after: &str) -> bool {
    match c {
        '，' | '、' | '；' | '：' => true,
        ',' | ';' | ':' | '–' | '—' => after.starts_with(char::is_whitespace),
        _ => false,
    }
}

/// Without blanks and what marks a list, a heading or a clause, at either end.
fn trimmed(text: &str, at: Range<usize>) -> Range<usize> {
    let part = &text[at.clone()];
    let left = part.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || "#*->•|_`–—…,;:".contains(c));
    let right =
        left.trim_end_matches(|c: char| c.is_whitespace() || c.is_control() || "*|_`–—…,;:，、；：".contains(c));
    let start = at.start + part.len() - left.len();
    start..start + right.len()
}

/// A sentence as it is, or in parts if it is endless: people who write without full stops, lists without lines.
fn short(text: &str, at: Range<usize>) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut start = at.start;
    while at.end - start > SENTENCE_BYTES_MAX {
        let end = cut_before(text, start, boundary(text, start + SENTENCE_BYTES_MAX));
        found.push(Piece { at: trimmed(text, start..end), cut: (start > at.start, true) });
        start = end;
    }
    found.push(Piece { at: trimmed(text, start..at.end), cut: (start > at.start, false) });
    found.retain(|piece| text[piece.at.clone()].contains(char::is_alphanumeric));
    found
}

/// The last place up to `at` where a text may be cut.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// The last good place to cut: after a clause, else before a word, else where it must be.
fn cut_before(text: &str, start: usize, end: usize) -> usize {
    let half = boundary(text, start + (end - start) / 2);
    let clause = cuts(text, &(start..end), is_clause_end).into_iter().rev().nth(1).map(|part| part.end);
    let blank = || text[half..end].rfind(char::is_whitespace).map(|at| half + at);
    clause.filter(|at| *at > half).or_else(blank).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = sentences(text).into_iter().map(|piece| &text[piece.at]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sentences_end_where_people_end_them() {
        check("I moved. To Porto! Really? Yes", &["I moved.", "To Porto!", "Really?", "Yes"]);
        check(
            "Dr. Smith paid 3.50 at 5 p.m. on Friday. J. Doe did not.",
            &["Dr. Smith paid 3.50 at 5 p.m. on Friday.", "J. Doe did not."],
        );
        check("He said \"go.\" We went.", &["He said \"go.\"", "We went."]);
        check("我住在北京。你呢？很好！", &["我住在北京。", "你呢？", "很好！"]);
        check("¿Dónde? Aquí", &["¿Dónde?", "Aquí"]);
    }

    #[test]
    fn marks_of_lists_are_left_out_and_code_is_no_sentence() {
        check("## Plan\n- **Buy** milk\n1. Go\n| --- |\n\n", &["Plan", "Buy** milk", "Go"]);
        check("See:\n```\nlet x = 1;\n```\nDone", &["See", "Done"]);
    }

    #[test]
    fn a_sentence_without_end_is_cut_between_words() {
        let text = "word ".repeat(200);
        let pieces = sentences(&text);
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.at.len() <= SENTENCE_BYTES_MAX));
        assert_eq!((pieces[0].cut, pieces[1].cut), ((false, true), (true, true)));
        assert!(sentences(&"水".repeat(500)).len() > 2);
    }

    #[test]
    fn clauses_stand_alone_when_they_say_enough() {
        let text = "When I was in Porto last year, I met Anna and her brother, by chance.";
        let found: Vec<&str> = clauses(text, &sentences(text)[0]).into_iter().map(|piece| &text[piece.at]).collect();
        assert_eq!(
            found,
            [
                "When I was in Porto last year",
                "I met Anna and her brother",
                "When I was in Porto last year, I met Anna and her brother",
                "I met Anna and her brother, by chance."
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_cut_in_order(text in prop_oneof!["\\PC{0,200}", "[a-zé.,!?\\n\") ]{0,900}", ".{0,100}"]) {
            let mut before = 0;
            for piece in sentences(&text) {
                prop_assert!(before <= piece.at.start && piece.at.len() <= SENTENCE_BYTES_MAX);
                prop_assert!(!text[piece.at.clone()].contains(is_line_end));
                for clause in clauses(&text, &piece) {
                    prop_assert!(piece.at.start <= clause.at.start && clause.at.end <= piece.at.end);
                }
                before = piece.at.end;
            }
        }
    }
}
