//! Webhooks: telling another server that a session ended, signed so that it can believe it.
//!
//! Requests are signed as [Standard Webhooks](https://www.standardwebhooks.com) says. An end has one id however often it is
//! sent, and the body is the same bytes each time.
//!
//! Reading order: the nouns here, `target` (where to, and which URLs will do), `address` (which addresses are private),
//! `secret` (signing), `payload` (what is told of a session), `retry` (when to try again).
//!
//! **Invariant:** this room opens no socket and knows no clock. It is handed ends and times and hands back bytes and decisions.

mod address;
mod payload;
mod retry;
mod secret;
mod target;

pub use address::is_private;
pub use payload::{body, webhook_id};
pub use retry::{ATTEMPTS_MAX, next_try};
pub use secret::SigningSecret;
pub use target::{HookSettings, HookUrl, Target, TargetError};

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

/// A signed request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Its `webhook-id`.
    pub id: String,
    /// Where to.
    pub url: HookUrl,
    /// Its `webhook-timestamp`: when it is sent, in seconds.
    pub timestamp: i64,
    /// Its `webhook-signature`.
    pub signature: String,
    /// What is told.
    pub body: Bytes,
    /// Whether it may go to an address that only this network knows.
    pub private_addresses: bool,
}

impl Letter {
    /// Signs what is told, at this time.
    pub fn sealed(target: &Target, id: &str, body: Bytes, at: Timestamp) -> Self {
        let timestamp = at.as_second();
        Self {
            id: id.to_owned(),
            url: target.url.clone(),
            timestamp,
            signature: target.secret.sign(id, timestamp, &body),
            body,
            private_addresses: target.private_addresses,
        }
    }
}

/// Why a letter was not delivered. Nothing in it comes from the body of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDelivered {
    /// There is nowhere to send it to.
    #[error("no webhook is set (`session_end_webhook`), or it has no secret any more")]
    NoTarget,
    /// It would have gone to an address that only this network knows.
    #[error("`{host}` is {address}, a private address; `webhook_private_addresses = true` would allow it")]
    Private {
        /// The name in the URL.
        host: String,
        /// What it stands for.
        address: IpAddr,
    },
    /// Nobody was there.
    #[error("cannot reach `{host}`: {reason}")]
    Unreachable {
        /// The name in the URL.
        host: String,
        /// Why not.
        reason: String,
    },
    /// The time was over.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// It sent us on.
    #[error("it answered with {0}, a redirect; those are not followed, set the right URL")]
    Redirected(u16),
    /// It wants no more of this.
    #[error("it answered with 410: nobody wants this webhook any more")]
    Gone,
    /// It did not take it.
    #[error("it answered with {status}")]
    Refused {
        /// With which status.
        status: u16,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
}

impl NotDelivered {
    /// Whether the same will happen until somebody changes something, so that trying again is of no use.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::NoTarget | Self::Private { .. } | Self::Gone)
    }

    /// How long the receiver wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// What a delivery comes to, sooner or later.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), NotDelivered>> + Send + 'a>>;

/// Who carries letters.
pub trait Courier: Send + Sync + 'static {
    /// Delivers a letter, or says why not. May be dropped at any time; then nobody knows.
    fn deliver(&self, letter: Letter) -> Delivery<'_>;
}
