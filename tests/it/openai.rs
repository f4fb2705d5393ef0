//! `/v1/chat/completions` from outside: shapes, what reaches the upstream, modes, errands, paths.

use std::sync::Arc;

use axum::body::Body;
use http_body_util::BodyExt;
use recalld::model::ModelError;
use serde_json::{Value, json};

use crate::house::{Answer, Ask, House, SESSION, eventually, keys};
use crate::upstream::{Recording, Reply, recording};

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// A house whose upstream can be asked what it was sent.
pub(crate) fn open() -> (House, Arc<Recording>) {
    let upstream = recording();
    (House::plan().upstream(Arc::clone(&upstream) as _).open(), upstream)
}

/// Texts as messages: a question, its answer, the next question.
pub(crate) fn talk(texts: &[&str]) -> Value {
    let roles = ["user", "assistant"].into_iter().cycle();
    texts.iter().zip(roles).map(|(text, role)| json!({"role": role, "content": text})).collect()
}

/// A request with these messages.
pub(crate) fn body(messages: Value) -> Value {
    json!({"model": "m", "messages": messages})
}

/// Asks in a session; it must go well. Answers the model's words.
pub(crate) async fn ask(house: &House, texts: &[&str]) -> String {
    said(&house.post(CHAT).session(SESSION).json(body(talk(texts))).await)
}

/// The model's words.
#[track_caller]
pub(crate) fn said(answer: &Answer) -> String {
    let body = answer.expect(200);
    body["choices"][0]["message"]["content"].as_str().unwrap_or("").to_owned()
}

/// What a session shows: questions and answers in turn, separated by `/`.
pub(crate) async fn shown(house: &House, session: &str) -> String {
    let turns = house.turns(session).await;
    let texts = turns.iter().flat_map(|turn| [&turn["query_text"], &turn["response_text"]]);
    texts.map(|text| text.as_str().unwrap_or("-")).collect::<Vec<_>>().join("/")
}

/// The sessions of the usual user.
pub(crate) async fn sessions(house: &House) -> Vec<Value> {
    house.pages("/api/v1/sessions?limit=50", "sessions").await
}

/// An error in OpenAI's shape, with status and code as they should be.
#[track_caller]
fn check_error(answer: &Answer, status: u16, code: &str) {
    let body = answer.expect(status);
    assert_eq!(keys(&body["error"]), ["message", "type", "param", "code"], "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    assert_eq!((&body["error"]["code"], answer.code()), (&json!(code), code));
}

// --- Shapes ---------------------------------------------------------------------------------------

/// C5: an answer has OpenAI's shape, and headers say where it is kept.
#[tokio::test]
async fn a_whole_answer_is_a_completion() {
    let house = House::open();
    let answer = house.post(CHAT).session(SESSION).json(body(talk(&["hello"]))).await;
    let body = answer.expect(200);
    assert_eq!((&body["object"], &body["choices"][0]["message"]["content"]), (&json!("chat.completion"), &json!("ok")));
    assert_eq!((answer.header("x-session-id"), answer.header("x-recalld-status")), (SESSION, "ok"));
    let turns = house.turns(SESSION).await;
    assert_eq!(turns[0]["id"], answer.header("x-recalld-turn"));
    assert_eq!(shown(&house, SESSION).await, "hello/ok");
}

/// C5: a stream ends with one `[DONE]`, and the turn is on disk before it leaves.
#[tokio::test]
async fn a_stream_is_over_only_when_the_turn_is_stored() {
    let (house, upstream) = open();
    upstream.says("It is Rex.");
    let mut request = body(talk(&["Who?"]));
    request["stream"] = json!(true);
    let response = house.post(CHAT).session(SESSION).stream(request).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-request-id"], "req-1");
    let mut text = String::new();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let data = frame.expect("a frame").into_data().expect("data");
        let piece = std::str::from_utf8(&data).expect("text").to_owned();
        if piece.contains("[DONE]") {
            assert_eq!(house.turns(SESSION).await[0]["status"], "complete");
        }
        text.push_str(&piece);
    }
    assert!(text.ends_with("data: [DONE]\n\n") && text.matches("[DONE]").count() == 1, "{text}");
    assert_eq!(shown(&house, SESSION).await, "Who?/It is Rex.");
}

/// C8: an upstream that breaks off leaves a well-ended stream and a partial turn.
#[tokio::test]
async fn a_stream_that_breaks_off_is_ended_and_kept_as_far_as_it_came() {
    let (house, upstream) = open();
    let piece = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"It is\"}}]}\n\n";
    upstream.then(Reply::Raw(vec![piece], Some(ModelError::BrokeOff("reset".into()))));
    let mut request = body(talk(&["Who?"]));
    request["stream"] = json!(true);
    let answer = house.post(CHAT).session(SESSION).json(request).await;
    assert!(answer.text().contains("\"error\"") && answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    let turns = house.turns(SESSION).await;
    assert_eq!((&turns[0]["status"], &turns[0]["response_text"]), (&json!("partial"), &json!("It is")));
}

/// C8: errors of the upstream come back as they are; the turn has failed.
#[tokio::test]
async fn errors_of_the_upstream_pass_and_the_turn_fails() {
    let (house, upstream) = open();
    let error = json!({"error": {"message": "slow down", "type": "rate", "param": null, "code": null}});
    upstream.then(Reply::Refuses(429, error.clone()));
    let answer = house.post(CHAT).session(SESSION).json(body(talk(&["a"]))).await;
    assert_eq!(answer.expect(429), error);
    upstream.then(Reply::Fails(ModelError::BrokeOff("reset".into())));
    check_error(&house.post(CHAT).session(SESSION).json(body(talk(&["b"]))).await, 502, "model_broke_off");
    upstream.then(Reply::Raw(vec!["data: <html>\n\n"], None));
    check_error(&house.post(CHAT).session(SESSION).json(body(talk(&["c"]))).await, 502, "model_broke_off");
    let turns = house.turns(SESSION).await;
    assert!(turns.len() == 3 && turns.iter().all(|turn| turn["status"] == "failed"), "{turns:?}");
}

/// C8: a client that leaves costs the upstream nothing more; what came is kept.
#[tokio::test]
async fn a_client_that_leaves_early_has_its_turn_ended() {
    let upstream = Arc::new(Recording::gated());
    let house = House::plan().upstream(Arc::clone(&upstream) as _).open();
    let asked = house.post(CHAT).session(SESSION).json(body(talk(&["a"])));
    let left = tokio::time::timeout(std::time::Duration::from_millis(100), asked).await;
    assert!(left.is_err());
    eventually("the turn begins", async || sessions(&house).await.pop()).await;
    eventually("the turn ends", async || {
        let turns = house.turns(SESSION).await;
        turns.first().is_some_and(|turn| turn["status"] == "failed").then_some(())
    })
    .await;
}

// --- What reaches the upstream --------------------------------------------------------------------

/// C5: what nobody here knows arrives as it was sent, in its order.
#[tokio::test]
async fn unknown_fields_order_and_parts_arrive_untouched() {
    let (house, upstream) = open();
    let sent = r#"{"zeta":1,"model":"m","messages":[{"role":"developer","content":"be brief"},{"x":1,"role":"user","content":[{"type":"text","text":"this?"},{"type":"image_url","image_url":{"url":"data:,"}}],"a":null}],"tools":[{"type":"function"}],"alpha":{"z":1.50,"b":[]},"seed":7}"#;
    let ask = house.post(CHAT).session(SESSION).header("content-type", "application/json");
    ask.body(Body::from(sent)).await.expect(200);
    assert_eq!(upstream.last_text(), sent.replace("1.50", "1.5"));
}

/// C5: tool calls with `null` content survive in both directions.
#[tokio::test]
async fn tool_messages_with_null_content_arrive_untouched() {
    let (house, upstream) = open();
    upstream.calls("c1");
    let first = house.post(CHAT).session(SESSION).json(body(talk(&["time?"]))).await.expect(200);
    let call = first["choices"][0]["message"].clone();
    assert_eq!((&call["content"], &call["tool_calls"][0]["id"]), (&Value::Null, &json!("c1")));
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "noon"});
    let messages = json!([{"role": "user", "content": "time?"}, call, result]);
    house.post(CHAT).session(SESSION).json(body(messages.clone())).await.expect(200);
    assert_eq!(upstream.last()["messages"], messages);
}

/// C5: what is for us stays here.
#[tokio::test]
async fn our_own_fields_and_headers_stay_here() {
    let (house, upstream) = open();
    let mut request = body(talk(&["a"]));
    request["memory"] = json!({"mode": "active"});
    request["session_id"] = json!("mine");
    request["user_id"] = json!("ann");
    let ask = house.post(CHAT).header("cookie", "c=1").header("x-recalld-mode", "active").header("x-user-id", "ann");
    ask.header("openai-beta", "b").json(request).await.expect(200);
    assert_eq!(keys(&upstream.last()), ["model", "messages"]);
    let headers = upstream.seen().pop().expect("a request").headers;
    assert!(headers.contains_key("openai-beta") && headers.contains_key("content-type"));
    for name in ["cookie", "x-recalld-mode", "x-user-id", "authorization", "host"] {
        assert!(!headers.contains_key(name), "{name}");
    }
}

/// C8: nobody sends our upstream's key elsewhere.
#[tokio::test]
async fn fields_that_name_another_upstream_are_refused() {
    let (house, upstream) = open();
    for field in ["api_base", "base_url", "api_key"] {
        let mut request = body(talk(&["a"]));
        request[field] = json!("http://evil.example");
        check_error(&house.post(CHAT).json(request).await, 400, "refused_field");
    }
    assert!(upstream.seen().is_empty() && sessions(&house).await.is_empty());
}

/// C5: a client's key goes on only where we have none of our own to ask for.
#[tokio::test]
async fn a_clients_bearer_goes_on_unless_it_is_ours() {
    let (house, upstream) = open();
    house.post(CHAT).header("authorization", "Bearer sk-mine").json(body(talk(&["a"]))).await.expect(200);
    assert_eq!(upstream.seen().pop().and_then(|passed| passed.bearer).as_deref(), Some("sk-mine"));
    house.post(CHAT).header("authorization", "Bearer rk_ours").json(body(talk(&["a"]))).await.expect(200);
    assert_eq!(upstream.seen().pop().and_then(|passed| passed.bearer), None);
    let upstream = recording();
    let key = "0123456789abcdef";
    let plan = House::plan().upstream(Arc::clone(&upstream) as _);
    let house = plan.setting(|settings| settings.api_key = key.into()).open();
    house.post(CHAT).header("authorization", &format!("Bearer {key}")).json(body(talk(&["a"]))).await.expect(200);
    assert_eq!(upstream.seen().pop().and_then(|passed| passed.bearer), None);
    check_error(&house.post(CHAT).json(body(talk(&["a"]))).await, 401, "unauthorized");
}

// --- What is laid before the model ----------------------------------------------------------------

/// C5: a client that sends only what is new is reminded of the rest, between set-up and question.
#[tokio::test]
async fn the_window_stands_between_system_prompt_and_question() {
    let (house, upstream) = open();
    ask(&house, &["My dog is Rex."]).await;
    let messages = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "Who?"}]);
    house.post(CHAT).session(SESSION).json(body(messages)).await.expect(200);
    assert_eq!(upstream.last_contents(), ["s", "My dog is Rex.", "answer 1", "Who?"]);
    assert_eq!(shown(&house, SESSION).await, "My dog is Rex./answer 1/Who?/answer 2");
}

/// C5: a client that left something out has it laid before the question; one that did not, not.
#[tokio::test]
async fn a_truncated_history_gets_the_block() {
    let (house, upstream) = open();
    ask(&house, &["My dog is Rex."]).await;
    ask(&house, &["My dog is Rex.", "answer 1", "b"]).await;
    assert_eq!(upstream.last_contents(), ["My dog is Rex.", "answer 1", "b"]);
    ask(&house, &["b", "answer 2", "Who?"]).await;
    let contents = upstream.last_contents();
    let last = contents[2].as_str().expect("text");
    assert!(last.starts_with("<recalled_memory") && last.contains("Rex") && last.ends_with("\n\nWho?"), "{last}");
    assert_eq!(contents[..2], ["b", "answer 2"]);
    assert_eq!(shown(&house, SESSION).await, "My dog is Rex./answer 1/b/answer 2/Who?/answer 3");
}

// --- Modes ----------------------------------------------------------------------------------------

async fn in_mode(mode: &str, messages: Value) -> (House, Arc<Recording>, Answer) {
    let (house, upstream) = open();
    ask(&house, &["before"]).await;
    let answer = house.post(CHAT).session(SESSION).header("x-recalld-mode", mode).json(body(messages)).await;
    (house, upstream, answer)
}

/// C5: each mode does what it says.
#[tokio::test]
async fn modes_record_and_remind_as_they_say() {
    for (mode, reminded, recorded, status) in [
        ("active", true, true, "ok"),
        ("passive", false, true, "ok"),
        ("read", true, false, "read"),
        ("off", false, false, "off"),
    ] {
        let (house, upstream, answer) = in_mode(mode, talk(&["now"])).await;
        answer.expect(200);
        assert_eq!(answer.header("x-recalld-status"), status, "{mode}");
        assert_eq!(upstream.last_contents().contains(&json!("before")), reminded, "{mode}");
        assert_eq!(house.turns(SESSION).await.len(), if recorded { 2 } else { 1 }, "{mode}");
    }
    let (_, _, answer) = in_mode("loud", talk(&["now"])).await;
    check_error(&answer, 400, "invalid_mode");
}

/// C5: `store: false` and the body's mode count too.
#[tokio::test]
async fn store_false_means_read() {
    let (house, upstream) = open();
    ask(&house, &["before"]).await;
    for extra in [json!({"store": false}), json!({"memory": {"mode": "read"}})] {
        let mut request = body(talk(&["now"]));
        request.as_object_mut().expect("an object").extend(extra.as_object().cloned().expect("an object"));
        house.post(CHAT).session(SESSION).json(request).await.expect(200);
        assert_eq!(upstream.last_contents(), ["before", "answer 1", "now"]);
    }
    assert_eq!(house.turns(SESSION).await.len(), 1);
}

/// B6: a temporary chat leaves nothing, whatever else is asked.
#[tokio::test]
async fn temporary_chats_leave_nothing() {
    let (house, _) = open();
    for id in ["local:s", "temporary:s", "channel:s"] {
        let ask = house.post(CHAT).header("x-openwebui-chat-id", id).header("x-recalld-mode", "active");
        let answer = ask.json(body(talk(&["secret"]))).await;
        answer.expect(200);
        assert_eq!((answer.header("x-recalld-status"), answer.header("x-session-id")), ("off", ""));
    }
    assert!(sessions(&house).await.is_empty());
}

// --- Errands and files ----------------------------------------------------------------------------

/// B6: errands pass untouched, leave nothing, and are counted.
#[tokio::test]
async fn errands_leave_nothing_and_are_counted() {
    let (house, upstream) = open();
    let errand = talk(&["### Task:\nGenerate a concise title summarizing the chat history.\n"]);
    let by_words = house.post(CHAT).session(SESSION).json(body(errand.clone())).await;
    assert_eq!((by_words.status, by_words.header("x-recalld-status")), (200, "task"));
    assert_eq!(upstream.last(), body(errand));
    let ask = house.post(CHAT).session(SESSION).header("x-recalld-task", "title_generation");
    assert_eq!(ask.json(body(talk(&["anything"]))).await.header("x-recalld-status"), "task");
    assert!(sessions(&house).await.is_empty());
    assert_eq!(house.metric("recalld_tasks_total").await, 2);
}

/// B6: the question about a file is stored, its wrapper is not; the model sees both.
#[tokio::test]
async fn a_question_about_a_file_is_unwrapped() {
    let (house, upstream) = open();
    let wrapped = "### Task:\nRespond to the user query using the provided context.\n<context>\n\
                   <source id=\"1\" name=\"note.txt\">The code is 7.</source>\n</context>\n\nWhat is the code?";
    ask(&house, &[wrapped]).await;
    assert_eq!(upstream.last_contents(), [wrapped]);
    assert_eq!(shown(&house, SESSION).await, "What is the code?/answer 1");
}

// --- Paths ----------------------------------------------------------------------------------------

async fn at(house: &House, path: &str, text: &str) -> Answer {
    house.post(&format!("/v1/{path}chat/completions")).json(body(talk(&[text]))).await
}

/// A1: a tenant in the path is a memory of its own, whatever it is called.
#[tokio::test]
async fn tenants_in_paths_are_kept_apart() {
    let (house, _) = open();
    for tenant in ["acme", "v1", "v1x", "a%20b"] {
        at(&house, &format!("{tenant}/"), "hello").await.expect(200);
        let name = tenant.replace("%20", " ");
        let list = house.get("/api/v1/sessions").header("x-tenant-id", &name).send().await.expect(200);
        assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1), "{tenant}");
        assert_eq!(list["sessions"][0]["tenant_id"], name);
    }
    assert!(sessions(&house).await.is_empty(), "the default tenant has nothing");
    let x = house.get("/api/v1/sessions").header("x-tenant-id", "x").send().await.expect(200);
    assert_eq!(x["sessions"], json!([]));
}

/// A7: bad names are 400, unknown routes 404, both as OpenAI's clients expect.
#[tokio::test]
async fn bad_paths_are_refused_in_openais_shape() {
    let (house, _) = open();
    let long = "x".repeat(129);
    for path in ["/", "acme:/", "acme:a%20b/", ":x/", "acme:a:b/", &format!("acme:{long}/")] {
        let answer = at(&house, path, "a").await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.json()["error"]["code"].is_string());
    }
    for path in ["/v1/files", "/v1/acme/batches", "/v1/a/b/chat/completions", "/v1/"] {
        let answer = house.post(path).json(json!({})).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.json()["error"]["message"].is_string(), "{path}");
    }
}

/// C8: what is no request at all is refused in OpenAI's shape.
#[tokio::test]
async fn bad_bodies_are_refused_in_openais_shape() {
    let (house, _) = open();
    check_error(&house.post(CHAT).json(json!([])).await, 400, "invalid_body");
    check_error(&house.post(CHAT).json(json!({"messages": "a"})).await, 400, "invalid_messages");
    let ask: Ask<'_> = house.post(CHAT).header("content-type", "application/json");
    assert_eq!(ask.body(Body::from("{")).await.status, 400);
    check_error(&house.post(CHAT).session("no-uuid").json(body(talk(&["a"]))).await, 400, "invalid_session_id");
}

/// A10: the upstream's models are listed, and what is no conversation passes through.
#[tokio::test]
async fn models_are_listed_and_embeddings_pass_through() {
    let (house, upstream) = open();
    upstream.then(Reply::Refuses(200, json!({"object": "list", "data": [{"id": "m"}]})));
    for _ in 0..2 {
        assert_eq!(house.get("/v1/models").send().await.expect(200)["data"][0]["id"], "m");
    }
    assert_eq!(upstream.seen().len(), 1, "the list is kept for a while");
    upstream.then(Reply::Refuses(200, json!({"data": [{"embedding": [0.5]}]})));
    let request = json!({"model": "e", "input": ["a"]});
    let answer = house.post("/v1/acme/embeddings").json(request.clone()).await.expect(200);
    assert_eq!(answer["data"][0]["embedding"], json!([0.5]));
    assert_eq!((upstream.last(), upstream.seen()[1].path.as_str()), (request, "embeddings"));
    assert!(sessions(&house).await.is_empty());
}
