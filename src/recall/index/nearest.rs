//! The vectors that are nearest to another by their signs alone.
//!
//! All of them are gone through once. How far the nearest may be is foreseen from some of them, so that the others are passed over
//! without being written down anywhere.

use crate::kernel::{differing, within};

/// One in so many vectors tells how far the nearest may be. Some that lie together come from memory together.
const LOOKED_AT: usize = 16;
const TOGETHER: usize = 4;
/// Foreseen are twice as many as are wanted, and some more: where it comes to fewer all the same, everything is looked at again.
const SPARE: usize = 4;

/// The numbers of the vectors that differ least, in no order; of those that differ as much the first. The vectors lie one behind
/// the other.
pub(crate) fn nearest(one: &[u64], several: &[u64], count: usize) -> Vec<u32> {
    if one.is_empty() || count == 0 {
        return Vec::new();
    }
    let mut near = within(one, several, foreseen(one, several, count));
    if near.len() < count {
        near = within(one, several, u16::MAX);
    }
    if near.len() > count {
        near.select_nth_unstable(count - 1);
        near.truncate(count);
    }
    near.into_iter().map(|(_, no)| no).collect()
}

/// In how many signs about twice as many as are wanted differ at most.
fn foreseen(one: &[u64], several: &[u64], count: usize) -> u16 {
    let rank = 2 * count / LOOKED_AT + SPARE;
    let mut some = Vec::with_capacity(several.len() / LOOKED_AT + TOGETHER * one.len());
    several.chunks(TOGETHER * one.len()).step_by(LOOKED_AT).for_each(|together| some.extend_from_slice(together));
    let mut distances = differing(one, &some);
    if distances.len() <= rank {
        return u16::MAX;
    }
    *distances.select_nth_unstable(rank).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_the_nearest_and_the_first_of_equal_ones(
            words in 1_usize..6, seeds in proptest::collection::vec(any::<u64>(), 0..400), count in 0_usize..40,
        ) {
            let spread = |seed: u64, word: usize| (seed % 97).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * word as u32);
            let several: Vec<u64> = seeds.iter().flat_map(|seed| (0..words).map(|word| spread(*seed, word))).collect();
            let one: Vec<u64> = (0..words).map(|word| spread(5, word)).collect();
            let differing = |other: &[u64]| one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
            let mut all: Vec<(u32, u32)> = several.chunks_exact(words).map(differing).zip(0..).collect();
            all.sort_unstable();
            let mut expected: Vec<u32> = all.into_iter().take(count).map(|(_, no)| no).collect();
            let mut found = nearest(&one, &several, count);
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
