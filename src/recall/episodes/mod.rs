//! A scope's summaries, in memory beside its index: what they mean, which words they have, which turns they tell of.
//!
//! Reading order: the shelf here, `find` (those about a question), `session` (what is told of the running conversation),
//! `follow` (keeping the shelf true to the store).
//!
//! **Invariant:** the same episodes give the same answers, whatever happened on the way.

mod find;
mod follow;
mod session;

pub(crate) use find::{Sought, find};
pub(crate) use session::{Shrunk, told_of_session};

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::index::nearest::{HEAD, head};
use super::{AsideSource, TurnRange};
use crate::episode::{Episode, Level};
use crate::id::{EpisodeId, SessionId};
use crate::kernel::{Bytes, Rows, dot, fetch, heads_differing, quantise};
use crate::language::{Tongue, is_stop, term, tongue, words};
use crate::message::Role;

/// A summary in memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldEpisode {
    pub(crate) id: EpisodeId,
    pub(crate) session: SessionId,
    pub(crate) level: Level,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) summary: Arc<str>,
    /// What it means to our embedder; vectors of another are worth nothing. A shelf keeps it beside all others.
    vector: Option<Bytes>,
    terms: Vec<u64>,
}

impl HeldEpisode {
    pub(crate) fn new(episode: Episode, embedder: &str) -> Self {
        let Episode { id, session, level, first, last, from, to, summary, vector, .. } = episode;
        let ours = vector.filter(|vector| vector.embedder == embedder);
        let terms = terms_of_summary(&summary);
        let vector = ours.and_then(|vector| quantise(&vector.values));
        Self { id, session, level, first, last, from, to, summary: summary.into(), vector, terms }
    }

    /// Whether it tells of any of these turns.
    pub(crate) fn tells_of(&self, ranges: &[TurnRange]) -> bool {
        let touches =
            |range: &TurnRange| range.session == self.session && range.first <= self.last && self.first <= range.last;
        ranges.iter().any(touches)
    }

    /// Whether all its turns are shown anyway.
    pub(crate) fn is_shown(&self, ranges: &[TurnRange]) -> bool {
        let holds =
            |range: &TurnRange| range.session == self.session && range.first <= self.first && self.last <= range.last;
        ranges.iter().any(holds)
    }

    /// Whether both tell of some turn. An id may be used for a second conversation when everything in the first has
    /// expired: then times tell them apart.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.session == other.session
            && self.first <= other.last
            && other.first <= self.last
            && self.from <= other.to
            && other.from <= self.to
    }

    /// Whether it tells of the same turns.
    pub(crate) fn tells_the_same(&self, other: &Self) -> bool {
        self.overlaps(other) && (self.first, self.last) == (other.first, other.last)
    }

    pub(crate) fn source(&self) -> AsideSource {
        let Self { id, session, level, first, last, from, to, .. } = *self;
        AsideSource::Episode { id, session, level, first, last, from, to }
    }

    /// When it ended; of those that ended together one is always the later.
    fn age(&self) -> Age {
        (self.to, self.last, *self.id.as_uuid())
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.summary.len() + self.terms.len() * TERM_BYTES
    }
}

type Age = (Timestamp, u64, Uuid);

/// What is told of one conversation: by level, the oldest first.
type ToldOf = HashMap<Level, Vec<(Age, u32)>>;

/// A term in an episode, and the episode among those of the term.
const TERM_BYTES: usize = 8 + 4 + 8;

/// The summaries of one scope.
#[derive(Debug, Default)]
pub(crate) struct EpisodeShelf {
    slots: Vec<Option<Arc<HeldEpisode>>>,
    free: Vec<u32>,
    /// When each begins and ends, by slot, in microseconds: a question about a time looks at all of them.
    times: Vec<(i64, i64)>,
    vectors: Vectors,
    by_id: HashMap<EpisodeId, u32>,
    by_term: HashMap<u64, Vec<u32>>,
    by_session: HashMap<SessionId, ToldOf>,
    /// Those that were put here lately.
    new: Vec<EpisodeId>,
    bytes: usize,
}

/// More new summaries are not told apart from others.
const NEW_MAX: usize = 8_192;

impl EpisodeShelf {
    /// Puts a summary there, in place of the one of its name.
    pub(crate) fn put(&mut self, mut episode: HeldEpisode) {
        self.remove(episode.id);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.times.push((0, 0));
            (self.slots.len() - 1) as u32
        });
        episode.terms.iter().for_each(|term| self.by_term.entry(*term).or_default().push(slot));
        let told = self.by_session.entry(episode.session).or_default().entry(episode.level).or_default();
        told.insert(told.partition_point(|(other, _)| *other < episode.age()), (episode.age(), slot));
        self.times[slot as usize] = (episode.from.as_microsecond(), episode.to.as_microsecond());
        self.by_id.insert(episode.id, slot);
        if self.new.len() < NEW_MAX {
            self.new.push(episode.id);
        }
        self.bytes += self.vectors.put(slot, episode.vector.take()) + episode.bytes();
        self.slots[slot as usize] = Some(Arc::new(episode));
    }

    pub(crate) fn remove(&mut self, id: EpisodeId) {
        let Some(slot) = self.by_id.remove(&id) else { return };
        let Some(episode) = self.slots[slot as usize].take() else { return };
        for term in &episode.terms {
            leave(&mut self.by_term, term, slot);
        }
        self.leave_session(&episode, slot);
        self.bytes -= self.vectors.remove(slot) + episode.bytes();
        self.free.push(slot);
    }

    fn leave_session(&mut self, episode: &HeldEpisode, slot: u32) {
        let Some(told) = self.by_session.get_mut(&episode.session) else { return };
        if let Some(told) = told.get_mut(&episode.level) {
            told.retain(|(_, other)| *other != slot);
        }
        told.retain(|_, told| !told.is_empty());
        if told.is_empty() {
            self.by_session.remove(&episode.session);
        }
    }

    /// Some that were put here lately, each told once.
    pub(crate) fn some_new(&mut self, count: usize) -> Vec<Arc<HeldEpisode>> {
        let some = self.new.split_off(self.new.len().saturating_sub(count));
        some.iter().filter_map(|id| self.slots[*self.by_id.get(id)? as usize].clone()).collect()
    }

    /// Lets the oldest go until the rest takes no more than this.
    pub(crate) fn shrink_to(&mut self, bytes_max: usize) {
        if self.bytes <= bytes_max {
            return;
        }
        let mut oldest: Vec<(Timestamp, EpisodeId)> = self.all().map(|(_, held)| (held.to, held.id)).collect();
        oldest.sort_unstable_by_key(|(to, id)| (*to, *id.as_uuid()));
        for (_, id) in oldest {
            if self.bytes <= bytes_max {
                break;
            }
            self.remove(id);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is told of a conversation at one level, the newest first.
    pub(crate) fn of_session(&self, session: SessionId, level: Level) -> impl Iterator<Item = &Arc<HeldEpisode>> {
        let told = self.by_session.get(&session).and_then(|told| told.get(&level)).map_or(&[][..], Vec::as_slice);
        told.iter().rev().filter_map(|(_, slot)| self.slots[*slot as usize].as_ref())
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Arc<HeldEpisode>)> {
        (0..).zip(&self.slots).filter_map(|(slot, held)| Some((slot, held.as_ref()?)))
    }
}

/// The vectors of all summaries, by slot, one behind the other: a question is compared with each of them.
#[derive(Debug, Default)]
struct Vectors {
    /// As long as the first that came; an embedder has no others.
    rows: Rows,
    /// Their first signs, which tell which are worth comparing.
    heads: Vec<u64>,
    /// Zero where there is none.
    scales: Vec<f32>,
}

impl Vectors {
    /// Answers how much memory it takes.
    fn put(&mut self, slot: u32, vector: Option<Bytes>) -> usize {
        let at = slot as usize;
        self.scales.resize(self.scales.len().max(at + 1), 0.0);
        let Some(vector) = vector else { return 0 };
        if self.rows.dimensions() == 0 {
            self.rows = Rows::new(vector.bytes.len());
        }
        if self.rows.dimensions() != vector.bytes.len() {
            return 0;
        }
        self.rows.resize(self.scales.len());
        self.rows.put(at, &vector.bytes);
        self.heads.resize(self.scales.len(), 0);
        self.heads[at] = head(&vector.bytes);
        self.scales[at] = vector.scale;
        self.vector_bytes()
    }

    /// Answers how much memory it took.
    fn remove(&mut self, slot: u32) -> usize {
        let scale = std::mem::take(&mut self.scales[slot as usize]);
        if scale == 0.0 { 0 } else { self.vector_bytes() }
    }

    fn vector_bytes(&self) -> usize {
        self.rows.dimensions() + size_of::<u64>()
    }

    /// In how many of the first signs each summary's vector differs from another, by slot; nothing where they cannot be compared.
    fn differing(&self, other: &Bytes) -> Option<Vec<u8>> {
        (other.bytes.len() == self.rows.dimensions()).then(|| heads_differing(head(&other.bytes), &self.heads))
    }

    /// How similar two vectors are about that differ in so many of the first signs, near enough to the cosine of the angle between
    /// them.
    fn guessed(&self, differing: u32) -> f32 {
        let alike = 1.0 - 2.0 * differing as f32 / self.rows.dimensions().min(HEAD as usize) as f32;
        alike * (1.5 - 0.5 * alike * alike)
    }

    /// Has a vector brought nearer, without waiting for it.
    fn fetch(&self, slot: u32) {
        if self.scales[slot as usize] != 0.0 {
            fetch(self.rows.get(slot as usize));
        }
    }

    /// How similar a summary is to another vector, if both can be compared.
    fn similarity(&self, slot: u32, other: &Bytes) -> Option<f32> {
        let scale = self.scales[slot as usize];
        if scale == 0.0 || other.bytes.len() != self.rows.dimensions() {
            return None;
        }
        Some(dot(self.rows.get(slot as usize), &other.bytes) as f32 * scale * other.scale)
    }
}

fn leave<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Vec<u32>>, key: &K, slot: u32) {
    if let Some(slots) = map.get_mut(key) {
        slots.retain(|other| *other != slot);
        if slots.is_empty() {
            map.remove(key);
        }
    }
}

/// The terms of a text, as hashes: they are compared, and never shown.
fn terms_of(text: &str, tongue: Tongue) -> impl Iterator<Item = (String, u64)> + '_ {
    let telling = words(text).filter(move |word| !is_stop(word, tongue));
    telling.map(move |word| {
        let hash = xxh3_64(term(&word, tongue).as_bytes());
        (word.to_string(), hash)
    })
}

/// The terms of a summary, each once. Who spoke is said in every line, and tells nothing unless it is a name.
fn terms_of_summary(summary: &str) -> Vec<u64> {
    let tongue = tongue(summary, Tongue::English);
    let is_role = |speaker: &str| [Role::User, Role::Assistant].iter().any(|role| role.as_str() == speaker);
    let said = |line: &'_ str| match line.split_once(": ") {
        Some((speaker, said)) if is_role(speaker) => said.to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = summary.lines().map(said).collect();
    let mut terms: Vec<u64> = lines.iter().flat_map(|line| terms_of(line, tongue)).map(|(_, term)| term).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

#[cfg(test)]
mod tests;
