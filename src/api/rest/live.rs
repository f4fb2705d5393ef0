//! Sessions of visitors, addressed as `{tenant}:{session}`: ending them, moving them on, and counting them.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::sessions::{Deleted, SessionChange};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::identity::{AnySession, path::PathScope};
use crate::api::view::{SessionView, time};
use crate::live::LiveKey;
use crate::memory::ChannelTally;
use crate::period::Ttl;
use crate::session::{SessionEnd, SessionPatch};
use crate::store::live::Seen;
use crate::tenant::Right;

/// Where a session goes on.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::api) struct Transfer {
    /// What it is called from now on: `session` or `tenant:session`, of the same tenant.
    to: String,
    /// The channel it goes on in.
    channel: Option<String>,
    /// A new time to live: `24h`.
    #[schema(value_type = Option<String>)]
    ttl: Option<Ttl>,
}

/// What is left of a session that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct EndedView {
    /// `tenant:session`.
    id: String,
    /// `explicit`.
    reason: &'static str,
    created_at: String,
    last_accessed: String,
    /// How many messages were said in it.
    message_count: u64,
    /// The last of them.
    messages: Vec<EndedMessageView>,
    /// What is told of those before.
    summaries: Vec<EndedSummaryView>,
}

/// What is left of a session that has ended, durable or a visitor's.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum EndedAnswer {
    /// It stays as it is.
    Durable(Box<SessionView>),
    /// This is all there was.
    Live(EndedView),
}

/// A message of a session that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct EndedMessageView {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    content: String,
    created_at: String,
}

/// What is told of a part of it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct EndedSummaryView {
    from: String,
    to: String,
    text: String,
}

impl From<SessionEnd> for EndedView {
    fn from(end: SessionEnd) -> Self {
        let messages = end.messages.into_iter().map(|message| EndedMessageView {
            role: message.role.as_str(),
            name: message.name,
            content: message.content,
            created_at: time(message.created_at),
        });
        let summaries = end.summaries.into_iter();
        let summary = |told: crate::session::EndedSummary| EndedSummaryView {
            from: time(told.from),
            to: time(told.to),
            text: told.text,
        };
        Self {
            id: format!("{}:{}", end.tenant, end.session),
            reason: end.reason.as_str(),
            created_at: time(end.created_at),
            last_accessed: time(end.last_accessed),
            message_count: end.message_count,
            messages: messages.collect(),
            summaries: summaries.map(summary).collect(),
        }
    }
}

/// What was counted of a tenant's live sessions since the start.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Analytics {
    tenant_id: String,
    /// Sessions that are live now.
    live: usize,
    /// What they take.
    live_bytes: usize,
    channels: BTreeMap<String, ChannelView>,
}

/// What was counted of a channel.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ChannelView {
    /// Sessions that began.
    started: u64,
    /// Sessions that came here from another channel.
    transferred: u64,
    /// Sessions that ended, by reason: `ttl`, `cap`, `explicit`, `shutdown`.
    ended: BTreeMap<String, u64>,
    /// Messages of those that ended.
    messages: u64,
    /// Tokens of those that ended, as far as models counted.
    tokens: u64,
    /// How long those that ended were used, in seconds.
    seconds_mean: f64,
    seconds_max: u64,
    /// Questions, by how they were read.
    intents: BTreeMap<String, u64>,
    /// Questions, by the title of the tenant's document that they were about.
    topics: BTreeMap<String, u64>,
}

impl From<ChannelTally> for ChannelView {
    fn from(tally: ChannelTally) -> Self {
        let ended = tally.all_ended();
        let seconds_mean = if ended == 0 { 0.0 } else { tally.seconds as f64 / ended as f64 };
        let ChannelTally { started, ended, messages, tokens, seconds_max, intents, topics, transferred, .. } = tally;
        Self { started, transferred, ended, messages, tokens, seconds_mean, seconds_max, intents, topics }
    }
}

/// Lets a visitor's session go on under another name of the same tenant, as when a chat becomes a call.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/transfer",
    params(("id" = String, Path, description = "`tenant:session`")), request_body = Transfer,
    responses((status = 200, body = SessionView), (status = 404, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn transfer(
    State(app): State<App>,
    visitor: Visitor,
    session: AnySession,
    body: Body,
) -> Result<Json<SessionView>, ApiError> {
    let key = app.visited(&visitor, session).await?;
    let Transfer { to, channel, ttl } = app.read_json(&visitor, body).await?;
    let to = if to.contains(':') { to } else { format!("{}:{to}", key.tenant) };
    let to = PathScope::parse(&to)?.live().filter(|to| to.tenant == key.tenant).ok_or_else(|| {
        ApiError::bad_request("invalid_session_id", "Invalid session", "`to` must be a session of the same tenant")
    })?;
    let channel = channel.map(|channel| ("channel".to_owned(), Value::from(channel)));
    let patch = SessionPatch { metadata: channel.into_iter().collect(), ttl };
    let seen = app.memory.transfer_live(&key, &to, patch).await?;
    Ok(Json(app.live_view(&seen)))
}

/// What was counted of a tenant's live sessions since the start: how many, how long, by which channel. Numbers only.
#[utoipa::path(get, path = "/api/v1/analytics", responses((status = 200, body = Analytics)))]
pub(in crate::api) async fn analytics(State(app): State<App>, visitor: Visitor) -> Result<Json<Analytics>, ApiError> {
    let tenant = &visitor.access.tenant;
    let now = app.memory.live_count(Some(tenant)).await?;
    let channels = app.memory.live_tallies(tenant).await?;
    Ok(Json(Analytics {
        tenant_id: tenant.to_string(),
        live: now.sessions,
        live_bytes: now.bytes,
        channels: channels.into_iter().map(|(name, tally)| (name, tally.into())).collect(),
    }))
}

impl App {
    /// The visitor's session that is meant. A durable one is none; who may not see it is told that there is no such.
    async fn visited(&self, visitor: &Visitor, session: AnySession) -> Result<LiveKey, ApiError> {
        if let AnySession::Durable(id) = session {
            let scope = self.scope(visitor, None, Some(id))?;
            self.memory.session(&scope, id).await?;
        }
        session.live(visitor)
    }

    /// Ends a visitor's session at once. Answers what was left of it.
    pub(super) async fn end_live(&self, key: LiveKey) -> Result<EndedView, ApiError> {
        Ok(self.memory.end_session(&key).await?.into())
    }

    /// A visitor's session as clients see it.
    pub(in crate::api) fn live_view(&self, seen: &Seen) -> SessionView {
        SessionView::of_live(seen, self.memory.live_until(seen))
    }

    pub(super) async fn change_live(&self, key: &LiveKey, change: SessionChange) -> Result<SessionView, ApiError> {
        let SessionChange { metadata, ttl, .. } = change;
        let seen = self.memory.update_live(key, SessionPatch { metadata, ttl }).await?;
        Ok(self.live_view(&seen))
    }

    pub(super) async fn forget_live(&self, key: &LiveKey) -> Result<Json<Deleted>, ApiError> {
        Ok(Json(Deleted { turns_deleted: self.memory.forget_live(key).await?, receipt: None }))
    }

    /// Makes a visitor's session beforehand.
    pub(super) async fn begin_live(
        &self,
        visitor: &Visitor,
        id: &str,
        metadata: Map<String, Value>,
        ttl: Option<Ttl>,
    ) -> Result<SessionView, ApiError> {
        let key = self.live_in_body(visitor, id)?;
        let seed = crate::session::SessionSeed { metadata, ttl, ..Default::default() };
        Ok(self.live_view(&self.memory.begin_live(&key, seed).await?))
    }
}

/// Whether somebody may look at all sessions of a tenant's visitors.
pub(super) fn check_all(visitor: &Visitor) -> Result<(), ApiError> {
    visitor.access.check(Right::Admin)
}
