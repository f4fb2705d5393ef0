//! Webhooks that are not delivered yet, or never were: what waits, what failed and why.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::params::Params;
use crate::api::view::time;
use crate::store::{ParcelCounts, PostedParcel};

/// A webhook that is not delivered.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct WebhookView {
    /// Its `webhook-id`, the same however often it is sent.
    id: String,
    /// Whose session it tells of; null for an ephemeral one.
    user_id: Option<String>,
    session_id: String,
    /// Why that ended: `ttl`, `cap`, `explicit` or `shutdown`.
    reason: String,
    /// `queued`, `running` or `dead`: it was given up and waits to be tried again by hand.
    state: String,
    /// Tries so far.
    attempts: u32,
    /// When it is tried next, or when whoever sends it is given up; null is at once, or never.
    run_at: Option<String>,
    /// Why the last try failed.
    last_error: Option<String>,
    created_at: String,
    /// Size of what it tells.
    bytes: u64,
    /// What it tells; only where one webhook is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    content: Option<Value>,
}

impl From<PostedParcel> for WebhookView {
    fn from(posted: PostedParcel) -> Self {
        Self {
            id: posted.id,
            user_id: posted.user,
            session_id: posted.session,
            reason: posted.reason,
            state: posted.state,
            attempts: posted.attempts,
            run_at: posted.run_at.map(time),
            last_error: posted.last_error,
            created_at: time(posted.created_at),
            bytes: posted.bytes,
            content: None,
        }
    }
}

/// A page of a tenant's webhooks, and how many there are in all. What is delivered is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct WebhookList {
    webhooks: Vec<WebhookView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
    counts: WebhookCounts,
}

/// How many webhooks a tenant has.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct WebhookCounts {
    /// They wait for their time, or are under way.
    queued: u64,
    /// Of those, tried before without success.
    failing: u64,
    /// They were given up.
    dead: u64,
}

impl From<ParcelCounts> for WebhookCounts {
    fn from(ParcelCounts { queued, failing, dead, .. }: ParcelCounts) -> Self {
        Self { queued, failing, dead }
    }
}

/// Which webhooks to try again.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct WebhookQuery {
    /// One webhook; all of the tenant's that failed if not given.
    id: Option<String>,
}

/// How many are tried again.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct WebhooksRetried {
    webhooks_retried: u64,
}

/// A tenant's webhooks that are not delivered, oldest first, without what they tell.
#[utoipa::path(get, path = "/api/v1/webhooks", params(ListQuery), responses((status = 200, body = WebhookList)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ListQuery>,
) -> Result<Json<WebhookList>, ApiError> {
    let tenant = &visitor.access.tenant;
    let page = app.memory.webhooks(tenant, query.page()?).await?;
    let counts = app.memory.webhook_counts(Some(tenant)).await?.into();
    let webhooks = page.items.into_iter().map(WebhookView::from).collect();
    Ok(Json(WebhookList { webhooks, next: cursor(page.next), counts }))
}

/// One of them, with what it tells.
#[utoipa::path(get, path = "/api/v1/webhooks/{id}", params(("id" = String, Path, description = "A webhook-id")),
    responses((status = 200, body = WebhookView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Json<WebhookView>, ApiError> {
    let found = app.memory.webhook(&visitor.access.tenant, &id).await?;
    let (posted, body) = found.ok_or_else(unknown)?;
    let content = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Json(WebhookView { content: Some(content), ..posted.into() }))
}

fn unknown() -> ApiError {
    let detail = "there is no such webhook; it may have been delivered meanwhile";
    ApiError::new(StatusCode::NOT_FOUND, "unknown_webhook", "Unknown webhook", detail)
}

/// Tries webhooks again that were given up, or wait for their next try.
#[utoipa::path(post, path = "/api/v1/webhooks/retry", params(WebhookQuery),
    responses((status = 200, body = WebhooksRetried)))]
pub(in crate::api) async fn retry(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<WebhookQuery>,
) -> Result<Json<WebhooksRetried>, ApiError> {
    let webhooks_retried = app.memory.retry_webhooks(&visitor.access.tenant, query.id.as_deref()).await?;
    Ok(Json(WebhooksRetried { webhooks_retried }))
}

/// What was dropped.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct WebhooksDropped {
    webhooks_dropped: u64,
}

/// Drops a webhook: it is not delivered, and what it tells is gone.
#[utoipa::path(delete, path = "/api/v1/webhooks/{id}", params(("id" = String, Path, description = "A webhook-id")),
    responses((status = 200, body = WebhooksDropped), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn delete(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Json<WebhooksDropped>, ApiError> {
    match app.memory.drop_webhook(&visitor.access.tenant, &id).await? {
        true => Ok(Json(WebhooksDropped { webhooks_dropped: 1 })),
        false => Err(unknown()),
    }
}
