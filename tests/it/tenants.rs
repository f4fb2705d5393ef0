//! Tenants: what each has of its own, and how much each may use.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::house::{Answer, Ask, House, SESSION, keys};
use crate::upstream::recording;

async fn create(house: &House, settings: Value) -> Value {
    house.post("/api/v1/tenants").json(json!({ "name": "acme", "settings": settings })).await.expect(201)
}

async fn set(house: &House, settings: Value) -> Value {
    house.ask("PATCH", "/api/v1/tenants/acme").json(json!({ "settings": settings })).await.expect(200)
}

fn acme<'a>(house: &'a House, method: &str, path: &str) -> Ask<'a> {
    house.ask(method, path).header("x-tenant-id", "acme")
}

async fn chat(house: &House, session: &str, query: &str) -> Answer {
    acme(house, "POST", "/chat").session(session).json(json!({ "query": query })).await
}

fn session(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// A completion in the tenant's path.
fn completion(house: &House, model: &str) -> impl Future<Output = Answer> {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "Hello there"}]});
    house.post("/v1/acme/chat/completions").json(body)
}

/// Tenants are written down, looked at, changed and forgotten.
#[tokio::test]
async fn a_tenant_is_written_down_and_forgotten() {
    let house = House::open();
    let made = create(&house, json!({"ttl": "24h"})).await;
    assert_eq!(keys(&made), ["name", "settings", "created_at", "updated_at"]);
    let again = house.post("/api/v1/tenants").json(json!({ "name": "acme" })).await;
    assert_eq!(again.refusal(), (409, "tenant_exists"));
    let colon = house.post("/api/v1/tenants").json(json!({ "name": "a:b" })).await;
    assert_eq!(colon.refusal(), (400, "invalid_id"));
    let changed = set(&house, json!({"ttl": null, "model": "small"})).await;
    assert_eq!(changed["settings"], json!({"model": "small"}));
    let listed = house.get("/api/v1/tenants").send().await.expect(200);
    assert_eq!((&listed["tenants"][0]["name"], &listed["next"]), (&json!("acme"), &Value::Null));

    chat(&house, SESSION, "Hello").await.expect(200);
    let shown = house.get("/api/v1/tenants/acme").send().await.expect(200);
    assert_eq!((&shown["usage"]["sessions"], &shown["usage"]["turns"]), (&json!(1), &json!(1)));
    let facts = "/api/v1/users/anonymous/facts";
    acme(&house, "POST", facts).json(json!({"key": "city", "value": "Lisbon"})).await.expect(201);
    let refused = house.ask("DELETE", "/api/v1/tenants/acme").send().await;
    assert_eq!(refused.refusal(), (409, "tenant_in_use"));
    let gone = house.ask("DELETE", "/api/v1/tenants/acme?everything=true").send().await.expect(200);
    assert_eq!(
        (&gone["sessions_deleted"], &gone["turns_deleted"], &gone["ledger_id"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(house.get("/api/v1/tenants/acme").send().await.refusal(), (404, "unknown_tenant"));
    assert_eq!(acme(&house, "GET", &format!("/api/v1/sessions/{SESSION}")).send().await.status, 404);
    assert_eq!(acme(&house, "GET", facts).send().await.expect(200)["facts"], json!([]));
}

/// An unknown setting is an error with a suggestion, and nothing is changed by a bad one.
#[tokio::test]
async fn mistakes_in_settings_are_explained() {
    let house = House::open();
    create(&house, json!({"context_messages": 4})).await;
    for (settings, told) in [
        (json!({"contxt_messages": 3}), "did you mean `context_messages`?"),
        (json!({"mode": "off", "ttl": "soon"}), "`ttl` is not valid"),
        (json!({"language": "tlh"}), "there is: en, nl"),
        (json!({"answer_tokens": 100_000}), "`answer_tokens` is not valid"),
    ] {
        let answer = house.ask("PATCH", "/api/v1/tenants/acme").json(json!({ "settings": settings })).await;
        assert_eq!(answer.refusal(), (400, "invalid_settings"));
        assert!(answer.text().contains(told), "{}", answer.text());
    }
    let shown = house.get("/api/v1/tenants/acme").send().await.expect(200);
    assert_eq!(shown["settings"], json!({"context_messages": 4}));
}

/// The tenant's window, template and model count for its questions, and for nobody else's.
#[tokio::test]
async fn a_tenants_questions_are_put_as_its_settings_say() {
    let house = House::open();
    let words = json!({"en": {"system": "You sell tea."}});
    create(&house, json!({"context_messages": 2, "language": "en", "templates": words, "model": "tea-1"})).await;
    for query in ["First question?", "Second question?", "Third question?"] {
        chat(&house, SESSION, query).await.expect(200);
    }
    let prompt = house.model.shown().pop().expect("asked");
    assert_eq!((prompt.model.as_deref(), &prompt.messages[0]["content"]), (Some("tea-1"), &json!("You sell tea.")));
    let last: Vec<&str> = prompt.messages.iter().skip(1).filter_map(|message| message["content"].as_str()).collect();
    assert_eq!((last.len(), last[0]), (3, "Second question?"), "{last:?}");
    let context = acme(&house, "GET", &format!("/api/v1/sessions/{SESSION}/context")).send().await.expect(200);
    assert_eq!(context["messages_in_context"], 2);

    house.chat(SESSION, "Elsewhere?").await;
    let other = house.model.shown().pop().expect("asked");
    assert_eq!(other.model, None);
    assert_ne!(other.messages[0]["content"], "You sell tea.");
}

/// Under /v1 the tenant's mode counts for requests that do not say, its model for those that ask for none in particular.
#[tokio::test]
async fn a_tenants_mode_and_model_count_under_v1() {
    let upstream = recording();
    let house = House::plan().upstream(Arc::clone(&upstream) as _).open();
    create(&house, json!({"mode": "off", "model": "tea-1"})).await;
    for (asked, sent) in [("default", "tea-1"), ("", "tea-1"), ("other", "other")] {
        let answer = completion(&house, asked).await;
        assert_eq!((answer.status, answer.header("x-recalld-status")), (200, "off"));
        assert_eq!(upstream.last()["model"], sent, "{asked}");
    }
    set(&house, json!({"mode": null})).await;
    assert_eq!(completion(&house, "m").await.header("x-recalld-status"), "ok");
}

/// B4: a tenant's turns live as long as it says, whenever it says so.
#[tokio::test]
async fn a_tenants_turns_expire_by_its_own_time() {
    let house = House::open();
    chat(&house, &session(1), "Before").await.expect(200);
    create(&house, json!({"ttl": "24h"})).await;
    chat(&house, &session(2), "After").await.expect(200);
    house.chat(&session(3), "Elsewhere").await;
    let shown = acme(&house, "GET", &format!("/api/v1/sessions/{}", session(1))).send().await.expect(200);
    assert_eq!(shown["ttl"], "24h");
    house.clock.advance(SignedDuration::from_hours(25));
    let report = house.post("/api/v1/cleanup").send().await.expect(200);
    assert_eq!((&report["sessions_deleted"], &report["turns_deleted"]), (&json!(2), &json!(2)));
    assert_eq!(house.turns(&session(3)).await.len(), 1);
}

#[track_caller]
fn over(answer: &Answer, code: &str) {
    assert_eq!(answer.refusal(), (429, code));
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0));
}

/// Requests a minute, in the shape of each door, with the time to wait.
#[tokio::test]
async fn a_tenant_that_asks_too_often_waits() {
    let house = House::open();
    create(&house, json!({"requests_per_minute": 3})).await;
    for _ in 0..3 {
        assert_eq!(acme(&house, "GET", "/api/v1/sessions").send().await.status, 200);
    }
    let refused = acme(&house, "GET", "/api/v1/sessions").send().await;
    over(&refused, "rate_limit_exceeded");
    assert_eq!(refused.header("retry-after"), "20");
    let theirs = completion(&house, "m").await;
    let error = &theirs.json()["error"];
    assert_eq!((theirs.status, theirs.header("retry-after")), (429, "20"));
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("rate_limit_exceeded")));
    assert_eq!(house.get("/api/v1/sessions").send().await.status, 200, "others are not held up");
    house.clock.advance(SignedDuration::from_secs(20));
    assert_eq!(acme(&house, "GET", "/api/v1/sessions").send().await.status, 200);
}

/// Tokens a day: by the model's count, else by length, whatever the memory does with the request.
#[tokio::test]
async fn a_tenant_that_used_its_tokens_waits() {
    for mode in ["active", "off"] {
        let house = House::plan().upstream(recording()).open();
        create(&house, json!({"tokens_per_day": 20, "mode": mode})).await;
        let mut answered = 0;
        while completion(&house, "m").await.status == 200 && answered < 20 {
            answered += 1;
        }
        assert!((1..20).contains(&answered), "{mode}: {answered}");
        over(&chat(&house, SESSION, "And here?").await, "rate_limit_exceeded");
        assert_eq!(acme(&house, "GET", "/api/v1/sessions").send().await.status, 200, "looking costs nothing");
        house.clock.advance(SignedDuration::from_hours(25));
        assert_eq!(completion(&house, "m").await.status, 200, "{mode}");
    }
}

/// Sessions: no more are begun, those there are go on, and a deleted one makes room.
#[tokio::test]
async fn a_tenant_has_no_more_sessions_than_it_may() {
    let house = House::open();
    create(&house, json!({"sessions_max": 2})).await;
    chat(&house, &session(1), "One").await.expect(200);
    acme(&house, "POST", "/api/v1/sessions").json(json!({"id": session(2)})).await.expect(201);
    over(&chat(&house, &session(3), "Three").await, "insufficient_quota");
    over(&acme(&house, "POST", "/api/v1/sessions").json(json!({})).await, "insufficient_quota");
    assert_eq!(completion(&house, "m").await.json()["error"]["code"], "insufficient_quota");
    chat(&house, &session(1), "One goes on").await.expect(200);
    acme(&house, "POST", "/api/v1/sessions").json(json!({"id": session(2)})).await.expect(201);
    acme(&house, "DELETE", &format!("/api/v1/sessions/{}", session(2))).send().await.expect(200);
    house.clock.advance(SignedDuration::from_secs(1));
    chat(&house, &session(3), "Three").await.expect(200);
    assert_eq!(house.get("/api/v1/tenants/acme").send().await.expect(200)["usage"]["sessions"], 2);
}

/// Turns and bytes: a full tenant stores no more, however it comes.
#[tokio::test]
async fn a_full_tenant_stores_no_more() {
    let house = House::open();
    create(&house, json!({"turns_max": 2})).await;
    chat(&house, SESSION, "One").await.expect(200);
    let turns = format!("/api/v1/sessions/{SESSION}/turns");
    acme(&house, "POST", &turns).json(json!({"query": "Two", "response": "yes"})).await.expect(201);
    over(&acme(&house, "POST", &turns).json(json!({"query": "Three", "response": "no"})).await, "insufficient_quota");
    over(&chat(&house, SESSION, "Three").await, "insufficient_quota");
    let messages = format!("/api/v1/sessions/{SESSION}/messages");
    let said = json!([{"role": "user", "content": "Three"}]);
    over(&acme(&house, "POST", &messages).json(said).await, "insufficient_quota");
    set(&house, json!({"turns_max": null, "storage_bytes_max": 10})).await;
    house.clock.advance(SignedDuration::from_secs(5));
    over(&chat(&house, SESSION, "Three").await, "insufficient_quota");
    set(&house, json!({"storage_bytes_max": 1_000_000})).await;
    chat(&house, SESSION, "Three").await.expect(200);
}
