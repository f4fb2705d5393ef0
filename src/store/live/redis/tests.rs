//! The promises of live stores, kept by a real Redis: the one that `RECALLD_TEST_REDIS` names (see `scripts/services`).

use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;
use crate::id::CountedIds;
use crate::period::{Period, Ttl};
use crate::session::SessionPatch;
use crate::store::conformance::live::{RULES, after, key, said};
use crate::store::live::InMemory;

/// Where Redis is; `None` where there is none, which is said aloud.
fn url() -> Option<String> {
    use std::io::Write as _;
    let url = std::env::var("RECALLD_TEST_REDIS").ok();
    if url.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: RECALLD_TEST_REDIS is not set; `scripts/services start`");
    }
    url
}

/// A store under names of its own, as another instance would open it too.
fn store(url: &str, prefix: &str) -> Redis {
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let settings = RedisSettings::new(&format!("{url}?prefix={prefix}"));
    // All instances of a test are told the same time, so they must agree about what that is there.
    Redis::new(settings, 1 << 30, clock, Arc::default()).expect("a URL").ahead_by(1_800_000_000_000_000)
}

fn prefix() -> String {
    format!("test-{}", Uuid::new_v4().simple())
}

/// Several instances; every call is another's.
struct Several {
    stores: Vec<Redis>,
    turn: AtomicUsize,
}

impl Several {
    /// So many on one Redis.
    fn open(instances: usize) -> Option<Self> {
        let (url, prefix) = (url()?, prefix());
        let stores = (0..instances).map(|_| store(&url, &prefix)).collect();
        Some(Self { stores, turn: AtomicUsize::new(0) })
    }

    fn next(&self) -> &Redis {
        &self.stores[self.turn.fetch_add(1, Ordering::Relaxed) % self.stores.len()]
    }

    /// Every name that is left, without what is kept for good.
    async fn left(&self) -> Vec<String> {
        let script = redis::Script::new("return redis.call('KEYS', KEYS[1] .. '*')");
        let mut left: Vec<String> = self.stores[0].link.run(&script, &[]).await.expect("an answer");
        left.retain(|name| !name.ends_with(":era"));
        left
    }

    /// Takes everything away that tests left.
    async fn wipe(&self) {
        let script =
            redis::Script::new("for _, k in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do redis.call('DEL', k) end");
        let _: redis::Value = self.stores[0].link.run(&script, &[]).await.expect("an answer");
    }
}

impl Live for Several {
    fn begin(&self, key: &LiveKey, seed: SessionSeed, rules: LiveRules, at: Reading) -> LiveFuture<'_, Seen> {
        self.next().begin(key, seed, rules, at)
    }

    fn look(&self, key: &LiveKey, look: Look, at: Reading) -> LiveFuture<'_, Option<Seen>> {
        self.next().look(key, look, at)
    }

    fn change(
        &self,
        key: &LiveKey,
        change: LiveChange,
        rules: LiveRules,
        at: Reading,
    ) -> LiveFuture<'_, Option<Changed>> {
        self.next().change(key, change, rules, at)
    }

    fn take(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>> {
        self.next().take(key, reason, at)
    }

    fn end(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>> {
        self.next().end(key, reason, at)
    }

    fn told(&self, over: &Over) -> LiveFuture<'_, ()> {
        self.next().told(over)
    }

    fn rename(&self, key: &LiveKey, to: &LiveKey, at: Reading) -> LiveFuture<'_, Option<Seen>> {
        self.next().rename(key, to, at)
    }

    fn sweep(&self, limit: usize, at: Reading) -> LiveFuture<'_, Vec<Over>> {
        self.next().sweep(limit, at)
    }

    fn drain(&self, at: Reading) -> LiveFuture<'_, Vec<Over>> {
        self.next().drain(at)
    }

    fn list(&self, tenant: &Tenant, page: PageRequest, at: Reading) -> LiveFuture<'_, Page<Seen>> {
        self.next().list(tenant, page, at)
    }

    fn count(&self, tenant: Option<&Tenant>) -> LiveFuture<'_, LiveCount> {
        self.next().count(tenant)
    }
}

macro_rules! promises {
    ($($promise:ident),* $(,)?) => {
        mod one_instance {
            $(#[tokio::test]
            async fn $promise() {
                let Some(live) = super::Several::open(1) else { return };
                crate::store::conformance::live::$promise(&live).await;
                live.wipe().await;
            })*
        }

        mod three_instances {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let Some(live) = super::Several::open(3) else { return };
                crate::store::conformance::live::$promise(&live).await;
                live.wipe().await;
            })*
        }
    };
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

/// All sessions together have a bound, whoever lets them in.
#[tokio::test]
async fn all_together_have_a_bound() {
    let Some(mut live) = Several::open(2) else { return };
    live.stores.iter_mut().for_each(|store| store.bytes_max = 2_000);
    let mut let_in = 0;
    for n in 0..30 {
        match live.begin(&key(&format!("t{n}"), "v"), SessionSeed::default(), RULES, after(0)).await {
            Ok(_) => let_in += 1,
            Err(error) => assert!(matches!(error, LiveError::Full { bytes_max: 2_000, .. }), "{error}"),
        }
    }
    assert!((1..20).contains(&let_in), "{let_in}");
    live.wipe().await;
}

/// A5: three instances that sweep at once hand each session over once, and nothing is left when its end was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_that_sweep_hand_over_once() {
    let Some(live) = Several::open(3) else { return };
    let rules = LiveRules { sessions_max: 1_000, ..RULES };
    for n in 0..100 {
        live.begin(&key("acme", &format!("v{n}")), SessionSeed::default(), rules, after(0)).await.expect("room");
    }
    let sweeps = live.stores.iter().map(|store| async {
        let mut ended = Vec::new();
        loop {
            let over = store.sweep(1_000, after(60)).await.expect("an answer");
            if over.is_empty() {
                return ended;
            }
            for over in over {
                store.told(&over).await.expect("an answer");
                ended.push(over.seen.key.to_string());
            }
        }
    });
    let mut ended = futures_util::future::join_all(sweeps).await.concat();
    ended.sort();
    assert_eq!(ended.len(), 100);
    ended.dedup();
    assert_eq!(ended.len(), 100, "nobody twice");
    assert_eq!(live.left().await, Vec::<String>::new());
}

/// Who is handed a session and dies is followed by another, after half a minute.
#[tokio::test]
async fn an_end_that_nobody_told_is_handed_over_again() {
    let Some(live) = Several::open(2) else { return };
    for name in ["swept", "ended"] {
        live.begin(&key("acme", name), SessionSeed::default(), RULES, after(0)).await.expect("room");
    }
    let over = live.end(&key("acme", "ended"), EndReason::Explicit, after(60)).await.expect("an answer");
    assert!(over.is_none(), "it was over before");
    let handed = live.sweep(10, after(60)).await.expect("an answer");
    assert_eq!(handed.len(), 2);
    assert!(live.sweep(10, after(60)).await.expect("an answer").is_empty(), "it is in somebody's hand");
    live.told(&handed[0]).await.expect("an answer");
    let again = live.sweep(10, after(61)).await.expect("an answer");
    assert_eq!((again.len(), &again[0].receipt), (1, &handed[1].receipt));
    assert_eq!(again[0].reason, EndReason::Ttl);
    live.told(&again[0]).await.expect("an answer");
    assert!(live.sweep(10, after(99)).await.expect("an answer").is_empty());
    assert_eq!(live.left().await, Vec::<String>::new());
}

/// Names leave by themselves when nobody sweeps, an hour after their time.
#[tokio::test]
async fn redis_lets_go_by_itself() {
    let Some(live) = Several::open(1) else { return };
    let seen = live.begin(&key("acme", "v"), SessionSeed::default(), RULES, after(0)).await.expect("room");
    assert_eq!(seen.lease.ends(), after(60).steady);
    let script = redis::Script::new("return redis.call('PTTL', KEYS[1] .. 's:acme:v')");
    let left: i64 = live.stores[0].link.run(&script, &[]).await.expect("an answer");
    assert!((7_190_000..=7_200_000).contains(&left), "{left}");
    live.wipe().await;
}

/// What Redis threw away, or lost as a whole, is noticed and counted, and its visitor begins anew.
#[tokio::test]
async fn what_is_lost_is_said() {
    let Some(live) = Several::open(1) else { return };
    for name in ["a", "b", "c"] {
        live.begin(&key("acme", name), SessionSeed::default(), RULES, after(0)).await.expect("room");
    }
    let meters =
        || (live.stores[0].link.meters().live_lost.get(), live.stores[0].link.meters().live_store_losses.get());
    let evict = redis::Script::new("return redis.call('DEL', KEYS[1] .. 's:acme:a')");
    let _: i64 = live.stores[0].link.run(&evict, &[]).await.expect("an answer");
    assert!(live.look(&key("acme", "a"), Look::Visit, after(1)).await.expect("an answer").is_none());
    assert_eq!(live.sweep(10, after(60)).await.expect("an answer").len(), 2);
    assert_eq!(meters(), (1, 0));
    live.begin(&key("acme", "d"), SessionSeed::default(), RULES, after(61)).await.expect("room");
    live.sweep(10, after(61)).await.expect("an answer");
    live.wipe().await;
    live.sweep(10, after(62)).await.expect("an answer");
    live.begin(&key("acme", "d"), SessionSeed::default(), RULES, after(62)).await.expect("room");
    assert_eq!(meters(), (2, 1));
    live.wipe().await;
}

/// A session that cannot be read is let go: its visitor is not locked out for a day.
#[tokio::test]
async fn what_cannot_be_read_is_let_go() {
    let Some(live) = Several::open(2) else { return };
    let one = key("acme", "v");
    live.stores[0].begin(&one, SessionSeed::default(), RULES, after(0)).await.expect("room");
    let damage = redis::Script::new("return redis.call('HSET', KEYS[1] .. 's:acme:v', 'd', 'x', 'v', 'other')");
    let _: i64 = live.stores[0].link.run(&damage, &[]).await.expect("an answer");
    assert!(live.stores[1].look(&one, Look::Visit, after(1)).await.expect("an answer").is_none());
    live.stores[0].begin(&one, SessionSeed::default(), RULES, after(1)).await.expect("it begins anew");
    assert_eq!(live.count(None).await.map(|count| count.sessions), Ok(1));
    live.wipe().await;
}

/// What is known here is let go when its session ends, and never counted twice.
#[tokio::test]
async fn nothing_is_remembered_of_who_left() {
    let Some(live) = Several::open(1) else { return };
    let (ids, one) = (CountedIds::default(), key("acme", "v"));
    live.begin(&one, SessionSeed::default(), RULES, after(0)).await.expect("room");
    for _ in 0..3 {
        let changed = live.change(&one, said(&ids, "Hello", after(0)), RULES, after(0)).await.expect("an answer");
        let bytes = changed.expect("a session").seen.session.bytes();
        assert_eq!(live.stores[0].known.bytes(), bytes);
    }
    live.take(&one, EndReason::Explicit, after(0)).await.expect("an answer");
    assert_eq!(live.stores[0].known.bytes(), 0);
    live.wipe().await;
}

/// One instance at a time tells a session in brief.
#[tokio::test]
async fn one_tells_in_brief() {
    let Some(live) = Several::open(2) else { return };
    let one = key("acme", "v");
    for _ in 0..2 {
        assert_eq!(live.stores[0].begin_telling(&one).await, Ok(true));
        assert_eq!(live.stores[1].begin_telling(&one).await, Ok(false));
        assert_eq!(live.stores[1].begin_telling(&key("acme", "w")).await, Ok(true));
        for name in ["v", "w"] {
            live.stores[0].end_telling(&key("acme", name)).await.expect("an answer");
        }
    }
    live.wipe().await;
}

/// What instances count is added up, and the largest of the largest is.
#[tokio::test]
async fn instances_count_together() {
    let Some(live) = Several::open(2) else { return };
    let tenant = Tenant::parse("acme").expect("a tenant");
    let counted = |what: &str, n, largest| {
        let (channel, what) = ("web".to_owned(), what.to_owned());
        Counted { tenant: tenant.clone(), channel, what, n, largest }
    };
    for store in &live.stores {
        assert_eq!(store.add_counts(vec![counted("started", 3, false), counted("longest", 7, true)]).await, Ok(()));
    }
    assert_eq!(live.stores[0].add_counts(vec![counted("longest", 2, true)]).await, Ok(()));
    let mut all = live.stores[1].counts(&tenant).await.expect("an answer");
    all.sort_by(|a, b| a.what.cmp(&b.what));
    assert_eq!(all, [counted("longest", 7, true), counted("started", 6, false)]);
    live.wipe().await;
}

/// Nobody there: every call says so at once or within its time, and nothing hangs.
#[tokio::test]
async fn a_redis_that_is_away_is_an_error() {
    // Port 9 is where nobody listens.
    let live = store("redis://127.0.0.1:9/", &prefix());
    for _ in 0..3 {
        let looked = live.look(&key("acme", "v"), Look::Visit, after(0)).await;
        assert!(matches!(looked, Err(LiveError::Unreachable(_))), "{looked:?}");
    }
    assert_eq!(live.link.meters().live_store_failures.get(), 3);
}

/// What a call came to, as far as two stores must agree.
fn told(seen: Option<&Seen>) -> String {
    seen.map_or_else(String::new, |seen| {
        let Seen { key, session, lease, last_accessed } = seen;
        format!("{key} {} {:?} {last_accessed} {:?}", session.bytes(), lease.ends(), session.to_json())
    })
}

async fn step(live: &dyn Live, ids: &CountedIds, what: u8, which: usize, now: u64) -> String {
    let tenant = ["acme", "globex"][which % 2];
    let (one, other) = (key(tenant, &format!("v{}", which / 2)), key(tenant, &format!("v{}", which / 2 + 1)));
    let at = after(now);
    let ttl = |minutes| SessionPatch { ttl: Some(Ttl::of(Period::seconds(minutes * 60))), ..SessionPatch::default() };
    let changed = |changed: Result<Option<Changed>, LiveError>| {
        changed.map(|changed| told(changed.as_ref().map(|changed| &changed.seen))).map_err(|error| error.to_string())
    };
    match what {
        0 | 1 => {
            let rules = LiveRules { sessions_max: 2, ..RULES };
            let begun = live.begin(&one, SessionSeed::default(), rules, at).await;
            begun.map_or_else(|error| error.to_string(), |seen| told(Some(&seen)))
        }
        2 | 3 => format!("{:?}", changed(live.change(&one, said(ids, "Hi there", at), RULES, at).await)),
        4 => told(live.look(&one, Look::Visit, at).await.expect("an answer").as_ref()),
        5 => told(live.look(&one, Look::Aside, at).await.expect("an answer").as_ref()),
        6 => {
            let taken = live.take(&one, EndReason::Explicit, at).await.expect("an answer");
            told(taken.as_ref().map(|over| &over.seen))
        }
        7 => format!(
            "{:?}",
            live.rename(&one, &other, at).await.map(|seen| told(seen.as_ref())).map_err(|e| e.to_string())
        ),
        8 => format!("{:?}", changed(live.change(&one, LiveChange::Patch(ttl(which as u64 + 5)), RULES, at).await)),
        9 => {
            let page = live.list(&one.tenant, PageRequest::first(2), at).await.expect("an answer");
            page.items.iter().map(|seen| told(Some(seen))).collect::<Vec<_>>().join("\n") + &format!("{:?}", page.next)
        }
        _ => {
            let mut over = Vec::new();
            loop {
                let some = live.sweep(100, at).await.expect("an answer");
                if some.is_empty() {
                    break;
                }
                for ended in some {
                    live.told(&ended).await.expect("an answer");
                    over.push(format!("{} {}", told(Some(&ended.seen)), ended.reason.as_str()));
                }
            }
            over.sort();
            let counts = (live.count(None).await, live.count(Some(&one.tenant)).await);
            format!("{over:?} {counts:?}")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Whatever happens in whichever order, through whichever of three instances, Redis answers as one process does.
    #[test]
    fn both_stores_answer_alike(steps in prop::collection::vec((0u8..12, 0usize..6, 0u64..40), 0..60)) {
        let Some(live) = Several::open(3) else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (memory, ids) = (InMemory::new(1 << 30), (CountedIds::default(), CountedIds::default()));
            let mut now = 0;
            for (what, which, minutes) in steps {
                now += if what == 11 { minutes } else { 0 };
                let here = step(&memory, &ids.0, what, which, now).await;
                let there = step(&live, &ids.1, what, which, now).await;
                assert_eq!(here, there, "step {what} of {which} at minute {now}");
            }
            live.wipe().await;
        });
    }
}

/// How many histories are tried.
fn cases() -> u32 {
    std::env::var("RECALLD_LIVE_HISTORIES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48)
}
