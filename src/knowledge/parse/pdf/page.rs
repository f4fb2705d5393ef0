//! Letters to lines: where a page puts its letters tells which belong together.

use std::collections::HashMap;

use super::Page;
use super::file::File;
use super::font::Font;
use super::object::{Dict, Lexer, Object};
use crate::knowledge::parse::{ParseError, TEXT_BYTES_MAX};

/// How deep drawings may lie in one another.
const FORMS_MAX: usize = 4;
/// Numbers and strings that an operator may have before it.
const OPERANDS_MAX: usize = 512;
/// Places that may be remembered to come back to.
const SAVED_MAX: usize = 512;
/// A gap of so much of the letters' size is a blank, and a step down of so much is another line or another paragraph.
const BLANK: f64 = 0.18;
const LINE: f64 = 0.35;
const PARAGRAPH: f64 = 1.7;

/// What a page says, in lines, with blank ones between paragraphs.
pub(super) fn read(file: &mut File<'_>, page: &Page) -> Result<String, ParseError> {
    let mut reading = Reading::default();
    let contents = match file.resolve(&page.contents) {
        Object::Array(parts) => parts.clone(),
        _ => vec![page.contents.clone()],
    };
    let mut bytes = Vec::new();
    for part in contents {
        bytes.extend(file.stream(&part)?);
        bytes.push(b'\n');
    }
    reading.run(file, &bytes, &page.resources, 0)?;
    Ok(reading.text)
}

/// `[a b c d e f]`, as PDF has it.
type Matrix = [f64; 6];
const SAME: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// First one, then the other.
fn then(a: Matrix, b: Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}

/// What `q` saves.
#[derive(Clone)]
struct State {
    page: Matrix,
    font: Option<String>,
    size: f64,
    letter_gap: f64,
    word_gap: f64,
    stretch: f64,
    leading: f64,
}

impl Default for State {
    fn default() -> Self {
        Self { page: SAME, font: None, size: 1.0, letter_gap: 0.0, word_gap: 0.0, stretch: 1.0, leading: 0.0 }
    }
}

struct Reading {
    state: State,
    saved: Vec<State>,
    line: Matrix,
    at: Matrix,
    /// Where the last letter ended, and how large it was.
    last: Option<(f64, f64, f64)>,
    text: String,
}

impl Default for Reading {
    fn default() -> Self {
        let (state, saved, text) = (State::default(), Vec::new(), String::new());
        Self { state, saved, line: SAME, at: SAME, last: None, text }
    }
}

impl Reading {
    fn run(&mut self, file: &mut File<'_>, bytes: &[u8], resources: &Dict, depth: usize) -> Result<(), ParseError> {
        let mut fonts: HashMap<String, Font> = HashMap::new();
        let (mut lexer, mut operands) = (Lexer::new(bytes, 0), Vec::new());
        while let Some(object) = lexer.object() {
            let Object::Word(word) = object else {
                if operands.len() < OPERANDS_MAX {
                    operands.push(object);
                }
                continue;
            };
            match word.as_slice() {
                b"Do" if depth < FORMS_MAX => self.form(file, &operands, resources, depth)?,
                b"BI" => skip_picture(&mut lexer),
                b"Tf" => {
                    self.font(&operands);
                    load(file, &mut fonts, self.state.font.as_deref(), resources)?;
                }
                word => self.operator(word, &operands, &fonts),
            }
            operands.clear();
            if self.text.len() > TEXT_BYTES_MAX {
                return Err(ParseError::too_large(format!("it has more than {TEXT_BYTES_MAX} bytes of text")));
            }
        }
        Ok(())
    }

    fn operator(&mut self, word: &[u8], operands: &[Object], fonts: &HashMap<String, Font>) {
        let number = |at: usize| operands.get(at).and_then(Object::number).unwrap_or(0.0);
        match word {
            b"q" if self.saved.len() < SAVED_MAX => self.saved.push(self.state.clone()),
            b"Q" => self.state = self.saved.pop().unwrap_or_default(),
            b"cm" => self.state.page = then(matrix(operands), self.state.page),
            b"BT" => (self.line, self.at) = (SAME, SAME),
            b"Tc" => self.state.letter_gap = number(0),
            b"Tw" => self.state.word_gap = number(0),
            b"Tz" => self.state.stretch = number(0) / 100.0,
            b"TL" => self.state.leading = number(0),
            b"Tm" => (self.line, self.at) = (matrix(operands), matrix(operands)),
            b"Td" => self.step(number(0), number(1)),
            b"TD" => {
                self.state.leading = -number(1);
                self.step(number(0), number(1));
            }
            b"T*" => self.step(0.0, -self.state.leading),
            b"Tj" => self.show(operands.first(), fonts),
            b"TJ" => self.show_all(operands.first(), fonts),
            b"'" => {
                self.step(0.0, -self.state.leading);
                self.show(operands.first(), fonts);
            }
            b"\"" => {
                (self.state.word_gap, self.state.letter_gap) = (number(0), number(1));
                self.step(0.0, -self.state.leading);
                self.show(operands.get(2), fonts);
            }
            _ => {}
        }
    }

    fn font(&mut self, operands: &[Object]) {
        if let [Object::Name(name), Object::Number(size)] = operands {
            (self.state.font, self.state.size) = (Some(name.clone()), *size);
        }
    }

    /// A drawing that is used by name.
    fn form(&mut self, file: &mut File<'_>, operands: &[Object], own: &Dict, depth: usize) -> Result<(), ParseError> {
        let name = operands.first().and_then(Object::name).unwrap_or("");
        let drawings = own.get("XObject").and_then(|drawings| file.dict(drawings));
        let Some(form) = drawings.and_then(|drawings| drawings.get(name)).cloned() else { return Ok(()) };
        let Some(dict) = file.dict(&form) else { return Ok(()) };
        if dict.get("Subtype").and_then(Object::name) != Some("Form") {
            return Ok(());
        }
        let resources = dict.get("Resources").and_then(|resources| file.dict(resources)).unwrap_or(own).clone();
        let bytes = file.stream(&form)?;
        let before = self.state.clone();
        self.run(file, &bytes, &resources, depth + 1)?;
        self.state = before;
        Ok(())
    }

    fn step(&mut self, x: f64, y: f64) {
        self.line = then([1.0, 0.0, 0.0, 1.0, x, y], self.line);
        self.at = self.line;
    }

    fn show_all(&mut self, list: Option<&Object>, fonts: &HashMap<String, Font>) {
        let Some(Object::Array(items)) = list else { return };
        for item in items {
            match item {
                Object::Number(back) => self.go(-back / 1_000.0 * self.state.size * self.state.stretch),
                item => self.show(Some(item), fonts),
            }
        }
    }

    fn show(&mut self, text: Option<&Object>, fonts: &HashMap<String, Font>) {
        let Some(Object::Text(bytes)) = text else { return };
        let Some(font) = self.state.font.as_ref().and_then(|name| fonts.get(name)) else { return };
        for (letter, width, blank) in font.letters(bytes) {
            let State { size, letter_gap, word_gap, stretch, .. } = self.state;
            self.put(&letter);
            let gap = letter_gap + if blank { word_gap } else { 0.0 };
            self.go((width / 1_000.0 * size + gap) * stretch);
            let place = then(self.at, self.state.page);
            self.last = Some((place[4], place[5], self.height(place)));
        }
    }

    fn go(&mut self, x: f64) {
        self.at = then([1.0, 0.0, 0.0, 1.0, x, 0.0], self.at);
    }

    fn height(&self, place: Matrix) -> f64 {
        (self.state.size * place[2].hypot(place[3])).abs().clamp(0.01, 10_000.0)
    }

    /// Puts a letter where we are, after what its distance to the last one says.
    fn put(&mut self, letter: &str) {
        let place = then(self.at, self.state.page);
        if let Some((x, y, height)) = self.last {
            let size = height.max(self.height(place));
            let (right, down) = ((place[4] - x) / size, (y - place[5]) / size);
            match () {
                () if down.abs() > PARAGRAPH || down < -LINE => self.text.push_str("\n\n"),
                () if down.abs() > LINE || right < -2.0 => self.text.push('\n'),
                () if right > BLANK && !self.text.ends_with(char::is_whitespace) => self.text.push(' '),
                () => {}
            }
        }
        self.text.push_str(letter);
    }
}

fn load(
    file: &mut File<'_>,
    fonts: &mut HashMap<String, Font>,
    name: Option<&str>,
    own: &Dict,
) -> Result<(), ParseError> {
    let Some(name) = name.filter(|name| !fonts.contains_key(*name)) else { return Ok(()) };
    let known = own.get("Font").and_then(|fonts| file.dict(fonts)).and_then(|fonts| fonts.get(name)).cloned();
    let font = Font::read(file, &known.unwrap_or(Object::Null))?;
    fonts.insert(name.to_owned(), font);
    Ok(())
}

fn matrix(operands: &[Object]) -> Matrix {
    let mut matrix = SAME;
    for (at, operand) in operands.iter().take(6).enumerate() {
        matrix[at] = operand.number().unwrap_or(matrix[at]);
    }
    matrix
}

/// A picture in the middle of the text ends with `EI` between blanks.
fn skip_picture(lexer: &mut Lexer<'_>) {
    let rest = &lexer.bytes[lexer.at..];
    let ends =
        |window: &[u8]| window[0].is_ascii_whitespace() && &window[1..3] == b"EI" && window[3].is_ascii_whitespace();
    lexer.at += rest.windows(4).position(ends).map_or(rest.len(), |at| at + 3);
}
