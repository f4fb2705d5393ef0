//! Whose memory: every look into the store says so.
//!
//! **Invariant:** a [`Scope`] is built where a caller has been authenticated (`api/identity.rs`), or
//! by the program that owns the data (the CLI, a program that embeds the library). `tests/tidy.rs`
//! keeps the list of places. Work that follows on what is kept, for nobody in particular, takes the scope
//! from beside it (`Scope::as_stored`).

use std::fmt;

use crate::id::SessionId;

/// Longest id, in bytes.
pub const ID_BYTES_MAX: usize = 256;

/// Why an id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing but white space.
    #[error("is empty")]
    Empty,
    /// Over the bound.
    #[error("is {0} bytes long, at most {ID_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Would garble logs and terminals.
    #[error("contains a control character")]
    Control,
    /// A colon ends the tenant's name in a path, so no request could reach it.
    #[error("contains a colon, which ends a tenant's name in a path")]
    Colon,
}

/// Checks any text that somebody uses as an id.
pub fn check_id(text: &str) -> Result<(), IdError> {
    if text.trim().is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(IdError::Control);
    }
    Ok(())
}

/// Checks the name of a tenant.
fn check_tenant(text: &str) -> Result<(), IdError> {
    check_id(text)?;
    if text.contains(':') { Err(IdError::Colon) } else { Ok(()) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Accepts any non-empty text of bounded length without control characters; a tenant's has no colon either.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                $check(text).map(|()| Self(text.into()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A company or installation whose users share knowledge.
    Tenant, check_tenant
}
name! {
    /// A person, or a program acting as one.
    User, check_id
}

impl Default for Tenant {
    fn default() -> Self {
        Self("default".into())
    }
}

impl User {
    /// The name of whoever did not say who they are.
    pub const ANONYMOUS: &str = "anonymous";

    /// Whoever did not say who they are.
    pub fn anonymous() -> Self {
        Self(Self::ANONYMOUS.into())
    }

    /// A user known by nothing but their session.
    pub fn of_session(session: SessionId) -> Self {
        Self(format!("~{session}").into())
    }
}

/// Whose memory is read or written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    tenant: Tenant,
    user: User,
}

impl Scope {
    /// The memory of one user of one tenant.
    pub fn new(tenant: Tenant, user: User) -> Self {
        Self { tenant, user }
    }

    /// Whose memory something in the store is. Only the store knows.
    pub(crate) fn as_stored(tenant: &str, user: &str) -> Self {
        Self { tenant: Tenant(tenant.into()), user: User(user.into()) }
    }

    /// Where a visitor's session stands, in whose name nothing is kept.
    pub(crate) fn of_visit(tenant: Tenant, session: SessionId) -> Self {
        Self { tenant, user: User::of_session(session) }
    }

    /// Whose requests are noted that are about what all users of a tenant share. Nothing is said in its name.
    pub(crate) fn of_tenant_requests(tenant: Tenant) -> Self {
        Self { tenant, user: User("~".into()) }
    }

    /// What this user shares with all others of the tenant.
    pub fn shared(&self) -> TenantScope {
        TenantScope(self.tenant.clone())
    }

    /// The tenant.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.user
    }
}

/// What all users of one tenant share: its knowledge. Nobody's conversation is in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TenantScope(Tenant);

impl TenantScope {
    /// What a tenant's users share, for somebody who was let in to that tenant.
    pub fn new(tenant: Tenant) -> Self {
        Self(tenant)
    }

    /// Whose something in the store is. Only the store knows.
    pub(crate) fn as_stored(tenant: &str) -> Self {
        Self(Tenant(tenant.into()))
    }

    /// The tenant.
    pub fn tenant(&self) -> &Tenant {
        &self.0
    }
}

/// Whose memory a whole file is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// One user's, whatever names are in the file.
    One(Scope),
    /// That of all users of a tenant, each by their name.
    Everyone(Tenant),
}

impl Whose {
    /// The memory that something belongs to which names this user.
    pub fn of(&self, user: Option<&str>) -> Result<Scope, IdError> {
        match (self, user) {
            (Self::One(scope), _) => Ok(scope.clone()),
            (Self::Everyone(tenant), Some(user)) => Ok(Scope { tenant: tenant.clone(), user: User::parse(user)? }),
            (Self::Everyone(tenant), None) => Ok(Scope { tenant: tenant.clone(), user: User::anonymous() }),
        }
    }

    /// The tenant.
    pub fn tenant(&self) -> &Tenant {
        match self {
            Self::One(scope) => scope.tenant(),
            Self::Everyone(tenant) => tenant,
        }
    }

    /// What all users of the tenant share.
    pub fn shared(&self) -> TenantScope {
        TenantScope::new(self.tenant().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked() {
        assert_eq!(User::parse("ann@example.org").map(|u| u.to_string()), Ok("ann@example.org".into()));
        assert_eq!(User::parse(""), Err(IdError::Empty));
        assert_eq!(User::parse(" \t"), Err(IdError::Empty));
        assert_eq!(User::parse("a\nb"), Err(IdError::Control));
        assert!(User::parse(&"x".repeat(ID_BYTES_MAX)).is_ok());
        assert_eq!(User::parse(&"x".repeat(ID_BYTES_MAX + 1)), Err(IdError::TooLong(257)));
        assert_eq!(User::parse("a:b").map(|user| user.to_string()), Ok("a:b".into()));
        assert_eq!(Tenant::parse("a:b"), Err(IdError::Colon));
    }
}
