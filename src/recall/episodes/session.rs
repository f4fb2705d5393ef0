//! What is told of the running conversation, of the turns that are no longer shown: much of the newest, little of the
//! oldest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::{EpisodeShelf, HeldEpisode};
use crate::episode::Level;
use crate::id::{EpisodeId, SessionId};
use crate::model::builtin::summary::{Summary, SummaryBounds, extend};

/// Tokens of the stretch that was told last, of the session's own summary, and of the newest hours after that.
const STRETCH_TOKENS: usize = 96;
const SESSION_TOKENS: usize = 64;
const HOUR_TOKENS: [usize; 3] = [48, 32, 32];

/// A part of what is told, and the tokens it may take.
pub(crate) type Part = (Arc<HeldEpisode>, usize);

/// What is told of a conversation beside what is shown of it, by what it is worth: the stretch that ended last, the
/// summary of what lies further back than a day, and the newest hours between. `is_out` says which are left out.
pub(crate) fn told_of_session(
    shelf: &EpisodeShelf,
    session: SessionId,
    is_out: impl Fn(&HeldEpisode) -> bool,
) -> Vec<Part> {
    let of = |level: Level| shelf.of_session(session, level).filter(|held| !is_out(held));
    let (stretch, whole) = (of(Level::Stretch).next(), of(Level::Session).next());
    let is_told = |hour: &HeldEpisode| {
        stretch.is_some_and(|stretch| hour.tells_the_same(stretch)) || whole.is_some_and(|whole| whole.overlaps(hour))
    };
    let hours = of(Level::Hour).filter(|hour| !is_told(hour)).zip(HOUR_TOKENS);
    let ends = stretch.map(|held| (held, STRETCH_TOKENS)).into_iter().chain(whole.map(|held| (held, SESSION_TOKENS)));
    ends.chain(hours).map(|(held, tokens)| (Arc::clone(held), tokens)).collect()
}

/// Summaries that were made shorter before, by name, hash of what they say, and tokens. Shortening takes longer than finding. Versions would
/// not do: what was told of something erased goes, and what is told in its place begins with the first version of the same name.
#[derive(Default)]
pub(crate) struct Shrunk(Mutex<Shorter>);

type Shorter = HashMap<(EpisodeId, u64, usize), Arc<str>>;

/// More are not remembered; about two megabytes. When there are more, all are forgotten: they are soon made again.
const SHRUNK_MAX: usize = 4_096;

impl Shrunk {
    /// A summary in no more than so many tokens.
    pub(crate) fn text(&self, held: &HeldEpisode, tokens_max: usize) -> Arc<str> {
        let key = (held.id, xxh3_64(held.summary.as_bytes()), tokens_max);
        if let Some(known) = self.lock().get(&key) {
            return Arc::clone(known);
        }
        let text = shrink(held, tokens_max);
        let mut known = self.lock();
        if known.len() >= SHRUNK_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&text));
        text
    }

    fn lock(&self) -> MutexGuard<'_, Shorter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shrink(held: &HeldEpisode, tokens_max: usize) -> Arc<str> {
    let told = Summary::read(&held.summary, Some(held.from));
    if told.tokens <= tokens_max {
        return Arc::clone(&held.summary);
    }
    extend(&told, &[], SummaryBounds { tokens_max }).text().into()
}
