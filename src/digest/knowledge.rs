//! Vectors of passages, when another embedder has come, or when ours did not answer while they were added.
//!
//! Search does not depend on this: until a passage has its vector, its words must do.

use tracing::{info, warn};

use super::embed::Embedded;
use crate::memory::Memory;
use crate::store::StoreError;

/// Passages in one transaction.
const BATCH: usize = 64;
/// The same where they are made ready for a store that searches them.
const SHELVED: usize = 500;

impl Memory {
    /// Makes the vectors of all passages that have none of our embedder's.
    pub async fn embed_knowledge(&self) -> Result<Embedded, StoreError> {
        let (knowledge, embedder) = (self.parts.store.knowledge(), &self.parts.embedder);
        let mut made = 0;
        loop {
            let due = knowledge.to_embed(embedder.id().as_str(), BATCH).await?;
            if due.is_empty() {
                break;
            }
            let texts: Vec<String> = due.iter().map(|due| due.text.clone()).collect();
            match embedder.embed(&texts).await {
                Ok(vectors) => {
                    made += vectors.len();
                    let vectors = due.into_iter().zip(vectors).collect();
                    knowledge.keep_vectors(embedder.id().as_str(), vectors).await?;
                }
                Err(error) => {
                    self.parts.meters.embedder_failures.one();
                    warn!(error = %error, "Passages wait for their vectors: {error}");
                    return Ok(Embedded { made, waiting: true });
                }
            }
        }
        if made > 0 {
            info!(passages = made, "{made} passages have vectors of `{}` now", embedder.id());
        }
        self.shelve_knowledge().await?;
        Ok(Embedded { made, waiting: false })
    }

    /// Makes what large tenants know ready for a store that searches it.
    async fn shelve_knowledge(&self) -> Result<(), StoreError> {
        let (mut all, knowledge) = (0, self.parts.store.knowledge());
        loop {
            match knowledge.shelve(SHELVED).await? {
                0 => break,
                some => all += some,
            }
        }
        if all > 0 {
            info!(passages = all, "{all} passages can be searched by the database now");
        }
        Ok(())
    }
}
