//! What a visitor's session may be called.

use std::fmt;

use crate::id::SessionId;
use crate::scope::{Scope, Tenant};

/// Longest name, in characters.
pub const NAME_CHARS_MAX: usize = 128;

/// Why a name was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {NAME_CHARS_MAX} letters, digits or any of _ + - . @")]
pub struct NameError;

/// The name of an ephemeral session: a phone number, an address, a visit's own id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveName(Box<str>);

impl LiveName {
    /// Accepts `^[\w+\-.@]+$`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let plain = |c: char| c.is_alphanumeric() || "_+-.@".contains(c);
        let fits = !text.is_empty() && text.chars().all(plain) && text.chars().count() <= NAME_CHARS_MAX;
        fits.then(|| Self(text.into())).ok_or(NameError)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The way that a visitor came, as far as the name tells: a number calls, an address writes.
    pub fn channel(&self) -> &'static str {
        let digits = self.0.strip_prefix('+').unwrap_or("");
        match &*self.0 {
            name if name.contains('@') => "email",
            _ if digits.len() > 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) => "phone",
            _ => "web",
        }
    }
}

impl fmt::Display for LiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which ephemeral session: a name means nothing without its tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LiveKey {
    /// Whose visitor.
    pub tenant: Tenant,
    /// What the session is called.
    pub name: LiveName,
}

impl LiveKey {
    /// Whose memory it is: nobody's but its own.
    pub fn scope(&self) -> Scope {
        Scope::of_visit(self.tenant.clone(), self.id())
    }

    /// The id that stands for it where ids are wanted.
    pub fn id(&self) -> SessionId {
        SessionId::ephemeral(self.tenant.as_str(), self.name.as_str())
    }
}

impl fmt::Display for LiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tenant, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A7.
    #[test]
    fn names_are_of_one_pattern() {
        for name in ["visit-7", "+15551234567", "user@email.com", "chat_session_xyz", "bébé_1.2", &"é".repeat(128)] {
            assert_eq!(LiveName::parse(name).map(|name| name.to_string()), Ok(name.to_owned()));
        }
        for name in ["", "a b", "a/b", "a:b", "a%41", "a\0", "a\n", "*", &"x".repeat(129)] {
            assert_eq!(LiveName::parse(name), Err(NameError), "{name}");
        }
    }

    #[test]
    fn a_name_tells_the_channel() {
        for (name, channel) in
            [("+15551234567", "phone"), ("ann@example.org", "email"), ("web_1", "web"), ("+", "web"), ("+12a45", "web")]
        {
            assert_eq!(LiveName::parse(name).expect("a name").channel(), channel, "{name}");
        }
    }
}
