//! A conversation with a store, in the words the promises use.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::id::{Ids, RandomIds, SessionId, TurnId};
use crate::message::{Message, Role};
use crate::period::Ttl;
use crate::scope::{Scope, Tenant, User};
use crate::session::{
    AddedMessage, ClosedTurn, OpenTurn, Session, SessionPatch, SessionSeed, Turn, TurnDraft, TurnStatus,
};
use crate::store::{Expired, Expiry, Kept, Opened, PageRequest, Store, StoreError};

/// One session of one user, and the store it is kept in.
#[derive(Clone)]
pub(super) struct Talk {
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
}

impl Talk {
    /// A new session of Ann, the user of the tenant `acme`.
    pub(super) fn new(store: &Arc<dyn Store>) -> Self {
        Self { store: Arc::clone(store), scope: scope("acme", "ann"), session: RandomIds.session() }
    }

    /// The session of the same id that belongs to somebody else.
    pub(super) fn of(&self, tenant: &str, user: &str) -> Self {
        Self { scope: scope(tenant, user), ..self.clone() }
    }

    /// Another session of the same user.
    pub(super) fn another(&self) -> Self {
        Self { session: RandomIds.session(), ..self.clone() }
    }

    pub(super) async fn create(&self, seed: SessionSeed) -> Session {
        self.store.create_session(&self.scope, self.session, seed).await.expect("the session is created")
    }

    pub(super) async fn find(&self) -> Option<Session> {
        self.store.session(&self.scope, self.session).await.expect("the session is looked up")
    }

    pub(super) async fn update(&self, patch: SessionPatch) -> Option<Session> {
        self.store.update_session(&self.scope, self.session, patch).await.expect("the session is updated")
    }

    pub(super) async fn set_ttl(&self, ttl: Ttl) {
        let patch = SessionPatch { ttl: Some(ttl), ..SessionPatch::default() };
        self.update(patch).await.expect("the session is there");
    }

    pub(super) async fn delete(&self) -> Option<u64> {
        self.store.delete_session(&self.scope, self.session).await.expect("the session is deleted")
    }

    pub(super) fn question(&self, text: &str) -> OpenTurn {
        OpenTurn {
            id: turn_id(),
            session: self.session,
            seed: SessionSeed::default(),
            question: user(text),
            metadata: Map::new(),
            asked_at: None,
            place: Default::default(),
        }
    }

    pub(super) fn ending(&self, id: TurnId, status: TurnStatus, messages: Vec<Message>) -> ClosedTurn {
        ClosedTurn {
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
        }
    }

    pub(super) async fn try_open(&self, turn: OpenTurn) -> Result<Opened, StoreError> {
        self.store.open_turn(&self.scope, turn).await
    }

    pub(super) async fn open(&self, turn: OpenTurn) -> Opened {
        self.try_open(turn).await.expect("the question is written")
    }

    pub(super) async fn try_close(&self, turn: ClosedTurn) -> Result<Kept, StoreError> {
        self.store.close_turn(&self.scope, turn).await
    }

    /// Asks and leaves the turn pending.
    pub(super) async fn ask(&self, text: &str) -> TurnId {
        let turn = self.question(text);
        let id = turn.id;
        self.open(turn).await;
        id
    }

    /// Ends a turn with these words.
    pub(super) async fn end(&self, id: TurnId, status: TurnStatus, text: &str) {
        let closed = self.try_close(self.ending(id, status, vec![assistant(text)])).await;
        assert_eq!(closed.expect("the ending is written"), Kept::OnDisk);
    }

    /// A question and its answer.
    pub(super) async fn exchange(&self, question: &str, answer: &str) -> TurnId {
        let id = self.ask(question).await;
        self.end(id, TurnStatus::Complete, answer).await;
        id
    }

    pub(super) async fn try_add(&self, drafts: Vec<TurnDraft>) -> Result<Vec<Turn>, StoreError> {
        self.store.add_turns(&self.scope, self.session, Some(SessionSeed::default()), drafts).await
    }

    pub(super) async fn add(&self, drafts: Vec<TurnDraft>) -> Vec<Turn> {
        self.try_add(drafts).await.expect("the turns are added")
    }

    /// Adds one exchange that happened at this second of the day.
    pub(super) async fn add_at(&self, second: i64) -> Turn {
        let draft = TurnDraft { created_at: Some(at(second)), ..draft(&format!("at {second}"), "yes") };
        self.add(vec![draft]).await.remove(0)
    }

    /// Adds loose messages without dates.
    pub(super) async fn say(&self, messages: Vec<Message>) -> Result<Vec<Turn>, StoreError> {
        let ids = messages.iter().map(|_| turn_id()).collect();
        let messages = messages.into_iter().map(|message| AddedMessage { message, dated: false }).collect();
        self.store.add_messages(&self.scope, self.session, Some(SessionSeed::default()), messages, ids).await
    }

    /// All turns that are held, by number, read in small pages.
    pub(super) async fn turns(&self) -> Vec<Turn> {
        let (mut all, mut page) = (Vec::new(), PageRequest::first(7));
        loop {
            let found = self.store.turns(&self.scope, self.session, page).await.expect("the turns are read");
            let Some(found) = found else { return all };
            all.extend(found.items);
            let Some(next) = found.next else { return all };
            page.after = Some(next);
        }
    }

    pub(super) async fn numbers(&self) -> Vec<u64> {
        self.turns().await.iter().map(|turn| turn.number).collect()
    }

    /// The questions in context, oldest first.
    pub(super) async fn last(&self, turns_max: usize) -> Vec<String> {
        let recent = self
            .store
            .last_turns(&self.scope, self.session, turns_max.saturating_mul(2))
            .await
            .expect("the end is read");
        assert!(recent.damaged.is_empty(), "{:?}", recent.damaged);
        recent.turns.iter().map(|turn| turn.question().text.clone()).collect()
    }
}

pub(super) fn scope(tenant: &str, user: &str) -> Scope {
    Scope::new(Tenant::parse(tenant).expect("a tenant"), User::parse(user).expect("a user"))
}

pub(super) fn turn_id() -> TurnId {
    RandomIds.turn(Timestamp::UNIX_EPOCH)
}

/// So many seconds into the day on which the promises' conversations take place.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("within this age")
}

pub(super) fn user(text: &str) -> Message {
    Message::new(Role::User, text, at(0))
}

pub(super) fn assistant(text: &str) -> Message {
    Message::new(Role::Assistant, text, at(1))
}

pub(super) fn draft(question: &str, answer: &str) -> TurnDraft {
    TurnDraft {
        id: turn_id(),
        messages: vec![user(question), assistant(answer)],
        metadata: Map::new(),
        created_at: None,
    }
}

/// A call for a tool, as models send it: no words at all.
pub(super) fn tool_call() -> Message {
    let wire = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\": \"Porto\"}"}}]});
    Message::from_wire(wire, at(2)).expect("a message")
}

pub(super) fn tool_result() -> Message {
    let wire = json!({"role": "tool", "tool_call_id": "c1", "content": "21 °C"});
    Message::from_wire(wire, at(3)).expect("a message")
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

/// Removes what is too old, in batches, and adds the batches up.
pub(super) async fn expire(store: &Arc<dyn Store>, now: Timestamp, server_ttl: Ttl, turns_max: usize) -> Expired {
    let mut total = Expired::default();
    loop {
        let batch = store.expire(Expiry { now, server_ttl, turns_max }).await.expect("expiry runs");
        assert!(batch.turns <= turns_max as u64, "a batch of {} turns, {turns_max} are allowed", batch.turns);
        total.turns += batch.turns;
        total.sessions += batch.sessions;
        if !batch.more {
            return total;
        }
    }
}
