//! Messages of a session.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
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
use crate::api::identity::AnySession;
use crate::api::params::Params;
use crate::api::view::{MessageView, TurnView};
use crate::message::Message;
use crate::session::AddedMessage;

/// A message to add: the wire format of chat models, and when it was said.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::api) struct NewMessage {
    /// `user`, `assistant`, `system` or `tool`.
    role: String,
    /// Text, or parts.
    #[schema(value_type = Object)]
    content: Option<Value>,
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// When it was said; now if not given.
    #[schema(value_type = Option<String>)]
    created_at: Option<Timestamp>,
    /// `name`, `tool_calls`, `tool_call_id` and whatever else belongs to it.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    rest: Map<String, Value>,
}

/// A page of messages.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Messages {
    messages: Vec<MessageView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// The turns that added messages became or joined.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Added {
    turns: Vec<TurnView>,
}

/// A session's messages, oldest first.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/messages",
    params(("id" = String, Path, description = "A UUID"), ListQuery),
    responses((status = 200, body = Messages), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<ListQuery>,
) -> Result<Json<Messages>, ApiError> {
    let AnySession::Durable(id) = session else {
        let key = session.live(&visitor)?;
        let page = app.memory.live_messages(&key, query.page()?).await?;
        let messages = page.items.into_iter().map(|message| MessageView::of(message, &key.to_string())).collect();
        return Ok(Json(Messages { messages, next: cursor(page.next) }));
    };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let page = app.memory.messages(&scope, id, query.page()?).await?;
    let session = id.to_string();
    let messages = page.items.into_iter().map(|message| MessageView::of(message, &session)).collect();
    Ok(Json(Messages { messages, next: cursor(page.next) }))
}

/// Adds messages without asking a model. A user's message opens a turn, the others join it.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/messages",
    params(("id" = String, Path, description = "A UUID"), UserQuery), request_body = Vec<NewMessage>,
    responses((status = 201, body = Added), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn add(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<UserQuery>,
    body: Body,
) -> Result<(StatusCode, Json<Added>), ApiError> {
    let (new, body): (Vec<NewMessage>, _) = app.read_json_and_bytes(&visitor, body).await?;
    let messages = new.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let AnySession::Durable(id) = session else {
        let key = session.live(&visitor)?;
        idempotency::refuse(&visitor, NOT_OF_A_VISIT)?;
        let turns = app.memory.add_live_messages(&key, messages).await?;
        let turns = turns.into_iter().map(|turn| TurnView::of_live(turn, &key)).collect();
        return Ok((StatusCode::CREATED, Json(Added { turns })));
    };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let turns = match idempotency::mark(&visitor, &scope, &format!("messages of {id}"), &body)? {
        Some(request) => app.memory.add_messages_once(&scope, id, messages, &request).await?,
        None => app.memory.add_messages(&scope, id, messages).await?,
    };
    let turns = turns.into_iter().map(|turn| TurnView::of(turn, &scope)).collect();
    Ok((StatusCode::CREATED, Json(Added { turns })))
}

fn read((n, new): (usize, NewMessage)) -> Result<AddedMessage, ApiError> {
    let NewMessage { role, content, metadata, created_at, rest } = new;
    let mut wire = Map::new();
    wire.insert("role".into(), role.as_str().into());
    wire.extend(rest);
    wire.insert("content".into(), content.unwrap_or(Value::Null));
    // The store says when, unless the caller does.
    let at = created_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let mut message = Message::from_wire(Value::Object(wire), at).ok_or_else(|| {
        let detail = format!("message {n} has the role `{role}`; it must be user, assistant, system or tool");
        ApiError::bad_request("invalid_role", "Invalid role", detail)
    })?;
    message.metadata = metadata;
    Ok(AddedMessage { message, dated: created_at.is_some() })
}
