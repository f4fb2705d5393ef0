//! A document goes, and what its tenant learned from a chat goes with the chat.

use jiff::Timestamp;

use super::super::connect::meaning;
use super::super::knowledge;
use super::super::session::execute;
use super::super::sql::{Connection, OptionalExtension, params};
use super::strays;
use crate::id::DocumentId;
use crate::knowledge::{Kind, said_in_chat};
use crate::store::StoreError;
use crate::store::erasure::Counts;

/// Whether a tenant knows it.
pub(super) fn is_there(db: &Connection, tenant: &str, id: DocumentId) -> Result<bool, StoreError> {
    Ok(key(db, "tenant = ?1 AND id = ?2", params![tenant, id.as_uuid().as_bytes()])?.is_some())
}

/// Removes a document, and what its tenant's users were shown of it.
pub(super) fn erase(db: &Connection, tenant: &str, id: DocumentId, now: Timestamp) -> Result<Counts, StoreError> {
    let found = key(db, "tenant = ?1 AND id = ?2", params![tenant, id.as_uuid().as_bytes()])?;
    let mut counts = remove(db, tenant, found, now)?;
    counts += strays::of_tenant(db, tenant)?;
    Ok(counts)
}

/// Whether a tenant learned anything from its chats.
pub(super) fn has_notes(db: &Connection, tenant: &str) -> Result<bool, StoreError> {
    Ok(key(db, "tenant = ?1 AND kind = ?2", params![tenant, Kind::Note.as_str()])?.is_some())
}

/// Removes what a tenant learned from a message.
pub(super) fn unlearn(db: &Connection, tenant: &str, said: &str, now: Timestamp) -> Result<Counts, StoreError> {
    let found = key(db, "tenant = ?1 AND name = ?2", params![tenant, said_in_chat(said)])?;
    remove(db, tenant, found, now)
}

fn key(db: &Connection, which: &str, values: &[&dyn super::super::sql::ToSql]) -> Result<Option<i64>, StoreError> {
    let mut statement = db
        .prepare_cached(&format!("SELECT key FROM document WHERE {which} LIMIT 1"))
        .map_err(|error| meaning(&error))?;
    statement.query_row(values, |row| row.get(0)).optional().map_err(|error| meaning(&error))
}

fn remove(db: &Connection, tenant: &str, key: Option<i64>, now: Timestamp) -> Result<Counts, StoreError> {
    let Some(key) = key else { return Ok(Counts::default()) };
    let passages = execute(db, "DELETE FROM passage WHERE document = ?1", [key])? as u64;
    let documents = execute(db, "DELETE FROM document WHERE key = ?1", [key])? as u64;
    knowledge::changes(db, tenant, now.as_microsecond())?;
    Ok(Counts { documents, passages, ..Counts::default() })
}
