//! Workbooks: the rows of each sheet, with the names of their columns.

use std::collections::HashMap;

use jiff::ToSpan;
use jiff::civil::date;

use super::part;
use crate::knowledge::parse::xml::{Event, Reader};
use crate::knowledge::parse::zip::Archive;
use crate::knowledge::parse::{Block, ParseError, csv};

/// Most rows and columns that are read of a workbook.
const ROWS_MAX: usize = 100_000;
const COLUMNS_MAX: usize = 256;

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Vec<Block>, ParseError> {
    let strings = shared_strings(&part(archive, "xl/sharedStrings.xml")?)?;
    let dates = date_styles(&part(archive, "xl/styles.xml")?)?;
    let targets = targets(&part(archive, "xl/_rels/workbook.xml.rels")?)?;
    let sheets = sheets(&part(archive, "xl/workbook.xml")?)?;
    let (mut blocks, mut rows_left) = (Vec::new(), ROWS_MAX);
    for (name, relation) in sheets {
        let Some(target) = targets.get(&relation) else { continue };
        let path = target.strip_prefix('/').map_or_else(|| format!("xl/{target}"), str::to_owned);
        let rows = rows(&part(archive, &path)?, &Known { strings: &strings, dates: &dates }, rows_left)?;
        rows_left -= rows.len();
        // The name of an empty sheet says nothing.
        if !rows.is_empty() {
            blocks.push(Block::heading(1, &name).at(&format!("sheet {name}")));
            blocks.extend(csv::blocks(&rows, &format!("sheet {name}")));
        }
    }
    Ok(blocks)
}

/// What cells refer to.
struct Known<'a> {
    strings: &'a [String],
    /// Which styles show a number as a date.
    dates: &'a [bool],
}

fn shared_strings(xml: &str) -> Result<Vec<String>, ParseError> {
    let (mut strings, mut current, mut in_text) = (Vec::new(), String::new(), false);
    let mut reader = Reader::new(xml);
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(element) => in_text = element.name == "t",
            Event::End("si") => strings.push(std::mem::take(&mut current)),
            Event::End(_) => in_text = false,
            Event::Text(text) if in_text => current.push_str(&text),
            Event::Text(_) => {}
        }
    }
    Ok(strings)
}

/// Names of sheets, and what their parts are called in the relations.
fn sheets(xml: &str) -> Result<Vec<(String, String)>, ParseError> {
    let (mut sheets, mut reader) = (Vec::new(), Reader::new(xml));
    while let Some(event) = reader.next()? {
        if let Event::Start(element) = event
            && element.name == "sheet"
            && let (Some(name), Some(id)) = (element.attribute("name"), element.attribute("id"))
        {
            sheets.push((crate::knowledge::one_line(&name), id));
        }
    }
    Ok(sheets)
}

fn targets(xml: &str) -> Result<HashMap<String, String>, ParseError> {
    let (mut targets, mut reader) = (HashMap::new(), Reader::new(xml));
    while let Some(event) = reader.next()? {
        if let Event::Start(element) = event
            && let (Some(id), Some(target)) = (element.attribute("Id"), element.attribute("Target"))
        {
            targets.insert(id, target);
        }
    }
    Ok(targets)
}

/// Which cell styles show dates: by the known numbers of formats, and by the letters of others.
fn date_styles(xml: &str) -> Result<Vec<bool>, ParseError> {
    let (mut own, mut styles, mut within) = (HashMap::new(), Vec::new(), false);
    let mut reader = Reader::new(xml);
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(element) if element.name == "numFmt" => {
                let (id, code) = (element.attribute("numFmtId"), element.attribute("formatCode"));
                own.insert(id.unwrap_or_default(), code.is_some_and(|code| shows_a_date(&code)));
            }
            Event::Start(element) if element.name == "cellXfs" => within = true,
            Event::Start(element) if element.name == "xf" && within => {
                let id = element.attribute("numFmtId").unwrap_or_default();
                let known = id.parse().is_ok_and(|id: u32| (14..=17).contains(&id) || id == 22);
                styles.push(known || own.get(&id).copied().unwrap_or(false));
            }
            Event::End("cellXfs") => within = false,
            _ => {}
        }
    }
    Ok(styles)
}

fn shows_a_date(code: &str) -> bool {
    let mut quoted = false;
    let bare = code.chars().filter(|c| {
        quoted ^= *c == '"';
        !quoted
    });
    let bare: String = bare.collect::<String>().to_lowercase();
    bare.contains("yy") || (bare.contains('d') && bare.contains('m'))
}

fn rows(xml: &str, known: &Known<'_>, most: usize) -> Result<Vec<Vec<String>>, ParseError> {
    let (mut rows, mut row) = (Vec::new(), Vec::new());
    let mut cell = Cell::default();
    let mut reader = Reader::new(xml);
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(element) => match element.name {
                "c" => {
                    let at = element.attribute("r").and_then(|name| column(&name)).unwrap_or(row.len());
                    let style = element.attribute("s").and_then(|style| style.parse().ok());
                    cell = Cell { at, kind: element.attribute("t").unwrap_or_default(), style, ..Cell::default() };
                }
                "v" | "t" => cell.in_value = true,
                _ => {}
            },
            Event::Text(text) if cell.in_value => cell.text.push_str(&text),
            Event::End("v" | "t") => cell.in_value = false,
            Event::End("c") => put(&mut row, cell.at, std::mem::take(&mut cell).value(known)),
            Event::End("row") => rows.push(std::mem::take(&mut row)),
            _ => {}
        }
        if rows.len() > most {
            return Err(ParseError::too_large(format!("it has more than {ROWS_MAX} rows")));
        }
    }
    rows.retain(|row: &Vec<String>| row.iter().any(|value| !value.is_empty()));
    Ok(rows)
}

#[derive(Default)]
struct Cell {
    at: usize,
    kind: String,
    style: Option<usize>,
    text: String,
    in_value: bool,
}

impl Cell {
    fn value(self, known: &Known<'_>) -> String {
        match self.kind.as_str() {
            "s" => {
                let string = self.text.trim().parse::<usize>().ok().and_then(|at| known.strings.get(at));
                string.cloned().unwrap_or_default()
            }
            "b" => if self.text == "1" { "yes" } else { "no" }.to_owned(),
            "e" => String::new(),
            "" | "n" if self.style.is_some_and(|style| known.dates.get(style) == Some(&true)) => {
                day(&self.text).unwrap_or(self.text)
            }
            _ => self.text,
        }
    }
}

/// Days are counted from the end of 1899.
fn day(text: &str) -> Option<String> {
    let days = text.parse::<f64>().ok().filter(|days| (1.0..2_958_466.0).contains(days))?;
    date(1899, 12, 30).checked_add((days as i64).days()).ok().map(|day| day.to_string())
}

/// The column of a cell's name: `B2` is 1.
fn column(name: &str) -> Option<usize> {
    let letters = name.bytes().take_while(u8::is_ascii_uppercase);
    let number = letters.take(4).fold(0_usize, |number, letter| number * 26 + usize::from(letter - b'A') + 1);
    number.checked_sub(1)
}

fn put(row: &mut Vec<String>, at: usize, value: String) {
    if at < COLUMNS_MAX {
        if row.len() <= at {
            row.resize(at + 1, String::new());
        }
        row[at] = value.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}
