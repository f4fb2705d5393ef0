//! Erasing for good, in SQL.
//!
//! Reading order: what an erasure goes through (here), `session`, `turn`, `whole` (a user, a tenant), `document`, `strays` (what was said
//! elsewhere because of it), `again` (what the book names and is there again).

mod again;
mod document;
mod fact;
mod kept;
mod session;
mod strays;
mod turn;
mod whole;

pub(super) use session::erase as erase_session;

use std::sync::Arc;

use super::sql::{self, Connection};
use super::{Backend, made};
use crate::scope::Scope;
use crate::store::erasure::{BookState, Counts, Erasure, Erasures, Reapplied, Receipt, TenantKept};
use crate::store::whose::Whose;
use crate::store::{StoreError, StoreFuture};

/// What is noted of the book in the data: the number of its last line that they follow.
const APPLIED: &str = "erased";

/// Sessions of a user or a tenant that go in one transaction.
const SESSIONS_BATCH: usize = 100;

/// Which line of the book the data follow.
fn applied(db: &Connection) -> Result<u64, StoreError> {
    Ok(made::with(db, APPLIED)?.and_then(|id| id.parse().ok()).unwrap_or(0))
}

/// Notes that the data follow the book up to here.
fn note_applied(db: &Connection, id: u64) -> Result<(), StoreError> {
    sql::erasure_done(db, id)?;
    made::note(db, APPLIED, &applied(db)?.max(id).to_string())
}

/// A step of an erasure: what went, and whether there is more.
struct Step {
    counts: Counts,
    more: bool,
}

impl Step {
    fn last(counts: Counts) -> Self {
        Self { counts, more: false }
    }
}

/// Whose rows an erasure is about, for whoever keeps tenants and users apart.
fn whose(what: &Erasure) -> Whose {
    what.scope().map_or_else(|| Whose::from(what.tenant()), Whose::from)
}

/// Whether there is anything of it.
fn is_there(db: &Connection, what: &Erasure) -> Result<bool, StoreError> {
    match what {
        Erasure::Tenant(tenant) => whole::tenant_is_there(db, tenant.as_str()),
        Erasure::User(scope) => whole::user_is_there(db, scope),
        Erasure::Session(scope, id) => session::is_there(db, scope, *id),
        Erasure::Turn(scope, id) => turn::is_there(db, scope, *id),
        Erasure::Document(tenant, id) => document::is_there(db, tenant.tenant().as_str(), *id),
        Erasure::Fact(scope, id) => fact::is_there(db, scope, *id),
    }
}

/// Whether an erasure can be seen through: what has to be written again without what goes must be readable here. Asked before the
/// erasure is in the book, because what is in the book is gone on with before anything else.
fn check(db: &Connection, what: &Erasure) -> Result<(), StoreError> {
    if let Erasure::Turn(scope, id) = what {
        turn::check(db, scope, *id)?;
    }
    match what {
        Erasure::Turn(scope, _) | Erasure::Session(scope, _) | Erasure::Fact(scope, _) => strays::check(db, scope),
        Erasure::User(_) | Erasure::Tenant(_) | Erasure::Document(..) => Ok(()),
    }
}

/// One transaction of an erasure.
fn step(db: &Connection, what: &Erasure, now: jiff::Timestamp) -> Result<Step, StoreError> {
    let mut step = match what {
        Erasure::Tenant(tenant) => whole::tenant(db, tenant.as_str(), SESSIONS_BATCH, now),
        Erasure::User(scope) => whole::user(db, scope, SESSIONS_BATCH, now),
        Erasure::Session(scope, id) => session::erase(db, scope, *id, now).map(Step::last),
        Erasure::Turn(scope, id) => turn::erase(db, scope, *id, now).map(Step::last),
        Erasure::Document(tenant, id) => document::erase(db, tenant.tenant().as_str(), *id, now).map(Step::last),
        Erasure::Fact(scope, id) => fact::erase(db, scope, *id, now).map(Step::last),
    }?;
    // What a tenant learned from a chat was told to all its users.
    if step.counts.documents > 0 && what.scope().is_some() {
        step.counts += strays::of_tenant(db, what.tenant().as_str())?;
    }
    // Values of indexed columns, by which queries are planned.
    sql::forget_samples(db)?;
    Ok(step)
}

impl Backend {
    /// Erases what is named, in as many steps as it takes; the last one notes that the data follow the book so far.
    async fn carry_out(&self, what: &Erasure, line: Option<u64>) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        loop {
            let (notes, clock, what) = (self.notes(), Arc::clone(&self.clock), what.clone());
            let done = self.write_for(whose(&what), move |db| {
                let done = step(db, &what, clock.now())?;
                notes.erased(!done.more);
                notes.jobs(true);
                if let Some(id) = line.filter(|_| !done.more) {
                    note_applied(db, id)?;
                }
                Ok(done)
            });
            let done = done.await?;
            counts += done.counts;
            if !done.more {
                return Ok(counts);
            }
        }
    }

    /// Erases once more what the book names; whoever calls is alone in that.
    async fn catch_up(&self) -> Result<Reapplied, StoreError> {
        let follows = self.read_for(Whose::Ours, applied).await?;
        let entries = self.not_applied(follows).await?;
        let Some(last) = entries.iter().map(|entry| entry.id).max() else { return Ok(Reapplied::default()) };
        let mut done = Reapplied { entries: entries.len() as u64, ..Reapplied::default() };
        for what in self.there_again(&entries).await? {
            done.counts += self.carry_out(&what, None).await?;
            done.found += 1;
            self.tenant_gone(&what);
        }
        let ids: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
        self.write_for(Whose::Ours, move |db| ids.iter().try_for_each(|id| note_applied(db, *id))).await?;
        tracing::debug!(last, "What was erased is erased in these data, too");
        Ok(done)
    }
}

impl Erasures for Backend {
    fn erase(&self, what: Erasure) -> StoreFuture<'_, Option<Receipt>> {
        Box::pin(async move {
            // One at a time, so that the data never follow a line whose erasure is still under way.
            let _alone = self.erasing.lock().await;
            self.catch_up().await?;
            // Even if nothing is found: what was lost with a damaged log may stand in its copy.
            let copies_removed = self.remove_log_copies();
            // Whatever is asked from here on is new.
            let (asked, now) = (what.clone(), self.clock.now());
            let look = move |db: &Connection| match is_there(db, &asked)? {
                true => check(db, &asked).map(|()| true),
                false => Ok(false),
            };
            let is_there = self.read_for(whose(&what), look).await?;
            let may_come = self.may_wait_elsewhere() && what.takes_turns();
            if !is_there && !may_come {
                return Ok(None);
            }
            let follows = self.read_for(Whose::Ours, applied).await?;
            let line = self.write_down(&what, follows, now).await?;
            if !is_there {
                // Whatever waits of it elsewhere finds the line when it comes.
                self.write_for(Whose::Ours, move |db| note_applied(db, line.id)).await?;
                return Ok(None);
            }
            let counts = self.carry_out(&what, Some(line.id)).await?;
            self.tenant_gone(&what);
            let log_emptied = self.log_emptied().await && copies_removed;
            Ok(Some(Receipt { ledger_id: line.id, erased_at: line.at, counts, log_emptied }))
        })
    }

    fn reapply(&self) -> StoreFuture<'_, Reapplied> {
        Box::pin(async move {
            let _alone = self.erasing.lock().await;
            self.catch_up().await
        })
    }

    fn kept(&self) -> StoreFuture<'_, Vec<TenantKept>> {
        Box::pin(async move {
            let mut kept = Vec::new();
            for tenant in self.tenants_there().await? {
                let of = tenant.clone();
                kept.push(self.read_for(Whose::Tenant(tenant), move |db| kept::count(db, &of)).await?);
            }
            kept.sort_by(|one, other| one.tenant.cmp(&other.tenant));
            Ok(kept)
        })
    }

    fn book(&self) -> StoreFuture<'_, BookState> {
        Box::pin(async move {
            let follows = self.read_for(Whose::Ours, applied).await?;
            let (entries, last_at) = self.book_size().await?;
            Ok(BookState { entries, last_at, not_applied: self.not_applied(follows).await?.len() as u64 })
        })
    }
}

/// Counts rows that a query counts for a user.
fn count(db: &Connection, sql: &str, scope: &Scope) -> Result<u64, StoreError> {
    let who = (scope.tenant().as_str(), scope.user().as_str());
    let mut statement = db.prepare_cached(sql).map_err(|error| super::connect::meaning(&error))?;
    statement.query_row(who, |row| row.get(0)).map_err(|error| super::connect::meaning(&error))
}
