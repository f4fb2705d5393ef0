//! `recalld recall`: what is remembered about a question, and why.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::{Need, with_client};
use super::output::{self, Colours, Tint};
use super::table::{counted, flat, table};
use super::{Common, session_id};
use crate::id::SessionId;

/// How much of a message the table shows.
const BEGINNING_CHARS: usize = 48;
/// How many signals it shows for each.
const SIGNALS: usize = 5;

/// Flags of `recall`.
#[derive(Debug, Args)]
pub(super) struct RecallArgs {
    /// The question.
    #[arg(value_name = "QUESTION")]
    question: String,
    /// The running conversation, for what a follow-up refers to.
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    /// Nothing that was said before this: a day, or a time such as 2026-05-07T09:30:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Nothing that was said at this time or later.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Tokens it may take [default: the setting `recall_tokens`].
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// Most messages to find.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// The kind of chat: people, assistant, mixed or auto.
    #[arg(long, value_name = "KIND")]
    profile: Option<String>,
    /// Show every message and summary that was found and how it was judged.
    #[arg(long)]
    explain: bool,
}

pub(super) fn recall(common: &Common, args: &RecallArgs) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Recall, async |client| {
        let recalled = client.post_json("/api/v1/recall", &request(args)).await?;
        if common.json {
            output::json(&recalled)?;
        } else {
            tell(serde_json::from_value(recalled)?)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The flags as the door takes them; what is not given is not sent.
fn request(args: &RecallArgs) -> Value {
    let RecallArgs { question, session, from, to, tokens, limit, profile, explain } = args;
    let all = json!({
        "question": question, "session_id": session.map(|id| id.to_string()), "from": from, "to": to,
        "tokens": tokens, "limit": limit, "profile": profile, "explain": explain,
    });
    let Value::Object(all) = all else { return all };
    all.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

/// What was recalled, as far as people are shown it.
#[derive(Debug, Deserialize)]
struct Recalled {
    tokens: u64,
    reminders: Vec<Seen>,
    asides: Vec<Beside>,
    candidates: Option<Vec<Candidate>>,
    completed: Option<String>,
    profile: Option<String>,
    with_vectors: bool,
    searched: u64,
    took_ms: f64,
}

#[derive(Debug, Deserialize)]
struct Seen {
    role: String,
    name: Option<String>,
    text: String,
    said_at: Timestamp,
    reason: String,
}

/// What stands beside messages.
#[derive(Debug, Deserialize)]
struct Beside {
    layer: String,
    level: Option<String>,
    turn_first: Option<u64>,
    turn_last: Option<u64>,
    from: Option<Timestamp>,
    text: String,
    score: f64,
    fate: String,
    signals: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Candidate {
    role: Option<String>,
    name: Option<String>,
    text: Option<String>,
    said_at: Option<Timestamp>,
    score: f64,
    fate: String,
    signals: Map<String, Value>,
}

fn tell(recalled: Recalled) -> anyhow::Result<()> {
    let colours = Colours::of(&std::io::stdout());
    let kept = recalled.asides.iter().filter(|beside| beside.fate == "kept");
    let rows: Vec<Vec<String>> = recalled.reminders.iter().map(row).chain(kept.map(beside_row)).collect();
    if rows.is_empty() {
        output::say("nothing is remembered about that")?;
    } else {
        say_table(&["SAID", "WHO", "WHY", "TEXT"], &rows, colours)?;
    }
    if let Some(candidates) = &recalled.candidates {
        output::say("")?;
        let head = ["RANK", "SCORE", "FATE", "WHO", "SAID", "TEXT", "STRONGEST SIGNALS"];
        let rows: Vec<Vec<String>> = candidates.iter().enumerate().map(candidate_row).collect();
        say_table(&head, &rows, colours)?;
        tell_asides(&recalled.asides, colours)?;
    }
    output::note(colours.paint(Tint::Dim, &summary(&recalled)));
    Ok(())
}

/// How summaries, and whatever else stands beside messages, were judged.
fn tell_asides(asides: &[Beside], colours: Colours) -> anyhow::Result<()> {
    if asides.is_empty() {
        return Ok(());
    }
    output::say("")?;
    let row = |beside: &Beside| {
        vec![
            beside.layer.clone(),
            format!("{:.3}", beside.score),
            beside.fate.clone(),
            beside.told_of(),
            beside.from.map_or_else(|| "-".into(), day),
            beginning(&beside.text),
            strongest(&beside.signals),
        ]
    };
    let head = ["LAYER", "SCORE", "FATE", "TELLS OF", "FROM", "TEXT", "STRONGEST SIGNALS"];
    say_table(&head, &asides.iter().map(row).collect::<Vec<_>>(), colours)
}

impl Beside {
    /// `hour, turns 21-40`.
    fn told_of(&self) -> String {
        match (&self.level, self.turn_first, self.turn_last) {
            (Some(level), Some(first), Some(last)) => format!("{level}, turns {first}-{last}"),
            _ => "-".into(),
        }
    }
}

fn beside_row(beside: &Beside) -> Vec<String> {
    let said = beside.from.map_or_else(|| "-".into(), day);
    vec![said, beside.told_of(), beside.layer.clone(), flat(&beside.text)]
}

fn say_table(head: &[&str], rows: &[Vec<String>], colours: Colours) -> anyhow::Result<()> {
    let lines = table(head, rows, output::columns());
    let paint = |(n, line): (usize, &String)| if n == 0 { colours.paint(Tint::Bold, line) } else { line.clone() };
    lines.iter().enumerate().map(paint).try_for_each(output::say)
}

fn summary(recalled: &Recalled) -> String {
    let Recalled { tokens, searched, took_ms, .. } = recalled;
    let vectors = if recalled.with_vectors { "words and vectors" } else { "words alone" };
    let profile = recalled.profile.as_deref().unwrap_or("-");
    let told = format!(
        "{}; searched {} by {vectors}, as a chat of kind {profile}, in {took_ms:.1} ms",
        counted(*tokens, "token"),
        counted(*searched, "message")
    );
    match &recalled.completed {
        Some(completed) => format!("{told}\nread as: {}", flat(completed)),
        None => told,
    }
}

fn row(seen: &Seen) -> Vec<String> {
    vec![day(seen.said_at), who(Some(&seen.role), seen.name.as_deref()), seen.reason.clone(), flat(&seen.text)]
}

fn candidate_row((at, candidate): (usize, &Candidate)) -> Vec<String> {
    vec![
        (at + 1).to_string(),
        format!("{:.3}", candidate.score),
        candidate.fate.clone(),
        who(candidate.role.as_deref(), candidate.name.as_deref()),
        candidate.said_at.map_or_else(|| "-".into(), day),
        beginning(candidate.text.as_deref().unwrap_or("-")),
        strongest(&candidate.signals),
    ]
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn who(role: Option<&str>, name: Option<&str>) -> String {
    flat(name.or(role).unwrap_or("-"))
}

fn beginning(text: &str) -> String {
    let text = flat(text);
    match text.char_indices().nth(BEGINNING_CHARS) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text,
    }
}

/// The signals that moved the score most, either way.
fn strongest(signals: &Map<String, Value>) -> String {
    let mut parts: Vec<(&str, f64)> =
        signals.iter().filter_map(|(name, part)| Some((name.as_str(), part.as_f64()?))).collect();
    parts.retain(|(_, part)| *part != 0.0);
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(b.0)));
    parts.iter().take(SIGNALS).map(|(name, part)| format!("{name} {part:+.2}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_one_line() {
        let candidate: Candidate = serde_json::from_value(json!({
            "message_id": "m", "turn_id": "t", "session_id": null, "role": "user", "name": "Ann",
            "text": format!("first\nsecond {}", "x".repeat(99)), "said_at": "2026-01-02T12:00:00.000000Z",
            "score": 1.5, "fate": "kept",
            "signals": {"a": 0.1, "b": -2.0, "c": 0.0, "d": 0.3, "e": 0.4, "f": 0.5, "g": 0.2}
        }))
        .expect("as the door shows it");
        let row = candidate_row((0, &candidate));
        assert_eq!(row[..5], ["1", "1.500", "kept", "Ann", "2026-01-02"]);
        assert!(row[5].starts_with("first second xxx") && row[5].ends_with('…'), "{}", row[5]);
        assert_eq!(row[6], "b -2.00, f +0.50, e +0.40, d +0.30, g +0.20");
    }

    #[test]
    fn a_summary_is_one_line_too() {
        let beside: Beside = serde_json::from_value(json!({
            "layer": "episodes", "id": "e", "session_id": "s", "level": "stretch", "turn_first": 1, "turn_last": 20,
            "from": "2026-01-02T12:00:00.000000Z", "to": "2026-01-02T12:00:00.000000Z", "text": "user: one\nuser: two",
            "score": 0.5, "fate": "kept", "signals": {"words": 0.5}
        }))
        .expect("as the door shows it");
        assert_eq!(beside_row(&beside), ["2026-01-02", "stretch, turns 1-20", "episodes", "user: one user: two"]);
    }

    #[test]
    fn what_is_not_given_is_not_sent() {
        let args = RecallArgs {
            question: "q".into(),
            session: None,
            from: Some("2026-01-01".into()),
            to: None,
            tokens: None,
            limit: Some(3),
            profile: None,
            explain: false,
        };
        assert_eq!(request(&args), json!({"question": "q", "from": "2026-01-01", "limit": 3, "explain": false}));
    }

    #[test]
    fn the_summary_says_how_it_was_found() {
        let recalled: Recalled = serde_json::from_value(json!({
            "text": "", "tokens": 1, "reminders": [], "asides": [], "completed": "which products safety helmet", "profile": "mixed",
            "with_vectors": false, "searched": 9, "took_ms": 0.25
        }))
        .expect("as the door shows it");
        let told = summary(&recalled);
        assert_eq!(
            told,
            "1 token; searched 9 messages by words alone, as a chat of kind mixed, in 0.2 ms\nread as: which products safety helmet"
        );
    }
}
