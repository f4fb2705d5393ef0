//! Dialogs whose later questions only make sense with the earlier ones, and what each of them means.
//!
//! Two formats are told apart by their content: CANARD's, a list of questions each with its history, and CAsT's, a
//! list of topics each with its turns.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

/// A dialog.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Dialog {
    pub(super) id: String,
    /// From the first on; the last may have no answer.
    pub(super) turns: Vec<DialogTurn>,
    /// The questions that are scored.
    pub(super) items: Vec<Item>,
}

/// A raw question and its answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DialogTurn {
    pub(super) question: String,
    pub(super) answer: Option<String>,
}

/// A follow-up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    /// Counted from one.
    pub(super) n: usize,
    pub(super) question: String,
    /// What a person made of it, who saw the history.
    pub(super) rewrite: String,
}

impl Item {
    /// Follow-ups are scored from the fifth question on, where they differ from what they mean.
    fn is_scored(&self) -> bool {
        self.n >= 5 && self.question.trim() != self.rewrite.trim()
    }
}

impl Dialog {
    /// What was said before question `n`, oldest first.
    pub(super) fn before(&self, n: usize) -> Vec<String> {
        let texts = |turn: &DialogTurn| std::iter::once(turn.question.clone()).chain(turn.answer.clone());
        self.turns.iter().take(n - 1).flat_map(texts).collect()
    }
}

/// Reads a file of dialogs.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Dialog>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    parse(&text).with_context(|| format!("{shown} holds no dialogs"))
}

fn parse(text: &str) -> anyhow::Result<Vec<Dialog>> {
    let list: Value = serde_json::from_str(text).context("the file is no JSON")?;
    match list.get(0) {
        Some(first) if first.get("History").is_some() => Ok(canard(serde_json::from_value(list)?)),
        Some(first) if first.get("turns").is_some() => Ok(cast(serde_json::from_value(list)?)),
        _ => bail!("its first entry has neither a `History` nor `turns`"),
    }
}

#[derive(Deserialize)]
struct CanardItem {
    /// Title, section, then questions and answers.
    #[serde(rename = "History")]
    history: Vec<String>,
    #[serde(rename = "Question")]
    question: String,
    #[serde(rename = "Rewrite")]
    rewrite: String,
    #[serde(rename = "QuAC_dialog_id")]
    dialog: String,
    #[serde(rename = "Question_no")]
    n: usize,
}

fn canard(items: Vec<CanardItem>) -> Vec<Dialog> {
    let mut dialogs: Vec<Dialog> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for item in items {
        let place = *places.entry(item.dialog.clone()).or_insert(dialogs.len());
        if place == dialogs.len() {
            dialogs.push(Dialog { id: item.dialog.clone(), ..Dialog::default() });
        }
        let dialog = &mut dialogs[place];
        // The longest history of a dialog has all its turns; only the last question stays without an answer.
        if item.n > dialog.turns.len() {
            let said = item.history.get(2..).unwrap_or_default().chunks(2);
            let turn = |pair: &[String]| DialogTurn { question: pair[0].clone(), answer: pair.get(1).cloned() };
            dialog.turns = said.map(turn).collect();
            dialog.turns.push(DialogTurn { question: item.question.clone(), answer: None });
        }
        dialog.items.push(Item { n: item.n, question: item.question, rewrite: item.rewrite });
    }
    dialogs.iter_mut().for_each(|dialog| dialog.items.retain(Item::is_scored));
    dialogs
}

#[derive(Deserialize)]
struct CastTopic {
    year: u32,
    topic: u32,
    turns: Vec<CastTurn>,
}

#[derive(Deserialize)]
struct CastTurn {
    raw: String,
    rewrite: String,
    #[serde(default)]
    response: Option<String>,
}

fn cast(topics: Vec<CastTopic>) -> Vec<Dialog> {
    let dialog = |topic: CastTopic| {
        let numbered = || (1..).zip(&topic.turns);
        let item =
            |(n, turn): (usize, &CastTurn)| Item { n, question: turn.raw.clone(), rewrite: turn.rewrite.clone() };
        let answer = |turn: &CastTurn| turn.response.clone().filter(|text| !text.trim().is_empty());
        Dialog {
            id: format!("{}_{}", topic.year, topic.topic),
            turns: numbered().map(|(_, t)| DialogTurn { question: t.raw.clone(), answer: answer(t) }).collect(),
            items: numbered().map(item).filter(Item::is_scored).collect(),
        }
    };
    topics.into_iter().map(dialog).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn canard_file() -> String {
        let history = ["A title", "A section", "Who was she?", "A pilot.", "When?", "In 1930."];
        let more = ["Where?", "In Delft.", "Why there?", "For the wind."];
        let item = |n: usize, question: &str, rewrite: &str| {
            let history: Vec<&str> = history.iter().chain(&more).copied().take(2 * n).collect();
            json!({"History": history, "Question": question, "Rewrite": rewrite,
                   "QuAC_dialog_id": "d", "Question_no": n})
        };
        json!([
            item(1, "Who was she?", "Who was Bea Blom?"),
            item(2, "When?", "When was Bea Blom a pilot?"),
            item(5, "And then?", "What did Bea Blom do then?"),
        ])
        .to_string()
    }

    #[test]
    fn a_dialog_has_all_turns_of_its_longest_history() {
        let dialogs = parse(&canard_file()).expect("dialogs");
        let [dialog] = &dialogs[..] else { panic!("one dialog") };
        let shown: Vec<String> = dialog
            .turns
            .iter()
            .map(|turn| format!("{} {}", turn.question, turn.answer.as_deref().unwrap_or("-")))
            .collect();
        let expected =
            ["Who was she? A pilot.", "When? In 1930.", "Where? In Delft.", "Why there? For the wind.", "And then? -"];
        assert_eq!(shown, expected);
        assert_eq!(dialog.items.iter().map(|item| item.n).collect::<Vec<_>>(), [5], "earlier ones are not scored");
    }

    #[test]
    fn the_past_ends_before_the_question() {
        let dialogs = parse(&canard_file()).expect("dialogs");
        assert_eq!(dialogs[0].before(3), ["Who was she?", "A pilot.", "When?", "In 1930."]);
        assert_eq!(dialogs[0].before(1), [""; 0]);
    }

    #[test]
    fn topics_are_dialogs_too() {
        let turn = |n: usize| json!({"n": n, "raw": format!("raw {n}"), "rewrite": if n == 6 { "raw 6" } else { "x" }});
        let mut turns: Vec<Value> = (1..=7).map(turn).collect();
        turns[1]["response"] = "Yes.".into();
        let dialogs = parse(&json!([{"year": 2019, "topic": 31, "title": "t", "turns": turns}]).to_string());
        let dialogs = dialogs.expect("dialogs");
        assert_eq!(dialogs[0].id, "2019_31");
        assert_eq!(dialogs[0].before(3), ["raw 1", "raw 2", "Yes."]);
        assert_eq!(dialogs[0].items.iter().map(|item| item.n).collect::<Vec<_>>(), [5, 7]);
    }

    #[test]
    fn something_else_is_refused() {
        assert!(parse("[]").is_err() && parse("[{}]").is_err() && parse("no").is_err());
    }
}
