//! Asking: one question, sent again while nothing of an answer has come and another try may help.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, LOCATION, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode, Uri};
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
pub(super) const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// What goes out, kept so that it can be sent again.
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Outgoing {
    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl OpenAi {
    /// Sends a question; what is not an answer is an error.
    pub(super) async fn send(&self, question: Bytes) -> Result<Response<Incoming>, ModelError> {
        let (url, headers) = (self.url.clone(), self.headers.clone());
        let response = self.deliver(&Outgoing { method: Method::POST, url, headers, body: question }).await?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    /// Sends until something other than a passing failure comes back, the retries are used up, or
    /// retrying is pointless. Nothing of an answer has been read by then, so nobody hears one twice.
    pub(super) async fn deliver(&self, outgoing: &Outgoing) -> Result<Response<Incoming>, ModelError> {
        self.budget.earn();
        let mut retries = 0;
        loop {
            let outcome = self.deliver_once(outgoing).await;
            let pause = pause_before_retry(&outcome, retries, jitter());
            let allowed = |_: &Duration| retries < self.settings.retries_max && self.budget.spend();
            let Some(pause) = pause.filter(allowed) else {
                return outcome;
            };
            drop(outcome);
            retries += 1;
            debug!(retries, pause_ms = pause.as_millis(), "Asking the model again");
            sleep(pause).await;
        }
    }

    async fn deliver_once(&self, outgoing: &Outgoing) -> Result<Response<Incoming>, ModelError> {
        let patience = self.settings.first_byte_timeout;
        let answer = timeout(patience, self.client.request(outgoing.request())).await;
        answer.map_err(|_| ModelError::Silent(patience))?.map_err(|error| self.unreached(&error))
    }

    fn unreached(&self, error: &ClientError) -> ModelError {
        if error.is_connect() && timed_out(error) {
            return ModelError::Silent(self.settings.connect_timeout);
        }
        ModelError::Unreachable { url: self.settings.base_url.clone(), reason: root_cause(error) }
    }

    /// A refusal as an error, in the server's words.
    pub(super) async fn refused(&self, response: Response<Incoming>) -> ModelError {
        let (head, body) = response.into_parts();
        let body = Body::new(body, &self.settings).start(REFUSAL_BYTES_MAX).await;
        let message = self.refusal(head.status, &head.headers, &body);
        let retry_after = text_header(&head.headers, RETRY_AFTER.as_str()).map(|words| tidy(words, &self.settings));
        ModelError::Refused { status: head.status.as_u16(), message, retry_after }
    }

    /// What the server said about its refusal, fit to be shown.
    pub(super) fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
        tidy(&refusal(status, headers, body), &self.settings)
    }
}

/// How long to wait before asking again; `None` when that would not help. Time-outs are not retried:
/// the patience of whoever waits is used up.
fn pause_before_retry<B>(
    outcome: &Result<Response<B>, ModelError>,
    retries: u32,
    jitter: Duration,
) -> Option<Duration> {
    let back_off = BACK_OFF.saturating_mul(2_u32.saturating_pow(retries)).min(BACK_OFF_MAX) + jitter;
    match outcome {
        Err(ModelError::Unreachable { .. }) => Some(back_off),
        Ok(response) if PASSING.contains(&response.status().as_u16()) => match wanted_pause(response.headers()) {
            Some(Ok(wanted)) => (wanted <= RETRY_AFTER_MAX).then_some(wanted + jitter),
            // It asked for patience in a way we do not read, such as a date.
            Some(Err(())) => None,
            None => Some(back_off),
        },
        _ => None,
    }
}

/// How long the server asks to be left alone, if it does.
fn wanted_pause(headers: &HeaderMap) -> Option<Result<Duration, ()>> {
    let millis = headers.get("retry-after-ms").map(|words| (words, 1000.0));
    let (words, per_second) = millis.or_else(|| headers.get(RETRY_AFTER).map(|words| (words, 1.0)))?;
    let number = words.to_str().ok().and_then(|words| words.trim().parse::<f64>().ok());
    Some(number.and_then(|number| Duration::try_from_secs_f64(number / per_second).ok()).ok_or(()))
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

    type Outcome = Result<Response<()>, ModelError>;

    fn answered(status: u16, headers: &[(&'static str, &str)]) -> Outcome {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        Ok(response.body(()).expect("a response"))
    }

    fn refused(status: u16, retry_after: Option<&str>) -> Outcome {
        let header = retry_after.map(|words| ("retry-after", words));
        answered(status, header.as_slice())
    }

    #[track_caller]
    fn check(outcome: Outcome, retries: u32, expected_ms: Option<u64>) {
        assert_eq!(pause_before_retry(&outcome, retries, Duration::ZERO), expected_ms.map(Duration::from_millis));
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let unreachable = || Err(ModelError::Unreachable { url: String::new(), reason: String::new() });
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
        check(answered(429, &[("retry-after", "60"), ("retry-after-ms", "250")]), 0, Some(250));
    }

    #[test]
    fn what_will_not_pass_is_not_retried() {
        check(refused(400, None), 0, None);
        check(refused(302, None), 0, None);
        check(answered(200, &[]), 0, None);
        check(Err(ModelError::Silent(Duration::ZERO)), 0, None);
        check(Err(ModelError::BrokeOff(String::new())), 0, None);
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
