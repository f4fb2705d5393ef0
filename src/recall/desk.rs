//! The desk: holds the index of every scope in use, keeps it true to the store, and answers questions.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::warn;

use super::asides::{Decided, Looking, Summaries};
use super::assemble::ReadTurns;
use super::complete::Running;
use super::counted::Counted;
use super::episodes::Shrunk;
use super::index::Change;
use super::index::cache::{Cache, Marks, Shelf};
use super::load::indexed;
use super::passages::Passages;
use super::plan::{Plan, ReadQuestion};
use super::search::{Found, Wanted, search, signal_table};
use super::signals::QuestionVectors;
use super::texts::SaidTurn;
use super::told::Cuts;
use super::{
    Aside, AsideSource, Ask, Profile, Recalled, RunningTopic, SignalTable, TurnRange, WeightTable, assemble, known,
};
use crate::beside::Beside;
use crate::clock::Clock;
use crate::fact::Fact;
use crate::id::{MessageId, SessionId, TurnId};
use crate::message::Role;
use crate::meter::Meters;
use crate::model::embed::Embedder;
use crate::scope::{Scope, Tenant};
use crate::store::{Changes, Store, StoreError};
use crate::topic::Thresholds;

/// What recall is made of.
#[derive(Clone)]
pub struct RecallParts {
    /// Where turns are.
    pub store: Arc<dyn Store>,
    /// Who makes vectors.
    pub embedder: Arc<dyn Embedder>,
    /// How much each signal counts.
    pub weights: Arc<WeightTable>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where things are counted.
    pub meters: Arc<Meters>,
    /// Where work is done that nobody waits for.
    pub beside: Beside,
}

/// How recall behaves.
#[derive(Debug, Clone)]
pub struct RecallSettings {
    /// Tokens of what is recalled for a request.
    pub tokens_max: usize,
    /// How long a request waits for it.
    pub patience: Duration,
    /// How long of that the embedder may take.
    pub embedder_patience: Duration,
    /// Memory for indexes, all scopes together.
    pub index_bytes_max: usize,
    /// The kind of chat; `None` is told by who speaks.
    pub profile: Option<Profile>,
    /// Whether vectors take part.
    pub vectors: bool,
    /// Candidates that a turn's trace keeps.
    pub trace_candidates: usize,
    /// Summaries that are shown because they are about the question; 0 shows none, of the running conversation neither.
    pub episodes_max: usize,
}

impl Default for RecallSettings {
    fn default() -> Self {
        Self {
            tokens_max: 1_000,
            patience: Duration::from_millis(150),
            embedder_patience: Duration::from_millis(100),
            index_bytes_max: 256 * 1024 * 1024,
            profile: None,
            vectors: true,
            trace_candidates: 20,
            episodes_max: 3,
        }
    }
}

/// Why nothing could be recalled.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task that loads a scope is gone.
    #[error("the server is shutting down")]
    Interrupted,
}

/// Up to when a shelf knows its scope, held while that changes.
pub(super) type Marked = tokio::sync::OwnedMutexGuard<Marks>;

/// The texts of one scope that are at hand take this part of it at most, twice.
const TEXTS_SHARE: usize = 16;
/// What tenants know takes this part of the memory for indexes at most, beside what was said.
const KNOWLEDGE_SHARE: usize = 4;
/// Messages that are ranked when nobody says how many.
pub(crate) const RANKED: usize = 64;

/// Finds what matters.
pub struct Recall {
    pub(super) parts: RecallParts,
    pub(super) settings: RecallSettings,
    pub(super) cache: Cache,
    pub(super) passages: Arc<Passages>,
    counted: Counted,
    pub(super) cuts: Cuts,
    shrunk: Shrunk,
    /// Held by whoever gets a scope ready that was just loaded.
    pub(super) warming: tokio::sync::Mutex<()>,
}

impl Recall {
    /// Puts the parts together.
    pub fn new(parts: RecallParts, settings: RecallSettings) -> Self {
        let texts_max = settings.index_bytes_max / TEXTS_SHARE;
        let cache = Cache::new(settings.index_bytes_max, texts_max, parts.embedder.dimensions());
        let (store, embedder) = (Arc::clone(&parts.store), Arc::clone(&parts.embedder));
        let passages = Arc::new(Passages::new(store, embedder, settings.index_bytes_max / KNOWLEDGE_SHARE));
        let (counted, cuts, shrunk, warming) = Default::default();
        Self { parts, settings, cache, passages, counted, cuts, shrunk, warming }
    }

    /// Finds what was said about a question and packs it.
    pub async fn recall(self: &Arc<Self>, scope: &Scope, ask: &Ask) -> Result<Recalled, RecallError> {
        let shelf = self.caught_up(scope).await?;
        let plan = self.plan(scope, &shelf, ask).await?;
        let vectors = self.vectors_of(&plan).await;
        let looking = self.looking(ask, &plan, &vectors);
        let known = self.parts.store.facts().facts_known(scope, plan.now).await?;
        let mut asides = self.asides(&shelf, &looking, &known.facts);
        if known.some_outdated {
            self.note_outdated(scope, plan.now, &mut asides).await?;
        }
        asides.extend(self.passages(scope, &looking).await?);
        let looking = Looking { some_outdated: known.some_outdated, ..looking };
        for _ in 1..SEARCHES_MAX {
            if let Some(recalled) = self.search(scope, &shelf, &looking, &asides, false).await? {
                return Ok(recalled);
            }
        }
        Ok(self.search(scope, &shelf, &looking, &asides, true).await?.unwrap_or_default())
    }

    fn looking<'a>(&self, ask: &'a Ask, plan: &'a Plan, vectors: &'a QuestionVectors) -> Looking<'a> {
        let embedder = &self.parts.embedder;
        let thresholds = Thresholds::of(embedder.id(), embedder.near());
        let episodes_max = self.settings.episodes_max;
        Looking { ask, plan, vectors, thresholds, episodes_max, some_outdated: false }
    }

    /// What may be laid before the model beside messages: what is known, what was handed in, and summaries.
    fn asides(&self, shelf: &Shelf, looking: &Looking<'_>, facts: &[Fact]) -> Vec<Decided> {
        let summaries = shelf.read_episodes(|episodes| Summaries::look(episodes, looking));
        let Plan { plain_text, question, zone, .. } = looking.plan;
        let known = known::told(facts, plain_text, question.tongue, zone).into_iter();
        let given = known.chain(looking.ask.asides.iter().cloned()).map(|aside| (aside, None));
        given.chain(summaries.into_asides(&self.shrunk)).collect()
    }

    /// Summaries that tell what is no longer so say what holds instead.
    async fn note_outdated(&self, scope: &Scope, now: Timestamp, asides: &mut [Decided]) -> Result<(), RecallError> {
        for (aside, _) in asides.iter_mut().filter(|(_, fate)| fate.is_none()) {
            let AsideSource::Episode { session, from, to, .. } = aside.source else { continue };
            let outdated = self.parts.store.facts().outdated_between(scope, session, from, to, now).await?;
            if let Some(note) = known::note(&aside.text, outdated.iter()) {
                aside.text = format!("{} {note}", aside.text).into();
            }
        }
        Ok(())
    }

    /// Searches, reads what was found, and packs it. `None` when the index lost or moved messages while they were read,
    /// unless that is to be put up with.
    async fn search(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        looking: &Looking<'_>,
        asides: &[Decided],
        whatever_happens: bool,
    ) -> Result<Option<Recalled>, RecallError> {
        let Looking { ask, plan, vectors, .. } = *looking;
        let (limit, explained) = match ask.ranked_max {
            // Nobody sees more of it than a trace keeps.
            0 => (RANKED, self.settings.trace_candidates),
            ranked_max => (ranked_max, ranked_max),
        };
        let weights = self.parts.weights.of(plan.profile, vectors.plain.is_some());
        let wanted = Wanted { within: plan.within, limit, explained, near: self.parts.embedder.near() };
        let (asked, found, instance) = shelf.read(|index| {
            let asked = plan.asked(index, vectors);
            let found = search(index, &asked, weights, wanted);
            (asked, found, index.instance())
        });
        let read = self.turns_of(scope, shelf, &found, looking).await?;
        Ok(shelf.read(|index| {
            // The numbers of messages and words are those of the index that was searched.
            let same = index.instance() == instance;
            let in_place = same && assemble::all_in_place(index, &found);
            if !in_place && !whatever_happens {
                return None;
            }
            let asked = if same { asked } else { plan.asked(index, vectors) };
            Some(assemble::assemble(index, ask, plan, &asked, found, &read, asides, &self.counted, &self.cuts))
        }))
    }

    /// What is told of a conversation before the turn from which on it is shown, oldest first.
    pub async fn told_of(
        self: &Arc<Self>,
        scope: &Scope,
        session: SessionId,
        shown_from: Option<u64>,
    ) -> Result<Vec<Aside>, RecallError> {
        let shelf = self.caught_up(scope).await?;
        let shown = shown_from.map(|first| TurnRange { session, first, last: u64::MAX });
        Ok(shelf.read_episodes(|episodes| Summaries::of_session(episodes, session, shown)).in_order(&self.shrunk))
    }

    /// Every signal of every message for a question.
    pub async fn signals(self: &Arc<Self>, scope: &Scope, ask: &Ask) -> Result<SignalTable, RecallError> {
        let shelf = self.caught_up(scope).await?;
        let plan = self.plan(scope, &shelf, ask).await?;
        let vectors = self.vectors_of(&plan).await;
        Ok(shelf.read(|index| signal_table(index, &plan.asked(index, &vectors))))
    }

    /// How much memory a scope takes, and how many messages it holds.
    pub async fn index_size(self: &Arc<Self>, scope: &Scope) -> Result<(usize, usize), RecallError> {
        let shelf = self.caught_up(scope).await?;
        Ok(shelf.read(|index| (index.bytes(), index.keys.len() + index.replies.len())))
    }

    /// Lets a scope's index go; the next question loads it anew.
    pub fn let_go(&self, scope: &Scope) {
        self.cache.drop_scope(scope);
        self.parts.store.unwatch(scope);
    }

    /// The same for all users of a tenant.
    pub fn let_go_of_tenant(&self, tenant: &Tenant) {
        self.cache.scopes_of(tenant).iter().for_each(|scope| self.let_go(scope));
        self.let_go_of_knowledge(tenant);
    }

    /// Lets what a tenant knows go; the next question reads it anew.
    pub fn let_go_of_knowledge(&self, tenant: &Tenant) {
        self.passages.let_go(tenant);
    }

    /// Bytes of all indexes, and how many scopes they are of.
    pub fn in_memory(&self) -> (usize, usize) {
        self.cache.size()
    }

    /// How it behaves.
    pub fn settings(&self) -> &RecallSettings {
        &self.settings
    }

    /// Who makes vectors.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.parts.embedder
    }

    /// The scope's index, true to the store as of now.
    pub(super) async fn caught_up(self: &Arc<Self>, scope: &Scope) -> Result<Arc<Shelf>, RecallError> {
        let shelf = self.cache.shelf(scope);
        let mut marks = Arc::clone(&shelf.catching_up).lock_owned().await;
        for _ in 0..LOADS_MAX {
            let embedder = self.parts.embedder.id().as_str();
            match self.parts.store.recall_changes(scope, marks.turns, embedder).await? {
                Changes::None(now) => {
                    marks.turns = Some(now);
                    break;
                }
                Changes::Turns { mark: now, entries, gone } => {
                    shelf.with_texts(|texts| {
                        entries.iter().map(|entry| &entry.turn).chain(&gone).for_each(|turn| texts.touch(*turn));
                    });
                    let put = entries.into_iter().map(|entry| Change::Put(indexed(entry, &*self.parts.embedder)));
                    let changes = put.chain(gone.into_iter().map(Change::Gone)).collect();
                    shelf.write(|index| index.apply(changes));
                    marks.turns = Some(now);
                    self.note_size(scope, &shelf);
                    break;
                }
                Changes::Reload { mark: now } => {
                    let (desk, scope, shelf) = (Arc::clone(self), scope.clone(), Arc::clone(&shelf));
                    // A load that outlasts its request goes on for the next one.
                    let load = tokio::spawn(async move {
                        let filled = desk.fill(&scope, &shelf, now, marks).await;
                        desk.warm(scope, &shelf);
                        filled
                    });
                    marks = load.await.map_err(|_| RecallError::Interrupted)??;
                }
            }
        }
        self.follow_episodes(scope, &shelf, &mut marks.episodes).await?;
        drop(marks);
        Ok(shelf)
    }

    pub(super) fn note_size(&self, scope: &Scope, shelf: &Shelf) {
        for gone in self.cache.note(scope, shelf.bytes()) {
            self.parts.store.unwatch(&gone);
        }
    }

    async fn plan(&self, scope: &Scope, shelf: &Shelf, ask: &Ask) -> Result<Plan, RecallError> {
        let now = self.parts.clock.now();
        let read = shelf.read(|index| ReadQuestion::read(index, ask, now));
        let running = match (&ask.running, &ask.topic, ask.session) {
            (Some(texts), _, _) => Running::of_texts(texts),
            (None, Some(topic), session) => {
                self.running_topic(scope, shelf, topic, session, read.question.follows_up).await?
            }
            (None, None, Some(session)) => self.running(scope, shelf, session, read.question.follows_up).await?,
            (None, None, None) => Running::default(),
        };
        Ok(shelf.read(|index| Plan::make(index, ask, read, &running, self.settings.profile)))
    }

    /// The names that a conversation is about and, where the question leans on that, its first question.
    async fn running(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        session: SessionId,
        with_title: bool,
    ) -> Result<Running, RecallError> {
        let (names, first) = shelf.read(|index| {
            let keys = index.session(session).map_or(&[][..], |session| &session.keys);
            let last = keys.len().saturating_sub(RUNNING_TURNS);
            let first = keys.first().filter(|_| with_title).map(|key| index.keys.ids[*key as usize].turn());
            (index.names_in(&keys[last..]), first)
        });
        let title = match first {
            Some(turn) => self.question_of(scope, shelf, turn).await?,
            None => None,
        };
        Ok(Running { names, title })
    }

    /// The names that a topic is about and, as its title, how this conversation came to it: a topic that is months old may
    /// have begun with something else. Where the conversation comes to it now, what it is called.
    async fn running_topic(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        topic: &RunningTopic,
        session: Option<SessionId>,
        with_title: bool,
    ) -> Result<Running, RecallError> {
        let (names, first) = shelf.read(|index| {
            let keys = index.keys_of(&topic.last, TOPIC_WITHIN);
            let here = session.and_then(|session| index.session(session)).map_or(&[][..], |session| &session.keys);
            let first = keys.iter().find(|key| with_title && here.binary_search(key).is_ok());
            let last = keys.len().saturating_sub(RUNNING_TURNS);
            (index.names_in(&keys[last..]), first.map(|key| index.keys.ids[*key as usize].turn()))
        });
        let came_by = match first {
            Some(turn) => self.question_of(scope, shelf, turn).await?,
            None => None,
        };
        Ok(Running { names, title: came_by.or(Some(topic.title.clone()).filter(|title| !title.is_empty())) })
    }

    async fn question_of(&self, scope: &Scope, shelf: &Shelf, turn: TurnId) -> Result<Option<String>, RecallError> {
        let turns = self.said_in(scope, shelf, &[turn]).await?;
        Ok(turns.iter().flat_map(|turn| &turn.messages).map(|message| message.text.clone()).next())
    }

    /// The question's vectors, unless the embedder is too slow or says nothing: then words must do.
    async fn vectors_of(&self, plan: &Plan) -> QuestionVectors {
        if !self.settings.vectors {
            return QuestionVectors::default();
        }
        let embedder = &self.parts.embedder;
        let plain = embedder.at_once(&plan.plain_text);
        // Most questions name nobody.
        let full = if plan.full_text == plan.plain_text { plain.clone() } else { embedder.at_once(&plan.full_text) };
        if full.is_some() && plain.is_some() {
            return QuestionVectors { full, plain };
        }
        let texts = [plan.full_text.clone(), plan.plain_text.clone()];
        match tokio::time::timeout(self.settings.embedder_patience, embedder.embed(&texts)).await {
            Ok(Ok(vectors)) => {
                let mut vectors = vectors.into_iter();
                QuestionVectors { full: vectors.next(), plain: vectors.next() }
            }
            Ok(Err(error)) => {
                self.parts.meters.embedder_failures.one();
                warn!(embedder.id = %embedder.id(), error = %error, "The question has no vector, words must do: {error}");
                QuestionVectors::default()
            }
            Err(_) => {
                self.parts.meters.embedder_failures.one();
                warn!(embedder.id = %embedder.id(), "The embedder is too slow for the question, words must do");
                QuestionVectors::default()
            }
        }
    }

    /// The vector of a text, unless the embedder is too slow or says nothing.
    pub(super) async fn vector_of(&self, text: &str) -> Option<Vec<f32>> {
        let embedder = &self.parts.embedder;
        if !self.settings.vectors {
            return None;
        }
        if let Some(vector) = embedder.at_once(text) {
            return Some(vector);
        }
        let texts = [text.to_owned()];
        let made = tokio::time::timeout(self.settings.embedder_patience, embedder.embed(&texts)).await;
        made.ok()?.ok()?.into_iter().next()
    }

    /// The turns that may be packed: those found, and those beside them.
    async fn turns_of(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        found: &[Found],
        looking: &Looking<'_>,
    ) -> Result<ReadTurns, RecallError> {
        let wanted = shelf.read(|index| assemble::turns_wanted(index, found, looking.ask));
        let mut turns = self.said_in(scope, shelf, &wanted).await?;
        if looking.some_outdated {
            let unsaid = self.parts.store.facts().unsaid(scope, &said_by_users(&turns)).await?;
            turns.retain(|turn| unsaid.iter().all(|message| message.turn() != turn.id));
        }
        let outdated = match looking.some_outdated {
            true => self.parts.store.facts().outdated(scope, &said_by_users(&turns), looking.plan.now).await?,
            false => Vec::new(),
        };
        Ok(ReadTurns { wanted, turns, outdated })
    }
}

/// The messages that may state something about the user.
fn said_by_users(turns: &[Arc<SaidTurn>]) -> Vec<MessageId> {
    let said = turns.iter().flat_map(|turn| &turn.messages);
    said.filter(|message| message.role == Role::User).map(|message| message.id).collect()
}

/// The newest messages among which those of a running topic are looked for.
pub(super) const TOPIC_WITHIN: usize = 1_024;
/// Messages of the running conversation, with their replies, that tell what a follow-up refers to.
const RUNNING_TURNS: usize = 16;
/// How often a scope is searched that changes while what was found is read.
const SEARCHES_MAX: usize = 3;
/// A scope that changes faster than it is loaded is answered as of its last load.
pub(super) const LOADS_MAX: usize = 3;
