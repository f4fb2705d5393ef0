//! What time does: expiry, and the end of sessions.
//!
//! Reading order: [`Memory::cleanup`], then `leap`, which decides whether the clock can be believed; `end` (who is told
//! that a session is over), `deliver` (how webhooks get there).

mod deliver;
mod end;
mod leap;
mod visits;

pub use deliver::Delivered;
pub use leap::{ClockWatch, Verdict};

use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;
use tracing::{debug, error, info, warn};

use crate::memory::Memory;
use crate::store::{Expiry, StoreError};

/// Most batches in one cleanup; what is left waits for the next.
const BATCHES_MAX: usize = 10_000;

/// Facts whose time is noted as over in one transaction.
const FACTS_BATCH: usize = 256;

/// What a cleanup did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CleanupReport {
    /// Sessions that were removed.
    pub sessions_deleted: u64,
    /// Turns that were removed.
    pub turns_deleted: u64,
    /// Facts whose time is over.
    pub facts_expired: u64,
    /// Topics that faded and were forgotten.
    pub topics_forgotten: u64,
    /// How long it took.
    pub seconds: f64,
    /// What went wrong; what was removed before stays removed.
    pub errors: Vec<String>,
    /// Whether that is the database, which is away: then the log knows.
    #[serde(skip)]
    pub is_away: bool,
}

impl Memory {
    /// Removes turns older than their TTL, batch by batch, so that chat goes on in between. When the
    /// clock cannot be believed, nothing is removed and the report says so.
    pub async fn cleanup(&self, watch: &ClockWatch) -> CleanupReport {
        self.cleanup_with(watch, |_| ()).await
    }

    /// The same, telling how far it has come after each batch.
    pub async fn cleanup_with(&self, watch: &ClockWatch, progress: impl Fn(&CleanupReport)) -> CleanupReport {
        let started = Instant::now();
        let mut report = CleanupReport::default();
        match watch.judge(self.parts.clock.reading()) {
            Verdict::Steady => {
                self.remove_expired(&mut report, progress).await;
                self.end_facts(&mut report).await;
                self.end_topics(&mut report).await;
                self.end_webhooks(&mut report).await;
            }
            Verdict::Leapt { seconds } => {
                self.meters().clock_leaps.one();
                report.errors.push(leap::explain(seconds));
            }
        }
        report.seconds = started.elapsed().as_secs_f64();
        self.count(&report);
        report
    }

    async fn remove_expired(&self, report: &mut CleanupReport, progress: impl Fn(&CleanupReport)) {
        let now = self.parts.clock.reading().wall;
        let expiry = Expiry { now, server_ttl: self.settings.ttl, turns_max: self.settings.cleanup_batch };
        for _ in 0..BATCHES_MAX {
            match self.parts.store.expire(expiry).await {
                Ok(expired) => {
                    report.sessions_deleted += expired.sessions;
                    report.turns_deleted += expired.turns;
                    progress(report);
                    if !expired.more {
                        return;
                    }
                }
                Err(failure) => return self.cleanup_failed(report, &failure),
            }
        }
    }

    /// Facts that held until a time before now are over.
    async fn end_facts(&self, report: &mut CleanupReport) {
        match self.expire_facts().await {
            Ok(facts) => report.facts_expired = facts,
            Err(failure) => self.cleanup_failed(report, &failure),
        }
    }

    /// Topics fade while their user is away, too.
    async fn end_topics(&self, report: &mut CleanupReport) {
        match self.forget_faded_topics().await {
            Ok(topics) => report.topics_forgotten = topics,
            Err(failure) => self.cleanup_failed(report, &failure),
        }
    }

    /// Webhooks that nobody could deliver do not wait for ever.
    async fn end_webhooks(&self, report: &mut CleanupReport) {
        match self.forget_dead_webhooks().await {
            Ok(0) => {}
            Ok(gone) => info!(webhooks = gone, "{gone} webhooks that were given up are forgotten"),
            Err(failure) => self.cleanup_failed(report, &failure),
        }
    }

    fn cleanup_failed(&self, report: &mut CleanupReport, failure: &StoreError) {
        self.meters().store_failures.one();
        report.errors.push(failure.to_string());
        report.is_away |= failure.is_away();
    }

    /// Notes that the time of facts is over. They are not told from the moment on, noted or not.
    async fn expire_facts(&self) -> Result<u64, StoreError> {
        let (now, mut all) = (self.parts.clock.reading().wall, 0);
        loop {
            let expired = self.parts.store.facts().expire_facts(now, FACTS_BATCH).await?;
            all += expired;
            if expired < FACTS_BATCH as u64 {
                return Ok(all);
            }
        }
    }

    /// Removes what older versions kept of visitors in the data file, a few sessions at a time. Answers how many went.
    pub async fn forget_visits(&self) -> Result<u64, StoreError> {
        let gone = self.parts.store.forget_visits().await?;
        if gone > 0 {
            info!(sessions = gone, "Removed {gone} sessions of visitors that an older version kept in the data file");
        }
        Ok(gone)
    }

    /// Marks turns as partial that have waited too long for the results of tools (`tools_patience`).
    pub async fn give_up_on_tools(&self) {
        let patience = self.settings.tools_patience;
        let before = self.parts.clock.reading().wall.saturating_sub(patience).unwrap_or(Timestamp::MIN);
        match self.parts.store.give_up_on_tools(before).await {
            Ok(0) => {}
            Ok(turns) => info!(turns, "{turns} turns never heard from their tools"),
            Err(failure) => {
                self.report_of_all("give_up_on_tools", "Turns that wait for tools cannot be ended", &failure)
            }
        }
    }

    /// Marks turns as failed that another instance was answering and has fallen silent.
    pub async fn give_up_on_the_lost(&self) {
        match self.parts.store.fail_deserted().await {
            Ok(0) => {}
            Ok(turns) => warn!(turns, "{turns} turns were left without an answer by an instance that is gone"),
            Err(failure) => self.report_of_all("fail_deserted", "Turns of lost instances cannot be marked", &failure),
        }
    }

    /// What failed for everybody at once; that the database is away is known already.
    fn report_of_all(&self, operation: &str, what: &str, failure: &StoreError) {
        self.meters().store_failures.one();
        match failure.is_away() {
            true => debug!(operation, "{what}: {failure}"),
            false => {
                error!(operation, session.id = "-", user.id = "-", error = %failure, "{what}: {failure}");
            }
        }
    }

    fn count(&self, report: &CleanupReport) {
        let meters = self.meters();
        meters.sessions_expired.many(report.sessions_deleted);
        meters.turns_expired.many(report.turns_deleted);
        let (sessions, turns, seconds) = (report.sessions_deleted, report.turns_deleted, report.seconds);
        if report.errors.is_empty() {
            meters.cleanups.one();
            info!(sessions, turns, seconds, "Cleanup removed {sessions} sessions and {turns} turns in {seconds:.3} s");
        } else {
            meters.cleanup_failures.one();
            let cause = report.errors.join("; ");
            if report.is_away {
                return debug!(operation = "cleanup", "Cleanup waits for the database: {cause}");
            }
            error!(operation = "cleanup", session.id = "-", user.id = "-", error = %cause, "Cleanup failed: {cause}");
        }
    }
}
