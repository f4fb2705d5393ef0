//! What there is, counted.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::UserQuery;
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::ApiError;
use crate::api::params::Params;
use crate::fact::Status;
use crate::memory::AskingSettings;
use crate::scope::User;
use crate::store::{DaySpent, FactCounts, JobCounts, Stats};
use crate::tenant::Right;

/// Counts of a user, and of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct StatsView {
    /// The user's sessions.
    sessions: u64,
    /// Turns in them.
    turns: u64,
    /// Size of the data file, all users together. This and what else concerns everybody is null for keys without the right
    /// `admin`.
    data_bytes: Option<u64>,
    /// Turns that wait for the disk.
    waiting_turns: usize,
    /// Requests of conversations under `/v1` since the start, and those that named no session or no user.
    chat_requests: Option<u64>,
    without_session: Option<u64>,
    without_user: Option<u64>,
    /// Those that were to leave no trace (mode `off`, temporary chats), and requests under `/v1` that let a model generate
    /// something and are no chat completions: nothing of them is remembered.
    chats_without_memory: Option<u64>,
    generated_without_memory: Option<u64>,
    /// Jobs of everybody that wait, of those the ones that failed before, and those that were given up.
    jobs_queued: Option<u64>,
    jobs_failing: Option<u64>,
    jobs_dead: Option<u64>,
    /// Why the last that failed did: of everybody's for keys with the right `admin`, else of the user's own.
    jobs_last_error: Option<String>,
    /// Webhooks of everybody that are yet to be delivered, of those the ones that failed before, and those that were given up.
    webhooks_queued: Option<u64>,
    webhooks_failing: Option<u64>,
    webhooks_dead: Option<u64>,
    /// Why the last of those that failed did.
    webhooks_last_error: Option<String>,
    /// Live sessions that were lost with the Redis that held them, since the start.
    live_sessions_lost: Option<u64>,
    /// What is known about the user, and what waits for somebody to look at it.
    facts: u64,
    facts_quarantined: u64,
    /// What looked like a fact and was none, by reason.
    facts_refused: BTreeMap<String, u64>,
    /// Turns of everybody that are yet to be looked at for facts.
    turns_to_understand: Option<u64>,
    /// Who answers.
    model: String,
    /// Who summarises in the background.
    memory_model: String,
    /// What that cost the tenant today, in UTC.
    memory_today: MemoryToday,
    version: &'static str,
    uptime_seconds: u64,
}

/// What the memory model cost a tenant today; all zeroes while the built-in summarises.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct MemoryToday {
    calls: u64,
    tokens: u64,
    /// Tasks that came to nothing, and how the last of them did: `busy`, `timeout`, `garbage`, …
    failures: u64,
    last_failure: Option<String>,
    /// What the built-in did in its place, and how much of that because a bound was reached.
    fallbacks: u64,
    capped: u64,
    /// The bounds of a day; 0 is none.
    calls_max: u64,
    tokens_max: u64,
}

impl MemoryToday {
    fn of(spent: DaySpent, bounds: AskingSettings) -> Self {
        let DaySpent { calls, tokens, failures, fallbacks, capped, last_failure } = spent;
        let (calls_max, tokens_max) = (bounds.calls_per_day, bounds.tokens_per_day);
        Self { calls, tokens, failures, last_failure, fallbacks, capped, calls_max, tokens_max }
    }
}

/// Counts of a user, and of the server.
#[utoipa::path(get, path = "/api/v1/stats", params(UserQuery), responses((status = 200, body = StatsView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<UserQuery>,
) -> Result<Json<StatsView>, ApiError> {
    let named = query.user_id.as_deref().unwrap_or(User::ANONYMOUS);
    let scope = app.scope(&visitor, Some(named), None);
    // A key that speaks for nobody has nothing of its own to count.
    let scope = if visitor.access.trust_identity { Some(scope?) } else { scope.ok() };
    let (stats, own, facts, spent) = match &scope {
        Some(scope) => (
            app.memory.stats(scope).await?,
            app.memory.job_counts(Some(scope)).await?,
            app.memory.fact_counts(scope).await?,
            app.memory.spent_today(scope).await?,
        ),
        None => (Stats::default(), JobCounts::default(), FactCounts::default(), DaySpent::default()),
    };
    let jobs = app.memory.job_counts(None).await?;
    let webhooks = app.memory.webhook_counts(None).await?;
    let meters = app.memory.meters();
    let of_all = |count: u64| visitor.access.rights.has(Right::Admin).then_some(count);
    Ok(Json(StatsView {
        sessions: stats.sessions,
        turns: stats.turns,
        data_bytes: of_all(stats.bytes),
        waiting_turns: (app.doors.store)().waiting,
        chat_requests: of_all(meters.chat_requests.get()),
        without_session: of_all(meters.without_session.get()),
        without_user: of_all(meters.without_user.get()),
        chats_without_memory: of_all(meters.chats_without_memory.get()),
        generated_without_memory: of_all(meters.generated_without_memory.get()),
        jobs_queued: of_all(jobs.queued),
        jobs_failing: of_all(jobs.failing),
        jobs_dead: of_all(jobs.dead),
        jobs_last_error: if visitor.access.rights.has(Right::Admin) { jobs.last_error } else { own.last_error },
        webhooks_queued: of_all(webhooks.queued),
        webhooks_failing: of_all(webhooks.failing),
        webhooks_dead: of_all(webhooks.dead),
        webhooks_last_error: webhooks.last_error.filter(|_| visitor.access.rights.has(Right::Admin)),
        live_sessions_lost: of_all(meters.live_lost.get()),
        facts: facts.with_status(Status::Active),
        facts_quarantined: facts.with_status(Status::Quarantined),
        turns_to_understand: of_all(facts.waiting),
        facts_refused: facts.refused.into_iter().collect(),
        model: app.memory.of(&visitor.access.tenant).model_name().to_owned(),
        memory_model: app.memory.summariser_name().to_owned(),
        memory_today: MemoryToday::of(spent, app.memory.settings().asking),
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: app.doors.started.elapsed().as_secs(),
    }))
}
