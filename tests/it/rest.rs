//! `/api/v1`: every route, its shape, its pages, and who may see what.

use serde_json::{Value, json};

use crate::house::{Answer, House, SESSION, field, keys};

const SESSION_KEYS: [&str; 12] = [
    "id",
    "tenant_id",
    "user_id",
    "kind",
    "metadata",
    "ttl",
    "turns",
    "created_at",
    "updated_at",
    "last_accessed",
    "ended_at",
    "expires_at",
];
const TURN_KEYS: [&str; 10] = [
    "id",
    "session_id",
    "user_id",
    "turn_number",
    "query_text",
    "response_text",
    "status",
    "created_at",
    "metadata",
    "topic_id",
];
const MESSAGE_KEYS: [&str; 7] = ["id", "session_id", "turn_id", "role", "content", "metadata", "created_at"];

fn of(session: &str, rest: &str) -> String {
    format!("/api/v1/sessions/{session}{rest}")
}

async fn make(house: &House, body: Value) -> Value {
    house.post("/api/v1/sessions").json(body).await.expect(201)
}

async fn add_turn(house: &House, session: &str, body: Value) -> Value {
    house.post(&of(session, "/turns")).json(body).await.expect(201)
}

async fn add_messages(house: &House, session: &str, body: Value) -> Value {
    house.post(&of(session, "/messages")).json(body).await.expect(201)["turns"].clone()
}

/// C1, B2: a session is made, shown, changed and listed in one shape.
#[tokio::test]
async fn a_session_is_made_shown_and_listed() {
    let house = House::open();
    let asked = json!({"user_id": "ann", "id": SESSION.to_uppercase(), "metadata": {"thread": "t1"}, "ttl": "24h"});
    let made = house.post("/api/v1/sessions").header("user-agent", "curl/8").json(asked).await.expect(201);
    assert_eq!(keys(&made), SESSION_KEYS);
    assert_eq!(
        (&made["id"], &made["tenant_id"], &made["user_id"]),
        (&json!(SESSION), &json!("default"), &json!("ann"))
    );
    assert_eq!((&made["kind"], &made["ttl"], &made["turns"]), (&json!("durable"), &json!("24h"), &json!(0)));
    assert_eq!(made["metadata"], json!({"created_via": "api", "user_agent": "curl/8", "thread": "t1"}));
    let times = ["created_at", "updated_at", "last_accessed"].map(|name| made[name].as_str().expect("a time"));
    assert!(
        times.iter().all(|time| time.len() == "2026-01-01T12:00:00.000000Z".len() && time.ends_with('Z')),
        "{made}"
    );
    assert!(made["expires_at"].as_str().is_some_and(|time| time.starts_with("2026-01-02T12:00:00")), "{made}");

    assert_eq!(house.get(&of(SESSION, "")).user("ann").send().await.expect(200), made);
    assert_eq!(house.get(&of(SESSION, "?user_id=ann")).send().await.expect(200), made);
    let list = house.get("/api/v1/sessions?user_id=ann").send().await.expect(200);
    assert_eq!(list, json!({"sessions": [made], "next": null}));
    let again = make(&house, json!({"user_id": "ann", "id": SESSION, "metadata": {"thread": "t2"}})).await;
    assert_eq!(again, made, "one that exists is answered as it is");
}

/// B2: an id is chosen when none is given.
#[tokio::test]
async fn a_session_gets_an_id() {
    let house = House::open();
    let made = make(&house, json!({})).await;
    assert_eq!(
        (&made["user_id"], &made["ttl"], &made["expires_at"]),
        (&json!("anonymous"), &Value::Null, &Value::Null)
    );
    house.get(&of(made["id"].as_str().expect("an id"), "")).send().await.expect(200);
}

/// Section 9: PATCH sets keys, `null` removes them, and a TTL can be given and taken back.
#[tokio::test]
async fn a_session_is_changed() {
    let house = House::open();
    make(&house, json!({"id": SESSION, "metadata": {"a": 1, "b": {"c": 2}}})).await;
    let change = json!({"metadata": {"a": null, "b": "new", "d": [1]}, "ttl": "90m"});
    let changed = house.ask("PATCH", &of(SESSION, "")).json(change).await.expect(200);
    assert_eq!(keys(&changed), SESSION_KEYS);
    assert_eq!(changed["metadata"], json!({"created_via": "api", "b": "new", "d": [1]}));
    assert_eq!(changed["ttl"], "90m");
    assert_ne!(changed["expires_at"], Value::Null);
    let changed = house.ask("PATCH", &of(SESSION, "")).json(json!({"ttl": "never"})).await.expect(200);
    assert_eq!((&changed["ttl"], &changed["expires_at"]), (&json!("never"), &Value::Null));
    assert_eq!(changed["metadata"]["b"], "new");
    assert_eq!(house.get(&of(SESSION, "")).send().await.expect(200)["ttl"], "never");
}

/// Metadata stays within its bound however many changes are made, and can be made smaller again.
#[tokio::test]
async fn changes_do_not_add_up_beyond_the_bound() {
    let house = House::plan().setting(|settings| settings.metadata_bytes_max = 1_024).open();
    make(&house, json!({"id": SESSION})).await;
    let change =
        async |metadata: Value| house.ask("PATCH", &of(SESSION, "")).json(json!({ "metadata": metadata })).await;
    change(json!({"a": "x".repeat(600)})).await.expect(200);
    assert_eq!(change(json!({"b": "x".repeat(600)})).await.refusal(), (413, "metadata_too_large"));
    change(json!({"a": "short", "b": "x".repeat(600)})).await.expect(200);
    assert_eq!(change(json!({"b": null})).await.expect(200)["metadata"], json!({"created_via": "api", "a": "short"}));
}

/// B2: deleting says how many turns went; afterwards nothing is there, and numbers begin again.
#[tokio::test]
async fn a_session_is_deleted() {
    let house = House::open();
    for n in 1..=3 {
        house.chat(SESSION, &format!("question {n}")).await;
    }
    let receipt = house.ask("DELETE", &of(SESSION, "")).send().await.expect(200);
    assert_eq!(
        (&receipt["turns_deleted"], &receipt["erased"]["sessions"], &receipt["ledger_id"]),
        (&json!(3), &json!(1), &json!(1))
    );
    for path in ["", "/turns", "/messages", "/context"] {
        assert_eq!(house.get(&of(SESSION, path)).send().await.refusal(), (404, "unknown_session"), "{path}");
    }
    assert_eq!(house.ask("DELETE", &of(SESSION, "")).send().await.refusal(), (404, "unknown_session"));
    let next = house.chat(SESSION, "hello?").await;
    assert_eq!((&next["metadata"]["turn_number"], &next["metadata"]["messages_in_context"]), (&json!(1), &json!(0)));
}

/// B2: a turn is stored as it was, with its own time, without asking a model.
#[tokio::test]
async fn a_turn_is_added() {
    let house = House::open();
    make(&house, json!({"id": SESSION})).await;
    let body = json!({"query": "Q?", "response": "A.", "metadata": {"model": "x", "citations": [{"source": "s"}]},
                      "created_at": "2020-02-29T23:59:59.123456+01:00"});
    let turn = add_turn(&house, SESSION, body).await;
    assert_eq!(keys(&turn), TURN_KEYS);
    assert_eq!((&turn["session_id"], &turn["user_id"]), (&json!(SESSION), &json!("anonymous")));
    assert_eq!((&turn["turn_number"], &turn["status"]), (&json!(1), &json!("complete")));
    assert_eq!((&turn["query_text"], &turn["response_text"]), (&json!("Q?"), &json!("A.")));
    assert_eq!(turn["metadata"], json!({"model": "x", "citations": [{"source": "s"}]}));
    assert_eq!(turn["created_at"], "2020-02-29T22:59:59.123456Z");
    let second = add_turn(&house, SESSION, json!({"query": "Q2?", "response": "A2."})).await;
    assert!(second["created_at"].as_str().is_some_and(|time| time.starts_with("2026-01-01T12:00")), "{second}");
    let list = house.get(&of(SESSION, "/turns")).send().await.expect(200);
    assert_eq!(list, json!({"turns": [turn, second], "next": null}));
    assert!(house.model.shown().is_empty());
    assert_eq!(house.get(&of(SESSION, "")).send().await.expect(200)["turns"], 2);
}

/// C1, B2: messages of every role, with their own times, parts and metadata, become turns.
#[tokio::test]
async fn messages_are_added() {
    let house = House::open();
    make(&house, json!({"id": SESSION})).await;
    let parts =
        json!([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]);
    let turns = add_messages(
        &house,
        SESSION,
        json!([
            {"role": "user", "name": "Ann", "content": "Is it raining?", "created_at": "2024-01-01T00:00:00Z"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "yes"},
            {"role": "assistant", "content": "It is.", "metadata": {"model": "x"}, "created_at": "2024-01-01T00:00:05Z"},
            {"role": "user", "content": parts},
        ]),
    )
    .await;
    let turns = turns.as_array().expect("turns");
    assert_eq!(field(turns, "turn_number"), [1, 2]);
    assert_eq!(field(turns, "status"), ["complete", "partial"]);
    assert_eq!((&turns[0]["response_text"], &turns[1]["response_text"]), (&json!("It is."), &Value::Null));
    assert_eq!(turns[0]["created_at"], "2024-01-01T00:00:00.000000Z");
    assert_eq!(turns[1]["query_text"], "What is this?");

    let joined = add_messages(&house, SESSION, json!([{"role": "assistant", "content": "A cat."}])).await;
    assert_eq!((&joined[0]["turn_number"], &joined[0]["status"]), (&json!(2), &json!("complete")));

    let list = house.get(&of(SESSION, "/messages")).send().await.expect(200);
    let messages = list["messages"].as_array().expect("messages");
    assert_eq!(field(messages, "role"), ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    assert_eq!(keys(&messages[5]), MESSAGE_KEYS);
    assert_eq!(
        (&messages[0]["name"], &messages[0]["created_at"]),
        (&json!("Ann"), &json!("2024-01-01T00:00:00.000000Z"))
    );
    assert_eq!((&messages[1]["content"], &messages[1]["tool_calls"][0]["id"]), (&Value::Null, &json!("c1")));
    assert_eq!((&messages[2]["content"], &messages[2]["tool_call_id"]), (&json!("yes"), &json!("c1")));
    assert_eq!((&messages[3]["metadata"], &messages[3]["turn_id"]), (&json!({"model": "x"}), &turns[0]["id"]));
    assert_eq!(messages[4]["content"], parts);
    let ids: std::collections::BTreeSet<String> = field(messages, "id").iter().map(ToString::to_string).collect();
    assert_eq!(ids.len(), 6);
}

/// Walks a list in pages of `limit` and says how long each was.
async fn walk(house: &House, path: &str, noun: &str, limit: usize) -> (Vec<usize>, Vec<Value>) {
    let (mut lengths, mut items, mut next) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = house.get(&format!("{path}?limit={limit}&after={next}")).send().await.expect(200);
        assert_eq!(keys(&page), [noun, "next"]);
        let found = page[noun].as_array().expect("a list");
        lengths.push(found.len());
        items.extend(found.iter().cloned());
        match page["next"].as_str() {
            Some(cursor) => next = cursor.to_owned(),
            None => return (lengths, items),
        }
    }
}

/// B2: twenty a page unless asked, fifty at most, the rest by cursor.
#[tokio::test]
async fn turns_and_messages_come_in_pages() {
    let house = House::open();
    make(&house, json!({"id": SESSION})).await;
    for n in 1..=53 {
        add_turn(&house, SESSION, json!({"query": format!("q{n}"), "response": format!("a{n}")})).await;
    }
    let first = house.get(&of(SESSION, "/turns")).send().await.expect(200);
    assert_eq!(first["turns"].as_array().map(Vec::len), Some(20));
    let (lengths, turns) = walk(&house, &of(SESSION, "/turns"), "turns", 25).await;
    assert_eq!(lengths, [25, 25, 3]);
    let numbers: Vec<Value> = (1..=53).map(Value::from).collect();
    assert_eq!(field(&turns, "turn_number"), numbers.iter().collect::<Vec<_>>());
    assert_eq!(walk(&house, &of(SESSION, "/turns"), "turns", 50).await.0, [50, 3]);

    let expected: Vec<String> = (1..=53).flat_map(|n| [format!("q{n}"), format!("a{n}")]).collect();
    for (limit, pages) in [(7, 16), (50, 3), (1, 106)] {
        let (lengths, messages) = walk(&house, &of(SESSION, "/messages"), "messages", limit).await;
        assert_eq!(lengths.len(), pages, "{limit} a page");
        assert_eq!(field(&messages, "content"), expected.iter().collect::<Vec<_>>(), "{limit} a page");
    }
    let beyond = house.get(&of(SESSION, "/turns?after=18446744073709551615")).send().await.expect(200);
    assert_eq!(beyond, json!({"turns": [], "next": null}));
}

/// Section 9: sessions in the order they began.
#[tokio::test]
async fn sessions_come_in_pages() {
    let house = House::open();
    let mut ids = Vec::new();
    for _ in 0..23 {
        ids.push(make(&house, json!({})).await["id"].clone());
        make(&house, json!({"user_id": "somebody else"})).await;
    }
    let (lengths, sessions) = walk(&house, "/api/v1/sessions", "sessions", 10).await;
    assert_eq!(lengths, [10, 10, 3]);
    assert_eq!(field(&sessions, "id"), ids.iter().collect::<Vec<_>>());
    assert_eq!(house.get("/api/v1/sessions").send().await.expect(200)["sessions"].as_array().map(Vec::len), Some(20));
}

/// B2, C3: what the model would be shown, as messages and as text.
#[tokio::test]
async fn context_shows_what_the_model_would_be_shown() {
    let house = House::open();
    for n in 1..=6 {
        house.chat(SESSION, &format!("Wat is de prijs van product {n}?")).await;
    }
    let context = house.get(&of(SESSION, "/context?query=En%20daarna%3F")).send().await.expect(200);
    let fields = ["session_id", "language", "messages_in_context", "messages", "text", "summaries"];
    assert_eq!(keys(&context), [&fields[..], &["resolved_query", "recalled"]].concat());
    assert_eq!((&context["language"], &context["messages_in_context"]), (&json!("nl"), &json!(10)));
    assert_eq!(context["messages"][0], json!({"role": "user", "content": "Wat is de prijs van product 2?"}));
    assert_eq!(context["messages"].as_array().map(Vec::len), Some(10));
    let text = context["text"].as_str().expect("text");
    assert!(text.starts_with("**Eerdere gesprek:**\n\nGebruiker: \"Wat is de prijs van product 2?\""), "{text}");
    assert_eq!(house.turns(SESSION).await.len(), 6, "looking stores nothing");
}

/// B7: counts of a user and of the server.
#[tokio::test]
async fn stats_count() {
    let house = House::open();
    house.chat(SESSION, "one").await;
    house.chat(SESSION, "two").await;
    make(&house, json!({})).await;
    let stats = house.get("/api/v1/stats").send().await.expect(200);
    assert_eq!(
        keys(&stats),
        [
            "sessions",
            "turns",
            "data_bytes",
            "waiting_turns",
            "chat_requests",
            "without_session",
            "without_user",
            "chats_without_memory",
            "generated_without_memory",
            "jobs_queued",
            "jobs_failing",
            "jobs_dead",
            "jobs_last_error",
            "webhooks_queued",
            "webhooks_failing",
            "webhooks_dead",
            "webhooks_last_error",
            "live_sessions_lost",
            "facts",
            "facts_quarantined",
            "facts_refused",
            "turns_to_understand",
            "model",
            "memory_model",
            "memory_today",
            "version",
            "uptime_seconds"
        ]
    );
    assert_eq!((&stats["sessions"], &stats["turns"], &stats["model"]), (&json!(2), &json!(2), &json!("scripted")));
    let stats = house.get("/api/v1/stats?user_id=nobody").send().await.expect(200);
    assert_eq!((&stats["sessions"], &stats["turns"]), (&json!(0), &json!(0)));
    assert_eq!(house.metric("recalld_turns_stored_total").await, 2);
}

/// Every route about one session, with a body that would be accepted.
fn routes(session: &str) -> [(&'static str, String, Value); 8] {
    let turn = json!({"query": "q", "response": "a"});
    let messages = json!([{"role": "user", "content": "q"}]);
    [
        ("GET", of(session, ""), Value::Null),
        ("PATCH", of(session, ""), json!({"metadata": {"x": 1}})),
        ("GET", of(session, "/turns"), Value::Null),
        ("POST", of(session, "/turns"), turn),
        ("GET", of(session, "/messages"), Value::Null),
        ("POST", of(session, "/messages"), messages),
        ("GET", of(session, "/context"), Value::Null),
        ("DELETE", of(session, ""), Value::Null),
    ]
}

async fn knock(house: &House, route: &(&str, String, Value), tenant: &str, user: &str) -> Answer {
    let (method, path, body) = route;
    house.ask(method, path).header("x-tenant-id", tenant).user(user).json(body.clone()).await
}

/// B6, P3: a stranger's session is as good as unknown on every route, to the letter.
#[tokio::test]
async fn a_foreign_session_is_like_an_unknown_one() {
    let house = House::open();
    let unknown = "99999999-9999-4999-8999-999999999999";
    let asked = house.post("/chat").session(SESSION).header("x-tenant-id", "acme").user("ann");
    asked.json(json!({"query": "hello"})).await.expect(200);
    for (tenant, user) in [("acme", "bob"), ("other", "ann"), ("default", "anonymous")] {
        for (foreign, never) in routes(SESSION).iter().zip(routes(unknown)) {
            let foreign_answer = knock(&house, foreign, tenant, user).await;
            let unknown_answer = knock(&house, &never, tenant, user).await;
            assert_eq!(foreign_answer.refusal(), (404, "unknown_session"), "{foreign:?}");
            assert_eq!(foreign_answer.text().replace(SESSION, unknown), unknown_answer.text());
            let (a, b) = (&foreign_answer.headers, &unknown_answer.headers);
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
        }
    }
    for route in routes(SESSION) {
        let status = knock(&house, &route, "acme", "ann").await.status;
        assert!(matches!(status, 200 | 201), "{status} for the owner: {route:?}");
    }
}

/// B6, P3: the same session id under another tenant or user is another conversation.
#[tokio::test]
async fn the_same_id_is_a_session_for_each_tenant_and_user() {
    let house = House::open();
    let people = [("acme", "ann"), ("acme", "bob"), ("other", "ann")];
    for (tenant, user) in people {
        let asked = house.post("/chat").session(SESSION).header("x-tenant-id", tenant).user(user);
        let answer = asked.json(json!({"query": format!("I am {user} of {tenant}")})).await.expect(200);
        assert_eq!(
            (&answer["metadata"]["turn_number"], &answer["metadata"]["messages_in_context"]),
            (&json!(1), &json!(0))
        );
    }
    for (tenant, user) in people {
        let asked = house.get(&of(SESSION, "/turns")).header("x-tenant-id", tenant).user(user);
        let turns = asked.send().await.expect(200);
        assert_eq!(
            field(turns["turns"].as_array().expect("turns"), "query_text"),
            [&format!("I am {user} of {tenant}")]
        );
    }
    let listed = house.get("/api/v1/sessions").send().await.expect(200);
    assert_eq!(listed["sessions"], json!([]), "the usual user has none");
}

/// Section 4: headers before the body, and Open WebUI's header counts.
#[tokio::test]
async fn the_user_is_named_by_header_then_body() {
    let house = House::open();
    let body = json!({"query": "hello", "user_id": "from body"});
    let owner = async |ask: crate::house::Ask<'_>| {
        let session = ask.json(body.clone()).await.expect(200)["session_id"].as_str().expect("an id").to_owned();
        let mut owners = Vec::new();
        for user in ["ann", "owui", "from%20body"] {
            if house.get(&of(&session, &format!("?user_id={user}"))).send().await.status == 200 {
                owners.push(user);
            }
        }
        owners
    };
    assert_eq!(owner(house.post("/chat").user("ann").header("x-openwebui-user-id", "owui")).await, ["ann"]);
    assert_eq!(owner(house.post("/chat").header("x-openwebui-user-id", "owui")).await, ["owui"]);
    assert_eq!(owner(house.post("/chat").user(" ")).await, ["from%20body"]);
}

/// Section 4: with `unidentified = "session"` each session without a user is a user of its own.
#[tokio::test]
async fn sessions_without_a_user_are_kept_apart_when_set_so() {
    let house = House::plan().setting(|settings| settings.unidentified = recalld::config::Unidentified::Session).open();
    let answer = house.post("/chat").json(json!({"query": "hello"})).await.expect(200);
    let session = answer["session_id"].as_str().expect("an id");
    let shown = house.get(&of(session, "")).send().await.expect(200);
    assert_eq!(shown["user_id"], format!("~{session}"));
    assert_eq!(house.turns(session).await.len(), 1);
    assert_eq!(house.chat(session, "again").await["metadata"]["messages_in_context"], 2);
    let made = make(&house, json!({})).await;
    assert_eq!(made["user_id"], format!("~{}", made["id"].as_str().expect("an id")));

    assert_eq!(house.get("/api/v1/sessions").send().await.refusal(), (400, "no_user"));
    assert_eq!(house.get("/api/v1/sessions?user_id=ann").send().await.expect(200)["sessions"], json!([]));
    assert_eq!(house.get(&of(session, "")).user("ann").send().await.refusal(), (404, "unknown_session"));
    house.get("/api/v1/stats").send().await.expect(200);
}

/// Section 9: the doors around the doors.
#[tokio::test]
async fn the_server_tells_how_it_is() {
    let house = House::open();
    let alive = house.get("/healthz").send().await.expect(200);
    assert_eq!(alive, json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
    assert_eq!(house.get("/readyz").send().await.expect(200)["status"], "ok");
    assert_eq!(house.get("/openapi.json").send().await.expect(200)["info"]["title"], "recalld");
    let metrics = house.get("/metrics").send().await;
    assert_eq!((metrics.status, metrics.header("content-type")), (200, "text/plain; version=0.0.4"));
    let line = r#"recalld_request_seconds_count{method="GET",route="/healthz",status="200"} 1"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
    house.flaky.fail(Some(recalld::store::StoreError::Disk("gone".into())));
    assert_eq!(house.get("/readyz").send().await.refusal(), (503, "not_ready"));
    assert_eq!(house.get("/healthz").send().await.status, 200);
}
