//! `recalld bench archive`: blocks of archived turns beside gzip and base64 of the same messages as JSON.
//!
//! The other side is written as well as it can be: compact JSON, gzip at its usual level by zlib-rs (faster than
//! miniz_oxide here), one buffer for each step. Both sides hold the same: who said what. When it was said stays in the row. Times are
//! the processor's, so that what else the machine is doing counts for neither side.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::recall::chats::{self, Chat, Said};
use super::recall::progress;
use super::shrink;
use super::spent;
use super::table::{Row, Table, machine};
use crate::message::Role;
use crate::store::archive::{Archived, Level, pack, recompress, unpack};

/// Flags of `bench archive`.
#[derive(Debug, Args)]
pub(super) struct ArchiveArgs {
    /// Chats in LoCoMo's format or in that of `bench/README.md`; without any, two chats that no dictionary was trained on.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Messages in a block.
    #[arg(long, value_delimiter = ',', default_value = "10,20,50", value_name = "N,N,N")]
    messages: Vec<usize>,
    /// How long each size of block is measured.
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    seconds: f64,
    /// Fill a data file with so many turns, too, and say how large it is before and after their text has moved into blocks.
    #[arg(long, value_name = "TURNS")]
    stored: Option<usize>,
}

/// `tools/make_archive_dictionary.py` leaves these out.
const HELD_OUT: [&str; 2] = [
    include_str!("../../../bench/chats/03-marathon-training.json"),
    include_str!("../../../bench/chats/11-job-search.json"),
];

/// The size of block that something was promised for.
const PROMISED_MESSAGES: usize = 20;

pub(super) async fn run(args: &ArchiveArgs) -> anyhow::Result<Table> {
    ensure!(args.messages.iter().all(|count| *count > 0), "a block needs a message");
    let chats = match args.files.is_empty() {
        true => HELD_OUT.iter().map(|text| chats::parse(text)).collect::<Result<Vec<_>, _>>()?.concat(),
        false => chats::read_all(&args.files)?,
    };
    let mut table = blocks_beside_gzip(args, &chats)?;
    if let Some(turns) = args.stored {
        table.rows.extend(shrink::rows(&chats, turns).await?);
    }
    Ok(table)
}

fn blocks_beside_gzip(args: &ArchiveArgs, chats: &[Chat]) -> anyhow::Result<Table> {
    let mut table = Table { machine: machine(), rows: Vec::new() };
    for count in &args.messages {
        let blocks = blocks(chats, *count);
        if blocks.is_empty() {
            continue;
        }
        table.rows.extend(rows(*count, &measure(&blocks, Duration::from_secs_f64(args.seconds))?));
    }
    ensure!(!table.rows.is_empty(), "no chat is as long as a block");
    Ok(table)
}

/// The same messages for both sides.
struct Block {
    turns: Vec<Archived>,
    wire: Vec<Wire>,
}

/// A message as the other side has it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wire {
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    content: String,
}

/// Whole blocks only: what is left of a chat at its end would be a block of another size.
fn blocks(chats: &[Chat], count: usize) -> Vec<Block> {
    let block = |said: &[Said]| Block { turns: turns(said), wire: said.iter().map(wire).collect() };
    chats.iter().flat_map(|chat| chat.messages.chunks_exact(count)).map(block).collect()
}

fn wire(said: &Said) -> Wire {
    Wire { role: said.role, name: said.name.clone(), content: said.text.clone() }
}

/// Messages as turns: a reply belongs to what it replies to, names go where the store puts them.
fn turns(said: &[Said]) -> Vec<Archived> {
    let mut turns: Vec<Archived> = Vec::new();
    for message in said {
        match turns.last_mut().filter(|turn| message.role == Role::Assistant && turn.answer.is_none()) {
            Some(turn) => turn.answer = Some(message.text.clone()),
            None => turns.push(Archived {
                number: 100 + turns.len() as u64,
                question: message.text.clone(),
                answer: None,
                extra: message.name.as_ref().map(|name| json!({ "question": { "name": name } }).to_string()),
            }),
        }
    }
    turns
}

/// Means of a block.
#[derive(Default)]
struct Measured {
    blocks: usize,
    ours: Side,
    theirs: Side,
    thorough_bytes: f64,
    thorough_writing: Duration,
}

#[derive(Default)]
struct Side {
    bytes: f64,
    writing: Duration,
    reading: Duration,
}

impl Side {
    fn both(&self) -> Duration {
        self.writing + self.reading
    }
}

fn measure(blocks: &[Block], lasting: Duration) -> anyhow::Result<Measured> {
    let mut measured = Measured { blocks: blocks.len(), ..Measured::default() };
    let bar = progress("recompressing", "blocks", blocks.len())?;
    for block in blocks {
        let quick = pack(&block.turns, Level::Quick)?;
        let (thorough, took) = timed(|| recompress(&quick, Level::Thorough));
        measured.thorough_bytes += thorough?.len() as f64 / blocks.len() as f64;
        measured.thorough_writing += took / blocks.len() as u32;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let started = Instant::now();
    let mut rounds = 0;
    // In turns, so that a noisy moment hits both; the fastest round of each counts.
    while rounds < 3 || started.elapsed() < lasting {
        let ours = round(blocks, |block| Ok(pack(&block.turns, Level::Quick)?), |bytes| Ok(unpack(bytes)?))?;
        let theirs = round(blocks, |block| zipped(&block.wire), unzipped)?;
        measured.ours.keep_fastest(ours);
        measured.theirs.keep_fastest(theirs);
        rounds += 1;
    }
    Ok(measured)
}

impl Side {
    fn keep_fastest(&mut self, next: Side) {
        let faster = |kept: Duration, next: Duration| if kept.is_zero() { next } else { kept.min(next) };
        self.bytes = next.bytes;
        self.writing = faster(self.writing, next.writing);
        self.reading = faster(self.reading, next.reading);
    }
}

/// Blocks of a round, at least. With a handful neither side would have its tables at hand: the other one has just used the cache.
const ROUND_BLOCKS: usize = 200;

/// Writes all blocks, then reads all, as often as it takes, and answers the mean of one.
fn round<W: AsRef<[u8]>, R>(
    blocks: &[Block],
    write: impl Fn(&Block) -> anyhow::Result<W>,
    read: impl Fn(&[u8]) -> anyhow::Result<R>,
) -> anyhow::Result<Side> {
    let passes = ROUND_BLOCKS.div_ceil(blocks.len());
    let all = (0..passes).flat_map(|_| blocks);
    let (written, writing) = timed(|| all.map(&write).collect::<anyhow::Result<Vec<W>>>());
    let written = written?;
    let (read, reading) = timed(|| written.iter().try_for_each(|bytes| read(bytes.as_ref()).map(drop)));
    read?;
    let count = written.len();
    let bytes = written.iter().map(|bytes| bytes.as_ref().len()).sum::<usize>() as f64 / count as f64;
    Ok(Side { bytes, writing: writing / count as u32, reading: reading / count as u32 })
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = spent::of_thread();
    let done = work();
    (done, spent::of_thread().saturating_sub(started))
}

fn zipped(messages: &[Wire]) -> anyhow::Result<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&serde_json::to_vec(messages)?)?;
    Ok(STANDARD.encode(gzip.finish()?))
}

fn unzipped(text: &[u8]) -> anyhow::Result<Vec<Wire>> {
    let bytes = STANDARD.decode(text).map_err(|error| anyhow!("no base64: {error}"))?;
    let mut json = Vec::new();
    GzDecoder::new(&bytes[..]).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

fn rows(count: usize, measured: &Measured) -> Vec<Row> {
    let (ours, theirs) = (&measured.ours, &measured.theirs);
    let of = |what: &str| format!("{count} messages ({} blocks): {what}", measured.blocks);
    let bytes = |what: &str, bytes: f64| Row {
        what: of(what),
        measured: format!("{bytes:.0}"),
        beside: Some(format!("{:.0} (gzip + base64 of JSON)", theirs.bytes)),
        ratio: Some(bytes / theirs.bytes),
        ..promise(count, "0.65 ×", "0.5 ×")
    };
    let speed = |what: &str, ours: Duration, theirs: Duration, promised: Row| Row {
        what: of(what),
        measured: micros(ours),
        beside: Some(micros(theirs)),
        ratio: Some(theirs.as_secs_f64() / ours.as_secs_f64()),
        ..promised
    };
    let nothing = || promise(0, "", "");
    let thorough = Row {
        measured: format!("{:.0} ({} to write)", measured.thorough_bytes, micros(measured.thorough_writing)),
        ..bytes("bytes, thorough", measured.thorough_bytes)
    };
    vec![
        bytes("bytes, quick", ours.bytes),
        thorough,
        speed("speed, both ways", ours.both(), theirs.both(), promise(count, "4 ×", "6 ×")),
        speed("speed, packing", ours.writing, theirs.writing, nothing()),
        speed("speed, unpacking", ours.reading, theirs.reading, nothing()),
    ]
}

/// A row that has nothing yet but what was promised, if something was.
fn promise(count: usize, must: &str, goal: &str) -> Row {
    let promised = |text: &str| (count == PROMISED_MESSAGES).then(|| text.to_owned());
    Row {
        what: String::new(),
        measured: String::new(),
        beside: None,
        ratio: None,
        must: promised(must),
        goal: promised(goal),
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat() -> Chat {
        let said = |n: usize| Said {
            id: n.to_string(),
            session: String::new(),
            role: if n.is_multiple_of(2) { Role::User } else { Role::Assistant },
            name: (n == 2).then(|| "Ann".to_owned()),
            text: format!("message {n}"),
            at: None,
        };
        Chat { id: "c".into(), messages: (0..5).map(said).collect(), questions: Vec::new() }
    }

    #[test]
    fn both_sides_hold_the_same() {
        let blocks = blocks(&[chat()], 4);
        let [block] = &blocks[..] else { panic!("the fifth message makes no block") };
        assert_eq!(block.turns.len(), 2);
        assert_eq!(block.turns[1].answer.as_deref(), Some("message 3"));
        assert_eq!(block.turns[1].extra.as_deref(), Some(r#"{"question":{"name":"Ann"}}"#));
        assert_eq!(unpack(&pack(&block.turns, Level::Quick).expect("packs")).as_ref(), Ok(&block.turns));
        assert_eq!(unzipped(zipped(&block.wire).expect("zips").as_bytes()).expect("unzips"), block.wire);
    }

    #[tokio::test]
    async fn a_run_fills_the_table() {
        let args = ArchiveArgs { files: Vec::new(), messages: vec![20, 5_000], seconds: 0.0, stored: Some(220) };
        let table = run(&args).await.expect("a table");
        assert_eq!(table.rows.len(), 5 + 3, "no chat has five thousand messages");
        assert_eq!(table.rows[0].must.as_deref(), Some("0.65 ×"));
        let ratios: Vec<f64> = table.rows.iter().filter_map(|row| row.ratio).collect();
        assert!(ratios.len() == 7 && ratios.iter().all(|ratio| *ratio > 0.0));
        // So small a file is mostly tables and indexes; what a large one shrinks to is for the bench to say.
        assert!(ratios[6] <= ratios[5], "packing tightly makes nothing larger: {ratios:?}");
    }
}
