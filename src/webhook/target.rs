//! Where webhooks go: a URL that is checked when it is set, and again with every address it turns out to mean.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{SigningSecret, is_private};

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 2_000;

/// Where webhooks go, and how they are signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The receiver.
    pub url: HookUrl,
    /// What it shares with us.
    pub secret: SigningSecret,
    /// Whether it may live at an address that only this network knows.
    pub private_addresses: bool,
}

/// Where the end of a session is told, as settings say it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookSettings {
    /// The receiver; nobody is told without one.
    pub url: Option<HookUrl>,
    /// What it shares with us.
    pub secret: Option<SigningSecret>,
    /// Whether it may live at an address that only this network knows.
    pub private_addresses: bool,
}

impl HookSettings {
    /// What they come to, if they go together.
    pub fn target(&self) -> Result<Option<Target>, TargetError> {
        Target::of(self.url.as_ref(), self.secret.as_ref(), self.private_addresses)
    }
}

/// Why settings name no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A URL without a secret.
    #[error(
        "there is no secret to sign with; set `session_end_secret` (`echo whsec_$(openssl rand -base64 32)` makes one)"
    )]
    NoSecret,
    /// Plain text to strangers.
    #[error("`{0}` is not https; plain http is only for private addresses (`webhook_private_addresses = true`)")]
    Plain(HookUrl),
    /// An address that only this network knows.
    #[error("{0} is a private address; `webhook_private_addresses = true` allows it")]
    Private(IpAddr),
}

impl Target {
    /// Where a session's end is told, if anywhere.
    pub fn of(
        url: Option<&HookUrl>,
        secret: Option<&SigningSecret>,
        private_addresses: bool,
    ) -> Result<Option<Self>, TargetError> {
        let Some(url) = url else { return Ok(None) };
        let secret = secret.ok_or(TargetError::NoSecret)?.clone();
        if !private_addresses {
            if let Some(address) = url.address().filter(|address| is_private(*address)) {
                return Err(TargetError::Private(address));
            }
            if !url.is_https() {
                return Err(TargetError::Plain(url.clone()));
            }
        }
        Ok(Some(Self { url: url.clone(), secret, private_addresses }))
    }
}

/// The URL of a receiver: `http` or `https`, with a host, without a user, a password or a fragment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HookUrl {
    text: String,
    uri: hyper::Uri,
}

impl HookUrl {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("it must be a URL such as https://example.org/hooks, {why}"));
        let text = text.trim();
        if text.len() > URL_BYTES_MAX {
            return wrong("of at most 2000 bytes");
        }
        if text.contains('#') {
            return wrong("without a fragment");
        }
        let Ok(uri) = text.parse::<hyper::Uri>() else { return wrong("and this is none") };
        let Some(authority) = uri.authority() else { return wrong("and this names no host") };
        if authority.as_str().contains('@') {
            return wrong("without a user or password; the signature says who sends it");
        }
        if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.host().is_empty() {
            return wrong("with http or https");
        }
        Ok(Self { text: text.to_owned(), uri })
    }

    /// The URL as HTTP has it.
    pub fn uri(&self) -> &hyper::Uri {
        &self.uri
    }

    /// The host's name or address, without brackets.
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    fn address(&self) -> Option<IpAddr> {
        self.host().parse().ok()
    }

    fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

impl fmt::Display for HookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for HookUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<HookUrl> for String {
    fn from(url: HookUrl) -> Self {
        url.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> SigningSecret {
        SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret")
    }

    #[track_caller]
    fn check(url: &str, private: bool, expected: Result<(), &str>) {
        let found = HookUrl::parse(url).and_then(|url| {
            Target::of(Some(&url), Some(&secret()), private).map(drop).map_err(|error| error.to_string())
        });
        match (found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(why)) if error.contains(why) => {}
            (found, _) => panic!("{url}: {found:?}"),
        }
    }

    #[test]
    fn a_receiver_has_a_public_https_url_unless_said_otherwise() {
        check("https://example.org/hooks?a=b", false, Ok(()));
        check("https://example.org:8443", false, Ok(()));
        check("http://example.org/hooks", false, Err("not https"));
        check("http://example.org/hooks", true, Ok(()));
        check("https://10.0.0.1/", false, Err("10.0.0.1 is a private address"));
        check("https://[::1]:9/", false, Err("::1 is a private address"));
        check("https://[::ffff:127.0.0.1]/", false, Err("private address"));
        check("http://127.0.0.1:9/", true, Ok(()));
    }

    #[test]
    fn what_is_no_url_is_refused() {
        check("example.org", false, Err("with http or https"));
        check("/hooks", false, Err("names no host"));
        check("ftp://example.org/", false, Err("with http or https"));
        check("https://ann:hush@example.org/", false, Err("without a user"));
        check("https://example.org/#top", false, Err("without a fragment"));
        check("https://exa mple.org/", false, Err("this is none"));
        check(&format!("https://example.org/{}", "x".repeat(2_000)), false, Err("at most 2000"));
    }

    #[test]
    fn a_url_needs_a_secret_and_no_url_needs_nothing() {
        let url = HookUrl::parse("https://example.org/").expect("a URL");
        assert_eq!(Target::of(Some(&url), None, true), Err(TargetError::NoSecret));
        assert_eq!(Target::of(None, None, false), Ok(None));
        assert_eq!(String::from(url.clone()), url.to_string());
    }
}
