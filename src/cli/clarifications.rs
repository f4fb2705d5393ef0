//! `recalld clarifications`: questions that wait for a choice.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Client, Need, Place, with_client};
use super::failure::Failure;
use super::output;
use super::table::{flat, table};
use super::{Common, session_id};
use crate::id::SessionId;

/// Flags of `clarifications`.
#[derive(Debug, Args)]
pub(super) struct ClarificationsArgs {
    #[command(subcommand)]
    command: Option<ClarificationsCommand>,
}

/// What to do with clarifications.
#[derive(Debug, Subcommand)]
enum ClarificationsCommand {
    /// What waits for an answer, oldest first.
    List,
    /// Ask somebody to choose: their next message in the session is read as an answer.
    Set(SetArgs),
    /// Let go of what waits for an answer in a session.
    Drop(DropArgs),
}

/// Flags of `clarifications set`.
#[derive(Debug, Args)]
struct SetArgs {
    #[arg(value_name = "SESSION", value_parser = session_id)]
    session: SessionId,
    #[arg(value_name = "QUESTION")]
    question: String,
    /// What there is to choose from: a name, or a name and what is known of it: "Blue mug; price=12 EUR; color=blue".
    #[arg(value_name = "OPTION", required = true, num_args = 2..)]
    options: Vec<String>,
}

/// Flags of `clarifications drop`.
#[derive(Debug, Args)]
struct DropArgs {
    #[arg(value_name = "SESSION", value_parser = session_id)]
    session: SessionId,
}

const ROUTE: &str = "/api/v1/clarifications";

pub(super) fn clarifications(common: &Common, args: &ClarificationsArgs) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Memory, async |client| {
        if matches!(client.place(), Place::File(..)) {
            return Err(Failure::NoServer("clarifications").into());
        }
        match &args.command {
            None | Some(ClarificationsCommand::List) => list(client, common).await?,
            Some(ClarificationsCommand::Set(args)) => set(client, common, args).await?,
            Some(ClarificationsCommand::Drop(args)) => drop_one(client, common, args).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn list(client: &Client, common: &Common) -> anyhow::Result<()> {
    let mut open = Vec::new();
    client.pages(ROUTE, "clarifications", |page| open.extend(page)).await?;
    if common.json {
        return output::json(&json!({ "clarifications": open }));
    }
    if open.is_empty() {
        output::note("nothing waits for an answer");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = open.iter().map(row).collect();
    table(&["SESSION", "UNTIL", "QUESTION", "OPTIONS"], &rows, output::columns()).iter().try_for_each(output::say)
}

fn row(open: &Value) -> Vec<String> {
    let text = |value: &Value| flat(value.as_str().unwrap_or("-"));
    let options = open["options"].as_array().into_iter().flatten();
    let options: Vec<String> = options.map(|option| text(&option["label"])).collect();
    vec![text(&open["session_id"]), text(&open["expires_at"]), text(&open["question"]), options.join(" · ")]
}

async fn set(client: &Client, common: &Common, args: &SetArgs) -> anyhow::Result<()> {
    let options: Vec<Value> = args.options.iter().map(|option| option_of(option)).collect();
    let body = json!({"session_id": args.session.to_string(), "question": args.question, "options": options});
    let open = client.post_json(ROUTE, &body).await?;
    match common.json {
        true => output::json(&open),
        false => output::say(format!("waits for an answer until {}", flat(open["expires_at"].as_str().unwrap_or("-")))),
    }
}

/// `Blue mug; price=12 EUR`: a name, then what is known.
fn option_of(text: &str) -> Value {
    let mut parts = text.split(';').map(str::trim);
    let label = parts.next().unwrap_or_default();
    let known: Option<Vec<(&str, &str)>> = parts.map(|part| part.split_once('=')).collect();
    match known {
        Some(known) => {
            let attribute = |(name, value): (&str, &str)| (name.trim().to_owned(), Value::from(value.trim()));
            json!({"label": label, "attributes": known.into_iter().map(attribute).collect::<Map<_, _>>()})
        }
        // A semicolon that says nothing is part of the name.
        None => json!({"label": text}),
    }
}

async fn drop_one(client: &Client, common: &Common, args: &DropArgs) -> anyhow::Result<()> {
    let dropped = client.delete(&format!("{ROUTE}/{}", args.session)).await?;
    match common.json {
        true => output::json(&dropped),
        false => output::say("let go"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_name_and_what_is_known() {
        assert_eq!(option_of("Blue mug"), json!({"label": "Blue mug", "attributes": {}}));
        assert_eq!(
            option_of("Blue mug; price = 12 EUR;color=blue"),
            json!({"label": "Blue mug", "attributes": {"price": "12 EUR", "color": "blue"}})
        );
        assert_eq!(option_of("this; that"), json!({"label": "this; that"}));
    }

    #[test]
    fn a_clarification_is_one_line() {
        let open = json!({"session_id": "s", "question": "Which\none?", "expires_at": "2026-01-01T12:05:00Z",
                          "options": [{"label": "a"}, {"label": "b"}]});
        assert_eq!(row(&open), ["s", "2026-01-01T12:05:00Z", "Which one?", "a · b"]);
    }
}
