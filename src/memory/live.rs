//! The desk of live sessions: who is here for a while, and who is told when they have gone.
//!
//! Reading order: [`LiveDesk`], letting a visitor in and making room for what they say, then `tell` (what is old is
//! told in brief, beside the requests) and `tally` (how many, how long, which way). Their end is `lifecycle`'s.

mod tally;
mod tell;

pub use tally::ChannelTally;
use tally::Tallies;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Memory, Parts};
use crate::clock::{Clock, Reading};
use crate::live::{LiveKey, LiveSettings, leaves};
use crate::message::Message;
use crate::model::summarise::Extractive;
use crate::scope::Tenant;
use crate::session::{EndReason, PRESET, SessionEnd, SessionSeed, TurnDraft};
use crate::store::live::{Changed, Counted, Done, InMemory, Live, LiveChange, LiveError, LiveRules, Look, Seen};

/// Bytes of all live sessions together, unless the settings say otherwise.
pub const LIVE_BYTES_MAX: usize = 1_000_000_000;

/// What a turn takes beside its words, rounded up.
const TURN_BYTES: usize = 1_024;
/// Ends that wait to be told while the disk is full.
const UNTOLD_MAX: usize = 1_000;
/// How often room is made before what is said counts as too large.
const SQUEEZES_MAX: usize = 16;

/// Where live sessions are kept, and what belongs to them.
pub struct LiveDesk {
    pub(crate) store: Arc<dyn Live>,
    clock: Arc<dyn Clock>,
    /// Ends that could not be told yet.
    untold: Mutex<Vec<SessionEnd>>,
    /// Sessions of which something is being told in brief.
    telling: Mutex<HashSet<LiveKey>>,
    tallies: Mutex<Tallies>,
    /// What others can see of them already.
    handed_over: Mutex<Tallies>,
}

impl LiveDesk {
    pub(super) fn new(parts: &Parts, bytes_max: usize) -> Self {
        Self {
            store: parts.live.clone().unwrap_or_else(|| Arc::new(InMemory::new(bytes_max))),
            clock: Arc::clone(&parts.clock),
            untold: Mutex::default(),
            telling: Mutex::default(),
            tallies: Mutex::default(),
            handed_over: Mutex::default(),
        }
    }

    /// Both clocks; no two looks show the same time of day.
    pub(crate) fn now(&self) -> Reading {
        Reading { wall: self.clock.now(), steady: self.clock.reading().steady }
    }

    /// How many sessions of a tenant came, and how they went, by channel: since the start, or since there is the store in
    /// which several instances count together.
    pub async fn tallies(&self, tenant: &Tenant) -> Result<BTreeMap<String, ChannelTally>, LiveError> {
        if !self.store.counts_together() {
            return Ok(self.tallied().of(tenant));
        }
        let mut all = Tallies::default();
        all.add(self.store.counts(tenant).await?);
        all.add(self.news().0);
        Ok(all.of(tenant))
    }

    /// What was counted here and nobody else can see yet.
    fn news(&self) -> (Vec<Counted>, Tallies) {
        let handed_over = self.handed_over.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.tallied().clone();
        (now.since(&handed_over), now)
    }

    /// Adds what was counted here to what all instances count, where they do. What cannot be added now is added later.
    pub(crate) async fn hand_over_counts(&self) -> Result<(), LiveError> {
        if !self.store.counts_together() {
            return Ok(());
        }
        let (news, now) = self.news();
        if !news.is_empty() {
            self.store.add_counts(news).await?;
            *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        Ok(())
    }

    fn tallied(&self) -> std::sync::MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a question by how it was read.
    pub(crate) fn asked(&self, seen: &Seen, intent: &'static str) {
        self.tallied().asked(seen, intent);
    }

    /// Counts what a question was about: the titles of what its tenant knows about it.
    pub(crate) fn was_about(&self, seen: &Seen, titles: &BTreeSet<String>) {
        self.tallied().was_about(seen, titles);
    }

    /// Counts a session that came from another channel.
    pub(crate) fn came_over(&self, seen: &Seen) {
        self.tallied().transferred(seen);
    }

    /// Counts a session that ended.
    pub(crate) fn ended(&self, seen: &Seen, reason: EndReason) {
        self.tallied().ended(seen, reason);
    }

    /// Keeps an end that could not be told, while there is room.
    pub(crate) fn keep_untold(&self, end: SessionEnd) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        if untold.len() < UNTOLD_MAX {
            untold.push(end);
        }
    }

    /// The ends that could not be told, to be told again.
    pub(crate) fn take_untold(&self) -> Vec<SessionEnd> {
        std::mem::take(&mut self.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks a session up.
    pub async fn look(&self, key: &LiveKey, look: Look) -> Result<Option<Seen>, LiveError> {
        self.store.look(key, look, self.now()).await
    }
}

impl LiveSettings {
    /// What the store has to know of them.
    pub(crate) fn rules(&self) -> LiveRules {
        LiveRules { ttl: self.ttl, sessions_max: self.sessions_max, bytes_max: self.bytes_max }
    }
}

impl Memory {
    /// The desk of live sessions.
    pub fn live(&self) -> &LiveDesk {
        &self.live
    }

    /// A seed with what its preset says, if it names one. A name that the tenant does not know says nothing.
    fn preset(&self, seed: SessionSeed) -> SessionSeed {
        let name = seed.metadata.get(PRESET).and_then(serde_json::Value::as_str).map(str::to_owned);
        match name.and_then(|name| Some((self.settings.session_presets.get(&name)?, name))) {
            Some((preset, name)) => preset.applied_to(&name, seed),
            None => seed,
        }
    }

    /// What the model is told first in a session that began with a preset.
    pub(crate) fn told_first(&self, metadata: &serde_json::Map<String, serde_json::Value>) -> Option<&str> {
        let preset = self.settings.session_presets.get(metadata.get(PRESET)?.as_str()?)?;
        preset.system.as_deref().filter(|system| !system.trim().is_empty())
    }

    /// Lets a visitor in: their session is there, with room for what they are about to say.
    pub(crate) async fn let_in(&self, key: &LiveKey, seed: SessionSeed, bytes: usize) -> Result<Seen, LiveError> {
        let rules = self.settings.live.rules();
        let bytes = bytes + TURN_BYTES;
        if bytes > rules.bytes_max {
            return Err(LiveError::TooLarge { bytes, bytes_max: rules.bytes_max });
        }
        let now = self.live.now();
        let seen = self.live.store.begin(key, self.preset(seed), rules, now).await?;
        if seen.session.created_at == now.wall {
            self.live.tallied().began(&seen);
        }
        self.make_room(seen, bytes, 2).await
    }

    /// Changes a session, and sees to it that it stays within its bounds.
    pub(crate) async fn change_live(&self, key: &LiveKey, change: LiveChange) -> Result<Changed, LiveError> {
        let (rules, now) = (self.settings.live.rules(), self.live.now());
        let changed = self.live.store.change(key, change, rules, now).await?;
        let Changed { seen, done } = changed.ok_or_else(|| LiveError::Gone(key.clone()))?;
        let seen = self.make_room(seen, 0, 0).await?;
        self.tell_soon(&seen);
        Ok(Changed { seen, done })
    }

    /// Adds turns that others completed.
    pub(crate) async fn add_live(
        &self,
        key: &LiveKey,
        seed: SessionSeed,
        drafts: Vec<TurnDraft>,
    ) -> Result<Changed, LiveError> {
        let bytes = drafts.iter().map(|draft| words(&draft.messages) + TURN_BYTES).sum();
        self.let_in(key, seed, bytes).await?;
        self.change_live(key, LiveChange::Add(drafts)).await
    }

    /// Makes room for so many bytes and messages: the oldest are told in brief, here and now, by the built-in
    /// summariser.
    async fn make_room(&self, mut seen: Seen, bytes: usize, messages: usize) -> Result<Seen, LiveError> {
        let LiveSettings { bytes_max, messages_max, summarize_after, .. } = self.settings.live;
        for _ in 0..SQUEEZES_MAX {
            let held = seen.session.messages_held();
            let over = (held + messages).saturating_sub(messages_max);
            if over == 0 && seen.session.bytes() + bytes <= bytes_max {
                return Ok(seen);
            }
            let going = over.max(leaves(held, summarize_after)).max(held.div_ceil(2));
            let leaving = seen.session.leaving(going, self.live.now().wall);
            if leaving.is_nothing() {
                break;
            }
            let retold = self.retell(leaving, &seen.key, &Extractive).await;
            let (change, rules) = (LiveChange::Retell(Box::new(retold)), self.settings.live.rules());
            let changed = self.live.store.change(&seen.key, change, rules, self.live.now()).await?;
            seen = changed.ok_or_else(|| LiveError::Gone(seen.key.clone()))?.seen;
        }
        // Answers that are under way stay; what they bring is fitted when they end.
        Ok(seen)
    }
}

impl Changed {
    /// Which try has begun.
    pub(crate) fn attempt(&self) -> u32 {
        match self.done {
            Done::Attempt(attempt) => attempt,
            Done::Yes | Done::Outdated => 0,
        }
    }
}

/// Bytes of what messages say.
pub(crate) fn words(messages: &[Message]) -> usize {
    let raw = |message: &Message| message.raw.as_ref().map_or(0, |raw| raw.to_string().len());
    messages.iter().map(|message| message.text.len() + raw(message)).sum()
}
