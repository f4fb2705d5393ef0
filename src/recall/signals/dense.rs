//! Similarity by vectors: of a message, of its surroundings, of its session.
//!
//! Dot products are computed once and only for the messages that somebody asks about; everything else here is
//! arithmetic on them. The vector of a window is never built: its product with the question is the sum of its
//! members' products, and its length follows from the products between them, which the index keeps.

use crate::kernel::{Bytes, dot, quantise};
use crate::recall::index::docs::{DocNo, Docs, NONE};
use crate::recall::index::{NEAR, ScopeIndex};
use crate::recall::signals::lexical::Table;

/// Dot products of one vector with messages, as they are asked for.
pub(crate) struct Dots<'a> {
    docs: &'a Docs,
    vector: Option<Bytes>,
    /// Those that are known, close together: a list with a place for every message would have to come from far away.
    values: Table<Option<f32>>,
    known: usize,
}

/// Messages whose products are asked for in a search of a large scope, about.
const KNOWN: usize = 512;

impl<'a> Dots<'a> {
    pub(crate) fn new(docs: &'a Docs, vector: Option<Bytes>) -> Self {
        Self { docs, vector, values: Table::new(docs.len().min(KNOWN)), known: 0 }
    }

    /// The product with a message; zero where either has no vector.
    #[inline]
    pub(crate) fn of(&mut self, no: DocNo) -> f32 {
        if let Some(known) = self.values.get(no) {
            return known;
        }
        if self.known == self.values.room() {
            self.values.grow();
        }
        let value = self.compute(no);
        *self.values.of(no) = Some(value);
        self.known += 1;
        value
    }

    #[inline]
    fn compute(&self, no: DocNo) -> f32 {
        let (Some(vector), Some((bytes, scale))) = (&self.vector, self.docs.vector(no)) else { return 0.0 };
        if vector.bytes.len() != bytes.len() {
            return 0.0;
        }
        dot(&vector.bytes, bytes) as f32 * vector.scale * scale
    }
}

/// Vectors that are fetched before they are compared.
const AHEAD: usize = 8;

/// Works out products with some messages, all that are wanted with one before the next. Their vectors lie anywhere in memory: each is
/// fetched while those before it are compared.
pub(crate) fn meet(dots: &mut [&mut Dots<'_>], messages: impl Iterator<Item = DocNo> + Clone) {
    let Some(docs) = dots.first().map(|dots| dots.docs) else { return };
    let mut ahead = messages.clone();
    ahead.by_ref().take(AHEAD).for_each(|no| docs.fetch(no));
    for no in messages {
        if let Some(next) = ahead.next() {
            docs.fetch(next);
        }
        dots.iter_mut().for_each(|dots| _ = dots.of(no));
    }
}

/// The product with the mean of a message and its two neighbours on either side.
pub(crate) fn window(index: &ScopeIndex, dots: &mut Dots<'_>, no: DocNo) -> f32 {
    let (members, count) = members(index, no);
    let members = &members[..count];
    let mut square = 0.0;
    let mut sum = 0.0;
    for (at, member) in members.iter().enumerate() {
        if index.keys.vector(*member).is_none() {
            continue;
        }
        sum += dots.of(*member);
        square += 1.0;
        for earlier in 0..at {
            square += 2.0 * index.key.near[*member as usize][at - earlier - 1];
        }
    }
    if square > 0.0 { sum / square.sqrt() } else { 0.0 }
}

/// A message and up to two neighbours on either side, in order.
fn members(index: &ScopeIndex, no: DocNo) -> ([DocNo; NEAR + 1], usize) {
    let card = |no: DocNo| index.keys.card(no);
    let (before, after) = (card(no).before(), card(no).after());
    let second = before.and_then(|before| card(before).before());
    let fourth = after.and_then(|after| card(after).after());
    let mut members = [NONE; NEAR + 1];
    let mut count = 0;
    for member in [second, before, Some(no), after, fourth].into_iter().flatten() {
        members[count] = member;
        count += 1;
    }
    (members, count)
}

/// How many of a session's best messages speak for it.
const SESSION_BEST: usize = 3;

/// The mean of each session's three best products, over the given messages.
pub(crate) fn sessions(index: &ScopeIndex, dots: &mut Dots<'_>, docs: &[DocNo]) -> Vec<f32> {
    let mut best = vec![([f32::MIN; SESSION_BEST], 0_usize); index.sessions.len()];
    for no in docs {
        let (values, count) = &mut best[index.keys.card(*no).session as usize];
        insert(values, dots.of(*no));
        *count += 1;
    }
    let mean = |(values, count): ([f32; SESSION_BEST], usize)| {
        let count = count.min(SESSION_BEST);
        if count == 0 { 0.0 } else { values[..count].iter().sum::<f32>() / count as f32 }
    };
    best.into_iter().map(mean).collect()
}

/// Keeps the largest values, largest first.
fn insert(values: &mut [f32; SESSION_BEST], value: f32) {
    let Some(at) = values.iter().position(|kept| value > *kept) else { return };
    values[at..].rotate_right(1);
    values[at] = value;
}

/// How much the messages found first count against the question.
const FEEDBACK: f32 = 0.6;

/// The question's vector moved towards messages that were found first.
pub(crate) fn towards(question: &Bytes, docs: &Docs, found: &[DocNo]) -> Option<Bytes> {
    let mut vector: Vec<f32> = question.bytes.iter().map(|byte| f32::from(*byte) * question.scale).collect();
    let found: Vec<(&[i8], f32)> = found.iter().filter_map(|no| docs.vector(*no)).collect();
    for (bytes, scale) in &found {
        let share = FEEDBACK / found.len() as f32 * scale;
        vector.iter_mut().zip(*bytes).for_each(|(sum, byte)| *sum += f32::from(*byte) * share);
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    quantise(&vector)
}
