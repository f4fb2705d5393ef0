//! Live sessions in this process: quick, bounded, and gone with it.
//!
//! Tenants are spread over shards, each with a plain lock that is never held across an await. A tenant's sessions are
//! in one shard, so that counting them and letting one in is one step.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::expiry::{Calendar, second_of};
use super::{Changed, Live, LiveChange, LiveCount, LiveError, LiveFuture, LiveRules, Look, Over, Seen, apply};
use crate::clock::Reading;
use crate::live::{Lease, LiveKey, LiveSession};
use crate::scope::Tenant;
use crate::session::{EndReason, SessionSeed};
use crate::store::{Page, PageRequest};

const SHARDS: usize = 64;

/// Sessions whose time may be over that are looked at when a tenant seems to have too many.
const SWEPT_BY_NEWCOMERS: usize = 256;

/// Live sessions in this process.
#[derive(Debug)]
pub struct InMemory {
    shards: Box<[Mutex<Shard>]>,
    bytes: AtomicUsize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    sessions: HashMap<Arc<LiveKey>, Slot>,
    counts: HashMap<Tenant, LiveCount>,
    calendar: Calendar<Arc<LiveKey>>,
    /// Taken out, and not handed over yet.
    over: Vec<Over>,
}

#[derive(Debug)]
struct Slot {
    session: Arc<LiveSession>,
    lease: Lease,
    last_accessed: Timestamp,
    /// The second for which it is in the calendar; other pages with its name mean nothing.
    noted: u64,
}

impl Slot {
    fn seen(&self, key: &LiveKey) -> Seen {
        let Self { session, lease, last_accessed, .. } = self;
        Seen { key: key.clone(), session: Arc::clone(session), lease: *lease, last_accessed: *last_accessed }
    }

    fn visited(&mut self, at: Reading) {
        self.lease.refresh(at.steady);
        self.last_accessed = self.last_accessed.max(at.wall);
    }
}

impl Shard {
    fn find(&mut self, key: &LiveKey, look: Look, at: Reading) -> Option<Seen> {
        self.expire(key, at);
        let slot = self.sessions.get_mut(key)?;
        if look == Look::Visit {
            slot.visited(at);
        }
        Some(slot.seen(key))
    }

    /// Takes a session out if its time is over.
    fn expire(&mut self, key: &LiveKey, at: Reading) {
        if let Some(reason) = self.sessions.get(key).and_then(|slot| slot.lease.is_over(at.steady)) {
            let over = self.remove(key, reason);
            self.over.extend(over);
        }
    }

    fn remove(&mut self, key: &LiveKey, reason: EndReason) -> Option<Over> {
        let (key, slot) = self.sessions.remove_entry(key)?;
        if let Entry::Occupied(mut count) = self.counts.entry(key.tenant.clone()) {
            count.get_mut().sessions -= 1;
            count.get_mut().bytes -= slot.session.bytes();
            if count.get().sessions == 0 {
                count.remove();
            }
        }
        Some(Over { seen: slot.seen(&key), reason, receipt: None })
    }

    fn insert(&mut self, key: LiveKey, session: Arc<LiveSession>, lease: Lease, last_accessed: Timestamp) -> Seen {
        let count = self.counts.entry(key.tenant.clone()).or_default();
        count.sessions += 1;
        count.bytes += session.bytes();
        let (key, noted) = (Arc::new(key), second_of(lease.ends()));
        self.calendar.note(noted, Arc::clone(&key));
        let slot = Slot { session, lease, last_accessed, noted };
        let seen = slot.seen(&key);
        self.sessions.insert(key, slot);
        seen
    }

    /// Looks at those whose second has come, and takes out those that are over.
    fn sweep(&mut self, limit: usize, at: Reading) -> usize {
        let mut looked = 0;
        while looked < limit {
            let Some((second, key)) = self.calendar.due(at.steady) else { break };
            looked += 1;
            let Some(slot) = self.sessions.get_mut(&*key).filter(|slot| slot.noted == second) else { continue };
            match slot.lease.is_over(at.steady) {
                Some(reason) => {
                    let over = self.remove(&key, reason);
                    self.over.extend(over);
                }
                None => {
                    slot.noted = second_of(slot.lease.ends());
                    self.calendar.note(slot.noted, key);
                }
            }
        }
        looked
    }

    /// How long until somebody may be gone.
    fn until_next(&self, now: Duration) -> Duration {
        let next = self.calendar.next().map_or(Duration::ZERO, Duration::from_secs);
        next.saturating_sub(now).clamp(Duration::from_secs(1), Duration::from_secs(3600))
    }
}

impl InMemory {
    /// Room for sessions that take so many bytes in all.
    pub fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, bytes: AtomicUsize::new(0), bytes_max }
    }

    fn shard(&self, tenant: &Tenant) -> MutexGuard<'_, Shard> {
        let mut hash = DefaultHasher::new();
        tenant.hash(&mut hash);
        lock(&self.shards[hash.finish() as usize % SHARDS])
    }

    /// Hands over what was taken out; it takes nothing any more.
    fn hand_over(&self, over: Vec<Over>) -> Vec<Over> {
        let bytes: usize = over.iter().map(|over| over.seen.session.bytes()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        over
    }

    fn admit(&self, shard: &mut Shard, key: &LiveKey, rules: LiveRules, at: Reading) -> Result<(), LiveError> {
        let sessions = |shard: &Shard| shard.counts.get(&key.tenant).map_or(0, |count| count.sessions);
        if sessions(shard) >= rules.sessions_max {
            shard.sweep(SWEPT_BY_NEWCOMERS, at);
        }
        let retry_after = shard.until_next(at.steady);
        if sessions(shard) >= rules.sessions_max {
            let (tenant, sessions_max) = (key.tenant.clone(), rules.sessions_max);
            return Err(LiveError::TooManySessions { tenant, sessions_max, retry_after });
        }
        match self.bytes.load(Ordering::Relaxed) < self.bytes_max {
            true => Ok(()),
            false => Err(LiveError::Full { bytes_max: self.bytes_max, retry_after }),
        }
    }

    fn start(&self, key: &LiveKey, seed: &SessionSeed, rules: LiveRules, at: Reading) -> Result<Seen, LiveError> {
        let mut shard = self.shard(&key.tenant);
        if let Some(seen) = shard.find(key, Look::Visit, at) {
            return Ok(seen);
        }
        self.admit(&mut shard, key, rules, at)?;
        let session = LiveSession::begin(seed, at.wall);
        self.bytes.fetch_add(session.bytes(), Ordering::Relaxed);
        let lease = Lease::begin(at.steady, session.waits_for(rules.ttl));
        Ok(shard.insert(key.clone(), Arc::new(session), lease, at.wall))
    }

    fn alter(
        &self,
        key: &LiveKey,
        change: LiveChange,
        rules: LiveRules,
        at: Reading,
    ) -> Result<Option<Changed>, LiveError> {
        let mut shard = self.shard(&key.tenant);
        shard.expire(key, at);
        let Shard { sessions, counts, calendar, .. } = &mut *shard;
        let Some(slot) = sessions.get_mut(key) else { return Ok(None) };
        let (before, telling) = (slot.session.bytes(), matches!(change, LiveChange::Retell(_)));
        let done = apply(Arc::make_mut(&mut slot.session), change, rules, at.wall);
        let after = slot.session.bytes();
        if let Some(count) = counts.get_mut(&key.tenant) {
            count.bytes = count.bytes + after - before;
        }
        self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        let done = done?;
        if !telling {
            slot.visited(at);
        }
        slot.lease.ttl = slot.session.waits_for(rules.ttl);
        let second = second_of(slot.lease.ends());
        if second < slot.noted {
            slot.noted = second;
            calendar.note(second, Arc::new(key.clone()));
        }
        Ok(Some(Changed { seen: slot.seen(key), done }))
    }

    fn move_to(&self, key: &LiveKey, to: &LiveKey, at: Reading) -> Result<Option<Seen>, LiveError> {
        let mut shard = self.shard(&key.tenant);
        if key.tenant != to.tenant || shard.find(to, Look::Aside, at).is_some() {
            return Err(LiveError::Taken(to.clone()));
        }
        shard.expire(key, at);
        let Some(slot) = shard.sessions.get_mut(key) else { return Ok(None) };
        slot.visited(at);
        let Seen { session, lease, last_accessed, .. } = slot.seen(key);
        drop(shard.remove(key, EndReason::Explicit));
        Ok(Some(shard.insert(to.clone(), session, lease, last_accessed)))
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer that is there already.
fn ready<'a, T: Send + 'a>(answer: Result<T, LiveError>) -> LiveFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Live for InMemory {
    fn begin(&self, key: &LiveKey, seed: SessionSeed, rules: LiveRules, at: Reading) -> LiveFuture<'_, Seen> {
        ready(self.start(key, &seed, rules, at))
    }

    fn look(&self, key: &LiveKey, look: Look, at: Reading) -> LiveFuture<'_, Option<Seen>> {
        ready(Ok(self.shard(&key.tenant).find(key, look, at)))
    }

    fn change(
        &self,
        key: &LiveKey,
        change: LiveChange,
        rules: LiveRules,
        at: Reading,
    ) -> LiveFuture<'_, Option<Changed>> {
        ready(self.alter(key, change, rules, at))
    }

    fn take(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>> {
        let mut shard = self.shard(&key.tenant);
        shard.expire(key, at);
        let over = shard.remove(key, reason);
        drop(shard);
        ready(Ok(self.hand_over(over.into_iter().collect()).pop()))
    }

    fn rename(&self, key: &LiveKey, to: &LiveKey, at: Reading) -> LiveFuture<'_, Option<Seen>> {
        ready(self.move_to(key, to, at))
    }

    fn sweep(&self, limit: usize, at: Reading) -> LiveFuture<'_, Vec<Over>> {
        let (mut swept, mut left) = (Vec::new(), limit);
        for shard in &self.shards {
            let mut shard = lock(shard);
            left -= shard.sweep(left, at);
            swept.append(&mut shard.over);
        }
        ready(Ok(self.hand_over(swept)))
    }

    fn drain(&self, at: Reading) -> LiveFuture<'_, Vec<Over>> {
        let mut drained = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.sweep(usize::MAX, at);
            drained.append(&mut shard.over);
            let keys: Vec<_> = shard.sessions.keys().cloned().collect();
            drained.extend(keys.iter().filter_map(|key| shard.remove(key, EndReason::Shutdown)));
        }
        ready(Ok(self.hand_over(drained)))
    }

    fn list(&self, tenant: &Tenant, page: PageRequest, at: Reading) -> LiveFuture<'_, Page<Seen>> {
        let shard = self.shard(tenant);
        let theirs = shard.sessions.iter().filter(|(key, _)| key.tenant == *tenant);
        let there = theirs.filter(|(_, slot)| slot.lease.is_over(at.steady).is_none());
        let mut found: Vec<(u64, Seen)> = there
            .map(|(key, slot)| (slot.session.created_at.as_microsecond().unsigned_abs(), slot.seen(key)))
            .filter(|(began, _)| page.after.is_none_or(|after| *began > after))
            .collect();
        drop(shard);
        found.sort_by(|(a, one), (b, other)| (a, &one.key.name).cmp(&(b, &other.key.name)));
        found.truncate(page.limit.saturating_add(1));
        ready(Ok(Page::cut(found, page.limit)))
    }

    fn count(&self, tenant: Option<&Tenant>) -> LiveFuture<'_, LiveCount> {
        let count = match tenant {
            Some(tenant) => self.shard(tenant).counts.get(tenant).copied().unwrap_or_default(),
            None => {
                let sessions = self.shards.iter().map(|shard| lock(shard).sessions.len()).sum();
                LiveCount { sessions, bytes: self.bytes.load(Ordering::Relaxed) }
            }
        };
        ready(Ok(count))
    }
}

#[cfg(test)]
mod tests;
