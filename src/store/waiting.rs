//! Chat goes on while the store cannot write: turns wait, in order, until it takes them.
//!
//! Only turns of a chat wait. Explicit writes fail at once, so that whoever asked for them knows. What waits is bounded, has no
//! number yet, and is shown to the model like any other turn.
//!
//! Where a disk is full they wait in memory: there is nowhere else. Where a database that several share is away (an [`Outage`])
//! they wait in a spool on disk as well, and what was lately read and written stands in for it.
//!
//! Reading order: `turn` (what waits), `queue` (in which order), `spool` (the same on disk), `lately` (what stands in for a
//! database that is away), `calls` (what is asked of the store), `once` (who asked it), `erase` (what of it goes), `keys` (who may come in meanwhile),
//! `replay` (how it is written at last).
//!
//! **Invariant:** once the store answers again nothing new stands behind what waits: whoever goes on with a conversation waits
//! for it to be written, and is written after it.

mod calls;
mod erase;
mod keys;
mod lately;
mod once;
mod queue;
mod replay;
mod spool;
mod turn;

pub use spool::Spool;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, info, warn};

use self::keys::Confirmed;
use self::lately::Lately;
use self::queue::{Conversation, Queue};
use self::spool::{Written, written};
use self::turn::WaitingTurn;
use super::{Circuit, Kept, Opened, PageRequest, Store, StoreError, StoreFuture};
use crate::clock::Clock;
use crate::id::{SessionId, TurnId};
use crate::meter::Meters;
use crate::scope::Scope;
use crate::session::{ClosedTurn, OpenTurn, Turn};

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
/// Gates of conversations; those of two may be the same one, which costs time and nothing else.
const GATES: usize = 256;
/// How long somebody waits at most until what was said before is written.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

/// What a store that several share needs for the time that it is away.
#[derive(Debug)]
pub struct Outage {
    spool: Spool,
    circuit: Arc<Circuit>,
    /// How long a request waits for the store.
    patience: Duration,
    /// How long the copy of the keys is believed.
    keys_max: Duration,
    lately: Lately,
    confirmed: Confirmed,
}

impl Outage {
    /// Where turns wait meanwhile, what tells that the store is away, how long a request waits for it before it goes on without,
    /// and how long keys are believed as they were last read.
    pub fn new(spool: Spool, circuit: Arc<Circuit>, patience: Duration, keys_max: Duration) -> Self {
        Self { spool, circuit, patience, keys_max, lately: Lately::default(), confirmed: Confirmed::default() }
    }
}

/// How a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreState {
    /// How many turns wait.
    pub waiting: usize,
    /// Whether the database is away.
    pub away: bool,
    /// When damage was found in the write-ahead log, as long as a copy of that log is kept.
    pub log_damaged_at: Option<Timestamp>,
}

impl StoreState {
    /// Whether nothing waits, nothing would have to, and nothing is known to be lost.
    pub fn is_normal(self) -> bool {
        self.waiting == 0 && !self.away && self.log_damaged_at.is_none()
    }
}

/// A store whose turns wait while it cannot write.
pub struct Waiting<S: ?Sized> {
    inner: Arc<S>,
    clock: Arc<dyn Clock>,
    bounds: WaitingBounds,
    queue: Mutex<Queue>,
    /// Held by whoever writes all that waits: one at a time.
    flushing: tokio::sync::Mutex<()>,
    /// Held by whoever writes what waits of a conversation.
    gates: Vec<tokio::sync::Mutex<()>>,
    /// Shared by those who write a waiting turn, held alone by whoever removes some: what is deleted does not come back.
    replaying: tokio::sync::RwLock<()>,
    outage: Option<Outage>,
    meters: Arc<Meters>,
}

impl<S: Store + ?Sized> Waiting<S> {
    /// Wraps a store.
    pub fn new(inner: Arc<S>, clock: Arc<dyn Clock>, bounds: WaitingBounds) -> Self {
        let (queue, flushing, replaying) =
            (Mutex::default(), tokio::sync::Mutex::default(), tokio::sync::RwLock::default());
        let gates = (0..GATES).map(|_| tokio::sync::Mutex::default()).collect();
        Self { inner, clock, bounds, queue, flushing, gates, replaying, outage: None, meters: Arc::default() }
    }

    /// Counts what happens here.
    pub fn counted_by(mut self, meters: Arc<Meters>) -> Self {
        self.meters = meters;
        self
    }

    /// Goes on while the store is away, with what lies in the spool already.
    pub fn through(mut self, outage: Outage) -> Self {
        let found = outage.spool.take_found();
        if !found.is_empty() {
            let turns = found.len();
            info!(turns, "{turns} turns of an earlier outage wait in {}", outage.spool.path().display());
        }
        found.into_iter().for_each(|turn| self.queue().push(turn));
        self.outage = Some(outage);
        self
    }

    /// How many turns wait.
    pub fn waiting(&self) -> usize {
        self.queue().len()
    }

    /// How it is.
    pub fn state(&self) -> StoreState {
        StoreState { waiting: self.waiting(), away: self.is_away(), log_damaged_at: self.log_damage() }
    }

    fn is_away(&self) -> bool {
        self.outage.as_ref().is_some_and(|outage| outage.circuit.is_away())
    }

    fn lately(&self) -> Option<&Lately> {
        self.outage.as_ref().map(|outage| &outage.lately)
    }

    /// Waits for the store, but no longer than a request can.
    async fn soon<T>(&self, call: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let Some(outage) = &self.outage else { return call.await };
        outage.circuit.check()?;
        let late = |_| {
            outage.circuit.doubt();
            Err(StoreError::Away(format!("it did not answer within {:?}", outage.patience)))
        };
        tokio::time::timeout(outage.patience, call).await.unwrap_or_else(late)
    }

    /// The answer, or what was lately seen while the database is away.
    fn or_lately<T>(
        &self,
        answer: Result<T, StoreError>,
        lately: impl FnOnce(&Lately) -> Option<T>,
    ) -> Result<T, StoreError> {
        match (answer, self.lately()) {
            (Err(error), Some(known)) if error.may_pass() => lately(known).ok_or(error),
            (answer, _) => answer,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_waiting(&self, scope: &Scope, session: SessionId) -> bool {
        self.queue().waits_for(scope, session)
    }

    fn waiting_in(&self, scope: &Scope, session: SessionId) -> Vec<WaitingTurn> {
        self.queue().of(scope, session)
    }

    fn gate(&self, conversation: &Conversation) -> &tokio::sync::Mutex<()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(conversation);
        &self.gates[hash as usize % GATES]
    }

    /// Takes a turn in, or hands the reason back when there is no room.
    async fn let_wait(&self, turn: WaitingTurn, reason: StoreError) -> Result<(), StoreError> {
        let id = turn.id;
        self.take_in(turn, reason)?;
        self.spool_waiting(id).await;
        Ok(())
    }

    /// The same in memory only.
    fn take_in(&self, turn: WaitingTurn, reason: StoreError) -> Result<(), StoreError> {
        let mut queue = self.queue();
        if turn.request().is_some_and(|(key, _)| queue.by_request(&turn.scope, key).is_some()) {
            return Err(StoreError::Repeated);
        }
        if queue.len() >= self.bounds.turns_max || queue.bytes() + turn.bytes > self.bounds.bytes_max {
            return Err(reason);
        }
        if queue.len() == 0 {
            self.meters.fallback_activations.one();
            // That a database is away is said where that is found out, once.
            match reason.is_away() {
                true => debug!(session.id = %turn.session, operation = "store_turn", "Turns wait: {reason}"),
                false => warn!(session.id = %turn.session, user.id = %turn.scope.user(), operation = "store_turn",
                               error = %reason, "Chat goes on, turns wait: {reason}"),
            }
        }
        queue.push(turn);
        Ok(())
    }

    /// Waits until a turn that waits is on disk, where there is a spool. Answers whether it still waits.
    async fn spool_waiting(&self, id: TurnId) -> bool {
        let spooled = {
            let queue = self.queue();
            let Some(turn) = queue.get(id) else { return false };
            self.spool(turn)
        };
        self.spooled(spooled).await;
        true
    }

    /// Puts a turn into the spool, if there is one. In the order of the queue: whoever calls this holds it.
    fn spool(&self, turn: &WaitingTurn) -> Option<Written> {
        self.outage.as_ref().map(|outage| outage.spool.put(turn))
    }

    /// Waits until that is on disk. A spool that fails leaves the turn in memory, where it would be without one.
    async fn spooled(&self, order: Option<Written>) {
        let Some(order) = order else { return };
        match written(order).await {
            Ok(()) => self.meters.turns_spooled.one(),
            Err(error) => warn!(operation = "spool_turn", error = %error, "A turn waits in memory only: {error}"),
        }
    }

    async fn open_waiting(&self, scope: Scope, open: OpenTurn, reason: StoreError) -> Result<Opened, StoreError> {
        let (id, session) = (open.id, open.session);
        if let Some(created_at) = self.opened_before(&scope, session, id) {
            return Ok(Opened { number: None, created_at, kept: Kept::Waiting });
        }
        let created_at = self.queue().time_of_next(&scope, session, self.clock.now());
        self.let_wait(WaitingTurn::asked(scope, open, created_at), reason).await?;
        Ok(Opened { number: None, created_at, kept: Kept::Waiting })
    }

    /// Opens a turn of a conversation of which something waits: behind that, and written with it if the store answers. It is known
    /// by its id, so asking once more tells what became of it.
    async fn open_behind(&self, scope: Scope, open: OpenTurn) -> Result<Opened, StoreError> {
        let (id, session) = (open.id, open.session);
        let created_at = self.queue().time_of_next(&scope, session, self.clock.now());
        if self.opened_before(&scope, session, id).is_none() {
            let turn = WaitingTurn::asked(scope.clone(), open.clone(), created_at);
            self.take_in(turn, StoreError::Full("too many turns wait".into()))?;
        }
        self.settle(&scope, session).await;
        let asked_at = self.opened_before(&scope, session, id);
        if let (Some(created_at), true) = (asked_at, self.spool_waiting(id).await) {
            return Ok(Opened { number: None, created_at, kept: Kept::Waiting });
        }
        match self.soon(self.inner.open_turn(&scope, open)).await {
            // It was written, and the store went away again before it told the number.
            Err(error) if error.may_pass() => Ok(Opened { number: None, created_at, kept: Kept::Waiting }),
            told => told,
        }
    }

    fn opened_before(&self, scope: &Scope, session: SessionId, id: TurnId) -> Option<Timestamp> {
        let queue = self.queue();
        let known = queue.get(id).filter(|turn| turn.is(scope, session, id))?;
        known.open.as_ref().map(|(_, created_at)| *created_at)
    }

    /// Hands the ending to a turn that waits already, unless it has one; gives it back when none waits.
    fn close_waiting(&self, scope: &Scope, closed: ClosedTurn) -> Result<Option<Written>, Box<ClosedTurn>> {
        let mut queue = self.queue();
        let id = closed.id;
        if queue.get(id).is_none_or(|turn| !turn.is(scope, closed.session, id)) {
            return Err(Box::new(closed));
        }
        queue.change(id, |turn| turn.end(closed));
        Ok(queue.get(id).and_then(|turn| self.spool(turn)))
    }

    /// An ending that cannot be written now, with its question if that is known: one that may not have been written, although
    /// its writing was answered, is written with it.
    fn ending(&self, scope: Scope, closed: ClosedTurn) -> WaitingTurn {
        let question = self.lately().and_then(|lately| lately.question(&scope, closed.session, closed.id));
        match question {
            Some((open, asked_at)) => {
                let mut turn = WaitingTurn::asked(scope, open, asked_at);
                turn.known = true;
                turn.end(closed);
                turn
            }
            None => WaitingTurn::answered(scope, closed, self.clock.now()),
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
        if let Some(asked) = self.lately().filter(|_| self.is_away()) {
            return asked.turn(scope, turn.id);
        }
        let after = stored.first().map(|first| first.number - 1);
        let page = PageRequest { limit: stored.len() + QUESTIONS_SEARCHED_MAX, after, superseded: true };
        let page = self.inner.turns(scope, turn.session, page).await.ok()??;
        page.items.into_iter().find(|found| found.id == turn.id)
    }
}

#[cfg(test)]
mod away_tests;
#[cfg(test)]
mod flaky;
#[cfg(test)]
mod tests;
