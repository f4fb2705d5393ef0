//! The end of a session: written down for the webhook, told to the hook.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::memory::Memory;
use crate::session::{SessionEnd, SessionEndHook};
use crate::store::{Parcel, StoreError};
use crate::webhook;

/// How long a hook is waited for. One that takes longer goes on by itself.
const HOOK_PATIENCE: Duration = Duration::from_secs(10);

impl Memory {
    /// A session has ended: what is to be told of it is on disk when this answers, if its tenant has a webhook, and the
    /// hook has been called. May be called again for the same end after a failure: it is still told by one id.
    pub async fn session_ended(&self, end: SessionEnd) -> Result<(), StoreError> {
        // Sessions end when nobody comes, too: then nobody has asked for the tenants yet.
        self.tenants.roll().await?;
        if self.of(&end.tenant).settings.webhook.url.is_some() {
            self.parts.store.outbox().put(self.parcel(&end)).await?;
        }
        self.parts.meters.sessions_ended.one();
        let (tenant, reason, messages) = (end.tenant.as_str(), end.reason.as_str(), end.message_count);
        info!(tenant.id = %tenant, session.id = %loggable(&end), reason, messages,
              "A session of tenant `{tenant}` ended ({reason}) after {messages} messages");
        if let Some(hook) = &self.parts.ending.hook {
            call(Arc::clone(hook), Arc::new(end)).await;
        }
        Ok(())
    }

    /// Whether anybody wants to know that a session of this memory ended.
    pub fn tells_ends(&self) -> bool {
        self.settings.webhook.url.is_some() || self.parts.ending.hook.is_some()
    }

    fn parcel(&self, end: &SessionEnd) -> Parcel {
        let now = self.parts.clock.reading().wall;
        Parcel {
            id: webhook::webhook_id(end),
            tenant: end.tenant.clone(),
            user: end.user.clone(),
            session: end.session.clone(),
            reason: end.reason.as_str().to_owned(),
            body: webhook::body(end, now),
            created_at: now,
        }
    }
}

/// A visitor's session may be called by a telephone number: such a name is not for the log.
fn loggable(end: &SessionEnd) -> &str {
    if end.user.is_some() { &end.session } else { "a visitor's" }
}

/// Calls a hook in a task of its own, so that neither its panic nor its patience is ours.
async fn call(hook: Arc<dyn SessionEndHook>, end: Arc<SessionEnd>) {
    let session = loggable(&end).to_owned();
    let called = tokio::spawn(async move { hook.session_ended(end).await });
    match tokio::time::timeout(HOOK_PATIENCE, called).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(session.id = %session, error = %error, "The hook failed at the end of `{session}`"),
        Err(_) => warn!(session.id = %session, "The hook still works on the end of `{session}`; nobody waits for it"),
    }
}
