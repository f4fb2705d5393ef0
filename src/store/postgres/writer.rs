//! What a write leaves for the time after its commit.

use std::cell::Cell;
use std::sync::Arc;

use tokio::sync::Notify;

thread_local! {
    /// Whether the write under way on this thread asked for a job.
    static ASKED: Cell<bool> = const { Cell::new(false) };
    /// Whether it left a webhook to deliver.
    static POSTED: Cell<bool> = const { Cell::new(false) };
}

/// What a write can ask for.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    job_news: Arc<Notify>,
    parcel_news: Arc<Notify>,
}

impl Notes {
    /// Says that text was removed. PostgreSQL takes it out of its files when it vacuums.
    pub(super) fn erased(&self, _something: bool) {}

    /// Says that a job was asked for: whoever does jobs is told when it is on disk. A write stays on its thread.
    pub(super) fn jobs(&self, some: bool) {
        ASKED.with(|asked| asked.set(asked.get() || some));
    }

    /// Told when a job was asked for.
    pub(super) fn job_news(&self) -> Arc<Notify> {
        Arc::clone(&self.job_news)
    }

    /// Says that there is a webhook to deliver: whoever does that is told when it is on disk.
    pub(super) fn parcels(&self, some: bool) {
        POSTED.with(|posted| posted.set(posted.get() || some));
    }

    /// Told when there is a webhook to deliver.
    pub(super) fn parcel_news(&self) -> Arc<Notify> {
        Arc::clone(&self.parcel_news)
    }

    /// A write begins.
    pub(super) fn begin() {
        ASKED.set(false);
        POSTED.set(false);
    }

    /// It is on disk.
    pub(super) fn committed(&self) {
        if ASKED.take() {
            self.job_news.notify_one();
        }
        if POSTED.take() {
            self.parcel_news.notify_one();
        }
    }
}
