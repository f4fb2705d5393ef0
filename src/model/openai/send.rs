//! Asking: one question, sent again while nothing of an answer has come and another try may help.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, LOCATION, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Error as ClientError;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::debug;
use uuid::Uuid;

use super::hear::Body;
use super::{OpenAi, error_message, tidy};
use crate::model::ModelError;
use crate::model::http::{root_cause, timed_out};

/// Statuses of a server that is busy or restarting.
const PASSING: [u16; 5] = [429, 500, 502, 503, 504];

/// A server that asks for more than this is taken at its word: the caller hears when to come back.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);

const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// How much of an error page is read to find its message.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

impl OpenAi {
    /// Sends the question until an answer begins, the retries are used up, or retrying is pointless.
    pub(super) async fn send(&self, question: Bytes) -> Result<Response<Incoming>, ModelError> {
        let mut retries = 0;
        loop {
            let failure = match self.send_once(question.clone()).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let pause = pause_before_retry(&failure, retries, jitter()).filter(|_| retries < self.settings.retries_max);
            let Some(pause) = pause else {
                return Err(failure);
            };
            retries += 1;
            debug!(retries, pause_ms = pause.as_millis(), "Asking the model again");
            sleep(pause).await;
        }
    }

    async fn send_once(&self, question: Bytes) -> Result<Response<Incoming>, ModelError> {
        let patience = self.settings.first_byte_timeout;
        let answer = timeout(patience, self.client.request(self.request(question))).await;
        let response = answer.map_err(|_| ModelError::Silent(patience))?.map_err(|error| self.unreached(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    fn request(&self, question: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(question));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    fn unreached(&self, error: &ClientError) -> ModelError {
        if error.is_connect() && timed_out(error) {
            return ModelError::Silent(self.settings.connect_timeout);
        }
        ModelError::Unreachable { url: self.settings.base_url.clone(), reason: root_cause(error) }
    }

    async fn refused(&self, response: Response<Incoming>) -> ModelError {
        let (head, body) = response.into_parts();
        let body = Body::new(body, &self.settings).start(REFUSAL_BYTES_MAX).await;
        let message = tidy(&refusal(head.status, &head.headers, &body), &self.settings);
        let retry_after = text_header(&head.headers, RETRY_AFTER.as_str()).map(|words| tidy(words, &self.settings));
        ModelError::Refused { status: head.status.as_u16(), message, retry_after }
    }
}

/// How long to wait before asking again; `None` when that would not help. Time-outs are not retried:
/// the patience of whoever waits is used up.
fn pause_before_retry(failure: &ModelError, retries: u32, jitter: Duration) -> Option<Duration> {
    let back_off = BACK_OFF.saturating_mul(2_u32.saturating_pow(retries)).min(BACK_OFF_MAX) + jitter;
    match failure {
        ModelError::Unreachable { .. } => Some(back_off),
        ModelError::Refused { status, retry_after: None, .. } if PASSING.contains(status) => Some(back_off),
        ModelError::Refused { status, retry_after: Some(words), .. } if PASSING.contains(status) => {
            let wanted = Duration::try_from_secs_f64(words.trim().parse().ok()?).ok()?;
            (wanted <= RETRY_AFTER_MAX).then_some(wanted + jitter)
        }
        _ => None,
    }
}

/// A little chance, so that many who were refused together do not return together.
fn jitter() -> Duration {
    Duration::from_millis((Uuid::new_v4().as_u128() % 100) as u64)
}

/// What the server said about its refusal.
fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    if let (true, Some(location)) = (status.is_redirection(), text_header(headers, LOCATION.as_str())) {
        return format!("it redirects to {location}; redirects are not followed, use the right URL");
    }
    let said = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        let plain = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        error_message(&value).or_else(|| plain("message")).or_else(|| plain("detail"))
    });
    let text = said.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    if text.trim().is_empty() { status.canonical_reason().unwrap_or("no reason given").to_owned() } else { text }
}

fn text_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after: Option<&str>) -> ModelError {
        ModelError::Refused { status, message: String::new(), retry_after: retry_after.map(str::to_owned) }
    }

    #[track_caller]
    fn check(failure: ModelError, retries: u32, expected_ms: Option<u64>) {
        assert_eq!(pause_before_retry(&failure, retries, Duration::ZERO), expected_ms.map(Duration::from_millis));
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let unreachable = || ModelError::Unreachable { url: String::new(), reason: String::new() };
        check(unreachable(), 0, Some(100));
        check(unreachable(), 1, Some(200));
        check(refused(503, None), 2, Some(400));
        check(refused(503, None), u32::MAX, Some(2000));
    }

    #[test]
    fn a_server_is_taken_at_its_word_when_it_asks_for_little() {
        check(refused(429, Some("0")), 5, Some(0));
        check(refused(429, Some("1.5")), 0, Some(1500));
        check(refused(429, Some("2")), 0, Some(2000));
        check(refused(429, Some("3")), 0, None);
        check(refused(429, Some("-1")), 0, None);
        check(refused(429, Some("NaN")), 0, None);
        check(refused(429, Some("Wed, 21 Oct 2026 07:28:00 GMT")), 0, None);
    }

    #[test]
    fn what_will_not_pass_is_not_retried() {
        check(refused(400, None), 0, None);
        check(refused(302, None), 0, None);
        check(ModelError::Silent(Duration::ZERO), 0, None);
        check(ModelError::BrokeOff(String::new()), 0, None);
    }

    #[track_caller]
    fn check_words(body: &str, expected: &str) {
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), body.as_bytes()), expected);
    }

    #[test]
    fn the_message_is_found_in_every_shape() {
        check_words(r#"{"error":{"message":"no such model","code":404}}"#, "no such model");
        check_words(r#"{"error":"no such model"}"#, "no such model");
        check_words(r#"{"object":"error","message":"too long"}"#, "too long");
        check_words(r#"{"detail":"Not Found"}"#, "Not Found");
        check_words("<html>oops</html>", "<html>oops</html>");
        check_words(" \n", "Bad Gateway");
    }
}
