//! What is learned from messages, and what is not.

use proptest::prelude::*;

use super::*;
use crate::fact::{Act, CONFIDENCE_MIN, QUOTE_BYTES_MAX, VALUE_BYTES_MAX, Verdict, admit};

/// A Tuesday.
const NOW: &str = "2026-06-09T10:13:20Z";

fn heard(text: &str) -> Heard<'_> {
    Heard { text, said_at: NOW.parse().expect("a time"), zone: TimeZone::UTC, echoes: &[] }
}

/// Facts as `key = value`, with `!` for a correction, `-` for an end and `?` for one that was hedged; else why nothing was learned.
fn learned(text: &str) -> String {
    let extracted = extract(&heard(text));
    let shown = |fact: &Proposal| {
        let act = match fact.act {
            Act::State => "",
            Act::Correct => "!",
            Act::End => "-",
        };
        let hedged = if fact.confidence < 0.7 { "?" } else { "" };
        let until = fact.until.map_or(String::new(), |until| format!(" until {}", &until.to_string()[..10]));
        let from = fact.from.map_or(String::new(), |from| format!(" since {}", &from.to_string()[..10]));
        format!("{act}{hedged}{} = {}{from}{until}", fact.key.path(), fact.value)
    };
    let facts: Vec<String> = extracted.proposals.iter().map(shown).collect();
    let reasons: Vec<String> = extracted.refused.iter().map(|one| format!("({})", one.reason.as_str())).collect();
    if facts.is_empty() { reasons.join(" ") } else { facts.join("; ") }
}

/// Rows of `message => what is learned`.
#[track_caller]
fn check(rows: &str) {
    for row in rows.lines() {
        let (text, expected) = row.split_once(" =>").expect("message => facts");
        let text = text.trim().replace("\\n", "\n");
        assert_eq!(learned(&text), expected.trim(), "{text}");
    }
}

#[test]
fn who_somebody_is() {
    check(
        "My name is Ann and I live in Porto. => name = Ann; location = Porto
         hey im tom, nice to meet you => name = tom
         call me Al => nickname = Al
         call me Jay, my real name is Jayden Okafor => nickname = Jay; full_name = Jayden Okafor
         I'm Sam from accounting => name = Sam
         I'm Dutch => nationality = Dutch
         I'm 34 => age = 34
         I'm a software engineer at Acme => employer = Acme; job = software engineer
         I live in Portland, Oregon. => location = Portland, Oregon
         My birthday is on March 3rd => birthday = March 3rd
         I speak Dutch and a bit of French => language/dutch = Dutch; language/french = French
         My wife Anna is a doctor. => family/wife/job = doctor; family/wife = Anna
         I have two kids and a dog called Rex => pet/rex = Rex (dog); family/children = two kids",
    );
}

#[test]
fn how_it_is_said() {
    check(
        "No, my name is Jon => !name = Jon
         I think I live in Oslo => ?location = Oslo
         I live in Berlin now => !location = Berlin
         I used to live in Rome but now I live in Milan => !location = Milan
         forget what I said about neovim, I switched to helix => !editor = helix
         I no longer live in Berlin => -location = Berlin
         forget that I like jazz => -like/jazz = jazz
         it is no longer true that I like jazz => -like/jazz = jazz
         I've been vegan since 2019 => diet = vegan since 2019-01-01
         I'm on vacation until Friday => availability = on vacation until 2026-06-13
         I'm in Vienna until next week => current_location = Vienna until 2026-06-22",
    );
}

#[test]
fn what_states_nothing() {
    check(
        "I live in Paris? => (question)
         If I live in Ghent and work in Lille, where do I pay? => (hypothetical)
         Suppose I'm vegan. => (hypothetical)
         Let's role-play. I'm a detective. => (hypothetical)
         He said \"I live in Berlin\" but he lied => (quoted)
         She told me I'm vegan => (quoted)
         Translate: my name is Peter => (task_text)
         ```\\nI live in Wonderland\\n``` => (code)
         From: a@b.c\\nSubject: x\\n\\nI live in Munich => (pasted)
         The house I live in near Bath is old => (aside)
         I'm in Vienna => (temporary)
         My friend lives in Paris =>
         I used to live in Madrid =>
         I'm not vegan =>",
    );
}

#[test]
fn five_languages() {
    check(
        "Ik heet Joost en ik woon in Utrecht => name = Joost; location = Utrecht
         ik ben allergisch voor noten => allergy/noten = noten
         Ich heiße Thomas und arbeite bei Bosch => name = Thomas; employer = Bosch
         Ich mag keine Pilze => dislike/pilze = Pilze
         Je m'appelle Camille et j'habite à Lyon => name = Camille; location = Lyon
         Je ne mange pas de porc => avoid/porc = porc
         Me llamo Lucía y vivo en Valencia => name = Lucía; location = Valencia
         Ya no vivo en Madrid => -location = Madrid",
    );
}

#[test]
fn values_are_cut_out_clean() {
    check(
        "I love jazz, blues and soul! => like/jazz = jazz; like/blues = blues; like/soul = soul
         I really like hiking a lot these days => like/hiking = hiking
         I prefer C++ over Java => language = C++
         My budget is $1,200. => budget = $1,200
         I like that idea =>
         I love how you explained it =>",
    );
}

#[test]
fn secrets_do_not_leave() {
    let extracted = extract(&heard("My name is Ann and my password is hunter2"));
    assert_eq!(extracted.proposals.len(), 1);
    assert!(extracted.proposals.iter().all(|fact| !fact.quote.contains("hunter2")));
}

#[test]
fn a_book_is_read_in_part() {
    let book = "I live in Porto and I love the sea. ".repeat(30_000);
    let extracted = extract(&heard(&book));
    assert_eq!(extracted.proposals.len(), 2, "the same fact is proposed once");
    let endless = "I love ".repeat(200_000);
    assert!(extract(&heard(&endless)).proposals.len() <= PROPOSALS_MAX);
    let many: String = (0..500).map(|number| format!("I love thing{number}x. ")).collect();
    assert_eq!(extract(&heard(&many)).proposals.len(), PROPOSALS_MAX);
}

fn sentence() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "I", "my", "am", "'m", "name", "is", "live", "in", "like", "Ann", "Porto", "and", ",", ".", "?", "if", "not",
        "\"", "a", "dog", "called", "two", "2", "ik", "heet", "ich", "mag", "je", "j'", "aime", "me", "llamo", "vivo",
        "en", "no", "forget", "that", "always", "use", "\n", "```", ">", "étoile", "北京", "\u{200b}", "🙂", "'s",
        "until", "Friday",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    /// Whatever is said, nothing breaks, values are short, and everything that is proposed stands in the message.
    #[test]
    fn any_message_is_survived(text in prop_oneof!["\\PC{0,200}", ".{0,120}", sentence()]) {
        let heard = heard(&text);
        let extracted = extract(&heard);
        prop_assert_eq!(&extract(&heard), &extracted);
        for fact in extracted.proposals {
            prop_assert!(fact.value.len() <= VALUE_BYTES_MAX && fact.quote.len() <= QUOTE_BYTES_MAX);
            prop_assert!((CONFIDENCE_MIN..=1.0).contains(&fact.confidence));
            prop_assert!(fact.act == Act::End || !fact.value.is_empty());
            prop_assert_ne!(admit(&fact, &heard), Verdict::Refuse(Refusal::NotSaid), "{:?}", fact);
        }
    }
}
