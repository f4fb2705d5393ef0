//! Writes that a client asked for with an `Idempotency-Key`: done once, and answered alike when they are asked for again.

use super::{PastTurn, ReviewError};
use crate::fact::Fact;
use crate::id::{SessionId, TurnId};
use crate::memory::Memory;
use crate::scope::Scope;
use crate::session::{AddedMessage, RequestMark, Turn};
use crate::store::{DoneRequest, Made, MadeImport, OnceWrite, OnceWritten, RequestError, StoreError};

/// What became of a write: it was done, or the same request had done it before.
pub(super) enum Once {
    Written(OnceWritten),
    Before(Made),
}

impl Memory {
    /// The request that was done with this key.
    pub(crate) async fn done_request(&self, scope: &Scope, key: [u8; 32]) -> Result<Option<DoneRequest>, ReviewError> {
        let found = self.parts.store.requests().done_request(scope, key).await;
        self.told(scope, None, "find_request", found)
    }

    /// What a request made, if it came before.
    pub(super) async fn made(&self, scope: &Scope, request: &RequestMark) -> Result<Option<Made>, ReviewError> {
        let done = self.done_request(scope, request.key).await?;
        Ok(done.map(|done| done.answer_to(request)).transpose()?)
    }

    /// Writes, unless the same request came at the same time and was first.
    pub(super) async fn once(
        &self,
        scope: &Scope,
        session: Option<SessionId>,
        operation: &str,
        request: &RequestMark,
        write: OnceWrite,
    ) -> Result<Once, ReviewError> {
        match self.parts.store.requests().write_once(scope, *request, write).await {
            Err(StoreError::Repeated) => Ok(Once::Before(self.made(scope, request).await?.ok_or(RequestError::Gone)?)),
            written => self.told(scope, session, operation, written).map(Once::Written),
        }
    }

    /// Adds an exchange that took place elsewhere, once.
    pub async fn add_turn_once(
        &self,
        scope: &Scope,
        id: SessionId,
        turn: PastTurn,
        request: &RequestMark,
    ) -> Result<Turn, ReviewError> {
        let once = match self.made(scope, request).await? {
            Some(made) => Once::Before(made),
            None => {
                let draft = self.admitted(scope, turn).await?;
                self.once(scope, Some(id), "store_turn", request, OnceWrite::Turns(id, vec![draft])).await?
            }
        };
        self.turns_of(scope, once).await?.pop().ok_or(ReviewError::Nothing)
    }

    /// Adds loose messages, once.
    pub async fn add_messages_once(
        &self,
        scope: &Scope,
        id: SessionId,
        messages: Vec<AddedMessage>,
        request: &RequestMark,
    ) -> Result<Vec<Turn>, ReviewError> {
        let once = match self.made(scope, request).await? {
            Some(made) => Once::Before(made),
            None => {
                let ids = self.admitted_messages(scope, &messages).await?;
                let write = OnceWrite::Messages(id, messages, ids);
                self.once(scope, Some(id), "add_messages", request, write).await?
            }
        };
        self.turns_of(scope, once).await
    }

    async fn turns_of(&self, scope: &Scope, once: Once) -> Result<Vec<Turn>, ReviewError> {
        let ids: Vec<TurnId> = match once {
            Once::Written(OnceWritten::Turns(turns)) => return Ok(turns),
            Once::Before(Made::Turns(ids)) => ids,
            _ => return Err(RequestError::KeyReused.into()),
        };
        let mut turns = Vec::with_capacity(ids.len());
        for id in ids {
            let found = self.parts.store.turn(scope, id).await;
            turns.push(self.told(scope, None, "read_turn", found)?.ok_or(RequestError::Gone)?);
        }
        Ok(turns)
    }

    /// A fact that a request made, as it is now.
    pub(super) async fn fact_again(&self, scope: &Scope, made: &Made) -> Result<Fact, ReviewError> {
        let Made::Fact(id) = made else { return Err(RequestError::KeyReused.into()) };
        self.fact(scope, *id).await.map_err(gone)
    }

    /// Notes what an import came to. Answers what the same import came to that was first.
    pub async fn import_once(
        &self,
        keeper: &Scope,
        request: &RequestMark,
        came_to: MadeImport,
    ) -> Result<MadeImport, ReviewError> {
        let write = OnceWrite::Noted(Made::Import(Box::new(came_to.clone())));
        match self.once(keeper, None, "import", request, write).await? {
            Once::Written(_) => Ok(came_to),
            Once::Before(Made::Import(before)) => Ok(*before),
            Once::Before(_) => Err(RequestError::KeyReused.into()),
        }
    }
}

/// What a request made and is not there any more.
fn gone(error: ReviewError) -> ReviewError {
    match error {
        ReviewError::UnknownFact(_) => RequestError::Gone.into(),
        error => error,
    }
}
