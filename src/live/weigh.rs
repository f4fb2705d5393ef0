//! What a session takes, to the byte: its parts and the text in them. Room that an allocator keeps spare is not counted.

use std::mem::size_of;

use super::{LiveMessage, LiveRevision, LiveSession, LiveTurn, Notes, Stub, Summary};

/// The two counters beside everything that is shared.
const SHARED: usize = 2 * size_of::<usize>();

/// What a session takes, counted from scratch. [`LiveSession::bytes`] is always the same and costs nothing.
pub fn weigh(session: &LiveSession) -> usize {
    let turns: usize = session.turns.iter().map(|turn| turn.bytes()).sum();
    let told: usize = session.summaries().map(Summary::bytes).sum();
    let gone = session.gone.len() * size_of::<Stub>();
    SHARED + size_of::<LiveSession>() + session.metadata.bytes() + turns + told + gone
}

fn text(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

impl Notes {
    pub(super) fn bytes(&self) -> usize {
        text(self.0.as_deref())
    }
}

impl Summary {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

impl LiveMessage {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + text(self.name.as_deref())
            + self.text.len()
            + text(self.raw.as_deref())
            + self.metadata.bytes()
    }
}

impl LiveRevision {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.messages.iter().map(LiveMessage::bytes).sum::<usize>()
    }
}

impl LiveTurn {
    pub(super) fn bytes(&self) -> usize {
        let messages: usize = self.messages.iter().map(LiveMessage::bytes).sum();
        let revisions: usize = self.revisions.iter().map(LiveRevision::bytes).sum();
        let ids = [&self.ids.question, &self.ids.answer, &self.ids.key, &self.ids.preamble];
        let ids: usize = ids.into_iter().map(|id| text(id.as_deref())).sum();
        let parts = messages + revisions + ids + self.metadata.bytes() + text(self.trace.as_deref());
        SHARED + size_of::<usize>() + size_of::<Self>() + parts
    }
}
