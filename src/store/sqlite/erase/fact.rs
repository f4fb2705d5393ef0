//! A fact goes, with every statement of its words.

use jiff::Timestamp;

use super::super::facts;
use super::super::sql::Connection;
use super::{strays, turn};
use crate::id::FactId;
use crate::scope::Scope;
use crate::store::StoreError;
use crate::store::erasure::Counts;

/// Whether there is such a fact.
pub(super) fn is_there(db: &Connection, scope: &Scope, id: FactId) -> Result<bool, StoreError> {
    facts::is_there(db, scope, id)
}

/// Removes a fact and what it followed from. The messages that said it stay, and are not understood so again; what was told of them is told
/// anew without them.
pub(super) fn erase(db: &Connection, scope: &Scope, id: FactId, now: Timestamp) -> Result<Counts, StoreError> {
    let (unsaid, turns) = facts::erase(db, scope, id, now)?;
    let mut counts = Counts { facts: unsaid.facts, statements: unsaid.statements, ..Counts::default() };
    for turn in turns {
        counts += turn::untell(db, scope, turn)?;
    }
    counts += strays::of_user(db, scope)?;
    Ok(counts)
}
