//! `POST /chat`: a question in, an answer out, the conversation remembered.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::App;
use super::access::Visitor;
use super::error::{ApiError, ErrorView};
use super::headers::{STATUS_HEADER, TURN_HEADER, shown_headers, timing_header};
use super::idempotency::{self, IDEMPOTENCY_HEADER};
use super::identity::caller::mode_header;
use super::identity::{SESSION_HEADER, own_name, session_header};
use super::rest::came_by;
use super::view::{ChosenView, CitationView, ReminderView, millis};
use crate::id::{SessionId, TurnId};
use crate::mode::Mode;
use crate::scope::{Scope, User};
use crate::session::{RequestMark, SessionSeed};
use crate::tenant::Right;
use crate::turn::{Answer, RunningTurn, SearchResults, Shown, TurnError, TurnEvent, TurnRequest};

/// A question.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ChatRequest {
    /// What is asked.
    query: String,
    /// Who asks; a header wins.
    user_id: Option<String>,
    /// In which role, for the templates.
    role: Option<String>,
    /// The conversation. Anything but a UUID begins a new one; the header X-Session-ID wins.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    session_id: Value,
    /// Answer as server-sent events: `delta`, then `done` or `error`.
    #[serde(default)]
    stream: bool,
}

/// An answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChatResponse {
    query: String,
    message: String,
    /// The same text as `message`.
    answer: String,
    /// What was recalled for this question, oldest first.
    data: Vec<ReminderView>,
    /// `clarification`, `correction`, `follow_up`, `question`, `instruction` or `statement`.
    intent: &'static str,
    confidence: f64,
    session_id: String,
    /// What tenant knowledge the answer drew on.
    citations: Vec<CitationView>,
    metadata: ChatMetadata,
    error: Option<String>,
}

/// How an answer came about.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChatMetadata {
    session_id: String,
    turn_id: String,
    /// Null while the turn waits for the disk.
    turn_number: Option<u64>,
    /// How many earlier messages the model was shown.
    messages_in_context: usize,
    model: String,
    tokens_used: Option<u64>,
    /// What the intent was decided by.
    intent_decided_by: &'static str,
    /// What the question chose, if it answered an open clarification; else null.
    clarification: Option<ChosenView>,
    /// How the memory was searched; null where recall was late, failed or switched off.
    search_results: Option<SearchResultsView>,
    /// How many messages were recalled: those in `data`.
    recalled: usize,
    /// Tokens of what was recalled.
    recall_tokens: usize,
    /// How long that took.
    recall_ms: f64,
    /// `ok`, or `degraded` when part of the memory was missing or the turn waits for the disk.
    status: &'static str,
}

/// How the memory was searched for a question.
#[derive(Debug, Serialize, ToSchema)]
struct SearchResultsView {
    /// The question that was searched for: a follow-up as it was completed.
    query: String,
    /// Items that the model was shown.
    results_count: usize,
    /// Whether candidates were scored and put in order.
    reranked: bool,
    search_time_ms: f64,
}

impl From<SearchResults> for SearchResultsView {
    fn from(searched: SearchResults) -> Self {
        let SearchResults { query, results_count, reranked, search_time_ms } = searched;
        Self { query, results_count, reranked, search_time_ms }
    }
}

/// Asks a question in a conversation.
#[utoipa::path(post, path = "/chat", request_body = ChatRequest,
    params(("X-Session-ID" = Option<String>, Header, description = "The conversation, a UUID; a new one if not given"),
           ("X-User-ID" = Option<String>, Header, description = "Who asks"),
           ("X-Recalld-Mode" = Option<String>, Header, description = "`passive` recalls nothing from other conversations; `active` is usual")),
    responses((status = 200, body = ChatResponse), (status = 400, body = ErrorView), (status = 502, body = ErrorView)))]
pub(super) async fn chat(State(app): State<App>, visitor: Visitor, body: Body) -> Result<Response, ApiError> {
    // Every answer carries a session, errors too: the one that was named, else one that may be used next.
    let given = session_header(&visitor).map_err(|error| error.in_session(app.memory.new_session_id()))?;
    let session = given.unwrap_or_else(|| app.memory.new_session_id());
    if given.is_none() && app.doors.require_session_header {
        let detail = "send X-Session-ID with a UUID of your choice (`require_session_header` is set)";
        return Err(ApiError::bad_request("session_required", "X-Session-ID required", detail).in_session(session));
    }
    let read = app.read_json_and_bytes(&visitor, body).await.map_err(|error| error.in_session(session));
    let (asked, body): (ChatRequest, Bytes) = read?;
    let named = given.or_else(|| asked.session_id.as_str().and_then(SessionId::parse));
    // A new conversation has its id already, because it may have to stand for its user.
    let session = named.unwrap_or(session);
    let in_session = |error: ApiError| error.in_session(session);
    let scope = app.scope(&visitor, asked.user_id.as_deref(), Some(session)).map_err(in_session)?;
    let usual = app.memory.of(scope.tenant()).settings().mode;
    let mode = mode_of(&visitor, usual).map_err(in_session)?;
    let (session, mark) = keyed(&visitor, &scope, session, named, &body).map_err(in_session)?;
    let in_session = |error: ApiError| error.in_session(session);
    let request = TurnRequest {
        session: Some(session),
        seed: SessionSeed { metadata: came_by("chat", &visitor), ttl: None, ..SessionSeed::default() },
        query: asked.query.clone(),
        role: asked.role,
        stream: asked.stream,
        alone: !mode.injects(),
        request: mark,
    };
    let running = app.memory.take_turn(&scope, request).map_err(|error| in_session(error.into()))?;
    if visitor.access.rights.has(Right::Files) && matches!(mode, Mode::Active | Mode::Passive) {
        app.memory.learn_for_tenant(&scope.shared(), &asked.query);
    }
    if asked.stream { streamed(asked.query, running).await } else { whole(asked.query, running).await }
}

/// The mode of a question. `/chat` stores every turn, so modes that store nothing are refused.
fn mode_of(visitor: &Visitor, usual: Mode) -> Result<Mode, ApiError> {
    match mode_header(visitor)? {
        Some(mode) if !mode.records() => {
            let detail = "`/chat` stores every turn: send `active` or `passive`, or ask through /v1/chat/completions";
            Err(ApiError::bad_request("invalid_mode", "Invalid mode", detail))
        }
        mode => Ok(mode.unwrap_or(usual)),
    }
}

/// In which conversation a question is, and what its request is known by. A request with a key that names no conversation
/// begins the same one however often it is sent. A request that names neither a user nor a conversation is never given an
/// earlier one, whatever the key: another person could have sent it.
fn keyed(
    headers: &HeaderMap,
    scope: &Scope,
    session: SessionId,
    named: Option<SessionId>,
    body: &[u8],
) -> Result<(SessionId, Option<RequestMark>), ApiError> {
    let Some(key) = own_name(headers, &IDEMPOTENCY_HEADER)? else { return Ok((session, None)) };
    if named.is_none() && *scope.user() == User::of_session(session) {
        return Ok((session, None));
    }
    let begun = || SessionId::begun_by(scope.tenant().as_str(), scope.user().as_str(), &key);
    let session = named.unwrap_or_else(begun);
    let route = named.map_or_else(|| "chat".to_owned(), |session| format!("chat in {session}"));
    let mark = idempotency::mark(headers, scope, &route, body)?;
    Ok((session, mark))
}

/// The answer in one piece.
async fn whole(query: String, mut running: RunningTurn) -> Result<Response, ApiError> {
    let answered = running.answer().await;
    let (session, turn) = (running.session, running.turn);
    let answer = answered.map_err(|error| ApiError::from(error).in_session(session))?;
    let (shown, status, store_time) = (answer.shown, answer.health.as_str(), answer.store_time);
    let mut response = Json(view(query, session, turn, answer)).into_response();
    mark(&mut response, session, turn);
    shown_headers(response.headers_mut(), shown);
    response.headers_mut().insert(STATUS_HEADER, HeaderValue::from_static(status));
    timing_header(response.headers_mut(), shown.recall_time, Some(store_time));
    Ok(response)
}

/// The answer as it comes. The head leaves with the first piece, so that what fails before it gets its
/// status; `done` leaves after the turn is on disk.
async fn streamed(query: String, mut running: RunningTurn) -> Result<Response, ApiError> {
    let mut shown = Shown::default();
    let first = loop {
        match running.next().await.unwrap_or(TurnEvent::Failed(TurnError::Stopping)) {
            TurnEvent::IsTurn(..) => {}
            TurnEvent::Reminded(with) => shown = with,
            TurnEvent::Failed(error) => return Err(ApiError::from(error).in_session(running.session)),
            event => break event,
        }
    };
    let (session, turn) = (running.session, running.turn);
    let events = stream::unfold((Some(first), running), move |(first, mut running)| {
        let query = query.clone();
        async move {
            let event = match first {
                Some(event) => event,
                None => running.next().await?,
            };
            let frame = match event {
                TurnEvent::IsTurn(..) | TurnEvent::Reminded(_) => Bytes::new(),
                TurnEvent::Piece(text) => frame("delta", &serde_json::json!({ "text": text })),
                TurnEvent::Done(answer) => frame("done", &view(query, session, turn, *answer)),
                TurnEvent::Failed(error) => frame("error", &ApiError::from(error).view()),
            };
            Some((Ok::<_, Infallible>(frame), (None, running)))
        }
    });
    let mut response = Body::from_stream(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    mark(&mut response, session, turn);
    shown_headers(response.headers_mut(), shown);
    timing_header(response.headers_mut(), shown.recall_time, None);
    Ok(response)
}

fn frame(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("our own structs with string keys always serialise");
    format!("event: {event}\ndata: {data}\n\n").into()
}

fn mark(response: &mut Response, session: SessionId, turn: TurnId) {
    let value = |text: String| HeaderValue::try_from(text).expect("a UUID is a valid header value");
    response.headers_mut().insert(SESSION_HEADER, value(session.to_string()));
    response.headers_mut().insert(TURN_HEADER, value(turn.to_string()));
}

fn view(query: String, session: SessionId, turn: TurnId, answer: Answer) -> ChatResponse {
    let recalled = answer.reminders.len();
    ChatResponse {
        query,
        message: answer.text.clone(),
        answer: answer.text,
        data: answer.reminders.into_iter().map(ReminderView::from).collect(),
        intent: answer.intent.name,
        confidence: answer.intent.confidence,
        session_id: session.to_string(),
        citations: answer.citations.into_iter().map(CitationView::from).collect(),
        metadata: ChatMetadata {
            session_id: session.to_string(),
            turn_id: turn.to_string(),
            turn_number: answer.number,
            messages_in_context: answer.messages_in_context,
            model: answer.model,
            tokens_used: answer.tokens_used,
            intent_decided_by: answer.intent.decided_by,
            clarification: answer.clarification.map(ChosenView::from),
            search_results: answer.searched.map(SearchResultsView::from),
            recalled,
            recall_tokens: answer.shown.tokens,
            recall_ms: millis(answer.shown.recall_time),
            status: answer.health.as_str(),
        },
        error: None,
    }
}
