//! A memory as records: what is handed out can be taken in again, once, and is what it was.

use std::sync::Arc;

use super::Talk;
use super::talk::{assistant, at, object, tool_call, tool_result, user};
use crate::episode::{Episode, Level, Meaning};
use crate::id::{EpisodeId, Ids, RandomIds, TurnId};
use crate::period::{Period, Ttl};
use crate::scope::Scope;
use crate::session::{ClientIds, ClosedTurn, InTopic, OpenTurn, Placement, ReviseTurn, SessionSeed, Shift, TurnStatus};
use crate::store::{
    Arrival, EpisodesAfter, SessionsAfter, Store, StoreError, TakenIn, TopicPatch, TopicsAfter, TurnsAfter,
};
use crate::takeout::{EpisodeRecord, SessionRecord, TopicRecord, TurnRecord};

const ALL: usize = 1_000;

/// Everything that is kept of somebody.
#[derive(Debug, Clone, PartialEq, Default)]
struct Kept {
    topics: Vec<TopicRecord>,
    sessions: Vec<(SessionRecord, Vec<EpisodeRecord>, Vec<TurnRecord>)>,
}

async fn kept(store: &Arc<dyn Store>, scope: &Scope) -> Kept {
    let takeout = store.takeout();
    let which = TopicsAfter { limit: ALL, ..TopicsAfter::default() };
    let topics = takeout.topic_records(scope, which).await.expect("topics are read").expect("from the start");
    let which = SessionsAfter { limit: ALL, live: true, ..SessionsAfter::default() };
    let found = takeout.session_records(scope, which).await.expect("sessions are read").expect("from the start");
    let mut sessions = Vec::new();
    for session in found {
        let which = EpisodesAfter { session: Some(session.id), limit: ALL, ..EpisodesAfter::default() };
        let episodes = takeout.episode_records(scope, which).await.expect("episodes are read").expect("from the start");
        let (mut turns, mut which) = (Vec::new(), TurnsAfter { limit: 2, bytes: ALL, ..TurnsAfter::default() });
        loop {
            let page = takeout.turn_records(scope, session.id, which).await.expect("turns are read");
            turns.extend(page.turns.into_iter().map(|turn| turn.expect("whole")));
            let Some(next) = page.next else { break };
            which.after = next;
        }
        sessions.push((session, episodes, turns));
    }
    Kept { topics, sessions }
}

async fn take_in(store: &Arc<dyn Store>, scope: &Scope, kept: &Kept, dry: bool) -> TakenIn {
    let mut total = TakenIn::default();
    store.takeout().take_in_topics(scope, kept.topics.clone(), dry).await.expect("topics are taken in");
    for (session, episodes, turns) in kept.sessions.clone() {
        let taken = store.takeout().take_in(scope, Arrival { session, episodes, turns }, dry).await;
        let taken = taken.expect("a conversation is taken in");
        total.turns += taken.turns;
        total.messages += taken.messages;
        total.known += taken.known;
        total.completed += taken.completed;
        total.episodes += taken.episodes;
    }
    total
}

/// A memory with everything in it: an edit, other answers, tool rounds, topics, and a conversation of its own kind.
async fn lived(store: &Arc<dyn Store>) -> Talk {
    let talk = Talk::new(store);
    let seed = SessionSeed { metadata: object(serde_json::json!({"title": "é"})), ..SessionSeed::default() };
    talk.create(seed).await;
    let topic = InTopic { id: RandomIds.topic(at(0)), begins: Some("first?".into()) };
    let first = talk.ask("first?").await;
    let ending = talk.ending(first, TurnStatus::Complete, vec![tool_call(), tool_result(), assistant("so")]);
    talk.try_close(ClosedTurn { topic: Some(topic.clone()), ..ending }).await.expect("ended");
    let revise = ReviseTurn {
        id: first,
        session: talk.session,
        ids: ClientIds { question: Some("q1".into()), ..ClientIds::default() },
        then: Vec::new(),
        shift: Shift::default(),
    };
    let attempt = talk.store.revise_turn(&talk.scope, revise).await.expect("another try").attempt;
    let ending = talk.ending(first, TurnStatus::Complete, vec![assistant("or so")]);
    talk.try_close(ClosedTurn { attempt, ..ending }).await.expect("ended");
    talk.exchange("second", "yes").await;
    let shift = Shift { hide: vec![2], ..Shift::default() };
    let place = Placement { parent: Some(1), shift, ..Placement::default() };
    let edited = OpenTurn { place, ..talk.question("second, edited 🌱") };
    let id = edited.id;
    talk.open(edited).await;
    let ending = talk.ending(id, TurnStatus::Complete, vec![assistant("no")]);
    talk.try_close(ClosedTurn { topic: Some(InTopic { begins: None, ..topic.clone() }), ..ending })
        .await
        .expect("ended");
    let failed = talk.ask("third").await;
    talk.try_close(talk.ending(failed, TurnStatus::Failed, Vec::new())).await.expect("ended");
    let patch = TopicPatch { tags: Some(vec!["a".into()]), ..TopicPatch::default() };
    talk.store.topics().change_topic(&talk.scope, topic.id, patch).await.expect("changed");
    let other = talk.another();
    other.create(SessionSeed { ttl: Some(Ttl::of(Period::hours(24))), ..SessionSeed::default() }).await;
    other.exchange("elsewhere", "there").await;
    talk
}

/// Somebody else who is given all of it has the same, down to branches, tries, topics and dates.
pub async fn records_come_back_as_they_were(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let (ben, before) = (talk.of("acme", "ben").scope, kept(&store, &talk.scope).await);
    let taken = take_in(&store, &ben, &before, false).await;
    assert_eq!((taken.turns, taken.known), (5, 0));
    let after = kept(&store, &ben).await;
    assert_eq!(after, before);
    let shown = |talk: Talk| async move { talk.turns().await.iter().map(|turn| turn.number).collect::<Vec<_>>() };
    assert_eq!(shown(talk.of("acme", "ben")).await, shown(talk.clone()).await, "the same branch is shown");
    let next = talk.of("acme", "ben").exchange("and?", "on").await;
    let turn = store.turn(&ben, next).await.expect("a look").expect("the turn");
    assert_eq!(turn.number, 5, "numbers go on");
    // That somebody looked is noted, sooner or later.
    let seen = |mut kept: Kept| {
        kept.sessions.iter_mut().for_each(|(session, ..)| session.last_accessed = session.created_at);
        kept
    };
    assert_eq!(seen(kept(&store, &talk.scope).await), seen(before), "nothing happened to the other");
}

/// The same records again are known.
pub async fn taking_in_twice_changes_nothing(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let (ben, before) = (talk.of("acme", "ben").scope, kept(&store, &talk.scope).await);
    take_in(&store, &ben, &before, false).await;
    // What happened since is not undone by an older file.
    let shift = Shift { hide: vec![3], show: vec![2], ..Shift::default() };
    let theirs = talk.of("acme", "ben");
    theirs.open(OpenTurn { place: Placement { shift, ..Placement::default() }, ..theirs.question("more") }).await;
    let now = kept(&store, &ben).await;
    let again = take_in(&store, &ben, &before, false).await;
    assert_eq!((again.turns, again.known, again.completed), (0, 5, 0));
    assert_eq!(kept(&store, &ben).await, now);
}

/// A look counts what would be new.
pub async fn a_dry_look_counts_and_writes_nothing(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let (ben, before) = (talk.of("acme", "ben").scope, kept(&store, &talk.scope).await);
    let dry = take_in(&store, &ben, &before, true).await;
    assert_eq!(kept(&store, &ben).await, Kept::default());
    assert_eq!(dry, take_in(&store, &ben, &before, false).await);
}

/// A conversation arrives whole or not at all.
pub async fn one_bad_record_spoils_its_arrival_and_nothing_else(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let (ben, mut before) = (talk.of("acme", "ben").scope, kept(&store, &talk.scope).await);
    let (session, episodes, mut turns) = before.sessions.remove(0);
    turns[1].messages[0].text = "  ".into();
    let refused = store.takeout().take_in(&ben, Arrival { session, episodes, turns }, false).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(kept(&store, &ben).await, Kept::default());
}

/// Parts of a conversation come to what it would have been at once.
pub async fn what_arrives_later_goes_on_where_it_was(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let (ben, before) = (talk.of("acme", "ben").scope, kept(&store, &talk.scope).await);
    store.takeout().take_in_topics(&ben, before.topics.clone(), false).await.expect("taken in");
    for (session, episodes, turns) in before.sessions.clone() {
        let parts = std::iter::once(Vec::new()).chain(turns.chunks(1).map(<[TurnRecord]>::to_vec));
        for turns in parts {
            let arrival = Arrival { session: session.clone(), episodes: episodes.clone(), turns };
            store.takeout().take_in(&ben, arrival, false).await.expect("taken in");
        }
    }
    assert_eq!(kept(&store, &ben).await, before);
}

/// What was exported before its answer came is completed by a later file.
pub async fn a_late_answer_finds_its_question(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.say(vec![user("hm?")]).await.expect("added");
    let early = kept(&store, &talk.scope).await;
    let ben = talk.of("acme", "ben");
    take_in(&store, &ben.scope, &early, false).await;
    talk.say(vec![assistant("ah")]).await.expect("added");
    let late = kept(&store, &talk.scope).await;
    let taken = take_in(&store, &ben.scope, &late, false).await;
    assert_eq!((taken.completed, taken.turns), (1, 0));
    let turns = ben.turns().await;
    assert_eq!((turns.len(), turns[0].status), (1, TurnStatus::Complete));
}

fn told(talk: &Talk, level: Level, first: u64, last: u64) -> EpisodeRecord {
    let episode = Episode {
        id: EpisodeId::beginning(talk.session, level.as_str(), first, at(0)),
        session: talk.session,
        level,
        first,
        last,
        weight: 1,
        from: at(1),
        to: at(2),
        summary: "told".into(),
        vector: Some(Meaning { embedder: "e".into(), values: vec![0.5, -1.0] }),
        made_by: "test".into(),
        version: 3,
    };
    EpisodeRecord { episode, stale: false, gone: false }
}

/// Episodes come along, unless something here tells of the same turns.
pub async fn episodes_are_taken_in_where_nothing_is_told(store: Arc<dyn Store>) {
    let talk = lived(&store).await;
    let ben = talk.of("acme", "ben");
    let mut before = kept(&store, &talk.scope).await;
    let (session, _, turns) = before.sessions.remove(0);
    let arrive = |episodes: Vec<EpisodeRecord>| {
        let arrival = Arrival { session: session.clone(), episodes, turns: turns.clone() };
        let (store, scope) = (Arc::clone(&store), ben.scope.clone());
        async move { store.takeout().take_in(&scope, arrival, false).await.expect("taken in").episodes }
    };
    let first = vec![told(&talk, Level::Stretch, 1, 2), told(&talk, Level::Hour, 1, 2)];
    assert_eq!(arrive(first.clone()).await, 2);
    assert_eq!(arrive(vec![told(&talk, Level::Stretch, 2, 3), told(&talk, Level::Stretch, 4, 4)]).await, 0);
    assert_eq!(arrive(vec![told(&talk, Level::Stretch, 3, 3)]).await, 1, "it goes on where the last one ends");
    let which = EpisodesAfter { session: Some(talk.session), limit: ALL, ..EpisodesAfter::default() };
    let found = store.takeout().episode_records(&ben.scope, which).await.expect("read").expect("from the start");
    assert_eq!(found[..2], first);
    let gone: Vec<EpisodeRecord> =
        [told(&talk.another(), Level::Stretch, 1, 9)].map(|told| EpisodeRecord { gone: true, ..told }).to_vec();
    for expected in [1, 0] {
        let taken = store.takeout().take_in_gone(&ben.scope, gone.clone(), false).await.expect("taken in");
        assert_eq!(taken, expected);
    }
    let which = EpisodesAfter { limit: ALL, ..EpisodesAfter::default() };
    assert_eq!(store.takeout().episode_records(&ben.scope, which).await.expect("read"), Some(gone));
}

/// Every user of a tenant is found, and nobody else.
pub async fn users_are_found_by_name(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for (tenant, user) in [("acme", "zoë"), ("acme", "ann"), ("other", "ben"), ("acme", "carl")] {
        talk.of(tenant, user).exchange("hello", "hi").await;
    }
    let (mut found, mut last) = (Vec::new(), None);
    while let Some(scope) = store.takeout().next_user(talk.scope.tenant(), last.as_ref()).await.expect("a look") {
        found.push(scope.user().to_string());
        last = Some(scope.user().clone());
    }
    assert_eq!(found, ["ann", "carl", "zoë"]);
    let nobody = TurnId::imported(at(0), talk.session, "x");
    assert!(store.turn(&talk.scope, nobody).await.expect("a look").is_none());
}
