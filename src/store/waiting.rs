//! Chat goes on while the disk is full: turns wait in memory, in order, until it takes them.
//!
//! Only turns of a chat wait. Explicit writes fail at once, so that whoever asked for them knows.
//! What waits is bounded, has no number yet, and is shown to the model like any other turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tracing::{info, warn};

use super::{Expired, Expiry, Kept, Opened, Page, PageRequest, Recent, Stats, Store, StoreError, StoreFuture};
use crate::clock::Clock;
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{AddedMessage, ClosedTurn, OpenTurn, Session, SessionPatch, SessionSeed, Turn, TurnDraft};

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct WaitingBounds {
    /// Most turns.
    pub turns_max: usize,
    /// Most bytes of text in them when they are taken in.
    pub bytes_max: usize,
}

/// A store whose turns wait while it cannot write.
pub struct Waiting<S> {
    inner: Arc<S>,
    clock: Arc<dyn Clock>,
    bounds: WaitingBounds,
    queue: Mutex<VecDeque<WaitingTurn>>,
}

#[derive(Debug, Clone)]
struct WaitingTurn {
    id: TurnId,
    scope: Scope,
    session: SessionId,
    /// The question, until it is on disk.
    open: Option<(OpenTurn, Timestamp)>,
    /// The ending, once there is one.
    closed: Option<ClosedTurn>,
}

impl WaitingTurn {
    fn bytes(&self) -> usize {
        let question = self.open.as_ref().map_or(0, |(open, _)| open.question.text.len());
        let rest = self.closed.as_ref().map_or(0, |closed| closed.messages.iter().map(|m| m.text.len()).sum());
        question + rest
    }

    /// The turn as the model is shown it. Its number is a guess until it is stored.
    fn as_turn(&self, number: u64) -> Option<Turn> {
        let ((open, created_at), closed) = (self.open.as_ref()?, self.closed.as_ref()?);
        let mut messages = vec![open.question.clone()];
        messages.extend(closed.messages.iter().cloned());
        let (id, session, status) = (self.id, self.session, closed.status);
        Some(Turn { id, session, number, status, messages, metadata: open.metadata.clone(), created_at: *created_at })
    }
}

impl<S: Store> Waiting<S> {
    /// Wraps a store.
    pub fn new(inner: Arc<S>, clock: Arc<dyn Clock>, bounds: WaitingBounds) -> Self {
        Self { inner, clock, bounds, queue: Mutex::default() }
    }

    /// How many turns wait.
    pub fn waiting(&self) -> usize {
        self.queue().len()
    }

    /// Tries to write what waits, oldest first. Stops at the first refusal; answers how many are left.
    pub async fn flush(&self) -> usize {
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
                    self.queue().pop_front();
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
        }
        if let Some(closed) = &turn.closed {
            self.inner.close_turn(&turn.scope, closed.clone()).await?;
        }
        Ok(())
    }

    /// Takes the front turn out, unless its ending came while its question was being written.
    fn forget_written(&self, written: &WaitingTurn) {
        let mut queue = self.queue();
        let Some(front) = queue.front_mut().filter(|front| front.id == written.id) else { return };
        if written.closed.is_none() && front.closed.is_some() {
            front.open = None;
        } else {
            queue.pop_front();
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<WaitingTurn>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_waiting(&self, scope: &Scope, session: SessionId) -> bool {
        self.queue().iter().any(|turn| turn.session == session && turn.scope == *scope)
    }

    /// Takes a turn in, or hands the reason back when there is no room.
    fn let_wait(&self, turn: WaitingTurn, reason: StoreError) -> Result<(), StoreError> {
        let mut queue = self.queue();
        let bytes: usize = queue.iter().map(WaitingTurn::bytes).sum::<usize>() + turn.bytes();
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
        let created_at = self.clock.now();
        let (id, session) = (open.id, open.session);
        self.let_wait(WaitingTurn { id, scope, session, open: Some((open, created_at)), closed: None }, reason)?;
        Ok(Opened { number: None, created_at, kept: Kept::Waiting })
    }

    /// Hands the ending to a turn that waits already; gives it back when there is none.
    fn close_waiting(&self, closed: ClosedTurn) -> Option<ClosedTurn> {
        let mut queue = self.queue();
        match queue.iter_mut().find(|turn| turn.id == closed.id) {
            Some(turn) => {
                turn.closed = Some(closed);
                None
            }
            None => Some(closed),
        }
    }
}

impl<S: Store> Store for Waiting<S> {
    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened> {
        let scope = scope.clone();
        Box::pin(async move {
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
            let Some(turn) = self.close_waiting(turn) else { return Ok(Kept::Waiting) };
            match self.inner.close_turn(&scope, turn.clone()).await {
                Err(error) if error.may_pass() => {
                    let (id, session) = (turn.id, turn.session);
                    self.let_wait(WaitingTurn { id, scope, session, open: None, closed: Some(turn) }, error)?;
                    Ok(Kept::Waiting)
                }
                other => other,
            }
        })
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Recent> {
        let scope = scope.clone();
        Box::pin(async move {
            let waiting: Vec<WaitingTurn> = {
                let queue = self.queue();
                queue.iter().filter(|turn| turn.session == session && turn.scope == scope).cloned().collect()
            };
            let mut recent = self.inner.last_turns(&scope, session, turns_max).await?;
            let stored = recent.turns.last().map_or(0, |turn| turn.number);
            let shown = (1..).zip(&waiting).filter_map(|(n, turn)| turn.as_turn(stored + n));
            // A turn that was written between the two looks is not shown twice.
            let new: Vec<Turn> = shown
                .filter(|turn| turn.status.enters_context() && recent.turns.iter().all(|known| known.id != turn.id))
                .collect();
            recent.turns.extend(new);
            let surplus = recent.turns.len().saturating_sub(turns_max);
            recent.turns.drain(..surplus);
            Ok(recent)
        })
    }

    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let scope = scope.clone();
        Box::pin(async move {
            let deleted = self.inner.delete_session(&scope, id).await?;
            let waited = {
                let mut queue = self.queue();
                let before = queue.len();
                queue.retain(|turn| turn.session != id || turn.scope != scope);
                (before - queue.len()) as u64
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
        seed: SessionSeed,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        self.inner.add_turns(scope, session, seed, turns)
    }

    fn add_messages(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: SessionSeed,
        messages: Vec<AddedMessage>,
        ids: Vec<TurnId>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        self.inner.add_messages(scope, session, seed, messages, ids)
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        self.inner.turns(scope, session, page)
    }

    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        self.inner.expire(expiry)
    }

    fn stats(&self, scope: &Scope) -> StoreFuture<'_, Stats> {
        self.inner.stats(scope)
    }

    fn fail_abandoned(&self) -> StoreFuture<'_, u64> {
        self.inner.fail_abandoned()
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
