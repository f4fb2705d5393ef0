//! Files in a ZIP archive, as far as Office documents need them: a directory at the end, parts that are stored or deflated.
//!
//! Nothing is ever written to a disk, so a name can lead nowhere; an archive that tries is refused all the same. What is
//! unpacked counts against one budget, whatever the archive says about sizes.

use std::io::Read;

use flate2::read::DeflateDecoder;

use super::{ParseError, UNPACKED_BYTES_MAX};

/// Most parts of an archive.
const PARTS_MAX: usize = 20_000;
/// How far before the end the directory's place may be told: a comment can follow it.
const COMMENT_BYTES_MAX: usize = 65_535;

/// A part, as the directory tells of it.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    deflated: bool,
    packed: usize,
    at: usize,
}

/// An archive that can be read.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    parts: Vec<Part>,
    /// Bytes that may still be unpacked.
    left: usize,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let end = directory_end(bytes).ok_or_else(|| ParseError::broken("the archive has no directory"))?;
        let (count, at) = (number(bytes, end + 10, 2)?, number(bytes, end + 16, 4)?);
        if count == 0xffff || at == 0xffff_ffff || count > PARTS_MAX {
            return Err(ParseError::too_large(format!("the archive has more than {PARTS_MAX} parts")));
        }
        let mut parts = Vec::new();
        let (mut at, mut claimed) = (at, 0_usize);
        for _ in 0..count {
            let (part, size, next) = directory_entry(bytes, at)?;
            claimed = claimed.saturating_add(size);
            parts.push(part);
            at = next;
        }
        if claimed > 2 * UNPACKED_BYTES_MAX {
            return Err(ParseError::too_large(format!("the archive would unpack to {claimed} bytes")));
        }
        Ok(Self { bytes, parts, left: UNPACKED_BYTES_MAX })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.name == name)
    }

    /// The names that begin and end like this, with the number between; in the order of the numbers.
    pub(super) fn numbered(&self, begin: &str, end: &str) -> Vec<(u32, String)> {
        let number = |name: &String| name.strip_prefix(begin)?.strip_suffix(end)?.parse::<u32>().ok();
        let mut found: Vec<(u32, String)> =
            self.parts.iter().filter_map(|part| Some((number(&part.name)?, part.name.clone()))).collect();
        found.sort_unstable();
        found
    }

    /// A part, unpacked; `None` when there is none of that name.
    pub(super) fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, ParseError> {
        let Some(part) = self.parts.iter().find(|part| part.name == name) else { return Ok(None) };
        let packed = self.packed(part)?;
        let unpacked = match part.deflated {
            true => inflate(DeflateDecoder::new(packed), self.left)
                .map_err(|_| ParseError::broken(format!("`{name}` cannot be unpacked")))?,
            false => packed.to_vec(),
        };
        self.left = self.left.checked_sub(unpacked.len()).ok_or_else(too_much)?;
        Ok(Some(unpacked))
    }

    /// A part as it lies in the archive.
    fn packed(&self, part: &Part) -> Result<&'a [u8], ParseError> {
        if self.bytes.get(part.at..part.at + 4) != Some(b"PK\x03\x04") {
            return Err(ParseError::broken("the archive's directory points nowhere"));
        }
        let (name, extra) = (number(self.bytes, part.at + 26, 2)?, number(self.bytes, part.at + 28, 2)?);
        let begin = part.at + 30 + name + extra;
        let packed = self.bytes.get(begin..begin.saturating_add(part.packed));
        packed.ok_or_else(|| ParseError::broken("the archive breaks off"))
    }
}

pub(super) fn too_much() -> ParseError {
    ParseError::too_large(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes"))
}

/// Unpacks up to one byte more than a bound, so that whoever asks can tell.
pub(super) fn inflate(from: impl Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

fn directory_end(bytes: &[u8]) -> Option<usize> {
    let from = bytes.len().saturating_sub(COMMENT_BYTES_MAX + 22);
    let tail = &bytes[from..];
    let at = tail.windows(4).rposition(|window| window == b"PK\x05\x06")?;
    (tail.len() - at >= 22).then_some(from + at)
}

/// A part, how large it says it is, and where the next entry begins.
fn directory_entry(bytes: &[u8], at: usize) -> Result<(Part, usize, usize), ParseError> {
    if bytes.get(at..at.saturating_add(4)) != Some(b"PK\x01\x02") {
        return Err(ParseError::broken("the archive's directory is damaged"));
    }
    let field = |offset: usize, length: usize| number(bytes, at + offset, length);
    let (made_by, flags, method) = (field(4, 2)?, field(8, 2)?, field(10, 2)?);
    let (packed, size, place) = (field(20, 4)?, field(24, 4)?, field(42, 4)?);
    let (name, extra, comment, attributes) = (field(28, 2)?, field(30, 2)?, field(32, 2)?, field(38, 4)?);
    let raw = bytes.get(at + 46..at + 46 + name).ok_or_else(|| ParseError::broken("the archive breaks off"))?;
    let name_text = String::from_utf8_lossy(raw).into_owned();
    if flags & 1 != 0 {
        return Err(ParseError::Encrypted);
    }
    let is_link = made_by >> 8 == 3 && (attributes >> 16) & 0xf000 == 0xa000;
    if is_link || leads_out(&name_text) {
        return Err(ParseError::broken("the archive has links or names that lead out of it"));
    }
    let deflated = match method {
        0 => false,
        8 => true,
        other => return Err(ParseError::broken(format!("the archive is packed by method {other}"))),
    };
    Ok((Part { name: name_text, deflated, packed, at: place }, size, at + 46 + name + extra + comment))
}

fn leads_out(name: &str) -> bool {
    name.starts_with(['/', '\\']) || name.contains('\0') || name.split(['/', '\\']).any(|part| part == "..")
}

/// A number of two or four bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Result<usize, ParseError> {
    let found = bytes.get(at..at.saturating_add(length)).ok_or_else(|| ParseError::broken("the archive breaks off"))?;
    Ok(found.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}
