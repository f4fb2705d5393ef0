//! `recalld sessions`: which conversations there are, what is in one, and removing it.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::{Client, Need, with_client};
use super::failure::Failure;
use super::output::{self, Colours, Tint};
use super::table::{ago, counted, flat, short, table};
use super::{Common, session_id};
use crate::live::LiveName;

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// The conversations, the last used first.
    List(ListArgs),
    /// One conversation.
    Show(ShowArgs),
    /// Remove a conversation and all that is in it.
    Delete(DeleteArgs),
    /// End a visitor's session now; whoever waits for its end is told.
    End(EndArgs),
}

/// Flags of `sessions list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Most to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Show all.
    #[arg(long)]
    all: bool,
    /// Those of the tenant's visitors, which last for a while.
    #[arg(long)]
    live: bool,
}

/// Flags of `sessions show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// A UUID, or `tenant:session` for a visitor's.
    #[arg(value_name = "ID", value_parser = any_session)]
    id: String,
    /// Show what was said.
    #[arg(long)]
    messages: bool,
}

/// Flags of `sessions delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    /// A UUID, or `tenant:session` for a visitor's.
    #[arg(value_name = "ID", value_parser = any_session)]
    id: String,
    /// Do not ask whether you are sure.
    #[arg(long, short)]
    yes: bool,
}

/// Flags of `sessions end`.
#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// `tenant:session`.
    #[arg(value_name = "ID", value_parser = any_session)]
    id: String,
}

/// Reads a session's id, or a visitor's session.
fn any_session(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((tenant, name)) if !tenant.is_empty() => LiveName::parse(name)
            .map(|_| text.to_owned())
            .map_err(|error| format!("the session after the colon {error}")),
        _ => session_id(text).map(|id| id.to_string()),
    }
}

pub(super) fn sessions(common: &Common, command: &SessionsCommand) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Memory, async |client| {
        match command {
            SessionsCommand::List(args) => list(client, common, args).await?,
            SessionsCommand::Show(args) => show(client, common, args).await?,
            SessionsCommand::Delete(args) => delete(client, common, args).await?,
            SessionsCommand::End(args) => end(client, common, args).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A session, as far as people are shown it.
#[derive(Debug, Deserialize)]
struct Seen {
    id: String,
    user_id: String,
    kind: String,
    turns: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
    metadata: Map<String, Value>,
}

async fn list(client: &Client, common: &Common, args: &ListArgs) -> anyhow::Result<()> {
    let limit = if args.all { usize::MAX } else { args.limit };
    let (mut newest, mut total) = (Vec::new(), 0);
    let keep = |page: Vec<Value>| {
        total += page.len();
        newest.extend(page);
        keep_newest(&mut newest, limit);
    };
    let path = if args.live { "/api/v1/sessions?kind=ephemeral" } else { "/api/v1/sessions" };
    client.pages(path, "sessions", keep).await?;
    if common.json {
        return output::json(&json!({ "sessions": newest, "total": total }));
    }
    if newest.is_empty() {
        output::note("no conversations yet; `recalld chat` begins one");
        return Ok(());
    }
    show_list(client, newest, total).await
}

/// The door lists the oldest first; people look for what they did last. Times of one form sort as text.
fn keep_newest(sessions: &mut Vec<Value>, limit: usize) {
    sessions.sort_by(|a, b| b["updated_at"].as_str().cmp(&a["updated_at"].as_str()));
    sessions.truncate(limit);
}

async fn show_list(client: &Client, sessions: Vec<Value>, total: usize) -> anyhow::Result<()> {
    let (now, shown) = (Timestamp::now(), sessions.len());
    let mut rows = Vec::new();
    for session in sessions {
        let seen: Seen = serde_json::from_value(session)?;
        let question = first_question(client, &seen.id).await?;
        rows.push(vec![
            seen.id,
            seen.turns.to_string(),
            ago(seen.created_at, now),
            ago(seen.updated_at, now),
            question,
        ]);
    }
    let lines = table(&["ID", "TURNS", "BEGUN", "LAST TURN", "FIRST QUESTION"], &rows, output::columns());
    let colours = Colours::of(&std::io::stdout());
    for (n, line) in lines.iter().enumerate() {
        if n == 0 { output::say(colours.paint(Tint::Bold, line))? } else { output::say(line)? }
    }
    if shown < total {
        output::note(format!("{shown} of {total}; --all shows the rest"));
    }
    Ok(())
}

/// What a conversation began with: the name people know it by.
async fn first_question(client: &Client, id: &str) -> Result<String, Failure> {
    let page = client.get(&format!("/api/v1/sessions/{id}/turns?limit=1")).await?;
    Ok(flat(page["turns"][0]["query_text"].as_str().unwrap_or("-")))
}

async fn show(client: &Client, common: &Common, args: &ShowArgs) -> anyhow::Result<()> {
    let path = format!("/api/v1/sessions/{}", args.id);
    let mut session = client.get(&path).await?;
    let mut messages = Vec::new();
    if args.messages {
        client.pages(&format!("{path}/messages"), "messages", |page| messages.extend(page)).await?;
    }
    if common.json {
        if args.messages {
            session["messages"] = messages.into();
        }
        return output::json(&session);
    }
    for (name, value) in describe(serde_json::from_value(session)?, Timestamp::now()) {
        output::say(format!("{name:<10} {value}"))?;
    }
    messages.iter().try_for_each(say_message)
}

/// A session in words.
fn describe(seen: Seen, now: Timestamp) -> Vec<(&'static str, String)> {
    let time = |at: Timestamp| format!("{} ({})", short(at), ago(at, now));
    let metadata = seen.metadata.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={}", flat(text)),
        other => format!("{name}={other}"),
    });
    vec![
        ("session", seen.id),
        ("user", flat(&seen.user_id)),
        ("kind", seen.kind),
        ("turns", seen.turns.to_string()),
        ("begun", time(seen.created_at)),
        ("last turn", time(seen.updated_at)),
        ("expires", seen.expires_at.map_or("never".into(), short)),
        ("metadata", metadata.collect::<Vec<_>>().join(" ")),
    ]
}

pub(super) fn say_message(message: &Value) -> anyhow::Result<()> {
    let at = message["created_at"].as_str().and_then(|at| at.parse().ok()).map(short).unwrap_or_default();
    let head = format!("{} {}", message["role"].as_str().unwrap_or("-"), at);
    output::say(format!("\n{}", Colours::of(&std::io::stdout()).paint(Tint::Dim, &head)))?;
    // Parts, such as images, are shown as they were sent.
    let content = message["content"].as_str().map_or_else(|| message["content"].to_string(), str::to_owned);
    output::piece(&format!("{content}\n"))
}

async fn delete(client: &Client, common: &Common, args: &DeleteArgs) -> anyhow::Result<()> {
    let path = format!("/api/v1/sessions/{}", args.id);
    let turns = client.get(&path).await?["turns"].as_u64().unwrap_or_default();
    if !args.yes && !is_sure(&args.id, turns)? {
        output::note("nothing was deleted");
        return Ok(());
    }
    let deleted = client.delete(&path).await?;
    if common.json {
        return output::json(&deleted);
    }
    let turns = deleted["turns_deleted"].as_u64().unwrap_or_default();
    output::say(format!("deleted session {} with {}", args.id, counted(turns, "turn")))
}

async fn end(client: &Client, common: &Common, args: &EndArgs) -> anyhow::Result<()> {
    let ended = client.post(&format!("/api/v1/sessions/{}/end", args.id)).await?;
    if common.json {
        return output::json(&ended);
    }
    let messages = ended["message_count"].as_u64().unwrap_or_default();
    output::say(format!("ended session {} with {}", args.id, counted(messages, "message")))
}

/// Asks the person; nobody to ask is an error, because a script should say what it wants.
fn is_sure(id: &str, turns: u64) -> anyhow::Result<bool> {
    let turns = counted(turns, "turn");
    if !std::io::stdin().is_terminal() {
        let told = format!("session {id} has {turns}; without a terminal --yes is needed to delete it");
        return Err(Failure::Usage(told).into());
    }
    output::prompt(&format!("Delete session {id} with {turns}? This cannot be undone. [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes" | "j" | "ja")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_come_first_and_the_rest_is_left_out() {
        let session = |n: u8| json!({ "id": n, "updated_at": format!("2026-08-0{n}T00:00:00.000000Z") });
        let mut sessions = vec![session(1), session(3), session(2)];
        keep_newest(&mut sessions, 2);
        assert_eq!(sessions, [session(3), session(2)]);
    }

    #[test]
    fn a_session_is_described_in_words() {
        let seen: Seen = serde_json::from_value(json!({
            "id": "6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11", "tenant_id": "default", "user_id": "ann", "kind": "durable",
            "turns": 2, "created_at": "2026-08-01T10:00:00Z", "updated_at": "2026-08-01T11:58:00Z",
            "last_accessed": "2026-08-01T11:58:00Z", "expires_at": null,
            "metadata": { "created_via": "chat", "n": 1 }
        }))
        .expect("as the door shows it");
        let told = describe(seen, "2026-08-01T12:00:00Z".parse().expect("a time"));
        let value = |name: &str| told.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str());
        assert_eq!(value("begun"), Some("2026-08-01 10:00:00 UTC (2 h ago)"));
        assert_eq!(value("last turn"), Some("2026-08-01 11:58:00 UTC (2 min ago)"));
        assert_eq!(value("expires"), Some("never"));
        assert_eq!(value("metadata"), Some("created_via=chat n=1"));
    }

    #[test]
    fn only_a_clear_yes_deletes() {
        for yes in ["y\n", "YES", "ja"] {
            assert!(is_yes(yes), "{yes}");
        }
        for no in ["", "\n", "n", "yeah, no"] {
            assert!(!is_yes(no), "{no}");
        }
    }
}
