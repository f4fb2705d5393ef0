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
    /// How many turns the conversation has, in each round.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000", value_name = "N,N")]
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
/// Digest is timed over the last turns.
const TIMED: usize = 500;

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
    ensure!(args.turns.iter().all(|turns| *turns >= TIMED), "a round needs {TIMED} turns");
    ensure!(args.questions > 0, "a round needs a question");
    let (mut rounds, mut by) = (Vec::new(), String::new());
    for turns in &args.turns {
        let stage = Stage::open(&args.vectors).await?;
        by = stage.vectors_by();
        rounds.push(round(args, &stage, *turns).await?);
    }
    Ok(vec![sheet(title("A long conversation", &by), &rounds)])
}

async fn round(args: &LongArgs, stage: &Stage, turns: usize) -> anyhow::Result<Measured> {
    let model = Arc::new(Counting::default());
    let memory = stage.memory_with_model(Arc::clone(&model) as _);
    let scope = Scope::new(Tenant::default(), User::anonymous());
    let session = memory.create_session(&scope, None, SessionSeed::default()).await?.id;
    let talk = Talk { stage, memory: &memory, scope: &scope, session };
    let mut chatter = Chatter::new(turns as u64);
    let (said, digest) = talk.fill(&mut chatter, turns).await?;
    let mut about = || said[chatter.below(said.len() as u64) as usize].clone();
    let asked: Vec<String> = (0..args.questions).map(|_| about()).collect();
    let mut chatter = Chatter::new(1);
    let questions: Vec<String> = asked.iter().map(|about| chatter.question(about)).collect();
    // The first questions warm everything up.
    talk.ask_all(&questions[..questions.len().min(20)]).await?;
    model.start_again();
    let (recall, recalled) = talk.ask_all(&questions).await?;
    let episodes = talk.episodes().await?;
    let (bytes, _) = memory.recall_desk().in_memory();
    Ok(Measured { turns, context: model.mean(), recalled, recall, digest, episodes, bytes })
}

/// The conversation.
struct Talk<'a> {
    stage: &'a Stage,
    memory: &'a Memory,
    scope: &'a Scope,
    session: SessionId,
}

impl Talk<'_> {
    /// Talks for so many turns. Answers what the user said, and how long digest took for each of the last turns.
    async fn fill(&self, chatter: &mut Chatter, turns: usize) -> anyhow::Result<(Vec<String>, Duration)> {
        let bar = progress("talking", "turns", turns)?;
        let begun = Timestamp::now() - PAUSE * i32::try_from(turns)?;
        let (mut said, mut digest) = (Vec::with_capacity(turns), Duration::ZERO);
        for n in 0..turns {
            let (query, response) = (chatter.message(), chatter.reply());
            said.push(query.clone());
            let created_at = Some(begun + PAUSE * i32::try_from(n)?);
            let turn = PastTurn { query, response, metadata: Default::default(), created_at };
            self.memory.add_turn(self.scope, self.session, turn).await?;
            if (n + 1) % DIGEST_EVERY == 0 {
                let started = Instant::now();
                self.memory.run_jobs_once().await?;
                digest += if n >= turns - TIMED { started.elapsed() } else { Duration::ZERO };
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        self.stage.settle(self.memory).await?;
        Ok((said, digest / TIMED as u32))
    }

    /// How long recall took for each question, in order, and the mean tokens of what it came to.
    async fn ask_all(&self, questions: &[String]) -> anyhow::Result<(Vec<Duration>, f64)> {
        let (mut times, mut tokens) = (Vec::new(), 0);
        for question in questions {
            let request = TurnRequest { query: question.clone(), session: Some(self.session), ..self.request() };
            let answer = self.memory.take_turn(self.scope, request)?.answer().await?;
            times.push(answer.shown.recall_time);
            tokens += answer.shown.tokens;
            self.memory.run_jobs_once().await?;
            self.stage.settle(self.memory).await?;
        }
        times.sort_unstable();
        Ok((times, tokens as f64 / questions.len() as f64))
    }

    fn request(&self) -> TurnRequest {
        TurnRequest { session: None, seed: SessionSeed::default(), query: String::new(), role: None, stream: false }
    }

    async fn episodes(&self) -> anyhow::Result<usize> {
        let page = self.memory.episodes(self.scope, None, PageRequest::first(1_000_000)).await?;
        Ok(page.items.len())
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
