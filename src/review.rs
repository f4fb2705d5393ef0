//! What a person sees, adds and removes: conversations here, topics in `topics`, facts in `facts`, open questions in
//! `clarifications`, documents in `knowledge`, tenants and keys in `tenants`, the end of a conversation in `end`; what they take away in `export` and
//! bring along in `import`; what they have forgotten in `forget`.

mod backup;
mod clarifications;
mod end;
mod export;
mod facts;
mod forget;
mod import;
mod knowledge;
mod live;
mod once;
mod tenants;
mod topics;

pub use clarifications::OpenClarification;
pub use export::ExportRequest;
pub use facts::{FactPatch, NewFact, UndoneFacts};
pub use import::{ImportReport, Importer};
pub use knowledge::{KeptRequest, KnowledgeError, NOTE_CHARS_MAX, Upload};
pub use tenants::TenantError;
pub use topics::{FoundTopic, TopicContext, TopicMessage, TopicView};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::warn;

use crate::clarify::ClarificationError;
use crate::fact::{IMPORTANCE_MIN, Status};
use crate::id::{DocumentId, FactId, MessageId, SessionId, TopicId, TurnId, UndoId};
use crate::live::LiveKey;
use crate::memory::Memory;
use crate::message::{Message, Role};
use crate::recall::{Aside, Ask};
use crate::scope::{Scope, Tenant, User};
use crate::session::{
    AddedMessage, DoesNotFit, Revision, Session, SessionPatch, SessionSeed, TURN_MESSAGES_MAX, TextError, Turn,
    TurnDraft, check_text, fit, window,
};
use crate::store::live::LiveError;
use crate::store::{Erasure, Page, PageRequest, RequestError, Stats, StoreError};
use crate::tenant::OverLimit;

/// Why something could not be looked at, added or removed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReviewError {
    /// No such session, or somebody else's.
    #[error("there is no session `{0}`")]
    UnknownSession(SessionId),
    /// No such turn, or somebody else's.
    #[error("there is no turn `{0}`")]
    UnknownTurn(TurnId),
    /// No such message, or somebody else's.
    #[error("there is no message `{0}`")]
    UnknownMessage(MessageId),
    /// Nothing names such a user, or it is somebody else.
    #[error("there is no user `{0}`")]
    UnknownUser(User),
    /// No such document, or another tenant's.
    #[error("there is no document `{0}`")]
    UnknownDocument(DocumentId),
    /// Nothing names such a tenant.
    #[error("there is no tenant `{0}`")]
    UnknownTenant(Tenant),
    /// No such topic, or somebody else's.
    #[error("there is no topic `{0}`")]
    UnknownTopic(TopicId),
    /// Nothing that was said in it belongs to a topic.
    #[error("session `{0}` has no topic yet")]
    NoTopic(SessionId),
    /// No such fact, or somebody else's.
    #[error("there is no fact `{0}`")]
    UnknownFact(FactId),
    /// A fact that does not hold cannot be set right.
    #[error("fact `{id}` is {}; only what is held can be changed, and `undo` brings back what was", status.as_str())]
    NotHeld {
        /// Which.
        id: FactId,
        /// What it is.
        status: Status,
    },
    /// Nothing was learned from a message, or it is somebody else's.
    #[error("nothing was learned from a message `{0}`")]
    NothingLearned(MessageId),
    /// Nothing was undone by that name.
    #[error("there is nothing undone that is called `{0}`")]
    UnknownUndo(UndoId),
    /// There is nothing to undo.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// Nothing is to change.
    #[error("nothing is to change: give a `value`, an `importance` or an `until` that is new")]
    NothingToChange,
    /// How much something matters is out of bounds.
    #[error("importance is {0}, it must be from {IMPORTANCE_MIN} to 1")]
    Importance(f64),
    /// Nothing is open in this session, or it is somebody else's.
    #[error("no clarification is open in session `{0}`; they last for a few minutes (`clarification_ttl`)")]
    UnknownClarification(SessionId),
    /// It is no clarification.
    #[error(transparent)]
    Clarification(#[from] ClarificationError),
    /// Too many tags.
    #[error("{count} tags, at most {tags_max} are allowed")]
    TooManyTags {
        /// How many came.
        count: usize,
        /// The bound.
        tags_max: usize,
    },
    /// A text is not acceptable.
    #[error("{field} {reason}")]
    Text {
        /// Which.
        field: String,
        /// Why not.
        reason: TextError,
    },
    /// Metadata is too large.
    #[error("metadata takes {bytes} bytes as JSON, at most {bytes_max} are allowed")]
    Metadata {
        /// Its size.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The same key came with another request, or what it made is gone.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Nothing to add.
    #[error("there is no message to add")]
    Nothing,
    /// Too much at once.
    #[error("{count} messages at once, at most {TURN_MESSAGES_MAX} are allowed; send them in several requests")]
    TooMany {
        /// How many came.
        count: usize,
    },
    /// The question is over the model's limit.
    #[error("the query is too long for the model: {0}")]
    DoesNotFit(#[from] DoesNotFit),
    /// The line that an export was to go on behind is gone.
    #[error("what the export was to go on behind is gone; export from the beginning")]
    CursorGone,
    /// Whoever took what was handed over has left.
    #[error("nobody reads any more")]
    NobodyReads,
    /// A visitor's session is not there, or cannot take it.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Somebody waits for an answer in it.
    #[error("an answer is under way in `{0}`; transfer it when that has ended")]
    Busy(LiveKey),
    /// The tenant has no live sessions.
    #[error("tenant `{0}` has no ephemeral sessions (`enable_session_memory`)")]
    NoVisits(Tenant),
    /// The tenant has had enough.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An exchange that took place elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct PastTurn {
    /// What was asked.
    pub query: String,
    /// What was answered.
    pub response: String,
    /// What is known about it.
    pub metadata: Map<String, Value>,
    /// When it took place; `None` means now.
    pub created_at: Option<Timestamp>,
}

/// A message with its id and session.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    /// Its name.
    pub id: MessageId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// What was said.
    pub message: Message,
}

/// What the model would be shown for a question.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextView {
    /// The language of the template.
    pub language: String,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// How many of them are the user's or the model's.
    pub messages_in_context: usize,
    /// The same as text.
    pub text: String,
    /// What is told of the turns before them, oldest first.
    pub summaries: Vec<Aside>,
    /// What would be recalled for the question, if one was given.
    pub recalled: Option<RecalledContext>,
}

/// What would be recalled for a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledContext {
    /// The question that is searched for: a follow-up with what it refers to.
    pub resolved_query: String,
    /// What the model would be shown beside the conversation; empty for nothing.
    pub text: String,
}

/// Longest name of a speaker, in characters.
const NAME_CHARS_MAX: usize = 128;

impl Memory {
    /// Makes a session; `None` lets the memory choose its id.
    pub async fn create_session(
        &self,
        scope: &Scope,
        id: Option<SessionId>,
        seed: SessionSeed,
    ) -> Result<Session, ReviewError> {
        self.check_metadata(&seed.metadata)?;
        let id = id.unwrap_or_else(|| self.new_session_id());
        self.admit_session(scope, id).await?;
        let made = self.parts.store.create_session(scope, id, seed).await;
        let made = self.told(scope, Some(id), "create_session", made)?;
        self.log_created(scope, id);
        Ok(made)
    }

    /// Whether the tenant may have this session, if it has it not already.
    async fn admit_session(&self, scope: &Scope, id: SessionId) -> Result<(), ReviewError> {
        let Err(over) = self.tenants.admit_turns(scope.tenant(), true, 0).await else { return Ok(()) };
        match self.session(scope, id).await {
            Ok(_) => Ok(()),
            Err(_) => Err(over.into()),
        }
    }

    /// An id for a session nobody named.
    pub fn new_session_id(&self) -> SessionId {
        self.parts.ids.session()
    }

    /// Looks a session up.
    pub async fn session(&self, scope: &Scope, id: SessionId) -> Result<Session, ReviewError> {
        let found = self.parts.store.session(scope, id).await;
        self.told(scope, Some(id), "read_session", found)?.ok_or(ReviewError::UnknownSession(id))
    }

    /// A user's sessions, oldest first.
    pub async fn sessions(&self, scope: &Scope, page: PageRequest) -> Result<Page<Session>, ReviewError> {
        let found = self.parts.store.sessions(scope, page).await;
        self.told(scope, None, "list_sessions", found)
    }

    /// Changes a session's metadata or TTL.
    pub async fn update_session(
        &self,
        scope: &Scope,
        id: SessionId,
        patch: SessionPatch,
    ) -> Result<Session, ReviewError> {
        self.check_metadata(&patch.metadata)?;
        // Many small changes must not add up to what one large change may not be.
        let session = self.session(scope, id).await?;
        self.check_metadata(&patch.applied_to(&session.metadata))?;
        let changed = self.parts.store.update_session(scope, id, patch).await;
        self.told(scope, Some(id), "update_session", changed)?.ok_or(ReviewError::UnknownSession(id))
    }

    /// Removes a session and all that is in it; answers how many turns went.
    pub async fn delete_session(&self, scope: &Scope, id: SessionId) -> Result<u64, ReviewError> {
        Ok(self.forget(Erasure::Session(scope.clone(), id)).await?.turns())
    }

    /// A session's turns by number.
    pub async fn turns(&self, scope: &Scope, id: SessionId, page: PageRequest) -> Result<Page<Turn>, ReviewError> {
        let found = self.parts.store.turns(scope, id, page).await;
        self.told(scope, Some(id), "read_turns", found)?.ok_or(ReviewError::UnknownSession(id))
    }

    /// One turn, whichever session it is in.
    pub async fn turn(&self, scope: &Scope, id: TurnId) -> Result<Turn, ReviewError> {
        let found = self.parts.store.turn(scope, id).await;
        self.told(scope, None, "read_turn", found)?.ok_or(ReviewError::UnknownTurn(id))
    }

    /// Other answers to a turn's question, oldest first.
    pub async fn revisions(&self, scope: &Scope, id: TurnId) -> Result<Vec<Revision>, ReviewError> {
        let found = self.parts.store.revisions(scope, id).await;
        self.told(scope, None, "read_revisions", found)?.ok_or(ReviewError::UnknownTurn(id))
    }

    /// What was recalled for a turn and why; `None` when nothing is kept about that.
    pub async fn turn_context(&self, scope: &Scope, id: TurnId) -> Result<Option<Value>, ReviewError> {
        let trace = self.parts.store.trace(scope, id).await;
        match self.told(scope, None, "read_trace", trace)? {
            Some(trace) => Ok(serde_json::from_str(&trace).ok()),
            // An unknown turn is told from one without a trace.
            None => self.turn(scope, id).await.map(|_| None),
        }
    }

    /// A session's messages, oldest first. The cursor counts turns in its upper part and messages
    /// within the turn in its lower sixteen bits.
    pub async fn messages(
        &self,
        scope: &Scope,
        id: SessionId,
        page: PageRequest,
    ) -> Result<Page<StoredMessage>, ReviewError> {
        let after = page.after.unwrap_or(0);
        let mut turns_after = (after >> 16).saturating_sub(1);
        let mut found = Vec::new();
        loop {
            let turns = self.turns(scope, id, PageRequest { after: Some(turns_after), ..page }).await?;
            found.extend(turns.items.iter().flat_map(stored).filter(|(cursor, _)| *cursor > after));
            match turns.next {
                Some(next) if found.len() <= page.limit => turns_after = next,
                _ => return Ok(Page::cut(found, page.limit)),
            }
        }
    }

    /// Adds an exchange that took place elsewhere, without asking a model.
    pub async fn add_turn(&self, scope: &Scope, id: SessionId, turn: PastTurn) -> Result<Turn, ReviewError> {
        let draft = self.admitted(scope, turn).await?;
        let added = self.parts.store.add_turns(scope, id, None, vec![draft]).await;
        self.told(scope, Some(id), "store_turn", added)?.pop().ok_or(ReviewError::Nothing)
    }

    /// An exchange that may be added.
    async fn admitted(&self, scope: &Scope, turn: PastTurn) -> Result<TurnDraft, ReviewError> {
        let draft = self.of(scope.tenant()).draft(turn)?;
        self.tenants.admit_turns(scope.tenant(), false, 1).await?;
        Ok(draft)
    }

    fn draft(&self, turn: PastTurn) -> Result<TurnDraft, ReviewError> {
        self.check("query", &turn.query, self.settings.query_chars_max)?;
        self.check("response", &turn.response, self.settings.answer_chars_max)?;
        self.check_metadata(&turn.metadata)?;
        let at = turn.created_at.unwrap_or_else(|| self.parts.clock.now());
        let messages = vec![Message::new(Role::User, turn.query, at), Message::new(Role::Assistant, turn.response, at)];
        Ok(TurnDraft { id: self.parts.ids.turn(at), messages, metadata: turn.metadata, created_at: turn.created_at })
    }

    /// Adds loose messages, without asking a model; they become turns or answer the last one.
    pub async fn add_messages(
        &self,
        scope: &Scope,
        id: SessionId,
        messages: Vec<AddedMessage>,
    ) -> Result<Vec<Turn>, ReviewError> {
        let ids = self.admitted_messages(scope, &messages).await?;
        let added = self.parts.store.add_messages(scope, id, None, messages, ids).await;
        self.told(scope, Some(id), "add_messages", added)
    }

    /// Ids for messages that may be added.
    async fn admitted_messages(&self, scope: &Scope, messages: &[AddedMessage]) -> Result<Vec<TurnId>, ReviewError> {
        self.of(scope.tenant()).check_messages(messages)?;
        let opened = messages.iter().filter(|added| added.message.role == Role::User).count();
        self.tenants.admit_turns(scope.tenant(), false, opened as u64).await?;
        Ok(messages.iter().map(|_| self.parts.ids.turn(self.parts.clock.now())).collect())
    }

    fn check_messages(&self, messages: &[AddedMessage]) -> Result<(), ReviewError> {
        match messages.len() {
            0 => return Err(ReviewError::Nothing),
            1..=TURN_MESSAGES_MAX => {}
            count => return Err(ReviewError::TooMany { count }),
        }
        messages.iter().enumerate().try_for_each(|(n, added)| self.check_message(n, &added.message))
    }

    fn check_message(&self, n: usize, message: &Message) -> Result<(), ReviewError> {
        let chars_max = match message.role {
            Role::User => self.settings.query_chars_max,
            _ => self.settings.answer_chars_max,
        };
        // What is more than text may have no text at all: an image, a tool call.
        if !(message.says_something() && message.text.is_empty()) {
            self.check(&format!("content of message {n}"), &message.text, chars_max)?;
        }
        if let Some(name) = &message.name {
            self.check(&format!("name of message {n}"), name, NAME_CHARS_MAX)?;
        }
        self.check_metadata(&message.metadata)
    }

    /// What the model would be shown for a question in this session.
    pub async fn context(&self, scope: &Scope, id: SessionId, query: Option<&str>) -> Result<ContextView, ReviewError> {
        let Self { settings, templates, .. } = self.of(scope.tenant());
        if let Some(query) = query {
            self.check("query", query, settings.query_chars_max)?;
        }
        let recent = self.parts.store.last_turns(scope, id, settings.context_messages).await;
        let recent = self.told(scope, Some(id), "read_history", recent)?.for_prompt();
        let session = recent.session.ok_or(ReviewError::UnknownSession(id))?;
        let known = session.metadata.get("language").and_then(Value::as_str);
        let sample = recent.turns.iter().map(|turn| turn.question().text.as_str()).collect::<Vec<_>>().join("\n");
        let template = templates.choose(known, query.unwrap_or(&sample));
        let limit = settings.model_tokens_max.saturating_sub(settings.answer_tokens);
        let fixed = [template.system(None), query.unwrap_or_default().to_owned()];
        let shown = window(&recent.turns, settings.context_messages);
        let fitted = fit(shown, &[&fixed[0], &fixed[1]], limit)?;
        let is_whole = |turn: &&Turn| fitted.messages.iter().any(|message| std::ptr::eq(*message, turn.question()));
        let shown_from = recent.turns.iter().filter(is_whole).map(|turn| turn.number).min();
        let summaries = self.recall.told_of(scope, id, shown_from).await;
        let summaries = summaries.inspect_err(|error| {
            warn!(session.id = %id, error = %error,
            "What is told of session `{id}` cannot be read: {error}")
        });
        let shown: Vec<TurnId> = recent.turns.iter().filter(is_whole).map(|turn| turn.id).collect();
        let recalled = match query {
            Some(query) => self.recalled_for(scope, id, query, shown).await,
            None => None,
        };
        Ok(ContextView {
            summaries: summaries.unwrap_or_default(),
            recalled,
            language: template.language.clone(),
            messages_in_context: fitted.messages_in_context(),
            text: template.conversation(&fitted.messages),
            messages: fitted.messages.into_iter().cloned().collect(),
        })
    }

    /// What would be recalled for a question in a session; `None` where recall fails, which is logged.
    async fn recalled_for(
        &self,
        scope: &Scope,
        session: SessionId,
        query: &str,
        shown: Vec<TurnId>,
    ) -> Option<RecalledContext> {
        let tokens_max = self.of(scope.tenant()).settings.recall.tokens_max;
        let ask = Ask { question: query.to_owned(), session: Some(session), tokens_max, shown, ..Ask::default() };
        let recalled = self.explain(scope, ask).await.ok()?.recalled;
        let resolved_query = recalled.completed.unwrap_or_else(|| query.to_owned());
        Some(RecalledContext { resolved_query, text: recalled.text })
    }

    /// Counts what a user has.
    pub async fn stats(&self, scope: &Scope) -> Result<Stats, ReviewError> {
        let found = self.parts.store.stats(scope).await;
        self.told(scope, None, "stats", found)
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.parts.store.ping().await
    }

    fn check(&self, field: &str, text: &str, chars_max: usize) -> Result<(), ReviewError> {
        check_text(text, chars_max).map_err(|reason| ReviewError::Text { field: field.to_owned(), reason })
    }

    fn check_metadata(&self, metadata: &Map<String, Value>) -> Result<(), ReviewError> {
        let bytes_max = self.settings.metadata_bytes_max;
        let bytes = serde_json::to_vec(metadata).map_or(usize::MAX, |json| json.len());
        if bytes > bytes_max { Err(ReviewError::Metadata { bytes, bytes_max }) } else { Ok(()) }
    }

    /// Passes a result on, telling the log when it is a failure.
    fn told<T>(
        &self,
        scope: &Scope,
        session: Option<SessionId>,
        operation: &str,
        result: Result<T, StoreError>,
    ) -> Result<T, ReviewError> {
        result.map_err(|error| match error {
            StoreError::UnknownSession(id) => ReviewError::UnknownSession(id),
            error => {
                self.report(scope, session, operation, &error);
                error.into()
            }
        })
    }
}

/// A turn's messages with their cursors.
fn stored(turn: &Turn) -> Vec<(u64, StoredMessage)> {
    let message = |(n, (id, message)): (u64, (MessageId, &Message))| {
        (turn.number << 16 | n, StoredMessage { id, turn: turn.id, message: message.clone() })
    };
    (1..).zip(turn.identified()).map(message).collect()
}
