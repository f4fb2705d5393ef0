//! Client histories: nothing stored is hidden or stored twice.

use std::sync::Arc;

use recalld::store::StoreError;
use serde_json::{Value, json};

use crate::facts::{learn, listed};
use crate::house::{Answer, House, SESSION, eventually};
use crate::openai::{CHAT, ask, body, open, sessions, shown, talk};
use crate::upstream::Recording;

async fn with(house: &House, texts: &[&str], headers: &[(&str, &str)]) -> Answer {
    let ask = headers.iter().fold(house.post(CHAT), |ask, (name, value)| ask.header(name, value));
    let answer = ask.json(body(talk(texts))).await;
    answer.expect(200);
    answer
}

/// The session that a request without an id is given.
async fn unnamed(house: &House, texts: &[&str]) -> String {
    with(house, texts, &[]).await.header("x-session-id").to_owned()
}

/// Each line is a request in one session (texts separated by `/`); answers are `answer N`.
async fn after(requests: &[&str]) -> (House, Arc<Recording>, String) {
    let (house, upstream) = open();
    for request in requests {
        ask(&house, &request.split('/').collect::<Vec<_>>()).await;
    }
    let shown = shown(&house, SESSION).await;
    (house, upstream, shown)
}

const TWO_TURNS: [&str; 2] = ["a", "a/answer 1/b"];

// --- A client that reloads ------------------------------------------------------------------------

/// A message without history goes to the end of the conversation, and the model is shown what was said before.
#[tokio::test]
async fn a_client_that_reloads_goes_on() {
    for lone in ["c", "a", "b"] {
        let (house, upstream, shown_now) = after(&[&TWO_TURNS[..], &[lone]].concat()).await;
        assert_eq!(shown_now, format!("a/answer 1/b/answer 2/{lone}/answer 3"));
        let contents = upstream.last_contents();
        assert_eq!(contents[..4], ["a", "answer 1", "b", "answer 2"], "the window is shown: {contents:?}");
        // From then on it resends what it has: the part after the reload.
        ask(&house, &[lone, "answer 3", "d"]).await;
        assert_eq!(shown(&house, SESSION).await, format!("a/answer 1/b/answer 2/{lone}/answer 3/d/answer 4"));
        ask(&house, &["e"]).await;
        assert!(shown(&house, SESSION).await.ends_with("/d/answer 4/e/answer 5"));
        assert_eq!(house.turns(SESSION).await.len(), 5);
    }
}

/// What was said before the reload stays known and is recalled.
#[tokio::test]
async fn facts_outlive_a_reload() {
    let (house, _) = open();
    let said = "My name is Alex. I live in Lisbon.";
    ask(&house, &[said]).await;
    ask(&house, &[said, "answer 1", "I have a dog called Rex."]).await;
    learn(&house).await;
    let before = listed(&house, "anonymous", "active").await;
    assert!(before.iter().any(|fact| fact["value"] == "Lisbon"), "{before:?}");
    ask(&house, &["Good morning"]).await;
    learn(&house).await;
    assert_eq!(listed(&house, "anonymous", "active").await, before);
    let found = house.post("/api/v1/recall").json(json!({"question": "What is my dog called?"})).await.expect(200);
    assert!(found.to_string().contains("Rex"), "{found}");
}

/// A session in a visitor's memory follows the same rule.
#[tokio::test]
async fn a_visitor_who_reloads_goes_on() {
    let (house, upstream) = open();
    for texts in [&["a"][..], &["a", "answer 1", "b"], &["c"]] {
        house.post("/v1/acme:visit-1/chat/completions").json(body(talk(texts))).await.expect(200);
    }
    assert_eq!(upstream.last_contents()[..4], ["a", "answer 1", "b", "answer 2"]);
}

/// A program that shares the session and sends no history, or one of its own, hides nothing.
#[tokio::test]
async fn a_second_program_hides_nothing() {
    for theirs in ["x", "made up/by a script/x", "a/answer 1/other/heard elsewhere/x", "a/polished/x"] {
        let (house, _, shown_now) = after(&[&TWO_TURNS[..], &[theirs]].concat()).await;
        assert!(shown_now.starts_with("a/answer 1/b/answer 2/"), "{theirs}: {shown_now}");
        // The first program goes on and finds itself where it was.
        ask(&house, &["a", "answer 1", "b", "answer 2", "c"]).await;
        let all = house.turns(SESSION).await;
        let asked: Vec<_> = all.iter().filter_map(|turn| turn["query_text"].as_str()).collect();
        assert!(asked.contains(&"a") && asked.contains(&"b") && asked.contains(&"c"), "{theirs}: {asked:?}");
    }
}

/// A branch is cut where the client shows that it edits: by a history that ends before the head, by its own id of a
/// message, or because it is Open WebUI, which always resends everything.
#[tokio::test]
async fn an_edit_cuts_the_branch() {
    let (_, _, by_history) = after(&[&TWO_TURNS[..], &["a/answer 1/B"]].concat()).await;
    assert_eq!(by_history, "a/answer 1/B/answer 3");

    let (house, _) = open();
    let asked_as = |id| [("x-session-id", SESSION), ("x-recalld-user-message-id", id)];
    with(&house, &["a"], &asked_as("q1")).await;
    with(&house, &["a", "answer 1", "b"], &asked_as("q2")).await;
    with(&house, &["B"], &asked_as("q2")).await;
    assert_eq!(shown(&house, SESSION).await, "a/answer 1/B/answer 3");
    with(&house, &["c"], &asked_as("q3")).await;
    assert_eq!(shown(&house, SESSION).await, "a/answer 1/B/answer 3/c/answer 4");

    let (house, _) = open();
    let chat = [("x-openwebui-chat-id", SESSION)];
    with(&house, &["a"], &chat).await;
    with(&house, &["a", "answer 1", "b"], &chat).await;
    with(&house, &["A"], &chat).await;
    assert_eq!(shown(&house, SESSION).await, "A/answer 3");
}

// --- Two tabs -------------------------------------------------------------------------------------

/// A house whose model answers when told, with the first exchange answered.
async fn gated() -> (Arc<House>, Arc<Recording>) {
    let upstream = Arc::new(Recording::gated());
    let house = Arc::new(House::plan().upstream(Arc::clone(&upstream) as _).open());
    upstream.let_go(1);
    ask(&house, &["a"]).await;
    (house, upstream)
}

async fn wait_for_requests(upstream: &Recording, count: usize) {
    eventually("the request arrives", async || (upstream.seen().len() == count).then_some(())).await;
}

const MORE: &str = "I live in Lisbon.";
const OTHER: &str = "I have a dog called Rex.";

/// Two questions after the same answer, the second while the first is being answered: both stay.
async fn two_tabs() -> (Arc<House>, Arc<Recording>) {
    let (house, upstream) = gated().await;
    let in_order = async {
        wait_for_requests(&upstream, 2).await;
        tokio::join!(ask(&house, &["a", "answer 1", OTHER]), async {
            wait_for_requests(&upstream, 3).await;
            upstream.let_go(99);
        })
    };
    tokio::join!(ask(&house, &["a", "answer 1", MORE]), in_order);
    (house, upstream)
}

#[tokio::test]
async fn two_tabs_are_two_branches() {
    let (house, _) = two_tabs().await;
    let both = format!("a/answer 1/{MORE}/answer 2/{OTHER}/answer 3");
    assert_eq!(shown(&house, SESSION).await, both);
    learn(&house).await;
    let facts = listed(&house, "anonymous", "active").await;
    assert!(facts.iter().any(|fact| fact["value"] == "Lisbon"), "{facts:?}");
    for (question, words) in [("Where do I live?", "Lisbon"), ("What is my dog called?", "Rex")] {
        let found = house.post("/api/v1/recall").json(json!({ "question": question })).await.expect(200);
        assert!(found.to_string().contains(words), "{question} {found}");
    }
    // Each tab goes on in its own branch, and hides nothing of the other's.
    ask(&house, &["a", "answer 1", MORE, "answer 2", "c"]).await;
    ask(&house, &["a", "answer 1", OTHER, "answer 3", "d"]).await;
    assert_eq!(shown(&house, SESSION).await, format!("{both}/c/answer 4/d/answer 5"));
}

/// Each branch can be edited by itself; what hangs on the other stays.
#[tokio::test]
async fn an_edit_in_one_tab_leaves_the_other() {
    let (house, _) = two_tabs().await;
    ask(&house, &["a", "answer 1", MORE, "answer 2", "c"]).await;
    ask(&house, &["a", "answer 1", MORE, "answer 2", "C"]).await;
    assert_eq!(shown(&house, SESSION).await, format!("a/answer 1/{MORE}/answer 2/{OTHER}/answer 3/C/answer 5"));
    // Going back shows the first wording again.
    ask(&house, &["a", "answer 1", MORE, "answer 2", "c", "answer 4", "e"]).await;
    let back = format!("a/answer 1/{MORE}/answer 2/{OTHER}/answer 3/c/answer 4/e/answer 6");
    assert_eq!(shown(&house, SESSION).await, back);
}

/// After the answer, the same request is an edit.
#[tokio::test]
async fn after_the_answer_it_is_an_edit() {
    let (house, upstream) = gated().await;
    upstream.let_go(99);
    ask(&house, &["a", "answer 1", MORE]).await;
    ask(&house, &["a", "answer 1", OTHER]).await;
    assert_eq!(shown(&house, SESSION).await, format!("a/answer 1/{OTHER}/answer 3"));
}

// --- Trimmed histories without an id --------------------------------------------------------------

/// A client that keeps its last exchanges only, and sends no id. Answers the sessions.
async fn trimmed(house: &House, questions: usize, keep: impl Fn(&[String]) -> usize) -> Vec<Value> {
    let mut said: Vec<String> = Vec::new();
    for n in 1..=questions {
        said.push(format!("question {n}"));
        let sent: Vec<&str> = said[keep(&said)..].iter().map(String::as_str).collect();
        let first = if said.len() % 2 == sent.len() % 2 { "user" } else { "assistant" };
        let roles = ["user", "assistant"].into_iter().cycle().skip(usize::from(first == "assistant"));
        let messages = sent.iter().zip(roles).map(|(text, role)| json!({"role": role, "content": text}));
        house.post(CHAT).user("ann").json(body(messages.collect())).await.expect(200);
        said.push(format!("answer {n}"));
    }
    house.pages_of("ann", "/api/v1/sessions?limit=50", "sessions").await
}

/// Trimming by whole exchanges, and so that an answer comes first: one session, each message once.
#[tokio::test]
async fn a_trimmed_history_is_one_conversation() {
    for kept in [2, 3, 4, 5] {
        let (house, _) = open();
        let found = trimmed(&house, 8, |said| said.len().saturating_sub(kept + 1)).await;
        assert_eq!(found.len(), 1, "the last {kept} messages are kept: {found:?}");
        let turns = house.turns_of("ann", found[0]["id"].as_str().expect("an id")).await;
        let asked: Vec<_> = turns.iter().map(|turn| turn["query_text"].as_str().expect("text").to_owned()).collect();
        assert_eq!(asked, (1..=8).map(|n| format!("question {n}")).collect::<Vec<_>>());
        assert!(turns.iter().all(|turn| turn["status"] == "complete"));
    }
}

/// A trimmed history that asks its last question again is answered again.
#[tokio::test]
async fn a_trimmed_history_regenerates_its_last_answer() {
    let (house, _) = open();
    let first = unnamed(&house, &["a"]).await;
    unnamed(&house, &["a", "answer 1", "b"]).await;
    unnamed(&house, &["b", "answer 2", "c"]).await;
    assert_eq!(unnamed(&house, &["b", "answer 2", "c"]).await, first);
    assert_eq!(shown(&house, &first).await, "a/answer 1/b/answer 2/c/answer 4");
}

/// One that ends before the head leaves that conversation and hides nothing in it.
#[tokio::test]
async fn a_trimmed_history_that_ends_earlier_forks() {
    let (house, _) = open();
    let first = unnamed(&house, &["a"]).await;
    unnamed(&house, &["a", "answer 1", "b"]).await;
    unnamed(&house, &["a", "answer 1", "b", "answer 2", "c"]).await;
    let fork = unnamed(&house, &["b", "answer 2", "C"]).await;
    assert_ne!(fork, first);
    assert_eq!(shown(&house, &first).await, "a/answer 1/b/answer 2/c/answer 3");
    assert_eq!(shown(&house, &fork).await, "C/answer 4");
    let seen = house.get(&format!("/api/v1/sessions/{fork}")).send().await.expect(200);
    assert_eq!(seen["metadata"]["forked_from"], first);
}

/// The last exchange was said in two conversations, or is the beginning of another one: which one is ambiguous.
#[tokio::test]
async fn an_ambiguous_tail_matches_nothing() {
    let (house, upstream) = open();
    for _ in 0..2 {
        upstream.says("Hello!");
        unnamed(&house, &["Hi"]).await;
    }
    let new = unnamed(&house, &["x", "y", "Hi", "Hello!", "z"]).await;
    assert_eq!(shown(&house, &new).await, "z/answer 3");
    upstream.says("Welcome!");
    unnamed(&house, &["Hey"]).await;
    let other = unnamed(&house, &["x", "y", "Hey", "Welcome!", "z"]).await;
    assert_eq!(shown(&house, &other).await, "z/answer 5");
    assert_eq!(sessions(&house).await.len(), 5);
}

/// Of an unknown history the question and its answer are stored; the rest when the client returns with the
/// session's id, in its place, once.
#[tokio::test]
async fn an_unknown_history_is_taken_in_with_its_session_id() {
    let (house, _) = open();
    let id = unnamed(&house, &["a", "1", "b", "2", "c"]).await;
    assert_eq!(shown(&house, &id).await, "c/answer 1");
    assert_eq!(unnamed(&house, &["a", "1", "b", "2", "c", "answer 1", "d"]).await, id);
    assert_eq!(shown(&house, &id).await, "c/answer 1/d/answer 2");
    let named = [("x-session-id", id.as_str())];
    // A message without history says nothing about what came before.
    with(&house, &["e"], &named).await;
    assert_eq!(shown(&house, &id).await, "c/answer 1/d/answer 2/e/answer 3");
    let whole = ["a", "1", "b", "2", "c", "answer 1", "d", "answer 2", "e", "answer 3", "f"];
    with(&house, &whole, &named).await;
    assert_eq!(shown(&house, &id).await, "a/1/b/2/c/answer 1/d/answer 2/e/answer 3/f/answer 4");
    let turns = house.turns(&id).await;
    assert_eq!(
        turns.iter().map(|turn| turn["turn_number"].as_u64()).collect::<Vec<_>>(),
        (1..=6).map(Some).collect::<Vec<_>>()
    );
    let times: Vec<_> = turns.iter().map(|turn| turn["created_at"].as_str().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let longer = [&whole[..], &["answer 4", "g"]].concat();
    with(&house, &longer, &named).await;
    assert_eq!(house.turns(&id).await.len(), 7);
    let seen = house.get(&format!("/api/v1/sessions/{id}")).send().await.expect(200);
    assert_eq!(seen["turns"], 7);
    let found = house.post("/api/v1/recall").json(json!({"question": "b"})).await;
    found.expect(200);
}

/// A client that returns with less than it sent at first brings what it has; the rest of the place stays empty.
#[tokio::test]
async fn a_shorter_history_is_taken_in_as_far_as_it_goes() {
    let (house, _) = open();
    let id = unnamed(&house, &["a", "1", "b", "2", "c"]).await;
    let named = [("x-session-id", id.as_str())];
    with(&house, &["b", "2", "c", "answer 1", "d"], &named).await;
    assert_eq!(shown(&house, &id).await, "b/2/c/answer 1/d/answer 2");
    with(&house, &["a", "1", "b", "2", "c", "answer 1", "d", "answer 2", "e"], &named).await;
    assert_eq!(shown(&house, &id).await, "b/2/c/answer 1/d/answer 2/e/answer 3");
}

/// What was taken in and erased does not come back with the next request.
#[tokio::test]
async fn erased_history_is_not_taken_in_again() {
    let (house, _) = open();
    let id = unnamed(&house, &["a", "1", "b"]).await;
    let named = [("x-session-id", id.as_str())];
    with(&house, &["a", "1", "b", "answer 1", "c"], &named).await;
    let first = house.turns(&id).await[0]["id"].as_str().expect("an id").to_owned();
    house.ask("DELETE", &format!("/api/v1/turns/{first}")).send().await.expect(200);
    with(&house, &["a", "1", "b", "answer 1", "c", "answer 2", "d"], &named).await;
    assert_eq!(shown(&house, &id).await, "b/answer 1/c/answer 2/d/answer 3");
}

/// With a full disk the same rules hold, and everything is there once when there is room again.
#[tokio::test]
async fn an_outage_stores_a_trimmed_history_once() {
    let (house, _) = open();
    house.flaky.fail(Some(StoreError::Full("no space left".into())));
    let id = unnamed(&house, &["x", "y", "a"]).await;
    assert_eq!(unnamed(&house, &["a", "answer 1", "b"]).await, id);
    assert_eq!(unnamed(&house, &["b", "answer 2", "c"]).await, id);
    house.flaky.fail(None);
    assert_eq!(house.store.flush().await, 0);
    assert_eq!(shown(&house, &id).await, "a/answer 1/b/answer 2/c/answer 3");
    assert_eq!(sessions(&house).await.len(), 1);
}
