//! What is known about the user, beside what was said; and what was said and is no longer so.
//!
//! What matters most is told with every question, in an order that does not depend on it; of the rest, what shares a
//! word with the question. A message or a summary that states what is no longer so says what holds instead, so that an
//! old value does not come back through the side door.

use std::collections::HashSet;

use jiff::tz::TimeZone;

use super::layer::{Aside, Layer};
use crate::fact::{Fact, Key, PROFILE_IMPORTANCE_MIN};
use crate::language::{Tongue, is_stop, term, words};
use crate::store::Outdated;

/// Facts that are told with every question; as many as their layer holds.
const PROFILE_MAX: usize = 16;
/// Facts that are told because they share a word with the question.
const RELATED_MAX: usize = 8;
/// Most things that are noted about one message.
const NOTED_MAX: usize = 3;

/// What of a user's facts, the most important first, is told with a question.
pub(crate) fn told(facts: &[Fact], question: &str, tongue: Tongue, zone: &TimeZone) -> Vec<Aside> {
    let matters = facts.iter().take(PROFILE_MAX).take_while(|fact| fact.importance >= PROFILE_IMPORTANCE_MIN).count();
    let (profile, others) = facts.split_at(matters);
    let asked: HashSet<String> = terms(question, tongue).collect();
    let related = others.iter().filter(|fact| is_about(fact, &asked, tongue)).take(RELATED_MAX);
    let related = related.map(|fact| Aside { layer: Layer::Facts, worth: Layer::Facts.worth(), ..aside(fact, zone) });
    profile.iter().map(|fact| aside(fact, zone)).chain(related).collect()
}

fn aside(fact: &Fact, zone: &TimeZone) -> Aside {
    let since = zone.to_datetime(fact.valid_from).date();
    Aside::profile(fact.id.to_string(), &spoken(&fact.key, &fact.value), &fact.value, Some(since))
}

/// A key as people say it: `pet`, `full name`, `family wife`. An item that the value names goes without saying.
fn spoken(key: &Key, value: &str) -> String {
    let plain = |text: &str| text.replace(['_', '-'], " ").to_lowercase();
    let item = key.item.as_deref().map(plain).filter(|item| !plain(value).contains(item));
    let name = plain(&key.name);
    item.map_or(name.clone(), |item| format!("{name} {item}"))
}

fn terms(text: &str, tongue: Tongue) -> impl Iterator<Item = String> {
    let telling: Vec<_> = words(text).filter(|word| !is_stop(word, tongue)).map(|word| term(&word, tongue)).collect();
    telling.into_iter()
}

fn is_about(fact: &Fact, asked: &HashSet<String>, tongue: Tongue) -> bool {
    let about = format!("{} {}", fact.key.path().replace(['_', '-', '/'], " "), fact.value);
    terms(&about, tongue).any(|term| asked.contains(&term))
}

/// What is to be noted beside a text that states what is no longer so: what holds instead. Nothing if the text does not
/// mention it.
pub(crate) fn note<'a>(text: &str, outdated: impl Iterator<Item = &'a Outdated>) -> Option<String> {
    let said = text.to_lowercase();
    let mentioned = outdated.filter(|outdated| said.contains(&outdated.was.value.to_lowercase()));
    let mut notes: Vec<String> = Vec::new();
    for outdated in mentioned {
        let (was, key) = (&outdated.was, spoken(&outdated.was.key, &outdated.was.value));
        let note = match &outdated.is {
            Some(now) => format!("{key} is {now}"),
            None => format!("{key} is no longer {}", was.value),
        };
        if notes.len() < NOTED_MAX && !notes.contains(&note) {
            notes.push(note);
        }
    }
    (!notes.is_empty()).then(|| format!("(since then: {})", notes.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Category, Evidence, Status};
    use crate::id::{CountedIds, Ids};
    use jiff::Timestamp;

    fn fact(path: &str, value: &str, importance: f64) -> Fact {
        let at: Timestamp = "2026-05-07T10:00:00Z".parse().expect("a time");
        let ids = CountedIds::default();
        Fact {
            id: ids.fact(at),
            key: Key::from_path(Category::Identity, path),
            value: value.to_owned(),
            confidence: 0.9,
            importance,
            status: Status::Active,
            valid_from: at,
            valid_to: None,
            until: None,
            learned_at: at,
            evidence: Evidence { message: None, session: None, said_at: at, quote: String::new() },
            last_said_at: at,
            confirmations: 1,
            ended_by: None,
        }
    }

    #[track_caller]
    fn check(question: &str, expected: &[&str]) {
        let facts = [
            fact("name", "Alex", 0.9),
            fact("pet/rex", "Rex", 0.5),
            fact("family/wife", "Anna", 0.5),
            fact("hobby/bird-watching", "bird watching", 0.4),
            fact("favourite_colour", "green", 0.3),
        ];
        let told = told(&facts, question, Tongue::English, &TimeZone::UTC);
        let told: Vec<String> = told.iter().map(|aside| format!("{}: {}", aside.layer.as_str(), aside.text)).collect();
        let told: Vec<&str> = told.iter().map(|text| text.trim_end_matches(" (since 2026-05-07)")).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_matters_is_always_told_and_the_rest_when_it_is_asked_about() {
        let profile = ["profile: name: Alex", "profile: pet: Rex", "profile: family wife: Anna"];
        check("What is for lunch?", &profile);
        check("Which colour shall I paint the shed?", &[&profile[..], &["facts: favourite colour: green"]].concat());
        check("Where can I watch birds?", &[&profile[..], &["facts: hobby: bird watching"]].concat());
    }

    #[test]
    fn the_profile_is_bounded_and_what_is_asked_about_comes_beside_it() {
        let many: Vec<Fact> = (0..40).map(|n| fact(&format!("pet/p{n}"), &format!("Pet{n}"), 0.6)).collect();
        let told = told(&many, "How old is Pet30?", Tongue::English, &TimeZone::UTC);
        let facts: Vec<&str> = told[PROFILE_MAX..].iter().map(|aside| &*aside.text).collect();
        assert_eq!((told[PROFILE_MAX - 1].layer, facts), (Layer::Profile, vec!["pet p30: Pet30 (since 2026-05-07)"]));
    }

    #[test]
    fn what_is_no_longer_so_is_noted_where_it_is_mentioned() {
        let message = CountedIds::default().turn(Timestamp::UNIX_EPOCH).message(0);
        let outdated =
            |is: Option<&str>| Outdated { message, was: fact("location", "Lisbon", 0.9), is: is.map(str::to_owned) };
        let moved = [outdated(Some("Porto"))];
        assert_eq!(note("I live in LISBON.", moved.iter()).as_deref(), Some("(since then: location is Porto)"));
        assert_eq!(note("I like trams.", moved.iter()), None);
        let gone = [outdated(None), outdated(None)];
        assert_eq!(note("Lisbon!", gone.iter()).as_deref(), Some("(since then: location is no longer Lisbon)"));
    }
}
