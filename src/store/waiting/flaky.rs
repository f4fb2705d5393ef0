//! A disk that fills, empties and dawdles when a test says so.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::id::{SessionId, TurnId};
use crate::scope::{Scope, Tenant};
use crate::session::{
    AddedMessage, ClosedTurn, Held, OpenTurn, RequestMark, ReviseTurn, Revision, Session, SessionPatch, SessionSeed,
    Turn, TurnDraft,
};
use crate::store::{
    Archive, Backup, ChangeMark, Changes, DerivedRow, DoneRequest, DueTurn, Episodes, Erasures, Expired, Expiry, Facts,
    HistoryMatch, Jobs, Kept, Knowledge, Ledger, OnceWrite, OnceWritten, Opened, Outbox, Page, PageRequest,
    RecallCursor, RecallPage, Recent, Register, Requests, Revised, Sqlite, Stats, Store, StoreError, StoreFuture,
    Takeout, Tenants, Todo, Topics, Trail,
};
use crate::tenant::{Key, KeyId, Seal, TenantRecord, TenantSettings, Usage};

/// A store that fails on demand. Reads go on, as they do on a full disk.
pub(super) struct Flaky {
    inner: Sqlite,
    pub(super) full: AtomicBool,
    /// Nothing can be asked of it, not even what it holds.
    pub(super) away: AtomicBool,
    /// No turn is to its liking.
    pub(super) refuses: AtomicBool,
    /// Writes that still succeed although the disk is full.
    pub(super) spared: AtomicU64,
    /// When set, an opening turn stops before it is written, tells `reached`, and waits for `go_on`.
    pub(super) halt: AtomicBool,
    pub(super) reached: Notify,
    pub(super) go_on: Notify,
}

impl Flaky {
    pub(super) fn new(inner: Sqlite) -> Self {
        let (full, away, refuses, halt) = Default::default();
        Self {
            inner,
            full,
            away,
            refuses,
            spared: AtomicU64::new(0),
            halt,
            reached: Notify::new(),
            go_on: Notify::new(),
        }
    }

    fn there(&self) -> Result<(), StoreError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(StoreError::Away("nobody answers".into())),
            false => Ok(()),
        }
    }

    /// An answer, unless nobody gives one.
    fn asked<'a, T: 'a>(&self, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        match self.there() {
            Ok(()) => answer,
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.there()?;
        let spare = |left: u64| left.checked_sub(1);
        let spared = self.spared.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spare).is_ok();
        match self.full.load(Ordering::SeqCst) && !spared {
            true => Err(StoreError::Full("no space left on device".into())),
            false => Ok(()),
        }
    }

    /// Whether a question is taken, sooner or later.
    async fn take_question(&self) -> Result<(), StoreError> {
        if self.halt.load(Ordering::SeqCst) {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
        self.check()?;
        match self.refuses.load(Ordering::SeqCst) {
            true => Err(StoreError::Refused("not to its liking".into())),
            false => Ok(()),
        }
    }
}

impl Store for Flaky {
    fn archive(&self) -> &dyn Archive {
        self.inner.archive()
    }

    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened> {
        let scope = scope.clone();
        Box::pin(async move {
            self.take_question().await?;
            self.inner.open_turn(&scope, turn).await
        })
    }

    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept> {
        let checked = self.check();
        let closing = self.inner.close_turn(scope, turn);
        Box::pin(async move {
            checked?;
            closing.await
        })
    }

    fn write_turn(&self, scope: &Scope, open: OpenTurn, closed: ClosedTurn) -> StoreFuture<'_, Opened> {
        let scope = scope.clone();
        Box::pin(async move {
            self.take_question().await?;
            self.inner.write_turn(&scope, open, closed).await
        })
    }

    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session> {
        match self.check() {
            Ok(()) => self.inner.create_session(scope, id, seed),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>> {
        match self.check() {
            Ok(()) => self.inner.update_session(scope, id, patch),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        match self.check() {
            Ok(()) => self.inner.delete_session(scope, id),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn add_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        match self.check() {
            Ok(()) => self.inner.add_turns(scope, session, seed, turns),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn add_messages(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        messages: Vec<AddedMessage>,
        ids: Vec<TurnId>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        match self.check() {
            Ok(()) => self.inner.add_messages(scope, session, seed, messages, ids),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>> {
        self.asked(self.inner.session(scope, id))
    }

    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>> {
        self.inner.sessions(scope, page)
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, messages_max: usize) -> StoreFuture<'_, Recent> {
        self.asked(self.inner.last_turns(scope, session, messages_max))
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        self.asked(self.inner.turns(scope, session, page))
    }

    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised> {
        match self.check() {
            Ok(()) => self.inner.revise_turn(scope, turn),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held> {
        self.asked(self.inner.held(scope, session, turns_max))
    }

    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>> {
        self.asked(self.inner.match_history(scope, trail))
    }

    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>> {
        self.asked(self.inner.turn(scope, id))
    }

    fn revisions(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Vec<Revision>>> {
        self.inner.revisions(scope, id)
    }

    fn give_up_on_tools(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        self.inner.give_up_on_tools(before)
    }

    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        self.inner.expire(expiry)
    }

    fn recall_entries(
        &self,
        scope: &Scope,
        embedder: &str,
        after: Option<RecallCursor>,
        limit: usize,
    ) -> StoreFuture<'_, RecallPage> {
        self.inner.recall_entries(scope, embedder, after, limit)
    }

    fn recall_changes(&self, scope: &Scope, since: Option<ChangeMark>, embedder: &str) -> StoreFuture<'_, Changes> {
        self.inner.recall_changes(scope, since, embedder)
    }

    fn unwatch(&self, scope: &Scope) {
        self.inner.unwatch(scope);
    }

    fn recall_todo(&self, what: Todo, limit: usize) -> StoreFuture<'_, Vec<DueTurn>> {
        self.inner.recall_todo(what, limit)
    }

    fn keep_recall_rows(&self, rows: Vec<DerivedRow>) -> StoreFuture<'_, ()> {
        match self.check() {
            Ok(()) => self.inner.keep_recall_rows(rows),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn recall_again(&self, what: Todo) -> StoreFuture<'_, u64> {
        match self.check() {
            Ok(()) => self.inner.recall_again(what),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn recall_made_with(&self, what: Todo) -> StoreFuture<'_, Option<String>> {
        self.inner.recall_made_with(what)
    }

    fn note_recall_made_with(&self, what: Todo, made_with: &str) -> StoreFuture<'_, ()> {
        match self.check() {
            Ok(()) => self.inner.note_recall_made_with(what, made_with),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn turns_by_id(&self, scope: &Scope, ids: &[TurnId]) -> StoreFuture<'_, Vec<Turn>> {
        self.inner.turns_by_id(scope, ids)
    }

    fn trace(&self, scope: &Scope, turn: TurnId) -> StoreFuture<'_, Option<String>> {
        self.inner.trace(scope, turn)
    }

    fn jobs(&self) -> &dyn Jobs {
        self.inner.jobs()
    }

    fn episodes(&self) -> &dyn Episodes {
        self.inner.episodes()
    }

    fn topics(&self) -> &dyn Topics {
        self.inner.topics()
    }

    fn backup(&self) -> StoreFuture<'_, Backup> {
        self.inner.backup()
    }

    fn takeout(&self) -> &dyn Takeout {
        self.inner.takeout()
    }

    fn tenants(&self) -> &dyn Tenants {
        self
    }

    fn facts(&self) -> &dyn Facts {
        self.inner.facts()
    }

    fn erasures(&self) -> &dyn Erasures {
        self.inner.erasures()
    }

    fn ledger(&self) -> &dyn Ledger {
        self.inner.ledger()
    }

    fn outbox(&self) -> &dyn Outbox {
        self.inner.outbox()
    }

    fn knowledge(&self) -> &dyn Knowledge {
        self.inner.knowledge()
    }

    fn requests(&self) -> &dyn Requests {
        self
    }

    fn stats(&self, scope: &Scope) -> StoreFuture<'_, Stats> {
        self.inner.stats(scope)
    }

    fn fail_abandoned(&self) -> StoreFuture<'_, u64> {
        self.inner.fail_abandoned()
    }

    fn fail_deserted(&self) -> StoreFuture<'_, u64> {
        self.inner.fail_deserted()
    }

    fn forget_visits(&self) -> StoreFuture<'_, u64> {
        self.inner.forget_visits()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.asked(self.inner.ping())
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.inner.close()
    }
}

impl Tenants for Flaky {
    fn version(&self) -> StoreFuture<'_, u64> {
        self.asked(self.inner.tenants().version())
    }

    fn register(&self) -> StoreFuture<'_, Register> {
        self.asked(self.inner.tenants().register())
    }

    fn create(&self, tenant: TenantRecord) -> StoreFuture<'_, bool> {
        self.asked(self.inner.tenants().create(tenant))
    }

    fn update(&self, tenant: &Tenant, settings: TenantSettings, at: Timestamp) -> StoreFuture<'_, bool> {
        self.asked(self.inner.tenants().update(tenant, settings, at))
    }

    fn usage(&self, tenant: &Tenant, with_bytes: bool) -> StoreFuture<'_, Usage> {
        self.asked(self.inner.tenants().usage(tenant, with_bytes))
    }

    fn add_key(&self, key: Key, ended_before: Timestamp) -> StoreFuture<'_, ()> {
        self.asked(self.inner.tenants().add_key(key, ended_before))
    }

    fn replace_key(&self, old: &KeyId, ends_at: Timestamp, new: Key) -> StoreFuture<'_, bool> {
        self.asked(self.inner.tenants().replace_key(old, ends_at, new))
    }

    fn revoke_key(&self, id: &KeyId, at: Timestamp) -> StoreFuture<'_, Option<Key>> {
        self.asked(self.inner.tenants().revoke_key(id, at))
    }

    fn seal(&self, fresh: [u8; 32]) -> StoreFuture<'_, Seal> {
        self.asked(self.inner.tenants().seal(fresh))
    }
}

impl Requests for Flaky {
    fn done_request(&self, scope: &Scope, key: [u8; 32]) -> StoreFuture<'_, Option<DoneRequest>> {
        self.asked(self.inner.requests().done_request(scope, key))
    }

    fn write_once(&self, scope: &Scope, request: RequestMark, write: OnceWrite) -> StoreFuture<'_, OnceWritten> {
        match self.check() {
            Ok(()) => self.inner.requests().write_once(scope, request, write),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}
