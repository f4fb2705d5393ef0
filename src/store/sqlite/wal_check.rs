//! Reads a write-ahead log before SQLite does, and says whether something that was written is lost.
//!
//! SQLite uses a log up to the first frame whose checksum is wrong and ignores the rest silently: an interrupted write looks like
//! that, and so does a flipped bit. The format is described in <https://www.sqlite.org/fileformat2.html#walformat>: a header, then
//! frames of a page each. The checksum of a frame continues that of the frame before it, so a frame can be checked alone, from the
//! checksum that its predecessor has stored.
//!
//! - A valid frame behind an invalid one is damage: frames are written in order.
//! - A complete last frame that is invalid is either incomplete (power was lost while it was written) or damaged.
//! - An incomplete frame at the end, and frames of an older round of the log (they have other salts), are normal.
//!
//! **Invariant:** nothing here opens or changes a file.

use std::fmt;
use std::io::{self, ErrorKind, Read};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The magic number of a log whose checksums are over little-endian words; big-endian ones have the last bit set.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// What is wrong with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum LogDamage {
    /// The header is invalid, so that none of the log counts.
    Header,
    /// This frame, counted from 1, is invalid and others behind it are valid.
    Frame(u64),
    /// The last frame is complete and invalid.
    LastFrame(u64),
}

impl LogDamage {
    /// The first frame that does not count.
    pub(super) fn first_lost(self) -> u64 {
        match self {
            Self::Header => 1,
            Self::Frame(frame) | Self::LastFrame(frame) => frame,
        }
    }
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "its header is incomplete or damaged, so nothing in it counts"),
            Self::Frame(frame) => write!(f, "frame {frame} is damaged, so nothing from there on counts"),
            Self::LastFrame(frame) => write!(f, "frame {frame}, the last one, is incomplete or damaged"),
        }
    }
}

/// Reads a log from its first byte to its last.
pub(in crate::store) fn check(mut log: impl Read) -> io::Result<Option<LogDamage>> {
    let mut header = [0; HEADER_BYTES];
    if !read_whole(&mut log, &mut header)? {
        return Ok(None);
    }
    let Some(Header { words, salts, page_bytes, checksum }) = Header::parse(&header) else {
        // Without any frame behind it nothing is lost.
        let mut behind = [0; FRAME_HEADER_BYTES];
        return Ok(read_whole(&mut log, &mut behind)?.then_some(LogDamage::Header));
    };
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let (mut number, mut seed, mut bad) = (0, checksum, None);
    while read_whole(&mut log, &mut frame)? {
        number += 1;
        let found = Frame::parse(&frame, salts);
        let computed = words.checksum(words.checksum(seed, &frame[..8]), &frame[FRAME_HEADER_BYTES..]);
        match &mut bad {
            None if found.is_of_this_round && computed == found.checksum => seed = computed,
            // Only the salts differ, and the checksum does not cover them.
            None if computed == found.checksum => return Ok(Some(LogDamage::Frame(number))),
            None => bad = Some(Bad { number, is_of_this_round: found.is_of_this_round, computed }),
            Some(bad) => {
                // What is wrong with the first bad frame may be its stored checksum.
                let repaired = (number == bad.number + 1)
                    .then(|| words.checksum(words.checksum(bad.computed, &frame[..8]), &frame[FRAME_HEADER_BYTES..]));
                let continues = computed == found.checksum || repaired == Some(found.checksum);
                if found.is_of_this_round && continues {
                    return Ok(Some(LogDamage::Frame(bad.number)));
                }
            }
        }
        if bad.is_some() {
            seed = found.checksum;
        }
    }
    Ok(bad.filter(|bad| bad.is_of_this_round).map(|bad| LogDamage::LastFrame(bad.number)))
}

/// Fills the buffer; `false` when the log ends before.
fn read_whole(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The first frame that does not count.
struct Bad {
    number: u64,
    is_of_this_round: bool,
    /// The checksum of what is in it.
    computed: Checksum,
}

type Checksum = (u32, u32);

/// The byte order of the words that checksums are made of.
#[derive(Clone, Copy)]
enum Words {
    LittleEndian,
    BigEndian,
}

impl Words {
    fn checksum(self, (mut first, mut second): Checksum, bytes: &[u8]) -> Checksum {
        let word = |bytes: &[u8]| {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            match self {
                Self::LittleEndian => u32::from_le_bytes(bytes),
                Self::BigEndian => u32::from_be_bytes(bytes),
            }
        };
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
        }
        (first, second)
    }
}

struct Header {
    words: Words,
    salts: [u8; 8],
    page_bytes: usize,
    checksum: Checksum,
}

impl Header {
    /// Reads a header; `None` for one that SQLite ignores or refuses.
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let words = match be(bytes, 0) {
            MAGIC => Words::LittleEndian,
            big if big == MAGIC | 1 => Words::BigEndian,
            _ => return None,
        };
        let page_bytes = be(bytes, 8) as usize;
        let checksum = words.checksum((0, 0), &bytes[..24]);
        let is_valid = be(bytes, 4) == VERSION
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes)
            && checksum == (be(bytes, 24), be(bytes, 28));
        is_valid.then(|| Self { words, salts: salts(bytes), page_bytes, checksum })
    }
}

/// The salts in the header of a log: another round of the log has others.
pub(super) fn salts(header: &[u8; HEADER_BYTES]) -> [u8; 8] {
    std::array::from_fn(|n| header[16 + n])
}

struct Frame {
    is_of_this_round: bool,
    checksum: Checksum,
}

impl Frame {
    fn parse(bytes: &[u8], salts: [u8; 8]) -> Self {
        Self { is_of_this_round: bytes[8..16] == salts, checksum: (be(bytes, 16), be(bytes, 20)) }
    }
}

fn be(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const PAGE: usize = 4_096;
    const FRAME: usize = FRAME_HEADER_BYTES + PAGE;

    /// A log that SQLite wrote: a table and twenty rows, a transaction each. `rounds` is how often it began anew.
    fn written(rounds: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.db");
        let db = Connection::open(&path).expect("a new file");
        db.execute_batch(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE said (text TEXT);",
        )
        .expect("a table");
        for round in 0..=rounds {
            // Each round is shorter than the one before it, whose last frames stay behind it.
            for n in 0..20 - round * 5 {
                db.execute("INSERT INTO said VALUES (?1)", [format!("{n}").repeat(300)]).expect("a row");
            }
            if round < rounds {
                db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).expect("a checkpoint");
            }
        }
        std::fs::read(folder.path().join("r.db-wal")).expect("a log")
    }

    fn checked(log: &[u8]) -> Option<LogDamage> {
        check(log).expect("memory can be read")
    }

    fn flipped(log: &[u8], byte: usize, bit: usize) -> Option<LogDamage> {
        let mut log = log.to_vec();
        log[byte] ^= 1 << bit;
        checked(&log)
    }

    /// How many frames of a log are of its last round.
    fn frames(log: &[u8]) -> usize {
        let of_this_round = |frame: &&[u8]| frame[8..16] == log[16..24];
        log[HEADER_BYTES..].chunks_exact(FRAME).take_while(of_this_round).count()
    }

    /// The same log with checksums over words of the other byte order, as a machine of that order writes it.
    fn of_other_order(log: &[u8]) -> Vec<u8> {
        let mut log = log.to_vec();
        let little = log[3] & 1 == 0;
        let words = if little { Words::BigEndian } else { Words::LittleEndian };
        log[3] ^= 1;
        let mut sum = words.checksum((0, 0), &log[..24]);
        let put = |at: &mut [u8], sum: Checksum| {
            at[..4].copy_from_slice(&sum.0.to_be_bytes());
            at[4..8].copy_from_slice(&sum.1.to_be_bytes());
        };
        put(&mut log[24..], sum);
        for frame in log[HEADER_BYTES..].chunks_exact_mut(FRAME) {
            sum = words.checksum(words.checksum(sum, &frame[..8]), &frame[FRAME_HEADER_BYTES..]);
            put(&mut frame[16..], sum);
        }
        log
    }

    #[test]
    fn what_sqlite_wrote_is_whole() {
        let log = written(0);
        assert!(frames(&log) > 20);
        assert_eq!(checked(&log), None);
        assert_eq!(checked(&of_other_order(&log)), None);
        assert_eq!(checked(&[]), None);
    }

    #[test]
    fn a_frame_that_is_cut_off_is_normal() {
        let log = written(0);
        for cut in [1, 100, PAGE, FRAME - 1, FRAME, FRAME + 1, log.len() - 40, log.len() - 10] {
            assert_eq!(checked(&log[..log.len() - cut]), None, "{cut} bytes less");
        }
    }

    #[test]
    fn frames_of_an_older_round_are_normal() {
        let log = written(2);
        let whole = (log.len() - HEADER_BYTES) / FRAME;
        assert!(frames(&log) < whole, "{} of {whole} frames", frames(&log));
        assert_eq!(checked(&log), None);
        let behind = HEADER_BYTES + frames(&log) * FRAME;
        for byte in [behind, behind + 9, behind + 17, behind + 100, behind + FRAME + 100] {
            assert_eq!(flipped(&log, byte, 3), None, "byte {byte}");
        }
    }

    #[test]
    fn a_flipped_bit_in_the_header_is_found() {
        for log in [written(0), written(2), of_other_order(&written(0))] {
            for bit in 0..HEADER_BYTES * 8 {
                assert_eq!(flipped(&log, bit / 8, bit % 8), Some(LogDamage::Header), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_any_frame_is_found() {
        for log in [written(0), written(2), of_other_order(&written(0))] {
            let last = frames(&log);
            let places = (0..FRAME_HEADER_BYTES).chain([24, 25, 2_000, FRAME - 2, FRAME - 1]);
            for (place, frame) in places.flat_map(|place| (0..last).map(move |frame| (place, frame))) {
                for bit in [0, 7] {
                    let found = flipped(&log, HEADER_BYTES + frame * FRAME + place, bit);
                    let number = frame as u64 + 1;
                    // A salt of the last frame is not covered by its checksum, which is right.
                    let expected = match frame + 1 == last && !(8..16).contains(&place) {
                        true => LogDamage::LastFrame(number),
                        false => LogDamage::Frame(number),
                    };
                    assert_eq!(found, Some(expected), "byte {place} of frame {number}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_destroyed_stretch_is_found() {
        let mut log = written(0);
        log[HEADER_BYTES + 3 * FRAME - 100..HEADER_BYTES + 5 * FRAME + 100].fill(0);
        assert_eq!(checked(&log), Some(LogDamage::Frame(3)));
    }
}
