//! What tenants know: documents, their originals and passages.

use std::sync::Arc;

use crate::id::{DocumentId, Ids, RandomIds};
use crate::knowledge::{Document, Kind, Passage};
use crate::scope::{Tenant, TenantScope};
use crate::store::{Erasure, KnowledgeBounds, NewDocument, PageRequest, Store, StoreError};

fn tenant(name: &str) -> TenantScope {
    TenantScope::new(Tenant::parse(name).expect("a name"))
}

fn acme() -> TenantScope {
    tenant("acme")
}

fn passage(number: u32, text: &str) -> Passage {
    let (heading, place) = ("Lamps › Red".to_owned(), format!("page {number}"));
    Passage { number, heading, place, text: text.to_owned(), tokens: 3 }
}

pub(super) fn document(name: &str, texts: &[&str]) -> NewDocument {
    NewDocument {
        id: RandomIds.document(),
        name: name.to_owned(),
        title: format!("About {name}"),
        kind: Kind::Markdown,
        original: texts.join("|").into_bytes(),
        passages: (1..).zip(texts).map(|(number, text)| passage(number, text)).collect(),
        vectors: None,
    }
}

async fn keep(
    store: &Arc<dyn Store>,
    whose: &TenantScope,
    documents: Vec<NewDocument>,
) -> Result<Vec<Document>, StoreError> {
    store.knowledge().keep(whose, documents, KnowledgeBounds::default()).await
}

pub(super) async fn keep_one(store: &Arc<dyn Store>, whose: &TenantScope, new: NewDocument) -> Document {
    keep(store, whose, vec![new]).await.expect("it is kept").remove(0)
}

async fn version(store: &Arc<dyn Store>, whose: &TenantScope) -> u64 {
    store.knowledge().version(whose).await.expect("a version")
}

async fn texts(store: &Arc<dyn Store>, whose: &TenantScope, id: DocumentId) -> Option<Vec<String>> {
    let page = store.knowledge().passages(whose, id, PageRequest::first(100)).await.expect("they are read");
    page.map(|page| page.items.into_iter().map(|passage| passage.text).collect())
}

/// A document, its file and its passages come back as they were kept.
pub async fn a_document_comes_back_as_it_was(store: Arc<dyn Store>) {
    let new = document("lamps.md", &["They shine.", "They are red."]);
    let kept = keep_one(&store, &acme(), new.clone()).await;
    assert_eq!((kept.id, kept.name.as_str(), kept.title.as_str()), (new.id, "lamps.md", "About lamps.md"));
    assert_eq!((kept.kind, kept.version, kept.passages, kept.embedded), (Kind::Markdown, 1, 2, 0));
    assert_eq!((kept.bytes, kept.created_at), (new.original.len() as u64, kept.updated_at));
    let found = store.knowledge().document(&acme(), new.id).await.expect("read");
    assert_eq!(found.as_ref(), Some(&kept));
    let original = store.knowledge().original(&acme(), new.id).await.expect("read");
    assert_eq!(original, Some((kept.clone(), new.original)));
    let held = store.knowledge().held_document(&acme(), new.id, "e").await.expect("read").expect("there");
    let passages: Vec<Passage> = held.passages.into_iter().map(|(passage, _)| passage).collect();
    assert_eq!((held.document, passages), (kept, new.passages.clone()));
    let wanted = [(new.id, 2), (new.id, 9), (RandomIds.document(), 1)];
    let some = store.knowledge().passages_by_number(&acme(), &wanted).await.expect("read");
    assert_eq!(some, [(new.id, 1, new.passages[1].clone())]);
}

/// Another document of the name takes its place; nothing of the one before is left.
pub async fn the_same_name_is_a_new_version(store: Arc<dyn Store>) {
    let first = keep_one(&store, &acme(), document("a", &["one", "two", "three"])).await;
    let second = keep_one(&store, &acme(), document("a", &["four"])).await;
    assert_eq!((second.id, second.version, second.passages), (first.id, 2, 1));
    assert_eq!(second.created_at, first.created_at);
    assert_eq!(texts(&store, &acme(), first.id).await, Some(vec!["four".to_owned()]));
    let (_, original) = store.knowledge().original(&acme(), first.id).await.expect("read").expect("there");
    assert_eq!(original, b"four");
}

/// A client may send a file again, not knowing that it is there.
pub async fn the_same_file_again_changes_nothing(store: Arc<dyn Store>) {
    let first = keep_one(&store, &acme(), document("a", &["one"])).await;
    let again = keep_one(&store, &acme(), document("a", &["one"])).await;
    assert_eq!(again, first);
    let renamed = NewDocument { title: "Another title".into(), ..document("a", &["one"]) };
    assert_eq!(keep_one(&store, &acme(), renamed).await.title, "Another title");
    let other = keep_one(&store, &acme(), document("b", &["one"])).await;
    assert!(other.id != first.id && other.version == 1);
}

/// Several documents come at once, and one that cannot be kept spoils them all; so does one that is too many.
pub async fn all_are_kept_or_none(store: Arc<dyn Store>) {
    let bad = NewDocument { name: String::new(), ..document("", &["two"]) };
    assert!(keep(&store, &acme(), vec![document("a", &["one"]), bad]).await.is_err());
    let most = KnowledgeBounds { documents: 1, passages: 3 };
    let two = vec![document("a", &["one"]), document("b", &["two"])];
    assert!(matches!(store.knowledge().keep(&acme(), two, most).await, Err(StoreError::Refused(_))));
    let long = vec![document("a", &["1", "2", "3", "4"])];
    assert!(matches!(store.knowledge().keep(&acme(), long, most).await, Err(StoreError::Refused(_))));
    let listed = store.knowledge().documents(&acme(), PageRequest::first(10)).await.expect("listed");
    assert_eq!((listed.items.len(), version(&store, &acme()).await), (0, 0), "nothing is left of them");
    assert_eq!(keep(&store, &acme(), vec![document("a", &["1"]), document("b", &["2"])]).await.expect("kept").len(), 2);
}

/// Lists go on where they stopped.
pub async fn documents_and_passages_are_listed_in_pages(store: Arc<dyn Store>) {
    for name in ["a", "b", "c"] {
        keep_one(&store, &acme(), document(name, &["one", "two", "three"])).await;
    }
    let first = store.knowledge().documents(&acme(), PageRequest::first(2)).await.expect("listed");
    let rest = PageRequest { after: first.next, ..PageRequest::first(2) };
    let rest = store.knowledge().documents(&acme(), rest).await.expect("listed");
    let names: Vec<String> = first.items.iter().chain(&rest.items).map(|document| document.name.clone()).collect();
    assert_eq!((names, rest.next), (vec!["a".to_owned(), "b".into(), "c".into()], None));
    let id = first.items[0].id;
    let first = store.knowledge().passages(&acme(), id, PageRequest::first(2)).await.expect("read").expect("there");
    let rest = PageRequest { after: first.next, ..PageRequest::first(2) };
    let rest = store.knowledge().passages(&acme(), id, rest).await.expect("read").expect("there");
    assert_eq!((first.items.len(), rest.items.len(), rest.next), (2, 1, None));
}

/// Whoever holds knowledge in memory learns of every change by the version, and of what changed by the marks.
pub async fn every_change_of_knowledge_is_told(store: Arc<dyn Store>) {
    assert_eq!(version(&store, &acme()).await, 0);
    let a = keep_one(&store, &acme(), document("a", &["one"])).await;
    let first = store.knowledge().outline(&acme()).await.expect("an outline");
    assert_eq!((first.version, first.documents.len()), (version(&store, &acme()).await, 1));
    let b = keep_one(&store, &acme(), document("b", &["two"])).await;
    let second = store.knowledge().outline(&acme()).await.expect("an outline");
    assert!(second.version > first.version);
    assert_eq!((second.documents[0], second.documents[1].0), (first.documents[0], b.id), "the first is as it was");
    keep_one(&store, &acme(), document("a", &["three"])).await;
    let third = store.knowledge().outline(&acme()).await.expect("an outline");
    assert!(third.documents[0].1 > second.documents[0].1 && third.documents[1] == second.documents[1]);
    assert!(store.knowledge().remove(&acme(), a.id).await.expect("removed"));
    assert!(version(&store, &acme()).await > third.version);
    assert!(!store.knowledge().remove(&acme(), a.id).await.expect("answered"), "once");
    assert_eq!(texts(&store, &acme(), a.id).await, None);
}

/// A vector of another embedder is worth nothing, and is made anew; what changed meanwhile is left alone.
pub async fn vectors_belong_to_their_embedder(store: Arc<dyn Store>) {
    let vectors = Some(("old".to_owned(), vec![vec![1.0, 0.5], vec![0.25, 0.0]]));
    let kept = keep_one(&store, &acme(), NewDocument { vectors, ..document("a", &["one", "two"]) }).await;
    assert_eq!(kept.embedded, 2);
    let held = async |embedder: &str| {
        let held = store.knowledge().held_document(&acme(), kept.id, embedder).await.expect("read").expect("there");
        held.passages.into_iter().map(|(_, vector)| vector).collect::<Vec<_>>()
    };
    assert_eq!(held("old").await, [Some(vec![1.0, 0.5]), Some(vec![0.25, 0.0])]);
    assert_eq!(held("new").await, [None, None]);
    assert_eq!(store.knowledge().to_embed("old", 9).await.expect("read").len(), 0);
    let due = store.knowledge().to_embed("new", 9).await.expect("read");
    assert_eq!((due.len(), due[0].tenant.clone()), (2, acme()));
    assert!(due[0].text.contains("About a") && due[0].text.contains("one"), "{}", due[0].text);
    let before = version(&store, &acme()).await;
    let made: Vec<_> = due.into_iter().map(|due| (due, vec![0.0, 1.0])).collect();
    store.knowledge().keep_vectors("new", made.clone()).await.expect("kept");
    assert_eq!(held("new").await, [Some(vec![0.0, 1.0]), Some(vec![0.0, 1.0])]);
    assert!(version(&store, &acme()).await > before);
    keep_one(&store, &acme(), document("a", &["three", "four"])).await;
    store.knowledge().keep_vectors("new", made).await.expect("kept");
    assert_eq!(held("new").await, [None, None], "it says something else by now");
}

/// Ids of another tenant's documents are as good as unknown.
pub async fn one_tenant_never_sees_anothers_knowledge(store: Arc<dyn Store>) {
    let kept = keep_one(&store, &acme(), document("a", &["one"])).await;
    let other = tenant("globex");
    let knowledge = store.knowledge();
    assert_eq!(knowledge.document(&other, kept.id).await.expect("read"), None);
    assert_eq!(knowledge.original(&other, kept.id).await.expect("read"), None);
    assert_eq!(knowledge.held_document(&other, kept.id, "e").await.expect("read"), None);
    assert_eq!(knowledge.passages_by_number(&other, &[(kept.id, 1)]).await.expect("read"), []);
    assert_eq!(knowledge.documents(&other, PageRequest::first(9)).await.expect("read").items, []);
    assert!(!knowledge.remove(&other, kept.id).await.expect("answered"));
    assert_eq!((texts(&store, &other, kept.id).await, version(&store, &other).await), (None, 0));
    let same_name = keep_one(&store, &other, document("a", &["theirs"])).await;
    assert!(same_name.id != kept.id && same_name.version == 1);
    assert_eq!(texts(&store, &acme(), kept.id).await, Some(vec!["one".to_owned()]));
}

/// What a tenant knows counts for its bytes, and goes with it.
pub async fn an_erased_tenant_knows_nothing(store: Arc<dyn Store>) {
    let kept = keep_one(&store, &acme(), document("a", &["one"])).await;
    keep_one(&store, &tenant("globex"), document("b", &["two"])).await;
    let usage = store.tenants().usage(acme().tenant(), true).await.expect("counted");
    assert!(usage.bytes >= kept.bytes, "{usage:?}");
    store.erasures().erase(Erasure::Tenant(acme().tenant().clone())).await.expect("erased");
    assert_eq!((texts(&store, &acme(), kept.id).await, version(&store, &acme()).await), (None, 0));
    let due = store.knowledge().to_embed("e", 9).await.expect("read");
    assert_eq!(due.iter().map(|due| due.tenant.clone()).collect::<Vec<_>>(), [tenant("globex")]);
}
