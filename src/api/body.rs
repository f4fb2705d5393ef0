//! Reading a JSON body: bounded in size and time, with errors a person can act on.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::App;
use super::error::ApiError;

/// Deepest nesting of a body. What is stored is wrapped a few levels deeper and must stay readable, and
/// readers of JSON stop at 128.
const JSON_DEPTH_MAX: usize = 64;

impl App {
    /// Reads a body as JSON. Nothing has happened yet when this fails.
    pub(super) async fn read_json<T: DeserializeOwned>(&self, headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
        Ok(self.read_json_and_bytes(headers, body).await?.0)
    }

    /// The same, with the bytes as they came.
    pub(super) async fn read_json_and_bytes<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(T, Bytes), ApiError> {
        check_content_type(headers)?;
        let body = self.read_bytes(body).await?;
        check_depth(&body)?;
        let invalid = |detail| ApiError::bad_request("invalid_json", "Invalid JSON", detail);
        if body.is_empty() {
            return Err(invalid("the body is empty, it must be a JSON value".to_owned()));
        }
        let value = serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))?;
        Ok((value, body))
    }

    /// Reads a body of any kind, bounded in size and time.
    pub(super) async fn read_bytes(&self, body: Body) -> Result<Bytes, ApiError> {
        self.read_up_to(body, self.doors.body_bytes_max, "body_bytes_max").await
    }

    /// The same, with another bound, which is called so in the settings.
    pub(super) async fn read_up_to(&self, body: Body, bytes_max: usize, setting: &str) -> Result<Bytes, ApiError> {
        // Whoever says beforehand that it is too much need not send it.
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(too_large(bytes_max, setting));
        }
        let reading = Limited::new(body, bytes_max).collect();
        match tokio::time::timeout(self.doors.body_timeout, reading).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(bytes_max, setting)),
            Ok(Err(error)) => Err(ApiError::bad_request("broken_body", "Body broke off", error.to_string())),
            Err(_) => {
                let limit = self.doors.body_timeout.as_secs();
                let detail = format!("the body took longer than {limit} s to arrive (`body_timeout`)");
                Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "Body too slow", detail))
            }
        }
    }
}

fn too_large(bytes_max: usize, setting: &str) -> ApiError {
    let detail = format!("the body is over {bytes_max} bytes (`{setting}`)");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large", detail)
}

fn check_depth(json: &[u8]) -> Result<(), ApiError> {
    let depth = depth(json);
    if depth <= JSON_DEPTH_MAX {
        return Ok(());
    }
    let detail = format!("the body is nested {depth} levels deep, at most {JSON_DEPTH_MAX} are allowed");
    Err(ApiError::bad_request("json_too_deep", "JSON too deep", detail))
}

/// How deep the brackets of a JSON text go; those in strings do not count.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// JSON only. A browser's plain form cannot be sent with this type, so other sites' pages cannot post.
fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = given.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")) {
        return Ok(());
    }
    let detail = format!("the content type is `{given}`, it must be application/json");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "Content type must be JSON", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        for (json, expected) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[1,{"b":[]}],"c":[]}"#, 4),
            (r#"["[[[\"[[","{"]"#, 1),
            (r#"["\\",[]]"#, 2),
            ("]]]", 0),
        ] {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
    }
}
