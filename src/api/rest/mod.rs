//! `/api/v1`: looking at conversations, adding to them, removing them.

pub(super) mod backup;
pub(super) mod clarifications;
pub(super) mod cleanup;
pub(super) mod context;
pub(super) mod episodes;
pub(super) mod facts;
pub(super) mod forget;
pub(super) mod jobs;
pub(super) mod keys;
pub(super) mod knowledge;
pub(super) mod live;
pub(super) mod messages;
pub(super) mod recall;
pub(super) mod sessions;
pub(super) mod stats;
pub(super) mod takeout;
pub(super) mod tenants;
pub(super) mod topics;
pub(super) mod turns;
mod upload;
pub(super) mod webhooks;

use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::error::ApiError;
use crate::store::PageRequest;

/// Which part of a list, and whose.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Most items, 1 to 50; 20 if not given.
    limit: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// The user, when no header names one.
    user_id: Option<String>,
    /// `superseded` lists turns that an edit replaced, too.
    include: Option<String>,
}

const LIMIT_MAX: usize = 50;
const LIMIT_DEFAULT: usize = 20;

impl ListQuery {
    fn page(&self) -> Result<PageRequest, ApiError> {
        let superseded = self.includes("superseded")?;
        Ok(PageRequest { superseded, ..self.part()? })
    }

    /// Which part of the list, whatever is in it.
    fn part(&self) -> Result<PageRequest, ApiError> {
        let limit = match &self.limit {
            None => LIMIT_DEFAULT,
            Some(text) => text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)).ok_or_else(|| {
                let detail = format!("limit is `{text}`, it must be a whole number from 1 to {LIMIT_MAX}");
                ApiError::bad_request("invalid_limit", "Invalid limit", detail)
            })?,
        };
        let after = match self.after.as_deref().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                ApiError::bad_request("invalid_cursor", "Invalid cursor", "after must be the `next` of an earlier page")
            })?),
        };
        Ok(PageRequest { limit, after, superseded: false })
    }

    /// Whether what is left out by itself is asked for, by this word.
    fn includes(&self, what: &str) -> Result<bool, ApiError> {
        match self.include.as_deref() {
            None | Some("") => Ok(false),
            Some(asked) if asked == what => Ok(true),
            Some(other) => {
                let detail = format!("include is `{other}`, it can only be `{what}`");
                Err(ApiError::bad_request("invalid_include", "Invalid include", detail))
            }
        }
    }
}

/// Whose, for routes about one thing.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct UserQuery {
    /// The user, when no header names one.
    user_id: Option<String>,
}

/// A cursor as clients see it.
fn cursor(next: Option<u64>) -> Option<String> {
    next.map(|next| next.to_string())
}

/// How a session came: the door and the client.
pub(super) fn came_by(door: &str, headers: &HeaderMap) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("created_via".into(), door.into());
    if let Some(agent) = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()) {
        let agent: String = agent.chars().filter(|c| !c.is_control()).take(200).collect();
        metadata.insert("user_agent".into(), agent.into());
    }
    metadata
}
