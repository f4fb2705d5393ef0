//! The secret that webhooks are signed with. It is shown to nobody.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// How long a key may be, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret shared with the receiver: `whsec_` and base64 of 24 to 64 bytes. Serialised as it is, to be kept; shown, it is
/// masked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SigningSecret {
    text: Box<str>,
    key: Vec<u8>,
}

impl SigningSecret {
    /// What stands in its place where settings are shown.
    pub const MASK: &str = "whsec_…";

    /// Reads a secret as it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let make = "make one with `echo whsec_$(openssl rand -base64 32)`";
            Err(format!("it must be `{PREFIX}` followed by base64 of 24 to 64 bytes, {why}; {make}"))
        };
        let text = text.trim();
        let Some(encoded) = text.strip_prefix(PREFIX) else { return wrong("and does not begin with that") };
        let Ok(key) = STANDARD.decode(encoded) else { return wrong("and this is no base64") };
        if !KEY_BYTES.contains(&key.len()) {
            return wrong("and this is shorter or longer");
        }
        Ok(Self { text: text.into(), key })
    }

    /// The `webhook-signature` of a body that is sent by this id at this second.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.key));
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign().as_ref()))
    }
}

impl TryFrom<String> for SigningSecret {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<SigningSecret> for String {
    fn from(secret: SigningSecret) -> Self {
        secret.text.into()
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The example that Standard Webhooks publishes.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let secret = SigningSecret::parse(SECRET).expect("a secret");
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_not_shown_and_comes_back() {
        let secret = SigningSecret::parse(&format!(" {SECRET}\n")).expect("a secret");
        assert_eq!(format!("{secret:?}"), "SigningSecret(…)");
        assert_eq!(String::from(secret), SECRET);
    }

    #[track_caller]
    fn refused(text: &str, why: &str) {
        let error = SigningSecret::parse(text).expect_err("refused");
        assert!(error.contains(why), "{error}");
        let told = text.trim_start_matches(PREFIX);
        assert!(told.is_empty() || !error.contains(told), "the error tells it: {error}");
    }

    #[test]
    fn what_is_no_secret_is_refused_without_telling_it() {
        refused("hush-hush", "does not begin with that");
        refused("whsec_not!base64", "no base64");
        refused("whsec_c2hvcnQ=", "shorter or longer");
        refused(&format!("whsec_{}", STANDARD.encode([7; 65])), "shorter or longer");
    }

    proptest! {
        /// Whatever is changed changes the signature: who, when, what, and with which secret.
        #[test]
        fn every_part_is_signed(
            id in "[a-z0-9_]{1,20}", other_id in "[a-z0-9_]{1,20}", at in 0..1_i64 << 40, later in 1..1_i64 << 20,
            body in proptest::collection::vec(any::<u8>(), 0..200), more in any::<u8>(), key in any::<[u8; 32]>(),
        ) {
            prop_assume!(id != other_id);
            let secret = SigningSecret::parse(&format!("whsec_{}", STANDARD.encode(key))).expect("a secret");
            let other = SigningSecret::parse(SECRET).expect("a secret");
            let signed = secret.sign(&id, at, &body);
            let longer: Vec<u8> = body.iter().copied().chain([more]).collect();
            prop_assert_eq!(&signed, &secret.sign(&id, at, &body));
            for changed in [
                secret.sign(&other_id, at, &body),
                secret.sign(&id, at + later, &body),
                secret.sign(&id, at, &longer),
                other.sign(&id, at, &body),
            ] {
                prop_assert_ne!(&signed, &changed);
            }
        }
    }
}
