//! `recalld import`: files of other memories, and our own.
//!
//! A file is read by a thread of its own, a conversation at a time; what is read goes to the doors in batches, each of which
//! is on disk when it is answered. What is here already is passed over, so an import can be done again at any time.
//!
//! Reading order: here, `batch` (what is sent at once), `report` (what is told), `note` (where an import was).

mod batch;
mod note;
mod report;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::mpsc::{Receiver, channel};

use self::batch::{Batch, Sender};
use self::note::Note;
use self::report::Report;
use super::Common;
use super::client::{Client, Need, with_client};
use super::failure::Failure;
use crate::config::Settings;
use crate::takeout::{Around, Format, Found, Line, ReadError, SAMPLE_BYTES, detect, read};

/// Records that are read ahead.
const AHEAD: usize = 256;

/// Flags of `import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// What to import; `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// auto, recalld, chatgpt, claude, openwebui, mem0, langchain or transcript.
    #[arg(long, default_value = "auto", value_name = "FORMAT", value_parser = format)]
    format: Chosen,
    /// Write nothing; say what would be written, and what is wrong with the files.
    #[arg(long)]
    dry_run: bool,
    /// Go on where the last import of the same file broke off, without asking about what is here already.
    #[arg(long)]
    resume: bool,
}

/// A format, or whatever the content says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    Auto,
    Given(Format),
}

fn format(word: &str) -> Result<Chosen, String> {
    match word {
        "auto" => Ok(Chosen::Auto),
        word => Format::parse(word).map(Chosen::Given).ok_or_else(|| format!("one of auto, {}", words())),
    }
}

fn words() -> String {
    Format::ALL.map(Format::as_str).join(", ")
}

pub(super) fn import(common: &Common, args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let settings = common.load([])?.settings;
    with_client(common, Need::Memory, async |client| {
        let mut reports = Vec::new();
        for file in &args.files {
            reports.push(import_file(client, common, args, file, &settings).await?);
        }
        report::tell(&reports, common.json, args.dry_run)?;
        let well = reports.iter().all(Report::is_well);
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// A file that is open, and what is known about it.
struct Opened {
    input: Box<dyn BufRead + Send>,
    format: Format,
    around: Around,
    bytes: Option<u64>,
    read: Arc<AtomicU64>,
}

async fn import_file(
    client: &Client,
    common: &Common,
    args: &ImportArgs,
    path: &Path,
    settings: &Settings,
) -> anyhow::Result<Report> {
    let opened = open_file(path, args.format, &settings.memory().zone)?;
    let mut report = Report::of(path, opened.format);
    let note = Note::of(path, common);
    let done = if args.resume { note.done() } else { 0 };
    let bar = bar(opened.bytes);
    let count = Arc::clone(&opened.read);
    // Our own file names its users; everything else is for whoever imports it.
    let everyone = opened.format == Format::Recalld && common.names_nobody();
    let sender = Sender::new(client, everyone, args.dry_run);
    let (found, reading) = in_thread(opened);
    let mut sending = Sending { sender, report: &mut report, note: (!args.dry_run).then_some(&note), bar: &bar, count };
    sending.all(found, done).await?;
    bar.finish_and_clear();
    report.ended(reading.await.context("the reader broke off")?);
    if report.is_whole() {
        note.forget();
    }
    Ok(report)
}

fn open_file(path: &Path, chosen: Chosen, zone: &TimeZone) -> anyhow::Result<Opened> {
    let what = || format!("cannot read `{}`", path.display());
    let (raw, bytes, undated): (Box<dyn Read + Send>, _, _) = match path.as_os_str() == "-" {
        true => (Box::new(std::io::stdin()), None, Timestamp::now()),
        false => {
            let file = File::open(path).with_context(what)?;
            let known = file.metadata().with_context(what)?;
            let changed = known.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
            (Box::new(file), Some(known.len()), changed.unwrap_or_else(Timestamp::now))
        }
    };
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted { inner: raw, read: Arc::clone(&read) };
    let mut input = BufReader::with_capacity(SAMPLE_BYTES, counted);
    let format = match chosen {
        Chosen::Given(format) => format,
        Chosen::Auto => detect(input.fill_buf().with_context(what)?).ok_or_else(|| unknown(path))?,
    };
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let around = Around { name, undated, zone: zone.clone() };
    Ok(Opened { input: Box::new(input), format, around, bytes, read })
}

fn unknown(path: &Path) -> Failure {
    let told =
        format!("`{}` has no format that is known; say which one it is with --format ({})", path.display(), words());
    Failure::Usage(told)
}

/// Counts what is read, for the bar.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads a file on a thread that may wait; what is read ahead is bounded.
fn in_thread(opened: Opened) -> (Receiver<Found>, tokio::task::JoinHandle<Result<(), ReadError>>) {
    let (sender, receiver) = channel(AHEAD);
    let Opened { input, format, around, .. } = opened;
    let work = move || read(format, input, &around, &mut |found| sender.blocking_send(found).is_ok());
    (receiver, tokio::task::spawn_blocking(work))
}

/// A bar with a known end, or a spinner. Shown on a terminal only.
pub(super) fn bar(bytes: Option<u64>) -> ProgressBar {
    match bytes {
        Some(bytes) => {
            let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
            ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        }
        None => ProgressBar::new_spinner(),
    }
}

/// Records on their way to the doors.
struct Sending<'a> {
    sender: Sender<'a>,
    report: &'a mut Report,
    note: Option<&'a Note>,
    bar: &'a ProgressBar,
    count: Arc<AtomicU64>,
}

impl Sending<'_> {
    /// Sends everything that is found, but the first `done` records.
    async fn all(&mut self, mut found: Receiver<Found>, done: u64) -> anyhow::Result<()> {
        let (mut batch, mut records) = (Batch::default(), 0_u64);
        while let Some(found) = found.recv().await {
            match found {
                Found::Passed(reason) => self.report.pass(reason),
                Found::Bad(at, reason) => self.report.bad(at, reason),
                Found::Line(at, line) => {
                    let begins = matches!(*line, Line::Session(..) | Line::Document(_));
                    self.report.count(&line);
                    // A document is taken in as a whole.
                    let belongs = matches!(*line, Line::Passage(..) | Line::Part(_));
                    if batch.is_full(begins) && !belongs {
                        self.send(&mut batch, records).await?;
                    }
                    records += 1;
                    batch.push(at, &line, records <= done);
                }
            }
        }
        self.send(&mut batch, records).await
    }

    async fn send(&mut self, batch: &mut Batch, records: u64) -> anyhow::Result<()> {
        if let Some((text, origins)) = batch.take() {
            let answer = self.sender.send(text.body, text.goes_on).await?;
            self.report.add(&answer, &origins);
            if let Some(note) = self.note {
                note.write(records);
            }
        }
        self.bar.set_position(self.count.load(Ordering::Relaxed));
        self.bar.set_message(self.report.progress());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_chosen_by_their_words() {
        assert_eq!(format("auto"), Ok(Chosen::Auto));
        assert_eq!(format("claude"), Ok(Chosen::Given(Format::Claude)));
        assert!(format("word").is_err_and(|told| told.contains("openwebui")));
    }
}
