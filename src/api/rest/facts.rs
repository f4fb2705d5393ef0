//! Facts: what is known about a user, where it was said, what became of it.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{ListQuery, UserQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::idempotency;
use crate::api::identity::session_header;
use crate::api::params::Params;
use crate::api::view::{FactEventView, FactEvidenceView, FactView};
use crate::fact::{Category, Status};
use crate::id::{FactId, MessageId, UndoId};
use crate::review::{FactPatch, NewFact};
use crate::scope::Scope;
use crate::store::Undo;

/// Which facts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct FactsQuery {
    /// Most items, 1 to 50; 20 if not given.
    limit: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// `active` if not given; `any` lists all of them.
    status: Option<String>,
    /// What was believed at this time (RFC 3339) instead of now.
    as_of: Option<String>,
}

/// A page of facts.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FactList {
    facts: Vec<FactView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// What became of a fact's key.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FactHistoryView {
    fact: FactView,
    /// What happened to it and to others of its key, oldest first; at most the last 500.
    events: Vec<FactEventView>,
    /// Who says it, oldest first; where there are many, the first and the last eight.
    evidence: Vec<FactEvidenceView>,
}

/// A fact to be written down.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct FactDraft {
    /// `identity`, `preference`, `constraint` or `instruction`; found by the key if not given.
    category: Option<String>,
    /// What it is about, by any of the names it is known by.
    key: String,
    /// At most 100 characters; secrets in it are masked.
    value: String,
    /// From 0.2 to 1; as much as such facts matter if not given.
    importance: Option<f64>,
    /// Until when it holds (RFC 3339).
    #[schema(value_type = Option<String>)]
    until: Option<Timestamp>,
}

/// What is to change about a fact.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct FactChange {
    /// What is true instead.
    value: Option<String>,
    /// From 0.2 to 1.
    importance: Option<f64>,
    /// Until when it holds (RFC 3339).
    #[schema(value_type = Option<String>)]
    until: Option<Timestamp>,
    user_id: Option<String>,
}

/// What is to be undone: a fact, a message, a time, or an undoing.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct UndoRequest {
    /// The last thing that happened to this fact: that it was learned, replaced or taken back.
    fact_id: Option<String>,
    /// Whatever was learned from this message.
    message_id: Option<String>,
    /// Whatever was learned from this time on (RFC 3339).
    #[schema(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// Up to this time; until now if not given.
    #[schema(value_type = Option<String>)]
    to: Option<Timestamp>,
    /// This undoing.
    undo_id: Option<String>,
}

/// What was undone.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct UndoView {
    /// By which name it can be undone.
    undo_id: String,
    /// The facts that changed, as they are now.
    facts: Vec<FactView>,
}

pub(super) fn fact_id(text: &str) -> Result<FactId, ApiError> {
    FactId::parse(text).ok_or_else(|| invalid_id("invalid_fact_id", "fact"))
}

fn invalid_id(code: &'static str, what: &str) -> ApiError {
    ApiError::bad_request(code, &format!("Invalid {what} id"), format!("the {what} id must be a valid UUID"))
}

/// Whose fact: a user known by nothing but their session is named by its header.
pub(super) fn whose(app: &App, visitor: &Visitor, user_id: Option<&str>) -> Result<Scope, ApiError> {
    app.scope(visitor, user_id, session_header(visitor)?)
}

impl FactsQuery {
    fn status(&self) -> Result<Option<Status>, ApiError> {
        match self.status.as_deref().filter(|word| !word.is_empty()) {
            None => Ok(Some(Status::Active)),
            Some("any") => Ok(None),
            Some(word) => Status::parse(word).map(Some).ok_or_else(|| {
                let known: Vec<&str> = Status::ALL.into_iter().map(Status::as_str).collect();
                let detail = format!("status is `{word}`, it must be `any` or one of {}", known.join(", "));
                ApiError::bad_request("invalid_status", "Invalid status", detail)
            }),
        }
    }

    fn as_of(&self) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.as_of.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let detail = format!("as_of is `{text}`, it must be a time such as 2026-03-01T12:00:00Z");
            ApiError::bad_request("invalid_time", "Invalid time", detail)
        })
    }
}

/// What is known about a user, in the order it was first learned.
#[utoipa::path(get, path = "/api/v1/users/{id}/facts", params(("id" = String, Path, description = "The user"), FactsQuery),
    responses((status = 200, body = FactList), (status = 400, body = ErrorView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Path(user): Path<String>,
    Params(query): Params<FactsQuery>,
) -> Result<Json<FactList>, ApiError> {
    let scope = app.scope_of(&visitor, &user)?;
    let (status, as_of) = (query.status()?, query.as_of()?);
    let list = ListQuery { limit: query.limit, after: query.after, ..ListQuery::default() };
    let page = app.memory.facts(&scope, list.part()?, status, as_of).await?;
    let facts = page.items.into_iter().map(FactView::from).collect();
    Ok(Json(FactList { facts, next: cursor(page.next) }))
}

/// Writes a fact down. It is sure, and takes the place of what was held.
#[utoipa::path(post, path = "/api/v1/users/{id}/facts", params(("id" = String, Path, description = "The user")),
    request_body = FactDraft,
    responses((status = 201, body = FactView), (status = 400, body = ErrorView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn add(
    State(app): State<App>,
    visitor: Visitor,
    Path(user): Path<String>,
    body: Body,
) -> Result<(StatusCode, Json<FactView>), ApiError> {
    let (draft, body) = app.read_json_and_bytes(&visitor, body).await?;
    let FactDraft { category, key, value, importance, until } = draft;
    let scope = app.scope_of(&visitor, &user)?;
    let request = idempotency::mark(&visitor, &scope, "facts", &body)?;
    let category = category.as_deref().map(read_category).transpose()?;
    let new = NewFact { category, key, value, importance, until };
    let fact = app.memory.add_fact(&scope, new, request.as_ref()).await?;
    Ok((StatusCode::CREATED, Json(fact.into())))
}

fn read_category(word: &str) -> Result<Category, ApiError> {
    Category::parse(word).ok_or_else(|| {
        let known: Vec<&str> = Category::ALL.into_iter().map(Category::as_str).collect();
        let detail = format!("category is `{word}`, it must be one of {}", known.join(", "));
        ApiError::bad_request("invalid_category", "Invalid category", detail)
    })
}

/// Undoes what happened to a fact, what a message or a time brought, or an undoing.
#[utoipa::path(post, path = "/api/v1/users/{id}/facts/undo", params(("id" = String, Path, description = "The user")),
    request_body = UndoRequest,
    responses((status = 200, body = UndoView), (status = 404, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn undo(
    State(app): State<App>,
    visitor: Visitor,
    Path(user): Path<String>,
    body: Body,
) -> Result<Json<UndoView>, ApiError> {
    let (what, body): (UndoRequest, _) = app.read_json_and_bytes(&visitor, body).await?;
    let scope = app.scope_of(&visitor, &user)?;
    let request = idempotency::mark(&visitor, &scope, "undo", &body)?;
    let undone = app.memory.undo_facts(&scope, what.what()?, request.as_ref()).await?;
    let facts = undone.facts.into_iter().map(FactView::from).collect();
    Ok(Json(UndoView { undo_id: undone.id.to_string(), facts }))
}

impl UndoRequest {
    fn what(&self) -> Result<Undo, ApiError> {
        let Self { fact_id: fact, message_id: message, from, to, undo_id: undo } = self;
        match (fact, message, from, undo) {
            (Some(id), None, None, None) if to.is_none() => Ok(Undo::Fact(fact_id(id)?)),
            (None, Some(id), None, None) if to.is_none() => {
                MessageId::parse(id).map(Undo::Message).ok_or_else(|| invalid_id("invalid_message_id", "message"))
            }
            (None, None, Some(from), None) => Ok(Undo::Range { from: *from, to: to.unwrap_or(Timestamp::MAX) }),
            (None, None, None, Some(id)) if to.is_none() => {
                UndoId::parse(id).map(Undo::Undo).ok_or_else(|| invalid_id("invalid_undo_id", "undo"))
            }
            _ => {
                let detail = "give one of `fact_id`, `message_id`, `undo_id`, or `from` (and `to`)";
                Err(ApiError::bad_request("invalid_undo", "Invalid undo", detail))
            }
        }
    }
}

/// One fact.
#[utoipa::path(get, path = "/api/v1/facts/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = FactView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<FactView>, ApiError> {
    let (id, scope) = (fact_id(&id)?, whose(&app, &visitor, query.user_id.as_deref())?);
    Ok(Json(app.memory.fact(&scope, id).await?.into()))
}

/// Sets a fact right. Answers the fact that holds now; what was held before is superseded.
#[utoipa::path(patch, path = "/api/v1/facts/{id}", params(("id" = String, Path, description = "A UUID")),
    request_body = FactChange,
    responses((status = 200, body = FactView), (status = 404, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn correct(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<FactView>, ApiError> {
    let (change, body) = app.read_json_and_bytes(&visitor, body).await?;
    let FactChange { value, importance, until, user_id } = change;
    let (id, scope) = (fact_id(&id)?, whose(&app, &visitor, user_id.as_deref())?);
    let request = idempotency::mark(&visitor, &scope, &format!("fact {id}"), &body)?;
    let patch = FactPatch { value, importance, until };
    Ok(Json(app.memory.correct_fact(&scope, id, patch, request.as_ref()).await?.into()))
}

/// Takes a fact back. It is no longer told, and stays to be seen.
#[utoipa::path(delete, path = "/api/v1/facts/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = FactView), (status = 404, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn retract(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<FactView>, ApiError> {
    let (id, scope) = (fact_id(&id)?, whose(&app, &visitor, query.user_id.as_deref())?);
    Ok(Json(app.memory.retract_fact(&scope, id).await?.into()))
}

/// What happened to a fact and to others of its key, and who says it.
#[utoipa::path(get, path = "/api/v1/facts/{id}/history",
    params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = FactHistoryView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn history(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<FactHistoryView>, ApiError> {
    let (id, scope) = (fact_id(&id)?, whose(&app, &visitor, query.user_id.as_deref())?);
    let history = app.memory.fact_history(&scope, id).await?;
    Ok(Json(FactHistoryView {
        fact: history.fact.into(),
        events: history.events.into_iter().map(FactEventView::from).collect(),
        evidence: history.evidence.into_iter().map(FactEvidenceView::from).collect(),
    }))
}
