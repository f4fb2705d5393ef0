//! `Idempotency-Key`: a request that may be sent again does its work once.
//!
//! The key and what was asked are kept as hashes. That of what was asked is made with the key in it, so that it cannot be found
//! out by trying texts.

use axum::http::{HeaderMap, HeaderName};
use ring::digest::{Context, SHA256};

use super::error::ApiError;
use super::identity::own_name;
use crate::scope::Scope;
use crate::session::RequestMark;

/// The client's name for a request, the same when it is sent again.
pub(super) const IDEMPOTENCY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a visitor's session takes no key on routes of its own.
pub(super) const NOT_OF_A_VISIT: &str = "nothing about an ephemeral session is written to the database";

/// A request with a key, as far as it has been read.
pub(super) struct KeyedRequest {
    key: [u8; 32],
    content: Context,
}

impl KeyedRequest {
    /// The request, if it has a key. `asker` distinguishes users who share a scope.
    pub(super) fn of(headers: &HeaderMap, scope: &Scope, asker: &str, route: &str) -> Result<Option<Self>, ApiError> {
        let Some(name) = own_name(headers, &IDEMPOTENCY_HEADER)? else { return Ok(None) };
        let whose = [scope.tenant().as_str(), scope.user().as_str(), asker, &name];
        let key = digest(whose.iter().fold(Context::new(&SHA256), |context, part| with(context, part.as_bytes())));
        let content =
            [name.as_str(), route].iter().fold(Context::new(&SHA256), |so_far, part| with(so_far, part.as_bytes()));
        Ok(Some(Self { key, content }))
    }

    /// The hash that it is known by.
    pub(super) fn key(&self) -> [u8; 32] {
        self.key
    }

    /// More of what it asks, as a part of its own.
    pub(super) fn asking(self, part: &[u8]) -> Self {
        Self { content: with(self.content, part), ..self }
    }

    /// More of what it asks, behind what came before.
    pub(super) fn more(&mut self, bytes: &[u8]) {
        self.content.update(bytes);
    }

    /// The request, when all of it was read.
    pub(super) fn mark(self) -> RequestMark {
        RequestMark { key: self.key, content: digest(self.content) }
    }
}

/// The mark of a request whose body is there.
pub(super) fn mark(
    headers: &HeaderMap,
    scope: &Scope,
    route: &str,
    body: &[u8],
) -> Result<Option<RequestMark>, ApiError> {
    Ok(KeyedRequest::of(headers, scope, "", route)?.map(|request| request.asking(body).mark()))
}

/// Refuses a key where nothing that could be answered again may be kept.
pub(super) fn refuse(headers: &HeaderMap, why: &str) -> Result<(), ApiError> {
    if own_name(headers, &IDEMPOTENCY_HEADER)?.is_none() {
        return Ok(());
    }
    let detail = format!("{why}; send it without Idempotency-Key");
    Err(ApiError::bad_request("idempotency_not_possible", "Idempotency-Key not possible", detail))
}

fn with(mut context: Context, part: &[u8]) -> Context {
    context.update(&(part.len() as u64).to_le_bytes());
    context.update(part);
    context
}

fn digest(context: Context) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Tenant, User};

    fn scope(user: &str) -> Scope {
        Scope::new(Tenant::default(), User::parse(user).expect("a name"))
    }

    fn marked(key: &str, user: &str, route: &str, body: &str) -> Option<RequestMark> {
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_HEADER, key.parse().expect("a value"))]);
        mark(&headers, &scope(user), route, body.as_bytes()).expect("a good key")
    }

    #[test]
    fn a_mark_is_of_whose_key_and_of_what_is_asked() {
        let one = marked("k", "ann", "/chat", "{}").expect("a mark");
        assert_eq!(marked("k", "ann", "/chat", "{}"), Some(one));
        for other in [marked("k", "ann", "/chat", "{ }"), marked("k", "ann", "/turns", "{}")] {
            let other = other.expect("a mark");
            assert!(other.key == one.key && other.content != one.content);
        }
        for other in [marked("l", "ann", "/chat", "{}"), marked("k", "bob", "/chat", "{}")] {
            assert!(other.expect("a mark").key != one.key);
        }
        assert_eq!(mark(&HeaderMap::new(), &scope("ann"), "/chat", b"{}").expect("no key"), None);
    }

    #[test]
    fn a_key_is_refused_where_it_cannot_be_honoured() {
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_HEADER, "k".parse().expect("a value"))]);
        assert!(refuse(&headers, "no").is_err() && refuse(&HeaderMap::new(), "no").is_ok());
    }
}
