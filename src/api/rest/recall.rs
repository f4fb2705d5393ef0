//! What would be recalled for a question, and what was recalled for a turn.

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::UserQuery;
use super::turns::turn_id;
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::{AnySession, session_header};
use crate::api::params::Params;
use crate::api::view::{AsideView, CandidateView, ReminderView, millis};
use crate::id::SessionId;
use crate::language::when;
use crate::memory::MemorySettings;
use crate::recall::{Ask, Profile};
use crate::session::check_text;
use crate::turn::Explained;

/// Bounds of what may be asked for.
const TOKENS: std::ops::RangeInclusive<usize> = 16..=100_000;
const LIMIT: std::ops::RangeInclusive<usize> = 1..=200;

/// What is to be recalled.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct RecallRequest {
    question: String,
    /// The running conversation, for what a follow-up refers to.
    session_id: Option<String>,
    /// Nothing that was said before this: a time (RFC 3339) or a day, which means its beginning.
    from: Option<String>,
    /// Nothing that was said at this time or later.
    to: Option<String>,
    /// Tokens the text may take, 16 to 100000; the setting `recall_tokens` if not given.
    tokens: Option<usize>,
    /// Most messages to find, 1 to 200; replies and neighbours come with them.
    limit: Option<usize>,
    /// `people`, `assistant` or `mixed`; told by who speaks if not given.
    profile: Option<String>,
    /// The asker's time zone, for "yesterday": an IANA name or an offset; the setting `time_zone` if not given.
    time_zone: Option<String>,
    /// Say for every message and summary that was found how it was judged.
    #[serde(default)]
    explain: bool,
    /// Whose memory; a header wins.
    user_id: Option<String>,
}

/// What was recalled.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct RecallView {
    /// As a model would be shown it; empty when nothing was found.
    text: String,
    tokens: usize,
    reminders: Vec<ReminderView>,
    /// What the text holds beside messages: summaries, and whatever is always told. With `explain` all that was
    /// considered.
    asides: Vec<AsideView>,
    /// Every message that was found, best first; only with `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<Vec<CandidateView>>,
    /// The question that was searched for, when it was completed from the conversation.
    completed: Option<String>,
    /// The kind of chat that was assumed.
    profile: Option<&'static str>,
    /// Whether vectors took part.
    with_vectors: bool,
    /// How many messages were searched.
    searched: usize,
    took_ms: f64,
}

/// What would be recalled for a question.
#[utoipa::path(post, path = "/api/v1/recall", request_body = RecallRequest,
    params(("X-User-ID" = Option<String>, Header, description = "Whose memory")),
    responses((status = 200, body = RecallView), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn recall(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<Json<RecallView>, ApiError> {
    let request: RecallRequest = app.read_json(&visitor, body).await?;
    let session = session(&request)?;
    let scope = app.scope(&visitor, request.user_id.as_deref(), session)?;
    let ask = read(&request, session, app.memory.of(scope.tenant()).settings())?;
    let started = Instant::now();
    let explained = app.memory.explain(&scope, ask).await?;
    Ok(Json(view(explained, request.explain, millis(started.elapsed()))))
}

/// Where a visitor's turn is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct VisitQuery {
    /// `tenant:session`, for a turn of a visitor's; the tenant must be named in X-Tenant-ID as well.
    session: Option<String>,
}

/// What was recalled for a turn and why, as it was when the turn was taken.
#[utoipa::path(get, path = "/api/v1/turns/{id}/context",
    params(("id" = String, Path, description = "A UUID"), UserQuery, VisitQuery),
    responses((status = 200, body = Object), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn turn_context(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<UserQuery>,
    Params(visit): Params<VisitQuery>,
) -> Result<Json<Value>, ApiError> {
    let id = turn_id(&id)?;
    let found = match visit.session {
        Some(session) => app.memory.live_trace(&AnySession::parse(&session)?.live(&visitor)?, id).await?,
        None => {
            let scope = app.scope(&visitor, query.user_id.as_deref(), session_header(&visitor)?)?;
            app.memory.turn_context(&scope, id).await?
        }
    };
    found.map(Json).ok_or_else(|| {
        let detail = format!(
            "nothing is kept about what was recalled for turn {id}: it was added without asking a model, memory was \
             not to remind (`passive`), recall was late, or it is too long ago"
        );
        ApiError::new(StatusCode::NOT_FOUND, "no_trace", "No trace of this turn", detail)
    })
}

fn session(request: &RecallRequest) -> Result<Option<SessionId>, ApiError> {
    let given = request.session_id.as_deref().filter(|text| !text.trim().is_empty());
    given.map(|text| SessionId::parse(text).ok_or_else(ApiError::invalid_session)).transpose()
}

fn read(request: &RecallRequest, session: Option<SessionId>, settings: &MemorySettings) -> Result<Ask, ApiError> {
    check_text(&request.question, settings.query_chars_max).map_err(|reason| ApiError::text("question", &reason))?;
    let zone = match request.time_zone.as_deref() {
        None => settings.zone.clone(),
        Some(name) => when::zone(name).ok_or_else(|| {
            let detail = format!(
                "time_zone is `{name}`, it must be a name such as Europe/Amsterdam or an offset such as +02:00"
            );
            ApiError::bad_request("invalid_time_zone", "Invalid time zone", detail)
        })?,
    };
    let from = moment("from", request.from.as_deref(), &zone)?;
    let to = moment("to", request.to.as_deref(), &zone)?;
    if let (Some(from), Some(to)) = (from, to)
        && to <= from
    {
        return Err(ApiError::bad_request("invalid_range", "Invalid range", "`to` must be later than `from`"));
    }
    Ok(Ask {
        question: request.question.clone(),
        session,
        zone: Some(zone),
        from,
        to,
        tokens_max: within("tokens", request.tokens, TOKENS)?.unwrap_or(settings.recall.tokens_max),
        profile: request.profile.as_deref().map(profile).transpose()?.flatten(),
        ranked_max: within("limit", request.limit, LIMIT)?.unwrap_or(0),
        ..Ask::default()
    })
}

/// A time, or the beginning of a day.
fn moment(field: &str, text: Option<&str>, zone: &TimeZone) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    let day = || text.parse::<Date>().ok()?.to_zoned(zone.clone()).ok();
    let at = text.parse().ok().or_else(|| day().map(|day| day.timestamp()));
    at.map(Some).ok_or_else(|| {
        let detail =
            format!("{field} is `{text}`, it must be a time such as 2026-05-07T09:30:00Z or a day such as 2026-05-07");
        ApiError::bad_request("invalid_time", "Invalid time", detail)
    })
}

pub(super) fn within(
    field: &str,
    number: Option<usize>,
    allowed: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, ApiError> {
    match number {
        Some(number) if !allowed.contains(&number) => {
            let detail = format!("{field} is {number}, it must be from {} to {}", allowed.start(), allowed.end());
            Err(ApiError::bad_request("invalid_number", "Invalid number", detail))
        }
        number => Ok(number),
    }
}

fn profile(word: &str) -> Result<Option<Profile>, ApiError> {
    if word == "auto" {
        return Ok(None);
    }
    Profile::ALL.into_iter().find(|profile| profile.as_str() == word).map(Some).ok_or_else(|| {
        let detail = format!("profile is `{word}`, it must be people, assistant, mixed or auto");
        ApiError::bad_request("invalid_profile", "Invalid profile", detail)
    })
}

fn view(explained: Explained, explain: bool, took_ms: f64) -> RecallView {
    let Explained { recalled, found } = explained;
    let candidates = recalled.ranked.iter().map(|ranked| CandidateView::of(ranked, found.get(&ranked.message)));
    RecallView {
        candidates: explain.then(|| candidates.collect()),
        text: recalled.text,
        tokens: recalled.tokens,
        reminders: recalled.reminders.into_iter().map(ReminderView::from).collect(),
        asides: recalled.asides.into_iter().filter(|aside| explain || aside.is_kept()).map(AsideView::from).collect(),
        completed: recalled.completed,
        profile: recalled.profile.map(|profile| profile.as_str()),
        with_vectors: recalled.with_vectors,
        searched: recalled.searched,
        took_ms,
    }
}
