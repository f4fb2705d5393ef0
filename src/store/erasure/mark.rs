//! How something that is gone is named: by a keyed hash, so that the book tells nobody who or what it was, and whoever holds
//! the key can tell whether something that is there again is it.

use ring::hmac;

use super::{Erasure, ErasureKind};
use crate::id::{DocumentId, FactId, SessionId, TurnId};

/// Bytes of a mark.
const BYTES: usize = 16;

/// The name of something that was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark(pub [u8; BYTES]);

impl Mark {
    /// Reads its hexadecimal form.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = u128::from_str_radix(text, 16).ok()?.to_be_bytes();
        (text.len() == 2 * BYTES).then_some(Self(bytes))
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// What makes marks: the key of a book.
#[derive(Clone)]
pub struct Marks(hmac::Key);

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Marks(…)")
    }
}

impl Marks {
    /// Marks by a key.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The mark of what is to be erased.
    pub fn of(&self, what: &Erasure) -> Mark {
        match what {
            Erasure::Tenant(tenant) => self.tenant(tenant.as_str()),
            Erasure::User(scope) => self.user(scope.tenant().as_str(), scope.user().as_str()),
            Erasure::Session(scope, id) => self.session(scope.tenant().as_str(), scope.user().as_str(), *id),
            Erasure::Turn(scope, id) => self.turn(scope.tenant().as_str(), scope.user().as_str(), *id),
            Erasure::Document(tenant, id) => self.document(tenant.tenant().as_str(), *id),
            Erasure::Fact(scope, id) => self.fact(scope.tenant().as_str(), scope.user().as_str(), *id),
        }
    }

    /// The mark of a tenant.
    pub fn tenant(&self, tenant: &str) -> Mark {
        self.sign(ErasureKind::Tenant, &[tenant.as_bytes()])
    }

    /// The mark of a user.
    pub fn user(&self, tenant: &str, user: &str) -> Mark {
        self.sign(ErasureKind::User, &[tenant.as_bytes(), user.as_bytes()])
    }

    /// The mark of a session.
    pub fn session(&self, tenant: &str, user: &str, id: SessionId) -> Mark {
        self.sign(ErasureKind::Session, &[tenant.as_bytes(), user.as_bytes(), id.as_uuid().as_bytes()])
    }

    /// The mark of an exchange.
    pub fn turn(&self, tenant: &str, user: &str, id: TurnId) -> Mark {
        self.sign(ErasureKind::Turn, &[tenant.as_bytes(), user.as_bytes(), id.as_uuid().as_bytes()])
    }

    /// The mark of a document.
    pub fn document(&self, tenant: &str, id: DocumentId) -> Mark {
        self.sign(ErasureKind::Document, &[tenant.as_bytes(), id.as_uuid().as_bytes()])
    }

    /// The mark of a fact.
    pub fn fact(&self, tenant: &str, user: &str, id: FactId) -> Mark {
        self.sign(ErasureKind::Fact, &[tenant.as_bytes(), user.as_bytes(), id.as_uuid().as_bytes()])
    }

    fn sign(&self, kind: ErasureKind, parts: &[&[u8]]) -> Mark {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(kind.as_str().as_bytes());
        for part in parts {
            // With its length, so that no part can be taken for the beginning of the next.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let tag = context.sign();
        Mark(*tag.as_ref().first_chunk().expect("an HMAC with SHA-256 has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_apart_by_key_kind_and_parts() {
        let (ours, theirs) = (Marks::new(b"ours"), Marks::new(b"theirs"));
        assert_eq!(ours.user("acme", "ann"), ours.user("acme", "ann"));
        assert_ne!(ours.user("acme", "ann"), theirs.user("acme", "ann"));
        assert_ne!(ours.user("acme", "ann"), ours.user("acmea", "nn"));
        assert_ne!(ours.tenant("acme"), ours.user("acme", ""));
    }

    #[test]
    fn a_mark_is_read_as_it_is_written() {
        let mark = Marks::new(b"ours").tenant("acme");
        assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        assert_eq!((Mark::parse("12"), Mark::parse("zz")), (None, None));
    }
}
