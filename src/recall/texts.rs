//! Texts of turns that were read lately, by questions or before any came.
//!
//! They lie on the shelf of their scope and follow the store as the index does: whatever touched a turn takes its text away.
//!
//! **Invariant:** a text that is here is the one that the store had when the scope was last caught up with.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use crate::id::{MessageId, SessionId, TurnId};
use crate::message::Role;
use crate::session::Turn;

/// What a turn and a message take beside their words.
const TURN_BYTES: usize = 128;
const MESSAGE_BYTES: usize = 128;
/// Turns that are remembered because they were touched lately. Of more, as an import touches, the older ones wait for a question.
const TOUCHED_MAX: usize = 256;

/// Who said what when, in one turn. What was noted about it may be longer than that, and is never packed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SaidTurn {
    pub(crate) id: TurnId,
    pub(crate) session: SessionId,
    pub(crate) messages: Vec<SaidMessage>,
}

/// A message of a turn that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SaidMessage {
    pub(crate) id: MessageId,
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) said_at: Timestamp,
    pub(crate) text: String,
    /// Tokens of the line that shows all of it, once somebody has counted them.
    pub(crate) line_tokens: OnceLock<usize>,
}

impl SaidTurn {
    /// What is kept of a turn.
    pub(crate) fn of(turn: Turn) -> Arc<Self> {
        let (id, session) = (turn.id, turn.session);
        let ids: Vec<MessageId> = turn.identified().map(|(id, _)| id).collect();
        let said = turn.messages.into_iter().zip(ids).map(|(message, id)| SaidMessage {
            id,
            role: message.role,
            name: message.name,
            said_at: message.created_at,
            text: message.text,
            line_tokens: OnceLock::new(),
        });
        Arc::new(Self { id, session, messages: said.collect() })
    }

    fn bytes(&self) -> usize {
        let words = |message: &SaidMessage| message.text.len() + message.name.as_ref().map_or(0, String::len);
        TURN_BYTES + self.messages.iter().map(|message| MESSAGE_BYTES + words(message)).sum::<usize>()
    }
}

/// Texts that were used lately, in two generations: when the younger is full it becomes the older, and what nobody used since
/// the last time goes.
#[derive(Debug)]
pub(crate) struct Texts {
    /// Of one generation.
    bytes_max: usize,
    younger: Generation,
    older: Generation,
    /// How often something was touched: what was read before that is not put here after it.
    changes: u64,
    /// The turns of the last changes, the newest at the end.
    touched: VecDeque<TurnId>,
    /// How many changes were followed by reading what was touched.
    followed: u64,
}

#[derive(Debug, Default)]
struct Generation {
    turns: HashMap<TurnId, Arc<SaidTurn>>,
    bytes: usize,
}

/// What is here of some turns.
#[derive(Debug)]
pub(crate) struct AtHand {
    pub(crate) turns: Vec<Arc<SaidTurn>>,
    /// Turns that are to be read, and the moment to hand back with them.
    pub(crate) missing: Vec<TurnId>,
    pub(crate) moment: Moment,
}

/// When turns were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Texts {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (younger, older, changes, touched, followed) = Default::default();
        Self { bytes_max, younger, older, changes, touched, followed }
    }

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

    fn get(&mut self, id: TurnId) -> Option<Arc<SaidTurn>> {
        if let Some(turn) = self.younger.turns.get(&id) {
            return Some(Arc::clone(turn));
        }
        let turn = self.older.take(id)?;
        self.put(Arc::clone(&turn));
        Some(turn)
    }

    /// Puts turns here that were looked for at a moment. Those that were touched since may say what is no longer so.
    pub(crate) fn keep(&mut self, turns: &[Arc<SaidTurn>], moment: Moment) {
        let Some(touched) = self.touched_since(moment.0) else { return };
        for turn in turns.iter().filter(|turn| !touched.contains(&turn.id)) {
            self.put(Arc::clone(turn));
        }
    }

    /// The turns of all changes since then; nothing if that is too long ago to know.
    fn touched_since(&self, changes: u64) -> Option<Vec<TurnId>> {
        let count = usize::try_from(self.changes - changes).ok()?;
        let known = self.touched.len().checked_sub(count)?;
        Some(self.touched.iter().skip(known).copied().collect())
    }

    fn put(&mut self, turn: Arc<SaidTurn>) {
        self.younger.put(turn);
        if self.younger.bytes > self.bytes_max {
            self.older = std::mem::take(&mut self.younger);
        }
    }

    /// A turn was written, changed or removed.
    pub(crate) fn touch(&mut self, id: TurnId) {
        self.changes += 1;
        self.touched.push_back(id);
        if self.touched.len() > TOUCHED_MAX {
            self.touched.pop_front();
        }
        self.younger.take(id);
        self.older.take(id);
    }

    /// The turns that were touched since this was last asked, as far as they are known.
    pub(crate) fn newly_touched(&mut self) -> Vec<TurnId> {
        let known = self.changes - self.touched.len() as u64;
        let since = std::mem::replace(&mut self.followed, self.changes).max(known);
        let mut touched = self.touched_since(since).unwrap_or_default();
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Anything may have been touched.
    pub(crate) fn forget_all(&mut self) {
        *self = Self { changes: self.changes + 1, followed: self.changes + 1, ..Self::new(self.bytes_max) };
    }

    /// Whether there is as much here as may be read before anybody asks.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_max
    }

    pub(crate) fn bytes(&self) -> usize {
        self.younger.bytes + self.older.bytes
    }
}

impl Generation {
    fn put(&mut self, turn: Arc<SaidTurn>) {
        let bytes = turn.bytes();
        if self.turns.insert(turn.id, turn).is_none() {
            self.bytes += bytes;
        }
    }

    fn take(&mut self, id: TurnId) -> Option<Arc<SaidTurn>> {
        let turn = self.turns.remove(&id)?;
        self.bytes -= turn.bytes();
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::message::Message;
    use crate::session::TurnStatus;

    const BYTES_MAX: usize = 1 << 20;

    fn turn(ids: &CountedIds, text: &str) -> Arc<SaidTurn> {
        let at = Timestamp::UNIX_EPOCH;
        SaidTurn::of(Turn {
            id: ids.turn(at),
            session: ids.session(),
            number: 1,
            status: TurnStatus::Complete,
            messages: vec![Message::new(Role::User, text, at)],
            metadata: Default::default(),
            created_at: at,
            superseded: false,
        })
    }

    #[test]
    fn what_was_read_is_at_hand_until_it_is_touched() {
        let (ids, mut texts) = (CountedIds::default(), Texts::new(BYTES_MAX));
        let (one, two) = (turn(&ids, "one"), turn(&ids, "two"));
        let looked = texts.find(&[one.id, two.id]);
        assert_eq!((looked.turns.len(), looked.missing), (0, vec![one.id, two.id]));
        texts.keep(&[Arc::clone(&one), Arc::clone(&two)], looked.moment);
        assert_eq!(texts.find(&[two.id, one.id]).turns, [Arc::clone(&two), Arc::clone(&one)]);
        texts.touch(one.id);
        let looked = texts.find(&[one.id, two.id]);
        assert_eq!((looked.turns, looked.missing), (vec![two], vec![one.id]));
        texts.forget_all();
        assert_eq!(texts.bytes(), 0);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let (ids, mut texts) = (CountedIds::default(), Texts::new(BYTES_MAX));
        let (one, other) = (turn(&ids, "what it was"), turn(&ids, "another"));
        let both = [Arc::clone(&one), Arc::clone(&other)];
        let looked = texts.find(&[one.id, other.id]);
        texts.touch(one.id);
        texts.keep(&both, looked.moment);
        assert_eq!(texts.find(&[one.id, other.id]).missing, [one.id]);
        let looked = texts.find(&[one.id]);
        (0..TOUCHED_MAX).for_each(|_| texts.touch(other.id));
        texts.keep(&both, looked.moment);
        assert_eq!(texts.find(&[one.id, other.id]).missing, [other.id]);
        let looked = texts.find(&[]);
        texts.forget_all();
        texts.keep(&both, looked.moment);
        assert_eq!(texts.find(&[one.id, other.id]).missing, [one.id, other.id]);
        let looked = texts.find(&[]);
        (0..=TOUCHED_MAX).for_each(|_| texts.touch(ids.turn(Timestamp::UNIX_EPOCH)));
        texts.keep(&both, looked.moment);
        assert_eq!(texts.find(&[one.id]).missing, [one.id], "too much happened to know");
    }

    #[test]
    fn what_was_touched_is_told_once() {
        let (ids, mut texts) = (CountedIds::default(), Texts::new(BYTES_MAX));
        let one = turn(&ids, "one");
        texts.touch(one.id);
        texts.touch(one.id);
        assert_eq!(texts.newly_touched(), [one.id]);
        assert_eq!(texts.newly_touched(), []);
        (0..2 * TOUCHED_MAX).for_each(|_| texts.touch(ids.turn(Timestamp::UNIX_EPOCH)));
        assert_eq!(texts.newly_touched().len(), TOUCHED_MAX);
        texts.touch(one.id);
        texts.forget_all();
        assert_eq!(texts.newly_touched(), []);
    }

    #[test]
    fn what_nobody_uses_goes_and_what_is_used_stays() {
        let (ids, mut texts) = (CountedIds::default(), Texts::new(BYTES_MAX));
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
