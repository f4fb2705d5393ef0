//! Texts of turns that were packed before: what is talked about is found again with the next question.
//!
//! They lie on the shelf of their scope and follow the store as the index does: whatever touched a turn takes its text away.
//!
//! **Invariant:** a text that is here is the one that the store had when the scope was last caught up with.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Map;

use crate::id::TurnId;
use crate::message::Message;
use crate::session::Turn;

/// Bytes of one generation; there are two.
const BYTES_MAX: usize = 4 << 20;
/// What a turn and a message take beside their words.
const TURN_BYTES: usize = 256;
const MESSAGE_BYTES: usize = 176;

/// Texts that were used lately, in two generations: when the younger is full it becomes the older, and what nobody used since
/// the last time goes.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    younger: Generation,
    older: Generation,
    /// How often something was taken away: what was read before that is not put here after it.
    changes: u64,
}

#[derive(Debug, Default)]
struct Generation {
    turns: HashMap<TurnId, Arc<Turn>>,
    bytes: usize,
}

/// What is here of some turns.
#[derive(Debug)]
pub(crate) struct AtHand {
    pub(crate) turns: Vec<Arc<Turn>>,
    /// Turns that are to be read, and the moment to hand back with them.
    pub(crate) missing: Vec<TurnId>,
    pub(crate) moment: Moment,
}

/// When turns were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Texts {
    /// The turns that are here, and the others.
    pub(crate) fn find(&mut self, wanted: &[TurnId]) -> AtHand {
        let mut at_hand = AtHand { turns: Vec::new(), missing: Vec::new(), moment: Moment(self.changes) };
        for id in wanted {
            match self.get(*id) {
                Some(turn) => at_hand.turns.push(turn),
                None => at_hand.missing.push(*id),
            }
        }
        at_hand
    }

    fn get(&mut self, id: TurnId) -> Option<Arc<Turn>> {
        if let Some(turn) = self.younger.turns.get(&id) {
            return Some(Arc::clone(turn));
        }
        let turn = self.older.take(id)?;
        self.put(Arc::clone(&turn));
        Some(turn)
    }

    /// Puts turns here that were looked for at a moment. If anything was touched since, they may say what is no longer so.
    pub(crate) fn keep(&mut self, turns: &[Arc<Turn>], moment: Moment) {
        if moment == Moment(self.changes) {
            turns.iter().for_each(|turn| self.put(Arc::clone(turn)));
        }
    }

    fn put(&mut self, turn: Arc<Turn>) {
        self.younger.put(turn);
        if self.younger.bytes > BYTES_MAX {
            self.older = std::mem::take(&mut self.younger);
        }
    }

    /// A turn was touched.
    pub(crate) fn forget(&mut self, id: TurnId) {
        self.changes += 1;
        self.younger.take(id);
        self.older.take(id);
    }

    /// Anything may have been touched.
    pub(crate) fn forget_all(&mut self) {
        *self = Self { changes: self.changes + 1, ..Self::default() };
    }

    pub(crate) fn bytes(&self) -> usize {
        self.younger.bytes + self.older.bytes
    }
}

impl Generation {
    fn put(&mut self, turn: Arc<Turn>) {
        let bytes = bytes_of(&turn);
        if self.turns.insert(turn.id, turn).is_none() {
            self.bytes += bytes;
        }
    }

    fn take(&mut self, id: TurnId) -> Option<Arc<Turn>> {
        let turn = self.turns.remove(&id)?;
        self.bytes -= bytes_of(&turn);
        Some(turn)
    }
}

/// What is kept of a turn: who said what when. What was noted about it may be longer than that, and is never packed.
pub(crate) fn said_in(turn: Turn) -> Arc<Turn> {
    let bare = |message: Message| Message { raw: None, metadata: Map::new(), ..message };
    let messages = turn.messages.into_iter().map(bare).collect();
    Arc::new(Turn { messages, metadata: Map::new(), ..turn })
}

fn bytes_of(turn: &Turn) -> usize {
    let words = |message: &Message| MESSAGE_BYTES + message.text.len() + message.name.as_ref().map_or(0, String::len);
    TURN_BYTES + turn.messages.iter().map(words).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::message::Role;
    use crate::session::TurnStatus;

    fn turn(ids: &CountedIds, text: &str) -> Arc<Turn> {
        let at = Timestamp::UNIX_EPOCH;
        said_in(Turn {
            id: ids.turn(at),
            session: ids.session(),
            number: 1,
            status: TurnStatus::Complete,
            messages: vec![Message::new(Role::User, text, at)],
            metadata: Map::from_iter([("injected".to_owned(), "much".into())]),
            created_at: at,
            superseded: false,
        })
    }

    #[test]
    fn what_was_read_is_at_hand_until_it_is_touched() {
        let (ids, mut texts) = (CountedIds::default(), Texts::default());
        let (one, two) = (turn(&ids, "one"), turn(&ids, "two"));
        assert!(one.metadata.is_empty());
        let looked = texts.find(&[one.id, two.id]);
        assert_eq!((looked.turns.len(), looked.missing), (0, vec![one.id, two.id]));
        texts.keep(&[Arc::clone(&one), Arc::clone(&two)], looked.moment);
        assert_eq!(texts.find(&[two.id, one.id]).turns, [Arc::clone(&two), Arc::clone(&one)]);
        texts.forget(one.id);
        let looked = texts.find(&[one.id, two.id]);
        assert_eq!((looked.turns, looked.missing), (vec![two], vec![one.id]));
        texts.forget_all();
        assert_eq!(texts.bytes(), 0);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let (ids, mut texts) = (CountedIds::default(), Texts::default());
        let (one, other) = (turn(&ids, "what it was"), turn(&ids, "another"));
        let looked = texts.find(&[one.id]);
        texts.forget(other.id);
        texts.keep(&[Arc::clone(&one)], looked.moment);
        assert_eq!(texts.find(&[one.id]).missing, [one.id]);
    }

    #[test]
    fn what_nobody_uses_goes_and_what_is_used_stays() {
        let (ids, mut texts) = (CountedIds::default(), Texts::default());
        let moment = texts.find(&[]).moment;
        let used = turn(&ids, "used");
        texts.keep(&[Arc::clone(&used)], moment);
        let long = "x".repeat(BYTES_MAX / 16);
        for _ in 0..64 {
            texts.keep(&[turn(&ids, &long)], moment);
            assert_eq!(texts.find(&[used.id]).missing, []);
            assert!(texts.bytes() <= 2 * BYTES_MAX + 2 * long.len());
        }
    }
}
