//! "Which one?" and its answer, through every door.

use std::sync::Arc;

use jiff::SignedDuration;
use recalld::model::scripted::Line;
use serde_json::{Value, json};

use crate::house::{House, OTHER_SESSION, SESSION, keys};
use crate::openai::{CHAT, body, open, said, talk};
use crate::upstream::Recording;

const ROUTE: &str = "/api/v1/clarifications";
const WHICH: &str = "We have these:\n1. Blue mug (12 EUR)\n2. Red mug (15 EUR)\n\nWhich one would you like?";

fn says(house: &House, text: &str) {
    house.model.then(Line { pieces: vec![text.into()], error: None });
}

/// The last message of the last prompt.
fn last_question(house: &House) -> String {
    let prompts = house.model.shown();
    let last = prompts.last().and_then(|prompt| prompt.messages.last()).expect("the model was asked");
    last["content"].as_str().expect("text").to_owned()
}

/// What was chosen, as the answer tells it: `labels by what`; `-` for nothing.
fn chosen(answer: &Value) -> String {
    let chosen = &answer["metadata"]["clarification"];
    let options = chosen["options"].as_array();
    let labels = options.map(|all| all.iter().filter_map(|option| option["label"].as_str()).collect::<Vec<_>>());
    labels.map_or("-".into(), |labels| format!("{} by {}", labels.join("+"), chosen["by"].as_str().expect("a word")))
}

async fn is_open(house: &House, session: &str) -> bool {
    house.get(&format!("{ROUTE}/{session}")).send().await.status == 200
}

/// B3: a reply that ends in a choice is remembered for the next message, which goes to the model with what was chosen.
#[tokio::test]
async fn an_answer_goes_to_the_model_resolved() {
    let house = House::open();
    says(&house, WHICH);
    assert_eq!(chosen(&house.chat(SESSION, "I would like a mug.").await), "-");
    let open = house.get(&format!("{ROUTE}/{SESSION}")).send().await.expect(200);
    assert_eq!(keys(&open), ["session_id", "question", "options", "asked_at", "expires_at"]);
    assert_eq!(open["question"], "Which one would you like?");

    let answer = house.chat(SESSION, "the second one").await;
    assert_eq!(chosen(&answer), "Red mug (15 EUR) by ordinal");
    assert_eq!((&answer["intent"], &answer["confidence"]), (&json!("clarification"), &json!(0.95)));
    assert_eq!(answer["metadata"]["intent_decided_by"], "answer to an open clarification");
    let told = "The user was asked: \"Which one would you like?\" and chose: \"Red mug (15 EUR)\".";
    let asked = last_question(&house);
    assert!(asked.contains(told) && asked.ends_with("\n\nthe second one"), "{asked}");
    assert!(!is_open(&house, SESSION).await, "it is answered");

    let turn = answer["metadata"]["turn_id"].as_str().expect("an id");
    let trace = house.get(&format!("/api/v1/turns/{turn}/context")).send().await.expect(200);
    let noted = json!({"question": "Which one would you like?", "options": ["Red mug (15 EUR)"], "by": "ordinal"});
    assert_eq!(trace["clarification"], noted);
    let turns = house.turns(SESSION).await;
    assert_eq!((&turns[1]["query_text"], &turns[1]["metadata"]["clarification"]), (&json!("the second one"), &noted));
    assert_eq!(chosen(&house.chat(SESSION, "the first one").await), "-", "nothing is open any more");
}

/// B3, D6: what is searched for is the whole question, not "the second one".
#[tokio::test]
async fn recall_searches_for_what_was_chosen() {
    let house = House::open();
    house.chat(OTHER_SESSION, "My grandmother broke her favourite turquoise teapot in Lisbon.").await;
    says(&house, "Which one: the turquoise teapot or the copper kettle?");
    house.chat(SESSION, "I want to buy something.").await;
    let answer = house.chat(SESSION, "1").await;
    assert_eq!(chosen(&answer), "turquoise teapot by number");
    assert!(last_question(&house).contains("grandmother"), "{}", last_question(&house));
    assert!(answer["data"].as_array().is_some_and(|data| !data.is_empty()));
}

/// B3: anything else is a new question, and what was asked waits on.
#[tokio::test]
async fn another_question_drops_through() {
    let house = House::open();
    says(&house, WHICH);
    house.chat(SESSION, "A mug, please.").await;
    says(&house, "The blue one is ceramic, the red one is steel.");
    let answer = house.chat(SESSION, "What are they made of?").await;
    assert_eq!((chosen(&answer), &answer["intent"]), ("-".into(), &json!("follow_up")));
    assert!(!last_question(&house).contains("The user was asked"));
    says(&house, "Which one would you like?");
    house.chat(SESSION, "Is either of them dishwasher safe?").await;
    assert!(is_open(&house, SESSION).await, "asking again asks about the same");
    assert_eq!(chosen(&house.chat(SESSION, "the cheaper one").await), "Blue mug (12 EUR) by comparison");

    says(&house, WHICH);
    house.chat(SESSION, "And another one.").await;
    says(&house, "How many people will come?");
    house.chat(SESSION, "Let us talk about my party.").await;
    assert!(!is_open(&house, SESSION).await, "the model asks something else by now");
    assert_eq!(chosen(&house.chat(SESSION, "2").await), "-");
}

/// B3: an answer that could not be given leaves the question open.
#[tokio::test]
async fn a_failed_turn_leaves_it_open() {
    let house = House::open();
    says(&house, WHICH);
    house.chat(SESSION, "A mug, please.").await;
    house.model.then(Line { pieces: vec![], error: Some(recalld::model::ModelError::BrokeOff("gone".into())) });
    assert_eq!(house.post("/chat").session(SESSION).json(json!({"query": "both"})).await.status, 502);
    assert_eq!(chosen(&house.chat(SESSION, "both").await), "Blue mug (12 EUR)+Red mug (15 EUR) by all");
}

/// B3: five minutes, and not a second longer.
#[tokio::test]
async fn it_waits_for_five_minutes() {
    let house = House::open();
    for (seconds, expected) in [(290, "Red mug (15 EUR) by number"), (300, "-")] {
        says(&house, WHICH);
        house.chat(SESSION, "A mug, please.").await;
        house.clock.advance(SignedDuration::from_secs(seconds));
        assert_eq!(chosen(&house.chat(SESSION, "2").await), expected);
    }
    let house = House::plan().setting(|settings| settings.clarification_ttl = "1m".parse().expect("a period")).open();
    says(&house, WHICH);
    house.chat(SESSION, "A mug, please.").await;
    house.clock.advance(SignedDuration::from_secs(60));
    assert_eq!(chosen(&house.chat(SESSION, "2").await), "-");
}

/// B3, B6: one conversation's question is nobody else's.
#[tokio::test]
async fn each_session_has_its_own() {
    let house = House::open();
    let ask = async |user: &str, session: &str, query: &str| {
        house.post("/chat").session(session).user(user).json(json!({ "query": query })).await.expect(200)
    };
    says(&house, WHICH);
    ask("ann", SESSION, "A mug, please.").await;
    says(&house, "Do you mean tea or coffee?");
    ask("ann", OTHER_SESSION, "Something hot.").await;
    assert_eq!(chosen(&ask("bob", SESSION, "2").await), "-");
    assert_eq!(chosen(&ask("ann", OTHER_SESSION, "2").await), "coffee by number");
    assert_eq!(chosen(&ask("ann", SESSION, "2").await), "Red mug (15 EUR) by number");
}

/// B3: held in memory, at most so many; the oldest goes.
#[tokio::test]
async fn only_so_many_are_held() {
    let house = House::plan().setting(|settings| settings.clarifications_tenant_max = 3).open();
    let session = |n: usize| format!("550e8400-e29b-41d4-a716-44665544000{n}");
    for n in 0..5 {
        says(&house, WHICH);
        house.chat(&session(n), "A mug, please.").await;
    }
    let open = house.pages(&format!("{ROUTE}?limit=2"), "clarifications").await;
    let sessions: Vec<&str> = open.iter().filter_map(|open| open["session_id"].as_str()).collect();
    assert_eq!(sessions, [session(2), session(3), session(4)]);
    let house = house.reopen().await;
    assert!(!is_open(&house, &session(4)).await, "nothing of it was written");
}

/// B3: a program asks, too.
#[tokio::test]
async fn a_question_can_be_asked_on_somebodys_behalf() {
    let house = House::open();
    let options = json!(["Tea", {"label": "Mug", "attributes": {"color": "blue", "price": 12, "new": true}}]);
    let asked = json!({"session_id": SESSION, "question": "Wat wordt het?", "options": options});
    let made = house.post(ROUTE).json(asked.clone()).await.expect(201);
    assert_eq!(made["options"][1]["attributes"], json!({"color": "blue", "new": "true", "price": "12"}));
    assert_eq!(house.get(&format!("{ROUTE}/{SESSION}")).send().await.expect(200), made);
    assert_eq!(house.get(ROUTE).send().await.expect(200), json!({"clarifications": [made], "next": null}));
    assert_eq!(
        house.get(&format!("{ROUTE}/{SESSION}")).user("bob").send().await.refusal(),
        (404, "unknown_clarification")
    );
    assert_eq!(chosen(&house.chat(SESSION, "the blue one").await), "Mug by attribute");

    house.post(ROUTE).json(asked).await.expect(201);
    assert_eq!(house.ask("DELETE", &format!("{ROUTE}/{SESSION}")).send().await.expect(200), json!({"dropped": true}));
    let gone = house.ask("DELETE", &format!("{ROUTE}/{SESSION}")).send().await;
    assert_eq!(gone.refusal(), (404, "unknown_clarification"));
    assert_eq!(chosen(&house.chat(SESSION, "the blue one").await), "-");
}

/// B3: what is no choice is refused, and changes nothing.
#[tokio::test]
async fn what_is_no_choice_is_refused() {
    let house = House::open();
    let with =
        |question: &str, options: Value| json!({"session_id": SESSION, "question": question, "options": options});
    for (request, expected) in [
        (with("Which?", json!(["one"])), (400, "invalid_clarification")),
        (with("Which?", json!(["a", "A"])), (400, "invalid_clarification")),
        (with("Which?", json!(["a", {"label": "b", "attributes": {"c": []}}])), (400, "invalid_clarification")),
        (with(" ", json!(["a", "b"])), (400, "blank_text")),
        (with("Which?", json!(["a", "b".repeat(201)])), (413, "text_too_long")),
        (json!({"session_id": "x", "question": "Which?", "options": ["a", "b"]}), (400, "invalid_session_id")),
    ] {
        assert_eq!(house.post(ROUTE).json(request).await.refusal(), expected);
    }
    assert_eq!(house.post(ROUTE).json(json!({"question": "Which?"})).await.status, 400);
    assert!(!is_open(&house, SESSION).await);
}

// --- Through /v1 ----------------------------------------------------------------------------------

/// What the upstream was sent last, all of it.
fn sent(upstream: &Recording) -> String {
    upstream.last().to_string()
}

async fn ask(house: &House, texts: &[&str]) {
    said(&house.post(CHAT).session(SESSION).json(body(talk(texts))).await);
}

/// As it stands in JSON.
const TOLD: &str = r#"and chose: \"Red mug (15 EUR)\"."#;

/// B3: clients in OpenAI's format have it, too; another answer to the same choice goes with what was chosen.
#[tokio::test]
async fn a_proxied_answer_is_resolved_and_regenerated() {
    let (house, upstream) = open();
    upstream.says(WHICH);
    ask(&house, &["A mug, please."]).await;
    upstream.says("Which size: small or large?");
    ask(&house, &["A mug, please.", WHICH, "the second one"]).await;
    assert!(sent(&upstream).contains(TOLD), "{}", sent(&upstream));
    upstream.says("Noted.");
    ask(&house, &["A mug, please.", WHICH, "the second one"]).await;
    assert!(sent(&upstream).contains(TOLD), "regenerated: {}", sent(&upstream));
    assert!(!is_open(&house, SESSION).await, "the answer that asked for a size was replaced");
    let turns = house.turns(SESSION).await;
    assert_eq!(turns[1]["metadata"]["clarification"]["options"], json!(["Red mug (15 EUR)"]));
}

/// B3: an edit takes back what its turn asked.
#[tokio::test]
async fn what_an_edited_turn_asked_is_open_no_more() {
    let (house, upstream) = open();
    ask(&house, &["hello"]).await;
    upstream.says(WHICH);
    ask(&house, &["hello", "answer 1", "A mug, please."]).await;
    upstream.says("Two of what?");
    ask(&house, &["hello", "answer 1", "2"]).await;
    assert_eq!(house.turns(SESSION).await.len(), 2, "the question about mugs is superseded");
    assert!(!sent(&upstream).contains("The user was asked"), "{}", sent(&upstream));
}

/// B3: regenerating the question itself does not answer it.
#[tokio::test]
async fn a_regenerated_choice_is_asked_anew() {
    let (house, upstream) = open();
    for _ in 0..2 {
        upstream.says(WHICH);
        ask(&house, &["hello", "hi", "the second one"]).await;
        assert!(!sent(&upstream).contains("The user was asked"), "{}", sent(&upstream));
    }
    assert!(is_open(&house, SESSION).await);
}

/// DESIGN 3: memory that is only read, or off, holds no question; one that only records injects nothing.
#[tokio::test]
async fn modes_are_heeded() {
    let (house, upstream) = open();
    let with_mode = async |mode: &str, texts: &[&str]| {
        let asked = house.post(CHAT).session(SESSION).header("x-recalld-mode", mode);
        said(&asked.json(body(talk(texts))).await)
    };
    for mode in ["read", "off"] {
        upstream.says(WHICH);
        with_mode(mode, &["A mug, please."]).await;
        assert!(!is_open(&house, SESSION).await, "{mode}");
    }
    upstream.says(WHICH);
    with_mode("passive", &["A mug, please."]).await;
    assert!(is_open(&house, SESSION).await);
    with_mode("read", &["A mug, please.", WHICH, "the second one"]).await;
    assert!(sent(&upstream).contains(TOLD) && is_open(&house, SESSION).await, "reading leaves it open");
    with_mode("passive", &["A mug, please.", WHICH, "the second one"]).await;
    assert!(!sent(&upstream).contains(TOLD) && !is_open(&house, SESSION).await);
}

/// DESIGN 3.5: tool rounds go with the same words, and the last of them settles the question.
#[tokio::test]
async fn tool_rounds_answer_once() {
    let (house, upstream) = open();
    upstream.says(WHICH);
    ask(&house, &["A mug, please."]).await;
    let function = json!({"name": "stock", "arguments": "{}"});
    let call = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]});
    upstream.calls("c1");
    let mut messages = talk(&["A mug, please.", WHICH, "the second one"]);
    house.post(CHAT).session(SESSION).json(body(messages.clone())).await.expect(200);
    assert!(is_open(&house, SESSION).await, "no answer yet");
    let list = messages.as_array_mut().expect("a list");
    list.push(call);
    list.push(json!({"role": "tool", "tool_call_id": "c1", "content": "3 left"}));
    upstream.says("There are three left.");
    house.post(CHAT).session(SESSION).json(body(messages)).await.expect(200);
    assert!(sent(&upstream).contains(TOLD), "{}", sent(&upstream));
    assert!(!is_open(&house, SESSION).await);
}

/// B3: a stream is heard to its end.
#[tokio::test]
async fn a_streamed_reply_is_heard() {
    let (house, upstream): (House, Arc<Recording>) = open();
    upstream.says("Welke wil je: de blauwe of de rode mok?");
    let mut request = body(talk(&["Een mok graag."]));
    request["stream"] = json!(true);
    let response = house.post(CHAT).session(SESSION).stream(request).await;
    http_body_util::BodyExt::collect(response.into_body()).await.expect("a body");
    let open = house.get(&format!("{ROUTE}/{SESSION}")).send().await.expect(200);
    assert_eq!(
        open["options"],
        json!([{"label": "blauwe", "attributes": {}}, {"label": "rode mok", "attributes": {}}])
    );
}
