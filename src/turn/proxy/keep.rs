//! Where the turns of a request are kept: in the store, or in a visitor's session for as long as that lasts.

use super::run::Run;
use crate::id::{SessionId, TurnId};
use crate::live::LiveKey;
use crate::session::{ClosedTurn, Held, OpenTurn, ReviseTurn, Turn, TurnStatus};
use crate::store::live::{LiveChange, LiveError, Look, Seen};
use crate::store::{Kept, StoreError};
use crate::turn::TurnError;

/// Where turns are kept.
pub(super) enum Book {
    /// In the store.
    Durable,
    /// In a visitor's session, as it was when the request came.
    Live(LiveKey, Option<Seen>),
}

impl Book {
    pub(super) fn of(live: Option<LiveKey>) -> Self {
        live.map_or(Self::Durable, |key| Self::Live(key, None))
    }
}

impl Run {
    /// What is held of a conversation.
    pub(super) async fn held(&mut self, session: SessionId, turns_max: usize) -> Result<Held, StoreError> {
        let Book::Live(key, seen) = &mut self.book else {
            return self.memory.parts.store.held(&self.scope, session, turns_max).await;
        };
        *seen = self.memory.live().look(key, Look::Visit).await.map_err(unreachable)?;
        Ok(seen.as_ref().map(|seen| seen.session.held(turns_max)).unwrap_or_default())
    }

    /// A turn, as it is now.
    pub(super) async fn turn(&self, id: TurnId) -> Result<Option<Turn>, StoreError> {
        let Book::Live(key, _) = &self.book else { return self.memory.parts.store.turn(&self.scope, id).await };
        let seen = self.memory.live().look(key, Look::Visit).await.map_err(unreachable)?;
        Ok(seen.and_then(|seen| seen.session.turn(key.id(), id)))
    }

    /// Writes a question.
    pub(super) async fn open_turn(&self, open: OpenTurn) -> Result<Kept, TurnError> {
        let Book::Live(key, _) = &self.book else {
            return Ok(self.memory.parts.store.open_turn(&self.scope, open).await?.kept);
        };
        self.memory.change_live(key, LiveChange::Open(Box::new(open))).await?;
        Ok(Kept::OnDisk)
    }

    /// Begins another try at an answer. Answers which it is.
    pub(super) async fn revise_turn(&self, revise: ReviseTurn) -> Result<u32, TurnError> {
        let Book::Live(key, _) = &self.book else {
            return Ok(self.memory.parts.store.revise_turn(&self.scope, revise).await?.attempt);
        };
        let id = revise.id;
        match self.memory.change_live(key, LiveChange::Revise(Box::new(revise))).await {
            Ok(changed) => Ok(changed.attempt()),
            // It is only told of any more: another answer is given, and not kept.
            Err(LiveError::NoSuchTurn(_)) => Err(StoreError::UnknownTurn(id).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes an ending. A session that has ended meanwhile keeps nothing.
    pub(super) async fn close_turn(&self, closed: ClosedTurn) -> Result<Kept, StoreError> {
        let Book::Live(key, _) = &self.book else {
            let kept = self.memory.parts.store.close_turn(&self.scope, closed).await;
            if matches!(kept, Ok(Kept::OnDisk)) {
                self.memory.recall.take_in(&self.scope);
                self.memory.follow_topics(&self.scope);
            }
            return kept;
        };
        let (id, complete) = (closed.id, closed.status == TurnStatus::Complete);
        let changed = self.memory.change_live(key, LiveChange::Close(Box::new(closed))).await;
        let changed = changed.map_err(|error| match error {
            LiveError::Gone(_) | LiveError::NoSuchTurn(_) => StoreError::UnknownTurn(id),
            error => unreachable(error),
        })?;
        let kept = changed.seen.session.turn(key.id(), id);
        // An answer that was larger than a session may be was given, and is not kept.
        let lost = complete && kept.is_some_and(|turn| turn.status == TurnStatus::Failed);
        Ok(if lost { Kept::Waiting } else { Kept::OnDisk })
    }
}

fn unreachable(error: LiveError) -> StoreError {
    StoreError::Disk(error.to_string())
}
