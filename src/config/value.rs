//! Values that settings are made of, checked as they are read.

use std::fmt;

use axum::http::HeaderName;
use serde::{Deserialize, Serialize};

/// Names of headers, in the order they are believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct HeaderNames {
    /// As they were written, to be shown again.
    written: Vec<String>,
    names: Vec<HeaderName>,
}

impl HeaderNames {
    /// Names that are known to be valid.
    pub(super) fn known(written: &[&str]) -> Self {
        let written: Vec<_> = written.iter().map(|name| (*name).to_owned()).collect();
        Self::try_from(written).expect("the defaults are names of headers")
    }

    /// The names.
    pub fn as_slice(&self) -> &[HeaderName] {
        &self.names
    }
}

impl TryFrom<Vec<String>> for HeaderNames {
    type Error = String;

    fn try_from(written: Vec<String>) -> Result<Self, String> {
        let name = |text: &String| {
            HeaderName::try_from(text.as_str()).map_err(|_| format!("`{text}` cannot be the name of a header"))
        };
        let names = written.iter().map(name).collect::<Result<_, _>>()?;
        Ok(Self { written, names })
    }
}

impl From<HeaderNames> for Vec<String> {
    fn from(names: HeaderNames) -> Self {
        names.written
    }
}

/// Names of our own for the upstream's models, each written `alias=model`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Aliases(Vec<(String, String)>);

impl Aliases {
    /// The aliases and the models they stand for.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The model that an alias stands for.
    pub fn model(&self, alias: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == alias).map(|(_, model)| model.as_str())
    }
}

impl TryFrom<Vec<String>> for Aliases {
    type Error = String;

    fn try_from(written: Vec<String>) -> Result<Self, String> {
        let pair = |text: &String| match text.split_once('=').map(|(name, model)| (name.trim(), model.trim())) {
            Some((name, model)) if !name.is_empty() && !model.is_empty() => Ok((name.to_owned(), model.to_owned())),
            _ => Err(format!("`{text}` is not `alias=model`")),
        };
        written.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Aliases> for Vec<String> {
    fn from(aliases: Aliases) -> Self {
        aliases.0.into_iter().map(|(name, model)| format!("{name}={model}")).collect()
    }
}

/// Something that must not be shown, and is not.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps a secret; white space around it does not belong to it, and nothing is none.
    pub fn new(text: &str) -> Option<Self> {
        Some(text.trim()).filter(|text| !text.is_empty()).map(|text| Self(text.into()))
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_shown_as_written() {
        let names = HeaderNames::known(&["X-User-ID"]);
        assert_eq!(names.as_slice()[0], "x-user-id");
        assert_eq!(Vec::from(names), ["X-User-ID"]);
        assert!(HeaderNames::try_from(vec!["two words".to_owned()]).is_err());
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new(" hush\n").expect("a secret");
        assert_eq!((secret.reveal(), format!("{secret:?}").as_str()), ("hush", "Secret(…)"));
        assert_eq!(Secret::new(" "), None);
    }
}
