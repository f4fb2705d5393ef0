//! What is known of a message beside its words and what it means.

use super::docs::{DocNo, NONE};
use crate::recall::marks::Marks;

/// As much as comes from memory at once: messages that a question looks at lie anywhere, and each of them is waited for once.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(crate) struct Card {
    pub(crate) said_at: i64,
    pub(crate) session: u32,
    /// Words after stop words, repeated ones counted each time.
    pub(crate) length: u32,
    /// Where its words begin and end among those of all.
    pub(super) words: (u32, u32),
    /// What a byte of its vector is worth; zero where it has none (yet).
    pub(super) scale: f32,
    /// The messages of people before and after it in its session; of a reply nothing.
    pub(super) before: DocNo,
    pub(super) after: DocNo,
    /// The model's last reply to it; of a reply the message that it answers.
    pub(super) partner: DocNo,
    /// Share of its terms that the messages before it had not used; of a reply nothing.
    pub(crate) novelty: f32,
    /// With the message before it; no more than two bytes hold.
    pub(crate) length_with_before: u16,
    pub(crate) speaker: u16,
    pub(crate) marks: Marks,
    /// How many words have a capital; no more than a byte holds.
    pub(crate) capitals: u8,
}

const _: () = assert!(size_of::<Card>() == 64, "a message is waited for once");

impl Card {
    /// The message before it, if there is one.
    #[inline]
    pub(crate) fn before(&self) -> Option<DocNo> {
        (self.before != NONE).then_some(self.before)
    }

    /// The message after it, if there is one.
    #[inline]
    pub(crate) fn after(&self) -> Option<DocNo> {
        (self.after != NONE).then_some(self.after)
    }

    /// The reply to it, or what it answers, if there is one.
    #[inline]
    pub(crate) fn partner(&self) -> Option<DocNo> {
        (self.partner != NONE).then_some(self.partner)
    }
}
