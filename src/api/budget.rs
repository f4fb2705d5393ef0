//! A budget of memory for request bodies, all of them together.
//!
//! A bound on one body does not bound many. So every body takes its bytes from one budget as they arrive, and gives them
//! back when its request is answered. A body that finds no room is refused at once: bodies that waited for each other's
//! room would all stand still. Large bodies leave room for small ones, and one address leaves room for the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::App;

/// A request that takes no more than this may use the last quarter of the budget.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// The budget and what is taken of it.
#[derive(Debug)]
pub(super) struct BodyBudget {
    bytes_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Others have it at the moment.
    Now,
    /// One request can never have so much.
    Ever,
}

/// What one request has taken. It is given back when the last holder is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<BodyBudget>,
    /// The address whose share it is part of; `None` for a trusted proxy.
    counted: Option<IpAddr>,
    bytes: AtomicUsize,
}

impl BodyBudget {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, taken: Mutex::default() })
    }

    pub(super) fn reservation(self: &Arc<Self>, counted: Option<IpAddr>) -> Reservation {
        Reservation { budget: Arc::clone(self), counted, bytes: AtomicUsize::new(0) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Takes so many bytes more.
    pub(super) fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes == 0 {
            return Ok(());
        }
        let mut taken = self.budget.taken();
        let bytes_max = self.budget.bytes_max;
        let own = self.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let all_max = if own <= SMALL_BYTES_MAX { bytes_max } else { bytes_max - bytes_max / 4 };
        let address_max = if self.counted.is_some() { bytes_max / 2 } else { bytes_max };
        if own > all_max.min(address_max) {
            return Err(NoRoom::Ever);
        }
        let by_address = self.counted.and_then(|address| taken.by_address.get(&address)).copied().unwrap_or(0);
        if taken.all + bytes > all_max || by_address + bytes > address_max {
            return Err(NoRoom::Now);
        }
        taken.all += bytes;
        if let Some(address) = self.counted {
            *taken.by_address.entry(address).or_default() += bytes;
        }
        self.bytes.store(own, Ordering::Relaxed);
        Ok(())
    }

    /// Gives so many of its bytes back.
    pub(super) fn give_back(&self, bytes: usize) {
        let mut taken = self.budget.taken();
        let own = self.bytes.load(Ordering::Relaxed);
        let bytes = bytes.min(own);
        self.bytes.store(own - bytes, Ordering::Relaxed);
        taken.all -= bytes;
        if let Some(address) = self.counted
            && let Some(by_address) = taken.by_address.get_mut(&address)
        {
            *by_address -= bytes;
            if *by_address == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let own = *self.bytes.get_mut();
        if own > 0 {
            self.give_back(own);
        }
    }
}

/// Bytes that keep their room in the budget for as long as anything of them is in use.
pub(super) struct ReservedBytes {
    bytes: Vec<u8>,
    _reservation: Arc<Reservation>,
}

impl ReservedBytes {
    pub(super) fn new(bytes: Vec<u8>, reservation: &Arc<Reservation>) -> Self {
        Self { bytes, _reservation: Arc::clone(reservation) }
    }
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Gives a request its reservation, which lasts until the answer has been sent.
pub(super) async fn reserve(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let reservation = Arc::new(app.doors.budget.reservation(app.counted_address(&request)));
    request.extensions_mut().insert(Arc::clone(&reservation));
    let mut response = next.run(request).await;
    response.extensions_mut().insert(reservation);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn address(last: u8) -> Option<IpAddr> {
        Some([192, 0, 2, last].into())
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = BodyBudget::new(8 * MIB);
        let first = budget.reservation(None);
        first.take(4 * MIB).expect("room");
        first.give_back(MIB);
        let second = budget.reservation(None);
        assert_eq!(second.take(4 * MIB), Err(NoRoom::Now));
        drop(first);
        second.take(4 * MIB).expect("room");
        drop(second);
        assert_eq!(budget.taken().all, 0);
    }

    #[test]
    fn large_bodies_leave_a_quarter_to_small_ones() {
        let budget = BodyBudget::new(8 * MIB);
        let large = budget.reservation(None);
        assert_eq!(large.take(6 * MIB), Ok(()));
        let (other, small) = (budget.reservation(None), budget.reservation(None));
        assert_eq!(other.take(SMALL_BYTES_MAX + 1), Err(NoRoom::Now));
        assert_eq!(small.take(SMALL_BYTES_MAX), Ok(()));
        assert_eq!(small.take(1), Err(NoRoom::Now), "it is not small any more");
    }

    #[test]
    fn an_address_leaves_half_to_the_others() {
        let budget = BodyBudget::new(8 * MIB);
        let requests = [(); 4].map(|()| budget.reservation(address(1)));
        requests.iter().for_each(|request| request.take(MIB).expect("room"));
        assert_eq!(budget.reservation(address(1)).take(1), Err(NoRoom::Now));
        assert_eq!(budget.reservation(address(2)).take(2 * MIB), Ok(()));
        drop(requests);
        assert_eq!(budget.reservation(address(1)).take(MIB), Ok(()));
        assert!(budget.taken().by_address.is_empty());
    }

    #[test]
    fn what_can_never_fit_is_told_apart() {
        let budget = BodyBudget::new(8 * MIB);
        assert_eq!(budget.reservation(None).take(6 * MIB + 1), Err(NoRoom::Ever));
        assert_eq!(budget.reservation(address(1)).take(4 * MIB + 1), Err(NoRoom::Ever));
        assert_eq!(budget.reservation(address(1)).take(usize::MAX), Err(NoRoom::Ever));
    }
}
