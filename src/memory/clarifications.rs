//! Clarifications that wait for an answer: in memory, for a few minutes, one for each conversation.
//!
//! Nothing here is written anywhere, and nothing that is written ends up here: what is remembered and what was just asked
//! do not know of each other. Time is the steady clock's, so that a wall clock that leaps ends nothing early.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clarify::Clarification;
use crate::clock::{Clock, Reading};
use crate::id::{SessionId, TurnId};
use crate::scope::{Scope, Tenant};

/// How long clarifications wait, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClarificationSettings {
    /// How long one waits for its answer; nothing is held at zero.
    pub ttl: Duration,
    /// Most conversations with one, all tenants together; the oldest goes.
    pub held_max: usize,
    /// Most conversations of one tenant with one; its oldest goes.
    pub tenant_max: usize,
}

impl Default for ClarificationSettings {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(300), held_max: 10_000, tenant_max: 1_000 }
    }
}

/// A clarification that was asked.
#[derive(Debug, PartialEq)]
pub struct HeldClarification {
    /// What.
    pub clarification: Clarification,
    /// The turn that asked it; `None` when somebody said so.
    pub asked_in: Option<TurnId>,
    /// By the steady clock.
    since: Duration,
}

/// What is held of one conversation.
struct Entry {
    /// What waits for an answer.
    open: Option<Arc<HeldClarification>>,
    /// What was answered last, and by which turn: the same question may be asked of the model again.
    answered: Option<(TurnId, Arc<HeldClarification>)>,
    /// Its place in the order in which entries came.
    order: u64,
}

type Place = (Scope, SessionId);

/// Holds clarifications.
pub struct ClarificationDesk {
    settings: ClarificationSettings,
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    entries: HashMap<Place, Entry>,
    /// Oldest first, of all and of each tenant.
    order: BTreeMap<u64, Place>,
    of_tenants: HashMap<Tenant, BTreeMap<u64, Place>>,
    next: u64,
}

impl ClarificationDesk {
    pub(super) fn new(settings: ClarificationSettings, clock: Arc<dyn Clock>) -> Self {
        Self { settings, clock, held: Mutex::default() }
    }

    /// How long they wait.
    pub fn ttl(&self) -> Duration {
        self.settings.ttl
    }

    /// Holds a clarification in place of any that was open in this conversation.
    pub fn hold(&self, scope: &Scope, session: SessionId, clarification: Clarification, asked_in: Option<TurnId>) {
        let (mut held, now) = self.swept();
        if self.settings.ttl.is_zero() {
            return;
        }
        let place = (scope.clone(), session);
        let answered = held.remove(&place).and_then(|entry| entry.answered);
        let asked = Arc::new(HeldClarification { clarification, asked_in, since: now.steady });
        held.insert(place, Some(asked), answered);
        held.bound(scope.tenant(), &self.settings);
    }

    /// What waits for an answer in a conversation.
    pub fn open(&self, scope: &Scope, session: SessionId) -> Option<Arc<HeldClarification>> {
        self.swept().0.entries.get(&(scope.clone(), session))?.open.clone()
    }

    /// What a turn has answered.
    pub(crate) fn answered_in(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Option<Arc<HeldClarification>> {
        let (held, now) = self.swept();
        let (by, asked) = held.entries.get(&(scope.clone(), session))?.answered.as_ref()?;
        let waits = now.steady.saturating_sub(asked.since) < self.settings.ttl;
        (*by == turn && waits).then(|| Arc::clone(asked))
    }

    /// What waits for answers in a user's conversations, oldest first, with its place in that order.
    pub fn all_open(&self, scope: &Scope) -> Vec<(u64, SessionId, Arc<HeldClarification>)> {
        let (held, _) = self.swept();
        let of_tenant = held.of_tenants.get(scope.tenant()).into_iter().flatten();
        let of_user = of_tenant.filter(|(_, (owner, _))| owner == scope);
        let open = of_user.filter_map(|(order, place)| {
            let asked = held.entries.get(place)?.open.clone()?;
            Some((*order, place.1, asked))
        });
        open.collect()
    }

    /// A turn has answered this clarification, if it still waits.
    pub(crate) fn answer(&self, scope: &Scope, session: SessionId, turn: TurnId, asked: &Arc<HeldClarification>) {
        let (mut held, _) = self.swept();
        let Some(entry) = held.entries.get_mut(&(scope.clone(), session)) else { return };
        if entry.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, asked)) {
            entry.answered = entry.open.take().map(|asked| (turn, asked));
        }
    }

    /// Lets what waits in a conversation go; answers whether there was anything.
    pub fn drop_open(&self, scope: &Scope, session: SessionId) -> bool {
        let (mut held, _) = self.swept();
        let place = (scope.clone(), session);
        let Some(entry) = held.entries.get_mut(&place) else { return false };
        let was_open = entry.open.take().is_some();
        if entry.answered.is_none() {
            held.remove(&place);
        }
        was_open
    }

    /// Lets everything go that somebody means, open or answered.
    pub(crate) fn drop_all(&self, meant: impl Fn(&Scope, SessionId) -> bool) {
        let (mut held, _) = self.swept();
        let gone: Vec<Place> = held.entries.keys().filter(|(scope, session)| meant(scope, *session)).cloned().collect();
        gone.iter().for_each(|place| drop(held.remove(place)));
    }

    /// How many conversations have one, open or just answered.
    pub fn count(&self) -> usize {
        self.swept().0.entries.len()
    }

    /// What is held, without what has waited too long.
    fn swept(&self) -> (MutexGuard<'_, Held>, Reading) {
        let now = self.clock.reading();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.sweep(now.steady, self.settings.ttl);
        (held, now)
    }
}

impl Held {
    fn insert(
        &mut self,
        place: Place,
        open: Option<Arc<HeldClarification>>,
        answered: Option<(TurnId, Arc<HeldClarification>)>,
    ) {
        let order = self.next;
        self.next += 1;
        self.order.insert(order, place.clone());
        self.of_tenants.entry(place.0.tenant().clone()).or_default().insert(order, place.clone());
        self.entries.insert(place, Entry { open, answered, order });
    }

    fn remove(&mut self, place: &Place) -> Option<Entry> {
        let entry = self.entries.remove(place)?;
        self.order.remove(&entry.order);
        if let Some(of_tenant) = self.of_tenants.get_mut(place.0.tenant()) {
            of_tenant.remove(&entry.order);
            if of_tenant.is_empty() {
                self.of_tenants.remove(place.0.tenant());
            }
        }
        Some(entry)
    }

    /// Entries come in the order of their times, so those that have waited too long are in front.
    fn sweep(&mut self, now: Duration, ttl: Duration) {
        let is_over = |asked: &Arc<HeldClarification>| now.saturating_sub(asked.since) >= ttl;
        while let Some((_, place)) = self.order.first_key_value() {
            let place = place.clone();
            let Some(entry) = self.entries.get_mut(&place) else { return };
            entry.answered.take_if(|(_, asked)| is_over(asked));
            entry.open.take_if(|asked| is_over(asked));
            if entry.open.is_some() || entry.answered.is_some() {
                return;
            }
            self.remove(&place);
        }
    }

    /// Lets the oldest go where there are too many.
    fn bound(&mut self, tenant: &Tenant, settings: &ClarificationSettings) {
        while self.of_tenants.get(tenant).is_some_and(|of_tenant| of_tenant.len() > settings.tenant_max) {
            let oldest = self.of_tenants.get(tenant).and_then(|of_tenant| of_tenant.values().next()).cloned();
            oldest.and_then(|place| self.remove(&place));
        }
        while self.entries.len() > settings.held_max {
            let oldest = self.order.values().next().cloned();
            oldest.and_then(|place| self.remove(&place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clarify::ChoiceOption;
    use crate::clock::ManualClock;
    use crate::id::{CountedIds, Ids};
    use crate::scope::User;
    use jiff::{SignedDuration, Timestamp};

    struct Desk {
        desk: ClarificationDesk,
        clock: Arc<ManualClock>,
        ids: CountedIds,
    }

    fn desk(settings: ClarificationSettings) -> Desk {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let desk = ClarificationDesk::new(settings, Arc::clone(&clock) as _);
        Desk { desk, clock, ids: CountedIds::default() }
    }

    fn scope(tenant: &str, user: &str) -> Scope {
        Scope::new(Tenant::parse(tenant).expect("an id"), User::parse(user).expect("an id"))
    }

    fn asked(question: &str) -> Clarification {
        let options = vec![ChoiceOption::named("a"), ChoiceOption::named("b")];
        Clarification::new(question, options, Timestamp::UNIX_EPOCH).expect("a choice")
    }

    fn question(desk: &ClarificationDesk, scope: &Scope, session: SessionId) -> Option<String> {
        desk.open(scope, session).map(|asked| asked.clarification.question.clone())
    }

    #[test]
    fn one_waits_for_five_minutes() {
        let Desk { desk, clock, ids } = desk(ClarificationSettings::default());
        let (ann, session) = (scope("t", "ann"), ids.session());
        desk.hold(&ann, session, asked("Which?"), None);
        clock.advance(SignedDuration::from_secs(299));
        assert_eq!(question(&desk, &ann, session).as_deref(), Some("Which?"));
        clock.advance(SignedDuration::from_secs(1));
        assert_eq!((question(&desk, &ann, session), desk.count()), (None, 0));
    }

    #[test]
    fn a_wall_clock_that_leaps_ends_nothing() {
        let Desk { desk, clock, ids } = desk(ClarificationSettings::default());
        let (ann, session) = (scope("t", "ann"), ids.session());
        desk.hold(&ann, session, asked("Which?"), None);
        clock.leap(SignedDuration::from_hours(48));
        assert!(desk.open(&ann, session).is_some());
    }

    #[test]
    fn each_conversation_has_its_own() {
        let Desk { desk, ids, .. } = desk(ClarificationSettings::default());
        let (one, two) = (ids.session(), ids.session());
        let (ann, bob, other) = (scope("t", "ann"), scope("t", "bob"), scope("u", "ann"));
        desk.hold(&ann, one, asked("first?"), None);
        desk.hold(&ann, two, asked("second?"), None);
        desk.hold(&bob, one, asked("Bob's?"), None);
        assert_eq!(question(&desk, &ann, one).as_deref(), Some("first?"));
        assert_eq!(question(&desk, &bob, one).as_deref(), Some("Bob's?"));
        assert_eq!((question(&desk, &bob, two), question(&desk, &other, one)), (None, None));
        assert!(desk.drop_open(&ann, one) && !desk.drop_open(&ann, one));
        assert_eq!(question(&desk, &ann, two).as_deref(), Some("second?"));
        assert_eq!(question(&desk, &bob, one).as_deref(), Some("Bob's?"));
        let of_ann: Vec<SessionId> = desk.all_open(&ann).into_iter().map(|(_, session, _)| session).collect();
        assert_eq!(of_ann, [two]);
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let bounds = ClarificationSettings { held_max: 5, tenant_max: 3, ..ClarificationSettings::default() };
        let Desk { desk, ids, .. } = desk(bounds);
        let (ann, bob) = (scope("t", "ann"), scope("u", "bob"));
        let sessions: Vec<SessionId> = (0..4).map(|_| ids.session()).collect();
        sessions.iter().for_each(|session| desk.hold(&ann, *session, asked("Which?"), None));
        let open =
            |scope: &Scope| sessions.iter().map(|session| desk.open(scope, *session).is_some()).collect::<Vec<_>>();
        assert_eq!(open(&ann), [false, true, true, true], "three of one tenant");
        // Asked again, the second is the newest.
        desk.hold(&ann, sessions[1], asked("Which?"), None);
        sessions[..3].iter().for_each(|session| desk.hold(&bob, *session, asked("Which?"), None));
        assert_eq!(
            (desk.count(), open(&ann), open(&bob)),
            (5, vec![false, true, false, true], vec![true, true, true, false])
        );
    }

    #[test]
    fn what_was_answered_is_not_open() {
        let Desk { desk, clock, ids } = desk(ClarificationSettings::default());
        let (ann, session) = (scope("t", "ann"), ids.session());
        let (turn, next) = (ids.turn(Timestamp::UNIX_EPOCH), ids.turn(Timestamp::UNIX_EPOCH));
        desk.hold(&ann, session, asked("colour?"), None);
        let colour = desk.open(&ann, session).expect("open");
        desk.answer(&ann, session, turn, &colour);
        assert_eq!((desk.open(&ann, session), desk.answered_in(&ann, session, next)), (None, None));
        // The answer's own question may be followed by another one, and the model be asked again.
        desk.hold(&ann, session, asked("size?"), Some(turn));
        assert_eq!(desk.answered_in(&ann, session, turn), Some(Arc::clone(&colour)));
        desk.answer(&ann, session, next, &colour);
        assert_eq!(question(&desk, &ann, session).as_deref(), Some("size?"), "another one is open by now");
        clock.advance(SignedDuration::from_secs(300));
        assert_eq!((desk.answered_in(&ann, session, turn), desk.count()), (None, 0));
    }

    #[test]
    fn nothing_is_held_for_no_time() {
        let Desk { desk, ids, .. } =
            desk(ClarificationSettings { ttl: Duration::ZERO, ..ClarificationSettings::default() });
        let (ann, session) = (scope("t", "ann"), ids.session());
        desk.hold(&ann, session, asked("Which?"), None);
        assert_eq!((desk.open(&ann, session), desk.count()), (None, 0));
    }
}
