//! A store that fails when told to, or keeps recall waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use recalld::id::{SessionId, TurnId};
use recalld::scope::Scope;
use recalld::session::{
    AddedMessage, ClosedTurn, Held, OpenTurn, RequestMark, ReviseTurn, Revision, Session, SessionPatch, SessionSeed,
    Turn, TurnDraft,
};
use recalld::store::{
    Backup, BookState, Claim, DaySpent, DoneRequest, Erasure, Erasures, Expired, Expiry, Facts, Kept, Knowledge,
    Ledger, OnceWrite, OnceWritten, Opened, Outbox, Page, PageRequest, Reapplied, Receipt, Recent, Requests, Sqlite,
    Stats, Store, StoreError, StoreFuture, Takeout, TenantKept, Tenants, Topics, UnusedAnswer,
};
use recalld::store::{
    ChangeMark, Changes, DerivedRow, DueTurn, Episodes, HistoryMatch, Jobs, RecallCursor, RecallPage, Revised, Todo,
    Trail,
};

/// SQLite, or whatever error it was told to fail with.
pub(crate) struct Flaky {
    inner: Sqlite,
    failure: Mutex<Option<StoreError>>,
    /// Whether recall waits for an answer that does not come.
    hangs: AtomicBool,
}

impl Flaky {
    pub(crate) fn new(inner: Sqlite) -> Self {
        Self { inner, failure: Mutex::default(), hangs: AtomicBool::default() }
    }

    /// From now on everything fails like this; `None` makes it well again.
    pub(crate) fn fail(&self, with: Option<StoreError>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = with;
    }

    /// From now on recall waits, or no longer.
    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::SeqCst);
    }

    fn or_hang<'a, T: Send + 'a>(&'a self, work: impl FnOnce() -> StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let later = self.or_fail(work);
        Box::pin(async {
            while self.hangs.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            later.await
        })
    }

    fn or_fail<'a, T: Send + 'a>(&self, work: impl FnOnce() -> StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(error) => Box::pin(async { Err(error) }),
            None => work(),
        }
    }
}

impl Store for Flaky {
    fn archive(&self) -> &dyn recalld::store::archive::Archive {
        self.inner.archive()
    }

    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session> {
        self.or_fail(|| self.inner.create_session(scope, id, seed))
    }

    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>> {
        self.or_fail(|| self.inner.session(scope, id))
    }

    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>> {
        self.or_fail(|| self.inner.sessions(scope, page))
    }

    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>> {
        self.or_fail(|| self.inner.update_session(scope, id, patch))
    }

    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        self.or_fail(|| self.inner.delete_session(scope, id))
    }

    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened> {
        self.or_fail(|| self.inner.open_turn(scope, turn))
    }

    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept> {
        self.or_fail(|| self.inner.close_turn(scope, turn))
    }

    fn write_turn(&self, scope: &Scope, open: OpenTurn, closed: ClosedTurn) -> StoreFuture<'_, Opened> {
        self.or_fail(|| self.inner.write_turn(scope, open, closed))
    }

    fn add_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        self.or_fail(|| self.inner.add_turns(scope, session, seed, turns))
    }

    fn add_messages(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        messages: Vec<AddedMessage>,
        ids: Vec<TurnId>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        self.or_fail(|| self.inner.add_messages(scope, session, seed, messages, ids))
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Recent> {
        self.or_fail(|| self.inner.last_turns(scope, session, turns_max))
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        self.or_fail(|| self.inner.turns(scope, session, page))
    }

    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised> {
        self.or_fail(|| self.inner.revise_turn(scope, turn))
    }

    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held> {
        self.inner.held(scope, session, turns_max)
    }

    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>> {
        self.inner.match_history(scope, trail)
    }

    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>> {
        self.inner.turn(scope, id)
    }

    fn revisions(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Vec<Revision>>> {
        self.inner.revisions(scope, id)
    }

    fn give_up_on_tools(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        self.inner.give_up_on_tools(before)
    }

    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        self.or_fail(|| self.inner.expire(expiry))
    }

    fn recall_entries(
        &self,
        scope: &Scope,
        embedder: &str,
        after: Option<RecallCursor>,
        limit: usize,
    ) -> StoreFuture<'_, RecallPage> {
        self.or_fail(|| self.inner.recall_entries(scope, embedder, after, limit))
    }

    fn recall_changes(&self, scope: &Scope, since: Option<ChangeMark>, embedder: &str) -> StoreFuture<'_, Changes> {
        self.or_hang(|| self.inner.recall_changes(scope, since, embedder))
    }

    fn unwatch(&self, scope: &Scope) {
        self.inner.unwatch(scope);
    }

    fn recall_todo(&self, what: Todo, limit: usize) -> StoreFuture<'_, Vec<DueTurn>> {
        self.or_fail(|| self.inner.recall_todo(what, limit))
    }

    fn keep_recall_rows(&self, rows: Vec<DerivedRow>) -> StoreFuture<'_, ()> {
        self.or_fail(|| self.inner.keep_recall_rows(rows))
    }

    fn recall_again(&self, what: Todo) -> StoreFuture<'_, u64> {
        self.or_fail(|| self.inner.recall_again(what))
    }

    fn recall_made_with(&self, what: Todo) -> StoreFuture<'_, Option<String>> {
        self.or_fail(|| self.inner.recall_made_with(what))
    }

    fn note_recall_made_with(&self, what: Todo, made_with: &str) -> StoreFuture<'_, ()> {
        self.or_fail(|| self.inner.note_recall_made_with(what, made_with))
    }

    fn turns_by_id(&self, scope: &Scope, ids: &[TurnId]) -> StoreFuture<'_, Vec<Turn>> {
        self.or_fail(|| self.inner.turns_by_id(scope, ids))
    }

    fn trace(&self, scope: &Scope, turn: TurnId) -> StoreFuture<'_, Option<String>> {
        self.or_fail(|| self.inner.trace(scope, turn))
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

    fn takeout(&self) -> &dyn Takeout {
        self.inner.takeout()
    }

    fn tenants(&self) -> &dyn Tenants {
        self.inner.tenants()
    }

    fn facts(&self) -> &dyn Facts {
        self.inner.facts()
    }

    fn erasures(&self) -> &dyn Erasures {
        self
    }

    fn ledger(&self) -> &dyn Ledger {
        self
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
        self.or_fail(|| self.inner.stats(scope))
    }

    fn fail_abandoned(&self) -> StoreFuture<'_, u64> {
        self.or_fail(|| self.inner.fail_abandoned())
    }

    fn fail_deserted(&self) -> StoreFuture<'_, u64> {
        self.or_fail(|| self.inner.fail_deserted())
    }

    fn forget_visits(&self) -> StoreFuture<'_, u64> {
        self.or_fail(|| self.inner.forget_visits())
    }

    fn backup(&self) -> StoreFuture<'_, Backup> {
        self.or_fail(|| self.inner.backup())
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.or_fail(|| self.inner.ping())
    }

    fn log_damage(&self) -> Option<Timestamp> {
        self.inner.log_damage()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.inner.close()
    }
}

impl Erasures for Flaky {
    fn erase(&self, what: Erasure) -> StoreFuture<'_, Option<Receipt>> {
        self.or_fail(|| self.inner.erasures().erase(what))
    }

    fn reapply(&self) -> StoreFuture<'_, Reapplied> {
        self.or_fail(|| self.inner.erasures().reapply())
    }

    fn kept(&self) -> StoreFuture<'_, Vec<TenantKept>> {
        self.or_fail(|| self.inner.erasures().kept())
    }

    fn book(&self) -> StoreFuture<'_, BookState> {
        self.or_fail(|| self.inner.erasures().book())
    }
}

impl Ledger for Flaky {
    fn spent_on(&self, scope: &Scope, day: i64) -> StoreFuture<'_, DaySpent> {
        self.or_fail(|| self.inner.ledger().spent_on(scope, day))
    }

    fn spend(&self, scope: &Scope, day: i64, more: DaySpent) -> StoreFuture<'_, ()> {
        self.or_fail(|| self.inner.ledger().spend(scope, day, more))
    }

    fn keep_unused(&self, claim: &Claim, answer: UnusedAnswer) -> StoreFuture<'_, ()> {
        self.or_fail(|| self.inner.ledger().keep_unused(claim, answer))
    }

    fn unused(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<UnusedAnswer>> {
        self.or_fail(|| self.inner.ledger().unused(scope, page))
    }
}

impl Requests for Flaky {
    fn done_request(&self, scope: &Scope, key: [u8; 32]) -> StoreFuture<'_, Option<DoneRequest>> {
        self.or_fail(|| self.inner.requests().done_request(scope, key))
    }

    fn write_once(&self, scope: &Scope, request: RequestMark, write: OnceWrite) -> StoreFuture<'_, OnceWritten> {
        self.or_fail(|| self.inner.requests().write_once(scope, request, write))
    }
}
