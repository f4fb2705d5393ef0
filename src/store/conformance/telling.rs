//! What topics tell: as far as it was read, never of a turn that is gone, and never over a name that people gave.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::{assistant, expire};
use super::topics::joins;
use crate::id::TopicId;
use crate::job::JobKind;
use crate::period::{Period, Ttl};
use crate::session::{ClosedTurn, Shift, TurnStatus};
use crate::store::{Claim, Effect, Finished, Store, TopicPatch, TopicTold, Untold};

/// Turns of two messages after which a topic is due; see `EpisodeSettings`.
const FULL: usize = 7;

impl Talk {
    /// A topic with so many turns, all of them learned.
    async fn long_topic(&self, turns: usize) -> TopicId {
        let id = self.begin("Which paint?").await;
        self.go_on(id, turns - 1).await;
        id
    }

    async fn go_on(&self, id: TopicId, turns: usize) {
        for n in 0..turns {
            self.exchange_in(&format!("And then {n}?"), joins(id)).await;
        }
        assert!(self.learn(id, "paint").await);
    }

    async fn untold(&self) -> Option<Untold> {
        self.store.topics().topic_to_tell(&self.scope, 100).await.expect("topics are read")
    }

    async fn claim_telling(&self) -> Option<Claim> {
        let now: Timestamp = "2100-01-01T00:00:00Z".parse().expect("a time");
        let claim = self.store.jobs().claim(None, now, SignedDuration::from_mins(1)).await.expect("jobs are claimed");
        claim.inspect(|claim| assert_eq!(claim.job.kind, JobKind::SUMMARISE))
    }

    async fn finish_telling(&self, claim: &Claim, told: TopicTold) -> Finished {
        self.store.jobs().finish(claim, Effect::TellTopic(Box::new(told))).await.expect("it is ended")
    }

    /// Tells the topic that is due, all but its last two turns.
    async fn tell(&self, summary: &str) -> Finished {
        let (claim, untold) = (self.claim_telling().await.expect("a job"), self.untold().await.expect("one is due"));
        self.finish_telling(&claim, telling(&untold, summary)).await
    }

    async fn summary(&self, id: TopicId) -> Option<String> {
        self.topic(id).await.expect("it is there").topic.summary
    }
}

fn telling(untold: &Untold, summary: &str) -> TopicTold {
    let leaving = &untold.turns[..untold.turns.len() - 2];
    TopicTold {
        id: untold.id,
        from: untold.told,
        read: leaving.iter().map(|turn| (turn.cursor, turn.stamp)).collect(),
        summary: Some(summary.to_owned()),
        title: Some("Paint".to_owned()),
        told_by: "test".to_owned(),
    }
}

/// A topic is due when enough was said that its summary does not tell, and tells what it was told.
pub async fn a_long_topic_is_told_once(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.long_topic(FULL - 1).await;
    assert_eq!((talk.untold().await, talk.claim_telling().await), (None, None));
    talk.go_on(id, 1).await;
    let untold = talk.untold().await.expect("it is due");
    assert_eq!((untold.id, untold.told, untold.messages, untold.turns.len()), (id, 0, 14, FULL));
    assert!(untold.turns.iter().all(|turn| turn.messages == 2 && turn.turn.is_some()));
    assert_eq!(talk.tell("Paint was spoken of.").await, Finished::Done);
    let kept = talk.topic(id).await.expect("it is there");
    assert_eq!((kept.topic.title.as_str(), kept.untold), ("Paint", 4));
    assert_eq!(talk.summary(id).await.as_deref(), Some("Paint was spoken of."));
    assert_eq!((talk.untold().await, talk.claim_telling().await), (None, None));
    talk.go_on(id, FULL - 2).await;
    let more = talk.untold().await.expect("it is due again");
    assert_eq!((more.summary.as_deref(), more.messages), (Some("Paint was spoken of."), 14));
    assert_eq!(more.told, untold.turns[FULL - 3].cursor);
}

/// What comes while a topic is told waits for the next time; what was told from an older state is not kept.
pub async fn what_comes_meanwhile_is_not_told(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.long_topic(FULL).await;
    let (claim, untold) = (talk.claim_telling().await.expect("a job"), talk.untold().await.expect("one is due"));
    talk.exchange_in("Meanwhile?", joins(id)).await;
    assert_eq!(talk.finish_telling(&claim, telling(&untold, "one")).await, Finished::Done);
    assert_eq!(talk.topic(id).await.expect("it is there").untold, 6);
    talk.go_on(id, FULL).await;
    let claim = talk.claim_telling().await.expect("a job");
    let late = TopicTold { from: 0, ..telling(&untold, "twice") };
    assert_eq!(talk.finish_telling(&claim, late).await, Finished::Changed);
    assert_eq!(talk.summary(id).await.as_deref(), Some("one"));
    assert_eq!(talk.tell("two").await, Finished::Done, "the job waited");
    assert_eq!(talk.summary(id).await.as_deref(), Some("two"));
}

/// Whoever deletes, hides or answers again what was told has it told anew; what was not told changes nothing.
pub async fn what_is_gone_is_told_no_more(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let other = talk.another();
    let id = talk.long_topic(3).await;
    let first = other.exchange_in("Elsewhere?", joins(id)).await;
    talk.go_on(id, 4).await;
    let last = talk.exchange_in("The last.", joins(id)).await;
    let anew = async |what: &str| {
        assert!(talk.learn(id, "paint").await);
        assert_eq!(talk.tell(what).await, Finished::Done);
        assert_eq!(talk.summary(id).await.as_deref(), Some(what));
    };
    anew("all").await;
    let attempt = talk.revise_with(last, Shift::default()).await.expect("another try");
    let again = ClosedTurn { attempt, ..talk.ending(last, TurnStatus::Complete, vec![assistant("Blue.")]) };
    talk.try_close(again).await.expect("the ending is written");
    assert_eq!(talk.summary(id).await.as_deref(), Some("all"), "it was not told");

    let attempt = other.revise_with(first, Shift::default()).await.expect("another try");
    assert_eq!(talk.summary(id).await, None);
    assert_eq!(talk.topic(id).await.expect("it is there").topic.title, "", "the name knew it, too");
    let again = ClosedTurn { attempt, ..other.ending(first, TurnStatus::Complete, vec![assistant("Red.")]) };
    other.try_close(again).await.expect("the ending is written");
    assert!(store.topics().remake_topic(&talk.scope, id).await.expect("made anew"));
    assert_eq!(talk.topic(id).await.expect("it is there").topic.title, "Which paint?");
    anew("again").await;

    other.delete().await;
    assert_eq!(talk.summary(id).await, None);
    assert!(store.topics().remake_topic(&talk.scope, id).await.expect("made anew"));
    talk.exchange_in("One more.", joins(id)).await;
    anew("without the other").await;
    talk.ask_with("An edit", Shift { hide: vec![2], ..Shift::default() }).await;
    assert_eq!(talk.summary(id).await, None);
    expire(&store, Timestamp::MAX, Ttl::of(Period::seconds(1)), 100).await;
    assert_eq!(talk.untold().await, None);
}

/// A model's title gives way to a person's, and never the other way round.
pub async fn a_name_that_people_gave_stays(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.long_topic(FULL).await;
    let named = TopicPatch { title: Some("The shed".into()), ..TopicPatch::default() };
    store.topics().change_topic(&talk.scope, id, named).await.expect("it is named");
    assert_eq!(talk.tell("told").await, Finished::Done);
    assert_eq!(talk.topic(id).await.expect("it is there").topic.title, "The shed");
}

/// What topics tell can be told again, of one user or of all.
pub async fn topics_are_told_again(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.long_topic(FULL).await;
    assert_eq!(talk.tell("told").await, Finished::Done);
    store.episodes().make_again(Some(&talk.of("acme", "bob").scope)).await.expect("another's");
    assert_eq!(talk.summary(id).await.as_deref(), Some("told"));
    store.episodes().make_again(Some(&talk.scope)).await.expect("done");
    assert_eq!((talk.summary(id).await, talk.untold().await.map(|untold| untold.told)), (None, Some(0)));
    assert_eq!(talk.tell("again").await, Finished::Done);
}
