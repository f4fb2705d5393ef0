//! Turns written while the clock was wrong.

use jiff::{SignedDuration, Timestamp};
use recalld::period::Ttl;
use recalld::store::StoreError;
use serde_json::{Value, json};

use crate::house::{House, OTHER_SESSION, SESSION, field};
use crate::live::{patient, visit};

fn a_day() -> House {
    House::plan().setting(|settings| settings.ttl = "24h".parse::<Ttl>().expect("a period")).open()
}

fn hours(n: i64) -> SignedDuration {
    SignedDuration::from_hours(n)
}

/// Cleans up; answers how many turns went.
async fn removed(house: &House) -> Value {
    let report = house.post("/api/v1/cleanup").send().await.expect(200);
    assert_eq!(report["errors"], json!([]));
    report["turns_deleted"].clone()
}

async fn times(house: &House, session: &str) -> Vec<Timestamp> {
    let turns = house.turns(session).await;
    turns.iter().map(|turn| turn["created_at"].as_str().and_then(|at| at.parse().ok()).expect("a time")).collect()
}

#[track_caller]
fn assert_in_order(times: &[Timestamp]) {
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

#[tokio::test]
async fn turns_written_while_the_clock_is_back_stay_when_it_is_set_right() {
    let house = a_day();
    for _ in 0..8 {
        house.chat(SESSION, "before").await;
    }
    house.clock.leap(hours(-48));
    for session in [SESSION, SESSION, OTHER_SESSION, OTHER_SESSION] {
        house.chat(session, "meanwhile").await;
    }
    let dialog = json!([{"role": "user", "content": "loose"}, {"role": "assistant", "content": "yes"}]);
    house.post(&format!("/api/v1/sessions/{OTHER_SESSION}/messages")).json(dialog).await.expect(201);
    house.clock.leap(hours(48));
    house.chat(SESSION, "after").await;
    assert_eq!(removed(&house).await, 0);
    assert_in_order(&times(&house, SESSION).await);
    house.clock.advance(hours(25));
    assert_eq!(removed(&house).await, 14, "they go with the others");
}

/// After a restart the new time is believed; a conversation that is there goes on after its last turn all the same.
#[tokio::test]
async fn a_server_started_with_its_clock_in_the_past_dates_no_turn_before_the_last_one() {
    let house = a_day();
    house.chat(SESSION, "before").await;
    let house = house.reopen_after(hours(-48)).await;
    house.chat(SESSION, "meanwhile").await;
    let past = json!({"query": "elsewhere", "response": "yes"});
    house.post(&format!("/api/v1/sessions/{SESSION}/turns")).json(past).await.expect(201);
    let loose = json!([{"role": "user", "content": "loose"}]);
    house.post(&format!("/api/v1/sessions/{SESSION}/messages")).json(loose).await.expect(201);
    assert_in_order(&times(&house, SESSION).await);
    let house = house.reopen_after(hours(48)).await;
    assert_eq!(removed(&house).await, 0);
    assert_eq!(house.turns(SESSION).await.len(), 4);
}

/// A small step back is followed, but not within a conversation, also while its turns wait for the disk.
#[tokio::test]
async fn turns_that_wait_for_the_disk_keep_their_order_when_the_clock_steps_back() {
    let house = a_day();
    house.chat(SESSION, "one").await;
    house.flaky.fail(Some(StoreError::Full("no space left".into())));
    house.chat(SESSION, "two").await;
    house.clock.leap(SignedDuration::from_mins(-50));
    house.chat(SESSION, "three").await;
    house.flaky.fail(None);
    house.clock.leap(SignedDuration::from_mins(-50));
    house.chat(SESSION, "four").await;
    let turns = house.turns(SESSION).await;
    assert_eq!(field(&turns, "query_text"), ["one", "two", "three", "four"]);
    assert_in_order(&times(&house, SESSION).await);
}

#[tokio::test]
async fn a_visit_keeps_its_order_when_the_clock_steps_back() {
    let (house, _) = patient();
    for text in ["one", "two", "three"] {
        visit(&house, "acme:lobby", &[text]).await.expect(200);
        house.clock.leap(SignedDuration::from_mins(-50));
    }
    let body = json!([{"role": "user", "content": "loose"}]);
    house.post("/api/v1/sessions/acme:lobby/messages").json(body).await.expect(201);
    assert_in_order(&times(&house, "acme:lobby").await);
}

/// Who brings a date keeps it.
#[tokio::test]
async fn given_dates_stay() {
    let house = House::open();
    house.chat(SESSION, "now").await;
    let past = json!({"query": "then", "response": "yes", "created_at": "2020-01-01T00:00:00Z"});
    let added = house.post(&format!("/api/v1/sessions/{SESSION}/turns")).json(past).await.expect(201);
    assert_eq!(added["created_at"], "2020-01-01T00:00:00.000000Z");
}
