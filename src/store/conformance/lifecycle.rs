//! A store starts, clears up after a former process, and closes.

use std::sync::Arc;

use super::Talk;
use crate::session::TurnStatus;
use crate::store::{Store, StoreError};

/// A store that works says so.
pub async fn a_fresh_store_answers(store: Arc<dyn Store>) {
    store.ping().await.expect("the store answers");
}

/// What a former process left pending is failed, with the reason; what had ended stays.
pub async fn abandoned_turns_fail(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store).of("other", "bob"));
    talk.ask("left").await;
    talk.exchange("answered", "yes").await;
    other.ask("left too").await;
    assert_eq!(store.fail_abandoned().await.expect("they are marked"), 2);
    assert_eq!(store.fail_abandoned().await.expect("they are marked"), 0);
    let turns = talk.turns().await;
    assert_eq!((turns[0].status, turns[1].status), (TurnStatus::Failed, TurnStatus::Complete));
    assert!(turns[0].metadata.contains_key("reason") && turns[0].messages.len() == 1);
    assert_eq!(talk.last(10).await, ["answered"]);
}

/// Whoever seemed gone may only have been cut off: the answer that was given counts, once.
pub async fn an_abandoned_turn_that_was_answered_after_all_is_complete(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let left = talk.ask("left").await;
    talk.exchange("answered", "yes").await;
    store.fail_abandoned().await.expect("it is marked");
    for (status, text) in [(TurnStatus::Complete, "after all"), (TurnStatus::Complete, "once more")] {
        talk.end(left, status, text).await;
    }
    let turns = talk.turns().await;
    assert_eq!((turns[0].status, turns[0].messages.len()), (TurnStatus::Complete, 2));
    assert_eq!(turns[0].messages[1].text, "after all");
    assert!(!turns[0].metadata.contains_key("reason"));
    assert_eq!(talk.last(10).await, ["left", "answered"]);
}

/// A closed store refuses work instead of losing it, and may be closed again.
pub async fn a_closed_store_says_so(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.ask("in time").await;
    store.close().await.expect("the store closes");
    let late = talk.try_open(talk.question("too late")).await;
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    let look = store.session(&talk.scope, talk.session).await;
    assert!(matches!(look, Err(StoreError::Closed)), "{look:?}");
    store.close().await.expect("closing twice is no harm");
}
