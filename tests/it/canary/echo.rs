//! A model server that says back every telling word it was shown, so that whatever leaks into a prompt shows in an answer.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::scan::words;

/// Most words that are said back.
const WORDS_MAX: usize = 12;

/// The server.
#[derive(Default)]
pub(super) struct Echo {
    shown: Mutex<Vec<String>>,
    /// A word that it says by itself with every answer, to see that somebody notices.
    planted: Option<String>,
}

impl Echo {
    /// Starts one; answers it and its URL.
    pub(super) async fn start(planted: Option<String>) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let echo = Arc::new(Self { planted, ..Self::default() });
        let (chat, embed) = (Arc::clone(&echo), Arc::clone(&echo));
        let router = Router::new()
            .route(
                "/v1/models",
                get(async || Json(json!({"object": "list", "data": [{"id": "m", "object": "model"}]}))),
            )
            .route("/v1/embeddings", post(async move |body: String| embed.embeddings(body)))
            .route("/v1/chat/completions", post(async move |body: String| chat.completion(body)));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        (echo, url)
    }

    /// Every request it was sent.
    pub(super) fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, body: &str) -> String {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).push(body.to_owned());
        let mut said = words(body);
        said.sort();
        said.dedup();
        let mut answer: Vec<String> = said.into_iter().take(WORDS_MAX).map(|word| format!("zqx{word}")).collect();
        answer.extend(self.planted.clone());
        format!("I was shown {}.", answer.join(", "))
    }

    fn embeddings(&self, body: String) -> Response {
        let echo = self.note(&body);
        let data = json!([{"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}]);
        Json(json!({"object": "list", "model": "m", "data": data, "echo": echo})).into_response()
    }

    fn completion(&self, body: String) -> Response {
        let text = self.note(&body);
        let asked: Value = serde_json::from_str(&body).unwrap_or_default();
        if asked["stream"] == json!(true) { streamed(&text) } else { whole(&text) }
    }
}

fn whole(text: &str) -> Response {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    Json(json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}))
        .into_response()
}

/// In pieces of a few letters, so that words are cut.
fn streamed(text: &str) -> Response {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk =
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let letters: Vec<char> = text.chars().collect();
    let pieces =
        letters.chunks(5).map(|piece| chunk(json!({"content": piece.iter().collect::<String>()}), Value::Null));
    let mut events: Vec<String> = pieces.collect();
    events.push(chunk(json!({}), json!("stop")));
    events.push("data: [DONE]\n\n".into());
    ([(CONTENT_TYPE, "text/event-stream")], Body::from(events.concat())).into_response()
}
