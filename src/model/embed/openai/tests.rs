//! The embedder against a real server on the loopback address.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as Reply};
use axum::routing::post;
use hyper::header::HeaderMap;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::TcpListener;

use super::*;

const KEY: &str = "sk-very-secret";

/// What the server does with the n-th request for these texts.
type Script = dyn Fn(usize, Vec<String>) -> Reply + Send + Sync;

/// A server that follows a script, and counts.
struct Played {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Played {
    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn settings(&self) -> OpenAiEmbedderSettings {
        let settings = OpenAiEmbedderSettings::new(&self.url, "small");
        OpenAiEmbedderSettings { key: Some(KEY.into()), request_timeout: Duration::from_secs(10), ..settings }
    }

    async fn embedder(&self) -> OpenAiEmbedder {
        OpenAiEmbedder::connect(self.settings()).await.expect("a server that answers")
    }

    async fn refusal(&self, settings: OpenAiEmbedderSettings) -> String {
        OpenAiEmbedder::connect(settings).await.expect_err("a server that does not help").to_string()
    }
}

async fn playing(script: impl Fn(usize, Vec<String>) -> Reply + Send + Sync + 'static) -> Played {
    let requests = Arc::new(AtomicUsize::new(0));
    let (counter, script): (_, Arc<Script>) = (requests.clone(), Arc::new(script));
    let handler = move |headers: HeaderMap, axum::Json(body): axum::Json<Value>| async move {
        assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!((&body["model"], &body["encoding_format"]), (&"small".into(), &"float".into()));
        let texts = body["input"].as_array().expect("texts").iter().map(|text| text.as_str().expect("a text").into());
        script(counter.fetch_add(1, Ordering::SeqCst), texts.collect())
    };
    Played { url: serve(Router::new().route("/v1/embeddings", post(handler))).await, requests }
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    format!("http://{address}/v1")
}

/// A vector that tells texts apart: its direction is the text's length.
fn vector(text: &str) -> Value {
    json!([text.len(), 1, 0])
}

fn answer(texts: &[String]) -> Reply {
    let entry = |(index, text): (usize, &String)| json!({ "index": index, "embedding": vector(text) });
    axum::Json(json!({ "data": texts.iter().enumerate().map(entry).collect::<Vec<_>>() })).into_response()
}

fn refuse(status: u16, message: &str) -> Reply {
    let body = axum::Json(json!({ "error": { "message": message } }));
    (StatusCode::from_u16(status).expect("a status"), body).into_response()
}

fn texts(words: &str) -> Vec<String> {
    words.split('|').map(str::to_owned).collect()
}

/// The lengths of the texts, read out of their vectors again.
fn lengths(vectors: &[Vec<f32>]) -> Vec<f32> {
    let length = |vector: &Vec<f32>| if vector[1] == 0.0 { 0.0 } else { (vector[0] / vector[1]).round() };
    vectors.iter().map(length).collect()
}

#[tokio::test]
async fn vectors_come_for_every_text_in_order() {
    let played = playing(|_, texts| answer(&texts)).await;
    let embedder = played.embedder().await;
    assert_eq!((embedder.id().as_str(), embedder.dimensions()), ("openai:small:3", 3));
    assert_eq!(embedder.at_once("a"), None);
    let vectors = embedder.embed(&texts("a|bbb|cc|| \n|bbb")).await.expect("vectors");
    assert_eq!(lengths(&vectors), [1.0, 3.0, 2.0, 0.0, 0.0, 3.0]);
    assert!((vectors[1].iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-6);
    assert_eq!(embedder.embed(&[]).await, Ok(vec![]));
}

#[tokio::test]
async fn a_server_may_answer_in_any_order() {
    let played = playing(|_, texts| {
        let entry = |(index, text): (usize, &String)| json!({ "index": index, "embedding": vector(text) });
        let entries: Vec<Value> = texts.iter().enumerate().map(entry).rev().collect();
        axum::Json(json!({ "data": entries })).into_response()
    })
    .await;
    let vectors = played.embedder().await.embed(&texts("a|bb|ccc")).await.expect("vectors");
    assert_eq!(lengths(&vectors), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn many_texts_go_in_several_requests_and_known_ones_in_none() {
    let played = playing(|_, texts| {
        assert!(texts.len() <= 64 && texts.iter().all(|text| text.len() <= 200));
        answer(&texts)
    })
    .await;
    let settings = OpenAiEmbedderSettings { text_bytes_max: 200, ..played.settings() };
    let embedder = OpenAiEmbedder::connect(settings).await.expect("a server that answers");
    let many: Vec<String> = (1..=130).map(|length| "x".repeat(length)).collect();
    let expected: Vec<f32> = (1..=130_u8).map(f32::from).collect();
    assert_eq!(lengths(&embedder.embed(&many).await.expect("vectors")), expected);
    assert_eq!(played.requests(), 1 + 3);
    assert_eq!(lengths(&embedder.embed(&many).await.expect("vectors")), expected);
    assert_eq!(played.requests(), 1 + 3);
    let long = embedder.embed(&["x".repeat(1_000_000)]).await.expect("vectors");
    assert_eq!(lengths(&long), [200.0]);
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let busy = |status: u16| move |n, texts: Vec<String>| if n < 2 { refuse(status, "busy") } else { answer(&texts) };
    for status in [429, 503] {
        let played = playing(busy(status)).await;
        played.embedder().await;
        assert_eq!(played.requests(), 3);
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_is_an_error() {
    let played = playing(|_, _| refuse(429, "quota exceeded")).await;
    let settings = OpenAiEmbedderSettings { retries_max: 1, ..played.settings() };
    let error = played.refusal(settings).await;
    assert_eq!(played.requests(), 2);
    assert_eq!(
        error,
        format!(
            "no embeddings of `small` from {}: the model answered with status 429: quota exceeded; it is busy or a \
             quota is used up, ask again later",
            played.url
        )
    );
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_hides_the_key() {
    let played = playing(|_, _| refuse(401, "bad key sk-very-secret")).await;
    let error = played.refusal(played.settings()).await;
    assert_eq!(played.requests(), 1);
    assert!(error.ends_with("status 401: bad key …; check the key"), "{error}");
    assert!(!format!("{:?}", played.settings()).contains(KEY));
}

#[tokio::test]
async fn a_slow_server_costs_its_time_and_no_more() {
    let url = serve(Router::new().route("/v1/embeddings", post(std::future::pending::<Reply>))).await;
    let settings = OpenAiEmbedderSettings::new(url.clone(), "small");
    let settings = OpenAiEmbedderSettings { request_timeout: Duration::from_millis(200), ..settings };
    let before = Instant::now();
    let error = OpenAiEmbedder::connect(settings).await.expect_err("no answer");
    assert!(before.elapsed() < Duration::from_secs(5));
    assert_eq!(error, EmbedError::TooSlow { url, patience: Duration::from_millis(200) });
    assert!(error.to_string().contains("within 0.2s"), "{error}");
}

#[tokio::test]
async fn retries_are_within_the_time_too() {
    let played = playing(|_, _| refuse(503, "starting")).await;
    let short = Duration::from_millis(150);
    let settings = OpenAiEmbedderSettings { retries_max: 100, request_timeout: short, ..played.settings() };
    let error = OpenAiEmbedder::connect(settings).await.expect_err("no answer");
    assert!(matches!(error, EmbedError::TooSlow { .. } | EmbedError::Server { .. }), "{error}");
    assert!(played.requests() <= 4);
}

#[tokio::test]
async fn nobody_there_is_said_plainly() {
    let settings =
        OpenAiEmbedderSettings { retries_max: 0, ..OpenAiEmbedderSettings::new("http://127.0.0.1:9/v1", "x") };
    let error = OpenAiEmbedder::connect(settings).await.expect_err("nobody there").to_string();
    assert!(error.contains("Connection refused") && error.ends_with("/v1 included"), "{error}");
}

#[tokio::test]
async fn garbage_is_an_error() {
    for (garbage, part) in [
        ("<html>", "it is not JSON: <html>"),
        ("{\"data\":[]}", "it has 0 vectors for 1 texts"),
        ("{\"error\":\"no sk-very-secret\"}", "it is an error: no …"),
        ("", "it is not JSON"),
    ] {
        let played = playing(move |_, _| garbage.into_response()).await;
        let error = played.refusal(played.settings()).await;
        assert!(error.contains(part) && error.contains("is an embedding model"), "{error}");
    }
}

#[tokio::test]
async fn dimensions_are_asked_for_and_checked() {
    let played = playing(|_, texts| answer(&texts)).await;
    let settings = OpenAiEmbedderSettings { dimensions: Some(8), ..played.settings() };
    let question = Server::new(settings.clone()).expect("good settings").question(&["a"]);
    assert_eq!(serde_json::from_slice::<Value>(&question).expect("JSON")["dimensions"], 8);
    let error = played.refusal(settings).await;
    assert!(error.starts_with("`small` gave a vector of 3 dimensions where 8 were expected"), "{error}");
}

#[tokio::test]
async fn a_model_that_changes_under_way_is_noticed() {
    let played = playing(|n, texts| match n {
        0 => answer(&texts),
        _ => axum::Json(json!({ "data": [{ "index": 0, "embedding": [1, 2] }] })).into_response(),
    })
    .await;
    let error = played.embedder().await.embed(&texts("a")).await.expect_err("another length");
    assert_eq!(error, EmbedError::Dimensions { model: "small".into(), expected: 3, got: 2 });
}

#[test]
fn settings_are_checked_before_anybody_is_asked() {
    let check = |settings: OpenAiEmbedderSettings, part: &str| {
        let error = Server::new(settings).map(|_| ()).expect_err("bad settings").to_string();
        assert!(error.contains(part), "{error}");
    };
    let good = OpenAiEmbedderSettings::new("http://localhost/v1", "small");
    check(OpenAiEmbedderSettings { base_url: "localhost".into(), ..good.clone() }, "must begin with http://");
    check(
        OpenAiEmbedderSettings { base_url: "http://h/v1/embeddings/".into(), ..good.clone() },
        "leave out /embeddings",
    );
    check(OpenAiEmbedderSettings { model: " ".into(), ..good.clone() }, "name an embedding model");
    check(OpenAiEmbedderSettings { text_bytes_max: 0, ..good.clone() }, "at least one byte");
    check(OpenAiEmbedderSettings { dimensions: Some(0), ..good.clone() }, "at least one dimension");
    check(OpenAiEmbedderSettings { key: Some("a\nb".into()), ..good }, "no header can carry");
}
