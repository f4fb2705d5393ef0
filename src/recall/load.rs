//! A scope comes into memory: its rows are read page by page, and each is taken in while the next is read.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::desk::{Marked, Recall, RecallError};
use super::episodes::EpisodeShelf;
use super::index::cache::Shelf;
use super::index::{Change, IndexedTurn, ScopeIndex};
use super::row::{self, ReadRows, rows_of, texts_of};
use super::texts::Texts;
use super::vectors;
use crate::kernel::{Bytes, quantise};
use crate::model::embed::Embedder;
use crate::scope::Scope;
use crate::session::Turn;
use crate::store::{ChangeMark, RecallCursor, RecallEntry, RecallKept, StoreError};

/// Entries read in one page.
const PAGE: usize = 500;

/// A page of a scope, ready to be taken in.
struct ReadPage {
    turns: Vec<Change>,
    next: Option<RecallCursor>,
    damaged: u64,
}

impl Recall {
    /// Loads a scope onto its shelf.
    pub(super) async fn fill(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        now: ChangeMark,
        mut marks: Marked,
    ) -> Result<Marked, RecallError> {
        self.follow_episodes(scope, shelf, &mut marks.episodes).await?;
        let bytes_max = self.settings.index_bytes_max.saturating_sub(shelf.read_episodes(EpisodeShelf::bytes));
        shelf.with_texts(Texts::forget_all);
        let index = self.load(scope, bytes_max).await?;
        shelf.write(|held| *held = index);
        marks.turns = Some(now);
        self.note_size(scope, shelf);
        Ok(marks)
    }

    /// Reads a whole scope. One that is larger than the memory for indexes keeps its newest turns, beside its summaries.
    async fn load(&self, scope: &Scope, bytes_max: usize) -> Result<ScopeIndex, RecallError> {
        let mut index = ScopeIndex::new(self.parts.embedder.dimensions());
        let mut page = Some(self.read_page(scope, None));
        while let Some(read) = page {
            let read = read.await.map_err(|_| RecallError::Interrupted)??;
            page = read.next.map(|after| self.read_page(scope, Some(after)));
            self.parts.meters.rows_damaged.many(read.damaged);
            index.apply(read.turns);
        }
        index.shrink();
        while index.bytes() > bytes_max && index.forget_oldest() {}
        Ok(index)
    }

    /// Begins to read a page of a scope. All that can be done without the index is done there.
    fn read_page(&self, scope: &Scope, after: Option<RecallCursor>) -> JoinHandle<Result<ReadPage, StoreError>> {
        let (store, embedder, scope) = (Arc::clone(&self.parts.store), Arc::clone(&self.parts.embedder), scope.clone());
        tokio::spawn(async move {
            let page = store.recall_entries(&scope, embedder.id().as_str(), after, PAGE).await?;
            let turns = page.entries.into_iter().map(|entry| Change::Put(indexed(entry, &*embedder))).collect();
            Ok(ReadPage { turns, next: page.next, damaged: page.damaged })
        })
    }
}

/// An entry as the index takes it in: from its row, or from the turn itself while there is none.
pub(super) fn indexed(entry: RecallEntry, embedder: &dyn Embedder) -> IndexedTurn {
    let RecallEntry { turn, session, order, kept, .. } = entry;
    let (rows, vectors) = match kept {
        RecallKept::Row { row, vectors } => {
            let vectors = vectors.and_then(|bytes| vectors::decode(&bytes, embedder.dimensions()));
            (row, vectors.unwrap_or_default())
        }
        RecallKept::Turn(turn) => (row::encode(&rows_of(&turn)), vectors_at_once(&turn, embedder)),
    };
    IndexedTurn { order, turn, session, rows: ReadRows::of(rows), vectors }
}

fn vectors_at_once(turn: &Turn, embedder: &dyn Embedder) -> Vec<Option<Bytes>> {
    let embed = |text: &String| embedder.at_once(text).and_then(|vector| quantise(&vector));
    texts_of(turn).iter().map(embed).collect()
}
