//! Archived text: what turns said, packed into blocks once it has left its conversation's window.
//!
//! A block is bytes. It holds the text of some turns of one session in the order of their numbers, compressed with a
//! dictionary that ships with us, so that even ten short messages shrink well. Later turns are added with [`extended`],
//! forgotten ones are taken out by [`without`], and [`recompress`] makes a block smaller when nobody waits.
//!
//! Reading order: [`Archived`] here, `frame` (turns to bytes and back), `stretch`, `beginning`, `words` and `dictionary` (what
//! blocks are compressed with), `block` (frame, compression and checksums together), `moved` (what a store does with them).
//!
//! **Invariant:** damage is an error and never text. A block is opened only if its checksum is right, and what is in it is
//! handed out only if the checksum of the content is right too.

mod beginning;
mod block;
mod column;
mod dictionary;
mod frame;
mod moved;
mod stretch;
mod words;

pub use block::{BlockError, CONTENT_BYTES_MAX, Level, OpenBlock, extended, pack, recompress, unpack, without};
pub use moved::{Archive, ArchiveSize, Moved, Packed};

/// What leaves the row of a turn: its text. Whatever is asked of a turn without its text stays in the row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Archived {
    /// The number of the turn in its session.
    pub number: u64,
    /// What was asked.
    pub question: String,
    /// What was answered.
    pub answer: Option<String>,
    /// What question and answer are beside their text, and what was said between them, as JSON.
    pub extra: Option<String>,
}

impl Archived {
    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        let others = [&self.answer, &self.extra].into_iter().flatten();
        self.question.len() + others.map(String::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
