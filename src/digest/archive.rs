//! Old text: what has left its session's window moves into blocks, and full blocks are packed tightly.

use tracing::{debug, warn};

use crate::id::SessionId;
use crate::memory::Memory;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::archive::{BlockError, Level, Packed, recompress};

/// Turns that move in one transaction: writers wait for it.
const TURNS: usize = 100;
/// Blocks that are packed one after the other.
const BLOCKS: usize = 8;

impl Memory {
    /// Moves the text of a session's turns with a number below `before`. Answers how many there were.
    pub async fn archive(&self, scope: &Scope, session: SessionId, before: u64) -> Result<u64, StoreError> {
        let mut turns = 0;
        loop {
            let moved = self.parts.store.archive().move_out(scope, session, before, TURNS).await?;
            turns += moved.turns;
            if !moved.more {
                return Ok(turns);
            }
        }
    }

    /// Packs blocks that take in no more turns as tightly as can be. Answers how many; to be called again until there are none.
    pub async fn pack_blocks(&self) -> Result<usize, StoreError> {
        let blocks = self.parts.store.archive().quick_blocks(BLOCKS).await?;
        let mut packed = 0;
        for block in blocks {
            packed += usize::from(self.pack_block(block).await?);
        }
        Ok(packed)
    }

    /// Milliseconds of computing for one block: not on a thread that answers requests.
    async fn pack_block(&self, block: Packed) -> Result<bool, StoreError> {
        let (key, bytes) = (block.key, block.bytes.clone());
        match tokio::task::spawn_blocking(move || recompress(&bytes, Level::Thorough)).await {
            Ok(Ok(tight)) => self.parts.store.archive().replace_block(block, tight).await,
            Ok(Err(error @ (BlockError::Damaged(_) | BlockError::NotABlock))) => {
                warn!(block.key = key, error = %error, "Block {key} cannot be packed again: {error}");
                // As it is it counts as packed, so that it does not stand before others for ever.
                let bytes = block.bytes.clone();
                self.parts.store.archive().replace_block(block, bytes).await
            }
            Ok(Err(error)) => {
                debug!(block.key = key, error = %error, "Block {key} is packed by a newer recalld: {error}");
                Ok(false)
            }
            Err(_) => Ok(false),
        }
    }
}
