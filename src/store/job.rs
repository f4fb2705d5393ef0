//! What a store keeps of jobs: a queue beside the data, claimed by lease.
//!
//! A job is asked for in the transaction of the turn that makes it due, once for each session and kind. Whoever claims it has a
//! fence; its effect and its end are one transaction, which happens only while the fence is the job's newest.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::episode::Consolidation;
use super::facts::Noted;
use super::topics::TopicTold;
use super::{Page, PageRequest, StoreFuture};
use crate::id::{JobId, SessionId};
use crate::job::{Job, JobKind};
use crate::scope::Scope;

/// The part of a store that keeps jobs.
pub trait Jobs: Send + Sync {
    /// Asks for a job. One that waits is enough; one that runs is run again afterwards; a dead one stays dead. Answers
    /// whether there is such a session.
    fn enqueue(&self, scope: &Scope, session: SessionId, kind: JobKind) -> StoreFuture<'_, bool>;

    /// Takes the next job of a user, or of anybody, that is due or whose lease has lapsed, for as long as the lease. A job that is taken
    /// for the sixth time was lost five times: whoever takes it gives it up.
    fn claim(&self, scope: Option<&Scope>, now: Timestamp, lease: SignedDuration) -> StoreFuture<'_, Option<Claim>>;

    /// Applies what a job came to and ends it, both or neither.
    fn finish(&self, claim: &Claim, effect: Effect) -> StoreFuture<'_, Finished>;

    /// Notes why a try failed, and when the next one is; without one the job is dead.
    fn fail(&self, claim: &Claim, error: &str, next_try: Option<Timestamp>) -> StoreFuture<'_, Finished>;

    /// Puts a job back that was not done, as if it had not been claimed.
    fn give_back(&self, claim: &Claim) -> StoreFuture<'_, Finished>;

    /// Frees the jobs that a former process claimed; to be called before anybody claims. Answers how many.
    fn release(&self) -> StoreFuture<'_, u64>;

    /// A user's jobs, oldest first.
    fn list(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Job>>;

    /// Counts the jobs of a user, or of everybody.
    fn counts(&self, scope: Option<&Scope>) -> StoreFuture<'_, JobCounts>;

    /// Brings dead jobs of a user back, or everybody's, all or one, and lets those that wait for their next try run now.
    /// Answers how many.
    fn retry(&self, scope: Option<&Scope>, job: Option<JobId>) -> StoreFuture<'_, u64>;

    /// Lets jobs of a user, or of everybody, run now that wait for nothing but a conversation to rest. Answers how many.
    fn hurry(&self, scope: Option<&Scope>) -> StoreFuture<'_, u64>;

    /// Notes that a session is over, and lets its jobs run now that wait for nothing but its rest. Answers whether there is
    /// such a session.
    fn end_session(&self, scope: &Scope, session: SessionId, at: Timestamp) -> StoreFuture<'_, bool>;

    /// Told whenever a job was asked for. A hint: who misses it finds the job by looking.
    fn news(&self) -> Arc<Notify>;
}

/// A job in somebody's hands.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The job, as it was claimed.
    pub job: Job,
    /// Whose it is.
    pub scope: Scope,
    /// When somebody last said that its session is over.
    pub ended_at: Option<Timestamp>,
    pub(super) key: i64,
    pub(super) fence: i64,
}

/// What a job came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// There was nothing to do.
    Nothing,
    /// It is too early: the job waits until then, as if it had not been claimed.
    Later(Timestamp),
    /// Turns became episodes.
    Consolidate(Box<Consolidation>),
    /// A topic was told on.
    TellTopic(Box<TopicTold>),
    /// Facts were noted.
    Learn(Box<Noted>),
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// It is done, or its failure is noted.
    Done,
    /// The effect is applied and there is more to do: the job waits again.
    Again,
    /// It waits until it may be done.
    Later,
    /// What the effect was made from has changed: nothing is applied, the job waits again.
    Changed,
    /// Somebody else has it, or its session went: nothing is applied.
    Lost,
}

/// How many jobs there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobCounts {
    /// They wait for their time.
    pub queued: u64,
    /// Of those, tried before without success.
    pub failing: u64,
    /// Somebody does them.
    pub running: u64,
    /// They were given up.
    pub dead: u64,
    /// Why the last of those that failed did.
    pub last_error: Option<String>,
}
