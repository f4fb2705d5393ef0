//! Whether the server lives, and what it counted.

use std::sync::LazyLock;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::error::{ApiError, ErrorView};
use super::measure::Gauges;
use super::openai;

/// A sign of life.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Alive {
    status: &'static str,
    version: &'static str,
}

/// Whether the server can work.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    status: &'static str,
    version: &'static str,
    /// Not there unless damage was found in the write-ahead log, and its copy is still kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_damage: Option<String>,
}

/// The process lives.
#[utoipa::path(get, path = "/healthz", responses((status = 200, body = Alive)))]
pub(super) async fn healthz() -> Json<Alive> {
    Json(Alive { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// The store answers; `degraded` while turns wait for it, while its database is away and chat goes on without, and where damage
/// in the write-ahead log may have lost turns.
#[utoipa::path(get, path = "/readyz", responses((status = 200, body = Ready), (status = 503, body = ErrorView)))]
pub(super) async fn readyz(State(app): State<App>) -> Result<Json<Ready>, ApiError> {
    app.memory.ping().await.map_err(|error| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "Store does not answer", error.to_string())
    })?;
    let store = (app.doors.store)();
    let status = if store.is_normal() { "ok" } else { "degraded" };
    let log_damage = store.log_damaged_at.map(|at| {
        format!("damage was found in the write-ahead log at {at}, and turns may be lost; `recalld doctor` names the copy of it")
    });
    Ok(Json(Ready { status, version: env!("CARGO_PKG_VERSION"), log_damage }))
}

/// Counters and timings in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let (memory, index) = (&app.memory, app.memory.recall_desk().in_memory());
    let jobs = memory.job_counts(None).await.ok().map(|jobs| (jobs.queued as usize, jobs.dead as usize));
    let webhooks = memory.webhook_counts(None).await.ok().map(|posted| (posted.queued as usize, posted.dead as usize));
    let gauges = Gauges { store: (app.doors.store)(), running: memory.running_turns(), index, jobs, webhooks };
    let text = app.doors.measures.render(app.memory.meters(), gauges);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The description, generated once: it is the same for all callers and needs no key.
static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| super::openapi_json().into());

/// This description.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI.clone()).into_response()
}

pub(super) async fn unknown_route(uri: Uri) -> ApiError {
    if openai::lacks_v1(uri.path()) {
        return openai::without_v1();
    }
    ApiError::new(StatusCode::NOT_FOUND, "unknown_route", "No such route", "see /openapi.json for the routes there are")
}

pub(super) async fn unknown_method() -> ApiError {
    let detail = "this route takes other methods; see /openapi.json";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "unknown_method", "Method not allowed", detail)
}
