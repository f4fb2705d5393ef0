//! Rows and vectors for turns that lack them: new ones, changed ones, and all of a file from before.
//!
//! Recall does not depend on this: what is missing it derives from the turns themselves. Rows make loading quick, and
//! vectors of a slow embedder can only be made here.

use tracing::{info, warn};

use crate::memory::Memory;
use crate::model::embed::EmbedError;
use crate::recall::{derive_row, derive_texts, encode_vectors, row_form};
use crate::session::Turn;
use crate::store::{DerivedRow, DueTurn, StoreError, Todo};

/// Turns in one transaction.
const BATCH: usize = 64;

/// How much was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Derived {
    /// Turns that have a row now.
    pub rows: usize,
    /// Turns that got vectors from a slow embedder.
    pub vectors: usize,
}

impl Derived {
    /// Whether there was anything to do.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl Memory {
    /// Puts all turns on the list again when rows have another form now, or vectors another maker.
    pub async fn check_rows(&self) -> Result<(), StoreError> {
        let store = &self.parts.store;
        let embedder = self.parts.embedder.id().as_str();
        for (what, made_with) in [(Todo::Row, row_form().as_str()), (Todo::Vector, embedder)] {
            let before = store.recall_made_with(what).await?;
            if before.as_deref() == Some(made_with) {
                continue;
            }
            // Vectors of the quick embedder come with the rows, so those are made anew.
            let again = if before.is_some() { store.recall_again(Todo::Row).await? } else { 0 };
            store.note_recall_made_with(what, made_with).await?;
            if again > 0 {
                info!(turns = again, "{again} turns get new rows for recall: `{made_with}` is new");
            }
        }
        Ok(())
    }

    /// Makes a batch of what is missing. To be called again until there is nothing.
    pub async fn derive_rows(&self) -> Result<Derived, StoreError> {
        let due = self.parts.store.recall_todo(Todo::Row, BATCH).await?;
        let rows: Vec<DerivedRow> = due.into_iter().map(|due| self.derived(due)).collect();
        let made = rows.len();
        if made > 0 {
            self.parts.store.keep_recall_rows(rows).await?;
        }
        Ok(Derived { rows: made, vectors: self.derive_vectors().await? })
    }

    fn derived(&self, due: DueTurn) -> DerivedRow {
        let DueTurn { scope, turn, stamp } = due;
        let vectors = self.vectors_at_once(&turn);
        let then = if vectors.is_none() { Some(Todo::Vector) } else { None };
        let vectors = vectors.map(|vectors| (self.parts.embedder.id().as_str().to_owned(), vectors));
        DerivedRow { scope, turn: turn.id, stamp, row: Some(derive_row(&turn)), vectors, then }
    }

    fn vectors_at_once(&self, turn: &Turn) -> Option<Vec<u8>> {
        let vectors =
            derive_texts(turn).iter().map(|text| self.parts.embedder.at_once(text)).collect::<Option<Vec<_>>>()?;
        Some(encode_vectors(&vectors))
    }

    /// Vectors of an embedder that takes its time. One that fails costs only the vectors: they stay on the list.
    async fn derive_vectors(&self) -> Result<usize, StoreError> {
        let due = self.parts.store.recall_todo(Todo::Vector, BATCH).await?;
        if due.is_empty() {
            return Ok(0);
        }
        match self.embed(&due).await {
            Ok(rows) => {
                let made = rows.len();
                self.parts.store.keep_recall_rows(rows).await?;
                Ok(made)
            }
            Err(error) => {
                self.parts.meters.embedder_failures.one();
                let waiting = due.len();
                warn!(turns = waiting, error = %error, "{waiting} turns wait for their vectors: {error}");
                Ok(0)
            }
        }
    }

    async fn embed(&self, due: &[DueTurn]) -> Result<Vec<DerivedRow>, EmbedError> {
        let texts: Vec<Vec<String>> = due.iter().map(|due| derive_texts(&due.turn)).collect();
        let all: Vec<String> = texts.concat();
        let mut vectors = self.parts.embedder.embed(&all).await?.into_iter();
        let embedder = self.parts.embedder.id().as_str();
        let row = |(due, texts): (&DueTurn, &Vec<String>)| DerivedRow {
            scope: due.scope.clone(),
            turn: due.turn.id,
            stamp: due.stamp,
            row: None,
            vectors: Some((
                embedder.to_owned(),
                encode_vectors(&vectors.by_ref().take(texts.len()).collect::<Vec<_>>()),
            )),
            then: None,
        };
        Ok(due.iter().zip(&texts).map(row).collect())
    }
}
