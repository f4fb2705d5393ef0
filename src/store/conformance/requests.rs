//! Requests with an `Idempotency-Key`: each is done once.

use std::sync::Arc;

use futures_util::future::join_all;
use jiff::SignedDuration;

use super::Talk;
use super::talk::{draft, expire};
use crate::period::Ttl;
use crate::session::{OpenTurn, Placement, RequestMark, SessionSeed, TurnDraft};
use crate::store::{DoneRequest, Erasure, Made, MadeImport, OnceWrite, OnceWritten, REQUESTS_MAX, Store, StoreError};

fn mark(key: usize, content: u8) -> RequestMark {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    RequestMark { key: bytes, content: [content; 32] }
}

async fn done(talk: &Talk, request: RequestMark) -> Option<DoneRequest> {
    talk.store.requests().done_request(&talk.scope, request.key).await.expect("it is looked up")
}

async fn add(talk: &Talk, request: RequestMark, turn: TurnDraft) -> Result<OnceWritten, StoreError> {
    talk.store.requests().write_once(&talk.scope, request, OnceWrite::Turns(talk.session, vec![turn])).await
}

async fn note(talk: &Talk, request: RequestMark) -> Result<OnceWritten, StoreError> {
    let made = Made::Import(Box::new(MadeImport { counts: vec![1], ..MadeImport::default() }));
    talk.store.requests().write_once(&talk.scope, request, OnceWrite::Noted(made)).await
}

/// A write is noted with what it made; with the same key nothing more is written, for that user.
pub async fn a_request_is_done_once(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.create(SessionSeed::default()).await;
    assert_eq!(done(&talk, mark(1, 1)).await, None);
    let turn = draft("when?", "in May");
    let made = Made::Turns(vec![turn.id]);
    let written = add(&talk, mark(1, 1), turn).await.expect("it is written");
    assert!(matches!(written, OnceWritten::Turns(turns) if turns.len() == 1));
    assert_eq!(done(&talk, mark(1, 1)).await, Some(DoneRequest { content: [1; 32], made, waits: false }));
    for request in [mark(1, 1), mark(1, 2)] {
        let again = add(&talk, request, draft("when?", "in May")).await;
        assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
    }
    assert_eq!(talk.numbers().await, [1]);
    for other in [talk.of("acme", "bob"), talk.of("else", "ann")] {
        assert_eq!(done(&other, mark(1, 1)).await, None);
    }
    add(&talk, mark(2, 1), draft("where?", "here")).await.expect("another key is another request");
    assert_eq!(talk.numbers().await, [1, 2]);
}

/// What could not be written is not noted.
pub async fn a_failed_request_may_come_again(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let nowhere = add(&talk, mark(1, 1), draft("when?", "in May")).await;
    assert!(matches!(nowhere, Err(StoreError::UnknownSession(_))), "{nowhere:?}");
    assert_eq!(done(&talk, mark(1, 1)).await, None);
    talk.create(SessionSeed::default()).await;
    add(&talk, mark(1, 1), draft("when?", "in May")).await.expect("it is written");
}

fn asking(talk: &Talk, text: &str, request: RequestMark) -> OpenTurn {
    OpenTurn { place: Placement { request: Some(request), ..Placement::default() }, ..talk.question(text) }
}

/// A question is noted with its request; the same turn may be opened again, and another with that key may not.
pub async fn a_question_is_opened_once(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let first = asking(&talk, "when?", mark(1, 1));
    talk.open(first.clone()).await;
    talk.open(first.clone()).await;
    assert_eq!(done(&talk, mark(1, 1)).await.map(|done| done.made), Some(Made::Turn(talk.session, first.id)));
    for elsewhere in [&talk, &talk.another()] {
        let again = elsewhere.try_open(asking(elsewhere, "when?", mark(1, 1))).await;
        assert!(matches!(again, Err(StoreError::Repeated)), "{again:?}");
    }
    assert_eq!(talk.numbers().await, [1]);
}

/// Many that come at once are one.
pub async fn a_request_of_many_is_done_once(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.create(SessionSeed::default()).await;
    let ask = |n: usize| {
        let talk = talk.clone();
        tokio::spawn(async move { add(&talk, mark(1, 1), draft(&format!("when {n}?"), "in May")).await.is_ok() })
    };
    let asked: Vec<_> = (0..8).map(ask).collect();
    let mut written = 0;
    for one in asked {
        written += usize::from(one.await.expect("it ends"));
    }
    assert_eq!((written, talk.numbers().await), (1, vec![1]));
}

/// After a day the clean-up removes them.
pub async fn requests_go_after_a_day(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    note(&talk, mark(1, 1)).await.expect("it is noted");
    let now = talk.open(talk.question("what time is it?")).await.created_at;
    let clean_up = async |hours| expire(&store, now + SignedDuration::from_hours(hours), Ttl::NEVER, 10).await;
    clean_up(23).await;
    assert!(done(&talk, mark(1, 1)).await.is_some());
    clean_up(25).await;
    assert_eq!(done(&talk, mark(1, 1)).await, None);
    note(&talk, mark(1, 2)).await.expect("the key is free");
}

/// A user's oldest goes first.
pub async fn requests_are_bounded(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    note(&talk, mark(0, 1)).await.expect("it is noted");
    for noted in join_all((1..=REQUESTS_MAX).map(|n| note(&talk, mark(n, 1)))).await {
        noted.expect("it is noted");
    }
    assert_eq!(done(&talk, mark(0, 1)).await, None);
    assert!(done(&talk, mark(1, 1)).await.is_some() && done(&talk, mark(REQUESTS_MAX, 1)).await.is_some());
}

/// They go with their user.
pub async fn an_erased_users_requests_go(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.open(asking(&talk, "when?", mark(1, 1))).await;
    store.erasures().erase(Erasure::User(talk.scope.clone())).await.expect("it is erased");
    assert_eq!(done(&talk, mark(1, 1)).await, None);
}
