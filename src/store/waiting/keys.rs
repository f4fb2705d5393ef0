//! A copy of tenants and keys, so that those who may come in still may while the database is away.
//!
//! It lies in the spool: what keys are compared with, never a key, and of tenants' settings none that is a secret. What keys are
//! sealed with lies in a file of its own beside it, as with a data file. A process that runs has all of it in memory; the
//! copy is for one that starts meanwhile, and is believed for as long as what is in memory is.

use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Outage, Waiting};
use crate::scope::{Tenant, User};
use crate::store::sqlite::seal;
use crate::store::{Register, Store, StoreError, StoreFuture, Tenants};
use crate::tenant::{Key, KeyId, Right, Seal, TenantRecord, TenantSettings, Usage};

/// What the copy, and the time it was last known to be right, are called in the spool.
const COPY: &str = "register";
const CONFIRMED: &str = "register_confirmed";
/// How often it is noted that the copy is still right.
const CONFIRM_EVERY: SignedDuration = SignedDuration::from_secs(10);

#[derive(Serialize, Deserialize)]
struct Copy {
    version: u64,
    tenants: Vec<CopiedTenant>,
    keys: Vec<CopiedKey>,
}

#[derive(Serialize, Deserialize)]
struct CopiedTenant {
    tenant: String,
    settings: TenantSettings,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct CopiedKey {
    id: String,
    name: String,
    tenant: Option<String>,
    user: Option<String>,
    rights: Vec<String>,
    trust_identity: bool,
    sealed: [u8; 32],
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    replaced_by: Option<String>,
}

impl Copy {
    fn of(register: &Register) -> Self {
        let tenants = register.tenants.iter().map(|record| CopiedTenant {
            tenant: record.tenant.to_string(),
            settings: TenantSettings { session_end_secret: None, ..record.settings.clone() },
            created_at: record.created_at,
            updated_at: record.updated_at,
        });
        let keys = register.keys.iter().map(|key| CopiedKey {
            id: key.id.to_string(),
            name: key.name.clone(),
            tenant: key.tenant.as_ref().map(Tenant::to_string),
            user: key.user.as_ref().map(User::to_string),
            rights: key.rights.words().into_iter().map(str::to_owned).collect(),
            trust_identity: key.trust_identity,
            sealed: key.sealed,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            replaced_by: key.replaced_by.as_ref().map(KeyId::to_string),
        });
        Self { version: register.version, tenants: tenants.collect(), keys: keys.collect() }
    }

    /// The register again; nothing when any of it cannot be read: half a list of keys is none.
    fn register(self, age: Duration) -> Option<Register> {
        let tenants = self.tenants.into_iter().map(|copied| {
            let tenant = Tenant::parse(&copied.tenant).ok()?;
            let CopiedTenant { settings, created_at, updated_at, .. } = copied;
            Some(TenantRecord { tenant, settings, created_at, updated_at })
        });
        let keys = self.keys.into_iter().map(CopiedKey::key);
        Some(Register {
            version: self.version,
            tenants: tenants.collect::<Option<_>>()?,
            keys: keys.collect::<Option<_>>()?,
            age,
        })
    }
}

impl CopiedKey {
    fn key(self) -> Option<Key> {
        Some(Key {
            id: KeyId::parse(&self.id)?,
            name: self.name,
            tenant: self.tenant.map(|tenant| Tenant::parse(&tenant)).transpose().ok()?,
            user: self.user.map(|user| User::parse(&user)).transpose().ok()?,
            rights: self.rights.iter().map(|word| word.parse::<Right>().ok()).collect::<Option<_>>()?,
            trust_identity: self.trust_identity,
            sealed: self.sealed,
            created_at: self.created_at,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            replaced_by: match self.replaced_by {
                Some(id) => Some(KeyId::parse(&id)?),
                None => None,
            },
        })
    }
}

/// When the copy was last noted to be right.
#[derive(Debug, Default)]
pub(super) struct Confirmed(Mutex<Option<Timestamp>>);

impl Outage {
    /// The database says that this version is the newest: so is the copy, if it is of this version.
    fn confirm(&self, now: Timestamp) {
        let mut last = self.confirmed.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.is_none_or(|last| now.duration_since(last) >= CONFIRM_EVERY) {
            *last = Some(now);
            self.spool.note(CONFIRMED, now.to_string());
        }
    }

    fn copy(&self, register: &Register, now: Timestamp) {
        // What was noted before is compared, so that a quiet server writes nothing.
        if let Ok(copy) = serde_json::to_string(&Copy::of(register))
            && self.spool.noted(COPY).as_ref() != Some(&copy)
        {
            self.spool.note(COPY, copy);
        }
        self.confirm(now);
    }

    /// The copy, as long as it is not too old.
    fn copied(&self, now: Timestamp) -> Option<Register> {
        let confirmed: Timestamp = self.spool.noted(CONFIRMED)?.parse().ok()?;
        // A clock that was set back makes the copy no younger.
        let age = now.duration_since(confirmed).unsigned_abs();
        let copy: Copy = serde_json::from_str(&self.spool.noted(COPY)?).ok()?;
        copy.register(age).filter(|_| age < self.keys_max)
    }
}

impl<S: Store + ?Sized> Waiting<S> {
    /// The answer, or what stands in for it while the database is away.
    fn or_copied<T>(
        &self,
        answer: Result<T, StoreError>,
        copied: impl FnOnce(&Outage) -> Option<T>,
    ) -> Result<T, StoreError> {
        match (answer, &self.outage) {
            (Err(error), Some(outage)) if error.may_pass() => copied(outage).ok_or(error),
            (answer, _) => answer,
        }
    }
}

impl<S: Store + ?Sized> Tenants for Waiting<S> {
    fn version(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let version = self.inner.tenants().version().await?;
            if let Some(outage) = &self.outage {
                outage.confirm(self.clock.now());
            }
            Ok(version)
        })
    }

    fn register(&self) -> StoreFuture<'_, Register> {
        Box::pin(async move {
            let register = self.inner.tenants().register().await;
            if let (Ok(register), Some(outage)) = (&register, &self.outage) {
                outage.copy(register, self.clock.now());
            }
            self.or_copied(register, |outage| outage.copied(self.clock.now()))
        })
    }

    fn seal(&self, fresh: [u8; 32]) -> StoreFuture<'_, Seal> {
        Box::pin(async move {
            let sealed = self.inner.tenants().seal(fresh).await;
            if let (Ok(sealed), Some(outage)) = (&sealed, &self.outage)
                && let Err(error) = seal::keep(outage.spool.path(), sealed.secret())
            {
                tracing::warn!(error = %error, "A start without the database will know no keys: {error}");
            }
            self.or_copied(sealed, |outage| seal::kept(outage.spool.path()))
        })
    }

    fn create(&self, tenant: TenantRecord) -> StoreFuture<'_, bool> {
        self.inner.tenants().create(tenant)
    }

    fn update(&self, tenant: &Tenant, settings: TenantSettings, at: Timestamp) -> StoreFuture<'_, bool> {
        self.inner.tenants().update(tenant, settings, at)
    }

    fn usage(&self, tenant: &Tenant, with_bytes: bool) -> StoreFuture<'_, Usage> {
        self.inner.tenants().usage(tenant, with_bytes)
    }

    fn add_key(&self, key: Key, ended_before: Timestamp) -> StoreFuture<'_, ()> {
        self.inner.tenants().add_key(key, ended_before)
    }

    fn replace_key(&self, old: &KeyId, ends_at: Timestamp, new: Key) -> StoreFuture<'_, bool> {
        self.inner.tenants().replace_key(old, ends_at, new)
    }

    fn revoke_key(&self, id: &KeyId, at: Timestamp) -> StoreFuture<'_, Option<Key>> {
        self.inner.tenants().revoke_key(id, at)
    }
}
