//! `recalld bench recall`: how much of the evidence is found, and how much of it reaches the model.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::chats::{self, Chat, Question};
use super::score::{METRICS, RANKED_MAX, Tally, score};
use super::sheet::{Cell, Sheet};
use super::stage::{Kind, Stage, Told, VectorArgs, weights};
use super::{progress, title};
use crate::episode::{EpisodeSettings, Window};
use crate::memory::Memory;
use crate::message::Role;
use crate::recall::signals::{KeySignal, ReplySignal};
use crate::recall::{Ask, Profile, Recalled, WeightTable, Weights};

/// Flags of `bench recall`.
#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    /// Chats with questions, as LoCoMo writes them or as `bench/README.md` describes.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the rankings go, a line of JSON for each question.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    vectors: VectorArgs,
    /// The kind of chat.
    #[arg(long, value_enum, default_value = "auto")]
    profile: Kind,
    /// Weights to use [default: those that ship].
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Pack what is found into so many tokens, and count the evidence that is in there.
    #[arg(long, value_name = "TOKENS")]
    budget: Option<usize>,
    /// Summarise everything first, in stretches of so many turns: summaries take part of the context.
    #[arg(long, value_name = "TURNS")]
    summaries: Option<usize>,
    /// Only the first chats.
    #[arg(long, value_name = "N")]
    limit_conversations: Option<usize>,
    /// Beside it: words alone, vectors alone, and both added up without weights.
    #[arg(long)]
    baselines: bool,
}

/// A line of the run file.
#[derive(Serialize)]
struct RunLine<'a> {
    conv: &'a str,
    n: usize,
    ranked: Vec<&'a str>,
}

/// One way to rank, and how it did.
struct System {
    name: &'static str,
    memory: Memory,
    tally: Tally,
    /// Shares of the evidence that were in the context at all and uncut, and the context's tokens.
    packed: Tally<3>,
}

pub(crate) async fn run(args: &RecallArgs) -> anyhow::Result<Vec<Sheet>> {
    let mut chats = chats::read_all(&args.files)?;
    chats.truncate(args.limit_conversations.unwrap_or(usize::MAX));
    let stage = Stage::open(&args.vectors).await?;
    let mut systems = systems(args, &stage, &chats)?;
    let mut out = args.out.as_ref().map(|path| std::fs::File::create(path).map(BufWriter::new)).transpose()?;
    let asked: usize = chats.iter().map(|chat| chat.questions.len()).sum();
    let bar = progress("asking", "questions", asked)?;
    for (n, chat) in chats.iter().enumerate() {
        let told = stage.tell(&systems[0].memory, &format!("chat-{n}"), &chat.messages).await?;
        if args.summaries.is_some() {
            stage.summarise(&systems[0].memory, &told).await?;
        }
        for question in &chat.questions {
            for (at, system) in systems.iter_mut().enumerate() {
                let ranked = system.answer(args, chat, &told, question).await?;
                if let Some(out) = out.as_mut().filter(|_| at == 0) {
                    let ranked = ranked.iter().map(|place| chat.messages[*place].id.as_str()).collect();
                    let line = RunLine { conv: &chat.id, n: question.n, ranked };
                    writeln!(out, "{}", serde_json::to_string(&line)?).context("cannot write the rankings")?;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    out.map(|mut out| out.flush()).transpose().context("cannot write the rankings")?;
    let what = format!("{}, profile {}", stage.vectors_by(), args.profile.as_str());
    Ok(vec![sheet(&systems, title("Recall", &what), args.budget)])
}

/// Ours first, then what it is measured beside.
fn systems(args: &RecallArgs, stage: &Stage, chats: &[Chat]) -> anyhow::Result<Vec<System>> {
    let system = |name, weights| {
        let (tally, packed) = (Tally::default(), Tally::default());
        let window = match args.summaries {
            Some(turns) => Window { at: 1, keep: 0, stretch: turns.max(1) },
            None => EpisodeSettings::default().durable,
        };
        System { name, memory: stage.memory_with_window(weights, window), tally, packed }
    };
    let mut systems = vec![system("recalld", weights(args.weights.as_deref())?)];
    if !args.baselines {
        return Ok(systems);
    }
    let has_replies = chats.iter().flat_map(|chat| &chat.messages).any(|said| said.role == Role::Assistant);
    let (words, similar) = ((KeySignal::Own, 1.0), (KeySignal::Similar, 1.0));
    systems.push(system("BM25 alone", everywhere(&[words], &[])));
    if has_replies {
        systems.push(system("BM25 alone, replies too", everywhere(&[words], &[(ReplySignal::Words, 1.0)])));
    }
    if !args.vectors.no_vectors {
        systems.push(system("vectors alone", everywhere(&[similar], &[])));
        systems.push(system("BM25 + vectors, plain z-score sum", everywhere(&[words, similar], &[])));
    }
    Ok(systems)
}

/// The same weights for every kind of chat.
fn everywhere(keys: &[(KeySignal, f32)], replies: &[(ReplySignal, f32)]) -> Arc<WeightTable> {
    let mut table = (*WeightTable::shipped()).clone();
    for profile in Profile::ALL {
        for with_vectors in [true, false] {
            table.set(profile, with_vectors, Weights { keys: keys.to_vec(), replies: replies.to_vec() });
        }
    }
    Arc::new(table)
}

impl System {
    /// Asks a question, scores the answer, and gives the ranking back.
    async fn answer(
        &mut self,
        args: &RecallArgs,
        chat: &Chat,
        told: &Told,
        question: &Question,
    ) -> anyhow::Result<Vec<usize>> {
        let ask = Ask {
            question: question.text.clone(),
            asked_at: question.asked_at.or(told.last_at),
            tokens_max: args.budget.unwrap_or_default(),
            profile: args.profile.profile(),
            ranked_max: RANKED_MAX,
            ..Ask::default()
        };
        let recalled = self.memory.recall(&told.scope, &ask).await?;
        let evidence = places(chat, &question.evidence);
        let mut ranked = told.places_of(recalled.ranked.iter().map(|ranked| ranked.message));
        ranked.truncate(RANKED_MAX);
        let tokens = |place: usize| chat.messages[place].tokens();
        self.tally.add(question.category.as_deref(), score(&ranked, &evidence, tokens));
        self.packed.add(question.category.as_deref(), packed(&recalled, told, &evidence));
        Ok(ranked)
    }
}

/// Where messages of a chat stand.
pub(crate) fn places(chat: &Chat, ids: &[String]) -> Vec<usize> {
    ids.iter().filter_map(|id| chat.messages.iter().position(|said| said.id == *id)).collect()
}

fn packed(recalled: &Recalled, told: &Told, evidence: &[usize]) -> [f64; 3] {
    let there = told.places_of(recalled.reminders.iter().map(|reminder| reminder.message));
    let uncut = recalled.reminders.iter().filter(|reminder| !reminder.excerpt);
    let uncut = told.places_of(uncut.map(|reminder| reminder.message));
    let share = |places: &[usize]| {
        evidence.iter().filter(|place| places.contains(place)).count() as f64 / evidence.len() as f64
    };
    [share(&there), share(&uncut), recalled.tokens as f64]
}

fn sheet(systems: &[System], title: String, budget: Option<usize>) -> Sheet {
    let mut sheet = Sheet::new(title, &["system", "set", "n"]);
    sheet.head.extend(METRICS.map(str::to_owned));
    if let Some(budget) = budget {
        let in_context = format!("in a context of {budget}");
        sheet.head.extend([in_context, "uncut".into(), "tokens used".into()]);
    }
    for system in systems {
        for (group, packed) in system.tally.groups().into_iter().zip(system.packed.groups()) {
            let mut row = vec![Cell::text(system.name), Cell::text(group.name), Cell::Count(group.questions)];
            row.extend(group.mean.map(Cell::percent));
            if budget.is_some() {
                let [there, uncut, tokens] = packed.mean;
                row.extend([Cell::percent(there), Cell::percent(uncut), Cell::Number(tokens, 0)]);
            }
            sheet.rows.push(row);
        }
    }
    sheet
}
