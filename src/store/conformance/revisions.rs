//! Promises about answers that are tried again and histories that clients move about in.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Map;

use super::talk::{Talk, assistant, tool_call, tool_result, turn_id, user};
use crate::id::TurnId;
use crate::message::Message;
use crate::session::{
    ClientIds, ClosedTurn, Fingerprint, OpenTurn, Placement, ReviseTurn, Shift, Tail, TurnDraft, TurnStatus, chained,
};
use crate::store::{HistoryMatch, PageRequest, Store, StoreError, Trail};

async fn revise(talk: &Talk, id: TurnId) -> u32 {
    let revise =
        ReviseTurn { id, session: talk.session, ids: ClientIds::default(), shift: Shift::default(), then: Vec::new() };
    talk.store.revise_turn(&talk.scope, revise).await.expect("another try begins").attempt
}

async fn end(talk: &Talk, id: TurnId, attempt: u32, status: TurnStatus, text: &str) {
    let messages = if text.is_empty() { Vec::new() } else { vec![assistant(text)] };
    let closed = ClosedTurn { attempt, ..talk.ending(id, status, messages) };
    talk.try_close(closed).await.expect("the ending is written");
}

/// The answer that is shown, and the others.
async fn answers(talk: &Talk, id: TurnId) -> (Option<String>, Vec<String>) {
    let turn = talk.store.turn(&talk.scope, id).await.expect("a look").expect("the turn");
    let others = talk.store.revisions(&talk.scope, id).await.expect("a look").expect("the turn");
    let text = |messages: &[crate::message::Message]| messages.last().map(|message| message.text.clone());
    let others = others.iter().map(|revision| text(&revision.messages).unwrap_or_default()).collect();
    (turn.answer().map(|answer| answer.text.clone()), others)
}

/// A new answer is shown, the old one is kept.
pub async fn another_answer_is_a_revision(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.exchange("how?", "so").await;
    let attempt = revise(&talk, id).await;
    end(&talk, id, attempt, TurnStatus::Complete, "or so").await;
    assert_eq!(answers(&talk, id).await, (Some("or so".into()), vec!["so".into()]));
    assert_eq!(talk.turns().await.len(), 1);
}

/// An older answer can be shown again; the two change places.
pub async fn an_older_answer_can_return(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.exchange("how?", "so").await;
    let attempt = revise(&talk, id).await;
    end(&talk, id, attempt, TurnStatus::Complete, "or so").await;
    let shift = Shift { activate: vec![(1, 0)], ..Shift::default() };
    let next = OpenTurn { place: Placement { shift, ..Placement::default() }, ..talk.question("and?") };
    talk.open(next).await;
    assert_eq!(answers(&talk, id).await, (Some("so".into()), vec!["or so".into()]));
}

/// What an edit replaces is hidden and kept.
pub async fn superseded_turns_are_hidden_and_kept(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("a", "1").await;
    talk.exchange("b", "2").await;
    let shift = Shift { hide: vec![2], ..Shift::default() };
    let place = Placement { parent: Some(1), shift, ..Placement::default() };
    let edited = OpenTurn { place, ..talk.question("B") };
    let id = edited.id;
    talk.open(edited).await;
    talk.end(id, TurnStatus::Complete, "2x").await;
    assert_eq!(talk.last(9).await, ["a", "B"]);
    let all = PageRequest { superseded: true, ..PageRequest::first(9) };
    let all = store.turns(&talk.scope, talk.session, all).await.expect("a page").expect("the session").items;
    assert_eq!(all.iter().map(|turn| turn.superseded).collect::<Vec<_>>(), [false, true, false]);
    let held = store.held(&talk.scope, talk.session, 9).await.expect("outlines");
    let tree: Vec<_> = held.turns.iter().map(|turn| (turn.number, turn.parent, turn.visible)).collect();
    assert_eq!(tree, [(1, 0, true), (2, 1, false), (3, 1, true)]);
}

/// A conversation is found by what was said in it, by its owner only.
pub async fn a_conversation_is_found_by_its_history(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("a", "1").await;
    let print = |message| Fingerprint::of(&message);
    let beginning = Fingerprint::beginning(talk.scope.tenant().as_str(), talk.scope.user().as_str());
    let after_a = chained(beginning, print(user("a")), Some(print(assistant("1"))));
    let find = |scope, chain, question: &str| {
        store.match_history(scope, Trail { chain, question: print(user(question)), calls: Vec::new(), tail: None })
    };
    let continues = Some(HistoryMatch::Continues(talk.session));
    assert_eq!(find(&talk.scope, after_a, "b").await.expect("a look"), continues);
    assert_eq!(find(&talk.scope, beginning, "a").await.expect("a look"), continues, "the same question again");
    assert_eq!(find(&talk.scope, beginning, "z").await.expect("a look"), None);
    let stranger = talk.of("acme", "bob");
    assert_eq!(find(&stranger.scope, after_a, "b").await.expect("a look"), None);
    talk.exchange("b", "2").await;
    let forks = Some(HistoryMatch::Forks(talk.session));
    assert_eq!(find(&talk.scope, after_a, "c").await.expect("a look"), forks);
}

/// A conversation whose beginning a client leaves out is found by its last exchange, if that was said once.
pub async fn a_conversation_is_found_by_its_end(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("a", "1").await;
    talk.exchange("b", "2").await;
    let print = |message| Fingerprint::of(&message);
    let find = async |question: &str, last: (&str, &str), follows_others: bool| {
        let (asked, answer) = (print(user(last.0)), print(assistant(last.1)));
        let tail = Some(Tail { question: asked, answer, follows_others });
        let (chain, question) = (Fingerprint::beginning("nobody", "said this"), print(user(question)));
        let trail = Trail { chain, question, calls: Vec::new(), tail };
        store.match_history(&talk.scope, trail).await.expect("a look")
    };
    let (continues, forks) = (Some(HistoryMatch::Continues(talk.session)), Some(HistoryMatch::Forks(talk.session)));
    assert_eq!(find("c", ("b", "2"), true).await, continues);
    assert_eq!(find("b", ("a", "1"), false).await, continues, "the last question again");
    assert_eq!(find("c", ("a", "1"), false).await, forks);
    assert_eq!(find("c", ("a", "1"), true).await, None, "a conversation that begins with it is another one");
    assert_eq!(find("c", ("b", "3"), true).await, None);
    let other = talk.another();
    other.exchange("x", "9").await;
    other.exchange("b", "2").await;
    assert_eq!(find("c", ("b", "2"), true).await, None, "it was said twice");
    let stranger = talk.of("acme", "bob");
    stranger.exchange("x", "9").await;
    let forks = Some(HistoryMatch::Forks(other.session));
    assert_eq!(find("c", ("x", "9"), false).await, forks, "what bob said does not count");
}

/// A history that the client sends takes the numbers that were kept free for it, once.
pub async fn earlier_turns_take_the_numbers_kept_free(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let kept_free = OpenTurn { place: Placement { kept_free: 2, ..Placement::default() }, ..talk.question("c") };
    let id = kept_free.id;
    talk.open(kept_free).await;
    talk.end(id, TurnStatus::Complete, "3").await;
    assert_eq!(store.held(&talk.scope, talk.session, 9).await.expect("outlines").earlier, 2);
    let draft = |question: &str, answer: &str| TurnDraft {
        id: turn_id(),
        messages: vec![user(question), assistant(answer)],
        metadata: Map::new(),
        created_at: None,
    };
    for question in ["d", "e"] {
        let earlier = vec![draft("left out", "0"), draft("a", "1"), draft("b", "2")];
        let place = Placement { parent: Some(3), earlier, ..Placement::default() };
        talk.open(OpenTurn { place, ..talk.question(question) }).await;
    }
    let turns = talk.turns().await;
    let told: Vec<_> = turns.iter().map(|turn| (turn.number, turn.question().text.as_str())).collect();
    assert_eq!(told, [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]);
    assert!(turns.is_sorted_by_key(|turn| turn.created_at), "{turns:?}");
    let held = store.held(&talk.scope, talk.session, 9).await.expect("outlines");
    let tree: Vec<_> = held.turns.iter().map(|turn| (turn.number, turn.parent)).collect();
    assert_eq!((held.earlier, &tree[..3]), (0, &[(1, 0), (2, 1), (3, 2)][..]));
    let session = store.session(&talk.scope, talk.session).await.expect("a look").expect("the session");
    assert_eq!(session.turns, 5);
}

/// A turn waits for its tools, and not for ever.
pub async fn a_turn_waits_for_its_tools(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("weather?").await;
    let calls = talk.ending(id, TurnStatus::Pending, vec![tool_call()]);
    talk.try_close(calls).await.expect("the call is written");
    assert_eq!(talk.turns().await[0].status, TurnStatus::Pending);
    let held = store.held(&talk.scope, talk.session, 9).await.expect("outlines");
    assert_eq!(held.turns[0].open_calls.len(), 1);
    assert_eq!(store.give_up_on_tools(Timestamp::MIN).await.expect("a look"), 0);
    assert_eq!(store.give_up_on_tools(Timestamp::MAX).await.expect("a look"), 1);
    assert_eq!(talk.turns().await[0].status, TurnStatus::Partial);
}

/// A call can be a whole answer. Its result may follow, and the turn stays complete and as it was said.
pub async fn a_structured_answer_gets_its_result(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("weather?").await;
    for message in [tool_call(), tool_result()] {
        let kept = talk.try_close(talk.ending(id, TurnStatus::Complete, vec![message])).await;
        kept.expect("it is written");
        let turn = talk.turns().await.remove(0);
        assert_eq!(turn.status, TurnStatus::Complete);
    }
    let said: Vec<Message> = talk.turns().await.remove(0).messages;
    assert_eq!(said[1..], [tool_call(), tool_result()]);
    let held = store.held(&talk.scope, talk.session, 9).await.expect("outlines");
    assert_eq!((held.turns[0].open_calls.len(), held.turns[0].answer), (0, Some(Fingerprint::of(&tool_call()))));
}

/// Somebody else's turn is as good as unknown.
pub async fn a_foreign_turn_cannot_be_revised(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.exchange("how?", "so").await;
    let stranger = talk.of("acme", "bob");
    let revise =
        ReviseTurn { id, session: talk.session, ids: ClientIds::default(), shift: Shift::default(), then: Vec::new() };
    let refused = store.revise_turn(&stranger.scope, revise).await;
    assert!(matches!(refused, Err(StoreError::UnknownTurn(_))), "{refused:?}");
    assert_eq!(store.turn(&stranger.scope, id).await.expect("a look"), None);
    assert_eq!(store.revisions(&stranger.scope, id).await.expect("a look"), None);
}
