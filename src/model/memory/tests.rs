//! The memory model against a scripted server on the loopback address, and what it is sent.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use serde_json::json;
use tokio::net::TcpListener;

use super::request::{body, messages, mistake};
use super::*;
use crate::model::ModelError;
use crate::model::summarise::{Talk, Told};

/// One answer of the script.
#[derive(Clone)]
enum Reply {
    Says(&'static str),
    CutOff(&'static str),
    Refuses(u16, &'static str),
    Hangs,
}
use Reply::{CutOff, Hangs, Refuses, Says};

type Seen = Arc<Mutex<Vec<Value>>>;

/// A model whose server answers by a script, and everything that server is sent.
async fn scripted(script: Vec<Reply>) -> (MemoryModel, Seen) {
    let (script, seen) = (Arc::new(Mutex::new(VecDeque::from(script))), Seen::default());
    let noted = Arc::clone(&seen);
    let answer = move |Json(body): Json<Value>| {
        let reply = script.lock().expect("a script").pop_front();
        noted.lock().expect("a list").push(body);
        async move { respond(reply.unwrap_or(Refuses(500, "the script is over"))).await }
    };
    let router = Router::new().route("/v1/chat/completions", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    let settings = MemoryModelSettings { url, model: "small".into(), key: None, timeout: PATIENCE, tokens_max: 8_192 };
    (MemoryModel::new(settings).expect("good settings"), seen)
}

const PATIENCE: Duration = Duration::from_millis(300);

async fn respond(reply: Reply) -> Response {
    let answer = |text: &str, finish: &str| {
        let choice = json!({ "message": { "role": "assistant", "content": text }, "finish_reason": finish });
        Json(json!({ "model": "small-1", "choices": [choice], "usage": { "total_tokens": 100 } })).into_response()
    };
    match reply {
        Says(text) => answer(text, "stop"),
        CutOff(text) => answer(text, "length"),
        Refuses(status, message) => {
            let status = StatusCode::from_u16(status).expect("a status");
            (status, [("retry-after", "7")], Json(json!({ "error": { "message": message } }))).into_response()
        }
        Hangs => std::future::pending().await,
    }
}

fn talk() -> Talk {
    let at: Timestamp = "2026-03-01T10:00:00Z".parse().expect("a time");
    let told = |speaker: &str, text: &str| Told { speaker: speaker.into(), text: text.into(), at };
    Talk {
        before: Some("user: We live in Porto.".into()),
        said: vec![told("user", "Ana starts school on 7 May."), told("assistant", "Noted!\nAnything else?")],
        tokens_max: 120,
        is_topic: false,
    }
}

const GOOD: &str = r#"{"lines":[{"who":"user","what":"Ana starts school on 7 May."}]}"#;

/// How asking ends: what was told, or why not, how many calls it took and what was kept of the answer.
async fn asked(script: Vec<Reply>) -> String {
    let (model, _) = scripted(script).await;
    match model.ask(&SummaryTask { talk: &talk() }).await {
        Ok(Proposal { value, spent }) => format!("{value} | {} calls, {} tokens", spent.calls, spent.tokens),
        Err(NoProposal { why, spent, raw }) => {
            let raw = raw.unwrap_or_else(|| "-".into());
            format!("{} | {} calls, {} tokens, {raw}", why.kind(), spent.calls, spent.tokens)
        }
    }
}

#[tokio::test]
async fn an_answer_is_found_in_whatever_surrounds_it() {
    let told = "user: Ana starts school on 7 May. | 1 calls, 100 tokens";
    let think = r#"<think>Is it {"lines":[]}?</think>
                   {"lines":[{"who":"user","what":"Ana starts school on 7 May."}]}"#;
    let fence =
        "Here you are:\n```json\n{\"lines\":[{\"who\":\"user\",\"what\":\"Ana starts school on 7 May.\"}]}\n```";
    for answer in [GOOD, think, fence] {
        assert_eq!(asked(vec![Says(answer)]).await, told);
    }
}

#[tokio::test]
async fn a_mistake_is_shown_once() {
    let told = "user: Ana starts school on 7 May. | 2 calls, 200 tokens";
    assert_eq!(asked(vec![Says("I'd rather not."), Says(GOOD)]).await, told);
    assert_eq!(asked(vec![CutOff(r#"{"lines":[{"who":"us"#), Says(GOOD)]).await, told);
    let (model, seen) = scripted(vec![Says(r#"{"lines":[{"who":"user"}]}"#), Says(GOOD)]).await;
    model.ask(&SummaryTask { talk: &talk() }).await.expect("an answer");
    let seen = seen.lock().expect("a list").clone();
    let shown = seen[1]["messages"].as_array().expect("messages");
    assert_eq!((shown.len(), &shown[2]["content"]), (4, &json!(r#"{"lines":[{"who":"user"}]}"#)));
    assert!(shown[3]["content"].as_str().is_some_and(|text| text.contains("missing field `what`")), "{shown:?}");
}

/// Models propose, code decides: nobody who did not speak is quoted, and what was not said is not told.
#[tokio::test]
async fn inventions_are_left_out() {
    let stranger = r#"{"lines":[{"who":"Bob","what":"Ana starts school."}]}"#;
    assert_eq!(asked(vec![Says(stranger), Says(stranger)]).await, format!("garbage | 2 calls, 200 tokens, {stranger}"));
    let partly = r#"{"lines":[{"who":"user","what":"Wants a pony."},{"who":"user","what":"Ana begins school."}]}"#;
    assert_eq!(asked(vec![Says(partly)]).await, "user: Ana begins school. | 1 calls, 100 tokens");
    let counted =
        r#"{"lines":[{"who":"user","what":"Ana wants 21 roses."},{"who":"user","what":"School, 7 May 2026."}]}"#;
    assert_eq!(asked(vec![Says(counted)]).await, "user: School, 7 May 2026. | 1 calls, 100 tokens");
    let example = r#"{"lines":[{"who":"user","what":"…"}]}"#;
    let told = "user: Ana starts school on 7 May. | 2 calls, 200 tokens";
    assert_eq!(asked(vec![Says(example), Says(GOOD)]).await, told);
}

#[tokio::test]
async fn then_it_is_given_up_and_the_answer_is_kept() {
    assert_eq!(asked(vec![Says("no"), Says("never")]).await, "garbage | 2 calls, 200 tokens, never");
    assert_eq!(
        asked(vec![Says("{}"), Says(r#"{"lines":[]}"#)]).await,
        r#"garbage | 2 calls, 200 tokens, {"lines":[]}"#
    );
    assert_eq!(asked(vec![CutOff("{"), CutOff("<think>hm")]).await, "truncated | 2 calls, 200 tokens, <think>hm");
    assert_eq!(asked(vec![Says("no"), Refuses(503, "busy")]).await, "refused | 2 calls, 100 tokens, no");
}

#[tokio::test]
async fn what_is_no_answer_is_told_by_kind() {
    assert_eq!(asked(vec![Hangs]).await, "timeout | 1 calls, 0 tokens, -");
    assert_eq!(asked(vec![Refuses(429, "slow down")]).await, "busy | 1 calls, 0 tokens, -");
    assert_eq!(asked(vec![Refuses(401, "key")]).await, "refused | 1 calls, 0 tokens, -");
    let (model, _) = scripted(vec![Refuses(429, "slow down")]).await;
    let no = model.ask(&SummaryTask { talk: &talk() }).await.expect_err("refused");
    assert_eq!(no.why.retry_after(Timestamp::UNIX_EPOCH), Some(Duration::from_secs(7)));
    let nowhere = MemoryModelSettings { url: "http://127.0.0.1:9/v1".into(), ..model.settings.clone() };
    let no =
        MemoryModel::new(nowhere).expect("settings").ask(&SummaryTask { talk: &talk() }).await.expect_err("nobody");
    assert_eq!(no.why.kind(), FailureKind::Unreachable);
}

/// What a server does not understand is not tried with it again.
#[tokio::test]
async fn a_server_without_schemas_is_asked_for_any_object() {
    let refusal = Refuses(400, "response_format.type must be json_object");
    let (model, seen) = scripted(vec![refusal, Says(GOOD), Says(GOOD)]).await;
    for calls in [2, 1] {
        let told = model.ask(&SummaryTask { talk: &talk() }).await.expect("an answer");
        assert_eq!(told.spent.calls, calls);
    }
    let seen = seen.lock().expect("a list").clone();
    let formats: Vec<&Value> = seen.iter().map(|body| &body["response_format"]["type"]).collect();
    assert_eq!(formats, ["json_schema", "json_object", "json_object"]);
    let prompt = seen[1]["messages"][0]["content"].as_str().expect("a prompt");
    assert!(prompt.contains("\"additionalProperties\":false"), "the model is shown the schema: {prompt}");
}

/// A refusal of something else is no reason to speak another dialect from then on.
#[tokio::test]
async fn a_refusal_of_everything_is_not_remembered() {
    let refusals = [Refuses(400, "no"), Refuses(400, "no"), Refuses(400, "no")];
    let (model, seen) = scripted(refusals.into_iter().chain([Says(GOOD)]).collect()).await;
    let no = model.ask(&SummaryTask { talk: &talk() }).await.expect_err("refused");
    assert!(matches!(no.why, Failure::Model(ModelError::Refused { status: 400, .. })), "{no:?}");
    model.ask(&SummaryTask { talk: &talk() }).await.expect("an answer");
    assert_eq!(seen.lock().expect("a list")[3]["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn a_topic_is_named_and_told() {
    let good = r#"{"title":"\"School for Ana\"","lines":[{"who":"user","what":"Ana starts on 7 May."}]}"#;
    let counted = r#"{"title":"21 roses for Ana","lines":[{"who":"user","what":"Ana starts on 7 May."}]}"#;
    let (model, _) = scripted(vec![Says(counted), Says(good)]).await;
    let told = model.ask(&TopicTask { talk: &talk() }).await.expect("an answer").value;
    let expected = TopicAnswer { title: "School for Ana".into(), summary: "user: Ana starts on 7 May.".into() };
    assert_eq!(told, expected);
}

/// The whole request, as it is checked in beside the prompt.
#[track_caller]
fn check_request<T: Task>(task: &T, file: &str) {
    let mut talk = messages(task, 10_000);
    talk.extend(mistake("Sure!", "there is no JSON object in it"));
    let body: Value = serde_json::from_slice(&body(task, "small", &talk, 2_048, Dialect::default())).expect("JSON");
    let current = serde_json::to_string_pretty(&body).expect("JSON") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/memory").join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &current).expect("the snapshot can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == current, "{file} is out of date; look at `UPDATE=1 cargo test --lib model::memory` and its diff");
}

#[test]
fn requests_are_as_checked_in() {
    check_request(&SummaryTask { talk: &talk() }, "summary.request.json");
    check_request(&TopicTask { talk: &Talk { is_topic: true, ..talk() } }, "topic.request.json");
    let said = talk().said.into_iter().map(|told| Utterance { text: told.text, at: told.at }).collect::<Vec<_>>();
    check_request(&FactsTask { said: &said }, "facts.request.json");
}
