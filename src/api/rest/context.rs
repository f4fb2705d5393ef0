//! What the model would be shown.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::SessionPath;
use crate::api::params::Params;

/// For which question.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ContextQuery {
    /// The question that would be asked.
    query: Option<String>,
    /// The user, when no header names one.
    user_id: Option<String>,
}

/// The context of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Context {
    session_id: String,
    /// The language of the template.
    language: String,
    /// How many user and assistant messages are shown.
    messages_in_context: usize,
    /// The messages in wire format, oldest first.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// The same as text.
    text: String,
}

/// What the model would be shown for a question in this session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/context",
    params(("id" = String, Path, description = "A UUID"), ContextQuery),
    responses((status = 200, body = Context), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    SessionPath(id): SessionPath,
    Params(query): Params<ContextQuery>,
) -> Result<Json<Context>, ApiError> {
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let view = app.memory.context(&scope, id, query.query.as_deref()).await?;
    Ok(Json(Context {
        session_id: id.to_string(),
        language: view.language,
        messages_in_context: view.messages_in_context,
        messages: view.messages.iter().map(|message| message.to_wire()).collect(),
        text: view.text,
    }))
}
