//! `recalld bench store --url`: what the store on PostgreSQL costs beside the same statements on bare connections.
//!
//! Every writer is a user of one tenant, as in a chat. Both sides work in tables of their own, which go afterwards, on as many
//! connections, in alternating slices.

mod bare;
mod expiry;
pub(super) mod knowledge;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use uuid::Uuid;

use self::bare::BareWriters;
use super::store::{READS, SESSION_TURNS, StoreArgs, WRITERS, fill_store, in_words, same, scope, turns_per_second};
use super::table::{Row, Table, machine};
use crate::clock::SystemClock;
use crate::scope::{Scope, Tenant, User};
use crate::store::{Outage, Postgres, Spool, Store, Waiting, WaitingBounds};

const SLICES: u32 = 4;
/// Longer than any turn may take here: what is measured reaches the database.
const PATIENCE: Duration = Duration::from_secs(300);

/// The store as users get it, with its spool, and as it is.
struct Tested {
    store: Arc<Waiting<Postgres>>,
    inner: Arc<Postgres>,
    /// Of the spool.
    _folder: Folder,
}

/// A folder that goes when it is not needed any more.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies among passing things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn open(url: &str) -> anyhow::Result<Tested> {
    let clock = Arc::new(SystemClock::default());
    let inner = Arc::new(Postgres::temporary(url, clock.clone()).await.context("cannot make tables there")?);
    let folder = Folder(std::env::temp_dir().join(format!("recalld-bench-{}", Uuid::new_v4())));
    let path = folder.0.join("spool.db");
    let spool = tokio::task::spawn_blocking(move || Spool::open(&path)).await??;
    let outage = Outage::new(spool, inner.circuit(), PATIENCE, PATIENCE);
    let bounds = WaitingBounds { turns_max: 1_000, bytes_max: 1 << 26 };
    let store = Arc::new(Waiting::new(Arc::clone(&inner), clock, bounds).through(outage));
    Ok(Tested { store, inner, _folder: folder })
}

/// Measures everything and answers the table.
pub(super) async fn run(args: &StoreArgs, url: &str) -> anyhow::Result<Table> {
    if let Some(turns) = args.expire {
        return expiry::run(url, turns, args.lasting()).await;
    }
    let mut table = Table { machine: machine(), rows: Vec::new() };
    for writers in [1, WRITERS] {
        table.rows.push(writing(url, writers, args.lasting()).await?);
    }
    table.rows.push(reading(url, args.messages()).await?);
    Ok(table)
}

fn writer_scope(writer: usize) -> Scope {
    let user = User::parse(&format!("writer-{writer}")).expect("a plain name");
    Scope::new(Tenant::default(), user)
}

async fn writing(url: &str, writers: usize, lasting: Duration) -> anyhow::Result<Row> {
    let (ours_in, theirs_in) = (open(url).await?, open(url).await?);
    let connections = theirs_in.inner.connections_max().min(writers);
    let bare = BareWriters::open(&theirs_in.inner, connections).await?;
    let (mut ours, mut theirs) = (0.0, 0.0);
    for _ in 0..SLICES {
        ours += turns_per_second(&ours_in.store, writers, writer_scope, lasting / SLICES).await?;
        theirs += bare.turns_per_second(lasting / SLICES).await?;
    }
    let (ours, theirs) = (ours / f64::from(SLICES), theirs / f64::from(SLICES));
    let many = if writers == 1 { "" } else { "s" };
    Ok(Row {
        what: format!("durable turns a second (two commits each), {writers} writer{many}"),
        measured: format!("{ours:.0}"),
        beside: Some(format!("{theirs:.0} (same statements, bare tokio-postgres, {connections} connections)")),
        ratio: Some(ours / theirs),
        must: (writers == WRITERS).then(|| "0.5 ×".to_owned()),
        goal: None,
    })
}

/// The last ten messages of sessions all over the tables, one after the other, warm.
async fn reading(url: &str, messages: usize) -> anyhow::Result<Row> {
    let Tested { store, inner, _folder } = open(url).await?;
    let sessions = fill_store(&store, messages, SESSION_TURNS, &mut same).await?;
    inner.analyse().await?;
    let bare = inner.bare(Tenant::default().as_str()).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..READS {
        let session = sessions[n * 7_919 % sessions.len()];
        let started = Instant::now();
        let recent = store.last_turns(&scope(), session, 10).await?;
        ours.push(started.elapsed());
        anyhow::ensure!(recent.turns.len() >= 5, "a session came back short");
        let started = Instant::now();
        bare::last_messages(&bare, &scope(), session).await?;
        theirs.push(started.elapsed());
    }
    let (ours, theirs) = (Times::of(ours), Times::of(theirs));
    Ok(Row {
        what: format!("last 10 messages, warm, {} stored, p50 (p99)", in_words(messages)),
        measured: ours.told(),
        beside: Some(format!("{} (same statements, bare tokio-postgres)", theirs.told())),
        ratio: Some(theirs.at(0.5) / ours.at(0.5)),
        must: Some("0.5 ×".into()),
        goal: None,
    })
}

/// Times that were taken.
struct Times(Vec<Duration>);

impl Times {
    /// Without the first half, which was to warm up.
    fn of(mut times: Vec<Duration>) -> Self {
        Self::sorted(times.split_off(times.len() / 2))
    }

    /// All of them.
    fn sorted(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Microseconds.
    fn at(&self, share: f64) -> f64 {
        self.0[(self.0.len() as f64 * share) as usize].as_secs_f64() * 1e6
    }

    fn told(&self) -> String {
        format!("{:.0} µs ({:.0} µs)", self.at(0.5), self.at(0.99))
    }
}
