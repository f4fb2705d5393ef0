//! Vectors of summaries, when another embedder has come.
//!
//! Recall does not depend on this: until a summary has its vector, its words must do.

use tracing::{info, warn};

use crate::episode::Meaning;
use crate::memory::Memory;
use crate::store::{DueEpisode, PageRequest, StoreError};

/// Summaries in one transaction.
const BATCH: usize = 64;

/// How far the vectors of summaries have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Embedded {
    /// How many were made.
    pub made: usize,
    /// Whether some wait for an embedder that does not answer.
    pub waiting: bool,
}

impl Memory {
    /// Makes the vectors of all summaries anew that another embedder made, or nobody.
    pub async fn embed_episodes(&self) -> Result<Embedded, StoreError> {
        let (episodes, embedder) = (self.parts.store.episodes(), self.parts.embedder.id().as_str());
        if episodes.embedded_with().await?.as_deref() == Some(embedder) {
            return Ok(Embedded::default());
        }
        let (mut made, mut after) = (0, None);
        loop {
            let page = episodes.to_embed(embedder, PageRequest { after, ..PageRequest::first(BATCH) }).await?;
            let Some(vectors) = self.vectors_of(page.items).await else {
                return Ok(Embedded { made, waiting: true });
            };
            made += vectors.len();
            episodes.keep_vectors(vectors).await?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        episodes.note_embedded_with(embedder).await?;
        if made > 0 {
            info!(episodes = made, "{made} summaries have vectors of `{embedder}` now");
        }
        Ok(Embedded { made, waiting: false })
    }

    /// `None` when the embedder does not answer: the summaries wait.
    async fn vectors_of(&self, due: Vec<DueEpisode>) -> Option<Vec<(DueEpisode, Meaning)>> {
        if due.is_empty() {
            return Some(Vec::new());
        }
        let texts: Vec<String> = due.iter().map(|due| due.summary.clone()).collect();
        let embedder = self.parts.embedder.id().as_str();
        match self.parts.embedder.embed(&texts).await {
            Ok(vectors) => {
                let meaning = |values| Meaning { embedder: embedder.to_owned(), values };
                Some(due.into_iter().zip(vectors.into_iter().map(meaning)).collect())
            }
            Err(error) => {
                self.parts.meters.embedder_failures.one();
                warn!(error = %error, "Summaries wait for their vectors: {error}");
                None
            }
        }
    }
}
