//! What people say about themselves, what follows from it, and what becomes of that.
//!
//! The promises speak a small language: `location = Lisbon` states, `location := Porto` corrects, `location !` ends;
//! several stand in one message, divided by `;`, and `forget` at the end has what it ends erased.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::{at, draft, expire};
use crate::fact::{Act, Category, Evidence, Fact, Key, Maker, Proposal, Statement, Status};
use crate::id::{FactId, Ids, MessageId, RandomIds, TurnId};
use crate::job::JobKind;
use crate::message::Role;
use crate::period::{Period, Ttl};
use crate::session::{OpenTurn, Placement, SessionKind, SessionSeed, Shift, TurnDraft, TurnStatus};
use crate::store::{
    Cause, DueFacts, Effect, Erasure, FACTS_MAX, Finished, Learned, Noted, Outdated, PageRequest, QUOTES_LAST,
    STATEMENTS_MAX, Store, Understood, Undo, Undone, Unread, WhichFacts,
};

/// What a message states, in the promises' language.
fn read(due: &DueFacts) -> Vec<Statement> {
    let users = due.turn.identified().filter(|(_, message)| message.role == Role::User);
    users.flat_map(|(id, message)| message.text.split(';').filter_map(move |part| read_part(due, id, part))).collect()
}

fn read_part(due: &DueFacts, message: MessageId, part: &str) -> Option<Statement> {
    let (act, path, value) = match (part.split_once(":="), part.split_once('='), part.split_once('!')) {
        (Some((path, value)), ..) => (Act::Correct, path, value),
        (None, Some((path, value)), _) => (Act::State, path, value),
        (None, None, Some((path, value))) => (Act::End, path, value),
        _ => return None,
    };
    let (value, until) = match value.split_once(" until ") {
        Some((value, second)) => (value, second.trim().parse().ok().map(at)),
        None => (value, None),
    };
    let proposal = Proposal {
        key: Key::from_path(Category::Identity, path.trim()),
        value: value.trim().to_owned(),
        act,
        confidence: 0.9,
        importance: 0.9,
        from: None,
        until,
        quote: part.trim().to_owned(),
        forgets: false,
    };
    let (session, said_at) = (Some(due.turn.session), due.turn.created_at);
    let evidence = Evidence { message: Some(message), session, said_at, quote: String::new() };
    Some(Statement::heard(proposal, evidence, Maker::Builtin, Status::Active, said_at))
}

fn understood(due: &DueFacts) -> Understood {
    let (scope, turn, stamp) = (due.scope.clone(), due.turn.id, due.stamp);
    let refused = if due.turn.question().text.ends_with('?') { vec![("question", 1)] } else { Vec::new() };
    let asking = due.turn.identified().filter(|(_, message)| message.text.ends_with("forget"));
    let forgets = asking.map(|(id, _)| id).collect();
    Understood { scope, turn, stamp, maker: Maker::Builtin, statements: read(due), forgets, refused }
}

/// Understands all that is on the list.
pub(super) async fn understand(store: &Arc<dyn Store>) -> Learned {
    let mut all = Learned::default();
    loop {
        let due = store.facts().fact_todo(100).await.expect("the list");
        if due.is_empty() {
            return all;
        }
        let learned = store.facts().learn(due.iter().map(understood).collect()).await.expect("they are learned");
        all.turns.extend(learned.turns);
        all.changes.extend(learned.changes);
    }
}

impl Talk {
    /// Says something at this second of the day, and has it understood.
    pub(super) async fn state(&self, second: i64, words: &str) -> TurnId {
        let told = TurnDraft { created_at: Some(at(second)), ..draft(words, "I see.") };
        let turn = self.add(vec![told]).await.remove(0);
        understand(&self.store).await;
        turn.id
    }

    pub(super) async fn facts(&self, status: Option<Status>, as_of: Option<Timestamp>) -> Vec<Fact> {
        let (mut all, mut page) = (Vec::new(), PageRequest::first(3));
        loop {
            let which = WhichFacts { page, status, now: at(100_000), as_of };
            let found = self.store.facts().facts_kept(&self.scope, which).await.expect("facts are listed");
            all.extend(found.items);
            let Some(next) = found.next else { return all };
            page.after = Some(next);
        }
    }

    /// What holds: `location: Porto`, with how often it was said unless that was once.
    pub(super) async fn active(&self) -> Vec<String> {
        let mut told: Vec<String> = self.facts(Some(Status::Active), None).await.iter().map(told).collect();
        told.sort_unstable();
        told
    }

    pub(super) async fn fact(&self, value: &str) -> Fact {
        let all = self.facts(None, None).await;
        all.into_iter().find(|fact| fact.value == value).unwrap_or_else(|| panic!("no fact says {value}"))
    }

    pub(super) async fn undo_it(&self, what: Undo) -> Undone {
        let id = RandomIds.undo(at(0));
        self.store.facts().undo(&self.scope, what, id).await.expect("it is undone")
    }

    /// Writes down by hand.
    pub(super) async fn note(&self, path: &str, value: &str, act: Act, second: i64) {
        let key = Key::from_path(Category::Identity, path);
        let said = Statement::by_hand(RandomIds.fact(at(second)), key, value, act, 0.9, at(second));
        self.store.facts().say(&self.scope, vec![said]).await.expect("it is written down");
    }

    pub(super) async fn ask_and_shift(&self, words: &str, shift: Shift) -> TurnId {
        let place = Placement { shift, ..Placement::default() };
        let turn = OpenTurn { place, ..self.question(words) };
        let id = turn.id;
        self.open(turn).await;
        self.end(id, TurnStatus::Complete, "I see.").await;
        understand(&self.store).await;
        id
    }
}

fn told(fact: &Fact) -> String {
    let often = if fact.confirmations == 1 { String::new() } else { format!(" ×{}", fact.confirmations) };
    format!("{}: {}{often}", fact.key.path(), fact.value)
}

pub(super) fn undone(done: Undone) -> crate::id::UndoId {
    match done {
        Undone::Done { id, .. } => id,
        other => panic!("nothing was undone: {other:?}"),
    }
}

/// What is said becomes a fact with its source; said again it is confirmed; another value takes its place.
pub async fn facts_follow_from_what_is_said(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let first = talk.state(10, "location = Lisbon; name = Ann").await;
    talk.state(20, "location = lisbon").await;
    assert_eq!(talk.active().await, ["location: Lisbon ×2", "name: Ann"]);
    let last = talk.state(30, "location := Porto").await;
    assert_eq!(talk.active().await, ["location: Porto", "name: Ann"]);
    let old = talk.fact("Lisbon").await;
    assert_eq!((old.status, old.valid_from, old.valid_to), (Status::Superseded, at(10), Some(at(30))));
    assert_eq!((old.evidence.message, old.ended_by), (Some(first.message(0)), Some(last.message(0))));
    assert_eq!((old.evidence.session, old.evidence.quote.as_str()), (Some(talk.session), "location = Lisbon"));
    assert_eq!(store.facts().fact_kept(&talk.scope, old.id).await.expect("a look"), Some(old));
}

/// Understanding a message again changes nothing; understanding it otherwise changes what it said.
pub async fn understanding_twice_is_understanding_once(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon").await;
    talk.state(20, "location = Lisbon").await;
    let before = talk.facts(None, None).await;
    assert_eq!(store.facts().facts_again(Some(&talk.scope)).await.expect("asked for"), 2);
    let due = store.facts().fact_todo(10).await.expect("the list");
    let learned = understand(&store).await;
    assert_eq!((learned.turns.len(), learned.changes.len()), (2, 0));
    assert_eq!(talk.facts(None, None).await, before);
    let otherwise = due.iter().map(|due| Understood { statements: Vec::new(), ..understood(due) }).collect();
    store.facts().learn(otherwise).await.expect("they are learned");
    assert!(talk.active().await.is_empty());
    understand(&store).await;
    store.facts().facts_again(None).await.expect("asked for");
    understand(&store).await;
    assert_eq!(talk.facts(None, None).await, before, "and back again");
}

/// A turn that asks for something to be forgotten is on the list until that is erased: whoever was to do so may fail.
pub async fn what_is_to_be_forgotten_waits_for_it(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let turns = [draft("location = Lisbon", "I see."), draft("location!Lisbon; forget", "It is forgotten.")];
    talk.add(turns.to_vec()).await;
    for left in [2, 1] {
        let due = store.facts().fact_todo(10).await.expect("the list");
        let learned = store.facts().learn(due.iter().map(understood).collect()).await.expect("they are learned");
        let lisbon = (talk.scope.clone(), talk.fact("Lisbon").await.id);
        assert_eq!((due.len(), learned.turns.len(), learned.forgets), (left, left - 1, vec![lisbon]));
    }
    let lisbon = talk.fact("Lisbon").await.id;
    store.erasures().erase(Erasure::Fact(talk.scope.clone(), lisbon)).await.expect("it is erased");
    assert_eq!((understand(&store).await.turns.len(), talk.facts(None, None).await), (1, Vec::new()));
}

/// What arrives late does not replace what was said after it.
pub async fn late_statements_do_not_win(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(50, "location = Porto").await;
    talk.another().state(10, "location := Lisbon").await;
    assert_eq!(talk.active().await, ["location: Porto"]);
    let old = talk.fact("Lisbon").await;
    assert_eq!((old.status, old.valid_to), (Status::Superseded, Some(at(50))));
}

/// Facts of a message that an edit replaced go, and come back with it.
pub async fn a_hidden_message_has_no_say(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("location = Lisbon", "I see.").await;
    talk.exchange("location := Porto; name = Ann", "I see.").await;
    understand(&store).await;
    let before = talk.fact("Porto").await;
    talk.ask_and_shift("location := Faro", Shift { hide: vec![2], ..Shift::default() }).await;
    assert_eq!(talk.active().await, ["location: Faro"]);
    let hidden = talk.fact("Porto").await;
    assert_eq!((hidden.status, hidden.is_withdrawn()), (Status::Retracted, true));
    talk.ask_and_shift("hello", Shift { hide: vec![3], show: vec![2], ..Shift::default() }).await;
    assert_eq!(talk.active().await, ["location: Porto", "name: Ann"]);
    assert_eq!(talk.fact("Porto").await, before, "it is the same fact");
    let history = store.facts().fact_history(&talk.scope, before.id).await.expect("a look").expect("it is there");
    let words: Vec<_> = history.events.iter().filter(|event| event.fact == before.id).collect();
    assert_eq!(words.iter().map(|event| event.what.as_str()).collect::<Vec<_>>(), ["add", "withdraw", "restore"]);
}

/// A question without an answer is not remembered; one that is being answered again is.
pub async fn only_shown_turns_are_understood(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("location = Lisbon").await;
    understand(&store).await;
    assert!(talk.active().await.is_empty(), "nobody answered yet");
    talk.end(id, TurnStatus::Failed, "").await;
    understand(&store).await;
    assert!(talk.active().await.is_empty(), "it has failed");
    talk.exchange("location = Porto", "location = Berlin").await;
    understand(&store).await;
    assert_eq!(talk.active().await, ["location: Porto"]);
}

/// Deleting a conversation takes along what nothing else says, and leaves no words of it.
pub async fn a_deleted_session_takes_its_facts_along(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store));
    talk.state(10, "location = Lisbon; name = Ann").await;
    other.state(20, "name = Ann; pet/rex = Rex").await;
    let rex = talk.fact("Rex").await;
    undone(talk.undo_it(Undo::Fact(rex.id)).await);
    assert_eq!(talk.active().await, ["location: Lisbon", "name: Ann ×2"]);
    assert_eq!(talk.delete().await, Some(1));
    assert_eq!(other.active().await, ["name: Ann"]);
    let ann = other.fact("Ann").await;
    assert_eq!((ann.evidence.session, ann.valid_from), (Some(other.session), at(20)));
    assert_eq!(other.facts(None, None).await.len(), 2, "Ann, and Rex who was undone");
    assert_eq!(other.delete().await, Some(1));
    assert!(other.facts(None, None).await.is_empty());
}

/// What grows too old leaves its facts behind; a visit leaves nothing.
pub async fn facts_outlive_their_turns(store: Arc<dyn Store>) {
    let (talk, visit) = (Talk::new(&store), Talk::new(&store).of("acme", "~visit").another());
    talk.state(10, "location = Lisbon").await;
    visit.create(SessionSeed { kind: SessionKind::Ephemeral, ..SessionSeed::default() }).await;
    visit.state(10, "location = Porto").await;
    assert_eq!(visit.active().await, ["location: Porto"]);
    let day = Ttl(Some(Period::from_micros(1_000_000)));
    assert_eq!(expire(&store, at(50), day, 10).await.turns, 2);
    assert_eq!(talk.active().await, ["location: Lisbon"]);
    assert_eq!(talk.fact("Lisbon").await.evidence.quote, "location = Lisbon");
    assert!(visit.facts(None, None).await.is_empty());
    store.facts().facts_again(None).await.expect("asked for");
    understand(&store).await;
    assert_eq!(talk.active().await, ["location: Lisbon"], "there is nothing to learn it from again");
    assert_eq!(talk.delete().await, Some(0), "what was learned can still be removed");
    assert!(talk.facts(None, None).await.is_empty());
}

/// What a person writes down is sure, and stays when everything is understood anew.
pub async fn people_write_facts_down(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon").await;
    talk.note("location", "Faro", Act::Correct, 20).await;
    talk.note("diet", "vegan", Act::State, 20).await;
    store.facts().facts_again(None).await.expect("asked for");
    understand(&store).await;
    assert_eq!(talk.active().await, ["diet: vegan", "location: Faro"]);
    assert_eq!((talk.fact("Faro").await.confidence, talk.fact("Faro").await.evidence.message), (1.0, None));
    talk.note("location", "Faro", Act::End, 30).await;
    assert_eq!(talk.active().await, ["diet: vegan"]);
    talk.state(40, "location := Porto").await;
    assert_eq!(talk.active().await, ["diet: vegan", "location: Porto"]);
}

/// The last thing that happened to a fact can be undone: that it was learned, replaced, or taken back.
pub async fn a_fact_can_be_undone(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon").await;
    talk.state(20, "location := Porto").await;
    talk.state(30, "location = Porto").await;
    let (lisbon, porto) = (talk.fact("Lisbon").await.id, talk.fact("Porto").await.id);
    let first = undone(talk.undo_it(Undo::Fact(porto)).await);
    assert_eq!(talk.active().await, ["location: Lisbon"]);
    assert_eq!(undone(talk.undo_it(Undo::Fact(porto)).await), first, "undoing it again is undoing the undo");
    assert_eq!(talk.active().await, ["location: Porto ×2"]);
    undone(talk.undo_it(Undo::Fact(lisbon)).await);
    assert_eq!(talk.active().await, ["location: Lisbon"], "what took its place loses its say");
    talk.state(40, "location !").await;
    talk.state(50, "location !").await;
    assert!(talk.active().await.is_empty());
    undone(talk.undo_it(Undo::Fact(lisbon)).await);
    assert_eq!(talk.active().await, ["location: Lisbon"], "however often it was taken back");
    let unknown = FactId::from_uuid(*RandomIds.fact(at(0)).as_uuid());
    assert_eq!(talk.undo_it(Undo::Fact(unknown)).await, Undone::Unknown);
}

/// Whatever a message or a time brought can be undone at once, and that as well, as often as one likes.
pub async fn messages_and_times_can_be_undone(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon").await;
    let moved = talk.state(20, "location := Porto; name = Ann").await;
    let before = talk.facts(None, None).await;
    let undo = undone(talk.undo_it(Undo::Message(moved.message(0))).await);
    assert_eq!(talk.active().await, ["location: Lisbon"]);
    store.facts().facts_again(None).await.expect("asked for");
    understand(&store).await;
    assert_eq!(talk.active().await, ["location: Lisbon"], "understanding it anew does not bring it back");
    for expected in [&["location: Porto", "name: Ann"][..], &["location: Lisbon"], &["location: Porto", "name: Ann"]] {
        assert_eq!(undone(talk.undo_it(Undo::Undo(undo)).await), undo);
        assert_eq!(talk.active().await, expected);
    }
    assert_eq!(talk.facts(None, None).await, before);
    let range = Undo::Range { from: at(15), to: at(25) };
    let undo = undone(talk.undo_it(range).await);
    assert_eq!(talk.active().await, ["location: Lisbon"]);
    undone(talk.undo_it(Undo::Undo(undo)).await);
    assert_eq!(talk.facts(None, None).await, before);
    let nothing = Undo::Range { from: at(60), to: at(70) };
    assert_eq!(talk.undo_it(nothing).await, Undone::Nothing);
    assert_eq!(talk.undo_it(Undo::Message(RandomIds.turn(at(0)).message(0))).await, Undone::Unknown);
}

/// What was believed at a time can be asked; what is believed now is what was believed a moment ago.
pub async fn what_was_believed_can_be_asked(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let when = |fact: &Fact| fact.learned_at;
    assert!(talk.facts(Some(Status::Active), Some(Timestamp::now())).await.is_empty());
    talk.state(10, "location = Lisbon").await;
    let history = store.facts().fact_history(&talk.scope, talk.fact("Lisbon").await.id).await;
    let learned = history.expect("a look").expect("it is there").events[0].at;
    talk.state(20, "location := Porto; name = Ann").await;
    undone(talk.undo_it(Undo::Fact(talk.fact("Ann").await.id)).await);
    let then = talk.facts(Some(Status::Active), Some(learned)).await;
    assert_eq!(then.iter().map(told).collect::<Vec<_>>(), ["location: Lisbon"]);
    assert_eq!((then[0].valid_to, then[0].ended_by), (None, None));
    assert_eq!(talk.facts(Some(Status::Active), Some(learned - SignedDuration::from_micros(1))).await, []);
    let now = talk.facts(Some(Status::Active), None).await;
    let as_of_now = talk.facts(Some(Status::Active), Some(Timestamp::MAX)).await;
    assert_eq!((now.len(), now.iter().map(when).collect::<Vec<_>>()), (1, as_of_now.iter().map(when).collect()));
    assert_eq!(now, as_of_now);
}

/// A fact whose time is over holds no longer, whether or not that was noted; what it covered holds again.
pub async fn time_ends_facts(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon; diet = vegan until 50").await;
    talk.state(20, "location = Berlin until 4000000000").await;
    let held = async |second: i64| {
        let known = store.facts().facts_known(&talk.scope, at(second)).await.expect("a look");
        known.facts.iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(held(30).await, ["location: Berlin"], "the other was over when it was learned");
    assert_eq!(talk.fact("vegan").await.status, Status::Expired);
    assert_eq!(held(4_000_000_001).await, Vec::<String>::new());
    assert_eq!(store.facts().expire_facts(at(60), 10).await.expect("time passes"), 0);
    assert_eq!(store.facts().expire_facts(at(4_000_000_001), 10).await.expect("time passes"), 1);
    assert_eq!(held(4_000_000_001).await, ["location: Lisbon"]);
    let history = store.facts().fact_history(&talk.scope, talk.fact("Berlin").await.id).await.expect("a look");
    let last = history.expect("it is there").events.pop().expect("something happened");
    assert_eq!(last.cause, Cause::Time);
}

/// Nobody sees or undoes somebody else's facts, even under the same names.
pub async fn a_foreign_fact_is_as_good_as_unknown(store: Arc<dyn Store>) {
    let ann = Talk::new(&store);
    let (bob, other) = (ann.of("acme", "bob").another(), ann.of("globex", "ann").another());
    let turn = ann.state(10, "location = Lisbon").await;
    bob.state(20, "location = Porto").await;
    other.state(30, "location = Berlin").await;
    assert_eq!(ann.active().await, ["location: Lisbon"]);
    assert_eq!(bob.active().await, ["location: Porto"]);
    let fact = ann.fact("Lisbon").await.id;
    for stranger in [&bob, &other] {
        let facts = store.facts();
        assert_eq!(facts.fact_kept(&stranger.scope, fact).await.expect("a look"), None);
        assert_eq!(facts.fact_history(&stranger.scope, fact).await.expect("a look"), None);
        assert_eq!(stranger.undo_it(Undo::Fact(fact)).await, Undone::Unknown);
        assert_eq!(stranger.undo_it(Undo::Message(turn.message(0))).await, Undone::Unknown);
        assert_eq!(facts.outdated(&stranger.scope, &[turn.message(0)], at(90)).await.expect("a look"), vec![]);
    }
    let undo = undone(ann.undo_it(Undo::Fact(fact)).await);
    assert_eq!(bob.undo_it(Undo::Undo(undo)).await, Undone::Unknown);
    assert_eq!(bob.delete().await, Some(1));
    assert_eq!(other.active().await, ["location: Berlin"]);
}

/// A message that states what is no longer so is told apart, with what holds instead.
pub async fn outdated_messages_are_known(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let old = talk.state(10, "location = Lisbon; name = Ann").await.message(0);
    let new = talk.state(20, "location := Porto").await.message(0);
    let known = store.facts().facts_known(&talk.scope, at(90)).await.expect("a look");
    assert!(known.some_outdated && known.facts.len() == 2, "{known:?}");
    let between = async |from, to| {
        let found = store.facts().outdated_between(&talk.scope, talk.session, at(from), at(to), at(90)).await;
        found.expect("a look").len()
    };
    assert_eq!((between(0, 9).await, between(10, 20).await, between(11, 90).await), (0, 1, 0));
    let look = async |messages: &[MessageId]| {
        let found = store.facts().outdated(&talk.scope, messages, at(90)).await.expect("a look");
        let told = |found: Outdated| (found.message, found.was.value, found.is);
        found.into_iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(look(&[old, new]).await, [(old, "Lisbon".to_owned(), Some("Porto".to_owned()))]);
    talk.state(30, "location !").await;
    let gone = |message, value: &str| (message, value.to_owned(), None);
    assert_eq!(look(&[old, new]).await, [gone(old, "Lisbon"), gone(new, "Porto")]);
    talk.state(40, "location = Lisbon").await;
    assert_eq!(look(&[new]).await, [(new, "Porto".to_owned(), Some("Lisbon".to_owned()))]);
}

/// Whatever many write at once, one fact is active for a key, and nothing is lost.
pub async fn one_fact_is_active_whoever_writes(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let writers: Vec<_> = (0..64)
        .map(|n| {
            let talk = talk.another();
            tokio::spawn(async move {
                talk.state(n, &format!("location := City {n}; name = Ann")).await;
                talk.note("location", &format!("Town {n}"), Act::State, n).await;
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer ends well");
    }
    understand(&store).await;
    assert_eq!(talk.active().await, ["location: Town 63", "name: Ann ×64"]);
    let all = talk.facts(None, None).await;
    assert_eq!(all.iter().filter(|fact| fact.status == Status::Superseded).count(), 127);
}

/// What was no fact is counted by its reason, once for each message.
pub async fn what_was_no_fact_is_counted(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon").await;
    talk.state(20, "Where do I live?").await;
    let last = talk.state(30, "And now?").await;
    store.facts().facts_again(None).await.expect("asked for");
    understand(&store).await;
    let counts = store.facts().fact_counts(&talk.scope).await.expect("counts");
    assert_eq!(counts.refused, [("question".to_owned(), 2)]);
    assert_eq!((counts.with_status(Status::Active), counts.waiting), (1, 0));
    let other = store.facts().fact_counts(&talk.of("acme", "bob").scope).await.expect("counts");
    assert_eq!(other.refused, []);
    assert!(store.facts().fact_todo(9).await.expect("the list").is_empty());
    assert!(store.turn(&talk.scope, last).await.expect("a look").is_some());
}

/// Another understander makes all anew; the first one does not.
pub async fn another_understander_makes_all_anew(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.state(10, "location = Lisbon").await;
    assert_eq!(store.facts().facts_made_with("one").await.expect("noted"), 0);
    assert_eq!(store.facts().facts_made_with("one").await.expect("noted"), 0);
    assert_eq!(store.facts().facts_made_with("two").await.expect("noted"), 1);
}

/// What is repeated for ever is counted; the words of the first and the last are kept.
pub async fn repetitions_are_counted_and_bounded(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let told = STATEMENTS_MAX + 20;
    let drafts = |range: std::ops::Range<usize>| {
        let told = |second: usize| TurnDraft { created_at: Some(at(second as i64)), ..draft("name = Ann", "I see.") };
        range.map(told).collect::<Vec<_>>()
    };
    talk.add(drafts(0..told)).await;
    understand(&store).await;
    assert_eq!(talk.active().await, [format!("name: Ann ×{told}")]);
    talk.add(drafts(told..told + 1)).await;
    understand(&store).await;
    let fact = talk.fact("Ann").await;
    assert_eq!((fact.confirmations, fact.valid_from), (told as u64 + 1, at(0)));
    let history = store.facts().fact_history(&talk.scope, fact.id).await.expect("a look").expect("it is there");
    assert_eq!(history.evidence.len(), 1 + QUOTES_LAST);
    assert!(history.evidence.iter().all(|evidence| evidence.quote == "name = Ann"));
}

/// A user has so many facts at a time. What is known may still be said again, corrected and ended, which makes room.
pub async fn facts_are_bounded(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let pets = |range: std::ops::Range<usize>| {
        let said: Vec<String> = range.map(|number| format!("pet/p{number} = P{number}")).collect();
        TurnDraft { created_at: Some(at(10)), ..draft(&said.join(";"), "I see.") }
    };
    for first in (0..FACTS_MAX).step_by(500) {
        talk.add((first..first + 500).step_by(20).map(|from| pets(from..from + 20)).collect()).await;
        understand(&store).await;
    }
    let held = async || talk.facts(Some(Status::Active), None).await.len();
    assert_eq!(held().await, FACTS_MAX);
    talk.state(20, "pet/one-more = More").await;
    assert_eq!(held().await, FACTS_MAX, "one too many");
    talk.state(30, "pet/p7 := P7 the second").await;
    assert_eq!(talk.fact("P7 the second").await.status, Status::Active);
    talk.state(40, "pet/p8 !").await;
    assert_eq!(held().await, FACTS_MAX - 1);
    talk.state(50, "pet/one-more = More").await;
    assert_eq!(held().await, FACTS_MAX);
}

/// A memory model reads a session once, as far as it is answered, and what it notes stands beside what patterns found.
pub async fn a_memory_model_reads_on(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let turn = talk.state(10, "location = Lisbon").await;
    talk.state(20, "name = Ann").await;
    talk.ask("pet/rex = Rex").await;
    let unread = async |limit| store.facts().unread(&talk.scope, talk.session, limit).await.expect("a look");
    let first = unread(1).await.expect("the session is there");
    assert_eq!((first.from, first.turns.len(), first.more), (0, 1, true));
    let noted = |unread: &Unread, to: u64| {
        let as_model = |said: Statement| Statement { id: RandomIds.fact(at(0)), maker: Maker::Model, ..said };
        let understood = unread.turns.iter().map(|due| Understood {
            maker: Maker::Model,
            statements: read(due).into_iter().map(as_model).collect(),
            ..understood(due)
        });
        Effect::Learn(Box::new(Noted { from: unread.from, to, understood: understood.collect(), more: unread.more }))
    };
    let finish = async |effect: Effect| {
        store.jobs().enqueue(&talk.scope, talk.session, JobKind::LEARN).await.expect("asked for");
        let claim = store.jobs().claim(None, Timestamp::now(), SignedDuration::from_mins(5)).await.expect("a claim");
        store.jobs().finish(&claim.expect("a job"), effect).await.expect("it ends")
    };
    assert_eq!(finish(noted(&first, 1)).await, Finished::Again);
    assert_eq!(talk.active().await, ["location: Lisbon", "name: Ann"], "the same message counts once");
    assert_eq!(finish(noted(&first, 1)).await, Finished::Changed, "it was read already");
    let rest = unread(9).await.expect("the session is there");
    assert_eq!((rest.from, rest.turns.len(), rest.more), (1, 1, false), "one is being answered");
    assert_eq!(finish(noted(&rest, 2)).await, Finished::Done);
    let without = store.turn(&talk.scope, turn).await.expect("a look").is_some();
    assert!(without && unread(9).await.expect("the session is there").turns.is_empty());
    store.facts().facts_again(Some(&talk.scope)).await.expect("asked for");
    assert_eq!(unread(9).await.expect("the session is there").from, 0);
}
