//! Writing tenants down, making keys, ending them.

use jiff::SignedDuration;
use serde_json::{Map, Value};
use tracing::{error, info};

use crate::memory::Memory;
use crate::scope::Tenant;
use crate::store::live::LiveError;
use crate::store::{Erasure, Receipt, StoreError};
use crate::tenant::{
    Key, KeyDraft, KeyError, KeyId, KeyState, NewKey, SettingsError, TenantRecord, TenantSettings, Usage, is_reachable,
};

/// How long a key that ended is still listed.
const ENDED_KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Why something about a tenant or a key could not be done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TenantError {
    /// Its visitors' sessions cannot be reached.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Nothing is written down about it.
    #[error("there is no tenant `{0}`")]
    Unknown(Tenant),
    /// It is there.
    #[error("there is a tenant `{0}` already")]
    Exists(Tenant),
    /// Nobody could ask for it.
    #[error("the name `{0}` has a colon or a slash in it, and no path could name it")]
    Unreachable(Tenant),
    /// It would take conversations with it.
    #[error("tenant `{tenant}` has {sessions} sessions, which would go as well")]
    HasSessions {
        /// Which tenant.
        tenant: Tenant,
        /// How many.
        sessions: u64,
    },
    /// Its settings are not ones.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No such key.
    #[error("there is no key `{0}`")]
    UnknownKey(KeyId),
    /// It has ended, and nothing can take its place.
    #[error("key `{0}` has ended; make a new one")]
    EndedKey(KeyId),
    /// Such a key makes no sense.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Memory {
    /// The tenants that something is written down about, by name.
    pub async fn list_tenants(&self) -> Result<Vec<TenantRecord>, TenantError> {
        Ok(self.roll("list_tenants").await?.tenants())
    }

    /// What is written down about a tenant, and what it has.
    pub async fn tenant(&self, tenant: &Tenant) -> Result<(TenantRecord, Usage), TenantError> {
        let record = self.record(tenant).await?;
        let usage = self.parts.store.tenants().usage(tenant, true).await;
        Ok((record, self.reported("count_tenant", usage)?))
    }

    /// Writes a tenant down.
    pub async fn create_tenant(&self, tenant: Tenant, own: &Map<String, Value>) -> Result<TenantRecord, TenantError> {
        if !is_reachable(&tenant) {
            return Err(TenantError::Unreachable(tenant));
        }
        let now = self.parts.clock.now();
        let settings = TenantSettings::default().changed(own)?;
        let record = TenantRecord { tenant, settings, created_at: now, updated_at: now };
        self.tenants.view_with(&record)?;
        let made = self.parts.store.tenants().create(record.clone()).await;
        if !self.reported("create_tenant", made)? {
            return Err(TenantError::Exists(record.tenant));
        }
        self.roll_now("create_tenant").await?;
        Ok(record)
    }

    /// Changes some of a tenant's settings; `null` takes one away.
    pub async fn change_tenant(
        &self,
        tenant: &Tenant,
        changes: &Map<String, Value>,
    ) -> Result<TenantRecord, TenantError> {
        let before = self.record(tenant).await?;
        let settings = before.settings.changed(changes)?;
        let record = TenantRecord { settings, updated_at: self.parts.clock.now(), ..before };
        self.tenants.view_with(&record)?;
        let store = self.parts.store.tenants();
        let changed = store.update(tenant, record.settings.clone(), record.updated_at).await;
        let changed = self.reported("change_tenant", changed)?;
        self.roll_now("change_tenant").await?;
        if changed { Ok(record) } else { Err(TenantError::Unknown(tenant.clone())) }
    }

    /// Forgets a tenant and ends its keys. If it has conversations, that needs `everything`, and they go as well.
    pub async fn erase_tenant(&self, tenant: &Tenant, everything: bool) -> Result<Receipt, TenantError> {
        let store = self.parts.store.tenants();
        let usage = self.reported("count_tenant", store.usage(tenant, false).await)?;
        if usage.sessions == 0 && !everything {
            self.record(tenant).await?;
        }
        if usage.sessions > 0 && !everything {
            return Err(TenantError::HasSessions { tenant: tenant.clone(), sessions: usage.sessions });
        }
        self.take_all_live(tenant).await?;
        let erased = self.erase(Erasure::Tenant(tenant.clone())).await?;
        self.roll_now("erase_tenant").await?;
        erased.ok_or_else(|| TenantError::Unknown(tenant.clone()))
    }

    /// All keys, in the order they were made.
    pub async fn keys(&self) -> Result<Vec<Key>, TenantError> {
        Ok(self.roll("list_keys").await?.keys())
    }

    /// Makes a key. Its text is not kept anywhere.
    pub async fn create_key(&self, draft: KeyDraft) -> Result<NewKey, TenantError> {
        if let Some(tenant) = draft.tenant.as_ref().filter(|tenant| **tenant != Tenant::default()) {
            self.record(tenant).await?;
        }
        let new = self.make_key(draft).await?;
        let before = new.key.created_at.saturating_sub(ENDED_KEPT).unwrap_or(jiff::Timestamp::MIN);
        let kept = self.parts.store.tenants().add_key(new.key.clone(), before).await;
        self.reported("create_key", kept)?;
        self.roll_now("create_key").await?;
        info!(key.id = %new.key.id, "Made key `{}`", new.key.id);
        Ok(new)
    }

    /// Makes a key like another one, which stays good for a while longer.
    pub async fn rotate_key(&self, id: &KeyId, overlap: SignedDuration) -> Result<NewKey, TenantError> {
        let now = self.parts.clock.now();
        let old = self.key(id).await?;
        if old.state(now) != KeyState::Active {
            return Err(TenantError::EndedKey(id.clone()));
        }
        let new = self.make_key(old.successor(now)).await?;
        let ends_at = old.end_after(now, overlap);
        let replaced = self.parts.store.tenants().replace_key(id, ends_at, new.key.clone()).await;
        let replaced = self.reported("rotate_key", replaced)?;
        self.roll_now("rotate_key").await?;
        info!(key.id = %new.key.id, "Key `{}` takes the place of `{id}`", new.key.id);
        if replaced { Ok(new) } else { Err(TenantError::EndedKey(id.clone())) }
    }

    /// Ends a key, here at once and elsewhere within a second.
    pub async fn revoke_key(&self, id: &KeyId) -> Result<Key, TenantError> {
        let revoked = self.parts.store.tenants().revoke_key(id, self.parts.clock.now()).await;
        let revoked = self.reported("revoke_key", revoked)?.ok_or_else(|| TenantError::UnknownKey(id.clone()))?;
        self.roll_now("revoke_key").await?;
        info!(key.id = %id, "Revoked key `{id}`");
        Ok(revoked)
    }

    async fn make_key(&self, draft: KeyDraft) -> Result<NewKey, TenantError> {
        let (ids, now) = (&self.parts.ids, self.parts.clock.now());
        draft.check(now)?;
        let seal = self.parts.store.tenants().seal(ids.chance()).await;
        let seal = self.reported("seal_key", seal)?;
        Ok(draft.make(ids.chance(), ids.chance(), &seal, now)?)
    }

    async fn record(&self, tenant: &Tenant) -> Result<TenantRecord, TenantError> {
        let roll = self.roll("read_tenant").await?;
        roll.tenant(tenant).cloned().ok_or_else(|| TenantError::Unknown(tenant.clone()))
    }

    async fn key(&self, id: &KeyId) -> Result<Key, TenantError> {
        let roll = self.roll("read_key").await?;
        roll.key(id).cloned().ok_or_else(|| TenantError::UnknownKey(id.clone()))
    }

    async fn roll(&self, operation: &str) -> Result<std::sync::Arc<crate::memory::Roll>, TenantError> {
        Ok(self.reported(operation, self.tenants.roll().await)?)
    }

    /// Makes what was changed count at once.
    async fn roll_now(&self, operation: &str) -> Result<(), TenantError> {
        self.reported(operation, self.tenants.roll_now().await).map(drop).map_err(TenantError::from)
    }

    /// Passes a result on, telling the log when it is a failure.
    fn reported<T>(&self, operation: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|failure| {
            self.parts.meters.store_failures.one();
            error!(operation, error = %failure, "`{operation}` failed: {failure}");
        })
    }
}
