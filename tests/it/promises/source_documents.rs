//! Details of the source documents.

use serde_json::Value;

use crate::house::{House, SESSION};

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
