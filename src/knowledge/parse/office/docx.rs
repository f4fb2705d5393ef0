//! Texts of Word and its kin: paragraphs, headings by their style, rows of tables. Notes at the foot follow at the end.

use super::part;
use crate::knowledge::parse::xml::{Element, Event, Reader};
use crate::knowledge::parse::zip::Archive;
use crate::knowledge::parse::{Block, Flow, ParseError};

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Vec<Block>, ParseError> {
    let mut reading = Reading::default();
    for name in ["word/document.xml", "word/footnotes.xml", "word/endnotes.xml"] {
        reading.read(&part(archive, name)?)?;
    }
    Ok(reading.blocks)
}

#[derive(Default)]
struct Reading {
    blocks: Vec<Block>,
    flow: Flow,
    /// Whether what comes is text of the document.
    in_text: bool,
    level: Option<u8>,
    /// How deep we are in rows of tables: their cells stay together.
    rows: usize,
}

impl Reading {
    fn read(&mut self, xml: &str) -> Result<(), ParseError> {
        let mut reader = Reader::new(xml);
        while let Some(event) = reader.next()? {
            match event {
                Event::Start(element) => self.start(&element),
                Event::End(name) => self.end(name),
                Event::Text(text) if self.in_text => self.flow.push(&text),
                Event::Text(_) => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, element: &Element<'_>) {
        match element.name {
            "t" => self.in_text = true,
            "tab" => self.flow.push(" "),
            "br" | "cr" => self.flow.line_break(),
            "tr" => self.rows += 1,
            "pStyle" => self.level = element.attribute("val").as_deref().and_then(level_of_style).or(self.level),
            "outlineLvl" => {
                let level = element.attribute("val").and_then(|level| level.parse::<u8>().ok());
                self.level = level.filter(|level| *level < 9).map(|level| level + 1).or(self.level);
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "tc" if self.rows > 0 => self.flow.push(" | "),
            "tr" => {
                self.rows = self.rows.saturating_sub(1);
                self.level = None;
                self.end_block();
            }
            "p" if self.rows > 0 => self.flow.gap = true,
            "p" => self.end_block(),
            _ => {}
        }
    }

    fn end_block(&mut self) {
        let level = self.level.take();
        let text = self.flow.take().map(|text| text.trim_end_matches(['|', ' ']).to_owned());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.blocks.push(Block { level, text, ..Block::default() });
        }
    }
}

/// Headings are styled `Heading1`, `Kop2`, `berschrift3`, `Titre1`, whatever the language; a title stands above them.
fn level_of_style(style: &str) -> Option<u8> {
    let style = style.to_ascii_lowercase();
    let names = ["heading", "kop", "berschrift", "titre", "ttulo"];
    match names.iter().find_map(|name| style.strip_prefix(name)) {
        Some(level) => level.trim().parse().ok().filter(|level| (1..=9).contains(level)),
        None => matches!(style.as_str(), "title" | "titel").then_some(1),
    }
}
