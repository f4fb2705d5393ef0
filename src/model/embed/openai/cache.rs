//! What was asked before: the vectors of texts that were used last, within a bound of memory.

use std::collections::{BTreeMap, HashMap};

use xxhash_rust::xxh3::xxh3_128;

/// A text as the cache knows it: 128 bits of hash, so that two texts never share a vector in practice.
pub(super) type Key = u128;

/// The key of a text.
pub(super) fn key_of(text: &str) -> Key {
    xxh3_128(text.as_bytes())
}

/// Bytes an entry takes beside its vector, roughly.
const ENTRY_BYTES: usize = 128;

/// Vectors by text; the one that was not used for longest goes first.
pub(super) struct Cache {
    entries: HashMap<Key, Entry>,
    /// Keys by when they were last used.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    entries_max: usize,
}

struct Entry {
    vector: Vec<f32>,
    last_use: u64,
}

impl Cache {
    pub(super) fn new(bytes_max: usize, dimensions: usize) -> Self {
        let entries_max = bytes_max / (dimensions * size_of::<f32>() + ENTRY_BYTES);
        Self { entries: HashMap::new(), by_use: BTreeMap::new(), uses: 0, entries_max }
    }

    /// The vector of a text, which thereby was used.
    pub(super) fn get(&mut self, key: Key) -> Option<Vec<f32>> {
        let now = self.tick();
        let entry = self.entries.get_mut(&key)?;
        self.by_use.remove(&std::mem::replace(&mut entry.last_use, now));
        self.by_use.insert(now, key);
        Some(entry.vector.clone())
    }

    /// Keeps a vector, and forgets others when there are too many.
    pub(super) fn put(&mut self, key: Key, vector: &[f32]) {
        let now = self.tick();
        if let Some(before) = self.entries.insert(key, Entry { vector: vector.to_vec(), last_use: now }) {
            self.by_use.remove(&before.last_use);
        }
        self.by_use.insert(now, key);
        while self.entries.len() > self.entries_max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.entries.remove(&oldest);
        }
    }

    fn tick(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with room for so many vectors of one dimension.
    fn room_for(entries: usize) -> Cache {
        Cache::new(entries * (4 + ENTRY_BYTES), 1)
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let mut cache = room_for(2);
        cache.put(1, &[1.0]);
        cache.put(2, &[2.0]);
        assert_eq!(cache.get(1), Some(vec![1.0]));
        cache.put(3, &[3.0]);
        assert_eq!((cache.get(1), cache.get(2), cache.get(3)), (Some(vec![1.0]), None, Some(vec![3.0])));
    }

    #[test]
    fn what_is_kept_twice_is_there_once() {
        let mut cache = room_for(2);
        for round in 0..10_u8 {
            cache.put(1, &[f32::from(round)]);
        }
        assert_eq!((cache.entries.len(), cache.by_use.len()), (1, 1));
        assert_eq!(cache.get(1), Some(vec![9.0]));
    }

    #[test]
    fn it_never_outgrows_its_bound() {
        let mut cache = room_for(8);
        for key in 0..1000 {
            cache.put(key, &[0.0]);
            cache.get(key / 2);
        }
        assert_eq!((cache.entries.len(), cache.by_use.len()), (8, 8));
    }

    #[test]
    fn a_cache_may_have_no_room_at_all() {
        let mut cache = room_for(0);
        cache.put(1, &[1.0]);
        assert_eq!(cache.get(1), None);
    }
}
