//! What the memory model costs, and its answers that could not be used.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::{at, expire};
use super::topics::joins;
use crate::id::TopicId;
use crate::job::JobKind;
use crate::period::{Period, Ttl};
use crate::store::{Claim, DaySpent, Effect, Erasure, PageRequest, Store, UNUSED_ANSWERS_MAX, UnusedAnswer};

async fn spent(talk: &Talk, day: i64) -> DaySpent {
    talk.store.ledger().spent_on(&talk.scope, day).await.expect("it is counted")
}

async fn spend(talk: &Talk, day: i64, more: DaySpent) {
    talk.store.ledger().spend(&talk.scope, day, more).await.expect("it is written");
}

/// What is spent adds up by tenant and day, whoever of the tenant's users it was for.
pub async fn spending_adds_up_by_tenant_and_day(store: Arc<dyn Store>) {
    let ann = Talk::new(&store);
    let (bob, stranger) = (ann.of("acme", "bob"), ann.of("else", "ann"));
    assert_eq!(spent(&ann, 7).await, DaySpent::default());
    spend(&ann, 7, DaySpent { calls: 2, tokens: 100, ..DaySpent::default() }).await;
    let failed = DaySpent { calls: 1, failures: 1, last_failure: Some("busy".into()), ..DaySpent::default() };
    spend(&bob, 7, failed).await;
    spend(&bob, 7, DaySpent { fallbacks: 1, capped: 1, ..DaySpent::default() }).await;
    let last_failure = Some("busy".into());
    let all = DaySpent { calls: 3, tokens: 100, failures: 1, fallbacks: 1, capped: 1, last_failure };
    assert_eq!((spent(&ann, 7).await, spent(&bob, 7).await), (all.clone(), all));
    assert_eq!((spent(&ann, 8).await, spent(&stranger, 7).await), Default::default());
    spend(&ann, 100, DaySpent { calls: 1, ..DaySpent::default() }).await;
    assert_eq!((spent(&ann, 7).await.calls, spent(&ann, 100).await.calls), (0, 1), "old days are forgotten");
}

fn answer(talk: &Talk, topic: Option<TopicId>, text: &str) -> UnusedAnswer {
    let (kind, reason) = ("garbage".to_owned(), "it is no object".to_owned());
    UnusedAnswer { session: talk.session, topic, kind, reason, answer: text.to_owned(), at: at(1) }
}

/// A job of a session in somebody's hands.
async fn claimed(talk: &Talk, kind: JobKind) -> Claim {
    assert!(talk.store.jobs().enqueue(&talk.scope, talk.session, kind).await.expect("asked for"));
    let now: Timestamp = "2100-01-01T00:00:00Z".parse().expect("a time");
    let claim = talk.store.jobs().claim(None, now, SignedDuration::from_mins(1)).await.expect("jobs are claimed");
    claim.expect("it is due")
}

/// Keeps an answer to what was asked for a job.
async fn keep_for(claim: &Claim, talk: &Talk, unused: UnusedAnswer) {
    talk.store.ledger().keep_unused(claim, unused).await.expect("it is kept");
}

async fn keep(talk: &Talk, unused: UnusedAnswer) {
    let claim = claimed(talk, JobKind::LEARN).await;
    keep_for(&claim, talk, unused).await;
    talk.store.jobs().finish(&claim, Effect::Nothing).await.expect("it is ended");
}

async fn kept(talk: &Talk) -> Vec<String> {
    let page = talk.store.ledger().unused(&talk.scope, PageRequest::first(100)).await.expect("they are read");
    page.items.into_iter().map(|unused| unused.answer).collect()
}

/// Answers come back to their user as they were, the newest few.
pub async fn answers_that_were_no_use_are_kept(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("how?", "so").await;
    let first = answer(&talk, None, "answer 0");
    keep(&talk, first.clone()).await;
    let page = store.ledger().unused(&talk.scope, PageRequest::first(1)).await.expect("they are read");
    assert_eq!((page.items, page.next), (vec![first], None));
    assert_eq!(kept(&talk.of("acme", "bob")).await, [""; 0]);
    for n in 1..=UNUSED_ANSWERS_MAX {
        keep(&talk, answer(&talk, None, &format!("answer {n}"))).await;
    }
    let all = kept(&talk).await;
    assert_eq!((all.len(), all[0].as_str()), (UNUSED_ANSWERS_MAX, "answer 1"));
    assert_eq!(kept(&talk.of("acme", "bob")).await, [""; 0]);
}

/// An answer may repeat what was erased while it was given: then it is not kept, whatever the session or the topic has beside it.
pub async fn an_answer_to_what_was_erased_is_not_kept(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let other = talk.another();
    let topic = talk.begin("Which paint?").await;
    let gone = other.exchange_in("A secret?", joins(topic)).await;
    talk.exchange_in("And the fence?", joins(topic)).await;
    other.exchange("how?", "so").await;
    let reading = claimed(&other, JobKind::LEARN).await;
    let telling = claimed(&talk, JobKind::SUMMARISE).await;
    let what = Erasure::Turn(talk.scope.clone(), gone);
    store.erasures().erase(what).await.expect("it is erased").expect("it was there");
    keep_for(&reading, &other, answer(&other, None, "A secret, you say?")).await;
    keep_for(&telling, &talk, answer(&talk, Some(topic), "They spoke of a secret.")).await;
    assert_eq!(kept(&talk).await, [""; 0]);
    keep(&talk, answer(&talk, Some(topic), "later")).await;
    assert_eq!(kept(&talk).await, ["later"]);
}

/// They are made of what was said, and go with it.
pub async fn answers_go_with_what_was_said(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let other = talk.another();
    let topic = talk.begin("Which paint?").await;
    other.exchange_in("And the fence?", joins(topic)).await;
    keep(&talk, answer(&talk, None, "of the session")).await;
    keep(&talk, answer(&talk, Some(topic), "of the topic")).await;
    keep(&other, answer(&other, None, "of the other")).await;
    other.delete().await;
    assert_eq!(kept(&talk).await, ["of the session"], "the topic knew the other session");
    keep(&talk, answer(&talk, Some(topic), "again")).await;
    expire(&store, Timestamp::MAX, Ttl::of(Period::seconds(1)), 100).await;
    assert_eq!(kept(&talk).await, [""; 0]);
}
