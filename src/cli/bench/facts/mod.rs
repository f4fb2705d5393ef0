//! `recalld bench facts`: what the built-in learns from what people type, and what it is not taken in by.
//!
//! Utterances with the facts that may be learned from them go in; precision and recall come out, for each half of them apart:
//! the tables were written looking at half A only. Data sets of others are read too, where all that can be said is how often
//! something was learned.
//!
//! Reading order: `corpus` (files in), `score` (numbers out), `others` (data sets of others).

mod corpus;
mod others;
mod score;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::corpus::{Half, Utterance};
use self::score::{Miss, Score, judge};
use super::recall::sheet::{Cell, Sheet};
use super::recall::title;
use crate::fact::{Extracted, Heard, Proposal, Refusal, Verdict, admit, extract};

/// Messages that the speed is measured over, at least.
const TIMED_MIN: usize = 20_000;

/// Flags of `bench facts`.
#[derive(Debug, Args)]
pub(super) struct FactsArgs {
    /// Utterances (TOML, see docs/facts.md), or MSC personas or LoCoMo conversations (JSON).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which half of the utterances to look at.
    #[arg(long, value_enum, default_value = "both")]
    half: Which,
    /// Write what was missed and what was wrong to a file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The half that the tables were written with.
    A,
    /// The half that they were not.
    B,
    /// Both, apart and together.
    Both,
}

impl Which {
    fn shows(self, half: Half) -> bool {
        self == Which::Both || (self == Which::A) == (half == Half::A)
    }
}

pub(super) fn run(args: &FactsArgs) -> anyhow::Result<Vec<Sheet>> {
    let (corpora, rest): (Vec<&PathBuf>, Vec<&PathBuf>) = args.files.iter().partition(|file| is_toml(file));
    let mut sheets = Vec::new();
    if !corpora.is_empty() {
        let said = corpus::read_all(&corpora)?;
        let shown: Vec<&Utterance> = said.iter().filter(|one| args.half.shows(one.half())).collect();
        ensure!(!shown.is_empty(), "no utterances to look at");
        let judged: Vec<(&Utterance, Learned)> = shown.iter().map(|one| (*one, learn(&one.text))).collect();
        sheets.extend(scores(&judged, args.half));
        sheets.push(refused(&judged));
        if let Some(out) = &args.out {
            write_misses(out, &judged)?;
        }
    }
    for file in rest {
        sheets.push(others::sheet(file)?);
    }
    Ok(sheets)
}

fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "toml")
}

/// What was learned from a message.
pub(super) struct Learned {
    facts: Vec<Proposal>,
    refused: Vec<Refusal>,
}

/// Reads a message as the server does: patterns propose, rules admit.
fn learn(text: &str) -> Learned {
    let heard = heard(text);
    let Extracted { proposals, refused } = extract(&heard);
    let mut learned = Learned { facts: Vec::new(), refused: refused.iter().map(|one| one.reason).collect() };
    for proposal in proposals {
        match admit(&proposal, &heard) {
            Verdict::Admit(_) => learned.facts.push(proposal),
            Verdict::Refuse(reason) | Verdict::Quarantine(reason) => learned.refused.push(reason),
        }
    }
    learned
}

fn heard(text: &str) -> Heard<'_> {
    let said_at = Timestamp::from_second(SAID_AT).expect("a time in 2026");
    Heard { text, said_at, zone: TimeZone::UTC, echoes: &[] }
}

/// All messages are said on the same day, so that a run gives the same numbers tomorrow.
const SAID_AT: i64 = 1_781_000_000;

fn scores(judged: &[(&Utterance, Learned)], which: Which) -> Vec<Sheet> {
    let score = |keep: &dyn Fn(&Utterance) -> bool| {
        let kept = judged.iter().filter(|(one, _)| keep(one));
        kept.fold(Score::default(), |score, (one, learned)| score.plus(&judge(one, &learned.facts)))
    };
    let how = format!("{} utterances, {:.0} messages a second", judged.len(), speed(judged));
    let head = ["utterances", "n", "negative", "facts", "precision", "recall", "F1"];
    let mut sheet = Sheet::new(title("Facts learned, %", &how), &head);
    for (name, half) in [("half A", Half::A), ("half B", Half::B)] {
        if which.shows(half) {
            sheet.rows.push(score(&|one| one.half() == half).row(name));
        }
    }
    sheet.rows.push(score(&|_| true).row("all shown"));
    let languages: BTreeMap<&str, ()> = judged.iter().map(|(one, _)| (one.language.as_str(), ())).collect();
    for language in languages.into_keys() {
        sheet.rows.push(score(&|one| one.language == language).row(language));
    }
    vec![sheet, score::by_category(judged)]
}

/// Messages a second: the same ones again and again, until there were enough.
fn speed(judged: &[(&Utterance, Learned)]) -> f64 {
    let rounds = TIMED_MIN.div_ceil(judged.len());
    let started = Instant::now();
    let mut facts = 0;
    for (one, _) in (0..rounds).flat_map(|_| judged) {
        facts += learn(&one.text).facts.len();
    }
    std::hint::black_box(facts);
    (rounds * judged.len()) as f64 / started.elapsed().as_secs_f64()
}

fn refused(judged: &[(&Utterance, Learned)]) -> Sheet {
    let mut sheet = Sheet::new("Refused, by reason", &["reason", "n"]);
    for reason in Refusal::ALL {
        let count = judged.iter().flat_map(|(_, learned)| &learned.refused).filter(|one| **one == reason).count();
        if 0 < count {
            sheet.rows.push(vec![Cell::text(reason.as_str()), Cell::Count(count)]);
        }
    }
    sheet
}

fn write_misses(out: &Path, judged: &[(&Utterance, Learned)]) -> anyhow::Result<()> {
    let file = std::fs::File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let mut file = BufWriter::new(file);
    for (one, learned) in judged {
        if let Some(miss) = Miss::of(one, &learned.facts) {
            writeln!(file, "{}", serde_json::to_string(&miss)?)?;
        }
    }
    Ok(file.flush()?)
}
