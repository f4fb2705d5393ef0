//! Tables by hashes that were made elsewhere.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Takes a number that is a hash already as it is.
#[derive(Debug, Default, Clone, Copy)]
pub struct AsItIs(u64);

/// A map by hashes of 64 bits.
pub type HashedMap<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
