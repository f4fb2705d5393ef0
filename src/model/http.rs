//! The HTTP client: one way to reach a server, for the model and for the command line.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// A pooled client for `http` and `https`. It follows no redirects and reads no environment.
pub(crate) type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// How long an unused connection stays open.
const POOL_IDLE: Duration = Duration::from_secs(60);

/// A client that gives up connecting after `connect_timeout`. Certificates are checked against the
/// roots compiled in, so that it works in an empty container.
pub(crate) fn client(connect_timeout: Duration) -> HttpClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    let connector =
        HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_all_versions().wrap_connector(tcp);
    Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE).build(connector)
}

/// What lies at the bottom of a failure: `Connection refused` rather than `client error (Connect)`.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let deepest = std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error);
    deepest.to_string()
}

/// Whether a failure was a matter of time.
pub(crate) fn timed_out(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_timeout = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut)
    };
    std::iter::successors(Some(error), |error| error.source()).any(is_timeout)
}
