//! What waits, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, json};

use super::flaky::Flaky;
use super::*;
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds};
use crate::message::{Message, Role};
use crate::scope::{Tenant, User};
use crate::session::{AddedMessage, SessionPatch, SessionSeed, TurnStatus};
use crate::store::Sqlite;

mod conformance {
    use super::*;

    crate::conformance! { Waiting::new(Arc::new(sqlite()), Arc::new(SystemClock::default()), BOUNDS) }
}

pub(super) const BOUNDS: WaitingBounds = WaitingBounds { turns_max: 4, bytes_max: 1_000 };

pub(super) fn sqlite() -> Sqlite {
    Sqlite::temporary(Arc::new(SystemClock::default())).expect("a store in a new folder")
}

/// A chat of one user in one session, on a disk that fills and empties.
#[derive(Clone)]
pub(super) struct Chat {
    pub(super) store: Arc<Waiting<Flaky>>,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
}

impl Chat {
    fn new() -> Self {
        let store = Waiting::new(Arc::new(Flaky::new(sqlite())), Arc::new(SystemClock::default()), BOUNDS);
        Self { store: Arc::new(store), scope: scope("ann"), session: RandomIds.session() }
    }

    pub(super) fn another(&self) -> Self {
        Self { session: RandomIds.session(), ..self.clone() }
    }

    fn disk_full(&self, full: bool) {
        self.store.inner.full.store(full, Ordering::SeqCst);
    }

    pub(super) fn question(&self, text: &str) -> OpenTurn {
        let question = Message::new(Role::User, text, Timestamp::UNIX_EPOCH);
        let id = RandomIds.turn(Timestamp::UNIX_EPOCH);
        OpenTurn {
            id,
            session: self.session,
            seed: SessionSeed::default(),
            question,
            metadata: Map::new(),
            asked_at: None,
            place: Default::default(),
        }
    }

    async fn open(&self, turn: OpenTurn) -> Result<Opened, StoreError> {
        self.store.open_turn(&self.scope, turn).await
    }

    pub(super) async fn ask(&self, text: &str) -> (TurnId, Kept) {
        let turn = self.question(text);
        let id = turn.id;
        (id, self.open(turn).await.expect("the question is taken in").kept)
    }

    async fn close(&self, id: TurnId, status: TurnStatus, text: &str) -> Result<Kept, StoreError> {
        let messages = vec![Message::new(Role::Assistant, text, Timestamp::UNIX_EPOCH)];
        let turn = ClosedTurn {
            id,
            session: self.session,
            status,
            messages,
            metadata: Map::new(),
            attempt: 0,
            others: Vec::new(),
            trace: None,
            topic: None,
            waits_since: None,
        };
        self.store.close_turn(&self.scope, turn).await
    }

    pub(super) async fn answer(&self, id: TurnId) -> Kept {
        self.close(id, TurnStatus::Complete, "so").await.expect("the ending is taken in")
    }

    pub(super) async fn exchange(&self, text: &str) -> Kept {
        let (id, _) = self.ask(text).await;
        self.answer(id).await
    }

    pub(super) async fn shown(&self) -> Vec<String> {
        let recent = self.store.last_turns(&self.scope, self.session, 6).await.expect("reading goes on");
        recent.turns.iter().map(|turn| turn.question().text.clone()).collect()
    }

    /// What is on disk: number, question, state.
    pub(super) async fn stored(&self) -> Vec<String> {
        let page = self.store.turns(&self.scope, self.session, PageRequest::first(100)).await.expect("reading goes on");
        let turns = page.map(|page| page.items).unwrap_or_default();
        turns.iter().map(|turn| format!("{} {} {}", turn.number, turn.question().text, turn.status.as_str())).collect()
    }
}

pub(super) fn scope(user: &str) -> Scope {
    Scope::new(Tenant::default(), User::parse(user).expect("a user"))
}

#[tokio::test]
async fn chat_goes_on_while_the_disk_is_full() {
    let chat = Chat::new();
    assert_eq!(chat.exchange("before").await, Kept::OnDisk);
    chat.disk_full(true);
    let opened = chat.open(chat.question("during")).await.expect("the question waits");
    assert_eq!((opened.number, opened.kept), (None, Kept::Waiting));
    assert_eq!(chat.exchange("during too").await, Kept::Waiting);
    assert_eq!((chat.store.waiting(), chat.stored().await), (2, vec!["1 before complete".to_owned()]));
}

#[tokio::test]
async fn what_waits_is_shown_in_order_and_bounded() {
    let chat = Chat::new();
    chat.exchange("a").await;
    chat.disk_full(true);
    for text in ["b", "c"] {
        chat.exchange(text).await;
    }
    chat.ask("pending").await;
    let (failed, _) = chat.ask("failed").await;
    chat.close(failed, TurnStatus::Failed, "").await.expect("the ending waits");
    assert_eq!(chat.shown().await, ["a", "b", "c"]);
    assert_eq!(chat.another().shown().await, [""; 0]);
    let two = chat.store.last_turns(&chat.scope, chat.session, 4).await.expect("reading goes on");
    assert_eq!(two.turns.iter().map(|turn| turn.number).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn an_ending_that_waits_alone_is_shown_with_its_question() {
    let chat = Chat::new();
    chat.exchange("a").await;
    let (b, kept) = chat.ask("b").await;
    assert_eq!(kept, Kept::OnDisk);
    let (c, _) = chat.ask("c").await;
    chat.answer(c).await;
    chat.disk_full(true);
    assert_eq!(chat.answer(b).await, Kept::Waiting);
    assert_eq!(chat.shown().await, ["a", "b", "c"]);
    let recent = chat.store.last_turns(&chat.scope, chat.session, 6).await.expect("reading goes on");
    assert_eq!((recent.turns[1].status, recent.turns[1].messages.len()), (TurnStatus::Complete, 2));
}

#[tokio::test]
async fn what_waits_is_shown_as_it_will_be_stored() {
    let chat = Chat::new();
    chat.disk_full(true);
    let mut question = chat.question("how?");
    question.metadata.insert("role".into(), json!("nurse"));
    let (id, session) = (question.id, chat.session);
    let opened = chat.open(question).await.expect("the question waits");
    let metadata = json!({"model": "m"}).as_object().cloned().expect("an object");
    let messages = vec![Message::new(Role::Assistant, "so", Timestamp::UNIX_EPOCH)];
    let ending = ClosedTurn {
        id,
        session,
        status: TurnStatus::Complete,
        messages,
        metadata,
        attempt: 0,
        others: Vec::new(),
        trace: Some("{}".into()),
        topic: None,
        waits_since: None,
    };
    chat.store.close_turn(&chat.scope, ending).await.expect("the ending waits");
    let shown = chat.store.last_turns(&chat.scope, chat.session, 6).await.expect("reading goes on").turns.remove(0);
    assert_eq!((shown.created_at, shown.question().created_at), (opened.created_at, opened.created_at));
    assert_eq!(json!(shown.metadata), json!({"role": "nurse", "model": "m"}));
    let entries = || chat.store.recall_entries(&chat.scope, "e", None, 9);
    assert!(entries().await.expect("a page").entries.is_empty(), "what waits is not recalled yet");
    chat.disk_full(false);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(entries().await.expect("a page").entries.len(), 1);
    assert_eq!(chat.store.trace(&chat.scope, id).await.expect("a look").as_deref(), Some("{}"));
}

#[tokio::test]
async fn explicit_writes_fail_at_once() {
    let chat = Chat::new();
    chat.exchange("a").await;
    chat.disk_full(true);
    let (store, scope, id, seed) = (&chat.store, &chat.scope, chat.session, SessionSeed::default());
    let full = |failed: Result<(), StoreError>| assert!(matches!(failed, Err(StoreError::Full(_))), "{failed:?}");
    full(store.create_session(scope, RandomIds.session(), seed.clone()).await.map(drop));
    full(store.update_session(scope, id, SessionPatch::default()).await.map(drop));
    full(store.delete_session(scope, id).await.map(drop));
    full(store.add_turns(scope, id, Some(seed.clone()), vec![]).await.map(drop));
    full(store.add_messages(scope, id, Some(seed), vec![], vec![]).await.map(drop));
    assert_eq!((chat.store.waiting(), chat.shown().await), (0, vec!["a".to_owned()]));
}

#[tokio::test]
async fn as_many_turns_wait_as_may_and_no_more() {
    let chat = Chat::new();
    chat.disk_full(true);
    for n in 0..BOUNDS.turns_max {
        assert_eq!(chat.another().ask(&n.to_string()).await.1, Kept::Waiting);
    }
    let refused = chat.open(chat.question("one too many")).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(chat.store.waiting(), BOUNDS.turns_max);
}

#[tokio::test]
async fn as_many_bytes_wait_as_may_and_no_more() {
    let chat = Chat::new();
    chat.disk_full(true);
    let half = "x".repeat(BOUNDS.bytes_max / 2);
    chat.ask(&half).await;
    chat.ask(&half).await;
    let refused = chat.open(chat.question("x")).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
}

#[tokio::test]
async fn a_picture_weighs_what_it_weighs() {
    let chat = Chat::new();
    chat.disk_full(true);
    let mut question = chat.question("what is this?");
    question.question.raw = Some(json!({"role": "user", "content": [{"url": "x".repeat(BOUNDS.bytes_max)}]}));
    let refused = chat.open(question).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
}

#[tokio::test]
async fn what_waited_is_written_in_order_each_turn_once() {
    let chat = Chat::new();
    chat.exchange("a").await;
    chat.disk_full(true);
    chat.exchange("b").await;
    let (c, _) = chat.ask("c").await;
    chat.close(c, TurnStatus::Partial, "half").await.expect("the ending waits");
    let (d, _) = chat.ask("d").await;
    assert_eq!(chat.store.flush().await, 3, "the disk is still full");
    chat.disk_full(false);
    assert_eq!(chat.another().exchange("elsewhere").await, Kept::OnDisk);
    assert_eq!((chat.store.waiting(), chat.ask("e").await.1), (3, Kept::OnDisk), "after those of its session");
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.answer(d).await, Kept::OnDisk);
    assert_eq!(chat.stored().await, ["1 a complete", "2 b complete", "3 c partial", "4 d complete", "5 e pending"]);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.stored().await.len(), 5);
}

#[tokio::test]
async fn a_disk_that_fills_again_in_the_middle_loses_and_doubles_nothing() {
    let chat = Chat::new();
    chat.disk_full(true);
    for text in ["a", "b", "c"] {
        chat.exchange(text).await;
    }
    // Each turn takes two writes; every number of them may be the last that goes through.
    for spared in [1, 0, 2, 1] {
        chat.store.inner.spared.store(spared, Ordering::SeqCst);
        chat.store.flush().await;
        assert_eq!(chat.shown().await, ["a", "b", "c"], "after {spared} more writes");
    }
    chat.disk_full(false);
    chat.store.flush().await;
    assert_eq!(chat.stored().await, ["1 a complete", "2 b complete", "3 c complete"]);
}

#[tokio::test]
async fn an_ending_that_comes_while_its_question_is_written_is_not_lost() {
    let chat = Chat::new();
    chat.disk_full(true);
    let (id, _) = chat.ask("how?").await;
    chat.disk_full(false);
    chat.store.inner.halt.store(true, Ordering::SeqCst);
    let flushing = tokio::spawn({
        let store = Arc::clone(&chat.store);
        async move { store.flush().await }
    });
    chat.store.inner.reached.notified().await;
    assert_eq!(chat.answer(id).await, Kept::Waiting);
    chat.store.inner.go_on.notify_one();
    assert_eq!(flushing.await.expect("flushing goes well"), 0);
    assert_eq!(chat.stored().await, ["1 how? complete"]);
}

#[tokio::test]
async fn a_flush_that_is_dropped_is_taken_up_again() {
    let chat = Chat::new();
    chat.disk_full(true);
    chat.exchange("how?").await;
    chat.disk_full(false);
    chat.store.inner.halt.store(true, Ordering::SeqCst);
    tokio::select! {
        _ = chat.store.flush() => panic!("the flush is halted"),
        () = chat.store.inner.reached.notified() => {}
    }
    chat.store.inner.halt.store(false, Ordering::SeqCst);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.stored().await, ["1 how? complete"]);
}

#[tokio::test]
async fn opening_and_closing_twice_while_waiting_is_one_turn() {
    let chat = Chat::new();
    chat.disk_full(true);
    let question = chat.question("how?");
    let first = chat.open(question.clone()).await.expect("the question waits");
    assert_eq!(chat.open(question.clone()).await.expect("it waits already"), first);
    assert_eq!(chat.answer(question.id).await, Kept::Waiting);
    chat.close(question.id, TurnStatus::Failed, "").await.expect("it has ended already");
    assert_eq!(chat.store.waiting(), 1);
    chat.disk_full(false);
    chat.store.flush().await;
    assert_eq!(chat.stored().await, ["1 how? complete"]);
}

#[tokio::test]
async fn what_no_disk_would_take_does_not_wait() {
    let chat = Chat::new();
    chat.disk_full(true);
    let blank = chat.open(chat.question(" \u{2003}")).await;
    assert!(matches!(blank, Err(StoreError::Refused(_))), "{blank:?}");
    let (id, _) = chat.ask("how?").await;
    let blank = chat.close(id, TurnStatus::Complete, " ").await;
    assert!(matches!(blank, Err(StoreError::Refused(_))), "{blank:?}");
    assert_eq!(chat.answer(id).await, Kept::Waiting);
}

#[tokio::test]
async fn a_stranger_does_not_close_a_waiting_turn() {
    let chat = Chat::new();
    chat.disk_full(true);
    let (id, _) = chat.ask("how?").await;
    chat.disk_full(false);
    let stranger = Chat { scope: scope("bob"), ..chat.clone() };
    let unknown = stranger.close(id, TurnStatus::Complete, "forged").await;
    assert!(matches!(unknown, Err(StoreError::UnknownTurn(_))), "{unknown:?}");
    assert_eq!(chat.answer(id).await, Kept::OnDisk);
}

#[tokio::test]
async fn what_is_added_later_stands_after_what_waited() {
    let chat = Chat::new();
    chat.disk_full(true);
    chat.exchange("first").await;
    chat.disk_full(false);
    let messages = vec![AddedMessage { message: chat.question("second").question, dated: false }];
    let ids = vec![RandomIds.turn(Timestamp::UNIX_EPOCH)];
    let added = chat.store.add_messages(&chat.scope, chat.session, Some(SessionSeed::default()), messages, ids).await;
    assert_eq!(added.expect("the disk is back").len(), 1);
    assert_eq!(chat.stored().await, ["1 first complete", "2 second partial"]);
}

/// A client that resends its history finds what waits, so that nothing is taken over a second time.
#[tokio::test]
async fn what_waits_is_found_by_clients_that_resend_it() {
    let chat = Chat::new();
    chat.exchange("zero").await;
    chat.disk_full(true);
    chat.exchange("one").await;
    chat.exchange("two").await;
    let held = chat.store.held(&chat.scope, chat.session, 9).await.expect("reading goes on");
    let tree: Vec<_> = held.turns.iter().map(|turn| (turn.number, turn.parent, turn.answer.is_some())).collect();
    assert_eq!(tree, [(1, 0, true), (2, 1, true), (3, 2, true)]);
    chat.disk_full(false);
    assert_eq!(chat.store.flush().await, 0);
    let stored = chat.store.held(&chat.scope, chat.session, 9).await.expect("reading goes on");
    assert_eq!(stored, held, "what was foreseen is what came");
}

/// Tool rounds of a turn that waits are kept whole and once.
#[tokio::test]
async fn tool_rounds_wait_with_their_turn() {
    let chat = Chat::new();
    chat.disk_full(true);
    let (id, _) = chat.ask("weather?").await;
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "21"});
    for wire in [call, result] {
        let messages = vec![Message::from_wire(wire, Timestamp::UNIX_EPOCH).expect("a message")];
        let (session, status, metadata) = (chat.session, TurnStatus::Pending, Map::new());
        let so_far = ClosedTurn {
            id,
            session,
            status,
            messages,
            metadata,
            attempt: 0,
            others: Vec::new(),
            trace: None,
            topic: None,
            waits_since: None,
        };
        assert_eq!(chat.store.close_turn(&chat.scope, so_far).await.expect("it waits"), Kept::Waiting);
    }
    assert_eq!(chat.close(id, TurnStatus::Complete, "21 °C").await.expect("it waits"), Kept::Waiting);
    chat.disk_full(false);
    assert_eq!(chat.store.flush().await, 0);
    let turn = chat.store.turn(&chat.scope, id).await.expect("reading goes on").expect("the turn");
    assert_eq!((turn.status, turn.messages.len()), (TurnStatus::Complete, 4));
}

#[tokio::test]
async fn deleting_a_session_drops_what_waits_for_it() {
    let (chat, other) = (Chat::new(), Chat::new());
    let other = Chat { store: Arc::clone(&chat.store), ..other };
    chat.exchange("on disk").await;
    let (ending, _) = chat.ask("question on disk").await;
    chat.disk_full(true);
    chat.answer(ending).await;
    chat.exchange("waiting").await;
    other.exchange("somebody else's").await;
    chat.disk_full(false);
    let deleted = chat.store.delete_session(&chat.scope, chat.session).await.expect("the disk is back");
    assert_eq!(deleted, Some(3));
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!((chat.shown().await, other.shown().await), (vec![], vec!["somebody else's".to_owned()]));
    assert_eq!(chat.store.session(&chat.scope, chat.session).await.expect("an answer"), None);
}

#[tokio::test]
async fn a_session_that_only_waits_can_be_deleted() {
    let chat = Chat::new();
    chat.disk_full(true);
    chat.exchange("waiting").await;
    chat.disk_full(false);
    let deleted = chat.store.delete_session(&chat.scope, chat.session).await.expect("the disk is back");
    assert_eq!((deleted, chat.store.waiting()), (Some(1), 0));
}

#[tokio::test]
async fn a_session_deleted_while_its_turn_is_written_does_not_come_back() {
    let chat = Chat::new();
    chat.disk_full(true);
    chat.exchange("waiting").await;
    chat.disk_full(false);
    chat.store.inner.halt.store(true, Ordering::SeqCst);
    let store = Arc::clone(&chat.store);
    let flushing = tokio::spawn(async move { store.flush().await });
    chat.store.inner.reached.notified().await;
    let (store, scope, session) = (Arc::clone(&chat.store), chat.scope.clone(), chat.session);
    let deleting = tokio::spawn(async move { store.delete_session(&scope, session).await });
    // Time enough to delete it, if nothing held that back.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    chat.store.inner.go_on.notify_one();
    flushing.await.expect("flushing goes well");
    assert_eq!(deleting.await.expect("deleting goes well").expect("an answer"), Some(1));
    assert_eq!(chat.store.session(&chat.scope, chat.session).await.expect("an answer"), None);
    assert_eq!(chat.store.waiting(), 0);
}

#[tokio::test]
async fn closing_the_store_writes_what_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recalld.db");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let inner = Sqlite::open(&path, Arc::clone(&clock)).expect("a new file");
    let flaky = Flaky::new(inner);
    let store = Arc::new(Waiting::new(Arc::new(flaky), Arc::clone(&clock), BOUNDS));
    let chat = Chat { store, ..Chat::new() };
    chat.disk_full(true);
    chat.exchange("waiting").await;
    chat.disk_full(false);
    Store::close(&*chat.store).await.expect("the store closes");
    let again = Sqlite::open(&path, clock).expect("the file is free again");
    assert_eq!(again.stats(&chat.scope).await.expect("stats").turns, 1);
}
