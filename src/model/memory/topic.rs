//! The task of telling a topic and finding a name for it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::heard::Heard;
use super::summary::{WrittenLine, lines_schema, read_lines, words};
use super::{Task, talk};
use crate::model::summarise::Talk;

/// A longer title is no title.
const TITLE_CHARS_MAX: usize = 80;

/// Tells a topic and names it.
#[derive(Debug, Clone, Copy)]
pub struct TopicTask<'a> {
    /// What was said, and in how many tokens it is to be told.
    pub talk: &'a Talk,
}

/// A topic, told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicAnswer {
    /// What to call it.
    pub title: String,
    /// What was said in it.
    pub summary: String,
}

#[derive(Debug, Deserialize)]
struct Written {
    title: String,
    lines: Vec<WrittenLine>,
}

impl Task for TopicTask<'_> {
    type Answer = TopicAnswer;

    fn name(&self) -> &'static str {
        "topic-1"
    }

    fn prompt(&self) -> &'static str {
        include_str!("topic.prompt.md")
    }

    fn input(&self, bytes_max: usize) -> String {
        let asked = format!("Name this topic and tell it in at most {} words.\n", words(self.talk.tokens_max));
        let written = talk::written(self.talk, bytes_max.saturating_sub(asked.len()));
        asked + &written
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "title": { "type": "string" }, "lines": lines_schema(self.talk) },
            "required": ["title", "lines"],
            "additionalProperties": false,
        })
    }

    fn parse(&self, answer: &Value) -> Result<TopicAnswer, String> {
        let written: Written = serde_json::from_value(answer.clone()).map_err(|error| error.to_string())?;
        let title = title(&written.title)?;
        if !Heard::of(self.talk).has_numbers_of(&title) {
            return Err("`title` has a number that nobody said".to_owned());
        }
        Ok(TopicAnswer { title, summary: read_lines(written.lines, self.talk)? })
    }
}

/// A title on one line, without the quotes that models like to put around it.
fn title(written: &str) -> Result<String, String> {
    let line = written.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = line.trim_matches(['"', '\'', '“', '”', '.', '…', ' ']).to_owned();
    match title.chars().count() {
        0 => Err("`title` is empty".to_owned()),
        1..=TITLE_CHARS_MAX => Ok(title),
        chars => Err(format!("`title` has {chars} characters, it must have at most {TITLE_CHARS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_title_is_a_short_line() {
        assert_eq!(title(" \"Paint for\nthe shed.\" ").as_deref(), Ok("Paint for the shed"));
        assert_eq!(title("é".repeat(80).as_str()), Ok("é".repeat(80)));
        assert!(title(" \"\" ").is_err() && title("…").is_err() && title("a".repeat(81).as_str()).is_err());
    }
}
