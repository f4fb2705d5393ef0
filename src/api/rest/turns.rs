//! Turns of a session.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ListQuery, UserQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::idempotency::{self, NOT_OF_A_VISIT};
use crate::api::identity::{AnySession, session_header};
use crate::api::params::Params;
use crate::api::view::{RevisionView, TurnView};
use crate::id::TurnId;
use crate::review::PastTurn;
use crate::scope::Scope;
use crate::session::Turn;

/// An exchange that took place elsewhere.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::api) struct NewTurn {
    query: String,
    response: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// When it took place; now if not given.
    #[schema(value_type = Option<String>)]
    created_at: Option<Timestamp>,
    /// Whose; a header wins.
    user_id: Option<String>,
}

/// A page of turns.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Turns {
    turns: Vec<TurnView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// A session's turns by number.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/turns",
    params(("id" = String, Path, description = "A UUID"), ListQuery),
    responses((status = 200, body = Turns), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<ListQuery>,
) -> Result<Json<Turns>, ApiError> {
    let AnySession::Durable(id) = session else {
        let key = session.live(&visitor)?;
        let page = app.memory.live_turns(&key, query.page()?).await?;
        let turns = page.items.into_iter().map(|turn| TurnView::of_live(turn, &key)).collect();
        return Ok(Json(Turns { turns, next: cursor(page.next) }));
    };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let page = app.memory.turns(&scope, id, query.page()?).await?;
    Ok(Json(Turns { turns: in_topics(&app, &scope, page.items).await?, next: cursor(page.next) }))
}

/// Turns with the topics they belong to.
async fn in_topics(app: &App, scope: &Scope, turns: Vec<Turn>) -> Result<Vec<TurnView>, ApiError> {
    let ids: Vec<TurnId> = turns.iter().map(|turn| turn.id).collect();
    let topics = app.memory.topics_of(scope, &ids).await?;
    let view = |turn: Turn| {
        let topic = topics.get(&turn.id).copied();
        TurnView::of(turn, scope).in_topic(topic)
    };
    Ok(turns.into_iter().map(view).collect())
}

/// Other answers to a turn's question.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Revisions {
    revisions: Vec<RevisionView>,
}

/// One turn, superseded or not.
#[utoipa::path(get, path = "/api/v1/turns/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = TurnView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<TurnView>, ApiError> {
    let (id, session) = (turn_id(&id)?, session_header(&visitor)?);
    let scope = app.scope(&visitor, query.user_id.as_deref(), session)?;
    let turn = app.memory.turn(&scope, id).await?;
    let topic = app.memory.topics_of(&scope, &[id]).await?.remove(&id);
    Ok(Json(TurnView::of(turn, &scope).in_topic(topic)))
}

/// Other answers to a turn's question, oldest first: what was regenerated, and what broke off.
#[utoipa::path(get, path = "/api/v1/turns/{id}/revisions",
    params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = Revisions), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn revisions(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<Revisions>, ApiError> {
    let (id, session) = (turn_id(&id)?, session_header(&visitor)?);
    let scope = app.scope(&visitor, query.user_id.as_deref(), session)?;
    let revisions = app.memory.revisions(&scope, id).await?;
    Ok(Json(Revisions { revisions: revisions.into_iter().map(RevisionView::from).collect() }))
}

pub(super) fn turn_id(text: &str) -> Result<TurnId, ApiError> {
    let wrong = || ApiError::bad_request("invalid_turn_id", "Invalid turn id", "the turn id must be a valid UUID");
    TurnId::parse(text).ok_or_else(wrong)
}

/// Adds a turn without asking a model.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/turns", params(("id" = String, Path, description = "A UUID")),
    request_body = NewTurn, responses((status = 201, body = TurnView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn add(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    body: Body,
) -> Result<(StatusCode, Json<TurnView>), ApiError> {
    let (new, body) = app.read_json_and_bytes(&visitor, body).await?;
    let NewTurn { query, response, metadata, created_at, user_id } = new;
    let past = PastTurn { query, response, metadata, created_at };
    let AnySession::Durable(id) = session else {
        let key = session.live(&visitor)?;
        idempotency::refuse(&visitor, NOT_OF_A_VISIT)?;
        let turn = app.memory.add_live_turn(&key, past).await?;
        return Ok((StatusCode::CREATED, Json(TurnView::of_live(turn, &key))));
    };
    let scope = app.scope(&visitor, user_id.as_deref(), Some(id))?;
    let turn = match idempotency::mark(&visitor, &scope, &format!("turns of {id}"), &body)? {
        Some(request) => app.memory.add_turn_once(&scope, id, past, &request).await?,
        None => app.memory.add_turn(&scope, id, past).await?,
    };
    Ok((StatusCode::CREATED, Json(TurnView::of(turn, &scope))))
}
