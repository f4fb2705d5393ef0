//! For whom a store does something: said with every statement, whether a backend makes use of it or not.

use crate::scope::{Scope, Tenant};

/// Whose rows may be looked at and changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Whose {
    /// Nobody's: what a store keeps about itself, tenants and keys.
    Ours,
    /// Those of a tenant, all users together.
    Tenant(String),
    /// Those of one user.
    User(Scope),
}

impl From<&Scope> for Whose {
    fn from(scope: &Scope) -> Self {
        Self::User(scope.clone())
    }
}

impl From<&Tenant> for Whose {
    fn from(tenant: &Tenant) -> Self {
        Self::Tenant(tenant.as_str().to_owned())
    }
}
