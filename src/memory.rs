//! The handle everyone is given: what the library, the server and the CLI talk to.
//!
//! [`Memory`] holds the parts and the settings. What can be done with it is written where it belongs:
//! `turn` (answering), `review` (looking, adding, deleting), `lifecycle` (what time does). `tenants` knows who may come in
//! and what each tenant has of its own.

mod tenants;

pub use tenants::{Roll, Shown, TenantDesk};

mod asked;
mod clarifications;
mod live;
mod reader;

pub use reader::{KnowledgeSettings, ReadError, Reader};

pub use clarifications::{ClarificationDesk, ClarificationSettings, HeldClarification};
pub(crate) use live::words;
pub use live::{ChannelTally, LIVE_BYTES_MAX, LiveDesk};

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tracing::{debug, error, info, warn};

use crate::beside::Beside;
use crate::clock::Clock;
use crate::episode::EpisodeSettings;
use crate::id::{Ids, RandomIds, SessionId};
use crate::live::LiveSettings;
use crate::meter::Meters;
use crate::mode::Mode;
use crate::model::ChatModel;
use crate::model::ModelError;
use crate::model::builtin::Builtin;
use crate::model::embed::Embedder;
use crate::model::memory::Rest;
use crate::model::relay::{Passed, Relayed, Upstream};
use crate::model::summarise::{Extractive, Summariser};
use crate::period::Ttl;
use crate::recall::{
    Ask, Recall, RecallError, RecallParts, RecallSettings, Recalled, SignalTable, TopicDesk, WeightTable,
};
use crate::scope::{Scope, Tenant};
use crate::seldom::Seldom;
use crate::session::{SessionEndHook, SessionPreset, Templates};
use crate::store::live::Live;
use crate::store::{Store, StoreError};
use crate::tenant::Limits;
use crate::topic::TOPICS_MAX;
use crate::webhook::{Courier, HookSettings};

/// What a memory is made of. Nothing is reached that is not in here.
#[derive(Clone)]
pub struct Parts {
    /// Where conversations are kept.
    pub store: Arc<dyn Store>,
    /// Who answers.
    pub model: Arc<dyn ChatModel>,
    /// Who answers requests in OpenAI's format.
    pub upstream: Arc<dyn Upstream>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// Who makes vectors of what was said.
    pub embedder: Arc<dyn Embedder>,
    /// Who says briefly what was said.
    pub summariser: Arc<dyn Summariser>,
    /// How much each of recall's signals counts.
    pub weights: Arc<WeightTable>,
    /// How conversations are worded.
    pub templates: Templates,
    /// Where things are counted.
    pub meters: Arc<Meters>,
    /// Who is told when a session ends.
    pub ending: EndHooks,
    /// Where visitors' sessions are kept, if not in this process.
    pub live: Option<Arc<dyn Live>>,
    /// Where work is done that nobody waits for.
    pub beside: Beside,
}

impl Parts {
    /// A memory of nothing but what is built in: no model is asked, and nobody is told.
    pub fn builtin(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            model: Arc::new(Builtin),
            upstream: Arc::new(Builtin),
            clock,
            ids: Arc::new(RandomIds),
            embedder: Arc::new(crate::model::embed::Builtin::default()),
            summariser: Arc::new(Extractive),
            weights: WeightTable::shipped(),
            templates: Templates::default(),
            meters: Arc::new(Meters::default()),
            ending: EndHooks::default(),
            live: None,
            beside: Beside::default(),
        }
    }
}

/// Who is told when a session ends.
#[derive(Clone, Default)]
pub struct EndHooks {
    /// A part of the same program.
    pub hook: Option<Arc<dyn SessionEndHook>>,
    /// Who carries webhooks; without one they wait in the outbox.
    pub courier: Option<Arc<dyn Courier>>,
}

/// How a memory behaves.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// How many earlier messages the model is shown.
    pub context_messages: usize,
    /// The model's token limit: context, question and answer together.
    pub model_tokens_max: usize,
    /// Tokens of that limit kept free for the answer.
    pub answer_tokens: usize,
    /// Where what is recalled is laid before the model.
    pub inject: InjectInto,
    /// Whether earlier messages are shown as messages or as text in the system prompt.
    pub window_as: WindowAs,
    /// Longest question.
    pub query_chars_max: usize,
    /// Longest answer.
    pub answer_chars_max: usize,
    /// Largest metadata of a session, turn or message, as JSON.
    pub metadata_bytes_max: usize,
    /// How long turns are kept, unless their session says otherwise.
    pub ttl: Ttl,
    /// Topics of a user that are kept however faded.
    pub topics_max: usize,
    /// How long clarifications wait for an answer, and how many.
    pub clarifications: ClarificationSettings,
    /// How long a turn waits for the results of its tools.
    pub tools_patience: Duration,
    /// Turns removed in one transaction.
    pub cleanup_batch: usize,
    /// How recall behaves.
    pub recall: RecallSettings,
    /// How conversations are compressed.
    pub episodes: EpisodeSettings,
    /// When, and how often, a memory model is asked.
    pub asking: AskingSettings,
    /// Whose "yesterday" a question means when nobody says.
    pub zone: TimeZone,
    /// How much of the memory a request uses that does not say.
    pub mode: Mode,
    /// The model that is asked for, where it is not the upstream's usual one.
    pub model: Option<String>,
    /// How much a tenant may use; zero is as much as it likes.
    pub limits: Limits,
    /// How files become knowledge, and how much of it there may be.
    pub knowledge: KnowledgeSettings,
    /// How long keys are believed while the store does not answer.
    pub auth_cache_max: Duration,
    /// Where the end of a session is told.
    pub webhook: HookSettings,
    /// Whether what is said in chats becomes what their tenant knows, where the key may add to that.
    pub tenant_learns: bool,
    /// How live sessions behave.
    pub live: LiveSettings,
    /// What live sessions may begin with, by name.
    pub session_presets: BTreeMap<String, SessionPreset>,
    /// Most bytes of all live sessions together.
    pub live_bytes_max: usize,
}

/// When, and how often, a memory model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskingSettings {
    /// Most requests of a tenant in a day; 0 is any number.
    pub calls_per_day: u64,
    /// Most tokens of a tenant in a day; 0 is any number.
    pub tokens_per_day: u64,
    /// How long a conversation must have rested, unless there is enough to be told.
    pub idle: Duration,
}

impl Default for AskingSettings {
    fn default() -> Self {
        Self { calls_per_day: 0, tokens_per_day: 0, idle: Duration::from_secs(30) }
    }
}

/// How earlier messages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowAs {
    /// As messages between the system prompt and the question.
    Messages,
    /// As text in the system prompt, worded by the language's template.
    Text,
}

/// Where memory is laid into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InjectInto {
    /// Before the text of the last user message.
    User,
    /// Behind the first system message, for models that prefer it there.
    System,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            context_messages: 10,
            model_tokens_max: 8_192,
            answer_tokens: 1_024,
            inject: InjectInto::User,
            window_as: WindowAs::Messages,
            query_chars_max: 32_000,
            answer_chars_max: 400_000,
            metadata_bytes_max: 16_384,
            ttl: Ttl::NEVER,
            topics_max: TOPICS_MAX,
            clarifications: ClarificationSettings::default(),
            tools_patience: Duration::from_secs(600),
            cleanup_batch: 1_000,
            recall: RecallSettings::default(),
            episodes: EpisodeSettings::default(),
            asking: AskingSettings::default(),
            zone: TimeZone::UTC,
            mode: Mode::Active,
            model: None,
            limits: Limits::default(),
            knowledge: KnowledgeSettings::default(),
            auth_cache_max: Duration::from_secs(15 * 60),
            webhook: HookSettings::default(),
            tenant_learns: false,
            live: LiveSettings::default(),
            session_presets: BTreeMap::new(),
            live_bytes_max: LIVE_BYTES_MAX,
        }
    }
}

/// A memory. Cheap to clone; all clones are the same memory.
#[derive(Clone)]
pub struct Memory {
    pub(crate) parts: Arc<Parts>,
    pub(crate) settings: Arc<MemorySettings>,
    pub(crate) templates: Arc<Templates>,
    /// Who may come in, and what each tenant has of its own.
    pub(crate) tenants: Arc<TenantDesk>,
    /// What finds what was said.
    pub(crate) recall: Arc<Recall>,
    /// What finds the topic that a message belongs to.
    pub(crate) topics: Arc<TopicDesk>,
    /// Questions that wait for a choice. Nothing of it is ever written.
    pub(crate) clarifications: Arc<ClarificationDesk>,
    /// Who reads strangers' files.
    pub(crate) reader: Arc<Reader>,
    /// Conversations of visitors. Nothing of it is ever written to the store.
    pub(crate) live: Arc<LiveDesk>,
    /// A place for each turn under way; closing waits until all are free.
    pub(crate) running: Arc<Semaphore>,
    /// Whether the memory model is left alone for a while.
    pub(crate) resting: Arc<Mutex<Rest>>,
    /// That questions go without reminders.
    pub(crate) without_reminders: Arc<Seldom>,
    /// One request at a time finds its place in a session.
    locks: Arc<Mutex<SessionLocks>>,
}

type SessionLocks = HashMap<(Scope, SessionId), Weak<tokio::sync::Mutex<()>>>;

/// Held while a request finds its place in a session and writes it down.
pub(crate) type SessionLock = tokio::sync::OwnedMutexGuard<()>;

/// Locks that nobody holds are swept when there are more than this.
const LOCKS_MAX: usize = 1_024;

/// Most turns under way at one time; more wait for a place.
const TURNS_MAX: u32 = 100_000;

fn recall_parts(parts: &Parts) -> RecallParts {
    RecallParts {
        store: Arc::clone(&parts.store),
        embedder: Arc::clone(&parts.embedder),
        weights: Arc::clone(&parts.weights),
        clock: Arc::clone(&parts.clock),
        meters: Arc::clone(&parts.meters),
        beside: parts.beside.clone(),
    }
}

impl Memory {
    /// Puts the parts together.
    pub fn new(parts: Parts, settings: MemorySettings) -> Self {
        let running = Arc::new(Semaphore::new(TURNS_MAX as usize));
        let recall = Arc::new(Recall::new(recall_parts(&parts), settings.recall.clone()));
        let topics = Arc::new(TopicDesk::new(Arc::clone(&parts.store), Arc::clone(&parts.embedder)));
        let clarifications = Arc::new(ClarificationDesk::new(settings.clarifications, Arc::clone(&parts.clock)));
        let reader = Arc::new(Reader::new(settings.knowledge.clone()));
        let live = Arc::new(LiveDesk::new(&parts, settings.live_bytes_max));
        let (settings, templates) = (Arc::new(settings), Arc::new(parts.templates.clone()));
        let tenants = Arc::new(TenantDesk::new(&parts, &settings, &templates));
        Self {
            parts: Arc::new(parts),
            settings,
            templates,
            tenants,
            recall,
            topics,
            clarifications,
            reader,
            live,
            running,
            resting: Arc::default(),
            without_reminders: Arc::default(),
            locks: Arc::default(),
        }
    }

    /// The same memory, behaving as a tenant's settings say. They are those that [`TenantDesk::roll`] last found.
    pub fn of(&self, tenant: &Tenant) -> Self {
        let tenants::TenantView { settings, templates } = self.tenants.view(tenant);
        Self { settings, templates, ..self.clone() }
    }

    /// Who may come in, and how much each tenant uses.
    pub fn tenants(&self) -> &TenantDesk {
        &self.tenants
    }

    /// Who answers, by name.
    pub fn model_name(&self) -> &str {
        self.settings.model.as_deref().unwrap_or_else(|| self.parts.model.name())
    }

    /// Who summarises, by name.
    pub fn summariser_name(&self) -> &str {
        self.parts.summariser.name()
    }

    /// Finds what was said about a question, and packs it into its budget.
    pub async fn recall(&self, scope: &Scope, ask: &Ask) -> Result<Recalled, RecallError> {
        self.recall.recall(scope, ask).await
    }

    /// Every signal of every message for a question: what weights are learned from.
    pub async fn recall_signals(&self, scope: &Scope, ask: &Ask) -> Result<SignalTable, RecallError> {
        self.recall.signals(scope, ask).await
    }

    /// The desk that holds the indexes.
    pub fn recall_desk(&self) -> &Arc<Recall> {
        &self.recall
    }

    /// Waits until no other request looks for its place in a session.
    pub(crate) async fn lock_session(&self, scope: &Scope, session: SessionId) -> SessionLock {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if locks.len() > LOCKS_MAX {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            let entry = locks.entry((scope.clone(), session)).or_default();
            entry.upgrade().unwrap_or_else(|| {
                let new = Arc::default();
                *entry = Arc::downgrade(&new);
                new
            })
        };
        lock.lock_owned().await
    }

    /// How many turns are under way.
    pub fn running_turns(&self) -> usize {
        TURNS_MAX as usize - self.running.available_permits()
    }

    /// Passes a request on that is no conversation.
    pub async fn pass(&self, request: Passed) -> Result<Relayed, ModelError> {
        self.parts.upstream.pass(request).await
    }

    /// What was counted.
    pub fn meters(&self) -> &Meters {
        &self.parts.meters
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &MemorySettings {
        &self.settings
    }

    /// Lets turns that are under way end, within `patience`; then writes what is still in memory and
    /// lets go of the files.
    pub async fn close(&self, patience: Duration) -> Result<(), StoreError> {
        let running = Arc::clone(&self.running);
        let all = running.acquire_many(TURNS_MAX);
        if tokio::time::timeout(patience, all).await.is_err() {
            let left = self.running_turns();
            warn!(turns = left, "{left} turns are still under way and will be marked failed at the next start");
        }
        self.end_all_live().await;
        self.parts.store.close().await
    }

    /// Logs that a conversation began.
    pub(crate) fn log_created(&self, scope: &Scope, session: SessionId) {
        info!(tenant.id = %scope.tenant(), user.id = %scope.user(), session.id = %session,
              "Created session `{session}` of user `{}`", scope.user());
    }

    /// Tells the log what failed, for whom, where and why; the user's words are not in it.
    pub(crate) fn report(&self, scope: &Scope, session: Option<SessionId>, operation: &str, failure: &StoreError) {
        self.parts.meters.store_failures.one();
        let session = session.map_or_else(|| "-".to_owned(), |id| id.to_string());
        if failure.is_away() {
            return debug!(tenant.id = %scope.tenant(), user.id = %scope.user(), session.id = %session, operation,
                          error = %failure, "`{operation}` goes without the database: {failure}");
        }
        error!(tenant.id = %scope.tenant(), user.id = %scope.user(), session.id = %session, operation, error = %failure,
               "`{operation}` failed in session `{session}` of user `{}`: {failure}", scope.user());
    }
}
