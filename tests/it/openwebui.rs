//! Requests captured from a real Open WebUI, sent again. They are not part of this repository: without the file
//! beside the project this is skipped.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use recalld::id::TurnId;
use recalld::scope::{Scope, Tenant, User};
use recalld::store::Store;
use serde_json::{Value, json};

use crate::house::House;
use crate::openai::open;
use crate::upstream::{Recording, Reply};

/// One captured request.
struct Captured {
    run: String,
    headers: Vec<(String, String)>,
    messages: Vec<Value>,
    body: Value,
}

/// The captured chat requests of a run, or none.
fn captured(run: &str) -> Vec<Captured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/openwebui_requests.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        let _ = writeln!(std::io::stderr(), "skipped: there is no {}", path.display());
        return Vec::new();
    };
    let read = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
    let posted = text.lines().map(read).filter(|line| line["method"] == "POST").map(whole);
    let all = posted.map(|line| Captured {
        run: line["run"].as_str().expect("a run").to_owned(),
        headers: headers(&line["headers"]),
        messages: line["body"]["messages"].as_array().expect("messages").clone(),
        body: line["body"].clone(),
    });
    all.filter(|captured| captured.run.contains(run)).collect()
}

/// What was asked about the file; the capture is cut off before it.
const ABOUT_A_FILE: &str = "What does it say?";

/// A request whose question about a file was cut off when it was captured, made whole again.
fn whole(mut line: Value) -> Value {
    for message in line["body"]["messages"].as_array_mut().into_iter().flatten() {
        let Some(text) = message["content"].as_str().filter(|text| text.contains("<context>")) else { continue };
        if text.ends_with("[…]") && !text.contains("</context>") {
            message["content"] = json!(format!("{text}\">…</source>\n</context>\n\n{ABOUT_A_FILE}"));
        }
    }
    line
}

fn headers(object: &Value) -> Vec<(String, String)> {
    let pair = |(name, value): (&String, &Value)| (name.clone(), value.as_str().expect("text").to_owned());
    object.as_object().expect("headers").iter().map(pair).collect()
}

/// Whether a header tells who asks or where.
fn names_somebody(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["x-openwebui", "x-session", "x-recalld"].iter().any(|prefix| name.starts_with(prefix))
}

/// What was answered then: what a later request shows after these messages.
fn reply(request: &Captured, later: &[Captured]) -> Reply {
    let length = request.messages.len();
    let shows = |next: &&Captured| next.messages.len() > length && next.messages[..length] == request.messages;
    let usual = json!({"role": "assistant", "content": "Well."});
    Reply::Says(later.iter().find(shows).map_or(usual, |next| next.messages[length].clone()))
}

/// Sends the requests of a run again, with the headers that tell who asks or without.
async fn replay(house: &House, upstream: &Arc<Recording>, requests: &[Captured], named: bool) {
    for (n, request) in requests.iter().enumerate() {
        upstream.then(reply(request, &requests[n + 1..]));
        let sent = request.headers.iter().filter(|(name, _)| named || !names_somebody(name));
        let skip = ["content-type", "accept-encoding"];
        let sent = sent.filter(|(name, _)| !skip.contains(&name.to_ascii_lowercase().as_str()));
        let ask = sent.fold(house.post("/v1/chat/completions"), |ask, (name, value)| ask.header(name, value));
        let answer = ask.json(request.body.clone()).await;
        assert_eq!(answer.status, 200, "request {n}: {}", answer.text());
    }
}

/// The turns of all sessions of a user, session by session.
async fn remembered(house: &House, user: &str) -> Vec<Vec<Value>> {
    let sessions = house.pages(&format!("/api/v1/sessions?limit=50&user_id={user}"), "sessions").await;
    let mut all = Vec::new();
    for session in sessions {
        let id = session["id"].as_str().expect("an id");
        all.push(house.pages(&format!("/api/v1/sessions/{id}/turns?limit=50&user_id={user}"), "turns").await);
    }
    all
}

/// Nothing but people's own words is stored, and everything was answered.
#[track_caller]
fn check_turns(sessions: &[Vec<Value>]) {
    for turn in sessions.iter().flatten() {
        let question = turn["query_text"].as_str().expect("a question");
        assert!(!question.contains("### Task") && !question.contains("<context>"), "a wrapper was stored");
        assert_eq!(turn["status"], "complete");
    }
}

/// The question that came with a file.
#[track_caller]
fn check_file_question(sessions: &[Vec<Value>]) {
    let last = sessions.last().and_then(|turns| turns.last()).expect("a turn");
    assert_eq!(last["query_text"], ABOUT_A_FILE);
}

fn lengths(sessions: &[Vec<Value>]) -> Vec<usize> {
    sessions.iter().map(Vec::len).collect()
}

/// B6: with headers there is one session per chat; a tool loop is one turn, a regenerated answer a revision, a
/// temporary chat nothing, a question about a file just the question.
#[tokio::test]
async fn captured_chats_with_headers_are_remembered_once() {
    let requests = captured("headers forwarded");
    if requests.is_empty() {
        return;
    }
    let (house, upstream) = open();
    replay(&house, &upstream, &requests, true).await;
    let user = requests[0].headers.iter().find(|(name, _)| name == "X-OpenWebUI-User-Id").expect("a user").1.clone();
    let sessions = remembered(&house, &user).await;
    check_turns(&sessions);
    check_file_question(&sessions);
    assert_eq!(lengths(&sessions), [1, 1]);
    assert!(remembered(&house, "anonymous").await.is_empty());
    assert_eq!(house.metric("recalld_tasks_total").await, 2);
    let scope = Scope::new(Tenant::default(), User::parse(&user).expect("a user"));
    let turn = TurnId::parse(sessions[0][0]["id"].as_str().expect("an id")).expect("an id");
    let revisions = house.store.revisions(&scope, turn).await.expect("readable").expect("a turn");
    assert_eq!(revisions.len(), 1, "the answer before it was regenerated");
    assert_eq!(revisions[0].messages.len(), 3, "its call, the result, its words");
}

/// B6: the same requests without headers: a first question begins a chat, a tool loop is still one turn.
#[tokio::test]
async fn captured_chats_stripped_of_headers_keep_their_tool_loops() {
    let requests = captured("headers forwarded");
    if requests.is_empty() {
        return;
    }
    let (house, upstream) = open();
    replay(&house, &upstream, &requests, false).await;
    let sessions = remembered(&house, "anonymous").await;
    check_turns(&sessions);
    check_file_question(&sessions);
    assert_eq!(lengths(&sessions), [1, 1, 1, 1], "asked, asked again, not known to be temporary, about a file");
    assert_eq!(house.metric("recalld_tasks_total").await, 2);
}

/// B6: a default install sends no ids at all: chats are found by what was said in them.
#[tokio::test]
async fn captured_chats_of_a_default_install_are_found_by_their_history() {
    let requests = captured("default install");
    if requests.is_empty() {
        return;
    }
    let (house, upstream) = open();
    replay(&house, &upstream, &requests, true).await;
    let sessions = remembered(&house, "anonymous").await;
    check_turns(&sessions);
    assert_eq!(lengths(&sessions), [1, 2]);
    assert_eq!(house.metric("recalld_tasks_total").await, 6);
}
