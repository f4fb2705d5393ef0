//! What is said, by whom, and every place where it ends up: messages, names, metadata, other answers, explanations, archives, summaries,
//! topics, facts, files, what a tenant learned, jobs, webhooks, and answers of a memory model that were no use.

use std::sync::Arc;
use std::time::Duration;

use recalld::clock::{Clock, SystemClock};
use recalld::episode::{EpisodeSettings, Window};
use recalld::id::{Ids, RandomIds, SessionId, TurnId};
use recalld::job::JobKind;
use recalld::knowledge::{Kind, Passage, said_in_chat};
use recalld::memory::{Memory, MemorySettings, Parts};
use recalld::message::{Message, Role};
use recalld::model::relay::InProcess;
use recalld::model::scripted::Scripted;
use recalld::scope::{Scope, Tenant, TenantScope, User};
use recalld::session::{ClosedTurn, OpenTurn, ReviseTurn, SessionSeed, TurnDraft, TurnStatus};
use recalld::store::{DaySpent, Effect, Erasure, KnowledgeBounds, NewDocument, Parcel, Store, UnusedAnswer};
use serde_json::{Map, Value, json};

/// Small windows, so that short conversations are told, too.
pub(super) fn windows() -> EpisodeSettings {
    let usual = EpisodeSettings::default();
    EpisodeSettings { durable: Window { at: 4, keep: 1, stretch: 2 }, ..usual }
}

pub(super) fn memory_over(store: Arc<dyn Store>) -> Held {
    let (clock, model): (Arc<dyn Clock>, _) = (Arc::new(SystemClock::default()), Arc::new(Scripted::default()));
    let upstream = Arc::new(InProcess(Arc::clone(&model) as _));
    let parts = Parts { model, upstream, ..Parts::builtin(Arc::clone(&store), clock) };
    let settings = MemorySettings { episodes: windows(), ..MemorySettings::default() };
    Held { memory: Memory::new(parts, settings), store }
}

/// A memory, and the store below it.
pub(super) struct Held {
    memory: Memory,
    pub(super) store: Arc<dyn Store>,
}

impl std::ops::Deref for Held {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

pub(super) async fn close(held: Held) {
    held.memory.close(Duration::from_secs(5)).await.expect("it closes");
}

/// Does everything that the background does, until there is nothing to do.
pub(super) async fn settle(held: &Held) {
    while !held.derive_rows().await.expect("rows").is_nothing() {}
    while held.learn_facts().await.expect("facts") > 0 {}
    while held.tend_topics().await.expect("topics") != Default::default() {}
    held.store.jobs().hurry(None).await.expect("hurried");
    while held.run_jobs_once().await.expect("jobs").done > 0 {}
    held.embed_knowledge().await.expect("vectors");
    held.pack_blocks().await.expect("blocks");
}

/// What is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    User,
    Session,
    Turn,
    Document,
}

const TARGETS: [Target; 4] = [Target::User, Target::Session, Target::Turn, Target::Document];

/// Somebody with words of their own, and what of theirs is to be forgotten.
struct Person {
    target: Target,
    words: Vec<String>,
    /// Words of what stays.
    kept: String,
    scope: Scope,
    session: SessionId,
    turn: TurnId,
    erasure: Option<Erasure>,
}

/// Everybody.
pub(super) struct Life(Vec<Person>);

/// A word that no language has, of letters of one byte or of several.
fn word(letters: &[char]) -> String {
    let chance = RandomIds.chance();
    chance.iter().take(14).map(|byte| letters[usize::from(*byte) % letters.len()]).collect()
}

fn words() -> Vec<String> {
    let plain: Vec<char> = ('a'..='z').collect();
    let several: Vec<char> = "éßøñżłğяжщ北京東字あ한".chars().collect();
    vec![format!("zq{}", word(&plain)), format!("ж{}", word(&several))]
}

impl Life {
    /// Lives on a data file, and lets go of it.
    pub(super) async fn live(held: &Held, people: usize) -> Self {
        let life = Self::live_in(held, people).await;
        held.memory.close(Duration::from_secs(5)).await.expect("it closes");
        life
    }

    pub(super) async fn live_in(held: &Held, people: usize) -> Self {
        let mut all = Vec::new();
        for n in 0..people {
            all.push(Person::live(held, n).await);
        }
        settle(held).await;
        for person in &all {
            person.archive(held).await;
        }
        held.pack_blocks().await.expect("blocks");
        Self(all)
    }

    pub(super) fn forgotten(&self) -> usize {
        self.0.len()
    }

    pub(super) fn forgotten_words(&self) -> Vec<String> {
        self.0.iter().flat_map(|person| person.words.clone()).collect()
    }

    pub(super) fn kept_words(&self) -> Vec<String> {
        self.0.iter().filter(|person| person.target != Target::User).map(|person| person.kept.clone()).collect()
    }

    pub(super) fn all_words(&self) -> Vec<String> {
        [self.forgotten_words(), self.kept_words()].concat()
    }

    pub(super) fn words_of(&self, target: Target) -> Vec<String> {
        self.0.iter().filter(|person| person.target == target).flat_map(|person| person.words.clone()).collect()
    }

    /// A search that finds nothing proves nothing unless it found everything before.
    pub(super) fn check_that_all_is_found(&self, found: &[String]) {
        let missing: Vec<_> =
            self.all_words().into_iter().filter(|word| !found.iter().any(|at| at.contains(word))).collect();
        assert!(missing.is_empty(), "these are nowhere: {missing:?}");
    }

    pub(super) fn check_that_the_rest_is_found(&self, found: &[String]) {
        let missing: Vec<_> =
            self.kept_words().into_iter().filter(|word| !found.iter().any(|at| at.contains(word))).collect();
        assert!(missing.is_empty(), "these went along: {missing:?}");
    }

    pub(super) async fn forget_all(&self, held: &Held) {
        for target in TARGETS {
            self.forget(held, target).await;
        }
    }

    pub(super) async fn forget(&self, held: &Held, target: Target) {
        for person in self.0.iter().filter(|person| person.target == target) {
            let what = person.erasure.clone().expect("decided while living");
            let receipt = held.forget(what).await.expect("it is there");
            assert!(receipt.log_emptied && receipt.counts.total() > 0, "{receipt:?}");
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

impl Person {
    async fn live(held: &Held, n: usize) -> Self {
        let (target, words) = (TARGETS[n % TARGETS.len()], words());
        let tenant = Tenant::parse(&format!("tenant-{}", n % 3)).expect("a name");
        let name = match target {
            Target::User => format!("{} {}", words[0], words[1]),
            _ => format!("person-{n}"),
        };
        let scope = Scope::new(tenant, User::parse(&name).expect("a name"));
        let (session, kept) = (RandomIds.session(), words_kept());
        let turn = RandomIds.turn(jiff::Timestamp::now());
        let mut person = Self { target, words, kept, scope, session, turn, erasure: None };
        let tenant = TenantScope::new(person.scope.tenant().clone());
        person.stay(held).await;
        person.erasure = Some(match target {
            Target::Document => Erasure::Document(tenant, person.file(held).await),
            Target::User => {
                person.talk(held, n).await;
                Erasure::User(person.scope.clone())
            }
            Target::Session => {
                person.talk(held, n).await;
                Erasure::Session(person.scope.clone(), person.session)
            }
            Target::Turn => {
                person.talk(held, n).await;
                Erasure::Turn(person.scope.clone(), person.turn)
            }
        });
        person
    }

    fn said(&self) -> String {
        format!("I live in {} and my dog is called {}.", self.words[0], self.words[1])
    }

    fn both(&self) -> String {
        self.words.join(" ")
    }

    fn message(&self, role: Role, text: &str) -> Message {
        let mut message = Message::new(role, text, jiff::Timestamp::now());
        message.metadata = object(json!({ "note": self.both() }));
        message
    }

    /// Another conversation, which stays unless the user goes: it was shown what the first one said.
    async fn stay(&self, held: &Held) {
        let session = RandomIds.session();
        let kept = format!("my cat is called {}", self.kept);
        let turns = (0..6).map(|n| draft(&format!("{kept}, time {n}"), "good")).collect();
        let seed = Some(SessionSeed::default());
        held.store.add_turns(&self.scope, session, seed, turns).await.expect("added");
        if self.target != Target::Document {
            let id = RandomIds.turn(jiff::Timestamp::now());
            let [question, answer] =
                <[Message; 2]>::try_from(draft("what did I say?", "you know").messages).expect("two");
            let shown = object(json!({ "injected": { "block": self.said() } }));
            self.open(held, session, id, question, shown).await;
            self.close(held, session, id, 0, vec![answer]).await;
        }
    }

    async fn talk(&self, held: &Held, n: usize) {
        let whole = self.target != Target::Turn;
        let seed = match whole {
            true => SessionSeed { metadata: object(json!({ "title": self.both() })), ..SessionSeed::default() },
            false => SessionSeed::default(),
        };
        held.store.create_session(&self.scope, self.session, seed.clone()).await.expect("made");
        let filler =
            |from: usize| (from..from + 3).map(|n| draft(&format!("And what about number {n}?"), "fine")).collect();
        held.store.add_turns(&self.scope, self.session, Some(seed.clone()), filler(0)).await.expect("added");
        self.exchange(held).await;
        self.answer_again(held).await;
        if whole {
            let mut named = draft(&self.said(), &self.both());
            named.messages[0].name = Some(self.words[1].clone());
            held.store.add_turns(&self.scope, self.session, Some(seed.clone()), vec![named]).await.expect("added");
        }
        held.store.add_turns(&self.scope, self.session, Some(seed), filler(3)).await.expect("added");
        self.beside(held, n).await;
    }

    /// The exchange that is forgotten, or that goes with its conversation.
    async fn exchange(&self, held: &Held) {
        let question = self.message(Role::User, &self.said());
        let answer = self.message(Role::Assistant, &format!("I know {}.", self.both()));
        self.open(held, self.session, self.turn, question, object(json!({ "tag": self.both() }))).await;
        self.close(held, self.session, self.turn, 0, vec![answer]).await;
    }

    async fn open(&self, held: &Held, session: SessionId, id: TurnId, question: Message, metadata: Map<String, Value>) {
        let (seed, place) = (SessionSeed::default(), Default::default());
        let open = OpenTurn { id, session, seed, question, metadata, asked_at: None, place };
        held.store.open_turn(&self.scope, open).await.expect("opened");
    }

    async fn close(&self, held: &Held, session: SessionId, id: TurnId, attempt: u32, messages: Vec<Message>) {
        let trace = Some(json!({ "question": self.said(), "completed": self.both() }).to_string());
        let (status, metadata, others) = (TurnStatus::Complete, Map::new(), Vec::new());
        let closed = ClosedTurn {
            id,
            session,
            status,
            messages,
            metadata,
            attempt,
            others,
            trace,
            topic: None,
            waits_since: None,
        };
        held.store.close_turn(&self.scope, closed).await.expect("closed");
    }

    async fn answer_again(&self, held: &Held) {
        let (ids, then, shift) = Default::default();
        let revise = ReviseTurn { id: self.turn, session: self.session, ids, then, shift };
        let attempt = held.store.revise_turn(&self.scope, revise).await.expect("begun").attempt;
        let answer = vec![self.message(Role::Assistant, &format!("Once more: {}.", self.both()))];
        self.close(held, self.session, self.turn, attempt, answer).await;
    }

    /// What waits beside a conversation: webhooks, answers that were no use, a job that failed, and what the tenant learned.
    async fn beside(&self, held: &Held, n: usize) {
        let (now, both) = (jiff::Timestamp::now(), self.both());
        let parcel = Parcel {
            id: format!("msg_{}", self.session),
            tenant: self.scope.tenant().clone(),
            user: Some(self.scope.user().clone()),
            session: self.session.to_string(),
            reason: "ended".into(),
            body: json!({ "messages": [both] }).to_string().into(),
            created_at: now,
        };
        held.store.outbox().put(parcel).await.expect("kept");
        let (kind, reason, answer) = ("unreadable".to_owned(), both.clone(), format!("{both}!"));
        let unused = UnusedAnswer { session: self.session, topic: None, kind, reason, answer, at: now };
        self.keep_unused(held, unused).await;
        let spent = DaySpent { failures: 1, last_failure: Some(both.clone()), ..DaySpent::default() };
        held.store.ledger().spend(&self.scope, 20_000, spent).await.expect("kept");
        self.learned(held).await;
        if n.is_multiple_of(2) {
            settle(held).await;
            held.store.jobs().enqueue(&self.scope, self.session, JobKind::CONSOLIDATE).await.expect("asked for");
            let soon = jiff::SignedDuration::from_mins(1);
            if let Some(claim) = held.store.jobs().claim(None, now, soon).await.expect("claimed") {
                let next = now.checked_add(jiff::SignedDuration::from_secs(1)).ok();
                held.store.jobs().fail(&claim, &format!("cannot read {both}"), next).await.expect("noted");
            }
        }
    }

    /// Keeps an answer that was no use, as whoever has a job of this conversation.
    async fn keep_unused(&self, held: &Held, unused: UnusedAnswer) {
        held.store.jobs().enqueue(&self.scope, self.session, JobKind::LEARN).await.expect("asked for");
        let (now, soon) = (unused.at, jiff::SignedDuration::from_mins(1));
        let mut others = Vec::new();
        while let Some(claim) = held.store.jobs().claim(None, now, soon).await.expect("claimed") {
            if claim.job.session != self.session || claim.job.kind != JobKind::LEARN {
                others.push(claim);
                continue;
            }
            held.store.ledger().keep_unused(&claim, unused).await.expect("kept");
            held.store.jobs().finish(&claim, Effect::Nothing).await.expect("ended");
            break;
        }
        for claim in others {
            held.store.jobs().give_back(&claim).await.expect("given back");
        }
    }

    async fn learned(&self, held: &Held) {
        let said = self.said();
        self.know(held, said_in_chat(&said), "Said in a chat".into(), Kind::Note, &said).await;
    }

    async fn file(&self, held: &Held) -> recalld::id::DocumentId {
        let (name, title) = (format!("{}.md", self.words[1]), self.both());
        self.know(held, name, title, Kind::Markdown, &self.said()).await
    }

    async fn know(&self, held: &Held, name: String, title: String, kind: Kind, text: &str) -> recalld::id::DocumentId {
        let heading = if kind == Kind::Note { String::new() } else { self.both() };
        let passage = Passage { number: 1, heading, place: String::new(), text: text.into(), tokens: 9 };
        let (id, original) = (RandomIds.document(), text.as_bytes().to_vec());
        let new = NewDocument { id, name, title, kind, original, passages: vec![passage], vectors: None };
        let tenant = TenantScope::new(self.scope.tenant().clone());
        let kept = held.store.knowledge().keep(&tenant, vec![new], KnowledgeBounds::default()).await;
        kept.expect("kept").remove(0).id
    }

    async fn archive(&self, held: &Held) {
        if self.target != Target::Document {
            held.archive(&self.scope, self.session, u64::MAX >> 1).await.expect("moved");
        }
    }
}

fn words_kept() -> String {
    words().remove(0)
}

fn draft(question: &str, answer: &str) -> TurnDraft {
    let now = jiff::Timestamp::now();
    let messages = vec![Message::new(Role::User, question, now), Message::new(Role::Assistant, answer, now)];
    TurnDraft { id: RandomIds.turn(now), messages, metadata: Map::new(), created_at: None }
}
