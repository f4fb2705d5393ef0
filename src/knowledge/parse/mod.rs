//! A file to blocks of text: paragraphs, headings, rows, each with its place.
//!
//! Every reader is small, goes through its input once, and stops at a bound: of bytes that are unpacked, of text that comes
//! out, of nesting. What it cannot read is an error; it never guesses what a broken file may have said.
//!
//! Reading order: the nouns here, `text`, `html`, `csv`, `json`, then `zip` and `xml` under `office`, and `pdf`.

mod csv;
mod html;
mod json;
mod office;
mod pdf;
mod text;
mod xml;
mod zip;

pub(super) use csv::looks_like_csv;

use serde::{Deserialize, Serialize};

use super::kind::{self, Kind, Magic};

/// Most text that comes out of a file.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 20;
/// Most bytes that are unpacked from a file, all its parts together.
pub(super) const UNPACKED_BYTES_MAX: usize = 96 << 20;

/// What whoever brings a file says about it.
#[derive(Debug, Clone, Default)]
pub struct Hint {
    /// What it is called.
    pub name: String,
}

impl Hint {
    fn extension(&self) -> String {
        let (stem, extension) = self.name.rsplit_once('.').unwrap_or((&self.name, ""));
        if stem.is_empty() { String::new() } else { extension.to_ascii_lowercase() }
    }
}

/// A file as text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// What it is.
    pub kind: Kind,
    /// What it calls itself.
    pub title: Option<String>,
    /// What it says, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a document that is not cut if that can be helped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Block {
    /// The level of a heading, counted from 1; `None` for what stands below headings.
    pub level: Option<u8>,
    /// Where it is: a page, a slide, a sheet; empty for nowhere in particular.
    pub place: String,
    /// What it says.
    pub text: String,
}

impl Block {
    /// Text below the heading before it.
    pub fn paragraph(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A heading.
    pub fn heading(level: u8, text: &str) -> Self {
        Self { level: Some(level), text: text.to_owned(), ..Self::default() }
    }

    fn at(mut self, place: &str) -> Self {
        place.clone_into(&mut self.place);
        self
    }
}

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum ParseError {
    /// Not a kind of file that holds text for us.
    #[error("it is {what}; text, Markdown, HTML, CSV, JSON, PDF, DOCX, XLSX and PPTX can be read")]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// It takes a password.
    #[error("it is encrypted; save it without a password")]
    Encrypted,
    /// It is not what it says it is, or not all of it.
    #[error("it is broken: {what}")]
    Broken {
        /// In what way.
        what: String,
    },
    /// It holds too much.
    #[error("it is too large: {what}")]
    TooLarge {
        /// What there is too much of.
        what: String,
    },
    /// There is no text in it.
    #[error("there is no text in it{}", if *kind == Kind::Pdf { "; a scan has to be read by OCR first" } else { "" })]
    Empty {
        /// What it is.
        kind: Kind,
    },
    /// Reading it took more time or memory than a file is worth.
    #[error("reading it takes too much {of}")]
    TooCostly {
        /// Time or memory.
        of: String,
    },
}

impl ParseError {
    fn broken(what: impl Into<String>) -> Self {
        Self::Broken { what: what.into() }
    }

    fn too_large(what: impl Into<String>) -> Self {
        Self::TooLarge { what: what.into() }
    }
}

/// Reads a file. This is where strangers' bytes are looked at: see the invariant of the room.
pub fn parse(bytes: &[u8], hint: &Hint) -> Result<Parsed, ParseError> {
    let parsed = match kind::magic(bytes) {
        Some(Magic::Pdf) => pdf::parse(bytes)?,
        Some(Magic::Zip) => office::parse(bytes)?,
        Some(Magic::Ole) => return Err(old_or_encrypted(bytes)),
        Some(Magic::Other(what)) => return Err(ParseError::Unsupported { what: what.to_owned() }),
        None => parse_text(&text::decode(bytes)?, hint)?,
    };
    let told: usize = parsed.blocks.iter().map(|block| block.text.len()).sum();
    if told > TEXT_BYTES_MAX {
        return Err(ParseError::too_large(format!("it has {told} bytes of text, at most {TEXT_BYTES_MAX} are read")));
    }
    Ok(parsed)
}

fn parse_text(text: &str, hint: &Hint) -> Result<Parsed, ParseError> {
    let kind = kind::of_text(text, &hint.extension());
    let (title, blocks) = match kind {
        Kind::Html => html::parse(text),
        Kind::Csv => (None, csv::parse(text)),
        Kind::Json => (None, json::parse(text)?),
        Kind::Markdown => text::markdown(text),
        _ => (None, text::plain(text)),
    };
    Ok(Parsed { kind, title, blocks })
}

/// Both lie in the same container; only the encrypted one says so.
fn old_or_encrypted(bytes: &[u8]) -> ParseError {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    match bytes.windows(name.len()).any(|window| window == name) {
        true => ParseError::Encrypted,
        false => ParseError::Unsupported { what: "an old Office file (save it as DOCX, XLSX or PPTX)".to_owned() },
    }
}

/// Text that grows up to a bound, with single blanks where there were any.
#[derive(Debug, Default)]
struct Flow {
    text: String,
    gap: bool,
}

impl Flow {
    fn push(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                c if c.is_whitespace() || c.is_control() => self.gap = true,
                c => {
                    if std::mem::take(&mut self.gap) && !self.text.is_empty() && !self.text.ends_with('\n') {
                        self.text.push(' ');
                    }
                    self.text.push(c);
                }
            }
        }
    }

    fn line_break(&mut self) {
        self.gap = false;
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// What has come, and an empty flow from now on.
    fn take(&mut self) -> Option<String> {
        self.gap = false;
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests;
