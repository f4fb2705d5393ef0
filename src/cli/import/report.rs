//! What an import came to, for people and for scripts.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::cli::output;
use crate::cli::table::counted;
use crate::takeout::{FactRecord, Format, Line, ReadError};

/// Bad records that are told one by one; all are counted.
const BAD_TOLD_MAX: usize = 1_000;
/// And on a terminal.
const BAD_SAID_MAX: usize = 20;

/// What became of a file.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    file: String,
    format: &'static str,
    /// What the file has.
    found: Counts,
    /// What is new here.
    new: Counts,
    /// Turns that were here, and those that were here without the answer that came now.
    turns_known: u64,
    turns_completed: u64,
    /// What is no part of a memory, by reason.
    passed: BTreeMap<String, u64>,
    bad_count: u64,
    bad: Vec<Bad>,
    /// Why the file was not read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    conversations: u64,
    turns: u64,
    messages: u64,
    topics: u64,
    episodes: u64,
    facts: u64,
    documents: u64,
}

#[derive(Debug, Serialize)]
struct Bad {
    at: String,
    reason: String,
}

impl Report {
    pub(super) fn of(path: &Path, format: Format) -> Self {
        Self { file: path.display().to_string(), format: format.as_str(), ..Self::default() }
    }

    pub(super) fn pass(&mut self, reason: &str) {
        *self.passed.entry(reason.to_owned()).or_default() += 1;
    }

    pub(super) fn bad(&mut self, at: String, reason: String) {
        self.bad_count += 1;
        if self.bad.len() < BAD_TOLD_MAX {
            self.bad.push(Bad { at, reason });
        }
    }

    /// Counts a record of the file.
    pub(super) fn count(&mut self, line: &Line) {
        match line {
            Line::Session(..) => self.found.conversations += 1,
            Line::Turn(_, turn) => {
                self.found.turns += 1;
                self.found.messages += turn.messages.len() as u64;
            }
            Line::Topic(..) => self.found.topics += 1,
            Line::Episode(..) => self.found.episodes += 1,
            Line::Fact(_, FactRecord::Known(_)) => self.found.facts += 1,
            Line::Document(_) => self.found.documents += 1,
            Line::Fact(..) | Line::Passage(..) | Line::Part(_) => {}
            Line::Header(_) | Line::Damaged(_) | Line::End(_) => {}
        }
    }

    /// Adds what became of a batch; `origins` says where its lines come from.
    pub(super) fn add(&mut self, answer: &Value, origins: &[String]) {
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        self.new.conversations += number("sessions");
        self.new.turns += number("turns");
        self.new.messages += number("messages");
        self.new.topics += number("topics");
        self.new.episodes += number("episodes");
        self.new.facts += number("facts");
        self.new.documents += number("documents");
        self.turns_known += number("turns_known");
        self.turns_completed += number("turns_completed");
        let told = answer["refused"].as_array().map_or(&[][..], Vec::as_slice);
        for refused in told {
            let line = refused["line"].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap_or(0);
            let at = origins.get(line.wrapping_sub(1)).cloned().unwrap_or_else(|| "somewhere".to_owned());
            self.bad(at, refused["reason"].as_str().unwrap_or("refused").to_owned());
        }
        self.bad_count += number("refused_count").saturating_sub(told.len() as u64);
    }

    pub(super) fn ended(&mut self, read: Result<(), ReadError>) {
        self.broken = read.err().map(|error| error.to_string());
    }

    /// Whether the file was read to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.broken.is_none()
    }

    /// Whether nothing is wrong with it.
    pub(super) fn is_well(&self) -> bool {
        self.is_whole() && self.bad_count == 0
    }

    /// How far it has come, in a few words.
    pub(super) fn progress(&self) -> String {
        format!(
            "{} with {}",
            counted(self.found.conversations, "conversation"),
            counted(self.found.messages, "message")
        )
    }

    fn lines(&self, dry: bool) -> Vec<String> {
        let Counts { conversations, turns, messages, .. } = &self.new;
        let found = self.progress();
        let (would, turns) = (if dry { "would be new" } else { "are new" }, counted(*turns, "turn"));
        let mut lines = vec![
            format!("{} ({}): {found}", self.file, self.format),
            format!(
                "  {would}: {}, {turns}, {}",
                counted(*conversations, "conversation"),
                counted(*messages, "message")
            ),
        ];
        if self.turns_known + self.turns_completed > 0 {
            let completed = match self.turns_completed {
                0 => String::new(),
                turns => format!("; {} got the answer that was missing", counted(turns, "turn")),
            };
            lines.push(format!("  were here: {}{completed}", counted(self.turns_known, "turn")));
        }
        lines.extend(self.passed.iter().map(|(reason, count)| format!("  passed over: {count} ({reason})")));
        lines
    }

    fn complaints(&self) -> Vec<String> {
        let told =
            self.bad.iter().take(BAD_SAID_MAX).map(|bad| format!("error: {}, {}: {}", self.file, bad.at, bad.reason));
        let mut lines: Vec<String> = told.collect();
        let rest = self.bad_count.saturating_sub(lines.len() as u64);
        if rest > 0 {
            lines.push(format!("error: {rest} more; --json tells them"));
        }
        lines.extend(self.broken.iter().map(|reason| format!("error: {}: {reason}", self.file)));
        lines
    }
}

/// Tells what became of the files.
pub(super) fn tell(reports: &[Report], json: bool, dry: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&serde_json::json!({ "dry_run": dry, "files": reports }));
    }
    for report in reports {
        report.lines(dry).iter().try_for_each(output::say)?;
        report.complaints().iter().for_each(|line| output::note(output::harmless(line)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_says_what_is_new_and_what_is_wrong() {
        let mut report = Report::of(Path::new("chats.json"), Format::ChatGpt);
        report.pass("hidden");
        report.bad("[0]".into(), "it has no id".into());
        let answer = json!({"sessions": 1, "turns": 2, "messages": 4, "turns_known": 3, "refused_count": 1,
                            "refused": [{"line": 2, "reason": "too long"}]});
        report.add(&answer, &["[1]".into(), "[2]".into()]);
        assert_eq!(
            report.lines(true).join("\n"),
            "chats.json (chatgpt): 0 conversations with 0 messages
  would be new: 1 conversation, 2 turns, 4 messages
  were here: 3 turns
  passed over: 1 (hidden)"
        );
        assert_eq!(report.complaints(), ["error: chats.json, [0]: it has no id", "error: chats.json, [2]: too long"]);
        assert!(!report.is_well() && report.is_whole());
    }
}
