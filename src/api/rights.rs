//! Which right each route takes.
//!
//! A route takes the right of its method: looking takes `read`, adding and changing `write`, removing `erase`. Those that
//! are different are listed. `tests/data/routes.txt` has what comes of it for every route, and a route without a line there
//! fails its test.

use axum::http::Method;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, PathItem};

use crate::tenant::Right;

/// Routes that tell nothing about anybody and take no key.
pub(super) const OPEN_ROUTES: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

/// Everything below these concerns the server as a whole.
const ADMIN_BELOW: [&str; 5] =
    ["/api/v1/tenants", "/api/v1/keys", "/api/v1/jobs", "/api/v1/webhooks", "/api/v1/backup"];

/// Routes whose right is not that of their method.
const OTHER: [(&str, &str, Right); 9] = [
    // A question in a body is still only a question.
    ("POST", "/api/v1/recall", Right::Read),
    ("POST", "/api/v1/topics/search", Right::Read),
    ("POST", "/api/v1/knowledge/search", Right::Read),
    // What a tenant knows is told to all its users: not everybody who may talk may write it.
    ("POST", "/api/v1/knowledge", Right::Files),
    ("DELETE", "/api/v1/knowledge/{id}", Right::Files),
    ("POST", "/api/v1/cleanup", Right::Erase),
    ("GET", "/metrics", Right::Admin),
    // It counts what everybody has.
    ("GET", "/api/v1/privacy", Right::Admin),
    // It concerns a tenant as a whole.
    ("GET", "/api/v1/analytics", Right::Admin),
];

/// The right that a route takes.
pub(super) fn right_of(method: &str, route: &str) -> Right {
    // HEAD is answered by the handler of GET, with the sizes of what GET shows.
    let method = if method == "HEAD" { "GET" } else { method };
    if let Some((_, _, right)) = OTHER.iter().find(|(m, r, _)| *m == method && *r == route) {
        return *right;
    }
    if ADMIN_BELOW
        .iter()
        .any(|above| route.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    {
        return Right::Admin;
    }
    match method {
        "GET" | "OPTIONS" => Right::Read,
        "DELETE" => Right::Erase,
        _ => Right::Write,
    }
}

/// Whether a request makes a model answer, which costs tokens.
pub(super) fn asks_a_model(method: &Method, path: &str) -> bool {
    method == Method::POST && (path == "/chat" || path.starts_with("/v1/"))
}

/// Writes into the description which right each route takes.
pub(super) fn describe(api: &mut OpenApi) {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A key, as a bearer or as `x-api-key`. Scopes are the rights it needs. Without keys, none is asked for.",
    ));
    api.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(bearer.build()));
    for (route, item) in &mut api.paths.paths {
        if !OPEN_ROUTES.contains(&route.as_str()) {
            describe_item(route, item);
        }
    }
}

fn describe_item(route: &str, item: &mut PathItem) {
    let methods = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PUT", &mut item.put),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    for (method, operation) in methods {
        if let Some(operation) = operation {
            operation.security = Some(vec![SecurityRequirement::new("key", [right_of(method, route).as_str()])]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_takes_the_right_of_its_method_unless_it_is_listed() {
        for (method, route, right) in [
            ("GET", "/api/v1/sessions", Right::Read),
            ("POST", "/api/v1/sessions", Right::Write),
            ("DELETE", "/api/v1/sessions/{id}", Right::Erase),
            ("POST", "/api/v1/recall", Right::Read),
            ("POST", "/v1/{*path}", Right::Write),
            ("DELETE", "/api/v1/keys/{id}", Right::Admin),
            ("GET", "/api/v1/jobs", Right::Admin),
            ("DELETE", "/api/v1/webhooks/{id}", Right::Admin),
            ("GET", "/api/v1/keysmiths", Right::Read),
            ("GET", "/metrics", Right::Admin),
            ("HEAD", "/metrics", Right::Admin),
            ("HEAD", "/api/v1/analytics", Right::Admin),
            ("HEAD", "/api/v1/sessions", Right::Read),
        ] {
            assert_eq!(right_of(method, route), right, "{method} {route}");
        }
    }
}
