//! Ending a session: whoever wants to know is told what was said, and what waited for the conversation to rest need not wait.

use std::collections::VecDeque;

use super::ReviewError;
use crate::episode::Level;
use crate::id::SessionId;
use crate::memory::Memory;
use crate::message::Message;
use crate::scope::Scope;
use crate::session::{EndReason, EndedMessage, EndedSummary, Session, SessionEnd, TurnStatus};
use crate::store::PageRequest;

/// What is told of a session, at most: its newest messages, so many and with so many bytes of text.
const MESSAGES_MAX: usize = 1_000;
const BYTES_MAX: usize = 10 << 20;
/// Most summaries that are told.
const SUMMARIES_MAX: usize = 200;
/// Turns and summaries that are read at once.
const PAGE: usize = 200;

impl Memory {
    /// Ends a durable session. It stays and may be used again; ending it again tells what was said by then.
    pub async fn end_durable_session(&self, scope: &Scope, id: SessionId) -> Result<Session, ReviewError> {
        let session = self.session(scope, id).await?;
        if self.tells_ends() {
            let end = self.end_of(scope, &session).await?;
            let told = self.session_ended(end).await;
            self.told(scope, Some(id), "end_session", told)?;
        }
        let now = self.parts.clock.reading().wall;
        let marked = self.parts.store.jobs().end_session(scope, id, now).await;
        self.told(scope, Some(id), "end_session", marked)?;
        self.session(scope, id).await
    }

    async fn end_of(&self, scope: &Scope, session: &Session) -> Result<SessionEnd, ReviewError> {
        let (message_count, messages) = self.said_in_all(scope, session.id).await?;
        Ok(SessionEnd {
            tenant: scope.tenant().clone(),
            user: Some(scope.user().clone()),
            session: session.id.to_string(),
            reason: EndReason::Explicit,
            created_at: session.created_at,
            last_accessed: session.last_accessed,
            message_count,
            messages,
            summaries: self.told_of(scope, session.id).await?,
        })
    }

    /// How many messages there are, and the newest of them.
    async fn said_in_all(&self, scope: &Scope, id: SessionId) -> Result<(u64, Vec<EndedMessage>), ReviewError> {
        let (mut newest, mut page) = (Newest::default(), PageRequest::first(PAGE));
        loop {
            let found = self.parts.store.turns(scope, id, page).await;
            let found = self.told(scope, Some(id), "end_session", found)?.ok_or(ReviewError::UnknownSession(id))?;
            let told = |status: TurnStatus| matches!(status, TurnStatus::Complete | TurnStatus::Partial);
            found
                .items
                .into_iter()
                .filter(|turn| told(turn.status))
                .flat_map(|turn| turn.messages)
                .for_each(|message| newest.add(message));
            match found.next {
                Some(next) => page.after = Some(next),
                None => return Ok((newest.count, newest.messages.into())),
            }
        }
    }

    async fn told_of(&self, scope: &Scope, id: SessionId) -> Result<Vec<EndedSummary>, ReviewError> {
        let (mut told, mut page) = (Vec::new(), PageRequest::first(PAGE));
        loop {
            let found = self.parts.store.episodes().list(scope, Some(id), page).await;
            let found = self.told(scope, Some(id), "end_session", found)?;
            let rolled_up = found.items.into_iter().filter(|episode| episode.level != Level::Stretch);
            told.extend(rolled_up.map(|episode| EndedSummary {
                from: episode.from,
                to: episode.to,
                text: episode.summary,
            }));
            match found.next {
                Some(next) if told.len() < SUMMARIES_MAX => page.after = Some(next),
                _ => break,
            }
        }
        told.truncate(SUMMARIES_MAX);
        told.sort_by_key(|summary| summary.from);
        Ok(told)
    }
}

/// The newest messages, within bounds.
#[derive(Default)]
struct Newest {
    messages: VecDeque<EndedMessage>,
    bytes: usize,
    count: u64,
}

impl Newest {
    fn add(&mut self, message: Message) {
        let Message { role, name, text: content, created_at, .. } = message;
        if content.is_empty() {
            return;
        }
        self.count += 1;
        self.bytes += content.len();
        self.messages.push_back(EndedMessage { role, name, content, created_at });
        while self.messages.len() > MESSAGES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.messages.pop_front() else { return };
            self.bytes -= oldest.content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;
    use jiff::Timestamp;

    #[test]
    fn the_newest_stay_and_all_are_counted() {
        let mut newest = Newest::default();
        for n in 0..MESSAGES_MAX + 5 {
            newest.add(Message::new(Role::User, format!("{n}"), Timestamp::UNIX_EPOCH));
        }
        newest.add(Message::new(Role::Tool, "", Timestamp::UNIX_EPOCH));
        assert_eq!((newest.count, newest.messages.len()), (MESSAGES_MAX as u64 + 5, MESSAGES_MAX));
        assert_eq!(newest.messages[0].content, "5");
        newest.add(Message::new(Role::User, "x".repeat(BYTES_MAX), Timestamp::UNIX_EPOCH));
        assert_eq!((newest.messages.len(), newest.bytes), (1, BYTES_MAX));
    }
}
