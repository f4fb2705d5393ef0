//! Conversations through `/v1`: what a client resends, retries, edits and regenerates is remembered once.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::house::{Answer, House, SESSION, eventually};
use crate::openai::{CHAT, ask, body, open, said, sessions, shown, talk};
use crate::upstream::{Recording, Reply};

/// Each line is a request (texts separated by `/`); answers are `answer N`. Answers what is shown at the end.
async fn after(requests: &[&str]) -> String {
    let (house, _) = open();
    for request in requests {
        ask(&house, &request.split('/').collect::<Vec<_>>()).await;
    }
    shown(&house, SESSION).await
}

/// C5: a client that resends everything appends what is new.
#[tokio::test]
async fn what_is_resent_is_not_stored_again() {
    assert_eq!(after(&["a", "a/answer 1/b", "a/answer 1/b/answer 2/c"]).await, "a/answer 1/b/answer 2/c/answer 3");
}

/// C5: the same question after the same history is another answer to it.
#[tokio::test]
async fn regenerating_makes_a_revision() {
    assert_eq!(after(&["a", "a/answer 1/b", "a/answer 1/b"]).await, "a/answer 1/b/answer 3");
}

/// C5: an edited question supersedes what followed, and going back shows it again.
#[tokio::test]
async fn editing_supersedes_and_returning_restores() {
    let edited = ["a", "a/answer 1/b", "a/answer 1/B"];
    assert_eq!(after(&edited).await, "a/answer 1/B/answer 3");
    let back = [&edited[..], &["a/answer 1/b/answer 2/c"]].concat();
    assert_eq!(after(&back).await, "a/answer 1/b/answer 2/c/answer 4");
}

/// C5: going back to an older answer shows it again.
#[tokio::test]
async fn returning_to_an_older_answer_shows_it_again() {
    let asked = ["a", "a/answer 1/b", "a/answer 1/b", "a/answer 1/b/answer 2/c"];
    assert_eq!(after(&asked).await, "a/answer 1/b/answer 2/c/answer 4");
}

/// C8: a question that failed and was asked again does not hide its answer.
#[tokio::test]
async fn a_failed_first_try_hides_nothing() {
    let (house, upstream) = open();
    upstream.then(Reply::Refuses(500, json!({"error": {"message": "x"}})));
    assert_eq!(house.post(CHAT).session(SESSION).json(body(talk(&["a"]))).await.status, 500);
    ask(&house, &["a"]).await;
    ask(&house, &["a", "answer 2", "b"]).await;
    assert_eq!(shown(&house, SESSION).await, "a/-/a/answer 2/b/answer 3");
}

/// C5: of several answers the first is shown and the others are kept.
#[tokio::test]
async fn several_choices_are_one_turn() {
    let (house, upstream) = open();
    upstream.then(Reply::Choices(vec!["x".into(), "y".into()]));
    let mut request = body(talk(&["a"]));
    request["n"] = json!(2);
    house.post(CHAT).session(SESSION).json(request).await.expect(200);
    ask(&house, &["a", "y", "b"]).await;
    assert_eq!(shown(&house, SESSION).await, "a/y/b/answer 2");
}

// --- Tools ----------------------------------------------------------------------------------------

/// The rounds of a question that calls tools: its requests in order.
fn rounds(question: &str, calls: &[&str]) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": question})];
    let mut requests = vec![Value::from(messages.clone())];
    for call in calls {
        let function = json!({"name": "clock", "arguments": "{}"});
        let called = json!([{"id": call, "type": "function", "function": function}]);
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": called}));
        messages.push(json!({"role": "tool", "tool_call_id": call, "content": format!("result of {call}")}));
        requests.push(Value::from(messages.clone()));
    }
    requests
}

async fn messages(house: &House, session: &str) -> Vec<String> {
    let list = house.pages(&format!("/api/v1/sessions/{session}/messages?limit=50"), "messages").await;
    list.iter().map(|message| message["role"].as_str().expect("a role").to_owned()).collect()
}

/// C5: a question with its tool rounds is one turn, with a session id and without.
#[tokio::test]
async fn a_tool_loop_is_one_turn() {
    for session in [Some(SESSION), None] {
        let (house, upstream) = open();
        upstream.calls("c1");
        upstream.calls("c2");
        for request in rounds("time?", &["c1", "c2"]) {
            let ask = house.post(CHAT);
            let ask = if let Some(id) = session { ask.session(id) } else { ask };
            ask.json(body(request)).await.expect(200);
        }
        let found = sessions(&house).await;
        assert_eq!(found.len(), 1, "session {session:?}");
        let id = found[0]["id"].as_str().expect("an id");
        assert_eq!(shown(&house, id).await, "time?/answer 3");
        assert_eq!(messages(&house, id).await, ["user", "assistant", "tool", "assistant", "tool", "assistant"]);
    }
}

/// C5: two chats that began alike and both wait for tools are continued each by its own calls.
#[tokio::test]
async fn tool_results_find_the_chat_that_called() {
    let (house, upstream) = open();
    upstream.calls("c1");
    upstream.calls("c2");
    for _ in 0..2 {
        house.post(CHAT).json(body(talk(&["time?"]))).await.expect(200);
    }
    for call in ["c1", "c2"] {
        house.post(CHAT).json(body(rounds("time?", &[call]).remove(1))).await.expect(200);
    }
    let found = sessions(&house).await;
    assert_eq!(found.len(), 2);
    for (session, answer) in found.iter().zip(["answer 3", "answer 4"]) {
        assert_eq!(shown(&house, session["id"].as_str().expect("an id")).await, format!("time?/{answer}"));
    }
}

/// C5: a tool round that is sent again is answered again, not asked again.
#[tokio::test]
async fn a_retried_tool_round_is_replayed() {
    let (house, upstream) = open();
    upstream.calls("c1");
    let requests = rounds("time?", &["c1"]);
    for request in &requests {
        house.post(CHAT).session(SESSION).json(body(request.clone())).await.expect(200);
    }
    let retry = house.post(CHAT).session(SESSION).header("x-stainless-retry-count", "1");
    assert_eq!(said(&retry.json(body(requests[1].clone())).await), "answer 2");
    assert_eq!((upstream.seen().len(), messages(&house, SESSION).await.len()), (2, 4));
}

/// C5: a tool round whose answer failed keeps its results when it is asked again.
#[tokio::test]
async fn a_failed_tool_round_keeps_its_results() {
    let (house, upstream) = open();
    upstream.calls("c1");
    upstream.then(Reply::Refuses(500, json!({"error": {"message": "x"}})));
    let requests = rounds("time?", &["c1"]);
    for request in [&requests[0], &requests[1], &requests[1]] {
        house.post(CHAT).session(SESSION).json(body(request.clone())).await;
    }
    assert_eq!(shown(&house, SESSION).await, "time?/answer 3");
    assert_eq!(messages(&house, SESSION).await, ["user", "assistant", "tool", "assistant"]);
}

// --- Ids and retries ------------------------------------------------------------------------------

/// Asks with these headers beside the session's.
async fn with(house: &House, texts: &[&str], headers: &[(&str, &str)]) -> Answer {
    let ask = headers.iter().fold(house.post(CHAT), |ask, (name, value)| ask.header(name, value));
    ask.json(body(talk(texts))).await
}

const IN_SESSION: (&str, &str) = ("x-session-id", SESSION);

/// C5: the same request again is answered from memory, by whichever name it is known.
#[tokio::test]
async fn a_repeated_request_is_replayed() {
    for name in ["idempotency-key", "x-recalld-message-id"] {
        let (house, upstream) = open();
        let first = with(&house, &["a"], &[IN_SESSION, (name, "k1")]).await;
        let again = with(&house, &["a"], &[IN_SESSION, (name, "k1")]).await;
        assert_eq!((said(&again), upstream.seen().len()), (said(&first), 1), "{name}");
        assert_eq!(again.header("x-recalld-turn"), first.header("x-recalld-turn"));
        assert_eq!(with(&house, &["a"], &[IN_SESSION, (name, "k2")]).await.status, 200);
        assert_eq!(house.turns(SESSION).await.len(), 2, "{name}: another name is another request");
    }
}

/// C5: a replay is a stream when a stream is asked for.
#[tokio::test]
async fn a_replay_streams_if_asked_to() {
    let (house, _) = open();
    with(&house, &["a"], &[IN_SESSION, ("idempotency-key", "k")]).await;
    let mut request = body(talk(&["a"]));
    request["stream"] = json!(true);
    let again = house.post(CHAT).session(SESSION).header("idempotency-key", "k").json(request).await;
    assert!(again.text().contains("answer 1") && again.text().ends_with("data: [DONE]\n\n"), "{}", again.text());
}

/// C5: names without a session are enough to find a retry.
#[tokio::test]
async fn a_retry_without_a_session_is_found_by_its_name() {
    for name in ["idempotency-key", "x-recalld-message-id", "x-recalld-user-message-id"] {
        let (house, upstream) = open();
        for _ in 0..2 {
            with(&house, &["a"], &[(name, "k1")]).await.expect(200);
        }
        assert_eq!(sessions(&house).await.len(), 1, "{name}");
        let asked = if name == "x-recalld-user-message-id" { 2 } else { 1 };
        assert_eq!(upstream.seen().len(), asked, "{name}: another answer to a question is asked for");
        with(&house, &["a"], &[(name, "k2")]).await.expect(200);
        with(&house, &["a"], &[(name, "k1"), ("x-user-id", "bob")]).await.expect(200);
        assert_eq!(sessions(&house).await.len(), 2, "{name}");
        assert_eq!(upstream.seen().len(), asked + 2, "{name}: nobody hears another's answer");
    }
}

/// C5: a key that stands for something else already is a conflict.
#[tokio::test]
async fn a_reused_key_is_a_conflict() {
    let (house, upstream) = open();
    for headers in [&[IN_SESSION, ("idempotency-key", "k")][..], &[("idempotency-key", "k")]] {
        with(&house, &["a"], headers).await.expect(200);
        let other = with(&house, &["b"], headers).await;
        assert_eq!((other.status, other.code()), (409, "key_reused"));
    }
    assert_eq!(upstream.seen().len(), 2);
}

/// C5: the SDK's own mark is believed for the last question only.
#[tokio::test]
async fn a_marked_retry_is_replayed() {
    let (house, upstream) = open();
    let retry = [IN_SESSION, ("x-stainless-retry-count", "1")];
    ask(&house, &["a"]).await;
    assert_eq!(said(&with(&house, &["a"], &retry).await), "answer 1");
    ask(&house, &["b"]).await;
    assert_eq!(said(&with(&house, &["a"], &retry).await), "answer 3");
    assert_eq!((upstream.seen().len(), house.turns(SESSION).await.len()), (3, 3));
}

/// C8: an answer that never came whole is asked for again.
#[tokio::test]
async fn a_retry_of_a_failed_question_is_asked_again() {
    let (house, upstream) = open();
    upstream.then(Reply::Refuses(503, json!({"error": {"message": "x"}})));
    let headers = [IN_SESSION, ("idempotency-key", "k")];
    assert_eq!(with(&house, &["a"], &headers).await.status, 503);
    assert_eq!(said(&with(&house, &["a"], &headers).await), "answer 2");
    assert_eq!(shown(&house, SESSION).await, "a/answer 2");
}

fn gated() -> (Arc<House>, Arc<Recording>) {
    let upstream = Arc::new(Recording::gated());
    (Arc::new(House::plan().upstream(Arc::clone(&upstream) as _).open()), upstream)
}

/// C5: a request that is sent again while it runs waits for the same answer.
#[tokio::test]
async fn a_running_request_is_joined() {
    for session in [&[IN_SESSION][..], &[]] {
        let (house, upstream) = gated();
        let headers = [session, &[("x-recalld-message-id", "m"), ("x-recalld-user-message-id", "q")]].concat();
        let release = async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            upstream.let_go(9);
        };
        let ask = || with(&house, &["a"], &headers);
        let (one, two, three, ()) = tokio::join!(ask(), ask(), ask(), release);
        assert_eq!((said(&one), said(&two), said(&three)), ("answer 1".into(), "answer 1".into(), "answer 1".into()));
        assert_eq!((upstream.seen().len(), sessions(&house).await[0]["turns"].clone()), (1, json!(1)));
        assert_eq!(sessions(&house).await.len(), 1);
    }
}

/// C5: several models asked side by side answer one question.
#[tokio::test]
async fn parallel_answers_to_one_message_are_one_turn() {
    let (house, upstream) = gated();
    let release = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        upstream.let_go(9);
    };
    let headers = |answer| [IN_SESSION, ("x-recalld-message-id", answer), ("x-recalld-user-message-id", "q")];
    let (first, second) = (headers("m1"), headers("m2"));
    let (one, two, ()) = tokio::join!(with(&house, &["a"], &first), with(&house, &["a"], &second), release);
    assert_ne!(said(&one), said(&two));
    assert_eq!(house.turns(SESSION).await.len(), 1);
    assert_eq!(said(&with(&house, &["a", &said(&one), "b"], &[IN_SESSION]).await), "answer 3");
    assert_eq!(shown(&house, SESSION).await, format!("a/{}/b/answer 3", said(&one)));
}

/// C5: an answer that another try has overtaken is shown when that one fails, and may call tools.
#[tokio::test]
async fn an_overtaken_answer_is_kept_whatever_it_is() {
    for calls in [false, true] {
        let (house, upstream) = gated();
        if calls {
            upstream.calls("c1")
        } else {
            upstream.says("first")
        }
        upstream.then(Reply::Refuses(500, json!({"error": {"message": "x"}})));
        let headers = |answer| [IN_SESSION, ("x-recalld-message-id", answer), ("x-recalld-user-message-id", "q")];
        let (first, second) = (headers("m1"), headers("m2"));
        let in_order = async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            tokio::join!(with(&house, &["a"], &second), async {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                upstream.let_go(2);
            })
        };
        let (one, _) = tokio::join!(with(&house, &["a"], &first), in_order);
        one.expect(200);
        assert_eq!(house.metric("recalld_store_failures_total").await, 0);
        if !calls {
            eventually("the whole answer is shown", async || (shown(&house, SESSION).await == "a/first").then_some(()))
                .await;
        }
    }
}

// --- Without ids ----------------------------------------------------------------------------------

async fn unnamed(house: &House, texts: &[&str]) -> String {
    with(house, texts, &[]).await.header("x-session-id").to_owned()
}

/// C5: a chat without any id is found by what was said in it, a first message is a new chat.
#[tokio::test]
async fn a_chat_without_ids_is_found_by_its_history() {
    let (house, _) = open();
    let first = unnamed(&house, &["a"]).await;
    assert_eq!(unnamed(&house, &["a", "answer 1", "b"]).await, first);
    assert_eq!(unnamed(&house, &["a", "answer 1", "b"]).await, first, "regenerated");
    assert_eq!(unnamed(&house, &["a", "answer 1", "b", "answer 3", "c"]).await, first);
    assert_ne!(unnamed(&house, &["a"]).await, first);
    assert_eq!(shown(&house, &first).await, "a/answer 1/b/answer 3/c/answer 4");
}

/// C5: a chat that leaves another's course is a fork, and touches nothing.
#[tokio::test]
async fn a_fork_is_a_chat_of_its_own() {
    let (house, _) = open();
    let first = unnamed(&house, &["a"]).await;
    unnamed(&house, &["a", "answer 1", "b"]).await;
    let fork = unnamed(&house, &["a", "answer 1", "B"]).await;
    assert_ne!(fork, first);
    assert_eq!(unnamed(&house, &["a", "answer 1", "B", "answer 3", "c"]).await, fork);
    assert_eq!(shown(&house, &first).await, "a/answer 1/b/answer 2");
    let seen = house.get(&format!("/api/v1/sessions/{fork}")).send().await.expect(200);
    assert_eq!(seen["metadata"]["forked_from"], first);
}

/// C5: two chats that begin alike, with ids, never touch; nor do two users without.
#[tokio::test]
async fn chats_that_begin_alike_never_touch() {
    let (house, upstream) = open();
    let other = "660e8400-e29b-41d4-a716-446655440000";
    for session in [SESSION, other] {
        upstream.says("same");
        with(&house, &["a"], &[("x-session-id", session)]).await;
    }
    with(&house, &["a", "same", "b"], &[("x-session-id", other)]).await;
    assert_eq!(
        (shown(&house, SESSION).await, shown(&house, other).await),
        ("a/same".into(), "a/same/b/answer 3".into())
    );
    upstream.says("same");
    let bob = with(&house, &["a", "same", "b"], &[("x-user-id", "bob")]).await;
    assert!(![SESSION, other].contains(&bob.header("x-session-id")));
    assert_eq!(house.turns(other).await.len(), 2);
}

/// B6: where each session is a user of its own, a chat goes on by its session id alone, and nobody sees another's.
#[tokio::test]
async fn unnamed_people_keep_their_chats_apart() {
    let upstream = crate::upstream::recording();
    let plan = House::plan().upstream(Arc::clone(&upstream) as _);
    let house = plan.setting(|settings| settings.unidentified = recalld::config::Unidentified::Session).open();
    let first = unnamed(&house, &["a"]).await;
    assert_ne!(unnamed(&house, &["a", "answer 1", "b"]).await, first, "two people may say the same");
    assert_ne!(unnamed(&house, &["a"]).await, first);
    with(&house, &["a", "answer 1", "b"], &[("x-session-id", &first)]).await.expect(200);
    let list =
        house.get(&format!("/api/v1/sessions/{first}/turns")).user(&format!("~{first}")).send().await.expect(200);
    assert_eq!(list["turns"].as_array().map(Vec::len), Some(2));
}

/// B6: Open WebUI resends everything from the start, so its first question can be asked again too.
#[tokio::test]
async fn open_webui_keeps_its_own_history_from_the_start() {
    let (house, _) = open();
    let chat = [("x-openwebui-chat-id", SESSION)];
    with(&house, &["a"], &chat).await;
    with(&house, &["a"], &chat).await;
    assert_eq!(shown(&house, SESSION).await, "a/answer 2");
    with(&house, &["A"], &chat).await;
    assert_eq!(shown(&house, SESSION).await, "A/answer 3");
}

/// P4: while the disk is full a client goes on resending its history, with and without a name for it; when there
/// is room again everything is there once.
#[tokio::test]
async fn a_full_disk_makes_nothing_twice() {
    let (house, _) = open();
    house.flaky.fail(Some(recalld::store::StoreError::Full("no space left".into())));
    ask(&house, &["a"]).await;
    ask(&house, &["a", "answer 1", "b"]).await;
    ask(&house, &["a", "answer 1", "B"]).await;
    let unnamed_chat = unnamed(&house, &["x"]).await;
    assert_eq!(unnamed(&house, &["x", "answer 4", "y"]).await, unnamed_chat);
    house.flaky.fail(None);
    assert_eq!(house.store.flush().await, 0);
    assert_eq!(shown(&house, SESSION).await, "a/answer 1/B/answer 3");
    assert_eq!(shown(&house, &unnamed_chat).await, "x/answer 4/y/answer 5");
    assert_eq!(sessions(&house).await.len(), 2);
}
