//! Questions that wait for a choice.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ListQuery, UserQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::SessionPath;
use crate::api::params::Params;
use crate::api::view::ClarificationView;
use crate::clarify::ChoiceOption;
use crate::id::SessionId;

/// A question to somebody, with what there is to choose from.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::api) struct NewClarification {
    /// Whose; a header wins.
    user_id: Option<String>,
    /// The conversation, a UUID.
    session_id: String,
    /// What is asked, up to 500 characters.
    question: String,
    /// What there is to choose from, 2 to 20.
    options: Vec<NewOption>,
}

/// One of the things to choose from: its name, or its name and what is known of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum NewOption {
    /// Its name.
    Label(String),
    /// Its name, and what is known of it.
    Known {
        /// Its name, up to 200 characters.
        label: String,
        /// Colour, price: texts, numbers or yes and no, up to 16.
        #[serde(default)]
        #[schema(value_type = Object)]
        attributes: Map<String, Value>,
    },
}

/// A page of clarifications.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Clarifications {
    clarifications: Vec<ClarificationView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// That it is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Dropped {
    dropped: bool,
}

/// What waits for answers in a user's sessions, oldest first.
#[utoipa::path(get, path = "/api/v1/clarifications", params(ListQuery), responses((status = 200, body = Clarifications)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ListQuery>,
) -> Result<Json<Clarifications>, ApiError> {
    let scope = app.scope(&visitor, query.user_id.as_deref(), None)?;
    let page = app.memory.clarifications(&scope, query.part()?);
    let clarifications = page.items.into_iter().map(ClarificationView::from).collect();
    Ok(Json(Clarifications { clarifications, next: cursor(page.next) }))
}

/// Asks somebody to choose. Their next message in the session is read as an answer, if it is one. Takes the place of what
/// was open there.
#[utoipa::path(post, path = "/api/v1/clarifications", request_body = NewClarification,
    responses((status = 201, body = ClarificationView), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn ask(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<(StatusCode, Json<ClarificationView>), ApiError> {
    let new: NewClarification = app.read_json(&visitor, body).await?;
    let session = SessionId::parse(&new.session_id).ok_or_else(ApiError::invalid_session)?;
    let scope = app.scope(&visitor, new.user_id.as_deref(), Some(session))?;
    let options = new.options.into_iter().enumerate().map(|(at, option)| option_of(at, option));
    let options = options.collect::<Result<Vec<_>, _>>()?;
    let open = app.memory.ask_to_choose(&scope, session, &new.question, options)?;
    Ok((StatusCode::CREATED, Json(open.into())))
}

fn option_of(at: usize, option: NewOption) -> Result<ChoiceOption, ApiError> {
    let (label, attributes) = match option {
        NewOption::Label(label) => (label, Map::new()),
        NewOption::Known { label, attributes } => (label, attributes),
    };
    let attribute = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(_) | Value::Bool(_) => Ok((name, value.to_string())),
        _ => {
            let detail = format!("options[{at}].attributes.{name} must be a text, a number, true or false");
            Err(ApiError::bad_request("invalid_clarification", "Invalid clarification", detail))
        }
    };
    let attributes = attributes.into_iter().map(attribute).collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok(ChoiceOption { label, attributes })
}

/// What waits for an answer in a session.
#[utoipa::path(get, path = "/api/v1/clarifications/{id}",
    params(("id" = String, Path, description = "The session, a UUID"), UserQuery),
    responses((status = 200, body = ClarificationView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    SessionPath(id): SessionPath,
    Params(query): Params<UserQuery>,
) -> Result<Json<ClarificationView>, ApiError> {
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    Ok(Json(app.memory.clarification(&scope, id)?.into()))
}

/// Lets go of what waits for an answer in a session. Nothing that is remembered changes.
#[utoipa::path(delete, path = "/api/v1/clarifications/{id}",
    params(("id" = String, Path, description = "The session, a UUID"), UserQuery),
    responses((status = 200, body = Dropped), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn drop(
    State(app): State<App>,
    visitor: Visitor,
    SessionPath(id): SessionPath,
    Params(query): Params<UserQuery>,
) -> Result<Json<Dropped>, ApiError> {
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    app.memory.drop_clarification(&scope, id)?;
    Ok(Json(Dropped { dropped: true }))
}
