//! What conversations were summarised to, and making it now.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::ApiError;
use crate::api::params::Params;
use crate::api::view::time;
use crate::episode::Episode;
use crate::id::SessionId;
use crate::memory::Memory;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::tenant::Right;

/// How long a digest waits for jobs that somebody else does, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A stretch of a conversation, summarised.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct EpisodeView {
    id: String,
    session_id: String,
    /// `stretch` (turns that follow each other), `hour` or `session`.
    level: &'static str,
    /// The first and last turn it tells of.
    turn_first: u64,
    turn_last: u64,
    /// When those were opened.
    from: String,
    to: String,
    summary: String,
    /// Who summarised.
    made_by: String,
    /// Who made its vector, or null.
    embedder: Option<String>,
    /// How often it was made.
    version: u32,
}

impl From<Episode> for EpisodeView {
    fn from(episode: Episode) -> Self {
        Self {
            id: episode.id.to_string(),
            session_id: episode.session.to_string(),
            level: episode.level.as_str(),
            turn_first: episode.first,
            turn_last: episode.last,
            from: time(episode.from),
            to: time(episode.to),
            summary: episode.summary,
            made_by: episode.made_by,
            embedder: episode.vector.map(|vector| vector.embedder),
            version: episode.version,
        }
    }
}

/// Which session's episodes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct SessionQuery {
    /// One session, a UUID; all of the user's if not given.
    session: Option<String>,
}

/// A page of episodes.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct EpisodeList {
    episodes: Vec<EpisodeView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// A user's episodes in the order they were first made. They outlive turns that grow too old.
#[utoipa::path(get, path = "/api/v1/episodes", params(SessionQuery, ListQuery),
    responses((status = 200, body = EpisodeList)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(of): Params<SessionQuery>,
    Params(query): Params<ListQuery>,
) -> Result<Json<EpisodeList>, ApiError> {
    let session = of.session.as_deref().map(|id| SessionId::parse(id).ok_or_else(ApiError::invalid_session));
    let session = session.transpose()?;
    let scope = app.scope(&visitor, query.user_id.as_deref(), session)?;
    let page = app.memory.episodes(&scope, session, query.page()?).await?;
    let episodes = page.items.into_iter().map(EpisodeView::from).collect();
    Ok(Json(EpisodeList { episodes, next: cursor(page.next) }))
}

/// What to digest.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct DigestQuery {
    /// Whether what can be made again from turns is removed first.
    #[serde(default)]
    rebuild: bool,
    /// Whether all of it is done for everybody, not for one user.
    #[serde(default)]
    everyone: bool,
    /// The user, when no header names one.
    user_id: Option<String>,
}

/// What a digest came to.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct DigestReport {
    /// Episodes that were removed, to be made again.
    episodes_dropped: u64,
    /// Turns whose words were understood.
    turns_understood: u64,
    /// Jobs that were done, but for those that the server did meanwhile by itself, and tries that failed.
    jobs_done: u64,
    jobs_failed: u64,
    seconds: f64,
}

/// Understands what was said, puts topics in order and does a user's jobs, or everybody's, now, and says what they came to.
#[utoipa::path(post, path = "/api/v1/digest", params(DigestQuery), responses((status = 200, body = DigestReport)))]
pub(in crate::api) async fn digest(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<DigestQuery>,
) -> Result<Json<DigestReport>, ApiError> {
    let scope = match query.everyone {
        true => visitor.access.check(Right::Admin).map(|()| None)?,
        false => Some(app.scope(&visitor, query.user_id.as_deref(), None)?),
    };
    // In a task of its own: a client that leaves must not leave a job half done.
    let report = tokio::spawn(run(app.memory.clone(), scope, query.rebuild)).await.map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "digest_broke", "The digest broke off", error.to_string())
    })?;
    Ok(Json(report?))
}

async fn run(memory: Memory, scope: Option<Scope>, rebuild: bool) -> Result<DigestReport, StoreError> {
    let (started, scope) = (Instant::now(), scope.as_ref());
    let episodes_dropped = if rebuild { memory.digest_again(scope).await? } else { 0 };
    if rebuild {
        memory.learn_again(scope).await?;
    }
    let turns_understood = understand(&memory, scope).await?;
    while started.elapsed() < PATIENCE && !memory.tend_topics().await?.is_nothing() {}
    let before = failing(&memory, scope).await?;
    let mut ran = memory.run_jobs_of(scope).await?;
    while started.elapsed() < PATIENCE && others_work(&memory, scope).await? {
        tokio::time::sleep(LOOK_EVERY).await;
        let more = memory.run_jobs_of(scope).await?;
        (ran.done, ran.failed) = (ran.done + more.done, ran.failed + more.failed);
    }
    // What somebody else failed at meanwhile is told as well.
    let failed_meanwhile = failing(&memory, scope).await?.saturating_sub(before);
    Ok(DigestReport {
        episodes_dropped,
        turns_understood,
        jobs_done: ran.done,
        jobs_failed: ran.failed.max(failed_meanwhile),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Understands what was said, whoever said it, and counts the turns that were meant.
async fn understand(memory: &Memory, scope: Option<&Scope>) -> Result<u64, StoreError> {
    let mut understood = 0;
    loop {
        let whose = memory.learn_some().await?;
        if whose.is_empty() {
            return Ok(understood);
        }
        understood += whose.iter().filter(|whose| scope.is_none_or(|scope| scope == *whose)).count() as u64;
    }
}

/// Jobs that failed and wait for their next try, or for a person.
async fn failing(memory: &Memory, scope: Option<&Scope>) -> Result<u64, StoreError> {
    let jobs = memory.job_counts(scope).await?;
    Ok(jobs.failing + jobs.dead)
}

/// Whether a job is in the hands of somebody else, such as the server's own worker. What failed waits for its time.
async fn others_work(memory: &Memory, scope: Option<&Scope>) -> Result<bool, StoreError> {
    let jobs = memory.job_counts(scope).await?;
    Ok(jobs.running > 0 || jobs.queued > jobs.failing)
}
