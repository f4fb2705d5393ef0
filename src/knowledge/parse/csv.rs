//! Rows of values. Each becomes a line that can stand alone: `name: Lamp; price: 12.50`.

use super::Block;

/// What may stand between values.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];
/// Lines that tell what stands between values.
const LINES_LOOKED_AT: usize = 20;
/// Values of a row that are read.
const COLUMNS_MAX: usize = 256;

/// Whether text without a name is rows: at least two lines, and all of the same number of values.
pub(in super::super) fn looks_like_csv(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(LINES_LOOKED_AT).collect();
    let counts = |delimiter: char| lines.iter().map(move |line| rows(line, delimiter).concat().len());
    let even = |delimiter: char| {
        let first = counts(delimiter).next().unwrap_or(0);
        first > 1 && counts(delimiter).all(|count| count == first)
    };
    lines.len() > 1 && DELIMITERS.into_iter().any(even)
}

/// The rows, with the names of their columns where the first row has them.
pub(super) fn parse(text: &str) -> Vec<Block> {
    blocks(&rows(text, delimiter(text)), "")
}

/// Rows as blocks. Values have the names of their columns before them, if there are any.
pub(super) fn blocks(rows: &[Vec<String>], place: &str) -> Vec<Block> {
    let header = rows.first().filter(|first| rows.len() > 1 && is_header(first));
    let rows = &rows[usize::from(header.is_some())..];
    let line = |row: &Vec<String>| {
        let named = |(at, value): (usize, &String)| match header.and_then(|names| names.get(at)) {
            Some(name) if !name.is_empty() => format!("{name}: {value}"),
            _ => value.clone(),
        };
        let values = row.iter().enumerate().filter(|(_, value)| !value.is_empty()).map(named);
        values.collect::<Vec<_>>().join("; ")
    };
    rows.iter().map(line).filter(|line| !line.is_empty()).map(|line| Block::paragraph(&line).at(place)).collect()
}

/// Names are words, and there are some.
fn is_header(row: &[String]) -> bool {
    let is_number = |value: &String| value.replace(',', ".").parse::<f64>().is_ok();
    row.iter().any(|value| !value.is_empty()) && !row.iter().any(is_number)
}

/// The one that most lines have equally often.
fn delimiter(text: &str) -> char {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(LINES_LOOKED_AT).collect();
    let score = |delimiter: &char| {
        let first = lines.first().map_or(0, |line| line.matches(*delimiter).count());
        let same = lines.iter().filter(|line| line.matches(*delimiter).count() == first).count();
        if first == 0 { 0 } else { same * 16 + first.min(15) }
    };
    DELIMITERS.into_iter().rev().max_by_key(score).unwrap_or(',')
}

/// Values between delimiters; a quoted one may hold anything, and two quotes are one.
fn rows(text: &str, delimiter: char) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut value) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => value.extend(chars.next()),
            '"' if quoted => quoted = false,
            '"' if value.trim().is_empty() => (quoted, value) = (true, String::new()),
            c if quoted => value.push(if c == '\n' || c == '\r' { ' ' } else { c }),
            c if c == delimiter => end_value(&mut row, &mut value),
            '\n' => {
                end_value(&mut row, &mut value);
                rows.push(std::mem::take(&mut row));
            }
            c => value.push(c),
        }
    }
    end_value(&mut row, &mut value);
    rows.push(row);
    rows.retain(|row| row.iter().any(|value| !value.is_empty()));
    rows
}

fn end_value(row: &mut Vec<String>, value: &mut String) {
    let value = std::mem::take(value);
    if row.len() < COLUMNS_MAX {
        row.push(value.trim().to_owned());
    }
}
