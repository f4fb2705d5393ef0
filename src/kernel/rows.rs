//! Vectors one behind the other, each at the beginning of a piece of memory.
//!
//! Memory comes in pieces of 64 bytes. A vector of 256 bytes that begins anywhere lies in five of them and not in four, and those that
//! a question is compared with are each waited for.

/// Bytes that come from memory together.
const PIECE: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Piece([i8; PIECE]);

/// Vectors of one length.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    dimensions: usize,
    pieces: Vec<Piece>,
}

impl Rows {
    /// For vectors with so many dimensions.
    pub(crate) fn new(dimensions: usize) -> Self {
        Self { dimensions, pieces: Vec::new() }
    }

    /// How many dimensions they have.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Pieces of one vector.
    fn of_one(&self) -> usize {
        self.dimensions.div_ceil(PIECE)
    }

    /// Has room for so many, of which all new ones are zeros.
    pub(crate) fn resize(&mut self, count: usize) {
        self.pieces.resize(count * self.of_one(), Piece([0; PIECE]));
    }

    /// Takes all away but the first ones.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.pieces.truncate(count * self.of_one());
    }

    /// Puts a vector in a place that there is room for. It must have as many dimensions.
    pub(crate) fn put(&mut self, at: usize, vector: &[i8]) {
        debug_assert_eq!(vector.len(), self.dimensions);
        let of_one = self.of_one();
        let own = &mut self.pieces[at * of_one..][..of_one];
        for (piece, values) in own.iter_mut().zip(vector.chunks(PIECE)) {
            piece.0[..values.len()].copy_from_slice(values);
        }
    }

    /// A vector.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> &[i8] {
        let own = &self.pieces[at * self.of_one()..][..self.of_one()];
        // SAFETY: the pieces lie one behind the other, without gaps, and have no fewer bytes than there are dimensions.
        unsafe { std::slice::from_raw_parts(own.as_ptr().cast(), self.dimensions) }
    }

    /// Gives back memory that was taken to grow into.
    pub(crate) fn shrink(&mut self) {
        self.pieces.shrink_to_fit();
    }

    /// How much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.capacity() * PIECE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vectors_come_out_as_they_went_in(dimensions in 0_usize..200, seeds in proptest::collection::vec(any::<i8>(), 0..20)) {
            let vector = |seed: i8| -> Vec<i8> { (0..dimensions).map(|at| seed.wrapping_mul(at as i8)).collect() };
            let mut rows = Rows::new(dimensions);
            rows.resize(seeds.len());
            seeds.iter().enumerate().for_each(|(at, seed)| rows.put(at, &vector(*seed)));
            rows.truncate(seeds.len() / 2);
            rows.resize(seeds.len());
            for (at, seed) in seeds.iter().enumerate() {
                let expected = if at < seeds.len() / 2 { vector(*seed) } else { vec![0; dimensions] };
                prop_assert_eq!(rows.get(at), expected);
                prop_assert!(dimensions == 0 || rows.get(at).as_ptr().addr().is_multiple_of(PIECE));
            }
        }
    }
}
