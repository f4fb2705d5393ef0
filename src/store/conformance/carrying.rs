//! What is known of users, and what tenants know, as records: they arrive as they were, once, and nothing that was erased comes along.

use std::sync::Arc;

use super::Talk;
use super::facts::{understand, undone};
use super::knowledge::{document, keep_one};
use super::talk::at;
use crate::fact::Act;
use crate::id::{Ids, RandomIds};
use crate::scope::{Scope, Tenant, TenantScope};
use crate::store::{DocumentArrival, Erasure, FactsFrom, KnowledgeBounds, PageRequest, Store, Undo};
use crate::takeout::{DocumentRecord, FactRecord};

async fn known(store: &Arc<dyn Store>, scope: &Scope, limit: usize) -> Vec<FactRecord> {
    let (mut all, mut from) = (Vec::new(), Some(FactsFrom::START));
    while let Some(next) = from {
        let part = store.takeout().fact_records(scope, next, None, limit).await.expect("they are read");
        all.extend(part.records);
        from = part.next;
    }
    all
}

async fn take_in(store: &Arc<dyn Store>, scope: &Scope, records: &[FactRecord], dry: bool) -> u64 {
    store.takeout().take_in_facts(scope, records.to_vec(), dry).await.expect("they are taken in")
}

/// Somebody of whom much is known: said again, corrected, taken back, undone, with an end, several of a kind, written by hand.
async fn lived(store: &Arc<dyn Store>) -> Talk {
    let talk = Talk::new(store);
    talk.state(10, "location = Lisbon; name = Ann; pet/rex = a dog").await;
    talk.state(20, "location = lisbon; pet/tom = a cat").await;
    talk.state(30, "location := Porto; job = baker until 40").await;
    let wrong = talk.state(40, "name = Bob").await;
    undone(talk.undo_it(Undo::Message(wrong.message(0))).await);
    talk.note("language", "Portuguese", Act::State, 50).await;
    talk.state(60, "pet/tom ! a cat").await;
    let lifted = undone(talk.undo_it(Undo::Fact(talk.fact("Portuguese").await.id)).await);
    undone(talk.undo_it(Undo::Undo(lifted)).await);
    talk
}

/// Somebody else who is given all of it knows the same, since when and why.
pub async fn what_is_known_arrives_as_it_was(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let (ben, before) = (talk.of("acme", "ben"), known(&store, &talk.scope, 100).await);
    assert_eq!(known(&store, &talk.scope, 1).await, before, "whatever is read at once");
    let names = before.iter().filter(|record| matches!(record, FactRecord::Known(_))).count() as u64;
    assert!(names == 5 && before.len() as u64 == names + 2, "{before:?}");
    assert_eq!(take_in(&store, &ben.scope, &before, true).await, names + 2, "what would be new");
    assert_eq!(known(&store, &ben.scope, 100).await, Vec::new());
    assert_eq!(take_in(&store, &ben.scope, &before, false).await, names);
    assert_eq!(known(&store, &ben.scope, 100).await, before);
    assert_eq!(ben.active().await, talk.active().await);
    assert_eq!(ben.facts(None, Some(at(25))).await.len(), talk.facts(None, Some(at(25))).await.len(), "as of then");
    assert_eq!(take_in(&store, &ben.scope, &before, false).await, 0, "twice is once");
    assert_eq!(known(&store, &ben.scope, 100).await, before);
    // What is said afterwards joins what arrived.
    ben.state(70, "location = Porto").await;
    assert!(ben.active().await.contains(&"location: Porto ×2".to_owned()), "{:?}", ben.active().await);
    assert_eq!(known(&store, &talk.scope, 100).await, before, "nothing happened to the other");
}

/// What was erased stays so: here, and wherever it is taken to.
pub async fn what_was_erased_does_not_arrive(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon; name = Ann").await;
    let old = known(&store, &talk.scope, 100).await;
    let fact = talk.fact("Lisbon").await.id;
    store.erasures().erase(Erasure::Fact(talk.scope.clone(), fact)).await.expect("it is erased");
    let now = known(&store, &talk.scope, 100).await;
    assert!(!format!("{now:?}").contains("Lisbon"), "{now:?}");
    assert!(now.iter().any(|record| matches!(record, FactRecord::Unsaid(_))), "that it is gone is known: {now:?}");
    take_in(&store, &talk.scope, &old, false).await;
    assert!(
        !format!("{:?}", known(&store, &talk.scope, 100).await).contains("Lisbon"),
        "an older file brings nothing back"
    );
    let ben = talk.of("acme", "ben");
    take_in(&store, &ben.scope, &now, false).await;
    take_in(&store, &ben.scope, &old, false).await;
    understand(&store).await;
    assert!(!format!("{:?}", known(&store, &ben.scope, 100).await).contains("Lisbon"), "nor elsewhere");
}

fn tenant(name: &str) -> TenantScope {
    TenantScope::new(Tenant::parse(name).expect("a name"))
}

/// A document arrives with its file, its passages, its version and its dates; by its own id where that is free.
pub async fn a_document_arrives_as_it_was(store: Arc<dyn Store>) {
    let (acme, other) = (tenant("acme"), tenant("other"));
    keep_one(&store, &acme, document("lamps.md", &["old"])).await;
    let kept = keep_one(&store, &acme, document("lamps.md", &["They shine.", "They are red."])).await;
    assert_eq!(kept.version, 2);
    let read = async |whose: &TenantScope, id| {
        let (document, original) = store.knowledge().original(whose, id).await.expect("read").expect("there");
        let passages =
            store.knowledge().passages(whose, id, PageRequest::first(9)).await.expect("read").expect("there");
        DocumentRecord { document, original, passages: passages.items }
    };
    let record = read(&acme, kept.id).await;
    let else_id = RandomIds.document();
    let arrival = DocumentArrival { record: record.clone(), else_id, most: KnowledgeBounds::default() };
    let take_in = async |whose: &TenantScope, dry| {
        store.takeout().take_in_document(whose, arrival.clone(), dry).await.expect("taken in")
    };
    assert!(!take_in(&acme, false).await, "it is here");
    assert!(take_in(&other, true).await && take_in(&other, false).await && !take_in(&other, false).await);
    let listed = store.knowledge().documents(&other, PageRequest::first(9)).await.expect("listed").items;
    assert_eq!(listed.len(), 1);
    let mut arrived = read(&other, listed[0].id).await;
    assert!([kept.id, else_id].contains(&arrived.document.id));
    arrived.document.id = kept.id;
    assert_eq!(arrived, record);
    let small = DocumentArrival { most: KnowledgeBounds { documents: 0, passages: 9 }, ..arrival.clone() };
    store.takeout().take_in_document(&tenant("third"), small, false).await.expect_err("it may have none");
}
