//! `recalld bench live`: what visitors' sessions cost: memory of each, how quickly they come, talk and go, what the sweeper
//! pays for those that stay, and what becomes of a flood.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use futures_util::stream;
use hyper::{HeaderMap, Method};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};

use super::table::{Row, Table, machine};
use crate::clock::{Clock, ManualClock, Reading};
use crate::id::{Ids, RandomIds};
use crate::live::{LiveKey, LiveName, LiveSettings};
use crate::memory::{Memory, MemorySettings, Parts};
use crate::message::{Message, Role};
use crate::mode::Mode;
use crate::model::relay::{InProcess, Passed};
use crate::model::{ChatModel, Ending, ModelFuture, Piece, Pieces, Prompt};
use crate::scope::Tenant;
use crate::session::{ClientIds, SessionSeed, TurnDraft};
use crate::store::Sqlite;
use crate::store::live::{InMemory, Live, LiveChange, LiveRules, Look};
use crate::turn::proxy::ProxyRequest;

/// Flags of `bench live`.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// How many sessions are held.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    sessions: usize,
    /// How many of them talk at once, through the path of a request.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    talking: usize,
    /// How many visitors of one tenant come at once.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    flood: usize,
}

/// Sessions of a tenant.
const OF_A_TENANT: usize = 100;
const TTL: Duration = Duration::from_secs(24 * 3600);
const RULES: LiveRules = LiveRules { ttl: TTL, sessions_max: OF_A_TENANT, bytes_max: 10_000_000 };
/// Sweeps of a slice, and slices that are timed.
const SWEEPS: usize = 1_000;
const SLICES: usize = 21;

pub(super) async fn run(args: &LiveArgs) -> anyhow::Result<Table> {
    ensure!(args.sessions >= 100, "at least 100 sessions are needed to measure anything");
    let mut rows = held(args).await?;
    rows.extend(talking(args).await?);
    rows.push(flood(args).await?);
    Ok(Table { machine: machine(), rows })
}

fn key(n: usize) -> anyhow::Result<LiveKey> {
    let tenant = Tenant::parse(&format!("tenant-{}", n / OF_A_TENANT))?;
    Ok(LiveKey { tenant, name: LiveName::parse(&format!("+1555{n:07}"))? })
}

fn at(seconds: u64) -> Reading {
    let wall = Timestamp::from_second(1_767_225_600 + seconds as i64).unwrap_or(Timestamp::MAX);
    Reading { wall, steady: Duration::from_secs(seconds) }
}

/// Bytes of this process that are in memory.
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("VmRSS is no number")?;
    Ok(kilobytes * 1024)
}

fn row(what: &str, measured: String, must: Option<&str>, goal: Option<&str>) -> Row {
    let or = |text: Option<&str>| text.map(str::to_owned);
    Row { what: what.into(), measured, beside: None, ratio: None, must: or(must), goal: or(goal) }
}

fn a_second(count: usize, took: Duration) -> String {
    format!("{:.0} /s", count as f64 / took.as_secs_f64())
}

/// Sessions in the store: memory of each, how quickly they come and go, and sweeping with few and many.
async fn held(args: &LiveArgs) -> anyhow::Result<Vec<Row>> {
    let count = args.sessions;
    let keys: Vec<LiveKey> = (0..count).map(key).collect::<Result<_, _>>()?;
    // As many tenants, each with a hundredth of its sessions: what differs is how many there are, not where they lie.
    let few = InMemory::new(usize::MAX);
    for key in keys.iter().step_by(OF_A_TENANT) {
        few.begin(key, SessionSeed::default(), RULES, at(0)).await?;
    }
    let live = InMemory::new(usize::MAX);
    let before = resident()?;
    let started = Instant::now();
    for key in &keys {
        live.begin(key, SessionSeed::default(), RULES, at(0)).await?;
    }
    let create = started.elapsed();
    let each = resident()?.saturating_sub(before) as f64 / count as f64;
    let counted = live.count(None).await?.bytes as f64 / count as f64;
    let (sweep_few, sweep_many) = swept(&few, &live).await?;
    let append = append(&live, &keys).await?;
    let started = Instant::now();
    let mut gone = 0;
    while gone < count {
        let over = live.sweep(10_000, at(TTL.as_secs() + 2)).await?;
        ensure!(!over.is_empty(), "{gone} of {count} sessions ended");
        gone += over.len();
    }
    let expire = started.elapsed();
    let sweep = |time: f64| format!("{time:.2} µs");
    let mut flat = row("a sweep with all of them", sweep(sweep_many), Some("flat"), None);
    (flat.beside, flat.ratio) = (Some(sweep(sweep_few)), Some(sweep_many / sweep_few));
    Ok(vec![
        row(
            &format!("memory of each of {count} sessions before content"),
            format!("{each:.0} B ({counted:.0} B counted)"),
            Some("1 KB"),
            Some("512 B"),
        ),
        row("sessions begun", a_second(count, create), None, None),
        row("turns added", a_second(count, append), None, None),
        row("sessions ended by the sweeper", a_second(count, expire), None, None),
        flat,
    ])
}

/// The median time of a sweep that finds nothing to end, of either store, in microseconds: slices of one run that take turns.
async fn swept(few: &InMemory, many: &InMemory) -> anyhow::Result<(f64, f64)> {
    let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
    for slice in 0..SLICES {
        of_few.push(sweeps(few, slice).await?);
        of_many.push(sweeps(many, slice).await?);
    }
    Ok((median(of_few), median(of_many)))
}

/// The mean time of the sweeps of a slice, in microseconds.
async fn sweeps(live: &InMemory, slice: usize) -> anyhow::Result<f64> {
    let started = Instant::now();
    for n in slice * SWEEPS..(slice + 1) * SWEEPS {
        ensure!(live.sweep(10_000, at(n as u64)).await?.is_empty(), "nobody's time is over");
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / SWEEPS as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

async fn append(live: &InMemory, keys: &[LiveKey]) -> anyhow::Result<Duration> {
    let started = Instant::now();
    for key in keys {
        let said = |role, text| Message::new(role, text, at(1).wall);
        let messages = vec![
            said(Role::User, "I need help with order #12345, which has not arrived."),
            said(Role::Assistant, "I am sorry to hear that. It was sent on Monday and should arrive tomorrow."),
        ];
        let draft = TurnDraft { id: RandomIds.turn(at(1).wall), messages, metadata: Map::new(), created_at: None };
        live.change(key, LiveChange::Add(vec![draft]), RULES, at(1)).await?.context("a session that is there")?;
    }
    Ok(started.elapsed())
}

/// A model that says the same at once.
struct Instantly;

impl ChatModel for Instantly {
    fn name(&self) -> &str {
        "instantly"
    }

    fn ask(&self, _: Prompt) -> ModelFuture<'_> {
        let pieces = [Ok(Piece::Text("I see.".into())), Ok(Piece::End(Ending::default()))];
        Box::pin(async move { Ok(Box::pin(stream::iter(pieces)) as Pieces) })
    }
}

fn memory(sessions_max: usize) -> anyhow::Result<(Memory, Arc<ManualClock>)> {
    let clock = Arc::new(ManualClock::at(at(0).wall));
    let store = Arc::new(Sqlite::temporary(Arc::clone(&clock) as Arc<dyn Clock>)?);
    let parts = Parts {
        model: Arc::new(Instantly),
        upstream: Arc::new(InProcess(Arc::new(Instantly))),
        ..Parts::builtin(store, Arc::clone(&clock) as _)
    };
    let live = LiveSettings { sessions_max, ..LiveSettings::default() };
    Ok((Memory::new(parts, MemorySettings { live, ..MemorySettings::default() }), clock))
}

/// Says something in a session and hears the answer out.
async fn talk(memory: &Memory, key: LiveKey) -> Result<(), crate::turn::TurnError> {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "I need help with order #12345"}]});
    let passed = Passed {
        method: Method::POST,
        path: "chat/completions".into(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        bearer: None,
    };
    let (scope, session) = (key.scope(), key.id());
    let request = ProxyRequest {
        session: Some(session),
        live: Some(key),
        new_session: session,
        alone: true,
        resends_history: false,
        seed: SessionSeed::default(),
        body: body.as_object().cloned().unwrap_or_default(),
        ids: ClientIds::default(),
        marked_as_retry: false,
        mode: Mode::Active,
        passed,
    };
    let mut turn = memory.proxy(&scope, request).await?;
    while turn.body.recv().await.is_some() {}
    Ok(())
}

/// Many sessions that talk at once, twice each, through the path of a request.
async fn talking(args: &LiveArgs) -> anyhow::Result<Vec<Row>> {
    let (memory, clock) = memory(OF_A_TENANT)?;
    let started = Instant::now();
    for _ in 0..2 {
        let turns = (0..args.talking).map(|n| {
            let (memory, key) = (memory.clone(), key(n));
            tokio::spawn(async move { anyhow::Ok(talk(&memory, key?).await?) })
        });
        for turn in turns.collect::<Vec<_>>() {
            turn.await.context("a turn that ends")??;
        }
    }
    let took = started.elapsed();
    let here = memory.live_count(None).await.context("live sessions")?;
    ensure!(here.sessions == args.talking, "{} of {} sessions are there", here.sessions, args.talking);
    let seen = memory.live().look(&key(args.talking - 1)?, Look::Aside).await?.context("a session")?;
    ensure!(seen.session.message_count() == 4, "every turn was kept once");
    clock.advance(SignedDuration::try_from(TTL)?);
    Ok(vec![
        row(&format!("turns of {} sessions at once", args.talking), a_second(2 * args.talking, took), None, None),
        row("memory of each after two turns", format!("{} B counted", here.bytes / here.sessions), None, None),
    ])
}

/// Visitors of one tenant that come at once: as many as may come in do, the others are told so quickly.
async fn flood(args: &LiveArgs) -> anyhow::Result<Row> {
    let (memory, _) = memory(OF_A_TENANT)?;
    let started = Instant::now();
    let mut let_in = 0;
    for n in 0..args.flood {
        let tenant = Tenant::parse("flooded")?;
        let_in += usize::from(talk(&memory, LiveKey { tenant, name: key(n)?.name }).await.is_ok());
    }
    let each = started.elapsed().as_secs_f64() * 1e6 / args.flood as f64;
    ensure!(let_in == OF_A_TENANT.min(args.flood), "{let_in} were let in");
    let what = format!("a flood of {} visitors of one tenant", args.flood);
    Ok(row(&what, format!("{let_in} let in, {each:.0} µs each"), Some("100 let in"), None))
}
