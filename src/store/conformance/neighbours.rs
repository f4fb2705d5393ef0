//! A tenant that does everything a tenant can do, beside another one.
//!
//! Not a promise of one store, so it is not in the list: whoever can make a store forget to say whose rows it means calls it. The
//! names of people, sessions and documents are the same for all tenants; whatever is told must be so as if there were no other.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Map;

use super::facts::understand;
use super::recall::{EMBEDDER, derived};
use super::talk::{assistant, at, scope, user};
use crate::id::{CountedIds, DocumentId, Ids, SessionId, TopicId, TurnId};
use crate::knowledge::{Kind, Passage};
use crate::period::{Period, Ttl};
use crate::scope::{Scope, TenantScope};
use crate::session::{
    ClosedTurn, Fingerprint, InTopic, OpenTurn, Placement, ReviseTurn, SessionPatch, SessionSeed, Shift, TurnDraft,
    TurnStatus,
};
use crate::store::{
    DaySpent, Erasure, FactsFrom, Faded, KnowledgeBounds, NewDocument, PageRequest, SessionsAfter, Store, Todo,
    TopicsAfter, Trail, TurnsAfter, WhichFacts, WhichTopics,
};
use crate::takeout::FactRecord;

/// A tenant, and what it calls its things.
pub struct Neighbour {
    store: Arc<dyn Store>,
    scope: Scope,
    tenant: TenantScope,
    sessions: [SessionId; 2],
    topic: TopicId,
    turns: [TurnId; 3],
    document: DocumentId,
    told: Vec<String>,
}

impl Neighbour {
    /// A tenant that has done nothing yet.
    pub fn new(store: &Arc<dyn Store>, tenant: &str) -> Self {
        let (ids, scope) = (CountedIds::default(), scope(tenant, "ann"));
        Self {
            store: Arc::clone(store),
            tenant: scope.shared(),
            scope,
            sessions: [ids.session(), ids.session()],
            topic: ids.topic(at(0)),
            turns: [ids.turn(at(0)), ids.turn(at(0)), ids.turn(at(0))],
            document: ids.document(),
            told: Vec::new(),
        }
    }

    fn tell(&mut self, what: &str, answer: impl Debug) {
        let answer = format!("{what}: {answer:#?}");
        self.told.push(without_times(&without_ids(&answer.replace(self.scope.tenant().as_str(), "<tenant>"))));
    }

    /// What it was told since it was asked last.
    pub fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// Talks, learns and knows something.
    pub async fn settle_in(&mut self) {
        let store = Arc::clone(&self.store);
        let (scope, [session, other], [first, ..]) = (self.scope.clone(), self.sessions, self.turns);
        self.tell("create", store.create_session(&scope, other, SessionSeed::default()).await);
        let open = OpenTurn {
            id: first,
            session,
            seed: SessionSeed::default(),
            question: user("location = Lisbon"),
            metadata: Map::new(),
            asked_at: None,
            place: Placement::default(),
        };
        self.tell("open", store.open_turn(&scope, open).await);
        let closed = ClosedTurn {
            id: first,
            session,
            status: TurnStatus::Complete,
            messages: vec![assistant("so")],
            metadata: Map::new(),
            attempt: 0,
            others: vec![assistant("or so")],
            trace: Some("{}".into()),
            topic: Some(InTopic { id: self.topic, begins: Some("it".into()) }),
            waits_since: None,
        };
        self.tell("close", store.close_turn(&scope, closed).await);
        let drafts = [(self.turns[1], "location := Porto"), (self.turns[2], "pet = Rex")].map(|(id, text)| TurnDraft {
            id,
            messages: vec![user(text), assistant("noted")],
            metadata: Map::new(),
            created_at: None,
        });
        self.tell("add", store.add_turns(&scope, other, None, drafts.to_vec()).await);
        let passage = |number| Passage {
            number,
            heading: "Lamps".into(),
            place: "page 1".into(),
            text: format!("{number} lamps"),
            tokens: 3,
        };
        let document = NewDocument {
            id: self.document,
            name: "lamps.md".into(),
            title: "Lamps".into(),
            kind: Kind::Markdown,
            original: b"lamps".to_vec(),
            passages: vec![passage(1), passage(2)],
            vectors: None,
        };
        let kept = store.knowledge().keep(&self.tenant, vec![document], KnowledgeBounds::default()).await;
        self.tell("document", kept);
        let spent = DaySpent { calls: 1, tokens: 2, ..DaySpent::default() };
        self.tell("spend", store.ledger().spend(&scope, 7, spent).await);
        let learned = understand(&store).await;
        self.tell("understood", learned.turns.len());
        let due = store.recall_todo(Todo::Row, 100).await.expect("the list");
        store.keep_recall_rows(due.iter().map(derived).collect()).await.expect("rows are kept");
        let due = store.knowledge().to_embed(EMBEDDER, 100).await.expect("passages");
        let vectors = due.into_iter().map(|due| (due, vec![0.5; 4])).collect();
        store.knowledge().keep_vectors(EMBEDDER, vectors).await.expect("vectors are kept");
    }

    /// Looks at everything that can be looked at.
    pub async fn look_around(&mut self) {
        self.look_at_talk().await;
        self.look_at_what_follows().await;
        self.look_at_knowledge().await;
    }

    async fn look_at_talk(&mut self) {
        let (store, scope, page) = (Arc::clone(&self.store), self.scope.clone(), PageRequest::first(50));
        self.tell("sessions", store.sessions(&scope, page).await.map(|page| page.items.len()));
        self.tell("stats", store.stats(&scope).await.map(|stats| (stats.sessions, stats.turns)));
        for session in self.sessions {
            self.tell("turns", store.turns(&scope, session, page).await.map(|page| page.map(|page| page.items)));
            self.tell("held", store.held(&scope, session, 9).await);
            self.tell("last", store.last_turns(&scope, session, 9).await.map(|recent| recent.turns));
            let after = TurnsAfter { after: 0, since: None, limit: 9, bytes: usize::MAX };
            let records = store.takeout().turn_records(&scope, session, after).await;
            self.tell("records", records.map(|records| records.turns));
            let only = SessionsAfter { after: None, since: None, live: true, only: Some(session), limit: 9 };
            let records = store.takeout().session_records(&scope, only).await;
            self.tell("session records", records.map(|records| records.map(|records| records.len())));
        }
        for turn in self.turns {
            self.tell("turn", store.turn(&scope, turn).await);
            self.tell("revisions", store.revisions(&scope, turn).await);
            self.tell("trace", store.trace(&scope, turn).await);
        }
        self.tell("by id", store.turns_by_id(&scope, &self.turns).await);
        let beginning = Fingerprint::beginning(scope.tenant().as_str(), scope.user().as_str());
        let question = Fingerprint::of(&user("location = Lisbon"));
        let trail = Trail { chain: beginning, question, calls: Vec::new(), tail: None };
        self.tell("match", store.match_history(&scope, trail).await);
        let entries = store.recall_entries(&scope, EMBEDDER, None, 100).await;
        self.tell("entries", entries.map(|page| page.entries.iter().map(|entry| entry.turn).collect::<Vec<_>>()));
        self.tell("changes", store.recall_changes(&scope, None, EMBEDDER).await);
        self.tell("next user", store.takeout().next_user(scope.tenant(), None).await);
    }

    async fn look_at_what_follows(&mut self) {
        let (store, scope, page) = (Arc::clone(&self.store), self.scope.clone(), PageRequest::first(50));
        let which = WhichTopics { limit: 50, forgotten: true, ..WhichTopics::default() };
        self.tell("topics", store.topics().topics_kept(&scope, which).await.map(|page| page.items));
        self.tell("topic", store.topics().topic_kept(&scope, self.topic).await);
        self.tell("topics of", store.topics().topics_of(&scope, &self.turns).await);
        self.tell("last of topic", store.topics().last_topic_turns(&scope, self.topic, 9).await);
        let all = TopicsAfter { after: None, session: None, since: None, limit: 9 };
        let records = store.takeout().topic_records(&scope, all).await;
        self.tell("topic records", records.map(|records| records.map(|records| records.len())));
        for from in [FactsFrom::START, FactsFrom::Unsaid(None), FactsFrom::Names(None)] {
            let part = store.takeout().fact_records(&scope, from, None, 50).await;
            self.tell("fact records", part.map(|part| part.records.iter().map(outlined).collect::<Vec<_>>()));
        }
        let which = WhichFacts { page, status: None, now: at(50), as_of: None };
        let facts = store.facts().facts_kept(&scope, which).await.map(|page| page.items);
        for fact in facts.iter().flatten() {
            self.tell("fact", store.facts().fact_kept(&scope, fact.id).await);
            self.tell("history", store.facts().fact_history(&scope, fact.id).await.map(|found| found.is_some()));
        }
        self.tell("facts", facts);
        self.tell("known", store.facts().facts_known(&scope, at(50)).await);
        self.tell("counts", store.facts().fact_counts(&scope).await);
        self.tell("episodes", store.episodes().list(&scope, None, page).await.map(|page| page.items));
        self.tell("recallable", store.episodes().recallable(&scope, page).await.map(|page| page.items));
        self.tell("jobs", store.jobs().counts(Some(&scope)).await);
        self.tell("spent", store.ledger().spent_on(&scope, 7).await);
        self.tell("unused", store.ledger().unused(&scope, page).await.map(|page| page.items));
        self.tell("usage", store.tenants().usage(scope.tenant(), true).await);
    }

    async fn look_at_knowledge(&mut self) {
        let (store, tenant, page) = (Arc::clone(&self.store), self.tenant.clone(), PageRequest::first(50));
        let knowledge = store.knowledge();
        self.tell("outline", knowledge.outline(&tenant).await);
        self.tell("version", knowledge.version(&tenant).await);
        self.tell("documents", knowledge.documents(&tenant, page).await.map(|page| page.items));
        self.tell("document", knowledge.document(&tenant, self.document).await);
        self.tell("original", knowledge.original(&tenant, self.document).await);
        self.tell("held", knowledge.held_document(&tenant, self.document, EMBEDDER).await);
        let passages = knowledge.passages(&tenant, self.document, page).await;
        self.tell("passages", passages.map(|page| page.map(|page| page.items)));
        self.tell("by number", knowledge.passages_by_number(&tenant, &[(self.document, 1)]).await);
    }

    /// Changes and removes what it has, one thing after the other, and then itself.
    pub async fn leave(&mut self) {
        let store = Arc::clone(&self.store);
        let (scope, [session, other], [first, ..]) = (self.scope.clone(), self.sessions, self.turns);
        let patch = SessionPatch { ttl: Some(Ttl::of(Period::seconds(60))), ..SessionPatch::default() };
        self.tell("ttl", store.update_session(&scope, other, patch).await.map(|found| found.is_some()));
        let revise =
            ReviseTurn { id: first, session, ids: Default::default(), then: Vec::new(), shift: Shift::default() };
        self.tell("revise", store.revise_turn(&scope, revise).await);
        let kept = store.topics().topic_kept(&scope, self.topic).await.ok().flatten();
        let faded = kept.map(|kept| Faded { id: self.topic, last_used: kept.topic.last_used });
        self.tell("forget", store.topics().forget_topics(&scope, faded.as_slice(), at(60)).await);
        self.tell("remove", store.knowledge().remove(&self.tenant, self.document).await);
        self.look_around().await;
        self.tell("delete", store.delete_session(&scope, session).await);
        self.look_around().await;
        let erased = store.erasures().erase(Erasure::Tenant(scope.tenant().clone())).await;
        self.tell("erase", erased.map(|receipt| receipt.map(|receipt| receipt.counts)));
        self.look_around().await;
    }
}

/// Ids are made of times and of who is told: what is compared is what they stand for.
fn without_ids(told: &str) -> String {
    let is_of_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    let pieces = told.split_inclusive(|c: char| !is_of_id(c)).map(|piece| {
        let word = piece.trim_end_matches(|c| !is_of_id(c));
        let is_id = word.len() == 36 && word.matches('-').count() == 4;
        if is_id { piece.replace(word, "<id>") } else { piece.to_owned() }
    });
    pieces.collect()
}

/// Clocks go on while others act: microseconds, and versions that are made of them, are left out.
fn without_times(told: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut left, mut rest) = (String::new(), told);
    while let Some(at) = rest.find(is_digit) {
        let length = rest[at..].find(|c| !is_digit(c)).unwrap_or(rest.len() - at);
        let is_time = length == 6 || length > 12;
        left.push_str(&rest[..at]);
        left.push_str(if is_time { "#" } else { &rest[at..at + length] });
        rest = &rest[at + length..];
    }
    left + rest
}

/// A record without its times: they are not the same in two lives.
fn outlined(record: &FactRecord) -> String {
    match record {
        FactRecord::Undo(undo) => format!("undid {}", undo.what.len()),
        FactRecord::Unsaid(_) => "unsaid".to_owned(),
        FactRecord::Known(known) => {
            let said: Vec<&str> = known.statements.iter().map(|(said, _)| said.value.as_str()).collect();
            let held: Vec<&str> = known.facts.iter().map(|(fact, _)| fact.value.as_str()).collect();
            format!("{}: said {said:?}, held {held:?}, {} events", known.name, known.events.len())
        }
    }
}
