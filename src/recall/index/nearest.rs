//! The vectors that are near another, by their first signs alone.
//!
//! The first 64 signs of all vectors lie close together and are gone through: little memory, however long somebody has talked.

use crate::kernel::{heads_differing, heads_within, signs, some_heads_differing};

/// How many signs are looked at.
pub(crate) const HEAD: u32 = u64::BITS;

/// One in so many heads tells how far the nearest may be. Some that lie together come from memory together.
const LOOKED_AT: usize = 16;
const TOGETHER: usize = 8;
/// How much further off is looked where too few were found.
const FURTHER: u32 = 2;

/// The first signs of a vector.
pub(crate) fn head(vector: &[i8]) -> u64 {
    signs(vector).next().unwrap_or(0)
}

/// The first signs of vectors.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    heads: Vec<u64>,
}

impl Heads {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Adds a vector.
    pub(crate) fn push(&mut self, vector: &[i8]) {
        self.heads.push(head(vector));
    }

    /// Takes all vectors away but the first ones.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.heads.truncate(count);
    }

    /// Gives back memory that was taken to grow into.
    pub(crate) fn shrink(&mut self) {
        self.heads.shrink_to_fit();
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.heads.capacity() * size_of::<u64>()
    }

    /// In how many signs some of the vectors differ from a head.
    pub(crate) fn differing(&self, head: u64, those: &[u32]) -> Vec<u8> {
        some_heads_differing(head, &self.heads, those)
    }

    /// The numbers of about so many vectors that differ least from a head, in order: no fewer than are wanted, as long as there are as
    /// many, and all that differ no more than any of them.
    pub(crate) fn near(&self, head: u64, about: usize, wanted: usize) -> Vec<u32> {
        let mut most = self.foreseen(head, about);
        loop {
            let near = heads_within(head, &self.heads, most);
            if near.len() >= wanted.min(self.heads.len()) {
                return near;
            }
            most += FURTHER;
        }
    }

    /// In how many signs about so many differ at most.
    fn foreseen(&self, head: u64, about: usize) -> u32 {
        let mut some = Vec::with_capacity(self.heads.len() / LOOKED_AT + TOGETHER);
        self.heads.chunks(TOGETHER).step_by(LOOKED_AT).for_each(|together| some.extend_from_slice(together));
        let mut distances = heads_differing(head, &some);
        match distances.len() * about / self.heads.len().max(1) {
            rank if rank < distances.len() => (*distances.select_nth_unstable(rank).1).into(),
            _ => HEAD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn none_is_nearer_than_those_that_are_near(
            seeds in proptest::collection::vec(any::<u64>(), 0..400), wanted in 0_usize..40, more in 0_usize..200,
        ) {
            let vector = |seed: u64| -> Vec<i8> {
                let spread = |at: u32| (seed % 97 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * at) as i8;
                (0..100).map(spread).collect()
            };
            let mut held = Heads::default();
            seeds.iter().for_each(|seed| held.push(&vector(*seed)));
            let one = head(&vector(5));
            let near = held.near(one, wanted + more, wanted);
            let all: Vec<u32> = (0..seeds.len() as u32).collect();
            let differing = held.differing(one, &all);
            let furthest = near.iter().map(|no| differing[*no as usize]).max();
            prop_assert!(near.len() >= wanted.min(seeds.len()));
            let is_near = |no: &u32| furthest.is_some_and(|furthest| differing[*no as usize] <= furthest);
            prop_assert_eq!(near, all.into_iter().filter(is_near).collect::<Vec<u32>>());

            held.truncate(seeds.len() / 2);
            prop_assert!(held.near(one, wanted, wanted).len() >= wanted.min(seeds.len() / 2));
        }
    }
}
