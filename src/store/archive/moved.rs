//! What a store tells of text that moves into blocks.

use crate::id::SessionId;
use crate::scope::Scope;
use crate::store::StoreFuture;

/// Text in blocks, spoken in our nouns. Reading needs no method: whoever reads a turn reads through its block.
pub trait Archive: Send + Sync {
    /// Moves the text of a session's oldest turns into blocks: of those with a number below `before`, up to `turns_max`.
    /// The text is in a block or in its row, never in both and never in neither. Damaged turns stay as they are.
    fn move_out(&self, scope: &Scope, session: SessionId, before: u64, turns_max: usize) -> StoreFuture<'_, Moved>;

    /// Blocks that were packed in a hurry, oldest first.
    fn quick_blocks(&self, limit: usize) -> StoreFuture<'_, Vec<Packed>>;

    /// Puts a block in the place of another with the same content, unless that has changed since it was read.
    fn replace_block(&self, before: Packed, bytes: Vec<u8>) -> StoreFuture<'_, bool>;

    /// How much is in blocks, all users together.
    fn archived(&self) -> StoreFuture<'_, ArchiveSize>;
}

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Turns whose text is in a block now.
    pub turns: u64,
    /// Whether there may be more to move.
    pub more: bool,
}

/// A block as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Whose it is.
    pub tenant: String,
    /// Its number in the store.
    pub key: i64,
    /// What it is.
    pub bytes: Vec<u8>,
}

/// How much is in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveSize {
    /// Blocks.
    pub blocks: u64,
    /// Turns in them.
    pub turns: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ArchiveSize {
    /// Both together.
    pub(in crate::store) fn and(self, other: Self) -> Self {
        let (blocks, turns) = (self.blocks + other.blocks, self.turns + other.turns);
        Self { blocks, turns, bytes: self.bytes + other.bytes }
    }
}
