//! Tenants and keys: who shares a server, what each of them may do, and how much of it.
//!
//! A tenant is a name until somebody writes something down about it: settings that override the server's. A key lets
//! its bearer in, as one tenant or any, as one user or any, with some rights.
//!
//! Reading order: `settings` (what a tenant may have of its own), `key` (who may come in), `limits` (how much is too much),
//! `bucket` (how often is too often).
//!
//! **Invariant:** the secret of a key is seen when the key is made and never again. What is kept is its seal.

mod bucket;
mod key;
mod limits;
mod settings;

pub use bucket::{Bucket, Buckets, Rate};
pub use key::{KEY_NAME_CHARS_MAX, Key, KeyDraft, KeyError, KeyId, KeyState, NewKey, Right, Rights, Seal, parse_key};
pub use limits::{Limit, Limits, OverLimit, Usage};
pub use settings::{SettingsError, TenantSettings};

use jiff::Timestamp;

use crate::scope::Tenant;

/// What is written down about a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRecord {
    /// Its name.
    pub tenant: Tenant,
    /// What it has of its own; the rest is as the server's settings say.
    pub settings: TenantSettings,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its settings were last changed.
    pub updated_at: Timestamp,
}

/// Whether a tenant of this name can be reached: a slash ends the segment of a path.
pub fn is_reachable(tenant: &Tenant) -> bool {
    !tenant.as_str().contains('/')
}
