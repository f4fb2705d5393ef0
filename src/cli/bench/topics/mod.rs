//! `recalld bench topics`: whether messages find their topic, seeing only what was said before.
//!
//! Beside it, in the same run: each message joins the topic whose centroid is most similar if that is above a threshold.
//! That one is given the best threshold for the very file it is scored on.
//!
//! Reading order: `streams` (files in), `follow` (both ways to place), `score` (numbers out), `refit` (where the
//! numbers of placement come from).

mod follow;
mod refit;
mod score;
mod streams;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;

use self::follow::{Followed, Heard, centroids, follow, shelf};
use self::score::{Score, score};
use self::streams::{Stream, read};
use super::recall::sheet::{Cell, Sheet};
use super::recall::stage::{VectorArgs, embedder};
use super::recall::{progress, title};
use crate::model::embed::Embedder;
use crate::topic::{Known, Meaning, Remark, Thresholds, place};

/// Topics among which the time of a placement is measured: as many as a user keeps.
const SHELF_TOPICS: usize = 20;

/// Thresholds that the centroids are tried with.
const THRESHOLDS: usize = 100;

/// Flags of `bench topics`.
#[derive(Debug, Args)]
pub(crate) struct TopicsArgs {
    /// Streams of messages with their topics, or dialogs with their segments as TIAGE has them.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the placements go, a line of JSON for each message.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Fit the numbers of placement to the file, too, and say how well that does; each stream also by what those teach that share
    /// nothing with it.
    #[arg(long)]
    refit: bool,
    #[command(flatten)]
    vectors: VectorArgs,
}

/// A line of the run file.
#[derive(Serialize)]
struct RunLine<'a> {
    stream: usize,
    n: usize,
    gold: usize,
    #[serde(flatten)]
    followed: &'a Followed,
}

pub(crate) async fn run(args: &TopicsArgs) -> anyhow::Result<Vec<Sheet>> {
    let streams = read(&args.file)?;
    ensure!(!streams.is_empty(), "{} holds no messages", args.file.display());
    let embedder = embedder(&args.vectors).await?;
    let embedder = (!args.vectors.no_vectors).then_some(&*embedder);
    let thresholds = embedder.map_or_else(Thresholds::default, |by| Thresholds::of(by.id(), by.near()));
    let bar = progress("placing", "streams", streams.len())?;
    let (mut heard, mut placed) = (Vec::new(), Vec::new());
    for stream in &streams {
        let messages = hear(stream, embedder).await?;
        placed.push(follow(&messages, &thresholds));
        heard.push(messages);
        bar.inc(1);
    }
    bar.finish_and_clear();
    write(args, &streams, &placed)?;

    let topics: Vec<Vec<usize>> = placed.iter().map(|stream| stream.iter().map(|one| one.topic).collect()).collect();
    let mut rows = vec![row("recalld", &score(&streams, &topics), Some(micros(&heard, &thresholds)))];
    if embedder.is_some() {
        let (threshold, best) = best_centroids(&streams, &heard);
        rows.push(row(&format!("nearest centroid above {threshold:.2}, the best threshold"), &best, None));
    }
    let refit = args.refit.then(|| refit::refit(&streams, &heard, &thresholds));
    for (name, score) in refit.iter().flat_map(|refit| &refit.scores) {
        rows.push(row(name, score, None));
    }
    let messages: usize = streams.iter().map(|stream| stream.messages.len()).sum();
    let by = embedder.map_or("no vectors".into(), |by| by.id().to_string());
    let what = format!("{messages} messages of {} streams, each placed seeing only earlier ones; {by}", streams.len());
    let mut sheets = vec![Sheet { rows, ..Sheet::new(title("Topics", &what), &HEAD) }];
    sheets.extend(refit.map(|refit| refit::sheet(&refit.all)));
    Ok(sheets)
}

/// What placement sees of a stream's messages.
async fn hear(stream: &Stream, embedder: Option<&dyn Embedder>) -> anyhow::Result<Vec<Heard>> {
    let texts: Vec<String> = stream.texts().map(str::to_owned).collect();
    let mut vectors = match embedder {
        Some(embedder) => embedder.embed(&texts).await?.into_iter().map(Some).collect(),
        None => vec![None; texts.len()],
    }
    .into_iter();
    let mut next = || {
        let vector = vectors.next().flatten();
        vector.and_then(|vector| Some(Meaning::new(embedder?.id().clone(), vector)))
    };
    let heard = |message: &streams::Entry| Heard {
        user: (message.user.clone(), next()),
        answer: message.answer.clone().map(|answer| (answer, next())),
    };
    Ok(stream.messages.iter().map(heard).collect())
}

fn write(args: &TopicsArgs, streams: &[Stream], placed: &[Vec<Followed>]) -> anyhow::Result<()> {
    let Some(path) = &args.out else { return Ok(()) };
    let mut out =
        BufWriter::new(std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?);
    for (at, (stream, placed)) in streams.iter().zip(placed).enumerate() {
        for (n, (message, followed)) in stream.messages.iter().zip(placed).enumerate() {
            let line = RunLine { stream: at, n, gold: message.topic, followed };
            writeln!(out, "{}", serde_json::to_string(&line)?).context("cannot write the placements")?;
        }
    }
    out.flush().context("cannot write the placements")
}

/// The threshold by which centroids do best on this file, and how well that is.
fn best_centroids(streams: &[Stream], heard: &[Vec<Heard>]) -> (f32, Score) {
    let tried = (0..THRESHOLDS).map(|step| {
        let threshold = step as f32 / THRESHOLDS as f32;
        let topics: Vec<Vec<usize>> = heard.iter().map(|messages| centroids(messages, threshold)).collect();
        (threshold, score(streams, &topics))
    });
    let best = tried.max_by(|a, b| a.1.b_cubed.total_cmp(&b.1.b_cubed));
    best.expect("there are thresholds to try")
}

/// Microseconds to read a message and to place it among as many topics as a user keeps.
fn micros(heard: &[Vec<Heard>], thresholds: &Thresholds) -> [f64; 2] {
    let shelf = shelf(heard, thresholds, SHELF_TOPICS);
    let known: Vec<Known<'_>> = shelf.iter().map(|(id, sketch)| Known { id: *id, sketch }).collect();
    let said: Vec<&Heard> = heard.iter().flatten().collect();
    let each = |since: Instant| since.elapsed().as_secs_f64() * 1e6 / said.len() as f64;
    let started = Instant::now();
    let remarks: Vec<Remark> = said.iter().map(|heard| heard.remark()).collect();
    let reading = each(started);
    let started = Instant::now();
    for remark in &remarks {
        std::hint::black_box(place(&known, known.last().map(|topic| topic.id), remark, thresholds));
    }
    [reading, each(started)]
}

const HEAD: [&str; 12] = [
    "system",
    "B-cubed F1",
    "precision",
    "recall",
    "ARI",
    "stay",
    "new",
    "return",
    "shift F1",
    "topics",
    "µs to read",
    "µs to place among 20",
];

fn row(name: &str, score: &Score, micros: Option<[f64; 2]>) -> Vec<Cell> {
    let percent = |share: Option<f64>| share.map_or(Cell::Nothing, Cell::percent);
    let [reading, placing] = match micros {
        Some(micros) => micros.map(|micros| Cell::Number(micros, 1)),
        None => [Cell::Nothing, Cell::Nothing],
    };
    let shares = [score.b_cubed, score.precision, score.recall, score.rand].map(|share| percent(Some(share)));
    let kinds = [score.stay, score.new, score.returned, score.shift].map(percent);
    let first = [Cell::text(name)].into_iter().chain(shares).chain(kinds);
    first.chain([Cell::Number(score.topics, 1), reading, placing]).collect()
}
