//! `recalld bench recall-speed`: what recall costs, and how that grows with what there is to search.

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;

use super::chats::Said;
use super::sheet::{Cell, Sheet};
use super::stage::{Kind, Stage, Told, VectorArgs};
use super::{progress, title};
use crate::cli::bench::chatter::{Chatter, SESSION_TURNS};
use crate::cli::bench::spent::of_process;
use crate::id::SessionId;
use crate::memory::Memory;
use crate::message::{Message, Role};
use crate::model::embed::Embedder;
use crate::recall::{Ask, WeightTable};
use crate::session::AddedMessage;

/// Flags of `bench recall-speed`.
#[derive(Debug, Args)]
pub(crate) struct SpeedArgs {
    /// How many messages a user has, in each round.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000", value_name = "N,N,N")]
    messages: Vec<usize>,
    /// Questions in each round.
    #[arg(long, default_value_t = 500, value_name = "N")]
    questions: usize,
    /// Tokens that what is found is packed into.
    #[arg(long, default_value_t = 1_000, value_name = "TOKENS")]
    budget: usize,
    /// The kind of chat.
    #[arg(long, value_enum, default_value = "auto")]
    profile: Kind,
    #[command(flatten)]
    vectors: VectorArgs,
}

/// What is measured of one size.
struct Measured {
    messages: usize,
    cold_load: Duration,
    ready: Duration,
    wall: Times,
    cpu: Duration,
    after_append: Times,
    append: Times,
    bytes_each: f64,
}

/// Loads of a scope of which the fastest counts.
const LOADS: usize = 5;
/// Turns that are appended.
const APPENDS: usize = 50;
/// Texts the embedder is timed with.
const TEXTS: usize = 2_000;

pub(crate) async fn run(args: &SpeedArgs) -> anyhow::Result<Vec<Sheet>> {
    ensure!(args.messages.iter().all(|count| *count >= 100), "a round needs a hundred messages");
    ensure!(args.questions > 0, "a round needs a question");
    let mut rounds = Vec::new();
    let mut by = String::new();
    let mut embedding = Duration::ZERO;
    for count in &args.messages {
        // A store for each size: users do not share their costs, and neither do rounds.
        let stage = Stage::open(&args.vectors).await?;
        by = stage.vectors_by();
        embedding = embedder_time(stage.embedder()).await?;
        rounds.push(round(args, &stage, *count).await?);
    }
    let what = format!("{by}, profile {}, packed into {} tokens", args.profile.as_str(), args.budget);
    Ok(vec![sheet(title("Recall speed", &what), &rounds, embedding)])
}

async fn round(args: &SpeedArgs, stage: &Stage, count: usize) -> anyhow::Result<Measured> {
    let memory = stage.memory(WeightTable::shipped());
    let mut chatter = Chatter::new(count as u64);
    let chat = chat(&mut chatter, count);
    let told = fill(stage, &memory, &chat).await?;
    let questions = questions(args.questions, &chat, &mut chatter);
    let (cold_load, ready) = cold_load(&memory, &told).await?;
    let (bytes, held) = memory.recall_desk().index_size(&told.scope).await?;
    let asking = Asking { args, memory: &memory, told: &told };
    // The first questions warm everything up.
    asking.ask_all(&questions[..questions.len().min(50)]).await?;
    let started = of_process();
    let wall = asking.ask_all(&questions).await?;
    let cpu = of_process().saturating_sub(started) / questions.len() as u32;
    let (append, after_append) = asking.appending(stage, &mut chatter, &questions).await?;
    let bytes_each = bytes as f64 / held as f64;
    Ok(Measured { messages: held, cold_load, ready, wall, cpu, after_append, append, bytes_each })
}

/// A user's chats: sessions of turns, each a message and its reply.
fn chat(chatter: &mut Chatter, count: usize) -> Vec<Said> {
    let said = |n: usize| {
        let (role, text) =
            if n.is_multiple_of(2) { (Role::User, chatter.message()) } else { (Role::Assistant, chatter.reply()) };
        let session = (n / (2 * SESSION_TURNS)).to_string();
        Said { id: n.to_string(), session, role, name: None, text, at: None }
    };
    (0..count).map(said).collect()
}

async fn fill(stage: &Stage, memory: &Memory, chat: &[Said]) -> anyhow::Result<Told> {
    let bar = progress("filling", "messages", chat.len())?;
    let told = stage.tell_showing(memory, "somebody", chat, &bar).await?;
    bar.finish_and_clear();
    Ok(told)
}

fn questions(count: usize, chat: &[Said], chatter: &mut Chatter) -> Vec<String> {
    let mut question = || {
        let turn = chatter.below(chat.len() as u64 / 2) as usize;
        chatter.question(&chat[2 * turn].text)
    };
    (0..count).map(|_| question()).collect()
}

/// The index of a scope is let go and read again, and what its questions will need is got ready. How long both take.
async fn cold_load(memory: &Memory, told: &Told) -> anyhow::Result<(Duration, Duration)> {
    let (desk, mut fastest, mut ready) = (memory.recall_desk(), Duration::MAX, Duration::MAX);
    for _ in 0..LOADS {
        desk.let_go(&told.scope);
        let started = Instant::now();
        desk.index_size(&told.scope).await?;
        let loaded = started.elapsed();
        desk.warm_up(&told.scope).await?;
        ready = ready.min(started.elapsed() - loaded);
        fastest = fastest.min(loaded);
    }
    Ok((fastest, ready))
}

struct Asking<'a> {
    args: &'a SpeedArgs,
    memory: &'a Memory,
    told: &'a Told,
}

impl Asking<'_> {
    async fn ask(&self, question: &str) -> anyhow::Result<Duration> {
        let ask = Ask {
            question: question.to_owned(),
            tokens_max: self.args.budget,
            profile: self.args.profile.profile(),
            ..Ask::default()
        };
        let started = Instant::now();
        let recalled = self.memory.recall(&self.told.scope, &ask).await?;
        let took = started.elapsed();
        ensure!(!recalled.ranked.is_empty(), "nothing was found");
        Ok(took)
    }

    async fn ask_all(&self, questions: &[String]) -> anyhow::Result<Times> {
        let mut times = Vec::with_capacity(questions.len());
        for question in questions {
            times.push(self.ask(question).await?);
        }
        Ok(Times::sorted(times))
    }

    /// Turns are added, each followed by a question: how long adding takes, and how long that question.
    async fn appending(
        &self,
        stage: &Stage,
        chatter: &mut Chatter,
        questions: &[String],
    ) -> anyhow::Result<(Times, Times)> {
        let session = *self.told.sessions.values().next().expect("there are sessions");
        let (mut adding, mut asking) = (Vec::new(), Vec::new());
        for question in questions.iter().cycle().take(APPENDS) {
            adding.push(self.append(session, chatter).await?);
            asking.push(self.ask(question).await?);
        }
        stage.settle(self.memory).await?;
        Ok((Times::sorted(adding), Times::sorted(asking)))
    }

    async fn append(&self, session: SessionId, chatter: &mut Chatter) -> anyhow::Result<Duration> {
        let now = jiff::Timestamp::now();
        let said = |role, text: String| AddedMessage { message: Message::new(role, text, now), dated: false };
        let turn = vec![said(Role::User, chatter.message()), said(Role::Assistant, chatter.reply())];
        let started = Instant::now();
        self.memory.add_messages(&self.told.scope, session, turn).await?;
        Ok(started.elapsed())
    }
}

/// The time of one text.
async fn embedder_time(embedder: &dyn Embedder) -> anyhow::Result<Duration> {
    let mut chatter = Chatter::new(1);
    let texts: Vec<String> = (0..TEXTS).map(|_| chatter.message()).collect();
    let started = Instant::now();
    if texts.iter().any(|text| embedder.at_once(text).is_none()) {
        embedder.embed(&texts).await?;
    }
    Ok(started.elapsed() / TEXTS as u32)
}

/// Times in order.
struct Times(Vec<Duration>);

impl Times {
    fn sorted(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn at(&self, share: f64) -> Duration {
        self.0[((self.0.len() as f64 * share) as usize).min(self.0.len() - 1)]
    }
}

type Reading = fn(&Measured) -> f64;

/// What is shown: a name, its number, the digits behind the point, and what was promised.
const ROWS: [(&str, Reading, usize, &str); 9] = [
    ("recall, wall p50, ms", |m| ms(m.wall.at(0.5)), 3, ""),
    ("recall, wall p99, ms", |m| ms(m.wall.at(0.99)), 3, ""),
    ("recall, CPU of the process, ms", |m| ms(m.cpu), 3, "0.5 at 10k, 3 at 100k"),
    ("cold load of the scope, ms", |m| ms(m.cold_load), 1, "50 at 10k"),
    ("until texts and words are ready beside everything else, ms", |m| ms(m.ready), 1, ""),
    ("index, bytes a message", |m| m.bytes_each, 0, ""),
    ("index, MB", |m| m.bytes_each * m.messages as f64 / 1e6, 1, ""),
    ("adding a turn, p50, ms", |m| ms(m.append.at(0.5)), 3, ""),
    ("recall right after a turn was added, p50, ms", |m| ms(m.after_append.at(0.5)), 3, ""),
];

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn sheet(title: String, rounds: &[Measured], embedding: Duration) -> Sheet {
    let mut sheet = Sheet::new(title, &["what"]);
    sheet.head.extend(rounds.iter().map(|round| format!("{} messages", round.messages)));
    sheet.head.extend(["growth".to_owned(), "must".to_owned()]);
    let most = |of: Reading| rounds.last().map_or(0.0, of) / rounds.first().map_or(1.0, of);
    for (name, reading, digits, must) in ROWS {
        let mut row = vec![Cell::text(name)];
        row.extend(rounds.iter().map(|round| Cell::Number(reading(round), digits)));
        row.push(Cell::text(format!("{:.1} ×", most(reading))));
        row.push(if must.is_empty() { Cell::Nothing } else { Cell::text(must) });
        sheet.rows.push(row);
    }
    let mut row = vec![Cell::text("embedder, µs a text")];
    row.extend(rounds.iter().map(|_| Cell::Number(embedding.as_secs_f64() * 1e6, 1)));
    row.extend([Cell::Nothing, Cell::Nothing]);
    sheet.rows.push(row);
    sheet
}
