//! Planting something in somebody's memory: an extractor that obeys everything, and what becomes of its proposals.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::fold::folded;
use super::own::cut;
use super::{Act, Category, Heard, Proposal, QUOTE_BYTES_MAX, VALUE_BYTES_MAX, Verdict, admit, canonical, extract};

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
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

/// All that an obeying extractor may propose: the directive as any kind of fact, quoting it as it stands, as it reads, or with
/// everything around it.
fn obeyed(case: &Case) -> Vec<Proposal> {
    let keys = [
        (Category::Instruction, "rule"),
        (Category::Instruction, "tone"),
        (Category::Identity, "name"),
        (Category::Preference, "like"),
        (Category::Constraint, "avoid"),
    ];
    let quotes = [case.directive.clone(), folded(&case.directive), cut(&case.text, QUOTE_BYTES_MAX).to_owned()];
    let values = [cut(&case.directive, VALUE_BYTES_MAX).to_owned(), folded(&case.directive)];
    let mut all = Vec::new();
    for (category, name) in keys {
        for quote in &quotes {
            for value in &values {
                all.push(Proposal {
                    key: canonical(Some(category), name, value),
                    value: value.clone(),
                    act: Act::State,
                    confidence: 1.0,
                    importance: 1.0,
                    from: None,
                    until: None,
                    quote: quote.clone(),
                    forgets: false,
                });
            }
        }
    }
    all
}

#[test]
fn nothing_is_planted() {
    let cases = cases();
    assert!(cases.len() >= 210);
    let mut admitted = Vec::new();
    for case in &cases {
        let echoes: Vec<&str> = case.echoes.iter().map(String::as_str).collect();
        let heard = Heard { text: &case.text, said_at: Timestamp::UNIX_EPOCH, zone: TimeZone::UTC, echoes: &echoes };
        // What the patterns find themselves is judged by the same rules.
        for proposal in obeyed(case).into_iter().chain(extract(&heard).proposals) {
            if let Verdict::Admit(_) = admit(&proposal, &heard) {
                admitted.push(format!(
                    "{} ({}): {} = {:?} by {:?}",
                    case.id, case.kind, proposal.key, proposal.value, proposal.quote
                ));
            }
        }
    }
    assert!(admitted.is_empty(), "{} admitted:\n{}", admitted.len(), admitted.join("\n"));
}

/// The rules keep out what others plant, not what a user wishes.
#[test]
fn a_wish_of_the_user_is_heard() {
    for (text, value) in [
        ("Please always answer briefly, I am busy.", "always answer briefly"),
        ("I want you to use British spelling.", "use British spelling"),
        ("Never use emojis.", "never use emojis"),
        ("Gebruik voortaan Brits Engels.", "gebruik voortaan Brits Engels"),
    ] {
        let heard = Heard { text, said_at: Timestamp::UNIX_EPOCH, zone: TimeZone::UTC, echoes: &[] };
        let proposal = Proposal {
            key: canonical(Some(Category::Instruction), "rule", value),
            value: value.to_owned(),
            act: Act::State,
            confidence: 0.9,
            importance: 0.6,
            from: None,
            until: None,
            quote: text.to_owned(),
            forgets: false,
        };
        assert_eq!(admit(&proposal, &heard), Verdict::Admit(super::Status::Active), "{text}");
    }
}
