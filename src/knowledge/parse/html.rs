//! Web pages: what a reader would see, with headings as headings.

use super::{Block, Flow};

/// Elements whose content nobody sees.
const HIDDEN: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "select"];
/// Elements that end a line.
const BLOCKS: [&str; 30] = [
    "p",
    "div",
    "section",
    "article",
    "header",
    "footer",
    "main",
    "aside",
    "nav",
    "ul",
    "ol",
    "dl",
    "dt",
    "dd",
    "table",
    "thead",
    "tbody",
    "blockquote",
    "pre",
    "form",
    "figure",
    "figcaption",
    "address",
    "hr",
    "body",
    "html",
    "fieldset",
    "details",
    "summary",
    "caption",
];
/// Elements that begin a line within a block.
const LINES: [&str; 3] = ["li", "br", "tr"];

/// The page's title, and what it says.
pub(super) fn parse(page: &str) -> (Option<String>, Vec<Block>) {
    let (mut reading, lower) = (Reading::default(), page.to_ascii_lowercase());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        reading.text(&rest[..at]);
        rest = reading.tag(&rest[at..]);
        if let Some(hidden) = reading.hidden.take() {
            // What looks like an element in there is none.
            let from = page.len() - rest.len();
            let end = lower[from..].find(&format!("</{hidden}")).unwrap_or(rest.len());
            rest = &rest[end..];
        }
    }
    reading.text(rest);
    reading.end_block();
    (reading.title.map(|title| super::super::one_line(&title)).filter(|title| !title.is_empty()), reading.blocks)
}

#[derive(Default)]
struct Reading {
    blocks: Vec<Block>,
    flow: Flow,
    title: Option<String>,
    /// The element that has just begun, whose content is passed over.
    hidden: Option<&'static str>,
    in_title: bool,
    level: Option<u8>,
}

impl Reading {
    fn text(&mut self, text: &str) {
        let text = unescape(text);
        match self.in_title {
            true => self.title.get_or_insert_default().push_str(&text),
            false => self.flow.push(&text),
        }
    }

    /// Takes in what begins with `<`; answers what follows it.
    fn tag<'a>(&mut self, markup: &'a str) -> &'a str {
        if let Some(comment) = markup.strip_prefix("<!--") {
            return comment.split_once("-->").map_or("", |(_, rest)| rest);
        }
        let body = &markup[1..];
        let closing = body.starts_with('/');
        let name_at = usize::from(closing);
        let is_name = body[name_at..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?');
        if !is_name {
            self.text("<");
            return body;
        }
        let Some(end) = tag_end(body) else { return "" };
        let inner = &body[name_at..end];
        let name = inner.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or("").to_ascii_lowercase();
        self.element(&name, closing, inner.ends_with('/'));
        &body[end + 1..]
    }

    fn element(&mut self, name: &str, closing: bool, empty: bool) {
        let level = name.strip_prefix('h').and_then(|level| level.parse().ok()).filter(|level| (1..=6).contains(level));
        match () {
            () if name == "title" => self.in_title = !closing && self.title.is_none(),
            () if !closing && !empty && HIDDEN.contains(&name) => {
                self.hidden = HIDDEN.into_iter().find(|hidden| *hidden == name);
            }
            () if level.is_some() => {
                self.end_block();
                self.level = level.filter(|_| !closing);
            }
            () if BLOCKS.contains(&name) => self.end_block(),
            () if LINES.contains(&name) => self.line(name, closing),
            () if matches!(name, "td" | "th") && !closing => self.cell(),
            () => {}
        }
    }

    fn line(&mut self, name: &str, closing: bool) {
        self.flow.line_break();
        if name == "li" && !closing {
            self.flow.push("- ");
        }
    }

    fn cell(&mut self) {
        if !self.flow.text.is_empty() && !self.flow.text.ends_with('\n') {
            self.flow.push(" | ");
        }
        self.flow.gap |= self.flow.text.ends_with('|');
    }

    fn end_block(&mut self) {
        let level = self.level.take();
        if let Some(text) = self.flow.take() {
            self.blocks.push(Block { level, text, ..Block::default() });
        }
    }
}

/// Where a tag ends; a `>` in quotes does not count. An endless tag swallows the rest.
pub(super) fn tag_end(body: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in body.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') if body.as_bytes()[..at].ends_with(b"=") => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // A quote that nobody closed: the first end will do.
    body.find('>')
}

/// Named characters that texts use; others stay as they are written.
const NAMED: [(&str, &str); 34] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("shy", ""),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bull", "•"),
    ("middot", "·"),
    ("euro", "€"),
    ("pound", "£"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("deg", "°"),
    ("times", "×"),
    ("eacute", "é"),
    ("egrave", "è"),
    ("euml", "ë"),
    ("iuml", "ï"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("szlig", "ß"),
    ("agrave", "à"),
    ("ccedil", "ç"),
    ("ntilde", "ñ"),
];
/// Longest name of a character.
const NAME_BYTES_MAX: usize = 12;

/// Text with its characters instead of their names.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.bytes().take(NAME_BYTES_MAX).position(|byte| byte == b';');
        match name.and_then(|end| Some((end, character(rest.get(..end)?)?))) {
            Some((end, c)) => {
                plain.push_str(&c);
                rest = &rest[end + 1..];
            }
            None => plain.push('&'),
        }
    }
    plain.push_str(rest);
    plain
}

fn character(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?).map(String::from);
    }
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, c)| (*c).to_owned())
}
