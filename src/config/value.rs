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

/// Origins of web pages, each as browsers send it: `scheme://host` or `scheme://host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Origins(Vec<String>);

impl Origins {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an `Origin` header is one of them.
    pub fn contains(&self, origin: &str) -> bool {
        self.0.iter().any(|listed| listed == origin)
    }
}

impl TryFrom<Vec<String>> for Origins {
    type Error = String;

    fn try_from(written: Vec<String>) -> Result<Self, String> {
        written.iter().map(|text| origin(text)).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Origins> for Vec<String> {
    fn from(origins: Origins) -> Self {
        origins.0
    }
}

/// An origin as browsers send it: in lower case, without the scheme's usual port.
fn origin(text: &str) -> Result<String, String> {
    let refuse = |reason: &str| Err(format!("`{text}` is not the origin of a page: {reason}"));
    let origin = text.trim().to_ascii_lowercase();
    let Some((scheme, host)) = origin.split_once("://") else {
        return refuse("write the scheme and the host, for example `https://chat.example.org`");
    };
    if origin.contains('*') {
        return refuse("each origin is listed by itself, there are no wildcards");
    }
    let is_scheme =
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_host =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if !is_scheme || !is_host {
        return refuse("it ends after the host or its port, without a path or a slash");
    }
    let usual = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    Ok(format!("{scheme}://{}", host.strip_suffix(usual).filter(|_| !usual.is_empty()).unwrap_or(host)))
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
    fn origins_are_those_that_browsers_send() {
        let read = |text: &str| Origins::try_from(vec![text.to_owned()]).map(Vec::from);
        for (text, expected) in [
            ("https://Chat.Example:443", "https://chat.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://localhost:80", "http://localhost"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("chrome-extension://abcdef", "chrome-extension://abcdef"),
            ("app://obsidian.md", "app://obsidian.md"),
        ] {
            assert_eq!(read(text), Ok(vec![expected.to_owned()]));
        }
        for bad in [
            "*",
            "null",
            "",
            "chat.example",
            "https://*.example",
            "https://chat.example/",
            "https://chat.example/x",
            "https://a@b.example",
            "://x",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let listed = Origins::try_from(vec!["https://chat.example".to_owned()]).expect("an origin");
        assert!(listed.contains("https://chat.example") && !listed.contains("https://chat.example:444"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new(" hush\n").expect("a secret");
        assert_eq!((secret.reveal(), format!("{secret:?}").as_str()), ("hush", "Secret(…)"));
        assert_eq!(Secret::new(" "), None);
    }
}
