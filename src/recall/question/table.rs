//! How one language asks: the patterns of its table, ready to use.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use crate::language::{Phrases, Tongue};

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
        static ALL: [LazyLock<Table>; 5] = [
            LazyLock::new(|| Table::read(include_str!("en.toml"))),
            LazyLock::new(|| Table::read(include_str!("nl.toml"))),
            LazyLock::new(|| Table::read(include_str!("de.toml"))),
            LazyLock::new(|| Table::read(include_str!("fr.toml"))),
            LazyLock::new(|| Table::read(include_str!("es.toml"))),
        ];
        &ALL[tongue as usize]
    }

    fn read(text: &str) -> Table {
        toml::from_str(text).expect("the tables are compiled in and read by every test")
    }
}

fn phrases<'de, D: Deserializer<'de>>(from: D) -> Result<Phrases, D::Error> {
    Ok(Phrases::read(&Vec::<String>::deserialize(from)?))
}
