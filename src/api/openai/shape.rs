//! Errors under `/v1` as OpenAI puts them, so that its clients understand them, and the status of memory on every response.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::route::{asks_for_models, lacks_v1};
use crate::api::error::{CODE_HEADER, ErrorView};
use crate::api::headers::STATUS_HEADER;

/// Rewrites our errors for OpenAI's clients, and says of what memory had no part in that it had none.
pub(in crate::api) async fn shape(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let below_v1 = path.starts_with("/v1/");
    let (theirs, has_status) = (below_v1 || lacks_v1(path), below_v1 && !asks_for_models(path));
    let mut response = next.run(request).await;
    if has_status && !response.headers().contains_key(&STATUS_HEADER) {
        response.headers_mut().insert(STATUS_HEADER, HeaderValue::from_static("off"));
    }
    let Some(error) = response.extensions_mut().remove::<ErrorView>().filter(|_| theirs) else { return response };
    let code = response.headers().get(&CODE_HEADER).and_then(|code| code.to_str().ok()).unwrap_or("").to_owned();
    let message = match error.detail.as_str() {
        "" => error.error,
        detail => format!("{}: {detail}", error.error),
    };
    let kind = kind(response.status());
    let body = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let mut shaped = (parts.status, Json(body)).into_response();
    for (name, value) in &parts.headers {
        if name != header::CONTENT_TYPE {
            shaped.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shaped
}

fn kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        502 | 504 => "upstream_error",
        _ => "server_error",
    }
}
