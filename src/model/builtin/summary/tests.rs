//! Summaries of small conversations, and what holds for any.

use super::*;
use crate::tokens;
use proptest::prelude::*;

/// Lines of `speaker: text`.
fn talk(lines: &str) -> Vec<Said<'_>> {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = |(speaker, text)| Said { speaker, text, at: None };
    lines.map(|line| said(line.split_once(": ").expect("`speaker: text`"))).collect()
}

#[track_caller]
fn check(lines: &str, tokens_max: usize, expected: &str) {
    let summary = summarise(&talk(lines), SummaryBounds { tokens_max });
    let expected: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(summary.text(), expected.join("\n"));
    assert!(summary.tokens <= tokens_max);
}

#[test]
fn facts_are_kept_before_chatter() {
    check(
        "Anna: Hey, how are you?
         Bo: Great, thanks! It was such a lovely weekend.
         Anna: We signed the contract for the flat in Porto on 3 May. It costs 900 euros a month.
         Bo: Wow, that's amazing! So happy for you.
         Anna: Thanks! I hope you will visit.",
        28,
        "Anna: We signed the contract for the flat in Porto on 3 May. It costs 900 euros a month.",
    );
}

#[test]
fn other_languages_are_summarised_too() {
    check(
        "Eva: Hoi, hoe gaat het?
         Tom: Prima, bedankt! Leuk om je te spreken.
         Eva: We hebben besloten om op 12 juni naar Utrecht te verhuizen.
         Tom: Wat leuk voor je!",
        20,
        "Eva: We hebben besloten om op 12 juni naar Utrecht te verhuizen.",
    );
    check(
        "Eva: Hallo, wie geht es dir?
         Tom: Danke, gut! Das ist schön.
         Eva: Wir haben am Montag für 20 Euro Karten gekauft.",
        20,
        "Eva: Wir haben am Montag für 20 Euro Karten gekauft.",
    );
    check("李: 你好！我三月搬到北京。谢谢你！", 11, "李: 我三月搬到北京。");
}

#[test]
fn what_was_told_is_not_told_again() {
    check(
        "Anna: My sister Clara lives in Ghent.
         Anna: As I said, my sister Clara lives in Ghent.
         Bo: The train leaves at 8:15 on Monday.",
        200,
        "Anna: My sister Clara lives in Ghent.
         Bo: The train leaves at 8:15 on Monday.",
    );
}

#[test]
fn a_long_sentence_is_cut_at_a_clause() {
    check(
        "Anna: It is a long story that nobody needs to hear in full, the doctor in Leuven moved it to 14 March, and so \
         we all went home again without having seen anybody at all.",
        18,
        "Anna: … the doctor in Leuven moved it to 14 March …",
    );
}

#[test]
fn a_summary_grows_with_the_best_of_both() {
    let bounds = SummaryBounds { tokens_max: 45 };
    let first = summarise(&talk("Anna: I live in Porto with my dog Rex.\nBo: Nice."), bounds);
    assert_eq!(first.text(), "Anna: I live in Porto with my dog Rex.");
    let both = extend(&first, &talk("Bo: My exam is on 7 June.\nAnna: Good luck!"), bounds);
    assert_eq!(both.text(), "Anna: I live in Porto with my dog Rex.\nBo: My exam is on 7 June.");
    assert_eq!(extend(&both, &[], bounds), both, "nothing new changes nothing");
    let read = Summary::read(&both.text(), None);
    assert_eq!(extend(&read, &[], bounds), both, "from its text too");
}

#[test]
fn days_are_named_in_summaries_of_several() {
    let said = |text, at: &str| Said { speaker: "Anna", text, at: at.parse().ok() };
    let stretch =
        [said("Yesterday I met Clara.", "2026-03-02T09:00:00Z"), said("Yesterday I met Bob.", "2026-04-11T09:00:00Z")];
    let summary = summarise(&stretch, SummaryBounds { tokens_max: 100 });
    assert_eq!(summary.text(), "2026-03-02 Anna: Yesterday I met Clara.\n2026-04-11 Anna: Yesterday I met Bob.");
}

#[test]
fn nothing_is_summarised_as_nothing() {
    check("", 100, "");
    check("Anna: ...\nBo: 👍", 100, "");
    check("Anna: I live in Porto.", 0, "");
    check("Anna: I live in Porto.", 3, "");
}

/// Texts as people and machines write them, and as nobody does.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,120}",
        ".{0,60}",
        "([A-Za-z]{1,9}[ ,.!?\n]{1,2}){0,60}",
        "(I|we|Bob|Porto|3|May|went|to|the|house|decided|, |\\. |\\? ){0,40}",
        "[一-龥，。！]{0,80}",
        "(hallo|gisteren|: |…|« | »|\"|- |#|```\n|\\* ){0,30}",
    ]
}

fn stretch() -> impl Strategy<Value = Vec<(String, String, Option<i64>)>> {
    let speaker = prop_oneof!["Anna|Bo|user|assistant", "\\PC{0,12}", ".{0,8}"];
    prop::collection::vec((speaker, text(), prop::option::of(0..9_000_000_i64)), 0..10)
}

fn said(stretch: &[(String, String, Option<i64>)]) -> Vec<Said<'_>> {
    let at = |seconds: &Option<i64>| seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    stretch.iter().map(|(speaker, text, seconds)| Said { speaker, text, at: at(seconds) }).collect()
}

/// Whether each part of each line, between ellipses, is in something its speaker may have said.
fn is_all_from(summary: &Summary, texts: &[&str]) -> bool {
    let is_in = |part: &str| texts.iter().any(|text| text.contains(part));
    // Sentences stand beside each other with a blank that nobody wrote.
    let in_pieces = |part: &str| {
        let mut rest = part;
        while !rest.is_empty() {
            let mut ends = rest.match_indices(' ').map(|(at, _)| at).chain([rest.len()]);
            let Some(end) = ends.rfind(|end| is_in(&rest[..*end])) else { return false };
            rest = rest[end..].trim_start_matches(' ');
        }
        true
    };
    summary.lines.iter().flat_map(|line| line.text.split('…')).map(str::trim).all(in_pieces)
}

proptest! {
    #[test]
    fn a_summary_keeps_its_bound_and_is_always_the_same(stretch in stretch(), tokens_max in 0..120_usize) {
        let bounds = SummaryBounds { tokens_max };
        let summary = summarise(&said(&stretch), bounds);
        prop_assert!(tokens::count(&summary.text()) <= tokens_max);
        prop_assert_eq!(summary.tokens, tokens::count(&summary.text()));
        prop_assert_eq!(&summarise(&said(&stretch), bounds), &summary);
    }

    #[test]
    fn nothing_is_invented(stretch in stretch(), tokens_max in 0..200_usize) {
        let summary = summarise(&said(&stretch), SummaryBounds { tokens_max });
        let texts: Vec<&str> = stretch.iter().map(|(_, text, _)| text.as_str()).collect();
        prop_assert!(is_all_from(&summary, &texts), "{}", summary.text());
    }

    #[test]
    fn growing_keeps_the_bound_and_invents_nothing(first in stretch(), second in stretch(), tokens_max in 0..120_usize) {
        let bounds = SummaryBounds { tokens_max };
        let before = summarise(&said(&first), SummaryBounds { tokens_max: 60 });
        let after = extend(&before, &said(&second), bounds);
        prop_assert!(tokens::count(&after.text()) <= tokens_max);
        prop_assert_eq!(&extend(&before, &said(&second), bounds), &after);
        let told = before.lines.iter().map(|line| line.text.as_str());
        let texts: Vec<&str> = told.chain(second.iter().map(|(_, text, _)| text.as_str())).collect();
        prop_assert!(is_all_from(&after, &texts), "{}", after.text());
    }

    #[test]
    fn any_text_can_be_read_as_a_summary(text in ".{0,200}") {
        let read = Summary::read(&text, None);
        prop_assert_eq!(read.tokens, tokens::count(&read.text()));
        extend(&read, &[], SummaryBounds { tokens_max: 50 });
    }
}
