//! The plain format, for anybody's chats; `bench/README.md` describes it.

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use serde::Deserialize;
use serde_json::Value;

use super::{Chat, Label, Question, Said, existing, utc};
use crate::message::Role;

#[derive(Deserialize)]
struct Entry {
    id: Label,
    messages: Vec<EntryMessage>,
    #[serde(default)]
    questions: Vec<EntryQuestion>,
}

#[derive(Deserialize)]
struct EntryMessage {
    id: Label,
    role: Role,
    #[serde(default)]
    name: Option<String>,
    content: String,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    session: Option<Label>,
}

#[derive(Deserialize)]
struct EntryQuestion {
    question: String,
    #[serde(default)]
    asked_at: Option<String>,
    #[serde(default)]
    evidence: Vec<Label>,
    #[serde(default)]
    category: Option<Label>,
}

pub(super) fn chat(value: Value) -> anyhow::Result<Chat> {
    let entry: Entry = serde_json::from_value(value).context("a chat is not as `bench/README.md` describes it")?;
    let id = entry.id.0;
    let messages = entry.messages.into_iter().map(said).collect::<Result<Vec<_>, _>>();
    let messages = messages.with_context(|| format!("chat `{id}`"))?;
    let questions = entry.questions.into_iter().enumerate().map(|(n, asked)| question(n, asked, &messages));
    let questions = questions.collect::<Result<Vec<_>, _>>().with_context(|| format!("chat `{id}`"))?;
    let questions = questions.into_iter().filter(|question| !question.evidence.is_empty()).collect();
    Ok(Chat { id, messages, questions })
}

fn said(entry: EntryMessage) -> anyhow::Result<Said> {
    Ok(Said {
        id: entry.id.0,
        session: entry.session.map_or_else(String::new, |Label(session)| session),
        role: entry.role,
        name: entry.name,
        text: entry.content,
        at: entry.created_at.as_deref().map(time).transpose()?,
    })
}

fn question(n: usize, entry: EntryQuestion, messages: &[Said]) -> anyhow::Result<Question> {
    Ok(Question {
        n,
        text: entry.question,
        asked_at: entry.asked_at.as_deref().map(time).transpose()?,
        evidence: existing(entry.evidence.into_iter().map(|Label(id)| id), messages),
        category: entry.category.map(|Label(category)| category),
    })
}

/// An instant (`2026-03-01T09:30:00Z`); a time or a day without a zone is UTC.
fn time(text: &str) -> anyhow::Result<Timestamp> {
    let instant = text.parse::<Timestamp>().ok();
    let plain = || text.parse::<DateTime>().ok().and_then(utc);
    let day = || text.parse::<Date>().ok().and_then(|day| utc(day.to_datetime(jiff::civil::Time::midnight())));
    instant.or_else(plain).or_else(day).ok_or_else(|| anyhow!("`{text}` is no time; write 2026-03-01T09:30:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chat_is_read_with_all_that_may_be_left_out() {
        let read = chat(json!({
            "id": 7,
            "messages": [
                {"id": 1, "role": "user", "content": "I moved."},
                {"id": "b", "role": "assistant", "name": "helper", "content": "Where to?",
                 "created_at": "2026-03-01T09:30:00+01:00", "session": 2},
            ],
            "questions": [
                {"id": "q1", "question": "Who asks?", "evidence": ["b", "gone", "b"], "category": "roles"},
                {"id": "q2", "question": "What for?", "evidence": []},
                {"id": "q3", "question": "Who moved?", "asked_at": "2026-03-02", "evidence": [1]},
            ],
        }))
        .expect("a chat");
        assert_eq!((read.id.as_str(), read.messages.len()), ("7", 2));
        let [first, second] = &read.messages[..] else { panic!("two messages") };
        assert_eq!((first.id.as_str(), first.session.as_str(), first.name.as_deref(), first.at), ("1", "", None, None));
        assert_eq!((second.role, second.session.as_str(), second.speaker()), (Role::Assistant, "2", "helper"));
        assert_eq!(second.at.map(|at| at.to_string()), Some("2026-03-01T08:30:00Z".into()));
        let asked: Vec<(usize, &[String])> = read.questions.iter().map(|q| (q.n, &q.evidence[..])).collect();
        assert_eq!(asked, [(0, &["b".to_owned()][..]), (2, &["1".to_owned()][..])]);
        assert_eq!(read.questions[0].category.as_deref(), Some("roles"));
        assert_eq!(read.questions[1].asked_at.map(|at| at.to_string()), Some("2026-03-02T00:00:00Z".into()));
    }

    #[test]
    fn a_wrong_time_is_named() {
        let wrong = json!({"id": "a", "messages": [
            {"id": "m", "role": "user", "content": "Hi.", "created_at": "noon"}]});
        assert!(format!("{:#}", chat(wrong).expect_err("refused")).contains("`noon` is no time"));
    }
}
