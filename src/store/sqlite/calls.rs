//! The calls of a store: what each runs, and for whom.

use std::sync::Arc;

use jiff::Timestamp;

use super::changes::{Told, Touched};
use super::connect::meaning;
use super::erase::erase_session;
use super::job::Follow;
use super::sql::Connection;
use super::{Backend, archive, made, place, recall, revision, session, sql, trace, turn};
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{
    AddedMessage, ClosedTurn, Held, OpenTurn, ReviseTurn, Revision, Session, SessionPatch, SessionSeed, Turn, TurnDraft,
};
use crate::store::archive::{Archive, ArchiveSize, Moved, Packed};
use crate::store::erasure::{Erasure, Erasures, Waited};
use crate::store::whose::Whose;
use crate::store::{
    Backup, ChangeMark, Changes, DerivedRow, DueTurn, Episodes, Expired, Expiry, Facts, HistoryMatch, Jobs, Kept,
    Knowledge, Ledger, Opened, Outbox, Page, PageRequest, RecallCursor, RecallPage, Recent, Requests, Revised, Stats,
    Store, StoreError, StoreFuture, Takeout, Tenants, Todo, Topics, Trail,
};

/// Sessions of visitors that are removed in one transaction.
const VISITS_BATCH: usize = 100;

/// Turns a transaction marks as failed at start; more than this is done in several.
pub(super) const ABANDONED_BATCH: usize = 1_000;

impl Backend {
    /// What writes a question. One that waited may have been erased meanwhile.
    fn asking(
        &self,
    ) -> impl FnOnce(&Connection, &Scope, OpenTurn) -> Result<Opened, StoreError> + Clone + Send + use<> {
        let (clock, meanwhile) = (Arc::clone(&self.clock), self.meanwhile());
        move |db, scope, turn| {
            let turn = match Waited::question(scope, &turn) {
                Some(waited) => meanwhile(db, &waited)?.admit_question(turn)?,
                None => turn,
            };
            turn::open(db, scope, turn, clock.now())
        }
    }

    /// What writes how a turn ended, likewise.
    fn ending(
        &self,
    ) -> impl FnOnce(&Connection, &Scope, ClosedTurn) -> Result<Kept, StoreError> + Clone + Send + use<> {
        let (clock, due, notes, meanwhile) = (Arc::clone(&self.clock), self.due, self.notes(), self.meanwhile());
        move |db, scope, turn| {
            let turn = match Waited::ending(scope, &turn) {
                Some(waited) => meanwhile(db, &waited)?.admit_ending(turn)?,
                None => turn,
            };
            turn::close(db, scope, turn, clock.now().as_microsecond(), Follow { due, notes: &notes })
        }
    }
}

impl Store for Backend {
    fn archive(&self) -> &dyn Archive {
        self
    }

    fn create_session(&self, scope: &Scope, id: SessionId, seed: SessionSeed) -> StoreFuture<'_, Session> {
        let clock = Arc::clone(&self.clock);
        self.write(scope, move |db, scope| session::create(db, scope, id, &seed, clock.now().as_microsecond()))
    }

    fn session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<Session>> {
        self.read(scope, move |db, scope| Ok(session::find(db, scope, id)?.map(|(_, session)| session)))
    }

    fn sessions(&self, scope: &Scope, page: PageRequest) -> StoreFuture<'_, Page<Session>> {
        self.read(scope, move |db, scope| session::list(db, scope, page))
    }

    fn update_session(&self, scope: &Scope, id: SessionId, patch: SessionPatch) -> StoreFuture<'_, Option<Session>> {
        let clock = Arc::clone(&self.clock);
        self.write(scope, move |db, scope| session::update(db, scope, id, patch, clock.now().as_microsecond()))
    }

    fn delete_session(&self, scope: &Scope, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let erased = self.erase(Erasure::Session(scope.clone(), id));
        Box::pin(async move { Ok(erased.await?.map(|receipt| receipt.counts.turns)) })
    }

    fn open_turn(&self, scope: &Scope, turn: OpenTurn) -> StoreFuture<'_, Opened> {
        let ask = self.asking();
        self.write(scope, move |db, scope| ask(db, scope, turn))
    }

    fn close_turn(&self, scope: &Scope, turn: ClosedTurn) -> StoreFuture<'_, Kept> {
        let end = self.ending();
        self.write(scope, move |db, scope| end(db, scope, turn))
    }

    fn write_turn(&self, scope: &Scope, open: OpenTurn, closed: ClosedTurn) -> StoreFuture<'_, Opened> {
        let (ask, end) = (self.asking(), self.ending());
        self.write(scope, move |db, scope| {
            let opened = ask(db, scope, open)?;
            end(db, scope, closed).map(|_| opened)
        })
    }

    fn revise_turn(&self, scope: &Scope, turn: ReviseTurn) -> StoreFuture<'_, Revised> {
        let clock = Arc::clone(&self.clock);
        self.write(scope, move |db, scope| revision::revise(db, scope, turn, clock.now().as_microsecond()))
    }

    fn held(&self, scope: &Scope, session: SessionId, turns_max: usize) -> StoreFuture<'_, Held> {
        self.read_here(scope, move |db, scope| place::held(db, scope, session, turns_max))
    }

    fn match_history(&self, scope: &Scope, trail: Trail) -> StoreFuture<'_, Option<HistoryMatch>> {
        self.read_here(scope, move |db, scope| place::match_history(db, scope, &trail))
    }

    fn turn(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Turn>> {
        self.read(scope, move |db, scope| {
            turn::by_id(db, scope, id)?.map(|(session, row)| row.turn(db, session)).transpose()
        })
    }

    fn revisions(&self, scope: &Scope, id: TurnId) -> StoreFuture<'_, Option<Vec<Revision>>> {
        self.read(scope, move |db, scope| match turn::by_id(db, scope, id)? {
            Some((_, row)) => revision::list(db, row.key, id).map(Some),
            None => Ok(None),
        })
    }

    fn give_up_on_tools(&self, before: jiff::Timestamp) -> StoreFuture<'_, u64> {
        let given_up = self.write_each(move |db| turn::give_up_on_tools(db, before.as_microsecond(), ABANDONED_BATCH));
        Box::pin(async move { Ok(given_up.await?.into_iter().sum()) })
    }

    fn add_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        seed: Option<SessionSeed>,
        turns: Vec<TurnDraft>,
    ) -> StoreFuture<'_, Vec<Turn>> {
        let clock = Arc::clone(&self.clock);
        let (due, notes) = (self.due, self.notes());
        self.write(scope, move |db, scope| {
            let follow = Follow { due, notes: &notes };
            turn::add(db, scope, session, seed.as_ref(), turns, || clock.now(), follow)
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
        let clock = Arc::clone(&self.clock);
        let (due, notes) = (self.due, self.notes());
        self.write(scope, move |db, scope| {
            let follow = Follow { due, notes: &notes };
            turn::add_messages(db, scope, session, seed.as_ref(), (messages, ids), || clock.now(), follow)
        })
    }

    fn last_turns(&self, scope: &Scope, session: SessionId, messages_max: usize) -> StoreFuture<'_, Recent> {
        let looked = self.looked(scope);
        let read = self.read_here(scope, move |db, scope| turn::recent(db, scope, session, messages_max));
        Box::pin(async move {
            let (key, recent) = read.await?;
            key.into_iter().for_each(looked);
            Ok(recent)
        })
    }

    fn turns(&self, scope: &Scope, session: SessionId, page: PageRequest) -> StoreFuture<'_, Option<Page<Turn>>> {
        let looked = self.looked(scope);
        self.read(scope, move |db, scope| {
            let found = turn::list(db, scope, session, page)?;
            Ok(found.map(|(key, page)| {
                looked(key);
                page
            }))
        })
    }

    fn expire(&self, expiry: Expiry) -> StoreFuture<'_, Expired> {
        self.let_go(expiry)
    }

    fn recall_entries(
        &self,
        scope: &Scope,
        embedder: &str,
        after: Option<RecallCursor>,
        limit: usize,
    ) -> StoreFuture<'_, RecallPage> {
        let embedder = embedder.to_owned();
        self.read(scope, move |db, scope| recall::entries(db, scope, &embedder, after, limit))
    }

    fn recall_changes(&self, scope: &Scope, since: Option<ChangeMark>, embedder: &str) -> StoreFuture<'_, Changes> {
        let told = self.told_since(scope, since, Touched::turn);
        let (scope, embedder) = (scope.clone(), embedder.to_owned());
        Box::pin(async move {
            let (mark, touched) = match told.await? {
                Told::Nothing(mark) => return Ok(Changes::None(mark)),
                Told::Everything(mark) => return Ok(Changes::Reload { mark }),
                Told::Touched(mark, turns) => (mark, turns),
            };
            let looked_up = self.look_up(&scope, touched.len(), move |db, scope| {
                let (entries, gone) = recall::touched(db, scope, &embedder, &touched)?;
                Ok(Changes::Turns { mark, entries, gone })
            });
            looked_up.await
        })
    }

    fn unwatch(&self, scope: &Scope) {
        self.end_watch(scope);
    }

    fn recall_todo(&self, what: Todo, limit: usize) -> StoreFuture<'_, Vec<DueTurn>> {
        self.read_each(recall::list(what), limit, move |db, limit| recall::todo(db, what, limit))
    }

    fn keep_recall_rows(&self, rows: Vec<DerivedRow>) -> StoreFuture<'_, ()> {
        let kept = self.write_groups(rows, |row| Whose::from(&row.scope), recall::keep);
        Box::pin(async move { kept.await.map(drop) })
    }

    fn recall_again(&self, what: Todo) -> StoreFuture<'_, u64> {
        let again = self.write_each(move |db| recall::again(db, what));
        Box::pin(async move { Ok(again.await?.into_iter().sum()) })
    }

    fn recall_made_with(&self, what: Todo) -> StoreFuture<'_, Option<String>> {
        self.read_for(Whose::Ours, move |db| made::with(db, what.word()))
    }

    fn note_recall_made_with(&self, what: Todo, made_with: &str) -> StoreFuture<'_, ()> {
        let made_with = made_with.to_owned();
        self.write_for(Whose::Ours, move |db| made::note(db, what.word(), &made_with))
    }

    fn turns_by_id(&self, scope: &Scope, ids: &[TurnId]) -> StoreFuture<'_, Vec<Turn>> {
        let ids = ids.to_vec();
        self.look_up(scope, ids.len(), move |db, scope| recall::turns_by_id(db, scope, &ids))
    }

    fn trace(&self, scope: &Scope, turn: TurnId) -> StoreFuture<'_, Option<String>> {
        self.look_up(scope, 1, move |db, scope| trace::find(db, scope, turn))
    }

    fn jobs(&self) -> &dyn Jobs {
        self
    }

    fn episodes(&self) -> &dyn Episodes {
        self
    }

    fn topics(&self) -> &dyn Topics {
        self
    }

    fn takeout(&self) -> &dyn Takeout {
        self
    }

    fn tenants(&self) -> &dyn Tenants {
        self
    }

    fn facts(&self) -> &dyn Facts {
        self
    }

    fn ledger(&self) -> &dyn Ledger {
        self
    }

    fn outbox(&self) -> &dyn Outbox {
        self
    }

    fn knowledge(&self) -> &dyn Knowledge {
        self
    }

    fn requests(&self) -> &dyn Requests {
        self
    }

    fn forget_visits(&self) -> StoreFuture<'_, u64> {
        let (notes, clock) = (self.notes(), Arc::clone(&self.clock));
        Box::pin(async move {
            // Looked for beside the writer: nearly always there are none.
            let visits = self.read_each("session", VISITS_BATCH, session::visits).await?;
            let gone = visits.len() as u64;
            if gone > 0 {
                let forget = move |db: &Connection, visits: &[(Scope, SessionId)]| {
                    visits.iter().try_for_each(|(scope, id)| erase_session(db, scope, *id, clock.now()).map(drop))?;
                    notes.erased(true);
                    Ok(())
                };
                self.write_groups(visits, |(scope, _)| Whose::from(scope), forget).await?;
            }
            Ok(gone)
        })
    }

    fn erasures(&self) -> &dyn Erasures {
        self
    }

    fn stats(&self, scope: &Scope) -> StoreFuture<'_, Stats> {
        self.read(scope, session::stats)
    }

    fn fail_abandoned(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let mut total = 0;
            loop {
                let failed = self.write_each(|db| turn::fail_pending(db, sql::ABANDONED, ABANDONED_BATCH)).await?;
                total += failed.iter().sum::<u64>();
                if failed.iter().all(|failed| *failed < ABANDONED_BATCH as u64) {
                    return Ok(total);
                }
            }
        })
    }

    /// What is more than a batch comes with the next call.
    fn fail_deserted(&self) -> StoreFuture<'_, u64> {
        let failed = self.write_each(|db| turn::fail_pending(db, sql::DESERTED, ABANDONED_BATCH));
        Box::pin(async move { Ok(failed.await?.into_iter().sum()) })
    }

    fn backup(&self) -> StoreFuture<'_, Backup> {
        self.copied()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.read_for(Whose::Ours, |db| db.query_row("SELECT 1", [], |_| Ok(())).map_err(|error| meaning(&error)))
    }

    fn log_damage(&self) -> Option<Timestamp> {
        self.log_damaged_at()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.end()
    }
}

impl Archive for Backend {
    fn move_out(&self, scope: &Scope, session: SessionId, before: u64, turns_max: usize) -> StoreFuture<'_, Moved> {
        self.write(scope, move |db, scope| archive::move_out(db, scope, session, before, turns_max))
    }

    fn quick_blocks(&self, limit: usize) -> StoreFuture<'_, Vec<Packed>> {
        self.read_each("block", limit, archive::quick_blocks)
    }

    fn replace_block(&self, before: Packed, bytes: Vec<u8>) -> StoreFuture<'_, bool> {
        let whose = Whose::Tenant(before.tenant.clone());
        self.write_for(whose, move |db| archive::replace_block(db, &before, &bytes))
    }

    fn archived(&self) -> StoreFuture<'_, ArchiveSize> {
        let sizes = self.read_each("block", usize::MAX, |db, _| archive::size(db).map(|size| vec![size]));
        Box::pin(async move { Ok(sizes.await?.into_iter().fold(ArchiveSize::default(), ArchiveSize::and)) })
    }
}
