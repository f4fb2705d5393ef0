//! The words with which one language offers a choice and answers it.

use std::collections::HashSet;

use serde::Deserialize;

use crate::language::{Phrases, Tables, Tongue, phrases, texts_beside, word_set, written};

/// A table as it is written, with its patterns read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Words that ask for one of several.
    #[serde(deserialize_with = "word_set")]
    pub(super) which: HashSet<String>,
    /// Words by which a question turns to somebody.
    #[serde(deserialize_with = "word_set")]
    pub(super) addressing: HashSet<String>,
    /// Questions that ask to choose from what was listed.
    #[serde(deserialize_with = "phrases")]
    pub(super) choosing: Phrases,
    /// The same without a question mark.
    #[serde(deserialize_with = "phrases")]
    pub(super) pick: Phrases,
    /// What may still be said behind a choice.
    #[serde(deserialize_with = "phrases")]
    pub(super) closing: Phrases,
    /// What stands before the first option within a question.
    #[serde(deserialize_with = "phrases")]
    pub(super) leads: Phrases,
    /// What stands before the first option in the sentence before the question.
    #[serde(deserialize_with = "phrases")]
    pub(super) offers: Phrases,
    /// What begins a question of its own, and so no option.
    #[serde(deserialize_with = "phrases")]
    pub(super) restart: Phrases,
    /// Options that are none: "something else", "not".
    #[serde(deserialize_with = "phrases")]
    pub(super) otherwise: Phrases,
    #[serde(deserialize_with = "word_set")]
    pub(super) or: HashSet<String>,
    #[serde(deserialize_with = "word_set")]
    pub(super) and: HashSet<String>,
    #[serde(deserialize_with = "word_set")]
    pub(super) yes_no: HashSet<String>,
    #[serde(deserialize_with = "word_set")]
    pub(super) articles: HashSet<String>,

    /// Words of an answer that choose nothing: "please", "I'll take the … one".
    #[serde(deserialize_with = "word_set")]
    pub(super) fillers: HashSet<String>,
    /// First to tenth.
    ordinals: Vec<String>,
    #[serde(deserialize_with = "phrases")]
    pub(super) last: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) before_last: Phrases,
    /// Words before a number that is a place: "option 2".
    #[serde(deserialize_with = "word_set")]
    pub(super) place: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    pub(super) both: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) all: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) neither: Phrases,
    #[serde(deserialize_with = "word_set")]
    pub(super) not: HashSet<String>,
    /// Words that make a question of an answer.
    #[serde(deserialize_with = "word_set")]
    pub(super) asking: HashSet<String>,
    /// Questions that are answers: "can I have the second one?"
    #[serde(deserialize_with = "phrases")]
    pub(super) polite: Phrases,
    /// Names of sizes, smallest first.
    sizes: Vec<String>,
    pub(super) compare: Vec<Scale>,
}

/// Words that compare along one measure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scale {
    pub(super) of: Measure,
    /// What an attribute that says it is called.
    #[serde(deserialize_with = "word_set")]
    pub(super) keys: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    pub(super) less: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) least: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) more: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) most: Phrases,
}

/// What things are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Measure {
    Price,
    Size,
    Weight,
    Age,
    Time,
}

impl Table {
    pub(super) fn of(tongue: Tongue) -> &'static Table {
        static ALL: Tables<Table> = Tables::new(texts_beside!(), written);
        ALL.of(tongue)
    }

    /// The place an ordinal stands for, from 0.
    pub(super) fn ordinal(&self, word: &str) -> Option<usize> {
        self.ordinals.iter().position(|names| names.split_whitespace().any(|name| name == word))
    }

    /// How large something is that is called so.
    pub(super) fn size(&self, word: &str) -> Option<usize> {
        self.sizes.iter().position(|names| names.split_whitespace().any(|name| name == word))
    }
}
