//! Plain text and Markdown.

use super::{Block, ParseError};

/// Bytes as text: UTF-8, UTF-16 with a mark, or the code page of old Windows files.
pub(super) fn decode(bytes: &[u8]) -> Result<String, ParseError> {
    let text = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest)?,
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        bytes => utf8(bytes)?,
    };
    let control = text.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{85}'));
    match control {
        Some('\0') => Err(ParseError::Unsupported { what: "no text (it holds zero bytes)".to_owned() }),
        _ if is_garbage(&text) => Err(ParseError::Unsupported { what: "no text".to_owned() }),
        _ => Ok(text),
    }
}

/// Whether so much of it cannot be shown that it is no text. A few such characters may be in any log.
fn is_garbage(text: &str) -> bool {
    let hidden = text.chars().filter(|c| c.is_control() && !c.is_whitespace()).count();
    hidden * 20 > text.chars().count()
}

fn utf8(bytes: &[u8]) -> Result<String, ParseError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => windows_1252(bytes).ok_or_else(|| ParseError::Unsupported { what: "no text".to_owned() }),
    }
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> Result<String, ParseError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ParseError::broken("it is UTF-16 with half a character at its end"));
    }
    let units: Vec<u16> = pairs.iter().map(|pair| read(*pair)).collect();
    String::from_utf16(&units).map_err(|_| ParseError::broken("it says that it is UTF-16 and is not"))
}

/// What Windows puts where Latin-1 has control characters; a blank where it has nothing.
const HIGH: [char; 32] = [
    '€', ' ', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', ' ', 'Ž', ' ', ' ', '‘', '’', '“', '”', '•', '–',
    '—', '˜', '™', 'š', '›', 'œ', ' ', 'ž', 'Ÿ',
];

/// One byte of Windows' code page for Western Europe.
pub(super) fn windows_char(byte: u8) -> char {
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}

/// Text of old files; `None` for bytes that no such text has, or where most are no letters.
fn windows_1252(bytes: &[u8]) -> Option<String> {
    let odd = |byte: &&u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1f | 0x7f | 0x81 | 0x8d | 0x8f | 0x90 | 0x9d);
    let high = bytes.iter().filter(|byte| **byte >= 0x80).count();
    if bytes.iter().any(|byte| odd(&byte)) || high * 3 > bytes.len() {
        return None;
    }
    Some(bytes.iter().map(|byte| windows_char(*byte)).collect())
}

/// Paragraphs, with blank lines between them.
pub(super) fn plain(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end).chain([""]) {
        if !line.trim().is_empty() {
            paragraph.push(line);
        } else if !paragraph.is_empty() {
            blocks.push(Block::paragraph(&paragraph.join("\n")));
            paragraph.clear();
        }
    }
    blocks
}

/// Headings, and what stands between them. Lists, tables and code stay as they are: models read Markdown well.
pub(super) fn markdown(text: &str) -> (Option<String>, Vec<Block>) {
    let mut reading = Markdown::default();
    for line in without_front_matter(text).lines() {
        reading.line(line.trim_end());
    }
    reading.end();
    let title = reading.blocks.iter().find(|block| block.level == Some(1)).map(|block| block.text.clone());
    (title, reading.blocks)
}

/// Settings that some programs put before the text, between lines of dashes.
fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return text };
    rest.split_once("\n---").map_or(text, |(_, after)| after)
}

#[derive(Default)]
struct Markdown<'a> {
    blocks: Vec<Block>,
    paragraph: Vec<&'a str>,
    /// What closes the code that is open.
    fence: Option<&'a str>,
}

impl<'a> Markdown<'a> {
    fn line(&mut self, line: &'a str) {
        let marked = line.trim_start();
        if let Some(fence) = self.fence {
            self.paragraph.push(line);
            if marked.starts_with(fence) {
                self.fence = None;
                self.end();
            }
        } else if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| marked.starts_with(fence)) {
            self.fence = Some(fence);
            self.paragraph.push(line);
        } else if let Some((level, title)) = heading(line) {
            self.end();
            self.blocks.push(Block::heading(level, title));
        } else if let (Some(level), [title]) = (underline(line), &*self.paragraph) {
            let heading = Block::heading(level, title.trim());
            self.paragraph.clear();
            self.blocks.push(heading);
        } else if marked.is_empty() {
            self.end();
        } else {
            self.paragraph.push(line);
        }
    }

    fn end(&mut self) {
        if !self.paragraph.is_empty() {
            self.blocks.push(Block::paragraph(&self.paragraph.join("\n")));
            self.paragraph.clear();
        }
    }
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line[hashes..].strip_prefix([' ', '\t'])?.trim().trim_end_matches('#').trim_end();
    ((1..=6).contains(&hashes) && !title.is_empty()).then_some((hashes as u8, title))
}

/// The level of the heading that a line of dashes makes of the line above it.
fn underline(line: &str) -> Option<u8> {
    let all = |mark: char| line.len() >= 3 && line.chars().all(|c| c == mark);
    match () {
        () if all('=') => Some(1),
        () if all('-') => Some(2),
        () => None,
    }
}
