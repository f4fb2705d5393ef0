//! Laying what is remembered before the model, inside the last user message.
//!
//! Messages are never added, reordered or dropped here, so that strict chat templates and providers' prompt
//! caches keep working. What the block looks like, and how it is kept from being forged, is in `message/block.rs`.

use serde_json::{Value, json};

use crate::memory::InjectInto;

pub use crate::message::block::{block, without_block};

/// Lays the block into the messages. Answers whether there was a place for it: the list must end with what a
/// user or a tool said.
pub fn inject(messages: &mut [Value], block: &str, into: InjectInto) -> bool {
    let ends_with = messages.last().and_then(role).unwrap_or("");
    if block.is_empty() || !matches!(ends_with, "user" | "tool") {
        return false;
    }
    let target = match into {
        InjectInto::User => messages.iter_mut().rev().find(|message| role(message) == Some("user")),
        InjectInto::System => messages.iter_mut().find(|message| matches!(role(message), Some("system" | "developer"))),
    };
    let Some(content) = target.and_then(|message| message.get_mut("content")) else { return false };
    lay(content, block, into)
}

fn role(message: &Value) -> Option<&str> {
    message.get("role")?.as_str()
}

fn lay(content: &mut Value, block: &str, into: InjectInto) -> bool {
    match (content, into) {
        (Value::String(text), InjectInto::User) => text.insert_str(0, block),
        (Value::String(text), InjectInto::System) => *text = format!("{text}\n\n{}", block.trim_end()),
        (Value::Array(parts), InjectInto::User) => parts.insert(0, json!({"type": "text", "text": block})),
        (Value::Array(parts), InjectInto::System) => parts.push(json!({"type": "text", "text": block})),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_stands_before_the_users_words() {
        let block = block("User: \"My dog is called Rex.\"");
        let mut messages = vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "who?"})];
        assert!(inject(&mut messages, &block, InjectInto::User));
        let text = messages[1]["content"].as_str().expect("text");
        assert!(text.starts_with("<recalled_memory ") && text.ends_with("\n\nwho?"), "{text}");
        assert_eq!(without_block(text), "who?");
        assert_eq!(messages[0]["content"], "s");
    }

    #[test]
    fn parts_get_a_part_of_their_own() {
        let mut messages = vec![json!({"role": "user", "content": [{"type": "image_url"}]})];
        assert!(inject(&mut messages, &block("x"), InjectInto::User));
        assert_eq!(messages[0]["content"][0]["type"], "text");
        assert_eq!(messages[0]["content"][1]["type"], "image_url");
    }

    #[test]
    fn where_nobody_asks_nothing_is_laid() {
        let mut messages = vec![json!({"role": "user", "content": "q"}), json!({"role": "assistant", "content": "a"})];
        assert!(!inject(&mut messages, &block("x"), InjectInto::User));
        assert!(!inject(&mut [], &block("x"), InjectInto::User));
        assert!(!inject(&mut messages[..1], &block("  "), InjectInto::User));
    }
}
