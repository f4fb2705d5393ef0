//! Tenants and keys at hand: held in memory as a whole, asked about for every request, at most a second old.
//!
//! The store has a version that grows with every change. Twice a second, when somebody comes, it is looked at, and only when it
//! has grown everything is read again; changes that are made here are read at once. So a request costs a look into a map, and
//! a key that was revoked anywhere opens nothing a second later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{debug, warn};

use super::{MemorySettings, Parts};
use crate::clock::Clock;
use crate::id::Ids;
use crate::language::when;
use crate::live::{LiveSettings, MEGABYTE};
use crate::scope::Tenant;
use crate::session::Templates;
use crate::store::{Register, Store, StoreError};
use crate::tenant::{
    Buckets, Key, KeyId, KeyState, Limit, Limits, OverLimit, Rate, Seal, SettingsError, TenantRecord, TenantSettings,
    Usage, parse_key,
};

/// How long what is held is believed before the store is asked whether it changed.
const BELIEVED: Duration = Duration::from_millis(500);
/// How long counts of what a tenant has are good for, at least; those that take long are good for longer.
const COUNTS_GOOD: Duration = Duration::from_secs(5);
/// A count is good for so many times as long as it took.
const COUNTS_GOOD_TIMES: u32 = 100;
/// When somebody whose tenant is full may try again.
const FULL_WAIT: Duration = Duration::from_secs(60);
/// Most tenants whose use is remembered.
const TENANTS_REMEMBERED_MAX: usize = 16_384;

/// Tenants, keys and how much is used, in memory.
pub struct TenantDesk {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    server: TenantView,
    held: RwLock<Option<Held>>,
    reading: tokio::sync::Mutex<()>,
    requests: Buckets<Tenant>,
    tokens: Buckets<Tenant>,
    counted: Mutex<HashMap<Tenant, Counted>>,
}

#[derive(Clone)]
struct Held {
    roll: Arc<Roll>,
    /// When the store was last asked, and until when its answer is believed if it gives no other.
    asked: Duration,
    good_until: Duration,
}

/// Everybody who is known, at one version.
#[derive(Debug, Default)]
pub struct Roll {
    version: u64,
    tenants: HashMap<Tenant, Arc<OwnView>>,
    keys: HashMap<KeyId, Key>,
    seal: Option<Seal>,
}

/// How a memory behaves for a tenant.
#[derive(Debug, Clone)]
pub(crate) struct TenantView {
    pub(crate) settings: Arc<MemorySettings>,
    pub(crate) templates: Arc<Templates>,
}

#[derive(Debug)]
struct OwnView {
    record: TenantRecord,
    view: TenantView,
}

/// What a tenant had when it was last counted, and what was admitted since.
#[derive(Debug, Clone, Copy)]
struct Counted {
    usage: Usage,
    at: Duration,
    good_for: Duration,
}

/// What a shown key is.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// No key of ours.
    Unknown,
    /// It was one, until its time was over.
    Expired,
    /// It was one, until somebody ended it.
    Revoked,
    /// It opens what it says.
    Good(Box<Key>),
}

impl Roll {
    /// Whether there are keys, in force or not. Once there are, nobody comes in without one.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Looks at a key that somebody shows. Costs one HMAC, whoever it is.
    pub fn look_at(&self, text: &str, now: Timestamp) -> Shown {
        let (Some(seal), Some(id)) = (&self.seal, parse_key(text)) else { return Shown::Unknown };
        let known = self.keys.get(&id);
        // An unknown id takes as long as a wrong secret.
        let fits = seal.fits(text, known.map_or(&[0; 32], |key| &key.sealed));
        match known {
            Some(key) if fits => match key.state(now) {
                KeyState::Active => Shown::Good(Box::new(key.clone())),
                KeyState::Expired => Shown::Expired,
                KeyState::Revoked => Shown::Revoked,
            },
            _ => Shown::Unknown,
        }
    }

    /// The tenants that something is written down about, by name.
    pub fn tenants(&self) -> Vec<TenantRecord> {
        let mut tenants: Vec<_> = self.tenants.values().map(|own| own.record.clone()).collect();
        tenants.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        tenants
    }

    /// One of them.
    pub fn tenant(&self, tenant: &Tenant) -> Option<&TenantRecord> {
        self.tenants.get(tenant).map(|own| &own.record)
    }

    /// All keys, in the order they were made.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.keys.values().cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }

    /// One of them.
    pub fn key(&self, id: &KeyId) -> Option<&Key> {
        self.keys.get(id)
    }
}

impl TenantDesk {
    pub(super) fn new(parts: &Parts, settings: &Arc<MemorySettings>, templates: &Arc<Templates>) -> Self {
        Self {
            store: Arc::clone(&parts.store),
            clock: Arc::clone(&parts.clock),
            ids: Arc::clone(&parts.ids),
            server: TenantView { settings: Arc::clone(settings), templates: Arc::clone(templates) },
            held: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            requests: Buckets::new(TENANTS_REMEMBERED_MAX),
            tokens: Buckets::new(TENANTS_REMEMBERED_MAX),
            counted: Mutex::default(),
        }
    }

    /// Everybody who is known, as of less than a second ago. While the store does not answer, what it said last is believed
    /// for `auth_cache_max`.
    pub async fn roll(&self) -> Result<Arc<Roll>, StoreError> {
        if let Some(roll) = self.believed() {
            return Ok(roll);
        }
        let _one_at_a_time = self.reading.lock().await;
        match self.believed() {
            Some(roll) => Ok(roll),
            None => self.ask(self.held()).await,
        }
    }

    /// The same as it is now, for whoever has just changed it.
    pub(crate) async fn roll_now(&self) -> Result<Arc<Roll>, StoreError> {
        let _one_at_a_time = self.reading.lock().await;
        self.ask(self.held()).await
    }

    fn believed(&self) -> Option<Arc<Roll>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_ref()?;
        (self.steady().saturating_sub(held.asked) < BELIEVED).then(|| Arc::clone(&held.roll))
    }

    fn held(&self) -> Option<Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self, held: Option<Held>) -> Result<Arc<Roll>, StoreError> {
        // Taken before the store is asked: what changes while it answers is asked for in time.
        let asked = self.steady();
        let held = match (self.read(held.as_ref()).await, held) {
            (Ok((roll, age)), _) => {
                let good_for = self.server.settings.auth_cache_max.saturating_sub(age);
                Held { roll, asked, good_until: asked + good_for }
            }
            (Err(error), Some(held)) if asked < held.good_until => {
                debug!(operation = "read_keys", error = %error, "Keys are believed as they were last read: {error}");
                Held { asked, ..held }
            }
            (Err(error), _) => return Err(error),
        };
        let roll = Arc::clone(&held.roll);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(held);
        Ok(roll)
    }

    /// Everybody, and how long ago that was so.
    async fn read(&self, held: Option<&Held>) -> Result<(Arc<Roll>, Duration), StoreError> {
        let tenants = self.store.tenants();
        if let Some(held) = held
            && tenants.version().await? == held.roll.version
        {
            return Ok((Arc::clone(&held.roll), Duration::ZERO));
        }
        let Register { version, tenants: records, keys, age } = tenants.register().await?;
        let seal = if keys.is_empty() { None } else { Some(tenants.seal(self.ids.chance()).await?) };
        let tenants = records.into_iter().map(|record| (record.tenant.clone(), Arc::new(self.own_view(record))));
        let keys = keys.into_iter().map(|key| (key.id.clone(), key)).collect();
        Ok((Arc::new(Roll { version, tenants: tenants.collect(), keys, seal }), age))
    }

    /// What was checked when it was written may not fit any more, after the server's settings changed.
    fn own_view(&self, record: TenantRecord) -> OwnView {
        let view = self.view_with(&record).unwrap_or_else(|error| {
            warn!(tenant.id = %record.tenant, error = %error, "Tenant `{}` is served as the others are: {error}", record.tenant);
            self.server.clone()
        });
        OwnView { record, view }
    }

    /// How the memory would behave with a tenant's settings.
    pub(crate) fn view_with(&self, record: &TenantRecord) -> Result<TenantView, SettingsError> {
        let (own, server) = (&record.settings, &*self.server.settings);
        let invalid = |name: &str, reason: String| SettingsError::Invalid { name: name.into(), reason };
        let templates = self.server.templates.reworded(&own.templates, own.language.as_deref());
        let templates = templates.map_err(|error| invalid("language", error.to_string()))?;
        let mut settings = MemorySettings {
            ttl: own.ttl.unwrap_or(server.ttl),
            mode: own.mode.unwrap_or(server.mode),
            model: own.model.clone().or_else(|| server.model.clone()),
            context_messages: own.context_messages.unwrap_or(server.context_messages),
            model_tokens_max: own.model_tokens_max.unwrap_or(server.model_tokens_max),
            answer_tokens: own.answer_tokens.unwrap_or(server.answer_tokens),
            query_chars_max: own.query_chars_max.unwrap_or(server.query_chars_max),
            answer_chars_max: own.answer_chars_max.unwrap_or(server.answer_chars_max),
            limits: own.limits(server.limits),
            webhook: own.webhook(&server.webhook),
            tenant_learns: own.tenant_learns.unwrap_or(server.tenant_learns),
            live: live_settings(own, server.live),
            session_presets: own.session_templates.clone(),
            ..server.clone()
        };
        settings.recall.tokens_max = own.recall_tokens.unwrap_or(server.recall.tokens_max);
        settings.webhook.target().map_err(|error| invalid("session_end_webhook", error.to_string()))?;
        if let Some(name) = &own.time_zone {
            let wrong = || invalid("time_zone", format!("`{name}` is no name such as Europe/Amsterdam or +02:00"));
            settings.zone = when::zone(name).ok_or_else(wrong)?;
        }
        if settings.answer_tokens >= settings.model_tokens_max {
            let reason = "it leaves nothing of `model_tokens_max` for the question".to_owned();
            return Err(invalid("answer_tokens", reason));
        }
        Ok(TenantView { settings: Arc::new(settings), templates: Arc::new(templates) })
    }

    /// How the memory behaves for a tenant, as far as is known at the moment.
    pub(crate) fn view(&self, tenant: &Tenant) -> TenantView {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let own = held.as_ref().and_then(|held| held.roll.tenants.get(tenant));
        own.map_or(&self.server, |own| &own.view).clone()
    }

    fn limits(&self, tenant: &Tenant) -> Limits {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let own = held.as_ref().and_then(|held| held.roll.tenants.get(tenant));
        own.map_or(&self.server, |own| &own.view).settings.limits
    }

    /// The clock that rates are measured by.
    pub(crate) fn steady(&self) -> Duration {
        self.clock.reading().steady
    }

    /// Counts a request of a tenant, or says that it is one too many.
    pub fn admit_request(&self, tenant: &Tenant) -> Result<(), OverLimit> {
        let (most, now) = (self.limits(tenant).requests_per_minute, self.steady());
        if most == 0 {
            return Ok(());
        }
        let taken = self.requests.with(tenant, Rate::a_minute(most), now, |bucket| bucket.take(now));
        taken.map_err(|wait| OverLimit { tenant: tenant.clone(), limit: Limit::Requests, most, wait })
    }

    /// Whether a tenant has any tokens left today.
    pub fn admit_question(&self, tenant: &Tenant) -> Result<(), OverLimit> {
        let (most, now) = (self.limits(tenant).tokens_per_day, self.steady());
        if most == 0 {
            return Ok(());
        }
        let left = self.tokens.with(tenant, Rate::a_day(most), now, |bucket| bucket.any(now));
        left.map_err(|wait| OverLimit { tenant: tenant.clone(), limit: Limit::Tokens, most, wait })
    }

    /// Takes tokens off what a tenant has left: as many as the model says, else by the length of what went to it and came
    /// back.
    pub fn charge(&self, tenant: &Tenant, tokens: Option<u64>, bytes: usize) {
        let (most, now) = (self.limits(tenant).tokens_per_day, self.steady());
        if most != 0 {
            let tokens = tokens.unwrap_or_else(|| crate::tokens::by_length(bytes));
            self.tokens.with(tenant, Rate::a_day(most), now, |bucket| bucket.charge(tokens, now));
        }
    }

    /// Whether a tenant may have so many more turns, and a session more if they begin one. What cannot be counted is not
    /// refused: a failing store says so by itself.
    pub async fn admit_turns(&self, tenant: &Tenant, begins: bool, turns: u64) -> Result<(), OverLimit> {
        let limits = self.limits(tenant);
        if !limits.count() {
            return Ok(());
        }
        let mut used = self.remembered(tenant);
        if used.is_none_or(|used| limits.broken_by(used, begins, turns).is_some()) {
            used = self.count(tenant, limits).await.ok();
        }
        if let Some((limit, most)) = used.and_then(|used| limits.broken_by(used, begins, turns)) {
            return Err(OverLimit { tenant: tenant.clone(), limit, most, wait: FULL_WAIT });
        }
        if let Some(counted) = self.counts().get_mut(tenant) {
            counted.usage.turns += turns;
            counted.usage.sessions += u64::from(begins);
        }
        Ok(())
    }

    /// Whether a tenant may have so many more bytes of documents.
    pub async fn admit_bytes(&self, tenant: &Tenant, bytes: u64) -> Result<(), OverLimit> {
        let limits = self.limits(tenant);
        let most = limits.storage_bytes_max;
        if most == 0 {
            return Ok(());
        }
        let mut used = self.remembered(tenant);
        if used.is_none_or(|used| used.bytes.saturating_add(bytes) > most) {
            used = self.count(tenant, limits).await.ok();
        }
        if used.is_some_and(|used| used.bytes.saturating_add(bytes) > most) {
            return Err(OverLimit { tenant: tenant.clone(), limit: Limit::Bytes, most, wait: FULL_WAIT });
        }
        if let Some(counted) = self.counts().get_mut(tenant) {
            counted.usage.bytes = counted.usage.bytes.saturating_add(bytes);
        }
        Ok(())
    }

    fn remembered(&self, tenant: &Tenant) -> Option<Usage> {
        let now = self.steady();
        let counts = self.counts();
        let counted = counts.get(tenant).filter(|counted| now.saturating_sub(counted.at) < counted.good_for);
        counted.map(|counted| counted.usage)
    }

    async fn count(&self, tenant: &Tenant, limits: Limits) -> Result<Usage, StoreError> {
        let (at, started) = (self.steady(), Instant::now());
        // Somebody who is refused and tries again at once must not have everything counted each time.
        let recent = self.counts().get(tenant).filter(|counted| at.saturating_sub(counted.at) < BELIEVED).copied();
        if let Some(recent) = recent {
            return Ok(recent.usage);
        }
        let usage = self.store.tenants().usage(tenant, limits.storage_bytes_max != 0).await?;
        let good_for = COUNTS_GOOD.max(started.elapsed() * COUNTS_GOOD_TIMES);
        let mut counts = self.counts();
        if counts.len() >= TENANTS_REMEMBERED_MAX {
            counts.clear();
        }
        counts.insert(tenant.clone(), Counted { usage, at, good_for });
        Ok(usage)
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<Tenant, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a tenant's live sessions behave; where it says nothing, as the server's.
fn live_settings(own: &TenantSettings, server: LiveSettings) -> LiveSettings {
    LiveSettings {
        enabled: own.enable_session_memory.unwrap_or(server.enabled),
        ttl: own.session_ttl_hours.map_or(server.ttl, |hours| Duration::from_secs(hours * 3600)),
        messages_max: own.session_max_messages.unwrap_or(server.messages_max),
        summarize_after: own.session_summarize_after.unwrap_or(server.summarize_after),
        bytes_max: own.session_memory_max_mb.map_or(server.bytes_max, |megabytes| (megabytes * MEGABYTE) as usize),
        sessions_max: own.session_max_sessions.unwrap_or(server.sessions_max),
    }
}

#[cfg(test)]
mod tests;
