//! The promises that every store of live sessions makes: it is handed over empty, and its time is what it is told.

use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::Map;

use crate::clock::Reading;
use crate::id::{CountedIds, Ids};
use crate::live::{AGE_MAX, LiveKey, LiveName};
use crate::message::{Message, Role};
use crate::period::{Period, Ttl};
use crate::scope::Tenant;
use crate::session::{EndReason, SessionPatch, SessionSeed, TurnDraft};
use crate::store::PageRequest;
use crate::store::live::{Changed, Live, LiveChange, LiveCount, LiveError, LiveRules, Look, Over};

/// Rules of the usual kind, with few sessions.
pub const RULES: LiveRules = LiveRules { ttl: Duration::from_secs(3600), sessions_max: 5, bytes_max: 1 << 20 };

/// So many minutes after the beginning.
pub fn after(minutes: u64) -> Reading {
    let steady = Duration::from_secs(minutes * 60);
    let wall = Timestamp::from_second(1_767_225_600 + steady.as_secs() as i64).unwrap_or(Timestamp::MAX);
    Reading { wall, steady }
}

/// A session's name.
pub fn key(tenant: &str, name: &str) -> LiveKey {
    let tenant = Tenant::parse(tenant).expect("a tenant");
    LiveKey { tenant, name: LiveName::parse(name).expect("a name") }
}

async fn begin(live: &dyn Live, key: &LiveKey, at: Reading) -> Result<(), LiveError> {
    live.begin(key, SessionSeed::default(), RULES, at).await.map(drop)
}

/// Something that was said.
pub fn said(ids: &CountedIds, text: &str, at: Reading) -> LiveChange {
    let messages = vec![Message::new(Role::User, text, at.wall), Message::new(Role::Assistant, "Noted.", at.wall)];
    LiveChange::Add(vec![TurnDraft { id: ids.turn(at.wall), messages, metadata: Map::new(), created_at: None }])
}

async fn sweep(live: &dyn Live, at: Reading) -> Vec<(String, EndReason)> {
    let over = live.sweep(1_000, at).await.expect("a store that answers");
    for ended in &over {
        live.told(ended).await.expect("a store that answers");
    }
    let mut over: Vec<_> = over.iter().map(|over| (over.seen.key.to_string(), over.reason)).collect();
    over.sort_by(|a, b| a.0.cmp(&b.0));
    over
}

/// A session is there from its beginning to its end, and beginning it twice is one session.
pub async fn a_session_is_what_was_said_in_it(live: &dyn Live) {
    let (ids, one) = (CountedIds::default(), key("acme", "one"));
    assert!(live.look(&one, Look::Visit, after(0)).await.expect("an answer").is_none());
    let nobody = live.change(&one, said(&ids, "Hi", after(0)), RULES, after(0)).await.expect("an answer");
    assert!(nobody.is_none(), "nothing is said in a session that is not there");
    begin(live, &one, after(0)).await.expect("room");
    live.change(&one, said(&ids, "Hi", after(1)), RULES, after(1)).await.expect("an answer");
    begin(live, &one, after(2)).await.expect("it is there");
    let seen = live.look(&one, Look::Aside, after(3)).await.expect("an answer").expect("a session");
    assert_eq!((seen.session.message_count(), seen.session.created_at), (2, after(0).wall));
    assert_eq!(seen.last_accessed, after(2).wall, "a look from aside is no visit");
    assert!(live.look(&key("globex", "one"), Look::Visit, after(3)).await.expect("an answer").is_none());
}

/// A visit refreshes the lease, a look from aside does not, and the cap ends what is visited for ever.
pub async fn a_lease_ends_by_ttl_or_cap(live: &dyn Live) {
    for name in ["visited", "watched"] {
        begin(live, &key("acme", name), after(0)).await.expect("room");
    }
    live.look(&key("acme", "visited"), Look::Visit, after(50)).await.expect("an answer");
    live.look(&key("acme", "watched"), Look::Aside, after(50)).await.expect("an answer");
    assert_eq!(sweep(live, after(59)).await, []);
    assert_eq!(sweep(live, after(60)).await, [("acme:watched".to_owned(), EndReason::Ttl)]);
    let cap = AGE_MAX.as_secs() / 60;
    for minute in (100..cap).step_by(50) {
        assert_eq!(sweep(live, after(minute)).await, []);
        assert!(live.look(&key("acme", "visited"), Look::Visit, after(minute)).await.expect("an answer").is_some());
    }
    assert_eq!(sweep(live, after(cap)).await, [("acme:visited".to_owned(), EndReason::Cap)]);
}

/// What is over is not there for whoever comes, and is handed over once all the same.
pub async fn who_comes_too_late_begins_anew(live: &dyn Live) {
    let (ids, one) = (CountedIds::default(), key("acme", "one"));
    begin(live, &one, after(0)).await.expect("room");
    live.change(&one, said(&ids, "Hi", after(0)), RULES, after(0)).await.expect("an answer");
    assert!(live.look(&one, Look::Visit, after(60)).await.expect("an answer").is_none());
    begin(live, &one, after(61)).await.expect("room");
    let seen = live.look(&one, Look::Aside, after(61)).await.expect("an answer").expect("a session");
    assert_eq!(seen.session.message_count(), 0);
    assert_eq!(sweep(live, after(62)).await, [("acme:one".to_owned(), EndReason::Ttl)]);
    assert_eq!(sweep(live, after(62)).await, []);
}

/// Of all who end a session one is handed it.
pub async fn a_session_leaves_once(live: &dyn Live) {
    let one = key("acme", "one");
    begin(live, &one, after(0)).await.expect("room");
    let taken = join_all((0..8).map(|_| live.take(&one, EndReason::Explicit, after(1)))).await;
    let taken: Vec<Over> = taken.into_iter().filter_map(|over| over.expect("an answer")).collect();
    assert_eq!((taken.len(), taken[0].reason), (1, EndReason::Explicit));
    assert_eq!(sweep(live, after(120)).await, []);
}

/// Of all who end a session, or find it over, one is handed it, and says when its end was told.
pub async fn a_session_ends_once(live: &dyn Live) {
    let (one, two) = (key("acme", "one"), key("acme", "two"));
    begin(live, &one, after(0)).await.expect("room");
    begin(live, &two, after(0)).await.expect("room");
    let ended = join_all((0..8).map(|_| live.end(&one, EndReason::Explicit, after(1)))).await;
    let mut ended: Vec<Over> = ended.into_iter().filter_map(|over| over.expect("an answer")).collect();
    assert_eq!((ended.len(), ended[0].reason), (1, EndReason::Explicit));
    assert_eq!(sweep(live, after(1)).await, [], "it is in somebody's hand");
    let swept = join_all((0..3).map(|_| live.sweep(10, after(60)))).await;
    // Whoever was handed the first one has not told of it for an hour, so it may be handed over again.
    let swept = swept.into_iter().flat_map(|over| over.expect("an answer")).filter(|over| over.seen.key == two);
    ended.extend(swept);
    assert_eq!((ended.len(), ended[1].reason), (2, EndReason::Ttl));
    for over in &ended {
        live.told(over).await.expect("an answer");
    }
    assert_eq!(sweep(live, after(600)).await, []);
    assert_eq!(live.count(None).await, Ok(LiveCount::default()));
}

/// Everything that is said at the same time is kept, each with a number of its own.
pub async fn changes_at_once_lose_nothing(live: &dyn Live) {
    let (ids, one) = (CountedIds::default(), key("acme", "one"));
    begin(live, &one, after(0)).await.expect("room");
    let changes = (0..16).map(|n| live.change(&one, said(&ids, &format!("This is {n}"), after(0)), RULES, after(0)));
    for changed in join_all(changes).await {
        assert!(changed.expect("an answer").is_some());
    }
    let seen = live.look(&one, Look::Aside, after(0)).await.expect("an answer").expect("a session");
    let numbers: Vec<u64> = seen.session.held(100).turns.iter().map(|turn| turn.number).collect();
    assert_eq!((numbers, seen.session.message_count()), ((1..=16).collect(), 32));
}

/// A tenant has no more sessions than it may; who is over makes room.
pub async fn a_flood_stays_within_bounds(live: &dyn Live) {
    let names: Vec<LiveKey> = (0..20).map(|n| key("acme", &format!("v{n}"))).collect();
    let let_in = join_all(names.iter().map(|key| begin(live, key, after(0)))).await;
    assert_eq!(let_in.iter().filter(|let_in| let_in.is_ok()).count(), 5);
    let refused = let_in.into_iter().find_map(Result::err).expect("somebody was turned away");
    assert!(
        matches!(refused, LiveError::TooManySessions { sessions_max: 5, retry_after, .. } if !retry_after.is_zero())
    );
    begin(live, &key("globex", "v"), after(0)).await.expect("another tenant has room");
    begin(live, &key("acme", "late"), after(60)).await.expect("the others are over");
    assert_eq!(sweep(live, after(60)).await.len(), 6);
}

/// A TTL of its own counts from now on, shorter or longer.
pub async fn a_ttl_can_be_changed(live: &dyn Live) {
    for name in ["shorter", "longer"] {
        begin(live, &key("acme", name), after(0)).await.expect("room");
    }
    for (name, minutes) in [("shorter", 10), ("longer", 120)] {
        let patch = SessionPatch { ttl: Some(Ttl::of(Period::seconds(minutes * 60))), ..SessionPatch::default() };
        live.change(&key("acme", name), LiveChange::Patch(patch), RULES, after(0)).await.expect("an answer");
    }
    assert_eq!(sweep(live, after(9)).await, []);
    assert_eq!(sweep(live, after(10)).await, [("acme:shorter".to_owned(), EndReason::Ttl)]);
    assert_eq!(sweep(live, after(119)).await, []);
    assert_eq!(sweep(live, after(120)).await, [("acme:longer".to_owned(), EndReason::Ttl)]);
}

/// A session goes on under another name with its beginning and its end.
pub async fn a_session_can_be_renamed(live: &dyn Live) {
    let (web, phone) = (key("acme", "web"), key("acme", "phone"));
    begin(live, &web, after(0)).await.expect("room");
    begin(live, &phone, after(0)).await.expect("room");
    assert!(matches!(live.rename(&web, &phone, after(1)).await, Err(LiveError::Taken(_))));
    live.take(&phone, EndReason::Explicit, after(1)).await.expect("an answer");
    let moved = live.rename(&web, &phone, after(30)).await.expect("an answer").expect("a session");
    assert_eq!((moved.key, moved.session.created_at), (phone.clone(), after(0).wall));
    assert!(live.look(&web, Look::Visit, after(31)).await.expect("an answer").is_none());
    assert!(live.rename(&web, &key("acme", "x"), after(31)).await.expect("an answer").is_none());
    assert_eq!(sweep(live, after(89)).await, []);
    assert_eq!(sweep(live, after(90)).await, [("acme:phone".to_owned(), EndReason::Ttl)]);
}

/// What is counted is what is there: by tenant and in all, sessions and bytes.
pub async fn counts_are_exact(live: &dyn Live) {
    let ids = CountedIds::default();
    for (tenant, name) in [("acme", "a"), ("acme", "b"), ("globex", "c")] {
        begin(live, &key(tenant, name), after(0)).await.expect("room");
        for text in ["Hi", "How are you?"] {
            let change = said(&ids, text, after(0));
            let changed = live.change(&key(tenant, name), change, RULES, after(0)).await.expect("an answer");
            assert!(changed.is_some_and(|Changed { seen, .. }| seen.session.bytes() > 0));
        }
    }
    for (ends, sessions) in [(None, 2), (Some("a"), 1), (Some("b"), 0)] {
        if let Some(name) = ends {
            live.take(&key("acme", name), EndReason::Explicit, after(1)).await.expect("an answer");
        }
        let acme = Tenant::parse("acme").expect("a tenant");
        let page = live.list(&acme, PageRequest::first(50), after(1)).await.expect("an answer");
        let bytes = page.items.iter().map(|seen| seen.session.bytes()).sum();
        assert_eq!(live.count(Some(&acme)).await, Ok(LiveCount { sessions, bytes }));
        assert_eq!(page.items.len(), sessions);
    }
    let left = live.look(&key("globex", "c"), Look::Aside, after(1)).await.expect("an answer").expect("a session");
    assert_eq!(live.count(None).await, Ok(LiveCount { sessions: 1, bytes: left.session.bytes() }));
}
