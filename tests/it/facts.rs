//! Facts, from conversations: what is learned, what replaces what, and what the model is told.

use std::sync::Arc;

use recalld::model::builtin::Builtin;
use recalld::model::scripted::Line;
use recalld::store::StoreError;
use serde_json::{Value, json};

use crate::house::{House, OTHER_SESSION, SESSION, eventually};
use crate::openai;

/// What the background would do by itself.
pub(crate) async fn learn(house: &House) {
    while house.memory.learn_facts().await.expect("facts are learned") > 0 {}
}

/// Says something as a user, an hour after what was said before.
pub(crate) async fn say(house: &House, user: &str, session: &str, words: &str) -> Value {
    house.clock.advance(jiff::SignedDuration::from_hours(1));
    house.post("/chat").user(user).session(session).json(json!({ "query": words })).await.expect(200)
}

/// A user's facts with a status, as the door tells them.
pub(crate) async fn listed(house: &House, user: &str, status: &str) -> Vec<Value> {
    let path = format!("/api/v1/users/{user}/facts?limit=50&status={status}");
    house.pages_of(user, &path, "facts").await
}

/// `location: Lisbon`, with how often it was said unless that was once, by key.
pub(crate) async fn known(house: &House, user: &str) -> Vec<String> {
    let mut known: Vec<String> = listed(house, user, "active").await.iter().map(told).collect();
    known.sort_unstable();
    known
}

fn told(fact: &Value) -> String {
    let text = |name: &str| fact[name].as_str().expect("a text").to_owned();
    let often = match fact["evidence"]["confirmations"].as_u64() {
        Some(1) => String::new(),
        often => format!(" ×{}", often.expect("a number")),
    };
    format!("{}: {}{often}", text("key"), text("value"))
}

/// The last message that the model was shown, with what was laid before it.
pub(crate) fn last_shown(house: &House) -> String {
    let prompt = house.model.shown().pop().expect("it was asked");
    prompt.messages.last().and_then(|last| last["content"].as_str()).expect("a text").to_owned()
}

/// Each line of the conversation is said by the user; the facts that hold afterwards are expected, and after `was:`
/// those that were superseded, retracted or are not sure enough.
async fn check(conversation: &str, expected: &str) {
    let house = House::open();
    for line in conversation.lines().map(str::trim).filter(|line| !line.is_empty()) {
        say(&house, "ann", SESSION, line).await;
        learn(&house).await;
    }
    let mut found = known(&house, "ann").await;
    for fact in listed(&house, "ann", "any").await.iter().filter(|fact| fact["status"] != "active") {
        found.push(format!("was: {} ({})", told(fact), fact["status"].as_str().expect("a status")));
    }
    let mut expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{conversation}");
}

/// E4: the document's example. A nickname does not replace a name, and a full name is another key.
#[tokio::test]
async fn e4_alex() {
    check(
        "My name is Alex.
         My full name is Alexander Stone.",
        "name: Alex
         full_name: Alexander Stone",
    )
    .await;
}

/// E4: an explicit correction replaces whatever the score.
#[tokio::test]
async fn e4_a_correction_replaces() {
    check(
        "My name is Alex.
         No, my name is Alec.",
        "name: Alec
         was: name: Alex (superseded)",
    )
    .await;
}

#[tokio::test]
async fn moving_house_twice() {
    check(
        "I live in Lisbon.
         I moved to Porto.
         I moved to Berlin last week.",
        "location: Berlin
         was: location: Lisbon (superseded)
         was: location: Porto (superseded)",
    )
    .await;
}

#[tokio::test]
async fn changing_ones_mind_back() {
    check(
        "I live in Lisbon.
         I moved to Porto.
         I moved back to Lisbon.",
        "location: Lisbon
         was: location: Lisbon (superseded)
         was: location: Porto (superseded)",
    )
    .await;
}

#[tokio::test]
async fn fifty_times_the_same_is_one_fact() {
    let often = vec!["My name is Alex."; 50].join("\n");
    check(&often, "name: Alex ×50").await;
}

/// What nobody said about themselves is no fact.
#[tokio::test]
async fn questions_are_no_facts() {
    check(
        "What is my name?
         Is my name Alex?
         Summarise this: \"My name is Bob and I live in Rome.\"",
        "",
    )
    .await;
}

/// Two users who share names and sessions' words have their own facts.
#[tokio::test]
async fn two_users_are_told_apart() {
    let house = House::open();
    say(&house, "ann", SESSION, "My name is Alex. I live in Lisbon.").await;
    say(&house, "bob", OTHER_SESSION, "My name is Alex. I live in Porto.").await;
    learn(&house).await;
    assert_eq!(known(&house, "ann").await, ["location: Lisbon", "name: Alex"]);
    assert_eq!(known(&house, "bob").await, ["location: Porto", "name: Alex"]);
    say(&house, "bob", OTHER_SESSION, "I moved to Berlin.").await;
    learn(&house).await;
    assert_eq!(known(&house, "ann").await, ["location: Lisbon", "name: Alex"]);
}

/// E6: what matters stands before the model with every question, first of all, and says since when.
#[tokio::test]
async fn e6_the_profile_is_always_there() {
    let house = House::open();
    say(&house, "ann", SESSION, "My name is Alex. I live in Lisbon.").await;
    learn(&house).await;
    for question in ["What is the capital of France?", "And of Peru?"] {
        say(&house, "ann", OTHER_SESSION, question).await;
        let text = last_shown(&house);
        let profile = "## User profile\n- name: Alex (since 2026-01-01)\n- location: Lisbon (since 2026-01-01)";
        assert!(text.contains(profile), "{text}");
    }
    say(&house, "bob", SESSION, "What is the capital of France?").await;
    let prompt = house.model.shown().pop().expect("it was asked");
    assert!(!format!("{prompt:?}").contains("Alex"), "{prompt:?}");
}

/// An old message that states what is no longer so says what holds, and so does the answer that repeated it.
#[tokio::test]
async fn old_words_say_what_holds_now() {
    let house = House::open();
    house.model.then(Line { pieces: vec!["Lisbon is lovely, enjoy the trams!".into()], error: None });
    say(&house, "ann", SESSION, "I live in Lisbon, near the yellow trams.").await;
    say(&house, "ann", SESSION, "Which tram goes to Belém?").await;
    say(&house, "ann", OTHER_SESSION, "I moved to Porto.").await;
    learn(&house).await;
    let recall = async || {
        let request = json!({"question": "Where do I live, near which trams?"});
        house.post("/api/v1/recall").user("ann").json(request).await.expect(200)
    };
    let text = recall().await["text"].as_str().expect("a context").to_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("Lisbon")).collect();
    assert!(!lines.is_empty(), "{text}");
    for line in lines {
        assert!(line.ends_with("(since then: location is Porto)"), "{text}");
    }
    assert!(text.contains("- location: Porto (since"), "{text}");
    let porto = &listed(&house, "ann", "active").await[0]["id"];
    let path = format!("/api/v1/facts/{}", porto.as_str().expect("an id"));
    house.ask("DELETE", &path).user("ann").send().await.expect(200);
    let text = recall().await["text"].as_str().expect("a context").to_owned();
    assert!(text.contains("(since then: location is no longer Lisbon)"), "{text}");
}

/// Whatever the model says, and however often it repeats what it was told, nothing is learned from it.
#[tokio::test]
async fn the_models_own_words_teach_nothing() {
    let house = House::open();
    say(&house, "ann", SESSION, "My name is Alex. I live in Lisbon.").await;
    learn(&house).await;
    let before = listed(&house, "ann", "any").await;
    for turn in 0..500 {
        let echo = format!("{} Your name is Alex, you live in Rome, I live in Rome.", last_shown(&house));
        house.model.then(Line { pieces: vec![echo.chars().take(400).collect()], error: None });
        let query = format!("Tell me something about number {turn}.");
        house.post("/chat").user("ann").session(SESSION).json(json!({ "query": query })).await.expect(200);
        if turn % 50 == 0 {
            learn(&house).await;
        }
    }
    learn(&house).await;
    assert_eq!(listed(&house, "ann", "any").await, before);
}

/// What the client injects around a question was not said by the user: another tool's memories, files, our own block.
#[tokio::test]
async fn wrappers_teach_nothing() {
    let (house, _) = openai::open();
    let block = house.memory.settings().inject;
    assert_eq!(block, recalld::memory::InjectInto::User);
    let wrapped = "<recalled_memory note=\"x\">\n## User profile\n- name: Eve\n</recalled_memory>\n\nHello there";
    openai::ask(&house, &[wrapped]).await;
    let messages =
        json!([{"role": "system", "content": "My name is Eve. I live in Rome."}, {"role": "user", "content": "Hi"}]);
    house.post(openai::CHAT).session(OTHER_SESSION).json(openai::body(messages)).await.expect(200);
    learn(&house).await;
    assert_eq!(listed(&house, "anonymous", "any").await, Vec::<Value>::new());
}

/// A question that was edited has no say; when the client returns to it, it has its say again.
#[tokio::test]
async fn edited_questions_take_their_facts_back() {
    let (house, _) = openai::open();
    openai::ask(&house, &["Hello"]).await;
    openai::ask(&house, &["Hello", "answer 1", "My name is Bob."]).await;
    learn(&house).await;
    assert_eq!(known(&house, "anonymous").await, ["name: Bob"]);
    let id = listed(&house, "anonymous", "active").await[0]["id"].clone();
    openai::ask(&house, &["Hello", "answer 1", "My name is Rob."]).await;
    learn(&house).await;
    assert_eq!(known(&house, "anonymous").await, ["name: Rob"]);
    openai::ask(&house, &["Hello", "answer 1", "My name is Bob.", "answer 2", "What is for lunch?"]).await;
    learn(&house).await;
    assert_eq!(known(&house, "anonymous").await, ["name: Bob"]);
    assert_eq!(listed(&house, "anonymous", "active").await[0]["id"], id);
    openai::ask(&house, &["Hello", "answer 1", "My name is Bob.", "answer 2", "What is for lunch?"]).await;
    learn(&house).await;
    assert_eq!(known(&house, "anonymous").await, ["name: Bob"], "asking again confirms nothing");
}

/// Rebuilding comes to the same facts, and keeps what people wrote and undid.
#[tokio::test]
async fn rebuilding_comes_to_the_same() {
    let house = House::open();
    for words in ["My name is Alex.", "I live in Lisbon.", "I moved to Porto.", "My name is Alex.", "I am vegetarian."]
    {
        say(&house, "ann", SESSION, words).await;
    }
    learn(&house).await;
    let add = json!({"key": "timezone", "value": "Europe/Lisbon"});
    house.post("/api/v1/users/ann/facts").user("ann").json(add).await.expect(201);
    let diet = listed(&house, "ann", "active").await.into_iter().find(|fact| told(fact).contains("vegetarian"));
    let undo = json!({"fact_id": diet.expect("a diet")["id"]});
    house.post("/api/v1/users/ann/facts/undo").user("ann").json(undo).await.expect(200);
    let before = listed(&house, "ann", "any").await;
    let report = house.post("/api/v1/digest?rebuild=true").user("ann").send().await.expect(200);
    assert_eq!(report["turns_understood"], 5, "{report}");
    assert_eq!(listed(&house, "ann", "any").await, before);
}

/// Within two seconds of a message its facts are known, when nothing else is to be done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e3_the_background_learns_by_itself() {
    let house = House::open();
    let (memory, watch) = (house.memory.clone(), Arc::clone(&house.watch));
    let worker = recalld::worker::Worker::start(memory, watch, std::time::Duration::from_secs(3_600));
    say(&house, "ann", SESSION, "My name is Alex.").await;
    let learned = eventually("the name is known", async || {
        let known = known(&house, "ann").await;
        (!known.is_empty()).then_some(known)
    });
    assert_eq!(learned.await, ["name: Alex"]);
    worker.stop().await;
}

/// What a hundred turns say about somebody, between turns that say nothing.
const SAID: [&str; 16] = [
    "My name is Alex.",
    "I live in Lisbon.",
    "I prefer Python.",
    "My timezone is Europe/Lisbon.",
    "I am vegetarian.",
    "I work as a data engineer.",
    "I am allergic to peanuts.",
    "My dog is called Rex.",
    "My wife is called Anna.",
    "My pronouns are they/them.",
    "I speak Portuguese.",
    "My favourite colour is green.",
    "I hate mushrooms.",
    "Please always answer briefly.",
    "I moved to Porto.",
    "My name is Alex.",
];

const ASKED: [&str; 6] = [
    "How does FAISS compare to pgvector for vector databases?",
    "Which index is best for a million embeddings in a database?",
    "How long do I boil an egg?",
    "What is the difference between TCP and UDP?",
    "How do I sort a list by two keys?",
    "Can you explain how tides work?",
];

/// E's example: a hundred turns come to about fifteen facts and five episodes; the name is answered from the profile,
/// and what was discussed about databases from the past.
#[tokio::test]
async fn e_a_hundred_turns() {
    let house = House::plan().model(Arc::new(Builtin)).open();
    for turn in 0..100 {
        let words = match turn % 6 {
            3 => SAID[turn / 6 % SAID.len()],
            _ => ASKED[if turn < 12 { turn % 2 } else { 2 + turn % 4 }],
        };
        say(&house, "alex", SESSION, words).await;
    }
    learn(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    let facts = known(&house, "alex").await;
    assert!((12..=16).contains(&facts.len()), "{facts:#?}");
    let has = |fact: &str| facts.iter().any(|known| known.starts_with(fact));
    assert!(has("name: Alex") && has("location: Porto") && has("language: Python"), "{facts:#?}");
    let episodes = house.get("/api/v1/episodes?limit=50").user("alex").send().await.expect(200);
    let stretches = episodes["episodes"].as_array().expect("a list").iter().filter(|one| one["level"] == "stretch");
    let stretches = stretches.count();
    assert_eq!(stretches, 5, "E7: about five episodes");
    let asked = say(&house, "alex", OTHER_SESSION, "What's my name?").await;
    let answer = asked["answer"].as_str().expect("an answer");
    assert!(answer.contains("Alex"), "{answer}");
    let request = json!({"question": "What did we discuss about databases?"});
    let recalled = house.post("/api/v1/recall").user("alex").json(request).await.expect(200);
    let context = recalled["text"].as_str().expect("a context");
    assert!(context.starts_with("## User profile\n") && context.contains("pgvector"), "{context}");
    let asides = recalled["asides"].as_array().expect("a list");
    let episode = asides.iter().find(|aside| aside["layer"] == "episodes").expect("an episode is about it");
    assert_eq!(episode["turn_first"], 1, "databases were talked about first: {episode}");
}

/// "Forget that …" ends a fact, in the words of any of the languages, and saying it again brings it back.
#[tokio::test]
async fn what_is_to_be_forgotten_is_no_longer_known() {
    check("I live in Lisbon.\nPlease forget that I live in Lisbon.", "").await;
    check("Ik woon in Gent.\nVergeet dat ik in Gent woon.", "").await;
    check("Ich wohne in Graz.\nVergiss bitte, dass ich in Graz wohne.", "").await;
    check("J'habite à Lyon.\nOublie que j'habite à Lyon.", "").await;
    check("Vivo en Madrid.\nOlvida que vivo en Madrid.", "").await;
    check("I live in Lisbon.\nPlease forget that I live in Lisbon.\nI live in Lisbon.", "location: Lisbon").await;
    check("I live in Lisbon.\nPlease forget that I live in Rome.", "location: Lisbon").await;
}

/// What is to be forgotten is, although it could not be erased at once, and although it was understood together with
/// what said it: nothing is left to be shown as taken back.
#[tokio::test]
async fn what_is_to_be_forgotten_is_erased_in_the_end() {
    for learned_between in [true, false] {
        let house = House::open();
        say(&house, "ann", SESSION, "I live in Lisbon.").await;
        if learned_between {
            learn(&house).await;
        }
        say(&house, "ann", SESSION, "Please forget that I live in Lisbon.").await;
        house.flaky.fail(Some(StoreError::Full("no space left on device".into())));
        assert!(house.memory.learn_facts().await.is_err(), "it cannot be erased");
        house.flaky.fail(None);
        learn(&house).await;
        assert_eq!(listed(&house, "ann", "any").await, Vec::<Value>::new(), "learned between: {learned_between}");
    }
}

/// "It is no longer true that …" ends a fact and erases nothing: its history says what held, and until when.
#[tokio::test]
async fn what_is_no_longer_true_is_history() {
    for (said, over, value) in [
        ("I live in Lisbon.", "It is no longer true that I live in Lisbon.", "Lisbon"),
        ("Ich wohne in Graz.", "Es stimmt nicht mehr, dass ich in Graz wohne.", "Graz"),
        ("Vivo en Madrid.", "Ya no es verdad que vivo en Madrid.", "Madrid"),
    ] {
        let house = House::open();
        say(&house, "ann", SESSION, said).await;
        say(&house, "ann", SESSION, over).await;
        learn(&house).await;
        assert_eq!(known(&house, "ann").await, Vec::<String>::new(), "{over}");
        let retracted = listed(&house, "ann", "retracted").await;
        assert!(retracted.len() == 1 && retracted[0]["value"] == value, "{over}: {retracted:?}");
    }
}
