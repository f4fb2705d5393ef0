//! Tool calls, forced tools and tool results.

use std::sync::Arc;

use recalld::config::Settings;
use serde_json::{Value, json};

use crate::facts::{known, learn};
use crate::house::{Answer, House, SESSION};
use crate::live;
use crate::openai::{CHAT, body, open, talk};
use crate::upstream::{Recording, Reply};

// --- Structured output by a forced tool -----------------------------------------------------------

const HOME: &str = "My name is Ann and I live in Lisbon.";

/// A call that carries structured output.
fn structured(id: &str) -> Value {
    let function = json!({"name": "Person", "arguments": "{\"name\": \"Ann\"}"});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]})
}

/// Asks with extra fields in the body, in a session of Ann's.
async fn ask_with(house: &House, session: &str, messages: Value, fields: Value) -> Answer {
    let mut request = body(messages);
    request.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    house.post(CHAT).user("ann").session(session).json(request).await
}

async fn ask(house: &House, session: &str, messages: Value) -> Answer {
    ask_with(house, session, messages, json!({})).await
}

async fn turns(house: &House, session: &str) -> Vec<Value> {
    house.turns_of("ann", session).await
}

/// Roles of a session's messages by turn: `user assistant/user`.
async fn roles(house: &House, session: &str) -> String {
    let path = format!("/api/v1/sessions/{session}/messages?limit=50");
    let messages = house.pages_of("ann", &path, "messages").await;
    let mut turn = Value::Null;
    let mut told = String::new();
    for message in &messages {
        if !told.is_empty() {
            told.push(if message["turn_id"] == turn { ' ' } else { '/' });
        }
        turn = message["turn_id"].clone();
        told.push_str(message["role"].as_str().expect("a role"));
    }
    told
}

/// Every form of `tool_choice` that leaves the model no choice but to call: an answer that calls is complete.
#[tokio::test]
async fn a_forced_tool_that_was_called_is_a_complete_answer() {
    let named = json!({"type": "function", "function": {"name": "Person"}});
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}});
    let custom = json!({"type": "custom", "custom": {"name": "Person"}});
    for choice in [named, json!("required"), json!("any"), allowed, custom] {
        for stream in [false, true] {
            let (house, upstream) = open();
            upstream.then(Reply::Says(structured("c1")));
            ask_with(&house, SESSION, talk(&[HOME]), json!({"tool_choice": choice, "stream": stream})).await;
            assert_eq!(turns(&house, SESSION).await[0]["status"], "complete", "{choice} {stream}");
        }
    }
}

/// The old form with `functions` forces a call, too.
#[tokio::test]
async fn a_forced_function_that_was_called_is_a_complete_answer() {
    for stream in [false, true] {
        let (house, upstream) = open();
        let call = json!({"name": "Person", "arguments": "{\"name\": \"Ann\"}"});
        match stream {
            false => upstream.then(Reply::Says(json!({"role": "assistant", "content": null, "function_call": call}))),
            true => upstream.then(Reply::Raw(
                vec![
                    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"function_call\":{\"name\":\"Person\",\"arguments\":\"{\\\"name\\\":\"}}}]}\n\n",
                    "data: {\"choices\":[{\"index\":0,\"delta\":{\"function_call\":{\"arguments\":\" \\\"Ann\\\"}\"}},\"finish_reason\":null}]}\n\n",
                    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
                    "data: [DONE]\n\n",
                ],
                None,
            )),
        }
        let fields = json!({"functions": [], "function_call": {"name": "Person"}, "stream": stream});
        ask_with(&house, SESSION, talk(&[HOME]), fields).await;
        assert_eq!(turns(&house, SESSION).await[0]["status"], "complete", "stream: {stream}");
        ask(&house, SESSION, talk(&["And who lives there?"])).await.expect(200);
        assert!(upstream.last_text().contains(r#"{\"name\": \"Ann\"}"#), "{}", upstream.last_text());
    }
}

/// A tool that the model was free to call may still be answered.
#[tokio::test]
async fn a_tool_that_was_not_forced_is_waited_for() {
    for choice in [json!("auto"), json!("none"), json!(null)] {
        let (house, upstream) = open();
        upstream.calls("c1");
        ask_with(&house, SESSION, talk(&[HOME]), json!({"tool_choice": choice})).await.expect(200);
        assert_eq!(turns(&house, SESSION).await[0]["status"], "pending", "{choice}");
    }
}

/// C1: what the user said counts at once, whether the tool was forced or is still at work.
#[tokio::test]
async fn the_users_words_count_while_a_tool_is_at_work() {
    for choice in [json!("required"), json!("auto")] {
        let (house, upstream) = open();
        upstream.then(Reply::Says(structured("c1")));
        ask_with(&house, SESSION, talk(&[HOME]), json!({"tool_choice": choice})).await.expect(200);

        let context = house.get(&format!("/api/v1/sessions/{SESSION}/context")).user("ann").send().await.expect(200);
        assert_eq!(context["messages"][0]["content"], HOME, "{choice}");
        let question = json!({"question": "Who lives in Lisbon?"});
        let found = house.post("/api/v1/recall").user("ann").json(question).await.expect(200);
        assert!(found["reminders"].to_string().contains("Lisbon"), "{choice}: {found}");
        learn(&house).await;
        let facts = known(&house, "ann").await.join(", ");
        assert!(facts.contains("Ann") && facts.contains("Lisbon"), "{choice}: {facts}");
    }
}

/// The next question finds them in the window, in a form that any chat template takes: no call without its result.
#[tokio::test]
async fn the_window_has_no_call_without_its_result() {
    let forced = vec![json!(HOME), json!("{\"name\": \"Ann\"}"), json!("What next?")];
    let open_call = vec![json!(HOME), json!("What next?")];
    for (choice, expected) in [("required", forced), ("auto", open_call)] {
        let (house, upstream) = open();
        upstream.then(Reply::Says(structured("c1")));
        ask_with(&house, SESSION, talk(&[HOME]), json!({"tool_choice": choice})).await.expect(200);
        ask(&house, SESSION, talk(&["What next?"])).await.expect(200);
        assert_eq!(upstream.last_contents(), expected, "{choice}");
        assert!(!upstream.last_text().contains("tool_call"), "{}", upstream.last_text());
    }
}

/// A visitor's session keeps them the same way.
#[tokio::test]
async fn a_visitors_words_count_while_a_tool_is_at_work() {
    for (choice, status, shown) in [("required", "complete", 2), ("auto", "pending", 1)] {
        let (house, upstream) = open();
        upstream.then(Reply::Says(structured("c1")));
        let mut request = body(talk(&[HOME]));
        request["tool_choice"] = json!(choice);
        house.post("/v1/acme:v/chat/completions").json(request).await.expect(200);
        let kept = house.get("/api/v1/sessions/acme:v/turns").send().await.expect(200);
        assert_eq!(kept["turns"][0]["status"], status);
        live::visit(&house, "acme:v", &["What next?"]).await.expect(200);
        let contents = upstream.last_contents();
        assert_eq!((contents.len(), &contents[0]), (shown + 1, &json!(HOME)), "{choice}");
        assert!(!upstream.last_text().contains("tool_call"), "{}", upstream.last_text());
    }
}

/// A forced tool that was called for real: its result and the next round go on in the same turn.
#[tokio::test]
async fn a_forced_tool_may_be_answered_and_asked_again() {
    let (house, upstream) = open();
    upstream.then(Reply::Says(structured("c1")));
    ask_with(&house, SESSION, talk(&[HOME]), json!({"tool_choice": "required"})).await.expect(200);
    upstream.then(Reply::Says(structured("c2")));
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "Validation Error found: the age is missing"});
    let again = json!([{"role": "user", "content": HOME}, structured("c1"), result]);
    ask_with(&house, SESSION, again, json!({"tool_choice": "required"})).await.expect(200);
    assert_eq!(roles(&house, SESSION).await, "user assistant tool assistant");
    assert_eq!(turns(&house, SESSION).await[0]["status"], "complete");
}

/// How long results are waited for is a setting, and how a turn is afterwards.
#[tokio::test]
async fn the_patience_for_tools_is_a_setting() {
    let with = |patience: &str| Settings { tools_patience: patience.parse().expect("a period"), ..Settings::default() };
    assert_eq!(Settings::default().tools_patience.to_string(), "10m");
    for (patience, fits) in [("1s", true), ("2h", true), ("7d", true), ("0s", false), ("500ms", false), ("8d", false)] {
        let checked = with(patience).check();
        assert_eq!(checked.is_ok(), fits, "{patience}: {checked:?}");
        assert!(checked.err().is_none_or(|reason| reason.contains("`tools_patience`")));
    }
    let upstream = crate::upstream::recording();
    let plan = House::plan().upstream(Arc::clone(&upstream) as _);
    let house = plan.setting(|settings| settings.tools_patience = "2h".parse().expect("a period")).open();
    asked_and_called(&upstream, &house, Some(SESSION)).await;
    for (minutes, status) in [(119, "pending"), (2, "partial")] {
        house.clock.advance(jiff::SignedDuration::from_mins(minutes));
        house.memory.give_up_on_tools().await;
        assert_eq!(turns(&house, SESSION).await[0]["status"], status);
    }
    ask(&house, SESSION, json!([result("c1")])).await.expect(200);
    assert_eq!(roles(&house, SESSION).await, "user assistant tool assistant", "results come late, and are welcome");
}

// --- A tool's result and the next question in one request ------------------------------------------

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "noon"})
}

async fn asked_and_called(upstream: &Recording, house: &House, session: Option<&str>) -> Value {
    upstream.calls("c1");
    let ask = house.post(CHAT).user("ann");
    let ask = if let Some(id) = session { ask.session(id) } else { ask };
    ask.json(body(talk(&["time?"]))).await.expect(200)["choices"][0]["message"].clone()
}

/// `[user, assistant(calls), tool, user]`: the result belongs to the first turn, with a session id and without.
#[tokio::test]
async fn a_result_and_the_next_question_in_one_request_are_two_turns() {
    for session in [Some(SESSION), None] {
        let (house, upstream) = open();
        let call = asked_and_called(&upstream, &house, session).await;
        let mut list =
            json!([{"role": "user", "content": "time?"}, call, result("c1"), {"role": "user", "content": "and now?"}]);
        for question in ["and then?", ""] {
            let ask = house.post(CHAT).user("ann");
            let ask = if let Some(id) = session { ask.session(id) } else { ask };
            let answer = ask.json(body(list.clone())).await.expect(200)["choices"][0]["message"].clone();
            assert_eq!(upstream.last()["messages"].as_array().map(Vec::len), list.as_array().map(Vec::len));
            let more = list.as_array_mut().expect("a list");
            more.extend([answer, json!({"role": "user", "content": question})]);
        }
        let found = house.get("/api/v1/sessions").user("ann").send().await.expect(200);
        let found = found["sessions"].as_array().expect("a list").clone();
        assert_eq!(found.len(), 1, "{session:?}");
        let id = found[0]["id"].as_str().expect("an id");
        assert_eq!(roles(&house, id).await, "user assistant tool/user assistant/user assistant", "{session:?}");
        assert_eq!(turns(&house, id).await[0]["status"], "partial");
    }
}

/// A client that sends only what is new sends the result and the question alone.
#[tokio::test]
async fn a_result_and_a_question_alone_are_two_turns() {
    let (house, upstream) = open();
    asked_and_called(&upstream, &house, Some(SESSION)).await;
    ask(&house, SESSION, json!([result("c1"), {"role": "user", "content": "and now?"}])).await.expect(200);
    assert_eq!(roles(&house, SESSION).await, "user assistant tool/user assistant");
    let sent = upstream.last()["messages"].clone();
    let roles: Vec<&str> = sent.as_array().expect("a list").iter().filter_map(|one| one["role"].as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"], "{sent}");
}

/// Structured output whose result comes with the next question stays complete.
#[tokio::test]
async fn a_complete_answer_that_gets_its_result_stays_complete() {
    for (path, turns) in [
        (CHAT, format!("/api/v1/sessions/{SESSION}/turns")),
        ("/v1/acme:v/chat/completions", "/api/v1/sessions/acme:v/turns".into()),
    ] {
        let (house, upstream) = open();
        upstream.then(Reply::Says(structured("c1")));
        let post = || match path {
            CHAT => house.post(path).user("ann").session(SESSION),
            path => house.post(path),
        };
        let mut request = body(talk(&[HOME]));
        request["tool_choice"] = json!("required");
        post().json(request).await.expect(200);
        let list = json!([{"role": "user", "content": HOME}, structured("c1"), result("c1"), {"role": "user", "content": "Bye"}]);
        post().json(body(list)).await.expect(200);
        let kept = match path {
            CHAT => house.get(&turns).user("ann").send().await.expect(200),
            _ => house.get(&turns).send().await.expect(200),
        };
        let kept = kept["turns"].as_array().expect("a list").clone();
        let statuses: Vec<&Value> = kept.iter().map(|turn| &turn["status"]).collect();
        assert_eq!(statuses, ["complete", "complete"], "{kept:?}");
        let messages = kept[0]["messages"].as_array().map(Vec::len);
        assert!(messages.is_none_or(|messages| messages == 3), "{kept:?}");
    }
}

/// A request with only the result, for a session with an open call, goes on with the stored conversation before it.
#[tokio::test]
async fn a_result_alone_goes_on_with_the_stored_conversation() {
    for path in [CHAT, "/v1/acme:v/chat/completions"] {
        let (house, upstream) = open();
        let post = || match path {
            CHAT => house.post(path).user("ann").session(SESSION),
            path => house.post(path),
        };
        post().json(body(talk(&["My zone is Lisbon."]))).await.expect(200);
        upstream.calls("c1");
        post().json(body(talk(&["time?"]))).await.expect(200);
        post().json(body(json!([result("c1")]))).await.expect(200);
        let sent = upstream.last()["messages"].clone();
        let roles: Vec<&str> = sent.as_array().expect("a list").iter().filter_map(|one| one["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "tool"], "{sent}");
        assert_eq!((&sent[0]["content"], &sent[2]["content"]), (&json!("My zone is Lisbon."), &json!("time?")));
        if path == CHAT {
            assert_eq!(self::roles(&house, SESSION).await, "user assistant/user assistant tool assistant");
        }
    }
}

/// A result that no turn awaits is passed on and leaves no turn.
#[tokio::test]
async fn a_result_that_nobody_waits_for_is_no_turn() {
    let (house, upstream) = open();
    ask(&house, SESSION, talk(&["hello"])).await.expect(200);
    ask(&house, SESSION, json!([result("c9")])).await.expect(200);
    assert_eq!((turns(&house, SESSION).await.len(), upstream.seen().len()), (1, 2));
}

/// `[user, user]` after a call that was dropped stores the first question once.
#[tokio::test]
async fn a_question_whose_call_was_dropped_is_stored_once() {
    let (house, upstream) = open();
    asked_and_called(&upstream, &house, Some(SESSION)).await;
    ask(&house, SESSION, talk_by_user(&["time?", "never mind, hello"])).await.expect(200);
    assert_eq!(roles(&house, SESSION).await, "user assistant/user assistant");
    assert_eq!(upstream.last_contents(), [json!("time?"), json!("never mind, hello")]);
}

fn talk_by_user(texts: &[&str]) -> Value {
    texts.iter().map(|text| json!({"role": "user", "content": text})).collect()
}
