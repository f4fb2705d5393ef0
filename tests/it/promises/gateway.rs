//! What may pass to the upstream and back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use recalld::model::openai::{OpenAi, OpenAiSettings};
use serde_json::json;
use tokio::net::TcpListener;

use crate::house::House;

const OPERATORS_KEY: &str = "sk-operator/0123456789+abcdef";

// --- A server that is reached over HTTP, as the operator's is ---------------------------------------

/// The paths that a server was asked for.
type Paths = Arc<Mutex<Vec<String>>>;

/// A house whose model is behind a real connection. `answer` makes an answer of the operator's key.
async fn before(answer: fn(&str) -> Response) -> (House, Paths) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let paths = Paths::default();
    let serve = async move |State(paths): State<Paths>, request: Request| {
        paths.lock().expect("a lock").push(request.uri().to_string());
        let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
        answer(bearer.trim_start_matches("Bearer "))
    };
    let router = Router::new().fallback(serve).with_state(Arc::clone(&paths));
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
    let model = OpenAi::new(OpenAiSettings {
        base_url: url,
        key: Some(OPERATORS_KEY.into()),
        model: "m".into(),
        connect_timeout: Duration::from_secs(5),
        first_byte_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        retries_max: 0,
    });
    let model = Arc::new(model.expect("settings"));
    let house = House::plan().model(Arc::clone(&model) as _).upstream(model);
    (house.setting(|settings| settings.passthrough = recalld::config::Passthrough::All).open(), paths)
}

#[tokio::test]
async fn paths_that_step_upwards_never_reach_the_upstream() {
    let (house, paths) = before(|_| "{}".into_response()).await;
    for path in [
        "images/../../admin",
        "images/..%2f..%2fadmin",
        "images/..%2F..%2Fadmin",
        "images/..%5c..%5cadmin",
        "images/%2e%2e%5cadmin",
        "images/..;/..;/admin",
        "images/..;jsessionid=1/admin",
        "images/..%3b/admin",
        "images/%2e%2e/admin",
        "images/%252e%252e%252fadmin",
        "images/%25252e%25252e/admin",
        "images/..%00/admin",
        "images/..%20/admin",
        "images/x%2f..%2f..%2fadmin",
        "acme/images/..%2f..%2fadmin",
        "..%2fadmin",
        "images/%c0%ae%c0%ae/admin",
        "images/..%09/admin",
    ] {
        let answer = house.post(&format!("/v1/{path}")).json(json!({})).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    assert_eq!(*paths.lock().expect("a lock"), [""; 0]);
    for path in ["models/meta%2Fllama-3", "models/qwen2.5..1", "files/a..b?after=..%2f"] {
        assert_eq!(house.get(&format!("/v1/{path}")).send().await.status, 200, "{path}");
    }
    let reached = ["/v1/models/meta%2Fllama-3", "/v1/models/qwen2.5..1", "/v1/files/a..b?after=..%2f"];
    assert_eq!(*paths.lock().expect("a lock"), reached);
}
