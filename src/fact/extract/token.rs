//! A message as patterns see it: words, and the marks between them as words of their own.
//!
//! A pattern that has no mark in it does not reach across one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::language::{Word, spans};

/// Words before a full stop that ends no sentence.
const SHORT_FORMS: [&str; 16] =
    ["dr", "mr", "mrs", "ms", "prof", "st", "jr", "sr", "sra", "mme", "mlle", "dhr", "mevr", "drs", "ir", "ing"];

/// The end of a sentence.
pub(super) const STOP: &str = ".";
/// The end of a question.
pub(super) const ASKED: &str = "?";
/// Between clauses: a colon, a semicolon, a dash, a bracket, a quotation mark.
pub(super) const BREAK: &str = ";";
/// A comma.
pub(super) const COMMA: &str = ",";

/// Whether a word is a mark.
pub(super) fn is_mark(word: &Word<'_>) -> bool {
    matches!(&*word.text, STOP | ASKED | BREAK | COMMA)
}

/// Whether a word ends a sentence.
pub(super) fn ends(word: &Word<'_>) -> bool {
    matches!(&*word.text, STOP | ASKED)
}

/// The words and marks of a text. `'s` is a word: `s`.
pub(super) fn tokens(text: &str) -> Vec<Word<'_>> {
    let mut found: Vec<Word<'_>> = Vec::with_capacity(text.len() / 4);
    let mut end = 0;
    for word in spans(text) {
        // Scripts without blanks come as overlapping pairs.
        if end <= word.at.start {
            push_gap(&mut found, text, end..word.at.start);
        }
        end = end.max(word.at.end);
        found.push(word);
    }
    push_gap(&mut found, text, end..text.len());
    found
}

fn push_gap<'a>(found: &mut Vec<Word<'a>>, text: &'a str, gap: Range<usize>) {
    let between = &text[gap.clone()];
    if between.is_empty() || between == " " {
        return;
    }
    let is_apostrophe = |c: char| matches!(c, '\'' | '’');
    let cut_s = between.strip_prefix(is_apostrophe).and_then(|rest| rest.strip_prefix(['s', 'S']));
    let rest = match cut_s {
        Some(rest) => {
            let at = gap.end - rest.len() - 1..gap.end - rest.len();
            found.push(Word { text: Cow::Borrowed("s"), at });
            rest
        }
        None => between,
    };
    let before = found.last().map_or("", |word| &word.text);
    if let Some(mark) = mark(before, rest, gap.end == text.len()) {
        let start = gap.end - rest.len();
        found.push(Word { text: Cow::Borrowed(mark), at: start..gap.end });
    }
}

/// The strongest mark between two words.
fn mark(before: &str, between: &str, last: bool) -> Option<&'static str> {
    // Marks between letters belong to a word: 3.50, 10:30, node.js, they/them, 1,200.
    if !last && !between.contains(char::is_whitespace) {
        if between == "," && before.ends_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let quoting = between.contains(['"', '“', '”', '„', '«', '»', '(', ')', '…', ';', '!', '¿', '¡', '—', '?']);
        return if between.contains(',') { Some(COMMA) } else { quoting.then_some(BREAK) };
    }
    if between.contains(['?', '？']) {
        return Some(ASKED);
    }
    if between.contains(['!', '\n', '\r', '¿', '。', '！', '\u{2028}', '\u{2029}', '\u{85}']) {
        return Some(STOP);
    }
    if between.starts_with('.') && !between.starts_with("..") {
        return (!is_short_form(before)).then_some(STOP);
    }
    if between.contains(['.', '…']) {
        return Some(STOP);
    }
    if between.contains([':', ';', '(', ')', '[', ']', '"', '“', '”', '„', '«', '»', '—', '–', '|', '¡']) {
        return Some(BREAK);
    }
    // A dash between blanks, quotation marks, stars, faces.
    let other = between.contains([',', '-', '/', '•', '*', '~', '_']);
    other.then_some(COMMA)
}

/// `Dr.`, `St.`, `J.`; an I ends a sentence.
fn is_short_form(word: &str) -> bool {
    let initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic) && word != "i";
    initial || SHORT_FORMS.contains(&word)
}

/// The same words as a language spells them: `im` is `i am`, `don t` is `do not`.
pub(super) fn spelled<'a>(words: &[Word<'a>], spelling: &HashMap<String, Vec<String>>) -> Vec<Word<'a>> {
    let mut found = Vec::with_capacity(words.len() + 2);
    let mut at = 0;
    while at < words.len() {
        let pair = || words.get(at + 1).and_then(|next| spelling.get(&format!("{} {}", words[at].text, next.text)));
        // An apostrophe, or a blank in its place.
        let apart = words.get(at + 1).is_none_or(|next| words[at].at.end + 3 < next.at.start);
        let (spelled, taken) = match spelling.get(&*words[at].text) {
            _ if !apart && let Some(spelled) = pair() => (Some(spelled), 2),
            found => (found, 1),
        };
        match spelled {
            Some(spelled) => found.extend(respelled(&words[at..at + taken], spelled)),
            None => found.push(words[at].clone()),
        }
        at += taken;
    }
    found
}

/// New words in the place of old ones; what is one too many shares the place of the last.
fn respelled<'a>(old: &[Word<'a>], new: &[String]) -> Vec<Word<'a>> {
    let place = |at: usize| old[at.min(old.len() - 1)].at.clone();
    new.iter().enumerate().map(|(at, text)| Word { text: Cow::Owned(text.clone()), at: place(at) }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found: Vec<String> = tokens(text).into_iter().map(|word| word.text.into_owned()).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn marks_are_words() {
        check("Hi, I'm Ann. I live here!", "hi , i m ann . i live here .");
        check("my dog's name is Rex; ok?", "my dog s name is rex ; ok ?");
        check("My name’s Bob", "my name s bob");
        check("Dr. Who paid 3.50 at 10:30 (net)", "dr who paid 3 50 at 10 30 ; net ;");
        check("they/them, node.js", "they them , node js");
        check("a\nb - c... d", "a . b , c . d");
        check("no I. Me", "no i . me");
        check("Soy Ana, ¿y tú?", "soy ana . y tú ?");
    }

    #[test]
    fn a_language_spells_its_words() {
        let spelling = HashMap::from([
            ("im".to_owned(), vec!["i".to_owned(), "am".to_owned()]),
            ("don t".to_owned(), vec!["do".to_owned(), "not".to_owned()]),
        ]);
        let text = "im here, I don't, don t";
        let found = spelled(&tokens(text), &spelling);
        let shown: Vec<&str> = found.iter().map(|word| &*word.text).collect();
        assert_eq!(shown.join(" "), "i am here , i do not , do not");
        assert_eq!(&text[found[1].at.clone()], "im");
    }

    proptest! {
        #[test]
        fn words_stand_in_their_text_in_order(text in prop_oneof!["\\PC{0,80}", "[a-z'’.,!?\\n我住 ]{0,60}"]) {
            let mut before = 0;
            for word in tokens(&text) {
                prop_assert!(before <= word.at.start && text.get(word.at.clone()).is_some());
                before = word.at.start;
            }
        }
    }
}
