//! Chats with questions about them, read from files: who said what when, what is asked, and which messages hold the
//! answer.
//!
//! Two formats are told apart by their content: LoCoMo's (`locomo`), and a plain one for anybody's chats (`neutral`,
//! described in `bench/README.md`).

mod locomo;
mod neutral;

use std::path::Path;

use anyhow::{Context, bail};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::message::Role;

/// A conversation, or all conversations of one user, and what is asked about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chat {
    pub(crate) id: String,
    /// In the order in which they were said.
    pub(crate) messages: Vec<Said>,
    /// Those whose answer lies in a message of the chat.
    pub(crate) questions: Vec<Question>,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    /// Its name in the file.
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) text: String,
    pub(crate) at: Option<Timestamp>,
}

impl Said {
    /// Who said it, as a transcript would show it.
    pub(crate) fn speaker(&self) -> &str {
        self.name.as_deref().unwrap_or(self.role.as_str())
    }

    /// About how many tokens a transcript would spend on it: the scorer's arithmetic, not a tokenizer's.
    pub(crate) fn tokens(&self) -> usize {
        let chars = self.speaker().chars().count() + self.text.chars().count();
        ((chars as f64 / 4.2).round() as usize).max(1)
    }
}

/// A question and where its answer is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// Its place in the file's list.
    pub(crate) n: usize,
    pub(crate) text: String,
    pub(crate) asked_at: Option<Timestamp>,
    /// Messages that hold the answer, each once, at least one.
    pub(crate) evidence: Vec<String>,
    pub(crate) category: Option<String>,
}

/// Questions of this category ask for what was never said, so they are also counted apart.
pub(crate) const ADVERSARIAL: &str = "adversarial";

/// Reads a file of chats.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Chat>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    parse(&text).with_context(|| format!("{shown} holds no chats with questions"))
}

/// Reads several files, one after the other.
pub(crate) fn read_all(paths: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Chat>> {
    let mut chats = Vec::new();
    for path in paths {
        chats.extend(read(path.as_ref())?);
    }
    Ok(chats)
}

/// Reads the text of a file.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Chat>> {
    let list: Vec<Value> = serde_json::from_str(text).context("the file is no JSON list")?;
    let Some(first) = list.first() else { bail!("the list is empty") };
    match (first.get("conversation"), first.get("messages")) {
        (Some(_), _) => list.into_iter().map(locomo::chat).collect(),
        (None, Some(_)) => list.into_iter().map(neutral::chat).collect(),
        (None, None) => bail!("its first entry has neither `messages` nor a `conversation`"),
    }
}

/// Those ids that exist, each once, in their order.
fn existing(ids: impl IntoIterator<Item = String>, messages: &[Said]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for id in ids {
        if !found.contains(&id) && messages.iter().any(|said| said.id == id) {
            found.push(id);
        }
    }
    found
}

/// A time without a zone is taken as UTC.
fn utc(time: DateTime) -> Option<Timestamp> {
    time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// An id or a category: a text, or a number.
#[derive(Debug, Clone, PartialEq)]
struct Label(String);

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(serde::de::Error::custom(format!("{other} is neither a text nor a number"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_by_its_content() {
        let neutral = r#"[{"id": "a", "messages": [{"id": "m", "role": "user", "content": "Hi."}], "questions": []}]"#;
        let locomo = r#"[{"sample_id": "b", "conversation": {"session_1": []}, "qa": []}]"#;
        assert_eq!(parse(neutral).expect("reads")[0].id, "a");
        assert_eq!(parse(locomo).expect("reads")[0].id, "b");
    }

    #[test]
    fn what_is_something_else_is_refused_with_a_reason() {
        for (text, reason) in [("{}", "no JSON list"), ("[]", "empty"), (r#"[{"x": 1}]"#, "neither")] {
            let error = parse(text).expect_err("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn tokens_are_counted_as_the_scorer_does() {
        let said = |name: Option<&str>, text: &str| Said {
            id: String::new(),
            session: String::new(),
            role: Role::User,
            name: name.map(str::to_owned),
            text: text.into(),
            at: None,
        };
        assert_eq!(said(Some("Ann"), "").tokens(), 1, "never none");
        assert_eq!(said(Some("Ann"), "I moved to Porto.").tokens(), 5, "20 / 4.2 = 4.76");
        assert_eq!(said(None, "ééééé").tokens(), 2, "(4 + 5 characters) / 4.2 = 2.14");
    }
}
