//! Turns and messages that others completed are added as they were.

use std::sync::Arc;

use jiff::Timestamp;

use super::Talk;
use super::talk::{assistant, at, draft, tool_call, tool_result, turn_id, user};
use crate::message::Message;
use crate::session::{AddedMessage, OpenTurn, SessionSeed, TURN_MESSAGES_MAX, Turn, TurnDraft, TurnStatus};
use crate::store::{Store, StoreError};

/// A date that is given is kept; order is by number all the same.
pub async fn added_turns_keep_their_dates_and_stand_by_number(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let dated = |second: i64, question: &str| TurnDraft { created_at: Some(at(second)), ..draft(question, "yes") };
    talk.add(vec![dated(300, "late"), dated(100, "early"), dated(-5_000_000_000, "long ago")]).await;
    talk.exchange("today", "yes").await;
    let turns = talk.turns().await;
    assert_eq!(talk.last(10).await, ["late", "early", "long ago", "today"]);
    assert_eq!(talk.numbers().await, [1, 2, 3, 4]);
    let dates: Vec<Timestamp> = turns[..3].iter().map(|turn| turn.created_at).collect();
    assert_eq!(dates, [at(300), at(100), at(-5_000_000_000)]);
}

/// Turns without a date get distinct ones, in order, and so do their messages.
pub async fn undated_turns_are_dated_by_the_store(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.add(vec![draft("one", "yes"), draft("two", "yes")]).await;
    let turns = talk.turns().await;
    assert_eq!(turns[0].question().created_at, turns[0].created_at);
    let times: Vec<Timestamp> = turns.iter().flat_map(|turn| &turn.messages).map(|m| m.created_at).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    assert!(times[0] > at(1), "the time of the store, not of the draft");
}

/// The clock was set back: turns that the store dates are never before the turn before them. Dates that were given
/// stay as they were given.
pub async fn no_turn_is_dated_before_the_one_before_it(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let ahead: Timestamp = "2127-01-01T00:00:00Z".parse().expect("a time");
    talk.open(OpenTurn { asked_at: Some(ahead), ..talk.question("asked") }).await;
    talk.exchange("asked later", "answered").await;
    talk.open(OpenTurn { asked_at: Some(at(1)), ..talk.question("asked elsewhere") }).await;
    talk.add(vec![draft("added", "yes"), draft("added too", "yes")]).await;
    talk.say(vec![user("loose"), assistant("yes"), user("last")]).await.expect("they are added");
    talk.say(vec![assistant("answered later")]).await.expect("it is added");
    let turns = talk.turns().await;
    let times: Vec<Timestamp> = turns.iter().map(|turn| turn.created_at).collect();
    assert!(times[0] == ahead && times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let given = talk.add(vec![TurnDraft { created_at: Some(at(1)), ..draft("long ago", "yes") }]).await;
    assert_eq!(given[0].created_at, at(1));
}

/// What the store answers is what it will answer later, to the last digit of its times.
pub async fn what_is_answered_is_what_is_read_later(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let odd: Timestamp = "2026-03-01T10:00:00.123456789Z".parse().expect("a time");
    let mut dated = TurnDraft { created_at: Some(odd), ..draft("dated", "yes") };
    dated.messages.insert(1, Message { created_at: odd, ..tool_call() });
    dated.messages[2].created_at = odd;
    let added = talk.add(vec![dated, draft("undated", "yes")]).await;
    let said = talk.say(vec![user("loose"), assistant("yes")]).await.expect("the messages are added");
    assert_eq!([added, said].concat(), talk.turns().await);
}

/// A question without an answer is kept and shown, as partial.
pub async fn a_turn_without_an_answer_is_partial(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let alone = TurnDraft { messages: vec![user("anybody?")], ..draft("", "") };
    let turns = talk.add(vec![alone, draft("hello?", " ")]).await;
    assert!(turns.iter().all(|turn| turn.status == TurnStatus::Partial));
    assert_eq!(talk.last(10).await, ["anybody?", "hello?"]);
}

/// A batch is added whole or not at all, and a refused one takes no numbers.
pub async fn one_bad_turn_spoils_the_batch_and_nothing_else(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let empty = TurnDraft { messages: vec![], ..draft("", "") };
    let dated = TurnDraft { created_at: Some(at(0)), ..empty.clone() };
    for bad in [empty, dated, draft(" ", "to nothing"), draft("\u{3000}", "to nothing")] {
        let refused = talk.try_add(vec![draft("good", "yes"), bad]).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    assert_eq!(talk.find().await, None, "a refused batch makes no session");
    talk.add(vec![draft("good", "yes")]).await;
    assert_eq!(talk.numbers().await, [1]);
}

/// A user's message opens a turn; what others say joins it.
pub async fn loose_messages_become_turns(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let said =
        vec![assistant("welcome"), user("weather?"), tool_call(), tool_result(), assistant("21 °C"), user("thanks")];
    let turns = talk.say(said).await.expect("the messages are added");
    assert_eq!(shape(&turns), ["1 partial: assistant", "2 complete: user assistant tool assistant", "3 partial: user"]);
    assert_eq!(talk.turns().await, turns);
    assert_eq!(talk.find().await.map(|session| session.turns), Some(3));
}

/// An answer may come in pieces and later: it joins the last turn, which keeps its number.
pub async fn an_answer_that_arrives_later_joins_its_question(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.say(vec![user("weather?")]).await.expect("the question is added");
    let called = talk.say(vec![tool_call()]).await.expect("the call is added");
    assert_eq!(shape(&called), ["1 complete: user assistant"]);
    let two = talk.another();
    two.say(vec![user("weather?"), tool_result()]).await.expect("a question and a result are added");
    let rest = two.say(vec![tool_result(), assistant("21 °C"), user("thanks")]).await.expect("the rest is added");
    assert_eq!(shape(&rest), ["1 complete: user tool tool assistant", "2 partial: user"]);
    assert_eq!(two.turns().await, rest);
}

/// While a chat is being answered, what is added stands beside it.
pub async fn an_answer_does_not_join_a_chat_in_progress(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("how?").await;
    let added = talk.say(vec![assistant("by the way")]).await.expect("the message is added");
    assert_eq!(shape(&added), ["2 partial: assistant"]);
    talk.end(id, TurnStatus::Complete, "so").await;
    assert_eq!(shape(&talk.turns().await), ["1 complete: user assistant", "2 partial: assistant"]);
}

/// A message's own date is kept; the turn has that of its first message.
pub async fn dated_messages_keep_their_dates(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let dated =
        |message: Message, second| AddedMessage { message: Message { created_at: at(second), ..message }, dated: true };
    let messages = vec![dated(user("weather?"), 10), dated(tool_call(), 20), dated(assistant("21 °C"), 30)];
    let ids = vec![turn_id(), turn_id(), turn_id()];
    let added =
        store.add_messages(&talk.scope, talk.session, Some(SessionSeed::default()), messages, ids.clone()).await;
    let turn = added.expect("the messages are added").remove(0);
    assert_eq!((turn.id, turn.created_at), (ids[0], at(10)));
    let dates: Vec<Timestamp> = turn.messages.iter().map(|message| message.created_at).collect();
    assert_eq!(dates, [at(10), at(20), at(30)]);
    assert_eq!(talk.turns().await, [turn]);
}

/// Nothing is left out silently.
pub async fn messages_without_enough_ids_are_refused(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let messages = ["one", "two"].map(|text| AddedMessage { message: user(text), dated: false }).to_vec();
    let seed = SessionSeed::default();
    let refused = store.add_messages(&talk.scope, talk.session, Some(seed), messages, vec![turn_id()]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(talk.turns().await, []);
}

/// A loop of tools does not make a turn without end.
pub async fn a_turn_has_a_bounded_number_of_messages(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut most = vec![user("loop")];
    most.resize(TURN_MESSAGES_MAX, tool_result());
    talk.say(most.clone()).await.expect("as many as may be");
    let refused = talk.say(vec![tool_result()]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    most.push(assistant("one too many"));
    let refused = talk.try_add(vec![TurnDraft { messages: most, ..draft("", "") }]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(talk.turns().await[0].messages.len(), TURN_MESSAGES_MAX);
}

/// Turns as text: number, state, and who spoke.
fn shape(turns: &[Turn]) -> Vec<String> {
    let roles = |turn: &Turn| turn.messages.iter().map(|m| m.role.as_str()).collect::<Vec<_>>().join(" ");
    turns.iter().map(|turn| format!("{} {}: {}", turn.number, turn.status.as_str(), roles(turn))).collect()
}
