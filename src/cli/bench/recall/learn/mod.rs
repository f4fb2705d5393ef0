//! `recalld bench learn`: weights from chats with questions, and how good they are on chats they were not learned from.
//!
//! Reading order: `choice` (which signals get a weight), `loss` (how wrong weights are), `descent` (making that small),
//! `school` (questions as numbers), then the command here.

mod choice;
pub(in crate::cli::bench) mod descent;
pub(in crate::cli::bench) mod loss;
mod school;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;

use self::choice::{Signal, choose, signals_of, values};
use self::descent::{Lowest, Patience, descend};
use self::loss::{Lesson, Loss};
use self::school::School;
use super::score::{METRICS, Tally};
use super::sheet::{Cell, Sheet};
use super::stage::{Stage, VectorArgs, weights};
use super::{chats, progress, title};
use crate::recall::{Profile, WeightTable};

/// Flags of `bench learn`.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    /// Chats with questions, as LoCoMo writes them or as `bench/README.md` describes.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The kind of chat that the weights are for.
    #[arg(long, value_parser = profile, value_name = "people|assistant|mixed")]
    profile: Profile,
    #[command(flatten)]
    vectors: VectorArgs,
    /// Parts into which the chats are divided: each is scored with what the others taught [default: one a chat].
    #[arg(long, value_name = "K")]
    folds: Option<usize>,
    /// What a squared distance from the prior weights costs.
    #[arg(long, default_value_t = 0.001, value_name = "L2")]
    l2: f64,
    /// Weights that are taken as right unless the questions say otherwise [default: all zero].
    #[arg(long, value_name = "FILE")]
    towards: Option<PathBuf>,
    /// Signals to weigh: names, `all`, or changes such as `+cov,-isq` [default: those that have a weight now].
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_name = "A,B,C")]
    signals: Vec<String>,
    /// A file of weights into whose copy these are put [default: the prior file, else the one that ships].
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Where that copy goes.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn profile(word: &str) -> Result<Profile, String> {
    let known = Profile::ALL.into_iter().find(|profile| profile.as_str() == word);
    known.ok_or_else(|| "write people, assistant or mixed".to_owned())
}

pub(crate) async fn run(args: &LearnArgs) -> anyhow::Result<Vec<Sheet>> {
    let with_vectors = !args.vectors.no_vectors;
    let chats = chats::read_all(&args.files)?;
    let now = weights(args.into.as_deref().or(args.towards.as_deref()))?;
    let prior = args.towards.as_deref().map(|file| weights(Some(file))).transpose()?;
    let signals = choose(&args.signals, &signals_of(now.of(args.profile, with_vectors)), with_vectors)?;
    let stage = Stage::open(&args.vectors).await?;
    let school = School::gather(&stage, &chats, args.profile, &signals).await?;
    ensure!(!school.lessons_of(|_| true).is_empty(), "there is no question with evidence in these files");

    let prior = prior.map(|prior| values(prior.of(args.profile, with_vectors), &signals));
    let prior = prior.unwrap_or_else(|| vec![0.0; signals.len()]);
    let course = Course { school: &school, prior: &prior, l2: args.l2 };
    let folds = args.folds.unwrap_or(chats.len()).clamp(1, chats.len());
    let (tested, of_folds) = course.cross_validated(folds)?;
    let mut learned = course.learn(|_| true);
    let silent: Vec<bool> = (0..signals.len()).map(|at| !course.teaches(at)).collect();
    // What these chats say nothing about stays as it is.
    let now_values = values(now.of(args.profile, with_vectors), &signals);
    let kept = learned.point.iter_mut().zip(now_values).zip(&silent).filter(|(_, silent)| **silent);
    kept.for_each(|((learned, now), _)| *learned = now);

    if let Some(out) = &args.out {
        let mut table = WeightTable::clone(&now);
        table.set(args.profile, with_vectors, choice::weights(&signals, &learned.point));
        std::fs::write(out, table.write()).with_context(|| format!("cannot write {}", out.display()))?;
    }
    let mut results = vec![
        (format!("learned on the other chats ({folds} folds)"), tested),
        ("learned on the same chats".to_owned(), school.graded(&learned.point, |_| true)),
    ];
    if args.towards.is_some() {
        results.push(("the prior weights".to_owned(), school.graded(&prior, |_| true)));
    }
    let kind = if with_vectors { stage.vectors_by() } else { "words".into() };
    let what = format!("{}, {kind}, {} signals, L2 {}", args.profile.as_str(), signals.len(), args.l2);
    let table = score_sheet(title("Learning", &what), &results);
    Ok(vec![table, weight_sheet(&signals, &learned, &silent, &of_folds)])
}

/// What is learned from, and how.
struct Course<'a> {
    school: &'a School,
    prior: &'a [f64],
    l2: f64,
}

impl Course<'_> {
    /// Learns from the chats that are named.
    fn learn(&self, from: impl Fn(usize) -> bool) -> Lowest {
        let lessons: Vec<&Lesson> = self.school.lessons_of(from);
        let loss = Loss { lessons, prior: self.prior, l2: self.l2 };
        descend(self.prior.to_vec(), Patience::default(), |weights| loss.at(weights))
    }

    /// Whether a signal tells messages apart in any question.
    fn teaches(&self, signal: usize) -> bool {
        self.school.lessons_of(|_| true).iter().any(|lesson| lesson.varies(signal))
    }

    /// Scores each fold with what the other folds taught; also gives the weights of each.
    fn cross_validated(&self, folds: usize) -> anyhow::Result<(Tally, Vec<Vec<f64>>)> {
        let (mut tally, mut of_folds) = (Tally::default(), Vec::new());
        if folds < 2 {
            return Ok((tally, of_folds));
        }
        let bar = progress("learning", "folds", folds)?;
        for fold in 0..folds {
            let weights = self.learn(|chat| chat % folds != fold).point;
            self.school.grade(&mut tally, &weights, |chat| chat % folds == fold);
            of_folds.push(weights);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok((tally, of_folds))
    }
}

fn score_sheet(title: String, results: &[(String, Tally)]) -> Sheet {
    let mut sheet = Sheet::new(title, &["weights", "set", "n"]);
    sheet.head.extend(METRICS.map(str::to_owned));
    for (name, tally) in results {
        for group in tally.groups().into_iter().filter(|group| group.questions > 0) {
            let mut row = vec![Cell::text(name), Cell::text(group.name), Cell::Count(group.questions)];
            row.extend(group.mean.map(Cell::percent));
            sheet.rows.push(row);
        }
    }
    sheet
}

/// What was learned, and how far the folds agree on it.
fn weight_sheet(signals: &[Signal], learned: &Lowest, silent: &[bool], of_folds: &[Vec<f64>]) -> Sheet {
    let title = format!("Weights: loss {:.4} after {} steps", learned.value, learned.steps);
    let mut sheet = Sheet::new(title, &["signal", "weight", "least of the folds", "most of the folds"]);
    for (at, (signal, weight)) in signals.iter().zip(&learned.point).enumerate() {
        let of_folds = || of_folds.iter().map(|weights| weights[at]);
        let (least, most) = (of_folds().reduce(f64::min), of_folds().reduce(f64::max));
        let cell = |value: Option<f64>| value.map_or(Cell::Nothing, |value| Cell::Number(value, 3));
        let name = if silent[at] { format!("{} (silent here: kept)", signal.column()) } else { signal.column() };
        sheet.rows.push(vec![Cell::text(name), cell(Some(*weight)), cell(least), cell(most)]);
    }
    sheet
}
