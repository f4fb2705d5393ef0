//! What a store keeps of tenants and keys: few rows, read as a whole, held in memory by whoever checks them.

use std::time::Duration;

use jiff::Timestamp;

use super::StoreFuture;
use crate::scope::Tenant;
use crate::tenant::{Key, KeyId, Seal, TenantRecord, TenantSettings, Usage};

/// Most keys of a server, ended ones included.
pub const KEYS_MAX: usize = 100_000;
/// Most tenants that something is written down about.
pub const TENANTS_MAX: usize = 100_000;

/// The part of a store that keeps tenants and keys.
pub trait Tenants: Send + Sync {
    /// Grows with every change of a tenant or a key, whoever makes it. Costs next to nothing.
    fn version(&self) -> StoreFuture<'_, u64>;

    /// All tenants and all keys, as they are at one version.
    fn register(&self) -> StoreFuture<'_, Register>;

    /// Writes a tenant down. `false` when it was before, and nothing is changed.
    fn create(&self, tenant: TenantRecord) -> StoreFuture<'_, bool>;

    /// Changes a tenant's settings. Sessions without a TTL of their own follow the tenant's. `false` when there is no
    /// such tenant.
    fn update(&self, tenant: &Tenant, settings: TenantSettings, at: Timestamp) -> StoreFuture<'_, bool>;

    /// Counts what a tenant has; its bytes only when asked, because that takes a look at every turn.
    fn usage(&self, tenant: &Tenant, with_bytes: bool) -> StoreFuture<'_, Usage>;

    /// Keeps a key, and forgets those that ended before this time.
    fn add_key(&self, key: Key, ended_before: Timestamp) -> StoreFuture<'_, ()>;

    /// Keeps a key in place of another one, which ends at this time. `false` when that one is not known or was revoked.
    fn replace_key(&self, old: &KeyId, ends_at: Timestamp, new: Key) -> StoreFuture<'_, bool>;

    /// Ends a key. One that was ended before stays as it was. `None` when there is no such key.
    fn revoke_key(&self, id: &KeyId, at: Timestamp) -> StoreFuture<'_, Option<Key>>;

    /// What the keys of this store are sealed with, the same for everybody who shares it. It is kept apart from the keys;
    /// `fresh`, which is random, becomes it when there is none.
    fn seal(&self, fresh: [u8; 32]) -> StoreFuture<'_, Seal>;
}

/// All tenants and keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Register {
    /// The version it is of.
    pub version: u64,
    /// Tenants by name.
    pub tenants: Vec<TenantRecord>,
    /// Keys in the order they were made.
    pub keys: Vec<Key>,
    /// How long ago that was so; nothing from the store itself.
    pub age: Duration,
}
