//! What the book names and is there again. The book has no names, so everything that is there is marked, and its mark looked for.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::super::Backend;
use super::super::connect::meaning;
use super::super::sql::{self, Connection, Row};
use super::whole::NOBODY;
use crate::id::{DocumentId, FactId, MessageId, SessionId, TurnId};
use crate::scope::{Scope, TenantScope};
use crate::store::StoreError;
use crate::store::erasure::{Entry, Erasure, ErasureKind, Mark, Marks};
use crate::store::whose::Whose;

impl Backend {
    /// Every tenant that may have something.
    pub(super) async fn tenants_there(&self) -> Result<Vec<String>, StoreError> {
        self.read_for(Whose::Ours, |db| all(db, sql::TENANTS, &[], |row| row.get(0))).await
    }

    /// Everything that is there and that a line names.
    pub(super) async fn there_again(&self, entries: &[Entry]) -> Result<Vec<Erasure>, StoreError> {
        let named = Arc::new(Named {
            marks: self.marks().await?,
            lines: entries.iter().map(|entry| (entry.kind, entry.mark)).collect(),
        });
        let mut found = Vec::new();
        for tenant in self.tenants_there().await? {
            let (named, of) = (Arc::clone(&named), tenant.clone());
            found.extend(self.read_for(Whose::Tenant(tenant), move |db| named.of_tenant(db, &of)).await?);
        }
        Ok(found)
    }
}

struct Named {
    marks: Marks,
    lines: HashSet<(ErasureKind, Mark)>,
}

impl Named {
    fn has(&self, kind: ErasureKind, mark: Mark) -> bool {
        self.lines.contains(&(kind, mark))
    }

    /// Whether there is any line of a kind; if not, nothing need be looked at.
    fn any(&self, kind: ErasureKind) -> bool {
        self.lines.iter().any(|(known, _)| *known == kind)
    }

    fn of_tenant(&self, db: &Connection, tenant: &str) -> Result<Vec<Erasure>, StoreError> {
        if self.has(ErasureKind::Tenant, self.marks.tenant(tenant)) {
            return Ok(vec![Erasure::Tenant(TenantScope::as_stored(tenant).tenant().clone())]);
        }
        let (gone, users): (Vec<String>, Vec<String>) =
            users(db, tenant)?.into_iter().partition(|user| self.has(ErasureKind::User, self.marks.user(tenant, user)));
        let mut found: Vec<Erasure> = gone.iter().map(|user| Erasure::User(Scope::as_stored(tenant, user))).collect();
        for user in users {
            found.extend(self.of_user(db, tenant, &user)?);
        }
        if self.any(ErasureKind::Document) {
            found.extend(self.documents(db, tenant)?);
        }
        Ok(found)
    }

    fn of_user(&self, db: &Connection, tenant: &str, user: &str) -> Result<Vec<Erasure>, StoreError> {
        let scope = || Scope::as_stored(tenant, user);
        let mut found = Vec::new();
        if self.any(ErasureKind::Session) {
            let there = ids(db, SESSIONS, tenant, user)?.into_iter().map(SessionId::from_uuid);
            let named = there.filter(|id| self.has(ErasureKind::Session, self.marks.session(tenant, user, *id)));
            found.extend(named.map(|id| Erasure::Session(scope(), id)));
        }
        if self.any(ErasureKind::Turn) {
            let turns = ids(db, TURNS, tenant, user)?.into_iter().map(TurnId::from_uuid);
            let said = ids(db, MESSAGES, tenant, user)?.into_iter().map(|id| MessageId::from_uuid(id).turn());
            let there: HashSet<TurnId> = turns.chain(said).collect();
            let named = there.into_iter().filter(|id| self.has(ErasureKind::Turn, self.marks.turn(tenant, user, *id)));
            found.extend(named.map(|id| Erasure::Turn(scope(), id)));
        }
        if self.any(ErasureKind::Fact) {
            let there = ids(db, FACTS, tenant, user)?.into_iter().map(FactId::from_uuid);
            let named = there.filter(|id| self.has(ErasureKind::Fact, self.marks.fact(tenant, user, *id)));
            found.extend(named.map(|id| Erasure::Fact(scope(), id)));
        }
        Ok(found)
    }

    fn documents(&self, db: &Connection, tenant: &str) -> Result<Vec<Erasure>, StoreError> {
        let there: Vec<[u8; 16]> = all(db, "SELECT id FROM document WHERE tenant = ?1", &[&tenant], |row| row.get(0))?;
        let there = there.into_iter().map(|id| DocumentId::from_uuid(Uuid::from_bytes(id)));
        let named = there.filter(|id| self.has(ErasureKind::Document, self.marks.document(tenant, *id)));
        Ok(named.map(|id| Erasure::Document(TenantScope::as_stored(tenant), id)).collect())
    }
}

/// What was told and learned of a session outlives it.
const SESSIONS: &str = "SELECT id FROM session WHERE tenant = ?1 AND user = ?2
    UNION SELECT session FROM episode WHERE tenant = ?1 AND user = ?2
    UNION SELECT session FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND session IS NOT NULL";
const TURNS: &str = "SELECT turn.id FROM session JOIN turn ON turn.session = session.key
    WHERE session.tenant = ?1 AND session.user = ?2";
const MESSAGES: &str =
    "SELECT DISTINCT message FROM fact_statement WHERE tenant = ?1 AND user = ?2 AND message IS NOT NULL";
const FACTS: &str = "SELECT id FROM fact WHERE tenant = ?1 AND user = ?2";

fn ids(db: &Connection, sql: &str, tenant: &str, user: &str) -> Result<Vec<Uuid>, StoreError> {
    let ids: Vec<[u8; 16]> = all(db, sql, &[&tenant, &user], |row| row.get(0))?;
    Ok(ids.into_iter().map(Uuid::from_bytes).collect())
}

/// Everybody of a tenant that any row names.
pub(super) fn users(db: &Connection, tenant: &str) -> Result<Vec<String>, StoreError> {
    let tables: Vec<String> = all(db, sql::TABLES_WITH_USERS, &[], |row| row.get(0))?;
    let mut users: HashSet<String> = HashSet::new();
    for table in tables {
        let sql = format!("SELECT DISTINCT user FROM {table} WHERE tenant = ?1 AND user IS NOT NULL");
        users.extend(all::<String>(db, &sql, &[&tenant], |row| row.get(0))?);
    }
    users.remove(NOBODY);
    Ok(users.into_iter().collect())
}

fn all<T>(
    db: &Connection,
    sql: &str,
    values: &[&dyn sql::ToSql],
    read: impl FnMut(&Row<'_>) -> sql::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}
