//! A block: a frame of turns, compressed and sealed.
//!
//! | bytes | what |
//! | --- | --- |
//! | 2 | `rA` |
//! | 1 | version of the block, and of its frame |
//! | 8 | seal: xxh3 of all bytes that follow |
//! | 8 | xxh3 of the frame, before it was compressed |
//! | varint | number of the dictionary |
//! | varint | bytes of the frame |
//! | the rest | the frame, in the dictionary's words and compressed by zstd |

use std::cell::RefCell;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, compress_bound, get_error_name};

use super::dictionary::{Dictionary, Settings, find, fitting};
use super::{Archived, column, frame};

/// Most bytes that the turns of a block may have together. A block that claims more is not opened.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

const MAGIC: [u8; 2] = *b"rA";
/// How blocks are written now. Those of the versions before are read, too; their frames say more.
const VERSION: u8 = 3;
/// Where the seal lies, and what it covers.
const SEAL: std::ops::Range<usize> = 3..11;
/// The content's checksum.
const SUM: std::ops::Range<usize> = 11..19;

/// Checksums and two numbers of at most ten bytes.
const HEAD_BYTES_MAX: usize = SUM.end + 20;

/// How much time a block is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// When somebody may be waiting: words alone while a block is small, then zstd's quickest level as well, or its level 3 for what our words
    /// do not fit.
    #[default]
    Quick,
    /// When nobody is: zstd's level 19, many times slower to write and as fast to read.
    Thorough,
}

/// Why a block cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The bytes are something else.
    #[error("these bytes are no archive block")]
    NotABlock,
    /// It was written by a newer recalld.
    #[error("the block has version {0}, this binary knows {VERSION}; use a newer recalld")]
    Newer(u8),
    /// It was compressed with a dictionary that this binary does not have.
    #[error("the block needs dictionary {0}, which this binary does not have; use a newer recalld")]
    UnknownDictionary(u64),
    /// Its bytes are not the ones that were written.
    #[error("the block is damaged: {0}")]
    Damaged(&'static str),
    /// It would have, or claims to have, more text than a block may have.
    #[error("a block of {0} bytes is too large, at most {CONTENT_BYTES_MAX} are allowed")]
    TooLarge(u64),
    /// zstd could not work, for want of memory as a rule.
    #[error("zstd failed: {0}")]
    Zstd(&'static str),
}

/// Packs turns into a block, in the order of their numbers. Of two with one number the later in the list stays.
pub fn pack(turns: &[Archived], level: Level) -> Result<Vec<u8>, BlockError> {
    if turns.windows(2).all(|pair| pair[0].number < pair[1].number) {
        return pack_ordered(turns, level);
    }
    let by_number: BTreeMap<u64, &Archived> = turns.iter().map(|turn| (turn.number, turn)).collect();
    let ordered: Vec<Archived> = by_number.into_values().cloned().collect();
    pack_ordered(&ordered, level)
}

fn pack_ordered(turns: &[Archived], level: Level) -> Result<Vec<u8>, BlockError> {
    match turns.iter().map(Archived::bytes).sum() {
        ..=CONTENT_BYTES_MAX => seal(&frame::write(turns), level),
        bytes => Err(BlockError::TooLarge(bytes as u64)),
    }
}

/// The turns of a block, in the order of their numbers.
pub fn unpack(block: &[u8]) -> Result<Vec<Archived>, BlockError> {
    frame::read(&open(block)?).ok_or(NO_FRAME)
}

/// A block that was opened, for turn after turn of it.
pub struct OpenBlock(Vec<u8>);

impl OpenBlock {
    /// Opens a block, if it is whole.
    pub fn of(block: &[u8]) -> Result<Self, BlockError> {
        open(block).map(Self)
    }

    /// One of its turns, if it is in it.
    pub fn turn(&self, number: u64) -> Result<Option<Archived>, BlockError> {
        frame::read_one(&self.0, number).ok_or(NO_FRAME)
    }
}

/// The block with more turns in it. One that was in it already is replaced, so doing it twice does no harm.
pub fn extended(block: &[u8], more: &[Archived]) -> Result<Vec<u8>, BlockError> {
    let mut turns = unpack(block)?;
    turns.extend_from_slice(more);
    pack(&turns, Level::Quick)
}

/// The block without some turns: `None` if nothing is left. What was taken out is in no byte of the new block.
pub fn without(block: &[u8], numbers: &[u64]) -> Result<Option<Vec<u8>>, BlockError> {
    let mut turns = unpack(block)?;
    turns.retain(|turn| !numbers.contains(&turn.number));
    if turns.is_empty() { Ok(None) } else { pack(&turns, Level::Quick).map(Some) }
}

/// The same turns at another level, as blocks are written now. The result was read again and compared.
pub fn recompress(block: &[u8], level: Level) -> Result<Vec<u8>, BlockError> {
    let turns = unpack(block)?;
    let smaller = pack(&turns, level)?;
    if unpack(&smaller)? != turns {
        return Err(BlockError::Damaged("it did not survive being compressed again"));
    }
    Ok(smaller)
}

const NO_FRAME: BlockError = BlockError::Damaged("its content is no list of turns");

/// A frame's block.
fn seal(content: &[u8], level: Level) -> Result<Vec<u8>, BlockError> {
    if content.len() > CONTENT_BYTES_MAX {
        return Err(BlockError::TooLarge(content.len() as u64));
    }
    let (dictionary, coded) = fitting(content);
    let mut block = Vec::with_capacity(HEAD_BYTES_MAX + compress_bound(coded.len()));
    block.extend_from_slice(&MAGIC);
    block.push(VERSION);
    block.extend_from_slice(&[0; 8]);
    block.extend_from_slice(&xxh3_64(content).to_le_bytes());
    column::put(&mut block, dictionary.id);
    column::put(&mut block, content.len() as u64);
    compress(&coded, dictionary, level, &mut block)?;
    let seal = xxh3_64(&block[SEAL.end..]);
    block[SEAL].copy_from_slice(&seal.to_le_bytes());
    block.shrink_to_fit();
    Ok(block)
}

/// A block's frame, if it is whole.
fn open(block: &[u8]) -> Result<Vec<u8>, BlockError> {
    let head = Head::read(block)?;
    let dictionary = find(head.dictionary).ok_or(BlockError::UnknownDictionary(head.dictionary))?;
    let bytes = usize::try_from(head.bytes).ok().filter(|bytes| *bytes <= CONTENT_BYTES_MAX);
    let bytes = bytes.ok_or(BlockError::TooLarge(head.bytes))?;
    let content = decompressed(head.payload, dictionary, bytes)?.filter(|content| xxh3_64(content) == head.sum);
    let content = content.ok_or(BlockError::Damaged("its content does not match its checksum"))?;
    // The seal does not cover the version, but the frame says it, too.
    if content.first() != Some(&head.version) {
        return Err(BlockError::Damaged("its content is of another version"));
    }
    Ok(content)
}

/// What a block says about itself, once its seal was found whole.
struct Head<'a> {
    version: u8,
    sum: u64,
    dictionary: u64,
    bytes: u64,
    payload: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(block: &'a [u8]) -> Result<Self, BlockError> {
        let rest = block.strip_prefix(&MAGIC).ok_or(BlockError::NotABlock)?;
        let version = *rest.first().ok_or(SHORT)?;
        if version > VERSION {
            return Err(BlockError::Newer(version));
        }
        if number(block, SEAL)? != xxh3_64(&block[SEAL.end..]) {
            return Err(BlockError::Damaged("it does not match its checksum"));
        }
        let sum = number(block, SUM)?;
        let mut reader = column::Reader { rest: &block[SUM.end..] };
        let dictionary = reader.varint().ok_or(SHORT)?;
        let bytes = reader.varint().ok_or(SHORT)?;
        Ok(Self { version, sum, dictionary, bytes, payload: reader.rest })
    }
}

const SHORT: BlockError = BlockError::Damaged("it ends too early");

fn number(block: &[u8], at: std::ops::Range<usize>) -> Result<u64, BlockError> {
    let bytes = block.get(at).and_then(|bytes| bytes.try_into().ok()).ok_or(SHORT)?;
    Ok(u64::from_le_bytes(bytes))
}

thread_local! {
    // Making a context costs more than a small block does. One for each dictionary, because it keeps that unfolded.
    static COMPRESSORS: RefCell<BTreeMap<u64, CCtx<'static>>> = const { RefCell::new(BTreeMap::new()) };
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor { context: DCtx::create(), coded: Vec::new() });
}

/// What is kept for the next block.
struct Decompressor {
    context: DCtx<'static>,
    /// Room for a frame before it is decoded.
    coded: Vec<u8>,
}

/// More room than this is given back: large blocks are rare, threads are many.
const KEPT_BYTES_MAX: usize = 256 * 1024;

const THOROUGH: Settings =
    Settings { parameters: &[CParameter::CompressionLevel(19)], with_text: true, left_as_it_is_bytes_max: 0 };

fn compressor(dictionary: &Dictionary, level: Level) -> CCtx<'static> {
    let settings = if level == Level::Quick { dictionary.quick } else { THOROUGH };
    let mut context = CCtx::create();
    // The head says all of it, so that the payload need not.
    let silent = [CParameter::DictIdFlag(false), CParameter::ChecksumFlag(false), CParameter::ContentSizeFlag(false)];
    for parameter in silent.iter().chain(settings.parameters) {
        context.set_parameter(*parameter).expect("parameters of a new context can be set");
    }
    if settings.with_text {
        context.load_dictionary(dictionary.text).expect("a new context takes a dictionary");
    }
    context
}

/// Appends the coded frame to the block, compressed.
fn compress(coded: &[u8], dictionary: &Dictionary, level: Level, block: &mut Vec<u8>) -> Result<(), BlockError> {
    if level == Level::Quick && coded.len() <= dictionary.quick.left_as_it_is_bytes_max {
        leave_as_it_is(coded, block);
        return Ok(());
    }
    let start = block.len();
    block.resize(start + compress_bound(coded.len()), 0);
    let mut write = |context: &mut CCtx<'static>| context.compress2(&mut block[start..], coded);
    let written = match level {
        Level::Quick => COMPRESSORS
            .with_borrow_mut(|kept| write(kept.entry(dictionary.id).or_insert_with(|| compressor(dictionary, level)))),
        // Its tables are large and seldom needed, so they are not kept.
        Level::Thorough => write(&mut compressor(dictionary, level)),
    };
    block.truncate(start + written.map_err(failed)?);
    Ok(())
}

/// Appends the coded frame in the form in which zstd writes what it cannot compress, so that it is read like any other (RFC 8878, 3.1.1).
fn leave_as_it_is(coded: &[u8], block: &mut Vec<u8>) {
    const MAGIC: u32 = 0xfd2f_b528;
    const NOTHING_BUT_A_WINDOW: u8 = 0;
    const OF_128_KIB: u8 = 7 << 3;
    const LAST_AND_RAW: u32 = 0b001;
    let length = coded.len() as u32;
    block.extend_from_slice(&MAGIC.to_le_bytes());
    block.extend_from_slice(&[NOTHING_BUT_A_WINDOW, OF_128_KIB]);
    block.extend_from_slice(&(length << 3 | LAST_AND_RAW).to_le_bytes()[..3]);
    block.extend_from_slice(coded);
}

/// The frame of so many bytes that was compressed; nothing if it is another one.
fn decompressed(payload: &[u8], dictionary: &'static Dictionary, bytes: usize) -> Result<Option<Vec<u8>>, BlockError> {
    DECOMPRESSOR.with_borrow_mut(|Decompressor { context, coded }| {
        coded.clear();
        coded.reserve(dictionary.coded_bytes_max(bytes));
        context.ref_ddict(dictionary.decoder().as_ddict()).map_err(failed)?;
        context.decompress(coded, payload).map_err(|_| BlockError::Damaged("it cannot be decompressed"))?;
        let content = dictionary.decode(coded, bytes);
        coded.shrink_to(KEPT_BYTES_MAX);
        Ok(content)
    })
}

fn failed(code: usize) -> BlockError {
    BlockError::Zstd(get_error_name(code))
}

/// A block whose head was tampered with and whose seal is right again.
#[cfg(test)]
pub(super) fn resealed(block: &[u8], tamper: impl FnOnce(&mut Forged)) -> Vec<u8> {
    let head = Head::read(block).expect("a whole block");
    let mut forged =
        Forged { sum: head.sum, dictionary: head.dictionary, bytes: head.bytes, payload: head.payload.to_vec() };
    tamper(&mut forged);
    let mut rest = forged.sum.to_le_bytes().to_vec();
    column::put(&mut rest, forged.dictionary);
    column::put(&mut rest, forged.bytes);
    rest.extend_from_slice(&forged.payload);
    [&block[..SEAL.start], &xxh3_64(&rest).to_le_bytes(), &rest].concat()
}

/// What somebody may write into a block on purpose.
#[cfg(test)]
pub(super) struct Forged {
    pub(super) sum: u64,
    pub(super) dictionary: u64,
    pub(super) bytes: u64,
    pub(super) payload: Vec<u8>,
}
