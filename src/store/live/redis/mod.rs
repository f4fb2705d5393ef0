//! Live sessions in Redis: whoever of several instances is asked finds the same sessions.
//!
//! Redis keeps, counts and expires; what a change does to a session is decided here, by the session itself, and put in the place of
//! what it was made from, if that is still there. Every step is a script (`common.lua` says what lies where), so several
//! instances never see half of one.
//!
//! Reading order: [`Redis`] here, the scripts, `link` (the way there, and what happens when it is cut), `known` (what need not be
//! fetched again), `pack` (a session as bytes), `counts` (what instances count together).
//!
//! **Invariant:** whoever is handed a session that ended has half a minute to tell of it. Who says that it was told is the last one;
//! when nobody does, another is handed it.

mod counts;
mod known;
mod link;
mod pack;
mod scripts;
mod settings;

pub use settings::{RedisSettings, RedisState};

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use uuid::Uuid;

use self::known::{Known, Version};
use self::link::Link;
use super::{
    Changed, Counted, Done, Live, LiveChange, LiveCount, LiveError, LiveFuture, LiveRules, Look, Over, Seen, apply,
};
use crate::clock::{Clock, Reading, from_micros};
use crate::live::{Lease, LiveKey, LiveName, LiveSession};
use crate::meter::Meters;
use crate::scope::Tenant;
use crate::session::{EndReason, SessionSeed};
use crate::store::{Page, PageRequest};

/// Sessions whose time may be over that are looked at when a tenant seems to have too many.
const SWEPT_BY_NEWCOMERS: usize = 256;
/// Sessions that are handed over in one sweep: as many as can be told of in time.
const SWEPT_AT_ONCE: usize = 16;
/// How long whoever is handed a session that ended has to tell of it.
const TELLING_MAX: Duration = Duration::from_secs(30);
/// How long one instance may take to tell a session in brief before another may begin.
const SUMMARY_MAX: Duration = Duration::from_secs(120);
/// How often a change is made again because somebody else was quicker.
const TRIES_MAX: usize = 64;

/// A session as scripts show it: version, data unless it is known, born, seen, TTL, last access.
type Shown = (String, Option<Vec<u8>>, i64, i64, i64, i64);

/// Live sessions in Redis.
pub struct Redis {
    link: Link,
    known: Known,
    bytes_max: usize,
}

/// Now, as scripts are told it.
struct Now {
    /// By the clock that leases are by.
    lease: i64,
    wall: String,
    /// By how much that clock is ahead of the steady one here.
    ahead: i64,
}

impl Now {
    fn micros(&self) -> String {
        self.lease.to_string()
    }

    /// From when on another may tell of what is handed over now.
    fn told_by(&self) -> String {
        (self.lease + TELLING_MAX.as_micros() as i64).to_string()
    }
}

impl Redis {
    /// Sessions that take so many bytes in all. Nobody is asked yet: a Redis that is away costs visitors alone.
    pub fn new(
        settings: RedisSettings,
        bytes_max: usize,
        clock: Arc<dyn Clock>,
        meters: Arc<Meters>,
    ) -> Result<Self, LiveError> {
        Ok(Self { link: Link::new(settings, clock, meters)?, known: Known::default(), bytes_max })
    }

    /// Where it is, for people.
    pub fn place(&self) -> &str {
        self.link.place()
    }

    /// The same, for a test that says what time it is there.
    #[cfg(test)]
    fn ahead_by(mut self, micros: i64) -> Self {
        self.link.ahead = Some(micros);
        self
    }

    async fn now(&self, at: Reading) -> Result<Now, LiveError> {
        let ahead = self.link.ahead().await?;
        let lease = at.steady.as_micros() as i64 + ahead;
        Ok(Now { lease, wall: at.wall.as_microsecond().to_string(), ahead })
    }

    /// A session as it was shown. `None` when it cannot be read.
    fn seen(&self, key: &LiveKey, shown: Shown, known: Option<Version>, now: &Now) -> Option<Seen> {
        self.read(key, shown, known, now).map(|(seen, _)| seen)
    }

    /// The same, with the name of its version.
    fn read(&self, key: &LiveKey, shown: Shown, known: Option<Version>, now: &Now) -> Option<(Seen, String)> {
        let (name, data, born, seen, ttl, last) = shown;
        let session = match (data, known) {
            (Some(data), _) => pack::unpack(&data).map(Arc::new).map_err(|error| error.to_string()),
            (None, Some(known)) => Ok(known.session),
            (None, None) => Err("it has no data".to_owned()),
        };
        let session = session.inspect_err(|error| warn!("Live session `{key}` cannot be read: {error}")).ok()?;
        self.known.put(key, Version { name: name.clone(), session: Arc::clone(&session) });
        let steady = |micros: i64| Duration::from_micros((micros - now.ahead).max(0).unsigned_abs());
        let lease = Lease { born: steady(born), seen: steady(seen), ttl: Duration::from_micros(ttl.unsigned_abs()) };
        Some((Seen { key: key.clone(), session, lease, last_accessed: from_micros(last) }, name))
    }

    /// Lets go of a session that cannot be read: its visitor begins anew.
    async fn discard(&self, key: &LiveKey, now: &Now) -> Result<(), LiveError> {
        let args = [&*key.to_string(), &now.micros(), EndReason::Explicit.as_str(), ""];
        let _gone: Option<(String, Shown)> = self.link.run(&scripts::TAKE, &args.map(str::as_bytes)).await?;
        self.known.forget(key);
        self.link.lost(1);
        Ok(())
    }

    async fn start(&self, key: &LiveKey, seed: SessionSeed, rules: LiveRules, at: Reading) -> Result<Seen, LiveError> {
        let session = LiveSession::begin(&seed, at.wall);
        let (data, version) = (pack::pack(&session), version());
        let ttl = micros(session.waits_for(rules.ttl));
        let new = Version { name: version.clone(), session: Arc::new(session) };
        for _ in 0..2 {
            let (now, known) = (self.now(at).await?, self.known.get(key));
            let (id, micros, bytes) = (key.to_string(), now.micros(), new.session.bytes().to_string());
            let name = known.as_ref().map_or("", |known| &known.name);
            let bounds = [rules.sessions_max, self.bytes_max, SWEPT_BY_NEWCOMERS].map(|bound| bound.to_string());
            let first = [&*id, &micros, &now.wall, name, &version].map(str::as_bytes);
            let last = [&*bytes, &ttl, &bounds[0], &bounds[1], &bounds[2]].map(str::as_bytes);
            let args: Vec<&[u8]> = first.into_iter().chain([&*data]).chain(last).collect();
            let (word, shown, wait): (String, Option<Shown>, i64) = self.link.run(&scripts::BEGIN, &args).await?;
            let Some(shown) = shown else { return Err(self.refusal(&word, key, rules, wait)) };
            let known = if word == "begun" { Some(new.clone()) } else { known };
            match self.seen(key, shown, known, &now) {
                Some(seen) => return Ok(seen),
                None => self.discard(key, &now).await?,
            }
        }
        Err(LiveError::Unreachable(format!("session `{key}` cannot be read")))
    }

    fn refusal(&self, word: &str, key: &LiveKey, rules: LiveRules, wait: i64) -> LiveError {
        let wait = Duration::from_micros(wait.max(0).unsigned_abs());
        let retry_after = wait.clamp(Duration::from_secs(1), Duration::from_secs(3600));
        match word {
            "many" => {
                let (tenant, sessions_max) = (key.tenant.clone(), rules.sessions_max);
                LiveError::TooManySessions { tenant, sessions_max, retry_after }
            }
            _ => LiveError::Full { bytes_max: self.bytes_max, retry_after },
        }
    }

    async fn find(&self, key: &LiveKey, look: Look, at: Reading) -> Result<Option<(Seen, String)>, LiveError> {
        let (now, known) = (self.now(at).await?, self.known.get(key));
        let name = known.as_ref().map_or("", |known| &known.name);
        let visit = if look == Look::Visit { "visit" } else { "" };
        let args = [&*key.to_string(), &now.micros(), &now.wall, name, visit];
        let shown: Option<Shown> = self.link.run(&scripts::LOOK, &args.map(str::as_bytes)).await?;
        let Some(shown) = shown else {
            self.known.forget(key);
            return Ok(None);
        };
        let found = self.read(key, shown, known, &now);
        if found.is_none() {
            self.discard(key, &now).await?;
        }
        Ok(found)
    }

    /// Changes a session: as it is known here first, which is usually as it is; else as it is there.
    async fn alter(
        &self,
        key: &LiveKey,
        change: LiveChange,
        rules: LiveRules,
        at: Reading,
    ) -> Result<Option<Changed>, LiveError> {
        let mut guess = self.known.get(key);
        for _ in 0..TRIES_MAX {
            let (version, seen) = match guess.take() {
                Some(version) => (version, None),
                None => {
                    let Some((seen, name)) = self.find(key, Look::Aside, at).await? else { return Ok(None) };
                    (Version { name, session: Arc::clone(&seen.session) }, Some(seen))
                }
            };
            let mut session = LiveSession::clone(&version.session);
            let done = match (apply(&mut session, change.clone(), rules, at.wall), seen) {
                (Ok(Done::Outdated), Some(seen)) => return Ok(Some(Changed { seen, done: Done::Outdated })),
                (Err(error), Some(_)) => return Err(error),
                // What was known here may be old.
                (Ok(Done::Outdated) | Err(_), None) => continue,
                (Ok(done), _) => done,
            };
            let comes_back = !matches!(change, LiveChange::Retell(_));
            match self.put(key, &version.name, session, rules, comes_back, at).await? {
                Put::Done(seen) => return Ok(Some(Changed { seen, done })),
                Put::Gone => return Ok(None),
                Put::Changed => {}
            }
        }
        Err(LiveError::Unreachable(format!("session `{key}` was changed by {TRIES_MAX} others in between")))
    }

    async fn put(
        &self,
        key: &LiveKey,
        from: &str,
        session: LiveSession,
        rules: LiveRules,
        comes_back: bool,
        at: Reading,
    ) -> Result<Put, LiveError> {
        let (now, name) = (self.now(at).await?, version());
        let (data, bytes) = (pack::pack(&session), session.bytes().to_string());
        let (id, micros, ttl) = (key.to_string(), now.micros(), micros(session.waits_for(rules.ttl)));
        let visit = if comes_back { "visit" } else { "" };
        let first = [&*id, &micros, &now.wall, from, &name].map(str::as_bytes);
        let last = [&*bytes, &ttl, visit].map(str::as_bytes);
        let args: Vec<&[u8]> = first.into_iter().chain([&*data]).chain(last).collect();
        let (word, shown): (String, Option<Shown>) = self.link.run(&scripts::PUT, &args).await?;
        let version = Version { name, session: Arc::new(session) };
        match shown.and_then(|shown| self.seen(key, shown, Some(version), &now)) {
            Some(seen) => Ok(Put::Done(seen)),
            None => {
                self.known.forget(key);
                Ok(if word == "gone" { Put::Gone } else { Put::Changed })
            }
        }
    }

    async fn leave(
        &self,
        key: &LiveKey,
        reason: EndReason,
        at: Reading,
        is_told: bool,
    ) -> Result<Option<Over>, LiveError> {
        let now = self.now(at).await?;
        let told_by = if is_told { now.told_by() } else { String::new() };
        let args = [&*key.to_string(), &now.micros(), reason.as_str(), &told_by];
        let taken: Option<(String, Shown)> = self.link.run(&scripts::TAKE, &args.map(str::as_bytes)).await?;
        let over = taken.and_then(|(receipt, shown)| {
            let seen = self.seen(key, shown, None, &now)?;
            Some(Over { seen, reason, receipt: Some(receipt).filter(|receipt| !receipt.is_empty()) })
        });
        self.known.forget(key);
        Ok(over)
    }

    async fn move_to(&self, key: &LiveKey, to: &LiveKey, at: Reading) -> Result<Option<Seen>, LiveError> {
        if key.tenant != to.tenant {
            return Err(LiveError::Taken(to.clone()));
        }
        let now = self.now(at).await?;
        let args = [&*key.to_string(), &to.to_string(), &now.micros(), &now.wall];
        let (word, shown): (String, Option<Shown>) = self.link.run(&scripts::RENAME, &args.map(str::as_bytes)).await?;
        if word == "taken" {
            return Err(LiveError::Taken(to.clone()));
        }
        self.known.forget(key);
        Ok(shown.and_then(|shown| self.seen(to, shown, None, &now)))
    }

    async fn sweep_some(&self, limit: usize, at: Reading) -> Result<Vec<Over>, LiveError> {
        self.known.forget_old();
        let now = self.now(at).await?;
        let args = [&*now.micros(), &limit.min(SWEPT_AT_ONCE).to_string(), &now.told_by()];
        let swept: (String, u64, Vec<(String, String, Shown)>) =
            self.link.run(&scripts::SWEEP, &args.map(str::as_bytes)).await?;
        let (era, lost, ended) = swept;
        self.link.note_era(era, None);
        if lost > 0 {
            self.link.lost(lost);
        }
        self.link.note_sessions(self.counted(None).await?.sessions as u64);
        let mut over = Vec::with_capacity(ended.len());
        for (receipt, why, shown) in ended {
            match self.ended(&receipt, &why, shown, &now) {
                Some(ended) => over.push(ended),
                None => self.tell(&receipt).await?,
            }
        }
        Ok(over)
    }

    /// A session that ended, from `tenant:name:version`.
    fn ended(&self, receipt: &str, why: &str, shown: Shown, now: &Now) -> Option<Over> {
        let (id, _) = receipt.rsplit_once(':')?;
        let (tenant, name) = id.rsplit_once(':')?;
        let key = LiveKey { tenant: Tenant::parse(tenant).ok()?, name: LiveName::parse(name).ok()? };
        let seen = self.seen(&key, shown, None, now)?;
        self.known.forget(&key);
        Some(Over { seen, reason: EndReason::parse(why)?, receipt: Some(receipt.to_owned()) })
    }

    async fn tell(&self, receipt: &str) -> Result<(), LiveError> {
        let _were: u64 = self.link.run(&scripts::TOLD, &[receipt.as_bytes()]).await?;
        Ok(())
    }

    async fn listed(&self, tenant: &Tenant, page: PageRequest, at: Reading) -> Result<Page<Seen>, LiveError> {
        let now = self.now(at).await?;
        let after = page.after.map_or_else(|| "-inf".to_owned(), |after| format!("({after}"));
        let args = [tenant.as_str(), &after, &page.limit.saturating_add(1).to_string(), &now.micros()];
        let listed: Vec<(String, u64, Shown)> = self.link.run(&scripts::LIST, &args.map(str::as_bytes)).await?;
        let found = listed.into_iter().filter_map(|(name, began, shown)| {
            let key = LiveKey { tenant: tenant.clone(), name: LiveName::parse(&name).ok()? };
            Some((began, self.seen(&key, shown, None, &now)?))
        });
        Ok(Page::cut(found.collect(), page.limit))
    }

    async fn counted(&self, tenant: Option<&Tenant>) -> Result<LiveCount, LiveError> {
        let tenant = tenant.map_or("", Tenant::as_str);
        let (sessions, bytes): (usize, usize) = self.link.run(&scripts::COUNT, &[tenant.as_bytes()]).await?;
        Ok(LiveCount { sessions, bytes })
    }
}

/// What became of a changed session.
enum Put {
    Done(Seen),
    /// It was changed by somebody else meanwhile.
    Changed,
    Gone,
}

/// A name that no other version of any session has, in this life of it or another.
fn version() -> String {
    Uuid::new_v4().simple().to_string()
}

fn micros(time: Duration) -> String {
    // A TTL may be years; a lease ends after a week all the same.
    time.min(crate::live::AGE_MAX * 2).as_micros().to_string()
}

impl Live for Redis {
    fn begin(&self, key: &LiveKey, seed: SessionSeed, rules: LiveRules, at: Reading) -> LiveFuture<'_, Seen> {
        let key = key.clone();
        Box::pin(async move { self.start(&key, seed, rules, at).await })
    }

    fn look(&self, key: &LiveKey, look: Look, at: Reading) -> LiveFuture<'_, Option<Seen>> {
        let key = key.clone();
        Box::pin(async move { Ok(self.find(&key, look, at).await?.map(|(seen, _)| seen)) })
    }

    fn change(
        &self,
        key: &LiveKey,
        change: LiveChange,
        rules: LiveRules,
        at: Reading,
    ) -> LiveFuture<'_, Option<Changed>> {
        let key = key.clone();
        Box::pin(async move { self.alter(&key, change, rules, at).await })
    }

    fn take(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>> {
        let key = key.clone();
        Box::pin(async move { self.leave(&key, reason, at, false).await })
    }

    fn end(&self, key: &LiveKey, reason: EndReason, at: Reading) -> LiveFuture<'_, Option<Over>> {
        let key = key.clone();
        Box::pin(async move { self.leave(&key, reason, at, true).await })
    }

    fn told(&self, over: &Over) -> LiveFuture<'_, ()> {
        let receipt = over.receipt.clone();
        Box::pin(async move {
            match receipt {
                Some(receipt) => self.tell(&receipt).await,
                None => Ok(()),
            }
        })
    }

    fn rename(&self, key: &LiveKey, to: &LiveKey, at: Reading) -> LiveFuture<'_, Option<Seen>> {
        let (key, to) = (key.clone(), to.clone());
        Box::pin(async move { self.move_to(&key, &to, at).await })
    }

    fn sweep(&self, limit: usize, at: Reading) -> LiveFuture<'_, Vec<Over>> {
        Box::pin(async move { self.sweep_some(limit, at).await })
    }

    /// Nothing is lost with this process.
    fn drain(&self, _: Reading) -> LiveFuture<'_, Vec<Over>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn list(&self, tenant: &Tenant, page: PageRequest, at: Reading) -> LiveFuture<'_, Page<Seen>> {
        let tenant = tenant.clone();
        Box::pin(async move { self.listed(&tenant, page, at).await })
    }

    fn count(&self, tenant: Option<&Tenant>) -> LiveFuture<'_, LiveCount> {
        let tenant = tenant.cloned();
        Box::pin(async move { self.counted(tenant.as_ref()).await })
    }

    fn begin_telling(&self, key: &LiveKey) -> LiveFuture<'_, bool> {
        let (id, most) = (key.to_string(), SUMMARY_MAX.as_millis().to_string());
        Box::pin(async move {
            let begun: u64 = self.link.run(&scripts::TELLING, &[id.as_bytes(), most.as_bytes()]).await?;
            Ok(begun == 1)
        })
    }

    fn end_telling(&self, key: &LiveKey) -> LiveFuture<'_, ()> {
        let id = key.to_string();
        Box::pin(async move {
            let _were: u64 = self.link.run(&scripts::TELLING, &[id.as_bytes(), b""]).await?;
            Ok(())
        })
    }

    fn counts_together(&self) -> bool {
        true
    }

    fn add_counts(&self, counts: Vec<Counted>) -> LiveFuture<'_, ()> {
        Box::pin(async move { self.add_up(counts).await })
    }

    fn counts(&self, tenant: &Tenant) -> LiveFuture<'_, Vec<Counted>> {
        let tenant = tenant.clone();
        Box::pin(async move { self.added_up(&tenant).await })
    }
}

#[cfg(test)]
mod tests;
