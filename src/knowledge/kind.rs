//! What a file is. Its content decides; a name only tells apart what is text anyway.

use serde::{Deserialize, Serialize};

/// A kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Written into a form.
    Note,
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
    /// A web page.
    Html,
    /// Rows of values.
    Csv,
    /// JSON, or lines of it.
    Json,
    /// Pages.
    Pdf,
    /// A text of Word and its kin.
    Docx,
    /// A workbook.
    Xlsx,
    /// Slides.
    Pptx,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Note,
        Self::Text,
        Self::Markdown,
        Self::Html,
        Self::Csv,
        Self::Json,
        Self::Pdf,
        Self::Docx,
        Self::Xlsx,
        Self::Pptx,
    ];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Xlsx => "xlsx",
            Self::Pptx => "pptx",
        }
    }

    /// Reads the word written by [`Kind::as_str`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What the first bytes of a file say, where they say something that is no text.
pub(super) enum Magic {
    Pdf,
    Zip,
    /// Old Office files, and new ones under a password.
    Ole,
    /// A picture, sound, program or archive, by what it is called.
    Other(&'static str),
}

/// Beginnings of files that hold no text for us.
const OTHERS: [(&[u8], &str); 15] = [
    (b"\x89PNG\r\n", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"II*\0", "a picture"),
    (b"MM\0*", "a picture"),
    (b"RIFF", "a picture or sound"),
    (b"ID3", "sound"),
    (b"OggS", "sound"),
    (b"fLaC", "sound"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\x1f\x8b", "an archive"),
    (b"7z\xbc\xaf", "an archive"),
    (b"Rar!", "an archive"),
    (b"{\\rtf", "rich text (RTF)"),
];

/// How far behind the beginning a PDF may say that it is one.
const PDF_WITHIN: usize = 1_024;

pub(super) fn magic(bytes: &[u8]) -> Option<Magic> {
    let head = &bytes[..bytes.len().min(PDF_WITHIN)];
    if head.windows(5).any(|window| window == b"%PDF-") {
        return Some(Magic::Pdf);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Some(Magic::Zip);
    }
    if head.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]) {
        return Some(Magic::Ole);
    }
    // "MZ" may begin a text as well; a program has other bytes soon.
    let binary = || head.iter().take(64).any(|byte| *byte == 0);
    let other = OTHERS.iter().find(|(begin, what)| head.starts_with(begin) && (*what != "a program" || binary()));
    other.map(|(_, what)| Magic::Other(what))
}

/// What a text is. `extension` is that of its name, in lower case.
pub(super) fn of_text(text: &str, extension: &str) -> Kind {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let is = |extensions: &[&str]| extensions.contains(&extension);
    match () {
        () if start.starts_with(['{', '[']) && (is(&["json", "jsonl", "ndjson"]) || is_json(start)) => Kind::Json,
        () if looks_like_html(start, is(&["html", "htm", "xhtml"])) => Kind::Html,
        () if is(&["csv", "tsv"]) || (extension.is_empty() && super::parse::looks_like_csv(text)) => Kind::Csv,
        () if is(&["md", "markdown"]) || (!is(&["txt"]) && looks_like_markdown(text)) => Kind::Markdown,
        () => Kind::Text,
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn looks_like_html(start: &str, named: bool) -> bool {
    let head: String = start.chars().take(512).collect::<String>().to_ascii_lowercase();
    let begins = ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| head.starts_with(tag));
    let tagged =
        || head.starts_with('<') && ["<html", "<body", "<p>", "<div", "<h1"].iter().any(|tag| head.contains(tag));
    begins || tagged() || (named && head.contains('<'))
}

/// Lines that are looked at for marks of Markdown.
const LINES_LOOKED_AT: usize = 200;

fn looks_like_markdown(text: &str) -> bool {
    let mark = |line: &str| {
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        (1..=6).contains(&hashes) && line[hashes..].starts_with(' ') || line.starts_with("```")
    };
    text.lines().take(LINES_LOOKED_AT).any(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_by_what_it_holds() {
        for (text, extension, kind) in [
            ("Hello there.", "", Kind::Text),
            ("# Title\n\nHello.", "", Kind::Markdown),
            ("# a comment of a shell", "txt", Kind::Text),
            ("{\"a\": 1}", "", Kind::Json),
            ("{not json", "", Kind::Text),
            ("[1, 2]", "txt", Kind::Json),
            ("<!DOCTYPE html><p>Hi", "", Kind::Html),
            ("<div>Hi</div>", "txt", Kind::Html),
            ("a,b\n1,2\n3,4\n", "", Kind::Csv),
            ("a;b", "csv", Kind::Csv),
        ] {
            assert_eq!(of_text(text, extension), kind, "{text}");
        }
    }

    #[test]
    fn words_come_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.as_str()), Some(kind));
        }
    }
}
