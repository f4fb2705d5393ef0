//! The commands, from a file to a table, on chats of a few lines.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use serde_json::{Value, json};

use super::sheet::Sheet;
use super::{followups, learn, rank, speed};
use crate::recall::{Profile, WeightTable};

/// A command line of one command.
#[derive(Debug, Parser)]
struct Line<A: Args> {
    #[command(flatten)]
    args: A,
}

fn line<A: Args + std::fmt::Debug>(words: &str) -> A {
    Line::<A>::parse_from(format!("bench {words}").split_whitespace()).args
}

/// What the table has in a column of a row.
#[track_caller]
fn cell(sheet: &Sheet, first: &str, second: Option<&str>, column: &str) -> Value {
    let sheet = serde_json::to_value(sheet).expect("plain values");
    let head = |row: &Value, at: usize| row.as_object().and_then(|row| row.values().nth(at).cloned());
    let rows = sheet["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| {
        head(row, 0) == Some(first.into()) && second.is_none_or(|second| head(row, 1) == Some(second.into()))
    });
    row.unwrap_or_else(|| panic!("no row `{first}` in {sheet}"))[column].clone()
}

/// Two chats; in each a message is asked for by its own words.
fn chats(folder: &Path) -> PathBuf {
    let said = |id: usize, role: &str, content: &str, session: usize| {
        json!({"id": id, "role": role, "content": content, "session": session,
               "created_at": format!("2026-03-0{session}T10:0{id}:00Z")})
    };
    let chat = |id: &str, thing: &str| {
        json!({"id": id, "messages": [
            said(1, "user", "Good morning to you.", 1),
            said(2, "assistant", "Good morning, what can I do?", 1),
            said(3, "user", &format!("My {thing} needs a new chain before Friday."), 1),
            said(4, "user", "   ", 1),
            said(5, "assistant", "Then measure the old one first.", 2),
            said(6, "user", "It is going to rain again.", 2),
        ], "questions": [
            {"id": "a", "question": "Anything?", "evidence": []},
            {"id": "b", "question": format!("What does my {thing} need, a chain?"), "evidence": [3], "category": "own"},
        ]})
    };
    let file = folder.join("chats.json");
    let chats = json!([chat("one", "bicycle"), chat("two", "motorbike")]);
    std::fs::write(&file, chats.to_string()).expect("writes");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_is_found_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (chats(folder.path()), folder.path().join("run.jsonl"));
    let words = format!("{} --out {} --baselines --budget 500", file.display(), out.display());
    let [sheet] = &rank::run(&line(&words)).await.expect("runs")[..] else { panic!("one table") };
    for system in ["recalld", "BM25 alone", "vectors alone", "BM25 + vectors, plain z-score sum"] {
        assert_eq!(cell(sheet, system, Some("all"), "n"), 2, "{system}");
        assert_eq!(cell(sheet, system, Some("own"), "r@1"), 100.0, "{system}");
        assert_eq!(cell(sheet, system, Some("all"), "in a context of 500"), 100.0, "{system}");
    }
    let lines = std::fs::read_to_string(out).expect("rankings");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().map(|line| &line["conv"]).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((&lines[0]["n"], &lines[0]["ranked"][0]), (&json!(1), &json!("3")));
    assert!(!lines[0]["ranked"].as_array().expect("a list").contains(&json!("4")), "blank messages are not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_alone_find_it_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!("{} --no-vectors --baselines --limit-conversations 1", chats(folder.path()).display());
    let [sheet] = &rank::run(&line(&words)).await.expect("runs")[..] else { panic!("one table") };
    assert_eq!(
        (cell(sheet, "recalld", Some("all"), "n"), cell(sheet, "recalld", Some("all"), "r@1")),
        (1.into(), 100.0.into())
    );
    assert!(sheet.title.contains("no vectors") && !format!("{sheet:?}").contains("vectors alone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_are_learned_and_put_in_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (chats(folder.path()), folder.path().join("weights.toml"));
    let words = format!("{} --profile mixed --signals bm25n,isq,spk --out {}", file.display(), out.display());
    let [scores, weights] = &learn::run(&line(&words)).await.expect("learns")[..] else { panic!("two tables") };
    assert_eq!(cell(scores, "learned on the other chats (2 folds)", Some("all"), "r@1"), 100.0);
    assert!(cell(weights, "key:bm25n", None, "weight").as_f64() > Some(0.5));
    let (written, shipped) = (std::fs::read_to_string(out).expect("weights"), WeightTable::shipped());
    let written = WeightTable::read(&written).expect("weights");
    assert_eq!(written.of(Profile::Mixed, true).keys.len(), 3);
    assert_eq!(written.of(Profile::Mixed, false), shipped.of(Profile::Mixed, false));
    assert_eq!(written.of(Profile::People, true), shipped.of(Profile::People, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_is_asked_in_every_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (folder.path().join("dialogs.json"), folder.path().join("run.jsonl"));
    let dialog = |id: &str, about: &str| {
        let said =
            (1..=4).flat_map(|n| [format!("What about the {about} number {n}?"), format!("The {about} is fine.")]);
        let history: Vec<String> = ["title".into(), "section".into()].into_iter().chain(said).collect();
        json!({"History": history, "Question": "And why?", "Rewrite": format!("Why is the {about} fine?"),
               "QuAC_dialog_id": id, "Question_no": 5})
    };
    let dialogs = json!([dialog("d1", "lighthouse"), dialog("d2", "trombone")]);
    std::fs::write(&file, dialogs.to_string()).expect("writes");
    let words = format!("{} --out {}", file.display(), out.display());
    let [sheet] = &followups::run(&line(&words)).await.expect("runs")[..] else { panic!("one table") };
    assert_eq!(cell(sheet, "with the gold rewrite", None, "hit@1"), 100.0);
    assert_eq!(cell(sheet, "raw question, previous turn appended", None, "n"), 2);
    let lines = std::fs::read_to_string(out).expect("rankings");
    assert!(lines.starts_with(r#"{"dialog":"d1","n":5,"ranked":["#), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn speed_is_shown_for_every_size() {
    let [sheet] = &speed::run(&line("--messages 100,200 --questions 5")).await.expect("runs")[..] else {
        panic!("one table")
    };
    assert!(cell(sheet, "index, bytes a message", None, "100 messages").as_f64() > Some(0.0));
    assert!(cell(sheet, "recall, wall p50, ms", None, "200 messages").as_f64() > Some(0.0));
}
