//! Topics through the doors: what conversations are about, what fades, what people say about it.

use std::process::Stdio;

use recalld::scope::{Scope, Tenant, User};
use recalld::store::{SketchedTopic, Store};
use serde_json::{Value, json};

use crate::house::{Answer, House, OTHER_SESSION, SESSION, keys};
use crate::openai::{CHAT, body, talk};
use crate::process::recalld;

const UNKNOWN: &str = "6f1c9a52-3a5b-4b53-8a86-1f6dfd4f2c11";

async fn chat(house: &House, user: &str, session: &str, query: &str) -> Value {
    house.clock.advance(jiff::SignedDuration::from_secs(1));
    house.post("/chat").user(user).session(session).json(json!({ "query": query })).await.expect(200)
}

async fn get(house: &House, user: &str, path: &str) -> Value {
    house.get(&format!("/api/v1/topics{path}")).user(user).send().await.expect(200)
}

/// The topics that are listed, by title and messages.
async fn listed(house: &House, user: &str, query: &str) -> Vec<(String, u64)> {
    let list = get(house, user, query).await;
    let topics = list["topics"].as_array().expect("a list");
    let text = |topic: &Value| topic["title"].as_str().expect("a title").to_owned();
    topics.iter().map(|topic| (text(topic), topic["messages"].as_u64().expect("a number"))).collect()
}

/// The id of the topic with this title.
async fn id_of(house: &House, user: &str, title: &str) -> String {
    let list = get(house, user, "?include=forgotten").await;
    let topic = list["topics"].as_array().expect("a list").iter().find(|topic| topic["title"] == title);
    topic.unwrap_or_else(|| panic!("no topic `{title}` in {list}"))["id"].as_str().expect("an id").to_owned()
}

/// What the background would do by itself.
async fn tend(house: &House) {
    while !house.memory.tend_topics().await.expect("topics are tended").is_nothing() {}
}

const PAINT: &str = "Which linseed paint shall I buy for the garden shed?";
const TRAINS: &str = "When does the night train from Vienna to Hamburg leave?";

/// D1: a question opens a topic, a follow-up stays, another one opens its own, and one comes back, in another session too.
#[tokio::test]
async fn d1_messages_find_their_topic() {
    let house = House::open();
    chat(&house, "ann", SESSION, PAINT).await;
    chat(&house, "ann", SESSION, "How much does it cost?").await;
    chat(&house, "ann", SESSION, TRAINS).await;
    chat(&house, "ann", OTHER_SESSION, "Is linseed paint good for a shed?").await;
    let expected = vec![(PAINT.to_owned(), 6), (TRAINS.to_owned(), 2)];
    assert_eq!(listed(&house, "ann", "").await, expected, "at once, without the background");
    tend(&house).await;
    assert_eq!(listed(&house, "ann", "").await, expected);
    assert_eq!(listed(&house, "bob", "").await, []);
}

/// D5: stats have the document's fields, and no others but summary and tags.
#[tokio::test]
async fn d5_stats_of_a_topic() {
    let house = House::open();
    for _ in 0..6 {
        chat(&house, "ann", SESSION, PAINT).await;
    }
    let id = id_of(&house, "ann", PAINT).await;
    house.clock.advance(jiff::SignedDuration::from_secs(120));
    let stats = get(&house, "ann", &format!("/{id}")).await;
    assert_eq!(
        keys(&stats),
        [
            "topic_id",
            "topic_title",
            "active_messages",
            "compressed_messages",
            "total_messages",
            "has_summary",
            "importance_score",
            "access_count",
            "memory_type",
            "half_life_days",
            "age_seconds",
            "inactive_seconds",
            "summary",
            "tags"
        ]
    );
    assert_eq!((&stats["total_messages"], &stats["access_count"]), (&json!(12), &json!(5)));
    assert_eq!((&stats["memory_type"], &stats["half_life_days"]), (&json!("transitioning"), &json!(2.0)));
    assert_eq!(stats["inactive_seconds"], 120);
}

/// D5: the history of a topic over sessions, in order and in pages, with and without archive, and its context.
#[tokio::test]
async fn d5_history_and_context() {
    let house = House::open();
    let asked = [PAINT, "Is linseed paint poisonous?", "And is linseed paint cheap?"];
    chat(&house, "ann", SESSION, asked[0]).await;
    chat(&house, "ann", SESSION, TRAINS).await;
    chat(&house, "ann", OTHER_SESSION, asked[1]).await;
    chat(&house, "ann", SESSION, asked[2]).await;
    let id = id_of(&house, "ann", PAINT).await;
    for archived in ["", "&archived=false", "&archived=true"] {
        let (mut said, mut after) = (Vec::new(), String::new());
        loop {
            let page = get(&house, "ann", &format!("/{id}/messages?limit=1{archived}&after={after}")).await;
            assert_eq!(page["messages"].as_array().map(Vec::len), Some(1));
            said.push((page["messages"][0]["role"].clone(), page["messages"][0]["content"].clone()));
            match page["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => break,
            }
        }
        let questions: Vec<&Value> = said.iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
        assert_eq!((questions, said.len()), (asked.each_ref().map(|text| json!(text)).iter().collect(), 6));
    }
    let context = get(&house, "ann", &format!("/{id}/context")).await;
    let messages = context["messages"].as_array().expect("a list");
    assert_eq!((messages.len(), &messages[0]["content"], &messages[0]["role"]), (6, &json!(asked[0]), &json!("user")));
    house.get(&format!("/api/v1/topics/{id}/messages?archived=maybe")).user("ann").send().await.expect(400);
}

/// D8: names, tags and feedback; a topic that is useful lasts longer.
#[tokio::test]
async fn d8_people_name_tag_and_rate() {
    let house = House::open();
    chat(&house, "ann", SESSION, PAINT).await;
    let path = format!("/api/v1/topics/{}", id_of(&house, "ann", PAINT).await);
    let patch = async |body: Value| house.ask("PATCH", &path).user("ann").json(body).await;
    let named = patch(json!({"title": "The shed", "tags": [" garden ", "garden", "2026"]})).await.expect(200);
    assert_eq!((&named["title"], &named["tags"]), (&json!("The shed"), &json!(["garden", "2026"])));
    assert_eq!(listed(&house, "ann", "?tag=garden").await.len(), 1);
    assert_eq!(listed(&house, "ann", "?tag=gard").await, []);
    for wrong in [json!({"title": " "}), json!({"tags": [""]}), json!({"tag": []}), json!({"tags": vec!["x"; 21]})] {
        patch(wrong).await.expect(400);
    }
    patch(json!({"title": "x".repeat(81)})).await.expect(413);
    let rate =
        async |useful: Value| house.post(&format!("{path}/feedback")).user("ann").json(json!({"useful": useful})).await;
    assert_eq!(rate(json!(true)).await.expect(200)["importance"], 1.5);
    assert_eq!(rate(json!(false)).await.expect(200)["importance"], 1.0);
    rate(json!("very")).await.expect(400);
}

/// DESIGN 6: a rebuild makes again what topics know, and comes to the same; what people said of them and how often they were used stays.
#[tokio::test]
async fn a_rebuild_keeps_what_people_said_of_topics() {
    let house = House::open();
    for query in [PAINT, "How much does it cost?", TRAINS, "Is linseed paint good for a shed?"] {
        chat(&house, "ann", SESSION, query).await;
    }
    let path = format!("/api/v1/topics/{}", id_of(&house, "ann", PAINT).await);
    house.ask("PATCH", &path).user("ann").json(json!({"title": "The shed", "tags": ["garden"]})).await.expect(200);
    house.post(&format!("{path}/feedback")).user("ann").json(json!({"useful": true})).await.expect(200);
    tend(&house).await;
    let (shown, known) = (get(&house, "ann", "").await, sketches(&house).await);
    assert_eq!((shown["topics"].as_array().map(Vec::len), known.len()), (Some(2), 2));

    let scope = Scope::new(Tenant::default(), User::parse("ann").expect("a user"));
    house.memory.digest_again(Some(&scope)).await.expect("it is asked for");
    assert!(sketches(&house).await.iter().all(|topic| topic.stale));
    house.post("/api/v1/digest").user("ann").send().await.expect(200);
    assert_eq!(get(&house, "ann", "").await, shown);
    let again = sketches(&house).await;
    for (now, before) in again.iter().zip(&known) {
        assert_eq!((now.id, &now.sketch, now.untaken.len(), now.stale), (before.id, &before.sketch, 0, false));
    }
}

/// What Ann's topics know, the one that was used last first.
async fn sketches(house: &House) -> Vec<SketchedTopic> {
    let scope = Scope::new(Tenant::default(), User::parse("ann").expect("a user"));
    let topics = house.store.topics();
    let outline = topics.topic_outline(&scope, None).await.expect("an outline");
    let ids: Vec<_> = outline.topics.iter().map(|(id, _)| *id).collect();
    topics.topic_sketches(&scope, &ids, &[]).await.expect("sketches")
}

/// D8: search across topics finds the topic of what was said, and those that carry the word as a tag.
#[tokio::test]
async fn d8_search_across_topics() {
    let house = House::open();
    chat(&house, "ann", SESSION, PAINT).await;
    chat(&house, "ann", SESSION, TRAINS).await;
    let search = async |user: &str, query: &str| {
        let body = json!({"query": query});
        house.post("/api/v1/topics/search").user(user).json(body).await.expect(200)
    };
    let found = search("ann", "the train to Hamburg").await;
    assert_eq!(
        (&found["topics"][0]["title"], &found["topics"][0]["messages"][0]["text"]),
        (&json!(TRAINS), &json!(TRAINS))
    );
    let id = id_of(&house, "ann", PAINT).await;
    let tagged = json!({"tags": ["journey"]});
    house.ask("PATCH", &format!("/api/v1/topics/{id}")).user("ann").json(tagged).await.expect(200);
    assert_eq!(search("ann", "journey").await["topics"][0]["id"], json!(id));
    assert_eq!(search("bob", "the train to Hamburg").await["topics"], json!([]));
    house.post("/api/v1/topics/search").user("ann").json(json!({"query": " "})).await.expect(400);
    house.post("/api/v1/topics/search").user("ann").json(json!({"query": "x", "limit": 51})).await.expect(400);
}

/// Somebody else's topic is answered exactly as one that does not exist, on every route.
#[tokio::test]
async fn a_foreign_topic_is_unknown_on_every_route() {
    let house = House::open();
    chat(&house, "ann", SESSION, PAINT).await;
    let id = id_of(&house, "ann", PAINT).await;
    let routes = [
        ("GET", "", Value::Null),
        ("GET", "/messages", Value::Null),
        ("GET", "/context", Value::Null),
        ("PATCH", "", json!({"title": "mine"})),
        ("POST", "/feedback", json!({"useful": true})),
    ];
    for (method, route, body) in routes {
        let answer = async |id: &str| {
            let ask = house.ask(method, &format!("/api/v1/topics/{id}{route}")).user("bob");
            let answer = if body.is_null() { ask.send().await } else { ask.json(body.clone()).await };
            answer.expect(404).to_string().replace(id, "ID")
        };
        let (foreign, unknown) = (answer(&id).await, answer(UNKNOWN).await);
        assert_eq!(foreign, unknown, "{method} {route}");
        let ask = house.ask(method, &format!("/api/v1/topics/nonsense{route}")).user("ann");
        if body.is_null() { ask.send().await } else { ask.json(body.clone()).await }.expect(400);
    }
    assert_eq!(listed(&house, "ann", "").await, [(PAINT.to_owned(), 2)], "nothing changed");
}

/// Subjects that have nothing to do with each other.
const SUBJECTS: [&str; 6] = [
    PAINT,
    TRAINS,
    "Who composed the opera Carmen in Paris?",
    "How do bees make honey in winter?",
    "Explain the rules of cricket bowling please",
    "Recipe with aubergine, cumin and yoghurt?",
];

/// D3: over the limit what faded is forgotten, the most faded first; it is listed, and its turns stay.
#[tokio::test]
async fn d3_what_faded_is_forgotten() {
    let house = House::plan().setting(|settings| settings.topics_max = 3).open();
    for subject in SUBJECTS {
        chat(&house, "ann", SESSION, subject).await;
        tend(&house).await;
        house.clock.advance(jiff::SignedDuration::from_hours(2 * 24));
    }
    let titles =
        async |query| listed(&house, "ann", query).await.into_iter().map(|(title, _)| title).collect::<Vec<_>>();
    // After ten, eight and six days nothing is left of those that nobody came back to.
    assert_eq!(titles("").await, SUBJECTS[3..]);
    assert_eq!(titles("?include=forgotten").await, SUBJECTS);
    let forgotten = id_of(&house, "ann", PAINT).await;
    assert_eq!(get(&house, "ann", &format!("/{forgotten}/messages")).await["messages"][0]["content"], PAINT);
    assert_eq!(house.metric("recalld_topics_forgotten_total").await, 3);
    assert_eq!(house.turns_of("ann", SESSION).await.len(), SUBJECTS.len());
    house.get("/api/v1/topics?include=everything").user("ann").send().await.expect(400);
}

/// D3: while nothing faded, a user may have more than the limit.
#[tokio::test]
async fn d3_nothing_goes_before_it_faded() {
    let house = House::plan().setting(|settings| settings.topics_max = 1).open();
    for subject in SUBJECTS {
        chat(&house, "ann", SESSION, subject).await;
    }
    tend(&house).await;
    assert_eq!(listed(&house, "ann", "").await.len(), SUBJECTS.len());
}

/// Turns that came without a question, and all of a file from before, get their topics in the background.
#[tokio::test]
async fn added_turns_are_placed_in_the_background() {
    let house = House::open();
    let body = json!({"id": SESSION});
    house.post("/api/v1/sessions").user("ann").json(body).await.expect(201);
    for (query, response) in [(PAINT, "Any."), ("How much does it cost?", "Ten."), (TRAINS, "At nine.")] {
        let turn = json!({"query": query, "response": response});
        house.post(&format!("/api/v1/sessions/{SESSION}/turns")).user("ann").json(turn).await.expect(201);
    }
    assert_eq!(listed(&house, "ann", "").await, []);
    tend(&house).await;
    assert_eq!(listed(&house, "ann", "").await, [(PAINT.to_owned(), 4), (TRAINS.to_owned(), 2)]);
}

/// Erased is erased: with a session its words leave title, sketch and counts, and an empty topic goes.
#[tokio::test]
async fn a_deleted_session_leaves_its_topics() {
    let house = House::open();
    chat(&house, "ann", SESSION, PAINT).await;
    chat(&house, "ann", SESSION, TRAINS).await;
    chat(&house, "ann", OTHER_SESSION, "Is linseed paint poisonous for a shed?").await;
    tend(&house).await;
    house.ask("DELETE", &format!("/api/v1/sessions/{SESSION}")).user("ann").send().await.expect(200);
    assert_eq!(listed(&house, "ann", "").await, [(String::new(), 2)]);
    tend(&house).await;
    assert_eq!(listed(&house, "ann", "").await, [("Is linseed paint poisonous for a shed?".to_owned(), 2)]);
}

/// Two users who talk at once, in many sessions, keep their topics apart, and every turn finds one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_lose_no_turn() {
    let house = std::sync::Arc::new(House::open());
    let talks = (0..12).map(|n| {
        let house = std::sync::Arc::clone(&house);
        tokio::spawn(async move {
            let (user, session) = (["ann", "bob"][n % 2], uuid::Uuid::new_v4().to_string());
            for subject in SUBJECTS {
                chat(&house, user, &session, subject).await;
            }
        })
    });
    for talk in talks.collect::<Vec<_>>() {
        talk.await.expect("the talk goes well");
    }
    tend(&house).await;
    for user in ["ann", "bob"] {
        let messages: u64 = listed(&house, user, "?limit=50").await.iter().map(|(_, messages)| messages).sum();
        assert_eq!(messages, 6 * 6 * 2, "{user}");
    }
}

/// D6, C10: a follow-up is searched for with what its own topic is about, not with what else the conversation touched on.
#[tokio::test]
async fn d6_a_follow_up_is_completed_from_its_topic() {
    let house = House::open();
    chat(&house, "ann", SESSION, TRAINS).await;
    chat(&house, "ann", SESSION, PAINT).await;
    let request = json!({"question": "How much does it cost?", "session_id": SESSION});
    let recalled = house.post("/api/v1/recall").user("ann").json(request).await.expect(200);
    let completed = recalled["completed"].as_str().expect("a completed question");
    assert!(completed.contains("linseed") && !completed.contains("vienna"), "{completed}");
}

/// Asks through `/v1`, in a session or without a word about which.
async fn proxied(house: &House, session: Option<&str>, texts: &[&str]) -> Answer {
    house.clock.advance(jiff::SignedDuration::from_secs(1));
    let ask = house.post(CHAT).user("ann");
    let ask = if let Some(session) = session { ask.session(session) } else { ask };
    ask.json(body(talk(texts))).await
}

/// What a question was completed with.
async fn completed(house: &House, answer: &Answer) -> String {
    let path = format!("/api/v1/turns/{}/context", answer.header("x-recalld-turn"));
    let trace = house.get(&path).user("ann").send().await.expect(200);
    trace["completed"].as_str().unwrap_or_default().to_lowercase()
}

#[track_caller]
fn check_completed(completed: &str) {
    assert!(completed.contains("linseed") && !completed.contains("vienna"), "{completed:?}");
}

const COST: &str = "How much does it cost?";

/// D1, C5: an edited question goes on with what stands before it, not with what it replaces; one that is answered again too.
#[tokio::test]
async fn d1_an_edit_goes_on_with_what_stands_before_it() {
    let house = House::open();
    chat(&house, "ann", OTHER_SESSION, TRAINS).await;
    for said in [&[PAINT][..], &[PAINT, "ok", TRAINS]] {
        proxied(&house, Some(SESSION), said).await.expect(200);
    }
    let edited = proxied(&house, Some(SESSION), &[PAINT, "ok", COST]).await;
    check_completed(&completed(&house, &edited).await);
    assert_eq!(listed(&house, "ann", "").await, [(TRAINS.to_owned(), 2), (PAINT.to_owned(), 4)]);
    proxied(&house, Some(SESSION), &[PAINT, "ok", COST, "ok", TRAINS]).await.expect(200);
    let again = proxied(&house, Some(SESSION), &[PAINT, "ok", COST]).await;
    assert_eq!(again.header("x-recalld-turn"), edited.header("x-recalld-turn"));
    check_completed(&completed(&house, &again).await);
    // Back on the branch that was left: what is taken back is in the middle of what was said.
    proxied(&house, Some(SESSION), &[PAINT, "ok", TRAINS, "ok", "At what time?"]).await.expect(200);
    let back = proxied(&house, Some(SESSION), &[PAINT, "ok", COST, "ok", "And how much of it?"]).await;
    check_completed(&completed(&house, &back).await);
}

/// D1, C10: a chat that comes with its history goes on with that, and its turns find their topics in order.
#[tokio::test]
async fn d1_a_chat_that_was_begun_elsewhere_goes_on() {
    let house = House::open();
    chat(&house, "ann", OTHER_SESSION, TRAINS).await;
    let come = proxied(&house, Some(SESSION), &[PAINT, "Any will do.", COST]).await;
    check_completed(&completed(&house, &come).await);
    tend(&house).await;
    assert_eq!(listed(&house, "ann", "").await, [(TRAINS.to_owned(), 2), (PAINT.to_owned(), 4)]);
}

/// D1, C10: a chat that leaves another one goes on with what that was about where it was left.
#[tokio::test]
async fn d1_a_fork_goes_on_with_what_it_left() {
    let house = House::open();
    let first = proxied(&house, None, &[PAINT]).await;
    proxied(&house, None, &[PAINT, "ok", TRAINS]).await.expect(200);
    let fork = proxied(&house, None, &[PAINT, "ok", COST]).await;
    assert_ne!(fork.header("x-session-id"), first.header("x-session-id"));
    check_completed(&completed(&house, &fork).await);
    assert_eq!(listed(&house, "ann", "").await, [(PAINT.to_owned(), 4), (TRAINS.to_owned(), 2)]);
}

/// D5: from a conversation one comes to its topics: each turn names its own, and the conversation is in one of them.
#[tokio::test]
async fn d5_a_conversation_leads_to_its_topics() {
    let house = House::open();
    let of = async |user: &str, session: &str| {
        house.get(&format!("/api/v1/sessions/{session}/topic")).user(user).send().await
    };
    let unknown = of("ann", SESSION).await;
    assert_eq!(unknown.refusal(), (404, "unknown_session"));
    house.post("/api/v1/sessions").user("ann").json(json!({"id": SESSION})).await.expect(201);
    assert_eq!(of("ann", SESSION).await.refusal(), (404, "no_topic"));
    let turns = format!("/api/v1/sessions/{SESSION}/turns");
    let turn = json!({"query": PAINT, "response": "Any."});
    assert_eq!(house.post(&turns).user("ann").json(turn).await.expect(201)["topic_id"], Value::Null);
    tend(&house).await;
    chat(&house, "ann", SESSION, TRAINS).await;

    let (paint, trains) = (id_of(&house, "ann", PAINT).await, id_of(&house, "ann", TRAINS).await);
    let turns = house.turns_of("ann", SESSION).await;
    assert_eq!(turns.iter().map(|turn| &turn["topic_id"]).collect::<Vec<_>>(), [&json!(paint), &json!(trains)]);
    let one = format!("/api/v1/turns/{}", turns[0]["id"].as_str().expect("an id"));
    assert_eq!(house.get(&one).user("ann").send().await.expect(200)["topic_id"], json!(paint));
    assert_eq!(of("ann", SESSION).await.expect(200), get(&house, "ann", &format!("/{trains}")).await);
    assert_eq!(of("bob", SESSION).await.expect(404), unknown.expect(404), "somebody else's is unknown");
}

/// The commands of `recalld topics`, as a shell runs them.
#[test]
fn the_command_line_shows_and_tags_topics() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let settings = [("RECALLD_UPSTREAM", "builtin"), ("RECALLD_DATA", "r.db")];
        let done = recalld(folder.path(), arguments, &settings).stdout(Stdio::piped()).output().expect("it runs");
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let json = |arguments: &[&str]| -> Value {
        let (_, text) = run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
    };
    assert_eq!(json(&["topics"])["topics"], json!([]));
    assert!(run(&["ask", PAINT]).0 && run(&["ask", TRAINS]).0);
    let listed = json(&["topics", "list"]);
    assert_eq!(listed["topics"].as_array().map(Vec::len), Some(2), "{listed}");
    let id = listed["topics"][0]["id"].as_str().expect("an id");
    let (_, table) = run(&["topics", "list"]);
    assert!(table.starts_with("ID") && table.contains("short-term") && table.contains(PAINT), "{table}");
    let tagged = json(&["topics", "tag", id, "garden", "2026"]);
    assert_eq!(tagged["tags"], json!(["garden", "2026"]));
    assert_eq!(json(&["topics", "tag", id, "--title", "The shed"])["tags"], json!(["garden", "2026"]));
    let shown = json(&["topics", "show", id, "--messages"]);
    assert_eq!((&shown["topic_title"], &shown["messages"][0]["content"]), (&json!("The shed"), &json!(PAINT)));
    assert!(run(&["topics", "show", id]).1.contains("memory type          short-term"));
    let session = json(&["sessions", "list"])["sessions"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(json(&["topics", "show", "--session", &session])["topic_title"], TRAINS, "the newest comes first");
    assert!(!run(&["topics", "show"]).0 && !run(&["topics", "show", id, "--session", &session]).0);
    let found = json(&["topics", "search", "the train to Hamburg"]);
    assert_eq!(found["topics"][0]["title"], TRAINS, "{found}");
    assert!(run(&["topics", "search", "the train to Hamburg"]).1.starts_with("ID"));
    assert!(!run(&["topics", "show", UNKNOWN]).0 && !run(&["topics", "show", "nonsense"]).0);
}
