//! Meters: what happened, counted. The doors show them; nobody decides by them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.many(1);
    }

    /// Several more.
    pub fn many(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What became of asking the memory model.
#[derive(Debug, Default)]
pub struct MemoryMeters {
    /// Requests to it.
    pub calls: Counter,
    /// Tokens of questions and answers.
    pub tokens: Counter,
    /// Tasks that the built-in did in its place.
    pub fallbacks: Counter,
    /// Of those, because a tenant's day was spent.
    pub capped: Counter,
    /// Failures: nobody listened, or the connection broke.
    pub unreachable: Counter,
    /// It did not answer in time.
    pub timeouts: Counter,
    /// It had too much to do.
    pub busy: Counter,
    /// It refused, or failed itself.
    pub refused: Counter,
    /// It answered something else than was asked for.
    pub garbage: Counter,
    /// Its answer was cut off.
    pub truncated: Counter,
}

impl MemoryMeters {
    /// Failures by kind.
    pub fn failures(&self) -> [(&'static str, u64); 6] {
        [
            ("unreachable", self.unreachable.get()),
            ("timeout", self.timeouts.get()),
            ("busy", self.busy.get()),
            ("refused", self.refused.get()),
            ("garbage", self.garbage.get()),
            ("truncated", self.truncated.get()),
        ]
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Meters {
    /// Requests of every kind, as they come.
    pub requests: Counter,
    /// Turns whose ending reached the disk.
    pub turns_stored: Counter,
    /// Store calls that failed.
    pub store_failures: Counter,
    /// Turns that had to wait in memory for the disk.
    pub turns_waited: Counter,
    /// Times that turns began to wait.
    pub fallback_activations: Counter,
    /// Writes of waiting turns into the spool.
    pub turns_spooled: Counter,
    /// Turns that waited and reached the store at last.
    pub turns_replayed: Counter,
    /// Turns that closed as failed.
    pub turns_failed: Counter,
    /// Rows that did not match their checksum when they were read.
    pub rows_damaged: Counter,
    /// Questions or messages that an embedder did not make a vector of.
    pub embedder_failures: Counter,
    /// Recalls, however they ended.
    pub recalls: Counter,
    /// How long they took together, in microseconds.
    pub recall_micros: Counter,
    /// Recalls that were late or failed, and cost the reminders.
    pub recall_failures: Counter,
    /// Jobs that were done.
    pub jobs_done: Counter,
    /// Tries at jobs that failed.
    pub jobs_failed: Counter,
    /// Jobs that were given up.
    pub jobs_dead: Counter,
    /// Topics that faded and were forgotten.
    pub topics_forgotten: Counter,
    /// Topics that became part of another.
    pub topics_merged: Counter,
    /// Turns whose words were understood.
    pub turns_understood: Counter,
    /// Facts that were learned.
    pub facts_learned: Counter,
    /// Facts that gave way to newer ones.
    pub facts_superseded: Counter,
    /// What looked like a fact and was none.
    pub facts_refused: Counter,
    /// Documents and notes that were added to what tenants know.
    pub documents: Counter,
    /// Files that were refused.
    pub documents_refused: Counter,
    /// Cleanups that ran to their end.
    pub cleanups: Counter,
    /// Cleanups that failed.
    pub cleanup_failures: Counter,
    /// Sessions removed by age.
    pub sessions_expired: Counter,
    /// Turns removed by age.
    pub turns_expired: Counter,
    /// Sessions whose end was told.
    pub sessions_ended: Counter,
    /// Webhooks that their receivers have.
    pub webhooks_delivered: Counter,
    /// Tries at webhooks that failed.
    pub webhooks_failed: Counter,
    /// Webhooks that were given up.
    pub webhooks_dead: Counter,
    /// Live sessions that ended.
    pub live_ended: Counter,
    /// Visitors that were turned away because there were too many.
    pub live_refused: Counter,
    /// Calls to the store of live sessions that came to nothing.
    pub live_store_failures: Counter,
    /// How often that store lost everything.
    pub live_store_losses: Counter,
    /// Live sessions that were lost, as far as they were known.
    pub live_lost: Counter,
    /// Leaps of the wall clock that paused expiry.
    pub clock_leaps: Counter,
    /// Conversations' requests under `/v1`.
    pub chat_requests: Counter,
    /// Those of them that named no session.
    pub without_session: Counter,
    /// Those of them that named no user.
    pub without_user: Counter,
    /// Clients' errands that were passed on and left no trace.
    pub tasks: Counter,
    /// Conversations' requests under `/v1` that were to leave no trace.
    pub chats_without_memory: Counter,
    /// Other requests under `/v1` by which a model generated something.
    pub generated_without_memory: Counter,
    /// Questions put to the model.
    pub model_questions: Counter,
    /// Questions the model did not answer.
    pub model_failures: Counter,
    /// Tasks for the memory model.
    pub memory: MemoryMeters,
}
