//! Bytes to letters: what a font's codes mean, and how wide they are.

use std::collections::HashMap;

use super::file::File;
use super::object::{Dict, Lexer, Object};
use crate::knowledge::parse::ParseError;
use crate::knowledge::parse::text::windows_char;

/// Most codes of a font whose meaning is told.
const CODES_MAX: usize = 200_000;
/// How wide a letter is that nobody measured, in thousandths of its size.
const WIDTH: f64 = 500.0;

/// A font.
#[derive(Debug, Clone)]
pub(super) struct Font {
    code_bytes: usize,
    meanings: HashMap<u32, String>,
    /// Whether codes without a told meaning are letters of a known alphabet.
    simple: bool,
    mac: bool,
    widths: HashMap<u32, f64>,
    width: f64,
}

impl Default for Font {
    fn default() -> Self {
        let (meanings, widths) = (HashMap::new(), HashMap::new());
        Self { code_bytes: 1, meanings, simple: true, mac: false, widths, width: WIDTH }
    }
}

impl Font {
    pub(super) fn read(file: &mut File<'_>, font: &Object) -> Result<Self, ParseError> {
        let Some(dict) = file.dict(font).cloned() else { return Ok(Self::default()) };
        let composite = dict.get("Subtype").and_then(Object::name) == Some("Type0");
        let mut read = Self { simple: !composite, code_bytes: 1 + usize::from(composite), ..Self::default() };
        match composite {
            true => read.widths_of_composite(file, &dict),
            false => {
                read.widths_of_simple(file, &dict);
                read.encoding(file, &dict);
            }
        }
        if let Some(map) = dict.get("ToUnicode") {
            let map = file.stream(map)?;
            read.told(&map);
        }
        Ok(read)
    }

    /// The letters of a string, each with its width and whether it is a blank of one byte.
    pub(super) fn letters<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (String, f64, bool)> + 'a {
        text.chunks(self.code_bytes).map(|bytes| {
            let code = bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
            let width = self.widths.get(&code).copied().unwrap_or(self.width);
            (self.meaning(code), width, bytes == b" ")
        })
    }

    fn meaning(&self, code: u32) -> String {
        if let Some(meaning) = self.meanings.get(&code) {
            return meaning.clone();
        }
        match u8::try_from(code) {
            Ok(byte @ 0x20..) if self.simple && self.mac => mac_char(byte).to_string(),
            Ok(byte @ 0x20..) if self.simple => windows_char(byte).to_string(),
            _ => String::new(),
        }
    }

    fn widths_of_simple(&mut self, file: &File<'_>, dict: &Dict) {
        let first = dict.get("FirstChar").and_then(|first| file.resolve(first).number()).unwrap_or(0.0) as u32;
        if let Some(Object::Array(widths)) = dict.get("Widths").map(|widths| file.resolve(widths)) {
            let widths = widths.iter().take(256).map(|width| file.resolve(width).number().unwrap_or(WIDTH));
            self.widths = (first..).zip(widths).collect();
        }
    }

    /// `[code [width …]]` and `[first last width]`, in any order.
    fn widths_of_composite(&mut self, file: &File<'_>, dict: &Dict) {
        let below = match dict.get("DescendantFonts").map(|fonts| file.resolve(fonts)) {
            Some(Object::Array(fonts)) => fonts.first().and_then(|font| file.dict(font)),
            _ => None,
        };
        let Some(below) = below else { return };
        self.width = below.get("DW").and_then(Object::number).unwrap_or(1_000.0);
        let Some(Object::Array(runs)) = below.get("W").map(|widths| file.resolve(widths)) else { return };
        let mut runs = runs.iter().map(|item| file.resolve(item));
        while let (Some(first), Some(next)) = (runs.next().and_then(Object::number), runs.next()) {
            match next {
                Object::Array(widths) => {
                    let widths =
                        widths.iter().take(CODES_MAX).map(|width| file.resolve(width).number().unwrap_or(WIDTH));
                    self.widths.extend((first as u32..).zip(widths));
                }
                last => {
                    let last = last.number().unwrap_or(0.0).min(first + 65_535.0);
                    let width = runs.next().and_then(Object::number).unwrap_or(WIDTH);
                    self.widths.extend((first as u32..=last as u32).map(|code| (code, width)));
                }
            }
            if self.widths.len() > CODES_MAX {
                return;
            }
        }
    }

    fn encoding(&mut self, file: &File<'_>, dict: &Dict) {
        let Some(encoding) = dict.get("Encoding").map(|encoding| file.resolve(encoding)) else { return };
        let base = match encoding {
            Object::Dict(encoding) => encoding.get("BaseEncoding").and_then(Object::name),
            named => named.name(),
        };
        self.mac = base == Some("MacRomanEncoding");
        let Object::Dict(encoding) = encoding else { return };
        let Some(Object::Array(differences)) = encoding.get("Differences").map(|list| file.resolve(list)) else {
            return;
        };
        let mut code = 0;
        for item in differences.iter().take(1_024) {
            match item {
                Object::Number(number) => code = *number as u32,
                Object::Name(name) => {
                    if let Some(meaning) = glyph(name) {
                        self.meanings.insert(code, meaning);
                    }
                    code += 1;
                }
                _ => {}
            }
        }
    }

    /// What a font tells itself of its codes.
    fn told(&mut self, map: &[u8]) {
        let (mut lexer, mut items) = (Lexer::new(map, 0), Vec::new());
        while let Some(object) = lexer.object() {
            let Object::Word(word) = &object else {
                items.push(object);
                continue;
            };
            match word.as_slice() {
                b"endcodespacerange" => {
                    if let Some(Object::Text(code)) = items.first() {
                        self.code_bytes = code.len().clamp(1, 4);
                    }
                }
                b"endbfchar" => self.told_one_by_one(&items),
                b"endbfrange" => self.told_by_range(&items),
                _ => {}
            }
            items.clear();
            if self.meanings.len() > CODES_MAX {
                return;
            }
        }
    }

    fn told_one_by_one(&mut self, items: &[Object]) {
        for pair in items.chunks_exact(2) {
            if let [Object::Text(code), Object::Text(meaning)] = pair {
                self.meanings.insert(number(code), utf16(meaning));
            }
        }
    }

    fn told_by_range(&mut self, items: &[Object]) {
        for range in items.chunks_exact(3) {
            let [Object::Text(first), Object::Text(last), to] = range else { continue };
            let (first, last) = (number(first), number(last));
            let codes = first..=last.min(first.saturating_add(65_535));
            match to {
                Object::Array(meanings) => {
                    let told = |(code, meaning): (u32, &Object)| match meaning {
                        Object::Text(meaning) => Some((code, utf16(meaning))),
                        _ => None,
                    };
                    self.meanings.extend(codes.zip(meanings).filter_map(told));
                }
                Object::Text(begin) => {
                    let begin = utf16(begin);
                    let Some(last) = begin.chars().next_back() else { continue };
                    let head = &begin[..begin.len() - last.len_utf8()];
                    let next = |code: u32| char::from_u32(last as u32 + (code - first));
                    self.meanings.extend(codes.filter_map(|code| Some((code, format!("{head}{}", next(code)?)))));
                }
                _ => {}
            }
            if self.meanings.len() > CODES_MAX {
                return;
            }
        }
    }
}

fn number(code: &[u8]) -> u32 {
    code.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> =
        bytes.chunks(2).map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u16::from(*byte))).collect();
    String::from_utf16_lossy(&units).chars().filter(|c| !c.is_control()).collect()
}

/// A string of the file itself, as a title is.
pub(super) fn document_text(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, rest @ ..] => utf16(rest),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        bytes => bytes.iter().map(|byte| windows_char(*byte)).collect(),
    }
}

/// The upper half of the Macintosh's alphabet.
const MAC: &str = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»… ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›fifl‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ";

fn mac_char(byte: u8) -> char {
    match byte {
        0x80.. => MAC.chars().nth(usize::from(byte - 0x80)).unwrap_or(' '),
        byte => char::from(byte),
    }
}

/// Names of glyphs that are no letters themselves.
const GLYPHS: [(&str, &str); 76] = [
    ("space", " "),
    ("nbspace", " "),
    ("exclam", "!"),
    ("quotedbl", "\""),
    ("numbersign", "#"),
    ("dollar", "$"),
    ("percent", "%"),
    ("ampersand", "&"),
    ("quotesingle", "'"),
    ("quoteright", "’"),
    ("quoteleft", "‘"),
    ("parenleft", "("),
    ("parenright", ")"),
    ("asterisk", "*"),
    ("plus", "+"),
    ("comma", ","),
    ("hyphen", "-"),
    ("period", "."),
    ("slash", "/"),
    ("zero", "0"),
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("colon", ":"),
    ("semicolon", ";"),
    ("less", "<"),
    ("equal", "="),
    ("greater", ">"),
    ("question", "?"),
    ("at", "@"),
    ("bracketleft", "["),
    ("backslash", "\\"),
    ("bracketright", "]"),
    ("underscore", "_"),
    ("braceleft", "{"),
    ("bar", "|"),
    ("braceright", "}"),
    ("fi", "fi"),
    ("fl", "fl"),
    ("ff", "ff"),
    ("ffi", "ffi"),
    ("ffl", "ffl"),
    ("endash", "–"),
    ("emdash", "—"),
    ("bullet", "•"),
    ("ellipsis", "…"),
    ("quotedblleft", "“"),
    ("quotedblright", "”"),
    ("Euro", "€"),
    ("sterling", "£"),
    ("degree", "°"),
    ("eacute", "é"),
    ("egrave", "è"),
    ("ecircumflex", "ê"),
    ("edieresis", "ë"),
    ("aacute", "á"),
    ("agrave", "à"),
    ("adieresis", "ä"),
    ("aring", "å"),
    ("oacute", "ó"),
    ("odieresis", "ö"),
    ("uacute", "ú"),
    ("udieresis", "ü"),
    ("idieresis", "ï"),
    ("iacute", "í"),
    ("ccedilla", "ç"),
    ("ntilde", "ñ"),
    ("germandbls", "ß"),
    ("Odieresis", "Ö"),
    ("Udieresis", "Ü"),
];

fn glyph(name: &str) -> Option<String> {
    let name = name.split('.').next().unwrap_or(name);
    if let Some((_, meaning)) = GLYPHS.iter().find(|(known, _)| *known == name) {
        return Some((*meaning).to_owned());
    }
    let hex = name.strip_prefix("uni").or_else(|| name.strip_prefix('u')).filter(|hex| hex.len() >= 4);
    let by_number = hex.and_then(|hex| char::from_u32(u32::from_str_radix(hex.get(..hex.len().min(6))?, 16).ok()?));
    let letter = name.chars().next().filter(|_| name.chars().count() == 1);
    by_number.or(letter).map(String::from)
}
