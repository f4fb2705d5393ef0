//! Work in the background: what waits, what failed and why.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::ApiError;
use crate::api::params::Params;
use crate::api::view::time;
use crate::id::JobId;
use crate::job::Job;
use crate::store::{JobCounts, UnusedAnswer};
use crate::tenant::Right;

/// Work for later.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct JobView {
    id: String,
    /// What is to be done: `consolidate` makes episodes of turns that left the window, `summarise` tells a topic on.
    kind: String,
    session_id: String,
    /// `queued`, `running` or `dead`: it failed too often and waits to be tried again by hand.
    state: &'static str,
    /// Tries so far.
    attempts: u32,
    /// When it is tried next, or when whoever does it is given up; null is at once.
    run_at: Option<String>,
    /// Why the last try failed.
    last_error: Option<String>,
    created_at: String,
}

impl From<Job> for JobView {
    fn from(job: Job) -> Self {
        Self {
            id: job.id.to_string(),
            kind: job.kind.to_string(),
            session_id: job.session.to_string(),
            state: job.state.as_str(),
            attempts: job.attempts,
            run_at: job.run_at.map(time),
            last_error: job.last_error,
            created_at: time(job.created_at),
        }
    }
}

/// A page of a user's jobs, and how many there are in all. What is done is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct JobList {
    jobs: Vec<JobView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
    counts: Counts,
}

/// How many jobs a user has.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Counts {
    /// They wait for their time.
    queued: u64,
    /// Of those, tried before without success.
    failing: u64,
    running: u64,
    /// They were given up.
    dead: u64,
}

impl From<JobCounts> for Counts {
    fn from(counts: JobCounts) -> Self {
        let JobCounts { queued, failing, running, dead, .. } = counts;
        Self { queued, failing, running, dead }
    }
}

/// A user's jobs, oldest first.
#[utoipa::path(get, path = "/api/v1/jobs", params(ListQuery), responses((status = 200, body = JobList)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ListQuery>,
) -> Result<Json<JobList>, ApiError> {
    let scope = app.scope(&visitor, query.user_id.as_deref(), None)?;
    let page = app.memory.jobs(&scope, query.page()?).await?;
    let counts = app.memory.job_counts(Some(&scope)).await?.into();
    Ok(Json(JobList { jobs: page.items.into_iter().map(JobView::from).collect(), next: cursor(page.next), counts }))
}

/// An answer of the memory model that could not be used.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct AnswerView {
    /// The conversation whose job asked.
    session_id: String,
    /// The topic it was about, or null.
    topic_id: Option<String>,
    /// What went wrong: `garbage`, `truncated`, …
    kind: String,
    /// The same in a sentence.
    reason: String,
    /// The answer as it came, or its beginning.
    answer: String,
    answered_at: String,
}

impl From<UnusedAnswer> for AnswerView {
    fn from(unused: UnusedAnswer) -> Self {
        Self {
            session_id: unused.session.to_string(),
            topic_id: unused.topic.map(|topic| topic.to_string()),
            kind: unused.kind,
            reason: unused.reason,
            answer: unused.answer,
            answered_at: time(unused.at),
        }
    }
}

/// A page of a user's answers that could not be used.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct AnswerList {
    answers: Vec<AnswerView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// Answers of the memory model that could not be used, oldest first; the newest 20 are kept. The built-in did the work.
#[utoipa::path(get, path = "/api/v1/jobs/answers", params(ListQuery), responses((status = 200, body = AnswerList)))]
pub(in crate::api) async fn answers(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ListQuery>,
) -> Result<Json<AnswerList>, ApiError> {
    let scope = app.scope(&visitor, query.user_id.as_deref(), None)?;
    let page = app.memory.unused_answers(&scope, query.page()?).await?;
    Ok(Json(AnswerList { answers: page.items.into_iter().map(AnswerView::from).collect(), next: cursor(page.next) }))
}

/// Which jobs to try again.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct RetryQuery {
    /// One job; all of the user's that failed if not given.
    id: Option<String>,
    /// Whether those of everybody are, not of one user.
    #[serde(default)]
    everyone: bool,
    /// The user, when no header names one.
    user_id: Option<String>,
}

/// How many are tried again.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Retried {
    jobs_retried: u64,
}

/// Tries jobs again that were given up, or wait for their next try.
#[utoipa::path(post, path = "/api/v1/jobs/retry", params(RetryQuery), responses((status = 200, body = Retried)))]
pub(in crate::api) async fn retry(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<RetryQuery>,
) -> Result<Json<Retried>, ApiError> {
    let scope = match query.everyone {
        true => visitor.access.check(Right::Admin).map(|()| None)?,
        false => Some(app.scope(&visitor, query.user_id.as_deref(), None)?),
    };
    let unreadable = || ApiError::bad_request("invalid_job", "Invalid job", "id must be the `id` of a job");
    let id = query.id.as_deref().map(|id| JobId::parse(id).ok_or_else(unreadable)).transpose()?;
    Ok(Json(Retried { jobs_retried: app.memory.retry_jobs(scope.as_ref(), id).await? }))
}
