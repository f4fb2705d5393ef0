//! What a proxied request is measured against: an upstream that answers at once, and a bare pass-through.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::net::TcpListener;

use super::process::free_address;
use crate::api::server::{ServerLimits, serve as serve_connections};
use crate::config::Networks;
use crate::model::http::{HttpClient, client};

/// Chunks of a streamed answer.
pub(super) const CHUNKS: usize = 50;

/// Serves a router on a free port, for as long as the bench runs.
pub(super) async fn serve(router: Router) -> anyhow::Result<SocketAddr> {
    let address = free_address()?;
    tokio::spawn(serve_on(address, router));
    Ok(address)
}

/// Serves a router here, until the process ends.
pub(super) async fn serve_on(address: SocketAddr, router: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.context("the port is taken")?;
    let limits = ServerLimits {
        connections_max: 10_000,
        connections_per_address_max: 10_000,
        trusted_proxies: Networks::default(),
        header_bytes_max: 32_768,
        header_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_secs(60),
        finish_timeout: Duration::ZERO,
    };
    serve_connections(listener, router, limits, std::future::pending()).await;
    Ok(())
}

/// An upstream: a whole answer, a stream of chunks, or (for the model `endless`) one chunk and then silence.
pub(super) fn upstream() -> Router {
    Router::new().route("/v1/chat/completions", post(complete))
}

async fn complete(body: Bytes) -> Response {
    let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    if asked["stream"] != true {
        let message = json!({"role": "assistant", "content": "You decided on two anchor points."});
        let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
        return axum::Json(json!({"id": "c", "object": "chat.completion", "model": "m", "choices": choices}))
            .into_response();
    }
    let events = if asked["model"] == "endless" {
        stream::iter([event(json!({"content": "One"}), None)]).chain(stream::pending()).boxed()
    } else {
        stream::iter((0..CHUNKS).map(|n| event(json!({"content": format!("word {n} ")}), None)))
            .chain(stream::iter([event(json!({}), Some("stop")), Bytes::from_static(b"data: [DONE]\n\n")]))
            .then(|event| async move {
                // A model takes its time; without a pause all chunks would travel as one.
                tokio::time::sleep(Duration::from_micros(200)).await;
                event
            })
            .boxed()
    };
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn event(delta: serde_json::Value, finish: Option<&str>) -> Bytes {
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices});
    Bytes::from(format!("data: {chunk}\n\n"))
}

/// The least a proxy can do: read the body, pass it on, pass the answer back.
pub(super) fn pass_through(upstream: SocketAddr) -> Router {
    let client = client(Duration::from_secs(1));
    let ready = axum::routing::get(|| async {});
    Router::new().route("/v1/chat/completions", post(pass)).route("/readyz", ready).with_state((client, upstream))
}

async fn pass(State((client, upstream)): State<(HttpClient, SocketAddr)>, body: Bytes) -> Response {
    let request = Request::post(format!("http://{upstream}/v1/chat/completions"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .expect("a plain request");
    match client.request(request).await {
        Ok(response) => response.map(|body| Body::new(body.map_err(axum::Error::new))).into_response(),
        Err(error) => (axum::http::StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
