//! Who is who: the one place where a request becomes a [`Scope`].

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use super::App;
use super::error::ApiError;
use crate::id::SessionId;
use crate::scope::{Scope, Tenant, User};

/// The session of a request and of its response.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("x-session-id");
/// The tenant, on doors without one in the path.
const TENANT_HEADER: HeaderName = HeaderName::from_static("x-tenant-id");
/// The user, in the order they are believed.
const USER_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-user-id"), HeaderName::from_static("x-openwebui-user-id")];

/// A header's text; empty is absent.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        ApiError::bad_request("invalid_header", "Invalid header", format!("`{name}` is not plain ASCII text"))
    })?;
    Ok(Some(text.trim()).filter(|text| !text.is_empty()))
}

/// The session a header names: strict, because a typing error must not begin a new conversation.
pub(super) fn session_header(headers: &HeaderMap) -> Result<Option<SessionId>, ApiError> {
    match header(headers, &SESSION_HEADER) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => SessionId::parse(text).map(Some).ok_or_else(ApiError::invalid_session),
        Err(_) => Err(ApiError::invalid_session()),
    }
}

/// The session in a path.
pub(super) struct SessionPath(pub(super) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // What is not even text is no UUID either.
        let text = Path::<String>::from_request_parts(parts, state).await.map_err(|_| ApiError::invalid_session())?;
        SessionId::parse(&text).map(Self).ok_or_else(ApiError::invalid_session)
    }
}

impl App {
    /// Whose memory a request is about. `given` is the user named in body or query; `session` is what
    /// stands for the user when nobody is named and sessions are kept apart.
    pub(super) fn scope(
        &self,
        headers: &HeaderMap,
        given: Option<&str>,
        session: Option<SessionId>,
    ) -> Result<Scope, ApiError> {
        let tenant = match header(headers, &TENANT_HEADER)? {
            Some(text) => Tenant::parse(text).map_err(|error| invalid("tenant", &error))?,
            None => Tenant::default(),
        };
        let mut named = None;
        for name in &USER_HEADERS {
            named = named.or(header(headers, name)?);
        }
        let named = named.or(given.filter(|text| !text.trim().is_empty()));
        let user = match (named, session) {
            (Some(text), _) => User::parse(text).map_err(|error| invalid("user_id", &error))?,
            (None, _) if self.doors.share_unidentified => User::anonymous(),
            (None, Some(session)) => User::of_session(session),
            (None, None) => {
                return Err(ApiError::bad_request(
                    "no_user",
                    "No user given",
                    "each session is a user of its own here (`unidentified`); name a user with X-User-ID",
                ));
            }
        };
        Ok(Scope::new(tenant, user))
    }
}

fn invalid(what: &str, error: &crate::scope::IdError) -> ApiError {
    ApiError::bad_request("invalid_id", &format!("Invalid {what}"), format!("{what} {error}"))
}
