//! Data sets of others, in which nobody noted what is to be learned: how often anything was.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use super::learn;
use crate::cli::bench::recall::sheet::{Cell, Sheet};
use crate::cli::bench::recall::title;

/// Reads a file of personas (lists of statements) or of conversations with observations.
pub(super) fn sheet(file: &Path) -> anyhow::Result<Sheet> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let all: Vec<Value> = serde_json::from_str(&text).with_context(|| format!("{} is no JSON list", file.display()))?;
    match all.first() {
        Some(first) if first.get("conversation").is_some() => Ok(observations(&all)),
        Some(first) if first.get("Speaker 1").is_some() => Ok(personas(&all)),
        _ => bail!("{} holds neither personas nor conversations with observations", file.display()),
    }
}

fn personas(all: &[Value]) -> Sheet {
    let statements: Vec<&str> = ["Speaker 1", "Speaker 2"]
        .iter()
        .flat_map(|speaker| all.iter().filter_map(|pair| pair.get(*speaker)?.as_array()))
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let learned = statements.iter().filter(|text| !learn(text).facts.is_empty()).count();
    let mut sheet = Sheet::new(title("Personas", "statements of which something was learned"), &["n", "learned", "%"]);
    let share = learned as f64 / statements.len().max(1) as f64;
    sheet.rows.push(vec![Cell::Count(statements.len()), Cell::Count(learned), Cell::percent(share)]);
    sheet
}

/// Facts that a model noted of a conversation, each with the message that it was said in.
fn observations(all: &[Value]) -> Sheet {
    let (mut messages, mut taught, mut facts, mut noted, mut met) = (0, 0, 0, 0, 0);
    for chat in all {
        let learned = learned_by_message(chat);
        messages += learned.len();
        taught += learned.values().filter(|count| 0 < **count).count();
        facts += learned.values().sum::<usize>();
        for id in noted_messages(chat) {
            noted += 1;
            met += usize::from(learned.get(id).is_some_and(|count| 0 < *count));
        }
    }
    let head = ["messages", "with a fact", "facts", "observations", "in a message with a fact", "%"];
    let mut sheet = Sheet::new(title("Conversations", "observations whose message taught something"), &head);
    let counts = [messages, taught, facts, noted, met].map(Cell::Count);
    sheet.rows.push(counts.into_iter().chain([Cell::percent(met as f64 / noted.max(1) as f64)]).collect());
    sheet
}

fn learned_by_message(chat: &Value) -> HashMap<&str, usize> {
    let sessions = chat["conversation"].as_object().into_iter().flatten().filter_map(|(_, session)| session.as_array());
    sessions.flatten().filter_map(learned_from).collect()
}

fn learned_from(message: &Value) -> Option<(&str, usize)> {
    Some((message["dia_id"].as_str()?, learn(message["text"].as_str()?).facts.len()))
}

fn noted_messages(chat: &Value) -> Vec<&str> {
    let sessions = chat["observation"].as_object().into_iter().flatten();
    let speakers = sessions.flat_map(|(_, speakers)| speakers.as_object().into_iter().flatten());
    let noted = speakers.flat_map(|(_, noted)| noted.as_array().into_iter().flatten());
    noted.filter_map(|note| note.get(1)?.as_str()).collect()
}
