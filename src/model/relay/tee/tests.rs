//! The tee, fed whole, byte by byte and cut anywhere.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const BOUNDS: TeeBounds = TeeBounds { event_bytes_max: 1000, answer_bytes_max: 100_000 };

/// What goes on, what was said, and what was wrong.
type Outcome = (String, Said, Option<TeeFault>);

fn tee<'a>(kind: TeeKind, drop_usage: bool, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let (mut tee, mut forward, mut fault) = (Tee::new(kind, drop_usage, BOUNDS), Vec::new(), None);
    for chunk in chunks {
        match tee.feed(chunk) {
            Ok(bytes) => forward.extend(bytes),
            Err(error) => {
                forward.extend(error.before);
                fault = Some(error.fault);
            }
        }
    }
    forward.extend(tee.end());
    (String::from_utf8(forward).expect("text"), tee.finish(), fault)
}

fn events(stream: &str) -> Outcome {
    let whole = tee(TeeKind::Events, true, [stream.as_bytes()]);
    assert_eq!(tee(TeeKind::Events, true, stream.as_bytes().chunks(1)), whole, "byte by byte");
    whole
}

#[track_caller]
fn check(stream: &str, forwarded: &str, content: &str) -> Said {
    let (forward, said, fault) = events(stream);
    assert_eq!((forward.as_str(), fault), (forwarded, None));
    assert_eq!(said.choices.first().map_or("", |choice| choice.message["content"].as_str().unwrap_or("")), content);
    said
}

const HEL: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
const LO: &str = "data:{\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\r\n\r\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"total_tokens\":7}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn everything_goes_on_but_done_and_our_usage() {
    let odd = ": ping\n\nevent: x\nid: 1\nunknown\n\n\n";
    let said = check(&format!("{odd}{HEL}{LO}{USAGE}{DONE}{DONE}"), &format!("{odd}{HEL}{LO}"), "Hello");
    assert_eq!((said.ended, said.tokens_used), (true, Some(7)));
}

#[test]
fn usage_that_was_asked_for_goes_on() {
    let stream = format!("{HEL}{LO}{USAGE}");
    assert_eq!(tee(TeeKind::Events, false, [format!("{stream}{DONE}").as_bytes()]).0, stream);
    let beside = "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"total_tokens\":7}}\n\n";
    assert_eq!(check(beside, beside, "").tokens_used, Some(7));
}

#[test]
fn an_end_is_known_with_and_without_done() {
    assert!(check(&format!("{HEL}{LO}"), &format!("{HEL}{LO}"), "Hello").ended);
    assert!(check(&format!("{HEL}{DONE}{LO}"), HEL, "Hel").ended);
    assert!(check(&format!("{HEL}data: [DONE]"), HEL, "Hel").ended, "without its line ends");
    assert!(!check(HEL, HEL, "Hel").ended);
}

#[test]
fn a_last_event_without_its_blank_line_goes_on_with_one() {
    let cut = HEL.trim_end();
    check(cut, HEL, "Hel");
    check(&format!("{HEL}data: {{\"choices\":[{{"), HEL, "Hel");
}

#[test]
fn the_text_done_is_only_text() {
    let event = HEL.replace("Hel", "data: [DONE]");
    check(&event, &event, "data: [DONE]");
}

#[test]
fn an_error_on_the_way_goes_on_and_is_told() {
    let error = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    let said = check(&format!("{HEL}{error}{DONE}"), &format!("{HEL}{error}"), "Hel");
    assert_eq!(said.error.as_deref(), Some("out of memory"));
}

#[test]
fn nothing_spoils_an_answer_that_is_complete() {
    let said = check(&format!("{HEL}{LO}data: {{{{\n\n{HEL}"), &format!("{HEL}{LO}"), "Hello");
    assert_eq!((said.ended, said.error), (true, None));
    let long = "x".repeat(BOUNDS.event_bytes_max + 1);
    assert!(check(&format!("{HEL}{LO}data: {long}"), &format!("{HEL}{LO}"), "Hello").ended);
}

#[test]
fn bounds_end_the_stream() {
    let long = "x".repeat(BOUNDS.event_bytes_max + 1);
    let (forward, said, fault) = events(&format!("{HEL}data: {long}\n\n{LO}"));
    assert_eq!((forward.as_str(), said.ended), (HEL, false));
    assert!(matches!(fault, Some(TeeFault::EventTooLong(_))));
    assert!(said.error.is_some());

    let (forward, _, fault) = tee(TeeKind::Events, true, [HEL.repeat(30_000).as_bytes()]);
    assert_eq!(fault, Some(TeeFault::AnswerTooLong { bytes_max: 100_000 }));
    assert!(forward.len() % HEL.len() == 0 && forward.len() < HEL.len() * 30_000);
}

#[test]
fn a_whole_answer_goes_on_whole() {
    let body = json!({ "choices": [{ "message": { "content": "Hi" }, "finish_reason": "stop" }] }).to_string();
    let (forward, said, fault) = tee(TeeKind::Whole, true, body.as_bytes().chunks(3));
    assert_eq!((forward, fault, said.ended), (body, None, true));
    assert_eq!(said.choices[0].finish_reason.as_deref(), Some("stop"));

    let at_bound = "x".repeat(BOUNDS.answer_bytes_max);
    assert_eq!(tee(TeeKind::Whole, true, [at_bound.as_bytes()]).0, at_bound);
    let (forward, said, fault) = tee(TeeKind::Whole, true, [at_bound.as_bytes(), b"x"]);
    assert_eq!((forward.as_str(), said.ended), ("", false));
    assert_eq!(fault, Some(TeeFault::AnswerTooLong { bytes_max: BOUNDS.answer_bytes_max }));
}

fn chunk(delta: Value) -> String {
    json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string()
}

/// An event of a stream, without its line ends: what it adds to the content, and its lines.
fn event() -> impl Strategy<Value = (String, Vec<String>)> {
    let data = |data: String| vec![format!("data: {data}")];
    prop_oneof![
        6 => "(\\[DONE\\]|[a-zé🦀\\n\" ]){0,6}".prop_map(move |text| {
            (text.clone(), data(chunk(json!({ "content": text }))))
        }),
        1 => Just((String::new(), data(chunk(json!({ "reasoning_content": "hm" }))))),
        1 => (0..3_u64, "[a-c]{0,3}").prop_map(move |(index, text)| {
            let call = json!({ "index": index, "function": { "arguments": text } });
            (String::new(), data(chunk(json!({ "tool_calls": [call] }))))
        }),
        1 => Just((String::new(), vec![": ping".into()])),
        1 => Just((String::new(), vec!["event: x".into(), "data:".into(), "é".into()])),
        1 => Just((String::new(), data(r#"{"choices":[],"usage":{"total_tokens":7}}"#.into()))),
        1 => Just((String::new(), vec![])),
    ]
}

/// What may come last, or too early.
fn ending() -> impl Strategy<Value = String> {
    let endings = ["[DONE]", " [DONE] ", "{{", "7", r#"{"error":"x"}"#, r#"{"choices":[{"finish_reason":"stop"}]}"#];
    prop::sample::select(endings.to_vec()).prop_map(|data| format!("data: {data}"))
}

fn stream() -> impl Strategy<Value = (String, String)> {
    let events = || prop::collection::vec(event(), 0..8);
    let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    (events(), prop::collection::vec(ending(), 0..3), events(), line_end).prop_map(
        |(first, endings, late, line_end)| {
            let write =
                |lines: &[String]| lines.iter().map(|line| format!("{line}{line_end}")).collect::<String>() + line_end;
            let stream: String = first.iter().map(|(_, lines)| write(lines)).collect();
            let ends: String = endings.iter().map(|line| write(std::slice::from_ref(line))).collect();
            let late: String =
                if endings.is_empty() { String::new() } else { late.iter().map(|(_, lines)| write(lines)).collect() };
            (first.into_iter().map(|(text, _)| text).collect(), stream + &ends + &late)
        },
    )
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same(
        (said_first, stream) in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        drop_usage in any::<bool>(),
    ) {
        let bytes = stream.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        at.sort_unstable();
        let chunks = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let (forward, said, fault) = tee(TeeKind::Events, drop_usage, chunks);
        prop_assert_eq!(&(forward.clone(), said.clone(), fault), &tee(TeeKind::Events, drop_usage, [bytes]));

        let mut events = Events::default();
        events.push(forward.as_bytes()).expect("within the bound");
        while let Some(data) = events.take() {
            prop_assert!(!data.trim().starts_with("[DONE]"), "the door alone says it");
            prop_assert!(!drop_usage || !data.contains("usage"));
        }
        let content = said.choices.first().map_or("", |choice| choice.message["content"].as_str().unwrap_or(""));
        prop_assert!(content.starts_with(&said_first), "{:?} begins with {:?}", content, said_first);
    }

    #[test]
    fn without_an_end_of_its_own_everything_goes_on(parts in prop::collection::vec(event(), 0..12)) {
        let stream: String = parts.iter().map(|(_, lines)| format!("{}\n\n", lines.join("\n"))).collect();
        let (forward, said, fault) = tee(TeeKind::Events, false, stream.as_bytes().chunks(5));
        prop_assert_eq!((forward, fault), (stream, None));
        let content = said.choices.first().map_or("", |choice| choice.message["content"].as_str().unwrap_or(""));
        prop_assert_eq!(content, parts.into_iter().map(|(text, _)| text).collect::<String>());
    }
}
