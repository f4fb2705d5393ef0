//! What is kept of a tenant, counted.

use super::super::connect::meaning;
use super::super::sql::Connection;
use super::again::users;
use crate::store::StoreError;
use crate::store::erasure::TenantKept;

/// Counts what a tenant has.
pub(super) fn count(db: &Connection, tenant: &str) -> Result<TenantKept, StoreError> {
    let one = |sql: &str| db.query_row(sql, [tenant], |row| row.get(0)).map_err(|error| meaning(&error));
    let named = |table: &str| one(&format!("SELECT count(*) FROM {table} WHERE tenant = ?1"));
    let of_turns = |table: &str, which: &str| {
        one(&format!(
            "SELECT count(*) FROM session JOIN turn ON turn.session = session.key
             JOIN {table} ON {which} WHERE session.tenant = ?1"
        ))
    };
    let oldest =
        "SELECT min(turn.created_at) FROM session JOIN turn ON turn.session = session.key WHERE session.tenant = ?1";
    Ok(TenantKept {
        tenant: tenant.to_owned(),
        users: users(db, tenant)?.len() as u64,
        sessions: named("session")?,
        turns: one("SELECT coalesce(sum(turns), 0) FROM session WHERE tenant = ?1")?,
        archived: one("SELECT coalesce(sum(block.turns), 0) FROM session JOIN block ON block.session = session.key
                       WHERE session.tenant = ?1")?,
        revisions: of_turns("revision", "revision.turn = turn.key")?,
        traces: of_turns("recall_trace", "recall_trace.turn = turn.key")?,
        episodes: one("SELECT count(*) FROM episode WHERE tenant = ?1 AND summary <> ''")?,
        topics: one("SELECT count(*) FROM topic WHERE tenant = ?1 AND merged_into IS NULL")?,
        facts: named("fact")?,
        statements: named("fact_statement")?,
        documents: named("document")?,
        passages: one(
            "SELECT count(*) FROM document JOIN passage ON passage.document = document.key WHERE tenant = ?1",
        )?,
        jobs: one("SELECT count(*) FROM session JOIN job ON job.session = session.key WHERE session.tenant = ?1")?,
        webhooks: named("outbox")?,
        model_answers: named("memory_answer")?,
        keys: named("api_key")?,
        oldest_turn: db.query_row(oldest, [tenant], |row| row.get(0)).map_err(|error| meaning(&error))?,
    })
}
