//! How a language says what people say about themselves, as written in its table and as it is used.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use super::pattern::Pattern;
use crate::fact::{Act, Category};
use crate::language::{Phrases, Tongue};

/// A table. The files beside this one say what each list is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(deserialize_with = "words")]
    pub(super) subject: HashSet<String>,
    /// The words that may be missing from a second statement, the likeliest first.
    pub(super) implied: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(super) own: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) others: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) personal: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) negation: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) clause: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) join: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) harmless: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) stop: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) verbs: HashSet<String>,
    #[serde(deserialize_with = "list")]
    pub(super) doing: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(super) to: HashSet<String>,
    pub(super) dear: String,
    #[serde(deserialize_with = "words")]
    pub(super) articles: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) definite: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) generic: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    pub(super) head: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) tail: Phrases,
    #[serde(deserialize_with = "words")]
    pub(super) not_value: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) particles: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) org_particles: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) titles: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) name_head: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) not_name: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) place_head: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) places: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) not_place: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) org_head: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) not_org: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) job_head: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) not_job: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) jobs: HashSet<String>,
    #[serde(deserialize_with = "list")]
    job_endings: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(super) of: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) money: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    pub(super) about: Phrases,
    #[serde(deserialize_with = "words")]
    pub(super) rule_verbs: HashSet<String>,
    #[serde(deserialize_with = "words")]
    pub(super) here: HashSet<String>,
    #[serde(deserialize_with = "phrases")]
    pub(super) once: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) greet: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) lead: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) hedge: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) correct: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) note: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) forget: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) over: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) now: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) not_now: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) supposed: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) played: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) fiction: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) reported: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) past: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) asked: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) task: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) about_text: Phrases,
    #[serde(deserialize_with = "phrases")]
    pub(super) tag: Phrases,
    #[serde(deserialize_with = "spelling", default)]
    pub(super) spelling: HashMap<String, Vec<String>>,
    #[serde(deserialize_with = "relations")]
    pub(super) relations: HashMap<String, String>,
    pub(super) keys: HashMap<String, String>,
    #[serde(deserialize_with = "lists")]
    lists: HashMap<String, Phrases>,
    #[serde(deserialize_with = "rules")]
    pub(super) rule: Vec<Rule>,
    /// Which rules a word may begin, and with which of their patterns.
    #[serde(skip)]
    pub(super) anchors: HashMap<String, Vec<(usize, usize)>>,
    /// The words that anchors may be spelled with.
    #[serde(skip)]
    pub(super) signs: HashSet<String>,
}

/// A fact, and the ways of stating it.
pub(super) struct Rule {
    pub(super) category: Category,
    pub(super) name: String,
    /// The item and the value, with `{slot}` for what was said; empty: what the only slot holds.
    pub(super) item: String,
    pub(super) value: String,
    pub(super) act: Act,
    pub(super) sure: f64,
    pub(super) shape: Shape,
    pub(super) manner: Manner,
    /// What the value of this rule does not begin with.
    pub(super) unless: Phrases,
    /// What does not follow it.
    pub(super) unless_then: Phrases,
    pub(super) say: Vec<Pattern>,
}

/// How the slots of a rule become a key and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    /// By the templates.
    #[default]
    Plain,
    /// A relation, and maybe a name.
    Relative,
    /// An animal, and maybe a name.
    Pet,
    /// Words that name a key.
    Key,
}

/// When a rule holds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// Only if nothing else was found at the same word.
    pub(super) fallback: bool,
    /// Only after a greeting.
    pub(super) greeted: bool,
    /// Only if the value ends there: a mark, a new clause, or a word that begins something else.
    pub(super) closed: bool,
    /// Only if the clause ends there, or goes on with a few words that are harmless.
    pub(super) ended: bool,
    /// Only if it says until when: true for a while.
    pub(super) brief: bool,
    /// It may be put as a question: "can you …?"
    pub(super) asked: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    key: String,
    say: Vec<String>,
    #[serde(default)]
    item: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    act: WrittenAct,
    #[serde(default = "usual")]
    sure: f64,
    #[serde(default)]
    shape: Shape,
    #[serde(default)]
    only: String,
    #[serde(default)]
    unless: Vec<String>,
    #[serde(default)]
    unless_then: Vec<String>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum WrittenAct {
    #[default]
    State,
    Correct,
    End,
}

/// How sure an explicit statement in the first person is.
fn usual() -> f64 {
    0.95
}

/// Lists that are the same in every language: programs, makers, time zones.
static COMMON: LazyLock<HashMap<String, Phrases>> = LazyLock::new(|| {
    let lists: HashMap<String, Vec<String>> =
        toml::from_str(include_str!("common.toml")).expect("the table is compiled in and read by every test");
    lists.into_iter().map(|(name, all)| (name, Phrases::read(&all))).collect()
});

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
        let mut table: Table = toml::from_str(text).expect("the tables are compiled in and read by every test");
        for (number, rule) in table.rule.iter().enumerate() {
            for (way, pattern) in rule.say.iter().enumerate() {
                for anchor in &pattern.anchors {
                    table.anchors.entry(anchor.clone()).or_default().push((number, way));
                }
            }
        }
        // "im" begins what "i" begins.
        let spelled = table.spelling.iter().filter(|(_, new)| table.anchors.contains_key(&new[0]));
        let spelled = spelled.map(|(old, _)| old.split(' ').next().unwrap_or_default().to_owned());
        table.signs = table.anchors.keys().cloned().chain(spelled).collect();
        table
    }

    /// A list by its name: this language's, else everybody's.
    pub(super) fn list(&self, name: &str) -> Option<&Phrases> {
        self.lists.get(name).or_else(|| COMMON.get(name))
    }

    pub(super) fn is_job(&self, word: &str) -> bool {
        self.jobs.contains(word) || self.job_endings.iter().any(|ending| word.ends_with(ending.as_str()))
    }
}

fn words<'de, D: Deserializer<'de>>(from: D) -> Result<HashSet<String>, D::Error> {
    Ok(list(from)?.into_iter().collect())
}

fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(String::deserialize(from)?.split_whitespace().map(str::to_owned).collect())
}

fn phrases<'de, D: Deserializer<'de>>(from: D) -> Result<Phrases, D::Error> {
    Ok(Phrases::read(&Vec::<String>::deserialize(from)?))
}

fn spelling<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<String, Vec<String>>, D::Error> {
    let written = HashMap::<String, String>::deserialize(from)?;
    Ok(written.into_iter().map(|(old, new)| (old, new.split(' ').map(str::to_owned).collect())).collect())
}

/// `wife = "wife"`, `children = "kids kinderen"`: canonical words and how they are said.
fn relations<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<String, String>, D::Error> {
    let written = HashMap::<String, String>::deserialize(from)?;
    let said = |(plain, said): (String, String)| {
        said.split_whitespace().map(|word| (word.to_owned(), plain.clone())).collect::<Vec<_>>()
    };
    Ok(written.into_iter().flat_map(said).collect())
}

fn lists<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<String, Phrases>, D::Error> {
    let written = HashMap::<String, Vec<String>>::deserialize(from)?;
    Ok(written.into_iter().map(|(name, all)| (name, Phrases::read(&all))).collect())
}

fn rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Rule>, D::Error> {
    Ok(Vec::<WrittenRule>::deserialize(from)?.into_iter().map(Rule::read).collect())
}

impl Rule {
    fn read(written: WrittenRule) -> Rule {
        let (category, name) = written.key.split_once('/').expect("a rule's key is category/name");
        let only = |word: &str| written.only.split_whitespace().any(|one| one == word);
        Rule {
            category: Category::parse(category).expect("a rule's category is one of the four"),
            name: name.to_owned(),
            item: written.item,
            value: written.value,
            act: match written.act {
                WrittenAct::State => Act::State,
                WrittenAct::Correct => Act::Correct,
                WrittenAct::End => Act::End,
            },
            sure: written.sure,
            shape: written.shape,
            manner: Manner {
                fallback: only("fallback"),
                greeted: only("greeted"),
                closed: only("closed"),
                ended: only("ended"),
                brief: only("brief"),
                asked: only("asked"),
            },
            unless: Phrases::read(&written.unless),
            unless_then: Phrases::read(&written.unless_then),
            say: written.say.iter().map(|pattern| Pattern::read(pattern)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::canonical_keys;

    #[test]
    fn every_rule_has_a_canonical_key_and_a_way_to_say_it() {
        for tongue in Tongue::ALL {
            let table = Table::of(tongue);
            assert!(table.rule.len() > 30, "{tongue:?}");
            for rule in &table.rule {
                let known = canonical_keys().iter().any(|key| (key.category, &key.name) == (rule.category, &rule.name));
                assert!(known || rule.shape == Shape::Key, "{tongue:?} {}", rule.name);
                assert!(!rule.say.is_empty() && rule.say.iter().all(|pattern| !pattern.anchors.is_empty()));
                assert!((crate::fact::CONFIDENCE_MIN..=1.0).contains(&rule.sure));
            }
        }
    }
}
