//! Any course of what is said, written down, hidden and undone, in any order: what is believed holds together.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Talk;
use super::facts::undone;
use super::following::Dice;
use super::talk::at;
use crate::fact::{Act, Fact, Status};
use crate::id::{TurnId, UndoId};
use crate::session::Shift;
use crate::store::{Store, Undo, Undone};

/// How many courses are taken, each with so many steps.
const COURSES: u64 = 3;
const STEPS: usize = 30;

const KEYS: [&str; 4] = ["location", "name", "pet/rex", "pet/tom"];
const VALUES: [&str; 3] = ["Lisbon", "Porto", "Faro"];

/// Whatever happens, in whatever order: one value is active for a key, what is believed as of now is what is believed, and
/// undoing what was undone leaves everything as it was.
pub async fn any_course_holds_together(store: Arc<dyn Store>) {
    for seed in 1..=COURSES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let talk = Talk::new(&store).of("acme", &format!("ann {seed}"));
        let mut course = Course { talk, turns: Vec::new(), undos: Vec::new() };
        for step in 0..STEPS {
            course.go_on(&mut dice).await;
            course.check((seed, step)).await;
            course.check_undoing(&mut dice, (seed, step)).await;
        }
        assert!(course.undos.len() > 3, "a course without undoing shows nothing");
    }
}

struct Course {
    talk: Talk,
    turns: Vec<TurnId>,
    undos: Vec<UndoId>,
}

impl Course {
    async fn go_on(&mut self, dice: &mut Dice) {
        match dice.below(8) {
            0..4 => {
                let second = dice.below(1_000) as i64;
                self.turns.push(self.talk.state(second, &statement(dice)).await);
            }
            4 => {
                let act = [Act::State, Act::Correct, Act::End][dice.below(3)];
                let (key, value) = (KEYS[dice.below(KEYS.len())], VALUES[dice.below(VALUES.len())]);
                self.talk.note(key, value, act, dice.below(1_000) as i64).await;
            }
            5 => {
                let hide = vec![1 + dice.below(self.turns.len().max(1)) as u64];
                let show = vec![1 + dice.below(self.turns.len().max(1)) as u64];
                let shift = Shift { hide, show, ..Shift::default() };
                self.turns.push(self.talk.ask_and_shift(&statement(dice), shift).await);
            }
            _ => {
                let what = self.anything(dice).await;
                if let Some(Undone::Done { id, .. }) = self.undo(what).await {
                    self.undos.push(id);
                }
            }
        }
    }

    /// Something that may be undone.
    async fn anything(&self, dice: &mut Dice) -> Option<Undo> {
        let facts: Vec<_> = self.talk.facts(None, None).await.iter().map(|fact| fact.id).collect();
        match dice.below(4) {
            0 => dice.pick(&facts).map(Undo::Fact),
            1 => dice.pick(&self.turns).map(|turn| Undo::Message(turn.message(0))),
            2 => dice.pick(&self.undos).map(Undo::Undo),
            _ => {
                let from = dice.below(1_000) as i64;
                Some(Undo::Range { from: at(from), to: at(from + 1 + dice.below(300) as i64) })
            }
        }
    }

    async fn undo(&self, what: Option<Undo>) -> Option<Undone> {
        match what {
            Some(what) => Some(self.talk.undo_it(what).await),
            None => None,
        }
    }

    async fn check(&self, when: (u64, usize)) {
        let active = self.talk.facts(Some(Status::Active), None).await;
        let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
        active.iter().for_each(|fact| *by_key.entry(fact.key.path()).or_default() += 1);
        assert!(by_key.values().all(|count| *count == 1), "course and step {when:?}: {active:?}");
        let as_of_now = self.talk.facts(Some(Status::Active), Some(Timestamp::MAX)).await;
        assert_eq!(plain(&active), plain(&as_of_now), "course and step {when:?}");
    }

    /// Undoes something and undoes that: nothing has changed.
    async fn check_undoing(&self, dice: &mut Dice, when: (u64, usize)) {
        let before = self.talk.facts(None, None).await;
        let what = self.anything(dice).await;
        if let Some(done @ Undone::Done { .. }) = self.undo(what).await {
            let id = undone(done);
            undone(self.talk.undo_it(Undo::Undo(id)).await);
            let after = self.talk.facts(None, None).await;
            assert_eq!(plain(&after), plain(&before), "course and step {when:?}: {what:?}");
        }
    }
}

/// In the promises' language.
fn statement(dice: &mut Dice) -> String {
    let (key, value) = (KEYS[dice.below(KEYS.len())], VALUES[dice.below(VALUES.len())]);
    match dice.below(6) {
        0 => format!("{key} !"),
        1 | 2 => format!("{key} := {value}"),
        _ => format!("{key} = {value}"),
    }
}

/// What is believed, by key and value; a fact that nothing says any more is as good as none.
fn plain(facts: &[Fact]) -> Vec<String> {
    let said = facts.iter().filter(|fact| !fact.is_withdrawn());
    let mut plain: Vec<String> = said
        .map(|fact| {
            let (key, times) = (fact.key.path(), (fact.valid_from, fact.valid_to));
            format!("{key} = {} {:?} ×{} {times:?}", fact.value, fact.status, fact.confirmations)
        })
        .collect();
    plain.sort_unstable();
    plain
}
