//! Sessions are made, found, listed, changed and deleted, each by its owner alone.

use std::sync::Arc;

use serde_json::json;

use super::Talk;
use super::talk::object;
use crate::period::{Period, Ttl};
use crate::session::{SessionKind, SessionPatch, SessionSeed, TurnStatus};
use crate::store::{PageRequest, Stats, Store};

/// A session is found with everything it was made with.
pub async fn a_new_session_is_found(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let seed = SessionSeed {
        metadata: object(json!({"created_via": "api", "nested": {"ä": [1, null]}})),
        ttl: Some(Ttl::of(Period::hours(24))),
        ..SessionSeed::default()
    };
    let made = talk.create(seed.clone()).await;
    assert_eq!(Some(&made), talk.find().await.as_ref());
    assert_eq!((made.id, made.kind, made.turns), (talk.session, SessionKind::Durable, 0));
    assert_eq!((made.metadata, made.ttl), (seed.metadata, seed.ttl));
    assert_eq!((made.updated_at, made.last_accessed), (made.created_at, made.created_at));
}

/// A session that exists is answered as it is.
pub async fn creating_twice_keeps_the_first(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let first =
        talk.create(SessionSeed { metadata: object(json!({"n": 1})), ttl: None, ..SessionSeed::default() }).await;
    let again = talk
        .create(SessionSeed { metadata: object(json!({"n": 2})), ttl: Some(Ttl::NEVER), ..SessionSeed::default() })
        .await;
    assert_eq!((again.metadata, again.ttl, again.created_at), (first.metadata, None, first.created_at));
}

/// What nobody made is not there, and looking does not make it.
pub async fn an_unknown_session_is_none(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    assert_unknown(&talk).await;
    assert_unknown(&talk).await;
}

/// Somebody else's session answers like one that does not exist, and stays as it is.
pub async fn a_foreign_session_is_as_good_as_unknown(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("mine", "yours").await;
    for stranger in [talk.of("acme", "bob"), talk.of("other", "ann")] {
        assert_unknown(&stranger).await;
    }
    assert_eq!(talk.last(10).await, ["mine"]);
    assert_eq!(talk.find().await.map(|session| session.metadata), Some(object(json!({}))));
}

async fn assert_unknown(talk: &Talk) {
    let patch = SessionPatch { metadata: object(json!({"stolen": true})), ttl: Some(Ttl::NEVER) };
    assert_eq!(talk.find().await, None);
    assert_eq!(talk.update(patch).await, None);
    assert_eq!(talk.delete().await, None);
    assert_eq!(talk.store.turns(&talk.scope, talk.session, PageRequest::first(9)).await.expect("an answer"), None);
    let recent = talk.store.last_turns(&talk.scope, talk.session, 9).await.expect("an answer");
    assert!(recent.session.is_none() && recent.turns.is_empty() && recent.damaged.is_empty());
    let listed = talk.store.sessions(&talk.scope, PageRequest::first(9)).await.expect("a list");
    assert!(listed.items.is_empty());
}

/// Two users may use the same id; each has a session of their own.
pub async fn one_id_names_two_sessions_of_two_users(store: Arc<dyn Store>) {
    let anns = Talk::new(&store);
    let (bobs, others) = (anns.of("acme", "bob"), anns.of("other", "ann"));
    for (talk, question) in [(&anns, "ann 1"), (&bobs, "bob 1"), (&others, "other 1"), (&anns, "ann 2")] {
        talk.exchange(question, "yes").await;
    }
    assert_eq!(anns.last(10).await, ["ann 1", "ann 2"]);
    assert_eq!((bobs.last(10).await, bobs.numbers().await), (vec!["bob 1".to_owned()], vec![1]));
    assert_eq!(anns.delete().await, Some(2));
    assert_eq!(bobs.last(10).await, ["bob 1"]);
    assert_eq!(others.last(10).await, ["other 1"]);
}

/// Pages follow one another without a gap, oldest first, and end.
pub async fn sessions_are_listed_in_pages_oldest_first(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(talk.another().create(SessionSeed::default()).await.id);
        Talk::new(&store).of("acme", "bob").create(SessionSeed::default()).await;
    }
    let (mut seen, mut page) = (Vec::new(), PageRequest::first(3));
    loop {
        let found = store.sessions(&talk.scope, page).await.expect("a list");
        assert!(found.items.len() <= 3);
        seen.extend(found.items.into_iter().map(|session| session.id));
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    assert_eq!(seen, made);
    for after in [u64::MAX, i64::MAX as u64] {
        let beyond = PageRequest { limit: usize::MAX, after: Some(after), superseded: false };
        let beyond = store.sessions(&talk.scope, beyond).await.expect("a list");
        assert!(beyond.items.is_empty() && beyond.next.is_none());
    }
}

/// A cursor stays good when the sessions around it go and new ones come.
pub async fn a_page_goes_on_after_deletions(store: Arc<dyn Store>) {
    let talks: Vec<Talk> = (0..4).map(|_| Talk::new(&store)).collect();
    for talk in &talks {
        talk.create(SessionSeed::default()).await;
    }
    let first = store.sessions(&talks[0].scope, PageRequest::first(2)).await.expect("a list");
    for talk in &talks[1..] {
        talk.delete().await;
    }
    let newcomer = Talk::new(&store).create(SessionSeed::default()).await;
    let rest = store
        .sessions(&talks[0].scope, PageRequest { limit: 2, after: first.next, superseded: false })
        .await
        .expect("a list");
    assert_eq!(rest.items, [newcomer]);
}

/// A patch sets its keys, `null` removes one, the others keep their place.
pub async fn metadata_is_merged_and_null_removes(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let made = talk
        .create(SessionSeed {
            metadata: object(json!({"a": 1, "b": 2, "c": 3, "d": 4})),
            ttl: None,
            ..SessionSeed::default()
        })
        .await;
    let patch = SessionPatch { metadata: object(json!({"a": null, "b": {"x": 1}, "z": 5, "none": null})), ttl: None };
    let updated = talk.update(patch).await.expect("the session is there");
    let text = serde_json::to_string(&updated.metadata).expect("metadata is JSON");
    assert_eq!(text, r#"{"b":{"x":1},"c":3,"d":4,"z":5}"#);
    assert!(updated.updated_at > made.updated_at && updated.created_at == made.created_at);
    assert_eq!(talk.find().await, Some(updated));
}

/// Deleting answers how many turns went, whatever their state.
pub async fn deleting_counts_the_turns(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("complete", "yes").await;
    let failed = talk.ask("failed").await;
    talk.end(failed, TurnStatus::Failed, "").await;
    talk.ask("pending").await;
    assert_eq!(talk.delete().await, Some(3));
    assert_unknown(&talk).await;
    let empty = talk.another();
    empty.create(SessionSeed::default()).await;
    assert_eq!(empty.delete().await, Some(0));
}

/// A session that was deleted and is used again is a new one.
pub async fn a_deleted_session_begins_anew(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.create(SessionSeed { metadata: object(json!({"old": true})), ttl: None, ..SessionSeed::default() }).await;
    talk.exchange("old", "yes").await;
    talk.delete().await;
    talk.exchange("new", "yes").await;
    assert_eq!((talk.last(10).await, talk.numbers().await), (vec!["new".to_owned()], vec![1]));
    assert_eq!(talk.find().await.map(|session| session.metadata), Some(object(json!({}))));
}

/// Stats count one user's sessions and turns, and nobody else's.
pub async fn stats_count_what_one_user_has(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let nothing = store.stats(&talk.scope).await.expect("stats");
    assert_eq!(Stats { bytes: 0, ..nothing }, Stats::default());
    talk.exchange("one", "yes").await;
    talk.ask("two").await;
    talk.another().create(SessionSeed::default()).await;
    talk.of("acme", "bob").ask("not mine").await;
    let some = store.stats(&talk.scope).await.expect("stats");
    assert_eq!((some.sessions, some.turns), (2, 2));
    assert!(some.bytes > 0);
}
