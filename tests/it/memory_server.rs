//! A model server on the loopback address that tells what it is shown, or misbehaves as told, and counts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use recalld::model::memory::{MemoryModel, MemoryModelSettings};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How it behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It repeats what users said, a line for each message.
    Well,
    /// The same, thought about first and put in a code fence.
    Wordy,
    /// It says something else.
    Garbage,
    /// It stops in the middle.
    CutOff,
    /// It never answers.
    Hangs,
    /// 429, come back in ten minutes.
    Busy,
    /// It knows no schemas.
    NoSchemas,
    /// It wants another key.
    Locked,
}

/// The server.
pub(crate) struct MemoryServer {
    mood: Mutex<Mood>,
    pub(crate) calls: AtomicUsize,
    url: Mutex<String>,
}

impl MemoryServer {
    /// Starts one in a mood.
    pub(crate) async fn start(mood: Mood) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let server = Arc::new(Self { mood: Mutex::new(mood), calls: AtomicUsize::new(0), url: Mutex::new(url) });
        let answering = Arc::clone(&server);
        let router = Router::new().route(
            "/v1/chat/completions",
            post(move |Json(body): Json<Value>| {
                let server = Arc::clone(&answering);
                async move { server.answer(&body).await }
            }),
        );
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.expect("a connection");
                let service = TowerToHyperService::new(router.clone());
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        server
    }

    /// From now on it behaves like this.
    pub(crate) fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// A memory model that asks here.
    pub(crate) fn model(&self) -> Arc<MemoryModel> {
        let url = self.url.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let timeout = Duration::from_millis(500);
        let settings = MemoryModelSettings { url, model: "small".into(), key: None, timeout, tokens_max: 64_000 };
        Arc::new(MemoryModel::new(settings).expect("good settings"))
    }

    async fn answer(&self, body: &Value) -> Response {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().unwrap_or_else(PoisonError::into_inner);
        let refuse = |status: u16, message: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            (status, [("retry-after", "600")], Json(json!({ "error": { "message": message } }))).into_response()
        };
        let schema = body["response_format"]["type"] == "json_schema";
        match mood {
            Mood::Well => completion(&told(body), "stop"),
            Mood::NoSchemas if !schema => completion(&told(body), "stop"),
            Mood::NoSchemas => refuse(400, "response_format json_schema is not supported"),
            Mood::Wordy => {
                let wordy = format!("<think>What about {{\"lines\":[]}}?</think>Here:\n```json\n{}\n```", told(body));
                completion(&wordy, "stop")
            }
            Mood::Garbage => completion("As a language model I would rather not.", "stop"),
            Mood::CutOff => completion("{\"lines\":[{\"who\":\"user\",\"wh", "length"),
            Mood::Busy => refuse(429, "slow down"),
            Mood::Locked => refuse(401, "no such key"),
            Mood::Hangs => std::future::pending().await,
        }
    }
}

fn completion(text: &str, finish: &str) -> Response {
    let choice = json!({ "message": { "role": "assistant", "content": text }, "finish_reason": finish });
    Json(json!({ "model": "small", "choices": [choice], "usage": { "total_tokens": 100 } })).into_response()
}

/// What users said in the request, told before or since.
fn told(body: &Value) -> String {
    let shown = body["messages"][1]["content"].as_str().expect("a talk");
    let lines = shown.lines().filter_map(|line| line.split_once("user: ").map(|(_, said)| said));
    let lines: Vec<Value> = lines.map(|said| json!({ "who": "user", "what": said })).collect();
    json!({ "title": "Roses in beds", "lines": lines }).to_string()
}
