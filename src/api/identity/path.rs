//! Scopes in paths: `/v1/{tenant}/…` and `/v1/{tenant}:{session}/…`.

use percent_encoding::percent_decode_str;

use super::invalid;
use crate::api::error::ApiError;
use crate::live::{LiveKey, LiveName};
use crate::scope::Tenant;

/// What a path says about whose memory it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::api) struct PathScope {
    /// The tenant, if it names one.
    pub(in crate::api) tenant: Option<Tenant>,
    /// A session that lives for a while, apart from everything durable.
    pub(in crate::api) ephemeral: Option<LiveName>,
}

/// Reads a segment as it stands in the URL. It is percent-decoded here, and only once; who has it decoded
/// already (axum's `Path` does that) takes [`PathScope::parse`].
pub(in crate::api) fn path_scope(segment: &str) -> Result<PathScope, ApiError> {
    match percent_decode_str(segment).decode_utf8() {
        Ok(text) => PathScope::parse(&text),
        Err(_) => Err(ApiError::bad_request("invalid_id", "Invalid path", "the scope in the path is not UTF-8 text")),
    }
}

impl PathScope {
    /// The visitor's session, if it names one.
    pub(in crate::api) fn live(self) -> Option<LiveKey> {
        Some(LiveKey { tenant: self.tenant?, name: self.ephemeral? })
    }

    /// Reads `tenant` or `tenant:session`.
    pub(in crate::api) fn parse(text: &str) -> Result<Self, ApiError> {
        let (tenant, session) = match text.split_once(':') {
            Some((tenant, session)) => (tenant, Some(session)),
            None => (text, None),
        };
        let tenant = Tenant::parse(tenant).map_err(|error| invalid("tenant", &error))?;
        let ephemeral = session.map(session_name).transpose()?;
        Ok(Self { tenant: Some(tenant), ephemeral })
    }
}

/// The tenant in a path about a visitor's session: `/api/v1/sessions/{tenant}:{session}…`.
pub(in crate::api) fn visited_tenant(path: &str) -> Option<Tenant> {
    let segment = path.strip_prefix("/api/v1/sessions/")?.split('/').next()?;
    path_scope(segment).ok()?.live().map(|key| key.tenant)
}

fn session_name(text: &str) -> Result<LiveName, ApiError> {
    LiveName::parse(text).map_err(|error| {
        let detail = format!("the session in the path (after the colon) {error}");
        ApiError::bad_request("invalid_session_id", "Invalid session in path", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(segment: &str, tenant: &str, session: Option<&str>) {
        let found = path_scope(segment).expect(segment);
        assert_eq!(
            (found.tenant.as_ref().map(Tenant::as_str), found.ephemeral.as_ref().map(LiveName::as_str)),
            (Some(tenant), session),
            "{segment}"
        );
    }

    #[test]
    fn the_tenant_ends_at_the_first_colon() {
        check("acme", "acme", None);
        check("acme:visit-7", "acme", Some("visit-7"));
        check("acme%3Avisit-7", "acme", Some("visit-7"));
        check("acme:ann+test@example.org", "acme", Some("ann+test@example.org"));
        check("caf%C3%A9:b%C3%A9b%C3%A9_1.2", "café", Some("bébé_1.2"));
        check(&format!("acme:{}", "é".repeat(128)), "acme", Some(&"é".repeat(128)));
    }

    /// Decoded twice, `%2541` would be an A.
    #[test]
    fn a_segment_is_decoded_once() {
        check("a%2541", "a%41", None);
        assert!(path_scope("acme:a%2541").is_err(), "a percent sign is no part of a session's name");
        assert_eq!(PathScope::parse("a%41").ok().and_then(|scope| scope.tenant), Tenant::parse("a%41").ok());
    }

    #[test]
    fn other_names_are_refused() {
        let long = format!("acme:{}", "x".repeat(129));
        for segment in ["", ":", ":x", "acme:", "acme:a:b", "acme:a%20b", "acme:a%2Fb", "a%00b", "%FF", &long] {
            assert!(path_scope(segment).is_err(), "{segment}");
        }
        assert!(path_scope(&"x".repeat(257)).is_err());
    }
}
