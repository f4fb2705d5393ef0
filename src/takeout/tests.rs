//! What comes out of the sample files, written the way people would tell it.

use std::collections::HashMap;

use super::*;
use crate::message::Role;

fn around() -> Around {
    let undated = "2026-01-01T00:00:00Z".parse().expect("a time");
    Around { name: "sample".into(), undated, zone: TimeZone::UTC }
}

fn found(format: Format, text: &str) -> (Vec<Found>, Result<(), ReadError>) {
    let mut found = Vec::new();
    let read = read(format, text.as_bytes(), &around(), &mut |next| {
        found.push(next);
        true
    });
    (found, read)
}

/// Conversations, turns (with their parent, `~` when superseded), what was said, other answers after `+`.
fn told(found: &[Found]) -> String {
    let (mut lines, mut numbers) = (Vec::new(), HashMap::new());
    for found in found {
        match found {
            Found::Line(_, line) => match &**line {
                Line::Session(_, session) => {
                    numbers.clear();
                    let title = session.metadata.get("title").and_then(Value::as_str).unwrap_or("-");
                    lines.push(format!("# {title} {}", session.created_at));
                }
                Line::Turn(_, turn) => {
                    numbers.insert(turn.id, numbers.len() + 1);
                    lines.push(told_turn(turn, &numbers));
                }
                other => lines.push(format!("{other:?}")),
            },
            Found::Passed(reason) => lines.push(format!("passed: {reason}")),
            Found::Bad(at, reason) => lines.push(format!("bad {at}: {reason}")),
        }
    }
    lines.join("\n")
}

fn told_turn(turn: &TurnRecord, numbers: &HashMap<TurnId, usize>) -> String {
    let parent = turn.parent.map_or("-".to_owned(), |id| numbers.get(&id).map_or("?".into(), ToString::to_string));
    let hidden = if turn.superseded { "~" } else { "" };
    let said: Vec<String> = turn.messages.iter().map(told_message).collect();
    let others = turn.revisions.iter().map(|other| {
        let said: Vec<String> = other.messages.iter().map(told_message).collect();
        format!(" + {}", said.join(" | "))
    });
    let number = numbers[&turn.id];
    format!("{hidden}{number} after {parent}: {}{}", said.join(" | "), others.collect::<String>())
}

fn told_message(message: &Message) -> String {
    let role = match message.role {
        Role::User => "u",
        Role::Assistant => "a",
        Role::System => "s",
        Role::Tool => "t",
    };
    let name = message.name.as_ref().map_or(String::new(), |name| format!("({name})"));
    let raw = if message.raw.is_some() { "*" } else { "" };
    let at = message.created_at.to_string();
    let time = at.split('T').nth(1).unwrap_or_default().trim_end_matches('Z');
    format!("{time} {role}{name}{raw} {}", message.text.replace('\n', "/"))
}

#[track_caller]
fn check(format: Format, text: &str, expected: &str) {
    let (found, read) = found(format, text);
    assert_eq!(told(&found), expected.lines().map(str::trim_start).collect::<Vec<_>>().join("\n"));
    assert_eq!(read, Ok(()));
    assert_eq!(detect(text.as_bytes()), Some(format), "it is told by its content");
}

#[test]
fn chatgpt_is_a_tree_with_a_visible_branch() {
    check(
        Format::ChatGpt,
        include_str!("../../tests/data/import/chatgpt.json"),
        "passed: hidden from the conversation
         passed: settings of the other program
         passed: the model's reasoning
         # Paint for the shed 2024-05-12T14:03:00.5Z
         1 after -: 14:03:00.5 u Which paint for the shed? | 14:03:10 a Linseed oil paint. + 14:03:20 a Any outdoor paint.
         ~2 after 1: 14:05:00 u In red? | 14:05:10 a Falun red.
         3 after 1: 14:06:40 u* How much for this wall? | 14:06:42 a 2.5 * 4 | 14:06:43 t(python) 10.0 | 14:06:44 a Two litres — für 10 m².
         bad [1]: it has no `mapping` of messages
         bad [2].mapping.x: its author has no role that is known
         # A stray message 2024-05-12T16:06:40Z
         1 after -: 16:06:40 u Hello | 16:06:50 a Hi!",
    );
}

#[test]
fn claude_is_a_row_or_a_tree() {
    check(
        Format::Claude,
        include_str!("../../tests/data/import/claude.json"),
        "bad [0].chat_messages[3]: its sender is neither `human` nor `assistant`
         passed: nothing was said in it
         # Sourdough 2025-03-01T09:00:00.123456Z
         1 after -: 09:00:00.123456 u* How long does dough rise? | 09:00:05 a Four hours.
         # Trains 2025-04-01T08:00:00Z
         ~1 after -: 08:00:00 u Night train to Hamburg? | 08:00:10 a* At 21:30.
         2 after -: 08:05:00 u Night train to Vienna? | 08:05:10 a At 19:38.",
    );
}

#[test]
fn open_webui_is_a_tree_that_goes_on_here() {
    let text = include_str!("../../tests/data/import/openwebui.json");
    check(
        Format::OpenWebUi,
        text,
        "# Tomatoes 2025-03-03T11:06:40Z
         1 after -: 11:06:40 u When do I sow tomatoes? | 11:06:41 a From mid-February, indoors. + 11:06:41 a In March.
         ~2 after 1: 11:08:20 u And peppers? | 11:08:21 a Earlier.
         3 after 1: 11:10:00 u* And chillies? 🌶 | 11:10:01 a In January.",
    );
    let (found, _) = found(Format::OpenWebUi, text);
    let Some(Found::Line(_, line)) = found.first() else { panic!("a conversation") };
    let Line::Session(_, session) = &**line else { panic!("a conversation") };
    assert_eq!(session.id.to_string(), "3f8a2c10-5b6d-4e7f-8a9b-0c1d2e3f4a5b", "as when it talks through us");
}

#[test]
fn mem0_becomes_notes() {
    let text = include_str!("../../tests/data/import/mem0.json");
    check(
        Format::Mem0,
        text,
        "# - 2024-07-26T06:57:00.108347Z
         1 after -: 06:57:00.108347 u Is vegetarian and allergic to nuts
         2 after -: 09:00:00 u Lives in Lisbon
         bad results[2]: it has no `memory`",
    );
    let (found, _) = found(Format::Mem0, text);
    let marked = found.iter().filter(|found| format!("{found:?}").contains("imported_memory")).count();
    assert_eq!(marked, 2, "both are marked");
}

#[test]
fn langchain_is_read_in_both_forms() {
    check(
        Format::LangChain,
        include_str!("../../tests/data/import/langchain.json"),
        "# - 2026-01-01T00:00:00Z
         1 after -: 00:00:00 s Be brief.
         bad [5]: its type is no message that is known
         2 after 1: 10:00:00 u What is 2 + 2? | 10:00:01 a*  | 10:00:02 t(add)* 4 | 10:00:03 a Four.",
    );
    check(
        Format::LangChain,
        include_str!("../../tests/data/import/langchain_lc.json"),
        "# - 2026-01-01T00:00:00Z
         1 after -: 00:00:00 u Do you ship to Norway? | 00:00:00 a* Yes, within a week.",
    );
}

#[test]
fn transcripts_are_read_in_their_usual_shapes() {
    check(
        Format::Transcript,
        include_str!("../../tests/data/import/whatsapp.txt"),
        "passed: nobody said it
         # - 2026-05-12T14:03:00Z
         1 after -: 14:03:00 u(Ann) Did you water the plants?
         2 after 1: 14:05:00 u(Ben) Yes: all of them/and the one on the balcony.
         3 after 2: 14:05:00 u(Ben) Yes: all of them/and the one on the balcony.
         4 after 3: 09:00:00 u(Ann) 🌱 Thanks",
    );
    check(
        Format::Transcript,
        include_str!("../../tests/data/import/transcript.txt"),
        "# - 2026-05-12T14:03:00Z
         1 after -: 14:03:00 u What is the capital of Norway? | 14:03:05 a Oslo.//It has 700,000 inhabitants.
         2 after 1: 14:04:00 u And of Denmark?/[2026-13-12 14:04] Assistant: Copenhagen.",
    );
    check(
        Format::Transcript,
        include_str!("../../tests/data/import/whatsapp_us.txt"),
        "# - 2026-05-01T14:03:22Z
         1 after -: 14:03:22 u(Ann) Hello
         2 after 1: 00:10:00 u(Ben) Hi",
    );
}

#[test]
fn a_file_that_breaks_off_gives_what_came_before() {
    let text = include_str!("../../tests/data/import/claude.json");
    let cut = &text[..text.find("Trains").expect("the second conversation")];
    let (found, read) = found(Format::Claude, cut);
    assert!(told(&found).contains("Four hours."), "{found:?}");
    assert!(matches!(read, Err(ReadError::Broken(_))), "{read:?}");
}

#[test]
fn ids_follow_from_the_source() {
    for (format, text) in [
        (Format::ChatGpt, include_str!("../../tests/data/import/chatgpt.json")),
        (Format::LangChain, include_str!("../../tests/data/import/langchain_lc.json")),
        (Format::Transcript, include_str!("../../tests/data/import/whatsapp.txt")),
    ] {
        let mut later = around();
        later.undated = "2026-06-01T00:00:00Z".parse().expect("a time");
        let ids = |around: &Around| {
            let mut ids = Vec::new();
            read(format, text.as_bytes(), around, &mut |found| {
                if let Found::Line(_, line) = found
                    && let Line::Turn(session, turn) = *line
                {
                    ids.push((session, turn.id));
                }
                true
            })
            .expect("a whole file");
            ids
        };
        assert_eq!(ids(&around()), ids(&later), "{format:?}");
        assert!(ids(&around()).len() > 1 || format == Format::LangChain);
    }
}

#[test]
fn what_is_no_format_is_not_taken_for_one() {
    for text in ["", "Dear diary,\ntoday: nothing.", "{\"a\": 1}", "[]", "PK\u{3}\u{4}"] {
        assert_eq!(detect(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn rings_and_strangers_among_parents_do_no_harm() {
    let node = |key: &str, parent: &str| {
        format!(
            "\"{key}\":{{\"parent\":\"{parent}\",\"message\":{{\"author\":{{\"role\":\"user\"}},\"create_time\":1715522580,
             \"content\":{{\"parts\":[\"{key}\"]}}}}}}"
        )
    };
    let nodes = [node("a", "b"), node("b", "a"), node("c", "nobody"), node("d", "d")].join(",");
    let (found, read) = found(Format::ChatGpt, &format!("[{{\"id\":\"x\",\"mapping\":{{{nodes}}}}}]"));
    assert_eq!(read, Ok(()));
    assert_eq!(found.len(), 5, "a conversation and four turns: {}", told(&found));
}

#[test]
fn a_line_that_was_changed_is_noticed() {
    let session = Line::Session(Some("ann".into()), {
        let at = Timestamp::UNIX_EPOCH;
        SessionRecord {
            id: SessionId::imported("x", "y"),
            kind: SessionKind::Durable,
            created_at: at,
            updated_at: at,
            last_accessed: at,
            ttl: None,
            history: HistoryMode::Server,
            next_number: 1,
            metadata: Map::new(),
        }
    });
    let sealed = seal(&session, None);
    assert_eq!(open(sealed.as_str()), Ok(session));
    for n in 0..sealed.as_str().len() - 30 {
        let mut bytes = sealed.as_str().as_bytes().to_vec();
        bytes[n] ^= 1;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        assert!(open(&text).is_err(), "{text}");
    }
}
