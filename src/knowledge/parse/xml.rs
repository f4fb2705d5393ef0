//! XML as Office documents use it: elements, attributes, text. What a document type declares is refused, and with it
//! everything that grows out of nothing.

use super::ParseError;
use super::html::{tag_end, unescape};

/// Deepest nesting.
const DEPTH_MAX: usize = 200;

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event<'a> {
    /// An element begins.
    Start(Element<'a>),
    /// The element of this name ends.
    End(&'a str),
    Text(String),
}

/// The beginning of an element. Names are without their prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    attributes: &'a str,
}

impl<'a> Element<'a> {
    /// An attribute by its name without prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        while let Some((before, after)) = rest.split_once('=') {
            let key = local(before.trim());
            let quote = after.trim_start().chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, more) = after.trim_start()[1..].split_once(quote)?;
            if key == name {
                return Some(unescape(value));
            }
            rest = more;
        }
        None
    }
}

/// Reads a part from its beginning to its end.
pub(super) struct Reader<'a> {
    rest: &'a str,
    depth: usize,
    /// An element that was empty and has yet to end.
    ends: Option<&'a str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, depth: 0, ends: None }
    }

    /// The next event; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Event<'a>>, ParseError> {
        if let Some(name) = self.ends.take() {
            return Ok(Some(Event::End(name)));
        }
        loop {
            if self.rest.is_empty() {
                return if self.depth == 0 { Ok(None) } else { Err(breaks_off()) };
            }
            let Some(markup) = self.rest.strip_prefix('<') else {
                let at = self.rest.find('<').unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at(at);
                self.rest = rest;
                return Ok(Some(Event::Text(unescape(text))));
            };
            if let Some(event) = self.markup(markup)? {
                return Ok(Some(event));
            }
        }
    }

    /// Takes in what follows a `<`; `None` for what says nothing.
    fn markup(&mut self, markup: &'a str) -> Result<Option<Event<'a>>, ParseError> {
        let mut past = |begin: &str, end: &str| -> Result<Option<&'a str>, ParseError> {
            let Some(body) = markup.strip_prefix(begin) else { return Ok(None) };
            let (inner, rest) = body.split_once(end).ok_or_else(breaks_off)?;
            self.rest = rest;
            Ok(Some(inner))
        };
        if past("!--", "-->")?.is_some() || past("?", "?>")?.is_some() {
            return Ok(None);
        }
        if let Some(text) = past("![CDATA[", "]]>")? {
            return Ok(Some(Event::Text(text.to_owned())));
        }
        if markup.starts_with('!') {
            return Err(ParseError::broken("it declares a document type"));
        }
        let end = tag_end(markup).ok_or_else(breaks_off)?;
        self.rest = &markup[end + 1..];
        self.tag(&markup[..end]).map(Some)
    }

    fn tag(&mut self, inner: &'a str) -> Result<Event<'a>, ParseError> {
        if let Some(name) = inner.strip_prefix('/') {
            self.depth = self.depth.checked_sub(1).ok_or_else(|| ParseError::broken("its elements do not match"))?;
            return Ok(Event::End(local(name.trim())));
        }
        let (body, empty) = inner.strip_suffix('/').map_or((inner, false), |body| (body, true));
        let (name, attributes) = body.split_once(|c: char| c.is_whitespace()).unwrap_or((body, ""));
        let name = local(name);
        if empty {
            self.ends = Some(name);
        } else {
            self.depth += 1;
        }
        if self.depth > DEPTH_MAX {
            return Err(ParseError::broken(format!("its elements are nested more than {DEPTH_MAX} deep")));
        }
        Ok(Event::Start(Element { name, attributes }))
    }
}

fn breaks_off() -> ParseError {
    ParseError::broken("its XML breaks off")
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}
