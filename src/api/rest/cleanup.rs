//! Cleanup on demand.

use axum::Json;
use axum::extract::State;
use utoipa::ToSchema;

use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::ApiError;
use crate::lifecycle::CleanupReport;

/// What a cleanup did.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(in crate::api) struct Report {
    sessions_deleted: u64,
    turns_deleted: u64,
    /// Facts whose time is over; they are kept.
    facts_expired: u64,
    /// Topics that faded and were forgotten; their turns stay.
    topics_forgotten: u64,
    seconds: f64,
    errors: Vec<String>,
}

impl From<CleanupReport> for Report {
    fn from(report: CleanupReport) -> Self {
        let CleanupReport { sessions_deleted, turns_deleted, facts_expired, topics_forgotten, seconds, errors, .. } =
            report;
        Self { sessions_deleted, turns_deleted, facts_expired, topics_forgotten, seconds, errors }
    }
}

/// Removes what is older than its time to live, now.
#[utoipa::path(post, path = "/api/v1/cleanup", responses((status = 200, body = Report)))]
pub(in crate::api) async fn run(State(app): State<App>, visitor: Visitor) -> Result<Json<Report>, ApiError> {
    visitor.access.check_everybody()?;
    Ok(Json(app.memory.cleanup(&app.doors.clock).await.into()))
}
