//! The operator's key, taken out of what a server sends.
//!
//! Servers repeat the key they were shown: in errors, in errors with status 200, in headers. The client of a shared recalld must
//! not learn it. Bytes pass as they come; only an end that could be the beginning of the key waits for the next bytes.

use bytes::{Bytes, BytesMut};
use hyper::header::HeaderMap;
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::OpenAiSettings;

/// Keys shorter than this are words such as `ollama` or `none`: no secret, and hiding them would
/// make holes in messages.
const SECRET_BYTES_MIN: usize = 8;

/// What URLs escape.
const COMPONENT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What stands in the place of the key.
const MARK: &str = "…";

/// Takes a key out of bytes.
#[derive(Debug, Default)]
pub(super) struct Redaction {
    /// The key as servers may write it; empty when there is nothing to hide.
    forms: Vec<Vec<u8>>,
    /// The end of what came that could go on to be the key.
    held: BytesMut,
}

impl Redaction {
    pub(super) fn of(settings: &OpenAiSettings) -> Self {
        let key = settings.key.as_deref().map(str::trim).filter(|key| key.len() >= SECRET_BYTES_MIN);
        Self { forms: key.map(forms).unwrap_or_default(), held: BytesMut::new() }
    }

    /// Takes in bytes, and gives those that may go on.
    pub(super) fn push(&mut self, bytes: Bytes) -> Bytes {
        if self.held.is_empty() && !self.concerns(&bytes) {
            return bytes;
        }
        self.held.extend_from_slice(&bytes);
        let mut passed = BytesMut::new();
        while let Some((at, len)) = self.first() {
            passed.extend_from_slice(&self.held.split_to(at));
            passed.extend_from_slice(MARK.as_bytes());
            let _ = self.held.split_to(len);
        }
        let rest = self.held.len() - self.unfinished(&self.held);
        passed.extend_from_slice(&self.held.split_to(rest));
        passed.freeze()
    }

    /// What was held back when nothing more comes.
    pub(super) fn finish(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    /// A text without the key.
    pub(super) fn text(mut self, text: &str) -> String {
        let passed = self.push(Bytes::copy_from_slice(text.as_bytes()));
        String::from_utf8_lossy(&[passed, self.finish()].concat()).into_owned()
    }

    /// Headers without those that have the key in them.
    pub(super) fn headers(&self, mut headers: HeaderMap) -> HeaderMap {
        let telling = |value: &[u8]| self.forms.iter().any(|form| memmem::find(value, form).is_some());
        let names: Vec<_> =
            headers.iter().filter(|(_, value)| telling(value.as_bytes())).map(|(name, _)| name.clone()).collect();
        for name in names {
            headers.remove(name);
        }
        headers
    }

    fn concerns(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| memmem::find(bytes, form).is_some()) || self.unfinished(bytes) > 0
    }

    /// Where the key stands first in what is held, and how long it is there.
    fn first(&self) -> Option<(usize, usize)> {
        let found = self.forms.iter().filter_map(|form| Some((memmem::find(&self.held, form)?, form.len())));
        found.min_by_key(|(at, _)| *at)
    }

    /// How many bytes at the end could be the beginning of the key.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let begun = |form: &Vec<u8>| (1..form.len()).rev().find(|len| bytes.ends_with(&form[..*len]));
        self.forms.iter().filter_map(begun).max().unwrap_or(0)
    }
}

/// A key as it is, as JSON may escape it, and as a URL does.
fn forms(key: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![key.to_owned(), key.replace('/', "\\/"), utf8_percent_encode(key, &COMPONENT).to_string()];
    forms.sort();
    forms.dedup();
    forms.into_iter().map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "sk-a/sk-a+b";

    fn redaction() -> Redaction {
        Redaction { forms: forms(KEY), held: BytesMut::new() }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redaction().text(text), expected);
    }

    #[test]
    fn a_key_is_hidden_in_every_form() {
        check("no key: sk-a/sk-b", "no key: sk-a/sk-b");
        check("your key sk-a/sk-a+b, twice: sk-a/sk-a+bsk-a/sk-a+b.", "your key …, twice: …….");
        check("{\"key\":\"sk-a\\/sk-a+b\"} ?key=sk-a%2Fsk-a%2Bb", "{\"key\":\"…\"} ?key=…");
        check("sk-a/sk-a/sk-a+b", "sk-a/…");
        check("ends like it: sk-a/sk", "ends like it: sk-a/sk");
    }

    #[test]
    fn what_is_no_secret_is_let_through() {
        let mut none = Redaction::default();
        assert_eq!(none.push(Bytes::from_static(b"ollama")), "ollama");
        assert!(none.finish().is_empty());
    }

    #[test]
    fn only_what_could_be_the_key_waits() {
        let mut redaction = redaction();
        assert_eq!(redaction.push(Bytes::from_static(b"data: x\n\n")), "data: x\n\n");
        assert_eq!(redaction.push(Bytes::from_static(b"is sk-a/s")), "is ");
        assert_eq!(redaction.push(Bytes::from_static(b"o what")), "sk-a/so what");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(words in prop::collection::vec("(sk-a|/|sk-a/sk-a\\+b|sk-a%2Fsk-a%2Bb|x)", 0..9), cut in 1_usize..9) {
            let text = words.concat();
            let mut redaction = redaction();
            let mut pieces: Vec<Bytes> = Vec::new();
            for piece in text.as_bytes().chunks(cut) {
                pieces.push(redaction.push(Bytes::copy_from_slice(piece)));
            }
            pieces.push(redaction.finish());
            let passed = String::from_utf8(pieces.concat()).expect("text");
            prop_assert!(!forms(KEY).iter().any(|form| memmem::find(passed.as_bytes(), form).is_some()), "{}", passed);
            prop_assert_eq!(passed.matches(MARK).count(), text.matches(KEY).count() + text.matches("sk-a%2Fsk-a%2Bb").count());
        }
    }
}
