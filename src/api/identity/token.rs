//! Open WebUI's signed users: a JSON Web Token in a header, instead of a name that anybody could send.
//!
//! One algorithm, HMAC with SHA-256, whatever the token says about itself: a token that may choose how it is
//! checked can choose not to be.

use axum::http::HeaderName;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use ring::hmac;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::Secret;

/// Where Open WebUI puts the token.
pub(crate) const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-openwebui-user-jwt");

/// How far two clocks may differ.
const LEEWAY_SECONDS: f64 = 60.0;

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error(
        "is not a JSON Web Token; Open WebUI makes one when its FORWARD_USER_INFO_HEADER_JWT_SECRET is set, other programs sign \
         one with HS256 and the same secret"
    )]
    Malformed,
    #[error("is signed with `{0}`, it must be HS256")]
    Algorithm(String),
    #[error(
        "is not signed with our secret; the variable that `openwebui_jwt_secret_env` names and Open WebUI's \
         FORWARD_USER_INFO_HEADER_JWT_SECRET must hold the same"
    )]
    Signature,
    #[error("is signed but does not say for whom (`sub`) or until when (`exp`)")]
    Claims,
    #[error("has expired; do both machines show the same time?")]
    Expired,
    #[error("is not valid yet; do both machines show the same time?")]
    TooEarly,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    /// Extensions that must be understood; we understand none.
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    nbf: Option<f64>,
}

/// The user a token speaks for.
pub(super) fn verify(token: &str, secret: &Secret, now: Timestamp) -> Result<String, TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (head, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let head: Head = serde_json::from_slice(&decoded(head)?).map_err(|_| TokenError::Malformed)?;
    if head.alg != "HS256" || head.crit.is_some() {
        return Err(TokenError::Algorithm(head.alg.chars().take(20).collect()));
    }
    hmac::verify(&key(secret), signed.as_bytes(), &decoded(signature)?).map_err(|_| TokenError::Signature)?;
    let claims: Claims = serde_json::from_slice(&decoded(claims)?).map_err(|_| TokenError::Claims)?;
    check_times(&claims, now.as_second() as f64)?;
    Some(claims.sub).filter(|user| !user.trim().is_empty()).ok_or(TokenError::Claims)
}

fn check_times(claims: &Claims, now: f64) -> Result<(), TokenError> {
    if claims.exp + LEEWAY_SECONDS < now {
        return Err(TokenError::Expired);
    }
    match claims.nbf {
        Some(begins) if now + LEEWAY_SECONDS < begins => Err(TokenError::TooEarly),
        _ => Ok(()),
    }
}

/// Speaks for a user until a time, as Open WebUI does; for whoever shares the secret.
pub(crate) fn sign_user(user: &str, secret: &Secret, until: Timestamp) -> String {
    let head = BASE64.encode(json!({ "alg": "HS256", "typ": "JWT" }).to_string());
    let claims = BASE64.encode(json!({ "sub": user, "exp": until.as_second() }).to_string());
    let signed = format!("{head}.{claims}");
    let signature = BASE64.encode(hmac::sign(&key(secret), signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes())
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    BASE64.decode(part).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new("a secret that both of us know").expect("not empty")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// A token of these parts, rightly signed.
    fn token(head: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", BASE64.encode(head.to_string()), BASE64.encode(claims.to_string()));
        let signature = BASE64.encode(hmac::sign(&key(&secret()), signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    #[track_caller]
    fn check(head: Value, claims: Value, expected: Result<&str, TokenError>) {
        assert_eq!(verify(&token(&head, &claims), &secret(), at(1_000)), expected.map(str::to_owned));
    }

    /// Made with PyJWT, as Open WebUI does: `jwt.encode(claims, secret, algorithm="HS256")`.
    #[test]
    fn open_webuis_own_token_is_understood() {
        let theirs = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
             eyJzdWIiOiI0NjI1MTZjYy0zOGUwLTRiNjMtOGVmNi02ZDRmNWUwYzRjMjciLCJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSIsIm5hbWUiOiJBZGEiLCJyb2xlIjoiYWRtaW4iLCJpc3MiOiJvcGVuLXdlYnVpIiwiaWF0Ijo5MDAsImV4cCI6MTIwMH0.\
             EHE8XaXKmHKRg5SdETXraE7m0JXGN1V5Nt0DaXZOAjA";
        assert_eq!(verify(theirs, &secret(), at(1_000)), Ok("462516cc-38e0-4b63-8ef6-6d4f5e0c4c27".into()));
    }

    #[test]
    fn a_token_names_its_user_until_it_expires() {
        let ours = sign_user("ann", &secret(), at(1_000));
        for (now, expected) in
            [(0, Ok("ann")), (1_000, Ok("ann")), (1_060, Ok("ann")), (1_061, Err(TokenError::Expired))]
        {
            assert_eq!(verify(&ours, &secret(), at(now)), expected.map(str::to_owned), "at {now}");
        }
    }

    #[test]
    fn times_are_checked_with_a_minute_of_leeway() {
        let head = || json!({"alg": "HS256"});
        check(head(), json!({"sub": "ann", "exp": 2_000, "nbf": 1_060}), Ok("ann"));
        check(head(), json!({"sub": "ann", "exp": 2_000, "nbf": 1_061}), Err(TokenError::TooEarly));
        check(head(), json!({"sub": "ann", "exp": 1_000.5}), Ok("ann"));
        check(head(), json!({"sub": "ann"}), Err(TokenError::Claims));
        check(head(), json!({"sub": "ann", "exp": "later"}), Err(TokenError::Claims));
        check(head(), json!({"exp": 2_000}), Err(TokenError::Claims));
        check(head(), json!({"sub": " ", "exp": 2_000}), Err(TokenError::Claims));
    }

    #[test]
    fn only_one_algorithm_counts() {
        let claims = || json!({"sub": "ann", "exp": 2_000});
        check(json!({"alg": "none"}), claims(), Err(TokenError::Algorithm("none".into())));
        check(json!({"alg": "HS512"}), claims(), Err(TokenError::Algorithm("HS512".into())));
        check(json!({"alg": "HS256", "crit": ["b64"]}), claims(), Err(TokenError::Algorithm("HS256".into())));
        check(json!({}), claims(), Err(TokenError::Malformed));
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let ours = sign_user("ann", &secret(), at(2_000));
        let other = Secret::new("another secret").expect("not empty");
        assert_eq!(verify(&ours, &other, at(1_000)), Err(TokenError::Signature));
        let (signed, _) = ours.rsplit_once('.').expect("three parts");
        assert_eq!(verify(&format!("{signed}."), &secret(), at(1_000)), Err(TokenError::Signature));
        for broken in ["", ".", "..", "a.b.c", "a.b.c.d", "ann", &ours[..20], &format!("{ours}=")] {
            assert_eq!(verify(broken, &secret(), at(1_000)), Err(TokenError::Malformed), "{broken}");
        }
        let stretched = ours.replacen('.', ".e30.", 1);
        assert!(verify(&stretched, &secret(), at(1_000)).is_err());
    }
}
