//! What a PDF is written in: numbers, names, strings, lists, dictionaries, and words that are operators.

use std::collections::HashMap;

/// A dictionary.
pub(super) type Dict = HashMap<String, Object>;

/// Deepest nesting of lists and dictionaries.
const DEPTH_MAX: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Object {
    Null,
    Number(f64),
    Name(String),
    Text(Vec<u8>),
    Array(Vec<Object>),
    Dict(Dict),
    /// Another object by its number.
    Ref(u32),
    /// Anything else: an operator, `true`, `endobj`.
    Word(Vec<u8>),
}

impl Object {
    pub(super) fn number(&self) -> Option<f64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

/// Reads objects one after the other.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | 0 | 0x0c)
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'%' => {
                    self.at += self.bytes[self.at..].iter().take_while(|byte| !matches!(byte, b'\n' | b'\r')).count()
                }
                byte if is_space(byte) => self.at += 1,
                _ => return,
            }
        }
    }

    /// The next object; `None` at the end, or where nothing can be read.
    pub(super) fn object(&mut self) -> Option<Object> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Option<Object> {
        self.skip_space();
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            b'/' => Some(Object::Name(self.name())),
            b'(' => Some(Object::Text(self.text())),
            b'<' if self.bytes.get(self.at + 1) == Some(&b'<') => self.dict(depth),
            b'<' => Some(Object::Text(self.hex())),
            b'[' => self.array(depth),
            b'0'..=b'9' | b'+' | b'-' | b'.' => Some(self.number_or_ref()),
            b')' | b'>' | b']' | b'{' | b'}' => {
                self.at += 1;
                Some(Object::Word(vec![self.bytes[self.at - 1]]))
            }
            _ => Some(Object::Word(self.word().to_vec())),
        }
    }

    fn word(&mut self) -> &'a [u8] {
        let from = self.at;
        while self.peek().is_some_and(|byte| !is_space(byte) && !is_delimiter(byte)) {
            self.at += 1;
        }
        &self.bytes[from..self.at]
    }

    fn name(&mut self) -> String {
        self.at += 1;
        let raw = self.word();
        let mut name = Vec::with_capacity(raw.len());
        let mut at = 0;
        while at < raw.len() {
            let escaped = raw.get(at + 1..at + 3).filter(|_| raw[at] == b'#');
            match escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()) {
                Some(byte) => (name.push(byte), at += 3).0,
                None => (name.push(raw[at]), at += 1).0,
            }
        }
        String::from_utf8_lossy(&name).into_owned()
    }

    /// A number; or, if another one and an `R` follow, an object by its number.
    fn number_or_ref(&mut self) -> Object {
        let word = self.word();
        let text = std::str::from_utf8(word).unwrap_or_default();
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        if let Some(object) = text.parse::<u32>().ok().filter(|_| self.is_ref()) {
            return Object::Ref(object);
        }
        number.map_or_else(|| Object::Word(word.to_vec()), Object::Number)
    }

    fn is_ref(&mut self) -> bool {
        let mut ahead = self.clone();
        ahead.skip_space();
        let generation = ahead.word();
        if generation.is_empty() || generation.len() > 5 || !generation.iter().all(u8::is_ascii_digit) {
            return false;
        }
        ahead.skip_space();
        let is_ref = ahead.word() == b"R";
        if is_ref {
            self.at = ahead.at;
        }
        is_ref
    }

    fn array(&mut self, depth: usize) -> Option<Object> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.nested(depth + 1)? {
                Object::Word(word) if word == b"]" => return Some(Object::Array(items)),
                Object::Word(word) if word == b"endobj" => return None,
                item => items.push(item),
            }
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Object> {
        self.at += 2;
        let mut dict = Dict::new();
        loop {
            match self.nested(depth + 1)? {
                Object::Name(name) => {
                    let value = self.nested(depth + 1)?;
                    dict.insert(name, value);
                }
                Object::Word(word) if word == b">" => {
                    self.at += usize::from(self.peek() == Some(b'>'));
                    return Some(Object::Dict(dict));
                }
                Object::Word(word) if word == b"endobj" => return None,
                _ => {}
            }
        }
    }

    fn hex(&mut self) -> Vec<u8> {
        self.at += 1;
        let mut digits = Vec::new();
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'>' => break,
                byte => digits.extend(char::from(byte).to_digit(16)),
            }
        }
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair.get(1).copied().unwrap_or(0)) as u8).collect()
    }

    /// A string in brackets, which may be nested.
    fn text(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut open) = (Vec::new(), 1);
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => text.extend(self.escaped()),
                b'(' => open += 1,
                b')' => open -= 1,
                _ => {}
            }
            match byte {
                b')' if open == 0 => break,
                b'\\' => {}
                byte => text.push(byte),
            }
        }
        text
    }

    fn escaped(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b'n' => Some(b'\n'),
            b'r' => Some(b'\r'),
            b't' => Some(b'\t'),
            b'b' | b'f' => Some(b' '),
            b'\r' => {
                self.at += usize::from(self.peek() == Some(b'\n'));
                None
            }
            b'\n' => None,
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else { break };
                    code = code * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                Some(code as u8)
            }
            other => Some(other),
        }
    }
}
