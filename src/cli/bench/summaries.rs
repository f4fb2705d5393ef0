//! `recalld bench summaries`: how much of what questions are asked about survives in a summary of a twentieth.
//!
//! Sessions are cut into stretches, each stretch is summarised, and the messages that hold answers are looked for: which of
//! their numbers, dates and names are still there. Beside it stand the stretch's beginning and sentences drawn by lot, both
//! in the same number of tokens.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;

use super::recall::chats::{self, Chat, Said as Message};
use super::recall::sheet::{Cell, Sheet};
use super::recall::{progress, title};
use crate::cli::output::note;
use crate::language::{Tongue, is_number_word, is_stop, is_time_word, spans, term, tongue, words};
use crate::model::builtin::summary::{self, Said, SummaryBounds, sentences, summarise};
use crate::tokens;

/// Flags of `bench summaries`.
#[derive(Debug, Args)]
pub(super) struct SummariesArgs {
    /// Chats with questions, in LoCoMo's format or in that of `bench/README.md`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Messages in a stretch, about: a session is cut into equal parts.
    #[arg(long, default_value_t = 20, value_name = "N")]
    messages: usize,
    /// How many times fewer tokens a summary has than its stretch.
    #[arg(long, default_value_t = 20, value_name = "N")]
    ratio: usize,
    /// Show the summaries too, on stderr.
    #[arg(long)]
    show: bool,
}

/// Draws by lot, of which the mean is shown.
const DRAWS: u64 = 25;

pub(super) fn run(args: &SummariesArgs) -> anyhow::Result<Vec<Sheet>> {
    ensure!(args.messages > 0 && args.ratio > 0, "a stretch needs a message, and a summary some of it");
    let chats = chats::read_all(&args.files)?;
    let stretches: Vec<Stretch<'_>> = chats.iter().flat_map(|chat| stretches(chat, args.messages)).collect();
    let bar = progress("summarising", "stretches", stretches.len())?;
    // The tokenizer unfolds its tables once; that is no part of a summary.
    tokens::count("warm");
    let mut measured = Measured::default();
    for stretch in &stretches {
        measured.add(stretch, args);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(vec![sheet(args, &stretches, &measured)])
}

/// What summaries kept, and what took their place beside them.
#[derive(Default)]
struct Measured {
    ours: Kept,
    lead: Kept,
    lot: Kept,
    took: Duration,
}

impl Measured {
    fn add(&mut self, stretch: &Stretch<'_>, args: &SummariesArgs) {
        let budget = stretch.tokens() / args.ratio;
        let started = Instant::now();
        let summary = summarise(&stretch.said, SummaryBounds { tokens_max: budget });
        self.took += started.elapsed();
        let text = summary.text();
        if args.show {
            note(format!("{text}\n"));
        }
        self.ours.add(&stretch.kept(&text, 1.0));
        self.lead.add(&stretch.kept(&stretch.beginning(budget), 1.0));
        for seed in 0..DRAWS {
            self.lot.add(&stretch.kept(&stretch.drawn(budget, seed), 1.0 / DRAWS as f64));
        }
    }
}

fn sheet(args: &SummariesArgs, stretches: &[Stretch<'_>], measured: &Measured) -> Sheet {
    let sum = |of: fn(&Stretch<'_>) -> usize| stretches.iter().map(of).sum::<usize>();
    let how = format!(
        "{} stretches of about {} messages at {}:1, {} messages with answers, {:.0} messages a second",
        stretches.len(),
        args.messages,
        args.ratio,
        sum(|stretch| stretch.evidence.len()),
        sum(|stretch| stretch.said.len()) as f64 / measured.took.as_secs_f64()
    );
    let head = ["summary", "numbers", "dates", "names", "all three", "words", "tokens"];
    let mut sheet = Sheet::new(title("Kept in summaries, %", &how), &head);
    let rows = [(summary::NAME, measured.ours), ("beginning", measured.lead), ("sentences by lot", measured.lot)];
    for (name, kept) in rows {
        let mut row = vec![Cell::text(name)];
        row.extend(
            [kept.of(&[0]), kept.of(&[1]), kept.of(&[2]), kept.of(&[0, 1, 2]), kept.of(&[3])].map(Cell::percent),
        );
        row.push(Cell::Number(kept.tokens / stretches.len().max(1) as f64, 1));
        sheet.rows.push(row);
    }
    sheet
}

/// A part of a session, and its messages that hold answers.
struct Stretch<'a> {
    said: Vec<Said<'a>>,
    evidence: Vec<Stated>,
}

/// What a message states: numbers, dates, names, and any words that are not common.
type Stated = [BTreeSet<String>; 4];

fn stretches(chat: &Chat, count: usize) -> Vec<Stretch<'_>> {
    let cited: HashSet<&str> = chat.questions.iter().flat_map(|asked| &asked.evidence).map(String::as_str).collect();
    let people: HashSet<String> =
        chat.messages.iter().flat_map(|said| words(said.speaker())).map(|word| word.into_owned()).collect();
    let evidence = |part: &[Message]| -> Vec<Stated> {
        let cited = part.iter().filter(|said| cited.contains(said.id.as_str()));
        cited.map(|said| stated(&said.text, &people)).collect()
    };
    let sessions = chat.messages.chunk_by(|one, next| one.session == next.session);
    let parts = sessions.flat_map(|session| parts(session, count));
    parts.map(|part| Stretch { said: part.iter().map(said).collect(), evidence: evidence(part) }).collect()
}

fn said(message: &Message) -> Said<'_> {
    Said { speaker: message.speaker(), text: &message.text, at: message.at }
}

/// Parts of about that many messages: the nearest whole number of equal ones.
fn parts(session: &[Message], count: usize) -> impl Iterator<Item = &[Message]> {
    let parts = ((session.len() as f64 / count as f64).round() as usize).max(1);
    session.chunks(session.len().div_ceil(parts).max(1))
}

fn stated(text: &str, people: &HashSet<String>) -> Stated {
    let mut stated = Stated::default();
    let tongue = tongue(text, Tongue::default());
    for word in spans(text) {
        let plain = word.as_ref();
        let capital = text[word.at.clone()].starts_with(char::is_uppercase);
        let inside =
            text[..word.at.start].trim_end().chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == ',');
        if plain.contains(char::is_numeric) || is_number_word(plain, tongue) {
            stated[0].insert(plain.to_owned());
        } else if is_time_word(plain, tongue) {
            stated[1].insert(plain.to_owned());
        } else if !is_stop(plain, tongue) && !people.contains(plain) {
            if capital && inside {
                stated[2].insert(plain.to_owned());
            }
            stated[3].insert(term(plain, tongue));
        }
    }
    stated
}

impl Stretch<'_> {
    /// The tokens of the whole, as a transcript.
    fn tokens(&self) -> usize {
        self.said.iter().map(|said| tokens::count(&format!("{}: {}\n", said.speaker, said.text))).sum()
    }

    /// What of the evidence is in a summary.
    fn kept(&self, summary: &str, share: f64) -> Kept {
        let tongue = tongue(summary, Tongue::default());
        let there: HashSet<String> = words(summary).map(|word| word.into_owned()).collect();
        let terms: HashSet<String> = there.iter().map(|word| term(word, tongue)).collect();
        let mut kept = Kept { tokens: share * tokens::count(summary) as f64, ..Kept::default() };
        for stated in &self.evidence {
            for (at, words) in stated.iter().enumerate() {
                let found =
                    words.iter().filter(|word| if at == 3 { terms.contains(*word) } else { there.contains(*word) });
                kept.found[at] += share * found.count() as f64;
                kept.all[at] += share * words.len() as f64;
            }
        }
        kept
    }

    /// The first words of the transcript.
    fn beginning(&self, budget: usize) -> String {
        let mut text = String::new();
        for said in &self.said {
            for (at, word) in said.text.split_whitespace().enumerate() {
                let next = if at == 0 { format!("{text}{}: {word}", said.speaker) } else { format!("{text} {word}") };
                if tokens::count(&next) > budget {
                    return text;
                }
                text = next;
            }
            text.push('\n');
        }
        text
    }

    /// Sentences drawn by lot, each with its speaker, as long as another fits.
    fn drawn(&self, budget: usize, seed: u64) -> String {
        let all = self
            .said
            .iter()
            .flat_map(|said| sentences(said.text).into_iter().map(|piece| (said.speaker, &said.text[piece.at])));
        let mut all: Vec<String> = all.map(|(speaker, sentence)| format!("{speaker}: {sentence}\n")).collect();
        let mut text = String::new();
        let mut state = seed;
        while !all.is_empty() {
            let next = all.swap_remove((mixed(&mut state) % all.len() as u64) as usize);
            if tokens::count(&text) + tokens::count(&next) <= budget {
                text.push_str(&next);
            }
        }
        text
    }
}

/// SplitMix64.
fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How much was kept of how much, by kind.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    found: [f64; 4],
    all: [f64; 4],
    tokens: f64,
}

impl Kept {
    fn add(&mut self, other: &Kept) {
        for at in 0..4 {
            self.found[at] += other.found[at];
            self.all[at] += other.all[at];
        }
        self.tokens += other.tokens;
    }

    fn of(&self, kinds: &[usize]) -> f64 {
        let sum = |counts: &[f64; 4]| kinds.iter().map(|kind| counts[*kind]).sum::<f64>();
        sum(&self.found) / sum(&self.all).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_states_is_seen_without_the_summariser() {
        let people = HashSet::from(["ann".to_owned()]);
        let stated = stated("Hi Ann! I met Bob, and two friends, in Porto on 3 May. Then home.", &people);
        let shown = |at: usize| stated[at].iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!([shown(0), shown(1), shown(2)], ["3 two", "may", "bob porto"]);
    }

    #[test]
    fn a_run_fills_the_table() {
        let file = PathBuf::from("bench/chats/11-job-search.json");
        let args = SummariesArgs { files: vec![file], messages: 20, ratio: 20, show: false };
        let sheets = run(&args).expect("a table");
        let [Cell::Text(name), .., Cell::Number(tokens, _)] = &sheets[0].rows[0][..] else { panic!("a row") };
        assert_eq!(name, summary::NAME);
        assert!(*tokens > 10.0);
    }
}
