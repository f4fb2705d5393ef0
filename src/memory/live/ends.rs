//! Sessions that are over: taken out once, counted, and told to whoever waits for it.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use super::super::Memory;
use super::LiveDesk;
use crate::live::LiveKey;
use crate::session::{EndReason, SessionEnd};
use crate::store::live::{LiveError, Over, Seen};

/// Sessions that are looked at in one sweep; more wait for the next.
const SWEPT_MAX: usize = 10_000;

/// Whoever is told when a live session has ended. It is told once for each, and what it does with that is its own: nothing
/// of the session is left here.
pub trait SessionEnded: Send + Sync + 'static {
    /// A session has ended.
    fn on_session_end<'a>(&'a self, end: &'a SessionEnd) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

impl LiveDesk {
    /// Tells somebody of every session that ends from now on.
    pub fn on_end(&self, hook: Arc<dyn SessionEnded>) {
        self.hooks.write().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    async fn tell_of(&self, over: Vec<Over>) {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner).clone();
        for Over { seen, reason } in over {
            self.tallied().ended(&seen, reason);
            if hooks.is_empty() {
                continue;
            }
            let end = seen.session.end(&seen.key, reason, seen.last_accessed);
            for hook in &hooks {
                hook.on_session_end(&end).await;
            }
        }
    }
}

impl Memory {
    /// Ends sessions whose time is over. Answers how many.
    pub async fn sweep_live(&self) -> Result<usize, LiveError> {
        let over = self.live.store.sweep(SWEPT_MAX, self.live.now()).await?;
        let ended = over.len();
        self.meters().live_ended.many(ended as u64);
        self.live.tell_of(over).await;
        Ok(ended)
    }

    /// Ends a session. `None` when there is none. Answers what was left of it.
    pub async fn end_live(&self, key: &LiveKey) -> Result<Option<SessionEnd>, LiveError> {
        let Some(over) = self.live.store.take(key, EndReason::Explicit, self.live.now()).await? else {
            return Ok(None);
        };
        self.meters().live_ended.one();
        let end = over.seen.session.end(key, over.reason, over.seen.last_accessed);
        self.live.tell_of(vec![over]).await;
        Ok(Some(end))
    }

    /// Takes a session out and tells nobody. `None` when there is none.
    pub(crate) async fn take_live(&self, key: &LiveKey) -> Result<Option<Seen>, LiveError> {
        let over = self.live.store.take(key, EndReason::Explicit, self.live.now()).await?;
        let seen = over.map(|over| over.seen);
        if let Some(seen) = &seen {
            self.meters().live_ended.one();
            self.live.tallied().ended(seen, EndReason::Explicit);
        }
        Ok(seen)
    }

    /// Ends what would be lost with this process.
    pub(in crate::memory) async fn end_all_live(&self) {
        if let Ok(over) = self.live.store.drain(self.live.now()).await {
            self.meters().live_ended.many(over.len() as u64);
            self.live.tell_of(over).await;
        }
    }
}
