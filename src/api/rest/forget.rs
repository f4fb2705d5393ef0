//! Forgetting for good: users, turns and messages here; sessions, documents, facts and tenants beside their own kind.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::UserQuery;
use super::facts::{fact_id, whose};
use super::turns::turn_id;
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::session_header;
use crate::api::params::Params;
use crate::api::view::time;
use crate::id::MessageId;
use crate::memory::Memory;
use crate::review::ReviewError;
use crate::scope::User;
use crate::store::{BookState, Erasure, Receipt, TenantKept};

/// That something is erased, and what went with it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ReceiptView {
    /// Its line in the book of what was erased, which has neither names nor content; 0 for what had not reached the disk.
    ledger_id: u64,
    erased_at: String,
    /// How much went, by kind; what there was none of is left out.
    #[schema(value_type = Object)]
    erased: Map<String, Value>,
    /// Whether it is gone from the log of the data file, too. If not, it goes as soon as whoever reads there is done.
    log_emptied: bool,
}

impl From<Receipt> for ReceiptView {
    fn from(receipt: Receipt) -> Self {
        let Receipt { ledger_id, erased_at, counts, log_emptied } = receipt;
        let some = counts.by_kind().into_iter().filter(|(_, count)| *count > 0);
        let erased = some.map(|(kind, count)| (kind.to_owned(), count.into())).collect();
        Self { ledger_id, erased_at: time(erased_at), erased, log_emptied }
    }
}

/// Erases a user: everything that names them, in every conversation, summary, fact, index and log.
#[utoipa::path(delete, path = "/api/v1/users/{id}", params(("id" = String, Path, description = "The user")),
    responses((status = 200, body = ReceiptView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn user(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Json<ReceiptView>, ApiError> {
    let named = User::parse(&id)
        .map_err(|error| ApiError::bad_request("invalid_id", "Invalid user", format!("the user's name {error}")))?;
    let scope = app.scope(&visitor, Some(&id), None)?;
    // Whoever speaks for somebody else sees nothing of this user.
    if *scope.user() != named {
        return Err(ReviewError::UnknownUser(named).into());
    }
    Ok(Json(app.memory.forget(Erasure::User(scope)).await?.into()))
}

/// Erases an exchange: question, answers, and what followed from them.
#[utoipa::path(delete, path = "/api/v1/turns/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = ReceiptView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn turn(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<ReceiptView>, ApiError> {
    let (id, session) = (turn_id(&id)?, session_header(&visitor)?);
    let scope = app.scope(&visitor, query.user_id.as_deref(), session)?;
    Ok(Json(app.memory.forget(Erasure::Turn(scope, id)).await?.into()))
}

/// Erases a message with the exchange it belongs to: an answer repeats its question.
#[utoipa::path(delete, path = "/api/v1/messages/{id}",
    params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = ReceiptView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn message(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<ReceiptView>, ApiError> {
    let wrong =
        || ApiError::bad_request("invalid_message_id", "Invalid message id", "the message id must be a valid UUID");
    let (id, session) = (MessageId::parse(&id).ok_or_else(wrong)?, session_header(&visitor)?);
    let scope = app.scope(&visitor, query.user_id.as_deref(), session)?;
    let receipt = app.memory.forget(Erasure::Turn(scope, id.turn())).await.map_err(|error| match error {
        ReviewError::UnknownTurn(_) => ReviewError::UnknownMessage(id),
        error => error,
    })?;
    Ok(Json(receipt.into()))
}

/// Erases a fact with its history, and every statement of its words. The messages that said it stay, and are not understood so again.
#[utoipa::path(delete, path = "/api/v1/facts/{id}/history",
    params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = ReceiptView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn fact(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<ReceiptView>, ApiError> {
    let (id, scope) = (fact_id(&id)?, whose(&app, &visitor, query.user_id.as_deref())?);
    Ok(Json(app.memory.forget(Erasure::Fact(scope, id)).await?.into()))
}

/// What is kept, by tenant, and for how long.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Privacy {
    /// How long what was said is kept where nobody says otherwise.
    ttl: String,
    #[schema(value_type = Vec<Object>)]
    tenants: Vec<TenantPrivacy>,
    ledger: BookView,
    /// Conversations of visitors, which are in memory only.
    live_sessions: u64,
    /// Questions that wait for a choice, likewise.
    clarifications: u64,
    /// Exchanges that wait for the disk.
    waiting: u64,
}

#[derive(Debug, Serialize)]
struct TenantPrivacy {
    /// How long what was said is kept.
    ttl: String,
    #[serde(flatten)]
    kept: TenantKept,
    /// When the oldest exchange was said.
    oldest: Option<String>,
}

/// The book of what was erased.
#[derive(Debug, Serialize, ToSchema)]
struct BookView {
    lines: u64,
    last_at: Option<String>,
    not_applied: u64,
}

/// What is kept, where and for how long, by tenant.
#[utoipa::path(get, path = "/api/v1/privacy", responses((status = 200, body = Privacy)))]
pub(in crate::api) async fn privacy(State(app): State<App>) -> Result<Json<Privacy>, ApiError> {
    let BookState { entries, last_at, not_applied } = app.memory.erasure_book().await?;
    let tenants = app.memory.kept().await?.into_iter().map(|kept| shown(&app.memory, kept)).collect();
    Ok(Json(Privacy {
        ttl: app.memory.settings().ttl.to_string(),
        tenants,
        ledger: BookView { lines: entries, last_at: last_at.map(time), not_applied },
        live_sessions: app.memory.live_sessions_held().await?,
        clarifications: app.memory.clarifications_held(),
        waiting: (app.doors.store)().waiting as u64,
    }))
}

fn shown(memory: &Memory, kept: TenantKept) -> TenantPrivacy {
    let own = crate::scope::Tenant::parse(&kept.tenant).map(|tenant| memory.of(&tenant).settings().ttl);
    let oldest = kept.oldest_turn.and_then(|at| Timestamp::from_microsecond(at).ok()).map(time);
    TenantPrivacy { ttl: own.unwrap_or(memory.settings().ttl).to_string(), kept, oldest }
}
