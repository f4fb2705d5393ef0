//! A store that is away: what the spool keeps, what stands in for the store, and what is left of it afterwards.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::flaky::Flaky;
use super::tests::{BOUNDS, Chat, scope, sqlite};
use super::*;
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds};
use crate::session::RequestMark;
use crate::store::{Circuit, Erasure, Made};
use crate::tenant::{KeyDraft, Right};

mod conformance {
    use super::*;

    crate::conformance! { {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let outage = Outage::new(Spool::temporary(), Arc::default(), Duration::from_secs(300), Duration::from_secs(900));
        Waiting::new(Arc::new(sqlite()), clock, BOUNDS).through(outage)
    } }
}

/// A chat on a store that is shared and may be away, with its spool in a folder.
fn chat_on(inner: Arc<Flaky>, folder: &Path) -> Chat {
    let spool = Spool::open(&folder.join("r.spool.db")).expect("a spool");
    let outage = Outage::new(spool, Arc::<Circuit>::default(), Duration::from_secs(5), Duration::from_secs(900));
    let store = Waiting::new(inner, Arc::new(SystemClock::default()), BOUNDS).through(outage);
    Chat { store: Arc::new(store), scope: scope("ann"), session: RandomIds.session() }
}

fn shared() -> (Arc<Flaky>, tempfile::TempDir) {
    (Arc::new(Flaky::new(sqlite())), tempfile::tempdir().expect("a folder"))
}

fn away(inner: &Flaky, away: bool) {
    inner.away.store(away, Ordering::SeqCst);
}

/// Whether a word is in any file of a folder.
fn holds(folder: &Path, word: &str) -> bool {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut bytes = files.map(|file| std::fs::read(file.path()).expect("a file"));
    bytes.any(|bytes| bytes.windows(word.len()).any(|there| there == word.as_bytes()))
}

#[tokio::test]
async fn a_conversation_goes_on_while_the_store_is_away() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    chat.exchange("before").await;
    chat.shown().await;
    chat.exchange("just before").await;
    away(&inner, true);
    assert_eq!(chat.exchange("during").await, Kept::Waiting);
    assert_eq!(chat.shown().await, ["before", "just before", "during"]);
    let held = chat.store.held(&chat.scope, chat.session, 9).await.expect("what was lately seen");
    assert_eq!(held.turns.iter().map(|turn| turn.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(chat.store.ping().await.is_ok(), "whoever asks is told that chat goes on");
    away(&inner, false);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.stored().await, ["1 before complete", "2 just before complete", "3 during complete"]);
    let stored = chat.store.held(&chat.scope, chat.session, 9).await.expect("an outline");
    assert_eq!(stored, held, "what was foreseen is what came");
}

#[tokio::test]
async fn an_answer_is_kept_with_its_question_when_the_store_goes_away_between_them() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    let (id, kept) = chat.ask("asked in time").await;
    assert_eq!(kept, Kept::OnDisk);
    away(&inner, true);
    assert_eq!(chat.answer(id).await, Kept::Waiting);
    assert_eq!(chat.shown().await, ["asked in time"]);
    away(&inner, false);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.stored().await, ["1 asked in time complete"]);
}

#[tokio::test]
async fn what_waits_outlives_the_process() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    chat.exchange("one").await;
    chat.exchange("two").await;
    chat.ask("never answered").await;
    let (scope, session) = (chat.scope.clone(), chat.session);
    drop(chat);
    let again = Chat { scope, session, ..chat_on(Arc::clone(&inner), folder.path()) };
    assert_eq!((again.store.waiting(), again.shown().await), (3, vec!["one".to_owned(), "two".to_owned()]));
    away(&inner, false);
    assert_eq!(again.store.flush().await, 0);
    assert_eq!(again.stored().await, ["1 one complete", "2 two complete", "3 never answered failed"]);
    assert_eq!(again.store.flush().await, 0);
    assert_eq!(again.stored().await.len(), 3);
}

#[tokio::test]
async fn what_an_instance_left_under_another_name_is_taken_over() {
    let (inner, folder) = shared();
    away(&inner, true);
    let first = chat_on(Arc::clone(&inner), folder.path());
    let second = chat_on(Arc::clone(&inner), folder.path());
    second.exchange("left behind").await;
    let (scope, session) = (second.scope.clone(), second.session);
    drop((first, second));
    let path = folder.path().to_owned();
    let opened = tokio::task::spawn_blocking(move || chat_on(inner, &path)).await.expect("a spool that opens");
    let again = Chat { scope, session, ..opened };
    away(&again.store.inner, false);
    assert_eq!(again.store.flush().await, 0);
    assert_eq!(again.stored().await, ["1 left behind complete"]);
    assert!(!holds(folder.path(), "left behind"));
}

#[tokio::test]
async fn nothing_is_left_in_the_spool_once_it_is_written() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    for _ in 0..3 {
        chat.exchange("a word like zirconium").await;
    }
    assert!(holds(folder.path(), "zirconium"));
    away(&inner, false);
    assert_eq!(chat.store.flush().await, 0);
    Store::close(&*chat.store).await.expect("the store closes");
    assert!(!holds(folder.path(), "zirconium"));
}

#[tokio::test]
async fn a_session_deleted_while_the_store_is_away_is_gone_from_the_spool_at_once() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    chat.exchange("stored").await;
    away(&inner, true);
    chat.exchange("a word like zirconium").await;
    let deleted = chat.store.delete_session(&chat.scope, chat.session).await;
    assert!(matches!(deleted, Err(StoreError::Away(_))), "{deleted:?}");
    assert!(!holds(folder.path(), "zirconium"));
    let unknown = chat.store.last_turns(&chat.scope, chat.session, 9).await;
    assert!(unknown.is_err(), "what was lately seen of it is forgotten, too: {unknown:?}");
    away(&inner, false);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.stored().await, ["1 stored complete"]);
    assert_eq!(chat.store.delete_session(&chat.scope, chat.session).await.expect("it is back"), Some(1));
}

/// It was acknowledged, so it is not thrown away; and it goes with what it belongs to.
#[tokio::test]
async fn a_turn_that_the_store_will_not_have_is_put_aside_until_it_is_erased() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    chat.exchange("a word like zirconium").await;
    away(&inner, false);
    inner.refuses.store(true, Ordering::SeqCst);
    assert_eq!(chat.store.flush().await, 0);
    inner.refuses.store(false, Ordering::SeqCst);
    assert_eq!((chat.store.flush().await, holds(folder.path(), "zirconium")), (0, true));
    let (scope, session) = (chat.scope.clone(), chat.session);
    drop(chat);
    let again = Chat { scope, session, ..chat_on(inner, folder.path()) };
    again.store.inner.refuses.store(true, Ordering::SeqCst);
    assert_eq!((again.store.waiting(), again.store.flush().await), (1, 0), "it is tried once more by each process");
    assert!(holds(folder.path(), "zirconium"));
    again.store.erasures().erase(Erasure::User(again.scope.clone())).await.expect("erased");
    assert!(!holds(folder.path(), "zirconium"));
}

#[tokio::test]
async fn a_tenant_that_is_erased_does_not_come_back_from_the_spool() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    chat.exchange("a word like zirconium").await;
    away(&inner, false);
    let erased = chat.store.erasures().erase(Erasure::Tenant(chat.scope.tenant().clone())).await.expect("erased");
    assert_eq!(erased.map(|receipt| receipt.counts.waiting), Some(1));
    assert_eq!((chat.store.waiting(), holds(folder.path(), "zirconium")), (0, false));
}

/// What is forgotten while an instance is down that has some of it in its spool is gone from there, too, once it starts.
#[tokio::test]
async fn what_was_erased_elsewhere_while_an_instance_was_down_does_not_come_back_with_it() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    chat.exchange("stored").await;
    away(&inner, true);
    chat.exchange("a word like zirconium").await;
    let bob = Chat { scope: scope("bob"), session: RandomIds.session(), ..chat.clone() };
    bob.exchange("bob's").await;
    let (ann, session) = (chat.scope.clone(), chat.session);
    let (his, his_session) = (bob.scope.clone(), bob.session);
    drop((chat, bob));
    away(&inner, false);
    let elsewhere = chat_on(Arc::clone(&inner), tempfile::tempdir().expect("a folder").path());
    elsewhere.store.erasures().erase(Erasure::User(ann.clone())).await.expect("erased").expect("there");
    let again = Chat { scope: ann, session, ..chat_on(Arc::clone(&inner), folder.path()) };
    assert_eq!((again.store.waiting(), again.store.flush().await), (2, 0));
    assert!(again.store.session(&again.scope, session).await.expect("a look").is_none());
    let bob = Chat { scope: his, session: his_session, ..again.clone() };
    assert_eq!(bob.stored().await, ["1 bob's complete"]);
    Store::close(&*again.store).await.expect("the store closes");
    assert!(!holds(folder.path(), "zirconium"));
}

#[tokio::test]
async fn a_turn_that_another_instance_came_before_takes_its_followers_along() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    chat.exchange("one").await;
    away(&inner, true);
    let (first, _) = chat.ask("two").await;
    chat.answer(first).await;
    let held = chat.store.held(&chat.scope, chat.session, 9).await.expect("what was lately seen");
    let mut next = chat.question("three");
    next.place.parent = held.turns.last().map(|turn| turn.number);
    let id = next.id;
    chat.store.open_turn(&chat.scope, next).await.expect("it waits");
    chat.answer(id).await;
    away(&inner, false);
    // Another instance writes first.
    let elsewhere =
        Chat { session: chat.session, ..chat_on(Arc::clone(&inner), tempfile::tempdir().expect("a folder").path()) };
    elsewhere.exchange("meanwhile").await;
    assert_eq!(chat.store.flush().await, 0);
    let held = chat.store.held(&chat.scope, chat.session, 9).await.expect("an outline");
    let tree: Vec<_> = held.turns.iter().map(|turn| (turn.number, turn.parent)).collect();
    assert_eq!(tree, [(1, 0), (2, 1), (3, 2), (4, 3)]);
}

#[tokio::test]
async fn once_the_store_is_back_a_new_turn_waits_for_those_before_it_and_is_written_after_them() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    chat.exchange("one").await;
    let (two, _) = chat.ask("two").await;
    away(&inner, false);
    let opened = chat.store.open_turn(&chat.scope, chat.question("three")).await.expect("written");
    assert_eq!((opened.number, opened.kept, chat.store.waiting()), (Some(3), Kept::OnDisk, 0));
    assert_eq!(chat.answer(two).await, Kept::OnDisk);
    assert_eq!(chat.stored().await, ["1 one complete", "2 two complete", "3 three pending"]);
}

#[tokio::test]
async fn what_is_read_of_a_conversation_once_the_store_is_back_is_what_is_stored() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    chat.exchange("one").await;
    away(&inner, false);
    assert_eq!((chat.shown().await, chat.store.waiting()), (vec!["one".to_owned()], 0));
}

/// A conversation belongs to its tenant and user by its very key: another one's of the same name is not touched by what waited.
#[tokio::test]
async fn what_waited_stays_apart_from_a_strangers_conversation_of_the_same_id() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    let stranger = Chat { scope: scope("bob"), ..chat.clone() };
    away(&inner, true);
    chat.exchange("ann's").await;
    away(&inner, false);
    stranger.exchange("bob's").await;
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(
        (chat.stored().await, stranger.stored().await),
        (vec!["1 ann's complete".into()], vec!["1 bob's complete".into()])
    );
}

/// Others fail the turns of a process that has not been heard of for a minute; it may only have been cut off.
#[tokio::test]
async fn an_answer_that_waited_counts_although_its_turn_was_given_up_meanwhile() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    let (id, _) = chat.ask("asked in time").await;
    away(&inner, true);
    chat.answer(id).await;
    assert_eq!(inner.fail_abandoned().await.expect("a look"), 1);
    away(&inner, false);
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(chat.stored().await, ["1 asked in time complete"]);
    let turn = chat.store.turn(&chat.scope, id).await.expect("a look").expect("the turn");
    assert!(!turn.metadata.contains_key("reason"));
}

/// A store whose keys are asked for as a server does that starts.
async fn good(store: &Waiting<Flaky>, text: &str) -> Result<bool, StoreError> {
    let register = store.tenants().register().await?;
    let seal = store.tenants().seal([1; 32]).await?;
    Ok(register.keys.iter().any(|key| seal.fits(text, &key.sealed)))
}

#[tokio::test]
async fn keys_are_known_to_a_process_that_starts_while_the_store_is_away() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    let seal = chat.store.tenants().seal([7; 32]).await.expect("a seal");
    let draft = KeyDraft {
        name: "the shop".into(),
        tenant: None,
        user: None,
        rights: [Right::Read, Right::Admin].into_iter().collect(),
        trust_identity: true,
        expires_at: None,
    };
    let made =
        draft.make([3; 32], [4; 32], &seal, Timestamp::from_second(1_700_000_000).expect("a time")).expect("a key");
    chat.store.tenants().add_key(made.key.clone(), Timestamp::UNIX_EPOCH).await.expect("kept");
    assert!(good(&chat.store, &made.text).await.expect("an answer"));
    drop(chat);
    assert!(!holds(folder.path(), &made.text), "no key is copied");
    away(&inner, true);
    let again = chat_on(Arc::clone(&inner), folder.path());
    assert!(good(&again.store, &made.text).await.expect("a copy"));
    assert!(!good(&again.store, "rk_another").await.expect("a copy"));
    let register = again.store.tenants().register().await.expect("a copy");
    assert_eq!(register.keys, [made.key]);
    assert!(register.age < Duration::from_secs(60));
}

#[tokio::test]
async fn a_copy_of_the_keys_that_is_too_old_opens_nothing() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    chat.store.tenants().register().await.expect("an empty register");
    drop(chat);
    away(&inner, true);
    let spool = Spool::open(&folder.path().join("r.spool.db")).expect("a spool");
    let outage = Outage::new(spool, Arc::default(), Duration::from_secs(5), Duration::ZERO);
    let flaky: Arc<Flaky> = inner;
    let store = Waiting::new(flaky, Arc::new(SystemClock::default()), BOUNDS).through(outage);
    assert!(matches!(store.tenants().register().await, Err(StoreError::Away(_))));
}

#[test]
fn a_damaged_turn_is_left_in_the_spool_and_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.spool.db");
    drop(Spool::open(&path).expect("a spool"));
    let db = rusqlite::Connection::open(&path).expect("a file");
    db.execute("INSERT INTO turn (id, opened_at, body, checksum) VALUES (x'00', 1, '{}', 7)", []).expect("written");
    drop(db);
    assert!(Spool::open(&path).expect("a spool").take_found().is_empty());
    let db = rusqlite::Connection::open(&path).expect("a file");
    let rows: i64 = db.query_row("SELECT count(*) FROM turn", [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, 1);
}

fn asking(chat: &Chat, text: &str) -> OpenTurn {
    let mut turn = chat.question(text);
    turn.place.request = Some(RequestMark { key: [7; 32], content: [1; 32] });
    turn
}

/// What the request made, and whether that waits.
async fn made(chat: &Chat) -> Option<(Made, bool)> {
    let done = chat.store.requests().done_request(&chat.scope, [7; 32]).await.expect("an answer");
    done.map(|done| (done.made, done.waits))
}

#[tokio::test]
async fn a_request_that_was_done_is_known_while_the_store_is_away() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    let turn = asking(&chat, "asked in time");
    chat.store.open_turn(&chat.scope, turn.clone()).await.expect("opened");
    away(&inner, true);
    assert_eq!(made(&chat).await, Some((Made::Turn(chat.session, turn.id), false)));
}

#[tokio::test]
async fn a_request_whose_turn_waits_outlives_the_process() {
    let (inner, folder) = shared();
    let chat = chat_on(Arc::clone(&inner), folder.path());
    away(&inner, true);
    let turn = asking(&chat, "never answered");
    chat.store.open_turn(&chat.scope, turn.clone()).await.expect("taken in");
    let (scope, session) = (chat.scope.clone(), chat.session);
    drop(chat);
    let again = Chat { scope, session, ..chat_on(Arc::clone(&inner), folder.path()) };
    let same = Made::Turn(session, turn.id);
    assert_eq!(made(&again).await, Some((same.clone(), true)));
    let twice = again.store.open_turn(&again.scope, asking(&again, "never answered")).await;
    assert!(matches!(twice, Err(StoreError::Repeated)), "{twice:?}");
    away(&inner, false);
    assert_eq!(again.store.flush().await, 0);
    assert_eq!((made(&again).await, again.stored().await.len()), (Some((same, false)), 1));
}

#[tokio::test]
async fn a_request_that_another_instance_did_meanwhile_is_not_done_again() {
    let (inner, folder) = shared();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let chat = chat_on(Arc::clone(&inner), folder.path());
    let other = Chat { scope: chat.scope.clone(), ..chat_on(Arc::clone(&inner), elsewhere.path()) };
    away(&inner, true);
    chat.store.open_turn(&chat.scope, asking(&chat, "asked here")).await.expect("taken in");
    away(&inner, false);
    let there = asking(&other, "asked there");
    other.store.open_turn(&other.scope, there.clone()).await.expect("opened");
    assert_eq!(chat.store.flush().await, 0);
    assert_eq!(made(&chat).await, Some((Made::Turn(other.session, there.id), false)));
    assert_eq!((chat.stored().await.len(), other.stored().await.len()), (0, 1));
    assert!(!holds(folder.path(), "asked here"));
}
