//! Keys: `rk_<id>_<secret>`, shown once, kept as a seal.
//!
//! A secret is 256 random bits, so nobody guesses it and a slow hash would protect nothing. The seal is an HMAC with
//! a secret of the server: whoever reads the database can neither use a key nor make one.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use ring::hmac;

use crate::scope::{Tenant, User};

/// How every key begins.
const PREFIX: &str = "rk_";
/// Bytes of an id; it is written in hexadecimal.
const ID_BYTES: usize = 6;
/// Longest name of a key, in characters.
pub const KEY_NAME_CHARS_MAX: usize = 128;

/// The part of a key that is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Box<str>);

impl KeyId {
    /// Reads an id: twelve hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 2 * ID_BYTES && text.bytes().all(digit)).then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Look.
    Read,
    /// Ask, add, change.
    Write,
    /// Remove.
    Erase,
    /// Upload.
    Files,
    /// Tenants, keys, jobs, what concerns everybody.
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Erase, Self::Files, Self::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Erase => "erase",
            Self::Files => "files",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Right {
    type Err = KeyError;

    fn from_str(word: &str) -> Result<Self, KeyError> {
        Self::ALL.into_iter().find(|right| right.as_str() == word).ok_or_else(|| KeyError::UnknownRight(word.into()))
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

impl Rights {
    /// Every right there is.
    pub const ALL: Self = Self(0b1_1111);

    /// Whether a right is among them.
    pub fn has(self, right: Right) -> bool {
        self.0 & bit(right) != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their words.
    pub fn words(self) -> Vec<&'static str> {
        Right::ALL.into_iter().filter(|right| self.has(*right)).map(Right::as_str).collect()
    }
}

fn bit(right: Right) -> u8 {
    1 << right as u8
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |all, right| all | bit(right)))
    }
}

/// A key, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The part of it that is no secret.
    pub id: KeyId,
    /// What it is for, in somebody's words.
    pub name: String,
    /// The one tenant it is for; `None` is any.
    pub tenant: Option<Tenant>,
    /// The one user it speaks for; `None` is whoever the request names, if it may.
    pub user: Option<User>,
    /// What it may be used for.
    pub rights: Rights,
    /// Whether headers and bodies are believed that name a user.
    pub trust_identity: bool,
    /// What its secret is compared with.
    pub sealed: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// When somebody ended it.
    pub revoked_at: Option<Timestamp>,
    /// The key that took its place.
    pub replaced_by: Option<KeyId>,
}

/// Whether a key still opens anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It does.
    Active,
    /// Its time is over.
    Expired,
    /// Somebody ended it.
    Revoked,
}

impl KeyState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl Key {
    /// Whether it opens anything at this time.
    pub fn state(&self, now: Timestamp) -> KeyState {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => KeyState::Revoked,
            (None, Some(end)) if end <= now => KeyState::Expired,
            _ => KeyState::Active,
        }
    }

    /// A key like this one, for whoever uses it to change to. It lives as long from now as this one did.
    pub fn successor(&self, now: Timestamp) -> KeyDraft {
        let lifetime = self.expires_at.map(|end| end.duration_since(self.created_at));
        KeyDraft {
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            user: self.user.clone(),
            rights: self.rights,
            trust_identity: self.trust_identity,
            expires_at: lifetime.map(|lifetime| later(now, lifetime)),
        }
    }

    /// When it ends if another one takes its place and it stays good for a while: never later than it would have.
    pub fn end_after(&self, now: Timestamp, overlap: SignedDuration) -> Timestamp {
        let end = later(now, overlap);
        self.expires_at.map_or(end, |expires_at| expires_at.min(end))
    }
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Why a key cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such right.
    #[error("there is no right `{0}`; there are read, write, erase, files, admin")]
    UnknownRight(String),
    /// It would open nothing.
    #[error("a key without rights opens nothing; give it some of read, write, erase, files, admin")]
    NoRights,
    /// It would manage what others own.
    #[error(
        "the right `admin` concerns every tenant, so its key cannot be bound to one; leave the tenant or the right out"
    )]
    BoundAdmin,
    /// A user is somebody of some tenant.
    #[error("a key that is bound to a user must be bound to the user's tenant as well")]
    UserWithoutTenant,
    /// Too long.
    #[error("the name of a key has at most {KEY_NAME_CHARS_MAX} characters, none of them a control character")]
    Name,
    /// It has ended already.
    #[error("`expires_at` lies in the past")]
    Past,
}

/// A key that somebody wants.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyDraft {
    /// What it is for.
    pub name: String,
    /// The one tenant it is for.
    pub tenant: Option<Tenant>,
    /// The one user it speaks for.
    pub user: Option<User>,
    /// What it may be used for.
    pub rights: Rights,
    /// Whether headers and bodies are believed that name a user.
    pub trust_identity: bool,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

/// A key that was made, with the text that is shown this once.
#[derive(Clone, PartialEq)]
pub struct NewKey {
    /// What is kept.
    pub key: Key,
    /// `rk_<id>_<secret>`.
    pub text: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("key", &self.key).finish_non_exhaustive()
    }
}

impl KeyDraft {
    /// Whether such a key makes sense.
    pub fn check(&self, now: Timestamp) -> Result<(), KeyError> {
        let name_fits = self.name.chars().count() <= KEY_NAME_CHARS_MAX && !self.name.chars().any(char::is_control);
        match self {
            _ if self.rights.is_empty() => Err(KeyError::NoRights),
            _ if self.tenant.is_some() && self.rights.has(Right::Admin) => Err(KeyError::BoundAdmin),
            _ if self.tenant.is_none() && self.user.is_some() => Err(KeyError::UserWithoutTenant),
            _ if !name_fits => Err(KeyError::Name),
            _ if self.expires_at.is_some_and(|end| end <= now) => Err(KeyError::Past),
            _ => Ok(()),
        }
    }

    /// Makes the key. `id_chance` and `secret` are random.
    pub fn make(self, id_chance: [u8; 32], secret: [u8; 32], seal: &Seal, now: Timestamp) -> Result<NewKey, KeyError> {
        self.check(now)?;
        let id = KeyId(hex(&id_chance[..ID_BYTES]).into());
        let text = format!("{PREFIX}{id}_{}", hex(&secret));
        let key = Key {
            id,
            name: self.name,
            tenant: self.tenant,
            user: self.user,
            rights: self.rights,
            trust_identity: self.trust_identity,
            sealed: seal.of(&text),
            created_at: now,
            expires_at: self.expires_at,
            revoked_at: None,
            replaced_by: None,
        };
        Ok(NewKey { key, text })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The id in something that looks like a key.
pub fn parse_key(text: &str) -> Option<KeyId> {
    let (id, _) = text.strip_prefix(PREFIX)?.split_once('_')?;
    KeyId::parse(id)
}

/// What keys are sealed with: a secret that everybody who checks keys of one store shares.
#[derive(Clone)]
pub struct Seal {
    key: hmac::Key,
    secret: Box<[u8]>,
}

impl Seal {
    /// A seal from a secret.
    pub fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), secret: secret.into() }
    }

    /// The secret, for whoever has to keep it.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Seals a key's text.
    pub fn of(&self, text: &str) -> [u8; 32] {
        let tag = hmac::sign(&self.key, text.as_bytes());
        tag.as_ref().try_into().expect("an HMAC with SHA-256 has 32 bytes")
    }

    /// Whether a text is what was sealed; takes the same time however much of it is right.
    pub fn fits(&self, text: &str, sealed: &[u8; 32]) -> bool {
        hmac::verify(&self.key, text.as_bytes(), sealed).is_ok()
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn draft(rights: &[Right]) -> KeyDraft {
        KeyDraft {
            name: "the shop".into(),
            tenant: Some(Tenant::parse("acme").expect("a name")),
            user: None,
            rights: rights.iter().copied().collect(),
            trust_identity: false,
            expires_at: None,
        }
    }

    fn made(draft: KeyDraft) -> NewKey {
        draft.make([7; 32], [9; 32], &Seal::new(b"ours"), at(1_000)).expect("a key")
    }

    #[test]
    fn a_key_is_recognised_by_its_whole_text() {
        let NewKey { key, text } = made(draft(&[Right::Read]));
        assert_eq!(parse_key(&text), Some(key.id.clone()));
        assert_eq!(text.len(), 3 + 12 + 1 + 64);
        let seal = Seal::new(b"ours");
        assert!(seal.fits(&text, &key.sealed));
        assert!(!Seal::new(b"theirs").fits(&text, &key.sealed));
        for other in [&text[..text.len() - 1], &format!("{text}0"), &text.to_uppercase(), &text.replace("0909", "0908")]
        {
            assert!(!seal.fits(other, &key.sealed), "{other}");
        }
        assert!(!format!("{:?}", NewKey { key, text: text.clone() }).contains(&text));
    }

    #[test]
    fn what_is_no_key_has_no_id() {
        for text in ["", "rk_", "rk__", "rk_12_x", "sk_070707070707_x", "rk_07070707070G_x", "rk_070707070707"] {
            assert_eq!(parse_key(text), None, "{text}");
        }
    }

    #[test]
    fn rights_are_told_apart() {
        let rights: Rights = [Right::Read, Right::Erase].into_iter().collect();
        assert_eq!(rights.words(), ["read", "erase"]);
        assert!(!rights.has(Right::Write) && !rights.has(Right::Admin));
        assert_eq!(Rights::ALL.words().len(), Right::ALL.len());
        assert_eq!("admin".parse(), Ok(Right::Admin));
        assert_eq!("sudo".parse::<Right>(), Err(KeyError::UnknownRight("sudo".into())));
    }

    #[track_caller]
    fn refused(draft: KeyDraft, expected: KeyError) {
        assert_eq!(draft.make([7; 32], [9; 32], &Seal::new(b"ours"), at(1_000)).expect_err("refused"), expected);
    }

    #[test]
    fn keys_that_make_no_sense_are_refused() {
        let read = || draft(&[Right::Read]);
        refused(draft(&[]), KeyError::NoRights);
        refused(draft(&[Right::Admin]), KeyError::BoundAdmin);
        refused(KeyDraft { tenant: None, user: Some(User::anonymous()), ..read() }, KeyError::UserWithoutTenant);
        refused(KeyDraft { name: "x".repeat(129), ..read() }, KeyError::Name);
        refused(KeyDraft { expires_at: Some(at(1_000)), ..read() }, KeyError::Past);
        made(KeyDraft { tenant: None, ..draft(&Right::ALL) });
    }

    #[test]
    fn a_key_ends_by_time_or_by_hand() {
        let key = made(KeyDraft { expires_at: Some(at(2_000)), ..draft(&[Right::Read]) }).key;
        assert_eq!([1_999, 2_000].map(|now| key.state(at(now))), [KeyState::Active, KeyState::Expired]);
        let revoked = Key { revoked_at: Some(at(1_500)), ..key };
        assert_eq!(revoked.state(at(1_500)), KeyState::Revoked);
    }

    #[test]
    fn a_successor_lives_as_long_and_the_old_key_no_longer_than_it_would() {
        let key = made(KeyDraft { expires_at: Some(at(2_000)), ..draft(&[Right::Read]) }).key;
        assert_eq!(key.successor(at(1_900)).expires_at, Some(at(2_900)));
        assert_eq!(key.end_after(at(1_900), SignedDuration::from_secs(50)), at(1_950));
        assert_eq!(key.end_after(at(1_900), SignedDuration::from_secs(500)), at(2_000));
    }
}
