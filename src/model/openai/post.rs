//! Posting: JSON to a path below the base URL, and the whole answer to it.

use bytes::Bytes;
use hyper::Method;

use super::hear::{Body, read_whole};
use super::send::Outgoing;
use super::{OpenAi, tidy};
use crate::model::{Ending, ModelError, Piece};

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

    /// Asks for an answer with a body of one's own, and hears its words and how it ended.
    pub(in crate::model) async fn complete(&self, body: Bytes) -> Result<(String, Ending), ModelError> {
        let bytes = self.post("chat/completions", body).await?;
        let (mut text, mut end) = (String::new(), Ending::default());
        for piece in read_whole(&bytes, &self.settings)? {
            match piece {
                Piece::Text(more) => text.push_str(&more),
                Piece::End(ending) => end = ending,
            }
        }
        Ok((text, end))
    }

    /// The server's words, fit for an error: on one line, short, and without our key.
    pub(in crate::model) fn quote(&self, words: &str) -> String {
        tidy(words, &self.settings)
    }
}
