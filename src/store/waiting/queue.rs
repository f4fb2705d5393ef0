//! What waits, in the order it was asked, and found by session or by turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use super::turn::WaitingTurn;
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::store::DoneRequest;

/// When a turn was asked, and which it is: the order in which numbers are given.
type Place = (Timestamp, TurnId);

/// Whose conversation, and which.
pub(super) type Conversation = (Scope, SessionId);

/// The turns that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    turns: BTreeMap<Place, WaitingTurn>,
    places: HashMap<TurnId, Place>,
    conversations: HashMap<Conversation, BTreeSet<Place>>,
    bytes: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// What all of them weigh.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The time of a turn that begins to wait now: after those of its conversation that wait already, or it would be
    /// numbered before them when the clock was set back meanwhile.
    pub(super) fn time_of_next(&self, scope: &Scope, session: SessionId, now: Timestamp) -> Timestamp {
        let waiting = self.conversations.get(&(scope.clone(), session));
        let last = waiting.and_then(|places| places.last()).map(|(at, _)| from_micros(at.as_microsecond() + 1));
        last.map_or(now, |last| last.max(now))
    }

    pub(super) fn push(&mut self, turn: WaitingTurn) {
        let place = (turn.at, turn.id);
        self.bytes += turn.bytes;
        self.places.insert(turn.id, place);
        self.conversations.entry((turn.scope.clone(), turn.session)).or_default().insert(place);
        self.turns.insert(place, turn);
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &WaitingTurn> {
        self.turns.values()
    }

    pub(super) fn get(&self, id: TurnId) -> Option<&WaitingTurn> {
        self.turns.get(self.places.get(&id)?)
    }

    /// What a request made whose turn waits.
    pub(super) fn by_request(&self, scope: &Scope, key: [u8; 32]) -> Option<DoneRequest> {
        let mut theirs = self.turns.values().filter(|turn| turn.scope == *scope).filter_map(WaitingTurn::request);
        theirs.find(|(known, _)| *known == key).map(|(_, done)| done)
    }

    /// Changes a turn in its place; what it weighs is counted anew.
    pub(super) fn change<T>(&mut self, id: TurnId, change: impl FnOnce(&mut WaitingTurn) -> T) -> Option<T> {
        let turn = self.turns.get_mut(self.places.get(&id)?)?;
        let before = turn.bytes;
        let changed = change(turn);
        self.bytes = self.bytes + turn.bytes - before;
        Some(changed)
    }

    pub(super) fn remove(&mut self, id: TurnId) -> Option<WaitingTurn> {
        let place = self.places.remove(&id)?;
        let turn = self.turns.remove(&place)?;
        self.bytes -= turn.bytes;
        let conversation = (turn.scope.clone(), turn.session);
        if let Some(places) = self.conversations.get_mut(&conversation) {
            places.remove(&place);
            if places.is_empty() {
                self.conversations.remove(&conversation);
            }
        }
        Some(turn)
    }

    pub(super) fn waits_for(&self, scope: &Scope, session: SessionId) -> bool {
        !self.turns.is_empty() && self.conversations.contains_key(&(scope.clone(), session))
    }

    /// A conversation's waiting turns, oldest first.
    pub(super) fn of(&self, scope: &Scope, session: SessionId) -> Vec<WaitingTurn> {
        if self.turns.is_empty() {
            return Vec::new();
        }
        let places = self.conversations.get(&(scope.clone(), session)).into_iter().flatten();
        places.filter_map(|place| self.turns.get(place).cloned()).collect()
    }

    /// The oldest of them.
    pub(super) fn first_of(&self, conversation: &Conversation) -> Option<WaitingTurn> {
        self.turns.get(self.conversations.get(conversation)?.first()?).cloned()
    }

    /// The conversations that have something waiting, by their oldest turn.
    pub(super) fn conversations(&self) -> Vec<Conversation> {
        let mut first: Vec<_> = self.conversations.iter().map(|(which, places)| (places.first(), which)).collect();
        first.sort_unstable_by_key(|(place, _)| *place);
        first.into_iter().map(|(_, which)| which.clone()).collect()
    }

    /// A turn got another number than was foreseen; what was said after it follows.
    pub(super) fn renumber(&mut self, conversation: &Conversation, foreseen: std::ops::RangeInclusive<u64>, by: i64) {
        for place in self.conversations.get(conversation).into_iter().flatten() {
            if let Some((open, _)) = self.turns.get_mut(place).and_then(|turn| turn.open.as_mut()) {
                let shift = &mut open.place.shift;
                let numbers = open.place.parent.iter_mut().chain(&mut shift.hide).chain(&mut shift.show);
                for number in numbers.filter(|number| foreseen.contains(number)) {
                    *number = number.saturating_add_signed(by);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Ids, RandomIds};
    use crate::message::{Message, Role};
    use crate::session::{OpenTurn, Placement, SessionSeed};

    fn turn(scope: &Scope, session: SessionId, second: i64, parent: Option<u64>) -> WaitingTurn {
        let at = Timestamp::from_second(second).expect("a time");
        let open = OpenTurn {
            id: RandomIds.turn(at),
            session,
            seed: SessionSeed::default(),
            question: Message::new(Role::User, "hello", at),
            metadata: Default::default(),
            asked_at: None,
            place: Placement { parent, ..Placement::default() },
        };
        WaitingTurn::asked(scope.clone(), open, at)
    }

    #[test]
    fn turns_stand_in_the_order_they_were_asked_whenever_they_came() {
        let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
        let mut queue = Queue::default();
        let (late, early) = (turn(&scope, session, 9, None), turn(&scope, session, 3, None));
        let (late_id, early_id) = (late.id, early.id);
        queue.push(late);
        queue.push(early);
        assert_eq!(queue.of(&scope, session).iter().map(|turn| turn.id).collect::<Vec<_>>(), [early_id, late_id]);
        assert_eq!(queue.first_of(&(scope.clone(), session)).map(|turn| turn.id), Some(early_id));
        queue.remove(early_id);
        queue.remove(late_id);
        assert_eq!((queue.len(), queue.bytes(), queue.conversations().len()), (0, 0, 0));
    }

    #[test]
    fn what_was_said_after_a_turn_follows_its_number() {
        let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
        let mut queue = Queue::default();
        for parent in [4, 5, 6] {
            queue.push(turn(&scope, session, parent, Some(parent as u64)));
        }
        queue.renumber(&(scope.clone(), session), 5..=5, 2);
        let parents =
            queue.of(&scope, session).into_iter().map(|turn| turn.open.and_then(|(open, _)| open.place.parent));
        assert_eq!(parents.collect::<Vec<_>>(), [Some(4), Some(7), Some(6)]);
    }
}
