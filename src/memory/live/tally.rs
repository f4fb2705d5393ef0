//! How many sessions came, how long they stayed, what they were about and how they went, by tenant and channel. No word and
//! no name of a session outlives it here: what it was about is told by the tenant's own documents.

use std::collections::{BTreeMap, BTreeSet};

use crate::scope::Tenant;
use crate::session::EndReason;
use crate::store::live::Seen;

/// Channels of a tenant that are counted apart; the others are counted together.
const CHANNELS_MAX: usize = 32;
/// Tenants that are counted.
const TENANTS_MAX: usize = 10_000;
/// What the channels beyond are called.
const OTHERS: &str = "other";
/// Longest name of a channel.
const CHANNEL_CHARS_MAX: usize = 32;
/// Topics of a channel that are counted apart; the others are counted together.
const TOPICS_MAX: usize = 100;

/// How many sessions came, and how they went.
#[derive(Debug, Clone, Default)]
pub struct Tallies {
    tenants: BTreeMap<Tenant, BTreeMap<String, ChannelTally>>,
}

/// What was counted of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelTally {
    /// Sessions that began.
    pub started: u64,
    /// Sessions that ended, by reason.
    pub ended: BTreeMap<&'static str, u64>,
    /// Messages in those that ended.
    pub messages: u64,
    /// Tokens in those that ended, as far as models counted.
    pub tokens: u64,
    /// Seconds from the beginning to the last access, of all that ended.
    pub seconds: u64,
    /// The longest of those.
    pub seconds_max: u64,
    /// Questions, by how they were read.
    pub intents: BTreeMap<&'static str, u64>,
    /// Questions, by the title of the tenant's document that they were about.
    pub topics: BTreeMap<String, u64>,
    /// Sessions that came here from another channel.
    pub transferred: u64,
}

impl ChannelTally {
    /// All sessions that ended.
    pub fn all_ended(&self) -> u64 {
        self.ended.values().sum()
    }

    fn was_about(&mut self, title: &str) {
        let full = !self.topics.contains_key(title) && self.topics.len() >= TOPICS_MAX;
        *self.topics.entry(if full { OTHERS } else { title }.to_owned()).or_default() += 1;
    }
}

/// The way that a visitor came: as its session says, else as its name tells.
pub(crate) fn channel_of(seen: &Seen) -> String {
    let metadata = seen.session.metadata();
    let said = metadata.get("channel").and_then(|channel| channel.as_str()).map(str::trim).unwrap_or("");
    match said.is_empty() {
        true => seen.key.name.channel().to_owned(),
        false => said.chars().filter(|c| !c.is_control()).take(CHANNEL_CHARS_MAX).collect(),
    }
}

impl Tallies {
    /// What was counted of a tenant, by channel.
    pub fn of(&self, tenant: &Tenant) -> BTreeMap<String, ChannelTally> {
        self.tenants.get(tenant).cloned().unwrap_or_default()
    }

    pub(super) fn began(&mut self, seen: &Seen) {
        self.count(seen, |tally| tally.started += 1);
    }

    pub(super) fn ended(&mut self, seen: &Seen, reason: EndReason) {
        let stayed = seen.last_accessed.duration_since(seen.session.created_at).as_secs().max(0).unsigned_abs();
        self.count(seen, |tally| {
            *tally.ended.entry(reason.as_str()).or_default() += 1;
            tally.messages += seen.session.message_count();
            tally.tokens += seen.session.tokens_used;
            tally.seconds += stayed;
            tally.seconds_max = tally.seconds_max.max(stayed);
        });
    }

    pub(super) fn asked(&mut self, seen: &Seen, intent: &'static str) {
        self.count(seen, |tally| *tally.intents.entry(intent).or_default() += 1);
    }

    pub(super) fn was_about(&mut self, seen: &Seen, titles: &BTreeSet<String>) {
        self.count(seen, |tally| titles.iter().for_each(|title| tally.was_about(title)));
    }

    pub(super) fn transferred(&mut self, seen: &Seen) {
        self.count(seen, |tally| tally.transferred += 1);
    }

    fn count(&mut self, seen: &Seen, count: impl FnOnce(&mut ChannelTally)) {
        let tenant = &seen.key.tenant;
        if !self.tenants.contains_key(tenant) && self.tenants.len() >= TENANTS_MAX {
            return;
        }
        let channels = self.tenants.entry(tenant.clone()).or_default();
        let mut channel = channel_of(seen);
        if !channels.contains_key(&channel) && channels.len() >= CHANNELS_MAX {
            channel = OTHERS.to_owned();
        }
        count(channels.entry(channel).or_default());
    }
}
