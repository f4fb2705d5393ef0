//! The courier: carries webhooks over HTTP, to exactly the address that was looked at.
//!
//! A name is resolved once for each letter, every address it stands for is looked at, and the connection goes to one of those
//! and no other, with the name in `Host` and in TLS. Redirects are not followed, answers are not read beyond their head, and
//! everything together has ten seconds.
//!
//! Reading order: [`HttpCourier`], then `dial` (from a URL to a connection).

mod dial;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use self::dial::Dialer;
use crate::model::http::root_cause;
use crate::webhook::{Courier, Delivery, Letter, NotDelivered};

/// How long a delivery may take, from the first look at the name to the head of the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries letters over HTTP.
pub struct HttpCourier {
    /// Refuses addresses that only this network knows.
    careful: HttpClient,
    /// Goes wherever it is sent.
    bold: HttpClient,
    patience: Duration,
}

type HttpClient = Client<HttpsConnector<Dialer>, Full<Bytes>>;

impl Default for HttpCourier {
    fn default() -> Self {
        Self { careful: client(false), bold: client(true), patience: PATIENCE }
    }
}

impl HttpCourier {
    /// A courier with another patience.
    pub fn with_patience(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    async fn send(&self, letter: &Letter) -> Result<(), NotDelivered> {
        let unreachable = |reason: String| NotDelivered::Unreachable { host: letter.url.host().to_owned(), reason };
        let request = request(letter).ok_or_else(|| unreachable("the letter cannot be put into headers".into()))?;
        let client = if letter.private_addresses { &self.bold } else { &self.careful };
        match client.request(request).await {
            Ok(response) => taken(&response),
            Err(error) => Err(refusal(&error).unwrap_or_else(|| unreachable(root_cause(&error)))),
        }
    }
}

impl Courier for HttpCourier {
    fn deliver(&self, letter: Letter) -> Delivery<'_> {
        Box::pin(async move {
            let sent = timeout(self.patience, self.send(&letter)).await;
            sent.unwrap_or(Err(NotDelivered::Late(self.patience)))
        })
    }
}

/// A client that keeps no connection: each letter looks at its address anew.
fn client(private_addresses: bool) -> HttpClient {
    let connector = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1();
    let connector = connector.wrap_connector(Dialer { private_addresses });
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_max_idle_per_host(0).retry_canceled_requests(false).build(connector)
}

fn request(letter: &Letter) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(letter.body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = letter.url.uri().clone();
    *request.headers_mut() = headers(letter)?;
    Some(request)
}

fn headers(letter: &Letter) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("recalld/", env!("CARGO_PKG_VERSION"))));
    headers.insert("webhook-id", HeaderValue::try_from(&letter.id).ok()?);
    headers.insert("webhook-timestamp", HeaderValue::from(letter.timestamp));
    headers.insert("webhook-signature", HeaderValue::try_from(&letter.signature).ok()?);
    Some(headers)
}

/// Whether an answer says that the letter was taken.
fn taken<B>(response: &Response<B>) -> Result<(), NotDelivered> {
    let status = response.status();
    match status {
        _ if status.is_success() => Ok(()),
        _ if status.is_redirection() => Err(NotDelivered::Redirected(status.as_u16())),
        StatusCode::GONE => Err(NotDelivered::Gone),
        _ => Err(NotDelivered::Refused { status: status.as_u16(), retry_after: retry_after(response.headers()) }),
    }
}

/// How many seconds the receiver asks for; a date is not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// What the dialer refused, if it was that.
fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<NotDelivered> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<NotDelivered>())
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, retry_after: Option<&str>, expected: Result<(), NotDelivered>) {
        let mut response = Response::builder().status(status);
        if let Some(words) = retry_after {
            response = response.header("retry-after", words);
        }
        assert_eq!(taken(&response.body(()).expect("a response")), expected);
    }

    #[test]
    fn only_success_is_a_delivery() {
        let refused = |status, seconds: Option<u64>| {
            Err(NotDelivered::Refused { status, retry_after: seconds.map(Duration::from_secs) })
        };
        check(200, None, Ok(()));
        check(204, None, Ok(()));
        check(301, None, Err(NotDelivered::Redirected(301)));
        check(307, None, Err(NotDelivered::Redirected(307)));
        check(410, None, Err(NotDelivered::Gone));
        check(400, None, refused(400, None));
        check(503, Some("120"), refused(503, Some(120)));
        check(429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), refused(429, None));
    }
}
