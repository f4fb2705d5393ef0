//! Hashing of short words, quickly, for tables that nobody else can fill.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes short words quickly. Whoever makes words collide slows nobody but themselves: use it only for tables whose
/// words come from one user, or are bounded.
#[derive(Debug, Default, Clone, Copy)]
pub struct QuickHasher(u64);

/// A map by short words.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
}

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
