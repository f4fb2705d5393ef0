//! `recalld topics`: what conversations are about, finding a topic, naming and tagging it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::{Client, Need, with_client};
use super::output::{self, Colours, Tint};
use super::sessions::say_message;
use super::table::{ago, flat, table};
use super::{Common, session_id};
use crate::id::{SessionId, TopicId};

/// Flags of `topics`.
#[derive(Debug, Args)]
pub(super) struct TopicsArgs {
    #[command(subcommand)]
    command: Option<TopicsCommand>,
}

/// What to do with topics.
#[derive(Debug, Subcommand)]
enum TopicsCommand {
    /// The topics, those that matter most first.
    List(ListArgs),
    /// One topic, or the one that a session is in.
    Show(ShowArgs),
    /// The topics in which something was said about a question.
    Search(SearchArgs),
    /// Set a topic's tags, or its title.
    Tag(TagArgs),
}

/// Flags of `topics list`.
#[derive(Debug, Default, Args)]
struct ListArgs {
    /// Show topics that were forgotten, too.
    #[arg(long)]
    forgotten: bool,
    /// Show only topics that the next clean-up forgets.
    #[arg(long, conflicts_with = "forgotten")]
    fading: bool,
}

/// Flags of `topics show`.
#[derive(Debug, Args)]
struct ShowArgs {
    #[arg(value_name = "ID", value_parser = topic_id, required_unless_present = "session")]
    id: Option<TopicId>,
    /// Show the topic that this session is in.
    #[arg(long, value_name = "ID", value_parser = session_id, conflicts_with = "id")]
    session: Option<SessionId>,
    /// Show what was said.
    #[arg(long)]
    messages: bool,
}

/// Flags of `topics search`.
#[derive(Debug, Args)]
struct SearchArgs {
    #[arg(value_name = "QUESTION")]
    query: String,
    /// Most topics to find.
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
}

/// Flags of `topics tag`.
#[derive(Debug, Args)]
struct TagArgs {
    #[arg(value_name = "ID", value_parser = topic_id)]
    id: TopicId,
    /// Its tags from now on; none removes all.
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
    /// What it is called from now on; tags then stay as they are, unless some are given.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

fn topic_id(text: &str) -> Result<TopicId, String> {
    TopicId::parse(text).ok_or_else(|| "a topic id is a UUID; `recalld topics list` shows them".to_owned())
}

pub(super) fn topics(common: &Common, args: &TopicsArgs) -> anyhow::Result<ExitCode> {
    let need = if matches!(args.command, Some(TopicsCommand::Search(_))) { Need::Recall } else { Need::Memory };
    with_client(common, need, async |client| {
        match &args.command {
            None => list(client, common, &ListArgs::default()).await?,
            Some(TopicsCommand::List(args)) => list(client, common, args).await?,
            Some(TopicsCommand::Show(args)) => show(client, common, args).await?,
            Some(TopicsCommand::Search(args)) => search(client, common, args).await?,
            Some(TopicsCommand::Tag(args)) => tag(client, common, args).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A topic, as far as people are shown it.
#[derive(Debug, Deserialize)]
struct Seen {
    id: String,
    title: String,
    tags: Vec<String>,
    priority: f64,
    memory_type: String,
    messages: u64,
    last_used: Timestamp,
    forgotten_at: Option<Timestamp>,
}

async fn list(client: &Client, common: &Common, args: &ListArgs) -> anyhow::Result<()> {
    let mut topics = Vec::new();
    let path = match (args.forgotten, args.fading) {
        (true, _) => "/api/v1/topics?include=forgotten",
        (_, true) => "/api/v1/topics?include=fading",
        _ => "/api/v1/topics",
    };
    client.pages(path, "topics", |page| topics.extend(page)).await?;
    if common.json {
        return output::json(&json!({ "topics": topics }));
    }
    say_topics(topics, if args.fading { "no topic fades" } else { "no topics yet; they come with what is said" })
}

/// A table of topics, those that matter most first.
fn say_topics(topics: Vec<Value>, none: &str) -> anyhow::Result<()> {
    let mut seen: Vec<Seen> = topics.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    if seen.is_empty() {
        output::note(none);
        return Ok(());
    }
    seen.sort_by(|a, b| b.priority.total_cmp(&a.priority));
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = seen.iter().map(|topic| row(topic, now)).collect();
    let lines =
        table(&["ID", "PRIORITY", "MEMORY", "MESSAGES", "LAST USED", "TAGS", "TITLE"], &rows, output::columns());
    let colours = Colours::of(&std::io::stdout());
    let paint = |(n, line): (usize, &String)| if n == 0 { colours.paint(Tint::Bold, line) } else { line.clone() };
    lines.iter().enumerate().map(paint).try_for_each(output::say)
}

fn row(topic: &Seen, now: Timestamp) -> Vec<String> {
    let memory = if topic.forgotten_at.is_some() { "forgotten" } else { &topic.memory_type };
    let tags = if topic.tags.is_empty() { "-".to_owned() } else { flat(&topic.tags.join(", ")) };
    vec![
        topic.id.clone(),
        format!("{:.3}", topic.priority),
        memory.to_owned(),
        topic.messages.to_string(),
        ago(topic.last_used, now),
        tags,
        flat(&topic.title),
    ]
}

async fn show(client: &Client, common: &Common, args: &ShowArgs) -> anyhow::Result<()> {
    let of_session = args.session.map(|session| format!("/api/v1/sessions/{session}/topic"));
    let path = of_session.or_else(|| args.id.map(|id| format!("/api/v1/topics/{id}")));
    let mut topic = client.get(&path.expect("one of them must be given")).await?;
    let mut messages = Vec::new();
    if args.messages {
        let path = format!("/api/v1/topics/{}/messages", topic["topic_id"].as_str().unwrap_or_default());
        client.pages(&path, "messages", |page| messages.extend(page)).await?;
    }
    if common.json {
        if args.messages {
            topic["messages"] = messages.into();
        }
        return output::json(&topic);
    }
    for (name, value) in topic.as_object().into_iter().flatten() {
        output::say(format!("{:<20} {}", name.replace('_', " "), in_words(value)))?;
    }
    messages.iter().try_for_each(say_message)
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => flat(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_words).collect();
            if items.is_empty() { "-".to_owned() } else { items.join(", ") }
        }
        other => other.to_string(),
    }
}

async fn search(client: &Client, common: &Common, args: &SearchArgs) -> anyhow::Result<()> {
    let found = client.post_json("/api/v1/topics/search", &json!({"query": args.query, "limit": args.limit})).await?;
    if common.json {
        return output::json(&found);
    }
    let topics = found["topics"].as_array().cloned().unwrap_or_default();
    if topics.is_empty() {
        output::note("nothing was said about that");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = topics.iter().map(found_row).collect();
    table(&["ID", "SCORE", "TITLE", "BEST MESSAGE"], &rows, output::columns()).iter().try_for_each(output::say)
}

fn found_row(topic: &Value) -> Vec<String> {
    let text = |value: &Value| flat(value.as_str().unwrap_or("-"));
    let score = topic["score"].as_f64().map_or_else(|| "tag".to_owned(), |score| format!("{score:.3}"));
    vec![text(&topic["id"]), score, text(&topic["title"]), text(&topic["messages"][0]["text"])]
}

async fn tag(client: &Client, common: &Common, args: &TagArgs) -> anyhow::Result<()> {
    let changed = client.patch(&format!("/api/v1/topics/{}", args.id), &change(args)).await?;
    match common.json {
        true => output::json(&changed),
        false => say_topics(vec![changed], ""),
    }
}

/// What is not given is not sent, so that it stays.
fn change(args: &TagArgs) -> Value {
    let mut change = Map::new();
    if let Some(title) = &args.title {
        change.insert("title".into(), title.as_str().into());
    }
    if args.title.is_none() || !args.tags.is_empty() {
        change.insert("tags".into(), args.tags.clone().into());
    }
    change.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_one_line() {
        let seen: Seen = serde_json::from_value(json!({
            "id": "t", "title": "Which\npaint?", "summary": null, "tags": ["shed", "garden"], "priority": 0.12345,
            "importance": 1.0, "accesses": 5, "memory_type": "transitioning", "half_life_days": 2.0, "messages": 12,
            "created_at": "2026-08-01T10:00:00Z", "last_used": "2026-08-01T11:57:00Z", "forgotten_at": null
        }))
        .expect("as the door shows it");
        let row = row(&seen, "2026-08-01T12:00:00Z".parse().expect("a time"));
        assert_eq!(row, ["t", "0.123", "transitioning", "12", "3 min ago", "shed, garden", "Which paint?"]);
    }

    #[test]
    fn tags_stay_when_only_a_title_is_given() {
        let args = |tags: &[&str], title: Option<&str>| TagArgs {
            id: topic_id("6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11").expect("an id"),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            title: title.map(str::to_owned),
        };
        assert_eq!(change(&args(&["a"], None)), json!({"tags": ["a"]}));
        assert_eq!(change(&args(&[], None)), json!({"tags": []}));
        assert_eq!(change(&args(&[], Some("T"))), json!({"title": "T"}));
        assert_eq!(change(&args(&["a"], Some("T"))), json!({"title": "T", "tags": ["a"]}));
    }
}
