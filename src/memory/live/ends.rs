//! Sessions that are over: taken out once, counted, and told to whoever waits for it.

use tracing::warn;

use super::super::Memory;
use crate::live::LiveKey;
use crate::scope::Tenant;
use crate::session::{EndReason, SessionEnd};
use crate::store::PageRequest;
use crate::store::live::{LiveError, Over, Seen};

/// Sessions that are looked at in one sweep; more wait for the next.
const SWEPT_MAX: usize = 10_000;
/// Sessions of a tenant that are taken out between two looks.
const TAKEN_AT_ONCE: usize = 1_000;

impl Memory {
    /// Ends sessions whose time is over. Answers how many.
    pub async fn sweep_live(&self) -> Result<usize, LiveError> {
        let over = self.live.store.sweep(SWEPT_MAX, self.live.now()).await?;
        let ended = over.len();
        self.see_off(over).await;
        Ok(ended)
    }

    /// Ends a session. `None` when there is none. Answers what was left of it.
    pub async fn end_live(&self, key: &LiveKey) -> Result<Option<SessionEnd>, LiveError> {
        let Some(over) = self.live.store.take(key, EndReason::Explicit, self.live.now()).await? else {
            return Ok(None);
        };
        let end = over.seen.session.end(key, over.reason, over.seen.last_accessed);
        self.see_off(vec![over]).await;
        Ok(Some(end))
    }

    /// Takes a session out and tells nobody. `None` when there is none.
    pub(crate) async fn take_live(&self, key: &LiveKey) -> Result<Option<Seen>, LiveError> {
        let over = self.live.store.take(key, EndReason::Explicit, self.live.now()).await?;
        let seen = over.map(|over| over.seen);
        if let Some(seen) = &seen {
            self.let_go(key);
            self.live.tallied().ended(seen, EndReason::Explicit);
        }
        Ok(seen)
    }

    /// Takes all sessions of a tenant out and tells nobody.
    pub(crate) async fn take_all_live(&self, tenant: &Tenant) -> Result<(), LiveError> {
        loop {
            let page = self.live.store.list(tenant, PageRequest::first(TAKEN_AT_ONCE), self.live.now()).await?;
            for seen in &page.items {
                self.take_live(&seen.key).await?;
            }
            if page.next.is_none() {
                return Ok(());
            }
        }
    }

    /// Ends what would be lost with this process.
    pub(in crate::memory) async fn end_all_live(&self) {
        if let Ok(over) = self.live.store.drain(self.live.now()).await {
            self.see_off(over).await;
        }
    }

    /// Sees to it that nothing is left of sessions that ended, and tells whoever waits for that.
    async fn see_off(&self, over: Vec<Over>) {
        for Over { seen, reason } in over {
            self.let_go(&seen.key);
            self.live.tallied().ended(&seen, reason);
            if !self.of(&seen.key.tenant).tells_ends() {
                continue;
            }
            let end = seen.session.end(&seen.key, reason, seen.last_accessed);
            if let Err(error) = self.session_ended(end).await {
                // Nobody else has it any more: it is told to nobody, and that is said.
                warn!(tenant.id = %seen.key.tenant, error = %error, "The end of a live session could not be kept to be told");
            }
        }
    }

    /// Lets go of what belongs to a session and lies elsewhere.
    fn let_go(&self, key: &LiveKey) {
        self.meters().live_ended.one();
        self.clarifications.drop_open(&key.scope(), key.id());
    }
}
