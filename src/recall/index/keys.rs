//! What messages of people are beside others: how near to those before them, and how long with their neighbours.

use super::NEAR;

/// What is known of keys beside their cards.
#[derive(Default)]
pub(crate) struct KeyColumns {
    /// Dot products with the four keys before it.
    pub(crate) near: Vec<[f32; NEAR]>,
    /// Lengths of all keys, each with the one before it.
    pub(crate) length_with_before: u64,
    /// Lengths of all keys, each with its neighbours on both sides.
    pub(crate) length_with_both: u64,
}

/// A key's own length, and that of the one before it.
pub(super) type Lengths = (u32, Option<u32>);

impl KeyColumns {
    /// Adds a key behind all others.
    pub(super) fn push(&mut self, near: [f32; NEAR], lengths: Lengths) {
        self.near.push(near);
        let (with_before, with_both) = with_neighbours(lengths);
        self.length_with_before += with_before;
        self.length_with_both += with_both;
    }

    /// Takes the last key away.
    pub(super) fn pop(&mut self, lengths: Lengths) {
        self.near.pop();
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
