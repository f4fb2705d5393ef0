//! What holds for any text.

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{
    ATTRIBUTES_MAX, ChoiceOption, Clarification, ClarificationError, Heard, OPTIONS_MAX, OPTIONS_MIN,
    QUESTION_CHARS_MAX, chosen, hear, resolve,
};

/// Anything that somebody may say, and words that mean something here.
fn said() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "\\PC{0,8}",
        "(the|second|one|last|both|neither|all|2|#1|b\\)|cheaper|blue|red|mug|12 EUR|€3,5|de|tweede|goedkoopste|die|or|and|of|en|which|do you mean|\\?|\\.|,|:|\n|\n1. |\n2. |\n- |\\(|\\)|not|é|ﬀ)",
    ];
    vec(word, 0..14).prop_map(|words| words.join(" "))
}

fn clarification() -> impl Strategy<Value = Clarification> {
    let attributes =
        || prop::collection::btree_map("(price|color|size|[a-z]{1,6})", "(12 EUR|€ 3|blue|5 l|\\PC{1,8})", 0..3);
    let option = || {
        ("(\\PC{1,12}|[a-z0-9 ]{1,9}|(Blue|Red|both|2|1|none) mug)", attributes())
            .prop_map(|(label, attributes)| ChoiceOption { label, attributes })
    };
    let made = ("(\\PC{1,30}|Which one would you like\\?)", vec(option(), 2..6));
    made.prop_filter_map("a choice", |(question, options)| {
        Clarification::new(&question, options, Timestamp::UNIX_EPOCH).ok()
    })
}

proptest! {
    // Five languages are tried for each answer; a hundred of them say enough.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_resolution_names_options_that_exist(clarification in clarification(), answer in said()) {
        if let Some(found) = resolve(&clarification, &answer) {
            prop_assert!(found.options.iter().all(|at| *at < clarification.options.len()));
            prop_assert!(found.options.windows(2).all(|pair| pair[0] < pair[1]), "in order and once: {:?}", found);
            prop_assert_eq!(found.options.is_empty(), found.by.as_str() == "neither");
            let chosen = chosen(&clarification, &found);
            prop_assert_eq!(chosen.options.len(), found.options.len());
            prop_assert_eq!(chosen.told.lines().count(), 1);
        }
    }

    #[test]
    fn a_label_resolves_to_itself(clarification in clarification(), at in any::<prop::sample::Index>()) {
        let at = at.index(clarification.options.len());
        for label in [clarification.options[at].label.clone(), format!(" {}\n", clarification.options[at].label)] {
            let found = resolve(&clarification, &label);
            prop_assert_eq!(found.map(|found| found.options), Some(vec![at]), "{}", label);
        }
    }

    #[test]
    fn what_is_heard_is_a_clarification(reply in said()) {
        if let Heard::Choice { question, options } = hear(&reply) {
            prop_assert!((OPTIONS_MIN..=OPTIONS_MAX).contains(&options.len()));
            let made = Clarification::new(&question, options, Timestamp::UNIX_EPOCH);
            prop_assert!(!matches!(made, Err(ClarificationError::Options(_) | ClarificationError::TooLong(_))), "{:?}", made);
        }
    }

    #[test]
    fn options_in_a_list_are_heard_as_they_are(labels in prop::collection::btree_set("X[a-z]{2,6}q", 2..5)) {
        let lines: Vec<String> = labels.iter().enumerate().map(|(n, label)| format!("{}. {label}", n + 1)).collect();
        let reply = format!("Here they are:\n{}\n\nWhich one would you like?", lines.join("\n"));
        let Heard::Choice { options, .. } = hear(&reply) else { return Err(TestCaseError::fail("no choice")) };
        let heard: Vec<String> = options.iter().map(|option| option.label.clone()).collect();
        prop_assert_eq!(&heard, &labels.into_iter().collect::<Vec<_>>());
        let clarification = Clarification::new("Which one?", options, Timestamp::UNIX_EPOCH).expect("a choice");
        for (at, label) in heard.iter().enumerate() {
            prop_assert_eq!(resolve(&clarification, &format!("I'll take {label}")).map(|found| found.options), Some(vec![at]));
            prop_assert_eq!(resolve(&clarification, &format!("#{}", at + 1)).map(|found| found.options), Some(vec![at]));
        }
    }
}

#[test]
fn clarifications_are_checked_at_their_bounds() {
    let make = |question: &str, labels: &[&str]| {
        let options = labels.iter().map(|label| ChoiceOption::named(*label)).collect();
        Clarification::new(question, options, Timestamp::UNIX_EPOCH)
    };
    assert!(make("Which?", &["a", "b"]).is_ok());
    assert_eq!(make("Which?", &["a"]), Err(ClarificationError::Options(1)));
    assert_eq!(make("Which?", &["a", " A "]), Err(ClarificationError::Twins("A".into())));
    assert!(make(" ", &["a", "b"]).is_err() && make("Which?", &["a", " "]).is_err());
    assert!(make(&"x".repeat(QUESTION_CHARS_MAX), &["a", "b"]).is_ok());
    assert!(make(&"x".repeat(QUESTION_CHARS_MAX + 1), &["a", "b"]).is_err());
    let many: Vec<String> = (0..=OPTIONS_MAX).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(make("Which?", &many[1..]).is_ok());
    assert_eq!(make("Which?", &many), Err(ClarificationError::Options(OPTIONS_MAX + 1)));
    let attributes = |count: usize| (0..count).map(|n| (n.to_string(), "x".to_owned())).collect();
    let option = |count| ChoiceOption { label: "a".into(), attributes: attributes(count) };
    let with =
        |count| Clarification::new("Which?", vec![option(count), ChoiceOption::named("b")], Timestamp::UNIX_EPOCH);
    assert!(with(ATTRIBUTES_MAX).is_ok());
    assert_eq!(with(ATTRIBUTES_MAX + 1), Err(ClarificationError::Attributes { at: 0, count: ATTRIBUTES_MAX + 1 }));
    let long = ["x".repeat(200) + "1", "y".repeat(199)];
    assert!(make("Which?", &[&long[0], "b"]).is_err() && make("Which?", &[&long[1], "b"]).is_ok());
    let labels: Vec<String> = (10..31).map(|n| format!("{}{n}", "x".repeat(198))).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    assert_eq!(make("?", &labels[..20]), Err(ClarificationError::TooLong(4_001)));
}
