//! Posting: JSON to a path below the base URL, and the whole answer to it.

use bytes::Bytes;
use hyper::Method;

use super::hear::Body;
use super::send::Outgoing;
use super::{OpenAi, tidy};
use crate::model::ModelError;

impl OpenAi {
    /// Sends JSON to a path such as `embeddings`, again while that can help, and hears the answer to its end.
    pub(in crate::model) async fn post(&self, path: &str, body: Bytes) -> Result<Vec<u8>, ModelError> {
        let (url, headers) = (self.url_below(path)?, self.headers.clone());
        let response = self.deliver(&Outgoing { method: Method::POST, url, headers, body }).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        Body::new(response.into_body(), &self.settings).all().await
    }

    /// The server's words, fit for an error: on one line, short, and without our key.
    pub(in crate::model) fn quote(&self, words: &str) -> String {
        tidy(words, &self.settings)
    }
}
