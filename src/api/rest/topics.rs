//! Topics: which there are, what was said in them, what people say about them.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::{ListQuery, UserQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::{AnySession, session_header};
use crate::api::params::Params;
use crate::api::view::{MessageView, TopicMessageView, TopicSeen, TopicStatsView};
use crate::id::TopicId;
use crate::review::{FoundTopic, ReviewError, TopicContext};
use crate::scope::Scope;
use crate::store::WhichTopics;
use crate::topic::Feedback;

/// Most topics that a search answers.
const FOUND: std::ops::RangeInclusive<usize> = 1..=50;
const FOUND_DEFAULT: usize = 10;

/// Which topics.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct TopicsQuery {
    /// Most items, 1 to 50; 20 if not given.
    limit: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// The user, when no header names one.
    user_id: Option<String>,
    /// `forgotten` lists forgotten topics, too; `fading` lists only those that the next clean-up forgets, in one page.
    include: Option<String>,
    /// Only topics with this tag.
    tag: Option<String>,
}

/// Which messages of a topic.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct HistoryQuery {
    /// Most items, 1 to 50; 20 if not given.
    limit: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// The user, when no header names one.
    user_id: Option<String>,
    /// `false` leaves out what is archived; `true` if not given.
    archived: Option<bool>,
}

/// A page of topics.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicList {
    topics: Vec<TopicSeen>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// A page of a topic's messages.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicMessages {
    messages: Vec<MessageView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// What the model would be told about a topic.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicContextView {
    topic_id: String,
    /// The summary as a system message, if there is one, then the last messages, in wire format.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
}

/// What is to change about a topic.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct TopicChange {
    /// A name, at most 80 characters.
    title: Option<String>,
    /// Its tags from now on, at most 20 of at most 40 characters.
    tags: Option<Vec<String>>,
    user_id: Option<String>,
}

/// Whether a topic was useful.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct TopicFeedback {
    useful: bool,
    user_id: Option<String>,
}

/// What to look for in all topics.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct TopicSearch {
    query: String,
    /// Most topics, 1 to 50; 10 if not given.
    limit: Option<usize>,
    user_id: Option<String>,
}

/// The topics that were found, best first.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicsFound {
    topics: Vec<TopicFound>,
}

/// A topic that was found, and by what.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TopicFound {
    #[serde(flatten)]
    topic: TopicSeen,
    /// Comparable within one answer only; null for a topic that was found by its tag.
    score: Option<f64>,
    messages: Vec<TopicMessageView>,
}

impl From<FoundTopic> for TopicFound {
    fn from(found: FoundTopic) -> Self {
        let messages = found.hits.into_iter().map(|(score, message)| TopicMessageView::of(message, score));
        Self { topic: found.view.into(), score: found.score.map(f64::from), messages: messages.collect() }
    }
}

fn topic_id(text: &str) -> Result<TopicId, ApiError> {
    let wrong = || ApiError::bad_request("invalid_topic_id", "Invalid topic id", "the topic id must be a valid UUID");
    TopicId::parse(text).ok_or_else(wrong)
}

/// Whose topics: a user known by nothing but their session is named by its header.
fn whose(app: &App, visitor: &Visitor, user_id: Option<&str>) -> Result<Scope, ApiError> {
    app.scope(visitor, user_id, session_header(visitor)?)
}

/// A user's topics, oldest first.
#[utoipa::path(get, path = "/api/v1/topics", params(TopicsQuery),
    responses((status = 200, body = TopicList), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<TopicsQuery>,
) -> Result<Json<TopicList>, ApiError> {
    let TopicsQuery { limit, after, user_id, include, tag } = query;
    let scope = whose(&app, &visitor, user_id.as_deref())?;
    if include.as_deref() == Some("fading") {
        let topics = app.memory.topics_to_forget(&scope).await?.into_iter().map(TopicSeen::from).collect();
        return Ok(Json(TopicList { topics, next: None }));
    }
    let list = ListQuery { limit, after, user_id, include };
    let (page, forgotten) = (list.part()?, list.includes("forgotten")?);
    let tag = tag.map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty());
    let which = WhichTopics { limit: page.limit, after: page.after, forgotten, tag };
    let page = app.memory.topics(&scope, which).await?;
    let topics = page.items.into_iter().map(TopicSeen::from).collect();
    Ok(Json(TopicList { topics, next: cursor(page.next) }))
}

/// What is told about a topic.
#[utoipa::path(get, path = "/api/v1/topics/{id}", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = TopicStatsView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<TopicStatsView>, ApiError> {
    let (id, scope) = (topic_id(&id)?, whose(&app, &visitor, query.user_id.as_deref())?);
    let (topic, stats) = app.memory.topic_stats(&scope, id).await?;
    Ok(Json(TopicStatsView::of(topic, stats)))
}

/// What is told about the topic that a session is in. A visitor's session has none.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/topic", params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = TopicStatsView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn of_session(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    Params(query): Params<UserQuery>,
) -> Result<Json<TopicStatsView>, ApiError> {
    let AnySession::Durable(id) = session else {
        let seen = app.memory.live_session(&session.live(&visitor)?).await?;
        return Err(ReviewError::NoTopic(seen.key.id()).into());
    };
    let scope = app.scope(&visitor, query.user_id.as_deref(), Some(id))?;
    let (topic, stats) = app.memory.session_topic(&scope, id).await?;
    Ok(Json(TopicStatsView::of(topic, stats)))
}

/// Changes what a topic is called, or its tags.
#[utoipa::path(patch, path = "/api/v1/topics/{id}", params(("id" = String, Path, description = "A UUID")),
    request_body = TopicChange, responses((status = 200, body = TopicSeen), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn update(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<TopicSeen>, ApiError> {
    let change: TopicChange = app.read_json(&visitor, body).await?;
    let (id, scope) = (topic_id(&id)?, whose(&app, &visitor, change.user_id.as_deref())?);
    let view = app.memory.update_topic(&scope, id, change.title, change.tags).await?;
    Ok(Json(view.into()))
}

/// Says whether a topic was useful: it lasts longer, or fades sooner.
#[utoipa::path(post, path = "/api/v1/topics/{id}/feedback", params(("id" = String, Path, description = "A UUID")),
    request_body = TopicFeedback, responses((status = 200, body = TopicSeen), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn feedback(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<TopicSeen>, ApiError> {
    let said: TopicFeedback = app.read_json(&visitor, body).await?;
    let (id, scope) = (topic_id(&id)?, whose(&app, &visitor, said.user_id.as_deref())?);
    let feedback = if said.useful { Feedback::Up } else { Feedback::Down };
    Ok(Json(app.memory.rate_topic(&scope, id, feedback).await?.into()))
}

/// Everything that was said in a topic, oldest first.
#[utoipa::path(get, path = "/api/v1/topics/{id}/messages",
    params(("id" = String, Path, description = "A UUID"), HistoryQuery),
    responses((status = 200, body = TopicMessages), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn messages(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<HistoryQuery>,
) -> Result<Json<TopicMessages>, ApiError> {
    let HistoryQuery { limit, after, user_id, archived } = query;
    let (id, scope) = (topic_id(&id)?, whose(&app, &visitor, user_id.as_deref())?);
    let list = ListQuery { limit, after, user_id, include: None };
    let page = app.memory.topic_messages(&scope, id, archived.unwrap_or(true), list.part()?).await?;
    let view = |found: crate::review::TopicMessage| MessageView::of(found.stored, &found.session.to_string());
    Ok(Json(TopicMessages { messages: page.items.into_iter().map(view).collect(), next: cursor(page.next) }))
}

/// What the model would be told about a topic.
#[utoipa::path(get, path = "/api/v1/topics/{id}/context",
    params(("id" = String, Path, description = "A UUID"), UserQuery),
    responses((status = 200, body = TopicContextView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn context(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
) -> Result<Json<TopicContextView>, ApiError> {
    let (id, scope) = (topic_id(&id)?, whose(&app, &visitor, query.user_id.as_deref())?);
    let TopicContext { topic, recent } = app.memory.topic_context(&scope, id).await?;
    let summary =
        topic.summary.map(|summary| json!({"role": "system", "content": format!("Topic summary: {summary}")}));
    let messages = summary.into_iter().chain(recent.iter().map(crate::message::Message::to_wire)).collect();
    Ok(Json(TopicContextView { topic_id: topic.id.to_string(), messages }))
}

/// Finds topics by what was said in them, and by their tags.
#[utoipa::path(post, path = "/api/v1/topics/search", request_body = TopicSearch,
    responses((status = 200, body = TopicsFound), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn search(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<Json<TopicsFound>, ApiError> {
    let search: TopicSearch = app.read_json(&visitor, body).await?;
    let scope = whose(&app, &visitor, search.user_id.as_deref())?;
    let limit = super::recall::within("limit", search.limit, FOUND)?.unwrap_or(FOUND_DEFAULT);
    let found = app.memory.search_topics(&scope, &search.query, limit).await?;
    Ok(Json(TopicsFound { topics: found.into_iter().map(TopicFound::from).collect() }))
}
