//! Everything a chat request under `/v1` says about itself beside its messages: who asks, in which
//! conversation, and whether it is the same request once more.
//!
//! In every row the first that says something wins, and empty is absent:
//!
//! | what | order |
//! | --- | --- |
//! | user | the one that the key speaks for; the signed token, and nothing else once its secret is set; `user_headers`; body `user_id`, `metadata.user_id`, `user`, `safety_identifier`, where the key vouches for them |
//! | session | a temporary chat anywhere; the path; `session_headers`; body `session_id`, `metadata.session_id` |

use axum::http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

use super::path::PathScope;
use super::{Rules, SESSION_HEADER, alone_in, filled_in, header, invalid, own_name};
use crate::api::App;
use crate::api::access::{Access, Visitor};
use crate::api::error::ApiError;
use crate::api::idempotency::IDEMPOTENCY_HEADER;
use crate::clock::Clock;
use crate::id::SessionId;
use crate::live::{LiveKey, LiveName};
use crate::mode::Mode;
use crate::scope::{Scope, Tenant, check_id};

const TASK_HEADER: HeaderName = HeaderName::from_static("x-recalld-task");
const MODE_HEADER: HeaderName = HeaderName::from_static("x-recalld-mode");
const ANSWER_HEADER: HeaderName = HeaderName::from_static("x-recalld-message-id");
const QUESTION_HEADER: HeaderName = HeaderName::from_static("x-recalld-user-message-id");
const RETRY_HEADER: HeaderName = HeaderName::from_static("x-stainless-retry-count");

/// Where a body may name the user, and where the conversation.
const USER_FIELDS: [&[&str]; 4] = [&["user_id"], &["metadata", "user_id"], &["user"], &["safety_identifier"]];
const SESSION_FIELDS: [&[&str]; 2] = [&["session_id"], &["metadata", "session_id"]];

/// How the ids of chats begin that Open WebUI does not keep, or that many people share.
const TEMPORARY: [&str; 3] = ["local:", "temporary:", "channel:"];

/// Who asks, where, and how.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::api) struct Caller {
    /// Whose memory it is, in the conversation that was named, else in `new_session`.
    pub(in crate::api) scope: Scope,
    /// Which conversation.
    pub(in crate::api) session: SessionChoice,
    /// The id of the conversation if a new one begins. It may stand for its user already.
    pub(in crate::api) new_session: SessionId,
    /// Whether somebody was named.
    pub(in crate::api) identified: bool,
    /// What the client calls this exchange.
    pub(in crate::api) ids: MessageIds,
    /// Whether the client says that it asks again.
    pub(in crate::api) marked_as_retry: bool,
    /// What memory is to do, if a header says so. A temporary chat is off, whatever this is.
    pub(in crate::api) mode: Option<Mode>,
    /// The client's word for its errand, for [`recognise_task`](crate::session::recognise_task).
    pub(in crate::api) task: Option<String>,
    /// Whether the user is known by nothing but the session.
    pub(in crate::api) alone: bool,
    /// The visitor's session, if it is one.
    pub(in crate::api) live: Option<LiveKey>,
}

/// Which conversation a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum SessionChoice {
    /// This one.
    Given(SessionId),
    /// One that must leave no trace.
    Temporary,
    /// Not said: to be found by its history, or new.
    None,
}

/// What the client calls an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::api) struct MessageIds {
    /// The answer to come; the same in every round of tools.
    pub(in crate::api) answer: Option<String>,
    /// The question; the same for every answer to it.
    pub(in crate::api) question: Option<String>,
    /// The request; the same when it is sent again.
    pub(in crate::api) idempotency_key: Option<String>,
}

/// Reads a mode, from a header or a body.
pub(in crate::api) fn mode(word: &str) -> Result<Mode, ApiError> {
    Mode::parse(word).ok_or_else(|| {
        let detail = "the mode must be `active`, `passive`, `read` or `off`";
        ApiError::bad_request("invalid_mode", "Invalid mode", detail)
    })
}

/// The mode that a request's header asks for.
pub(in crate::api) fn mode_header(headers: &HeaderMap) -> Result<Option<Mode>, ApiError> {
    header(headers, &MODE_HEADER)?.map(mode).transpose()
}

impl App {
    /// Reads who asks, where, and how. `path` is the default where the path has no scope; `body` is the
    /// request without what is known to be something else.
    pub(in crate::api) fn caller(
        &self,
        visitor: &Visitor,
        path: &PathScope,
        body: &Map<String, Value>,
    ) -> Result<Caller, ApiError> {
        let request = Request { headers: visitor, access: &visitor.access, path, body };
        self.doors.rules.caller(&request, self.clock(), self.memory.new_session_id())
    }
}

/// A request, as far as identity is concerned.
struct Request<'a> {
    headers: &'a HeaderMap,
    access: &'a Access,
    path: &'a PathScope,
    body: &'a Map<String, Value>,
}

impl Rules {
    fn caller(&self, request: &Request<'_>, clock: &dyn Clock, new_session: SessionId) -> Result<Caller, ApiError> {
        let Request { headers, access, path, body } = request;
        let session = self.session(request)?;
        let named = self.user(headers, access, || first_field(body, &USER_FIELDS), clock)?;
        let identified = named.is_some();
        // A visit is nobody's but its own: it neither sees nor changes what is known about a user.
        let alone = path.ephemeral.is_some() || !(identified || access.shares);
        let here = session.id().unwrap_or(new_session);
        let scope = if alone { None } else { self.scope(access, named, None) };
        Ok(Caller {
            scope: scope.unwrap_or_else(|| alone_in(access.tenant.clone(), here)),
            session,
            new_session,
            identified,
            ids: message_ids(headers)?,
            marked_as_retry: retries(headers) > 0,
            mode: mode_header(headers)?,
            task: filled_in(headers, &TASK_HEADER)?.map(str::to_owned),
            alone,
            live: path.ephemeral.as_ref().map(|name| live_key(access, name)),
        })
    }

    fn session(&self, request: &Request<'_>) -> Result<SessionChoice, ApiError> {
        let Request { headers, access, path, body } = request;
        if self.is_temporary(request) {
            return Ok(SessionChoice::Temporary);
        }
        if let Some(name) = &path.ephemeral {
            return Ok(SessionChoice::Given(live_key(access, name).id()));
        }
        for name in &self.session_headers {
            if let Some(id) = header_session(headers, name, &access.tenant)? {
                return Ok(SessionChoice::Given(id));
            }
        }
        match first_field(body, &SESSION_FIELDS)? {
            Some(text) => Ok(SessionChoice::Given(session_named(&text, &access.tenant)?)),
            None => Ok(SessionChoice::None),
        }
    }

    /// Looked for everywhere first: whoever asks for no trace must leave none, whatever else is sent.
    fn is_temporary(&self, request: &Request<'_>) -> bool {
        let sent = self.session_headers.iter().flat_map(|name| request.headers.get_all(name));
        let in_headers = sent.filter_map(|value| value.to_str().ok());
        let in_body = SESSION_FIELDS.iter().filter_map(|path| at(request.body, path)?.as_str());
        in_headers.chain(in_body).any(|id| TEMPORARY.iter().any(|prefix| id.trim_start().starts_with(prefix)))
    }
}

fn live_key(access: &Access, name: &LiveName) -> LiveKey {
    LiveKey { tenant: access.tenant.clone(), name: name.clone() }
}

impl SessionChoice {
    fn id(self) -> Option<SessionId> {
        match self {
            Self::Given(id) => Some(id),
            Self::Temporary | Self::None => None,
        }
    }
}

/// Our own header is strict, as on every door; what others call a conversation may be any text.
fn header_session(headers: &HeaderMap, name: &HeaderName, tenant: &Tenant) -> Result<Option<SessionId>, ApiError> {
    if *name == SESSION_HEADER {
        return super::session_header(headers);
    }
    filled_in(headers, name)?.map(|text| session_named(text, tenant)).transpose()
}

/// A UUID is itself; any other name has a UUID of its own in its tenant.
fn session_named(text: &str, tenant: &Tenant) -> Result<SessionId, ApiError> {
    check_id(text).map_err(|error| invalid("session_id", &error))?;
    Ok(SessionId::parse(text).unwrap_or_else(|| SessionId::named(tenant.as_str(), text)))
}

fn message_ids(headers: &HeaderMap) -> Result<MessageIds, ApiError> {
    Ok(MessageIds {
        answer: own_name(headers, &ANSWER_HEADER)?,
        question: own_name(headers, &QUESTION_HEADER)?,
        idempotency_key: own_name(headers, &IDEMPOTENCY_HEADER)?,
    })
}

/// How often the SDK says it has tried before.
fn retries(headers: &HeaderMap) -> u64 {
    headers.get(RETRY_HEADER).and_then(|value| value.to_str().ok()?.trim().parse().ok()).unwrap_or(0)
}

fn at<'a>(body: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(body.get(*first)?, |value, key| value.get(key))
}

/// What the first of these fields says that says anything.
fn first_field(body: &Map<String, Value>, paths: &[&[&str]]) -> Result<Option<String>, ApiError> {
    paths.iter().find_map(|path| field(body, path).transpose()).transpose()
}

/// A field's text; a number is as good.
fn field(body: &Map<String, Value>, path: &[&str]) -> Result<Option<String>, ApiError> {
    match at(body, path) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => {
            let name = path.join(".");
            Err(ApiError::bad_request("invalid_id", &format!("Invalid {name}"), format!("`{name}` must be text")))
        }
    }
}

#[cfg(test)]
mod tests;
