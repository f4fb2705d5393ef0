//! What questions will need, worked out before they come: vectors of words, sentences of summaries, texts of turns, tokens of
//! all of them.
//!
//! Nothing here is needed for an answer to be right; whatever is not there yet, the question that wants it reads or counts
//! itself. A scope is got ready after it was loaded, one scope at a time; what a turn has touched is read again once it is written.

use std::sync::{Arc, Weak};

use jiff::tz::TimeZone;
use tracing::debug;

use super::desk::{Recall, RecallError};
use super::excerpt::WHOLE_BYTES_MAX;
use super::index::cache::Shelf;
use super::render::line_of;
use super::texts::{AtHand, SaidTurn};
use crate::id::TurnId;
use crate::scope::Scope;
use crate::tokens;

/// Words whose vectors are worked out at a time, about a millisecond: who changes the index waits for that at most.
const WORDS_AT_A_TIME: usize = 256;
/// Summaries that are cut at a time, less than a millisecond.
const SUMMARIES_AT_A_TIME: usize = 32;
/// Turns that are read at a time, less than a millisecond: whoever shares the thread waits for that.
const TURNS_AT_A_TIME: usize = 32;

impl Recall {
    /// Takes in what was just written, so that the next question need not. Only for a scope that is in memory anyway.
    pub fn take_in(self: &Arc<Self>, scope: &Scope) {
        if self.cache.holds(scope) {
            let (desk, scope) = (Arc::clone(self), scope.clone());
            // What fails here is tried again by the next question, which reports it.
            self.parts.beside.spawn(async move {
                let shelf = desk.caught_up(&scope).await?;
                prepare_some(&shelf);
                desk.cut_some(&shelf);
                let touched = shelf.with_texts(|texts| texts.newly_touched());
                desk.read_ahead(&scope, &shelf, &touched).await
            });
        }
    }

    /// Loads a scope and waits until all is ready that its questions will need. A server does that by itself, beside everything
    /// else, once the first question has come.
    pub async fn warm_up(self: &Arc<Self>, scope: &Scope) -> Result<(), RecallError> {
        let shelf = self.caught_up(scope).await?;
        self.get_ready(scope, &Arc::downgrade(&shelf)).await
    }

    /// Gets a scope ready that was just loaded, beside everything else.
    pub(super) fn warm(self: &Arc<Self>, scope: Scope, shelf: &Arc<Shelf>) {
        let (desk, shelf) = (Arc::clone(self), Arc::downgrade(shelf));
        self.parts.beside.spawn(async move {
            if let Err(error) = desk.get_ready(&scope, &shelf).await {
                debug!(operation = "warm", "Texts are read when they are asked for: {error}");
            }
        });
    }

    /// One scope after the other, each as long as it is in memory.
    async fn get_ready(&self, scope: &Scope, shelf: &Weak<Shelf>) -> Result<(), RecallError> {
        let _others_wait = self.warming.lock().await;
        let words = Weak::clone(shelf);
        let prepare = move || while words.upgrade().is_some_and(|shelf| prepare_some(&shelf)) {};
        tokio::task::spawn_blocking(prepare).await.map_err(|_| RecallError::Interrupted)?;
        while shelf.upgrade().is_some_and(|shelf| self.cut_some(&shelf)) {
            tokio::task::yield_now().await;
        }
        let mut before = i64::MAX;
        while let Some(shelf) = shelf.upgrade() {
            let Some(oldest) = self.read_some(scope, &shelf, before).await? else {
                self.note_size(scope, &shelf);
                break;
            };
            before = oldest;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Cuts some summaries that are new here into sentences, and counts their tokens; answers whether there may be more.
    fn cut_some(&self, shelf: &Shelf) -> bool {
        let new = shelf.write_episodes(|episodes| episodes.some_new(SUMMARIES_AT_A_TIME));
        new.iter().for_each(|held| self.cuts.prepare(&held.summary));
        !new.is_empty()
    }

    /// Reads the newest turns before one, and answers the oldest of them; nothing when there are no more, or no more room.
    async fn read_some(&self, scope: &Scope, shelf: &Shelf, before: i64) -> Result<Option<i64>, RecallError> {
        if shelf.with_texts(|texts| texts.is_full()) {
            return Ok(None);
        }
        let newest = shelf.read(|index| index.turns_before(before, TURNS_AT_A_TIME));
        let oldest = newest.last().map(|(oldest, _)| *oldest);
        let turns: Vec<TurnId> = newest.into_iter().map(|(_, turn)| turn).collect();
        self.read_ahead(scope, shelf, &turns).await?;
        Ok(oldest)
    }

    /// Reads turns that somebody may ask for, and counts their lines.
    async fn read_ahead(&self, scope: &Scope, shelf: &Shelf, turns: &[TurnId]) -> Result<(), RecallError> {
        for turn in self.said_in(scope, shelf, turns).await? {
            count_lines(&turn);
        }
        Ok(())
    }

    /// The texts of turns: those at hand, and the others from the store.
    pub(super) async fn said_in(
        &self,
        scope: &Scope,
        shelf: &Shelf,
        wanted: &[TurnId],
    ) -> Result<Vec<Arc<SaidTurn>>, RecallError> {
        let AtHand { mut turns, missing, moment } = shelf.with_texts(|texts| texts.find(wanted));
        if !missing.is_empty() {
            let read = self.parts.store.turns_by_id(scope, &missing).await?;
            let read: Vec<Arc<SaidTurn>> = read.into_iter().map(SaidTurn::of).collect();
            shelf.with_texts(|texts| texts.keep(&read, moment));
            turns.extend(read);
        }
        Ok(turns)
    }
}

/// Works out the vectors of some words; answers whether there are more.
fn prepare_some(shelf: &Shelf) -> bool {
    shelf.read(|index| index.vocabulary.prepare(WORDS_AT_A_TIME))
}

/// Counts the lines of a turn's messages. Of long ones a part is shown, which one depends on the question.
fn count_lines(turn: &SaidTurn) {
    for message in turn.messages.iter().filter(|message| message.text.len() <= WHOLE_BYTES_MAX) {
        // A day has as many tokens in one time zone as in another.
        message.line_tokens.get_or_init(|| tokens::count(&line_of(turn.session, message, &TimeZone::UTC)) + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SystemClock;
    use crate::memory::{Memory, MemorySettings, Parts};
    use crate::recall::texts::SaidMessage;
    use crate::review::PastTurn;
    use crate::scope::{Tenant, User};
    use crate::session::SessionSeed;
    use crate::store::Sqlite;

    fn memory() -> Memory {
        let clock = Arc::new(SystemClock::default());
        let store = Arc::new(Sqlite::temporary(clock.clone()).expect("a store"));
        Memory::new(Parts::builtin(store, clock), MemorySettings::default())
    }

    /// Waits until so many turns are at hand, and answers whether all their lines are counted but those of long messages.
    async fn counted(desk: &Recall, scope: &Scope, turns: usize) -> bool {
        let shelf = desk.cache.shelf(scope);
        let ids: Vec<TurnId> =
            shelf.read(|index| index.turns_before(i64::MAX, usize::MAX)).into_iter().map(|(_, turn)| turn).collect();
        for _ in 0..2_000 {
            let at_hand = shelf.with_texts(|texts| texts.find(&ids)).turns;
            let messages = || at_hand.iter().flat_map(|turn| &turn.messages);
            let expected = |message: &SaidMessage| message.text.len() <= WHOLE_BYTES_MAX;
            if at_hand.len() == turns && messages().all(|said| said.line_tokens.get().is_some() == expected(said)) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    #[tokio::test]
    async fn texts_are_read_and_counted_before_anybody_asks() {
        let (memory, scope) = (memory(), Scope::new(Tenant::default(), User::anonymous()));
        let session = memory.create_session(&scope, None, SessionSeed::default()).await.expect("a session").id;
        let say = async |query: String| {
            let turn = PastTurn { query, response: "I see.".into(), metadata: Default::default(), created_at: None };
            memory.add_turn(&scope, session, turn).await.expect("a turn");
        };
        for n in 0..100 {
            say(format!("Note number {n}.")).await;
        }
        say("So much to say about this. ".repeat(40)).await;
        let desk = memory.recall_desk();
        desk.index_size(&scope).await.expect("a size");
        assert!(counted(desk, &scope, 101).await);
        say("One more.".into()).await;
        desk.take_in(&scope);
        desk.index_size(&scope).await.expect("a size");
        assert!(counted(desk, &scope, 102).await);
    }
}
