//! The handle everyone is given: what the library, the server and the CLI talk to.
//!
//! [`Memory`] holds the parts and the settings. What can be done with it is written where it belongs:
//! `turn` (answering), `review` (looking, adding, deleting), `lifecycle` (what time does).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tracing::{error, warn};

use crate::clock::Clock;
use crate::id::{Ids, SessionId};
use crate::meter::Meters;
use crate::model::ChatModel;
use crate::period::Ttl;
use crate::scope::Scope;
use crate::session::Templates;
use crate::store::{Store, StoreError};

/// What a memory is made of. Nothing is reached that is not in here.
#[derive(Clone)]
pub struct Parts {
    /// Where conversations are kept.
    pub store: Arc<dyn Store>,
    /// Who answers.
    pub model: Arc<dyn ChatModel>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// How conversations are worded.
    pub templates: Templates,
    /// Where things are counted.
    pub meters: Arc<Meters>,
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
    /// Turns removed in one transaction.
    pub cleanup_batch: usize,
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

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            context_messages: 10,
            model_tokens_max: 8_192,
            answer_tokens: 1_024,
            window_as: WindowAs::Messages,
            query_chars_max: 32_000,
            answer_chars_max: 400_000,
            metadata_bytes_max: 16_384,
            ttl: Ttl::NEVER,
            cleanup_batch: 1_000,
        }
    }
}

/// A memory. Cheap to clone; all clones are the same memory.
#[derive(Clone)]
pub struct Memory {
    pub(crate) parts: Arc<Parts>,
    pub(crate) settings: Arc<MemorySettings>,
    /// A place for each turn under way; closing waits until all are free.
    pub(crate) running: Arc<Semaphore>,
}

/// Most turns under way at one time; more wait for a place.
const TURNS_MAX: u32 = 100_000;

impl Memory {
    /// Puts the parts together.
    pub fn new(parts: Parts, settings: MemorySettings) -> Self {
        let running = Arc::new(Semaphore::new(TURNS_MAX as usize));
        Self { parts: Arc::new(parts), settings: Arc::new(settings), running }
    }

    /// Who answers, by name.
    pub fn model_name(&self) -> &str {
        self.parts.model.name()
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
            let left = TURNS_MAX as usize - self.running.available_permits();
            warn!(turns = left, "{left} turns are still under way and will be marked failed at the next start");
        }
        self.parts.store.close().await
    }

    /// Tells the log what failed, for whom, where and why; the user's words are not in it.
    pub(crate) fn report(&self, scope: &Scope, session: Option<SessionId>, operation: &str, failure: &StoreError) {
        self.parts.meters.store_failures.one();
        let session = session.map_or_else(|| "-".to_owned(), |id| id.to_string());
        error!(tenant.id = %scope.tenant(), user.id = %scope.user(), session.id = %session, operation, error = %failure,
               "`{operation}` failed in session `{session}` of user `{}`: {failure}", scope.user());
    }
}
