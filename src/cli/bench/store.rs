//! `recalld bench store`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::bare::Bare;
use super::process::Server;
use super::recall::stage::parts;
use super::table::{Row, Table, machine};
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds, SessionId, TopicId};
use crate::memory::{Memory, MemorySettings};
use crate::message::{Message, Role};
use crate::model::embed::Builtin;
use crate::recall::TopicDesk;
use crate::scope::{Scope, Tenant, User};
use crate::session::{ClosedTurn, InTopic, OpenTurn, SessionSeed, TurnDraft, TurnStatus};
use crate::store::{Moment, Sqlite, Store, Waiting, WaitingBounds};

/// Flags of `bench store`.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// How long each writing measurement lasts.
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
    /// How many messages are stored before reading is measured.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    messages: usize,
    /// Where to work; the folder needs about 1 GB for a million messages and is emptied afterwards.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Measure a PostgreSQL instead, in tables of its own that go afterwards; the address as in `database_url`.
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// With `--url`: let so many turns expire while others chat, instead of everything else.
    #[arg(long, value_name = "N", requires = "url")]
    pub(super) expire: Option<usize>,
}

impl StoreArgs {
    /// How long each writing measurement lasts.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "asked by the measurements of PostgreSQL"))]
    pub(super) fn lasting(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// How many messages are stored before reading is measured.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "likewise"))]
    pub(super) fn messages(&self) -> usize {
        self.messages
    }
}

pub(super) const WRITERS: usize = 64;
pub(super) const SESSION_TURNS: usize = 100;
/// A batch of the filling; large, because filling is not what is measured.
const FILL_BATCH: usize = 1_000;
pub(super) const READS: usize = 20_000;
/// Topics that a question is placed among, turns in each before that, and how often it is measured.
const TOPICS: usize = 20;
const TOPIC_TURNS: usize = 5;
const PLACINGS: usize = 200;

type Tested = Waiting<Sqlite>;

/// Measures everything and answers the table.
pub(super) async fn run(args: &StoreArgs) -> anyhow::Result<Table> {
    if let Some(url) = &args.url {
        return super::postgres::run(args, url).await;
    }
    let folder =
        args.folder.clone().unwrap_or_else(std::env::temp_dir).join(format!("recalld-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let measured = measure(args, &folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

async fn measure(args: &StoreArgs, folder: &Path) -> anyhow::Result<Table> {
    let mut table = Table { machine: machine(), rows: Vec::new() };
    for writers in [1, WRITERS] {
        table.rows.push(writing(folder, writers, Duration::from_secs_f64(args.seconds)).await?);
    }
    table.rows.push(super::wrapper::row(folder).await?);
    let filled = folder.join("filled.db");
    let sessions = fill(&filled, args.messages, SESSION_TURNS, same).await?;
    table.rows.push(placing(folder).await?);
    table.rows.push(reading(&filled, &sessions, args.messages).await?);
    table.rows.extend(starting(folder, &filled, args.messages).await?);
    Ok(table)
}

/// Turns a second: ours and the bare statements in alternating slices, so that a noisy moment hits both.
async fn writing(folder: &Path, writers: usize, lasting: Duration) -> anyhow::Result<Row> {
    const SLICES: u32 = 4;
    let store = open(&folder.join(format!("ours-{writers}.db")))?;
    let mut bare = Bare::open(&folder.join(format!("bare-{writers}.db")))?;
    let (mut ours, mut theirs) = (0.0, 0.0);
    for _ in 0..SLICES {
        ours += turns_per_second(&store, writers, |_| scope(), lasting / SLICES).await?;
        theirs += bare.turns_per_second(writers, QUESTION, ANSWER, lasting / SLICES)?;
    }
    let (ours, theirs) = (ours / f64::from(SLICES), theirs / f64::from(SLICES));
    let bounds = (writers == WRITERS).then_some(("0.5 ×", "0.8 ×"));
    Ok(Row {
        what: format!(
            "durable turns a second (two commits each), {writers} writer{}",
            if writers == 1 { "" } else { "s" }
        ),
        measured: format!("{ours:.0}"),
        beside: Some(format!("{theirs:.0} (same statements, bare rusqlite)")),
        ratio: Some(ours / theirs),
        must: bounds.map(|(must, _)| must.to_owned()),
        goal: bounds.map(|(_, goal)| goal.to_owned()),
    })
}

pub(super) const QUESTION: &str =
    "What did we decide about the fall protection for the crane on the north side of the yard?";
pub(super) const ANSWER: &str = "You decided on two anchor points with a horizontal lifeline, to be inspected every six months by \
    an outside firm; the first inspection is planned for the second week of March. The harnesses are ordered in three \
    sizes, and the training for the new colleagues takes place in the week before.";

fn open(path: &Path) -> anyhow::Result<Arc<Tested>> {
    let clock = Arc::new(SystemClock::default());
    let sqlite = Arc::new(Sqlite::open(path, clock.clone())?);
    Ok(Arc::new(Waiting::new(sqlite, clock, WaitingBounds { turns_max: 1_000, bytes_max: 1 << 26 })))
}

pub(super) fn scope() -> Scope {
    Scope::new(Tenant::default(), User::anonymous())
}

/// Opens and closes turns for a while, each writer in a session of its own; answers turns a second.
pub(super) async fn turns_per_second<S: Store>(
    store: &Arc<S>,
    writers: usize,
    whose: fn(usize) -> Scope,
    lasting: Duration,
) -> anyhow::Result<f64> {
    let turns = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (store, turns) = (Arc::clone(store), Arc::clone(&turns));
        tasks.spawn(async move {
            let (scope, session) = (whose(writer), RandomIds.session());
            // As in a chat: the first turn begins a topic, the others join it.
            let mut topic = InTopic { id: RandomIds.topic(Timestamp::now()), begins: Some(QUESTION.to_owned()) };
            while started.elapsed() < lasting {
                one_turn(&*store, &scope, session, topic.clone()).await?;
                topic.begins = None;
                turns.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, crate::store::StoreError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a writer panicked")??;
    }
    Ok(turns.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
}

/// A turn as users get it: a question on disk, an answer on disk.
pub(super) async fn one_turn(
    store: &dyn Store,
    scope: &Scope,
    session: SessionId,
    topic: InTopic,
) -> Result<(), crate::store::StoreError> {
    let now = Timestamp::now();
    let id = RandomIds.turn(now);
    let question = Message::new(Role::User, QUESTION, now);
    let open = OpenTurn {
        id,
        session,
        seed: SessionSeed::default(),
        question,
        metadata: Default::default(),
        asked_at: None,
        place: Default::default(),
    };
    store.open_turn(scope, open).await?;
    let messages = vec![Message::new(Role::Assistant, ANSWER, Timestamp::now())];
    let closed = ClosedTurn {
        id,
        session,
        status: TurnStatus::Complete,
        messages,
        metadata: Default::default(),
        attempt: 0,
        others: Vec::new(),
        trace: None,
        topic: Some(topic),
        waits_since: None,
    };
    store.close_turn(scope, closed).await.map(drop)
}

/// Fills a file with so many messages, in sessions of so many turns; answers the sessions. `said` makes a question
/// and its answer.
pub(super) async fn fill(
    path: &Path,
    messages: usize,
    session_turns: usize,
    mut said: impl FnMut(usize) -> (String, String),
) -> anyhow::Result<Vec<SessionId>> {
    let store = open(path)?;
    let sessions = fill_store(&store, messages, session_turns, &mut said).await?;
    store.close().await?;
    Ok(sessions)
}

/// The same for a store of any kind.
pub(super) async fn fill_store<S: Store>(
    store: &Arc<S>,
    messages: usize,
    session_turns: usize,
    said: &mut impl FnMut(usize) -> (String, String),
) -> anyhow::Result<Vec<SessionId>> {
    let turns = messages / 2;
    let style = ProgressStyle::with_template("filling {bar:40} {human_pos} of {human_len} turns, {eta} left")?;
    let progress = ProgressBar::new(turns as u64).with_style(style);
    let sessions: Vec<SessionId> = (0..turns.div_ceil(session_turns)).map(|_| RandomIds.session()).collect();
    let mut filling = JoinSet::new();
    for session in sessions.clone() {
        let store = Arc::clone(store);
        let drafts = (0..session_turns).map(|n| draft(said(n))).collect();
        filling.spawn(async move { store.add_turns(&scope(), session, Some(SessionSeed::default()), drafts).await });
        if filling.len() * session_turns >= FILL_BATCH {
            filling.join_next().await.context("nothing to wait for")???;
        }
        progress.inc(session_turns as u64);
    }
    while let Some(done) = filling.join_next().await {
        done??;
    }
    progress.finish_and_clear();
    Ok(sessions)
}

/// Puts the turns of a file in order, as a server does in its first minutes.
pub(super) async fn settle(path: &Path) -> anyhow::Result<()> {
    let store = open(path)?;
    let parts =
        parts(Arc::clone(&store) as Arc<dyn Store>, Arc::new(SystemClock::default()), Arc::new(Builtin::default()));
    let memory = Memory::new(parts, MemorySettings::default());
    memory.check_rows().await?;
    while !memory.derive_rows().await?.is_nothing() {}
    memory.check_topics().await?;
    while !memory.tend_topics().await?.is_nothing() {}
    while memory.learn_facts().await? > 0 {}
    memory.run_jobs_once().await?;
    while memory.pack_blocks().await? > 0 {}
    store.close().await?;
    Ok(())
}

/// The same question and answer each time, but for a number.
pub(super) fn same(n: usize) -> (String, String) {
    (format!("{QUESTION} ({n})"), format!("{ANSWER} ({n})"))
}

pub(super) fn draft((question, answer): (String, String)) -> TurnDraft {
    let now = Timestamp::now();
    let messages = vec![Message::new(Role::User, question, now), Message::new(Role::Assistant, answer, now)];
    TurnDraft { id: RandomIds.turn(now), messages, metadata: Default::default(), created_at: None }
}

/// Finding the topic of a question, warm and where nobody took in the turns of a topic so far.
async fn placing(folder: &Path) -> anyhow::Result<Row> {
    let store = open(&folder.join("topics.db"))?;
    let desk = TopicDesk::new(Arc::clone(&store) as _, Arc::new(Builtin::default()));
    let (session, topics) = (RandomIds.session(), (0..TOPICS).map(|_| RandomIds.topic(Timestamp::now())));
    let topics: Vec<TopicId> = topics.collect();
    for id in topics.iter().cycle().take(TOPICS * TOPIC_TURNS) {
        one_turn(&*store, &scope(), session, InTopic { id: *id, begins: Some(QUESTION.to_owned()) }).await?;
    }
    let (mut warm, mut changed) = (Vec::new(), Vec::new());
    for n in 0..PLACINGS {
        let at = Moment { session, before: None };
        for times in [&mut changed, &mut warm] {
            let started = Instant::now();
            desk.place(&scope(), at, QUESTION, || topics[0]).await?;
            times.push(started.elapsed());
        }
        one_turn(&*store, &scope(), session, InTopic { id: topics[n % TOPICS], begins: None }).await?;
    }
    let p50 = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    Ok(Row {
        what: format!(
            "placing a question among {TOPICS} topics, warm, p50 (with fifteen new turns of one to take in, which is done beside requests)"
        ),
        measured: format!("{:.0} µs ({:.0} µs)", p50(&mut warm), p50(&mut changed)),
        beside: None,
        ratio: None,
        must: None,
        goal: None,
    })
}

/// The last ten messages of sessions all over the file, one after the other, warm.
async fn reading(path: &Path, sessions: &[SessionId], messages: usize) -> anyhow::Result<Row> {
    let store = open(path)?;
    let mut times = Vec::with_capacity(READS);
    for n in 0..2 * READS {
        let session = sessions[n * 7_919 % sessions.len()];
        let started = Instant::now();
        let recent = store.last_turns(&scope(), session, 10).await?;
        let took = started.elapsed();
        anyhow::ensure!(recent.turns.len() >= 5, "a session came back short");
        if n >= READS {
            times.push(took);
        }
    }
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    Ok(Row {
        what: format!("last 10 messages, warm, {} stored, p50 (p99)", in_words(messages)),
        measured: format!("{:.0} µs ({:.0} µs)", at(0.5), at(0.99)),
        beside: None,
        ratio: None,
        must: Some("50 µs".into()),
        goal: Some("30 µs".into()),
    })
}

/// Start to ready on an empty and on the filled file, and what the process weighs when idle.
async fn starting(folder: &Path, filled: &Path, messages: usize) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (what, path) in [("an empty file", folder.join("empty.db")), ("the full file", filled.to_owned())] {
        let (mut ready, mut resident) = (Duration::MAX, 0);
        for _ in 0..3 {
            let server = Server::start(&path).await?;
            ready = ready.min(server.ready_after);
            tokio::time::sleep(Duration::from_millis(500)).await;
            resident = resident.max(server.resident_bytes()?);
        }
        let what = if path == filled { format!("{what} ({} messages)", in_words(messages)) } else { what.to_owned() };
        let row = |what: String, measured: String, must: &str, goal: &str| {
            let (must, goal) = (Some(must.to_owned()), Some(goal.to_owned()));
            Row { what, measured, beside: None, ratio: None, must, goal }
        };
        rows.push(row(format!("start to ready, {what}"), format!("{} ms", ready.as_millis()), "200 ms", "50 ms"));
        let megabytes = resident as f64 / 1e6;
        rows.push(row(format!("idle memory (RSS), {what}"), format!("{megabytes:.0} MB"), "60 MB", "40 MB"));
    }
    Ok(rows)
}

pub(super) fn in_words(messages: usize) -> String {
    match messages {
        0..1_000 => messages.to_string(),
        1_000..1_000_000 => format!("{} k", messages / 1_000),
        _ => format!("{} M", messages / 1_000_000),
    }
}
