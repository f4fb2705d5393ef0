//! Sessions of visitors that are over: taken out once, counted, and told to whoever waits for it.

use tracing::warn;

use crate::live::LiveKey;
use crate::memory::Memory;
use crate::scope::Tenant;
use crate::session::{EndReason, SessionEnd};
use crate::store::PageRequest;
use crate::store::live::{LiveError, Over, Seen};

/// Sessions that are looked at in one sweep; more wait for the next.
const SWEPT_MAX: usize = 10_000;
/// How often a sweep goes on because there was something; then it is the next one's turn.
const ROUNDS_MAX: usize = 1_000;
/// Sessions of a tenant that are taken out between two looks.
const TAKEN_AT_ONCE: usize = 100;

impl Memory {
    /// Ends sessions whose time is over, and tells again what could not be told before. Answers how many ended.
    pub async fn sweep_live(&self) -> Result<usize, LiveError> {
        for end in self.live.take_untold() {
            if !self.is_told(&end).await {
                self.live.keep_untold(end);
            }
        }
        self.live.hand_over_counts().await?;
        let mut ended = 0;
        for _ in 0..ROUNDS_MAX {
            let over = self.live.store.sweep(SWEPT_MAX, self.live.now()).await?;
            if over.is_empty() {
                break;
            }
            ended += over.len();
            self.see_off(over).await;
        }
        Ok(ended)
    }

    /// Ends a session. `None` when there is none. Answers what was left of it.
    pub async fn end_live(&self, key: &LiveKey) -> Result<Option<SessionEnd>, LiveError> {
        let Some(over) = self.live.store.end(key, EndReason::Explicit, self.live.now()).await? else {
            return Ok(None);
        };
        let end = over.seen.session.end(key, over.reason, over.seen.last_accessed);
        self.see_off(vec![over]).await;
        Ok(Some(end))
    }

    /// Takes a session out and tells nobody. `None` when there is none.
    pub(crate) async fn take_live(&self, key: &LiveKey) -> Result<Option<Seen>, LiveError> {
        let over = self.live.store.take(key, EndReason::Explicit, self.live.now()).await?;
        if let Some(over) = &over {
            self.let_go(over);
        }
        Ok(over.map(|over| over.seen))
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
    pub(crate) async fn end_all_live(&self) {
        if let Ok(over) = self.live.store.drain(self.live.now()).await {
            self.see_off(over).await;
        }
        if let Err(error) = self.live.hand_over_counts().await {
            warn!(error = %error, "The last counts of live sessions are lost: {error}");
        }
    }

    /// Sees to it that nothing is left of sessions that ended, and tells whoever waits for that.
    async fn see_off(&self, over: Vec<Over>) {
        if over.is_empty() {
            return;
        }
        // Who wants to know may have changed since the visitors came.
        if let Err(error) = self.tenants.roll().await {
            warn!(error = %error, "The tenants' settings could not be read anew: {error}");
        }
        for over in over {
            let seen = &over.seen;
            let end = seen.session.end(&seen.key, over.reason, seen.last_accessed);
            let done = !self.of(&seen.key.tenant).tells_ends() || self.is_told(&end).await;
            // Where the store keeps what could not be told, somebody is handed it again, and counts it then.
            if done || over.receipt.is_none() {
                self.let_go(&over);
            }
            match done {
                true => self.end_was_told(&over).await,
                false if over.receipt.is_none() => self.live.keep_untold(end),
                false => {}
            }
        }
    }

    async fn end_was_told(&self, over: &Over) {
        if let Err(error) = self.live.store.told(over).await {
            warn!(error = %error, "That the end of a live session was told cannot be noted; it may be told again: {error}");
        }
    }

    /// Lets go of what belongs to a session and lies elsewhere.
    fn let_go(&self, over: &Over) {
        let key = &over.seen.key;
        self.meters().live_ended.one();
        self.live.ended(&over.seen, over.reason);
        self.clarifications.drop_open(&key.scope(), key.id());
    }

    /// Tells of an end; what cannot be told now is told by a later sweep.
    async fn is_told(&self, end: &SessionEnd) -> bool {
        let told = self.session_ended(end.clone()).await;
        if let Err(error) = &told {
            warn!(tenant.id = %end.tenant, error = %error, "The end of a live session cannot be told yet: {error}");
        }
        told.is_ok()
    }
}
