//! Secrets are kept out of facts: keys, tokens, cards, bank accounts, passwords. They are masked before anything is stored,
//! in values and in quotes alike.

use std::borrow::Cow;
use std::ops::Range;

use super::Proposal;

/// What stands in the place of a secret.
pub const MASK: &str = "[secret]";

/// How keys and tokens begin.
const PREFIXES: [&str; 26] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "pk_live_",
    "rk_live_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "hf_",
    "npm_",
    "SG.",
    "dop_v1_",
    "shpat_",
    "whsec_",
];

/// What a secret is called, in the five languages.
const NAMES: [&str; 40] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "pin",
    "pincode",
    "pin-code",
    "secret",
    "token",
    "apikey",
    "api-key",
    "api_key",
    "credentials",
    "cvv",
    "cvc",
    "ssn",
    "wachtwoord",
    "wachtzin",
    "pincode",
    "passwort",
    "kennwort",
    "geheimzahl",
    "passe",
    "contraseña",
    "clave",
    "secreto",
    "key",
    "code",
    "login",
    "otp",
    "2fa",
    "mdp",
    "bsn",
    "sozialversicherungsnummer",
    "pass",
    "seed",
    "mnemonic",
    "sleutel",
    "schlüssel",
];

/// Names that are secrets only with another word before them: "api key", "pin code", "mot de passe".
const WEAK_NAMES: [(&str, &[&str]); 7] = [
    ("key", &["api", "secret", "private", "access", "encryption", "license", "recovery"]),
    ("code", &["pin", "access", "security", "recovery", "backup", "verification", "door", "alarm"]),
    ("passe", &["de"]),
    ("pass", &["my", "the"]),
    ("login", &["my"]),
    ("seed", &["my", "wallet", "recovery"]),
    ("clave", &["mi", "la"]),
];

/// Words between a name and the secret.
const LINKS: [&str; 14] =
    ["is", "=", ":", "ist", "est", "es", "was", "lautet", "for", "phrase", "code", "to", "are", "has"];

/// A text with its secrets masked.
pub fn masked(text: &str) -> Cow<'_, str> {
    let secrets = secrets(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for secret in secrets {
        masked.push_str(&text[at..secret.start]);
        masked.push_str(MASK);
        at = secret.end;
    }
    masked.push_str(&text[at..]);
    Cow::Owned(masked)
}

impl Proposal {
    /// The same with its secrets masked, which is how it may be kept.
    pub fn masked(self) -> Self {
        Self { value: masked(&self.value).into_owned(), quote: masked(&self.quote).into_owned(), ..self }
    }
}

/// Where secrets stand, in order, without overlaps.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = private_keys(text);
    found.extend(numbers(text));
    let pieces = pieces(text);
    for (number, piece) in pieces.iter().enumerate() {
        let word = &text[piece.clone()];
        if word == MASK || word.trim_matches(['[', ']']) == "secret" {
            continue;
        }
        if is_token(word) || is_named(text, &pieces[..number], word) {
            found.push(piece.clone());
        } else if let Some(within) = login(word) {
            found.push(piece.start + within.start..piece.start + within.end);
        }
    }
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    found.dedup_by(|next, before| {
        let overlaps = next.start < before.end;
        before.end = if overlaps { before.end.max(next.end) } else { before.end };
        overlaps
    });
    found
}

/// Words between blanks, without the marks around them; `=` and `:` stand alone where a name is given a value.
fn pieces(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let around =
        |c: char| matches!(c, '"' | '\'' | '`' | '“' | '”' | ',' | ';' | '(' | ')' | '!' | '?' | '<' | '>' | '*');
    let mut start = 0;
    for piece in text.split_inclusive(char::is_whitespace) {
        let at = start..start + piece.trim_end().len();
        start += piece.len();
        let word = &text[at.clone()];
        let cut = word.find(['=', ':']).filter(|cut| is_name(word[..*cut].trim_matches(around)));
        let parts = match cut {
            Some(cut) => vec![at.start..at.start + cut, at.start + cut..at.start + cut + 1, at.start + cut + 1..at.end],
            None => vec![at],
        };
        for part in parts {
            let word = &text[part.clone()];
            let left = word.len() - word.trim_start_matches(around).len();
            let inner = word[left..].trim_end_matches(around).trim_end_matches('.');
            if !inner.is_empty() {
                found.push(part.start + left..part.start + left + inner.len());
            }
        }
    }
    found
}

fn is_name(word: &str) -> bool {
    let word = word.to_lowercase();
    NAMES.contains(&word.as_str()) || NAMES.iter().any(|name| name.len() > 4 && word.ends_with(&format!("_{name}")))
}

/// A key or a token by its beginning, or by looking like nothing that people write.
fn is_token(word: &str) -> bool {
    let begins = PREFIXES.iter().any(|prefix| word.starts_with(prefix) && prefix.len() + 8 <= word.len());
    begins || is_random(word)
}

/// Long, without blanks, letters and digits mixed, and no id that programs show.
fn is_random(word: &str) -> bool {
    let of = |is: fn(&u8) -> bool| word.bytes().filter(is).count();
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=~".contains(&byte));
    let (digits, upper, lower) = (of(u8::is_ascii_digit), of(u8::is_ascii_uppercase), of(u8::is_ascii_lowercase));
    let is_uuid = word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
    let hex = word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) && 0 < upper + lower;
    let mixed = 24 <= word.len() && 4 <= digits && 4 <= upper && 4 <= lower;
    plain && !is_uuid && (hex || mixed)
}

/// "my password is hunter2": what follows the name of a secret.
fn is_named(text: &str, before: &[Range<usize>], word: &str) -> bool {
    let word_at = |back: usize| before.len().checked_sub(back).map(|at| text[before[at].clone()].to_lowercase());
    let mut back = 1;
    let mut linked = false;
    while word_at(back).is_some_and(|link| LINKS.contains(&link.as_str())) && back < 4 {
        linked |= !matches!(word_at(back).as_deref(), Some("for" | "code" | "phrase" | "to"));
        back += 1;
    }
    let Some(name) = word_at(back).map(|name| name.trim_end_matches([':', '=']).to_owned()) else { return false };
    let ends_linked = word_at(back).is_some_and(|name| name.ends_with([':', '=']));
    if !(linked || ends_linked) || !is_name(&name) || is_plain(word) {
        return false;
    }
    let weak = WEAK_NAMES.iter().find(|(weak, _)| *weak == name);
    weak.is_none_or(|(_, leads)| word_at(back + 1).is_some_and(|lead| leads.contains(&lead.as_str())))
}

/// Words that say something about a secret and are none: "my password is too short".
fn is_plain(word: &str) -> bool {
    const PLAIN: [&str; 46] = [
        "too",
        "not",
        "the",
        "a",
        "an",
        "my",
        "your",
        "wrong",
        "weak",
        "strong",
        "safe",
        "secure",
        "short",
        "long",
        "expired",
        "incorrect",
        "invalid",
        "missing",
        "lost",
        "being",
        "in",
        "on",
        "that",
        "this",
        "what",
        "to",
        "for",
        "very",
        "so",
        "still",
        "always",
        "never",
        "changed",
        "leaked",
        "niet",
        "te",
        "nicht",
        "zu",
        "pas",
        "trop",
        "no",
        "muy",
        "required",
        "needed",
        "stored",
        "hashed",
    ];
    PLAIN.contains(&word.to_lowercase().as_str()) || LINKS.contains(&word)
}

/// The password of `scheme://user:password@host`.
fn login(word: &str) -> Option<Range<usize>> {
    let start = word.find("://")? + 3;
    let end = start + word[start..].find('@')?;
    let colon = start + word[start..end].find(':')?;
    (colon + 1 < end).then_some(colon + 1..end)
}

fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find("-----BEGIN").map(|start| at + start) {
        let end = text[start..].find("-----END").map_or(text.len(), |end| {
            let end = start + end + "-----END".len();
            text[end..].find("-----").map_or(text.len(), |close| end + close + 5)
        });
        if text[start..end].contains("KEY") {
            found.push(start..end);
        }
        at = end;
    }
    found
}

/// Cards and bank accounts: runs of digits (and letters) with blanks or dashes between them that check.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let begins = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let end = begins.then(|| card(bytes, at).or_else(|| account(bytes, at))).flatten();
        match end {
            Some(end) => {
                found.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// Where a card number ends that begins here: 13 to 19 digits whose check digit is right.
fn card(bytes: &[u8], start: usize) -> Option<usize> {
    let (digits, end) = run(bytes, start, 19, |byte| byte.is_ascii_digit());
    let closed = bytes.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let sum: u32 = digits.iter().rev().enumerate().map(|(place, byte)| luhn(u32::from(byte - b'0'), place)).sum();
    (13..=19).contains(&digits.len()).then_some(end).filter(|_| closed && sum % 10 == 0 && digits[0] != b'0')
}

fn luhn(digit: u32, place: usize) -> u32 {
    match place % 2 {
        0 => digit,
        _ => digit * 2 / 10 + digit * 2 % 10,
    }
}

/// Where an IBAN ends that begins here: two letters, two digits, and a remainder of one.
fn account(bytes: &[u8], start: usize) -> Option<usize> {
    let head = bytes.get(start..start + 4)?;
    if !(head[..2].iter().all(u8::is_ascii_uppercase) && head[2..].iter().all(u8::is_ascii_digit)) {
        return None;
    }
    let (all, end) = run(bytes, start, 34, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if !(15..=34).contains(&all.len()) {
        return None;
    }
    let turned = all[4..].iter().chain(&all[..4]);
    let rest = turned.fold(0u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    (rest == 1).then_some(end)
}

/// The characters of a run that may have single blanks or dashes in it, and where it ends.
fn run(bytes: &[u8], start: usize, count_max: usize, is: fn(&u8) -> bool) -> (Vec<u8>, usize) {
    let (mut run, mut at, mut end) = (Vec::new(), start, start);
    while at < bytes.len() && run.len() < count_max {
        if is(&bytes[at]) {
            run.push(bytes[at]);
            end = at + 1;
        } else if !matches!(bytes[at], b' ' | b'-') || end != at {
            break;
        }
        at += 1;
    }
    (run, end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(masked(text), expected);
    }

    #[test]
    fn secrets_are_masked() {
        check("my api key is sk-proj-9a8b7c6d5e4f3a2b1c0d9e8f.", "my api key is [secret].");
        check("I paid with 4111 1111 1111 1111, ok?", "I paid with [secret], ok?");
        check("IBAN NL91 ABNA 0417 1643 00 please", "IBAN [secret] please");
        check("my password is hunter2", "my password is [secret]");
        check("password: \"s3cr3t!\"", "password: \"[secret]!\"");
        check("DB_PASSWORD=swordfish1 run", "DB_PASSWORD=[secret] run");
        check("mijn wachtwoord is Welkom01", "mijn wachtwoord is [secret]");
        check("mein Passwort ist geheim99", "mein Passwort ist [secret]");
        check("mon mot de passe est azerty1", "mon mot de passe est [secret]");
        check("mi contraseña es gato77", "mi contraseña es [secret]");
        check("postgres://ann:pw123@db/x", "postgres://ann:[secret]@db/x");
        check("token ghp_16C7e42F292c6912E7710c838347Ae178B4a", "token [secret]");
        check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[secret]");
        check("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nhi", "[secret]\nhi");
        check("my pin code is 4711", "my pin code is [secret]");
    }

    #[test]
    fn other_words_are_left_alone() {
        for text in [
            "I live in Porto, and my budget is 1200 euros",
            "my password is too short",
            "call 0031 6 12345678",
            "the key is patience",
            "id 0192f0c1-2b3c-7d4e-8f90-123456789abc",
            "my zip code is 1234 AB",
            "born 14 July 1988",
            "internationalisation-of-documentation",
            "",
        ] {
            check(text, text);
        }
    }

    proptest! {
        #[test]
        fn masking_twice_is_masking_once(text in prop_oneof!["\\PC{0,80}", "[a-zA-Z0-9:=@/ .\\-]{0,80}"]) {
            let once = masked(&text).into_owned();
            prop_assert_eq!(masked(&once), once.clone());
        }
    }
}
