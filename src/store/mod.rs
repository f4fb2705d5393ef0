//! The store: what is remembered, on disk before it is acknowledged.
//!
//! One trait, spoken in our nouns; each method is one transaction. `sqlite` is the default backend,
//! `waiting` wraps a backend so that chat goes on while its disk is full or its database away, `conformance` is the list
//! of promises that every backend and every wrapper makes, `archive` packs text that is seldom read.
//!
//! **Invariant:** a future of this trait may be dropped at any time: what was handed over is then
//! written or not, never half.

pub mod archive;
pub mod backup;
mod check;
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only a database that is shared goes away"))]
mod circuit;
pub mod conformance;
mod episode;
pub mod erasure;
mod facts;
mod job;
mod knowledge;
mod ledger;
pub mod live;
mod outbox;
mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
mod recall;
mod requests;
pub mod sqlite;
mod takeout;
mod tenants;
mod topics;
mod verify;
mod waiting;
mod whose;

pub use archive::Archive;
pub use backup::{Backup, BackupError, Manifest};
pub use circuit::Circuit;
pub use episode::{Consolidation, DueEpisode, EpisodeChanges, Episodes, Limits, Progress, ReadRange, Stretch, Wanted};
pub use erasure::{BookState, Counts, Erasure, ErasureKind, Erasures, Reapplied, Receipt, TenantKept};
pub use facts::{
    Cause, DueFacts, FACTS_MAX, FactCounts, FactEvent, FactHistory, Facts, Known, Learned, Noted, Outdated,
    QUOTES_LAST, STATEMENTS_MAX, Understood, Undo, Undone, Unread, WhichFacts,
};
pub use job::{Claim, Effect, Finished, JobCounts, Jobs};
pub use knowledge::{
    AskedPassages, DuePassage, HeldDocument, Knowledge, KnowledgeBounds, KnowledgeOutline, NewDocument, SeenPassages,
    SeenPlace,
};
pub use ledger::{DaySpent, Ledger, UNUSED_ANSWERS_MAX, UnusedAnswer, day_of};
pub use outbox::{OUTBOX_DEAD_MAX, OUTBOX_WAITING_MAX, Outbox, Parcel, ParcelClaim, ParcelCounts, PostedParcel};
pub use page::{Page, PageRequest};
#[cfg(feature = "postgres")]
pub use postgres::{MovedIn, Postgres, PostgresSettings, SchemaState};
pub use recall::{
    ChangeMark, Changes, DerivedRow, DueTurn, RecallCursor, RecallEntry, RecallKept, RecallPage, Stamp,
    TRACE_BYTES_MAX, Todo,
};
pub use requests::{
    DoneRequest, Made, MadeImport, OnceWrite, OnceWritten, REQUEST_KEPT, REQUESTS_MAX, RequestError, Requests,
};
pub use sqlite::{Inspection, KeptLog, Restored, Sqlite};
pub use takeout::{
    Arrival, DocumentArrival, EpisodesAfter, FactsFrom, FactsRecords, SessionsAfter, TakenIn, Takeout, TopicsAfter,
    TurnOrDamage, TurnRecords, TurnsAfter,
};
pub use tenants::{KEYS_MAX, Register, TENANTS_MAX, Tenants};
pub use topics::{
    DerivedTopic, Faded, KeptTopic, Moment, PlacedTurn, SketchedTopic, TOPICS_PLACED_MAX, TopicMerge, TopicOutline,
    TopicPatch, TopicTold, Topics, UntakenTurn, Untold, UntoldTurn, WhichTopics,
};
pub use verify::Findings;
pub use waiting::{Outage, Spool, StoreState, Waiting, WaitingBounds};

use std::path::PathBuf;
use std::pin::Pin;

use jiff::Timestamp;

use crate::id::{SessionId, TurnId};
use crate::period::Ttl;
use crate::scope::Scope;
use crate::session::{
    AddedMessage, ClosedTurn, Fingerprint, Held, OpenTurn, ReviseTurn, Revision, Session, SessionPatch, SessionSeed,
    Tail, Turn, TurnDraft, for_prompt,
};

/// Why a turn has no answer whose process ended first.
pub(crate) const UNANSWERED: &str = "recalld stopped before the answer came";

/// What every method of [`Store`] answers with, sooner or later.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where conversations are kept.
pub trait Store: Send + Sync + 'static {
    /// Old text, in blocks.
    fn archive(&self) -> &dyn Archive;

    /// Makes a session; if it exists already it is answered as it is.
    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session>;

    /// Looks a session up.
    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>>;

    /// A user's sessions, oldest first.
    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>>;

    /// Changes a session's metadata or TTL. `None` when there is no such session.
    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>>;

    /// Removes a session and all that is in it, for good (see [`Erasures`]). Answers how many turns went, `None` when there is no
    /// such session.
    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>>;

    /// Writes a question, gives it the session's next number, and makes the session if need be.
    /// Opening the same turn twice is one turn.
    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened>;

    /// Writes how a pending turn ended. A turn that is closed already stays as it is.
    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept>;

    /// Writes a question and how its turn ended at once, both or none: for one that waited. The same as [`Self::open_turn`] and
    /// [`Self::close_turn`] after it, in the time of one.
    fn write_turn(&self, scope: &Scope, open: OpenTurn, closed: ClosedTurn) -> StoreFuture<'_, Opened>;

    /// Begins another try at a turn's answer; what it said becomes a revision.
    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised>;

    /// The newest turns of a session as outlines, superseded ones included, to find the place of a request.
    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held>;

    /// Finds a conversation by what was said in it.
    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>>;

    /// Looks a turn up, whichever session it is in.
    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>>;

    /// Other answers to a turn's question, oldest first. `None` when there is no such turn.
    fn revisions(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Vec<Revision>>>;

    /// Marks turns that have waited for the results of tools since before this time as partial.
    fn give_up_on_tools(&self, before: Timestamp) -> StoreFuture<'_, u64>;

    /// Adds turns that others completed, in order. Without a seed the session must exist.
    fn add_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>>;

    /// Adds loose messages: they become turns, or answer the last one (see [`crate::session::group`]).
    /// Without a seed the session must exist.
    /// `ids` names the turns that are opened, at least one for each message. Answers the turns touched.
    fn add_messages(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        messages: Vec<AddedMessage>,
        ids: Vec<TurnId>,
    ) -> StoreFuture<'_, Vec<Turn>>;

    /// The last turns that enter context, oldest first: as many as it takes for `messages_max` messages by
    /// the user or the model.
    fn last_turns(&self, scope: &Scope, session: SessionId, messages_max: usize) -> StoreFuture<'_, Recent>;

    /// The visible turns of a session by number, or all of them. `None` when there is no such session.
    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>>;

    /// Removes up to `turns_max` turns older than their session's TTL, and the sessions they leave
    /// empty. To be called again while [`Expired::more`].
    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired>;

    /// What recall keeps of a scope's turns, over all its sessions, in pages. Turns that are added meanwhile may be
    /// missing: take a mark of [`Store::recall_changes`] before the first page and ask from there afterwards.
    fn recall_entries(
        &self,
        scope: &Scope,
        embedder: &str,
        after: Option<RecallCursor>,
        limit: usize,
    ) -> StoreFuture<'_, RecallPage>;

    /// What changed in a scope since a mark, and begins to watch the scope. A write that was answered is in it.
    /// Costs next to nothing when nothing changed.
    fn recall_changes(&self, scope: &Scope, since: Option<ChangeMark>, embedder: &str) -> StoreFuture<'_, Changes>;

    /// Ends watching a scope; older marks are worth nothing from then on.
    fn unwatch(&self, scope: &Scope);

    /// Turns of any scope whose row or vectors are to be made, oldest first.
    fn recall_todo(&self, what: Todo, limit: usize) -> StoreFuture<'_, Vec<DueTurn>>;

    /// Writes what was derived and strikes it off the lists. A turn that changed meanwhile, or went, is passed over.
    fn keep_recall_rows(&self, rows: Vec<DerivedRow>) -> StoreFuture<'_, ()>;

    /// Puts every turn on a list again, as when the format of rows or the embedder changed. Answers how many are on it.
    fn recall_again(&self, what: Todo) -> StoreFuture<'_, u64>;

    /// What rows or vectors were made with, as noted last.
    fn recall_made_with(&self, what: Todo) -> StoreFuture<'_, Option<String>>;

    /// Notes what rows or vectors are made with from now on.
    fn note_recall_made_with(&self, what: Todo, made_with: &str) -> StoreFuture<'_, ()>;

    /// What was said in several turns, in the order asked for, without what was noted about the turns. Unknown, foreign, damaged and superseded ones are left out, and
    /// those that do not enter context.
    fn turns_by_id(&self, scope: &Scope, ids: &[TurnId]) -> StoreFuture<'_, Vec<Turn>>;

    /// The explanation of what was recalled for a turn, if it is one of the session's newest.
    fn trace(&self, scope: &Scope, turn: TurnId) -> StoreFuture<'_, Option<String>>;

    /// The jobs that wait beside the conversations.
    fn jobs(&self) -> &dyn Jobs;

    /// What conversations were summarised to.
    fn episodes(&self) -> &dyn Episodes;

    /// Where topics are kept.
    fn topics(&self) -> &dyn Topics;

    /// What is exported and imported.
    fn takeout(&self) -> &dyn Takeout;
    /// Tenants and the keys that open the doors.
    fn tenants(&self) -> &dyn Tenants;
    /// Where facts are kept.
    fn facts(&self) -> &dyn Facts;

    /// What the memory model costs, and its answers that could not be used.
    fn ledger(&self) -> &dyn Ledger;

    /// Webhooks that are yet to be delivered.
    fn outbox(&self) -> &dyn Outbox;

    /// What tenants know: documents and their passages.
    fn knowledge(&self) -> &dyn Knowledge;

    /// Which requests with an `Idempotency-Key` were done.
    fn requests(&self) -> &dyn Requests;

    /// Erasing for good, and the book of that.
    fn erasures(&self) -> &dyn Erasures;

    /// Counts what a user has.
    fn stats(&self, scope: &Scope) -> StoreFuture<'_, Stats>;

    /// Marks turns that a former process left pending as failed. Answers how many.
    fn fail_abandoned(&self) -> StoreFuture<'_, u64>;

    /// The same for turns that another instance was answering and has fallen silent, while this one goes on.
    fn fail_deserted(&self) -> StoreFuture<'_, u64>;

    /// Whether turns that waited for the store are being written: work that can wait leaves it to them.
    fn is_catching_up(&self) -> bool {
        false
    }

    /// Removes sessions of visitors, which older versions kept here, a few at a time. Answers how many went.
    fn forget_visits(&self) -> StoreFuture<'_, u64>;

    /// Whether the store answers.
    fn ping(&self) -> StoreFuture<'_, ()>;

    /// When damage was found in the write-ahead log, as long as a copy of that log is kept. What it lost may be in the copy.
    fn log_damage(&self) -> Option<Timestamp> {
        None
    }

    /// A copy of everything that is kept, as it is at one moment, while others go on. A store that has tools of its own for
    /// that says so.
    fn backup(&self) -> StoreFuture<'_, Backup> {
        Box::pin(std::future::ready(Err(StoreError::Refused("this store cannot be copied while it is in use".into()))))
    }

    /// Writes what is still in memory and lets go of the files.
    fn close(&self) -> StoreFuture<'_, ()>;
}

/// Where an opened turn came to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its number in the session; `None` while the turn waits for the disk.
    pub number: Option<u64>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// Whether the question is on disk.
    pub kept: Kept,
}

/// A try at an answer that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revised {
    /// Which try it is.
    pub attempt: u32,
    /// The turn's number.
    pub number: u64,
    /// When the turn was opened.
    pub created_at: Timestamp,
}

/// What a client tells of a conversation that it has no name for.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    /// The chain of what was said before the question.
    pub chain: Fingerprint,
    /// The question.
    pub question: Fingerprint,
    /// Tool calls that it brings the results of: then only a turn that waits for one of them will do.
    pub calls: Vec<String>,
    /// The end of what was said before the question, to find a conversation whose beginning the client leaves out.
    pub tail: Option<Tail>,
}

/// A conversation that was found by what was said in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryMatch {
    /// The request goes on where it ends, or asks its last question again.
    Continues(SessionId),
    /// The request leaves it at an earlier point.
    Forks(SessionId),
}

/// Whether something is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Yes.
    OnDisk,
    /// It waits in memory until the disk takes it.
    Waiting,
}

/// The end of a conversation.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    /// The conversation itself, if it exists on disk.
    pub session: Option<Session>,
    /// Turns that enter context, oldest first.
    pub turns: Vec<Turn>,
    /// Turns that could not be shown, each as a [`StoreError::Damaged`] or [`StoreError::Unreadable`].
    pub damaged: Vec<StoreError>,
}

impl Recent {
    /// The same in a form that a model takes.
    pub fn for_prompt(self) -> Self {
        Self { turns: self.turns.into_iter().map(for_prompt).collect(), ..self }
    }
}

/// What is to be removed by age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expiry {
    /// What time it is.
    pub now: Timestamp,
    /// The TTL of sessions that have none of their own.
    pub server_ttl: Ttl,
    /// Most turns to remove in one transaction.
    pub turns_max: usize,
}

/// What was removed by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expired {
    /// Sessions that were left empty.
    pub sessions: u64,
    /// Turns that were too old.
    pub turns: u64,
    /// Whether there may be more.
    pub more: bool,
}

impl Expired {
    /// Both together.
    fn and(self, other: Self) -> Self {
        let (sessions, turns) = (self.sessions + other.sessions, self.turns + other.turns);
        Self { sessions, turns, more: self.more || other.more }
    }
}

/// What a user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Sessions.
    pub sessions: u64,
    /// Turns in them.
    pub turns: u64,
    /// Bytes of the whole data file, all users together.
    pub bytes: u64,
}

/// What went wrong in the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database refused the data.
    #[error("the database refused the data: {0}")]
    Refused(String),
    /// Something was to be added to a session that does not exist.
    #[error("there is no session `{0}`")]
    UnknownSession(SessionId),
    /// A turn was closed that was never opened.
    #[error("there is no turn `{0}` to close")]
    UnknownTurn(TurnId),
    /// A turn that waited for the store was erased meanwhile.
    #[error("turn `{0}` was erased while it waited to be written")]
    Erased(TurnId),
    /// A request with this `Idempotency-Key` was done already.
    #[error("a request with this Idempotency-Key was done already")]
    Repeated,
    /// No space left.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The disk or the file system failed.
    #[error("the disk failed: {0}")]
    Disk(String),
    /// The database does not answer, or takes nothing.
    #[error("the database is away: {0}")]
    Away(String),
    /// A row does not match its checksum.
    #[error("turn {number} of session `{session}` is damaged: {what}")]
    Damaged {
        /// Where.
        session: SessionId,
        /// Which.
        number: u64,
        /// In what way.
        what: String,
    },
    /// A turn's text lies in a block that a newer recalld wrote: it may be whole, and is left alone.
    #[error("turn {number} of session `{session}` cannot be read by this recalld: {what}")]
    Unreadable {
        /// Where.
        session: SessionId,
        /// Which.
        number: u64,
        /// Why.
        what: String,
    },
    /// A revision does not match its checksum.
    #[error("answer {attempt} of turn `{turn}` is damaged")]
    DamagedRevision {
        /// Which turn.
        turn: TurnId,
        /// Which try.
        attempt: u32,
    },
    /// A page of the data file is not what was written.
    #[error("the data file is damaged: {0}")]
    DamagedFile(String),
    /// The file is something else.
    #[error("`{path}` is not a recalld database: {reason}")]
    NotOurs {
        /// Which file.
        path: PathBuf,
        /// How that was seen.
        reason: String,
    },
    /// The file was written by a newer version.
    #[error("`{path}` has schema version {found}, this binary knows {known}; use a newer recalld")]
    Newer {
        /// Which file.
        path: PathBuf,
        /// What it has.
        found: i64,
        /// What we know.
        known: i64,
    },
    /// Another process has the file.
    #[error("`{path}` is in use by {holder}")]
    InUse {
        /// Which file.
        path: PathBuf,
        /// Who, as far as the lock file says.
        holder: Holder,
    },
    /// The file or its folder cannot be opened or made.
    #[error("cannot open `{path}`: {reason}")]
    CannotOpen {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

/// Who holds a data file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// The process.
    pub pid: Option<u32>,
    /// Where it serves, if it does.
    pub url: Option<String>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pid, &self.url) {
            (Some(pid), Some(url)) => write!(f, "process {pid}, which serves {url}"),
            (Some(pid), None) => write!(f, "process {pid}"),
            _ => f.write_str("another process"),
        }
    }
}

impl StoreError {
    /// Whether the same write may succeed later, unchanged.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Disk(_) | Self::Away(_))
    }

    /// Whether the database is away. That is said once for each outage, by whoever watches over it, and not by everybody who asks.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }

    /// Whether it hides a single turn, and others can be shown.
    fn hides_one_turn(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Unreadable { .. })
    }

    /// Whether a newer recalld can do what this one cannot.
    pub(crate) fn wants_newer(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }

    /// Whether it ends the transaction that it happens in.
    fn ends_transaction(&self) -> bool {
        self.may_pass() || matches!(self, Self::DamagedFile(_))
    }
}
