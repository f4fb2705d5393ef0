//! PDF: the text of its pages, as far as its fonts tell what their glyphs mean.
//!
//! A file is gone through once, from its beginning to its end, and every object that is found is taken; tables of where objects
//! lie are not believed. So damaged files are read as well as whole ones, and no table can lead in circles.
//!
//! Reading order: `object` (what a file is written in), `file` (objects and streams), `font` (bytes to letters), `page` (letters
//! to lines).

mod file;
mod font;
mod object;
mod page;

use std::collections::HashSet;

use self::file::File;
use self::object::{Dict, Object};
use super::{Block, ParseError, Parsed, text};
use crate::knowledge::{Kind, one_line};

/// Most pages that are read, and how deep their tree may be.
const PAGES_MAX: usize = 5_000;
const DEPTH_MAX: usize = 32;

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let mut file = File::read(bytes)?;
    if file.is_encrypted() {
        return Err(ParseError::Encrypted);
    }
    let catalog = file.catalog().ok_or_else(|| ParseError::broken("it has no pages"))?;
    let mut walk = Walk::default();
    if let Some(root) = catalog.get("Pages").cloned() {
        walk.node(&file, &root, None, 0);
    }
    let pages = walk.pages;
    if pages.len() > PAGES_MAX {
        return Err(ParseError::too_large(format!("it has more than {PAGES_MAX} pages")));
    }
    let mut blocks = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let lines = page::read(&mut file, page)?;
        let place = format!("page {}", number + 1);
        blocks.extend(paragraphs(&lines).into_iter().map(|block| block.at(&place)));
    }
    Ok(Parsed { kind: Kind::Pdf, title: title(&file), blocks })
}

/// A page: what it shows, and the fonts it uses, which it may have from above.
struct Page {
    contents: Object,
    resources: Dict,
}

#[derive(Default)]
struct Walk {
    pages: Vec<Page>,
    seen: HashSet<u32>,
}

impl Walk {
    fn node(&mut self, file: &File<'_>, node: &Object, inherited: Option<&Dict>, depth: usize) {
        if let Object::Ref(number) = node
            && !self.seen.insert(*number)
        {
            return;
        }
        let Some(dict) = file.dict(node) else { return };
        if depth > DEPTH_MAX || self.pages.len() > PAGES_MAX {
            return;
        }
        let own = dict.get("Resources").and_then(|resources| file.dict(resources));
        let resources = own.or(inherited);
        match file.resolve(dict.get("Kids").unwrap_or(&Object::Null)) {
            Object::Array(kids) => kids.iter().for_each(|kid| self.node(file, kid, resources, depth + 1)),
            _ => {
                let contents = dict.get("Contents").cloned().unwrap_or(Object::Null);
                self.pages.push(Page { contents, resources: resources.cloned().unwrap_or_default() });
            }
        }
    }
}

/// Lines with blank ones between paragraphs, as paragraphs; words that were cut at the end of a line are whole again.
fn paragraphs(lines: &str) -> Vec<Block> {
    let mut blocks = text::plain(lines);
    for block in &mut blocks {
        let mut joined = String::with_capacity(block.text.len());
        for line in block.text.lines().map(str::trim) {
            let cut = joined.ends_with('-') && line.starts_with(char::is_lowercase);
            let after_letter = joined.chars().rev().nth(1).is_some_and(char::is_alphabetic);
            match () {
                () if cut && after_letter => drop(joined.pop()),
                () if !joined.is_empty() => joined.push(' '),
                () => {}
            }
            joined.push_str(line);
        }
        block.text = joined;
    }
    blocks
}

fn title(file: &File<'_>) -> Option<String> {
    let info = file.dict(file.info()?)?;
    let Object::Text(title) = file.resolve(info.get("Title")?) else { return None };
    let title = one_line(&font::document_text(title));
    (!title.is_empty()).then_some(title)
}
