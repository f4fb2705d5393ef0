//! What a message states about whoever wrote it, found by patterns, without a model.
//!
//! Precise rather than greedy: a fact that is missed is said again one day, a wrong one is believed.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Category, Proposal, Refusal, canonical, importance};
use crate::fact::Act;

/// What was heard, and what is needed to understand it.
#[derive(Debug, Clone)]
pub struct Heard<'a> {
    /// The user's own message, out of its wrapper and without reminders.
    pub text: &'a str,
    /// When it was said.
    pub said_at: Timestamp,
    /// Where the user's days begin and end.
    pub zone: TimeZone,
    /// What the model said before, newest last: whoever copies it has not said it.
    pub echoes: &'a [&'a str],
}

/// What was understood of a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extracted {
    /// Facts that it may have stated, in the order in which they were said.
    pub proposals: Vec<Proposal>,
    /// What looked like one and was none.
    pub refused: Vec<Refused>,
}

/// Words that looked like a fact and were not taken for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Refusal,
    /// The words, secrets masked.
    pub quote: String,
}

/// Finds what a message states. The same message gives the same facts.
pub fn extract(heard: &Heard<'_>) -> Extracted {
    let found = [("My name is ", "name"), ("I live in ", "location")].into_iter().filter_map(|(begins, name)| {
        let value = heard.text.split(['.', '!', ',', '\n']).find_map(|part| part.trim().strip_prefix(begins))?;
        let key = canonical(Some(Category::Identity), name, value);
        Some(Proposal {
            importance: importance(&key),
            key,
            value: value.to_owned(),
            act: Act::State,
            confidence: 0.95,
            from: None,
            until: None,
            quote: format!("{begins}{value}"),
        })
    });
    Extracted { proposals: found.collect(), refused: Vec::new() }
}
