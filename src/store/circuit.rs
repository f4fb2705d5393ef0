//! Whether the database is there: one switch, looked at before anything is asked of it.
//!
//! Whoever waits too long for an answer, or gets none, raises a doubt. The one who watches over the database then tries it with a
//! small write and throws the switch; nobody else does. While it is away everything that asks fails at once, and what was
//! under way is cut off, so that an outage costs time only until it is noticed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use super::StoreError;

/// The switch.
#[derive(Debug)]
pub struct Circuit {
    /// The same as what `cut` says, without a lock.
    is_away: AtomicBool,
    cut: watch::Sender<bool>,
    doubted: Notify,
    outages: AtomicU64,
    why: Mutex<Why>,
}

#[derive(Debug)]
struct Why {
    reason: String,
    since: Instant,
}

impl Default for Circuit {
    fn default() -> Self {
        let why = Mutex::new(Why { reason: String::new(), since: Instant::now() });
        let (doubted, outages) = (Notify::new(), AtomicU64::new(0));
        Self { is_away: AtomicBool::new(false), cut: watch::Sender::new(false), doubted, outages, why }
    }
}

impl Circuit {
    /// Whether the database is away.
    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// How often it went away so far.
    pub fn outages(&self) -> u64 {
        self.outages.load(Ordering::Relaxed)
    }

    /// Nothing while the database is there, else what whoever asks is told.
    pub fn check(&self) -> Result<(), StoreError> {
        if !self.is_away() {
            return Ok(());
        }
        Err(StoreError::Away(self.why.lock().unwrap_or_else(PoisonError::into_inner).reason.clone()))
    }

    /// Says that something about the database is odd: somebody should look.
    pub fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Waits for a doubt.
    pub(super) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Tells when the database goes away.
    pub(super) fn cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    /// The database was tried and is away. Said once for each outage.
    pub(super) fn went_away(&self, reason: &str) {
        {
            let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
            reason.clone_into(&mut why.reason);
            if self.is_away.swap(true, Ordering::AcqRel) {
                return;
            }
            why.since = Instant::now();
        }
        self.outages.fetch_add(1, Ordering::Relaxed);
        self.cut.send_replace(true);
        warn!(store.state = "away", error = %reason, "The database is away, turns are kept in the spool: {reason}");
    }

    /// It was tried and is there.
    pub(super) fn came_back(&self) {
        if !self.is_away.swap(false, Ordering::AcqRel) {
            return;
        }
        self.cut.send_replace(false);
        let lasted = self.lasted();
        info!(
            store.state = "back",
            seconds = lasted.as_secs_f64(),
            "The database is back after {:.1} s",
            lasted.as_secs_f64()
        );
    }

    fn lasted(&self) -> Duration {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).since.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_outage_is_told_to_everybody_and_counted_once() {
        let circuit = Circuit::default();
        let mut cut = circuit.cut();
        assert!(circuit.check().is_ok());
        circuit.went_away("it does not answer");
        circuit.went_away("it refuses to listen");
        assert!(cut.wait_for(|away| *away).await.is_ok());
        assert_eq!(circuit.check().expect_err("away").to_string(), "the database is away: it refuses to listen");
        assert_eq!((circuit.is_away(), circuit.outages()), (true, 1));
        circuit.came_back();
        assert_eq!((circuit.is_away(), circuit.check().is_ok()), (false, true));
    }

    #[tokio::test]
    async fn a_doubt_that_nobody_waits_for_yet_is_not_lost() {
        let circuit = Circuit::default();
        circuit.doubt();
        circuit.doubted().await;
    }
}
