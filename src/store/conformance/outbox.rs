//! Webhooks that are yet to be delivered: kept once, in one hand at a time, gone when they are delivered, seen when they are not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::at;
use crate::scope::Tenant;
use crate::store::{
    Erasure, Finished, OUTBOX_DEAD_MAX, OUTBOX_WAITING_MAX, PageRequest, Parcel, ParcelClaim, ParcelCounts,
    PostedParcel, Store,
};
use crate::webhook::ATTEMPTS_MAX;

const LEASE: SignedDuration = SignedDuration::from_mins(1);

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a tenant")
}

fn parcel(of: &str, id: &str) -> Parcel {
    Parcel {
        id: id.to_owned(),
        tenant: tenant(of),
        user: None,
        session: "+15551234567".into(),
        reason: "ttl".into(),
        body: Bytes::from(format!("{{\"told\": \"{id}\"}}")),
        created_at: at(0),
    }
}

async fn put(store: &Arc<dyn Store>, of: &str, id: &str) {
    store.outbox().put(parcel(of, id)).await.expect("it is kept");
}

fn minute(minutes: i64) -> Timestamp {
    at(0) + SignedDuration::from_mins(minutes)
}

async fn claim_but(store: &Arc<dyn Store>, minutes: i64, busy: &[&str]) -> Option<ParcelClaim> {
    let busy = busy.iter().map(|name| tenant(name)).collect();
    store.outbox().claim(minute(minutes), LEASE, busy).await.expect("they are claimed")
}

async fn claim(store: &Arc<dyn Store>, minutes: i64) -> Option<ParcelClaim> {
    claim_but(store, minutes, &[]).await
}

async fn fail(store: &Arc<dyn Store>, claim: &ParcelClaim, next: Option<i64>) -> Finished {
    store.outbox().undelivered(claim, "it answered with 500", next.map(minute)).await.expect("it is noted")
}

async fn list(store: &Arc<dyn Store>, of: &str) -> Vec<PostedParcel> {
    store.outbox().parcels(&tenant(of), PageRequest::first(1_000)).await.expect("they are listed").items
}

async fn counts(store: &Arc<dyn Store>, of: Option<&str>) -> ParcelCounts {
    let of = of.map(tenant);
    store.outbox().parcel_counts(of.as_ref()).await.expect("they are counted")
}

/// What is kept comes back byte for byte, once however often it is put, and is gone when it is delivered.
pub async fn a_webhook_is_kept_until_it_is_delivered(store: Arc<dyn Store>) {
    put(&store, "acme", "msg_1").await;
    let other_words = Parcel { body: Bytes::from_static(b"other words"), ..parcel("acme", "msg_1") };
    store.outbox().put(other_words).await.expect("it is there already");
    assert_eq!(counts(&store, None).await.queued, 1);
    let claimed = claim(&store, 0).await.expect("it is due");
    assert_eq!((&claimed.parcel, claimed.attempts), (&parcel("acme", "msg_1"), 1));
    assert_eq!(store.outbox().delivered(&claimed).await.expect("it is noted"), Finished::Done);
    assert_eq!(store.outbox().delivered(&claimed).await.expect("it is noted"), Finished::Lost);
    assert_eq!((claim(&store, 999).await, counts(&store, None).await), (None, ParcelCounts::default()));
}

/// One webhook is in one hand; when its lease has lapsed another may take it, and the first has no say any more.
pub async fn a_webhook_is_in_one_hand(store: Arc<dyn Store>) {
    put(&store, "acme", "msg_1").await;
    let first = claim(&store, 0).await.expect("it is due");
    assert_eq!(claim(&store, 0).await, None);
    let second = claim(&store, 2).await.expect("the lease has lapsed");
    assert_eq!((second.attempts, second.parcel == first.parcel), (2, true));
    assert_eq!(store.outbox().delivered(&first).await.expect("answered"), Finished::Lost);
    assert_eq!(fail(&store, &first, None).await, Finished::Lost);
    assert_eq!(store.outbox().return_parcel(&first).await.expect("answered"), Finished::Lost);
    assert_eq!(store.outbox().return_parcel(&second).await.expect("answered"), Finished::Done);
    assert_eq!(claim(&store, 2).await.expect("it is back").attempts, 2);
    assert_eq!(store.outbox().release_parcels().await.expect("answered"), 1);
    assert_eq!(claim(&store, 2).await.expect("it is free").attempts, 3);
}

/// What failed waits for its next try; what failed for the last time is seen with its reason, and can be tried again.
pub async fn a_failing_webhook_waits_and_dies(store: Arc<dyn Store>) {
    put(&store, "acme", "msg_1").await;
    let first = claim(&store, 0).await.expect("it is due");
    assert_eq!(fail(&store, &first, Some(5)).await, Finished::Done);
    assert_eq!(claim(&store, 4).await, None);
    let waiting = counts(&store, Some("acme")).await;
    assert_eq!((waiting.queued, waiting.failing, waiting.dead), (1, 1, 0));
    let second = claim(&store, 5).await.expect("its time has come");
    assert_eq!(second.attempts, 2);
    fail(&store, &second, None).await;
    assert_eq!(claim(&store, 999).await, None);
    let [dead] = &list(&store, "acme").await[..] else { panic!("one is listed") };
    assert_eq!(
        (dead.state.as_str(), dead.attempts, dead.last_error.as_deref()),
        ("dead", 2, Some("it answered with 500"))
    );
    assert_eq!(store.outbox().retry_parcels(&tenant("acme"), Some("msg_2")).await.expect("answered"), 0);
    assert_eq!(store.outbox().retry_parcels(&tenant("acme"), None).await.expect("answered"), 1);
    assert_eq!(claim(&store, 5).await.expect("it is due again").attempts, 1);
}

/// One that takes its process with it each time is given up.
pub async fn a_webhook_whose_leases_lapse_dies(store: Arc<dyn Store>) {
    put(&store, "acme", "msg_1").await;
    for n in 0..i64::from(ATTEMPTS_MAX) {
        claim(&store, 2 * n).await.expect("it is due");
    }
    assert_eq!(claim(&store, 999).await, None);
    let found = counts(&store, None).await;
    assert!(found.dead == 1 && found.last_error.is_some_and(|why| why.contains("stopped")));
}

/// Tenants that are busy are passed over, and nobody sees or touches another's.
pub async fn webhooks_belong_to_their_tenant(store: Arc<dyn Store>) {
    put(&store, "acme", "msg_1").await;
    put(&store, "acme", "msg_2").await;
    put(&store, "globex", "msg_3").await;
    let id = |claim: Option<ParcelClaim>| claim.map(|claim| claim.parcel.id);
    assert_eq!(id(claim_but(&store, 0, &["acme"]).await).as_deref(), Some("msg_3"));
    assert_eq!(claim_but(&store, 0, &["acme", "globex"]).await, None);
    assert_eq!(id(claim(&store, 0).await).as_deref(), Some("msg_1"));
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let ids: Vec<String> = list(&store, "globex").await.into_iter().map(|posted| posted.id).collect();
    assert_eq!(ids, ["msg_3"]);
    assert!(store.outbox().parcel(&globex, "msg_1").await.expect("looked").is_none());
    assert!(!store.outbox().drop_parcel(&globex, "msg_2").await.expect("answered"));
    assert!(store.outbox().drop_parcel(&acme, "msg_2").await.expect("answered"));
    let (posted, body) = store.outbox().parcel(&acme, "msg_1").await.expect("looked").expect("it is there");
    assert_eq!((posted.state.as_str(), &body), ("running", &parcel("acme", "msg_1").body));
    assert_eq!(posted.bytes, body.len() as u64);
    assert_eq!((counts(&store, Some("acme")).await.queued, counts(&store, None).await.queued), (1, 2));
}

/// What was given up is bounded in number and in time.
pub async fn dead_webhooks_are_bounded(store: Arc<dyn Store>) {
    for n in 0..OUTBOX_DEAD_MAX + 2 {
        put(&store, "acme", &format!("msg_{n}")).await;
        let claimed = claim(&store, 0).await.expect("it is due");
        fail(&store, &claimed, None).await;
    }
    put(&store, "acme", "msg_waiting").await;
    let listed = list(&store, "acme").await;
    assert_eq!((listed.len(), listed[0].id.as_str()), (OUTBOX_DEAD_MAX + 1, "msg_2"));
    assert_eq!(store.outbox().forget_dead_parcels(at(0)).await.expect("answered"), 0);
    assert_eq!(store.outbox().forget_dead_parcels(at(1)).await.expect("answered"), OUTBOX_DEAD_MAX as u64);
    assert_eq!(list(&store, "acme").await.len(), 1);
}

/// What waits is bounded for each tenant; what comes beyond that is seen as given up.
pub async fn waiting_webhooks_are_bounded(store: Arc<dyn Store>) {
    let many = (0..OUTBOX_WAITING_MAX + 1).map(|n| store.outbox().put(parcel("acme", &format!("msg_{n}"))));
    for kept in futures_util::future::join_all(many).await {
        kept.expect("it is kept");
    }
    put(&store, "globex", "msg_x").await;
    let [acme, globex] = [counts(&store, Some("acme")).await, counts(&store, Some("globex")).await];
    assert_eq!((acme.queued, acme.dead, globex.queued), (OUTBOX_WAITING_MAX as u64, 1, 1));
    assert!(acme.last_error.is_some_and(|why| why.contains("too many")));
}

/// A session that a person removes takes what is yet to be told of it along, and nobody else's.
pub async fn a_deleted_session_takes_its_webhooks_along(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("how?", "so").await;
    let about = |of: &Talk, id: &str| Parcel {
        user: Some(of.scope.user().clone()),
        session: of.session.to_string(),
        ..parcel(of.scope.tenant().as_str(), id)
    };
    let bob = talk.of("acme", "bob");
    for parcel in [about(&talk, "msg_1"), about(&bob, "msg_2"), about(&talk.another(), "msg_3")] {
        store.outbox().put(parcel).await.expect("it is kept");
    }
    talk.delete().await;
    let ids: Vec<String> = list(&store, "acme").await.into_iter().map(|posted| posted.id).collect();
    assert_eq!(ids, ["msg_2", "msg_3"]);
    store.erasures().erase(Erasure::Tenant(tenant("acme"))).await.expect("erased");
    assert_eq!(counts(&store, None).await, ParcelCounts::default());
}

/// Whoever waits for webhooks is told of new ones.
pub async fn new_webhooks_are_told(store: Arc<dyn Store>) {
    let news = store.outbox().parcel_news();
    put(&store, "acme", "msg_1").await;
    tokio::time::timeout(Duration::from_secs(10), news.notified()).await.expect("told");
}
