//! The relay: a client's request passed on as it came, and the answer passed back as it comes.
//!
//! Reading order: the nouns here, `path` (where a request may go), `tee` (what of an answer goes on, and what was said in it), `said`
//! (deltas to messages), `serve` (the same shapes from a model in process). How a server is reached
//! stands beside its model, in `openai/pass.rs`.
//!
//! **Invariant:** headers pass by allow-list, in both directions. What is not known to be harmless
//! stays here: cookies, keys, identities.

mod path;
mod said;
mod serve;
mod tee;

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, stream};
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, StatusCode};
use serde_json::json;

use super::ModelError;
pub(crate) use path::leads_upwards;
pub use said::{Choice, Said};
pub use serve::InProcess;
pub use tee::{Tee, TeeBounds, TeeError, TeeFault, TeeKind};

/// A request to be passed on as it came.
#[derive(Clone)]
pub struct Passed {
    /// How it was made.
    pub method: Method,
    /// Where it goes, below the base URL: `chat/completions`, with its `?query` if it has one.
    pub path: String,
    /// What came with it. Only what [`onward`] lets through leaves the house.
    pub headers: HeaderMap,
    /// What it says.
    pub body: Bytes,
    /// The client's own key, used only when none is configured.
    pub bearer: Option<String>,
}

/// An answer on its way back.
pub struct Relayed {
    /// Its status, an error of the upstream included.
    pub status: StatusCode,
    /// Only those that may pass back.
    pub headers: HeaderMap,
    /// What it says, as it comes. An error of the upstream is whole, and in OpenAI's shape.
    pub body: RelayBody,
}

/// Bytes on their way. An error is the last item; dropping the body cancels the upstream.
pub type RelayBody = Pin<Box<dyn Stream<Item = Result<Bytes, ModelError>> + Send>>;

/// What [`Upstream::pass`] answers with once there is a status.
pub type PassFuture<'a> = Pin<Box<dyn Future<Output = Result<Relayed, ModelError>> + Send + 'a>>;

/// Whoever answers requests in OpenAI's format.
pub trait Upstream: Send + Sync + 'static {
    /// What its model is called.
    fn name(&self) -> &str;

    /// Passes a request on. Errors are those of the connection, and redirects; an error status of the
    /// upstream is a [`Relayed`] with that status. Dropping the future cancels the request.
    fn pass(&self, request: Passed) -> PassFuture<'_>;
}

/// What of a client's headers goes to the upstream.
pub fn onward(headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| match name {
        "accept" | "content-type" | "traceparent" => true,
        name => ["openai-", "x-stainless-"].iter().any(|prefix| name.starts_with(prefix)),
    })
}

/// What of an upstream's headers goes back to the client.
pub fn homeward(headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| match name {
        "content-type" | "cache-control" | "x-request-id" | "retry-after" | "retry-after-ms" => true,
        name => ["openai-", "x-ratelimit-"].iter().any(|prefix| name.starts_with(prefix)),
    })
}

fn only(headers: &HeaderMap, may_pass: impl Fn(&str) -> bool) -> HeaderMap {
    let passing = headers.iter().filter(|(name, _)| may_pass(name.as_str()));
    // Collected by appending: a header that came twice passes twice.
    passing.fold(HeaderMap::new(), |mut kept, (name, value)| {
        kept.append(HeaderName::clone(name), value.clone());
        kept
    })
}

/// An error in OpenAI's shape.
pub(in crate::model) fn error_body(message: &str, kind: &str, code: Option<&str>) -> Bytes {
    let error = json!({ "error": { "message": message, "type": kind, "param": null, "code": code } });
    Bytes::from(error.to_string())
}

/// A body that is already here.
pub(in crate::model) fn whole_body(bytes: Bytes) -> RelayBody {
    Box::pin(stream::iter([Ok(bytes)]))
}

#[cfg(test)]
mod tests;
