//! Scores of messages, close together: most of a large memory has nothing to do with a question, and a list with a place for
//! every message would have to come from far away.

use crate::recall::index::docs::{DocNo, NONE};
use crate::recall::signals::Moments;

/// Scores of those messages that have one. Whoever goes through scores goes through these alone.
pub(crate) struct Scores {
    docs: usize,
    table: Table<f32>,
    sum: f64,
    squares: f64,
}

impl Scores {
    /// For so many messages in all, of which at most so many will have one.
    pub(super) fn new(docs: usize, most: usize) -> Self {
        Self { docs, table: Table::new(most.min(docs)), sum: 0.0, squares: 0.0 }
    }

    /// Adds to a message's score.
    #[inline]
    pub(super) fn add(&mut self, no: DocNo, value: f32) {
        let score = self.table.of(no);
        let before = f64::from(*score);
        *score += value;
        let now = f64::from(*score);
        self.sum += now - before;
        self.squares += now * now - before * before;
    }

    /// Forgets what all scores add up to.
    pub(super) fn unmeasured(mut self) -> Self {
        (self.sum, self.squares) = (0.0, 0.0);
        self
    }

    /// Expects so many messages to have something that is not looked for, worth so much to each: scores are measured with it. Who has
    /// it is taken to have nothing to do with who was found.
    pub(super) fn expect(&mut self, messages: usize, value: f32) {
        let sum = messages as f64 * f64::from(value);
        self.squares += sum * f64::from(value) + 2.0 * self.sum * sum / self.docs.max(1) as f64;
        self.sum += sum;
    }

    /// A message's score, zero for those that were not found.
    #[inline]
    pub(crate) fn of(&self, no: DocNo) -> f32 {
        self.table.get(no)
    }

    /// The messages that have a score, each once.
    pub(crate) fn found(&self) -> impl Iterator<Item = (DocNo, f32)> {
        self.table.gathered().into_iter()
    }

    /// Mean and spread over all messages.
    pub(crate) fn moments(&self) -> Moments {
        self.moments_among(self.docs)
    }

    /// Mean and spread where there are so many, most of them without a score.
    pub(crate) fn moments_among(&self, count: usize) -> Moments {
        Moments::told(self.sum, self.squares, count)
    }
}

/// A number for each of some messages, or words. One is in the first free place from its own on, and half of the places stay free.
pub(in crate::recall::signals) struct Table<T> {
    places: Vec<(DocNo, T)>,
    shift: u32,
}

impl<T: Copy + Default> Table<T> {
    /// For at most so many messages.
    pub(in crate::recall::signals) fn new(most: usize) -> Self {
        let size = (2 * most).next_power_of_two().max(2);
        Self { places: vec![(NONE, T::default()); size], shift: u32::BITS - size.trailing_zeros() }
    }

    /// For how many there is room.
    pub(in crate::recall::signals) fn room(&self) -> usize {
        self.places.len() / 2
    }

    /// Makes room for twice as many.
    #[cold]
    pub(in crate::recall::signals) fn grow(&mut self) {
        let mut grown = Self::new(2 * self.room());
        self.all().for_each(|(no, number)| *grown.of(no) = number);
        *self = grown;
    }

    #[inline]
    fn place(&self, no: DocNo) -> usize {
        let mut place = (no.wrapping_mul(0x9e37_79b9) >> self.shift) as usize;
        while self.places[place].0 != no && self.places[place].0 != NONE {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// A message's number; it has one from now on.
    #[inline]
    pub(in crate::recall::signals) fn of(&mut self, no: DocNo) -> &mut T {
        let place = self.place(no);
        let (there, number) = &mut self.places[place];
        *there = no;
        number
    }

    /// A message's number, nothing for those that have none.
    #[inline]
    pub(in crate::recall::signals) fn get(&self, no: DocNo) -> T {
        self.places[self.place(no)].1
    }

    /// All that have one, and their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (DocNo, T)> {
        self.places.iter().copied().filter(|(no, _)| *no != NONE)
    }

    /// The same, where there are many. Which places are free cannot be foreseen: each is written down, and the next one over it if it is.
    fn gathered(&self) -> Vec<(DocNo, T)> {
        let (mut gathered, mut count) = (vec![(NONE, T::default()); self.places.len()], 0);
        for place in &self.places {
            gathered[count] = *place;
            count += usize::from(place.0 != NONE);
        }
        gathered.truncate(count);
        gathered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    #[test]
    fn what_is_expected_counts_for_the_measure() {
        let mut scores = Scores::new(4, 2);
        [0, 1].into_iter().for_each(|no| scores.add(no, 1.0));
        scores.expect(2, 2.0);
        // As if the first and the third had it.
        assert_eq!(scores.moments(), Moments::of([3.0, 1.0, 2.0, 0.0].into_iter()));
        assert_eq!((scores.of(0), scores.of(2)), (1.0, 0.0), "nobody is known to have it");
    }

    proptest! {
        #[test]
        fn a_table_grows_and_loses_nothing(numbers in proptest::collection::btree_map(0_u32..5_000, any::<u32>(), 0..300)) {
            let mut table = Table::<u32>::new(1);
            for (count, (no, number)) in numbers.iter().enumerate() {
                if count == table.room() {
                    table.grow();
                }
                *table.of(*no) = *number;
            }
            prop_assert_eq!(&table.all().collect::<BTreeMap<_, _>>(), &numbers);
            prop_assert!((0..5_000).all(|no| table.get(no) == numbers.get(&no).copied().unwrap_or_default()));
        }

        #[test]
        fn scores_are_kept_by_message_and_measured_by_all(
            added in proptest::collection::vec((0_u32..2_000, 0.5_f32..3.0), 0..300),
        ) {
            let (mut scores, mut expected) = (Scores::new(2_000, added.len()), BTreeMap::<DocNo, f32>::new());
            for (no, value) in added {
                scores.add(no, value);
                *expected.entry(no).or_default() += value;
            }
            prop_assert_eq!(&scores.found().collect::<BTreeMap<_, _>>(), &expected);
            let of = |no: DocNo| expected.get(&no).copied().unwrap_or_default();
            prop_assert!((0..2_000).all(|no| scores.of(no) == of(no)));
            let moments = Moments::of((0..2_000).map(of));
            prop_assert!((scores.moments().z(2.0) - moments.z(2.0)).abs() < 1e-3);
        }
    }
}
