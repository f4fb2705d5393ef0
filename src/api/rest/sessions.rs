//! Sessions.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::forget::ReceiptView;
use super::live::{EndedAnswer, check_all};
use super::{ListQuery, UserQuery, came_by, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::AnySession;
use crate::api::params::Params;
use crate::api::view::SessionView;
use crate::id::SessionId;
use crate::period::Ttl;
use crate::session::{SessionPatch, SessionSeed};
use crate::store::Erasure;

/// A new session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(in crate::api) struct NewSession {
    /// Whose; a header wins.
    user_id: Option<String>,
    /// Its id, a UUID, or `tenant:session` for a visitor's; chosen by the server if not given.
    id: Option<String>,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// How long its turns are kept: `24h`, `never`; the server's setting if not given.
    #[schema(value_type = Option<String>)]
    ttl: Option<Ttl>,
}

/// What to change about a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(in crate::api) struct SessionChange {
    /// Whose; a header wins.
    user_id: Option<String>,
    /// Keys to set; `null` removes a key.
    #[schema(value_type = Object)]
    pub(super) metadata: Map<String, Value>,
    /// A new time to live: `24h`, `never`.
    #[schema(value_type = Option<String>)]
    pub(super) ttl: Option<Ttl>,
}

/// Which sessions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct KindQuery {
    /// `ephemeral` lists what the tenant's visitors have at the moment; takes the right `admin`.
    kind: Option<String>,
}

impl KindQuery {
    fn is_ephemeral(&self) -> Result<bool, ApiError> {
        match self.kind.as_deref() {
            None | Some("" | "durable") => Ok(false),
            Some("ephemeral") => Ok(true),
            Some(other) => {
                let detail = format!("kind is `{other}`, it must be `durable` or `ephemeral`");
                Err(ApiError::bad_request("invalid_kind", "Invalid kind", detail))
            }
        }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Sessions {
    sessions: Vec<SessionView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// What a deletion removed.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Deleted {
    pub(super) turns_deleted: u64,
    /// Of a visitor's session nothing was ever written, so there is none.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) receipt: Option<ReceiptView>,
}

/// A user's sessions, oldest first; or those of a tenant's visitors, for who may see them all.
#[utoipa::path(get, path = "/api/v1/sessions", params(ListQuery, KindQuery), responses((status = 200, body = Sessions)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ListQuery>,
    Params(kind): Params<KindQuery>,
) -> Result<Json<Sessions>, ApiError> {
    if kind.is_ephemeral()? {
        check_all(&visitor)?;
        let page = app.memory.live_sessions(&visitor.access.tenant, query.page()?).await?;
        let sessions = page.items.iter().map(|seen| app.live_view(seen)).collect();
        return Ok(Json(Sessions { sessions, next: cursor(page.next) }));
    }
    let scope = app.scope(&visitor, query.user_id.as_deref(), None)?;
    let page = app.memory.sessions(&scope, query.page()?).await?;
    let ttl = app.memory.settings().ttl;
    let sessions = page.items.into_iter().map(|session| SessionView::of(session, &scope, ttl)).collect();
    Ok(Json(Sessions { sessions, next: cursor(page.next) }))
}

/// Makes a session. One that exists already is answered as it is.
#[utoipa::path(post, path = "/api/v1/sessions", request_body = NewSession,
    responses((status = 201, body = SessionView), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn create(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<(StatusCode, Json<SessionView>), ApiError> {
    let new: NewSession = app.read_json(&visitor, body).await?;
    if let Some(id) = new.id.as_deref().filter(|id| id.contains(':')) {
        let mut metadata = came_by("api", &visitor);
        metadata.extend(new.metadata);
        let view = app.begin_live(&visitor, id, metadata, new.ttl).await?;
        return Ok((StatusCode::CREATED, Json(view)));
    }
    let id = new.id.as_deref().map(|id| SessionId::parse(id).ok_or_else(ApiError::invalid_session)).transpose()?;
    // Chosen here, because in some settings the session is what stands for its user.
    let id = id.unwrap_or_else(|| app.memory.new_session_id());
    let scope = app.scope(&visitor, new.user_id.as_deref(), Some(id))?;
    let mut metadata = came_by("api", &visitor);
    metadata.extend(new.metadata);
    let session = app
        .memory
        .create_session(&scope, Some(id), SessionSeed { metadata, ttl: new.ttl, ..SessionSeed::default() })
        .await?;
    Ok((StatusCode::CREATED, Json(SessionView::of(session, &scope, app.memory.settings().ttl))))
}

/// One session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = SessionView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<UserQuery>,
) -> Result<Json<SessionView>, ApiError> {
    let AnySession::Durable(id) = session else {
        return Ok(Json(app.live_view(&app.memory.live_session(&session.live(&visitor)?).await?)));
    };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let session = app.memory.session(&scope, id).await?;
    Ok(Json(SessionView::of(session, &scope, app.memory.settings().ttl)))
}

/// Changes a session's metadata or time to live.
#[utoipa::path(patch, path = "/api/v1/sessions/{id}", params(("id" = String, Path, description = "A UUID")),
    request_body = SessionChange, responses((status = 200, body = SessionView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn update(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    body: Body,
) -> Result<Json<SessionView>, ApiError> {
    let change: SessionChange = app.read_json(&visitor, body).await?;
    let AnySession::Durable(id) = session else {
        return Ok(Json(app.change_live(&session.live(&visitor)?, change).await?));
    };
    let scope = app.scope(&visitor, change.user_id.as_deref(), Some(id))?;
    let patch = SessionPatch { metadata: change.metadata, ttl: change.ttl };
    let session = app.memory.update_session(&scope, id, patch).await?;
    Ok(Json(SessionView::of(session, &scope, app.memory.settings().ttl)))
}

/// Removes a session, all that is in it and all that followed from it, for good.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = Deleted), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn delete(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<UserQuery>,
) -> Result<Json<Deleted>, ApiError> {
    let AnySession::Durable(id) = session else { return app.forget_live(&session.live(&visitor)?).await };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let receipt = app.memory.forget(Erasure::Session(scope, id)).await?;
    Ok(Json(Deleted { turns_deleted: receipt.turns(), receipt: Some(receipt.into()) }))
}

/// Ends a session: whoever wants to know is told. A durable one stays and may be used again, and what waited for the conversation
/// to rest is done now; of a visitor's nothing is left but the answer.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/end",
    params(("id" = String, Path, description = "A UUID, or `tenant:session`"), UserQuery),
    responses((status = 200, body = EndedAnswer), (status = 400, body = ErrorView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn end(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<UserQuery>,
) -> Result<Json<EndedAnswer>, ApiError> {
    let AnySession::Durable(id) = session else {
        return Ok(Json(EndedAnswer::Live(app.end_live(session.live(&visitor)?).await?)));
    };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let session = app.memory.of(scope.tenant()).end_durable_session(&scope, id).await?;
    Ok(Json(EndedAnswer::Durable(Box::new(SessionView::of(session, &scope, app.memory.settings().ttl)))))
}
