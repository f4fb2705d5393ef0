//! The document's correctness properties (B-P1 … B-P12), each tried with at least a hundred cases. The last two, of what goes wrong, are in
//! `wrong`; B-P8 is in `outages`.

mod wrong;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Mutex;

use jiff::SignedDuration;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use recalld::clock::Clock;
use recalld::id::{Ids, RandomIds, SessionId};
use recalld::period::Ttl;
use recalld::store::StoreError;
use recalld::turn::inject::without_block;
use serde_json::{Value, json};

use crate::house::{Ask, House, encoded};

/// Tries a property on one house and one runtime.
fn for_all<S: Strategy>(house: House, strategy: S, case: impl AsyncFn(&House, S::Value) -> TestCaseResult) {
    for_all_moving(house, strategy, async |house, value| {
        let result = case(&house, value).await;
        (house, result)
    });
}

/// The same for cases that take the house down; each gives it back for the next.
fn for_all_moving<S: Strategy>(
    house: House,
    strategy: S,
    case: impl AsyncFn(House, S::Value) -> (House, TestCaseResult),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let place = RefCell::new(Some(house));
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let tried = runner.run(&strategy, |value| {
        let house = place.take().expect("the last case gave it back");
        let (house, result) = runtime.block_on(case(house, value));
        place.replace(Some(house));
        result
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A hundred cases, or more by `PROPTEST_CASES`.
pub(crate) fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(100).max(100)
}

/// What people say: any letters, some line breaks, never blank.
fn said() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{1,40}", "[a-zé \n\t?]{1,40}"].prop_filter("says something", |text| !text.trim().is_empty())
}

fn user() -> impl Strategy<Value = String> {
    "\\PC{1,20}".prop_filter("is an id", |text| !text.trim().is_empty())
}

fn metadata() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from)
    ];
    prop::collection::btree_map("[a-z_]{1,8}", value, 0..4).prop_map(|map| json!(map))
}

async fn new_session(house: &House, ask: impl Fn(Ask<'_>) -> Ask<'_>, body: Value) -> String {
    let made = ask(house.post("/api/v1/sessions")).json(body).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

fn turns_of(session: &str) -> String {
    format!("/api/v1/sessions/{session}/turns")
}

fn a_day() -> House {
    House::plan().setting(|settings| settings.ttl = "24h".parse::<Ttl>().expect("a period")).open()
}

/// B-P1: every stored turn comes back with all its fields.
#[test]
fn b_p1_turn_storage_completeness() {
    let strategy = (user(), said(), said(), metadata());
    for_all(House::open(), strategy, async |house, (user, query, response, metadata)| {
        let session = new_session(house, |ask| ask, json!({ "user_id": user })).await;
        let body = json!({"user_id": user, "query": query, "response": response, "metadata": metadata});
        house.post(&turns_of(&session)).json(body).await.expect(201);
        let list = house.get(&format!("{}?user_id={}", turns_of(&session), encoded(&user))).send().await.expect(200);
        let turn = &list["turns"][0];
        prop_assert_eq!(list["turns"].as_array().map(Vec::len), Some(1));
        prop_assert_eq!(&turn["session_id"], &json!(session));
        prop_assert_eq!(&turn["user_id"], &json!(user));
        prop_assert_eq!(&turn["query_text"], &json!(query));
        prop_assert_eq!(&turn["response_text"], &json!(response));
        prop_assert_eq!(&turn["turn_number"], &json!(1));
        prop_assert_eq!(&turn["metadata"], &metadata);
        prop_assert!(turn["created_at"].as_str().is_some_and(|time| time.starts_with("2026-01-01T")));
        prop_assert!(turn["id"].as_str().is_some_and(|id| id.len() == 36));
        Ok(())
    });
}

/// B-P2: session ids are unique UUIDs and are in every answer.
#[test]
fn b_p2_session_id_uniqueness_and_format() {
    let seen = Mutex::new(BTreeSet::new());
    let house = House::plan().ids(RandomIds).open();
    for_all(house, vec(any::<bool>(), 1..6), async |house, by_chat: Vec<bool>| {
        for by_chat in by_chat {
            let id = if by_chat {
                let answer = house.post("/chat").json(json!({"query": "hello"})).await;
                let body = answer.expect(200);
                prop_assert_eq!(&body["session_id"], &json!(answer.header("x-session-id")));
                prop_assert_eq!(&body["metadata"]["session_id"], &body["session_id"]);
                body["session_id"].as_str().expect("an id").to_owned()
            } else {
                new_session(house, |ask| ask, json!({})).await
            };
            let parsed = SessionId::parse(&id);
            prop_assert_eq!(parsed.map(|parsed| parsed.as_uuid().get_version_num()), Some(4));
            prop_assert_eq!(parsed.map(|parsed| parsed.to_string()), Some(id.clone()));
            let turns = house.get(&turns_of(&id)).send().await.expect(200);
            prop_assert!(turns["turns"].as_array().expect("a list").iter().all(|turn| turn["session_id"] == id));
            prop_assert!(seen.lock().expect("not poisoned").insert(id), "an id came twice");
        }
        Ok(())
    });
}

/// B-P3: a history holds the turns of its own session and no others, across users and tenants.
#[test]
fn b_p3_session_isolation() {
    let owners = [("default", "ann"), ("default", "bob"), ("other", "ann")];
    // Two sessions for each owner; the last two owners use the ids of the first.
    let strategy = vec((0..owners.len(), 0..2_usize, said()), 1..10);
    for_all(House::open(), strategy, async |house, writes: Vec<(usize, usize, String)>| {
        let ids = [RandomIds.session().to_string(), RandomIds.session().to_string()];
        for (tenant, user) in owners {
            for id in &ids {
                new_session(house, |ask| ask.header("x-tenant-id", tenant).user(user), json!({ "id": id })).await;
            }
        }
        for (n, (owner, session, query)) in writes.iter().enumerate() {
            let ask = house.post(&turns_of(&ids[*session]));
            let ask = ask.header("x-tenant-id", owners[*owner].0).user(owners[*owner].1);
            ask.json(json!({"query": query, "response": format!("answer {n}")})).await.expect(201);
        }
        for (owner, (tenant, user)) in owners.into_iter().enumerate() {
            for (session, id) in ids.iter().enumerate() {
                let ask = house.get(&turns_of(id)).header("x-tenant-id", tenant).user(user);
                let page = ask.send().await.expect(200);
                let found: Vec<&Value> =
                    page["turns"].as_array().expect("a list").iter().map(|turn| &turn["response_text"]).collect();
                let own = writes.iter().enumerate().filter(|(_, write)| (write.0, write.1) == (owner, session));
                let expected: Vec<Value> = own.map(|(n, _)| json!(format!("answer {n}"))).collect();
                prop_assert_eq!(found, expected.iter().collect::<Vec<_>>());
            }
        }
        Ok(())
    });
}

/// B-P4: an existing session is continued: same id, next number, and the model sees its last ten messages.
#[test]
fn b_p4_session_continuity() {
    let strategy = (vec((said(), said()), 0..8), said());
    for_all(House::open(), strategy, async |house, (past, question): (Vec<(String, String)>, String)| {
        let session = new_session(house, |ask| ask, json!({})).await;
        for (query, response) in &past {
            house.post(&turns_of(&session)).json(json!({"query": query, "response": response})).await.expect(201);
        }
        let answer = house.post("/chat").session(&session).json(json!({ "query": question })).await;
        let body = answer.expect(200);
        prop_assert_eq!(answer.header("x-session-id"), session.as_str());
        prop_assert_eq!(&body["session_id"], &json!(session));
        prop_assert_eq!(&body["metadata"]["turn_number"], &json!(past.len() + 1));
        let said: Vec<&String> = past.iter().flat_map(|(query, response)| [query, response]).collect();
        let expected = &said[said.len().saturating_sub(10)..];
        let prompt = house.model.shown().pop().expect("asked").messages;
        let shown: Vec<&str> = prompt[1..prompt.len() - 1].iter().filter_map(|m| m["content"].as_str()).collect();
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(&body["metadata"]["messages_in_context"], &json!(expected.len()));
        let asked = prompt[prompt.len() - 1]["content"].as_str().expect("text");
        prop_assert_eq!(without_block(asked), question, "what was said elsewhere may stand before it");
        Ok(())
    });
}

/// Anything a client may put where a session id belongs.
fn no_session() -> impl Strategy<Value = Value> {
    let uuid = any::<u128>().prop_map(|bits| json!(uuid::Uuid::from_u128(bits).to_string()));
    let nearly = (any::<u128>(), 0..36_usize, "\\PC").prop_map(|(bits, at, other)| {
        let mut text: String = uuid::Uuid::from_u128(bits).to_string();
        text.replace_range(at..=at, &other);
        json!(text)
    });
    let simple = any::<u128>().prop_map(|bits| json!(uuid::Uuid::from_u128(bits).simple().to_string()));
    prop_oneof![
        3 => "\\PC{0,50}".prop_map(Value::from),
        2 => nearly,
        1 => uuid,
        1 => simple,
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(json!([1, "x"])),
        1 => Just(json!({"id": "x"})),
        1 => Just(json!("a\u{0}b")),
    ]
}

/// B-P5: an unusable session id in the body begins a new conversation, without an error.
#[test]
fn b_p5_invalid_session_handling() {
    for_all(House::open(), (no_session(), said()), async |house, (session, query)| {
        let answer = house.post("/chat").json(json!({"query": query, "session_id": session})).await;
        let body = answer.expect(200);
        prop_assert_eq!(&body["error"], &Value::Null);
        prop_assert_eq!(&body["metadata"]["turn_number"], &json!(1));
        prop_assert_eq!(&body["metadata"]["messages_in_context"], &json!(0));
        let id = body["session_id"].as_str().expect("an id");
        prop_assert!(SessionId::parse(id).is_some());
        prop_assert_eq!(house.turns(id).await.len(), 1);
        Ok(())
    });
}

/// B-P6: after a cleanup what is older than a day is gone and what is younger is there.
#[test]
fn b_p6_ttl_enforcement() {
    const DAY: i64 = 86_400;
    let age = prop_oneof![DAY - 5..=DAY + 5, 0..3 * DAY];
    for_all(a_day(), vec(age, 1..8), async |house, ages: Vec<i64>| {
        let session = new_session(house, |ask| ask, json!({})).await;
        let now = house.clock.reading().wall;
        for age in &ages {
            let at = now - SignedDuration::from_secs(*age);
            let body = json!({"query": format!("{age}"), "response": "a", "created_at": at.to_string()});
            house.post(&turns_of(&session)).json(body).await.expect(201);
        }
        let report = house.post("/api/v1/cleanup").send().await.expect(200);
        prop_assert_eq!(&report["errors"], &json!([]));
        let young: Vec<String> = ages.iter().filter(|age| **age < DAY).map(ToString::to_string).collect();
        prop_assert_eq!(&report["turns_deleted"], &json!(ages.len() - young.len()));
        prop_assert_eq!(&report["sessions_deleted"], &json!(u64::from(young.is_empty())));
        let page = house.get(&turns_of(&session)).send().await;
        let left: Vec<Value> = match page.status {
            404 => Vec::new(),
            _ => {
                page.expect(200)["turns"].as_array().expect("a list").iter().map(|t| t["query_text"].clone()).collect()
            }
        };
        prop_assert_eq!(left, young);
        // The next case must not find these turns grown old.
        house.ask("DELETE", &format!("/api/v1/sessions/{session}")).send().await;
        Ok(())
    });
}

/// B-P7: whatever times turns bring along and however they are added, a history comes by number.
#[test]
fn b_p7_chronological_ordering() {
    let strategy = (vec(0..2_000_000_000_i64, 1..12), 1..5_usize);
    for_all(House::open(), strategy, async |house, (times, limit): (Vec<i64>, usize)| {
        let session = new_session(house, |ask| ask, json!({})).await;
        let add = async |n: usize| {
            let at = jiff::Timestamp::from_second(times[n]).expect("a time");
            let body = json!({"query": format!("{n}"), "response": "a", "created_at": at.to_string()});
            house.post(&turns_of(&session)).json(body).await.expect(201)["turn_number"].as_u64().expect("a number")
        };
        let given = futures_util::future::join_all((0..times.len()).map(&add)).await;
        let turns = house.pages(&format!("{}?limit={limit}", turns_of(&session)), "turns").await;
        let numbers: Vec<u64> = turns.iter().map(|turn| turn["turn_number"].as_u64().expect("a number")).collect();
        prop_assert_eq!(numbers, (1..=times.len() as u64).collect::<Vec<_>>());
        for (n, number) in given.into_iter().enumerate() {
            let turn = &turns[number as usize - 1];
            prop_assert_eq!(&turn["query_text"], &json!(n.to_string()));
            let at = jiff::Timestamp::from_second(times[n]).expect("a time");
            prop_assert_eq!(&turn["created_at"], &json!(format!("{at:.6}")), "kept as given");
        }
        Ok(())
    });
}

/// What may happen to a server within a day.
#[derive(Debug, Clone)]
enum Event {
    Say(String),
    Restart,
    Wait { minutes: i64 },
    CleanUp,
}

/// What happens to one of the two kinds of memory.
#[derive(Debug, Clone)]
enum Layered {
    /// To the clarification of a session.
    Ask(usize, String),
    Drop(usize),
    /// To its turns.
    Add(usize, String),
    Delete(usize),
    CleanUp,
    /// The store fails from now on, until something happens to it, or is well again.
    Break(bool),
}

fn layered() -> impl Strategy<Value = Layered> {
    let session = || 0..2_usize;
    prop_oneof![
        3 => (session(), "[a-z ]{0,20}\\?").prop_map(|(at, question)| Layered::Ask(at, question)),
        2 => session().prop_map(Layered::Drop),
        4 => (session(), said()).prop_map(|(at, text)| Layered::Add(at, text)),
        2 => session().prop_map(Layered::Delete),
        1 => Just(Layered::CleanUp),
        1 => any::<bool>().prop_map(Layered::Break),
    ]
}

/// B-P9: what happens to clarifications changes nothing that is remembered, and the reverse; not even a broken store is noticed.
#[test]
fn b_p9_memory_layer_independence() {
    for_all(House::open(), vec(layered(), 1..14), async |house, events: Vec<Layered>| {
        let sessions = [RandomIds.session().to_string(), RandomIds.session().to_string()];
        let mut open: [Option<String>; 2] = [None, None];
        let mut turns: [Vec<String>; 2] = [Vec::new(), Vec::new()];
        let mut broken = false;
        for event in events {
            if broken && matches!(event, Layered::Add(..) | Layered::Delete(_) | Layered::CleanUp) {
                house.flaky.fail(None);
                broken = false;
            }
            match event {
                Layered::Ask(at, question) => {
                    let asked = json!({"session_id": sessions[at], "question": question, "options": ["a", "b"]});
                    house.post("/api/v1/clarifications").json(asked).await.expect(201);
                    open[at] = Some(question.split_whitespace().collect::<Vec<_>>().join(" "));
                }
                Layered::Drop(at) => {
                    let dropped = house.ask("DELETE", &format!("/api/v1/clarifications/{}", sessions[at])).send().await;
                    prop_assert_eq!(dropped.status == 200, open[at].take().is_some());
                }
                Layered::Add(at, text) => {
                    let turn = json!({"query": text, "response": "ok"});
                    if turns[at].is_empty() {
                        house.post("/api/v1/sessions").json(json!({"id": sessions[at]})).await.expect(201);
                    }
                    house.post(&format!("/api/v1/sessions/{}/turns", sessions[at])).json(turn).await.expect(201);
                    turns[at].push(text);
                }
                Layered::Delete(at) => {
                    let deleted = house.ask("DELETE", &format!("/api/v1/sessions/{}", sessions[at])).send().await;
                    prop_assert_eq!(deleted.status == 200, !turns[at].is_empty());
                    turns[at].clear();
                }
                Layered::CleanUp => drop(house.post("/api/v1/cleanup").send().await.expect(200)),
                Layered::Break(on) => {
                    broken = on;
                    house.flaky.fail(on.then(|| StoreError::Disk("unplugged".into())));
                }
            }
            both_as_they_should_be(house, &sessions, &open, &turns, broken).await?;
        }
        house.flaky.fail(None);
        Ok(())
    });
}

async fn both_as_they_should_be(
    house: &House,
    sessions: &[String; 2],
    open: &[Option<String>; 2],
    turns: &[Vec<String>; 2],
    broken: bool,
) -> TestCaseResult {
    for at in 0..2 {
        let held = house.get(&format!("/api/v1/clarifications/{}", sessions[at])).send().await;
        let question = (held.status == 200).then(|| held.json()["question"].as_str().map(str::to_owned)).flatten();
        prop_assert_eq!(&question, &open[at]);
        if !broken {
            let kept = if turns[at].is_empty() { Vec::new() } else { house.turns(&sessions[at]).await };
            prop_assert_eq!(kept.iter().map(|turn| turn["query_text"].clone()).collect::<Vec<_>>(), turns[at].clone());
        }
    }
    Ok(())
}

/// B-P10: within its day every turn is there, whatever happens to the server.
#[test]
fn b_p10_long_term_memory_persistence() {
    let event = prop_oneof![
        4 => said().prop_map(Event::Say),
        2 => Just(Event::Restart),
        2 => (1..120_i64).prop_map(|minutes| Event::Wait { minutes }),
        1 => Just(Event::CleanUp),
    ];
    for_all_moving(a_day(), vec(event, 1..10), async |mut house, events: Vec<Event>| {
        let session = RandomIds.session().to_string();
        let mut said: Vec<String> = Vec::new();
        for event in events {
            match event {
                Event::Say(query) => {
                    house.chat(&session, &query).await;
                    said.push(query);
                }
                Event::Restart => house = house.reopen().await,
                // Ten of these are less than a day.
                Event::Wait { minutes } => house.clock.advance(SignedDuration::from_mins(minutes)),
                Event::CleanUp => drop(house.post("/api/v1/cleanup").send().await.expect(200)),
            }
        }
        house = house.reopen().await;
        let result = all_there(&house, &session, &said).await;
        (house, result)
    });
}

async fn all_there(house: &House, session: &str, said: &[String]) -> TestCaseResult {
    let turns = if said.is_empty() { Vec::new() } else { house.turns(session).await };
    prop_assert_eq!(turns.iter().map(|turn| turn["query_text"].clone()).collect::<Vec<_>>(), said);
    prop_assert!(turns.iter().all(|turn| turn["status"] == "complete" && turn["response_text"] == "ok"));
    Ok(())
}
