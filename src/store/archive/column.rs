//! Columns of numbers, as a frame has them before its texts.
//!
//! | number | bytes |
//! | --- | --- |
//! | below 112 | itself |
//! | below 2032 | 112 and how often 128 fits into the rest, then what is left of it |
//! | any other | 127, then a varint |
//!
//! So nearly every byte of a column is below 128 and costs nothing more when it is written in words (`words.rs`). Of the first two columns
//! a value is said once for all turns in a row that have it, with how many those are. In the first two versions it was said for each,
//! and all numbers were varints: the length of a long message took four bytes.

/// The first version of a frame with numbers like these.
const SINCE: u64 = 3;
/// Numbers below this are a byte.
const ONE_BYTE: u64 = 112;
/// Says that a varint follows.
const LONG: u8 = 127;
/// Numbers below this are two bytes at most.
const TWO_BYTES: u64 = ONE_BYTE + (LONG as u64 - ONE_BYTE) * 128;

/// Appends a number, seven bits to a byte.
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a number as a column has it.
pub(super) fn put_short(bytes: &mut Vec<u8>, value: u64) {
    match value {
        ..ONE_BYTE => bytes.push(value as u8),
        ONE_BYTE..TWO_BYTES => {
            let rest = value - ONE_BYTE;
            bytes.extend_from_slice(&[(ONE_BYTE + rest / 128) as u8, (rest % 128) as u8]);
        }
        _ => {
            bytes.push(LONG);
            put(bytes, value);
        }
    }
}

/// Appends a column in which one value often follows the same: each with how many there are of it.
pub(super) fn put_runs(bytes: &mut Vec<u8>, values: &[u64]) {
    for run in values.chunk_by(u64::eq) {
        put_short(bytes, run[0]);
        put_short(bytes, run.len() as u64);
    }
}

/// What is left to read.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// A number as a column has it.
    fn short(&mut self) -> Option<u64> {
        let first = self.byte()?;
        match u64::from(first) {
            one @ ..ONE_BYTE => Some(one),
            _ if first == LONG => self.varint(),
            one if first < LONG => Some(ONE_BYTE + 128 * (one - ONE_BYTE) + u64::from(self.byte()?)),
            _ => None,
        }
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// The numbers before the texts of a frame.
pub(super) struct Columns<'a> {
    pub(super) reader: Reader<'a>,
    /// The frame's.
    pub(super) version: u64,
}

impl Columns<'_> {
    /// A column of so many values, in which one often follows the same.
    pub(super) fn runs(&mut self, count: usize) -> Option<Vec<u64>> {
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            let value = self.next()?;
            let times = if self.version < SINCE { 1 } else { self.length()? };
            if times == 0 || times > count - values.len() {
                return None;
            }
            values.resize(values.len() + times, value);
        }
        Some(values)
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.next()?).ok()
    }

    fn next(&mut self) -> Option<u64> {
        if self.version < SINCE { self.reader.varint() } else { self.reader.short() }
    }
}
