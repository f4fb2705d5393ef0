//! What is in memory is what the store would answer.

use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds, SessionId};
use crate::message::Message;
use crate::scope::{Tenant, User};
use crate::session::{ClosedTurn, OpenTurn, SessionSeed, TurnStatus};
use crate::store::{DerivedTopic, Sqlite};
use crate::topic::Reason;

/// Ann, who talks, and the desk that follows.
struct Talk {
    store: Arc<dyn Store>,
    desk: TopicDesk,
    scope: Scope,
    session: SessionId,
}

impl Talk {
    fn new() -> Self {
        let store: Arc<dyn Store> =
            Arc::new(Sqlite::temporary(Arc::new(SystemClock::default())).expect("a temporary store"));
        let scope = Scope::new(Tenant::default(), User::parse("ann").expect("a name"));
        Self { desk: desk(&store), store, scope, session: RandomIds.session() }
    }

    async fn place(&self, question: &str) -> PlacedQuestion {
        let at = Moment { session: self.session, before: None };
        let new_id = || RandomIds.topic(Timestamp::UNIX_EPOCH);
        self.desk.place(&self.scope, at, question, new_id).await.expect("the question is placed")
    }

    /// Asks, is answered, and answers where that was placed.
    async fn say(&self, question: &str, answer: &str) -> PlacedQuestion {
        let placed = self.place(question).await;
        let now = Timestamp::now();
        let id = RandomIds.turn(now);
        let open = OpenTurn {
            id,
            session: self.session,
            seed: SessionSeed::default(),
            question: Message::new(Role::User, question, now),
            metadata: Default::default(),
            asked_at: None,
            place: Default::default(),
        };
        self.store.open_turn(&self.scope, open).await.expect("opened");
        let closed = ClosedTurn {
            id,
            session: self.session,
            status: TurnStatus::Complete,
            messages: vec![Message::new(Role::Assistant, answer, now)],
            metadata: Default::default(),
            attempt: 0,
            others: Vec::new(),
            trace: None,
            topic: Some(placed.topic.clone()),
            waits_since: None,
        };
        self.store.close_turn(&self.scope, closed).await.expect("closed");
        placed
    }

    /// What the background does with a topic.
    async fn keep(&self, id: TopicId) {
        let topic = self.store.topics().topic_sketches(&self.scope, &[id], &[]).await.expect("read").pop();
        let SketchedTopic { version, mut sketch, untaken, .. } = topic.expect("the topic is there");
        untaken
            .iter()
            .filter_map(|untaken| untaken.turn.as_ref())
            .for_each(|turn| self.desk.take_in(&mut sketch, turn));
        let taken = untaken.into_iter().map(|untaken| untaken.id).collect();
        let derived = DerivedTopic { id, version, sketch, taken };
        assert!(self.store.topics().keep_topic(&self.scope, derived).await.expect("the sketch is written"));
    }

    /// A desk that saw nothing so far holds what this one holds.
    async fn check(&self) {
        let (held, _) = self.desk.shelf(&self.scope, None).await.expect("a shelf");
        let (anew, _) = desk(&self.store).shelf(&self.scope, None).await.expect("a shelf");
        // Which part of a sketch was read and which was added tells how it came about, not what it is.
        let parts = |shelf: &TopicShelf| -> Vec<HeldTopic> {
            let topics = shelf.known().into_iter().filter_map(|known| shelf.topic(known.id));
            topics.map(|topic| HeldTopic { sketch_state: 0, beyond: Vec::new(), ..HeldTopic::clone(topic) }).collect()
        };
        assert!(parts(&held) == parts(&anew), "what is held is not what is stored");
    }
}

fn desk(store: &Arc<dyn Store>) -> TopicDesk {
    TopicDesk::new(Arc::clone(store), Arc::new(Builtin::default()))
}

#[tokio::test]
async fn a_conversation_is_followed_as_it_goes() {
    let talk = Talk::new();
    let paint = talk.say("Which linseed paint for the garden shed?", "Ottosson makes linseed paint.").await;
    assert_eq!((paint.placed.reason, paint.running), (Reason::First, None));
    talk.check().await;
    let cost = talk.say("How much does it cost?", "Forty euros a litre.").await;
    assert_eq!((cost.placed.reason, cost.topic.id), (Reason::FollowUp, paint.topic.id));
    let train = talk.say("When does the night train from Vienna to Hamburg leave?", "At nine.").await;
    assert_eq!(train.placed.reason, Reason::Novelty);
    talk.check().await;
    // A word that only an answer used.
    let back = talk.place("Is Ottosson paint from Sweden?").await;
    assert_eq!((back.topic.id, back.topic.begins), (paint.topic.id, None));
    let running = back.running.expect("an older topic");
    assert_eq!((running.title.as_str(), running.last.len()), ("Which linseed paint for the garden shed?", 2));
}

#[tokio::test]
async fn what_is_said_next_is_added_to_what_is_held() {
    let talk = Talk::new();
    let paint = talk.say("Which linseed paint for the garden shed?", "Ottosson makes linseed paint.").await.topic.id;
    for (n, answer) in ["Forty euros.", "Two litres.", "A week.", "In spring.", "A brush."].iter().enumerate() {
        talk.check().await;
        assert_eq!(talk.say("And how much of it?", answer).await.topic.id, paint);
        let (before, _) = talk.desk.shelf(&talk.scope, None).await.expect("a shelf");
        let beyond = before.beyond(&[paint]);
        let known = talk.store.topics().topic_sketches(&talk.scope, &[paint], &beyond).await.expect("read");
        assert!(known[0].untaken.iter().all(|untaken| untaken.turn.is_none()), "known words are not read again");
        if n % 2 == 1 {
            talk.keep(paint).await;
        }
    }
    talk.check().await;
}

#[tokio::test]
async fn a_long_topic_that_is_made_anew_is_held_as_far_as_it_is_learned() {
    let talk = Talk::new();
    let paint = talk.say("Which linseed paint for the garden shed?", "Any.").await.topic.id;
    for n in 1..130 {
        assert_eq!(talk.say("And how much of it?", &format!("Tin{n}.")).await.topic.id, paint);
    }
    assert!(talk.store.topics().remake_topic(&talk.scope, paint).await.expect("made anew"));
    for _ in 0..3 {
        talk.check().await;
        talk.keep(paint).await;
    }
    talk.check().await;
    let (held, _) = talk.desk.shelf(&talk.scope, None).await.expect("a shelf");
    assert_eq!(held.topic(paint).expect("it is held").sketch.messages(), 260);
}

#[tokio::test]
async fn what_is_deleted_is_not_held() {
    let talk = Talk::new();
    talk.say("Which linseed paint for the garden shed?", "Any.").await;
    talk.check().await;
    talk.store.delete_session(&talk.scope, talk.session).await.expect("deleted");
    talk.check().await;
    assert_eq!(talk.place("Which linseed paint for the garden shed?").await.placed.reason, Reason::First);
}
