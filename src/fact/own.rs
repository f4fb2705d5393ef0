//! Which parts of a message are the user's own words, and which come from elsewhere: code, quotations, files, mails, logs,
//! transcripts, and texts that we are asked to work on.
//!
//! In doubt a part is foreign: a fact that is missed is said again, one that a document planted stays.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Refusal, document};
use crate::language::words;

/// Bytes of a message that are read. What is longer was hardly typed.
pub(super) const READ_BYTES_MAX: usize = 24 * 1024;

/// Words between quotation marks that are still a name: "call me 'Al'".
const QUOTED_WORDS_MAX: usize = 2;

/// A part of a message that somebody else wrote, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) at: Range<usize>,
    pub(super) why: Refusal,
}

/// The part of a message that is read at all.
pub(super) fn read_part(text: &str) -> &str {
    cut(text, READ_BYTES_MAX)
}

/// The first bytes of a text, whole characters only.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    match text.len() <= bytes_max {
        true => text,
        false => &text[..(0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)],
    }
}

/// What of a message is not the user's, in order, without overlaps.
pub(super) fn foreign(text: &str) -> Vec<Foreign> {
    let handed_over = document::handed_over(text);
    let own = handed_over.map_or(text, |(start, _)| &text[..start]);
    let mut reader = Reader { text: own, found: Vec::new(), within: Within::Own };
    let mut at = 0;
    for line in own.split_inclusive('\n') {
        reader.line(at..at + line.len());
        at += line.len();
    }
    if let Some((start, why)) = handed_over {
        reader.push(start..text.len(), why);
    }
    reader.found
}

/// The message with everything foreign blanked: as long as before, so that places stay what they are.
pub(super) fn blanked<'a>(text: &'a str, foreign: &[Foreign]) -> Cow<'a, str> {
    if foreign.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut own = String::with_capacity(text.len());
    let mut at = 0;
    for part in foreign {
        own.push_str(&text[at..part.at.start]);
        // A mark keeps the words before and behind it apart.
        let whole_lines = part.why != Refusal::Quoted || text[part.at.clone()].contains('\n');
        own.push(if whole_lines { '\n' } else { ';' });
        own.extend(std::iter::repeat_n(' ', part.at.len().saturating_sub(1)));
        at = part.at.end;
    }
    own.push_str(&text[at..]);
    Cow::Owned(own)
}

/// What a line belongs to.
enum Within {
    Own,
    Fence,
    Element(String),
    /// To the end of the message.
    Rest(Refusal),
    Letter,
}

struct Reader<'a> {
    text: &'a str,
    found: Vec<Foreign>,
    within: Within,
}

impl Reader<'_> {
    fn line(&mut self, at: Range<usize>) {
        let line = &self.text[at.clone()];
        let bare = line.trim();
        match &self.within {
            Within::Rest(why) => return self.push(at, *why),
            Within::Fence => {
                if is_fence(bare) {
                    self.within = Within::Own;
                }
                return self.push(at, Refusal::Code);
            }
            Within::Element(name) => {
                if closes(bare, name) {
                    self.within = Within::Own;
                }
                return self.push(at, Refusal::Pasted);
            }
            Within::Letter => {
                if CUES.closings.iter().any(|closing| begins(bare, closing)) {
                    self.within = Within::Own;
                }
                return self.push(at, Refusal::Pasted);
            }
            Within::Own => {}
        }
        if let Some((within, why)) = self.opening(bare, at.end) {
            self.within = within;
            return self.push(at, why);
        }
        if let Some(why) = line_alone(bare) {
            return self.push(at, why);
        }
        self.inside(at);
    }

    /// Whether a line begins something that goes on behind it.
    fn opening(&self, bare: &str, end: usize) -> Option<(Within, Refusal)> {
        if is_fence(bare) {
            return Some((Within::Fence, Refusal::Code));
        }
        if is_rule(bare) || is_mail_head(bare) || is_file_head(bare) {
            return Some((Within::Rest(Refusal::Pasted), Refusal::Pasted));
        }
        if CUES.speakers.iter().any(|speaker| is_label(bare, speaker)) {
            return Some((Within::Rest(Refusal::Pasted), Refusal::Pasted));
        }
        if let Some(name) = element(bare) {
            let is_whole = closes(bare, name) || bare.ends_with("/>");
            let within = if is_whole { Within::Own } else { Within::Element(name.to_lowercase()) };
            return Some((within, Refusal::Pasted));
        }
        let goes_on = !self.text[end..].trim().is_empty();
        let is_letter = goes_on && CUES.salutations.iter().any(|word| begins(bare, word));
        is_letter.then_some((Within::Letter, Refusal::Pasted))
    }

    /// What is foreign within a line of the user's: quotations, code, and the text behind "translate:".
    fn inside(&mut self, at: Range<usize>) {
        let line = &self.text[at.clone()];
        if let Some((cut, why, rest)) = announced(line) {
            self.quotations(at.start..at.start + cut);
            self.push(at.start + cut..at.end, why);
            if rest {
                self.within = Within::Rest(why);
            }
            return;
        }
        self.quotations(at.clone());
        // "Can you rewrite the following?" and then the text.
        if !self.text[at.end..].trim().is_empty() && is_task(line) {
            self.within = Within::Rest(Refusal::TaskText);
        }
    }

    fn quotations(&mut self, at: Range<usize>) {
        let mut next = at.start;
        while let Some(found) = quotation(&self.text[next..at.end]) {
            let place = next + found.at.start..next + found.at.end;
            next = place.end;
            if found.why == Refusal::Code || QUOTED_WORDS_MAX < words(&self.text[place.clone()]).count() {
                self.push(place, found.why);
            }
        }
    }

    fn push(&mut self, at: Range<usize>, why: Refusal) {
        match self.found.last_mut() {
            Some(last) if last.at.end == at.start && last.why == why => last.at.end = at.end,
            _ if at.is_empty() => {}
            _ => self.found.push(Foreign { at, why }),
        }
    }
}

fn is_fence(bare: &str) -> bool {
    bare.starts_with("```") || bare.starts_with("~~~")
}

/// A line of nothing but dashes or the like.
fn is_rule(bare: &str) -> bool {
    let mark = bare.chars().next().filter(|c| "-=_*#~+".contains(*c));
    mark.is_some_and(|mark| bare.len() >= 3 && bare.chars().all(|c| c == mark))
        || bare.starts_with("-----")
        || bare.starts_with("=====")
}

/// A line behind which a file stands: `--- Content of a.md`, `@notes/a.md`, `File: a.md`, `[[ ## context ## ]]`.
fn is_file_head(bare: &str) -> bool {
    let titled = ["--- ", "=== ", "+++ ", "*** ", "[[ ##"].iter().any(|mark| bare.starts_with(mark));
    let mentions = || bare.split_whitespace().any(|word| word.strip_prefix('@').is_some_and(is_file_name));
    let path = bare.strip_prefix("File:").or_else(|| bare.strip_prefix("file:")).unwrap_or(bare).trim();
    titled || mentions() || is_file_name(path.trim_start_matches(['#', '/', '*', ' ']).trim_end_matches([':', '*']))
}

/// `notes/about.md`: one word, with an ending.
fn is_file_name(word: &str) -> bool {
    let word = word.trim_matches(['`', '"', '\'', ',', ')', '?', '!']).trim_end_matches('.');
    let Some((stem, ending)) = word.rsplit_once('.') else { return false };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_address = word.contains("://") || word.starts_with("www.") || matches!(ending, "com" | "org" | "net");
    let is_number = stem.chars().all(|c| c.is_ascii_digit() || c == '.');
    !word.contains(char::is_whitespace)
        && !is_number
        && !is_address
        && !stem.is_empty()
        && (1..=5).contains(&ending.len())
        && ending.chars().all(plain)
}

fn is_mail_head(bare: &str) -> bool {
    CUES.mail.iter().any(|head| is_label(bare, head))
}

/// `word:` at the beginning of a line, in any case.
fn is_label(bare: &str, word: &str) -> bool {
    let start = bare.trim_start_matches(['*', '#', '[', '(', '<', '|', '_', ' ']);
    let rest = start.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word)).map(|_| &start[word.len()..]);
    rest.is_some_and(|rest| rest.trim_start_matches(['*', ']', ')', '>', '|', '_', ' ']).starts_with([':', '：']))
}

/// A line that begins with a word.
fn begins(bare: &str, word: &str) -> bool {
    let rest = bare.get(..word.len()).filter(|start| start.to_lowercase() == word).map(|_| &bare[word.len()..]);
    rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// The name of an element that a line opens: `<file name="x">`, `[tool_result]`.
fn element(bare: &str) -> Option<&str> {
    let (open, close) = if bare.starts_with('<') { ('<', '>') } else { ('[', ']') };
    let inside = bare.strip_prefix(open)?;
    inside.find(close)?;
    let name = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-' && c != '|').next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '|') && 1 < name.len();
    let known = open == '<' || CUES.elements.iter().any(|known| name.eq_ignore_ascii_case(known));
    (is_name && known).then_some(name)
}

fn closes(bare: &str, name: &str) -> bool {
    let lower = bare.to_lowercase();
    [
        format!("</{}", name.to_lowercase()),
        format!("[/{}", name.to_lowercase()),
        format!("[end {}", name.to_lowercase()),
    ]
    .iter()
    .any(|end| lower.contains(end.as_str()))
}

/// A line that is foreign by itself.
fn line_alone(bare: &str) -> Option<Refusal> {
    if bare.starts_with(['>', '|']) {
        return Some(Refusal::Quoted);
    }
    if is_logged(bare) || is_listed(bare) {
        return Some(Refusal::Pasted);
    }
    is_code(bare).then_some(Refusal::Code)
}

/// `2024-05-01 12:00 …`, `[12:03] …`, `12:03:11 …`: a log or a chat.
fn is_logged(bare: &str) -> bool {
    let start = bare.trim_start_matches(['[', '(']);
    let shape: String = start.chars().take(10).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let clock = shape.starts_with("00:00") && (bare.len() != start.len() || shape.starts_with("00:00:00"));
    let dated = shape.starts_with("0000-00-00") && start.len() > 12;
    let level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE", "FATAL"].iter().any(|level| start.starts_with(level));
    clock || dated || level
}

/// `12→text`, `12 | text`: a line of a file, as programs show it. People count with points and brackets.
fn is_listed(bare: &str) -> bool {
    let rest = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < bare.len() && (rest.starts_with('\t') || rest.trim_start().starts_with(['→', '|', '│']))
}

fn is_code(bare: &str) -> bool {
    let ends = bare.ends_with(['{', '}', ';']) || bare.ends_with(");") || bare.ends_with("};");
    let begins = bare.starts_with(['{', '}'])
        || ["$ ", "# !", "#!", "//", "/*", "--[["].iter().any(|mark| bare.starts_with(mark));
    let words = [
        "import ",
        "def ",
        "class ",
        "function ",
        "const ",
        "let ",
        "var ",
        "return ",
        "#include",
        "fn ",
        "pub ",
        "SELECT ",
        "INSERT ",
    ];
    let word = words.iter().any(|word| bare.starts_with(word)) && bare.contains(['(', '=', '{', ';', '*']);
    let calls =
        ["print(", "console.log(", "printf(", "echo \"", "println!(", "System.out", "puts \"", "document.", "fetch("];
    let assigns = bare.contains(" = \"") || bare.contains(" = '") || bare.contains("==") || bare.contains("\":");
    ends || begins || word || assigns || calls.iter().any(|call| bare.contains(call))
}

/// Where the text begins that a line announces, what it is, and whether it goes on behind the line.
fn announced(line: &str) -> Option<(usize, Refusal, bool)> {
    let colon = line.char_indices().find(|(at, c)| {
        matches!(c, ':' | '：') && line[at + c.len_utf8()..].chars().next().is_none_or(char::is_whitespace)
    });
    let (colon, mark) = colon?;
    let before: Vec<String> = words(&line[..colon]).map(Cow::into_owned).collect();
    let has = |words: &HashSet<String>| before.iter().any(|word| words.contains(word));
    let behind = colon + mark.len_utf8();
    if has(&CUES.texts) || has(&CUES.tasks) {
        return Some((behind, Refusal::TaskText, true));
    }
    has(&CUES.says).then_some((behind, Refusal::Quoted, false))
}

/// Whether a line asks to work on a text.
fn is_task(line: &str) -> bool {
    let said: Vec<String> = words(line).map(Cow::into_owned).collect();
    let opens = said.iter().take(6).any(|word| CUES.tasks.contains(word));
    opens && said.iter().any(|word| CUES.texts.contains(word))
}

/// The next quotation in a line.
fn quotation(line: &str) -> Option<Foreign> {
    const PAIRS: [(char, char); 8] =
        [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('`', '`'), ('‘', '’'), ('\'', '\''), ('”', '”')];
    for (start, c) in line.char_indices() {
        let Some((_, close)) = PAIRS.iter().find(|(open, _)| *open == c) else { continue };
        let behind = start + c.len_utf8();
        let single = matches!(c, '\'' | '‘');
        // An apostrophe stands in or behind a word.
        if single && line[..start].ends_with(char::is_alphanumeric) {
            continue;
        }
        let ends = |at: usize| {
            let after = line[at + close.len_utf8()..].chars().next();
            !single || after.is_none_or(|c| !c.is_alphanumeric())
        };
        let end = line[behind..].match_indices(*close).map(|(at, _)| behind + at).find(|at| ends(*at));
        if let Some(end) = end {
            let why = if c == '`' { Refusal::Code } else { Refusal::Quoted };
            return Some(Foreign { at: start..end + close.len_utf8(), why });
        }
    }
    None
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    mail: String,
    speakers: String,
    elements: String,
    salutations: Vec<String>,
    closings: Vec<String>,
    tasks: String,
    texts: String,
    says: String,
}

struct Cues {
    mail: Vec<String>,
    speakers: Vec<String>,
    elements: Vec<String>,
    salutations: Vec<String>,
    closings: Vec<String>,
    tasks: HashSet<String>,
    texts: HashSet<String>,
    says: HashSet<String>,
}

static CUES: LazyLock<Cues> = LazyLock::new(|| {
    let written: Written =
        toml::from_str(include_str!("own.toml")).expect("the table is compiled in and read by every test");
    let list = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    Cues {
        mail: list(&written.mail),
        speakers: list(&written.speakers),
        elements: list(&written.elements),
        salutations: written.salutations,
        closings: written.closings,
        tasks: list(&written.tasks).into_iter().collect(),
        texts: list(&written.texts).into_iter().collect(),
        says: list(&written.says).into_iter().collect(),
    }
});

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is left of a message when everything foreign is blanked, blanks apart.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let own = blanked(text, &foreign(text)).into_owned();
        let kept: Vec<&str> = own.split_whitespace().collect();
        assert_eq!(kept.join(" "), expected, "{text}");
        assert_eq!(own.len(), text.len());
    }

    #[test]
    fn own_words_stay() {
        check("I'm Ann, and I live in Porto.", "I'm Ann, and I live in Porto.");
        check("For the record: my name is Ruth", "For the record: my name is Ruth");
        check("call me \"Al\"", "call me \"Al\"");
        check("the dogs' toys and my cats' food", "the dogs' toys and my cats' food");
    }

    #[test]
    fn what_comes_from_elsewhere_goes() {
        check("Look:\n```\nI live here\n```\nwhy?", "Look: why?");
        check("He said \"I live in Berlin\" and left", "He said ; and left");
        check("> I live in Dublin\nIs this right?", "Is this right?");
        check("Translate this text: I live in Bonn\nand more", "Translate this text:");
        check("Can you rewrite the following?\n\nI am Bob.", "Can you rewrite the following?");
        check("<file name=\"a\">\nI am Bob\n</file>\nIs he?", "Is he?");
        check("From: a@b.c\nSubject: Hi\n\nI'm Karl", "");
        check("Dear Sir,\nMy name is Walter.\nKind regards,\nWalter", "Walter");
        check("See my bug\nprint(\"I live here\")", "See my bug");
        check("Er sagte: Ich wohne in Kiel\nund ging", "Er sagte: und ging");
        check("2024-05-01 12:00:00 I am a log\nwhy?", "why?");
        check("Why?\n   12→I am a line\n   13\tI am another", "Why?");
        check("Look at @notes/a.md\nI live here", "");
        check("notes/a.md:\nI live here", "");
        check("<file name=\"a.md\"/>\nI live here", "I live here");
        check("https://a.org/b.html\nI live here", "https://a.org/b.html I live here");
        check("I'm Ann. Can you proofread this letter?\n\nI live here", "I'm Ann. Can you proofread this letter?");
        check("User: my name is Dave\nAssistant: Hi", "");
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_length(text in prop_oneof!["\\PC{0,120}", "[a-z\"'`<>/:.\\n é我]{0,200}"]) {
            let parts = foreign(&text);
            for pair in parts.windows(2) {
                prop_assert!(pair[0].at.end <= pair[1].at.start);
            }
            prop_assert_eq!(blanked(&text, &parts).len(), text.len());
        }
    }
}
