//! How one language asks: the patterns of its table, ready to use.

use serde::Deserialize;

use crate::language::{Phrases, Tables, Tongue, phrases, texts_beside, written};

/// A table as it is written, with its patterns read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// What only says that something was said.
    #[serde(deserialize_with = "phrases")]
    pub(super) clean: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) when: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) many: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) place: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) title: Phrases,
    /// Words for oneself beside those that texts are searched for.
    #[serde(deserialize_with = "phrases")]
    pub(super) user: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) assistant: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) assistant_not: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) sum: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) ord: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) you: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) past: Phrases,
}

impl Table {
    pub(super) fn of(tongue: Tongue) -> &'static Table {
        static ALL: Tables<Table> = Tables::new(texts_beside!(), written);
        ALL.of(tongue)
    }
}
