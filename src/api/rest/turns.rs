//! Turns of a session.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::SessionPath;
use crate::api::params::Params;
use crate::api::view::TurnView;
use crate::review::PastTurn;

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
    headers: HeaderMap,
    SessionPath(id): SessionPath,
    Params(query): Params<ListQuery>,
) -> Result<Json<Turns>, ApiError> {
    let scope = app.scope(&headers, query.user_id.as_deref(), Some(id))?;
    let page = app.memory.turns(&scope, id, query.page()?).await?;
    let turns = page.items.into_iter().map(|turn| TurnView::of(turn, &scope)).collect();
    Ok(Json(Turns { turns, next: cursor(page.next) }))
}

/// Adds a turn without asking a model.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/turns", params(("id" = String, Path, description = "A UUID")),
    request_body = NewTurn, responses((status = 201, body = TurnView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn add(
    State(app): State<App>,
    headers: HeaderMap,
    SessionPath(id): SessionPath,
    body: Body,
) -> Result<(StatusCode, Json<TurnView>), ApiError> {
    let new: NewTurn = app.read_json(&headers, body).await?;
    let scope = app.scope(&headers, new.user_id.as_deref(), Some(id))?;
    let NewTurn { query, response, metadata, created_at, .. } = new;
    let past = PastTurn { query, response, metadata, created_at };
    let turn = app.memory.add_turn(&scope, id, past).await?;
    Ok((StatusCode::CREATED, Json(TurnView::of(turn, &scope))))
}
