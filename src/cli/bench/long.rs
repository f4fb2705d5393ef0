//! `recalld bench long`: a conversation that never ends. Context, recall and digest must not grow with it.
//!
//! Turns are added one by one, three minutes apart, and digested as a server would. Then questions are asked in the
//! same conversation through the path that `/chat` takes, of a model that counts what it is shown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};

use super::chatter::Chatter;
use super::recall::sheet::{Cell, Sheet};
use super::recall::stage::{Stage, VectorArgs};
use super::recall::{progress, title};
use crate::id::SessionId;
use crate::memory::Memory;
use crate::model::{ChatModel, Ending, ModelFuture, Piece, Pieces, Prompt};
use crate::review::PastTurn;
use crate::scope::{Scope, Tenant, User};
use crate::session::SessionSeed;
use crate::store::PageRequest;
use crate::tokens;
use crate::turn::TurnRequest;

/// Flags of `bench long`.
#[derive(Debug, Args)]
pub(super) struct LongArgs {
    /// How many turns the conversation has after the last question, in each round.
    #[arg(long, value_delimiter = ',', default_value = "1000,3000,10000", value_name = "N,N")]
    turns: Vec<usize>,
    /// Questions in each round.
    #[arg(long, default_value_t = 200, value_name = "N")]
    questions: usize,
    #[command(flatten)]
    vectors: VectorArgs,
}

/// Time between two turns: an hour has twenty.
const PAUSE: SignedDuration = SignedDuration::from_mins(3);
/// How often the jobs are run, in turns.
const DIGEST_EVERY: usize = 10;
/// Digest is timed over the last turns, a whole number of times that jobs are run.
const TIMED: usize = 500;

/// The first questions warm everything up.
const WARMING: usize = 20;

/// What is measured of one length.
struct Measured {
    turns: usize,
    context: f64,
    recalled: f64,
    recall: Vec<Duration>,
    digest: Duration,
    episodes: usize,
    bytes: usize,
}

pub(super) async fn run(args: &LongArgs) -> anyhow::Result<Vec<Sheet>> {
    let least = TIMED + WARMING + args.questions;
    ensure!(args.turns.iter().all(|turns| *turns >= least), "a round needs {least} turns: questions are turns, too");
    ensure!(args.questions > 0, "a round needs a question");
    let mut talks = Vec::new();
    for turns in &args.turns {
        talks.push(Talk::of(args, *turns).await?);
    }
    // All lengths in turn, so that a noisy moment hits all.
    for _ in 0..TIMED / DIGEST_EVERY {
        for talk in &mut talks {
            let took = talk.go_on().await?;
            talk.digest += took;
        }
    }
    for talk in &mut talks {
        talk.think_of_questions(args.questions).await?;
    }
    let mut asked = vec![Asked::default(); talks.len()];
    for talk in &talks {
        for question in talk.questions.iter().take(WARMING) {
            talk.ask(question, &mut Asked::default()).await?;
        }
        talk.model.start_again();
    }
    for n in 0..args.questions {
        for (talk, asked) in talks.iter().zip(&mut asked) {
            talk.ask(&talk.questions[n], asked).await?;
        }
    }
    let mut rounds = Vec::new();
    for (talk, asked) in talks.iter().zip(asked) {
        rounds.push(talk.measured(asked).await?);
    }
    let by = talks.first().map(|talk| talk.stage.vectors_by()).unwrap_or_default();
    Ok(vec![sheet(title("A long conversation", &by), &rounds)])
}

/// A conversation.
struct Talk {
    stage: Stage,
    memory: Memory,
    model: Arc<Counting>,
    scope: Scope,
    session: SessionId,
    turns: usize,
    /// Turns before the first question.
    unasked: usize,
    chatter: Chatter,
    begun: Timestamp,
    said: Vec<String>,
    /// What the last turns took.
    digest: Duration,
    questions: Vec<String>,
}

/// What came of the questions so far.
#[derive(Clone, Default)]
struct Asked {
    times: Vec<Duration>,
    tokens: usize,
}

impl Talk {
    /// Begins a conversation and talks up to the last turns, which are timed.
    async fn of(args: &LongArgs, turns: usize) -> anyhow::Result<Self> {
        let (stage, model) = (Stage::open(&args.vectors).await?, Arc::new(Counting::default()));
        let memory = stage.memory_with_model(Arc::clone(&model) as _);
        let scope = Scope::new(Tenant::default(), User::anonymous());
        let session = memory.create_session(&scope, None, SessionSeed::default()).await?.id;
        let (digest, questions, said) = (Duration::ZERO, Vec::new(), Vec::with_capacity(turns));
        let (chatter, begun) = (Chatter::new(turns as u64), Timestamp::now() - PAUSE * i32::try_from(turns)?);
        let unasked = turns - WARMING - args.questions;
        let mut talk =
            Self { stage, memory, model, scope, session, turns, unasked, chatter, begun, said, digest, questions };
        let bar = progress("talking", "turns", unasked - TIMED)?;
        while talk.said.len() + TIMED < unasked {
            talk.go_on().await?;
            bar.set_position(talk.said.len() as u64);
        }
        bar.finish_and_clear();
        talk.stage.settle(&talk.memory).await?;
        Ok(talk)
    }

    /// Talks for some turns. Answers how long it took to put them in order.
    async fn go_on(&mut self) -> anyhow::Result<Duration> {
        for _ in 0..DIGEST_EVERY.min(self.unasked - self.said.len()) {
            let (query, response) = (self.chatter.message(), self.chatter.reply());
            let created_at = Some(self.begun + PAUSE * i32::try_from(self.said.len())?);
            self.said.push(query.clone());
            let turn = PastTurn { query, response, metadata: Default::default(), created_at };
            self.memory.add_turn(&self.scope, self.session, turn).await?;
        }
        let started = Instant::now();
        self.memory.run_jobs_once().await?;
        Ok(started.elapsed())
    }

    /// Thinks of questions about what was said, and gets ready for them.
    async fn think_of_questions(&mut self, count: usize) -> anyhow::Result<()> {
        self.stage.settle(&self.memory).await?;
        let (said, mut asking) = (&self.said, Chatter::new(1));
        let mut about = || said[self.chatter.below(said.len() as u64) as usize].as_str();
        self.questions = (0..count).map(|_| asking.question(about())).collect();
        self.memory.recall_desk().warm_up(&self.scope).await?;
        Ok(())
    }

    /// Asks a question, and notes how long recall took and the tokens of what it came to.
    async fn ask(&self, question: &str, asked: &mut Asked) -> anyhow::Result<()> {
        let request = TurnRequest {
            session: Some(self.session),
            seed: SessionSeed::default(),
            query: question.to_owned(),
            role: None,
            stream: false,
            alone: false,
            request: None,
        };
        let answer = self.memory.take_turn(&self.scope, request)?.answer().await?;
        asked.times.push(answer.shown.recall_time);
        asked.tokens += answer.shown.tokens;
        self.memory.run_jobs_once().await?;
        self.stage.settle(&self.memory).await
    }

    async fn measured(&self, mut asked: Asked) -> anyhow::Result<Measured> {
        asked.times.sort_unstable();
        let page = self.memory.episodes(&self.scope, None, PageRequest::first(1_000_000)).await?;
        Ok(Measured {
            turns: self.turns,
            context: self.model.mean(),
            recalled: asked.tokens as f64 / asked.times.len() as f64,
            recall: asked.times,
            digest: self.digest / TIMED as u32,
            episodes: page.items.len(),
            bytes: self.memory.recall_desk().in_memory().0,
        })
    }
}

/// A model that counts what it is shown.
#[derive(Default)]
struct Counting(Mutex<(usize, usize)>);

impl Counting {
    fn start_again(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (0, 0);
    }

    /// Tokens of a prompt.
    fn mean(&self) -> f64 {
        let (prompts, tokens) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens as f64 / prompts.max(1) as f64
    }
}

impl ChatModel for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn ask(&self, prompt: Prompt) -> ModelFuture<'_> {
        let texts = prompt.messages.iter().filter_map(|message| message["content"].as_str());
        let tokens: usize = texts.map(|text| tokens::count(text) + tokens::MESSAGE_OVERHEAD).sum();
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counted = (counted.0 + 1, counted.1 + tokens);
        let pieces = [Ok(Piece::Text("I see.".into())), Ok(Piece::End(Ending::default()))];
        Box::pin(async move { Ok(Box::pin(stream::iter(pieces)) as Pieces) })
    }
}

type Reading = fn(&Measured) -> f64;

/// What is shown: a name, its number, the digits behind the point, and whether it must stay flat.
const ROWS: [(&str, Reading, usize, bool); 8] = [
    ("context of a question, tokens", |m| m.context, 0, true),
    ("of that recalled and told, tokens", |m| m.recalled, 0, true),
    ("recall in a request, p50, ms", |m| ms(at(&m.recall, 0.5)), 2, true),
    ("recall in a request, p99, ms", |m| ms(at(&m.recall, 0.99)), 2, true),
    ("digest, ms a turn", |m| ms(m.digest), 2, true),
    ("summaries", |m| m.episodes as f64, 0, false),
    ("turns to a summary", |m| m.turns as f64 / m.episodes.max(1) as f64, 1, true),
    ("index and summaries in memory, MB", |m| m.bytes as f64 / 1e6, 1, false),
];

fn at(times: &[Duration], share: f64) -> Duration {
    times[((times.len() as f64 * share) as usize).min(times.len() - 1)]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn sheet(title: String, rounds: &[Measured]) -> Sheet {
    let mut sheet = Sheet::new(title, &["what"]);
    sheet.head.extend(rounds.iter().map(|round| format!("{} turns", round.turns)));
    sheet.head.extend(["growth".to_owned(), "wanted".to_owned()]);
    for (name, reading, digits, flat) in ROWS {
        let mut row = vec![Cell::text(name)];
        row.extend(rounds.iter().map(|round| Cell::Number(reading(round), digits)));
        let growth = rounds.last().map_or(0.0, reading) / rounds.first().map_or(1.0, reading);
        row.push(Cell::text(format!("{growth:.2} ×")));
        row.push(if flat { Cell::text("flat") } else { Cell::Nothing });
        sheet.rows.push(row);
    }
    sheet
}
