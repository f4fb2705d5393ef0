//! Sessions that were seen here a moment ago, so that a request that looks several times fetches its session once.
//!
//! Never believed: whoever asks says which version it knows, and is sent another where there is one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::live::{LiveKey, LiveSession};

/// How long a session is remembered that nobody asks for.
const REMEMBERED: Duration = Duration::from_secs(30);
/// What all of them may take.
const BYTES_MAX: usize = 64 << 20;

/// A session, and which version it is.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) session: Arc<LiveSession>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    sessions: HashMap<LiveKey, (Version, Instant)>,
    bytes: usize,
}

impl Known {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &LiveKey) -> Option<Version> {
        self.held().sessions.get(key).map(|(version, _)| version.clone())
    }

    pub(super) fn put(&self, key: &LiveKey, version: Version) {
        let mut held = self.held();
        held.remove(key);
        let bytes = version.session.bytes();
        if held.bytes + bytes <= BYTES_MAX {
            held.bytes += bytes;
            held.sessions.insert(key.clone(), (version, Instant::now()));
        }
    }

    pub(super) fn forget(&self, key: &LiveKey) {
        self.held().remove(key);
    }

    /// Lets go of those that nobody asked for in a while: they may have ended elsewhere.
    pub(super) fn forget_old(&self) {
        let mut held = self.held();
        let Held { sessions, bytes } = &mut *held;
        sessions.retain(|_, (version, since)| {
            let stays = since.elapsed() < REMEMBERED;
            *bytes -= if stays { 0 } else { version.session.bytes() };
            stays
        });
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.held().bytes
    }
}

impl Held {
    fn remove(&mut self, key: &LiveKey) {
        if let Some((version, _)) = self.sessions.remove(key) {
            self.bytes -= version.session.bytes();
        }
    }
}
