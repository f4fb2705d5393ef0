//! Streams of messages whose topics are known.
//!
//! Two formats are told apart by their content: streams with a topic and a kind at each message, and TIAGE's dialogs
//! with the lengths of their segments.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// A conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    pub(super) messages: Vec<Entry>,
    /// What its topics were made from; streams that share one are not independent of each other.
    pub(super) sources: Vec<String>,
}

/// A message of it, and what was answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) topic: usize,
    pub(super) user: String,
    pub(super) answer: Option<String>,
}

/// What a message does, by its topic and those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Stay,
    Return,
}

impl Stream {
    /// What is said, in order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().flat_map(|entry| [entry.user.as_str()].into_iter().chain(entry.answer.as_deref()))
    }

    /// The topics of the messages.
    pub(super) fn topics(&self) -> Vec<usize> {
        self.messages.iter().map(|entry| entry.topic).collect()
    }
}

/// What each message does when messages have these topics.
pub(super) fn kinds(topics: &[usize]) -> Vec<Kind> {
    let kind = |n: usize| match topics[..n].iter().rposition(|topic| *topic == topics[n]) {
        None => Kind::New,
        Some(at) if at + 1 == n => Kind::Stay,
        Some(_) => Kind::Return,
    };
    (0..topics.len()).map(kind).collect()
}

/// Reads a file of streams.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Stream>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let streams = parse(&text).with_context(|| format!("{shown} holds no streams"))?;
    Ok(streams.into_iter().filter(|stream| !stream.messages.is_empty()).collect())
}

fn parse(text: &str) -> anyhow::Result<Vec<Stream>> {
    let list: Value = serde_json::from_str(text).context("the file is no JSON")?;
    match list.get(0) {
        Some(first) if first.get("messages").is_some() => {
            Ok(Vec::<GivenStream>::deserialize(list)?.into_iter().map(stream).collect())
        }
        Some(first) if first.get("segments").is_some() => {
            Vec::<GivenDialog>::deserialize(list)?.into_iter().map(dialog).collect()
        }
        _ => bail!("its first entry has neither `messages` nor `segments`"),
    }
}

#[derive(Deserialize)]
struct GivenStream {
    messages: Vec<GivenMessage>,
    #[serde(default)]
    topics: Vec<GivenTopic>,
}

#[derive(Deserialize)]
struct GivenTopic {
    title: String,
    #[serde(default)]
    section: String,
}

#[derive(Deserialize)]
struct GivenMessage {
    topic: usize,
    user: String,
    assistant: Option<String>,
}

fn stream(given: GivenStream) -> Stream {
    let answer = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let entry = |given: GivenMessage| Entry { topic: given.topic, user: given.user, answer: answer(given.assistant) };
    let sources = given.topics.iter().map(|topic| format!("{} / {}", topic.title, topic.section)).collect();
    Stream { messages: given.messages.into_iter().map(entry).collect(), sources }
}

#[derive(Deserialize)]
struct GivenDialog {
    utterances: Vec<String>,
    segments: Vec<usize>,
}

/// Two people talk: what either says is a message of its own.
fn dialog(given: GivenDialog) -> anyhow::Result<Stream> {
    let topics: Vec<usize> =
        given.segments.iter().enumerate().flat_map(|(topic, length)| std::iter::repeat_n(topic, *length)).collect();
    ensure!(topics.len() == given.utterances.len(), "a dialog's segments are not as long as the dialog");
    let entry = |(user, topic)| Entry { topic, user, answer: None };
    Ok(Stream { messages: given.utterances.into_iter().zip(topics).map(entry).collect(), sources: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn streams_are_read() {
        let message = |topic: usize, user: &str, answer: &str| json!({"id": 0, "topic": topic, "kind": "new", "user": user, "assistant": answer});
        let file = json!([{"stream": 0, "topics": [], "messages": [message(2, "Paint?", "Green."), message(0, "Trains?", " ")]}]);
        let streams = parse(&file.to_string()).expect("streams");
        assert_eq!(streams[0].texts().collect::<Vec<_>>(), ["Paint?", "Green.", "Trains?"]);
        assert_eq!(streams[0].topics(), [2, 0]);
    }

    #[test]
    fn segments_are_topics() {
        let file = json!([{"dial_id": 0, "utterances": ["a", "b", "c"], "segments": [2, 1], "set": "dev"}]);
        assert_eq!(parse(&file.to_string()).expect("dialogs")[0].topics(), [0, 0, 1]);
        let short = json!([{"utterances": ["a"], "segments": [2]}]);
        assert!(parse(&short.to_string()).is_err() && parse("[{}]").is_err() && parse("no").is_err());
    }

    #[test]
    fn messages_open_stay_or_return() {
        use Kind::{New, Return, Stay};
        assert_eq!(kinds(&[4, 4, 1, 4, 4, 1]), [New, Stay, New, Return, Stay, Return]);
    }
}
