//! A constant message before each question, as programs send it for models without a system role.

use serde_json::{Value, json};

use crate::house::{Answer, House, SESSION};
use crate::live;
use crate::openai::{CHAT, body, open};

const PREAMBLE: &str = "You are a terse assistant who answers in one word.";

/// Messages of the user, one after the other.
fn talk_by_user(texts: &[&str]) -> Value {
    texts.iter().map(|text| json!({"role": "user", "content": text})).collect()
}

async fn ask(house: &House, messages: Value) -> Answer {
    house.post(CHAT).user("ann").session(SESSION).json(body(messages)).await
}

/// `[preamble, question]` each time: from its second appearance on, the preamble makes no turn of its own.
#[tokio::test]
async fn a_constant_message_before_each_question_is_stored_once() {
    let (house, upstream) = open();
    for n in 1..=6 {
        ask(&house, talk_by_user(&[PREAMBLE, &format!("question {n}")])).await.expect(200);
    }
    let questions: Vec<Value> =
        house.turns_of("ann", SESSION).await.iter().map(|turn| turn["query_text"].clone()).collect();
    let expected: Vec<Value> =
        std::iter::once(PREAMBLE.to_owned()).chain((1..=6).map(|n| format!("question {n}"))).map(Value::from).collect();
    assert_eq!(questions, expected);
    let sent = upstream.last_contents();
    assert_eq!(sent.iter().filter(|text| *text == PREAMBLE).count(), 1, "{sent:?}");
    assert_eq!(sent.last(), Some(&json!("question 6")));
}

/// It is still known when its turn is far back.
#[tokio::test]
async fn a_preamble_is_known_in_a_long_session() {
    let (house, _) = open();
    for n in 1..=150 {
        ask(&house, talk_by_user(&[PREAMBLE, &format!("question {n}")])).await.expect(200);
    }
    let path = format!("/api/v1/sessions/{SESSION}/turns?limit=50");
    assert_eq!(house.pages_of("ann", &path, "turns").await.len(), 151);
}

/// Two messages in a row that are new are both the user's words.
#[tokio::test]
async fn two_new_messages_in_a_row_are_both_kept() {
    let (house, _) = open();
    ask(&house, talk_by_user(&["hello", "are you there?"])).await.expect(200);
    ask(&house, talk_by_user(&["one more thing", "what is the time?"])).await.expect(200);
    assert_eq!(house.turns_of("ann", SESSION).await.len(), 4);
}

/// A visitor's session knows a preamble the same way.
#[tokio::test]
async fn a_visitors_preamble_is_stored_once() {
    let (house, _) = open();
    for n in 1..=6 {
        let request = body(talk_by_user(&[PREAMBLE, &format!("question {n}")]));
        house.post("/v1/acme:v/chat/completions").json(request).await.expect(200);
    }
    assert_eq!(live::seen(&house, "acme:v").await["turns"], 7);
}
