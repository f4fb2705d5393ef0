//! What a store keeps of episodes, and what a digest reads to make them.
//!
//! Episodes are written by the effect of a job alone. They outlive the turns they tell when those grow too old, and go with
//! their session when a person removes it.

use jiff::Timestamp;

use super::recall::{ChangeMark, Stamp};
use super::{Page, PageRequest, StoreFuture};
use crate::episode::{Episode, Leaving, Level, Meaning};
use crate::id::{EpisodeId, SessionId};
use crate::scope::Scope;
use crate::session::{SessionKind, Turn};

/// The part of a store that keeps episodes.
pub trait Episodes: Send + Sync {
    /// A user's episodes, of one session or of all, in the order they were first made. Those of which nothing is shown any
    /// more are left out.
    fn list(&self, scope: &Scope, session: Option<SessionId>, page: PageRequest) -> StoreFuture<'_, Page<Episode>>;

    /// How far a session has come. `None` when there is no such session.
    fn progress(&self, scope: &Scope, session: SessionId, limits: Limits) -> StoreFuture<'_, Option<Progress>>;

    /// The turns of a range that are shown, and a stamp of all that are there.
    fn stretch(&self, scope: &Scope, session: SessionId, first: u64, last: u64) -> StoreFuture<'_, Stretch>;

    /// A session's episodes of a level that begin with a turn after this one, by that turn: the newest of an hour, else the
    /// oldest.
    fn tier(&self, scope: &Scope, session: SessionId, wanted: Wanted) -> StoreFuture<'_, Vec<Episode>>;

    /// Removes what can be made again from turns, of one user or of everybody, and asks for it to be made: episodes, and
    /// what topics tell and know. What tells of turns that are gone stays, and what people said of topics. Jobs that were given
    /// up are tried again. Answers how many episodes went.
    fn make_again(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64>;

    /// What may be recalled: summaries that say something, of which no turn has changed, in the order they were first
    /// made.
    fn recallable(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Episode>>;

    /// What became of them since a mark, and begins to watch the scope; [`Store::unwatch`](super::Store::unwatch) ends
    /// that. Costs next to nothing when nothing changed.
    fn changed_since(&self, scope: &Scope, since: Option<ChangeMark>) -> StoreFuture<'_, EpisodeChanges>;

    /// Summaries of any scope whose vector is missing or another embedder's, in pages.
    fn to_embed(&self, embedder: &str, page: PageRequest) -> StoreFuture<'_, Page<DueEpisode>>;

    /// Keeps vectors of summaries that are still as they were.
    fn keep_vectors(&self, vectors: Vec<(DueEpisode, Meaning)>) -> StoreFuture<'_, ()>;

    /// The embedder that last made the vectors of all summaries.
    fn embedded_with(&self) -> StoreFuture<'_, Option<String>>;

    /// Notes that all summaries have vectors of this embedder.
    fn note_embedded_with(&self, embedder: &str) -> StoreFuture<'_, ()>;
}

/// What became of a scope's summaries since a mark.
#[derive(Debug, Clone, PartialEq)]
pub enum EpisodeChanges {
    /// Nothing.
    None(ChangeMark),
    /// These were touched. They are told as they are now, so that applying them twice is harmless.
    Some {
        /// The moment this is as of.
        mark: ChangeMark,
        /// Those that may be recalled.
        told: Vec<Episode>,
        /// Those that may not be recalled any more, or never could.
        gone: Vec<EpisodeId>,
    },
    /// Too much, or nobody watched: all are to be read again, after this answer.
    Reload {
        /// The moment to ask from next time.
        mark: ChangeMark,
    },
}

/// A summary that lacks its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct DueEpisode {
    /// Whose it is.
    pub scope: Scope,
    /// Its name.
    pub id: EpisodeId,
    /// Which making of it this is.
    pub version: u32,
    /// What it says.
    pub summary: String,
    pub(super) key: i64,
}

/// How much of a session's progress is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most turns.
    pub turns: usize,
    /// Most episodes to be made anew.
    pub stale: usize,
}

/// How far the summaries of a session have come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What kind of session it is.
    pub kind: SessionKind,
    /// The number of the last turn that is summarised.
    pub consolidated: u64,
    /// The number of the first turn after it that is there, shown or not.
    pub begins: u64,
    /// When something was last said.
    pub last_said: Timestamp,
    /// Bytes of the text of those turns.
    pub leaving_bytes: u64,
    /// Shown turns after it, oldest first; ephemeral sessions weigh them in messages.
    pub leaving: Vec<Leaving>,
    /// The last stretch.
    pub last: Option<Episode>,
    /// Whether all its turns are still there.
    pub last_is_whole: bool,
    /// The oldest stretches of which a turn changed.
    pub stale: Vec<Episode>,
    /// The session's own summary.
    pub session: Option<Episode>,
    /// Whether that tells of turns that changed.
    pub session_is_stale: bool,
}

/// Which episodes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Of which level.
    pub level: Level,
    /// Those that begin after this turn.
    pub after: u64,
    /// Those that were said in this hour, by when it began; `None` is any.
    pub hour: Option<Timestamp>,
    /// Most of them.
    pub limit: usize,
}

/// The turns of a range.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Those that are shown, by number. Damaged ones are left out.
    pub turns: Vec<Turn>,
    /// What the range is like: whatever changes what it says changes the stamp.
    pub stamp: Stamp,
    /// Whether every number of it is there, shown or not.
    pub whole: bool,
}

/// A range of turns as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRange {
    /// Its first number.
    pub first: u64,
    /// Its last.
    pub last: u64,
    /// What it was like.
    pub stamp: Stamp,
}

/// What a consolidation came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Consolidation {
    /// How far the session was when it was read: it must still be there.
    pub from: u64,
    /// How far it is now.
    pub to: u64,
    /// What was read: it must be as it was.
    pub read: Vec<ReadRange>,
    /// Episodes that are new, or made anew.
    pub keep: Vec<Episode>,
    /// Episodes of which nothing is shown any more.
    pub drop: Vec<EpisodeId>,
    /// Episodes that cannot be made anew and stay as they are.
    pub settled: Vec<EpisodeId>,
    /// Whether there is more to do.
    pub more: bool,
}
