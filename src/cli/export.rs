//! `recalld export`: a memory as lines of JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::HeaderMap;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::client::{Ask, Client, Need, with_client};
use super::failure::{Advised, Failure};
use super::output;
use super::table::counted;
use super::{Common, session_id};
use crate::id::SessionId;
use crate::takeout::{Line, Summary, open};

/// The end of what was written that is looked at again: a last line is much shorter.
const TAIL_BYTES: usize = 4 << 10;

/// Flags of `export`. `--user` is everybody's: without it all users are exported.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// One conversation.
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
    /// Only what was said since: a day or a time.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Ephemeral conversations, too.
    #[arg(long)]
    live: bool,
    /// Go on behind the line with this cursor.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Write to a file that does not exist yet [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A day, which begins at midnight UTC, or a time.
fn since(text: &str) -> Result<Timestamp, String> {
    let wrong = |_| "a day such as 2026-05-12, or a time such as 2026-05-12T14:03:00Z".to_owned();
    text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).map_err(wrong)
}

pub(super) fn export(common: &Common, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let everyone = common.names_nobody() && args.session.is_none();
    with_client(common, Need::Memory, async |client| {
        let summary = write_out(client, args, &path(args, everyone)).await?;
        let (sessions, turns) = (counted(summary.sessions, "conversation"), counted(summary.turns, "turn"));
        output::note(format!("exported {sessions} with {turns}"));
        if summary.damaged > 0 {
            output::note(format!(
                "error: {} could not be read; `recalld doctor` says more",
                counted(summary.damaged, "turn")
            ));
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What to ask for. Whoever names nobody means everybody; a conversation is looked for in one user's memory.
fn path(args: &ExportArgs, everyone: bool) -> String {
    let mut path = format!("/api/v1/export?everyone={everyone}&live={}", args.live);
    let session = args.session.map(|id| id.to_string());
    for (name, value) in
        [("session", session), ("since", args.since.map(|at| at.to_string())), ("after", args.after.clone())]
    {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC)));
        }
    }
    path
}

async fn write_out(client: &Client, args: &ExportArgs, path: &str) -> anyhow::Result<Summary> {
    let headers = HeaderMap::new();
    let response = client.send(Ask { method: Method::GET, path, headers, body: None }).await?;
    let mut file = args.output.as_deref().map(make).transpose()?;
    let (mut body, mut tail) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let piece = frame.map_err(|error| broke_off(&error.to_string(), &tail))?;
        let Some(piece) = piece.data_ref() else { continue };
        match &mut file {
            Some(file) => std::io::Write::write_all(file, piece).context("cannot write the file")?,
            None => output::bytes(piece)?,
        }
        tail.extend_from_slice(piece);
        tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
    }
    if let Some(file) = &file {
        file.sync_all().context("cannot write the file")?;
    }
    let last = String::from_utf8_lossy(&tail);
    match last.lines().last().map(open) {
        Some(Ok(Line::End(summary))) => Ok(summary),
        _ => Err(broke_off("it has no last line", &tail)),
    }
}

/// A new file, readable by nobody else: it holds what people said.
fn make(path: &std::path::Path) -> anyhow::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).with_context(|| format!("cannot make `{}`", path.display()))
}

/// An export that broke off can go on behind its last whole line.
fn broke_off(reason: &str, tail: &[u8]) -> anyhow::Error {
    let failure = Failure::BrokeOff(reason.to_owned());
    match last_cursor(tail) {
        Some(cursor) => {
            let hint = format!("go on behind its last whole line with --after '{cursor}'");
            Advised::new("the export is not whole", hint, failure).into()
        }
        None => failure.into(),
    }
}

fn last_cursor(tail: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(tail);
    text.lines().rev().find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line.get("cursor")?.as_str().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight() {
        assert_eq!(since("2026-05-12").map(|at| at.to_string()), Ok("2026-05-12T00:00:00Z".into()));
        assert_eq!(since("2026-05-12T14:03:00+02:00").map(|at| at.to_string()), Ok("2026-05-12T12:03:00Z".into()));
        assert!(since("yesterday").is_err());
    }

    #[test]
    fn an_export_goes_on_behind_its_last_whole_line() {
        let tail = b"cut\"}\n{\"type\":\"turn\",\"cursor\":\"turn:x:3:ann\"}\n{\"type\":\"tu";
        assert_eq!(last_cursor(tail).as_deref(), Some("turn:x:3:ann"));
        assert_eq!(last_cursor(b"{\"type\":\"head"), None);
    }
}
