//! Reading a body: bounded in size, pace and memory, with errors a person can act on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Frame;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::App;
use super::access::Visitor;
use super::budget::{NoRoom, Reservation, ReservedBytes};
use super::error::ApiError;
use super::pace::Pace;

/// Deepest nesting of a body. What is stored is wrapped a few levels deeper and must stay readable, and
/// readers of JSON stop at 128.
const JSON_DEPTH_MAX: usize = 64;

/// Memory that a value of JSON takes once it is read, beside its text: a number of one digit becomes this many bytes.
const VALUE_BYTES: usize = 100;

impl App {
    /// Reads a body as JSON. Nothing has happened yet when this fails.
    pub(super) async fn read_json<T: DeserializeOwned>(&self, visitor: &Visitor, body: Body) -> Result<T, ApiError> {
        Ok(self.read_json_and_bytes(visitor, body).await?.0)
    }

    /// The same, with the bytes as they came.
    pub(super) async fn read_json_and_bytes<T: DeserializeOwned>(
        &self,
        visitor: &Visitor,
        body: Body,
    ) -> Result<(T, Bytes), ApiError> {
        check_content_type(visitor)?;
        let body = self.read_bytes(&visitor.reservation, body).await?;
        let shape = shape(&body);
        check_depth(shape.depth)?;
        let invalid = |detail| ApiError::bad_request("invalid_json", "Invalid JSON", detail);
        if body.is_empty() {
            return Err(invalid("the body is empty, it must be a JSON value".to_owned()));
        }
        visitor.reservation.take(body.len() + shape.memory())?;
        let value = serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))?;
        Ok((value, body))
    }

    /// Reads a body of any kind, bounded in size and pace.
    pub(super) async fn read_bytes(&self, reservation: &Arc<Reservation>, body: Body) -> Result<Bytes, ApiError> {
        self.read_up_to(reservation, body, self.doors.body_bytes_max, "body_bytes_max").await
    }

    /// The same, with another bound, which is called so in the settings.
    pub(super) async fn read_up_to(
        &self,
        reservation: &Arc<Reservation>,
        body: Body,
        bytes_max: usize,
        setting: &str,
    ) -> Result<Bytes, ApiError> {
        // Whoever says beforehand that it is too much need not send it.
        let announced = body.size_hint();
        if announced.lower() > bytes_max as u64 {
            return Err(too_large(bytes_max, setting));
        }
        // Memory that is not written to yet costs nothing, so one allocation of what was announced is the cheapest.
        let mut bytes = Vec::with_capacity(announced.exact().map_or(0, |bytes| bytes as usize));
        let mut arriving = Arriving::new(body, self.doors.body_timeout);
        while let Some(piece) = arriving.next().await? {
            if bytes.len() + piece.len() > bytes_max {
                return Err(too_large(bytes_max, setting));
            }
            reservation.take(piece.len())?;
            bytes.extend_from_slice(&piece);
        }
        Ok(Bytes::from_owner(ReservedBytes::new(bytes, reservation)))
    }
}

/// A body as it arrives, not slower than it may.
pub(super) struct Arriving {
    body: Body,
    pace: Pace,
    timeout: Duration,
}

impl Arriving {
    pub(super) fn new(body: Body, timeout: Duration) -> Self {
        Self { body, pace: Pace::new(timeout), timeout }
    }

    /// The next piece; `None` at the end. Only the time in which it is waited for counts.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        self.pace.wait(Instant::now());
        loop {
            let deadline = self.pace.deadline().expect("it waits");
            let frame = timeout_at(deadline, self.body.frame()).await.map_err(|_| self.too_slow())?;
            let broken = |error: axum::Error| ApiError::bad_request("broken_body", "Body broke off", error.to_string());
            // What is not data is a trailer.
            match frame.transpose().map_err(broken)?.map(Frame::into_data) {
                None => return Ok(None),
                Some(Ok(piece)) => {
                    self.pace.advance(piece.len(), Instant::now());
                    return Ok(Some(piece));
                }
                Some(Err(_)) => {}
            }
        }
    }

    fn too_slow(&self) -> ApiError {
        let limit = self.timeout.as_secs();
        let detail = format!("the body stood still, or nearly so, for {limit} s (`body_timeout`)");
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "Body too slow", detail)
    }
}

impl From<NoRoom> for ApiError {
    fn from(reason: NoRoom) -> Self {
        match reason {
            NoRoom::Now => {
                let detail = "too many bodies are being read at the moment (`bodies_bytes_max`); try again in a second";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Too many requests at once", detail)
                    .after(Duration::from_secs(1))
            }
            NoRoom::Ever => {
                let detail = "the body takes more memory than one request may have (`bodies_bytes_max`)";
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large", detail)
            }
        }
    }
}

fn too_large(bytes_max: usize, setting: &str) -> ApiError {
    let detail = format!("the body is over {bytes_max} bytes (`{setting}`)");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large", detail)
}

fn check_depth(depth: usize) -> Result<(), ApiError> {
    if depth <= JSON_DEPTH_MAX {
        return Ok(());
    }
    let detail = format!("the body is nested {depth} levels deep, at most {JSON_DEPTH_MAX} are allowed");
    Err(ApiError::bad_request("json_too_deep", "JSON too deep", detail))
}

/// How deep the brackets of a JSON text go, and how many values it has, nearly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    depth: usize,
    values: usize,
}

impl Shape {
    /// Memory that its values take beside their text.
    pub(super) fn memory(self) -> usize {
        self.values.saturating_mul(VALUE_BYTES)
    }
}

/// The shape of a JSON text; what is in strings does not count.
pub(super) fn shape(json: &[u8]) -> Shape {
    let (mut depth, mut shape) = (0_usize, Shape::default());
    let (mut quoted, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                shape.depth = shape.depth.max(depth);
                shape.values += 1;
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            b',' if !quoted => shape.values += 1,
            _ => {}
        }
    }
    shape
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
    fn the_shape_counts_what_is_outside_strings() {
        for (json, depth, values) in [
            ("1", 0, 0),
            ("[]", 1, 1),
            ("[1,2,3]", 1, 3),
            (r#"{"a":[1,{"b":[]}],"c":[]}"#, 4, 7),
            (r#"["[[[\"[[","{,"]"#, 1, 2),
            (r#"["\\",[]]"#, 2, 3),
            ("]]]", 0, 0),
        ] {
            assert_eq!(shape(json.as_bytes()), Shape { depth, values }, "{json}");
        }
    }
}
