//! Client histories: nothing stored is hidden or stored twice.

use std::sync::Arc;

use serde_json::json;

use crate::facts::{learn, listed};
use crate::house::{Answer, House, SESSION, eventually};
use crate::openai::{CHAT, ask, body, open, shown, talk};
use crate::upstream::Recording;

async fn with(house: &House, texts: &[&str], headers: &[(&str, &str)]) -> Answer {
    let ask = headers.iter().fold(house.post(CHAT), |ask, (name, value)| ask.header(name, value));
    let answer = ask.json(body(talk(texts))).await;
    answer.expect(200);
    answer
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
