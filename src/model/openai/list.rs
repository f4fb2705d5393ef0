//! Which models a server has.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, Uri};
use serde_json::Value;

use super::OpenAi;

/// How long the list may take; it is asked for while somebody waits for the server to start.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest list.
const LIST_BYTES_MAX: usize = 4 << 20;

impl OpenAi {
    /// The first model the server lists, for those who named none. `None` when it does not say.
    pub async fn first_model(&self) -> Option<String> {
        let list = tokio::time::timeout(LIST_TIMEOUT, self.models()).await.ok().flatten()?;
        list.get("data")?.get(0)?.get("id")?.as_str().map(str::to_owned)
    }

    async fn models(&self) -> Option<Value> {
        let url: Uri = format!("{}/models", self.settings.base_url.trim().trim_end_matches('/')).parse().ok()?;
        let mut request = Request::builder().method(Method::GET).uri(url).body(Full::<Bytes>::default()).ok()?;
        request.headers_mut().extend(self.headers.clone());
        let response = self.client.request(request).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let body = Limited::new(response.into_body(), LIST_BYTES_MAX).collect().await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    }
}
