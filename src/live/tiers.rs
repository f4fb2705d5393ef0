//! What is told in brief: the oldest messages by the hour, and hours that lie further back than a day as one.
//!
//! What leaves is read here and told elsewhere, by a model perhaps, while the conversation goes on. What comes back is
//! taken in only if what it was made from is still so.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use xxhash_rust::xxh3::Xxh3;

use super::{LiveSession, LiveTurn, Stub, Summary};
use crate::episode::{Level, hour_of};
use crate::message::speaker_name;
use crate::model::summarise::{Told, told_by};
use crate::session::TurnStatus;

/// Turns of which nothing is left but where they stood.
const STUBS_MAX: usize = 250;
/// How long a turn may wait for its answer before it is told of without one.
const PENDING_MAX: SignedDuration = SignedDuration::from_mins(10);

/// What is to be told in brief, and what it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaving {
    /// The number of the last turn that goes.
    until: u64,
    /// How often something was told before this.
    tellings: u64,
    /// What the turns were like.
    stamp: u64,
    /// Hour by hour, oldest first.
    pub hours: Vec<HourToTell>,
    /// Hours that are told already.
    told: Vec<Summary>,
    /// What is told of everything before them.
    past: Option<Summary>,
    /// What time it is in the conversation.
    now: Timestamp,
}

/// An hour of which something leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct HourToTell {
    /// What is told of it so far.
    pub before: Option<String>,
    /// What was said, in order.
    pub said: Vec<Told>,
    from: Timestamp,
    to: Timestamp,
    first: u64,
    last: u64,
}

/// What was told, on its way into the session.
#[derive(Debug, Clone, PartialEq)]
pub struct Retold {
    until: u64,
    tellings: u64,
    stamp: u64,
    hours: Vec<Summary>,
    past: Option<Summary>,
}

/// How many of so many messages leave: none up to `after`; beyond it two thirds of `after`, as often as it takes.
pub fn leaves(messages: usize, after: usize) -> usize {
    let step = (after * 2 / 3).max(1);
    messages.saturating_sub(after).div_ceil(step) * step
}

impl LiveSession {
    /// What is due to be told in brief: more messages than `after`, or hours older than `hours_kept`.
    pub fn due(&self, after: usize, hours_kept: Duration, now: Timestamp) -> Option<Leaving> {
        let going = leaves(self.messages_held(), after);
        let leaving = self.leaving(going, now);
        let aged = aged(&self.hours, now, hours_kept) > 0;
        (!leaving.hours.is_empty() || leaving.until > 0 || aged).then_some(leaving)
    }

    /// The oldest turns that have at least so many messages; those that wait for an answer, and all after them, stay.
    pub fn leaving(&self, messages: usize, now: Timestamp) -> Leaving {
        let since = now.saturating_sub(PENDING_MAX).unwrap_or(Timestamp::MIN);
        let done = |turn: &&LiveTurn| turn.status != TurnStatus::Pending || turn.created_at <= since;
        let (mut gone, mut until) = (0, 0);
        let mut hours: Vec<HourToTell> = Vec::new();
        for turn in self.turns.iter().map(|turn| &**turn).take_while(done) {
            if gone >= messages {
                break;
            }
            (gone, until) = (gone + turn.spoken(), turn.number);
            if !turn.superseded && turn.enters_context() {
                self.tell_in_its_hour(turn, &mut hours);
            }
        }
        let (tellings, stamp) = (self.tellings, self.stamp(until));
        Leaving { until, tellings, stamp, hours, told: self.hours.clone(), past: self.past.clone(), now }
    }

    fn tell_in_its_hour(&self, turn: &LiveTurn, hours: &mut Vec<HourToTell>) {
        let hour = hour_of(turn.created_at);
        let at = hours.iter().position(|other| hour_of(other.from) == hour).unwrap_or_else(|| {
            let told = self.hours.iter().find(|told| hour_of(told.from) == hour);
            hours.push(HourToTell {
                before: told.map(|told| told.text.to_string()),
                said: Vec::new(),
                from: told.map_or(turn.created_at, |told| told.from),
                to: turn.created_at,
                first: told.map_or(turn.number, |told| told.first),
                last: turn.number,
            });
            hours.len() - 1
        });
        let to_tell = &mut hours[at];
        (to_tell.to, to_tell.last) = (turn.created_at, turn.number);
        to_tell.said.extend(turn.told());
    }

    /// What the turns up to this one are like: whatever changes what they say changes it.
    fn stamp(&self, until: u64) -> u64 {
        let mut hash = Xxh3::new();
        for turn in self.turns.iter().take_while(|turn| turn.number <= until) {
            hash.update(turn.id.as_uuid().as_bytes());
            hash.update(&turn.attempt.to_le_bytes());
            hash.update(&[u8::from(turn.superseded)]);
            hash.update(turn.status.as_str().as_bytes());
        }
        hash.digest()
    }

    /// Takes in what was told, and lets go of what it tells of. `false` when that has changed meanwhile; then nothing
    /// happens.
    pub fn take_in(&mut self, retold: Retold) -> bool {
        if retold.tellings != self.tellings || retold.stamp != self.stamp(retold.until) {
            return false;
        }
        let staying = self.turns.partition_point(|turn| turn.number <= retold.until);
        for turn in self.turns.drain(..staying) {
            self.told_messages += turn.spoken() as u64;
            self.gone.push(turn.stub());
        }
        let spare = self.gone.len().saturating_sub(STUBS_MAX);
        self.gone.drain(..spare);
        (self.hours, self.past) = (retold.hours, retold.past);
        self.tellings += 1;
        self.bytes = super::weigh(self);
        true
    }
}

impl LiveTurn {
    fn told(&self) -> impl Iterator<Item = Told> {
        let spoken = self.messages.iter().filter(|message| message.is_spoken() && !message.text.trim().is_empty());
        spoken.map(|message| Told {
            speaker: message.name.as_deref().and_then(speaker_name).map_or(message.role.as_str().into(), Into::into),
            text: message.text.to_string(),
            at: self.created_at,
        })
    }

    fn stub(&self) -> Stub {
        let Self { id, number, parent, superseded, question, answer, .. } = *self;
        Stub { id, number, parent, superseded, question, answer }
    }
}

/// How many hours are over before `kept` ago.
fn aged(hours: &[Summary], now: Timestamp, kept: Duration) -> usize {
    let kept = SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX);
    let since = now.saturating_sub(kept).unwrap_or(Timestamp::MIN);
    let end = |hour: &Summary| hour_of(hour.from).saturating_add(SignedDuration::from_hours(1));
    hours.iter().take_while(|hour| end(hour).is_ok_and(|end| end <= since)).count()
}

/// Hours that are to become part of what is told of the past.
#[derive(Debug, Clone, PartialEq)]
pub struct PastToTell {
    /// What is told of it so far.
    pub before: Option<String>,
    /// What the hours say.
    pub said: Vec<Told>,
    span: Summary,
}

impl Leaving {
    /// Whether no turn goes.
    pub fn is_nothing(&self) -> bool {
        self.until == 0
    }

    /// Puts what was told of its hours in their place. The hours that lie too far back come with it, if there are any:
    /// they are to be told as one, see [`Retold::with_past`].
    pub fn told(self, texts: Vec<String>, hours_kept: Duration) -> (Retold, Option<PastToTell>) {
        let Self { until, tellings, stamp, hours, mut told, past, now } = self;
        for (hour, text) in hours.into_iter().zip(texts) {
            let HourToTell { from, to, first, last, .. } = hour;
            told.retain(|other| hour_of(other.from) != hour_of(from));
            told.push(Summary { level: Level::Hour, from, to, first, last, text: text.into_boxed_str() });
        }
        told.retain(|hour| !hour.text.is_empty());
        told.sort_by_key(|hour| hour.from);
        let old: Vec<Summary> = told.drain(..aged(&told, now, hours_kept)).collect();
        let to_tell = PastToTell::of(&old, past.as_ref());
        (Retold { until, tellings, stamp, hours: told, past }, to_tell)
    }
}

impl PastToTell {
    fn of(old: &[Summary], past: Option<&Summary>) -> Option<Self> {
        let (first, last) = (past.or(old.first())?, old.last()?);
        let (from, to, first, last) = (first.from, last.to, first.first, last.last);
        let span = Summary { level: Level::Session, from, to, first, last, text: Box::default() };
        let said = old.iter().flat_map(|hour| told_by(&hour.text, hour.from)).collect();
        Some(Self { before: past.map(|past| past.text.to_string()), said, span })
    }

    /// What was told of it, with where it stands.
    pub fn told(self, text: String) -> Summary {
        Summary { text: text.into_boxed_str(), ..self.span }
    }
}

impl Retold {
    /// The same, with what lies far back told as one.
    pub fn with_past(self, past: Summary) -> Self {
        Self { past: Some(past), ..self }
    }
}
