//! Knowledge: the documents of a tenant, cut into passages that can be found and cited.
//!
//! Reading order: the nouns here, `kind` (what a file is, by its content), `parse` (a file to blocks of text), `chunk` (blocks
//! to passages), `terms` (a passage as words), `rank` (which passages are about a question).
//!
//! **Invariant:** this room is handed bytes and values and hands values back. Strangers' bytes are read by `parse` alone, which
//! a server runs in a child process with little memory and little time.

mod chunk;
mod kind;
mod parse;
mod rank;
mod terms;

pub use chunk::{PASSAGE_TOKENS_MAX, chunk};
pub use kind::Kind;
pub use parse::{Block, Hint, ParseError, Parsed, parse};
pub use rank::{Measure, Measures, Ranked, Seen, rank, rank_among};
pub use terms::{AskedTerm, Terms, asked_terms, terms_of};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::id::DocumentId;

/// Most passages of one document.
pub const PASSAGES_MAX: usize = 5_000;
/// Longest name and title, in characters.
pub const NAME_CHARS_MAX: usize = 200;

/// A file or a note, as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its id, the same for all its versions.
    pub id: DocumentId,
    /// What it is called; another document of that name is a new version of this one.
    pub name: String,
    /// What it calls itself.
    pub title: String,
    /// What it is.
    pub kind: Kind,
    /// Counted from 1.
    pub version: u32,
    /// How long the original is.
    pub bytes: u64,
    /// How many passages it was cut into.
    pub passages: u64,
    /// How many of those have a vector.
    pub embedded: u64,
    /// When its first version came.
    pub created_at: Timestamp,
    /// When this one came.
    pub updated_at: Timestamp,
}

/// A part of a document that can be shown by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Counted from 1 within the document.
    pub number: u32,
    /// The headings it stands under, from the outermost; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub heading: String,
    /// Where it is: a page, a slide, a sheet; empty for nowhere in particular.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// What it says.
    pub text: String,
    /// How long that is.
    pub tokens: u32,
}

impl Passage {
    /// What is searched and embedded: a passage means what it says under its headings, in its document.
    pub fn searched(&self, title: &str) -> String {
        let above = [title, &self.heading].into_iter().filter(|part| !part.is_empty());
        above.chain([self.text.as_str()]).collect::<Vec<_>>().join("\n")
    }
}

/// A document that was read: what is kept of it, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// What it is.
    pub kind: Kind,
    /// What it calls itself, if it says.
    #[serde(default)]
    pub title: Option<String>,
    /// Its passages, in order.
    pub passages: Vec<Passage>,
}

/// Reads a file and cuts it into passages.
pub fn read(bytes: &[u8], hint: &Hint) -> Result<Cut, ParseError> {
    let Parsed { kind, title, blocks } = parse(bytes, hint)?;
    let passages = chunk(&blocks);
    match passages.len() {
        0 => Err(ParseError::Empty { kind }),
        more if more > PASSAGES_MAX => Err(ParseError::TooLarge { what: format!("more than {PASSAGES_MAX} passages") }),
        _ => Ok(Cut { kind, title, passages }),
    }
}

/// The name of what a tenant learned from a message. The same words again are the same note.
pub fn said_in_chat(said: &str) -> String {
    format!("said in a chat ({:016x})", xxh3_64(said.as_bytes()))
}

/// A note: text that somebody wrote into a form. Nothing is read into it.
pub fn note(text: &str) -> Vec<Passage> {
    let paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    chunk(&paragraphs.map(Block::paragraph).collect::<Vec<_>>())
}

/// One passage of one version of a document, as citations name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassageId {
    /// The document.
    pub document: DocumentId,
    /// Its version.
    pub version: u32,
    /// The passage in it.
    pub number: u32,
}

impl std::fmt::Display for PassageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.document, self.version, self.number)
    }
}

/// What an answer was drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Citation {
    /// The document's name.
    pub source: String,
    /// The passage.
    pub passage: PassageId,
    /// How near it is to the question, from 0 to 1; 0 where nothing can be compared.
    pub similarity: f32,
    /// The document's title.
    pub title: String,
}

/// A document's name as it is kept: the last part of a path, in one line, of bounded length.
pub fn clean_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = one_line(last);
    (!name.is_empty() && name != "." && name != "..").then_some(name)
}

/// A title in one line of bounded length; empty for one that says nothing.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(NAME_CHARS_MAX).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_of_a_path_and_never_a_way_out() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(clean_name(name).as_deref(), expected, "{name}");
        check("prices.csv", Some("prices.csv"));
        check("../../etc/passwd", Some("passwd"));
        check("C:\\docs\\a b\u{7}.txt", Some("a b .txt"));
        check("..", None);
        check("a/..", None);
        check(" \n", None);
        assert_eq!(clean_name(&"x".repeat(500)).map(|name| name.len()), Some(NAME_CHARS_MAX));
    }

    #[test]
    fn a_note_is_cut_at_its_paragraphs() {
        let passages = note("We close at five.\n\nOn Fridays at four.");
        assert_eq!(passages.len(), 1);
        assert!(passages[0].text.contains("five") && passages[0].text.contains("four"));
    }
}
