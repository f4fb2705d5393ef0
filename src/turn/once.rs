//! A question that came before with the same `Idempotency-Key`: its turn is found, waited for, and its answer given again.

use tracing::debug;

use super::run::Run;
use super::{Answer, Health, JOIN_EVERY, JOIN_TRIES, Shown, TurnError, TurnEvent};
use crate::session::{ClientIds, RequestMark, ReviseTurn, Saying, Shift, Turn, TurnStatus, read_intent};
use crate::store::{Kept, Made, Opened, RequestError};

/// What became of a question that came before.
pub(super) enum Before {
    /// It did not come before.
    Nothing,
    /// It was answered.
    Answered(Box<Answer>),
    /// Its turn ended without a whole answer, or takes too long.
    Unanswered,
}

impl Run {
    /// Looks for the turn of a request with this key; from then on that turn is this run's.
    pub(super) async fn before(&mut self, request: &RequestMark, query: &str) -> Result<Before, TurnError> {
        let done = match self.memory.parts.store.requests().done_request(&self.scope, request.key).await {
            // Chat goes on while the store is away. If the request was done before, that is found when its turn is written.
            Err(error) if error.may_pass() => {
                self.fail("find_request", &error);
                None
            }
            done => done?,
        };
        let Some(done) = done else { return Ok(Before::Nothing) };
        let waits = done.waits;
        let Made::Turn(session, id) = done.answer_to(request)? else { return Err(RequestError::KeyReused.into()) };
        self.becomes(session, id).await;
        for _ in 0..JOIN_TRIES {
            if self.events.is_closed() {
                return Err(TurnError::Stopping);
            }
            let turn = self.memory.parts.store.turn(&self.scope, id).await?.ok_or(RequestError::Gone)?;
            match turn.status {
                TurnStatus::Complete => {
                    let answer = answer_again(&turn, query, waits);
                    let _ = self.events.send(TurnEvent::Piece(answer.text.clone())).await;
                    return Ok(Before::Answered(Box::new(answer)));
                }
                TurnStatus::Pending => tokio::time::sleep(JOIN_EVERY).await,
                _ => break,
            }
        }
        Ok(Before::Unanswered)
    }

    /// Begins another try at the answer to this run's turn. One that is not on disk cannot have one, and is asked in a new turn.
    pub(super) async fn try_again(&mut self) -> Option<Opened> {
        let (id, session) = (self.turn, self.session);
        let (ids, then, shift) = (ClientIds::default(), Vec::new(), Shift::default());
        match self.memory.parts.store.revise_turn(&self.scope, ReviseTurn { id, session, ids, then, shift }).await {
            Ok(revised) => {
                self.attempt = revised.attempt;
                Some(Opened { number: Some(revised.number), created_at: revised.created_at, kept: Kept::OnDisk })
            }
            Err(error) => {
                debug!(session.id = %session, "Turn `{id}` is asked again in a new turn: {error}");
                let turn = self.memory.parts.ids.turn(self.memory.parts.clock.now());
                self.becomes(session, turn).await;
                None
            }
        }
    }

    async fn becomes(&mut self, session: crate::id::SessionId, turn: crate::id::TurnId) {
        (self.session, self.turn) = (session, turn);
        let _ = self.events.send(TurnEvent::IsTurn(session, turn)).await;
    }
}

/// The answer of a stored turn. What was recalled for it is not kept with it.
fn answer_again(turn: &Turn, query: &str, waits: bool) -> Answer {
    let answer = turn.answer();
    let noted = |name: &str| answer.and_then(|answer| answer.metadata.get(name));
    let answers = turn.metadata.get("clarification").and_then(|_| turn.metadata.get("confidence")?.as_f64());
    Answer {
        text: answer.map_or_else(String::new, |answer| answer.text.clone()),
        number: (!waits).then_some(turn.number),
        model: noted("model").and_then(|model| model.as_str()).unwrap_or("unknown").to_owned(),
        tokens_used: noted("tokens_used").and_then(serde_json::Value::as_u64),
        messages_in_context: turn.metadata.get("messages_in_context").and_then(|n| n.as_u64()).unwrap_or(0) as usize,
        intent: read_intent(&Saying { text: query, has_history: turn.number > 1, answers, ..Saying::default() }),
        clarification: None,
        health: if waits { Health::Degraded } else { Health::Ok },
        reminders: Vec::new(),
        citations: Vec::new(),
        searched: None,
        shown: Shown::default(),
        store_time: std::time::Duration::ZERO,
    }
}
