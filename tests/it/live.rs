//! A visitor's session under `/v1/{tenant}:{session}`: it lasts for a while, in memory alone, and leaves nothing behind.
//!
//! The first five are the testing scenarios of the document that asked for such sessions.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use recalld::config::Settings;
use recalld::live::AGE_MAX;
use recalld::period::Period;
use recalld::scope::Tenant;
use recalld::session::EndReason;
use recalld::worker::Worker;
use serde_json::{Value, json};

use crate::house::{Answer, House, eventually};
use crate::openai::{body, open, said, talk};
use crate::upstream::{Recording, Reply, recording};

/// Asks in a visitor's session.
pub(crate) async fn visit(house: &House, key: &str, texts: &[&str]) -> Answer {
    house.post(&format!("/v1/{key}/chat/completions")).json(body(talk(texts))).await
}

fn with(set: impl FnOnce(&mut Settings)) -> (House, Arc<Recording>) {
    let upstream = recording();
    (House::plan().upstream(Arc::clone(&upstream) as _).setting(set).open(), upstream)
}

/// A house that takes its time to look up what a tenant knows: a busy machine must not cost citations.
pub(crate) fn patient() -> (House, Arc<Recording>) {
    with(|settings| settings.recall_timeout = Period::seconds(20))
}

/// What a visitor's session is like, through the door.
pub(crate) async fn seen(house: &House, key: &str) -> Value {
    house.get(&format!("/api/v1/sessions/{key}")).send().await.expect(200)
}

fn hours(n: i64) -> SignedDuration {
    SignedDuration::from_hours(n)
}

/// An error in OpenAI's shape, with exactly this message.
#[track_caller]
fn check_error(answer: &Answer, status: u16, code: &str, message: &str) {
    let error = &answer.expect(status)["error"];
    assert_eq!((&error["code"], &error["message"], answer.code()), (&json!(code), &json!(message), code));
}

// --- The five scenarios ---------------------------------------------------------------------------

/// A5, scenario 1: several messages, the context is kept, and each access refreshes the TTL.
#[tokio::test]
async fn scenario_1_a_basic_session() {
    let (house, upstream) = open();
    for (key, question) in [
        ("acme:+15551234567", "I need help with order #12345"),
        ("acme:customer@email.com", "Following up on my return request"),
        ("acme:web_session_abc123", "What are your business hours?"),
    ] {
        said(&visit(&house, key, &[question]).await);
        assert_eq!(upstream.last_contents(), [question]);
    }
    said(&visit(&house, "acme:session1", &["I need help with order #12345"]).await);
    let answer = said(&visit(&house, "acme:session1", &["When does it arrive?"]).await);
    assert_eq!(answer, "answer 5");
    assert_eq!(upstream.last_contents(), ["I need help with order #12345", "answer 4", "When does it arrive?"]);
    let first = seen(&house, "acme:session1").await;
    assert_eq!((&first["kind"], &first["ttl"], &first["turns"]), (&json!("ephemeral"), &json!("24h"), &json!(2)));

    house.clock.advance(hours(23));
    visit(&house, "acme:session1", &["Still there?"]).await.expect(200);
    house.clock.advance(hours(23));
    visit(&house, "acme:session1", &["And now?"]).await.expect(200);
    let later = seen(&house, "acme:session1").await;
    assert_eq!((&later["turns"], &later["created_at"]), (&json!(4), &first["created_at"]));
    assert!(later["expires_at"].as_str() > first["expires_at"].as_str(), "{later}");
}

/// A4, A7, scenario 2: over a hundred messages, which are summarised; limits hold and nobody is refused.
#[tokio::test]
async fn scenario_2_memory_overflow() {
    let (house, upstream) = open();
    let mut most = 0;
    for n in 1..=75 {
        visit(&house, "acme:session1", &[&format!("My parcel number {n} is called Box{n} and weighs {n} kilograms.")])
            .await
            .expect(200);
        house.clock.advance(SignedDuration::from_mins(5));
        house.memory.live_told().await;
        let now = seen(&house, "acme:session1").await;
        most = most.max(now["messages_held"].as_u64().expect("a number"));
        assert!(now["bytes"].as_u64() < Some(10_000_000), "{now}");
    }
    let now = seen(&house, "acme:session1").await;
    assert_eq!((most, &now["message_count"]), (30, &json!(150)), "{now}");
    assert!(now["summaries"].as_u64() >= Some(2), "{now}");
    visit(&house, "acme:session1", &["Which parcels did I name first?"]).await.expect(200);
    let asked = upstream.last_text();
    assert!(asked.contains("Box75 and weighs"), "the last messages are there as they were said");
    assert!(asked.contains("## Summaries"), "those before are told in brief: {asked}");
    let context = house.get("/api/v1/sessions/acme:session1/context").send().await.expect(200);
    let hours: Vec<&Value> =
        context["summaries"].as_array().expect("a list").iter().map(|told| &told["level"]).collect();
    assert!(hours.len() >= 2 && hours.iter().all(|level| **level == "hour"), "{context}");
}

/// A5, scenario 3: nobody comes back in time; the session is gone, and whoever waits for that is told once.
#[tokio::test]
async fn scenario_3_expiration() {
    let (house, upstream) = open();
    let ends = house.ends();
    visit(&house, "acme:session1", &["I need help with order #12345"]).await.expect(200);
    house.clock.advance(hours(23));
    assert_eq!(house.memory.sweep_live().await, Ok(0));
    house.clock.advance(hours(1));
    assert_eq!(house.memory.sweep_live().await, Ok(1));
    assert_eq!(house.memory.sweep_live().await, Ok(0));
    let told = ends.told();
    let [end] = &told[..] else { panic!("told once: {told:?}") };
    assert_eq!((end.tenant.as_str(), end.session.as_str(), end.reason), ("acme", "session1", EndReason::Ttl));
    let said: Vec<&str> = end.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!((said, end.message_count), (vec!["I need help with order #12345", "answer 1"], 2));
    assert!(end.created_at < end.last_accessed);
    assert_eq!(house.get("/api/v1/sessions/acme:session1").send().await.refusal(), (404, "unknown_session"));
    visit(&house, "acme:session1", &["Hello?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["Hello?"]);
}

/// A7, scenario 4: files are refused, in exactly these words; pictures are part of what is said.
#[tokio::test]
async fn scenario_4_file_upload_is_blocked() {
    const MESSAGE: &str = "File uploads not allowed for ephemeral sessions";
    let (house, upstream) = open();
    let parts = |part: Value| json!([{"role": "user", "content": [{"type": "text", "text": "Keep this"}, part]}]);
    let file = json!({"type": "file", "file": {"filename": "a.txt", "file_data": "aGk="}});
    let path = "/v1/acme:session1/chat/completions";
    check_error(&house.post(path).json(body(parts(file.clone()))).await, 400, "uploads_not_allowed", MESSAGE);
    for part in
        [json!({"type": "input_file", "file_id": "f"}), json!({"type": "file_data", "name": "a", "data": "aGk="})]
    {
        check_error(&house.post(path).json(body(parts(part))).await, 400, "uploads_not_allowed", MESSAGE);
    }
    for path in ["/v1/acme:session1/files", "/v1/acme:session1/uploads", "/v1/acme%3Asession1/knowledge"] {
        check_error(&house.post(path).json(json!({})).await, 400, "uploads_not_allowed", MESSAGE);
    }
    assert!(upstream.seen().is_empty(), "nothing went on");
    assert_eq!(house.get("/api/v1/sessions/acme:session1").send().await.refusal(), (404, "unknown_session"));
    house.post("/v1/acme/chat/completions").json(body(parts(file))).await.expect(200);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    house.post(path).json(body(parts(picture))).await.expect(200);
}

/// Gives a tenant something to know.
async fn teach(house: &House, tenant: &str, title: &str, text: &str) {
    let note = json!({ "title": title, "text": text });
    house.post("/api/v1/knowledge").header("x-tenant-id", tenant).json(note).await.expect(201);
}

/// A9, scenario 5: sessions of one tenant are apart from each other, and all see what the tenant knows.
#[tokio::test]
async fn scenario_5_concurrent_sessions() {
    let (house, upstream) = patient();
    for tenant in ["acme", "globex"] {
        teach(&house, tenant, "Hours", &format!("Our business hours at {tenant}: we are open from nine to five."))
            .await;
    }
    let names: Vec<String> = (0..20).map(|n| format!("acme:session{n}")).collect();
    let secrets: Vec<String> = (0..20).map(|n| format!("My secret word is canary{n}.")).collect();
    futures_util::future::join_all(
        names.iter().zip(&secrets).map(async |(name, secret)| visit(&house, name, &[secret]).await),
    )
    .await;
    for (n, name) in names.iter().enumerate() {
        visit(&house, name, &["What are your business hours?"]).await.expect(200);
        let asked = upstream.last_text();
        assert!(asked.contains("hours at acme: we are open from nine to five."), "{asked}");
        let others = (0..20).filter(|other| asked.contains(&format!("canary{other}.")));
        assert_eq!(others.collect::<Vec<_>>(), [n]);
    }
    visit(&house, "globex:session1", &["What are your business hours?"]).await.expect(200);
    assert!(upstream.last_text().contains("hours at globex: we are open") && !upstream.last_text().contains("canary"));
}

// --- Nothing is left ------------------------------------------------------------------------------

/// A3: no word of a visitor reaches the data file, a user's facts or topics, or a plain tenant.
#[tokio::test]
async fn nothing_of_a_visit_reaches_the_disk() {
    let (house, _) = open();
    for n in 0..40 {
        let words = format!("My name is Zephyrine{n}, I live in Quixotica and my cat is called Wumpus.");
        visit(&house, "acme:+15551234567", &[&words]).await.expect(200);
    }
    house.memory.live_told().await;
    house.post("/chat").json(json!({"query": "A durable turn about Xylophones."})).await.expect(200);
    house.memory.learn_facts().await.expect("a store that answers");
    let files = std::fs::read_dir(house.data().parent().expect("a folder")).expect("a folder");
    let mut bytes = Vec::new();
    for file in files {
        bytes.extend(std::fs::read(file.expect("a file").path()).expect("bytes"));
    }
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("Xylophones"), "what is durable is there");
    for word in ["Zephyrine", "Quixotica", "Wumpus", "15551234567"] {
        assert!(!text.contains(word), "{word}");
    }
    for path in ["sessions", "topics", "episodes"] {
        let found = house.get(&format!("/api/v1/{path}")).header("x-tenant-id", "acme").send().await.expect(200);
        assert!(found[path].as_array().is_some_and(Vec::is_empty), "{found}");
    }
}

/// A10: sessions that older versions kept in the data file are removed, with all that was learned in them.
#[tokio::test]
async fn what_older_versions_kept_is_purged() {
    let house = House::open();
    house.chat(crate::house::SESSION, "A durable turn about Xylophones.").await;
    let seed = recalld::session::SessionSeed { kind: recalld::session::SessionKind::Ephemeral, ..Default::default() };
    let visits: Vec<_> = (0..120).map(|n| recalld::id::SessionId::ephemeral("acme", &format!("v{n}"))).collect();
    let scope =
        |id| recalld::scope::Scope::new(Tenant::parse("acme").expect("a tenant"), recalld::scope::User::of_session(id));
    use recalld::store::Store;
    for id in &visits {
        house.store.create_session(&scope(*id), *id, seed.clone()).await.expect("a store");
    }
    assert_eq!(house.memory.forget_visits().await.expect("a store"), 100);
    assert_eq!(house.memory.forget_visits().await.expect("a store"), 20);
    assert_eq!(house.memory.forget_visits().await.expect("a store"), 0);
    assert_eq!(house.store.session(&scope(visits[0]), visits[0]).await.expect("a store"), None);
    assert_eq!(house.turns(crate::house::SESSION).await.len(), 1);
}

// --- Limits and ends ------------------------------------------------------------------------------

/// A7: over a hundred sessions of a tenant are 429 with a time to come back; other tenants are let in.
#[tokio::test]
async fn too_many_sessions_are_turned_away() {
    let (house, upstream) = open();
    for n in 0..100 {
        visit(&house, &format!("acme:v{n}"), &["Hi"]).await.expect(200);
    }
    let refused = visit(&house, "acme:v100", &["Hi"]).await;
    let message = "Too many sessions: tenant `acme` has 100 live sessions, which is as many as it may have \
                   (`session_max_sessions`); end one, or try again later";
    check_error(&refused, 429, "too_many_sessions", message);
    assert_eq!(refused.header("retry-after"), "3600");
    assert_eq!(upstream.seen().len(), 100, "the model was not asked");
    visit(&house, "globex:v100", &["Hi"]).await.expect(200);
    visit(&house, "acme:v0", &["Hi again"]).await.expect(200);
    house.post("/api/v1/sessions/acme:v1/end").json(json!({})).await.expect(200);
    visit(&house, "acme:v100", &["Hi"]).await.expect(200);
    house.clock.advance(hours(24));
    visit(&house, "acme:v101", &["Hi"]).await.expect(200);
}

/// A7: a session takes no more than it may, whatever is said; what is too large by itself is refused.
#[tokio::test]
async fn a_session_takes_no_more_than_it_may() {
    let (house, upstream) = with(|settings| {
        settings.session_memory_max_mb = 0.1;
        settings.session_summarize_after = 1_000;
        settings.session_max_messages = 1_000;
    });
    for n in 0..12 {
        upstream.says(&format!("Answer {n}. {}", "tea ".repeat(2_000)));
        visit(&house, "acme:v", &[&format!("Question {n}. {}", "milk ".repeat(1_000))]).await.expect(200);
        let now = seen(&house, "acme:v").await;
        assert!(now["bytes"].as_u64() <= Some(100_000), "{now}");
    }
    let refused = visit(&house, "acme:v", &[&"x".repeat(100_000)]).await;
    assert_eq!((refused.status, refused.code()), (413, "session_memory_exceeded"));
    assert!(refused.json()["error"]["message"].as_str().is_some_and(|text| text.contains("a session may take 100000")));
    upstream.says(&"y".repeat(120_000));
    let answer = visit(&house, "acme:v", &["Tell me everything"]).await;
    assert_eq!((said(&answer).len(), answer.header("x-recalld-status")), (120_000, "degraded"));
    assert!(seen(&house, "acme:v").await["bytes"].as_u64() <= Some(100_000));
}

/// A7: at `session_max_messages` the oldest are summarised and dropped, and the chat goes on.
#[tokio::test]
async fn at_the_most_messages_the_oldest_go() {
    let (house, _) = with(|settings| {
        settings.session_max_messages = 10;
        settings.session_summarize_after = 1_000;
    });
    for n in 1..=20 {
        visit(&house, "acme:v", &[&format!("I ordered {n} chairs for the office in Porto.")]).await.expect(200);
        let now = seen(&house, "acme:v").await;
        assert!(now["messages_held"].as_u64() <= Some(10), "{now}");
    }
    let now = seen(&house, "acme:v").await;
    assert_eq!((&now["message_count"], now["summaries"].as_u64() > Some(0)), (&json!(40), true), "{now}");
}

/// A5: however often somebody comes back, a session ends after seven days.
#[tokio::test]
async fn no_session_is_older_than_seven_days() {
    let (house, upstream) = open();
    let ends = house.ends();
    for _ in 0..AGE_MAX.as_secs() / 3600 / 12 {
        visit(&house, "acme:v", &["Still here"]).await.expect(200);
        house.clock.advance(hours(12));
    }
    visit(&house, "acme:v", &["And now?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["And now?"], "the old one was over when its visitor came");
    house.memory.sweep_live().await.expect("a sweep");
    let reasons: Vec<EndReason> = ends.told().iter().map(|end| end.reason).collect();
    assert_eq!(reasons, [EndReason::Cap]);
}

/// A4: hours that lie further back than a day are one summary.
#[tokio::test]
async fn old_hours_become_the_sessions_summary() {
    let (house, _) = open();
    for n in 0..60 {
        visit(&house, "acme:v", &[&format!("On day {} I bought {n} lamps in Lisbon.", n / 12)]).await.expect(200);
        house.memory.live_told().await;
        house.clock.advance(hours(2));
    }
    let context = house.get("/api/v1/sessions/acme:v/context").send().await.expect(200);
    let levels: Vec<&Value> =
        context["summaries"].as_array().expect("a list").iter().map(|told| &told["level"]).collect();
    assert_eq!(levels.first(), Some(&&json!("session")), "{context}");
    assert!(levels.len() <= 26 && levels[1..].iter().all(|level| **level == "hour"), "{context}");
}

/// A5: the sweeper ends sessions when nobody comes at all, and a wall clock that leaps ends none.
#[tokio::test]
async fn the_sweeper_needs_no_traffic() {
    let (house, _) = open();
    let ends = house.ends();
    let worker = Worker::start(house.memory.clone(), Arc::clone(&house.watch), Duration::from_secs(3600));
    visit(&house, "acme:v", &["Hi"]).await.expect(200);
    house.clock.leap(hours(1_000));
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(ends.told().len(), 0, "nothing ends by a clock that leapt");
    house.clock.advance(hours(24));
    eventually("the end is told", async || ends.told().pop()).await;
    worker.stop().await;
}

/// A5: whoever stops tells of what would be lost.
#[tokio::test]
async fn a_server_that_stops_ends_its_sessions() {
    let (house, _) = open();
    let ends = house.ends();
    visit(&house, "acme:a", &["Hi"]).await.expect(200);
    visit(&house, "acme:b", &["Hi"]).await.expect(200);
    house.memory.close(Duration::from_secs(1)).await.expect("a store that closes");
    let mut told: Vec<_> = ends.told().into_iter().map(|end| (end.session, end.reason)).collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(told, [("a".into(), EndReason::Shutdown), ("b".into(), EndReason::Shutdown)]);
}

// --- Talking --------------------------------------------------------------------------------------

/// A client that resends its history stores each message once, before and after what is old is told in brief.
#[tokio::test]
async fn a_client_that_resends_everything_is_understood() {
    let (house, upstream) = open();
    let mut texts: Vec<String> = Vec::new();
    for n in 1..=40 {
        texts.push(format!("question {n}"));
        let list: Vec<&str> = texts.iter().map(String::as_str).collect();
        let answer = said(&visit(&house, "acme:v", &list).await);
        assert_eq!(upstream.last_contents().len(), 2 * n - 1, "what the client sent, and nothing more");
        texts.push(answer);
        house.memory.live_told().await;
    }
    let now = seen(&house, "acme:v").await;
    assert_eq!((&now["turns"], &now["message_count"]), (&json!(40), &json!(80)), "{now}");
    // The last question again is another answer to it.
    let list: Vec<&str> = texts[..79].iter().map(String::as_str).collect();
    visit(&house, "acme:v", &list).await.expect(200);
    assert_eq!(seen(&house, "acme:v").await["turns"], 40);
}

/// The same request twice is one turn, and its answer is given again.
#[tokio::test]
async fn a_retry_is_answered_again() {
    let (house, upstream) = open();
    let path = "/v1/acme:v/chat/completions";
    let ask = || house.post(path).header("idempotency-key", "k1").json(body(talk(&["Hi"])));
    assert_eq!((said(&ask().await), said(&ask().await)), ("answer 1".into(), "answer 1".into()));
    assert_eq!((upstream.seen().len(), &seen(&house, "acme:v").await["turns"]), (1, &json!(1)));
    let other = house.post(path).header("idempotency-key", "k1").json(body(talk(&["Bye"]))).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));
}

/// Tool rounds are one turn.
#[tokio::test]
async fn tool_rounds_are_one_turn() {
    let (house, upstream) = open();
    visit(&house, "acme:v", &["My time zone is Lisbon."]).await.expect(200);
    upstream.calls("call-1");
    let called = visit(&house, "acme:v", &["What time is it?"]).await.expect(200);
    let call = called["choices"][0]["message"].clone();
    let result = json!({"role": "tool", "tool_call_id": "call-1", "content": "noon"});
    upstream.says("It is noon.");
    let list = json!([{"role": "user", "content": "What time is it?"}, call, result]);
    house.post("/v1/acme:v/chat/completions").json(body(list)).await.expect(200);
    assert_eq!(upstream.last_contents()[0], "My time zone is Lisbon.");
    let turns = house.get("/api/v1/sessions/acme:v/turns").send().await.expect(200);
    let turns = turns["turns"].as_array().expect("a list").clone();
    assert_eq!((turns.len(), &turns[1]["response_text"]), (2, &json!("It is noon.")), "{turns:?}");
    assert_eq!(turns[1]["metadata"], json!({}), "what was laid before the model is not kept");
}

/// Streams come as ever, and an upstream that fails costs its answer alone.
#[tokio::test]
async fn streams_and_failures_are_as_ever() {
    let (house, upstream) = open();
    let request = json!({"model": "m", "stream": true, "messages": talk(&["Hi"])});
    let answer = house.post("/v1/acme:v/chat/completions").json(request).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    upstream.then(Reply::Refuses(500, json!({"error": {"message": "out of order"}})));
    assert_eq!(visit(&house, "acme:v", &["And?"]).await.status, 500);
    visit(&house, "acme:v", &["Again?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["Hi", "answer 1", "Again?"]);
}

/// A10: switched off, such requests are answered without any memory, and plain tenants are as ever.
#[tokio::test]
async fn switched_off_nothing_is_remembered() {
    let (house, upstream) = with(|settings| settings.enable_session_memory = false);
    let answer = visit(&house, "acme:v", &["Hi"]).await;
    assert_eq!((said(&answer).as_str(), answer.header("x-recalld-status")), ("answer 1", "off"));
    visit(&house, "acme:v", &["And?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["And?"]);
    assert_eq!(house.get("/api/v1/sessions/acme:v").send().await.refusal(), (404, "unknown_session"));
    visit(&house, "acme", &["Hi"]).await.expect(200);
    let list = house.get("/api/v1/sessions").header("x-tenant-id", "acme").send().await.expect(200);
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1));
}

/// A6: a tenant has settings of its own.
#[tokio::test]
async fn a_tenant_has_limits_of_its_own() {
    let (house, _) = open();
    let settings = json!({"session_max_sessions": 1, "session_ttl_hours": 2, "session_max_messages": 4});
    house.post("/api/v1/tenants").json(json!({"name": "acme", "settings": settings})).await.expect(201);
    visit(&house, "acme:a", &["Hi"]).await.expect(200);
    assert_eq!(seen(&house, "acme:a").await["ttl"], "2h");
    assert_eq!(visit(&house, "acme:b", &["Hi"]).await.code(), "too_many_sessions");
    visit(&house, "globex:b", &["Hi"]).await.expect(200);
    assert_eq!(seen(&house, "globex:b").await["ttl"], "24h");
    for _ in 0..5 {
        visit(&house, "acme:a", &["I ordered tea from Porto."]).await.expect(200);
    }
    assert!(seen(&house, "acme:a").await["messages_held"].as_u64() <= Some(4));
}

/// A8: however much a tenant knows, what was said in the session is laid before the model all the same.
#[tokio::test]
async fn a_tenant_never_pushes_a_session_out() {
    let (house, upstream) = patient();
    for n in 0..20 {
        visit(&house, "acme:v", &[&format!("My order {n} went to Porto on 3 March 2026.")]).await.expect(200);
        house.memory.live_told().await;
    }
    visit(&house, "acme:v", &["Where did my orders go?"]).await.expect(200);
    let told =
        |text: String| text.split("## Summaries").nth(1).expect("summaries").split("\\n\\n").next().map(str::to_owned);
    let alone = told(upstream.last_text());
    for n in 0..30 {
        teach(&house, "acme", &format!("Orders {n}"), "Where did my orders go? Orders go out from the warehouse.")
            .await;
    }
    visit(&house, "acme:v", &["Where did my orders go?"]).await.expect(200);
    let beside = upstream.last_text();
    assert!(beside.contains("from the warehouse"), "{beside}");
    assert_eq!(told(beside).map(|text| text.len()), alone.map(|text| text.len()));
}
