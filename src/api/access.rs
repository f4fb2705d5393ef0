//! What whoever came in may do: decided by the guard, carried by the request, asked for by every handler.
//!
//! **Invariant:** a [`Visitor`] is made of a request that the guard let in, and a scope is made of a visitor.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, StatusCode};

use super::budget::Reservation;
use super::error::ApiError;
use crate::scope::{Tenant, User};
use crate::tenant::{Key, Right, Rights};

/// What was opened, and for whom.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Access {
    /// Whose memory it is about: the key's tenant, else the one that the request names.
    pub(super) tenant: Tenant,
    /// The user that the key speaks for, whatever the request says.
    pub(super) user: Option<User>,
    /// What may be done.
    pub(super) rights: Rights,
    /// Whether the request is believed when it names a user.
    pub(super) trust_identity: bool,
    /// Whether it is one tenant's alone.
    pub(super) bound: bool,
    /// Whether those who name nobody share one memory.
    pub(super) shares: bool,
    /// Whether a key of ours was shown; then no credential goes on to the upstream.
    pub(super) keyed: bool,
}

impl Access {
    /// Everything, for whoever needs no key, has the one of the settings, or owns the data file.
    pub(super) fn everything(tenant: Option<Tenant>, shares: bool, keyed: bool) -> Self {
        Self {
            tenant: tenant.unwrap_or_default(),
            user: None,
            rights: Rights::ALL,
            trust_identity: true,
            bound: false,
            shares,
            keyed,
        }
    }

    /// What a key opens. A key of one tenant opens no other.
    pub(super) fn of(key: Key, named: Option<Tenant>, shares: bool) -> Result<Self, ApiError> {
        let tenant = match (&key.tenant, named) {
            (Some(own), Some(named)) if *own != named => return Err(wrong_tenant(own)),
            (Some(own), _) => own.clone(),
            (None, named) => named.unwrap_or_default(),
        };
        Ok(Self {
            tenant,
            user: key.user,
            rights: key.rights,
            trust_identity: key.trust_identity,
            bound: key.tenant.is_some(),
            shares,
            keyed: true,
        })
    }

    /// The same for another tenant, which the body names.
    pub(super) fn for_tenant(self, tenant: Tenant) -> Result<Self, ApiError> {
        match self.bound && self.tenant != tenant {
            true => Err(wrong_tenant(&self.tenant)),
            false => Ok(Self { tenant, ..self }),
        }
    }

    /// Whether something may be done.
    pub(super) fn check(&self, right: Right) -> Result<(), ApiError> {
        if self.rights.has(right) {
            return Ok(());
        }
        let detail = format!("this takes a key with the right `{}`; this one has {}", right.as_str(), self.told());
        Err(ApiError::new(StatusCode::FORBIDDEN, "missing_right", "Right missing", detail))
    }

    /// Whether something may be done that concerns every tenant.
    pub(super) fn check_everybody(&self) -> Result<(), ApiError> {
        if !self.bound {
            return Ok(());
        }
        let detail = format!("this concerns every tenant, and this key is for `{}` alone", self.tenant);
        Err(ApiError::new(StatusCode::FORBIDDEN, "wrong_tenant", "Wrong tenant", detail))
    }

    fn told(&self) -> String {
        self.rights.words().join(", ")
    }
}

fn wrong_tenant(own: &Tenant) -> ApiError {
    let detail = format!("this key opens tenant `{own}` and no other; leave the tenant out, or use its own key");
    ApiError::new(StatusCode::FORBIDDEN, "wrong_tenant", "Wrong tenant", detail)
}

/// Somebody who was let in: the head of their request, and what they may do.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    headers: HeaderMap,
    pub(super) access: Access,
    /// The memory that the body takes.
    pub(super) reservation: Arc<Reservation>,
}

impl Visitor {
    /// A request that passed the guard.
    pub(super) fn of(parts: &Parts) -> Result<Self, ApiError> {
        let (access, reservation) = (access(parts.extensions.get())?, reservation(&parts.extensions)?);
        Ok(Self { headers: parts.headers.clone(), access, reservation })
    }

    /// The same request with another access.
    pub(super) fn with(&self, access: Access) -> Self {
        Self { headers: self.headers.clone(), access, reservation: Arc::clone(&self.reservation) }
    }
}

/// A visitor is read as their headers are.
impl Deref for Visitor {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.headers
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(parts)
    }
}

/// What the guard decided. A route that it does not guard has nobody's memory to show.
pub(super) fn access(found: Option<&Access>) -> Result<Access, ApiError> {
    found.cloned().ok_or_else(|| {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "Unauthorized", "nobody was asked for a key here")
    })
}

/// The memory that a request may take. Every route has a budget.
pub(super) fn reservation(extensions: &Extensions) -> Result<Arc<Reservation>, ApiError> {
    extensions.get().cloned().ok_or_else(|| {
        let detail = "the request has no reservation of memory";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "no_reservation", "No reservation", detail)
    })
}
