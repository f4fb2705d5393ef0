//! Many old turns go while others chat: what that adds to the time of a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinSet;

use super::{Tested, Times, open, writer_scope};
use crate::cli::bench::store::{QUESTION, draft, in_words, one_turn, same};
use crate::cli::bench::table::{Row, Table, machine};
use crate::id::{Ids, RandomIds};
use crate::memory::MemorySettings;
use crate::period::{Period, Ttl};
use crate::session::{InTopic, SessionSeed, TurnDraft};
use crate::store::{Expiry, Store};

/// People who chat meanwhile, one question every so often each.
const CHATTING: usize = 8;
const PAUSE: Duration = Duration::from_millis(50);
/// Old turns in one conversation.
const SESSION_TURNS: usize = 100;
/// How many conversations are made at one time.
const FILLING: usize = 16;

/// Measures chat by itself, and while the old turns go.
pub(super) async fn run(url: &str, turns: usize, lasting: Duration) -> anyhow::Result<Table> {
    let tested = open(url).await?;
    fill(&tested, turns).await?;
    tested.inner.analyse().await?;
    let calm = chat_until(&tested, Arc::new(AtomicBool::new(false)), Some(lasting)).await?;
    let over = Arc::new(AtomicBool::new(false));
    let chatting = chat_until(&tested, Arc::clone(&over), None);
    let started = Instant::now();
    let expiring = async {
        let gone = expire(&tested).await;
        over.store(true, Ordering::Relaxed);
        gone
    };
    let (busy, gone) = tokio::join!(chatting, expiring);
    let (busy, gone, took) = (busy?, gone?, started.elapsed());
    anyhow::ensure!(gone == turns as u64, "{gone} of {turns} turns went");
    let row = |what: String, measured: String, beside: Option<String>| Row {
        what,
        measured,
        beside,
        ratio: None,
        must: None,
        goal: None,
    };
    let rate = turns as f64 / took.as_secs_f64();
    let rows = vec![
        row(
            format!("a turn of {CHATTING} people while {} old turns of their tenant go, p50 (p99)", in_words(turns)),
            busy.told(),
            Some(format!("{} (while none go)", calm.told())),
        ),
        row("added to the p99".into(), format!("{:.1} ms", (busy.at(0.99) - calm.at(0.99)) / 1e3), None),
        row("turns that went".into(), format!("{rate:.0} a second, {:.0} s in all", took.as_secs_f64()), None),
    ];
    Ok(Table { machine: machine(), rows })
}

/// Old turns of people who chat no more.
async fn fill(tested: &Tested, turns: usize) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("filling {bar:40} {human_pos} of {human_len} turns, {eta} left")?;
    let progress = ProgressBar::new(turns as u64).with_style(style);
    let long_ago = Timestamp::now() - SignedDuration::from_hours(48);
    let (mut filling, mut left) = (JoinSet::new(), turns);
    for n in 0.. {
        if left == 0 {
            break;
        }
        let some = left.min(SESSION_TURNS);
        left -= some;
        let drafts: Vec<TurnDraft> =
            (0..some).map(|n| TurnDraft { created_at: Some(long_ago), ..draft(same(n)) }).collect();
        let (store, scope) = (Arc::clone(&tested.store), writer_scope(CHATTING + n % 1_000));
        filling.spawn(async move {
            store.add_turns(&scope, RandomIds.session(), Some(SessionSeed::default()), drafts).await
        });
        if filling.len() >= FILLING {
            filling.join_next().await.context("nothing to wait for")???;
        }
        progress.inc(some as u64);
    }
    while let Some(done) = filling.join_next().await {
        done??;
    }
    progress.finish_and_clear();
    Ok(())
}

/// Lets people chat for a while, or until something is over; answers how long their turns took.
async fn chat_until(tested: &Tested, over: Arc<AtomicBool>, lasting: Option<Duration>) -> anyhow::Result<Times> {
    let (started, mut people) = (Instant::now(), JoinSet::new());
    for person in 0..CHATTING {
        let (store, over) = (Arc::clone(&tested.store), Arc::clone(&over));
        people.spawn(async move {
            let (scope, session, mut times) = (writer_scope(person), RandomIds.session(), Vec::new());
            let mut topic = InTopic { id: RandomIds.topic(Timestamp::now()), begins: Some(QUESTION.to_owned()) };
            while lasting.map_or(!over.load(Ordering::Relaxed), |lasting| started.elapsed() < lasting) {
                let asked = Instant::now();
                one_turn(&*store, &scope, session, topic.clone()).await?;
                times.push(asked.elapsed());
                topic.begins = None;
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, crate::store::StoreError>(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = people.join_next().await {
        all.extend(times.context("somebody panicked")??);
    }
    Ok(Times::sorted(all))
}

/// Lets everything go that is older than a day, in batches as a server does.
async fn expire(tested: &Tested) -> anyhow::Result<u64> {
    let mut gone = 0;
    let turns_max = MemorySettings::default().cleanup_batch;
    loop {
        let expiry = Expiry { now: Timestamp::now(), server_ttl: Ttl::of(Period::hours(24)), turns_max };
        let expired = tested.store.expire(expiry).await?;
        gone += expired.turns;
        if !expired.more {
            return Ok(gone);
        }
    }
}
