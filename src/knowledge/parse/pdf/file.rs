//! The objects of a file, and their streams.

use std::collections::HashMap;

use flate2::read::ZlibDecoder;

use super::object::{Dict, Lexer, Object};
use crate::knowledge::parse::zip::{inflate, too_much};
use crate::knowledge::parse::{ParseError, UNPACKED_BYTES_MAX};

/// Most objects of a file.
const OBJECTS_MAX: usize = 500_000;
/// How often one may refer to another before it is given up.
const HOPS_MAX: usize = 8;

/// An object, and where its stream lies.
struct Stored {
    object: Object,
    stream: Option<std::ops::Range<usize>>,
}

pub(super) struct File<'a> {
    bytes: &'a [u8],
    objects: HashMap<u32, Stored>,
    trailers: Vec<Dict>,
    /// Bytes that may still be unpacked.
    left: usize,
}

const NULL: Object = Object::Null;

impl<'a> File<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut file = Self { bytes, objects: HashMap::new(), trailers: Vec::new(), left: UNPACKED_BYTES_MAX };
        let mut at = 0;
        while at < bytes.len() {
            at = match &bytes[at..] {
                rest if rest.starts_with(b"obj") => file.object(at),
                rest if rest.starts_with(b"trailer") => file.trailer(at + 7),
                _ => at + 1,
            };
            if file.objects.len() > OBJECTS_MAX {
                return Err(ParseError::too_large(format!("it has more than {OBJECTS_MAX} objects")));
            }
        }
        if !file.is_encrypted() {
            file.unpack_objects()?;
        }
        Ok(file)
    }

    /// Takes in the object whose `obj` is here; answers where to go on.
    fn object(&mut self, at: usize) -> usize {
        let Some(number) = number_before(self.bytes, at) else { return at + 3 };
        let mut lexer = Lexer::new(self.bytes, at + 3);
        let Some(object) = lexer.object() else { return at + 3 };
        let stream = match &object {
            Object::Dict(dict) => stream_after(&mut lexer, dict),
            _ => None,
        };
        let next = stream.as_ref().map_or(lexer.at, |stream| stream.end).max(at + 3);
        if let Object::Dict(dict) = &object
            && dict.get("Type").and_then(Object::name) == Some("XRef")
        {
            self.trailers.push(dict.clone());
        }
        self.objects.insert(number, Stored { object, stream });
        next
    }

    fn trailer(&mut self, at: usize) -> usize {
        let mut lexer = Lexer::new(self.bytes, at);
        if let Some(Object::Dict(dict)) = lexer.object() {
            self.trailers.push(dict);
        }
        at
    }

    /// Objects that lie packed in streams.
    fn unpack_objects(&mut self) -> Result<(), ParseError> {
        let is_pack = |stored: &Stored| {
            let Object::Dict(dict) = &stored.object else { return false };
            dict.get("Type").and_then(Object::name) == Some("ObjStm")
        };
        let mut packs: Vec<(usize, u32)> = self
            .objects
            .iter()
            .filter(|(_, stored)| is_pack(stored))
            .map(|(number, stored)| (stored.stream.as_ref().map_or(0, |stream| stream.start), *number))
            .collect();
        // What stands later in the file is newer.
        packs.sort_unstable();
        for (_, pack) in packs {
            let pack = Object::Ref(pack);
            let bytes = self.stream(&pack)?;
            let Some(dict) = self.dict(&pack) else { continue };
            let field = |name: &str| dict.get(name).and_then(Object::number).map_or(0, |number| number as usize);
            let (count, first) = (field("N").min(OBJECTS_MAX), field("First"));
            self.unpack(&bytes, count, first);
            if self.objects.len() > OBJECTS_MAX {
                return Err(ParseError::too_large(format!("it has more than {OBJECTS_MAX} objects")));
            }
        }
        Ok(())
    }

    fn unpack(&mut self, bytes: &[u8], count: usize, first: usize) {
        let mut index = Lexer::new(bytes, 0);
        for _ in 0..count {
            let (Some(Object::Number(number)), Some(Object::Number(offset))) = (index.object(), index.object()) else {
                return;
            };
            let at = first.saturating_add(offset as usize);
            if let Some(object) = (at < bytes.len()).then(|| Lexer::new(bytes, at).object()).flatten() {
                self.objects.insert(number as u32, Stored { object, stream: None });
            }
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.trailers.iter().any(|trailer| trailer.contains_key("Encrypt"))
    }

    /// The catalog: the one that the last trailer names, else any.
    pub(super) fn catalog(&self) -> Option<&Dict> {
        let named = self.trailers.iter().rev().find_map(|trailer| self.dict(trailer.get("Root")?));
        let is_catalog = |dict: &&Dict| dict.get("Type").and_then(Object::name) == Some("Catalog");
        named.or_else(|| self.objects.values().filter_map(|stored| dict_of(&stored.object)).find(is_catalog))
    }

    /// What the file says about itself.
    pub(super) fn info(&self) -> Option<&Object> {
        self.trailers.iter().rev().find_map(|trailer| trailer.get("Info"))
    }

    /// An object itself, where it is named by its number.
    pub(super) fn resolve<'o>(&'o self, object: &'o Object) -> &'o Object {
        let mut object = object;
        for _ in 0..HOPS_MAX {
            let Object::Ref(number) = object else { return object };
            object = self.objects.get(number).map_or(&NULL, |stored| &stored.object);
        }
        &NULL
    }

    pub(super) fn dict<'o>(&'o self, object: &'o Object) -> Option<&'o Dict> {
        dict_of(self.resolve(object))
    }

    /// A stream, unpacked; empty where there is none, or where it is packed in a way that text is not.
    pub(super) fn stream(&mut self, object: &Object) -> Result<Vec<u8>, ParseError> {
        let Object::Ref(number) = object else { return Ok(Vec::new()) };
        let Some(Stored { object, stream: Some(range) }) = self.objects.get(number) else { return Ok(Vec::new()) };
        let Some(dict) = dict_of(object) else { return Ok(Vec::new()) };
        let filters = match self.resolve(dict.get("Filter").unwrap_or(&NULL)) {
            Object::Name(name) => vec![name.clone()],
            Object::Array(names) => {
                names.iter().filter_map(|name| self.resolve(name).name()).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let mut bytes = self.bytes[range.clone()].to_vec();
        for filter in filters {
            bytes = match filter.as_str() {
                // What was unpacked before the damage is worth having.
                "FlateDecode" | "Fl" => inflate_what_there_is(&bytes, self.left),
                "ASCIIHexDecode" | "AHx" => unhex(&bytes),
                "ASCII85Decode" | "A85" => un85(&bytes),
                _ => Vec::new(),
            };
        }
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(too_much)?;
        Ok(bytes)
    }
}

fn dict_of(object: &Object) -> Option<&Dict> {
    if let Object::Dict(dict) = object { Some(dict) } else { None }
}

/// The number of the object whose `obj` is here: `12 0 obj`.
fn number_before(bytes: &[u8], at: usize) -> Option<u32> {
    let before = &bytes[at.saturating_sub(24)..at];
    let text = before.iter().rposition(|byte| !byte.is_ascii_digit() && !byte.is_ascii_whitespace());
    let digits = std::str::from_utf8(&before[text.map_or(0, |at| at + 1)..]).ok()?;
    let mut numbers = digits.split_ascii_whitespace().rev();
    let (_generation, number) = (numbers.next()?, numbers.next()?);
    number.parse().ok()
}

/// Where the stream behind a dictionary lies. Its length is believed if it ends where it says.
fn stream_after(lexer: &mut Lexer<'_>, dict: &Dict) -> Option<std::ops::Range<usize>> {
    lexer.skip_space();
    let rest = lexer.bytes[lexer.at..].strip_prefix(b"stream")?;
    let skipped = if rest.starts_with(b"\r\n") { 2 } else { usize::from(rest.starts_with(b"\n")) };
    let start = lexer.at + 6 + skipped;
    let length = dict.get("Length").and_then(Object::number).map(|length| length.max(0.0) as usize);
    let claimed = length.map(|length| start.saturating_add(length)).filter(|end| {
        let Some(behind) = lexer.bytes.get(*end..) else { return false };
        behind.trim_ascii_start().starts_with(b"endstream")
    });
    let found = || {
        let at = lexer.bytes[start..].windows(9).position(|window| window == b"endstream");
        at.map_or(lexer.bytes.len(), |at| start + at)
    };
    Some(start..claimed.unwrap_or_else(found))
}

fn inflate_what_there_is(bytes: &[u8], most: usize) -> Vec<u8> {
    use std::io::Read;
    match inflate(ZlibDecoder::new(bytes), most) {
        Ok(unpacked) => unpacked,
        Err(_) => {
            let mut unpacked = Vec::new();
            let mut decoder = ZlibDecoder::new(bytes).take(most as u64 + 1);
            let mut piece = [0; 4_096];
            while let Ok(read @ 1..) = decoder.read(&mut piece) {
                unpacked.extend_from_slice(&piece[..read]);
            }
            unpacked
        }
    }
}

fn unhex(bytes: &[u8]) -> Vec<u8> {
    let until = bytes.iter().position(|byte| *byte == b'>').unwrap_or(bytes.len());
    let digits: Vec<u32> = bytes[..until].iter().filter_map(|byte| char::from(*byte).to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair.get(1).copied().unwrap_or(0)) as u8).collect()
}

fn un85(bytes: &[u8]) -> Vec<u8> {
    let (mut plain, mut group) = (Vec::new(), Vec::new());
    for byte in bytes.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        match byte {
            b'~' => break,
            b'z' if group.is_empty() => plain.extend([0; 4]),
            b'!'..=b'u' => group.push(u32::from(byte - b'!')),
            _ => {}
        }
        if group.len() == 5 {
            plain.extend(four(&group));
            group.clear();
        }
    }
    if group.len() > 1 {
        let kept = group.len() - 1;
        group.resize(5, 84);
        plain.extend(&four(&group)[..kept]);
    }
    plain
}

fn four(group: &[u32]) -> [u8; 4] {
    group.iter().fold(0_u32, |number, digit| number.wrapping_mul(85).wrapping_add(*digit)).to_be_bytes()
}
