//! What is old is told in brief: in the background, after the answer, by whoever summarises.
//!
//! A memory model that is resting, spent or of no use leaves it to the built-in at once: nobody tries again later,
//! because there may be no later. What the model said instead is not kept, and what it costs is counted as ever.

use std::sync::PoisonError;

use tracing::debug;

use super::super::Memory;
use crate::episode::Level;
use crate::live::{Leaving, LiveKey, Retold};
use crate::model::memory::{NoProposal, Proposal, Spent};
use crate::model::summarise::{Extractive, Summariser, Talk, Told};
use crate::scope::Scope;
use crate::store::live::{Done, LiveChange, Look, Seen};
use crate::store::{DaySpent, day_of};

/// How often what changed meanwhile is told again before it waits for the next turn.
const TRIES_MAX: usize = 3;

impl Memory {
    /// Begins to tell what is due, if nobody does already. Never waits.
    pub(super) fn tell_soon(&self, seen: &Seen) {
        if self.due(seen).is_none() || !self.telling(|telling| telling.insert(seen.key.clone())) {
            return;
        }
        let (memory, key) = (self.clone(), seen.key.clone());
        tokio::spawn(async move {
            memory.tell_alone(&key).await;
            memory.telling(|telling| telling.remove(&key));
        });
    }

    /// Waits until nothing is being told in brief any more.
    pub async fn live_told(&self) {
        while self.telling(|telling| !telling.is_empty()) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    fn telling<T>(&self, look: impl FnOnce(&mut std::collections::HashSet<LiveKey>) -> T) -> T {
        look(&mut self.live.telling.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn due(&self, seen: &Seen) -> Option<Leaving> {
        let kept = self.settings.episodes.hours_kept;
        seen.session.due(self.settings.live.summarize_after, kept, self.live.now().wall)
    }

    /// Tells what is due, unless another instance does already.
    async fn tell_alone(&self, key: &LiveKey) {
        // Where nobody can say whether another does, two may: one of them will have done it in vain.
        if !self.live.store.begin_telling(key).await.unwrap_or(true) {
            return;
        }
        self.tell(key).await;
        if let Err(error) = self.live.store.end_telling(key).await {
            debug!(error = %error, "Others will wait to tell a live session in brief: {error}");
        }
    }

    async fn tell(&self, key: &LiveKey) {
        for _ in 0..TRIES_MAX {
            let Ok(Some(seen)) = self.live.look(key, Look::Aside).await else { return };
            let Some(leaving) = self.due(&seen) else { return };
            let retold = self.retell(leaving, key, &*self.parts.summariser).await;
            let (change, rules) = (LiveChange::Retell(Box::new(retold)), self.settings.live.rules());
            match self.live.store.change(key, change, rules, self.live.now()).await {
                Ok(Some(changed)) if changed.done == Done::Outdated => {}
                Ok(_) => return,
                Err(error) => return debug!(error = %error, "What was told of a live session is not kept: {error}"),
            }
        }
    }

    /// Tells what leaves: its hours, and what lies further back as one.
    pub(super) async fn retell(&self, leaving: Leaving, key: &LiveKey, by: &dyn Summariser) -> Retold {
        let mut texts = Vec::with_capacity(leaving.hours.len());
        for hour in &leaving.hours {
            texts.push(self.briefly(key, by, hour.before.clone(), hour.said.clone(), Level::Hour).await);
        }
        let (retold, past) = leaving.told(texts, self.settings.episodes.hours_kept);
        let Some(past) = past else { return retold };
        let text = self.briefly(key, by, past.before.clone(), past.said.clone(), Level::Session).await;
        retold.with_past(past.told(text))
    }

    /// Says briefly what was said, whoever can.
    async fn briefly(
        &self,
        key: &LiveKey,
        by: &dyn Summariser,
        before: Option<String>,
        said: Vec<Told>,
        level: Level,
    ) -> String {
        if said.is_empty() {
            return before.unwrap_or_default();
        }
        let talk = Talk { before, said, tokens_max: self.settings.episodes.tokens_max(level), is_topic: false };
        let asked = match by.is_metered() {
            true => self.ask_model(key, by, talk.clone()).await,
            false => by.summarise(talk.clone()).await.ok().map(|told| told.value.text),
        };
        match asked {
            Some(text) => text,
            None => Extractive.summarise(talk).await.map(|told| told.value.text).unwrap_or_default(),
        }
    }

    async fn ask_model(&self, key: &LiveKey, by: &dyn Summariser, talk: Talk) -> Option<String> {
        let scope = key.scope();
        let now = self.parts.clock.reading().wall;
        let rests = self.resting.lock().unwrap_or_else(PoisonError::into_inner).refuses(now).is_some();
        let capped = !rests && self.is_spent(&scope, now).await;
        if rests || capped {
            let why = DaySpent { fallbacks: 1, capped: u64::from(capped), ..DaySpent::default() };
            self.note(&scope, Spent::default(), why).await;
            return None;
        }
        match by.summarise(talk).await {
            Ok(Proposal { value, spent }) => {
                self.resting.lock().unwrap_or_else(PoisonError::into_inner).answered();
                self.note(&scope, spent, DaySpent::default()).await;
                Some(value.text)
            }
            Err(NoProposal { why, spent, .. }) => {
                let now = self.parts.clock.reading().wall;
                if why.may_pass() {
                    self.resting.lock().unwrap_or_else(PoisonError::into_inner).failed(&why, now);
                }
                let failed = DaySpent { fallbacks: 1, ..self.count_failure(why.kind()) };
                self.note(&scope, spent, failed).await;
                None
            }
        }
    }

    async fn is_spent(&self, scope: &Scope, now: jiff::Timestamp) -> bool {
        let caps = self.settings.asking;
        if caps.calls_per_day == 0 && caps.tokens_per_day == 0 {
            return false;
        }
        let spent = self.parts.store.ledger().spent_on(scope, day_of(now)).await;
        let over = |cap: u64, spent: u64| cap > 0 && spent >= cap;
        // Who cannot read what was spent asks for nothing that costs.
        spent.map_or(true, |spent| over(caps.calls_per_day, spent.calls) || over(caps.tokens_per_day, spent.tokens))
    }

    /// Counts what was spent, by tenant and day: no word of the session is in it.
    async fn note(&self, scope: &Scope, spent: Spent, more: DaySpent) {
        let day = self.count_asked(spent, more);
        let noted = self.parts.store.ledger().spend(scope, day_of(self.parts.clock.reading().wall), day).await;
        if let Err(error) = noted {
            self.report(scope, None, "note_spent", &error);
        }
    }
}
