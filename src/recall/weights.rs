//! How much each signal counts, by kind of chat. The numbers are in `weights.toml`, learned by `bench/learn`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::signals::{KeySignal, ReplySignal};

/// A kind of chat: what serves one costs the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// People with names talk to each other.
    People,
    /// A person talks to a model.
    Assistant,
    /// Both, or unknown.
    Mixed,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::People, Self::Assistant, Self::Mixed];

    /// The word used in settings and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Assistant => "assistant",
            Self::Mixed => "mixed",
        }
    }
}

/// The weights of one kind of chat.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weights {
    /// Of messages by people.
    pub keys: Vec<(KeySignal, f32)>,
    /// Of the model's replies; empty when replies are not ranked by themselves.
    pub replies: Vec<(ReplySignal, f32)>,
}

/// The weights of every kind of chat, with and without vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightTable {
    version: u32,
    tables: BTreeMap<(Profile, bool), Weights>,
}

/// Why weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// Not TOML, or not of the right shape.
    #[error("the weights are not readable: {0}")]
    Unreadable(#[from] toml::de::Error),
    /// A signal nobody computes.
    #[error("`{0}` is no signal; `docs/recall.md` lists them")]
    UnknownSignal(String),
    /// A kind of chat without weights.
    #[error("the weights for `{0}` are missing")]
    Missing(String),
}

/// The file as it is written.
#[derive(Deserialize, Serialize)]
struct WeightFile {
    version: u32,
    #[serde(flatten)]
    profiles: BTreeMap<String, ProfileEntry>,
}

#[derive(Deserialize, Serialize)]
struct ProfileEntry {
    vectors: Entry,
    words: Entry,
}

#[derive(Deserialize, Serialize, Default)]
struct Entry {
    #[serde(default)]
    keys: toml::Table,
    #[serde(default)]
    replies: toml::Table,
}

impl WeightTable {
    /// The weights that ship.
    pub fn shipped() -> Arc<Self> {
        static SHIPPED: OnceLock<Arc<WeightTable>> = OnceLock::new();
        let read = || Self::read(include_str!("weights.toml")).expect("a test reads the shipped weights");
        Arc::clone(SHIPPED.get_or_init(|| Arc::new(read())))
    }

    /// Reads a file of weights.
    pub fn read(text: &str) -> Result<Self, WeightsError> {
        let file: WeightFile = toml::from_str(text)?;
        let mut tables = BTreeMap::new();
        for profile in Profile::ALL {
            let missing = || WeightsError::Missing(profile.as_str().into());
            let entry = file.profiles.get(profile.as_str()).ok_or_else(missing)?;
            tables.insert((profile, true), weights(&entry.vectors)?);
            tables.insert((profile, false), weights(&entry.words)?);
        }
        Ok(Self { version: file.version, tables })
    }

    /// The weights for a kind of chat.
    pub fn of(&self, profile: Profile, with_vectors: bool) -> &Weights {
        &self.tables[&(profile, with_vectors)]
    }

    /// Puts other weights in a place.
    pub fn set(&mut self, profile: Profile, with_vectors: bool, weights: Weights) {
        self.tables.insert((profile, with_vectors), weights);
    }

    /// The version of the file, shown in traces.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The file's text.
    pub fn write(&self) -> String {
        let entry = |profile, vectors| written(self.of(profile, vectors));
        let profile = |profile: Profile| {
            (profile.as_str().to_owned(), ProfileEntry { vectors: entry(profile, true), words: entry(profile, false) })
        };
        let file = WeightFile { version: self.version, profiles: Profile::ALL.into_iter().map(profile).collect() };
        toml::to_string(&file).expect("a table of names and numbers can be written")
    }
}

fn weights(entry: &Entry) -> Result<Weights, WeightsError> {
    let keys = entry.keys.iter().map(|(name, value)| named(KeySignal::parse(name), name, value));
    let replies = entry.replies.iter().map(|(name, value)| named(ReplySignal::parse(name), name, value));
    Ok(Weights { keys: keys.collect::<Result<_, _>>()?, replies: replies.collect::<Result<_, _>>()? })
}

fn named<S>(signal: Option<S>, name: &str, value: &toml::Value) -> Result<(S, f32), WeightsError> {
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    match (signal, number) {
        (Some(signal), Some(number)) => Ok((signal, number as f32)),
        _ => Err(WeightsError::UnknownSignal(name.to_owned())),
    }
}

fn written(weights: &Weights) -> Entry {
    let rounded = |weight: f32| toml::Value::Float((f64::from(weight) * 1_000.0).round() / 1_000.0);
    Entry {
        keys: weights.keys.iter().map(|(signal, weight)| (signal.name().to_owned(), rounded(*weight))).collect(),
        replies: weights.replies.iter().map(|(signal, weight)| (signal.name().to_owned(), rounded(*weight))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_weights_are_read_and_written() {
        let table = WeightTable::shipped();
        assert_eq!(WeightTable::read(&table.write()).expect("reads"), *table);
        for profile in Profile::ALL {
            assert!(!table.of(profile, true).keys.is_empty());
            assert!(table.of(profile, false).keys.iter().all(|(signal, _)| !signal.needs_vectors()), "{profile:?}");
        }
    }

    #[test]
    fn an_unknown_signal_is_named() {
        let wrong = WeightTable::shipped().write().replace("bm25_prev", "bm52_prev");
        assert!(matches!(WeightTable::read(&wrong), Err(WeightsError::UnknownSignal(name)) if name == "bm52_prev"));
    }
}
