//! Passing on: a client's request as it came, and the server's answer as it comes.
//!
//! An error of the server is passed back with its status. Its body is read first: what is not in the
//! shape clients expect is put into it.

use hyper::body::Incoming;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Response, StatusCode, Uri};
use serde_json::Value;

use super::hear::Body;
use super::redact::Redaction;
use super::send::{Outgoing, REFUSAL_BYTES_MAX};
use super::{OpenAi, bearer};
use crate::model::ModelError;
use crate::model::relay::{
    PassFuture, Passed, Relayed, Upstream, error_body, homeward, leads_upwards, onward, whole_body,
};

impl Upstream for OpenAi {
    fn name(&self) -> &str {
        &self.settings.model
    }

    fn pass(&self, request: Passed) -> PassFuture<'_> {
        Box::pin(self.relay(request))
    }
}

impl OpenAi {
    async fn relay(&self, request: Passed) -> Result<Relayed, ModelError> {
        let response = self.deliver(&self.outgoing(request)?).await?;
        match response.status() {
            status if status.is_success() => Ok(self.answer(response)),
            // Followed by the client it would lead around us, with the client's key.
            status if status.is_redirection() => Err(self.refused(response).await),
            _ => Ok(self.error_answer(response).await),
        }
    }

    fn outgoing(&self, request: Passed) -> Result<Outgoing, ModelError> {
        let url = self.url_below(&request.path)?;
        let headers = self.headers_for(&request)?;
        Ok(Outgoing { method: request.method, url, headers, body: request.body })
    }

    /// Where a path below the base URL leads. Steps upwards would leave what was configured.
    pub(super) fn url_below(&self, path: &str) -> Result<Uri, ModelError> {
        let path = path.trim_start_matches('/');
        let is_below = !leads_upwards(path.split('?').next().unwrap_or(path));
        let base = self.settings.base_url.trim().trim_end_matches('/');
        let url = is_below.then(|| format!("{base}/{path}").parse().ok()).flatten();
        url.ok_or_else(|| not_sent(StatusCode::NOT_FOUND, "there is no such path below the model's URL"))
    }

    /// The client's headers as far as they may go, with our name and our key. The client's own key is
    /// used when we have none.
    fn headers_for(&self, request: &Passed) -> Result<HeaderMap, ModelError> {
        let mut headers = onward(&request.headers);
        for name in [USER_AGENT, ACCEPT_ENCODING, AUTHORIZATION] {
            headers.extend(self.headers.get(&name).map(|value| (name, value.clone())));
        }
        if !headers.contains_key(CONTENT_TYPE) && !request.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let (false, Some(key)) = (headers.contains_key(AUTHORIZATION), &request.bearer) {
            let value = bearer(key).ok_or_else(|| not_sent(StatusCode::UNAUTHORIZED, "the key cannot be sent"))?;
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    fn answer(&self, response: Response<Incoming>) -> Relayed {
        let (head, body) = response.into_parts();
        let headers = Redaction::of(&self.settings).headers(homeward(&head.headers));
        Relayed { status: head.status, headers, body: Body::new(body, &self.settings).relay() }
    }

    async fn error_answer(&self, response: Response<Incoming>) -> Relayed {
        let (head, body) = response.into_parts();
        let said = Body::new(body, &self.settings).start(REFUSAL_BYTES_MAX).await;
        let body = if is_error(&said) {
            said.into()
        } else {
            error_body(&self.refusal(head.status, &head.headers, &said), "upstream_error", None)
        };
        let mut headers = Redaction::of(&self.settings).headers(homeward(&head.headers));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Relayed { status: head.status, headers, body: whole_body(body) }
    }
}

fn not_sent(status: StatusCode, message: &str) -> ModelError {
    ModelError::Refused { status: status.as_u16(), message: message.to_owned(), retry_after: None }
}

/// Whether a body is an error in the shape clients expect: `{"error":{"message":…}}`.
fn is_error(body: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    value.is_some_and(|value| value.pointer("/error/message").is_some_and(Value::is_string))
}
