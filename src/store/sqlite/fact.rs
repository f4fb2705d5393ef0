//! What turns mean for facts, in SQL: what happens to that while turns are written and removed.
//!
//! **Invariant:** a turn of a user whose words changed, were hidden or shown again is on the list. Whoever writes a
//! turn calls [`added`] or [`rewritten`]; a trigger sees to those that are hidden or shown. What grows too old leaves
//! its facts behind.

use super::session::send;
use super::sql::Connection;
use crate::message::Role;
use crate::session::{Turn, TurnStatus};
use crate::store::StoreError;

/// A new turn is to be understood.
pub(super) fn added(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    match turn.enters_context() && is_users(turn) {
        true => put_on_list(db, key),
        false => Ok(()),
    }
}

/// A turn was answered, or has failed. While it is being answered again nothing changes: its question stays the same.
pub(super) fn rewritten(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    match (turn.status != TurnStatus::Pending || turn.enters_context()) && is_users(turn) {
        true => put_on_list(db, key),
        false => Ok(()),
    }
}

fn is_users(turn: &Turn) -> bool {
    turn.question().role == Role::User
}

fn put_on_list(db: &Connection, key: i64) -> Result<(), StoreError> {
    send(db, "INSERT OR IGNORE INTO fact_todo (turn) VALUES (?1)", [key])
}
