//! Whatever happens: who applies the changes holds what who reads everything holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Talk;
use super::recall::{EMBEDDER, Follower, derive, derived, embedded, load, load_index, vectors_of};
use super::talk::{assistant, at, draft, expire, tool_call, tool_result, user};
use crate::id::TurnId;
use crate::period::{Period, Ttl};
use crate::session::{ClosedTurn, Shift, TurnDraft, TurnStatus};
use crate::store::{DueTurn, RecallKept, Store, Todo};

/// How many histories are made, each with so many steps.
const HISTORIES: u64 = 4;
const STEPS: usize = 120;

/// Chance that is the same on each run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).copied()
    }

    fn seconds(&mut self) -> i64 {
        self.below(100) as i64
    }

    fn shift(&mut self) -> Shift {
        let mut numbers = |times| -> Vec<u64> {
            if self.once_in(times) { (0..2).map(|_| 1 + self.below(12) as u64).collect() } else { Vec::new() }
        };
        let (hide, show, tried) = (numbers(2), numbers(2), numbers(3));
        let activate = tried.into_iter().map(|number| (number, self.below(3) as u32)).collect();
        Shift { hide, show, activate, mode: None }
    }
}

/// A conversation that takes a random course.
pub(super) struct Course {
    pub(super) talk: Talk,
    /// Turns and the tries at their answers.
    pub(super) tries: Vec<(TurnId, u32)>,
}

impl Course {
    pub(super) async fn step(&mut self, dice: &mut Dice) {
        let talk = &self.talk;
        match dice.below(16) {
            0..3 => self.tries.push((talk.exchange("how?", &dice.seconds().to_string()).await, 0)),
            3 => self.tries.push((talk.ask("what?").await, 0)),
            4 => self.tries.push((talk.ask_with("what else?", dice.shift()).await, 0)),
            5..8 => self.close(dice).await,
            8 | 9 => self.revise(dice).await,
            10 | 11 => self.add(dice).await,
            12 => {
                let messages = [user("loose?"), assistant("so"), tool_result()];
                let from = dice.below(3);
                talk.say(messages[from..=from.max(dice.below(3))].to_vec()).await.expect("messages are added");
            }
            13 => drop(expire(&talk.store, at(dice.seconds()), Ttl::of(Period::seconds(5)), 1 + dice.below(3)).await),
            14 => drop(talk.store.give_up_on_tools(Timestamp::MAX).await.expect("given up")),
            _ if dice.once_in(3) => drop(talk.delete().await),
            _ if dice.once_in(2) => drop(talk.store.fail_abandoned().await.expect("marked")),
            _ if talk.find().await.is_some() => talk.set_ttl(Ttl::of(Period::seconds(1))).await,
            _ => {}
        }
    }

    /// Ends some try in some way; whether there is anything to end is the store's business.
    async fn close(&self, dice: &mut Dice) {
        let Some((id, attempt)) = dice.pick(&self.tries) else { return };
        let (status, messages) = match dice.below(6) {
            0 => (TurnStatus::Failed, Vec::new()),
            1 => (TurnStatus::Partial, vec![assistant("so f")]),
            2 => (TurnStatus::Pending, vec![tool_call()]),
            3 => (TurnStatus::Pending, vec![tool_result()]),
            _ => (TurnStatus::Complete, vec![assistant(&dice.seconds().to_string())]),
        };
        let others = if dice.once_in(4) { vec![assistant("or else")] } else { Vec::new() };
        let ending = self.talk.ending(id, status, messages);
        let _ = self.talk.try_close(ClosedTurn { attempt, others, ..ending }).await;
    }

    async fn revise(&mut self, dice: &mut Dice) {
        let Some((id, _)) = dice.pick(&self.tries) else { return };
        let shift = if dice.once_in(2) { dice.shift() } else { Shift::default() };
        self.tries.extend(self.talk.revise_with(id, shift).await.ok().map(|attempt| (id, attempt)));
    }

    async fn add(&mut self, dice: &mut Dice) {
        let dated = |second| TurnDraft { created_at: Some(at(second)), ..draft("added", &second.to_string()) };
        let drafts = (0..=dice.below(3)).map(|_| dated(dice.seconds())).collect();
        self.tries.extend(self.talk.add(drafts).await.iter().map(|turn| (turn.id, 0)));
    }
}

/// Makes some of what is to be made, some of it from turns as they were a while ago.
async fn make_some(store: &Arc<dyn Store>, dice: &mut Dice, remembered: &mut Vec<DueTurn>) {
    let limit = 1 + dice.below(20);
    let rows = store.recall_todo(Todo::Row, limit).await.expect("the list");
    let vectors = store.recall_todo(Todo::Vector, limit).await.expect("the list");
    let late: Vec<DueTurn> = remembered.split_off(remembered.len() - dice.below(1 + remembered.len()));
    let made = rows.iter().map(derived).chain(vectors.iter().map(|due| embedded(due, EMBEDDER)));
    let made = made.chain(late.iter().flat_map(|due| [derived(due), embedded(due, EMBEDDER)]));
    store.keep_recall_rows(made.collect()).await.expect("rows are kept");
    if dice.once_in(8) {
        let what = if dice.once_in(2) { Todo::Row } else { Todo::Vector };
        store.recall_again(what).await.expect("listed");
    }
}

/// After any history, over several scopes: applying the changes is as good as loading anew, nothing derived is
/// stale, and the list names exactly the turns that have no row.
pub async fn applying_changes_equals_loading_anew(store: Arc<dyn Store>) {
    let first = Talk::new(&store);
    let talks = [first.clone(), first.another(), first.of("acme", "bob"), first.of("other", "ann")];
    for seed in 1..=HISTORIES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut courses: Vec<Course> =
            talks.iter().map(|talk| Course { talk: talk.clone(), tries: Vec::new() }).collect();
        let mut followers: Vec<Follower> = [0, 2, 3].map(|n| Follower::of(&talks[n].scope)).into();
        let mut remembered = Vec::new();
        for step in 0..STEPS {
            if dice.once_in(4) {
                make_some(&store, &mut dice, &mut remembered).await;
            } else {
                let which = dice.below(courses.len());
                courses[which].step(&mut dice).await;
            }
            if dice.once_in(5) {
                remembered.extend(store.recall_todo(Todo::Row, 5).await.expect("the list"));
            }
            for follower in &mut followers {
                if dice.once_in(2) || step + 1 == STEPS {
                    follower.follow(&store).await;
                    let anew = load_index(&store, &follower.scope).await;
                    assert_eq!(follower.index, anew, "history {seed}, step {step}, {:?}", follower.scope);
                }
            }
            if dice.once_in(3) {
                assert_fresh(&store, &followers, (seed, step)).await;
            }
        }
    }
}

/// The list of rows is the list of entries without one; what is derived says what the turn says.
async fn assert_fresh(store: &Arc<dyn Store>, followers: &[Follower], when: (u64, usize)) {
    let due = store.recall_todo(Todo::Row, usize::MAX).await.expect("the list");
    let due: BTreeSet<TurnId> = due.iter().map(|due| due.turn.id).collect();
    let mut missing = BTreeSet::new();
    for follower in followers {
        let entries = load(store, &follower.scope).await;
        let ids: Vec<TurnId> = entries.iter().map(|entry| entry.turn).collect();
        let turns = store.turns_by_id(&follower.scope, &ids).await.expect("the turns");
        assert_eq!(turns.len(), entries.len(), "history and step {when:?}");
        for (entry, turn) in entries.iter().zip(&turns) {
            match &entry.kept {
                RecallKept::Turn(kept) => assert_eq!((kept.as_ref(), missing.insert(entry.turn)), (turn, true)),
                RecallKept::Row { row, vectors } => {
                    assert_eq!(*row, derive(turn), "history and step {when:?}");
                    let fresh = vectors.as_ref().is_none_or(|vectors| *vectors == vectors_of(row));
                    assert!(fresh, "vectors of other words, history and step {when:?}");
                }
            }
        }
    }
    assert_eq!(due, missing, "history and step {when:?}");
}

/// While many write, an index that follows misses nothing: what was answered is in the next changes.
pub async fn who_follows_while_many_write_misses_nothing(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let talk = talk.another();
            tokio::spawn(async move {
                let mut follower = Follower::of(&talk.scope);
                for turn in 0..12 {
                    let id = talk.exchange(&format!("{n}.{turn}"), "so").await;
                    follower.follow(&talk.store).await;
                    assert!(follower.index.contains_key(&id), "what was answered is seen");
                    if turn % 4 == 3 {
                        talk.delete().await;
                        follower.follow(&talk.store).await;
                        assert!(!follower.index.contains_key(&id), "what was deleted is not");
                    }
                }
            })
        })
        .collect();
    let mut follower = Follower::of(&talk.scope);
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        follower.follow(&store).await;
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.expect("the writer keeps its promises");
    }
    follower.follow(&store).await;
    assert_eq!(follower.index, load_index(&store, &talk.scope).await);
}
