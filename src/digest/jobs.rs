//! Jobs: claimed, done, and ended together with what they came to.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::episode::Episode;
use crate::id::{JobId, SessionId};
use crate::job::{ATTEMPTS_MAX, Job, JobKind, dice, next_try};
use crate::memory::Memory;
use crate::model::embed::EmbedError;
use crate::model::memory::Failure;
use crate::scope::Scope;
use crate::store::{Claim, Effect, Finished, JobCounts, Page, PageRequest, StoreError};

/// How long a job may take before somebody else may try it, beside what it waits for answers to its questions.
const LEASE: Duration = Duration::from_secs(5 * 60);
/// Questions of one job: a stretch that changed and a new one, the hour before and the hour of each, the session.
const QUESTIONS_MAX: u32 = 7;
/// How long a job waits for somebody who can read what it is about.
const NEWER_PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// Most jobs in one call of [`Memory::run_jobs_once`]; a job that never comes to an end must not keep its caller.
const RUN_MAX: u64 = 100_000;

/// Why a job could not be done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DigestError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody summarised.
    #[error("no summary: {0}")]
    Model(#[from] Failure),
    /// Nobody made vectors.
    #[error("no vectors: {0}")]
    Embed(#[from] EmbedError),
    /// Those who tried it were gone before they came to an end, too often.
    #[error("whoever did it stopped before it was done, {ATTEMPTS_MAX} times")]
    Lapsed,
    /// A job of a kind that this version does not know.
    #[error("this version knows no jobs of the kind `{0}`")]
    UnknownKind(JobKind),
}

/// How a try at a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// As the store says.
    Finished(Finished),
    /// It failed and is tried again later.
    Failed,
    /// It failed for the last time.
    Dead,
}

/// What a run of jobs came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobsRun {
    /// Tries that ended with their effect.
    pub done: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Tries whose effect came too late, or was of something that changed.
    pub lost: u64,
}

impl Memory {
    /// Does every job that is due, and those that wait for nothing but a conversation to rest. To be called by whoever has no
    /// worker, or no time.
    pub async fn run_jobs_once(&self) -> Result<JobsRun, StoreError> {
        self.run_jobs_of(None).await
    }

    /// The same for one user, or for everybody: what is others' is left to rest.
    pub async fn run_jobs_of(&self, scope: Option<&Scope>) -> Result<JobsRun, StoreError> {
        self.parts.store.jobs().hurry(scope).await?;
        let mut run = JobsRun::default();
        while run.done + run.failed + run.lost < RUN_MAX {
            let Some(claim) = self.claim_job_of(scope).await? else { break };
            match self.do_job(&claim, false).await? {
                JobEnd::Finished(Finished::Done | Finished::Again) => run.done += 1,
                JobEnd::Finished(Finished::Changed | Finished::Lost | Finished::Later) => run.lost += 1,
                JobEnd::Failed | JobEnd::Dead => run.failed += 1,
            }
        }
        Ok(run)
    }

    /// Takes the next job that is due.
    pub async fn claim_job(&self) -> Result<Option<Claim>, StoreError> {
        self.claim_job_of(None).await
    }

    async fn claim_job_of(&self, scope: Option<&Scope>) -> Result<Option<Claim>, StoreError> {
        let now = self.parts.clock.reading().wall;
        self.parts.store.jobs().claim(scope, now, self.lease()).await
    }

    /// Nobody else may try a job while whoever does it is still answered.
    fn lease(&self) -> SignedDuration {
        let answers = self.parts.summariser.patience().saturating_mul(QUESTIONS_MAX);
        SignedDuration::try_from(LEASE.saturating_add(answers)).unwrap_or(SignedDuration::MAX)
    }

    /// Does a job and ends it. May be dropped at any time: then the claim is still held, see [`Memory::give_job_back`].
    pub async fn run_job(&self, claim: &Claim) -> Result<JobEnd, StoreError> {
        self.do_job(claim, true).await
    }

    /// `patient` waits for a conversation to rest before a memory model is asked about it.
    async fn do_job(&self, claim: &Claim, patient: bool) -> Result<JobEnd, StoreError> {
        let done = match self.perform(claim, patient).await {
            Ok(effect) => self.finish(claim, effect).await.map_err(DigestError::from),
            Err(error) => Err(error),
        };
        match done {
            Ok(finished) => Ok(self.ended(claim, finished)),
            Err(error) => self.note_failure(claim, &error).await,
        }
    }

    /// Ends a job with its effect. Text that was summarised moves into blocks; where that fails, the next job moves it.
    async fn finish(&self, claim: &Claim, effect: Effect) -> Result<Finished, StoreError> {
        let told = match &effect {
            Effect::Consolidate(done) => done.to,
            Effect::Nothing | Effect::Later(_) | Effect::TellTopic(_) | Effect::Learn(_) => 0,
        };
        let finished = self.parts.store.jobs().finish(claim, effect).await?;
        if told > 0 && matches!(finished, Finished::Done | Finished::Again) {
            // The next question finds the summaries in memory.
            self.recall.take_in(&claim.scope);
            let session = claim.job.session;
            match self.archive(&claim.scope, session, told + 1).await {
                Err(error) if error.is_away() => debug!(session.id = %session, "Old text stays where it is: {error}"),
                Err(error) => {
                    warn!(session.id = %session, error = %error, "Old text of session `{session}` stays where it is: {error}");
                }
                Ok(_) => {}
            }
        }
        Ok(finished)
    }

    async fn perform(&self, claim: &Claim, patient: bool) -> Result<Effect, DigestError> {
        let effect = match &claim.job.kind {
            _ if claim.job.attempts > ATTEMPTS_MAX => Err(DigestError::Lapsed),
            kind if *kind == JobKind::CONSOLIDATE => self.consolidate(claim, patient).await,
            kind if *kind == JobKind::SUMMARISE => self.summarise_topic(claim, patient).await,
            kind if *kind == JobKind::LEARN => self.note_facts(claim, patient).await,
            kind => Err(DigestError::UnknownKind(kind.clone())),
        };
        match effect {
            Err(DigestError::Store(error)) if error.wants_newer() => Ok(self.leave_to_newer(claim, &error)),
            effect => effect,
        }
    }

    /// What cannot be read here is not left out of what is told: the job waits, perhaps for another instance.
    fn leave_to_newer(&self, claim: &Claim, error: &StoreError) -> Effect {
        let Job { id, kind, session, .. } = &claim.job;
        warn!(job.id = %id, session.id = %session, error = %error, "Job `{kind}` of session `{session}` waits: {error}");
        let now = self.parts.clock.reading().wall;
        Effect::Later(now.saturating_add(NEWER_PAUSE).unwrap_or(now))
    }

    fn ended(&self, claim: &Claim, finished: Finished) -> JobEnd {
        let Job { id, kind, session, .. } = &claim.job;
        match finished {
            Finished::Done | Finished::Again => self.parts.meters.jobs_done.one(),
            Finished::Later => {}
            Finished::Changed | Finished::Lost => {
                info!(job.id = %id, session.id = %session, "Job `{kind}` of session `{session}` came to nothing: {finished:?}");
            }
        }
        JobEnd::Finished(finished)
    }

    async fn note_failure(&self, claim: &Claim, error: &DigestError) -> Result<JobEnd, StoreError> {
        let Job { id, kind, session, attempts, .. } = &claim.job;
        let now = self.parts.clock.reading().wall;
        if matches!(error, DigestError::Store(cause) if cause.is_away()) {
            return self.wait_for_store(claim, error, now).await;
        }
        // A server that says when to come back is taken at its word.
        let wanted = match error {
            DigestError::Model(failure) => failure.retry_after(now).unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let pause = next_try(*attempts, dice(*id, *attempts));
        let next = pause.map(|pause| now.saturating_add(pause.max(wanted)).unwrap_or(now));
        self.parts.meters.jobs_failed.one();
        let end = if next.is_some() { JobEnd::Failed } else { JobEnd::Dead };
        let what = format!("Job `{kind}` of session `{session}` failed ({attempts} times so far)");
        warn!(job.id = %id, session.id = %session, job.attempts = attempts, error = %error, "{what}: {error}");
        match self.parts.store.jobs().fail(claim, &error.to_string(), next).await? {
            Finished::Lost => return Ok(JobEnd::Finished(Finished::Lost)),
            _ if end == JobEnd::Dead => self.parts.meters.jobs_dead.one(),
            _ => {}
        }
        Ok(end)
    }

    /// It is not the job's fault that the database is away: it waits as if nobody had tried it. That is said once for each
    /// outage, by whoever watches over the database.
    async fn wait_for_store(&self, claim: &Claim, error: &DigestError, now: Timestamp) -> Result<JobEnd, StoreError> {
        let Job { id, kind, session, attempts, .. } = &claim.job;
        debug!(job.id = %id, "Job `{kind}` of session `{session}` waits for the database: {error}");
        let pause = next_try(1, dice(*id, *attempts)).unwrap_or_default();
        let until = now.saturating_add(pause).unwrap_or(now);
        self.parts.store.jobs().finish(claim, Effect::Later(until)).await.map(JobEnd::Finished)
    }

    /// Puts a job back that was not seen through.
    pub async fn give_job_back(&self, claim: &Claim) -> Result<(), StoreError> {
        self.parts.store.jobs().give_back(claim).await.map(drop)
    }

    /// Told when there is a new job.
    pub fn job_news(&self) -> Arc<Notify> {
        self.parts.store.jobs().news()
    }

    /// A user's jobs.
    pub async fn jobs(&self, scope: &Scope, page: PageRequest) -> Result<Page<Job>, StoreError> {
        self.parts.store.jobs().list(scope, page).await
    }

    /// How many jobs a user has, or everybody.
    pub async fn job_counts(&self, scope: Option<&Scope>) -> Result<JobCounts, StoreError> {
        self.parts.store.jobs().counts(scope).await
    }

    /// Tries jobs again that were given up or wait for their next try, of one user or of everybody, all or one.
    pub async fn retry_jobs(&self, scope: Option<&Scope>, job: Option<JobId>) -> Result<u64, StoreError> {
        self.parts.store.jobs().retry(scope, job).await
    }

    /// Asks for a session to be looked at. Answers whether there is one.
    pub async fn ask_for_digest(&self, scope: &Scope, session: SessionId) -> Result<bool, StoreError> {
        self.parts.store.jobs().enqueue(scope, session, JobKind::CONSOLIDATE).await
    }

    /// A user's episodes, of one session or of all.
    pub async fn episodes(
        &self,
        scope: &Scope,
        session: Option<SessionId>,
        page: PageRequest,
    ) -> Result<Page<Episode>, StoreError> {
        self.parts.store.episodes().list(scope, session, page).await
    }

    /// Removes what was derived from turns that are there, of one user or of everybody, and asks for it to be derived
    /// again. Answers how many episodes went.
    pub async fn digest_again(&self, scope: Option<&Scope>) -> Result<u64, StoreError> {
        self.parts.store.episodes().make_again(scope).await
    }
}
