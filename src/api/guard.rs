//! Who may come in: checked before a body is read.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::App;
use super::error::ApiError;

/// Routes that tell nothing about anybody.
const OPEN_ROUTES: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let open = OPEN_ROUTES.contains(&request.uri().path());
    let verdict = match &app.doors.api_key {
        Some(_) if open => Ok(()),
        Some(key) => check_key(request.headers(), key),
        None => check_host(&request, app.doors.listen.ip()),
    };
    match verdict {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check_key(headers: &HeaderMap, key: &str) -> Result<(), ApiError> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer_token);
    let shown = bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()));
    let refused = |detail: &str| Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", detail));
    match shown {
        Some(shown) if bool::from(shown.as_bytes().ct_eq(key.as_bytes())) => Ok(()),
        Some(_) => refused("the key is not the one in `api_key`"),
        None => refused("send the key as `Authorization: Bearer …` or `x-api-key: …`"),
    }
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Without a key a web page could reach us under a name of its own (DNS rebinding), so the name must
/// be ours.
fn check_host(request: &Request, listen: IpAddr) -> Result<(), ApiError> {
    let header = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let host = header.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    match host {
        Some(host) if is_ours(host_name(host), listen) => Ok(()),
        _ => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong_host",
            "Host not allowed",
            "without an `api_key` recalld answers only to localhost and its own address",
        )),
    }
}

/// The name without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_ours(name: &str, listen: IpAddr) -> bool {
    let loopback_name = name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    loopback_name || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == listen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_answered_to() {
        let listen: IpAddr = [192, 168, 1, 5].into();
        for host in ["localhost", "localhost:7077", "127.0.0.1:7077", "[::1]:7077", "127.9.9.9", "192.168.1.5:80"] {
            assert!(is_ours(host_name(host), listen), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:7077", "10.0.0.1", "", "[::2]:1"] {
            assert!(!is_ours(host_name(host), listen), "{host}");
        }
    }

    #[test]
    fn a_bearer_is_read_in_any_case() {
        assert_eq!(bearer_token("Bearer abc"), Some("abc"));
        assert_eq!(bearer_token("bearer  abc"), Some("abc"));
        assert_eq!(bearer_token("Basic abc"), None);
    }
}
