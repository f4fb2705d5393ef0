//! `POST /chat`, whole answers.

use std::time::Duration;

use futures_util::future::join_all;
use recalld::id::SessionId;
use recalld::model::ModelError;
use recalld::model::scripted::Line;
use serde_json::{Value, json};

use crate::house::{Answer, House, SESSION, field, keys};

/// The texts of the last prompt the model was shown.
fn last_prompt(house: &House) -> Vec<String> {
    let prompts = house.model.shown();
    let last = prompts.last().expect("the model was asked");
    last.messages.iter().map(|message| message["content"].as_str().expect("text").to_owned()).collect()
}

fn says(house: &House, text: &str) {
    house.model.then(Line { pieces: vec![text.into()], error: None });
}

fn fails(house: &House, pieces: &[&str], error: ModelError) {
    let pieces = pieces.iter().map(|piece| (*piece).to_owned()).collect();
    house.model.then(Line { pieces, error: Some(error) });
}

/// B1: exactly these fields.
#[tokio::test]
async fn an_answer_has_the_documents_fields() {
    let house = House::open();
    says(&house, "A helmet.");
    let answer = house.post("/chat").session(SESSION).json(json!({"query": "What do I need?"})).await;
    let body = answer.expect(200);
    assert_eq!(
        keys(&body),
        ["query", "message", "answer", "data", "intent", "confidence", "session_id", "citations", "metadata", "error"]
    );
    let metadata = &body["metadata"];
    assert_eq!(
        keys(metadata),
        [
            "session_id",
            "turn_id",
            "turn_number",
            "messages_in_context",
            "model",
            "tokens_used",
            "intent_decided_by",
            "clarification",
            "search_results",
            "recalled",
            "recall_tokens",
            "recall_ms",
            "status"
        ]
    );
    assert_eq!(body["query"], "What do I need?");
    assert_eq!((&body["message"], &body["answer"]), (&json!("A helmet."), &json!("A helmet.")));
    assert_eq!((&body["data"], &body["citations"], &body["error"]), (&json!([]), &json!([]), &Value::Null));
    assert_eq!((&body["intent"], &body["confidence"]), (&json!("question"), &json!(0.95)));
    assert_eq!((&body["session_id"], &metadata["session_id"]), (&json!(SESSION), &json!(SESSION)));
    assert_eq!((&metadata["turn_number"], &metadata["messages_in_context"]), (&json!(1), &json!(0)));
    assert_eq!((&metadata["model"], &metadata["status"]), (&json!("scripted"), &json!("ok")));
    assert_eq!(answer.header("x-session-id"), SESSION);
    assert_eq!(answer.header("x-recalld-turn"), metadata["turn_id"]);
    assert_eq!(answer.header("x-recalld-status"), "ok");
    assert_eq!((&metadata["recalled"], answer.header("x-recalld-items")), (&json!(0), "0"));
    let timing = answer.header("server-timing");
    assert!(timing.starts_with("recall;dur=") && timing.contains(", store;dur="), "{timing}");
}

/// C2: known ids continue, unknown ones begin, in any case, echoed in lower case.
#[tokio::test]
async fn the_session_header_continues_or_begins() {
    let house = House::open();
    let first = house.post("/chat").json(json!({"query": "one"})).await;
    let made = first.header("x-session-id").to_owned();
    assert_eq!(first.expect(200)["session_id"], made);

    assert_eq!(house.chat(&made, "two").await["metadata"]["turn_number"], 2);
    assert_eq!(house.chat(SESSION, "one").await["metadata"]["turn_number"], 1);
    let upper = house.post("/chat").session(&SESSION.to_uppercase()).json(json!({"query": "two"})).await;
    assert_eq!(upper.expect(200)["metadata"]["turn_number"], 2);
    assert_eq!(upper.header("x-session-id"), SESSION);
    let blank = house.post("/chat").session(" ").json(json!({"query": "one"})).await;
    assert_eq!(blank.expect(200)["metadata"]["turn_number"], 1, "an empty header is an absent one");
}

/// C2: exactly the document's body.
#[tokio::test]
async fn an_invalid_session_header_is_refused() {
    let house = House::open();
    for id in ["not-a-uuid", "550e8400e29b41d4a716446655440000", "550e8400-e29b-41d4-a716-44665544000g", "1"] {
        let answer = house.post("/chat").session(id).json(json!({"query": "hello"})).await;
        assert_eq!(answer.refusal(), (400, "invalid_session_id"));
        assert_eq!(
            answer.text(),
            r#"{"error":"Invalid session_id format","detail":"session_id must be a valid UUID"}"#
        );
    }
    assert!(house.model.shown().is_empty());
}

/// C2: a missing header is an error only when the setting says so; a session in the body does not replace it.
#[tokio::test]
async fn a_session_header_can_be_required() {
    let house = House::plan().setting(|settings| settings.require_session_header = true).open();
    let answer = house.post("/chat").json(json!({"query": "hello", "session_id": SESSION})).await;
    assert_eq!(answer.refusal(), (400, "session_required"));
    house.chat(SESSION, "hello").await;
}

/// C2: every answer carries a session, whatever went wrong; the one that was named, if one was.
#[tokio::test]
async fn every_answer_carries_a_session() {
    let house = House::plan().setting(|settings| settings.query_chars_max = 10).open();
    let bodies =
        ["{}", "nonsense", r#"{"query": " "}"#, r#"{"query": "far too long"}"#, r#"{"query": "q", "user_id": "a\nb"}"#];
    for body in bodies {
        let named = house.post("/chat").session(SESSION).header("content-type", "application/json");
        let answer = named.body(body.into()).await;
        assert_eq!((answer.refusal().0 / 100, answer.header("x-session-id")), (4, SESSION), "{body}");
        let unnamed = house.post("/chat").header("content-type", "application/json").body(body.into()).await;
        assert!(SessionId::parse(unnamed.header("x-session-id")).is_some(), "{body}");
    }
    let invalid = house.post("/chat").session("nonsense").json(json!({"query": "q"})).await;
    assert!(SessionId::parse(invalid.header("x-session-id")).is_some());
    let in_body = json!({"query": "far too long", "session_id": SESSION});
    assert_eq!(house.post("/chat").json(in_body).await.header("x-session-id"), SESSION);
}

/// B1: the body's session is used when there is no header, and only then.
#[tokio::test]
async fn the_header_wins_over_the_body() {
    let house = House::open();
    let other = "11111111-2222-4333-8444-555555555555";
    let body = json!({"query": "hello", "session_id": other});
    let both = house.post("/chat").session(SESSION).json(body.clone()).await;
    assert_eq!(both.expect(200)["session_id"], SESSION);
    assert_eq!(house.post("/chat").json(body).await.expect(200)["session_id"], other);
}

/// C3: the last ten, chronological, the question not counted.
#[tokio::test]
async fn the_model_is_shown_exactly_the_last_ten_messages() {
    let house = House::open();
    for n in 1..=8 {
        says(&house, &format!("a{n}"));
        let shown = house.chat(SESSION, &format!("q{n}")).await["metadata"]["messages_in_context"].clone();
        assert_eq!(shown, json!(10.min(2 * (n - 1))));
    }
    let last = house.chat(SESSION, "now?").await;
    assert_eq!(last["metadata"]["messages_in_context"], 10);
    let prompt = last_prompt(&house);
    assert_eq!(prompt[1..11], ["q4", "a4", "q5", "a5", "q6", "a6", "q7", "a7", "q8", "a8"]);
    assert!(
        prompt[11].ends_with("\n\nnow?") && !prompt[11].contains("q4"),
        "older ones may be recalled: {}",
        prompt[11]
    );
    let roles: Vec<Value> = house.model.shown()[8].messages.iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles[..3], ["system", "user", "assistant"]);
    assert_eq!(house.turns(SESSION).await[8]["metadata"]["messages_in_context"], 10);
}

/// B1: the role is offered to the template and kept with the turn.
#[tokio::test]
async fn the_role_is_shown_and_kept() {
    let house = House::open();
    let asked = json!({"query": "What may I do?", "role": "safety manager", "user_id": "ann"});
    house.post("/chat").session(SESSION).json(asked).await.expect(200);
    assert!(last_prompt(&house)[0].ends_with("this role: safety manager."), "{}", last_prompt(&house)[0]);
    let turns = house.get(&format!("/api/v1/sessions/{SESSION}/turns")).user("ann").send().await.expect(200);
    assert_eq!(turns["turns"][0]["metadata"]["role"], "safety manager");
}

/// C1: the session notes how it came.
#[tokio::test]
async fn a_session_remembers_how_it_came() {
    let house = House::open();
    let asked = house.post("/chat").session(SESSION).header("user-agent", "curl/8");
    asked.json(json!({"query": "Wat zijn de vereisten voor werken op hoogte?"})).await.expect(200);
    let session = house.get(&format!("/api/v1/sessions/{SESSION}")).send().await.expect(200);
    assert_eq!(session["metadata"], json!({"created_via": "chat", "user_agent": "curl/8", "language": "nl"}));
}

#[track_caller]
fn check_failure(answer: &Answer, expected: (u16, &str)) {
    assert_eq!(answer.refusal(), expected);
    assert_eq!(answer.header("x-session-id"), SESSION);
}

/// Section 9: a model that fails is a 502 or 504; the turn is kept as failed, with the reason, and not shown later.
#[tokio::test]
async fn a_failing_model_leaves_a_failed_turn() {
    let house = House::open();
    let refused = |retry_after: Option<&str>| ModelError::Refused {
        status: 429,
        message: "slow down".into(),
        retry_after: retry_after.map(str::to_owned),
    };
    let unreachable = ModelError::Unreachable { url: "http://127.0.0.1:1/v1".into(), reason: "refused".into() };
    let failures = [
        (unreachable, (502, "model_unreachable"), "cannot reach the model"),
        (ModelError::Silent(Duration::from_secs(120)), (504, "model_timeout"), "said nothing for 120s"),
        (refused(Some("7")), (502, "model_refused"), "status 429: slow down"),
        (ModelError::Unreadable("no choices".into()), (502, "model_unreadable"), "no choices"),
        (ModelError::BrokeOff("reset".into()), (502, "model_broke_off"), "reset"),
    ];
    for (n, (error, expected, reason)) in failures.into_iter().enumerate() {
        fails(&house, &[], error);
        let answer = house.post("/chat").session(SESSION).json(json!({"query": "hello?"})).await;
        check_failure(&answer, expected);
        assert_eq!(answer.header("retry-after"), if expected.1 == "model_refused" { "7" } else { "" });
        let turn = &house.turns(SESSION).await[n];
        assert_eq!((&turn["status"], &turn["response_text"]), (&json!("failed"), &Value::Null));
        assert!(turn["metadata"]["reason"].as_str().is_some_and(|text| text.contains(reason)), "{turn}");
    }
    let next = house.chat(SESSION, "again?").await;
    assert_eq!((&next["metadata"]["turn_number"], &next["metadata"]["messages_in_context"]), (&json!(6), &json!(0)));
    assert_eq!(house.metric("recalld_model_failures_total").await, 5);
}

/// Section 2: what came before the model broke off is kept and shown later.
#[tokio::test]
async fn a_broken_answer_leaves_a_partial_turn() {
    let house = House::open();
    fails(&house, &["You need ", "a hel"], ModelError::BrokeOff("reset".into()));
    let answer = house.post("/chat").session(SESSION).json(json!({"query": "What do I need?"})).await;
    check_failure(&answer, (502, "model_broke_off"));
    let turn = &house.turns(SESSION).await[0];
    assert_eq!((&turn["status"], &turn["response_text"]), (&json!("partial"), &json!("You need a hel")));
    house.chat(SESSION, "And?").await;
    assert_eq!(last_prompt(&house)[1..], ["What do I need?", "You need a hel", "And?"]);
}

/// An answer may be as long as the setting says and no longer; what came before the bound is kept.
#[tokio::test]
async fn an_answer_is_cut_off_at_its_bound() {
    let house = House::plan().setting(|settings| settings.answer_chars_max = 10).open();
    house.model.then(Line { pieces: vec!["één ".into(), "twee".into(), " ×".into()], error: None });
    assert_eq!(house.chat(SESSION, "Count.").await["answer"], "één twee ×");
    house.model.then(Line { pieces: vec!["één ".into(), "twee".into(), " ×!".into()], error: None });
    let answer = house.post("/chat").session(SESSION).json(json!({"query": "Go on."})).await;
    check_failure(&answer, (502, "answer_too_long"));
    let turn = &house.turns(SESSION).await[1];
    assert_eq!((&turn["status"], &turn["response_text"]), (&json!("partial"), &json!("één twee")));
}

/// An empty answer is what the model said: relayed, and of no use later.
#[tokio::test]
async fn an_empty_answer_is_relayed_and_not_remembered() {
    let house = House::open();
    says(&house, " ");
    let answer = house.chat(SESSION, "hello?").await;
    assert_eq!((&answer["answer"], &answer["metadata"]["status"]), (&json!(" "), &json!("ok")));
    let turn = &house.turns(SESSION).await[0];
    assert_eq!(
        (&turn["status"], &turn["metadata"]["reason"]),
        (&json!("failed"), &json!("the model's answer was empty"))
    );
    assert_eq!(house.chat(SESSION, "and now?").await["metadata"]["messages_in_context"], 0);
}

/// C8: no lost, doubled or interleaved numbers, and times in the order of the numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_questions_get_numbers_without_gaps() {
    let house = House::open();
    let texts: Vec<String> = (0..40).map(|n| format!("question {n}")).collect();
    let answers = join_all(texts.iter().map(|text| house.chat(SESSION, text))).await;
    let mut numbers: Vec<u64> =
        answers.iter().map(|answer| answer["metadata"]["turn_number"].as_u64().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());

    let turns = house.turns(SESSION).await;
    assert_eq!(field(&turns, "turn_number"), (1..=40).map(Value::from).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    for answer in &answers {
        let number = answer["metadata"]["turn_number"].as_u64().expect("a number") as usize;
        assert_eq!(turns[number - 1]["query_text"], answer["query"], "the client was told its own number");
    }
    assert!(turns.windows(2).all(|pair| pair[0]["created_at"].as_str() < pair[1]["created_at"].as_str()));
}

/// C6, C10: after a restart the follow-up sees the earlier question, in Dutch.
#[tokio::test]
async fn a_dutch_conversation_goes_on_after_a_restart() {
    let house = House::open();
    says(&house, "Voor werken op hoogte gelden strenge regels.");
    house.chat(SESSION, "Wat zijn de vereisten voor werken op hoogte?").await;
    let house = house.reopen().await;
    let answer = house.chat(SESSION, "Welke producten heb je daarvoor?").await;
    assert_eq!(
        (&answer["metadata"]["turn_number"], &answer["metadata"]["messages_in_context"]),
        (&json!(2), &json!(2))
    );
    let prompt = last_prompt(&house);
    assert!(prompt[0].starts_with("Je bent een behulpzame assistent."), "{}", prompt[0]);
    assert_eq!(
        prompt[1..],
        [
            "Wat zijn de vereisten voor werken op hoogte?",
            "Voor werken op hoogte gelden strenge regels.",
            "Welke producten heb je daarvoor?"
        ]
    );
}

/// P4: while the disk is full chat answers, says so, and what waited gets its numbers later.
#[tokio::test]
async fn chat_goes_on_while_the_disk_is_full() {
    let house = House::plan().setting(|settings| settings.waiting_turns_max = 2).open();
    house.chat(SESSION, "one").await;
    house.flaky.fail(Some(recalld::store::StoreError::Full("no space left".into())));
    for query in ["two", "three"] {
        let answer = house.post("/chat").session(SESSION).json(json!({ "query": query })).await;
        let body = answer.expect(200);
        assert_eq!(answer.header("x-recalld-status"), "degraded");
        assert_eq!((&body["metadata"]["status"], &body["metadata"]["turn_number"]), (&json!("degraded"), &Value::Null));
    }
    let beyond = house.post("/chat").session(SESSION).json(json!({"query": "four"})).await;
    check_failure(&beyond, (507, "storage_full"));
    assert_eq!(house.metric("recalld_waiting_turns").await, 2);

    house.flaky.fail(None);
    assert_eq!(house.get("/readyz").send().await.expect(200)["status"], "degraded");
    house.store.flush().await;
    assert_eq!(house.get("/readyz").send().await.expect(200)["status"], "ok");
    assert_eq!(field(&house.turns(SESSION).await, "query_text"), ["one", "two", "three"]);
    assert_eq!(house.chat(SESSION, "five").await["metadata"]["turn_number"], 4);
}
