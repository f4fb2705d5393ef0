//! The promises of live stores, kept by the one in memory; and what only it promises.

use proptest::prelude::*;

use super::*;
use crate::id::CountedIds;
use crate::store::conformance::live::{RULES, after, key, said};

macro_rules! promises {
    ($($promise:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $promise() {
            crate::store::conformance::live::$promise(&InMemory::new(1 << 30)).await;
        }
    )*};
}

promises! {
    a_session_is_what_was_said_in_it,
    a_lease_ends_by_ttl_or_cap,
    who_comes_too_late_begins_anew,
    a_session_leaves_once,
    a_session_ends_once,
    a_flood_stays_within_bounds,
    a_ttl_can_be_changed,
    a_session_can_be_renamed,
    counts_are_exact,
    changes_at_once_lose_nothing,
}

/// All sessions together have a bound; beyond it nobody new is let in.
#[tokio::test]
async fn all_together_have_a_bound() {
    let live = InMemory::new(2_000);
    let mut let_in = 0;
    for n in 0..100 {
        let begun = live.begin(&key(&format!("t{n}"), "v"), SessionSeed::default(), RULES, after(0)).await;
        match begun {
            Ok(_) => let_in += 1,
            Err(error) => assert!(matches!(error, LiveError::Full { bytes_max: 2_000, .. }), "{error}"),
        }
    }
    assert!((1..20).contains(&let_in), "{let_in}");
}

/// A5: visits cost the sweeper nothing. A session is looked at once in each of its times to live, however often somebody
/// comes and however many sessions there are.
#[tokio::test]
async fn a_sweep_costs_what_is_due() {
    let live = InMemory::new(1 << 30);
    let rules = LiveRules { sessions_max: 10_000, ..RULES };
    let names: Vec<LiveKey> = (0..1_000).map(|n| key("acme", &format!("v{n}"))).collect();
    for name in &names {
        live.begin(name, SessionSeed::default(), rules, after(0)).await.expect("room");
    }
    let tenant = Tenant::parse("acme").expect("a tenant");
    let mut looked = 0;
    for minute in 1..=600 {
        if minute % 10 == 0 {
            for name in &names {
                live.look(name, Look::Visit, after(minute)).await.expect("an answer");
            }
        }
        looked += live.shard(&tenant).sweep(usize::MAX, after(minute));
    }
    assert_eq!(live.count(None).await.map(|count| count.sessions), Ok(1_000), "all were visited in time");
    assert!(looked <= 1_000 * 13, "600 minutes of 60-minute leases, 60 visits each: {looked} looks");
}

/// What is left when everything would be lost.
#[tokio::test]
async fn draining_takes_everything_out() {
    let live = InMemory::new(1 << 30);
    for n in 0..3 {
        live.begin(&key("acme", &format!("v{n}")), SessionSeed::default(), RULES, after(n * 20)).await.expect("room");
    }
    let mut over: Vec<_> = live.drain(after(70)).await.expect("an answer").iter().map(|over| over.reason).collect();
    over.sort_by_key(|reason| reason.as_str());
    assert_eq!(over, [EndReason::Shutdown, EndReason::Shutdown, EndReason::Ttl]);
    assert_eq!(live.count(None).await, Ok(LiveCount::default()));
}

proptest! {
    /// After anything that happens, bytes and sessions are those that are there, and nobody leaves twice.
    #[test]
    fn nothing_is_lost_or_counted_twice(steps in prop::collection::vec((0u8..6, 0usize..6, 0u64..40), 0..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (live, ids) = (InMemory::new(1 << 30), CountedIds::default());
            let (mut now, mut begun, mut ended) = (0, 0, 0);
            for (what, which, minutes) in steps {
                let name = key(["acme", "globex"][which % 2], &format!("v{}", which / 2));
                let there = live.look(&name, Look::Aside, after(now)).await.expect("an answer").is_some();
                match what {
                    0 => {
                        live.begin(&name, SessionSeed::default(), RULES, after(now)).await.expect("room");
                        begun += usize::from(!there);
                    }
                    1 => drop(live.change(&name, said(&ids, "Hi there", after(now)), RULES, after(now)).await),
                    2 => drop(live.look(&name, Look::Visit, after(now)).await),
                    3 => ended += usize::from(live.take(&name, EndReason::Explicit, after(now)).await.expect("an answer").is_some()),
                    4 => ended += live.sweep(3, after(now)).await.expect("an answer").len(),
                    _ => now += minutes,
                }
                let mut all = LiveCount::default();
                for shard in &live.shards {
                    let shard = lock(shard);
                    let waiting = shard.over.iter().map(|over| over.seen.session.bytes());
                    all.sessions += shard.sessions.len();
                    all.bytes += shard.sessions.values().map(|slot| slot.session.bytes()).chain(waiting).sum::<usize>();
                    let counted: usize = shard.counts.values().map(|count| count.sessions).sum();
                    assert_eq!(counted, shard.sessions.len());
                }
                assert_eq!(live.count(None).await, Ok(all));
            }
            ended += live.drain(after(now)).await.expect("an answer").len();
            assert_eq!(begun, ended, "everyone who came has left, once");
        });
    }
}
