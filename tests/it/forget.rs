//! Forgetting through the doors: receipts, who may, what is left, and at the command line.

use std::process::Output;

use recalld::id::Ids;
use recalld::id::RandomIds;
use serde_json::{Value, json};

use crate::house::{House, OTHER_SESSION, SESSION};
use crate::process::recalld;

async fn say(house: &House, user: &str, session: &str, words: &str) -> Value {
    let said = house.post("/chat").user(user).session(session).json(json!({ "query": words })).await;
    let answer = said.expect(200);
    while house.memory.learn_facts().await.expect("facts") > 0 {}
    answer
}

async fn facts(house: &House, user: &str) -> Vec<String> {
    let path = format!("/api/v1/users/{user}/facts?status=any");
    let page = house.get(&path).user(user).send().await.expect(200);
    page["facts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fact| fact["value"].as_str().unwrap_or("").to_owned())
        .collect()
}

/// B2: a user goes as a whole, with a receipt, and nobody else does.
#[tokio::test]
async fn a_user_is_forgotten_with_a_receipt() {
    let house = House::open();
    say(&house, "ann", SESSION, "I live in Lisbon.").await;
    say(&house, "ann", OTHER_SESSION, "My dog is called Rex.").await;
    say(&house, "bob", SESSION, "I live in Rome.").await;
    let foreign = house.ask("DELETE", "/api/v1/users/ann").user("bob").send().await;
    assert_eq!(foreign.refusal(), (404, "unknown_user"));
    let receipt = house.ask("DELETE", "/api/v1/users/ann").user("ann").send().await.expect(200);
    let erased = &receipt["erased"];
    assert_eq!((&erased["sessions"], &erased["turns"], &receipt["log_emptied"]), (&json!(2), &json!(2), &json!(true)));
    assert!(erased["facts"].as_u64() >= Some(2) && receipt["ledger_id"] == 1, "{receipt}");
    assert_eq!(house.ask("DELETE", "/api/v1/users/ann").user("ann").send().await.refusal(), (404, "unknown_user"));
    assert_eq!((facts(&house, "ann").await.len(), facts(&house, "bob").await), (0, vec!["Rome".to_owned()]));
}

/// A message goes with its exchange; somebody else's is unknown.
#[tokio::test]
async fn a_message_goes_with_its_exchange() {
    let house = House::open();
    let turn = say(&house, "ann", SESSION, "I live in Lisbon.").await["metadata"]["turn_id"].clone();
    say(&house, "ann", SESSION, "My dog is called Rex.").await;
    let path = format!("/api/v1/sessions/{SESSION}/messages");
    let messages = house.get(&path).user("ann").send().await.expect(200);
    let answer = messages["messages"][1]["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/messages/{answer}");
    assert_eq!(house.ask("DELETE", &path).user("bob").send().await.refusal(), (404, "unknown_message"));
    let receipt = house.ask("DELETE", &path).user("ann").send().await.expect(200);
    assert_eq!(receipt["erased"]["turns"], 1, "{receipt}");
    let left = house.turns_of("ann", SESSION).await;
    assert_eq!(left.len(), 1);
    assert!(left[0]["turn_id"] != turn && left[0].to_string().contains("Rex"), "{}", left[0]);
    assert_eq!(facts(&house, "ann").await, ["Rex (dog)"]);
    let path = format!("/api/v1/turns/{}", turn.as_str().expect("an id"));
    assert_eq!(house.ask("DELETE", &path).user("ann").send().await.refusal(), (404, "unknown_turn"));
}

/// "Forget that …" takes the words of a fact away, from what is known and from what is recalled; "I no longer …" keeps the history.
#[tokio::test]
async fn what_a_chat_asks_to_forget_loses_its_words() {
    let house = House::open();
    say(&house, "ann", SESSION, "I like jazz.").await;
    say(&house, "ann", SESSION, "I like tea.").await;
    assert_eq!(facts(&house, "ann").await, ["jazz", "tea"]);
    say(&house, "ann", SESSION, "Please forget that I like jazz.").await;
    assert_eq!(facts(&house, "ann").await, ["tea"]);
    say(&house, "ann", SESSION, "I no longer like tea.").await;
    assert_eq!(facts(&house, "ann").await, ["tea"], "over is not forgotten");
    house.memory.learn_again(None).await.expect("asked for");
    while house.memory.learn_facts().await.expect("facts") > 0 {}
    assert_eq!(facts(&house, "ann").await, ["tea"], "it is not understood again");
    let asked = json!({ "question": "Which music do I like, jazz?" });
    let recalled = house.post("/api/v1/recall").user("ann").json(asked).await.expect(200);
    assert!(!recalled["text"].to_string().contains("jazz"), "{recalled}");
}

/// What was forgotten is told by no summary and no topic, and what else was said still is.
#[tokio::test]
async fn what_a_chat_asks_to_forget_is_told_by_no_summary() {
    let house = House::open();
    say(&house, "ann", SESSION, "I like jazz.").await;
    for n in 0..24 {
        say(&house, "ann", SESSION, &format!("The shed in Porto needs {n} litres of linseed oil paint.")).await;
    }
    let told = async || {
        house.memory.tend_topics().await.expect("topics");
        while house.memory.run_jobs_once().await.expect("jobs").done > 0 {}
        let told = house.get("/api/v1/episodes?limit=50").user("ann").send().await.expect(200);
        let topics = house.get("/api/v1/topics?limit=50").user("ann").send().await.expect(200);
        format!("{told}{topics}")
    };
    let before = told().await;
    assert!(before.contains("jazz") && before.contains("linseed"), "{before}");
    say(&house, "ann", SESSION, "Please forget that I like jazz.").await;
    let after = told().await;
    assert!(!after.contains("jazz") && after.contains("linseed"), "{after}");
}

fn run(folder: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = recalld(folder, arguments, &[("RECALLD_UPSTREAM", "builtin")]);
    command.stdout(std::process::Stdio::piped()).output().expect("the binary runs")
}

fn told(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// At the command line: nothing goes without a word, and what is kept is told.
#[test]
fn the_command_line_forgets_and_says_what_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = RandomIds.session().to_string();
    let run = |arguments: &[&str]| run(folder.path(), &[arguments, &["--data", "r.db", "--user", "ann"]].concat());
    let asked = run(&["ask", "I live in Lisbon.", "--session", &session]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let kept = told(&run(&["doctor", "--privacy", "--json"]));
    assert_eq!(kept["kept"]["tenants"][0]["turns"], 1, "{kept}");
    assert!(kept["places"].as_array().expect("a list").len() > 15);
    let shown = run(&["doctor", "--privacy"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("tenant default: turns are kept for never"));
    let unsure = run(&["forget", "--session", &session]);
    assert_eq!(unsure.status.code(), Some(2), "{}", String::from_utf8_lossy(&unsure.stderr));
    let receipt = told(&run(&["forget", "--session", &session, "--yes", "--json"]));
    assert_eq!((&receipt["erased"]["turns"], &receipt["ledger_id"]), (&json!(1), &json!(1)));
    let kept = told(&run(&["doctor", "--privacy", "--json"]));
    assert_eq!((&kept["kept"]["tenants"], &kept["kept"]["ledger"]["lines"]), (&json!([]), &json!(1)), "{kept}");
    let nobody = run(&["forget", "--yes"]);
    assert!(!nobody.status.success(), "there is nothing of ann's any more");
}
