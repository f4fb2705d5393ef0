//! The vectors that are nearest to another by their signs alone.
//!
//! The first 64 signs of all vectors lie close together and are gone through: little memory, however long somebody has talked. Those
//! that are not far off by these are compared by all their signs.

use crate::kernel::{differing, heads_differing, heads_within, signs};

/// One in so many heads tells how far the nearest may be. Some that lie together come from memory together.
const LOOKED_AT: usize = 16;
const TOGETHER: usize = 8;
/// How much further off is looked where too few were found.
const FURTHER: u32 = 2;

/// The signs of vectors.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    dimensions: usize,
    heads: Vec<u64>,
    /// Of one vector behind the other.
    all: Vec<u64>,
}

impl Signs {
    /// Of vectors with so many dimensions.
    pub(crate) fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    /// Words of the signs of one vector.
    fn words(&self) -> usize {
        self.dimensions.div_ceil(u64::BITS as usize)
    }

    /// Adds a vector.
    pub(crate) fn push(&mut self, vector: &[i8]) {
        self.all.extend(signs(vector));
        self.heads.extend(self.all.get(self.heads.len() * self.words()));
    }

    /// Takes all vectors away but the first ones.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.all.truncate(count * self.words());
        self.heads.truncate(count);
    }

    /// Gives back memory that was taken to grow into.
    pub(crate) fn shrink(&mut self) {
        self.all.shrink_to_fit();
        self.heads.shrink_to_fit();
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        (self.all.capacity() + self.heads.capacity()) * size_of::<u64>()
    }

    /// The numbers of vectors that differ least from one, in no order; of those that differ as much the first. About so many are
    /// compared by all their signs.
    pub(crate) fn nearest(&self, vector: &[i8], compared: usize, count: usize) -> Vec<u32> {
        if count == 0 || vector.is_empty() || vector.len() != self.dimensions {
            return Vec::new();
        }
        let wanted: Vec<u64> = signs(vector).collect();
        let near = self.near(wanted[0], compared.max(count), count);
        let mut near = differing(&wanted, &self.all, &near);
        if near.len() > count {
            near.select_nth_unstable(count - 1);
            near.truncate(count);
        }
        near.into_iter().map(|(_, no)| no).collect()
    }

    /// About so many vectors whose first signs differ least: no fewer than are wanted, as long as there are as many.
    fn near(&self, head: u64, about: usize, wanted: usize) -> Vec<u32> {
        let mut most = self.foreseen(head, about);
        loop {
            let near = heads_within(head, &self.heads, most);
            if near.len() >= wanted.min(self.heads.len()) {
                return near;
            }
            most += FURTHER;
        }
    }

    /// In how many of the first signs about so many differ at most.
    fn foreseen(&self, head: u64, about: usize) -> u32 {
        let mut some = Vec::with_capacity(self.heads.len() / LOOKED_AT + TOGETHER);
        self.heads.chunks(TOGETHER).step_by(LOOKED_AT).for_each(|together| some.extend_from_slice(together));
        let mut distances = heads_differing(head, &some);
        match distances.len() * about / self.heads.len().max(1) {
            rank if rank < distances.len() => (*distances.select_nth_unstable(rank).1).into(),
            _ => u64::BITS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_the_nearest_of_those_that_are_near(
            dimensions in 1_usize..200, seeds in proptest::collection::vec(any::<u64>(), 0..400), count in 0_usize..40,
            more in 0_usize..200,
        ) {
            let vector = |seed: u64| -> Vec<i8> {
                let spread = |at: usize| (seed % 97 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * at as u32) as i8;
                (0..dimensions).map(spread).collect()
            };
            let mut held = Signs::new(dimensions);
            seeds.iter().for_each(|seed| held.push(&vector(*seed)));
            let one: Vec<u64> = signs(&vector(5)).collect();
            let near = held.near(one[0], count + more, count);
            let head = |no: u32| (one[0] ^ held.heads[no as usize]).count_ones();
            let furthest = near.iter().map(|no| head(*no)).max().unwrap_or(0);
            prop_assert!(near.len() >= count.min(seeds.len()));
            prop_assert!((0..seeds.len() as u32).all(|no| near.contains(&no) || head(no) >= furthest));

            let all = |no: &u32| signs(&vector(seeds[*no as usize])).zip(&one).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
            let mut expected: Vec<(u32, u32)> = near.iter().map(|no| (all(no), *no)).collect();
            expected.sort_unstable();
            let mut expected: Vec<u32> = expected.into_iter().take(count).map(|(_, no)| no).collect();
            let mut found = held.nearest(&vector(5), count + more, count);
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);

            held.truncate(seeds.len() / 2);
            prop_assert!(held.nearest(&vector(5), count, count).len() == count.min(seeds.len() / 2));
        }
    }
}
