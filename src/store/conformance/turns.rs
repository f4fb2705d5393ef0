//! Chat turns open with a question and close with an ending.

use std::sync::Arc;

use serde_json::json;

use super::Talk;
use super::talk::{assistant, object, tool_call, turn_id, user};
use crate::period::{Period, Ttl};
use crate::session::{ClosedTurn, OpenTurn, SessionSeed, TurnStatus};
use crate::store::{Kept, PageRequest, Store, StoreError};

/// The first question makes its session, as the seed says; later seeds change nothing.
pub async fn opening_makes_the_session(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let seed = SessionSeed {
        metadata: object(json!({"language": "nl"})),
        ttl: Some(Ttl::of(Period::hours(1))),
        ..SessionSeed::default()
    };
    let opened = talk.open(OpenTurn { seed: seed.clone(), ..talk.question("hello") }).await;
    assert_eq!((opened.number, opened.kept), (Some(1), Kept::OnDisk));
    talk.open(talk.question("again")).await;
    let session = talk.find().await.expect("the session was made");
    assert_eq!((session.metadata, session.ttl, session.turns), (seed.metadata, seed.ttl, 2));
    let turn = talk.turns().await.remove(0);
    assert_eq!((turn.created_at, turn.question().created_at), (opened.created_at, opened.created_at));
    assert_eq!((turn.status, turn.question().text.as_str()), (TurnStatus::Pending, "hello"));
}

/// A retry that opens the same turn again finds it as it is.
pub async fn opening_twice_is_one_turn(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let question = talk.question("hello");
    let first = talk.open(question.clone()).await;
    assert_eq!(talk.open(question.clone()).await, first);
    talk.end(question.id, TurnStatus::Complete, "hi").await;
    assert_eq!(talk.open(question).await, first);
    let turns = talk.turns().await;
    assert_eq!((turns.len(), turns[0].status), (1, TurnStatus::Complete));
}

/// Pending, complete, partial and failed turns count alike.
pub async fn numbers_are_gapless_over_all_states(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for status in [TurnStatus::Complete, TurnStatus::Partial, TurnStatus::Failed, TurnStatus::Complete] {
        let id = talk.ask("how?").await;
        talk.end(id, status, "so").await;
        talk.ask("pending").await;
    }
    assert_eq!(talk.numbers().await, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(talk.find().await.map(|session| session.turns), Some(8));
}

/// Each ending is kept: its state and what was said until then.
pub async fn a_turn_ends_as_it_ended(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let endings = [
        (TurnStatus::Complete, vec![assistant("all of it")]),
        (TurnStatus::Partial, vec![assistant("half of")]),
        (TurnStatus::Partial, vec![]),
        (TurnStatus::Failed, vec![]),
    ];
    for (status, messages) in endings.clone() {
        let id = talk.ask("how?").await;
        talk.try_close(talk.ending(id, status, messages)).await.expect("the ending is written");
    }
    for (turn, (status, messages)) in talk.turns().await.iter().zip(endings) {
        assert_eq!((turn.status, &turn.messages[1..]), (status, &messages[..]));
    }
}

/// An ending that comes again, or another one, changes nothing.
pub async fn closing_twice_keeps_the_first(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.exchange("how?", "so").await;
    let before = talk.turns().await;
    for (status, text) in [(TurnStatus::Complete, "so"), (TurnStatus::Complete, "or so"), (TurnStatus::Failed, "")] {
        talk.end(id, status, text).await;
    }
    assert_eq!(talk.turns().await, before);
}

/// A turn that is written at once is one that was opened and closed: twice is once, and what its ending is refused for
/// keeps the question out, too.
pub async fn a_turn_is_written_at_once(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("how?", "so").await;
    let open = talk.question("and then?");
    let closed = talk.ending(open.id, TurnStatus::Complete, vec![assistant("then this")]);
    let write = async |open: &OpenTurn, closed: ClosedTurn| store.write_turn(&talk.scope, open.clone(), closed).await;
    for _ in 0..2 {
        let opened = write(&open, closed.clone()).await.expect("it is written");
        assert_eq!(opened.number, Some(2));
    }
    let turns = talk.turns().await;
    let last = &turns[1];
    assert_eq!((turns.len(), last.id, last.number, last.status), (2, open.id, 2, TurnStatus::Complete));
    assert_eq!(last.messages.iter().map(|message| &*message.text).collect::<Vec<_>>(), ["and then?", "then this"]);

    let other = talk.question("never said");
    let refused = write(&other, talk.ending(turn_id(), TurnStatus::Complete, vec![assistant("to whom?")])).await;
    assert!(matches!(refused, Err(StoreError::UnknownTurn(_))), "{refused:?}");
    assert_eq!(talk.turns().await, turns, "both or none");
    assert_eq!(talk.open(talk.question("next")).await.number, Some(3));
}

/// A turn nobody opened here cannot be closed here.
pub async fn closing_an_unknown_turn_is_an_error(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("mine").await;
    for (stranger, id) in
        [(talk.clone(), turn_id()), (talk.of("acme", "bob"), id), (talk.of("other", "ann"), id), (talk.another(), id)]
    {
        let closed = stranger.try_close(stranger.ending(id, TurnStatus::Complete, vec![assistant("forged")])).await;
        assert!(matches!(closed, Err(StoreError::UnknownTurn(unknown)) if unknown == id), "{closed:?}");
    }
    assert_eq!(talk.turns().await[0].status, TurnStatus::Pending);
}

/// What the ending knows is added to what the question knew.
pub async fn metadata_is_merged_at_the_end(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let question = OpenTurn { metadata: object(json!({"role": "nurse", "intent": "?"})), ..talk.question("how?") };
    let ending = talk.ending(question.id, TurnStatus::Complete, vec![assistant("so")]);
    let ending = ClosedTurn { metadata: object(json!({"intent": "ask", "model": "m"})), ..ending };
    talk.open(question).await;
    talk.try_close(ending).await.expect("the ending is written");
    assert_eq!(talk.turns().await[0].metadata, object(json!({"role": "nurse", "intent": "ask", "model": "m"})));
}

/// White space is no question. It makes no session and takes no number.
pub async fn a_blank_question_is_refused_and_takes_no_number(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let blanks = ["", " ", "\t\r\n", "\u{a0}\u{3000}\u{2003}", "\u{85}\u{1680}\u{2028}\u{2029}\u{202f}\u{205f}"];
    for blank in blanks {
        let refused = talk.try_open(talk.question(blank)).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{blank:?}: {refused:?}");
    }
    assert_eq!(talk.find().await, None);
    talk.ask("first").await;
    talk.try_open(talk.question(" ")).await.expect_err("a blank question is refused");
    talk.ask("second").await;
    assert_eq!(talk.numbers().await, [1, 2]);
    assert_eq!(talk.find().await.map(|session| session.turns), Some(2));
}

/// `complete` means that there is an answer: words, or a call for tools. A refused ending leaves the
/// turn open for a better one.
pub async fn a_complete_turn_has_an_answer(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("how?").await;
    for messages in [vec![], vec![assistant(" \n")], vec![assistant("\u{2003}")], vec![user("not an answer")]] {
        let refused = talk.try_close(talk.ending(id, TurnStatus::Complete, messages)).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    assert_eq!(talk.turns().await[0].status, TurnStatus::Pending);
    let called = talk.try_close(talk.ending(id, TurnStatus::Complete, vec![tool_call()])).await;
    assert_eq!(called.expect("a call for tools is an answer"), Kept::OnDisk);
    assert_eq!(talk.turns().await[0].messages[1], tool_call());
}

/// An ending ends.
pub async fn a_turn_cannot_end_as_pending(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("how?").await;
    let refused = talk.try_close(talk.ending(id, TurnStatus::Pending, vec![assistant("well")])).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(talk.turns().await[0].messages.len(), 1);
}

/// Context is made of the last complete and partial turns, oldest first, no more than asked for.
pub async fn the_last_turns_are_those_that_enter_context(store: Arc<dyn Store>) {
    use TurnStatus::{Complete, Failed, Partial};
    let talk = Talk::new(&store);
    for (question, status) in [("a", Complete), ("b", Failed), ("c", Partial), ("d", Complete), ("e", Failed)] {
        let id = talk.ask(question).await;
        talk.end(id, status, "so").await;
    }
    talk.ask("pending").await;
    assert_eq!(talk.last(usize::MAX).await, ["a", "c", "d"]);
    assert_eq!(talk.last(3).await, ["a", "c", "d"]);
    assert_eq!(talk.last(2).await, ["c", "d"]);
    assert_eq!(talk.last(0).await, [""; 0]);
    let recent = store.last_turns(&talk.scope, talk.session, 1).await.expect("the end is read");
    assert_eq!(recent.session.map(|session| session.id), Some(talk.session));
}

/// Pages of turns follow one another by number; a cursor beyond the end finds an empty page.
pub async fn turns_are_listed_in_pages_by_number(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for n in 1..=5 {
        talk.exchange(&format!("question {n}"), "yes").await;
    }
    for (limit, after, numbers, next) in [
        (2, None, vec![1, 2], Some(2)),
        (2, Some(2), vec![3, 4], Some(4)),
        (2, Some(4), vec![5], None),
        (1, Some(4), vec![5], None),
        (5, None, vec![1, 2, 3, 4, 5], None),
        (usize::MAX, Some(0), vec![1, 2, 3, 4, 5], None),
        (50, Some(5), vec![], None),
        (50, Some(u64::MAX), vec![], None),
    ] {
        let page = store
            .turns(&talk.scope, talk.session, PageRequest { limit, after, superseded: false })
            .await
            .expect("a page");
        let page = page.expect("the session is there");
        let found: Vec<u64> = page.items.iter().map(|turn| turn.number).collect();
        assert_eq!((found, page.next), (numbers, next), "{limit} after {after:?}");
    }
}
