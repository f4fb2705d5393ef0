//! Requests without a user: where each session is a user of its own, none is given another person's conversation.

use std::collections::HashSet;

use recalld::config::Unidentified;
use recalld::store::StoreError;
use serde_json::{Value, json};

use crate::house::{Answer, House};
use crate::openai::{CHAT, body, sessions, shown, talk};
use crate::process::recalld;
use crate::routes::API_KEY;
use crate::upstream::{Recording, recording};

const GREETING: &str = "Hello! How can I help you today?";

/// A house with a key, and its model.
fn keyed() -> (House, std::sync::Arc<Recording>) {
    let upstream = recording();
    let plan = House::plan().upstream(std::sync::Arc::clone(&upstream) as _);
    (plan.setting(|settings| settings.api_key = API_KEY.into()).open(), upstream)
}

/// A request with the server's key and no user.
async fn ask(house: &House, texts: &[&str], headers: &[(&str, &str)]) -> Answer {
    post(house, body(talk(texts)), headers).await
}

async fn post(house: &House, request: Value, headers: &[(&str, &str)]) -> Answer {
    let ask = headers.iter().fold(house.post(CHAT), |ask, (name, value)| ask.header(name, value));
    let answer = ask.header("x-api-key", API_KEY).json(request).await;
    answer.expect(200);
    answer
}

fn session(answer: &Answer) -> String {
    answer.header("x-session-id").to_owned()
}

/// What a session of an unnamed user holds: questions and answers in turn.
async fn held(house: &House, session: &str) -> String {
    let path = format!("/api/v1/sessions/{session}/turns?limit=50");
    let ask = house.get(&path).header("x-api-key", API_KEY).user(&format!("~{session}"));
    let page = ask.send().await.expect(200);
    let turns = page["turns"].as_array().expect("a list").iter();
    let texts = turns.flat_map(|turn| [&turn["query_text"], &turn["response_text"]]);
    texts.map(|text| text.as_str().unwrap_or("-")).collect::<Vec<_>>().join("/")
}

async fn metadata(house: &House, session: &str) -> Value {
    let ask = house.get(&format!("/api/v1/sessions/{session}")).header("x-api-key", API_KEY);
    ask.user(&format!("~{session}")).send().await.expect(200)["metadata"].clone()
}

/// Two people greet alike and hear the same. One tells a secret; the other goes on, guesses what was said, and comes
/// back with the session's id. `RECALLD_TEST_PAIRS` sets how many pairs: a thousand take a minute in a debug build.
#[tokio::test]
async fn pairs_of_people_who_speak_alike_never_cross() {
    let pairs: usize = std::env::var("RECALLD_TEST_PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(100);
    let (house, upstream) = keyed();
    let (mut seen, mut crossings) = (HashSet::new(), Vec::new());
    for n in 0..pairs {
        let secret = format!("My locker code is zq{n}.");
        let mut mine = async |texts: &[&str], answer: &str| {
            upstream.says(answer);
            let heard = ask(&house, texts, &[]).await;
            let (session, told) = (session(&heard), format!("{}{:?}", upstream.last_text(), heard.headers));
            (seen.insert(session.clone()), session, told)
        };
        let first = [mine(&["Hi"], GREETING).await, mine(&["Hi"], GREETING).await];
        let told = mine(&["Hi", GREETING, &secret], "Noted.").await;
        let asked = mine(&["Hi", GREETING, "What is my locker code?"], "I do not know.").await;
        let guessed = mine(&["Hi", GREETING, &secret, "Noted.", "Say it again."], "No.").await;
        let is_new = first.iter().chain([&told, &asked, &guessed]).all(|(is_new, _, _)| *is_new);
        let leaks = asked.2.contains(&format!("zq{n}")) || asked.2.contains(&told.1);
        let noted = format!("{}{}", metadata(&house, &asked.1).await, metadata(&house, &guessed.1).await);
        let headers = [("x-session-id", asked.1.as_str())];
        let back = ["Hi", GREETING, "What is my locker code?", "I do not know.", "And now?"];
        ask(&house, &back, &headers).await;
        let told_back = upstream.last_text().contains("zq");
        let names = noted.contains("forked_from") || noted.contains(&told.1);
        if !is_new || leaks || told_back || names {
            crossings.push((n, is_new, leaks, told_back, names));
        }
    }
    assert_eq!(crossings, [], "of {pairs} pairs");
}

/// An unnamed request keeps its question and answer; the history comes in when the client returns with the session's id.
#[tokio::test]
async fn history_is_taken_in_once_and_by_its_session_id_alone() {
    let (house, _) = keyed();
    let first = ask(&house, &["a", "1", "b", "2", "c"], &[]).await;
    let id = session(&first);
    assert_eq!(held(&house, &id).await, "c/answer 1");
    let without = ask(&house, &["a", "1", "b", "2", "c", "answer 1", "d"], &[]).await;
    assert_ne!(session(&without), id);
    assert_eq!(held(&house, &session(&without)).await, "d/answer 2");
    let headers = [("x-session-id", id.as_str())];
    ask(&house, &["a", "1", "b", "2", "c", "answer 1", "d"], &headers).await;
    assert_eq!(held(&house, &id).await, "a/1/b/2/c/answer 1/d/answer 3");
    ask(&house, &["a", "1", "b", "2", "c", "answer 1", "d", "answer 3", "e"], &headers).await;
    assert_eq!(held(&house, &id).await, "a/1/b/2/c/answer 1/d/answer 3/e/answer 4");
}

/// Names of messages and requests are guessed easily: they open no session.
#[tokio::test]
async fn ids_of_messages_open_no_session() {
    let uuid = "0e8f3c0a-7a50-4d1e-9c4e-0d7ac1c1f0aa";
    for name in ["idempotency-key", "x-recalld-message-id", "x-recalld-user-message-id"] {
        for id in ["1", uuid] {
            let (house, upstream) = keyed();
            let first = ask(&house, &["Hi"], &[(name, id)]).await;
            let second = ask(&house, &["Hi"], &[(name, id), ("x-stainless-retry-count", "1")]).await;
            let other = ask(&house, &["Ho"], &[(name, id)]).await;
            let all = HashSet::from([session(&first), session(&second), session(&other)]);
            assert_eq!((all.len(), upstream.seen().len()), (3, 3), "{name}: {id}");
        }
    }
}

/// Results of tools go to nobody else's turn, even where two calls have the same id.
#[tokio::test]
async fn results_of_tools_open_no_session() {
    let (house, upstream) = keyed();
    upstream.calls("call_1");
    let first = ask(&house, &["What time is it?"], &[]).await;
    let call = first.json()["choices"][0]["message"].clone();
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "noon"});
    let round = json!([{"role": "user", "content": "What time is it?"}, call, result]);
    let second = post(&house, body(round.clone()), &[]).await;
    assert_ne!(session(&second), session(&first));
    assert_eq!(held(&house, &session(&second)).await, "What time is it?/answer 2");
    // With the session's id they go where they belong.
    let headers = [("x-session-id", &*session(&first))];
    assert_eq!(session(&post(&house, body(round), &headers).await), session(&first));
    assert_eq!(held(&house, &session(&first)).await, "What time is it?/answer 3");
}

/// While turns wait for the disk, no session is found by its history either.
#[tokio::test]
async fn an_outage_matches_nobody() {
    let (house, upstream) = keyed();
    house.flaky.fail(Some(StoreError::Full("no space left".into())));
    upstream.says(GREETING);
    let ann = ask(&house, &["Hi"], &[]).await;
    let bob = ask(&house, &["Hi", GREETING, "Who am I?"], &[]).await;
    assert_ne!(session(&bob), session(&ann));
    house.flaky.fail(None);
    let eve = ask(&house, &["Hi", GREETING, "Who am I?"], &[]).await;
    assert!(![session(&ann), session(&bob)].contains(&session(&eve)));
}

/// One person is known to be one: by a name, by a key of their own, or because the setting says so.
#[tokio::test]
async fn one_person_is_found_by_their_history() {
    let (house, _) = keyed();
    let named = [("x-user-id", "ann")];
    let first = ask(&house, &["a"], &named).await;
    assert_eq!(session(&ask(&house, &["a", "answer 1", "b"], &named).await), session(&first));

    let made = json!({"rights": ["read", "write"], "user_id": "eve", "tenant": "default"});
    let made = house.post("/api/v1/keys").header("x-api-key", API_KEY).json(made).await.expect(201);
    let bearer = format!("Bearer {}", made["key"].as_str().expect("a key"));
    let eve = async |texts: &[&str]| {
        let answer = house.post(CHAT).header("authorization", &bearer).json(body(talk(texts))).await;
        answer.expect(200);
        session(&answer)
    };
    assert_eq!(eve(&["a"]).await, eve(&["a", "answer 3", "b"]).await);

    let upstream = recording();
    let plan = House::plan().upstream(upstream);
    let shared =
        plan.setting(|settings| (settings.api_key, settings.unidentified) = (API_KEY.into(), Unidentified::Shared));
    let house = shared.open();
    let first = ask(&house, &["a"], &[]).await;
    assert_eq!(session(&ask(&house, &["a", "answer 1", "b"], &[]).await), session(&first));
    let open = House::open();
    open.post(CHAT).json(body(talk(&["a"]))).await.expect(200);
    open.post(CHAT).json(body(talk(&["a", "ok", "b"]))).await.expect(200);
    let found = sessions(&open).await;
    assert_eq!(found.len(), 1);
    assert_eq!(shown(&open, found[0]["id"].as_str().expect("an id")).await, "a/ok/b/ok");
}

/// `doctor` says what a client behind a key must send.
#[test]
fn doctor_says_what_a_client_behind_a_key_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = |settings: &[(&str, &str)]| {
        let mut command = recalld(folder.path(), &["doctor"], settings);
        let done = command.stdout(std::process::Stdio::piped()).output().expect("it runs");
        let text = String::from_utf8(done.stdout).expect("text");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let keyed = told(&[("RECALLD_API_KEY", API_KEY)]);
    for way_out in ["X-User-ID", "a key bound to its one user", "unidentified = \"shared\"", "Open WebUI"] {
        assert!(keyed.contains(way_out), "{way_out} is missing: {keyed}");
    }
    assert!(keyed.contains("never matched by its history"), "{keyed}");
    assert!(!told(&[]).contains("never matched by its history"));
}
