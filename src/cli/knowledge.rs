//! `recalld knowledge`: what a tenant knows. Files are added, listed, searched and removed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use bytes::Bytes;
use clap::{Args, Subcommand};
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Common;
use super::client::{Ask, Client, Need, with_client};
use super::failure::Failure;
use super::output::{self, Colours, Tint};
use super::table::{ago, bytes, counted, flat, table};
use crate::id::DocumentId;

/// Flags of `knowledge`.
#[derive(Debug, Args)]
pub(super) struct KnowledgeArgs {
    #[command(subcommand)]
    command: Option<KnowledgeCommand>,
}

/// What to do with what a tenant knows.
#[derive(Debug, Subcommand)]
enum KnowledgeCommand {
    /// Add files: text, Markdown, HTML, CSV, JSON, PDF, DOCX, XLSX, PPTX. One whose name is known is a new version.
    Add(AddArgs),
    /// The documents.
    List,
    /// One document.
    Show(ShowArgs),
    /// The passages that are nearest to a question.
    Search(SearchArgs),
    /// Remove documents with everything that was made of them.
    Remove(RemoveArgs),
}

/// Flags of `knowledge add`.
#[derive(Debug, Args)]
struct AddArgs {
    /// What to add; `-` is standard input, with --name.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What a single file is called [default: its own name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What a single file is called in citations [default: what it calls itself].
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Flags of `knowledge show`.
#[derive(Debug, Args)]
struct ShowArgs {
    #[arg(value_name = "ID", value_parser = document_id)]
    id: DocumentId,
    /// Show what it was cut into.
    #[arg(long)]
    passages: bool,
}

/// Flags of `knowledge search`.
#[derive(Debug, Args)]
struct SearchArgs {
    #[arg(value_name = "QUESTION")]
    query: String,
    /// Most passages to find.
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,
}

/// Flags of `knowledge remove`.
#[derive(Debug, Args)]
struct RemoveArgs {
    #[arg(value_name = "ID", value_parser = document_id, required = true)]
    ids: Vec<DocumentId>,
}

fn document_id(text: &str) -> Result<DocumentId, String> {
    DocumentId::parse(text).ok_or_else(|| "a document id is a UUID; `recalld knowledge list` shows them".to_owned())
}

pub(super) fn knowledge(common: &Common, args: &KnowledgeArgs) -> anyhow::Result<ExitCode> {
    let need = match args.command {
        Some(KnowledgeCommand::Add(_) | KnowledgeCommand::Search(_)) => Need::Recall,
        _ => Need::Memory,
    };
    with_client(common, need, async |client| match &args.command {
        None | Some(KnowledgeCommand::List) => list(client, common).await,
        Some(KnowledgeCommand::Add(args)) => add(client, common, args).await,
        Some(KnowledgeCommand::Show(args)) => show(client, common, args).await,
        Some(KnowledgeCommand::Search(args)) => search(client, common, args).await,
        Some(KnowledgeCommand::Remove(args)) => remove(client, common, args).await,
    })
}

/// A file and what it is called.
type Named<'a> = (&'a Path, String);

/// Adds files one by one; one that is refused keeps no other from being added.
async fn add(client: &Client, common: &Common, args: &AddArgs) -> anyhow::Result<ExitCode> {
    let files = named(args)?;
    let bar = bar(files.len() as u64);
    let (mut added, mut refused) = (Vec::new(), Vec::new());
    for (path, name) in files {
        bar.set_message(flat(&name));
        match upload(client, path, &name, args.title.as_deref()).await {
            Ok(documents) => added.extend(documents),
            Err(error) if is_refusal(&error) => refused.push((name, error)),
            Err(error) => return Err(error),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    tell(common, added, &refused)?;
    Ok(if refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether it is the file's fault, and not the server's.
fn is_refusal(error: &anyhow::Error) -> bool {
    let status = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(Failure::Refused { status, .. }) => Some(*status),
        _ => None,
    });
    matches!(status, Some(400 | 413 | 415))
}

fn named(args: &AddArgs) -> anyhow::Result<Vec<Named<'_>>> {
    if args.files.len() > 1 && (args.name.is_some() || args.title.is_some()) {
        return Err(Failure::Usage("--name and --title are for a single file".into()).into());
    }
    let mut named: Vec<Named<'_>> = Vec::new();
    for path in &args.files {
        let own = || path.file_name().filter(|name| *name != "-").map(|name| name.to_string_lossy().into_owned());
        let Some(name) = args.name.clone().or_else(own) else {
            return Err(Failure::Usage(format!("`{}` has no name; give it one with --name", path.display())).into());
        };
        if named.iter().any(|(_, other)| *other == name) {
            let told = format!("two files are called `{name}`, and the second would take the place of the first");
            return Err(Failure::Usage(told).into());
        }
        named.push((path, name));
    }
    Ok(named)
}

async fn upload(client: &Client, path: &Path, name: &str, title: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let title = title.map_or_else(String::new, |title| format!("&title={}", encoded(title)));
    let url = format!("/api/v1/knowledge?name={}{title}", encoded(name));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let ask = Ask { method: Method::POST, path: &url, headers, body: None };
    let mut answer = client.whole_of(ask, read(path)?).await?;
    Ok(match answer["documents"].take() {
        Value::Array(documents) => documents,
        _ => Vec::new(),
    })
}

fn read(path: &Path) -> anyhow::Result<Bytes> {
    let what = || format!("cannot read `{}`", path.display());
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).with_context(what)?;
        return Ok(bytes.into());
    }
    Ok(std::fs::read(path).with_context(what)?.into())
}

/// Shown on a terminal only.
fn bar(files: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(files).with_style(style)
}

fn tell(common: &Common, added: Vec<Value>, refused: &[(String, anyhow::Error)]) -> anyhow::Result<()> {
    if common.json {
        let refused: Vec<Value> =
            refused.iter().map(|(name, error)| json!({"name": name, "error": error.to_string()})).collect();
        return output::json(&json!({ "documents": added, "refused": refused }));
    }
    let (documents, passages) = (added.len() as u64, added.iter().filter_map(|one| one["passages"].as_u64()).sum());
    say_documents(added)?;
    for (name, error) in refused {
        output::note(format!("{}: {error}", flat(name)));
    }
    output::note(format!("{} with {}", counted(documents, "document"), counted(passages, "passage")));
    Ok(())
}

async fn list(client: &Client, common: &Common) -> anyhow::Result<ExitCode> {
    let mut documents = Vec::new();
    client.pages("/api/v1/knowledge", "documents", |page| documents.extend(page)).await?;
    match common.json {
        true => output::json(&json!({ "documents": documents }))?,
        false if documents.is_empty() => output::note("no documents yet; `recalld knowledge add FILE` adds one"),
        false => say_documents(documents)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A document, as far as people are shown it.
#[derive(Debug, Deserialize)]
struct Seen {
    id: String,
    name: String,
    title: String,
    kind: String,
    version: u32,
    bytes: u64,
    passages: u64,
    updated_at: Timestamp,
}

fn say_documents(documents: Vec<Value>) -> anyhow::Result<()> {
    if documents.is_empty() {
        return Ok(());
    }
    let seen: Vec<Seen> = documents.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    let now = Timestamp::now();
    let row = |one: &Seen| {
        let (version, passages) = (one.version.to_string(), one.passages.to_string());
        let (size, age) = (bytes(one.bytes), ago(one.updated_at, now));
        vec![one.id.clone(), one.kind.clone(), version, size, passages, age, flat(&one.name), flat(&one.title)]
    };
    let rows: Vec<Vec<String>> = seen.iter().map(row).collect();
    let head = ["ID", "KIND", "VERSION", "SIZE", "PASSAGES", "CHANGED", "NAME", "TITLE"];
    let colours = Colours::of(&std::io::stdout());
    let paint = |(n, line): (usize, &String)| if n == 0 { colours.paint(Tint::Bold, line) } else { line.clone() };
    table(&head, &rows, output::columns()).iter().enumerate().map(paint).try_for_each(output::say)
}

async fn show(client: &Client, common: &Common, args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let path = format!("/api/v1/knowledge/{}", args.id);
    let mut document = client.get(&path).await?;
    let mut passages = Vec::new();
    if args.passages {
        client.pages(&format!("{path}/passages"), "passages", |page| passages.extend(page)).await?;
    }
    if common.json {
        if args.passages {
            document["passages"] = passages.into();
        }
        output::json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in document.as_object().into_iter().flatten() {
        let told = value.as_str().map_or_else(|| value.to_string(), flat);
        output::say(format!("{:<20} {told}", name.replace('_', " ")))?;
    }
    passages.iter().try_for_each(|passage| say_passage(passage, &passage["number"].to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn say_passage(passage: &Value, mark: &str) -> anyhow::Result<()> {
    let text = |name: &str| flat(passage[name].as_str().unwrap_or(""));
    let place = [text("document_title"), text("heading"), text("place")];
    let place = place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" › ");
    let colours = Colours::of(&std::io::stdout());
    output::say(colours.paint(Tint::Bold, &format!("\n[{mark}] {place}")))?;
    output::say(text("text"))
}

async fn search(client: &Client, common: &Common, args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let question = json!({"query": args.query, "limit": args.limit});
    let found = client.post_json("/api/v1/knowledge/search", &question).await?;
    if common.json {
        output::json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let passages = found["passages"].as_array().cloned().unwrap_or_default();
    let related: Vec<&Value> = passages.iter().filter(|passage| passage["related"] == true).collect();
    if related.is_empty() {
        output::note("nothing is known about that");
    }
    for passage in related {
        say_passage(passage, &format!("{:.2}", passage["similarity"].as_f64().unwrap_or(0.0)))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(client: &Client, common: &Common, args: &RemoveArgs) -> anyhow::Result<ExitCode> {
    let mut removed = Vec::new();
    for id in &args.ids {
        removed.push(client.delete(&format!("/api/v1/knowledge/{id}")).await?);
    }
    match common.json {
        true => output::json(&json!({ "removed": removed }))?,
        false => output::note(format!("{} removed", counted(removed.len() as u64, "document"))),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(files: &[&str], name: Option<&str>) -> AddArgs {
        AddArgs { files: files.iter().map(PathBuf::from).collect(), name: name.map(str::to_owned), title: None }
    }

    #[test]
    fn files_are_called_by_their_own_names() {
        let given = args(&["docs/a.md", "../b.pdf"], None);
        let names: Vec<String> = named(&given).expect("names").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a.md", "b.pdf"]);
        for bad in [args(&["x/a", "y/a"], None), args(&["-"], None), args(&["a", "b"], Some("c")), args(&["/"], None)] {
            assert!(named(&bad).is_err(), "{bad:?}");
        }
        assert_eq!(named(&args(&["-"], Some("n.txt"))).expect("a name")[0].1, "n.txt");
    }
}
