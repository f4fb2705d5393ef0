//! One table per language: chosen by it, and read when it is first asked for.

use std::collections::HashSet;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::phrase::Phrases;
use super::tongue::Tongue;

/// The tables of the five languages, each as it is used.
pub struct Tables<T> {
    texts: [&'static str; 5],
    read: fn(&'static str) -> T,
    held: [OnceLock<T>; 5],
}

/// The texts of five tables that lie beside the calling file, in the order of [`Tongue::ALL`].
macro_rules! texts_beside {
    () => {
        [
            include_str!("en.toml"),
            include_str!("nl.toml"),
            include_str!("de.toml"),
            include_str!("fr.toml"),
            include_str!("es.toml"),
        ]
    };
}
pub(crate) use texts_beside;

impl<T> Tables<T> {
    /// Tables made of these texts (`texts_beside!`) by `read`.
    pub const fn new(texts: [&'static str; 5], read: fn(&'static str) -> T) -> Self {
        Self { texts, read, held: [const { OnceLock::new() }; 5] }
    }

    /// The table of a language.
    pub fn of(&self, tongue: Tongue) -> &T {
        self.held[tongue as usize].get_or_init(|| (self.read)(self.texts[tongue as usize]))
    }
}

/// A table that is used as it is written.
pub fn written<T: DeserializeOwned>(text: &'static str) -> T {
    toml::from_str(text).expect("the tables are compiled in and read by every test")
}

/// A list of patterns, for `deserialize_with`.
pub fn phrases<'de, D: Deserializer<'de>>(from: D) -> Result<Phrases, D::Error> {
    Ok(Phrases::read(&Vec::<String>::deserialize(from)?))
}

/// Words in one text, for `deserialize_with`.
pub fn word_set<'de, D: Deserializer<'de>>(from: D) -> Result<HashSet<String>, D::Error> {
    Ok(String::deserialize(from)?.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_has_its_own_table() {
        static ALL: Tables<String> = Tables::new(["en", "nl", "de", "fr", "es"], str::to_uppercase);
        for tongue in Tongue::ALL {
            assert_eq!(ALL.of(tongue).to_lowercase(), tongue.code());
            assert!(std::ptr::eq(ALL.of(tongue), ALL.of(tongue)), "it is read once");
        }
    }
}
