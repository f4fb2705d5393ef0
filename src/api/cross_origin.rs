//! Pages of other sites: which requests of a page in a browser are served.
//!
//! A browser lets every page send requests to every server it can reach, and names the page's site in `Origin`. The page cannot
//! read the response, but the request has had its effect by then: it spent the operator's key or changed what is stored. So
//! everything but GET and HEAD is refused unless the page is our own or its origin is listed in `cors_origins`. Responses to
//! listed origins carry the headers that let the page read them. Programs send no `Origin`.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;
use crate::config::Origins;

/// What a page of a listed origin may send.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// How long a browser believes a preflight, in seconds.
const PREFLIGHT_AGE: &str = "600";
/// Most characters of an origin that an error repeats.
const ORIGIN_CHARS_MAX: usize = 200;

pub(super) async fn cross_origin(State(app): State<App>, request: Request, next: Next) -> Response {
    let listed = &app.doors.cors_origins;
    let sender = Sender::of(request.headers(), request.uri(), listed);
    let mut response = match &sender {
        Sender::Foreign(origin) if ![Method::GET, Method::HEAD].contains(request.method()) => refusal(origin),
        Sender::Listed(_) if is_preflight(&request) => preflight(request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    if let Sender::Listed(origin) = sender {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
    if !listed.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Who sent a request, by its `Origin`.
#[derive(Debug, Clone, PartialEq)]
enum Sender {
    /// A program, or a page of this server.
    Own,
    /// A page whose origin is listed.
    Listed(HeaderValue),
    /// A page of any other site.
    Foreign(String),
}

impl Sender {
    fn of(headers: &HeaderMap, uri: &Uri, listed: &Origins) -> Self {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(value) = origins.next() else { return Self::Own };
        let origin = String::from_utf8_lossy(value.as_bytes());
        match host(headers, uri) {
            // A browser sends one origin.
            _ if origins.next().is_some() => Self::Foreign(origin.into_owned()),
            Some(host) if is_own(&origin, host) => Self::Own,
            _ if listed.contains(&origin) => Self::Listed(value.clone()),
            _ => Self::Foreign(origin.into_owned()),
        }
    }
}

/// The name under which the sender reached this server. HTTP/2 has it in the URI.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let header = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| uri.authority().map(|authority| authority.as_str()))
}

/// Whether an origin is that of the server's own pages. The scheme does not count: a proxy may have taken TLS off.
fn is_own(origin: &str, host: &str) -> bool {
    let Some((scheme, theirs)) = origin.split_once("://") else { return false };
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let named = |name: &str| name.strip_suffix(usual).unwrap_or(name).to_ascii_lowercase();
    matches!(scheme, "http" | "https") && named(theirs) == named(host)
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a browser that asks before it sends. It asks without a key, so none is looked for.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let allowed = response.headers_mut();
    allowed.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    allowed.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_AGE));
    if let Some(names) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    response
}

fn refusal(origin: &str) -> Response {
    let origin: String = origin.chars().take(ORIGIN_CHARS_MAX).collect();
    let detail =
        format!("a page of `{origin}` may not do this; if the page is yours, list its origin in `cors_origins`");
    ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", "Foreign page", detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pages_are_told_by_the_name_they_were_reached_under() {
        for (origin, host) in [
            ("http://localhost:7077", "localhost:7077"),
            ("http://localhost", "LOCALHOST:80"),
            ("https://memory.example", "memory.example"),
            ("https://memory.example", "memory.example:443"),
            ("http://[::1]:7077", "[::1]:7077"),
        ] {
            assert!(is_own(origin, host), "{origin} at {host}");
        }
        for (origin, host) in [
            ("null", "localhost"),
            ("", ""),
            ("http://localhost:3000", "localhost:7077"),
            ("http://localhost:443", "localhost"),
            ("http://evil.example", "localhost"),
            ("file://localhost", "localhost"),
        ] {
            assert!(!is_own(origin, host), "{origin} at {host}");
        }
    }

    #[test]
    fn two_origins_are_none_of_ours() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        let sender = |headers: &HeaderMap| Sender::of(headers, &Uri::from_static("/chat"), &Origins::default());
        assert_eq!(sender(&headers), Sender::Own);
        headers.append(header::ORIGIN, HeaderValue::from_static("http://localhost"));
        assert_eq!(sender(&headers), Sender::Own);
        headers.append(header::ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(matches!(sender(&headers), Sender::Foreign(_)));
    }
}
