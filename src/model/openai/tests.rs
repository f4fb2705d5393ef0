//! The model against a real server on the loopback address.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response as Reply};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::*;
use crate::model::{Ending, Piece};

const KEY: &str = "sk-very-secret";

pub(super) fn settings(base_url: &str) -> OpenAiSettings {
    OpenAiSettings {
        base_url: base_url.into(),
        key: Some(KEY.into()),
        model: "small".into(),
        connect_timeout: Duration::from_secs(2),
        first_byte_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_millis(300),
        retries_max: 2,
    }
}

/// Serves one handler where questions arrive, and gives a model that asks there.
async fn asking<H: Handler<T, ()>, T: 'static>(handler: H) -> OpenAi {
    let router = Router::new().route("/v1/chat/completions", post(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    OpenAi::new(settings(&format!("http://{address}/v1/"))).expect("good settings")
}

/// Asks, and gives the text that came and how it ended.
async fn hear(model: &OpenAi, stream: bool) -> (String, Result<Ending, ModelError>) {
    let messages = vec![json!({ "role": "user", "content": "hello?" })];
    let mut text = String::new();
    let mut pieces = match model.ask(Prompt { messages, stream, model: None }).await {
        Ok(pieces) => pieces,
        Err(error) => return (text, Err(error)),
    };
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(Piece::Text(more)) => text.push_str(&more),
            Ok(Piece::End(ending)) => return (text, Ok(ending)),
            Err(error) => return (text, Err(error)),
        }
    }
    panic!("an answer has an end")
}

fn plain(text: &str) -> Reply {
    axum::Json(json!({
        "model": "small-1",
        "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "total_tokens": 12 },
    }))
    .into_response()
}

/// An event stream that arrives in these chunks, then ends, breaks or hangs as `then` says.
fn events(
    chunks: Vec<Vec<u8>>,
    then: impl futures_util::Stream<Item = Result<Vec<u8>, std::io::Error>> + Send + 'static,
) -> Reply {
    // The pause keeps chunks apart on the wire.
    let apart = stream::iter(chunks).then(|chunk| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(chunk)
    });
    ([(CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(apart.chain(then))).into_response()
}

fn delta(text: &str) -> Vec<u8> {
    format!("data: {}\n\n", json!({ "model": "small-1", "choices": [{ "delta": { "content": text } }] })).into_bytes()
}

#[tokio::test]
async fn a_question_goes_out_as_servers_expect_it() {
    let model = asking(|headers: HeaderMap, axum::Json(body): axum::Json<Value>| async move {
        assert_eq!(headers[AUTHORIZATION], format!("Bearer {KEY}"));
        assert_eq!(body["messages"][0]["content"], "hello?");
        assert_eq!(body.get("stream_options").is_some(), body["stream"] == true);
        plain(body["model"].as_str().expect("a model"))
    })
    .await;
    let end = Ending { model: Some("small-1".into()), tokens_used: Some(12), finish_reason: Some("stop".into()) };
    assert_eq!(hear(&model, false).await, ("small".into(), Ok(end.clone())));
    // This server answers whole even when a stream is asked for.
    assert_eq!(hear(&model, true).await, ("small".into(), Ok(end)));
}

#[tokio::test]
async fn a_stream_may_be_cut_anywhere() {
    let model = asking(|| async {
        let mut bytes = b": hello\n\n".to_vec();
        ["Hé", "l", "lo 🦀"].iter().for_each(|text| bytes.extend(delta(text)));
        bytes.extend(b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n");
        bytes.extend(b"data: {\"choices\":[],\"usage\":{\"total_tokens\":9}}\n\ndata: [DONE]\n\n");
        events(bytes.chunks(7).map(<[u8]>::to_vec).collect(), stream::empty())
    })
    .await;
    let end = Ending { model: Some("small-1".into()), tokens_used: Some(9), finish_reason: Some("stop".into()) };
    assert_eq!(hear(&model, true).await, ("Héllo 🦀".into(), Ok(end)));
}

#[tokio::test]
async fn a_refusal_tells_the_servers_words_without_our_key() {
    let model = asking(|| async {
        let message = format!("wrong key {KEY}");
        (StatusCode::UNAUTHORIZED, axum::Json(json!({ "error": { "message": message } })))
    })
    .await;
    let refused = ModelError::Refused { status: 401, message: "wrong key …".into(), retry_after: None };
    assert_eq!(hear(&model, true).await.1, Err(refused));
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let model = asking(|| async {
        match ASKED.fetch_add(1, Ordering::SeqCst) {
            0 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            1 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")]).into_response(),
            _ => plain("there"),
        }
    })
    .await;
    assert_eq!(hear(&model, false).await.0, "there");
    assert_eq!(ASKED.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_server_that_asks_for_patience_is_left_alone() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let model = asking(|| async {
        ASKED.fetch_add(1, Ordering::SeqCst);
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "60")], "slow down")
    })
    .await;
    let refused = ModelError::Refused { status: 429, message: "slow down".into(), retry_after: Some("60".into()) };
    assert_eq!(hear(&model, false).await.1, Err(refused));
    assert_eq!(ASKED.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn retries_have_a_bound() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let model = asking(|| async {
        ASKED.fetch_add(1, Ordering::SeqCst);
        StatusCode::BAD_GATEWAY
    })
    .await;
    assert!(matches!(hear(&model, false).await.1, Err(ModelError::Refused { status: 502, .. })));
    assert_eq!(ASKED.load(Ordering::SeqCst), 3, "one question and two retries");
}

#[tokio::test]
async fn nobody_there_is_known_quickly() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/v1", free.local_addr().expect("an address"));
    drop(free);
    let started = Instant::now();
    let model = OpenAi::new(settings(&url)).expect("good settings");
    let Err(ModelError::Unreachable { url: told, reason }) = hear(&model, false).await.1 else { panic!("unreachable") };
    assert_eq!(told, url);
    assert!(reason.contains("refused"), "{reason}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn silence_ends_before_an_answer_and_within_one() {
    let mut model = asking(std::future::pending::<StatusCode>).await;
    let patience = Duration::from_millis(80);
    model.settings = Arc::new(OpenAiSettings { first_byte_timeout: patience, ..(*model.settings).clone() });
    assert_eq!(hear(&model, true).await, (String::new(), Err(ModelError::Silent(patience))));

    let model = asking(|| async { events(vec![delta("Well")], stream::pending()) }).await;
    assert_eq!(hear(&model, true).await, ("Well".into(), Err(ModelError::Silent(model.settings.idle_timeout))));
}

#[tokio::test]
async fn a_broken_stream_keeps_what_came() {
    let model = asking(|| async {
        // What is not on the wire yet when the server breaks would be lost with it.
        let breaks = stream::once(async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(std::io::Error::other("gone"))
        });
        events(vec![delta("Wel"), delta("l")], breaks)
    })
    .await;
    let (text, end) = hear(&model, true).await;
    assert_eq!(text, "Well");
    assert!(matches!(end, Err(ModelError::BrokeOff(_))), "{end:?}");

    let model = asking(|| async { events(vec![delta("Well")], stream::empty()) }).await;
    let (text, end) = hear(&model, true).await;
    assert_eq!(text, "Well");
    assert!(matches!(end, Err(ModelError::BrokeOff(_))), "closed politely, and still not complete: {end:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let model = asking(|| async { Redirect::temporary("http://127.0.0.1:1/elsewhere") }).await;
    let Err(ModelError::Refused { status, message, .. }) = hear(&model, false).await.1 else { panic!("refused") };
    assert_eq!(status, 307);
    assert!(message.contains("http://127.0.0.1:1/elsewhere"), "{message}");
}

#[test]
fn a_url_that_cannot_work_is_explained() {
    let reason = |url: &str| OpenAi::new(settings(url)).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(reason("https://api.openai.com/v1"), "");
    assert_eq!(reason(" http://[::1]:8080/v1/ "), "");
    assert!(reason("localhost:11434/v1").contains("must begin with http://"));
    assert!(reason("").contains("must begin with http://"));
    assert!(reason("http://").contains("cannot be used"));
    assert!(reason("http://host/v1?x=1").contains("without `?`"));
    assert!(reason("http://host/v1/chat/completions").contains("leave out"));
    let told = reason("https://ann:hunter2@host/v1");
    assert!(told.contains("user or password") && !told.contains("hunter2"), "{told}");
}

#[test]
fn the_key_is_never_shown() {
    let model = OpenAi::new(settings("http://host/v1")).expect("good settings");
    let shown = format!("{model:?} {:?}", model.settings);
    assert!(shown.contains("small") && !shown.contains(KEY), "{shown}");
    let broken = OpenAiSettings { key: Some("a\nb".into()), ..settings("http://host/v1") };
    assert_eq!(OpenAi::new(broken).err(), Some(OpenAiError::Key));
}

#[test]
fn a_servers_words_are_shortened() {
    let settings = settings("http://host/v1");
    assert_eq!(tidy("one\n  two", &settings), "one two");
    assert_eq!(tidy(&"é".repeat(300), &settings).chars().count(), 300);
    assert_eq!(tidy(&"é".repeat(301), &settings), format!("{}…", "é".repeat(300)));
}
