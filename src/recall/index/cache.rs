//! Which scopes are in memory: as many as fit, the least recently used go first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::ScopeIndex;
use crate::recall::episodes::EpisodeShelf;
use crate::recall::texts::Texts;
use crate::scope::{Scope, Tenant};
use crate::store::ChangeMark;

/// A scope's index, summaries and the texts that were read lately, and up to when they know their scope.
pub(crate) struct Shelf {
    /// One loads or catches up at a time; the others wait for it.
    pub(crate) catching_up: Arc<tokio::sync::Mutex<Marks>>,
    pub(crate) index: RwLock<ScopeIndex>,
    episodes: RwLock<EpisodeShelf>,
    texts: Mutex<Texts>,
}

/// Up to when a shelf knows its scope.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) turns: Option<ChangeMark>,
    pub(crate) episodes: Option<ChangeMark>,
}

impl Shelf {
    fn new(dimensions: usize, texts_max: usize) -> Self {
        Self {
            catching_up: Arc::default(),
            index: RwLock::new(ScopeIndex::new(dimensions)),
            episodes: RwLock::default(),
            texts: Mutex::new(Texts::new(texts_max)),
        }
    }

    /// Looks at or changes the texts that were read lately.
    pub(crate) fn with_texts<T>(&self, with: impl FnOnce(&mut Texts) -> T) -> T {
        with(&mut self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the index.
    pub(crate) fn read<T>(&self, with: impl FnOnce(&ScopeIndex) -> T) -> T {
        with(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the index.
    pub(crate) fn write<T>(&self, with: impl FnOnce(&mut ScopeIndex) -> T) -> T {
        with(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the summaries.
    pub(crate) fn read_episodes<T>(&self, with: impl FnOnce(&EpisodeShelf) -> T) -> T {
        with(&self.episodes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the summaries.
    pub(crate) fn write_episodes<T>(&self, with: impl FnOnce(&mut EpisodeShelf) -> T) -> T {
        with(&mut self.episodes.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// How much memory all of it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.read(ScopeIndex::bytes) + self.read_episodes(EpisodeShelf::bytes) + self.with_texts(|texts| texts.bytes())
    }
}

struct Held {
    shelf: Arc<Shelf>,
    bytes: usize,
    used: u64,
}

#[derive(Default)]
struct Shelves {
    held: HashMap<Scope, Held>,
    bytes: usize,
    clock: u64,
}

/// The scopes in memory.
pub(crate) struct Cache {
    bytes_max: usize,
    texts_max: usize,
    dimensions: usize,
    shelves: Mutex<Shelves>,
}

impl Cache {
    /// `texts_max` is for the texts of one scope, in each of two generations.
    pub(crate) fn new(bytes_max: usize, texts_max: usize, dimensions: usize) -> Self {
        Self { bytes_max, texts_max, dimensions, shelves: Mutex::default() }
    }

    /// The scope's shelf, empty if it was not in memory.
    pub(crate) fn shelf(&self, scope: &Scope) -> Arc<Shelf> {
        let mut shelves = self.lock();
        shelves.clock += 1;
        let used = shelves.clock;
        let new = || Held { shelf: Arc::new(Shelf::new(self.dimensions, self.texts_max)), bytes: 0, used };
        let held = shelves.held.entry(scope.clone()).or_insert_with(new);
        held.used = used;
        Arc::clone(&held.shelf)
    }

    /// Whether a scope is in memory.
    pub(crate) fn holds(&self, scope: &Scope) -> bool {
        self.lock().held.get(scope).is_some_and(|held| held.bytes > 0)
    }

    /// Notes how much a scope takes now, and answers the scopes that had to go for it. A scope that alone is larger
    /// than everything stays while it is in use, and goes when another one comes.
    pub(crate) fn note(&self, scope: &Scope, bytes: usize) -> Vec<Scope> {
        let mut shelves = self.lock();
        let Some(held) = shelves.held.get_mut(scope) else { return Vec::new() };
        let before = std::mem::replace(&mut held.bytes, bytes);
        shelves.bytes = shelves.bytes + bytes - before;
        let mut gone = Vec::new();
        while shelves.bytes > self.bytes_max || shelves.held.len() > SCOPES_MAX {
            let others = shelves.held.iter().filter(|(other, _)| *other != scope);
            let Some((oldest, _)) = others.min_by_key(|(_, held)| held.used) else { break };
            let oldest = oldest.clone();
            if let Some(held) = shelves.held.remove(&oldest) {
                shelves.bytes -= held.bytes;
            }
            gone.push(oldest);
        }
        gone
    }

    /// Lets a scope go; the next search loads it anew.
    pub(crate) fn drop_scope(&self, scope: &Scope) {
        let mut shelves = self.lock();
        if let Some(held) = shelves.held.remove(scope) {
            shelves.bytes -= held.bytes;
        }
    }

    /// The scopes of a tenant that are in memory.
    pub(crate) fn scopes_of(&self, tenant: &Tenant) -> Vec<Scope> {
        self.lock().held.keys().filter(|scope| scope.tenant() == tenant).cloned().collect()
    }

    /// Bytes in memory, and scopes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let shelves = self.lock();
        (shelves.bytes, shelves.held.len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// More scopes than this are not held, however small: finding the oldest walks them all.
const SCOPES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Tenant, User};

    fn scope(name: &str) -> Scope {
        Scope::new(Tenant::default(), User::parse(name).expect("a name"))
    }

    #[test]
    fn the_least_recently_used_goes() {
        let cache = Cache::new(100, 100, 4);
        for name in ["a", "b"] {
            cache.shelf(&scope(name));
            assert!(cache.note(&scope(name), 40).is_empty());
        }
        cache.shelf(&scope("a"));
        cache.shelf(&scope("c"));
        assert_eq!(cache.note(&scope("c"), 40), [scope("b")]);
        assert_eq!(cache.size(), (80, 2));
        assert_eq!(cache.note(&scope("c"), 500), [scope("a")]);
        cache.drop_scope(&scope("c"));
        assert_eq!(cache.size(), (0, 0));
    }
}
