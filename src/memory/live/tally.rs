//! How many sessions came, how long they stayed, what they were about and how they went, by tenant and channel. No word and
//! no name of a session outlives it here: what it was about is told by the tenant's own documents.

use std::collections::{BTreeMap, BTreeSet};

use crate::scope::Tenant;
use crate::session::EndReason;
use crate::store::live::{Counted, Seen};

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

/// What is counted by its largest.
const LONGEST: &str = "seconds_max";
/// What ends, questions and topics are counted under.
const ENDED: &str = "ended ";
const ASKED: &str = "asked ";
const ABOUT: &str = "about ";

/// How many sessions came, and how they went.
#[derive(Debug, Clone, Default)]
pub(super) struct Tallies {
    tenants: BTreeMap<Tenant, BTreeMap<String, ChannelTally>>,
}

/// What was counted of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelTally {
    /// Sessions that began.
    pub started: u64,
    /// Sessions that ended, by reason.
    pub ended: BTreeMap<String, u64>,
    /// Messages in those that ended.
    pub messages: u64,
    /// Tokens in those that ended, as far as models counted.
    pub tokens: u64,
    /// Seconds from the beginning to the last access, of all that ended.
    pub seconds: u64,
    /// The longest of those.
    pub seconds_max: u64,
    /// Questions, by how they were read.
    pub intents: BTreeMap<String, u64>,
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

    /// Everything that was counted, by name.
    fn counts(&self) -> BTreeMap<String, u64> {
        let plain = [
            ("started", self.started),
            ("messages", self.messages),
            ("tokens", self.tokens),
            ("seconds", self.seconds),
            (LONGEST, self.seconds_max),
            ("transferred", self.transferred),
        ];
        let ended = self.ended.iter().map(|(reason, n)| (format!("{ENDED}{reason}"), *n));
        let asked = self.intents.iter().map(|(intent, n)| (format!("{ASKED}{intent}"), *n));
        let about = self.topics.iter().map(|(title, n)| (format!("{ABOUT}{title}"), *n));
        plain.into_iter().map(|(what, n)| (what.to_owned(), n)).chain(ended).chain(asked).chain(about).collect()
    }

    /// Adds what another instance counted.
    fn add(&mut self, what: &str, n: u64) {
        let sum = match what {
            "started" => &mut self.started,
            "messages" => &mut self.messages,
            "tokens" => &mut self.tokens,
            "seconds" => &mut self.seconds,
            "transferred" => &mut self.transferred,
            LONGEST => {
                self.seconds_max = self.seconds_max.max(n);
                return;
            }
            what => match self.named(what) {
                Some((counts, name)) => counts.entry(name).or_default(),
                // Counted by a newer version.
                None => return,
            },
        };
        *sum += n;
    }

    /// Where something is counted that has a name of its own, and that name.
    fn named(&mut self, what: &str) -> Option<(&mut BTreeMap<String, u64>, String)> {
        let (counts, name) = if let Some(reason) = what.strip_prefix(ENDED) {
            (&mut self.ended, reason)
        } else if let Some(intent) = what.strip_prefix(ASKED) {
            (&mut self.intents, intent)
        } else {
            (&mut self.topics, what.strip_prefix(ABOUT)?)
        };
        Some((counts, name.to_owned()))
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
    pub(super) fn of(&self, tenant: &Tenant) -> BTreeMap<String, ChannelTally> {
        self.tenants.get(tenant).cloned().unwrap_or_default()
    }

    /// What was counted since `before`, which was this very tally.
    pub(super) fn since(&self, before: &Self) -> Vec<Counted> {
        let mut news = Vec::new();
        for (tenant, channel, tally) in self.all() {
            let known = before.tenants.get(tenant).and_then(|channels| channels.get(channel));
            let known = known.map(ChannelTally::counts).unwrap_or_default();
            for (what, n) in tally.counts() {
                let (largest, earlier) = (what == LONGEST, known.get(&what).copied().unwrap_or(0));
                if n > earlier {
                    let (tenant, channel, n) = (tenant.clone(), channel.clone(), if largest { n } else { n - earlier });
                    news.push(Counted { tenant, channel, what, n, largest });
                }
            }
        }
        news
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, counts: Vec<Counted>) {
        for Counted { tenant, channel, what, n, .. } in counts {
            self.tenants.entry(tenant).or_default().entry(channel).or_default().add(&what, n);
        }
    }

    fn all(&self) -> impl Iterator<Item = (&Tenant, &String, &ChannelTally)> {
        self.tenants
            .iter()
            .flat_map(|(tenant, channels)| channels.iter().map(move |(channel, tally)| (tenant, channel, tally)))
    }

    pub(super) fn began(&mut self, seen: &Seen) {
        self.count(seen, |tally| tally.started += 1);
    }

    pub(super) fn ended(&mut self, seen: &Seen, reason: EndReason) {
        let stayed = seen.last_accessed.duration_since(seen.session.created_at).as_secs().max(0).unsigned_abs();
        self.count(seen, |tally| {
            *tally.ended.entry(reason.as_str().to_owned()).or_default() += 1;
            tally.messages += seen.session.message_count();
            tally.tokens += seen.session.tokens_used;
            tally.seconds += stayed;
            tally.seconds_max = tally.seconds_max.max(stayed);
        });
    }

    pub(super) fn asked(&mut self, seen: &Seen, intent: &'static str) {
        self.count(seen, |tally| *tally.intents.entry(intent.to_owned()).or_default() += 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two instances that hand over what is new, now and then, come to what one would have counted.
    #[test]
    fn what_is_counted_apart_adds_up() {
        let tenant = Tenant::default();
        let (mut one, mut handed_over, mut together) = (Tallies::default(), Tallies::default(), Tallies::default());
        for n in 1..=5 {
            let channel = one.tenants.entry(tenant.clone()).or_default().entry("web".to_owned()).or_default();
            channel.started += n;
            channel.seconds_max = channel.seconds_max.max(10 * n);
            *channel.ended.entry("ttl".to_owned()).or_default() += 1;
            *channel.intents.entry("question".to_owned()).or_default() += 2;
            channel.was_about("Opening hours");
            if n % 2 == 0 {
                together.add(one.since(&handed_over));
                handed_over = one.clone();
            }
        }
        together.add(one.since(&handed_over));
        assert_eq!(together.of(&tenant), one.of(&tenant));
        assert_eq!(one.since(&one.clone()), []);
    }
}
