//! What is erased is gone, with all that followed from it, and stays gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Talk;
use super::facts::understand;
use super::knowledge::{document, keep_one};
use super::talk::{draft, object};
use super::{episodes, tenants};
use crate::episode::{Episode, Level};
use crate::id::TurnId;
use crate::knowledge::said_in_chat;
use crate::scope::TenantScope;
use crate::session::{ClosedTurn, OpenTurn, TurnDraft, TurnStatus};
use crate::store::{BookState, Counts, Erasure, PageRequest, Receipt, Stats, Store, StoreError};

async fn erase(store: &Arc<dyn Store>, what: Erasure) -> Option<Receipt> {
    store.erasures().erase(what).await.expect("it is erased or unknown")
}

async fn erased(store: &Arc<dyn Store>, what: Erasure) -> Counts {
    erase(store, what).await.expect("it is there").counts
}

impl Talk {
    fn whole(&self) -> Erasure {
        Erasure::Session(self.scope.clone(), self.session)
    }

    fn turn(&self, id: TurnId) -> Erasure {
        Erasure::Turn(self.scope.clone(), id)
    }

    /// An exchange with a trace, that was shown something.
    async fn shown(&self, question: &str, block: &str) -> TurnId {
        let metadata = object(json!({"injected": {"block": block}, "kept": true}));
        let open = OpenTurn { metadata, ..self.question(question) };
        let id = open.id;
        self.open(open).await;
        let trace = Some(json!({"question": question, "completed": block}).to_string());
        let ending = self.ending(id, TurnStatus::Complete, vec![super::talk::assistant("so")]);
        self.try_close(ClosedTurn { trace, ..ending }).await.expect("it is closed");
        id
    }

    async fn trace(&self, id: TurnId) -> Option<String> {
        self.store.trace(&self.scope, id).await.expect("a trace is looked up")
    }
}

/// An erased exchange is gone, with its facts, and only once.
pub async fn an_erased_turn_leaves_nothing(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(1, "name = Ann").await;
    let gone = talk.state(2, "location = Lisbon; pet/dog = Rex").await;
    talk.state(3, "pet/dog = Rex").await;
    let counts = erased(&store, talk.turn(gone)).await;
    assert_eq!((counts.turns, counts.sessions, counts.statements), (1, 0, 2));
    assert_eq!(talk.active().await, ["name: Ann", "pet/dog: Rex"], "what else says it stays");
    assert!(talk.facts(None, None).await.iter().all(|fact| fact.value != "Lisbon"));
    assert_eq!(store.turn(&talk.scope, gone).await.expect("looked up"), None);
    assert_eq!(erase(&store, talk.turn(gone)).await, None);
}

/// The conversation goes on as if the exchange had never been: nothing is renumbered, and whoever stood behind it stands before it.
pub async fn an_erased_turn_leaves_its_conversation_whole(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let ids: Vec<TurnId> = talk
        .add((1..=5).map(|n| draft(&format!("question {n}"), &format!("answer {n}"))).collect())
        .await
        .iter()
        .map(|turn| turn.id)
        .collect();
    erased(&store, talk.turn(ids[2])).await;
    assert_eq!(talk.numbers().await, [1, 2, 4, 5]);
    assert_eq!(talk.last(9).await, ["question 1", "question 2", "question 4", "question 5"]);
    let held = store.held(&talk.scope, talk.session, 9).await.expect("outlines");
    assert_eq!(held.turns.iter().map(|turn| turn.parent).collect::<Vec<_>>(), [0, 1, 2, 4]);
    assert_eq!(talk.find().await.map(|session| session.turns), Some(4));
    talk.exchange("question 6", "answer 6").await;
    assert_eq!(talk.numbers().await, [1, 2, 4, 5, 6]);
}

/// What was told of an erased exchange says nothing at once, and is to be told anew.
pub async fn an_erased_turn_is_untold(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let turns = talk.add((1..=4).map(|n| draft(&format!("q {n}"), "a")).collect()).await;
    let level = |level, first, last| Episode { level, ..episodes::told(&talk, first, last) };
    let told = vec![level(Level::Stretch, 1, 2), level(Level::Stretch, 3, 4), level(Level::Hour, 1, 4)];
    let done = episodes::telling(&talk, 0, told).await;
    episodes::apply(&talk, done).await;
    let counts = erased(&store, talk.turn(turns[1].id)).await;
    assert_eq!(counts.episodes, 2);
    let left: Vec<String> = episodes::list(&talk).await.into_iter().map(|episode| episode.summary).collect();
    assert_eq!(left, ["turns 3 to 4"]);
    let progress = episodes::progress(&talk).await;
    let stale: Vec<_> = progress.stale.iter().map(|stale| (stale.first, stale.last, stale.summary.as_str())).collect();
    assert_eq!(stale, [(1, 2, "")], "it is told anew from what is left");
}

/// An erased session is gone with all that followed from it; another of the same user's is not.
pub async fn an_erased_session_leaves_nothing(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store));
    talk.state(1, "location = Lisbon").await;
    talk.state(2, "location := Porto").await;
    other.state(3, "name = Ann").await;
    let counts = erased(&store, talk.whole()).await;
    assert_eq!((counts.sessions, counts.turns, counts.statements, counts.facts), (1, 2, 2, 2));
    assert_eq!((talk.active().await, talk.find().await), (vec!["name: Ann".to_owned()], None));
    assert_eq!(other.turns().await.len(), 1);
    assert_eq!(erase(&store, talk.whole()).await, None);
}

/// An erased user is gone, in more sessions than one transaction takes; a user of the same name elsewhere is not.
pub async fn an_erased_user_leaves_nothing(store: Arc<dyn Store>) {
    let (ann, bob) = (Talk::new(&store), Talk::new(&store).of("acme", "bob"));
    let namesake = Talk::new(&store).of("globex", "ann");
    for talk in [&ann, &bob, &namesake] {
        talk.state(1, "location = Lisbon").await;
    }
    for _ in 0..120 {
        ann.another().add(vec![draft("who?", "we")]).await;
    }
    let counts = erased(&store, Erasure::User(ann.scope.clone())).await;
    assert_eq!((counts.sessions, counts.turns, counts.facts), (121, 121, 1));
    let stats = store.stats(&ann.scope).await.expect("counted");
    assert_eq!(Stats { bytes: 0, ..stats }, Stats::default());
    assert_eq!(ann.facts(None, None).await, []);
    for talk in [&bob, &namesake] {
        assert_eq!(talk.active().await, ["location: Lisbon"]);
    }
    assert_eq!(erase(&store, Erasure::User(ann.scope.clone())).await, None, "nothing names the user");
    ann.state(9, "location = Rome").await;
    assert_eq!(ann.active().await, ["location: Rome"], "who comes back begins anew");
}

/// Keys of an erased user end and name nobody; the rows stay, so that a server that was closed is not open again.
pub async fn an_erased_users_keys_open_nothing(store: Arc<dyn Store>) {
    let key = tenants::add(&store, 1, "Ann's phone").await;
    let ann = Talk::new(&store);
    assert_eq!(erased(&store, Erasure::User(ann.scope.clone())).await.keys, 1);
    let left = tenants::register(&store).await.keys;
    assert_eq!((left.len(), &left[0].id), (1, &key.id));
    assert!(left[0].revoked_at.is_some() && left[0].name.is_empty());
    assert_ne!(left[0].user.as_ref(), Some(ann.scope.user()));
}

/// What was laid before the model elsewhere, and the explanation of it, may repeat what is erased.
pub async fn what_others_were_shown_goes(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store));
    let stranger = Talk::new(&store).of("acme", "bob");
    let gone = talk.exchange("my dog is Rex", "fine").await;
    let shown = other.shown("who is my dog?", "my dog is Rex").await;
    let foreign = stranger.shown("who is my cat?", "my cat is Tom").await;
    assert!(other.trace(shown).await.is_some());
    let counts = erased(&store, talk.turn(gone)).await;
    assert_eq!((counts.mentions, counts.traces), (1, 1));
    let turn = store.turn(&other.scope, shown).await.expect("whole").expect("there");
    assert_eq!(turn.metadata, object(json!({"kept": true})));
    assert_eq!(other.trace(shown).await, None);
    let theirs = store.turn(&stranger.scope, foreign).await.expect("whole").expect("there");
    assert!(theirs.metadata.contains_key("injected") && stranger.trace(foreign).await.is_some());
}

/// What a tenant learned from a message goes with the message, and so does what others were shown of it.
pub async fn what_a_tenant_learned_goes_with_the_chat(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store).of("acme", "bob"));
    let acme = TenantScope::new(talk.scope.tenant().clone());
    let said = "The door opens at nine.";
    let note =
        crate::store::NewDocument { kind: crate::knowledge::Kind::Note, ..document(&said_in_chat(said), &[said]) };
    keep_one(&store, &acme, note).await;
    let kept = keep_one(&store, &acme, document("other.md", &["It stays."])).await;
    talk.add(vec![draft(said, "I see.")]).await;
    let shown = other.shown("when?", said).await;
    let counts = erased(&store, talk.whole()).await;
    assert_eq!((counts.documents, counts.passages, counts.mentions), (1, 1, 1));
    let left = store.knowledge().documents(&acme, PageRequest::first(9)).await.expect("listed").items;
    assert_eq!(left.iter().map(|left| left.id).collect::<Vec<_>>(), [kept.id]);
    let turn = store.turn(&other.scope, shown).await.expect("whole").expect("there");
    assert!(!turn.metadata.contains_key("injected"));
}

/// The words of an erased fact are gone, what it had taken the place of does not come back, and understanding the messages again
/// changes nothing.
pub async fn an_erased_fact_does_not_come_back(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let other = talk.state(1, "location = Lisbon").await;
    let turn = talk.state(2, "location := Porto; name = Ann").await;
    let porto = talk.fact("Porto").await.id;
    let counts = erased(&store, Erasure::Fact(talk.scope.clone(), porto)).await;
    assert_eq!((counts.facts, counts.statements), (1, 1));
    let messages = [turn.message(0), other.message(0)];
    assert_eq!(store.facts().unsaid(&talk.scope, &messages).await.expect("looked up"), [turn.message(0)]);
    assert!(store.facts().facts_known(&talk.scope, super::talk::at(9)).await.expect("known").some_outdated);
    for _ in 0..2 {
        assert_eq!(talk.active().await, ["name: Ann"]);
        assert!(talk.facts(None, None).await.iter().all(|fact| fact.value != "Porto"));
        store.facts().facts_again(None).await.expect("asked for");
        understand(&store).await;
    }
    talk.state(3, "location := Porto").await;
    assert_eq!(talk.active().await, ["location: Porto", "name: Ann"], "said again it is known again");
}

/// Somebody else's things are as good as unknown, and stay.
pub async fn foreign_things_are_unknown_and_stay(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let turn = talk.state(1, "location = Lisbon").await;
    let fact = talk.fact("Lisbon").await.id;
    let kept = keep_one(&store, &TenantScope::new(talk.scope.tenant().clone()), document("a.md", &["one"])).await;
    for (tenant, user) in [("acme", "bob"), ("globex", "ann")] {
        let foreign = talk.of(tenant, user);
        for what in [foreign.whole(), foreign.turn(turn), Erasure::Fact(foreign.scope.clone(), fact)] {
            assert_eq!(erase(&store, what).await, None);
        }
        assert_eq!(erase(&store, Erasure::User(foreign.scope.clone())).await, None);
    }
    let other = TenantScope::new(talk.of("globex", "ann").scope.tenant().clone());
    assert_eq!(erase(&store, Erasure::Document(other.clone(), kept.id)).await, None);
    assert_eq!(erase(&store, Erasure::Tenant(other.tenant().clone())).await, None);
    assert_eq!((talk.active().await.len(), talk.turns().await.len()), (1, 1));
    let BookState { not_applied, .. } = store.erasures().book().await.expect("a book");
    assert_eq!(not_applied, 0);
}

/// Every erasure is a line, in order, and the data follow all of them.
pub async fn every_erasure_is_in_the_book(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let turns: Vec<TurnId> = talk
        .add(vec![draft("one", "1"), draft("two", "2"), draft("three", "3")])
        .await
        .iter()
        .map(|turn| turn.id)
        .collect();
    let first = erase(&store, talk.turn(turns[0])).await.expect("there");
    let second = erase(&store, talk.turn(turns[1])).await.expect("there");
    assert!(first.ledger_id > 0 && second.ledger_id > first.ledger_id && first.log_emptied);
    let book = store.erasures().book().await.expect("a book");
    assert_eq!((book.entries, book.last_at, book.not_applied), (2, Some(second.erased_at), 0));
    let again = store.erasures().reapply().await.expect("nothing to do");
    assert_eq!((again.entries, again.found), (0, 0));
    // The same conversation brought back on purpose stays: it is newer than the line.
    let back = TurnDraft { id: turns[0], ..draft("one", "1") };
    talk.add(vec![back]).await;
    store.erasures().reapply().await.expect("nothing to do");
    assert_eq!(talk.last(9).await, ["three", "one"]);
}

/// A question that waited elsewhere while it, or what it belongs to, was erased is not written; one that was asked later is.
pub async fn what_waited_does_not_bring_back_what_is_erased(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.add(vec![draft("one", "1")]).await;
    let other = Talk::new(&store);
    other.add(vec![draft("two", "2")]).await;
    erased(&store, talk.whole()).await;
    let waited = |talk: &Talk, asked_at| OpenTurn { asked_at: Some(asked_at), ..talk.question("waited") };
    let open = |talk: Talk, turn| async move { talk.store.open_turn(&talk.scope, turn).await };
    let gone = open(talk.clone(), waited(&talk, Timestamp::UNIX_EPOCH)).await;
    assert!(matches!(gone, Err(StoreError::Erased(_))), "{gone:?}");
    assert!(open(other.clone(), waited(&other, Timestamp::UNIX_EPOCH)).await.is_ok(), "of another conversation");
    let later = Timestamp::now() + SignedDuration::from_hours(1);
    assert!(open(talk.clone(), waited(&talk, later)).await.is_ok(), "asked later");
    for whole in [Erasure::User(talk.scope.clone()), Erasure::Tenant(talk.scope.tenant().clone())] {
        talk.add(vec![draft("three", "3")]).await;
        erased(&store, whole).await;
        let gone = open(other.clone(), waited(&other, Timestamp::UNIX_EPOCH)).await;
        assert!(matches!(gone, Err(StoreError::Erased(_))), "{gone:?}");
    }
    assert_eq!(store.erasures().kept().await.expect("counted"), []);
}

/// What a turn was shown that waited elsewhere may repeat what was erased meanwhile, so it goes; what was said stays.
pub async fn what_waited_forgets_what_it_was_shown(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let gone = talk.add(vec![draft("a secret", "kept")]).await[0].id;
    erased(&store, talk.turn(gone)).await;
    let metadata = object(json!({"injected": {"block": "a secret"}, "kept": true}));
    let open = OpenTurn { asked_at: Some(Timestamp::UNIX_EPOCH), metadata: metadata.clone(), ..talk.question("what?") };
    let id = open.id;
    talk.open(open).await;
    let ending = talk.ending(id, TurnStatus::Complete, vec![super::talk::assistant("so")]);
    let waits_since = Some(Timestamp::UNIX_EPOCH);
    let closed = ClosedTurn { metadata, trace: Some("{\"completed\": \"a secret\"}".into()), waits_since, ..ending };
    talk.try_close(closed).await.expect("it is closed");
    let turn = store.turn(&talk.scope, id).await.expect("a look").expect("it is there");
    assert_eq!((turn.answer().map(|said| said.text.as_str()), talk.trace(id).await), (Some("so"), None));
    assert!(turn.metadata.contains_key("kept") && !turn.metadata.contains_key("injected"));
}

/// What is kept is counted by tenant.
pub async fn what_is_kept_is_counted(store: Arc<dyn Store>) {
    assert_eq!(store.erasures().kept().await.expect("counted"), []);
    let (ann, bob) = (Talk::new(&store), Talk::new(&store).of("acme", "bob"));
    ann.state(1, "location = Lisbon").await;
    bob.shown("how?", "so").await;
    Talk::new(&store).of("globex", "ann").add(vec![draft("one", "1")]).await;
    let kept = store.erasures().kept().await.expect("counted");
    assert_eq!(kept.iter().map(|kept| kept.tenant.as_str()).collect::<Vec<_>>(), ["acme", "globex"]);
    let acme = &kept[0];
    assert_eq!((acme.users, acme.sessions, acme.turns, acme.facts, acme.statements), (2, 2, 2, 1, 1));
    assert_eq!((acme.traces, kept[1].turns, kept[1].facts), (1, 1, 0));
}
