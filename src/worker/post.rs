//! Delivering webhooks: several tenants' at once, one of each at a time, so that a receiver that hangs keeps nobody else's.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use super::not_yet;
use crate::memory::Memory;
use crate::scope::Tenant;
use crate::store::ParcelClaim;

/// Most webhooks under way.
const UNDER_WAY_MAX: usize = 16;
/// How often webhooks are looked for that nobody told of.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long new ones are still sent when everything stops, and how long one that is under way may take then. What is
/// left is sent after the next start.
const LAST_POST: Duration = Duration::from_millis(500);

/// Delivers webhooks as they come, until told to stop; then what is due has a moment more.
pub(super) async fn deliver(memory: Memory, mut stopped: watch::Receiver<bool>) {
    let news = memory.parcel_news();
    let mut post = Post { memory, stopped: stopped.clone(), under_way: JoinSet::new(), tenants: HashMap::new() };
    while !*stopped.borrow() {
        post.send_due().await;
        tokio::select! {
            () = post.one_ended(), if !post.under_way.is_empty() => {}
            _ = timeout(LOOK_EVERY, news.notified()) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    }
    let last_post = Instant::now() + LAST_POST;
    post.send_due().await;
    while !post.under_way.is_empty() && timeout_at(last_post, post.one_ended()).await.is_ok() {
        post.send_due().await;
    }
    while !post.under_way.is_empty() {
        post.one_ended().await;
    }
}

/// What is under way, and for whom.
struct Post {
    memory: Memory,
    stopped: watch::Receiver<bool>,
    under_way: JoinSet<()>,
    tenants: HashMap<Id, Tenant>,
}

impl Post {
    /// Begins with what is due, as far as there is room.
    async fn send_due(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX {
            let busy = self.tenants.values().cloned().collect();
            match self.memory.claim_parcel(busy).await {
                Ok(Some(claim)) => self.begin(claim),
                Ok(None) => return,
                Err(error) => return not_yet("Webhooks cannot be claimed yet", &error),
            }
        }
    }

    fn begin(&mut self, claim: ParcelClaim) {
        let tenant = claim.parcel.tenant.clone();
        let task = self.under_way.spawn(see_through(self.memory.clone(), claim, self.stopped.clone()));
        self.tenants.insert(task.id(), tenant);
    }

    async fn one_ended(&mut self) {
        let ended = match self.under_way.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => {
                warn!(error = %error, "A delivery did not end well; it is tried again later: {error}");
                error.id()
            }
            None => return,
        };
        self.tenants.remove(&ended);
    }
}

/// Sees one delivery through, or puts it back when patience ends after everything was told to stop.
async fn see_through(memory: Memory, claim: ParcelClaim, mut stopped: watch::Receiver<bool>) {
    let impatience = async {
        let _ = stopped.wait_for(|stop| *stop).await;
        tokio::time::sleep(LAST_POST).await;
    };
    let ended = tokio::select! {
        ended = memory.deliver(&claim) => ended.map(drop),
        () = impatience => memory.return_parcel(&claim).await,
    };
    if let Err(error) = ended {
        let id = &claim.parcel.id;
        warn!(webhook.id = %id, error = %error, "What became of webhook `{id}` cannot be noted; it is sent again: {error}");
    }
}
