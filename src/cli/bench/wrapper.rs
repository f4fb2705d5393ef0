//! What the wrapper around a shared store adds to a turn while nothing is wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::store::{ANSWER, QUESTION};
use super::table::Row;
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds, SessionId};
use crate::message::{Message, Role};
use crate::scope::{Scope, Tenant, User};
use crate::session::{ClosedTurn, OpenTurn, SessionSeed, TurnStatus};
use crate::store::{Outage, Spool, Sqlite, Store, StoreError, Waiting, WaitingBounds};

/// Pairs of turns that are measured.
const PAIRS: usize = 2_000;

/// The same turns with the wrapper and without, by turns: reading the end of the conversation, the question, the answer. Each
/// way has a session of its own in the same file.
pub(super) async fn row(folder: &Path) -> anyhow::Result<Row> {
    let clock = Arc::new(SystemClock::default());
    let bare = Arc::new(Sqlite::open(&folder.join("wrapped.db"), clock.clone())?);
    let path = folder.join("wrapped.spool.db");
    let spool = tokio::task::spawn_blocking(move || Spool::open(&path)).await??;
    let patience = Duration::from_secs(2);
    let bounds = WaitingBounds { turns_max: 1_000, bytes_max: 1 << 26 };
    let outage = Outage::new(spool, Arc::default(), patience, Duration::from_secs(900));
    let wrapped = Waiting::new(Arc::clone(&bare), clock, bounds).through(outage);
    let (ours, theirs) = (RandomIds.session(), RandomIds.session());
    let (mut with, mut without) = (Steps::default(), Steps::default());
    for _ in 0..PAIRS {
        without.turn(&*bare, theirs).await?;
        with.turn(&wrapped, ours).await?;
    }
    let added = with.median() - without.median();
    wrapped.close().await?;
    Ok(Row {
        what: "what the wrapper with a spool adds to a turn (read, question, answer), sum of medians".into(),
        measured: format!("{added:.0} µs"),
        beside: Some(format!("{:.0} µs without it", without.median())),
        ratio: None,
        must: Some("50 µs".into()),
        goal: None,
    })
}

/// How long each step of a turn took.
#[derive(Default)]
struct Steps([Vec<Duration>; 3]);

impl Steps {
    async fn turn(&mut self, store: &dyn Store, session: SessionId) -> Result<(), StoreError> {
        let (scope, now) = (Scope::new(Tenant::default(), User::anonymous()), Timestamp::now());
        let id = RandomIds.turn(now);
        let open = OpenTurn {
            id,
            session,
            seed: SessionSeed::default(),
            question: Message::new(Role::User, QUESTION, now),
            metadata: Default::default(),
            asked_at: None,
            place: Default::default(),
        };
        let closed = ClosedTurn {
            id,
            session,
            status: TurnStatus::Complete,
            messages: vec![Message::new(Role::Assistant, ANSWER, now)],
            metadata: Default::default(),
            attempt: 0,
            others: Vec::new(),
            trace: None,
            topic: None,
            waits_since: None,
        };
        let started = Instant::now();
        store.last_turns(&scope, session, 10).await?;
        let read = started.elapsed();
        store.open_turn(&scope, open).await?;
        let asked = started.elapsed();
        store.close_turn(&scope, closed).await?;
        for (times, took) in self.0.iter_mut().zip([read, asked - read, started.elapsed() - asked]) {
            times.push(took);
        }
        Ok(())
    }

    /// The median of each step, added up, in microseconds.
    fn median(&self) -> f64 {
        let median = |times: &Vec<Duration>| {
            let mut times = times.clone();
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e6
        };
        self.0.iter().map(median).sum()
    }
}
