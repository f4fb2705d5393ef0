//! The end of the conversation that the model is shown.

use std::sync::Arc;

use serde_json::json;

use crate::house::{House, SESSION};
use crate::openai::{CHAT, body, talk};
use crate::upstream::recording;

/// C7: a window that the token limit cuts never begins with an answer whose question was cut.
#[tokio::test]
async fn a_window_that_is_cut_begins_with_a_question() {
    let upstream = recording();
    let plan = House::plan().upstream(Arc::clone(&upstream) as _).setting(|settings| {
        (settings.model_tokens_max, settings.answer_tokens, settings.recall_tokens) = (300, 20, 0);
    });
    let house = plan.open();
    for text in ["long ".repeat(270).as_str(), "short", "and?"] {
        house.post(CHAT).session(SESSION).json(body(talk(&[text]))).await.expect(200);
    }
    assert_eq!(upstream.last_contents(), [json!("short"), json!("answer 2"), json!("and?")]);
}
