//! What the model would be shown.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::AnySession;
use crate::api::params::Params;
use crate::recall::{Aside, AsideSource};

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
    /// What is told of the turns before them, oldest first: much of the newest, little of the oldest.
    summaries: Vec<SummaryView>,
    /// The question as it is searched for: a follow-up with what it refers to. Null without a question, and in ephemeral sessions.
    resolved_query: Option<String>,
    /// What would be recalled for the question and shown beside the messages. Null likewise.
    recalled: Option<String>,
}

/// What is told of some turns.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct SummaryView {
    /// The episode it is from; it may be told shorter here.
    episode_id: String,
    /// `stretch`, `hour` or `session`.
    level: &'static str,
    turn_first: u64,
    turn_last: u64,
    text: String,
}

impl SummaryView {
    fn of(aside: Aside) -> Option<Self> {
        let AsideSource::Episode { id, level, first, last, .. } = aside.source else { return None };
        let (episode_id, level) = (id.to_string(), level.as_str());
        Some(Self { episode_id, level, turn_first: first, turn_last: last, text: aside.text.to_string() })
    }
}

/// What the model would be shown for a question in this session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/context",
    params(("id" = String, Path, description = "A UUID"), ContextQuery),
    responses((status = 200, body = Context), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<ContextQuery>,
) -> Result<Json<Context>, ApiError> {
    let (session_id, view) = match session {
        AnySession::Durable(id) => {
            let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
            (id.to_string(), app.memory.context(&scope, id, query.query.as_deref()).await?)
        }
        AnySession::Live(_) => {
            let key = session.live(&visitor)?;
            (key.to_string(), app.memory.live_context(&key, query.query.as_deref()).await?)
        }
    };
    let (resolved_query, recalled) = view.recalled.map(|recalled| (recalled.resolved_query, recalled.text)).unzip();
    Ok(Json(Context {
        session_id,
        resolved_query,
        recalled,
        language: view.language,
        messages_in_context: view.messages_in_context,
        messages: view.messages.iter().map(|message| message.to_wire()).collect(),
        text: view.text,
        summaries: view.summaries.into_iter().filter_map(SummaryView::of).collect(),
    }))
}
