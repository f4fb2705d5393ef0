//! Chat goes on while the disk is full: turns wait in memory, in order, until it takes them.
//!
//! Only turns of a chat wait. Explicit writes fail at once, so that whoever asked for them knows.
//! What waits is bounded, has no number yet, and is shown to the model like any other turn.

mod turn;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tracing::{info, warn};

use self::turn::WaitingTurn;
use super::check;
use super::{
    Archive, Backup, BookState, ChangeMark, Changes, DerivedRow, DueTurn, Episodes, Erasure, Erasures, Expired, Expiry,
    Facts, HistoryMatch, Jobs, Kept, Knowledge, Ledger, Opened, Outbox, Page, PageRequest, Reapplied, RecallCursor,
    RecallPage, Receipt, Recent, Revised, Stats, Store, StoreError, StoreFuture, Takeout, TenantKept, Tenants, Todo,
    Topics, Trail,
};
use crate::clock::Clock;
use crate::id::{SessionId, TurnId};
use crate::scope::{Scope, User};
use crate::session::{
    AddedMessage, ClosedTurn, Held, OpenTurn, ReviseTurn, Revision, Session, SessionPatch, SessionSeed, Turn,
    TurnDraft, newest,
};

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct WaitingBounds {
    /// Most turns.
    pub turns_max: usize,
    /// Most bytes of text in them when they are taken in.
    pub bytes_max: usize,
}

/// How far from the shown turns a question is searched whose ending waits; more are not asked at once.
const QUESTIONS_SEARCHED_MAX: usize = 64;

/// A store whose turns wait while it cannot write.
pub struct Waiting<S: ?Sized> {
    inner: Arc<S>,
    clock: Arc<dyn Clock>,
    bounds: WaitingBounds,
    queue: Mutex<VecDeque<WaitingTurn>>,
    /// Held by whoever writes what waits, and by whoever removes it: what is deleted does not come back.
    replaying: tokio::sync::Mutex<()>,
}

impl<S: Store + ?Sized> Waiting<S> {
    /// Wraps a store.
    pub fn new(inner: Arc<S>, clock: Arc<dyn Clock>, bounds: WaitingBounds) -> Self {
        Self { inner, clock, bounds, queue: Mutex::default(), replaying: tokio::sync::Mutex::default() }
    }

    /// How many turns wait.
    pub fn waiting(&self) -> usize {
        self.queue().len()
    }

    /// Tries to write what waits, oldest first. Stops at the first refusal; answers how many are left.
    pub async fn flush(&self) -> usize {
        let _alone = self.replaying.lock().await;
        let before = self.waiting();
        loop {
            let front = self.queue().front().cloned();
            let Some(front) = front else { break };
            match self.write(&front).await {
                Ok(()) => self.forget_written(&front),
                Err(error) if error.may_pass() => break,
                Err(error) => {
                    warn!(session.id = %front.session, user.id = %front.scope.user(), operation = "replay_turn",
                          error = %error, "A waiting turn was refused and is dropped: {error}");
                    self.queue().retain(|turn| turn.id != front.id);
                }
            }
        }
        let left = self.waiting();
        if left < before {
            info!(written = before - left, left, "Wrote {} waiting turns, {left} are left", before - left);
        }
        left
    }

    /// Writes one turn as far as it has come. Both steps may be repeated without harm.
    async fn write(&self, turn: &WaitingTurn) -> Result<(), StoreError> {
        if let Some((open, _)) = &turn.open {
            self.inner.open_turn(&turn.scope, open.clone()).await?;
            self.forget_question(turn.id);
        }
        if let Some(closed) = &turn.closed {
            self.inner.close_turn(&turn.scope, closed.clone()).await?;
        }
        Ok(())
    }

    fn forget_question(&self, id: TurnId) {
        if let Some(turn) = self.queue().iter_mut().find(|turn| turn.id == id) {
            turn.open = None;
        }
    }

    /// Takes the front turn out, unless its ending came while its question was being written.
    fn forget_written(&self, written: &WaitingTurn) {
        let mut queue = self.queue();
        let Some(front) = queue.front_mut().filter(|front| front.id == written.id) else { return };
        let messages = |turn: &WaitingTurn| turn.closed.as_ref().map_or(0, |closed| closed.messages.len());
        let (before, ended_meanwhile) = (messages(written), written.closed != front.closed);
        match &mut front.closed {
            // What is written of it is not written again.
            Some(closed) if ended_meanwhile => drop(closed.messages.drain(..before)),
            _ => drop(queue.pop_front()),
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<WaitingTurn>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_waiting(&self, scope: &Scope, session: SessionId) -> bool {
        self.queue().iter().any(|turn| turn.belongs_to(scope, session))
    }

    fn waiting_in(&self, scope: &Scope, session: SessionId) -> Vec<WaitingTurn> {
        self.queue().iter().filter(|turn| turn.belongs_to(scope, session)).cloned().collect()
    }

    /// What waits was said before what is added now, and gets its number first if the disk is back.
    async fn settle(&self, scope: &Scope, session: SessionId) {
        if self.is_waiting(scope, session) {
            self.flush().await;
        }
    }

    /// Takes a turn in, or hands the reason back when there is no room.
    fn let_wait(&self, turn: WaitingTurn, reason: StoreError) -> Result<(), StoreError> {
        let mut queue = self.queue();
        let bytes: usize = queue.iter().map(|turn| turn.bytes).sum::<usize>() + turn.bytes;
        if queue.len() >= self.bounds.turns_max || bytes > self.bounds.bytes_max {
            return Err(reason);
        }
        if queue.is_empty() {
            warn!(session.id = %turn.session, user.id = %turn.scope.user(), operation = "store_turn", error = %reason,
                  "Chat goes on without the disk, turns wait in memory: {reason}");
        }
        queue.push_back(turn);
        Ok(())
    }

    fn open_waiting(&self, scope: Scope, open: OpenTurn, reason: StoreError) -> Result<Opened, StoreError> {
        let (id, session) = (open.id, open.session);
        if let Some(created_at) = self.opened_before(&scope, session, id) {
            return Ok(Opened { number: None, created_at, kept: Kept::Waiting });
        }
        let created_at = self.clock.now();
        self.let_wait(WaitingTurn::asked(scope, open, created_at), reason)?;
        Ok(Opened { number: None, created_at, kept: Kept::Waiting })
    }

    fn opened_before(&self, scope: &Scope, session: SessionId, id: TurnId) -> Option<Timestamp> {
        let queue = self.queue();
        let known = queue.iter().find(|turn| turn.is(scope, session, id))?;
        known.open.as_ref().map(|(_, created_at)| *created_at)
    }

    /// Hands the ending to a turn that waits already, unless it has one; gives it back when none waits.
    fn close_waiting(&self, scope: &Scope, closed: ClosedTurn) -> Option<ClosedTurn> {
        let mut queue = self.queue();
        match queue.iter_mut().find(|turn| turn.is(scope, closed.session, closed.id)) {
            Some(turn) => {
                turn.end(closed);
                None
            }
            None => Some(closed),
        }
    }

    /// The waiting turns that have their ending, with the question from here or from the disk.
    async fn ended(&self, scope: &Scope, waiting: &[WaitingTurn], stored: &[Turn]) -> Vec<Turn> {
        let last = stored.last().map_or(0, |turn| turn.number);
        let mut ended = Vec::new();
        for (number, turn) in (last + 1..).zip(waiting) {
            let question = match turn.question(number) {
                Some(question) => Some(question),
                None => self.question_on_disk(scope, turn, stored).await,
            };
            ended.extend(question.and_then(|question| turn.ended(question)));
        }
        ended
    }

    /// The question of an ending that waits alone. It was asked lately, so it is not far from the end.
    async fn question_on_disk(&self, scope: &Scope, turn: &WaitingTurn, stored: &[Turn]) -> Option<Turn> {
        let after = stored.first().map(|first| first.number - 1);
        let page = PageRequest { limit: stored.len() + QUESTIONS_SEARCHED_MAX, after, superseded: true };
        let page = self.inner.turns(scope, turn.session, page).await.ok()??;
        page.items.into_iter().find(|found| found.id == turn.id)
    }
}

impl<S: Store + ?Sized> Store for Waiting<S> {
    fn archive(&self) -> &dyn Archive {
        self.inner.archive()
    }

    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened> {
        let scope = scope.clone();
        Box::pin(async move {
            check::opening(&turn)?;
            // Behind a waiting turn of the same conversation: numbers follow the order of questions.
            if self.is_waiting(&scope, turn.session) {
                return self.open_waiting(scope, turn, StoreError::Full("too many turns wait for the disk".into()));
            }
            match self.inner.open_turn(&scope, turn.clone()).await {
                Err(error) if error.may_pass() => self.open_waiting(scope, turn, error),
                other => other,
            }
        })
    }

    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept> {
        let scope = scope.clone();
        Box::pin(async move {
            check::ending(&turn)?;
            let Some(turn) = self.close_waiting(&scope, turn) else { return Ok(Kept::Waiting) };
            match self.inner.close_turn(&scope, turn.clone()).await {
                Err(error) if error.may_pass() => {
                    self.let_wait(WaitingTurn::answered(scope, turn), error)?;
                    Ok(Kept::Waiting)
                }
                other => other,
            }
        })
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, messages_max: usize) -> StoreFuture<'_, Recent> {
        let scope = scope.clone();
        Box::pin(async move {
            let waiting = self.waiting_in(&scope, session);
            let mut recent = self.inner.last_turns(&scope, session, messages_max).await?;
            let mut ended = self.ended(&scope, &waiting, &recent.turns).await;
            // A turn that was written between the two looks is not shown twice.
            ended.retain(|turn| turn.status.enters_context() && recent.turns.iter().all(|known| known.id != turn.id));
            recent.turns.extend(ended);
            recent.turns.sort_by_key(|turn| turn.number);
            recent.turns = newest(recent.turns, messages_max);
            Ok(recent)
        })
    }

    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let scope = scope.clone();
        Box::pin(async move {
            let _alone = self.replaying.lock().await;
            let deleted = self.inner.delete_session(&scope, id).await?;
            let waited = {
                let mut queue = self.queue();
                // A turn whose question is on disk was counted there.
                let counted = queue.iter().filter(|turn| turn.belongs_to(&scope, id) && turn.open.is_some()).count();
                queue.retain(|turn| !turn.belongs_to(&scope, id));
                counted as u64
            };
            Ok(deleted.map(|turns| turns + waited).or((waited > 0).then_some(waited)))
        })
    }

    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session> {
        self.inner.create_session(scope, id, seed)
    }

    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>> {
        self.inner.session(scope, id)
    }

    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>> {
        self.inner.sessions(scope, page)
    }

    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>> {
        self.inner.update_session(scope, id, patch)
    }

    fn add_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        let scope = scope.clone();
        Box::pin(async move {
            self.settle(&scope, session).await;
            self.inner.add_turns(&scope, session, seed, turns).await
        })
    }

    fn add_messages(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        messages: Vec<AddedMessage>,
        ids: Vec<TurnId>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        let scope = scope.clone();
        Box::pin(async move {
            self.settle(&scope, session).await;
            self.inner.add_messages(&scope, session, seed, messages, ids).await
        })
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        self.inner.turns(scope, session, page)
    }

    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised> {
        self.inner.revise_turn(scope, turn)
    }

    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held> {
        let scope = scope.clone();
        Box::pin(async move {
            let waiting = self.waiting_in(&scope, session);
            let mut held = self.inner.held(&scope, session, turns_max).await?;
            for turn in &waiting {
                let last = held.turns.last().map_or(0, |last| last.number);
                let known = held.turns.iter().any(|known| known.id == turn.id);
                held.turns.extend(turn.outline(last).filter(|_| !known));
                held.mode = turn.open.as_ref().and_then(|(open, _)| open.place.shift.mode).unwrap_or(held.mode);
            }
            Ok(held)
        })
    }

    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>> {
        let unnamed = scope.user().as_str() == User::UNNAMED;
        let owns = |turn: &WaitingTurn| {
            let user = turn.scope.user().as_str();
            let same_user = if unnamed { user.starts_with(User::UNNAMED) } else { user == scope.user().as_str() };
            same_user && turn.scope.tenant() == scope.tenant()
        };
        let waits = self.queue().iter().rev().find(|turn| owns(turn) && turn.follows(&trail)).map(|turn| turn.session);
        let scope = scope.clone();
        Box::pin(async move {
            match waits {
                Some(session) => Ok(Some(HistoryMatch::Continues(session))),
                None => self.inner.match_history(&scope, trail).await,
            }
        })
    }

    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>> {
        let waits =
            self.queue().iter().find(|turn| turn.id == id && turn.scope == *scope).and_then(|turn| turn.turn(1));
        let scope = scope.clone();
        Box::pin(async move { Ok(self.inner.turn(&scope, id).await?.or(waits)) })
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
        self.inner.keep_recall_rows(rows)
    }

    fn recall_again(&self, what: Todo) -> StoreFuture<'_, u64> {
        self.inner.recall_again(what)
    }

    fn recall_made_with(&self, what: Todo) -> StoreFuture<'_, Option<String>> {
        self.inner.recall_made_with(what)
    }

    fn note_recall_made_with(&self, what: Todo, made_with: &str) -> StoreFuture<'_, ()> {
        self.inner.note_recall_made_with(what, made_with)
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

    fn takeout(&self) -> &dyn Takeout {
        self.inner.takeout()
    }

    fn tenants(&self) -> &dyn Tenants {
        self.inner.tenants()
    }

    fn facts(&self) -> &dyn Facts {
        self.inner.facts()
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

    fn erasures(&self) -> &dyn Erasures {
        self
    }

    fn stats(&self, scope: &Scope) -> StoreFuture<'_, Stats> {
        self.inner.stats(scope)
    }

    fn fail_abandoned(&self) -> StoreFuture<'_, u64> {
        self.inner.fail_abandoned()
    }

    fn forget_visits(&self) -> StoreFuture<'_, u64> {
        self.inner.forget_visits()
    }

    fn backup(&self) -> StoreFuture<'_, Backup> {
        self.inner.backup()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.inner.ping()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let lost = self.flush().await;
            if lost > 0 {
                warn!(turns.lost = lost, "{lost} turns never reached the disk and are lost; they were marked degraded");
            }
            self.inner.close().await
        })
    }
}

impl<S: Store + ?Sized> Erasures for Waiting<S> {
    /// What waits goes as well: what is erased does not come back when the disk does.
    fn erase(&self, what: Erasure) -> StoreFuture<'_, Option<Receipt>> {
        Box::pin(async move {
            let _alone = self.replaying.lock().await;
            let receipt = self.inner.erasures().erase(what.clone()).await?;
            let mut queue = self.queue();
            // A turn whose question is on disk was counted there.
            let on_disk = queue.iter().filter(|turn| turn.is_part_of(&what) && turn.open.is_none()).count() as u64;
            let before = queue.len();
            queue.retain(|turn| !turn.is_part_of(&what));
            let waiting = (before - queue.len()) as u64 - on_disk;
            let shown = |turn: &&mut WaitingTurn| turn.scope.tenant() == what.tenant();
            queue.iter_mut().filter(shown).for_each(WaitingTurn::forget_shown);
            Ok(match receipt {
                None if waiting > 0 => Some(Receipt::of_waiting(waiting, self.clock.now())),
                receipt => receipt.map(|receipt| receipt.with_waiting(waiting)),
            })
        })
    }

    fn reapply(&self) -> StoreFuture<'_, Reapplied> {
        self.inner.erasures().reapply()
    }

    fn kept(&self) -> StoreFuture<'_, Vec<TenantKept>> {
        self.inner.erasures().kept()
    }

    fn book(&self) -> StoreFuture<'_, BookState> {
        self.inner.erasures().book()
    }
}

#[cfg(test)]
mod flaky;
#[cfg(test)]
mod tests;
