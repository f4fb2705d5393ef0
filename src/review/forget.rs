//! Forgetting for good: one way for conversations, messages, documents, facts, users and tenants.

use tracing::{info, warn};

use super::ReviewError;
use crate::memory::Memory;
use crate::scope::Scope;
use crate::store::{BookState, Erasure, Reapplied, Receipt, StoreError, TenantKept};

impl Memory {
    /// Erases something with everything that follows from it, from the store and from what is held in memory. It is written down
    /// without content, so that it stays erased when an older copy of the data is put back. `None` when there is no such thing.
    ///
    /// It goes on to its end when whoever asked for it leaves.
    pub async fn erase(&self, what: Erasure) -> Result<Option<Receipt>, StoreError> {
        let memory = self.clone();
        let erased = tokio::spawn(async move { memory.erase_here(what).await }).await;
        erased.map_err(|error| StoreError::Disk(format!("erasing broke off, and is gone on with: {error}")))?
    }

    async fn erase_here(&self, what: Erasure) -> Result<Option<Receipt>, StoreError> {
        let kind = what.kind().as_str();
        let erased = self.parts.store.erasures().erase(what.clone()).await;
        // Also when it broke off: part of it may be gone.
        self.let_go_of(&what);
        let erased = erased.inspect_err(|failure| self.report_failed(&what, failure))?;
        if let Some(Receipt { ledger_id, counts, .. }) = &erased {
            let (turns, total) = (counts.turns, counts.total());
            info!(
                ledger.id = ledger_id,
                kind, turns, total, "Erased a {kind}: {total} things, line {ledger_id} of the book"
            );
        }
        Ok(erased)
    }

    fn report_failed(&self, what: &Erasure, failure: &StoreError) {
        match what {
            Erasure::Session(scope, id) => self.report(scope, Some(*id), "delete_session", failure),
            Erasure::User(scope) | Erasure::Turn(scope, _) | Erasure::Fact(scope, _) => {
                self.report(scope, None, "forget", failure);
            }
            Erasure::Tenant(_) | Erasure::Document(..) => {
                let kind = what.kind().as_str();
                self.parts.meters.store_failures.one();
                warn!(tenant.id = %what.tenant(), operation = "forget", kind, error = %failure,
                      "A {kind} cannot be erased yet: {failure}");
            }
        }
    }

    /// Nothing of it stays in memory: what is asked next is loaded anew.
    fn let_go_of(&self, what: &Erasure) {
        match what {
            Erasure::Tenant(tenant) => self.recall.let_go_of_tenant(tenant),
            Erasure::Document(..) => self.recall.let_go_of_knowledge(what.tenant()),
            Erasure::User(scope) => {
                self.let_go_of_user(scope);
                self.clarifications.drop_all(|owner, _| owner == scope);
            }
            // An open question knows nothing of conversations that are kept, nor they of it (B-P9); it is gone in minutes.
            Erasure::Session(scope, _) => self.let_go_of_user(scope),
            Erasure::Turn(scope, _) | Erasure::Fact(scope, _) => {
                self.let_go_of_user(scope);
                // A question may repeat what was said just before it.
                self.clarifications.drop_all(|owner, _| owner == scope);
            }
        }
        if let Erasure::Tenant(tenant) = what {
            self.clarifications.drop_all(|owner, _| owner.tenant() == tenant);
        }
    }

    fn let_go_of_user(&self, scope: &Scope) {
        self.recall.let_go(scope);
        self.topics.let_go(scope);
    }

    /// Erases what somebody asked to have forgotten. Foreign things are as good as unknown.
    pub async fn forget(&self, what: Erasure) -> Result<Receipt, ReviewError> {
        let unknown = match &what {
            Erasure::Session(_, id) => ReviewError::UnknownSession(*id),
            Erasure::Turn(_, id) => ReviewError::UnknownTurn(*id),
            Erasure::Fact(_, id) => ReviewError::UnknownFact(*id),
            Erasure::User(scope) => ReviewError::UnknownUser(scope.user().clone()),
            Erasure::Document(_, id) => ReviewError::UnknownDocument(*id),
            Erasure::Tenant(tenant) => ReviewError::UnknownTenant(tenant.clone()),
        };
        self.erase(what).await?.ok_or(unknown)
    }

    /// Erases once more what was erased before and is there again, because an older copy of the data was put back. Done at every
    /// start; costs a look when there is nothing to do.
    pub async fn reapply_erasures(&self) -> Result<Reapplied, StoreError> {
        let done = self.parts.store.erasures().reapply().await?;
        if done.entries > 0 {
            let Reapplied { entries, found, .. } = done;
            warn!(
                entries,
                found, "The data were older than the book of what was erased: {found} things were erased once more"
            );
        }
        Ok(done)
    }

    /// What the book of what was erased has.
    pub async fn erasure_book(&self) -> Result<BookState, StoreError> {
        self.parts.store.erasures().book().await
    }

    /// Conversations of visitors that are in memory.
    pub async fn live_sessions_held(&self) -> Result<u64, ReviewError> {
        Ok(self.live.store.count(None).await?.sessions as u64)
    }

    /// Conversations in which a question waits for a choice.
    pub fn clarifications_held(&self) -> u64 {
        self.clarifications.count() as u64
    }

    /// What is kept, by tenant.
    pub async fn kept(&self) -> Result<Vec<TenantKept>, StoreError> {
        self.parts.store.erasures().kept().await
    }
}
