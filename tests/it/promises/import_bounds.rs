//! Lines of an import that carry numbers obey the bounds of all others, and none makes a conversation unusable.

use std::process::Stdio;

use axum::body::Body;
use serde_json::{Value, json};

use crate::house::{House, SESSION};
use crate::process::recalld;

/// The highest number that is taken in.
const NUMBER_MAX: u64 = 1 << 40;
const TIME: &str = "2025-06-01T10:00:00Z";

fn session() -> Value {
    json!({"type": "session", "id": SESSION, "created_at": TIME, "updated_at": TIME, "last_accessed": TIME})
}

/// The nth turn of the session, with this number and answer.
fn turn(n: u32, number: impl Into<Value>, answer: &str) -> Value {
    let message = |role: &str, text: &str| json!({"role": role, "text": text, "created_at": TIME});
    json!({"type": "turn", "session": SESSION, "id": format!("01972b5c-8e80-7000-8000-{n:08}0000"), "number": number.into(),
           "status": "complete", "created_at": TIME, "messages": [message("user", "How high?"), message("assistant", answer)]})
}

fn topic(accesses: u64) -> Value {
    json!({"type": "topic", "id": "01972b5c-8e80-7000-8000-0000000000aa", "title": "Heights", "importance": 1.0,
           "accesses": accesses, "created_at": TIME, "last_used": TIME})
}

fn episode(last: u64) -> Value {
    json!({"type": "episode", "id": "01972b5c-8e80-7000-8000-0000000000bb", "session": SESSION, "level": "stretch",
           "first": 1, "last": last, "weight": 10, "from": TIME, "to": TIME, "summary": "They spoke of heights.",
           "made_by": "test", "version": 1})
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

async fn import(house: &House, query: &str, records: &[Value]) -> Value {
    let ask = house.post(&format!("/api/v1/import?{query}")).header("content-type", "application/x-ndjson");
    ask.body(Body::from(lines(records))).await.expect(200)
}

/// Sessions, turns and refused lines of a report.
fn counts(report: &Value) -> (u64, u64, u64) {
    let count = |name: &str| report[name].as_u64().expect("a number");
    (count("sessions"), count("turns"), count("refused_count"))
}

/// What a session holds after one more question was asked in it, by number.
async fn numbers_after_a_question(house: &House) -> Vec<u64> {
    house.chat(SESSION, "And now?").await;
    house.turns(SESSION).await.iter().filter_map(|turn| turn["turn_number"].as_u64()).collect()
}

#[tokio::test]
async fn a_text_of_a_numbered_turn_has_the_bound_of_any_text() {
    let house = House::plan().setting(|settings| settings.answer_chars_max = 100).open();
    let (fits, too_long) = ("x".repeat(100), "x".repeat(101));
    let mut other_try = turn(3, 3, "high");
    other_try["attempt"] = json!(1);
    let message = json!({"role": "assistant", "text": too_long, "created_at": TIME});
    other_try["revisions"] = json!([{"attempt": 0, "status": "complete", "created_at": TIME, "messages": [message]}]);
    let control = turn(5, 5, "red \u{1b}[31m");
    let records =
        [session(), turn(1, 1, &fits), turn(2, 2, &too_long), other_try, turn(4, Value::Null, &too_long), control];
    let report = import(&house, "", &records).await;
    assert_eq!(counts(&report), (1, 1, 4), "{report}");
    let refused: Vec<_> = report["refused"].as_array().expect("a list").iter().map(|line| &line["line"]).collect();
    assert_eq!(refused, [3, 4, 5, 6]);
    assert_eq!(house.turns(SESSION).await.len(), 1);
}

#[tokio::test]
async fn a_stored_text_with_control_characters_comes_back() {
    let (house, _) = crate::openai::open();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "It prints \u{1b}[31mred\u{7}."}]});
    house.post("/v1/chat/completions").session(SESSION).json(body).await.expect(200);
    let exported = house.get("/api/v1/export").send().await.text().to_owned();
    assert!(exported.contains("\\u001b"), "{exported}");
    let empty = House::open();
    let ask = empty.post("/api/v1/import").header("content-type", "application/x-ndjson");
    let report = ask.body(Body::from(exported)).await.expect(200);
    assert_eq!(counts(&report), (1, 1, 0), "{report}");
}

#[tokio::test]
async fn a_number_that_leaves_no_room_for_the_next_is_refused() {
    for number in [NUMBER_MAX + 1, 1 << 53, (1 << 63) - 2, (1 << 63) - 1, 1 << 63, u64::MAX] {
        let house = House::open();
        let report = import(&house, "", &[session(), turn(1, 1, "high"), turn(2, number, "higher")]).await;
        assert_eq!(counts(&report), (1, 1, 1), "{number}: {report}");
        assert_eq!(numbers_after_a_question(&house).await, [1, 2], "{number}");
        let mut far = session();
        far["next_number"] = json!(number.saturating_add(1));
        let house = House::open();
        let report = import(&house, "", &[far, turn(1, 1, "high")]).await;
        assert_eq!(counts(&report), (0, 0, 2), "{number}: {report}");
        let report = import(&house, "", &[topic(number), session(), episode(number), turn(1, 1, "high")]).await;
        assert_eq!(counts(&report), (1, 1, 2), "{number}: {report}");
        assert_eq!(house.get("/readyz").send().await.status, 200, "{number}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_behind_the_highest_number() {
    let house = House::open();
    let report = import(&house, "", &[session(), turn(1, NUMBER_MAX, "high")]).await;
    assert_eq!(counts(&report), (1, 1, 0), "{report}");
    assert_eq!(numbers_after_a_question(&house).await, [NUMBER_MAX, NUMBER_MAX + 1]);
    let messages = house.pages(&format!("/api/v1/sessions/{SESSION}/messages?limit=1"), "messages").await;
    assert_eq!(messages.len(), 4, "cursors of messages count on");
}

#[tokio::test]
async fn an_episode_ahead_of_its_turns_covers_none_that_come_later() {
    let house = House::open();
    let report = import(&house, "", &[session(), episode(1_000), turn(1, 1, "high")]).await;
    assert_eq!(counts(&report), (1, 1, 0), "{report}");
    assert_eq!(numbers_after_a_question(&house).await, [1, 1_001]);
}

#[tokio::test]
async fn an_import_whose_turns_are_all_refused_adds_no_conversation() {
    let mut unanswered = turn(1, 1, "");
    unanswered["messages"] = json!([{"role": "user", "text": "How high?", "created_at": TIME}]);
    let (far, long) = (turn(1, u64::MAX, "high"), turn(1, 1, &"x".repeat(500_000)));
    for refused in [unanswered, far, long] {
        for query in ["dry_run=true", "dry_run=false"] {
            let house = House::open();
            let report = import(&house, query, &[session(), episode(1), refused.clone(), refused.clone()]).await;
            assert_eq!(counts(&report), (0, 0, 2), "{query}: {report}");
            assert_eq!((&report["episodes"], &report["sessions_known"]), (&json!(0), &json!(0)), "{report}");
            let found = house.get(&format!("/api/v1/sessions/{SESSION}")).send().await;
            assert_eq!(found.refusal(), (404, "unknown_session"));
            let report = import(&house, query, &[session(), refused.clone(), turn(2, 2, "high")]).await;
            assert_eq!(counts(&report), (1, 1, 1), "{query}: {report}");
        }
    }
    let house = House::open();
    let report = import(&house, "", &[session()]).await;
    assert_eq!(counts(&report), (1, 0, 0), "a conversation without turns is one: {report}");
}

#[test]
fn the_command_line_adds_no_conversation_of_refused_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("some.jsonl");
    let import = |records: &[Value]| {
        std::fs::write(&file, lines(records)).expect("written");
        let mut command = recalld(folder.path(), &["import", "--format", "recalld", "--json"], &[]);
        let done = command.arg(&file).args(["--data", "r.db"]).stdout(Stdio::piped()).output().expect("it runs");
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        told["files"][0]["new"]["conversations"].as_u64().expect("a number")
    };
    assert_eq!(import(&[session(), turn(1, u64::MAX, "high")]), 0);
    assert_eq!(import(&[session(), turn(1, u64::MAX, "high"), turn(2, 2, "high")]), 1);
}
