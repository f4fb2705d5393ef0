//! What a message of a person is beside others: its neighbours in the session, the reply to it, what is new in it.

use super::NEAR;
use super::docs::{DocNo, NONE};

/// What is known of keys beside what they say, in columns.
#[derive(Default)]
pub(crate) struct KeyColumns {
    before: Vec<DocNo>,
    after: Vec<DocNo>,
    /// The model's last reply to it.
    pub(crate) reply: Vec<DocNo>,
    /// Dot products with the four keys before it.
    pub(crate) near: Vec<[f32; NEAR]>,
    /// Share of its terms that the messages before it had not used.
    pub(crate) novelty: Vec<f32>,
    /// The length of each key with the one before it; no more than two bytes hold.
    pub(crate) lengths_with_before: Vec<u16>,
    /// Lengths of all keys, each with the one before it.
    pub(crate) length_with_before: u64,
    /// Lengths of all keys, each with its neighbours on both sides.
    pub(crate) length_with_both: u64,
}

/// A key's own length, and that of the one before it.
pub(super) type Lengths = (u32, Option<u32>);

/// A key on its way in.
pub(super) struct NewKey {
    pub(super) before: DocNo,
    pub(super) near: [f32; NEAR],
    pub(super) novelty: f32,
    pub(super) lengths: Lengths,
}

impl KeyColumns {
    /// The key before it in its session.
    #[inline]
    pub(crate) fn before(&self, no: DocNo) -> DocNo {
        self.before[no as usize]
    }

    /// The key after it in its session.
    #[inline]
    pub(crate) fn after(&self, no: DocNo) -> DocNo {
        self.after[no as usize]
    }

    /// Adds a key behind all others.
    pub(super) fn push(&mut self, key: NewKey) {
        let no = self.before.len() as DocNo;
        self.before.push(key.before);
        self.after.push(NONE);
        if key.before != NONE {
            self.after[key.before as usize] = no;
        }
        self.reply.push(NONE);
        self.near.push(key.near);
        self.novelty.push(key.novelty);
        let (with_before, with_both) = with_neighbours(key.lengths);
        self.lengths_with_before.push(u16::try_from(with_before).unwrap_or(u16::MAX));
        self.length_with_before += with_before;
        self.length_with_both += with_both;
    }

    /// Takes the last key away.
    pub(super) fn pop(&mut self, lengths: Lengths) {
        let Some(before) = self.before.pop() else { return };
        if before != NONE {
            self.after[before as usize] = NONE;
        }
        self.after.pop();
        self.reply.pop();
        self.near.pop();
        self.novelty.pop();
        self.lengths_with_before.pop();
        let (with_before, with_both) = with_neighbours(lengths);
        self.length_with_before -= with_before;
        self.length_with_both -= with_both;
    }
}

/// What a last key adds to the lengths of keys with the one before, and with both neighbours: the one before it gets it as well.
fn with_neighbours((own, before): Lengths) -> (u64, u64) {
    let own = u64::from(own);
    before.map_or((own, own), |before| (own + u64::from(before), own + u64::from(before) + own))
}
