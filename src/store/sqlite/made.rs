//! What derived things were made with, in SQL: whatever is made with something else now is made anew.

use super::connect::meaning;
use super::session::send;
use super::sql::{Connection, OptionalExtension};
use crate::store::StoreError;

/// What these were made with, as noted last.
pub(super) fn with(db: &Connection, what: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT made FROM recall_made_with WHERE what = ?1";
    db.query_row(sql, [what], |row| row.get(0)).optional().map_err(|error| meaning(&error))
}

/// Notes what these are made with from now on.
pub(super) fn note(db: &Connection, what: &str, made: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO recall_made_with (what, made) VALUES (?1, ?2)
               ON CONFLICT (what) DO UPDATE SET made = excluded.made";
    send(db, sql, [what, made])
}
