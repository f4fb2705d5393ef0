//! Writing what waited: each conversation in the order it was said, several conversations at a time.

use std::time::Instant;

use futures_util::StreamExt;
use tracing::{info, warn};

use super::queue::Conversation;
use super::turn::WaitingTurn;
use super::{SETTLED_WITHIN, Waiting};
use crate::id::SessionId;
use crate::scope::Scope;
use crate::session::{ClosedTurn, OpenTurn};
use crate::store::{Opened, Store, StoreError};

/// Conversations that are written at one time.
const AT_A_TIME: usize = 8;

impl<S: Store + ?Sized> Waiting<S> {
    /// Tries to write what waits, each conversation oldest first, and stops where it is refused. Answers how many are left.
    pub async fn flush(&self) -> usize {
        let _alone = self.flushing.lock().await;
        let (before, started) = (self.waiting(), Instant::now());
        if before == 0 || self.is_away() {
            return before;
        }
        let conversations = self.queue().conversations();
        futures_util::stream::iter(conversations).for_each_concurrent(AT_A_TIME, |which| self.replay(which)).await;
        let left = self.waiting();
        if let (0, Some(outage)) = (left, &self.outage) {
            // What has reached the store leaves no trace here; a spool that cannot be written says so with the next turn.
            let _ = outage.spool.settled().await;
        }
        let seconds = started.elapsed().as_secs_f64();
        match (before.saturating_sub(left), left) {
            (0, _) => {}
            (written, 0) => info!(store.state = "normal", written, seconds, "Wrote all {written} waiting turns"),
            (written, left) => info!(written, left, seconds, "Wrote {written} waiting turns, {left} are left"),
        }
        left
    }

    /// Writes what waits of a conversation before somebody goes on with it, if the store is there and it does not take long.
    pub(super) async fn settle(&self, scope: &Scope, session: SessionId) {
        if !self.is_away() && self.is_waiting(scope, session) {
            // What is not written by then still waits.
            let _ = tokio::time::timeout(SETTLED_WITHIN, self.replay((scope.clone(), session))).await;
        }
    }

    /// The same for somebody who reads of a database. A full disk can be read, and trying to write to it costs time.
    pub(super) async fn settle_to_read(&self, scope: &Scope, session: SessionId) {
        if self.outage.is_some() {
            self.settle(scope, session).await;
        }
    }

    /// The same for somebody who adds to it in a way that is not followed here.
    pub(super) async fn settle_to_add(&self, scope: &Scope, session: SessionId) {
        self.settle(scope, session).await;
        if let Some(lately) = self.lately() {
            lately.forget(scope, session);
        }
    }

    /// Writes what waits in one conversation, until nothing does. Nobody else does so meanwhile.
    async fn replay(&self, conversation: Conversation) {
        let _alone = self.gate(&conversation).lock().await;
        loop {
            // Nobody erases while this is held; what was erased before is not found.
            let _shared = self.replaying.read().await;
            let front = self.queue().first_of(&conversation);
            let Some(front) = front.filter(|_| !self.is_away()) else { return };
            match self.write(&front).await {
                Ok(()) => self.forget_written(&front),
                Err(error) if error.may_pass() => return,
                Err(error) => self.give_up(&front, &error),
            }
        }
    }

    /// Writes one turn as far as it has come, at once where it has ended. All of that may be repeated without harm: a turn is
    /// known by its id, and an ending by what it says.
    async fn write(&self, turn: &WaitingTurn) -> Result<(), StoreError> {
        let closed = turn.closed.clone().map(|closed| ClosedTurn { waits_since: Some(turn.at), ..closed });
        if let (Some((open, _)), Some(closed)) = (&turn.open, &closed) {
            match self.inner.write_turn(&turn.scope, open.clone(), closed.clone()).await {
                Ok(opened) => {
                    self.asked(turn, open, &opened);
                    self.answered(turn, closed);
                    return Ok(());
                }
                Err(error) if error.may_pass() => return Err(error),
                // What is refused of the two is found out one by one.
                Err(_) => {}
            }
        }
        if let Some((open, _)) = &turn.open {
            let opened = self.inner.open_turn(&turn.scope, open.clone()).await?;
            self.asked(turn, open, &opened);
        }
        if let Some(closed) = &closed {
            self.inner.close_turn(&turn.scope, closed.clone()).await?;
            self.answered(turn, closed);
        }
        Ok(())
    }

    fn asked(&self, turn: &WaitingTurn, open: &OpenTurn, opened: &Opened) {
        self.question_is_written(turn, opened.number, open.place.imported.len() as u64);
        if let Some(lately) = self.lately() {
            lately.asked(&turn.scope, open.clone(), opened);
        }
    }

    fn answered(&self, turn: &WaitingTurn, closed: &ClosedTurn) {
        if let Some(lately) = self.lately() {
            lately.answered(&turn.scope, closed);
        }
    }

    fn question_is_written(&self, turn: &WaitingTurn, number: Option<u64>, imported: u64) {
        let mut queue = self.queue();
        queue.change(turn.id, |turn| turn.open = None);
        if let (Some(number), Some(foreseen)) = (number, turn.foreseen)
            && number != foreseen
        {
            let conversation = (turn.scope.clone(), turn.session);
            queue.renumber(
                &conversation,
                foreseen - imported.min(foreseen)..=foreseen,
                number.cast_signed() - foreseen.cast_signed(),
            );
        }
    }

    /// Takes a turn out that is written, unless its ending came while its question was being written.
    fn forget_written(&self, written: &WaitingTurn) {
        let mut queue = self.queue();
        let messages = |turn: &WaitingTurn| turn.closed.as_ref().map_or(0, |closed| closed.messages.len());
        let before = messages(written);
        let is_over = queue.change(written.id, |turn| {
            let ended_meanwhile = written.closed != turn.closed;
            match &mut turn.closed {
                // What is written of it is not written again.
                Some(closed) if ended_meanwhile => {
                    closed.messages.drain(..before);
                    false
                }
                _ => true,
            }
        });
        if is_over == Some(true) {
            queue.remove(written.id);
            self.meters.turns_replayed.one();
            if let Some(outage) = &self.outage {
                drop(outage.spool.forget(written.id));
            }
        }
    }

    /// A turn that the store will not have. It was erased meanwhile, or its conversation is gone: then it leaves no trace here
    /// either. Else it is put aside, where there is a spool.
    fn give_up(&self, turn: &WaitingTurn, error: &StoreError) {
        let mut queue = self.queue();
        queue.remove(turn.id);
        let becomes = match (error, &self.outage) {
            (StoreError::Refused(_), Some(outage)) => {
                drop(outage.spool.refuse(turn.id, error));
                "put aside in the spool"
            }
            (_, outage) => {
                outage.iter().for_each(|outage| drop(outage.spool.erase(vec![turn.id], None)));
                "dropped"
            }
        };
        warn!(session.id = %turn.session, user.id = %turn.scope.user(), operation = "replay_turn", error = %error,
              "A waiting turn was refused and is {becomes}: {error}");
    }
}
