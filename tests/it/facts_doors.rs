//! Facts through the doors: listed, looked at, written down, corrected, taken back, undone.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::facts::{known, last_shown, learn, listed, say};
use crate::house::{House, OTHER_SESSION, SESSION, keys};
use crate::process::recalld;

const UNKNOWN: &str = "6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11";

async fn house() -> House {
    let house = House::open();
    say(&house, "ann", SESSION, "My name is Alex. I live in Lisbon.").await;
    learn(&house).await;
    house
}

async fn fact(house: &House, user: &str, key: &str) -> Value {
    let all = listed(house, user, "any").await;
    all.iter().find(|fact| fact["key"] == key).unwrap_or_else(|| panic!("no fact `{key}` in {all:?}")).clone()
}

fn id(fact: &Value) -> &str {
    fact["id"].as_str().expect("an id")
}

/// E3: a fact has the promised fields, each with its source.
#[tokio::test]
async fn a_fact_shows_where_it_was_said() {
    let house = house().await;
    let page = house.get("/api/v1/users/ann/facts").user("ann").send().await.expect(200);
    assert_eq!(keys(&page), ["facts", "next"]);
    let fact = fact(&house, "ann", "location").await;
    let fields = "id category key value confidence importance status valid_from valid_to learned_at ended_by evidence";
    assert_eq!(keys(&fact), fields.split(' ').collect::<Vec<_>>());
    let told = "message_id session_id said_at quote confirmations last_said_at";
    assert_eq!(keys(&fact["evidence"]), told.split(' ').collect::<Vec<_>>());
    let values = (&fact["category"], &fact["value"], &fact["status"], &fact["evidence"]["session_id"]);
    assert_eq!(values, (&json!("identity"), &json!("Lisbon"), &json!("active"), &json!(SESSION)));
    let quote = fact["evidence"]["quote"].as_str().expect("a quote");
    assert!("My name is Alex. I live in Lisbon.".contains(quote) && !quote.is_empty(), "{quote}");
    let turns = house.turns_of("ann", SESSION).await;
    assert_eq!(fact["evidence"]["said_at"], turns[0]["created_at"]);
    let one = house.get(&format!("/api/v1/facts/{}", id(&fact))).user("ann").send().await.expect(200);
    assert_eq!(one, fact);
}

/// A foreign user and a foreign fact are as good as unknown, on every route.
#[tokio::test]
async fn others_see_nothing() {
    let house = house().await;
    let name = fact(&house, "ann", "name").await;
    for user in ["ann", "nobody"] {
        let path = format!("/api/v1/users/{user}/facts");
        assert_eq!(house.get(&path).user("bob").send().await.refusal(), (404, "unknown_user"));
        let draft = json!({"key": "name", "value": "Eve"});
        assert_eq!(house.post(&path).user("bob").json(draft).await.refusal(), (404, "unknown_user"));
        let undo = house.post(&format!("{path}/undo")).user("bob").json(json!({"fact_id": id(&name)}));
        assert_eq!(undo.await.refusal(), (404, "unknown_user"));
    }
    for fact in [id(&name), UNKNOWN] {
        let path = format!("/api/v1/facts/{fact}");
        assert_eq!(house.get(&path).user("bob").send().await.refusal(), (404, "unknown_fact"));
        assert_eq!(house.ask("DELETE", &path).user("bob").send().await.refusal(), (404, "unknown_fact"));
        let patch = house.ask("PATCH", &path).user("bob").json(json!({"value": "Eve"}));
        assert_eq!(patch.await.refusal(), (404, "unknown_fact"));
        assert_eq!(house.get(&format!("{path}/history")).user("bob").send().await.refusal(), (404, "unknown_fact"));
        let undo = house.post("/api/v1/users/bob/facts/undo").user("bob").json(json!({"fact_id": fact}));
        assert_eq!(undo.await.refusal(), (404, "unknown_fact"));
    }
    assert_eq!(house.get("/api/v1/users/bob/facts").user("bob").send().await.expect(200)["facts"], json!([]));
    assert_eq!(known(&house, "ann").await, ["location: Lisbon", "name: Alex"]);
}

/// What is wrong is said, and nothing changes.
#[tokio::test]
async fn bad_requests_change_nothing() {
    let house = house().await;
    let users = "/api/v1/users/ann/facts";
    for (query, code) in
        [("?status=nice", "invalid_status"), ("?as_of=noon", "invalid_time"), ("?limit=0", "invalid_limit")]
    {
        assert_eq!(house.get(&format!("{users}{query}")).user("ann").send().await.refusal(), (400, code), "{query}");
    }
    for (draft, code) in [
        (json!({"key": "name"}), "invalid_json"),
        (json!({"key": " ", "value": "x"}), "empty_text"),
        (json!({"key": "name", "value": ""}), "empty_text"),
        (json!({"key": "name", "value": "x".repeat(101)}), "text_too_long"),
        (json!({"key": "name", "value": "x", "category": "secret"}), "invalid_category"),
        (json!({"key": "name", "value": "x", "importance": 2}), "invalid_importance"),
        (json!({"key": "name", "value": "x", "until": "noon"}), "invalid_json"),
    ] {
        let answer = house.post(users).user("ann").json(draft.clone()).await;
        assert!(answer.status >= 400 && answer.status < 500, "{draft}: {}", answer.text());
        if !matches!(code, "empty_text" | "text_too_long") {
            assert_eq!(answer.code(), code, "{draft}");
        }
    }
    for undo in [
        json!({}),
        json!({"fact_id": "x"}),
        json!({"fact_id": UNKNOWN, "undo_id": UNKNOWN}),
        json!({"to": "2026-01-01T00:00:00Z"}),
    ] {
        assert_eq!(house.post(&format!("{users}/undo")).user("ann").json(undo).await.status, 400);
    }
    let unknown = house.post(&format!("{users}/undo")).user("ann").json(json!({"undo_id": UNKNOWN}));
    assert_eq!(unknown.await.refusal(), (404, "unknown_undo"));
    let unknown = house.post(&format!("{users}/undo")).user("ann").json(json!({"message_id": UNKNOWN}));
    assert_eq!(unknown.await.refusal(), (404, "unknown_message"));
    let path = format!("/api/v1/facts/{}", id(&fact(&house, "ann", "name").await));
    assert_eq!(house.ask("PATCH", &path).user("ann").json(json!({})).await.refusal(), (400, "nothing_to_change"));
    assert_eq!(house.get("/api/v1/facts/nonsense").user("ann").send().await.refusal(), (400, "invalid_fact_id"));
    assert_eq!(known(&house, "ann").await, ["location: Lisbon", "name: Alex"]);
}

/// Facts are listed in pages, by status, and as they were believed at a time.
#[tokio::test]
async fn facts_are_listed_by_status_and_time() {
    let house = house().await;
    house.clock.advance(jiff::SignedDuration::from_hours(1));
    let before =
        jiff::Timestamp::from_microsecond(recalld::clock::Clock::now(&*house.clock).as_microsecond()).expect("a time");
    say(&house, "ann", OTHER_SESSION, "I moved to Porto.").await;
    learn(&house).await;
    assert_eq!(known(&house, "ann").await, ["location: Porto", "name: Alex"]);
    let then = house.get(&format!("/api/v1/users/ann/facts?as_of={before}")).user("ann").send().await.expect(200);
    let then = then["facts"].as_array().expect("a list");
    assert_eq!(then.len(), 2);
    let lisbon = then.iter().find(|fact| fact["value"] == "Lisbon").expect("it was believed");
    assert_eq!((&lisbon["status"], &lisbon["valid_to"]), (&json!("active"), &Value::Null));
    let old = listed(&house, "ann", "superseded").await;
    assert_eq!((old.len(), &old[0]["value"]), (1, &json!("Lisbon")));
    let first = house.get("/api/v1/users/ann/facts?status=any&limit=1").user("ann").send().await.expect(200);
    let next = first["next"].as_str().expect("there is more");
    let rest =
        house.get(&format!("/api/v1/users/ann/facts?status=any&after={next}")).user("ann").send().await.expect(200);
    assert_eq!((first["facts"].as_array().map(Vec::len), rest["facts"].as_array().map(Vec::len)), (Some(1), Some(2)));
    assert_eq!(rest["next"], Value::Null);
}

/// A person writes down, corrects and takes back; the model is told accordingly, and all of it can be undone.
#[tokio::test]
async fn people_have_the_last_word() {
    let house = house().await;
    let add = json!({"key": "Home Town", "value": " Faro \n city ", "importance": 0.4});
    let added = house.post("/api/v1/users/ann/facts").user("ann").json(add).await.expect(201);
    assert_eq!(
        (&added["value"], &added["confidence"], &added["importance"]),
        (&json!("Faro city"), &json!(1.0), &json!(0.4))
    );
    assert_eq!(added["evidence"]["message_id"], Value::Null);

    let location = fact(&house, "ann", "location").await;
    let path = format!("/api/v1/facts/{}", id(&location));
    let corrected = house.ask("PATCH", &path).user("ann").json(json!({"value": "Porto"})).await.expect(200);
    assert_eq!((&corrected["value"], &corrected["status"]), (&json!("Porto"), &json!("active")));
    assert_eq!(
        house.ask("PATCH", &path).user("ann").json(json!({"value": "Rome"})).await.refusal(),
        (409, "fact_not_held")
    );
    say(&house, "ann", SESSION, "What is for lunch?").await;
    assert!(last_shown(&house).contains("- location: Porto (since"), "{}", last_shown(&house));

    let retracted =
        house.ask("DELETE", &format!("/api/v1/facts/{}", id(&corrected))).user("ann").send().await.expect(200);
    assert_eq!(retracted["status"], "retracted");
    assert!(!known(&house, "ann").await.iter().any(|fact| fact.starts_with("location")));
    let undo = async |what: Value| house.post("/api/v1/users/ann/facts/undo").user("ann").json(what).await.expect(200);
    undo(json!({"fact_id": id(&corrected)})).await;
    assert_eq!(fact(&house, "ann", "location").await["status"], "superseded");
    let undone = undo(json!({"fact_id": id(&corrected)})).await;
    assert!(known(&house, "ann").await.contains(&"location: Lisbon".to_owned()));
    undo(json!({"undo_id": undone["undo_id"]})).await;
    assert!(known(&house, "ann").await.contains(&"location: Porto".to_owned()));

    let history = house.get(&format!("{path}/history")).user("ann").send().await.expect(200);
    assert_eq!(keys(&history), ["fact", "events", "evidence"]);
    let events: Vec<(&str, &str)> = history["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| (event["event"].as_str().expect("a word"), event["cause"].as_str().expect("a word")))
        .collect();
    assert_eq!(events[..3], [("add", "conversation"), ("supersede", "person"), ("add", "person")]);
    assert!(events.contains(&("retract", "person")) && events.contains(&("restore", "undo")), "{events:?}");
}

/// Everything that a message brought goes at once, and comes back.
#[tokio::test]
async fn what_a_message_brought_can_be_undone() {
    let house = house().await;
    let message = fact(&house, "ann", "name").await["evidence"]["message_id"].clone();
    let undo = async |what: Value| house.post("/api/v1/users/ann/facts/undo").user("ann").json(what).await.expect(200);
    let undone = undo(json!({ "message_id": message })).await;
    assert_eq!((undone["facts"].as_array().map(Vec::len), known(&house, "ann").await.len()), (Some(2), 0));
    undo(json!({"undo_id": undone["undo_id"]})).await;
    assert_eq!(known(&house, "ann").await, ["location: Lisbon", "name: Alex"]);
    let undone = undo(json!({"from": "2026-01-01T00:00:00Z"})).await;
    assert!(known(&house, "ann").await.is_empty());
    undo(json!({"undo_id": undone["undo_id"]})).await;
    assert_eq!(known(&house, "ann").await, ["location: Lisbon", "name: Alex"]);
}

/// A deleted conversation takes its facts along.
#[tokio::test]
async fn a_deleted_session_takes_its_facts_along() {
    let house = house().await;
    say(&house, "ann", OTHER_SESSION, "My name is Alex.").await;
    learn(&house).await;
    house.ask("DELETE", &format!("/api/v1/sessions/{SESSION}")).user("ann").send().await.expect(200);
    assert_eq!(known(&house, "ann").await, ["name: Alex"]);
    assert_eq!(listed(&house, "ann", "any").await.len(), 1);
}

/// What is known, and what was no fact, is counted.
#[tokio::test]
async fn facts_are_counted() {
    let house = house().await;
    let stats = house.get("/api/v1/stats").user("ann").send().await.expect(200);
    assert_eq!(
        (&stats["facts"], &stats["facts_quarantined"], &stats["turns_to_understand"]),
        (&json!(2), &json!(0), &json!(0))
    );
    assert!(stats["facts_refused"].is_object(), "{stats}");
    assert_eq!(
        (house.metric("recalld_facts_learned_total").await, house.metric("recalld_turns_understood_total").await),
        (2, 1)
    );
}

/// The commands of `recalld facts`, as a shell runs them.
#[test]
fn the_command_line_shows_and_changes_facts() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let settings = [("RECALLD_UPSTREAM", "builtin"), ("RECALLD_DATA", "r.db")];
        let done = recalld(folder.path(), arguments, &settings).stdout(Stdio::piped()).output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let json = |arguments: &[&str]| -> Value {
        let (_, text) = run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
    };
    assert_eq!(json(&["facts"])["facts"], json!([]));
    assert_eq!(run(&["ask", "My name is Alex."]).0, Some(0));
    let listed = json(&["facts", "list"]);
    assert_eq!(listed["facts"][0]["value"], "Alex", "{listed}");
    let added = json(&["facts", "add", "location", "Lisbon"]);
    let id = added["id"].as_str().expect("an id");
    let corrected = json(&["facts", "correct", id, "Porto", "--importance", "0.7"]);
    assert_eq!((&corrected["value"], &corrected["importance"]), (&json!("Porto"), &json!(0.7)));
    let porto = corrected["id"].as_str().expect("an id");
    let (_, table) = run(&["facts", "list"]);
    assert!(table.starts_with("ID") && table.contains("identity/location") && table.contains("Porto"), "{table}");
    assert!(run(&["facts", "show", porto]).1.contains("written down by hand"));
    assert!(run(&["facts", "history", porto]).1.contains("supersede"));
    let undone = json(&["facts", "undo", porto]);
    assert_eq!(json(&["facts", "show", id])["status"], "active");
    let undo = undone["undo_id"].as_str().expect("an id");
    assert_eq!(run(&["facts", "undo", "--undo", undo]).0, Some(0));
    assert_eq!(json(&["facts", "retract", porto])["status"], "retracted");
    assert_eq!(json(&["facts", "list", "--status", "any"])["facts"].as_array().map(Vec::len), Some(3));
    assert_eq!((run(&["facts", "show", UNKNOWN]).0, run(&["facts", "undo"]).0), (Some(3), Some(2)));
}
