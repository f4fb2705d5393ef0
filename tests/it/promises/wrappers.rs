//! Text that clients wrap around the user's words is not stored as theirs.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::house::{House, OTHER_SESSION, SESSION};
use crate::openai::{self, CHAT, body, open, sessions, talk};

/// The table that recalld reads: of each entry, what a client sends and what is to be left of it.
#[derive(Deserialize)]
struct Table {
    wrapper: Vec<Wrapper>,
}

#[derive(Deserialize)]
struct Wrapper {
    name: String,
    example: Example,
}

#[derive(Deserialize)]
struct Example {
    text: String,
    question: String,
    #[serde(default)]
    sources: Vec<String>,
}

fn wrappers() -> Vec<Wrapper> {
    let table = include_str!("../../../src/session/wrappers.toml");
    toml::from_str::<Table>(table).expect("a table of wrappers").wrapper
}

/// Open WebUI's list of uploads, as it stands before the user's words.
const ATTACHED: &str =
    "<attached_files>\n<file type=\"file\" id=\"9f0c\" url=\"9f0c\" name=\"plan.pdf\"/>\n</attached_files>\n\n";

async fn say(house: &House, messages: Value) {
    house.post(CHAT).session(SESSION).json(body(messages)).await.expect(200);
}

/// What is stored as a session's messages.
async fn messages(house: &House, session: &str) -> Vec<Value> {
    house.pages(&format!("/api/v1/sessions/{session}/messages?limit=50"), "messages").await
}

/// The user's words and the names of their sources, message by message.
async fn said(house: &House) -> Vec<(Value, Value)> {
    let users = messages(house, SESSION).await.into_iter().filter(|message| message["role"] == "user");
    users.map(|message| (message["content"].clone(), message["metadata"]["sources"].clone())).collect()
}

#[tokio::test]
async fn every_known_wrapper_is_taken_off_and_its_sources_named() {
    for Wrapper { name, example: Example { text, question, sources } } in wrappers() {
        let (house, upstream) = open();
        say(&house, talk(&[&text])).await;
        assert_eq!(upstream.last_contents(), [text], "{name}: the model sees all of it");
        let sources = if sources.is_empty() { Value::Null } else { json!(sources) };
        assert_eq!(said(&house).await, [(json!(question), sources)], "{name}");
    }
}

/// A client wraps the last message only, or all of them, or none when it sends the history again.
#[tokio::test]
async fn histories_are_the_same_with_and_without_wrappers() {
    for Wrapper { name, example: Example { text, question, .. } } in wrappers() {
        let (house, _) = open();
        for history in [
            talk(&[&text]),
            talk(&[&question, "answer 1", "And then?"]),
            talk(&[&text, "answer 1", "And then?", "answer 2", "And now?"]),
        ] {
            house.post(CHAT).json(body(history)).await.expect(200);
        }
        let sessions = sessions(&house).await;
        assert_eq!(sessions.len(), 1, "{name}");
        let id = sessions[0]["id"].as_str().expect("an id");
        assert_eq!(
            openai::shown(&house, id).await,
            format!("{question}/answer 1/And then?/answer 2/And now?/answer 3"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn attached_files_are_a_part_of_their_own_beside_a_picture() {
    let (house, upstream) = open();
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let content = json!([text(ATTACHED), text("What is this?"), picture]);
    let sent = json!([{"role": "user", "content": content}]);
    say(&house, sent.clone()).await;
    assert_eq!(upstream.last()["messages"], sent);
    let kept = json!([text("What is this?"), picture]);
    assert_eq!(said(&house).await, [(kept, json!(["plan.pdf"]))]);
    let plain = json!([{"role": "user", "content": [text("What is this?"), picture]},
                       {"role": "assistant", "content": "answer 1"}, {"role": "user", "content": "And then?"}]);
    say(&house, plain).await;
    assert_eq!(openai::shown(&house, SESSION).await, "What is this?/answer 1/And then?/answer 2");
}

#[tokio::test]
async fn attached_files_inside_the_rag_wrapper_are_taken_off() {
    let (house, _) = open();
    let rag = "### Task:\nRespond to the user query using the provided context.\n\n<context>\n\
               <source id=\"1\" name=\"web page\">My name is Victor.</source>\n</context>\n\n";
    say(&house, talk(&[&format!("{rag}{ATTACHED}Which?")])).await;
    let part = |text: String| json!({"type": "text", "text": text});
    let each_part_wrapped = json!([part(format!("{rag}{ATTACHED}")), part(format!("{rag}And which?"))]);
    say(&house, json!([{"role": "user", "content": each_part_wrapped}])).await;
    let sources = json!(["web page", "plan.pdf"]);
    assert_eq!(said(&house).await, [(json!("Which?"), sources.clone()), (json!("And which?"), sources)]);
}

#[tokio::test]
async fn an_upload_without_words_is_a_turn_without_words() {
    let (house, _) = open();
    say(&house, talk(&[ATTACHED])).await;
    say(&house, talk(&[ATTACHED, "answer 1", "What is it?"])).await;
    assert_eq!(openai::shown(&house, SESSION).await, "/answer 1/What is it?/answer 2");
}

#[tokio::test]
async fn recalled_blocks_show_the_words_alone() {
    let (house, upstream) = open();
    say(&house, talk(&[&format!("{ATTACHED}My sailing boat is called Petrel.")])).await;
    let ask = house.post(CHAT).session(OTHER_SESSION).json(body(talk(&["What is my sailing boat called?"])));
    ask.await.expect(200);
    let shown = upstream.last_text();
    assert!(shown.contains("Petrel") && !shown.contains("attached_files"), "{shown}");
}

/// What a user writes about a wrapper is theirs.
#[tokio::test]
async fn words_about_a_wrapper_stay() {
    let (house, _) = open();
    let asked = "What is `<attached_files>\n<file name=\"x\"/>\n</attached_files>` good for?";
    say(&house, talk(&[asked])).await;
    assert_eq!(said(&house).await, [(json!(asked), Value::Null)]);
}
