//! What time does.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use recalld::clock::Clock;
use recalld::id::{Ids, RandomIds, SessionId};
use recalld::message::{Message, Role};
use recalld::period::Ttl;
use recalld::scope::{Scope, Tenant, User};
use recalld::session::{SessionSeed, TurnDraft};
use recalld::store::{Store, StoreError};
use recalld::worker::Worker;
use serde_json::{Value, json};

use crate::house::{House, SESSION, eventually, keys};

fn a_day() -> House {
    House::plan().setting(|settings| settings.ttl = "24h".parse::<Ttl>().expect("a period")).open()
}

fn hours(n: i64) -> SignedDuration {
    SignedDuration::from_hours(n)
}

async fn cleanup(house: &House) -> Value {
    house.post("/api/v1/cleanup").send().await.expect(200)
}

fn removed(report: &Value) -> (u64, u64) {
    let number = |name: &str| report[name].as_u64().expect("a number");
    (number("sessions_deleted"), number("turns_deleted"))
}

/// B4: the report says what went, how long it took and what went wrong; the counters agree.
#[tokio::test]
async fn a_cleanup_reports_what_it_removed() {
    let house = a_day();
    house.chat(SESSION, "old").await;
    house.chat(SESSION, "old too").await;
    house.clock.advance(hours(23));
    let young = "11111111-2222-4333-8444-555555555555";
    house.chat(young, "young").await;
    let report = cleanup(&house).await;
    assert_eq!(
        keys(&report),
        ["sessions_deleted", "turns_deleted", "facts_expired", "topics_forgotten", "seconds", "errors"]
    );
    assert_eq!((removed(&report), &report["errors"]), ((0, 0), &json!([])));
    house.clock.advance(hours(2));
    let report = cleanup(&house).await;
    assert_eq!((removed(&report), &report["errors"]), ((1, 2), &json!([])));
    assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{report}");
    assert_eq!(house.get(&format!("/api/v1/sessions/{SESSION}")).send().await.status, 404);
    assert_eq!(house.turns(young).await.len(), 1);
    assert_eq!(house.metric("recalld_cleanups_total").await, 2);
    assert_eq!(house.metric("recalld_sessions_expired_total").await, 1);
    assert_eq!(house.metric("recalld_turns_expired_total").await, 2);
}

/// B4: an old turn goes, its younger neighbour stays, and its number is not used again.
#[tokio::test]
async fn numbers_are_not_used_again_after_a_cleanup() {
    let house = a_day();
    house.chat(SESSION, "old").await;
    house.clock.advance(hours(20));
    house.chat(SESSION, "young").await;
    house.clock.advance(hours(5));
    assert_eq!(removed(&cleanup(&house).await), (0, 1));
    assert_eq!(house.chat(SESSION, "now").await["metadata"]["turn_number"], 3);
    let numbers: Vec<Value> = house.turns(SESSION).await.iter().map(|turn| turn["turn_number"].clone()).collect();
    assert_eq!(numbers, [2, 3]);
}

/// B4: a session's own TTL wins over the server's, shorter or longer, also when it is given later.
#[tokio::test]
async fn a_session_has_a_ttl_of_its_own() {
    let house = a_day();
    let make = async |ttl: Value| {
        let body = if ttl.is_null() { json!({}) } else { json!({ "ttl": ttl }) };
        let made = house.post("/api/v1/sessions").json(body).await.expect(201);
        let id = made["id"].as_str().expect("an id").to_owned();
        house.chat(&id, "hello").await;
        id
    };
    let (hour, never, usual, later) =
        (make(json!("1h")).await, make(json!("never")).await, make(Value::Null).await, make(Value::Null).await);
    house.ask("PATCH", &format!("/api/v1/sessions/{later}")).json(json!({"ttl": "72h"})).await.expect(200);
    let left = async || {
        let mut left = Vec::new();
        for (name, id) in [("hour", &hour), ("never", &never), ("usual", &usual), ("later", &later)] {
            if house.get(&format!("/api/v1/sessions/{id}")).send().await.status == 200 {
                left.push(name);
            }
        }
        left
    };
    house.clock.advance(hours(2));
    cleanup(&house).await;
    assert_eq!(left().await, ["never", "usual", "later"]);
    house.clock.advance(hours(24));
    cleanup(&house).await;
    assert_eq!(left().await, ["never", "later"]);
    house.clock.advance(hours(24 * 365));
    cleanup(&house).await;
    assert_eq!(left().await, ["never"]);
    assert_eq!(house.turns(&never).await.len(), 1);
}

/// P9: a clock that leaps deletes nothing, and the report says why.
#[tokio::test]
async fn a_leaping_clock_deletes_nothing() {
    let house = a_day();
    house.chat(SESSION, "hello").await;
    house.clock.leap(hours(24 * 30));
    let report = cleanup(&house).await;
    assert_eq!(removed(&report), (0, 0));
    let why = report["errors"][0].as_str().expect("a reason");
    assert!(why.contains("the wall clock leapt forward by 43200 minutes; nothing was deleted"), "{why}");
    assert_eq!(house.turns(SESSION).await.len(), 1);
    assert_eq!(house.metric("recalld_clock_leaps_total").await, 1);
    assert_eq!(house.metric("recalld_cleanup_failures_total").await, 1);

    house.clock.leap(hours(-24 * 30));
    assert_eq!(cleanup(&house).await["errors"], json!([]), "set right, all is well");
    house.clock.advance(hours(25));
    assert_eq!(removed(&cleanup(&house).await), (1, 1));
}

/// B4: a failing cleanup is counted, reported, and the worker tries again by itself.
#[tokio::test]
async fn a_failing_cleanup_is_counted_and_tried_again() {
    let house = a_day();
    house.chat(SESSION, "hello").await;
    house.clock.advance(hours(25));
    house.flaky.fail(Some(StoreError::Disk("unplugged".into())));
    let report = cleanup(&house).await;
    assert_eq!((removed(&report), &report["errors"]), ((0, 0), &json!(["the disk failed: unplugged"])));
    assert_eq!(house.metric("recalld_cleanup_failures_total").await, 1);

    let worker = Worker::start(house.memory.clone(), Arc::clone(&house.watch), Duration::from_millis(20));
    eventually("the worker has failed too", async || (house.memory.meters().cleanup_failures.get() >= 3).then_some(()))
        .await;
    house.flaky.fail(None);
    eventually("the worker has cleaned up", async || (house.memory.meters().turns_expired.get() == 1).then_some(()))
        .await;
    worker.stop().await;
    assert_eq!(house.get(&format!("/api/v1/sessions/{SESSION}")).send().await.status, 404);
}

/// B4: a hundred thousand turns go in batches, while others write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "the seconds are worth reading; nothing is asserted on them")]
async fn a_hundred_thousand_turns_are_cleaned_up_in_batches() {
    const SESSIONS: u64 = 100;
    const TURNS_EACH: u64 = 1_000;
    let house = a_day();
    let scope = Scope::new(Tenant::default(), User::anonymous());
    let at = house.clock.now();
    for _ in 0..SESSIONS {
        let said = |role| Message::new(role, "What are the requirements for working at height?", at);
        let draft = || TurnDraft {
            id: RandomIds.turn(at),
            messages: vec![said(Role::User), said(Role::Assistant)],
            metadata: Default::default(),
            created_at: Some(at),
        };
        let drafts = (0..TURNS_EACH).map(|_| draft()).collect();
        house.store.add_turns(&scope, RandomIds.session(), Some(SessionSeed::default()), drafts).await.expect("stored");
    }
    house.clock.advance(hours(25));
    house.chat(SESSION, "young").await;
    let cleaning = tokio::spawn({
        let (memory, watch) = (house.memory.clone(), Arc::clone(&house.watch));
        async move { memory.cleanup(&watch).await }
    });
    let mut asked = 0;
    while !cleaning.is_finished() {
        house.chat(SESSION, "in between").await;
        asked += 1;
    }
    let report = cleaning.await.expect("a report");
    eprintln!("removed {} turns in {:.2} s, {asked} chats in between", report.turns_deleted, report.seconds);
    assert_eq!((report.sessions_deleted, report.turns_deleted), (SESSIONS, SESSIONS * TURNS_EACH));
    assert_eq!(report.errors, Vec::<String>::new());
    let kept = house.memory.session(&scope, SessionId::parse(SESSION).expect("a UUID")).await.expect("still there");
    assert_eq!(kept.turns, 1 + asked);
}
