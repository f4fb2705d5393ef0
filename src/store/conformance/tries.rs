//! Several tries at an answer, and turns that wait for tools.

use std::sync::Arc;

use super::Talk;
use super::talk::{assistant, tool_call, tool_result, user};
use crate::id::TurnId;
use crate::message::Message;
use crate::session::{ClosedTurn, Fingerprint, ReviseTurn, TurnStatus};
use crate::store::{HistoryMatch, Store, Trail};

impl Talk {
    /// Begins another try, with tool rounds that took place already; answers which it is.
    async fn revise(&self, id: TurnId, then: Vec<Message>) -> u32 {
        let turn = ReviseTurn { id, session: self.session, ids: Default::default(), then, shift: Default::default() };
        self.store.revise_turn(&self.scope, turn).await.expect("another try is begun").attempt
    }

    async fn close_try(&self, id: TurnId, attempt: u32, status: TurnStatus, messages: Vec<Message>) {
        let closed = ClosedTurn { attempt, ..self.ending(id, status, messages) };
        self.try_close(closed).await.expect("the ending is written");
    }

    /// How many messages follow the question in each other try.
    async fn other_tries(&self, id: TurnId) -> Vec<usize> {
        let revisions = self.store.revisions(&self.scope, id).await.expect("readable").expect("a turn");
        revisions.iter().map(|revision| revision.messages.len()).collect()
    }
}

/// An answer that another try has overtaken is kept beside it, even one that waits for tools.
pub async fn an_overtaken_answer_is_kept(store: Arc<dyn Store>) {
    for (status, answer) in [(TurnStatus::Complete, assistant("first")), (TurnStatus::Pending, tool_call())] {
        let talk = Talk::new(&store);
        let id = talk.ask("weather?").await;
        let second = talk.revise(id, Vec::new()).await;
        talk.close_try(id, 0, status, vec![answer]).await;
        talk.close_try(id, second, TurnStatus::Complete, vec![assistant("second")]).await;
        assert_eq!(talk.turns().await[0].answer().map(|answer| answer.text.as_str()), Some("second"));
        assert_eq!(talk.other_tries(id).await, [1]);
    }
}

/// A try that comes to nothing never hides a whole answer, whichever ends first.
pub async fn a_failed_try_hides_no_answer(store: Arc<dyn Store>) {
    for whole_first in [true, false] {
        let talk = Talk::new(&store);
        let id = talk.ask("weather?").await;
        let second = talk.revise(id, Vec::new()).await;
        let whole = || talk.close_try(id, 0, TurnStatus::Complete, vec![assistant("first")]);
        if whole_first {
            whole().await;
        }
        talk.close_try(id, second, TurnStatus::Failed, Vec::new()).await;
        if !whole_first {
            whole().await;
        }
        let turn = talk.turns().await.remove(0);
        assert_eq!(turn.status, TurnStatus::Complete, "whole first: {whole_first}");
        assert_eq!(turn.answer().map(|answer| answer.text.as_str()), Some("first"));
    }
}

/// Tool rounds of a failed try go on in the next one, and are kept once.
pub async fn tool_rounds_outlive_a_failed_try(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("weather?").await;
    talk.close_try(id, 0, TurnStatus::Pending, vec![tool_call()]).await;
    talk.close_try(id, 0, TurnStatus::Pending, vec![tool_result()]).await;
    talk.close_try(id, 0, TurnStatus::Failed, Vec::new()).await;
    let second = talk.revise(id, vec![tool_call(), tool_result()]).await;
    talk.close_try(id, second, TurnStatus::Complete, vec![assistant("21 °C")]).await;
    assert_eq!(talk.turns().await[0].messages.len(), 4);
    assert!(talk.other_tries(id).await.is_empty());
}

/// Results of tools find the conversation that waits for them, and nobody else's.
pub async fn results_of_tools_find_who_waits_for_them(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let chain = Fingerprint::beginning(talk.scope.tenant().as_str(), talk.scope.user().as_str());
    let trail = |call: &str| Trail {
        chain,
        question: Fingerprint::of(&user("weather?")),
        calls: vec![call.to_owned()],
        tail: None,
    };
    let id = talk.ask("weather?").await;
    talk.close_try(id, 0, TurnStatus::Pending, vec![tool_call()]).await;
    talk.another().exchange("weather?", "rain").await;
    let found = store.match_history(&talk.scope, trail("c1")).await.expect("readable");
    assert_eq!(found, Some(HistoryMatch::Continues(talk.session)));
    assert_eq!(store.match_history(&talk.scope, trail("c2")).await.expect("readable"), None);
    let foreign = talk.of("acme", "bob").scope;
    assert_eq!(store.match_history(&foreign, trail("c1")).await.expect("readable"), None);
}
