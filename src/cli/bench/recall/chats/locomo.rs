//! LoCoMo's format: long chats between two people, in numbered sessions that each have a date.
//!
//! Both speakers are people, so both are users with a name. A photo is only there as its caption, which becomes part
//! of the text.

use anyhow::Context;
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ADVERSARIAL, Chat, Label, Question, Said, existing, utc};
use crate::message::Role;

/// What the file's category numbers mean.
const CATEGORIES: [&str; 5] = ["multi-hop", "temporal", "open-domain", "single-hop", ADVERSARIAL];

/// Dates as they are written: `1:56 pm on 8 May, 2023`, or `08.05.2023, 13:56:00`.
const DATES: [&str; 2] = ["%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S"];

#[derive(Deserialize)]
struct Sample {
    sample_id: Label,
    /// `session_1`, `session_1_date_time`, `session_2` …
    conversation: Map<String, Value>,
    qa: Vec<Qa>,
}

#[derive(Deserialize)]
struct Turn {
    speaker: String,
    dia_id: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    clean_text: Option<String>,
    #[serde(default)]
    blip_caption: Option<String>,
    #[serde(default)]
    date_time: Option<String>,
}

#[derive(Deserialize)]
struct Qa {
    question: Label,
    #[serde(default)]
    evidence: Option<Vec<Label>>,
    category: usize,
}

pub(super) fn chat(value: Value) -> anyhow::Result<Chat> {
    let sample: Sample = serde_json::from_value(value).context("a conversation is not as LoCoMo writes it")?;
    let messages = messages(&sample.conversation)?;
    let questions = sample.qa.into_iter().enumerate().filter_map(|(n, qa)| question(n, qa, &messages)).collect();
    Ok(Chat { id: sample.sample_id.0, messages, questions })
}

fn messages(conversation: &Map<String, Value>) -> anyhow::Result<Vec<Said>> {
    let mut messages = Vec::new();
    for session in 1.. {
        let turns = conversation.get(&format!("session_{session}"));
        let date = conversation.get(&format!("session_{session}_date_time")).and_then(Value::as_str);
        if turns.is_none() && date.is_none() {
            break;
        }
        let Some(turns) = turns else { continue };
        let turns =
            Vec::<Turn>::deserialize(turns).with_context(|| format!("session {session} is no list of turns"))?;
        messages.extend(turns.into_iter().map(|turn| said(session, date, turn)));
    }
    Ok(messages)
}

fn said(session: usize, date: Option<&str>, turn: Turn) -> Said {
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let mut text = filled(turn.text).or_else(|| filled(turn.clean_text)).unwrap_or_default();
    if let Some(caption) = filled(turn.blip_caption) {
        text = format!("{text} [shares a photo of {caption}]").trim().to_owned();
    }
    let at = filled(turn.date_time).as_deref().or(date).and_then(time);
    let (role, name) = (Role::User, Some(turn.speaker));
    Said { id: turn.dia_id, session: session.to_string(), role, name, text, at }
}

fn time(text: &str) -> Option<Timestamp> {
    DATES.iter().find_map(|format| DateTime::strptime(format, text.trim()).ok()).and_then(utc)
}

fn question(n: usize, qa: Qa, messages: &[Said]) -> Option<Question> {
    let cited = qa.evidence.unwrap_or_default();
    let evidence = existing(cited.iter().flat_map(|Label(text)| turns_in(text)), messages);
    let category = qa.category.checked_sub(1).and_then(|at| CATEGORIES.get(at));
    (!evidence.is_empty()).then(|| Question {
        n,
        text: qa.question.0,
        asked_at: None,
        evidence,
        category: Some(category.map_or_else(|| qa.category.to_string(), |name| (*name).to_owned())),
    })
}

/// Every `D<session>:<turn>` in a text, without leading zeros. A few are written `D8:6; D9:17`, `D:11:26` or `D30:05`.
fn turns_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('D') {
        rest = &rest[at + 1..];
        if let Some((session, turn, after)) = pair(rest) {
            found.push(format!("D{session}:{turn}"));
            rest = after;
        }
    }
    found
}

/// `[:] <number> : <number>` at the start of a text, and what follows.
fn pair(text: &str) -> Option<(u64, u64, &str)> {
    let (session, rest) = number(text.strip_prefix(':').unwrap_or(text).trim_start())?;
    let (turn, rest) = number(rest.trim_start().strip_prefix(':')?.trim_start())?;
    Some((session, turn, rest))
}

fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Chat {
        let turn = |speaker: &str, id: &str, text: &str| json!({"speaker": speaker, "dia_id": id, "text": text});
        let mut photo = turn("Bo", "D2:1", "Look!");
        photo["blip_caption"] = "a red kite".into();
        chat(json!({
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ann", "speaker_b": "Bo",
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [turn("Ann", "D1:1", "I moved."), turn("Bo", "D1:2", "Where to?")],
                "session_2_date_time": "12:05 am on 21 June, 2023",
                "session_2": [photo],
            },
            "qa": [
                {"question": "Who moved?", "answer": "Ann", "evidence": ["D1:1"], "category": 4},
                {"question": "What is nowhere?", "evidence": ["D9:9"], "category": 1},
                {"question": "What flies?", "evidence": ["D2:01; D1:2", "D2:1"], "category": 5},
            ],
        }))
        .expect("a chat")
    }

    #[test]
    fn both_speakers_are_people_with_names() {
        let chat = sample();
        let shown: Vec<String> = chat
            .messages
            .iter()
            .map(|m| format!("{} {} {}: {} ({})", m.id, m.session, m.speaker(), m.text, m.at.expect("a date")))
            .collect();
        assert_eq!(
            shown,
            [
                "D1:1 1 Ann: I moved. (2023-05-08T13:56:00Z)",
                "D1:2 1 Bo: Where to? (2023-05-08T13:56:00Z)",
                "D2:1 2 Bo: Look! [shares a photo of a red kite] (2023-06-21T00:05:00Z)",
            ]
        );
        assert!(chat.messages.iter().all(|said| said.role == Role::User));
    }

    #[test]
    fn questions_keep_their_number_and_the_evidence_that_exists() {
        let asked: Vec<(usize, Vec<String>, Option<String>)> =
            sample().questions.into_iter().map(|q| (q.n, q.evidence, q.category)).collect();
        let expected = [
            (0, vec!["D1:1".to_owned()], Some("single-hop".to_owned())),
            (2, vec!["D2:1".to_owned(), "D1:2".to_owned()], Some("adversarial".to_owned())),
        ];
        assert_eq!(asked, expected);
    }

    #[test]
    fn malformed_evidence_is_read_as_it_was_meant() {
        for (text, expected) in [
            ("D8:6; D9:17", vec!["D8:6", "D9:17"]),
            ("D:11:26", vec!["D11:26"]),
            ("D30:05", vec!["D30:5"]),
            ("D 4 : 2", vec!["D4:2"]),
            ("D", vec![]),
            ("D3", vec![]),
            ("DD3:4", vec!["D3:4"]),
            ("see 3:4", vec![]),
        ] {
            assert_eq!(turns_in(text), expected, "{text}");
        }
    }

    #[test]
    fn both_ways_to_write_a_date_are_read() {
        let read = |text| time(text).map(|at| at.to_string());
        assert_eq!(read(" 12:30 pm on 1 January, 2024 "), Some("2024-01-01T12:30:00Z".into()));
        assert_eq!(read("31.12.2023, 23:59:58"), Some("2023-12-31T23:59:58Z".into()));
        assert_eq!(read("yesterday"), None);
    }
}
