//! Keeping the shelf true to the store, as the index is.

use super::{EpisodeShelf, HeldEpisode};
use crate::recall::desk::{LOADS_MAX, Recall, RecallError};
use crate::recall::index::cache::Shelf;
use crate::scope::Scope;
use crate::store::{ChangeMark, EpisodeChanges, PageRequest};

/// Summaries read in one page.
const PAGE: usize = 500;
/// Summaries take no more than one part in so many of all memory for indexes.
const SHARE: usize = 4;

impl Recall {
    /// Takes in what became of a scope's summaries. Costs a look into a map when nothing did.
    pub(in crate::recall) async fn follow_episodes(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        mark: &mut Option<ChangeMark>,
    ) -> Result<(), RecallError> {
        let store = self.parts.store.episodes();
        for _ in 0..LOADS_MAX {
            match store.changed_since(scope, *mark).await? {
                EpisodeChanges::None(now) => {
                    *mark = Some(now);
                    return Ok(());
                }
                EpisodeChanges::Some { mark: now, told, gone } => {
                    let embedder = self.parts.embedder.id().as_str();
                    let told: Vec<_> = told.into_iter().map(|episode| HeldEpisode::new(episode, embedder)).collect();
                    shelf.write_episodes(|episodes| {
                        gone.into_iter().for_each(|id| episodes.remove(id));
                        told.into_iter().for_each(|episode| episodes.put(episode));
                        episodes.shrink_to(self.settings.index_bytes_max / SHARE);
                    });
                    *mark = Some(now);
                    self.note_size(scope, shelf);
                    return Ok(());
                }
                EpisodeChanges::Reload { mark: now } => {
                    let episodes = self.load_episodes(scope).await?;
                    shelf.write_episodes(|held| *held = episodes);
                    *mark = Some(now);
                }
            }
        }
        Ok(())
    }

    /// Reads all summaries of a scope.
    async fn load_episodes(&self, scope: &Scope) -> Result<EpisodeShelf, RecallError> {
        let (mut episodes, mut after) = (EpisodeShelf::default(), None);
        loop {
            let request = PageRequest { after, ..PageRequest::first(PAGE) };
            let page = self.parts.store.episodes().recallable(scope, request).await?;
            let embedder = self.parts.embedder.id().as_str();
            page.items.into_iter().for_each(|episode| episodes.put(HeldEpisode::new(episode, embedder)));
            episodes.shrink_to(self.settings.index_bytes_max / SHARE);
            after = page.next;
            if after.is_none() {
                return Ok(episodes);
            }
        }
    }
}
