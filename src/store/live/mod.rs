//! Live sessions: where the conversations of visitors are kept, apart from everything durable.
//!
//! One trait, so that several servers can share their visitors: [`InMemory`] keeps them here, bounded, and `Redis` keeps
//! the same values where all of them find them. What a change does to a session is decided by the session (`live`); a store looks
//! it up, has it changed as one step, and knows when its time is over.
//!
//! **Invariant:** a session leaves the store once: whoever takes it out is handed it, and nobody else.

mod expiry;
mod memory;
#[cfg(feature = "redis")]
mod redis;

pub use memory::InMemory;
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisSettings, RedisState};

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Reading;
use crate::id::TurnId;
use crate::live::{Lease, LiveKey, LiveSession, NoSuchTurn, Retold};
use crate::scope::Tenant;
use crate::session::{ClosedTurn, EndReason, OpenTurn, ReviseTurn, SessionPatch, SessionSeed, TurnDraft};
use crate::store::{Page, PageRequest};

/// What every method of [`Live`] answers with, sooner or later.
pub type LiveFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LiveError>> + Send + 'a>>;

/// Where live sessions are kept.
pub trait Live: Send + Sync + 'static {
    /// Makes a session, if there is none and its tenant may have one more.
    fn begin(&self, key: &LiveKey, seed: SessionSeed, rules: LiveRules, at: Reading) -> LiveFuture<'_, Seen>;

    /// Looks a session up. One whose time is over is not there any more. Coming back refreshes its lease; a look from
    /// aside does not.
    fn look(&self, key: &LiveKey, look: Look, at: Reading) -> LiveFuture<'_, Option<Seen>>;

    /// Changes a session as one step, which counts as coming back. `None` when there is none.
    fn change(
        &self,
        key: &LiveKey,
        change: LiveChange,
        rules: LiveRules,
        at: Reading,
    ) -> LiveFuture<'_, Option<Changed>>;

    /// Takes a session out. `None` when there is none, or somebody else was quicker.
    fn take(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>>;

    /// Takes a session out of whose end somebody is to be told. A store that outlives this process keeps it until
    /// [`Live::told`]; when that does not come, a later sweep hands it to somebody else.
    fn end(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>> {
        self.take(key, reason, at)
    }

    /// The end of a session was told, or nobody wants to hear of it.
    fn told(&self, _over: &Over) -> LiveFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Lets a session go on under another name of the same tenant.
    fn rename(&self, key: &LiveKey, to: &LiveKey, at: Reading) -> LiveFuture<'_, Option<Seen>>;

    /// Takes out up to `limit` sessions whose time is over, whoever noticed. Costs what goes, not what stays. It may be
    /// fewer than there are; none are handed over when there are none.
    fn sweep(&self, limit: usize, at: Reading) -> LiveFuture<'_, Vec<Over>>;

    /// Takes out everything that would be lost with this process.
    fn drain(&self, at: Reading) -> LiveFuture<'_, Vec<Over>>;

    /// A tenant's sessions, oldest first.
    fn list(&self, tenant: &Tenant, page: PageRequest, at: Reading) -> LiveFuture<'_, Page<Seen>>;

    /// How many sessions there are, and what they take: of a tenant, or of all.
    fn count(&self, tenant: Option<&Tenant>) -> LiveFuture<'_, LiveCount>;

    /// Whether nobody else is telling this session in brief at the moment; then whoever asks is, until
    /// [`Live::end_telling`] or for a while.
    fn begin_telling(&self, _key: &LiveKey) -> LiveFuture<'_, bool> {
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Whoever told a session in brief is done.
    fn end_telling(&self, _key: &LiveKey) -> LiveFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether several instances count together here; else each counts for itself.
    fn counts_together(&self) -> bool {
        false
    }

    /// Adds to what all instances have counted.
    fn add_counts(&self, _counts: Vec<Counted>) -> LiveFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What all instances have counted of a tenant.
    fn counts(&self, _tenant: &Tenant) -> LiveFuture<'_, Vec<Counted>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// Something that was counted of a tenant's sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Whose.
    pub tenant: Tenant,
    /// By which way they came.
    pub channel: String,
    /// What.
    pub what: String,
    /// How many more, or how many at most.
    pub n: u64,
    /// Whether the largest counts, instead of the sum.
    pub largest: bool,
}

/// What a tenant's sessions may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRules {
    /// How long a session waits that has no TTL of its own.
    pub ttl: Duration,
    /// Most sessions.
    pub sessions_max: usize,
    /// Most bytes of one.
    pub bytes_max: usize,
}

/// How a session is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Its visitor came back.
    Visit,
    /// Somebody looks without having come back.
    Aside,
}

/// A session as it was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Which.
    pub key: LiveKey,
    /// What it was like.
    pub session: Arc<LiveSession>,
    /// How long it lives.
    pub lease: Lease,
    /// When somebody last came back.
    pub last_accessed: Timestamp,
}

/// What happens to a session.
#[derive(Debug, Clone)]
pub enum LiveChange {
    /// A question.
    Open(Box<OpenTurn>),
    /// An ending.
    Close(Box<ClosedTurn>),
    /// Another try at an answer.
    Revise(Box<ReviseTurn>),
    /// Turns that others completed.
    Add(Vec<TurnDraft>),
    /// Metadata or time to live.
    Patch(SessionPatch),
    /// What was told in brief.
    Retell(Box<Retold>),
}

/// What a change came to.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The session afterwards.
    pub seen: Seen,
    /// What it came to.
    pub done: Done,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// What was to be done.
    Yes,
    /// A try at an answer has begun.
    Attempt(u32),
    /// What it was made from had changed; nothing was done.
    Outdated,
}

/// A session that was taken out.
#[derive(Debug, Clone)]
pub struct Over {
    /// As it was.
    pub seen: Seen,
    /// Why it ended.
    pub reason: EndReason,
    /// What a store knows it by that keeps it until its end is told.
    pub receipt: Option<String>,
}

/// How many sessions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveCount {
    /// Sessions.
    pub sessions: usize,
    /// What they take.
    pub bytes: usize,
}

/// Why a live session could not be had or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The tenant has as many as it may.
    #[error(
        "tenant `{tenant}` has {sessions_max} live sessions, which is as many as it may have (`session_max_sessions`)"
    )]
    TooManySessions {
        /// Whose.
        tenant: Tenant,
        /// The bound.
        sessions_max: usize,
        /// When it may be worth trying again.
        retry_after: Duration,
    },
    /// All sessions together take what they may.
    #[error(
        "all live sessions together take {bytes_max} bytes, which is as much as they may (`session_memory_total_mb`)"
    )]
    Full {
        /// The bound.
        bytes_max: usize,
        /// When it may be worth trying again.
        retry_after: Duration,
    },
    /// What was said does not fit into a session.
    #[error("what was said takes {bytes} bytes, and a session may take {bytes_max} (`session_memory_max_mb`)")]
    TooLarge {
        /// What it takes.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The session is over.
    #[error("there is no live session `{0}`; it has ended or never began")]
    Gone(LiveKey),
    /// The turn is not there, or only told of any more.
    #[error("there is no turn `{0}` in this session")]
    NoSuchTurn(TurnId),
    /// There is a session of that name.
    #[error("there is a live session `{0}` already")]
    Taken(LiveKey),
    /// The store is elsewhere and does not answer.
    #[error("live sessions cannot be reached: {0}")]
    Unreachable(String),
}

impl From<NoSuchTurn> for LiveError {
    fn from(NoSuchTurn(id): NoSuchTurn) -> Self {
        Self::NoSuchTurn(id)
    }
}

/// Applies a change to a session: the same for every backend.
pub fn apply(
    session: &mut LiveSession,
    change: LiveChange,
    rules: LiveRules,
    now: Timestamp,
) -> Result<Done, LiveError> {
    match change {
        LiveChange::Open(open) => drop(session.open(*open, now)),
        LiveChange::Close(closed) => session.close(*closed, rules.bytes_max, now)?,
        LiveChange::Revise(revise) => return Ok(Done::Attempt(session.revise(*revise, now)?)),
        LiveChange::Add(drafts) => drop(session.add(drafts, now)),
        LiveChange::Patch(patch) => session.patch(&patch, now),
        LiveChange::Retell(retold) => {
            return Ok(if session.take_in(*retold) { Done::Yes } else { Done::Outdated });
        }
    }
    Ok(Done::Yes)
}
