//! Recognising a message that comes back: the same words, whatever the client wrapped around them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use crate::message::{Message, Role};

/// What a message says, as a hash. Equal words by the same role are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fingerprint(u128);

/// Blocks in which models think aloud or clients show tool calls; they come and go between requests.
const PASSING_BLOCKS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<details type=\"reasoning\"", "</details>"),
    ("<details type=\"tool_calls\"", "</details>"),
];

impl Fingerprint {
    /// The fingerprint of a message.
    pub fn of(message: &Message) -> Self {
        let mut hash = Xxh3::new();
        hash.update(message.role.as_str().as_bytes());
        hash.update(b"\0");
        hash.update(lasting_text(message).trim().as_bytes());
        for part in other_parts(message) {
            hash.update(b"\0");
            hash.update(part.to_string().as_bytes());
        }
        Self(hash.digest128())
    }

    /// The chain of a conversation: what came before, and this.
    pub fn after(self, next: Self) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&self.0.to_le_bytes());
        hash.update(&next.0.to_le_bytes());
        Self(hash.digest128())
    }

    /// The beginning of a chain, different for each owner: nobody's history matches another's.
    pub fn beginning(tenant: &str, user: &str) -> Self {
        let mut hash = Xxh3::new();
        for name in [tenant, user] {
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
        Self(hash.digest128())
    }

    /// As stored.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Reads what [`Fingerprint::to_bytes`] wrote.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The text without what passes. Only a model thinks aloud; a user who writes `<think>` means it.
fn lasting_text(message: &Message) -> std::borrow::Cow<'_, str> {
    if message.role != Role::Assistant || !message.text.contains('<') {
        return (&message.text).into();
    }
    let mut text = message.text.clone();
    for (open, close) in PASSING_BLOCKS {
        while let Some(start) = text.find(open) {
            let end = text[start..].find(close).map_or(text.len(), |at| start + at + close.len());
            text.replace_range(start..end, "");
        }
    }
    text.into()
}

/// Parts that are not text, and the tools that were called.
fn other_parts(message: &Message) -> Vec<&Value> {
    let Some(raw) = &message.raw else { return Vec::new() };
    let parts = raw.get("content").and_then(Value::as_array);
    let pictures = parts.into_iter().flatten().filter(|part| part.get("text").is_none());
    let calls = raw.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    pictures.chain(calls.filter_map(|call| call.get("id"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn said(wire: Value) -> Fingerprint {
        Fingerprint::of(&Message::from_wire(wire, Timestamp::UNIX_EPOCH).expect("a message"))
    }

    #[test]
    fn the_same_words_are_the_same() {
        let plain = said(json!({"role": "assistant", "content": "It is Rex."}));
        for content in [
            json!(" It is Rex.\n"),
            json!([{"type": "text", "text": "It is Rex."}]),
            json!("<think>dogs…</think>\n\nIt is Rex."),
            json!("<details type=\"reasoning\" done=\"true\">\n<summary>x</summary>\n</details>\nIt is Rex."),
        ] {
            assert_eq!(said(json!({"role": "assistant", "content": content})), plain, "{content}");
        }
    }

    #[test]
    fn other_words_pictures_and_speakers_are_not() {
        let picture = |url: &str| json!({"role": "user", "content": [{"type": "text", "text": "this?"}, {"type": "image_url", "image_url": {"url": url}}]});
        assert_ne!(said(picture("a")), said(picture("b")));
        assert_ne!(said(json!({"role": "user", "content": "a"})), said(json!({"role": "assistant", "content": "a"})));
        assert_ne!(
            said(json!({"role": "user", "content": "<think>a</think>b"})),
            said(json!({"role": "user", "content": "b"}))
        );
        assert_ne!(Fingerprint::beginning("a", "bc"), Fingerprint::beginning("ab", "c"));
    }
}
