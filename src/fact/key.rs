//! What a fact is about: a category, a name, and which one where somebody may have several.

use std::fmt;

/// The kind of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Who somebody is.
    Identity,
    /// What somebody likes.
    Preference,
    /// What must be heeded.
    Constraint,
    /// How we are to behave.
    Instruction,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Identity, Self::Preference, Self::Constraint, Self::Instruction];

    /// The word used on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Preference => "preference",
            Self::Constraint => "constraint",
            Self::Instruction => "instruction",
        }
    }

    /// Reads the word written by [`Category::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == word)
    }
}

/// What a fact is about. At most one fact is active for each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind.
    pub category: Category,
    /// The canonical name: `name`, `location`, `pet`.
    pub name: String,
    /// Which one, where somebody may have several: `rex` of `pet/rex`.
    pub item: Option<String>,
}

impl Key {
    /// A key that has one value.
    pub fn single(category: Category, name: &str) -> Self {
        Self { category, name: name.to_owned(), item: None }
    }

    /// One of several.
    pub fn of_many(category: Category, name: &str, item: &str) -> Self {
        Self { category, name: name.to_owned(), item: Some(item.to_owned()) }
    }

    /// Reads a name as [`Key::path`] wrote it.
    pub fn from_path(category: Category, path: &str) -> Self {
        match path.split_once('/') {
            Some((name, item)) => Self::of_many(category, name, item),
            None => Self::single(category, path),
        }
    }

    /// The name with its item: `location`, `pet/rex`.
    pub fn path(&self) -> String {
        match &self.item {
            Some(item) => format!("{}/{item}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.category.as_str(), self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_it_was_written() {
        for key in [Key::single(Category::Identity, "name"), Key::of_many(Category::Identity, "pet", "rex")] {
            assert_eq!(Key::from_path(key.category, &key.path()), key);
        }
        assert_eq!(Key::of_many(Category::Identity, "pet", "rex").to_string(), "identity/pet/rex");
    }
}
