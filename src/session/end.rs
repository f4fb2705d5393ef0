//! The end of an ephemeral session: everything that is left of it, handed over once.

use jiff::Timestamp;

use crate::message::Role;
use crate::scope::Tenant;

/// A session that has ended, as whoever waits for its end is told.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// Whose visitor it was.
    pub tenant: Tenant,
    /// What the visitor's session was called.
    pub session: String,
    /// Why it ended.
    pub reason: EndReason,
    /// When it began.
    pub created_at: Timestamp,
    /// When somebody last came back to it.
    pub last_accessed: Timestamp,
    /// How many messages were said in it, those included that are only told of any more.
    pub message_count: u64,
    /// The last messages, as they were said.
    pub messages: Vec<EndedMessage>,
    /// What is told of those before them, oldest first.
    pub summaries: Vec<EndedSummary>,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Nobody came back in time.
    Ttl,
    /// It reached the age at which every session ends.
    Cap,
    /// Somebody ended it.
    Explicit,
    /// The server stopped, and the session was nowhere else.
    Shutdown,
}

impl EndReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ttl, Self::Cap, Self::Explicit, Self::Shutdown];

    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Cap => "cap",
            Self::Explicit => "explicit",
            Self::Shutdown => "shutdown",
        }
    }
}

/// A message of a session that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedMessage {
    /// Who said it.
    pub role: Role,
    /// The speaker's name, where several people share a role.
    pub name: Option<String>,
    /// What was said.
    pub content: String,
    /// When.
    pub created_at: Timestamp,
}

/// What is told of a part of a session that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedSummary {
    /// When the first of it was said.
    pub from: Timestamp,
    /// When the last.
    pub to: Timestamp,
    /// What was said, in brief.
    pub text: String,
}
