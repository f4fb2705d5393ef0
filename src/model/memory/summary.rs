//! The task of telling a stretch of talk in a few lines.

use serde::Deserialize;
use serde_json::{Value, json};

use super::heard::Heard;
use super::{Task, talk};
use crate::model::summarise::Talk;

/// Tells a stretch of talk.
#[derive(Debug, Clone, Copy)]
pub struct SummaryTask<'a> {
    /// What was said, and in how many tokens it is to be told.
    pub talk: &'a Talk,
}

/// A line as the model writes it.
#[derive(Debug, Deserialize)]
pub(super) struct WrittenLine {
    who: String,
    what: String,
}

#[derive(Debug, Deserialize)]
struct Written {
    lines: Vec<WrittenLine>,
}

impl Task for SummaryTask<'_> {
    type Answer = String;

    fn name(&self) -> &'static str {
        "summary-1"
    }

    fn prompt(&self) -> &'static str {
        include_str!("summary.prompt.md")
    }

    fn input(&self, bytes_max: usize) -> String {
        let asked = format!("Tell this in at most {} words.\n", words(self.talk.tokens_max));
        let written = talk::written(self.talk, bytes_max.saturating_sub(asked.len()));
        asked + &written
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "lines": lines_schema(self.talk) },
            "required": ["lines"],
            "additionalProperties": false,
        })
    }

    fn parse(&self, answer: &Value) -> Result<String, String> {
        let written: Written = serde_json::from_value(answer.clone()).map_err(|error| error.to_string())?;
        read_lines(written.lines, self.talk)
    }
}

/// How many words a summary of so many tokens has, roughly; names and numbers take more than one.
pub(super) fn words(tokens_max: usize) -> usize {
    (tokens_max * 2 / 3).max(10)
}

/// The shape of a summary's lines: somebody who spoke, and what they said.
pub(super) fn lines_schema(talk: &Talk) -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": { "who": { "type": "string", "enum": talk::speakers(talk) }, "what": { "type": "string" } },
            "required": ["who", "what"],
            "additionalProperties": false,
        },
    })
}

/// Lines as a summary's text. Nobody may be made to say something who did not speak, and what has no word in common with what
/// was said, or a number that nobody said, is left out.
pub(super) fn read_lines(lines: Vec<WrittenLine>, talk: &Talk) -> Result<String, String> {
    let speakers = talk::speakers(talk);
    if let Some(stranger) = lines.iter().find(|line| !speakers.contains(&talk::name(&line.who))) {
        return Err(format!("`{}` did not speak; `who` must be one of {}", stranger.who, speakers.join(", ")));
    }
    let heard = Heard::of(talk);
    let lines = lines.into_iter().filter(|line| heard.has(&line.what));
    let lines: Vec<(String, String)> = lines.map(|line| (line.who, line.what)).collect();
    talk::summary(&lines, talk.tokens_max).ok_or_else(|| "`lines` tells nothing that was said".to_owned())
}
