//! `recalld facts`: what is known about a user, where it was said, and setting it right.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Common;
use super::client::{Client, Need, with_client};
use super::output::{self, Colours, Tint};
use super::table::{ago, flat, short, table};
use crate::id::{FactId, MessageId, UndoId};
use crate::scope::User;

/// Flags of `facts`.
#[derive(Debug, Args)]
pub(super) struct FactsArgs {
    #[command(subcommand)]
    command: Option<FactsCommand>,
}

/// What to do with facts.
#[derive(Debug, Subcommand)]
enum FactsCommand {
    /// What is known, the most important first.
    List(ListArgs),
    /// One fact, and where it was said.
    Show(OneArgs),
    /// What happened to a fact and to others of its key.
    History(OneArgs),
    /// Write a fact down.
    Add(AddArgs),
    /// Set a fact right.
    Correct(CorrectArgs),
    /// Take a fact back.
    Retract(OneArgs),
    /// Undo what happened to a fact, what a message or a time brought, or an undoing.
    Undo(UndoArgs),
}

/// Flags of `facts list`.
#[derive(Debug, Default, Args)]
struct ListArgs {
    /// Those with this status instead of the active ones; `any` is all.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// What was believed at this time, such as 2026-03-01T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    as_of: Option<Timestamp>,
}

/// Flags of commands about one fact.
#[derive(Debug, Args)]
struct OneArgs {
    #[arg(value_name = "ID", value_parser = fact_id)]
    id: FactId,
}

/// Flags of `facts add`.
#[derive(Debug, Args)]
struct AddArgs {
    /// What it is about: name, location, pet/rex.
    #[arg(id = "about", value_name = "KEY")]
    key: String,
    #[arg(value_name = "VALUE")]
    value: String,
    /// identity, preference, constraint or instruction [default: found by the key].
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    /// How much it matters, from 0.2 to 1.
    #[arg(long, value_name = "N")]
    importance: Option<f64>,
    /// Until when it holds.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

/// Flags of `facts correct`.
#[derive(Debug, Args)]
struct CorrectArgs {
    #[arg(value_name = "ID", value_parser = fact_id)]
    id: FactId,
    /// What is true instead [default: what it says].
    #[arg(value_name = "VALUE")]
    value: Option<String>,
    /// How much it matters, from 0.2 to 1.
    #[arg(long, value_name = "N")]
    importance: Option<f64>,
    /// Until when it holds.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

/// Flags of `facts undo`.
#[derive(Debug, Args)]
#[group(required = true)]
struct UndoArgs {
    /// The last thing that happened to this fact.
    #[arg(value_name = "ID", value_parser = fact_id, conflicts_with_all = ["message", "undo", "from"])]
    id: Option<FactId>,
    /// Whatever was learned from this message.
    #[arg(long, value_name = "ID", value_parser = message_id, conflicts_with_all = ["undo", "from"])]
    message: Option<MessageId>,
    /// This undoing.
    #[arg(long, value_name = "ID", value_parser = undo_id, conflicts_with = "from")]
    undo: Option<UndoId>,
    /// Whatever was learned from this time on.
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Up to this time [default: now].
    #[arg(long, value_name = "TIME", requires = "from")]
    to: Option<Timestamp>,
}

fn fact_id(text: &str) -> Result<FactId, String> {
    FactId::parse(text).ok_or_else(|| "a fact id is a UUID; `recalld facts list` shows them".to_owned())
}

fn message_id(text: &str) -> Result<MessageId, String> {
    MessageId::parse(text).ok_or_else(|| "a message id is a UUID; `recalld facts show` tells it".to_owned())
}

fn undo_id(text: &str) -> Result<UndoId, String> {
    UndoId::parse(text).ok_or_else(|| "an undo id is a UUID; `recalld facts history` tells it".to_owned())
}

pub(super) fn facts(common: &Common, args: &FactsArgs) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Memory, async |client| {
        match &args.command {
            None => list(client, common, &ListArgs::default()).await?,
            Some(FactsCommand::List(args)) => list(client, common, args).await?,
            Some(FactsCommand::Show(args)) => show(client, common, args).await?,
            Some(FactsCommand::History(args)) => history(client, common, args).await?,
            Some(FactsCommand::Add(args)) => add(client, common, args).await?,
            Some(FactsCommand::Correct(args)) => correct(client, common, args).await?,
            Some(FactsCommand::Retract(args)) => {
                let fact = client.delete(&format!("/api/v1/facts/{}", args.id)).await?;
                say_changed(common, fact)?;
            }
            Some(FactsCommand::Undo(args)) => undo(client, common, args).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A user's facts; nobody in particular is a user too.
fn path(common: &Common) -> String {
    let user = common.user.as_deref().filter(|user| !user.trim().is_empty()).unwrap_or(User::ANONYMOUS);
    format!("/api/v1/users/{}/facts", utf8_percent_encode(user, NON_ALPHANUMERIC))
}

/// A fact, as far as people are shown it.
#[derive(Debug, Deserialize)]
struct Seen {
    id: String,
    category: String,
    key: String,
    value: String,
    confidence: f64,
    importance: f64,
    status: String,
    valid_from: Timestamp,
    valid_to: Option<Timestamp>,
    evidence: Evidence,
}

/// Where a fact was said.
#[derive(Debug, Deserialize)]
struct Evidence {
    message_id: Option<String>,
    session_id: Option<String>,
    said_at: Timestamp,
    quote: String,
    #[serde(default)]
    confirmations: u64,
}

async fn list(client: &Client, common: &Common, args: &ListArgs) -> anyhow::Result<()> {
    let mut facts = Vec::new();
    let as_of = args.as_of.map_or_else(String::new, |time| format!("&as_of={time}"));
    let status = args.status.as_deref().unwrap_or("active");
    let status = utf8_percent_encode(status, NON_ALPHANUMERIC);
    let path = format!("{}?status={status}{as_of}", path(common));
    client.pages(&path, "facts", |page| facts.extend(page)).await?;
    if common.json {
        return output::json(&json!({ "facts": facts }));
    }
    say_facts(facts, "nothing is known yet; tell me about yourself")
}

/// A table of facts, those that matter most first.
fn say_facts(facts: Vec<Value>, none: &str) -> anyhow::Result<()> {
    let mut seen: Vec<Seen> = facts.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    if seen.is_empty() {
        output::note(none);
        return Ok(());
    }
    seen.sort_by(|a, b| b.importance.total_cmp(&a.importance).then_with(|| a.key.cmp(&b.key)));
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = seen.iter().map(|fact| row(fact, now)).collect();
    let head = ["ID", "STATUS", "MATTERS", "SURE", "SAID", "TIMES", "KEY", "VALUE"];
    let lines = table(&head, &rows, output::columns());
    let colours = Colours::of(&std::io::stdout());
    let paint = |(n, line): (usize, &String)| if n == 0 { colours.paint(Tint::Bold, line) } else { line.clone() };
    lines.iter().enumerate().map(paint).try_for_each(output::say)
}

fn row(fact: &Seen, now: Timestamp) -> Vec<String> {
    vec![
        fact.id.clone(),
        fact.status.clone(),
        format!("{:.2}", fact.importance),
        format!("{:.2}", fact.confidence),
        ago(fact.evidence.said_at, now),
        fact.evidence.confirmations.to_string(),
        format!("{}/{}", fact.category, flat(&fact.key)),
        flat(&fact.value),
    ]
}

async fn show(client: &Client, common: &Common, args: &OneArgs) -> anyhow::Result<()> {
    let fact = client.get(&format!("/api/v1/facts/{}", args.id)).await?;
    if common.json {
        return output::json(&fact);
    }
    let lines = describe(serde_json::from_value(fact)?, Timestamp::now());
    lines.into_iter().try_for_each(|(name, value)| output::say(format!("{name:<10} {value}")))
}

/// A fact in words.
fn describe(fact: Seen, now: Timestamp) -> Vec<(&'static str, String)> {
    let Evidence { message_id, session_id, said_at, quote, confirmations } = fact.evidence;
    let until = fact.valid_to.map_or_else(|| "now".to_owned(), short);
    vec![
        ("fact", fact.id),
        ("key", format!("{}/{}", fact.category, flat(&fact.key))),
        ("value", flat(&fact.value)),
        ("status", fact.status),
        ("sure", format!("{:.2}", fact.confidence)),
        ("matters", format!("{:.2}", fact.importance)),
        ("true", format!("{} to {until}", short(fact.valid_from))),
        ("said", format!("{} ({}), {confirmations} times", short(said_at), ago(said_at, now))),
        ("message", message_id.unwrap_or_else(|| "written down by hand".to_owned())),
        ("session", session_id.unwrap_or_else(|| "-".to_owned())),
        ("words", if quote.is_empty() { "-".to_owned() } else { flat(&quote) }),
    ]
}

async fn history(client: &Client, common: &Common, args: &OneArgs) -> anyhow::Result<()> {
    let history = client.get(&format!("/api/v1/facts/{}/history", args.id)).await?;
    if common.json {
        return output::json(&history);
    }
    let text = |value: &Value| flat(value.as_str().unwrap_or("-"));
    let when = |value: &Value| value.as_str().and_then(|at| at.parse().ok()).map(short).unwrap_or_default();
    let event = |event: &Value| {
        let source = if event["undo_id"].is_string() { &event["undo_id"] } else { &event["message_id"] };
        vec![when(&event["at"]), text(&event["event"]), text(&event["value"]), text(&event["cause"]), text(source)]
    };
    let rows: Vec<Vec<String>> = history["events"].as_array().into_iter().flatten().map(event).collect();
    let head = ["WHEN", "WHAT", "VALUE", "BECAUSE OF", "MESSAGE OR UNDO"];
    table(&head, &rows, output::columns()).iter().try_for_each(output::say)?;
    output::say("")?;
    let said = |said: &Value| vec![when(&said["said_at"]), text(&said["session_id"]), text(&said["quote"])];
    let rows: Vec<Vec<String>> = history["evidence"].as_array().into_iter().flatten().map(said).collect();
    table(&["SAID", "SESSION", "WORDS"], &rows, output::columns()).iter().try_for_each(output::say)
}

/// What is not given is not sent.
fn given(fields: [(&str, Value); 5]) -> Value {
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

async fn add(client: &Client, common: &Common, args: &AddArgs) -> anyhow::Result<()> {
    let draft = given([
        ("key", json!(args.key)),
        ("value", json!(args.value)),
        ("category", json!(args.category)),
        ("importance", json!(args.importance)),
        ("until", json!(args.until)),
    ]);
    say_changed(common, client.post_json(&path(common), &draft).await?)
}

async fn correct(client: &Client, common: &Common, args: &CorrectArgs) -> anyhow::Result<()> {
    let nothing = ("", Value::Null);
    let (value, matters, until) = (json!(args.value), json!(args.importance), json!(args.until));
    let change = given([("value", value), ("importance", matters), ("until", until), nothing.clone(), nothing]);
    say_changed(common, client.patch(&format!("/api/v1/facts/{}", args.id), &change).await?)
}

fn say_changed(common: &Common, fact: Value) -> anyhow::Result<()> {
    if common.json { output::json(&fact) } else { say_facts(vec![fact], "") }
}

async fn undo(client: &Client, common: &Common, args: &UndoArgs) -> anyhow::Result<()> {
    let request = given([
        ("fact_id", json!(args.id)),
        ("message_id", json!(args.message)),
        ("undo_id", json!(args.undo)),
        ("from", json!(args.from)),
        ("to", json!(args.to)),
    ]);
    let undone = client.post_json(&format!("{}/undo", path(common)), &request).await?;
    if common.json {
        return output::json(&undone);
    }
    say_facts(undone["facts"].as_array().cloned().unwrap_or_default(), "nothing changed by it")?;
    let id = undone["undo_id"].as_str().unwrap_or("-");
    output::note(format!("`recalld facts undo --undo {id}` turns this over again"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        serde_json::from_value(json!({
            "id": "f", "category": "identity", "key": "location", "value": "Lis\nbon", "confidence": 0.9,
            "importance": 0.8, "status": "active", "valid_from": "2026-08-01T10:00:00Z", "valid_to": null,
            "learned_at": "2026-08-01T10:00:00Z", "ended_by": null,
            "evidence": {"message_id": "m", "session_id": "s", "said_at": "2026-08-01T10:00:00Z",
                         "quote": "I live in\u{1b} Lisbon", "confirmations": 3, "last_said_at": "2026-08-01T10:00:00Z"},
        }))
        .expect("a fact")
    }

    #[test]
    fn a_fact_is_one_line() {
        let now = "2026-08-01T12:00:00Z".parse().expect("a time");
        let row = row(&seen(), now);
        assert_eq!(row, ["f", "active", "0.80", "0.90", "2 h ago", "3", "identity/location", "Lis bon"]);
    }

    #[test]
    fn a_fact_is_told_with_its_source() {
        let told = describe(seen(), "2026-08-01T12:00:00Z".parse().expect("a time"));
        let find = |name: &str| told.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        assert_eq!((find("message"), find("session")), (Some("m"), Some("s")));
        assert!(find("words").is_some_and(|words| words.ends_with("Lisbon")));
    }

    #[test]
    fn whose_facts_is_said_in_the_path() {
        let path_of = |user: Option<&str>| path(&Common { user: user.map(str::to_owned), ..Common::default() });
        assert_eq!(path_of(None), "/api/v1/users/anonymous/facts");
        assert_eq!(path_of(Some("ann/b?c")), "/api/v1/users/ann%2Fb%3Fc/facts");
    }
}
