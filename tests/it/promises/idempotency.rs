//! A repeated request with the same idempotency key changes nothing, and is answered as it was.

use std::process::Stdio;

use axum::body::Body;
use jiff::SignedDuration;
use recalld::model::ModelError;
use recalld::model::scripted::Line;
use recalld::store::StoreError;
use serde_json::{Value, json};

use crate::house::{Answer, House, OTHER_SESSION, SESSION, field};
use crate::outages::database::Database;
use crate::process::{Server, recalld};

const KEY: &str = "idempotency-key";

/// Asks with a key in the usual session.
async fn ask(house: &House, key: &str, query: &str) -> Answer {
    house.post("/chat").session(SESSION).header(KEY, key).json(json!({ "query": query })).await
}

async fn post(house: &House, path: &str, key: &str, body: Value) -> Answer {
    house.post(path).header(KEY, key).json(body).await
}

/// The turn, its number and the answer.
fn told(answer: &Answer) -> (Value, Value, Value) {
    let body = answer.expect(200);
    (body["metadata"]["turn_id"].clone(), body["metadata"]["turn_number"].clone(), body["message"].clone())
}

#[tokio::test]
async fn a_repeated_question_is_answered_by_the_stored_turn() {
    let house = House::open();
    house.model.then(Line { pieces: vec!["In May.".into()], error: None });
    let first = ask(&house, "k", "When?").await;
    let again = ask(&house, "k", "When?").await;
    assert_eq!((told(&again), told(&again).2), (told(&first), json!("In May.")));
    assert_eq!(again.header("x-recalld-turn"), first.header("x-recalld-turn"));
    assert_eq!(again.expect(200)["intent"], first.expect(200)["intent"]);
    assert_eq!((house.model.shown().len(), house.turns(SESSION).await.len()), (1, 1));
    assert_ne!(told(&ask(&house, "l", "When?").await).0, told(&first).0, "another key is another request");
    let bobs = house.post("/chat").session(SESSION).user("bob").header(KEY, "k").json(json!({"query": "Where?"})).await;
    assert_eq!(told(&bobs).2, "ok", "a key is one user's");
}

#[tokio::test]
async fn a_repeated_question_without_a_session_goes_where_the_first_went() {
    let house = House::open();
    let ask = || post(&house, "/chat", "k", json!({"query": "When?"}));
    let (first, again) = (ask().await, ask().await);
    assert_eq!((told(&again), again.header("x-session-id")), (told(&first), first.header("x-session-id")));
    assert_eq!(house.model.shown().len(), 1);
}

/// Two people who name nobody may send the same key and the same question.
#[tokio::test]
async fn a_key_of_somebody_unnamed_leads_to_no_earlier_conversation() {
    let unnamed = recalld::config::Unidentified::Session;
    let house = House::plan().setting(|settings| settings.unidentified = unnamed).open();
    let ask = || post(&house, "/chat", "k", json!({"query": "When?"}));
    let (one, other) = (ask().await, ask().await);
    assert_ne!(one.header("x-session-id"), other.header("x-session-id"));
    assert_eq!(house.model.shown().len(), 2);
}

#[tokio::test]
async fn a_repeated_question_is_streamed_if_it_was() {
    let house = House::open();
    house.model.then(Line { pieces: vec!["In ".into(), "May.".into()], error: None });
    let ask = || post(&house, "/chat", "k", json!({"query": "When?", "stream": true}));
    let (first, again) = (ask().await, ask().await);
    assert_eq!(again.header("x-recalld-turn"), first.header("x-recalld-turn"));
    assert!(again.text().contains("In May.") && again.text().contains("event: done"), "{}", again.text());
    assert_eq!(house.model.shown().len(), 1);
}

#[tokio::test]
async fn a_key_with_another_request_is_a_conflict() {
    let house = House::open();
    ask(&house, "k", "When?").await.expect(200);
    assert_eq!(ask(&house, "k", "Where?").await.refusal(), (409, "key_reused"));
    let elsewhere = house.post("/chat").session(OTHER_SESSION).header(KEY, "k").json(json!({"query": "When?"})).await;
    assert_eq!(elsewhere.refusal(), (409, "key_reused"));
    let path = format!("/api/v1/sessions/{SESSION}/turns");
    let turn = post(&house, &path, "k", json!({"query": "a", "response": "b"})).await;
    assert_eq!(turn.refusal(), (409, "key_reused"));
    assert_eq!(house.turns(SESSION).await.len(), 1);
}

#[tokio::test]
async fn a_key_is_kept_for_a_day_and_over_a_restart() {
    let house = House::open();
    let first = told(&ask(&house, "k", "When?").await);
    house.clock.advance(SignedDuration::from_hours(23));
    let house = house.reopen().await;
    assert_eq!(told(&ask(&house, "k", "When?").await), first);
    house.clock.advance(SignedDuration::from_hours(1));
    assert_ne!(told(&ask(&house, "k", "Where?").await).0, first.0);
    assert_eq!(house.turns(SESSION).await.len(), 2);
}

#[tokio::test]
async fn a_question_that_failed_is_asked_again_in_its_turn() {
    let house = House::open();
    let error = ModelError::BrokeOff("the line went dead".into());
    house.model.then(Line { pieces: Vec::new(), error: Some(error.clone()) });
    house.model.then(Line { pieces: vec!["In M".into()], error: Some(error) });
    house.model.then(Line { pieces: vec!["In May.".into()], error: None });
    let statuses = [ask(&house, "k", "When?").await.status, ask(&house, "k", "When?").await.status];
    assert_eq!(statuses, [502, 502]);
    assert_eq!(told(&ask(&house, "k", "When?").await).2, "In May.");
    assert_eq!(told(&ask(&house, "k", "When?").await).2, "In May.");
    let turns = house.turns(SESSION).await;
    assert_eq!((turns.len(), &turns[0]["status"], house.model.shown().len()), (1, &json!("complete"), 3));
}

#[tokio::test]
async fn questions_that_come_at_once_are_one_turn() {
    let house = House::open();
    let (one, other, third) =
        tokio::join!(ask(&house, "k", "When?"), ask(&house, "k", "When?"), ask(&house, "k", "When?"));
    assert_eq!((told(&other), told(&third)), (told(&one), told(&one)));
    assert_eq!(house.turns(SESSION).await.len(), 1);
}

#[tokio::test]
async fn a_repeated_question_is_found_while_its_turn_waits() {
    let house = House::open();
    house.chat(SESSION, "Hello").await;
    house.flaky.fail(Some(StoreError::Full("no space left".into())));
    let first = ask(&house, "k", "When?").await;
    assert_eq!(first.header("x-recalld-status"), "degraded");
    let again = ask(&house, "k", "When?").await;
    assert_eq!((told(&again), again.header("x-recalld-status")), (told(&first), "degraded"));
    assert_eq!(ask(&house, "k", "Where?").await.refusal(), (409, "key_reused"));
    house.flaky.fail(None);
    assert_eq!(house.store.flush().await, 0);
    let later = ask(&house, "k", "When?").await;
    assert_eq!((told(&later).0, told(&later).1), (told(&first).0, json!(2)));
    assert_eq!((house.turns(SESSION).await.len(), house.model.shown().len()), (2, 2));
}

#[tokio::test]
async fn a_turn_and_messages_are_added_once() {
    let house = House::open();
    house.chat(SESSION, "Hello").await;
    let path = format!("/api/v1/sessions/{SESSION}/turns");
    let turn = json!({"query": "When?", "response": "In May."});
    let first = post(&house, &path, "k", turn.clone()).await.expect(201);
    assert_eq!(post(&house, &path, "k", turn).await.expect(201), first);
    assert_eq!(post(&house, &path, "k", json!({"query": "a", "response": "b"})).await.refusal(), (409, "key_reused"));
    let path = format!("/api/v1/sessions/{SESSION}/messages");
    let messages = json!([{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Here."}]);
    let first = post(&house, &path, "m", messages.clone()).await.expect(201);
    assert_eq!(post(&house, &path, "m", messages).await.expect(201), first);
    assert_eq!(field(&house.turns(SESSION).await, "query_text"), ["Hello", "When?", "Where?"]);
}

#[tokio::test]
async fn a_fact_is_written_set_right_and_undone_once() {
    let house = House::open();
    let facts = "/api/v1/users/anonymous/facts";
    let city = json!({"key": "city", "value": "Lisbon"});
    let first = post(&house, facts, "k", city.clone()).await.expect(201);
    assert_eq!(post(&house, facts, "k", city).await.expect(201), first);
    let path = format!("/api/v1/facts/{}", first["id"].as_str().expect("an id"));
    let right = || house.ask("PATCH", &path).header(KEY, "p").json(json!({"value": "Porto"}));
    let moved = right().await.expect(200);
    assert_eq!(right().await.expect(200), moved);
    let undo = format!("{facts}/undo");
    let what = json!({"fact_id": moved["id"]});
    let undone = post(&house, &undo, "u", what.clone()).await.expect(200);
    assert_eq!(post(&house, &undo, "u", what).await.expect(200), undone);
    let held = house.get(&format!("{facts}?status=active")).send().await.expect(200);
    assert_eq!(held["facts"][0]["value"], "Lisbon");
}

#[tokio::test]
async fn knowledge_is_added_once() {
    let house = crate::knowledge::house();
    let (note, newer) =
        (json!({"title": "Hours", "text": "Nine to five."}), json!({"title": "Hours", "text": "Ten to six."}));
    let first = post(&house, "/api/v1/knowledge", "k", note.clone()).await.expect(201);
    post(&house, "/api/v1/knowledge", "l", newer.clone()).await.expect(201);
    let again = post(&house, "/api/v1/knowledge", "k", note).await.expect(201);
    assert_eq!(again["documents"][0]["id"], first["documents"][0]["id"]);
    assert_eq!(again["documents"][0]["version"], 2, "what came later is not replaced by what came before");
    assert_eq!(post(&house, "/api/v1/knowledge", "k", newer).await.refusal(), (409, "key_reused"));
    let file = |boundary: &str| {
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\nWe open at nine.\r\n--{boundary}--"
        );
        let kind = format!("multipart/form-data; boundary={boundary}");
        house.post("/api/v1/knowledge").header(KEY, "f").header("content-type", &kind).body(Body::from(body))
    };
    let first = file("one").await.expect(201);
    assert_eq!(file("other").await.expect(201), first, "a form is what is in it");
}

#[tokio::test]
async fn an_import_reports_once() {
    let house = House::open();
    house.chat(SESSION, "Hello").await;
    let lines = house.get("/api/v1/export").send().await.text().to_owned() + "nonsense\n";
    let empty = House::open();
    let import = |key: &str, lines: &str| {
        let ask = empty.post("/api/v1/import").header(KEY, key).header("content-type", "application/x-ndjson");
        ask.body(Body::from(lines.to_owned()))
    };
    let first = import("k", &lines).await.expect(200);
    assert_eq!((&first["turns"], &first["refused_count"]), (&json!(1), &json!(1)));
    let again = import("k", &lines).await.expect(200);
    assert_eq!((&again["turns"], &again["turns_known"], &again["refused_count"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(again["refused"][0]["line"], first["refused"][0]["line"]);
    let other = lines.replace("Hello", "Goodbye");
    assert_eq!(import("k", &other).await.refusal(), (409, "key_reused"));
    assert_eq!(import("l", &lines).await.expect(200)["turns_known"], 1, "another key is another import");
    assert_eq!(field(&empty.turns(SESSION).await, "query_text"), ["Hello"]);
}

#[tokio::test]
async fn a_key_is_refused_where_the_answer_is_not_kept() {
    let house = House::open();
    let admin = json!({"name": "admin", "rights": ["admin"]});
    assert_eq!(post(&house, "/api/v1/keys", "k", admin.clone()).await.refusal(), (400, "idempotency_not_possible"));
    let made = house.post("/api/v1/keys").json(admin).await.expect(201);
    let rotate = format!("/api/v1/keys/{}/rotate", made["id"].as_str().expect("an id"));
    let bearer = format!("Bearer {}", made["key"].as_str().expect("a key"));
    let rotated = house.post(&rotate).header("authorization", &bearer).header(KEY, "k").send().await;
    assert_eq!(rotated.refusal(), (400, "idempotency_not_possible"));
    let (house, _) = crate::openai::open();
    house.post("/api/v1/sessions").header("x-tenant-id", "acme").json(json!({"id": "acme:v"})).await.expect(201);
    let turn = post(&house, "/api/v1/sessions/acme:v/turns", "k", json!({"query": "a", "response": "b"})).await;
    assert_eq!(turn.refusal(), (400, "idempotency_not_possible"));
}

#[tokio::test]
async fn a_key_that_is_no_name_is_refused() {
    let house = House::open();
    assert_eq!(ask(&house, &"k".repeat(257), "When?").await.refusal(), (400, "invalid_id"));
}

#[tokio::test]
async fn what_was_erased_is_not_made_again() {
    let house = House::open();
    let turn = told(&ask(&house, "k", "My cat is Minka.").await).0;
    let path = format!("/api/v1/turns/{}", turn.as_str().expect("an id"));
    house.ask("DELETE", &path).send().await.expect(200);
    assert_eq!(ask(&house, "k", "My cat is Minka.").await.refusal(), (410, "request_gone"));
    assert_eq!(house.turns(SESSION).await.len(), 0);
    house.ask("DELETE", "/api/v1/users/anonymous?everything=true").send().await;
    assert_eq!(house.model.shown().len(), 1);
}

/// What one instance did another one knows, and so does the one that comes after.
#[test]
fn a_question_is_answered_once_by_all_instances() {
    let Some(database) = Database::start_18() else { return };
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let url = format!("postgres://recalld@127.0.0.1:{}/postgres", database.port);
    let settings = [("RECALLD_DATABASE_URL", url.as_str()), ("RECALLD_UPSTREAM", "builtin")];
    let migrated = recalld(folders[0].path(), &["migrate"], &settings).stdout(Stdio::null()).status();
    assert!(migrated.is_ok_and(|status| status.success()));
    let servers = folders.each_ref().map(|folder| Server::start(folder.path(), &settings));
    let headers = [("x-session-id", SESSION), (KEY, "k")];
    let ask = |server: &Server, body: &str| server.send("POST", "/chat", &headers, body);
    let question = r#"{"query": "My cat is Minka."}"#;
    let (status, first) = ask(&servers[0], question);
    assert_eq!(status, 200, "{first}");
    let (status, again) = ask(&servers[1], question);
    assert_eq!((status, &again["message"]), (200, &first["message"]), "{again}");
    assert_eq!(again["metadata"]["turn_id"], first["metadata"]["turn_id"]);
    assert_eq!(ask(&servers[1], r#"{"query": "Where?"}"#).0, 409);
    let facts = "/api/v1/users/anonymous/facts";
    let fact = |server: &Server| server.send("POST", facts, &[(KEY, "f")], r#"{"key": "city", "value": "Lisbon"}"#);
    assert_eq!(fact(&servers[0]), fact(&servers[1]));
    assert_eq!(database.ask("SELECT count(*) FROM recalld.turn"), "1");
}
