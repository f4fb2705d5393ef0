//! Proposals: a memory model is asked, what that costs is counted, and where it cannot, the built-in does it.
//!
//! What passes (a time-out, a server that is busy) is waited for: the job is tried again later. The last try of a job, a
//! tenant whose day is spent, and an answer that cannot be used are left to the built-in, so that nothing waits for ever.

use std::sync::PoisonError;

use jiff::Timestamp;
use tracing::warn;

use super::jobs::DigestError;
use crate::id::TopicId;
use crate::job::{ATTEMPTS_MAX, told as bounded};
use crate::memory::Memory;
use crate::model::memory::{Failure, NoProposal, Proposal, Spent};
use crate::model::summarise::{Extractive, Summariser, SummaryFuture, Talk, Telling};
use crate::scope::Scope;
use crate::store::{Claim, DaySpent, Page, PageRequest, StoreError, UnusedAnswer, day_of};

/// For which job something is asked, and about which topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) claim: &'a Claim,
    pub(super) topic: Option<TopicId>,
}

impl Asking<'_> {
    fn is_last_try(&self) -> bool {
        self.claim.job.attempts >= ATTEMPTS_MAX
    }
}

impl Memory {
    /// Says briefly what was said, whoever can.
    pub(super) async fn say_briefly(&self, asking: Asking<'_>, talk: Talk) -> Result<Telling, DigestError> {
        let summariser = &self.parts.summariser;
        let proposed = match summariser.is_metered() {
            true => self.propose(asking, summariser.summarise(talk.clone())).await?,
            false => unmetered(asking, summariser.summarise(talk.clone())).await?,
        };
        match proposed {
            Some(telling) => Ok(telling),
            None => Ok(Extractive.summarise(talk).await.map_err(|no| no.why)?.value),
        }
    }

    /// Asks, and counts what that costs. `None` leaves it to the built-in; an error is to be tried again later.
    pub(super) async fn propose<T>(
        &self,
        asking: Asking<'_>,
        ask: impl Future<Output = Result<Proposal<T>, NoProposal>>,
    ) -> Result<Option<T>, DigestError> {
        let now = self.parts.clock.reading().wall;
        if self.is_day_spent(asking, now).await? {
            self.fall_back(asking, now, DaySpent { capped: 1, ..DaySpent::default() }).await?;
            return Ok(None);
        }
        let resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner).refuses(now);
        if let Some(resting) = resting {
            return self.wait_or_fall_back(asking, now, resting).await;
        }
        let asked = ask.await;
        // An answer may take minutes; a rest begins when it is known to be needed.
        let now = self.parts.clock.reading().wall;
        match asked {
            Ok(Proposal { value, spent }) => {
                self.note_answer(asking, now, spent).await?;
                Ok(Some(value))
            }
            Err(no) => self.without_proposal(asking, now, no).await,
        }
    }

    async fn without_proposal<T>(
        &self,
        asking: Asking<'_>,
        now: Timestamp,
        no: NoProposal,
    ) -> Result<Option<T>, DigestError> {
        let NoProposal { why, spent, raw } = no;
        self.note_failure_of_model(asking, now, &why, spent).await?;
        if why.may_pass() {
            self.resting.lock().unwrap_or_else(PoisonError::into_inner).failed(&why, now);
            return self.wait_or_fall_back(asking, now, why).await;
        }
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).answered();
        self.keep_raw(asking, now, &why, raw).await?;
        self.fall_back(asking, now, DaySpent::default()).await?;
        Ok(None)
    }

    /// What passes is waited for, but not beyond the last try.
    async fn wait_or_fall_back<T>(
        &self,
        asking: Asking<'_>,
        now: Timestamp,
        why: Failure,
    ) -> Result<Option<T>, DigestError> {
        if !asking.is_last_try() {
            return Err(why.into());
        }
        self.fall_back(asking, now, DaySpent::default()).await?;
        Ok(None)
    }

    /// Whether the tenant may ask no more today.
    async fn is_day_spent(&self, asking: Asking<'_>, now: Timestamp) -> Result<bool, StoreError> {
        let caps = self.settings.asking;
        if caps.calls_per_day == 0 && caps.tokens_per_day == 0 {
            return Ok(false);
        }
        let spent = self.parts.store.ledger().spent_on(&asking.claim.scope, day_of(now)).await?;
        let over = |cap: u64, spent: u64| cap > 0 && spent >= cap;
        Ok(over(caps.calls_per_day, spent.calls) || over(caps.tokens_per_day, spent.tokens))
    }

    async fn note_answer(&self, asking: Asking<'_>, now: Timestamp, spent: Spent) -> Result<(), StoreError> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).answered();
        self.note_spent(asking, now, spent, DaySpent::default()).await
    }

    async fn note_failure_of_model(
        &self,
        asking: Asking<'_>,
        now: Timestamp,
        why: &Failure,
        spent: Spent,
    ) -> Result<(), StoreError> {
        let session = asking.claim.job.session;
        let kind = why.kind();
        warn!(session.id = %session, failure = %kind, "The memory model failed for session `{session}`: {kind}");
        self.note_spent(asking, now, spent, self.count_failure(kind)).await
    }

    async fn note_spent(
        &self,
        asking: Asking<'_>,
        now: Timestamp,
        spent: Spent,
        more: DaySpent,
    ) -> Result<(), StoreError> {
        let day = self.count_asked(spent, more);
        self.parts.store.ledger().spend(&asking.claim.scope, day_of(now), day).await
    }

    async fn fall_back(&self, asking: Asking<'_>, now: Timestamp, why: DaySpent) -> Result<(), StoreError> {
        self.note_spent(asking, now, Spent::default(), DaySpent { fallbacks: 1, ..why }).await
    }

    /// What was answered instead, for a person to look at.
    async fn keep_raw(
        &self,
        asking: Asking<'_>,
        at: Timestamp,
        why: &Failure,
        raw: Option<String>,
    ) -> Result<(), StoreError> {
        let Some(answer) = raw else { return Ok(()) };
        let (session, topic) = (asking.claim.job.session, asking.topic);
        let (kind, reason) = (why.kind().to_string(), bounded(&why.to_string()).to_owned());
        let unused = UnusedAnswer { session, topic, kind, reason, answer, at };
        self.parts.store.ledger().keep_unused(asking.claim, unused).await
    }

    /// What the memory model has cost the tenant of a scope today.
    pub async fn spent_today(&self, scope: &Scope) -> Result<DaySpent, StoreError> {
        let today = day_of(self.parts.clock.reading().wall);
        self.parts.store.ledger().spent_on(scope, today).await
    }

    /// A user's answers of the memory model that could not be used.
    pub async fn unused_answers(&self, scope: &Scope, page: PageRequest) -> Result<Page<UnusedAnswer>, StoreError> {
        self.parts.store.ledger().unused(scope, page).await
    }

    /// Until when a conversation is left to rest before a memory model is asked about it; `None` is not at all. One that
    /// somebody ended since it was last used rests already.
    pub(super) fn rests_until(&self, claim: &Claim, last_said: Timestamp, bytes: u64) -> Option<Timestamp> {
        let ended = claim.ended_at.is_some_and(|ended_at| ended_at >= last_said);
        if ended || !self.parts.summariser.is_metered() || bytes >= ENOUGH_BYTES {
            return None;
        }
        let rested = last_said.saturating_add(self.settings.asking.idle).unwrap_or(Timestamp::MAX);
        Some(rested).filter(|rested| self.parts.clock.reading().wall < *rested)
    }
}

/// Enough to be told while a conversation still goes on: about three thousand tokens.
const ENOUGH_BYTES: u64 = 12_000;

async fn unmetered(asking: Asking<'_>, ask: SummaryFuture<'_>) -> Result<Option<Telling>, DigestError> {
    match ask.await {
        Ok(Proposal { value, .. }) => Ok(Some(value)),
        Err(_) if asking.is_last_try() => Ok(None),
        Err(no) => Err(no.why.into()),
    }
}
