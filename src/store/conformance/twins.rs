//! Two stores that go through the same history give the same answers.
//!
//! Not a promise of one store, so it is not in the list: whoever has a second backend calls it with one of each. Both stores
//! must be empty and have clocks that tell the same time.

use std::fmt::Debug;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Map;

use super::facts::understand;
use super::following::Dice;
use super::recall::{EMBEDDER, derived};
use super::talk::{assistant, at, scope, tool_call, tool_result, user};
use crate::id::{CountedIds, Ids, SessionId, TopicId, TurnId};
use crate::period::{Period, Ttl};
use crate::scope::Scope;
use crate::session::{
    AddedMessage, ClosedTurn, InTopic, OpenTurn, Placement, ReviseTurn, SessionPatch, SessionSeed, Shift, TurnDraft,
    TurnStatus,
};
use crate::store::{
    Effect, Expiry, PageRequest, RecallKept, SessionsAfter, Store, StoreError, Todo, TurnsAfter, WhichFacts,
    WhichTopics,
};

/// What is said; some of it states facts.
const WORDS: [&str; 6] =
    ["location = Lisbon", "location := Porto", "location !", "pet = Rex; tea = green", "and then?", "é\0ü"];

/// A random history of so many steps, the same for the same seed.
pub async fn two_stores_answer_alike(stores: [Arc<dyn Store>; 2], seed: u64, steps: usize) {
    let ids = CountedIds::default();
    let sessions: Vec<SessionId> = (0..2).map(|_| ids.session()).collect();
    let topics: Vec<TopicId> = (0..2).map(|_| ids.topic(at(0))).collect();
    let people = [scope("acme", "ann"), scope("acme", "bob"), scope("other", "ann")];
    let mut twins = Twins { stores, ids, sessions, topics, people: people.to_vec(), tries: Vec::new() };
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for step in 0..steps {
        twins.step(&mut dice).await;
        if step % 8 == 7 || step + 1 == steps {
            twins.look_around().await;
        }
    }
}

struct Twins {
    stores: [Arc<dyn Store>; 2],
    ids: CountedIds,
    sessions: Vec<SessionId>,
    topics: Vec<TopicId>,
    people: Vec<Scope>,
    /// Turns, where they are, and the tries at their answers.
    tries: Vec<(usize, SessionId, TurnId, u32)>,
}

/// An error without the words of the database.
fn kind<T>(answer: Result<T, StoreError>) -> Result<T, String> {
    answer.map_err(|error| format!("{error:?}").split(['(', ' ']).next().unwrap_or_default().to_owned())
}

impl Twins {
    /// Asks both the same thing.
    async fn both<T: Debug>(&self, what: &str, ask: impl AsyncFn(&Arc<dyn Store>) -> T) -> T {
        let (one, other) = (ask(&self.stores[0]).await, ask(&self.stores[1]).await);
        assert_eq!(format!("{one:#?}"), format!("{other:#?}"), "{what}");
        one
    }

    async fn step(&mut self, dice: &mut Dice) {
        match dice.below(16) {
            0..4 => self.open(dice).await,
            4..8 => self.close(dice).await,
            8 | 9 => self.revise(dice).await,
            10 => self.add(dice).await,
            11 => self.say(dice).await,
            12 => drop(self.both("understanding", async |store| understand(store).await.turns.len()).await),
            13 => self.derive(dice).await,
            14 => self.time_passes(dice).await,
            _ => self.people_act(dice).await,
        }
    }

    fn somewhere(&self, dice: &mut Dice) -> (usize, SessionId) {
        (dice.below(self.people.len()), self.sessions[dice.below(self.sessions.len())])
    }

    async fn open(&mut self, dice: &mut Dice) {
        let (who, session) = self.somewhere(dice);
        let id = self.ids.turn(at(0));
        let shift = if dice.once_in(3) { shift(dice) } else { Shift::default() };
        let open = OpenTurn {
            id,
            session,
            seed: SessionSeed::default(),
            question: user(WORDS[dice.below(WORDS.len())]),
            metadata: Map::new(),
            asked_at: None,
            place: Placement { shift, ..Placement::default() },
        };
        let scope = &self.people[who];
        self.both("opening", async |store| kind(store.open_turn(scope, open.clone()).await)).await.ok();
        self.tries.push((who, session, id, 0));
    }

    async fn close(&self, dice: &mut Dice) {
        let Some((who, session, id, attempt)) = dice.pick(&self.tries) else { return };
        let (status, messages) = match dice.below(6) {
            0 => (TurnStatus::Failed, Vec::new()),
            1 => (TurnStatus::Partial, vec![assistant("so f")]),
            2 => (TurnStatus::Pending, vec![tool_call()]),
            3 => (TurnStatus::Pending, vec![tool_result()]),
            _ => (TurnStatus::Complete, vec![assistant(&dice.below(100).to_string())]),
        };
        let topic = self.topics.get(dice.below(4)).map(|id| InTopic { id: *id, begins: Some("it".into()) });
        let others = if dice.once_in(4) { vec![assistant("or else")] } else { Vec::new() };
        let trace = dice.once_in(3).then(|| "{}".to_owned());
        let metadata = Map::new();
        let closed =
            ClosedTurn { id, session, status, messages, metadata, attempt, others, trace, topic, waits_since: None };
        let scope = &self.people[who];
        self.both("closing", async |store| kind(store.close_turn(scope, closed.clone()).await)).await.ok();
    }

    async fn revise(&mut self, dice: &mut Dice) {
        let Some((who, session, id, _)) = dice.pick(&self.tries) else { return };
        let shift = if dice.once_in(2) { shift(dice) } else { Shift::default() };
        let revise = ReviseTurn { id, session, ids: Default::default(), then: Vec::new(), shift };
        let scope = &self.people[who];
        let revised = self.both("revising", async |store| kind(store.revise_turn(scope, revise.clone()).await)).await;
        self.tries.extend(revised.ok().map(|revised| (who, session, id, revised.attempt)));
    }

    async fn add(&mut self, dice: &mut Dice) {
        let (who, session) = self.somewhere(dice);
        let drafts: Vec<TurnDraft> = (0..=dice.below(12))
            .map(|_| TurnDraft {
                id: self.ids.turn(at(0)),
                messages: vec![user(WORDS[dice.below(WORDS.len())]), assistant("noted")],
                metadata: Map::new(),
                created_at: dice.once_in(2).then(|| at(dice.below(100) as i64)),
            })
            .collect();
        let (scope, seed) = (&self.people[who], Some(SessionSeed::default()));
        let add =
            async |store: &Arc<dyn Store>| kind(store.add_turns(scope, session, seed.clone(), drafts.clone()).await);
        self.both("adding", add).await.ok();
        self.tries.extend(drafts.iter().map(|draft| (who, session, draft.id, 0)));
    }

    async fn say(&self, dice: &mut Dice) {
        let (who, session) = self.somewhere(dice);
        let from = dice.below(3);
        let messages = [user("loose?"), assistant("so"), tool_result()][from..=from.max(dice.below(3))].to_vec();
        let ids: Vec<TurnId> = messages.iter().map(|_| self.ids.turn(at(0))).collect();
        let messages: Vec<AddedMessage> =
            messages.into_iter().map(|message| AddedMessage { message, dated: false }).collect();
        let (scope, seed) = (&self.people[who], Some(SessionSeed::default()));
        let say = async |store: &Arc<dyn Store>| {
            kind(store.add_messages(scope, session, seed.clone(), messages.clone(), ids.clone()).await)
        };
        self.both("saying", say).await.ok();
    }

    /// Makes rows of all that waits. Which tenant's come first is each store's own business.
    async fn derive(&self, dice: &mut Dice) {
        let again = dice.once_in(4);
        let derive = async |store: &Arc<dyn Store>| {
            let due = store.recall_todo(Todo::Row, 1_000).await.expect("the list");
            store.keep_recall_rows(due.iter().map(derived).collect()).await.expect("rows are kept");
            let listed = if again { store.recall_again(Todo::Row).await.expect("listed") } else { 0 };
            (due.len(), listed)
        };
        self.both("deriving", derive).await;
    }

    async fn time_passes(&self, dice: &mut Dice) {
        let expiry =
            Expiry { now: at(dice.below(100) as i64), server_ttl: Ttl::of(Period::seconds(5)), turns_max: 1_000 };
        match dice.below(4) {
            0 => drop(self.both("expiry", async |store| kind(store.expire(expiry).await)).await),
            1 => drop(self.both("tools", async |store| kind(store.give_up_on_tools(Timestamp::MAX).await)).await),
            2 => drop(self.both("failing", async |store| kind(store.fail_abandoned().await)).await),
            _ => self.work().await,
        }
    }

    /// Claims all jobs and ends them without an effect.
    async fn work(&self) {
        let work = async |store: &Arc<dyn Store>| {
            let mut done = Vec::new();
            while let Some(claim) =
                store.jobs().claim(None, Timestamp::MAX, SignedDuration::from_secs(60)).await.expect("a look")
            {
                let ended = store.jobs().finish(&claim, Effect::Nothing).await.expect("ended");
                done.push(format!("{:?} {:?} {:?} {ended:?}", claim.scope, claim.job.session, claim.job.kind));
            }
            done.sort();
            done
        };
        self.both("working", work).await;
    }

    async fn people_act(&self, dice: &mut Dice) {
        let (who, session) = self.somewhere(dice);
        let scope = &self.people[who];
        if dice.once_in(3) {
            self.both("deleting", async |store| kind(store.delete_session(scope, session).await)).await.ok();
            return;
        }
        let ttl = Some(Ttl::of(Period::seconds(1 + dice.below(60) as u64)));
        let patch = SessionPatch { ttl, ..SessionPatch::default() };
        self.both("changing", async |store| kind(store.update_session(scope, session, patch.clone()).await)).await.ok();
    }

    /// Everything that can be read is the same.
    async fn look_around(&self) {
        for scope in &self.people {
            self.look_at(scope).await;
            for session in &self.sessions {
                self.look_into(scope, *session).await;
            }
        }
        self.both("jobs", async |store| store.jobs().counts(None).await.expect("counts")).await;
        self.both("blocks", async |store| store.archive().archived().await.expect("a size")).await;
    }

    async fn look_at(&self, scope: &Scope) {
        let page = PageRequest::first(50);
        // When a look is written down is each store's own business.
        let sessions = async |store: &Arc<dyn Store>| {
            let mut sessions = store.sessions(scope, page).await.expect("sessions").items;
            sessions.iter_mut().for_each(|session| session.last_accessed = session.created_at);
            sessions
        };
        self.both("sessions", sessions).await;
        let which = WhichTopics { limit: 50, forgotten: true, ..WhichTopics::default() };
        let topics = async |store: &Arc<dyn Store>| {
            store.topics().topics_kept(scope, which.clone()).await.expect("topics").items
        };
        self.both("topics", topics).await;
        let which = WhichFacts { page, status: None, now: at(50), as_of: None };
        let facts =
            async |store: &Arc<dyn Store>| store.facts().facts_kept(scope, which.clone()).await.expect("facts").items;
        for fact in self.both("facts", facts).await {
            let history =
                async |store: &Arc<dyn Store>| store.facts().fact_history(scope, fact.id).await.expect("a history");
            self.both("history", history).await;
        }
        self.both("known", async |store| store.facts().facts_known(scope, at(50)).await.expect("facts")).await;
        self.both("entries", async |store| entries(store, scope).await).await;
    }

    async fn look_into(&self, scope: &Scope, session: SessionId) {
        let page = PageRequest { superseded: true, ..PageRequest::first(50) };
        self.both("turns", async |store| {
            store.turns(scope, session, page).await.expect("turns").map(|page| (page.items, page.next))
        })
        .await;
        self.both("held", async |store| store.held(scope, session, 100).await.expect("outlines")).await;
        self.both("last", async |store| {
            let recent = store.last_turns(scope, session, 10).await.expect("the end");
            (recent.turns, recent.damaged.len())
        })
        .await;
        let sessions = SessionsAfter { after: None, since: None, live: true, only: Some(session), limit: 9 };
        let session_records = async |store: &Arc<dyn Store>| {
            let mut records =
                store.takeout().session_records(scope, sessions).await.expect("records").unwrap_or_default();
            records.iter_mut().for_each(|record| record.last_accessed = record.created_at);
            records
        };
        self.both("session", session_records).await;
        let turns = TurnsAfter { after: 0, since: None, limit: 1_000, bytes: usize::MAX };
        self.both("records", async |store| {
            store.takeout().turn_records(scope, session, turns).await.expect("records").turns
        })
        .await;
    }
}

/// What recall would hold, in the order it was stored.
async fn entries(store: &Arc<dyn Store>, scope: &Scope) -> Vec<String> {
    let page = store.recall_entries(scope, EMBEDDER, None, 10_000).await.expect("a page");
    let mut entries = page.entries;
    entries.sort_by_key(|entry| entry.order);
    let told = entries.iter().map(|entry| {
        let kept = match &entry.kept {
            RecallKept::Row { row, vectors } => format!("{row:?} {vectors:?}"),
            RecallKept::Turn(turn) => format!("{turn:?}"),
        };
        format!("{:?} {:?} {} {kept}", entry.turn, entry.session, entry.number)
    });
    told.collect()
}

fn shift(dice: &mut Dice) -> Shift {
    let mut numbers = |times| -> Vec<u64> {
        if dice.once_in(times) { (0..2).map(|_| 1 + dice.below(12) as u64).collect() } else { Vec::new() }
    };
    let (hide, show, tried) = (numbers(2), numbers(2), numbers(3));
    let activate = tried.into_iter().map(|number| (number, dice.below(3) as u32)).collect();
    Shift { hide, show, activate, mode: None }
}
