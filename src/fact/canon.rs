//! Canonical keys: whatever a fact is called, it is kept under one name.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Category, Key};
use crate::language::words;

/// How much a fact matters whose key nobody has heard of.
const OPEN_IMPORTANCE: f64 = 0.4;

/// Bytes of a name, and of an item, that a model came up with.
const NAME_BYTES_MAX: usize = 48;

/// A key of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CanonicalKey {
    /// The kind.
    pub category: Category,
    /// The name.
    pub name: String,
    /// How much it matters by default.
    pub importance: f64,
    /// Whether somebody may have several, each with its item.
    pub many: bool,
    /// Whether such facts end at a time that is said with them.
    pub ends: bool,
    also: Vec<String>,
}

/// The keys that ship.
pub fn canonical_keys() -> &'static [CanonicalKey] {
    &TABLE.keys
}

/// The key that an open name means: `lang`, `Programming language` and `language` are one. A key of which somebody
/// may have several takes its item from the name (`pet/rex`, `wife`), else from the value.
pub fn canonical(hint: Option<Category>, open: &str, value: &str) -> Key {
    let (name, item) = open.split_once('/').map_or((open, None), |(name, item)| (name, Some(item)));
    let spoken = spoken(name);
    let favourite = ["favourite ", "favorite "].into_iter().find_map(|word| spoken.strip_prefix(word));
    let (known, named) = match (TABLE.find(hint, &spoken), favourite) {
        (Some(known), _) => (known, None),
        (None, Some(thing)) => (TABLE.favourite(), Some(thing)),
        (None, None) => return open_key(hint, &spoken, item),
    };
    if !known.many {
        return Key::single(known.category, &known.name);
    }
    let by_name = || is_one_of_several(known, &spoken).then_some(spoken.as_str());
    let item = item.or(named).or_else(by_name).unwrap_or(value);
    Key::of_many(known.category, &known.name, &slug(item, '-'))
}

/// How much a fact of this key matters by default.
pub fn importance(key: &Key) -> f64 {
    TABLE.by_name(key.category, &key.name).map_or(OPEN_IMPORTANCE, |known| known.importance)
}

/// Whether somebody may have several of this key.
pub fn is_many(category: Category, name: &str) -> bool {
    TABLE.by_name(category, name).is_some_and(|known| known.many)
}

/// Whether facts of this key end at a time that is said with them: a stay does, a name or an allergy never.
pub(super) fn ends(key: &Key) -> bool {
    TABLE.by_name(key.category, &key.name).is_some_and(|known| known.ends)
}

/// An item as it stands in a key: lower case, `-` between words.
pub(super) fn item(text: &str) -> String {
    slug(text, '-')
}

/// `wife` names one of the family; `languages` names none of the languages.
fn is_one_of_several(known: &CanonicalKey, spoken: &str) -> bool {
    let whole = ["family member", "family members", "relative"];
    known.name == "family" && spoken != "family" && !whole.contains(&spoken)
}

/// A key that is not in the table keeps its own name.
fn open_key(hint: Option<Category>, spoken: &str, item: Option<&str>) -> Key {
    let category = hint.unwrap_or(Category::Identity);
    let name = slug(spoken, '_');
    match item.map(|item| slug(item, '-')).filter(|item| !item.is_empty()) {
        Some(item) => Key::of_many(category, &name, &item),
        None => Key::single(category, &name),
    }
}

/// `Programming_Language`, `programmingLanguage` and `programming language` are read alike.
fn spoken(name: &str) -> String {
    let mut parted = String::with_capacity(name.len() + 4);
    let mut before = ' ';
    for c in name.chars() {
        if before.is_ascii_lowercase() && c.is_ascii_uppercase() {
            parted.push(' ');
        }
        parted.push(c);
        before = c;
    }
    words(&parted).collect::<Vec<_>>().join(" ")
}

fn slug(text: &str, joint: char) -> String {
    let mut slug = String::new();
    for word in words(text) {
        if NAME_BYTES_MAX < slug.len() + word.len() {
            break;
        }
        if !slug.is_empty() {
            slug.push(joint);
        }
        slug.push_str(&word);
    }
    if slug.is_empty() { "other".to_owned() } else { slug }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    key: Vec<WrittenKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKey {
    name: String,
    importance: f64,
    #[serde(default)]
    many: bool,
    #[serde(default)]
    ends: bool,
    also: String,
}

struct Table {
    keys: Vec<CanonicalKey>,
    /// What a name means in a category.
    meant: HashMap<(Category, String), usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

impl Table {
    fn read() -> Self {
        let written: Written =
            toml::from_str(include_str!("canon.toml")).expect("the table is compiled in and read by every test");
        let keys: Vec<CanonicalKey> = written.key.into_iter().map(CanonicalKey::read).collect();
        let mut meant = HashMap::new();
        for (at, key) in keys.iter().enumerate() {
            let names = key.also.iter().cloned().chain([spoken(&key.name)]);
            meant.extend(names.map(|name| ((key.category, name), at)));
        }
        Self { keys, meant }
    }

    /// What a name means: in the category that was hinted at, else in the first that knows it.
    fn find(&self, hint: Option<Category>, spoken: &str) -> Option<&CanonicalKey> {
        let within = |category: Category| self.meant.get(&(category, spoken.to_owned())).map(|at| &self.keys[*at]);
        hint.and_then(within).or_else(|| Category::ALL.into_iter().find_map(within))
    }

    fn by_name(&self, category: Category, name: &str) -> Option<&CanonicalKey> {
        self.keys.iter().find(|key| key.category == category && key.name == name)
    }

    fn favourite(&self) -> &CanonicalKey {
        self.by_name(Category::Preference, "favourite").expect("the table has it")
    }
}

impl CanonicalKey {
    fn read(written: WrittenKey) -> Self {
        let (category, name) = written.name.split_once('/').expect("category/name");
        Self {
            category: Category::parse(category).expect("one of the four"),
            name: name.to_owned(),
            importance: written.importance,
            many: written.many,
            ends: written.ends,
            also: written.also.split(", ").map(str::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(hint: &str, open: &str, value: &str, expected: &str) {
        assert_eq!(canonical(Category::parse(hint), open, value).to_string(), expected, "{hint} {open}");
    }

    #[test]
    fn many_names_meet_in_one() {
        for name in ["lang", "language", "Programming Language", "programming_language", "programmingLanguage"] {
            check("preference", name, "Rust", "preference/language");
        }
        check("", "programming language", "Rust", "preference/language");
        check("instruction", "language", "Dutch", "instruction/answer_language");
        check("identity", "City", "Porto", "identity/location");
        check("", "timezone", "CET", "identity/time_zone");
        // A wrong hint does not hide a name that is known elsewhere.
        check("preference", "occupation", "nurse", "identity/job");
    }

    #[test]
    fn one_of_several_has_its_item() {
        check("", "pet/Rex", "dog", "identity/pet/rex");
        check("constraint", "allergies", "Tree nuts", "constraint/allergy/tree-nuts");
        check("identity", "wife", "Anna", "identity/family/wife");
        check("", "favorite color", "blue", "preference/favourite/color");
        check("preference", "likes", "Jazz!", "preference/like/jazz");
    }

    #[test]
    fn unknown_names_are_kept_in_one_spelling() {
        check("identity", "Shoe Size", "43", "identity/shoe_size");
        check("identity", "shoeSize", "43", "identity/shoe_size");
        check("", "!!", "x", "identity/other");
        assert_eq!(importance(&Key::single(Category::Identity, "shoe_size")), OPEN_IMPORTANCE);
    }

    #[test]
    fn name_and_place_are_told_with_every_question() {
        for name in ["name", "location"] {
            assert!(importance(&Key::single(Category::Identity, name)) >= crate::fact::PROFILE_IMPORTANCE_MIN);
        }
        assert!(canonical_keys().iter().all(|key| key.importance >= crate::fact::IMPORTANCE_MIN));
    }

    /// The page for people lists what the table does.
    #[test]
    fn the_page_shows_every_key() {
        let page = std::fs::read_to_string("docs/facts.md").expect("the page is in the repository");
        for key in canonical_keys() {
            let values = if key.many { "several" } else { "one" };
            let row = format!("| `{}/{}` | {values} | {} |", key.category.as_str(), key.name, key.importance);
            assert!(page.contains(&row), "docs/facts.md lacks {row}");
        }
    }

    proptest! {
        /// A canonical key stays what it is, whatever it is called next.
        #[test]
        fn canonical_is_canonical(open in "\\PC{0,40}", value in "\\PC{0,40}") {
            for hint in Category::ALL {
                let key = canonical(Some(hint), &open, &value);
                prop_assert_eq!(&canonical(Some(key.category), &key.path(), &value), &key);
            }
        }
    }
}
