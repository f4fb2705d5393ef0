//! Details of the source documents.

use serde_json::{Value, json};

use crate::house::{House, OTHER_SESSION, SESSION};

const DAY: i64 = 24;

/// The titles of the topics that a list shows.
async fn titles(house: &House, query: &str) -> Vec<String> {
    let list = house.get(&format!("/api/v1/topics{query}")).send().await.expect(200);
    let title = |topic: &Value| topic["title"].as_str().expect("a title").to_owned();
    list["topics"].as_array().expect("a list").iter().map(title).collect()
}

/// D3: once a user has more than `topics_max` topics, all that faded go, not only the surplus, whether the user speaks or
/// not; before that they can be listed.
#[tokio::test]
async fn all_topics_that_faded_are_forgotten_and_can_be_seen_before() {
    let subjects = [
        "Which linseed paint shall I buy for the garden shed?",
        "When does the night train from Vienna to Hamburg leave?",
        "Who composed the opera Carmen in Paris?",
        "How do bees make honey in winter?",
        "Explain the rules of cricket bowling please",
    ];
    let house = House::plan().setting(|settings| settings.topics_max = 4).open();
    for subject in &subjects {
        house.clock.advance(jiff::SignedDuration::from_secs(1));
        house.chat(SESSION, subject).await;
    }
    assert_eq!(titles(&house, "?include=fading").await, [""; 0]);
    house.clock.advance(jiff::SignedDuration::from_hours(6 * DAY));
    assert_eq!(titles(&house, "?include=fading").await, subjects[..4], "the last one is the active one");
    assert_eq!(titles(&house, "").await, subjects);
    let report = house.post("/api/v1/cleanup").send().await.expect(200);
    assert_eq!(report["topics_forgotten"], 4);
    assert_eq!(titles(&house, "").await, subjects[4..]);
    assert_eq!(titles(&house, "?include=forgotten").await, subjects);
    house.clock.advance(jiff::SignedDuration::from_hours(30 * DAY));
    assert_eq!(titles(&house, "?include=fading").await, [""; 0], "one topic is within the limit");
}

/// The metadata of the last answer in a session, and of its turn.
async fn last_metadata(house: &House, session: &str) -> (Value, Value) {
    let messages = house.pages(&format!("/api/v1/sessions/{session}/messages?limit=50"), "messages").await;
    let turn = house.turns(session).await.pop().expect("a turn");
    (messages.last().expect("an answer")["metadata"].clone(), turn["metadata"].clone())
}

/// C1: an answer's metadata holds what it cites and how the memory was searched, through `/chat` and `/v1`; the turn's
/// holds how much was found.
#[tokio::test]
async fn answers_keep_citations_and_search_results() {
    let (house, _) = crate::openai::open();
    let note = json!({"title": "Opening hours", "text": "The shop in Lisbon opens at nine on Mondays."});
    house.post("/api/v1/knowledge").json(note).await.expect(201);
    let question = "When does the shop in Lisbon open on Mondays?";
    let answer = house.post("/chat").session(SESSION).json(json!({ "query": question })).await.expect(200);
    assert_eq!(answer["metadata"]["search_results"]["query"], question);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": question}]});
    house.post("/v1/chat/completions").session(OTHER_SESSION).json(body).await.expect(200);
    for session in [SESSION, OTHER_SESSION] {
        let (answer, turn) = last_metadata(&house, session).await;
        let cited = &answer["citations"][0];
        assert_eq!(cited["document_title"], "Opening hours", "{answer}");
        assert!(cited["chunk_id"].is_string() && cited["similarity"].is_number(), "{cited}");
        let results = &answer["search_results"];
        assert_eq!((&results["query"], &results["reranked"]), (&json!(question), &json!(true)), "{results}");
        assert!(results["search_time_ms"].is_number());
        assert!(results["results_count"].as_u64() >= Some(1), "{results}");
        assert_eq!(results["results_count"], turn["result_count"]);
    }
}

/// C1: a session says by which client it came and in which language it is, through every door that begins one.
#[tokio::test]
async fn a_session_says_how_it_came_and_its_language() {
    let (house, _) = crate::openai::open();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Welke verf kan ik het beste voor de schuur kopen?"}]});
    let made = house.post("/v1/chat/completions").json(body.clone()).await;
    let by_openai = made.header("x-session-id").to_owned();
    let asked =
        house.post("/v1/chat/completions").header("x-openwebui-chat-id", SESSION).header("x-openwebui-user-id", "u");
    let made = asked.json(body).await;
    let by_openwebui = made.header("x-session-id").to_owned();
    for (session, user, door) in [(&by_openai, "anonymous", "openai"), (&by_openwebui, "u", "openwebui")] {
        let session = house.get(&format!("/api/v1/sessions/{session}")).user(user).send().await.expect(200);
        let metadata = &session["metadata"];
        assert_eq!((&metadata["created_via"], &metadata["language"]), (&json!(door), &json!("nl")), "{metadata}");
    }
}

/// C5: a conversation that is kept to itself is shown none of the others, and goes on with its own.
#[tokio::test]
async fn a_conversation_can_be_kept_to_itself() {
    let house = House::open();
    let ask = async |session, query: &str, mode: &str| {
        let asked = house.post("/chat").session(session).header("x-recalld-mode", mode);
        asked.json(json!({ "query": query })).await
    };
    ask(OTHER_SESSION, "My dog is called Rex.", "active").await.expect(200);
    let question = "What is my dog called?";
    let alone = ask(SESSION, question, "passive").await.expect(200);
    assert_eq!(alone["data"], json!([]));
    assert!(!house.model.shown()[1].messages.iter().any(|message| message.to_string().contains("Rex")));
    let usual = ask("22222222-2222-4333-8444-555555555555", question, "active").await.expect(200);
    assert!(usual["data"].to_string().contains("Rex"), "{usual}");
    ask(SESSION, "My cat is called Zorro.", "passive").await.expect(200);
    let own = ask(SESSION, "What is my cat called?", "passive").await.expect(200);
    assert_eq!(own["metadata"]["messages_in_context"], 4);
    assert_eq!(ask(SESSION, question, "off").await.refusal(), (400, "invalid_mode"));
    assert_eq!(house.turns(SESSION).await.len(), 3);
}

/// B2: the context of a session for a question says what the question refers to, and what would be recalled for it.
#[tokio::test]
async fn a_context_resolves_its_question() {
    let house = House::open();
    house.chat(OTHER_SESSION, "My dog is called Rex and he is afraid of thunder.").await;
    house.chat(SESSION, "Which harness is best for a big dog?").await;
    let context = async |query: &str| {
        let path = format!("/api/v1/sessions/{SESSION}/context?query={}", crate::house::encoded(query));
        house.get(&path).send().await.expect(200)
    };
    let about = context("What is my dog afraid of?").await;
    assert!(about["recalled"].as_str().expect("text").contains("thunder"), "{about}");
    let follow_up = context("How much does it cost?").await;
    assert!(follow_up["resolved_query"].as_str().expect("text").contains("harness"), "{follow_up}");
    let plain = house.get(&format!("/api/v1/sessions/{SESSION}/context")).send().await.expect(200);
    assert_eq!((&plain["resolved_query"], &plain["recalled"]), (&Value::Null, &Value::Null));
}

/// D4: a question that returns to an older topic is shown its last four messages, whatever else is recalled.
#[tokio::test]
async fn a_question_that_returns_to_a_topic_is_shown_its_last_messages() {
    let (house, upstream) = crate::openai::open();
    let ask = async |session: &str, text: &str| {
        house.clock.advance(jiff::SignedDuration::from_secs(1));
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]});
        house.post("/v1/chat/completions").session(session).json(body).await.expect(200)
    };
    for text in [
        "Which linseed paint shall I buy for the garden shed?",
        "Is linseed paint better for the shed than acrylic paint?",
        "Then it is the green linseed paint; Marta gets it on Friday.",
        "Two tins of linseed paint will do for the shed.",
    ] {
        ask(OTHER_SESSION, text).await;
    }
    ask(SESSION, "When does the night train from Vienna to Hamburg leave?").await;
    ask(SESSION, "Is linseed paint good for a garden shed?").await;
    let sent = upstream.last().to_string();
    for shown in ["Marta gets it on Friday", "Two tins of linseed paint"] {
        assert!(sent.contains(shown), "{shown}: {sent}");
    }
    let reasons = house.pages(&format!("/api/v1/sessions/{SESSION}/turns?limit=50"), "turns").await;
    let turn = reasons.last().expect("a turn")["id"].as_str().expect("an id").to_owned();
    let trace = house.get(&format!("/api/v1/turns/{turn}/context")).send().await.expect(200);
    assert!(trace["reminders"].as_array().expect("a list").iter().any(|one| one["reason"] == "topic"), "{trace}");
}
