//! Utterances with the facts that may be learned from them.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::fact::{Act, Category, Key, Proposal};
use crate::language::words;

/// Something that somebody said.
#[derive(Debug, Clone)]
pub(super) struct Utterance {
    pub(super) id: String,
    pub(super) language: String,
    pub(super) text: String,
    pub(super) facts: Vec<Expected>,
}

/// Which half an utterance belongs to, by a hash of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    A,
    B,
}

impl Utterance {
    pub(super) fn half(&self) -> Half {
        if xxh3_64(self.id.as_bytes()) & 1 == 0 { Half::A } else { Half::B }
    }
}

/// A fact that is to be learned: `identity/name = Anna`, `correct identity/location = Porto`, `end identity/pet/rex`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expected {
    pub(super) act: Act,
    pub(super) key: Key,
    pub(super) value: String,
}

impl Expected {
    fn read(line: &str) -> anyhow::Result<Self> {
        let (act, rest) = match line.split_once(' ') {
            Some(("correct", rest)) => (Act::Correct, rest),
            Some(("end", rest)) => (Act::End, rest),
            _ => (Act::State, line),
        };
        let (key, value) = rest.split_once(" = ").unwrap_or((rest, ""));
        let (category, path) = key.split_once('/').with_context(|| format!("`{line}` has no category/key"))?;
        let Some(category) = Category::parse(category) else { bail!("`{category}` is no category") };
        Ok(Self { act, key: Key::from_path(category, path.trim()), value: value.trim().to_owned() })
    }

    /// Whether a proposal is this fact. Articles and capitals do not count; an item does where one is given; a fact that ends
    /// needs no value.
    pub(super) fn is(&self, fact: &Proposal) -> bool {
        let named = self.key.category == fact.key.category && self.key.name == fact.key.name;
        let item = self.key.item.is_none() || self.key.item == fact.key.item;
        let value = (self.value.is_empty() && self.act == Act::End) || plain(&self.value) == plain(&fact.value);
        named && item && value && self.act == fact.act
    }

    pub(super) fn shown(&self) -> String {
        shown(self.act, &self.key, &self.value)
    }
}

/// A fact as a corpus writes it.
pub(super) fn shown(act: Act, key: &Key, value: &str) -> String {
    let act = match act {
        Act::State => "",
        Act::Correct => "correct ",
        Act::End => "end ",
    };
    format!("{act}{key} = {value}")
}

fn plain(text: &str) -> String {
    const ARTICLES: [&str; 21] = [
        "a", "an", "the", "de", "het", "een", "der", "die", "das", "ein", "eine", "le", "la", "les", "l", "un", "une",
        "el", "los", "las", "una",
    ];
    words(text).filter(|word| !ARTICLES.contains(&&**word)).collect::<Vec<_>>().join(" ")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    language: String,
    said: Vec<Said>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    id: String,
    text: String,
    #[serde(default)]
    facts: Vec<String>,
}

/// Reads files of utterances.
pub(super) fn read_all(files: &[&PathBuf]) -> anyhow::Result<Vec<Utterance>> {
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        all.extend(read(&text).with_context(|| format!("{} is no list of utterances", file.display()))?);
    }
    let mut ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
    ids.sort_unstable();
    ensure!(ids.windows(2).all(|pair| pair[0] != pair[1]), "two utterances have the same id");
    Ok(all)
}

fn read(text: &str) -> anyhow::Result<Vec<Utterance>> {
    let Written { language, said } = toml::from_str(text)?;
    let one = |said: Said| {
        let facts = said.facts.iter().map(|line| Expected::read(line)).collect::<anyhow::Result<_>>();
        facts.map(|facts| Utterance { id: said.id, language: language.clone(), text: said.text, facts })
    };
    said.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_are_written() {
        for line in ["identity/name = Anna", "correct identity/location = Porto", "end identity/pet/rex = "] {
            assert_eq!(Expected::read(line).expect("a fact").shown(), line);
        }
        assert!(Expected::read("name = Anna").is_err() && Expected::read("hobby/x = y").is_err());
    }

    /// The corpus in the repository is as large and as hard as docs/facts.md says.
    #[test]
    fn our_own_utterances() {
        let files = ["en", "nl", "de", "fr", "es"].map(|code| PathBuf::from(format!("tests/data/facts/{code}.toml")));
        let all = read_all(&files.iter().collect::<Vec<_>>()).expect("utterances");
        let negative = all.iter().filter(|one| one.facts.is_empty()).count();
        assert!(all.len() >= 420 && negative as f64 >= 0.6 * all.len() as f64);
        let halves = all.iter().filter(|one| one.half() == Half::A).count() as f64 / all.len() as f64;
        assert!((0.4..0.6).contains(&halves));
    }
}
