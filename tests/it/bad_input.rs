//! What is wrong with a request is said, and nothing of it is kept.

use axum::body::Body;
use serde_json::{Value, json};

use crate::house::{Answer, House, SESSION};

/// A request as a stranger may send it.
struct Bad {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn bad(method: &'static str, path: impl Into<String>) -> Bad {
    let headers = vec![("content-type", "application/json".to_owned())];
    Bad { method, path: path.into(), headers, body: Vec::new() }
}

fn chat(query: Value) -> Bad {
    bad("POST", "/chat").json(json!({ "query": query }))
}

fn session(rest: &str) -> String {
    format!("/api/v1/sessions/{SESSION}{rest}")
}

fn turn(body: Value) -> Bad {
    bad("POST", session("/turns")).json(body)
}

fn messages(body: Value) -> Bad {
    bad("POST", session("/messages")).json(body)
}

impl Bad {
    fn json(self, value: Value) -> Self {
        self.raw(value.to_string())
    }

    fn raw(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    async fn send(&self, house: &House) -> Answer {
        let mut ask = house.ask(self.method, &self.path);
        for (name, value) in &self.headers {
            ask = ask.header(name, value);
        }
        ask.body(Body::from(self.body.clone())).await
    }
}

fn long(chars: usize) -> String {
    "é".repeat(chars)
}

/// JSON so deep that a reader without a bound would run out of stack.
fn deep(brackets: usize) -> String {
    format!(r#"{{"query": "hello", "x": {}{}}}"#, "[".repeat(brackets), "]".repeat(brackets))
}

/// Every case: what is sent, the status and the code it must get.
fn cases() -> Vec<(Bad, u16, &'static str)> {
    let invalid_uuid =
        ["nonsense", "550e8400e29b41d4a716446655440000", "%7B550e8400-e29b-41d4-a716-446655440000%7D", "~", "%FF"];
    let mut cases = Vec::new();
    for id in invalid_uuid {
        for (method, rest) in
            [("GET", ""), ("DELETE", ""), ("GET", "/turns"), ("GET", "/messages"), ("GET", "/context")]
        {
            cases.push((bad(method, format!("/api/v1/sessions/{id}{rest}")), 400, "invalid_session_id"));
        }
        let path = format!("/api/v1/sessions/{id}");
        cases.push((bad("PATCH", path).json(json!({})), 400, "invalid_session_id"));
    }
    for limit in ["0", "-1", "51", "99999999999999999999", "1.5", "ten", "", "%00", "1e1"] {
        for path in ["/api/v1/sessions".to_owned(), session("/turns"), session("/messages")] {
            cases.push((bad("GET", format!("{path}?limit={limit}")), 400, "invalid_limit"));
        }
    }
    for cursor in ["-1", "abc", "1.0", "18446744073709551616", "%F0%9F%98%80"] {
        for path in ["/api/v1/sessions".to_owned(), session("/turns"), session("/messages")] {
            cases.push((bad("GET", format!("{path}?after={cursor}")), 400, "invalid_cursor"));
        }
    }
    for blank in ["", " ", "\n\t \r\n", "\u{a0}\u{2003}"] {
        cases.push((chat(json!(blank)), 400, "blank_text"));
        cases.push((turn(json!({"query": blank, "response": "a"})), 400, "blank_text"));
        cases.push((turn(json!({"query": "q", "response": blank})), 400, "blank_text"));
        cases.push((messages(json!([{"role": "user", "content": blank}])), 400, "blank_text"));
    }
    for odd in ["a\u{0}b", "\u{1b}[31mred", "bell\u{7}", "\u{9f}"] {
        cases.push((chat(json!(odd)), 400, "control_character"));
        cases.push((turn(json!({"query": odd, "response": "a"})), 400, "control_character"));
        cases.push((messages(json!([{"role": "assistant", "content": odd}])), 400, "control_character"));
        cases.push((bad("POST", "/chat").json(json!({"query": "q", "user_id": odd})), 400, "invalid_id"));
        cases.push((bad("POST", "/chat").json(json!({"query": "q", "role": odd})), 400, "control_character"));
    }
    cases.extend([
        // Ids.
        (bad("POST", "/chat").json(json!({"query": "q", "user_id": "x".repeat(257)})), 400, "invalid_id"),
        (chat(json!("q")).header("x-user-id", "x".repeat(257)), 400, "invalid_id"),
        (chat(json!("q")).header("x-user-id", "Zoë"), 400, "invalid_header"),
        (chat(json!("q")).header("x-tenant-id", "x".repeat(257)), 400, "invalid_id"),
        (bad("GET", "/api/v1/sessions?user_id=a%0Ab"), 400, "invalid_id"),
        (bad("POST", "/api/v1/sessions").json(json!({"id": "nonsense"})), 400, "invalid_session_id"),
        (bad("GET", "/api/v1/stats?user_id=a&user_id=b"), 400, "invalid_query"),
        // Texts.
        (chat(json!(long(1_001))), 413, "text_too_long"),
        (turn(json!({"query": long(1_001), "response": "a"})), 413, "text_too_long"),
        (turn(json!({"query": "q", "response": long(2_001)})), 413, "text_too_long"),
        (messages(json!([{"role": "assistant", "content": long(2_001)}])), 413, "text_too_long"),
        (bad("POST", "/chat").json(json!({"query": "q", "role": long(129)})), 413, "text_too_long"),
        (bad("POST", "/chat").json(json!({"query": "q", "role": " "})), 400, "blank_text"),
        (bad("GET", session("/context?query=%20")), 400, "blank_text"),
        (bad("GET", session(&format!("/context?query={}", "x".repeat(1_001)))), 413, "text_too_long"),
        // Bodies.
        (chat(json!("x".repeat(70_000))), 413, "body_too_large"),
        (chat(json!("q")).header("content-type", "text/plain"), 415, "not_json"),
        (chat(json!("q")).header("content-type", "application/x-www-form-urlencoded"), 415, "not_json"),
        (chat(json!("q")).header("content-type", ""), 415, "not_json"),
        (bad("POST", "/chat").raw(""), 400, "invalid_json"),
        (bad("POST", "/chat").raw("{\"query\": \"q\""), 400, "invalid_json"),
        (bad("POST", "/chat").raw("{\"query\": \"q\"} trailing"), 400, "invalid_json"),
        (bad("POST", "/chat").raw(b"{\"query\": \"\xff\xfe\"}".to_vec()), 400, "invalid_json"),
        (bad("POST", "/chat").raw("{\"query\": \"\\ud800\"}"), 400, "invalid_json"),
        (bad("POST", "/chat").raw("{\"query\": \"a\", \"query\": \"b\"}"), 400, "invalid_json"),
        (bad("POST", "/chat").raw("null"), 400, "invalid_json"),
        (bad("POST", "/chat").raw("[]"), 400, "invalid_json"),
        // Shapes.
        (bad("POST", "/chat").json(json!({})), 400, "invalid_json"),
        (chat(json!(42)), 400, "invalid_json"),
        (chat(json!(["q"])), 400, "invalid_json"),
        (bad("POST", "/chat").json(json!({"query": "q", "user_id": 7})), 400, "invalid_json"),
        (bad("POST", "/chat").json(json!({"query": "q", "stream": "yes"})), 400, "invalid_json"),
        (bad("POST", "/api/v1/sessions").json(json!({"metadata": []})), 400, "invalid_json"),
        (bad("POST", "/api/v1/sessions").json(json!({"ttl": "soon"})), 400, "invalid_json"),
        (bad("POST", "/api/v1/sessions").json(json!({"ttl": "0s"})), 400, "invalid_json"),
        (bad("POST", "/api/v1/sessions").json(json!({"ttl": 24})), 400, "invalid_json"),
        (bad("PATCH", session("")).json(json!({"ttl": "-1h"})), 400, "invalid_json"),
        (turn(json!({"query": "q"})), 400, "invalid_json"),
        (turn(json!({"query": "q", "response": null})), 400, "invalid_json"),
        (turn(json!({"query": "q", "response": "a", "created_at": "yesterday"})), 400, "invalid_json"),
        (turn(json!({"query": "q", "response": "a", "created_at": 1_700_000_000})), 400, "invalid_json"),
        (messages(json!({"role": "user", "content": "q"})), 400, "invalid_json"),
        (messages(json!([])), 400, "nothing_to_add"),
        (messages(json!([{"role": "robot", "content": "q"}])), 400, "invalid_role"),
        (messages(json!([{"role": "user"}])), 400, "blank_text"),
        (messages(json!([{"role": "user", "content": []}])), 400, "blank_text"),
        (messages(json!([{"role": "user", "content": "fine"}, {"role": "user", "content": " "}])), 400, "blank_text"),
        (messages(json!([{"role": "user", "name": "a\u{1b}[31m", "content": "q"}])), 400, "control_character"),
        (messages(json!([{"role": "user", "name": long(129), "content": "q"}])), 413, "text_too_long"),
        (messages(json!([{"role": "user", "name": " ", "content": "q"}])), 400, "blank_text"),
        // Metadata.
        (bad("POST", "/api/v1/sessions").json(json!({"metadata": {"x": long(600)}})), 413, "metadata_too_large"),
        (bad("PATCH", session("")).json(json!({"metadata": {"x": long(600)}})), 413, "metadata_too_large"),
        (turn(json!({"query": "q", "response": "a", "metadata": {"x": long(600)}})), 413, "metadata_too_large"),
        (messages(json!([{"role": "user", "content": "q", "metadata": {"x": long(600)}}])), 413, "metadata_too_large"),
        // Doors that are not there.
        (bad("GET", "/"), 404, "unknown_route"),
        (bad("GET", "/api/v1/nothing"), 404, "unknown_route"),
        (bad("POST", "/v2/chat").json(json!({"query": "q"})), 404, "unknown_route"),
        (bad("GET", "/api/v1/sessions/"), 404, "unknown_route"),
        (bad("GET", "/chat"), 405, "unknown_method"),
        (bad("PUT", session("")), 405, "unknown_method"),
        (bad("DELETE", session("/turns")), 405, "unknown_method"),
        (bad("POST", "/healthz"), 405, "unknown_method"),
        (bad("PROPFIND", "/chat"), 405, "unknown_method"),
    ]);
    cases
}

fn small_bounds() -> House {
    let plan = House::plan().setting(|settings| {
        settings.query_chars_max = 1_000;
        settings.answer_chars_max = 2_000;
        settings.metadata_bytes_max = 1_024;
        settings.body_bytes_max = 64 * 1024;
    });
    plan.open()
}

async fn stats(house: &House) -> Value {
    let mut stats = house.get("/api/v1/stats").send().await.expect(200);
    stats.as_object_mut().expect("an object").remove("uptime_seconds");
    let sessions = house.pages("/api/v1/sessions?limit=50", "sessions").await;
    let metadata: Vec<Value> = sessions.iter().map(|session| session["metadata"].clone()).collect();
    json!({"stats": stats, "metadata": metadata, "turns": house.turns(SESSION).await})
}

/// Section 9, B-P11: each wrong request gets its status, its code and a sentence, and leaves no trace.
#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_kept() {
    let house = small_bounds();
    house.chat(SESSION, "hello").await;
    let before = stats(&house).await;
    let asked = house.model.shown().len();
    let mut surprises = Vec::new();
    for (case, status, code) in cases() {
        let answer = case.send(&house).await;
        let body = String::from_utf8_lossy(&case.body[..case.body.len().min(80)]).into_owned();
        if (answer.status, answer.code()) != (status, code) {
            let (got, expected) = (format!("{} {}", answer.status, answer.code()), format!("{status} {code}"));
            surprises.push(format!("{} {} {body}: expected {expected}, got {got}", case.method, case.path));
        } else {
            answer.refusal();
        }
    }
    assert!(surprises.is_empty(), "\n{}", surprises.join("\n"));
    assert_eq!(stats(&house).await, before);
    assert_eq!(house.model.shown().len(), asked);
}

/// At the bound everything is still accepted.
#[tokio::test]
async fn texts_at_their_bounds_are_taken() {
    let house = small_bounds();
    house.chat(SESSION, &long(1_000)).await;
    turn(json!({"query": long(1_000), "response": long(2_000)})).send(&house).await.expect(201);
    let user = "x".repeat(256);
    chat(json!("q")).header("x-user-id", user).send(&house).await.expect(200);
    let role = long(128);
    bad("POST", "/chat").json(json!({"query": "q", "role": role})).send(&house).await.expect(200);
    let limit = house.get(&session("/turns?limit=50")).send().await;
    assert_eq!(limit.expect(200)["turns"].as_array().map(Vec::len), Some(2));
}

/// Section 9: a thousand messages at once, and not one more.
#[tokio::test]
async fn as_many_messages_as_promised_are_taken_at_once() {
    let house = House::open();
    house.chat(SESSION, "hello").await;
    let many = |count: usize| (0..count).map(|n| json!({"role": "user", "content": n.to_string()})).collect::<Value>();
    assert_eq!(messages(many(1_001)).send(&house).await.refusal(), (413, "too_many_messages"));
    messages(many(1_000)).send(&house).await.expect(201);
    assert_eq!(house.turns(SESSION).await.len(), 1_001);
}

/// P8: a hundred thousand brackets cost nobody their stack.
#[tokio::test]
async fn deep_json_is_refused() {
    let house = House::open();
    for brackets in [64, 128, 1_000, 100_000] {
        let answer = bad("POST", "/chat").raw(deep(brackets)).send(&house).await;
        assert_eq!(answer.refusal(), (400, "json_too_deep"), "{brackets}");
    }
    assert_eq!(house.get("/api/v1/stats").send().await.expect(200)["turns"], 0);
}

/// P10: what is accepted can be read again, however deep it is.
#[tokio::test]
async fn the_deepest_json_that_is_taken_can_be_read() {
    let house = House::open();
    house.chat(SESSION, "hello").await;
    let nested = |levels: usize| (0..levels).fold(json!("deep"), |inner, _| json!([inner]));
    let said = |levels: usize| {
        let part = json!([{"type": "text", "text": "q", "x": nested(levels - 2)}]);
        let message = |role: &str| json!({"role": role, "content": part, "metadata": {"x": nested(levels - 1)}});
        json!([message("user"), message("tool"), message("assistant")])
    };
    messages(said(62)).send(&house).await.expect(201);
    assert_eq!(messages(said(63)).send(&house).await.refusal(), (400, "json_too_deep"));
    let stored = house.get(&session("/messages")).send().await.expect(200);
    assert_eq!(stored["messages"][3]["metadata"]["x"], nested(61));
    assert_eq!(house.turns(SESSION).await.len(), 2);
}

/// An empty body is called that.
#[tokio::test]
async fn an_empty_body_is_called_empty() {
    let answer = bad("POST", "/chat").send(&House::open()).await;
    assert_eq!(answer.expect(400)["detail"], "the body is empty, it must be a JSON value");
}

/// P8: a body that stops arriving is given up on.
#[tokio::test]
async fn a_body_that_never_ends_is_given_up_on() {
    let house = House::plan().setting(|settings| settings.body_timeout = "100ms".parse().expect("a period")).open();
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let answer = house.post("/chat").header("content-type", "application/json").body(endless).await;
    assert_eq!(answer.refusal(), (408, "slow_body"));
}
