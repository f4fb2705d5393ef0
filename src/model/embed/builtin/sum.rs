//! Rows to a vector: the sum of a text's rows, at length one.

use super::super::normalise;
use super::DIMENSIONS;
use super::layout::Row;

/// Half bytes stand for values around zero: 0 is -7.5, 15 is 7.5.
const MIDDLE: f32 = 7.5;

/// A sum of rows. The halves of bytes are summed apart and put in order at the end: side by side they can be
/// added many at a time.
pub(super) struct Sum {
    whole: [f32; DIMENSIONS],
    low: [f32; DIMENSIONS / 2],
    high: [f32; DIMENSIONS / 2],
}

impl Default for Sum {
    fn default() -> Self {
        Self { whole: [0.0; DIMENSIONS], low: [0.0; DIMENSIONS / 2], high: [0.0; DIMENSIONS / 2] }
    }
}

impl Sum {
    pub(super) fn add(&mut self, scale: f32, row: Row) {
        match row {
            Row::English(row) => {
                for (sum, &byte) in self.whole.iter_mut().zip(row) {
                    *sum += scale * f32::from(byte.cast_signed());
                }
            }
            Row::Other(row) => {
                for ((low, high), &byte) in self.low.iter_mut().zip(&mut self.high).zip(row) {
                    *low += scale * (f32::from(byte & 15) - MIDDLE);
                    *high += scale * (f32::from(byte >> 4) - MIDDLE);
                }
            }
        }
    }

    pub(super) fn into_vector(self) -> Vec<f32> {
        let mut vector = self.into_sum().to_vec();
        normalise(&mut vector);
        vector
    }

    /// The sum as it is, of whatever length.
    pub(super) fn into_sum(self) -> [f32; DIMENSIONS] {
        let mut sum = self.whole;
        let halves = self.low.iter().zip(&self.high);
        for (pair, (low, high)) in sum.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            pair[0] += low;
            pair[1] += high;
        }
        sum
    }
}
