//! Questions that wait for a choice: seen, asked on somebody's behalf, let go.
//!
//! No store is asked: what is open in a conversation does not depend on what is kept of it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::ReviewError;
use crate::clarify::{ChoiceOption, Clarification};
use crate::id::SessionId;
use crate::memory::{HeldClarification, Memory};
use crate::scope::Scope;
use crate::store::{Page, PageRequest};

/// A clarification that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenClarification {
    /// The conversation.
    pub session: SessionId,
    /// What was asked.
    pub clarification: Clarification,
    /// When it is let go.
    pub expires_at: Timestamp,
}

impl Memory {
    /// Asks somebody to choose: their next message in the session is read as an answer, if it is one. Takes the place of
    /// what was open before.
    pub fn ask_to_choose(
        &self,
        scope: &Scope,
        session: SessionId,
        question: &str,
        options: Vec<ChoiceOption>,
    ) -> Result<OpenClarification, ReviewError> {
        let clarification = Clarification::new(question, options, self.parts.clock.now())?;
        self.clarifications.hold(scope, session, clarification.clone(), None);
        Ok(self.open_clarification(session, clarification))
    }

    /// What waits for an answer in a session.
    pub fn clarification(&self, scope: &Scope, session: SessionId) -> Result<OpenClarification, ReviewError> {
        let held = self.clarifications.open(scope, session).ok_or(ReviewError::UnknownClarification(session))?;
        Ok(self.open_clarification(session, held.clarification.clone()))
    }

    /// What waits for answers in a user's sessions, oldest first.
    pub fn clarifications(&self, scope: &Scope, page: PageRequest) -> Page<OpenClarification> {
        let after = |order: u64| page.after.is_none_or(|after| order > after);
        let open = self.clarifications.all_open(scope).into_iter().filter(|(order, ..)| after(*order));
        let seen = |(order, session, held): (u64, SessionId, Arc<HeldClarification>)| {
            (order, self.open_clarification(session, held.clarification.clone()))
        };
        Page::cut(open.map(seen).take(page.limit + 1).collect(), page.limit)
    }

    /// Lets go of what waits for an answer in a session.
    pub fn drop_clarification(&self, scope: &Scope, session: SessionId) -> Result<(), ReviewError> {
        match self.clarifications.drop_open(scope, session) {
            true => Ok(()),
            false => Err(ReviewError::UnknownClarification(session)),
        }
    }

    fn open_clarification(&self, session: SessionId, clarification: Clarification) -> OpenClarification {
        let ttl = SignedDuration::try_from(self.clarifications.ttl()).unwrap_or(SignedDuration::ZERO);
        let expires_at = clarification.asked_at.saturating_add(ttl).unwrap_or(Timestamp::MAX);
        OpenClarification { session, clarification, expires_at }
    }
}
