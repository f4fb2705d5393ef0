//! What is asked of the store: handed on, unless it has to wait or something stands in for it.

use jiff::Timestamp;
use tracing::warn;

use super::Waiting;
use super::lately::on_trail;
use super::turn::WaitingTurn;
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{
    AddedMessage, ClosedTurn, Held, OpenTurn, Outline, ReviseTurn, Revision, Session, SessionPatch, SessionSeed, Turn,
    TurnDraft, TurnStatus, newest,
};
use crate::store::check;
use crate::store::{
    Archive, Backup, ChangeMark, Changes, DerivedRow, DueTurn, Episodes, Erasure, Erasures, Expired, Expiry, Facts,
    HistoryMatch, Jobs, Kept, Knowledge, Ledger, Opened, Outbox, Page, PageRequest, RecallCursor, RecallPage, Recent,
    Requests, Revised, Stats, Store, StoreFuture, Takeout, Tenants, Todo, Topics, Trail,
};

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
                return self.open_behind(scope, turn).await;
            }
            match self.soon(self.inner.open_turn(&scope, turn.clone())).await {
                Err(error) if error.may_pass() => self.open_waiting(scope, turn, error).await,
                Ok(opened) => {
                    if let Some(lately) = self.lately() {
                        lately.asked(&scope, turn, &opened);
                    }
                    Ok(opened)
                }
                other => other,
            }
        })
    }

    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept> {
        let scope = scope.clone();
        Box::pin(async move {
            check::ending(&turn)?;
            if self.queue().get(turn.id).is_some() {
                self.settle(&scope, turn.session).await;
            }
            let turn = match self.close_waiting(&scope, turn) {
                Err(turn) => *turn,
                Ok(spooled) => {
                    self.spooled(spooled).await;
                    return Ok(Kept::Waiting);
                }
            };
            match self.soon(self.inner.close_turn(&scope, turn.clone())).await {
                Err(error) if error.may_pass() => {
                    let turn = self.ending(scope, turn);
                    self.let_wait(turn, error).await?;
                    Ok(Kept::Waiting)
                }
                Ok(kept) => {
                    if let Some(lately) = self.lately() {
                        lately.answered(&scope, &turn);
                    }
                    Ok(kept)
                }
                other => other,
            }
        })
    }

    /// What waits is written by this; whoever asks for it here is told whether it was.
    fn write_turn(&self, scope: &Scope, open: OpenTurn, closed: ClosedTurn) -> StoreFuture<'_, Opened> {
        let scope = scope.clone();
        Box::pin(async move {
            self.settle_to_add(&scope, open.session).await;
            self.inner.write_turn(&scope, open, closed).await
        })
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, messages_max: usize) -> StoreFuture<'_, Recent> {
        let scope = scope.clone();
        Box::pin(async move {
            self.settle_to_read(&scope, session).await;
            let waiting = self.waiting_in(&scope, session);
            let mut recent = self.soon(self.inner.last_turns(&scope, session, messages_max)).await;
            if let (Ok(recent), Some(lately)) = (&recent, self.lately()) {
                lately.saw(&scope, session, recent);
            }
            recent = self.or_lately(recent, |lately| {
                // A conversation of which everything waits has nothing else.
                lately.recent(&scope, session, messages_max).or((!waiting.is_empty()).then(Recent::default))
            });
            let mut recent = recent?;
            let mut ended = self.ended(&scope, &waiting, &recent.turns).await;
            // A turn that was written between the two looks is not shown twice.
            ended.retain(|turn| turn.enters_context() && recent.turns.iter().all(|known| known.id != turn.id));
            recent.turns.extend(ended);
            recent.turns.sort_by_key(|turn| turn.number);
            recent.turns = newest(recent.turns, messages_max);
            Ok(recent)
        })
    }

    /// While the database is away the deletion fails, and is to be asked for again; what waits here is gone all the same.
    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let scope = scope.clone();
        Box::pin(async move {
            let _alone = self.replaying.write().await;
            let deleted = self.inner.delete_session(&scope, id).await;
            let waited = self.erase_waiting_if(&deleted, &Erasure::Session(scope, id)).await?;
            Ok(deleted?.map(|turns| turns + waited).or((waited > 0).then_some(waited)))
        })
    }

    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session> {
        self.inner.create_session(scope, id, seed)
    }

    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>> {
        let scope = scope.clone();
        Box::pin(async move {
            let found = self.soon(self.inner.session(&scope, id)).await;
            self.or_lately(found, |lately| lately.recent(&scope, id, 0)?.session.map(Some))
        })
    }

    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>> {
        self.inner.sessions(scope, page)
    }

    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>> {
        if let Some(lately) = self.lately() {
            lately.forget(scope, id);
        }
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
            self.settle_to_add(&scope, session).await;
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
            self.settle_to_add(&scope, session).await;
            self.inner.add_messages(&scope, session, seed, messages, ids).await
        })
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        let scope = scope.clone();
        Box::pin(async move {
            self.settle_to_read(&scope, session).await;
            self.inner.turns(&scope, session, page).await
        })
    }

    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised> {
        if let Some(lately) = self.lately() {
            lately.forget(scope, turn.session);
        }
        let scope = scope.clone();
        Box::pin(async move { self.soon(self.inner.revise_turn(&scope, turn)).await })
    }

    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held> {
        let scope = scope.clone();
        Box::pin(async move {
            self.settle_to_read(&scope, session).await;
            let waiting = self.waiting_in(&scope, session);
            let held = self.soon(self.inner.held(&scope, session, turns_max)).await;
            if let (Ok(held), Some(lately)) = (&held, self.lately()) {
                lately.saw_held(&scope, session, held);
            }
            // Without an outline nobody knows what stands before that which waits, so there is none at all.
            let mut held = self.or_lately(held, |lately| lately.held(&scope, session))?;
            for turn in &waiting {
                let last = held.turns.last().map_or(0, |last| last.number);
                let Some(outline) = turn.outline(last) else { continue };
                if let Some(known) = held.turns.iter_mut().find(|known| known.id == turn.id) {
                    // Its question was written, its ending waits.
                    let (number, parent) = (known.number, known.parent);
                    if known.status == TurnStatus::Pending {
                        *known = Outline { number, parent, ..outline };
                    }
                    continue;
                }
                self.queue().change(turn.id, |turn| turn.foreseen = Some(outline.number));
                held.turns.push(outline);
                held.mode = turn.open.as_ref().and_then(|(open, _)| open.place.shift.mode).unwrap_or(held.mode);
            }
            Ok(held)
        })
    }

    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>> {
        let scope = scope.clone();
        Box::pin(async move {
            let owns = |turn: &WaitingTurn| turn.scope == scope;
            let waits = on_trail(self.queue().iter().rev().filter(|turn| owns(turn)), &trail);
            if let Some(session) = waits {
                return Ok(Some(HistoryMatch::Continues(session)));
            }
            let found = self.soon(self.inner.match_history(&scope, trail.clone())).await;
            self.or_lately(found, |lately| {
                lately.on_trail(owns, &trail).map(|session| Some(HistoryMatch::Continues(session)))
            })
        })
    }

    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>> {
        let waits = self.queue().get(id).filter(|turn| turn.scope == *scope).and_then(|turn| turn.turn(1));
        let scope = scope.clone();
        Box::pin(async move {
            let found = self.soon(self.inner.turn(&scope, id)).await;
            let found = self.or_lately(found, |lately| waits.clone().or_else(|| lately.turn(&scope, id)).map(Some))?;
            Ok(found.or(waits))
        })
    }

    fn revisions(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Vec<Revision>>> {
        self.inner.revisions(scope, id)
    }

    fn give_up_on_tools(&self, before: Timestamp) -> StoreFuture<'_, u64> {
        self.inner.give_up_on_tools(before)
    }

    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        if let Some(outage) = &self.outage {
            outage.spool.kept_logs().remove_old(expiry.now);
        }
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

    fn backup(&self) -> StoreFuture<'_, Backup> {
        self.inner.backup()
    }

    fn tenants(&self) -> &dyn Tenants {
        self
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

    fn requests(&self) -> &dyn Requests {
        self
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

    fn fail_deserted(&self) -> StoreFuture<'_, u64> {
        self.inner.fail_deserted()
    }

    fn is_catching_up(&self) -> bool {
        // Only one who writes all that waits holds this.
        self.flushing.try_lock().is_err()
    }

    fn forget_visits(&self) -> StoreFuture<'_, u64> {
        self.inner.forget_visits()
    }

    /// A database that is away keeps nobody from chatting.
    fn ping(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let pinged = self.soon(self.inner.ping()).await;
            self.or_lately(pinged, |_| Some(()))
        })
    }

    fn log_damage(&self) -> Option<Timestamp> {
        let spool = self.outage.as_ref().and_then(|outage| outage.spool.kept_logs().found_at());
        self.inner.log_damage().max(spool)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let left = self.flush().await;
            match &self.outage {
                Some(outage) => {
                    if left > 0 {
                        warn!(turns.waiting = left, "{left} turns wait in {}", outage.spool.path().display());
                    }
                    outage.spool.close();
                }
                None if left > 0 => {
                    warn!(
                        turns.lost = left,
                        "{left} turns never reached the disk and are lost; they were marked degraded"
                    );
                }
                None => {}
            }
            self.inner.close().await
        })
    }
}
