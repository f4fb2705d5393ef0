//! Facts that a memory model notes beside those that patterns find: asked for when a conversation rests, and kept whatever
//! becomes of the model.

use recalld::store::StoreError;

use crate::house::{House, SESSION};
use crate::memory_model::{asking, rest, work};
use crate::memory_server::{MemoryServer, Mood};

const CELLO: &str = "My days are full: wherever life takes me, the cello comes along.";

/// A user's facts, as far as patterns and the model made them out.
async fn known(house: &House) -> Vec<String> {
    while house.memory.learn_facts().await.expect("facts are learned") > 0 {}
    work(house).await;
    crate::facts::known(house, "anonymous").await
}

/// What patterns miss a model notes, one question for a conversation that rests; what nobody said is refused, whoever notes it.
#[tokio::test]
async fn a_model_notes_facts_when_a_conversation_rests() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |_| ()).await;
    for words in ["My name is Alex.", CELLO, "What is a fugue?"] {
        house.chat(SESSION, words).await;
    }
    assert_eq!((known(&house).await, server.calls()), (vec!["name: Alex".to_owned()], 0));
    rest(&house).await;
    assert_eq!(known(&house).await, ["instrument: cello", "name: Alex"]);
    assert_eq!(server.calls(), 1);
    let stats = house.get("/api/v1/stats").send().await.expect(200);
    assert_eq!(stats["facts_refused"]["instruction_like"], 1, "{stats}");
    house.chat(SESSION, "How do tides work?").await;
    rest(&house).await;
    assert_eq!((known(&house).await.len(), server.calls()), (2, 1), "nobody spoke of themselves");
    rest(&house).await;
    house.post("/api/v1/digest?rebuild=true").send().await.expect(200);
    assert_eq!(known(&house).await, ["instrument: cello", "name: Alex"], "reading again comes to the same");
}

/// A model that is no use costs only what it would have noted.
#[tokio::test]
async fn without_a_model_patterns_do() {
    let server = MemoryServer::start(Mood::Garbage).await;
    let house = asking(&server, |_| ()).await;
    for words in ["My name is Alex.", CELLO] {
        house.chat(SESSION, words).await;
    }
    known(&house).await;
    rest(&house).await;
    assert_eq!(known(&house).await, ["name: Alex"]);
    assert_eq!(house.memory.job_counts(None).await.expect("counts"), Default::default());
}

/// What a model noted was said, whether or not it can be asked again: reading everything anew without it withdraws nothing.
#[tokio::test]
async fn what_was_noted_outlives_its_model() {
    for (mood, calls_per_day) in [(Mood::Garbage, 0), (Mood::Locked, 0), (Mood::Well, 1)] {
        let server = MemoryServer::start(Mood::Well).await;
        let house = asking(&server, |settings| settings.memory_calls_per_day = calls_per_day).await;
        for words in ["My name is Alex.", CELLO] {
            house.chat(SESSION, words).await;
        }
        known(&house).await;
        rest(&house).await;
        assert_eq!(known(&house).await, ["instrument: cello", "name: Alex"]);
        server.is(mood);
        house.post("/api/v1/digest?rebuild=true").send().await.expect(200);
        assert_eq!(known(&house).await, ["instrument: cello", "name: Alex"], "{mood:?}");
    }
}

/// A conversation is read by the model, too, although something in it cannot be forgotten yet.
#[tokio::test]
async fn a_model_is_asked_whatever_becomes_of_the_patterns() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |_| ()).await;
    for words in ["I live in Lisbon.", CELLO, "Please forget that I live in Lisbon."] {
        house.chat(SESSION, words).await;
    }
    house.flaky.fail(Some(StoreError::Full("no space left on device".into())));
    assert!(house.memory.learn_facts().await.is_err());
    assert_eq!(house.memory.job_counts(None).await.expect("counts").queued, 1);
    house.flaky.fail(None);
    known(&house).await;
    rest(&house).await;
    assert_eq!(known(&house).await, ["instrument: cello"]);
}
