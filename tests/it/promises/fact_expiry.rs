//! A deadline in a sentence is not the end of a fact.

use jiff::SignedDuration;

use crate::facts::{known, learn, listed, say};
use crate::house::{House, SESSION};

/// Says one sentence on Thursday 2026-01-01. Answers `key: value`, and until when where that is so.
async fn learned(house: &House, sentence: &str) -> Vec<String> {
    say(house, "ann", SESSION, sentence).await;
    learn(house).await;
    let facts = listed(house, "ann", "active").await;
    let until = |end: &str| format!(" until {}", &end[..16]);
    let text = |fact: &serde_json::Value, name: &str| fact[name].as_str().expect("a text").to_owned();
    let end = |fact: &serde_json::Value| fact["valid_to"].as_str().map(until).unwrap_or_default();
    facts.iter().map(|fact| format!("{}: {}{}", text(fact, "key"), text(fact, "value"), end(fact))).collect()
}

/// Each row is `sentence = facts`; the facts are the same a month later.
async fn check_stays(rows: &str) {
    for row in rows.lines().map(str::trim) {
        let (sentence, expected) = row.split_once(" = ").expect("sentence = facts");
        let house = House::open();
        assert_eq!(learned(&house, sentence).await.join(", "), expected, "{sentence}");
        house.clock.advance(SignedDuration::from_hours(24 * 30));
        assert_eq!(known(&house, "ann").await.join(", "), expected, "a month after: {sentence}");
    }
}

/// Each row is `sentence = facts`, with until when they hold.
async fn check_ends(rows: &str) {
    for row in rows.lines().map(str::trim) {
        let (sentence, expected) = row.split_once(" = ").expect("sentence = facts");
        assert_eq!(learned(&House::open(), sentence).await.join(", "), expected, "{sentence}");
    }
}

#[tokio::test]
async fn a_deadline_does_not_end_a_fact_in_english() {
    check_stays(
        "I'm allergic to nuts, what can I cook by tonight? = allergy/nuts: nuts
         I live in Leeds and need a plumber by tomorrow. = location: Leeds
         I live in Leeds, can somebody fix my boiler by Friday? = location: Leeds
         My name is Anna and I need an answer by tomorrow. = name: Anna
         I work as a nurse and must hand in my report by Friday. = job: nurse
         I'm vegan, and I need a menu by tomorrow. = diet: vegan
         I'm vegan and need a menu for the party by tomorrow. = diet: vegan
         I'm allergic to peanuts and my flight leaves until Sunday. = allergy/peanuts: peanuts
         I have a dog called Rex and need a sitter until Monday. = pet/rex: Rex (dog)",
    )
    .await;
}

#[tokio::test]
async fn a_deadline_does_not_end_a_fact_in_dutch() {
    check_stays(
        "Ik ben allergisch voor noten, wat kan ik koken tot morgen? = allergy/noten: noten
         Ik woon in Utrecht en zoek een loodgieter die tot morgen kan. = location: Utrecht
         Ik heet Anna en ik wacht tot vrijdag op antwoord. = name: Anna
         Ik ben veganist en ik heb tot vrijdag een menu nodig. = diet: veganist",
    )
    .await;
}

#[tokio::test]
async fn a_deadline_does_not_end_a_fact_in_german() {
    check_stays(
        "Ich bin allergisch gegen Nüsse, was kann ich bis morgen kochen? = allergy/nüsse: Nüsse
         Ich wohne in Leipzig und brauche bis morgen einen Klempner. = location: Leipzig
         Ich heiße Anna und brauche bis Freitag eine Antwort. = name: Anna
         Ich bin vegan und brauche bis morgen ein Menü. = diet: vegan",
    )
    .await;
}

#[tokio::test]
async fn a_deadline_does_not_end_a_fact_in_french() {
    check_stays(
        "Je suis allergique aux noix, que puis-je cuisiner jusqu'à demain ? = allergy/noix: noix
         J'habite à Lyon et j'ai jusqu'à vendredi pour trouver un plombier. = location: Lyon
         Je m'appelle Anna et j'ai jusqu'à demain pour répondre. = name: Anna
         Je suis végane et j'ai jusqu'à demain pour faire un menu. = diet: végane",
    )
    .await;
}

#[tokio::test]
async fn a_deadline_does_not_end_a_fact_in_spanish() {
    check_stays(
        "Soy alérgica a las nueces, ¿qué puedo cocinar hasta mañana? = allergy/nueces: nueces
         Vivo en Sevilla y tengo hasta mañana para encontrar un fontanero. = location: Sevilla
         Me llamo Ana y tengo hasta el viernes para contestar. = name: Ana
         Soy vegana y tengo hasta mañana para hacer un menú. = diet: vegana",
    )
    .await;
}

/// Even in its own clause: nobody's name, diet or home ends by what is said of another matter.
#[tokio::test]
async fn a_name_a_diet_and_a_home_have_no_end() {
    check_stays(
        "I'm vegan until Friday. = diet: vegan
         I live in Leeds until Friday. = location: Leeds
         I work as a nurse until Friday. = job: nurse",
    )
    .await;
}

#[tokio::test]
async fn availability_and_a_stay_end_when_their_own_clause_says_so() {
    check_ends(
        "I'm on vacation until Friday. = availability: on vacation until 2026-01-03T00:00
         I'm on vacation until tomorrow. = availability: on vacation until 2026-01-03T00:00
         I'm on vacation, until Friday. = availability: on vacation until 2026-01-03T00:00
         Until Friday, I'm on vacation. = availability: on vacation until 2026-01-03T00:00
         I'm out of office until 12 January, so please no calls by tomorrow = availability: out of office until 2026-01-13T00:00
         I'm on vacation until Monday and need a plumber by tomorrow. = availability: on vacation until 2026-01-06T00:00
         I'm in Vienna until Sunday and work as a nurse. = current_location: Vienna until 2026-01-05T00:00, job: nurse
         Ik ben tot vrijdag op vakantie. = availability: op vakantie until 2026-01-03T00:00
         Ich bin bis Freitag im Urlaub und brauche bis morgen einen Klempner. = availability: im Urlaub until 2026-01-03T00:00
         Je suis en vacances jusqu'à vendredi. = availability: en vacances until 2026-01-03T00:00
         Estoy de vacaciones hasta el viernes. = availability: de vacaciones until 2026-01-03T00:00",
    )
    .await;
}

/// A stay that does not say when it ends is not learned; a deadline beside it says nothing about it.
#[tokio::test]
async fn a_deadline_beside_a_stay_is_not_its_end() {
    for sentence in [
        "I'm on vacation and need a plumber by tomorrow.",
        "I'm in Vienna, which museums can I see by Sunday?",
        "Ich bin im Urlaub und brauche bis morgen einen Klempner.",
    ] {
        assert_eq!(learned(&House::open(), sentence).await, [""; 0], "{sentence}");
    }
}

/// The same holds for a beginning.
#[tokio::test]
async fn a_fact_begins_when_its_own_clause_says_so() {
    let house = House::open();
    say(
        &house,
        "ann",
        SESSION,
        "I live in Leeds, and my boiler has been broken since 2024. I've been vegan since 2019.",
    )
    .await;
    learn(&house).await;
    let facts = listed(&house, "ann", "active").await;
    let mut since: Vec<_> =
        facts.iter().map(|fact| (fact["key"].as_str(), &fact["valid_from"].as_str().expect("a time")[..4])).collect();
    since.sort_unstable();
    assert_eq!(since, [(Some("diet"), "2019"), (Some("location"), "2026")]);
}
