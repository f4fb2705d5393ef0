//! The end of a session: what is told of it, and the hook that a program may hang on it.

use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;

use crate::message::Role;
use crate::scope::{Tenant, User};

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Nobody came back in time.
    Ttl,
    /// It was as old as a session may get.
    Cap,
    /// Somebody said so.
    Explicit,
    /// The server stopped.
    Shutdown,
}

impl EndReason {
    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Cap => "cap",
            Self::Explicit => "explicit",
            Self::Shutdown => "shutdown",
        }
    }

    /// Reads the word written by [`EndReason::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Ttl, Self::Cap, Self::Explicit, Self::Shutdown].into_iter().find(|reason| reason.as_str() == word)
    }
}

/// A session that ended, and what was said in it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// Whose visitors it was for.
    pub tenant: Tenant,
    /// Whose it was; an ephemeral session is nobody's but its own.
    pub user: Option<User>,
    /// Its name: that of the path for an ephemeral session, else its id.
    pub session: String,
    /// Why it ended.
    pub reason: EndReason,
    /// When it began.
    pub created_at: Timestamp,
    /// When somebody last used it.
    pub last_accessed: Timestamp,
    /// How many messages there were in all; `messages` may have only the newest.
    pub message_count: u64,
    /// What was said, oldest first.
    pub messages: Vec<EndedMessage>,
    /// What is told of it, oldest first.
    pub summaries: Vec<EndedSummary>,
}

/// A message of a session that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedMessage {
    /// Who spoke.
    pub role: Role,
    /// By which name, where several share a role.
    pub name: Option<String>,
    /// What was said.
    pub content: String,
    /// When.
    pub created_at: Timestamp,
}

/// A summary of part of a session that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedSummary {
    /// When what it tells began.
    pub from: Timestamp,
    /// When that ended.
    pub to: Timestamp,
    /// The summary.
    pub text: String,
}

/// What a hook does, sooner or later.
pub type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Told of every session that ends. Whatever takes an end and answers a future is one:
///
/// ```
/// use std::sync::Arc;
/// use recalld::session::{SessionEnd, SessionEndHook};
///
/// let hook: Arc<dyn SessionEndHook> = Arc::new(|end: Arc<SessionEnd>| async move {
///     println!("{} messages in `{}`", end.message_count, end.session);
/// });
/// ```
pub trait SessionEndHook: Send + Sync + 'static {
    /// A session has ended. Called once for each end while the process lives; a webhook is what outlives it.
    fn session_ended(&self, end: Arc<SessionEnd>) -> HookFuture;
}

impl<F, Fut> SessionEndHook for F
where
    F: Fn(Arc<SessionEnd>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn session_ended(&self, end: Arc<SessionEnd>) -> HookFuture {
        Box::pin(self(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_written() {
        for reason in [EndReason::Ttl, EndReason::Cap, EndReason::Explicit, EndReason::Shutdown] {
            assert_eq!(EndReason::parse(reason.as_str()), Some(reason));
        }
    }
}
