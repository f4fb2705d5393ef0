//! What somebody said about a key, as it is kept. Facts follow from statements and from nothing else.

use jiff::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use super::{Act, Evidence, Key, Proposal, Status};
use crate::id::FactId;

/// Who understood a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Maker {
    /// The built-in patterns.
    Builtin,
    /// The memory model.
    Model,
    /// Nobody had to: a person wrote it down by hand.
    Person,
}

impl Maker {
    /// All of them, in the order in which they are heard when they speak of the same message.
    pub const ALL: [Self; 3] = [Self::Builtin, Self::Model, Self::Person];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Model => "model",
            Self::Person => "person",
        }
    }

    /// Reads the word written by [`Maker::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|maker| maker.as_str() == word)
    }
}

/// Something that was said about a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The id that a fact which begins with it has. The same words of the same message always have the same.
    pub id: FactId,
    /// What it is about.
    pub key: Key,
    /// What was said of it.
    pub value: String,
    /// How it was said.
    pub act: Act,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// How much it matters, from 0 to 1.
    pub importance: f64,
    /// Since when it is true, where the words name a time.
    pub from: Option<Timestamp>,
    /// Until when it is true, where the words name a time.
    pub until: Option<Timestamp>,
    /// Where it was said.
    pub evidence: Evidence,
    /// Who understood it.
    pub maker: Maker,
    /// What it can make of a fact by itself: active, provisional where it is not sure enough, or quarantined.
    pub standing: Status,
    /// When we learned it.
    pub learned_at: Timestamp,
    /// The order in which statements were learned; whoever keeps them gives it.
    pub order: u64,
    /// How many others said the same after it and were counted instead of kept.
    pub also: u64,
}

impl Statement {
    /// What a proposal comes to that was read from a message.
    pub fn heard(
        proposal: Proposal,
        evidence: Evidence,
        maker: Maker,
        standing: Status,
        learned_at: Timestamp,
    ) -> Self {
        let Proposal { key, value, act, confidence, importance, from, until, quote, forgets: _ } = proposal;
        let evidence = Evidence { quote, ..evidence };
        let id = founded_by(&key, &value, act, &evidence, maker);
        Self {
            id,
            key,
            value,
            act,
            confidence,
            importance,
            from,
            until,
            evidence,
            maker,
            standing,
            learned_at,
            order: 0,
            also: 0,
        }
    }

    /// What a person writes down by hand is sure, and said when it is written.
    pub fn by_hand(id: FactId, key: Key, value: &str, act: Act, importance: f64, at: Timestamp) -> Self {
        Self {
            id,
            key,
            value: value.to_owned(),
            act,
            confidence: 1.0,
            importance,
            from: None,
            until: None,
            evidence: Evidence { message: None, session: None, said_at: at, quote: String::new() },
            maker: Maker::Person,
            standing: Status::Active,
            learned_at: at,
            order: 0,
            also: 0,
        }
    }

    /// Whether it says the same as this value.
    pub fn says(&self, value: &str) -> bool {
        same_value(&self.value, value)
    }

    /// Whether it ends whatever is held under its key, and under every item of it.
    pub fn ends_everything(&self) -> bool {
        self.act == Act::End && self.value.trim().is_empty()
    }

    /// Where it stands among others: by when it was said, never by when it came or which date it names.
    pub(super) fn place(&self) -> impl Ord {
        let message = self.evidence.message.map_or([u8::MAX; 16], |message| *message.as_uuid().as_bytes());
        (self.evidence.said_at, message, self.maker, self.id)
    }
}

fn founded_by(key: &Key, value: &str, act: Act, evidence: &Evidence, maker: Maker) -> FactId {
    let message = evidence.message.map_or([0; 16], |message| *message.as_uuid().as_bytes());
    let said = format!("{key}\0{}\0{act:?}\0{}", meaning(value), maker.as_str());
    FactId::founded(xxh3_64(&[&message, said.as_bytes()].concat()), evidence.said_at)
}

/// Whether two values mean the same: case, spacing and punctuation at the ends do not count.
pub fn same_value(one: &str, other: &str) -> bool {
    meaning(one) == meaning(other)
}

fn meaning(value: &str) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '"' | '\'' | '“' | '”');
    let words: Vec<String> = value.trim_matches(ends).split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_people_do() {
        for (one, other, same) in [
            ("Lisbon", " lisbon. ", true),
            ("New  York", "new york", true),
            ("C", "C++", false),
            ("C#", "C", false),
            ("Zoë", "ZOË", true),
            ("Porto", "Lisbon", false),
            ("", "", true),
        ] {
            assert_eq!(same_value(one, other), same, "{one} / {other}");
        }
    }
}
