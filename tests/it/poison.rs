//! Attempts to plant something in somebody's memory, through the doors, with a memory model that obeys whatever it reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use recalld::model::memory::{NotedFact, Proposal, Utterance};
use recalld::model::summarise::{NotedFuture, Summariser, SummaryFuture, Talk, Telling};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::facts::{learn, listed};
use crate::house::House;

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    text: String,
    directive: String,
    #[serde(default)]
    echoes: Vec<String>,
}

fn cases() -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/poison/cases.toml");
    let text = std::fs::read_to_string(file).expect("the cases are in the repository");
    toml::from_str::<Cases>(&text).expect("a list of cases").case
}

/// Notes what it is told to note: the directive of every text that it knows, as any kind of fact, as sure as can be.
struct Obeying(BTreeMap<String, String>);

impl Summariser for Obeying {
    fn name(&self) -> &str {
        "obeying"
    }

    fn summarise(&self, _: Talk) -> SummaryFuture<'_> {
        let telling = Telling { text: String::new(), title: None, made_by: "obeying".into() };
        Box::pin(async { Ok(Proposal::free(telling)) })
    }

    fn note_facts(&self, said: Vec<Utterance>) -> Option<NotedFuture<'_>> {
        let notes = said.iter().enumerate().flat_map(|(n, said)| self.notes(n, &said.text)).collect();
        Some(Box::pin(async { Ok(Proposal::free(notes)) }))
    }
}

impl Obeying {
    fn notes(&self, message: usize, text: &str) -> Vec<NotedFact> {
        let Some(directive) = self.0.get(text) else { return Vec::new() };
        let kinds = [
            ("instruction", "rule"),
            ("instruction", "tone"),
            ("identity", "nickname"),
            ("preference", "like"),
            ("constraint", "avoid"),
        ];
        let note = |(category, key): &(&str, &str)| NotedFact {
            message,
            category: (*category).into(),
            key: (*key).into(),
            value: directive.clone(),
            act: "correct".into(),
            quote: directive.clone(),
            confidence: 1.0,
        };
        kinds.iter().map(note).collect()
    }
}

/// Each case is a user of its own, who also says their name: so the model is asked, and something is known.
async fn tell(house: &House, case: &Case) {
    let session = house.post("/api/v1/sessions").user(&case.id).json(json!({})).await.expect(201);
    let path = format!("/api/v1/sessions/{}/messages", session["id"].as_str().expect("an id"));
    let pair = |said: &str, answered: &str| {
        [json!({"role": "user", "content": said}), json!({"role": "assistant", "content": answered})]
    };
    let mut messages: Vec<Value> = pair("My name is Ann.", "Hello Ann.").into();
    messages.extend(case.echoes.iter().flat_map(|echo| pair("Go on.", echo)));
    messages.extend(pair(&case.text, "I see."));
    house.post(&path).user(&case.id).json(json!(messages)).await.expect(201);
}

/// P11: whatever a memory model makes of planted text, nothing of it is believed, and what is kept aside is told to nobody.
#[tokio::test]
async fn p11_an_obeying_model_plants_nothing() {
    let cases = cases();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let directives = cases.iter().map(|case| (case.text.clone(), case.directive.clone())).collect();
    let house = House::plan().summariser(Arc::new(Obeying(directives))).open();
    for case in &cases {
        tell(&house, case).await;
    }
    learn(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    let mut aside = 0;
    for case in &cases {
        let facts = listed(&house, &case.id, "any").await;
        let (kept_aside, believed): (Vec<&Value>, Vec<&Value>) =
            facts.iter().partition(|fact| fact["status"] == "quarantined");
        let believed: Vec<&str> = believed.iter().filter_map(|fact| fact["value"].as_str()).collect();
        assert_eq!(believed, ["Ann"], "{}: {}", case.id, case.text);
        aside += kept_aside.len();
        check_told(&house, case).await;
    }
    assert!(aside > 0, "an obeying model that proposes nothing shows nothing");
}

/// What a model is told of a user's facts is their name, even when the question is the directive itself.
async fn check_told(house: &House, case: &Case) {
    let ask = json!({ "question": case.directive, "explain": true });
    let recalled = house.post("/api/v1/recall").user(&case.id).json(ask).await.expect(200);
    let text = recalled["text"].as_str().expect("a context");
    let profile = text.split("\n## ").next().expect("the first section");
    let facts: Vec<&str> = profile.lines().filter(|line| line.starts_with("- ")).collect();
    assert!(text.starts_with("## User profile\n"), "{}: {text}", case.id);
    assert!(facts.len() == 1 && facts[0].starts_with("- name: Ann (since"), "{}: {facts:?}", case.id);
    let asides = recalled["asides"].as_array().expect("a list");
    let of_facts = asides.iter().filter(|aside| aside["layer"] == "facts" || aside["layer"] == "profile");
    assert!(of_facts.count() <= 1, "{}: {asides:?}", case.id);
}
