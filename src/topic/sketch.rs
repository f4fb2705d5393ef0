//! What is kept of a topic to know what belongs to it: the words used in it and the sum of what its messages mean.
//!
//! A sketch grows with each message, is bounded, and can be made again from the messages at any time.

use super::remark::{Meaning, Remark, RemarkWord, Speaker};
use crate::kernel::{Bytes, dot, quantise};
use crate::model::embed::EmbedderId;

/// Words that are kept. Beyond them the least used go.
pub(super) const WORDS_MAX: usize = 512;

/// Words of an answer that are taken in. A long answer touches on everything; its beginning answers the question.
const ANSWER_WORDS_MAX: usize = 64;

/// Weights are kept in steps of a hundredth.
const WEIGHT_STEPS: f32 = 100.0;

/// What is kept of a topic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sketch {
    /// In the order of their stems.
    pub(super) words: Vec<SketchWord>,
    /// Tells of most other words that they are not among them.
    filter: Filter,
    pub(super) meaning: Option<Sums>,
    pub(super) messages: u32,
}

/// A bit for each word, which it may share with others. Hundreds of topics are asked for a word that few of them have: here it
/// takes one look, and all words are looked for in the same 128 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Filter([u64; 16]);

impl Filter {
    fn of(words: &[SketchWord]) -> Self {
        let mut filter = Self::default();
        words.iter().for_each(|word| filter.add(word.stem));
        filter
    }

    fn add(&mut self, stem: u64) {
        let (at, bit) = Self::place(stem);
        self.0[at] |= bit;
    }

    fn may_have(&self, stem: u64) -> bool {
        let (at, bit) = Self::place(stem);
        self.0[at] & bit != 0
    }

    /// Stems are hashes: ten bits of one are as good as any others.
    fn place(stem: u64) -> (usize, u64) {
        ((stem >> 6) as usize % 16, 1 << (stem % 64))
    }
}

/// A word that was used in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SketchWord {
    pub(super) stem: u64,
    /// What it was worth at most, in hundredths.
    pub(super) weight: u8,
    /// In how many of the user's messages.
    pub(super) asked: u16,
    /// In how many answers.
    pub(super) answered: u16,
    /// The message that used it last.
    pub(super) last: u32,
}

impl SketchWord {
    fn weight(self) -> f32 {
        f32::from(self.weight) / WEIGHT_STEPS
    }

    /// Words with less of it are the first to go.
    fn worth(self) -> (u32, u8, u32) {
        (2 * u32::from(self.asked) + u32::from(self.answered), self.weight, self.last)
    }
}

/// Sums of vectors, all by one embedder.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sums {
    pub(super) by: EmbedderId,
    /// Of all messages.
    pub(super) all: Vec<f32>,
    /// Of the last message of the user and what was answered.
    pub(super) last: Vec<f32>,
    /// Where `all` points, in bytes: hundreds of topics are compared with each question.
    pub(super) direction: Option<Bytes>,
}

impl Sketch {
    pub(super) fn of(words: Vec<SketchWord>, meaning: Option<Sums>, messages: u32) -> Self {
        Self { filter: Filter::of(&words), words, meaning, messages }
    }

    /// How many messages were taken in.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Takes a message in.
    pub fn take_in(&mut self, remark: &Remark, speaker: Speaker) {
        self.messages = self.messages.saturating_add(1);
        let words_max = if speaker == Speaker::User { usize::MAX } else { ANSWER_WORDS_MAX };
        for word in remark.words.iter().take(words_max) {
            self.note(word, speaker);
        }
        self.keep_the_most_used();
        self.add_meaning(remark.meaning.as_ref(), speaker);
    }

    /// Lets it share the name of an embedder if that is the one it has: hundreds are compared by it with each question, and a name
    /// of its own lies somewhere else for each.
    pub fn share_name(&mut self, embedder: &EmbedderId) {
        if let Some(sums) = self.meaning.as_mut().filter(|sums| sums.by == *embedder) {
            sums.by = embedder.clone();
        }
    }

    /// What two topics are together. What `later` said last was said last.
    pub fn merge(earlier: &Sketch, later: &Sketch) -> Sketch {
        let mut merged = earlier.clone();
        merged.messages = earlier.messages.saturating_add(later.messages);
        for word in &later.words {
            merged.note_again(*word, earlier.messages);
        }
        merged.keep_the_most_used();
        merged.meaning = Sums::merge(earlier.meaning.as_ref(), later.meaning.as_ref());
        merged
    }

    /// Whether the user, or else only an answer, used a word here.
    pub(super) fn used(&self, stem: u64) -> Option<Speaker> {
        let word = self.filter.may_have(stem).then(|| self.word(stem))??;
        Some(if word.asked > 0 { Speaker::User } else { Speaker::Assistant })
    }

    /// Looks a word up. Stems are hashes, spread evenly: where one stands can be told from its value, give or take a few
    /// places, so that hundreds of topics are looked through without going through the memory of any.
    fn word(&self, stem: u64) -> Option<&SketchWord> {
        let guess = ((u128::from(stem) * self.words.len() as u128) >> 64) as usize;
        let (before, after) = self.words.split_at(guess);
        let found = match before.last() {
            Some(last) if last.stem >= stem => before.iter().rev().find(|word| word.stem <= stem),
            _ => after.iter().find(|word| word.stem >= stem),
        };
        found.filter(|word| word.stem == stem)
    }

    /// Words of the user with what they are worth.
    pub(super) fn asked(&self) -> impl Iterator<Item = (u64, f32)> {
        let asked = self.words.iter().filter(|word| word.asked > 0);
        asked.map(|word| (word.stem, word.weight() * (1.0 + f32::from(word.asked)).ln()))
    }

    fn note(&mut self, word: &RemarkWord, speaker: Speaker) {
        let weight = (word.weight * WEIGHT_STEPS) as u8;
        let (asked, answered) = if speaker == Speaker::User { (1, 0) } else { (0, 1) };
        self.note_again(SketchWord { stem: word.stem, weight, asked, answered, last: self.messages }, 0);
    }

    /// Adds uses of a word that was last used so many messages later than it says.
    fn note_again(&mut self, word: SketchWord, later: u32) {
        let last = word.last.saturating_add(later);
        match self.words.binary_search_by_key(&word.stem, |known| known.stem) {
            Ok(at) => {
                let known = &mut self.words[at];
                known.weight = known.weight.max(word.weight);
                known.asked = known.asked.saturating_add(word.asked);
                known.answered = known.answered.saturating_add(word.answered);
                known.last = known.last.max(last);
            }
            Err(at) => {
                self.words.insert(at, SketchWord { last, ..word });
                self.filter.add(word.stem);
            }
        }
    }

    fn keep_the_most_used(&mut self) {
        if self.words.len() <= WORDS_MAX {
            return;
        }
        let rank = |word: &SketchWord| (word.worth(), word.stem);
        let mut ranks: Vec<_> = self.words.iter().map(rank).collect();
        let (_, least, _) = ranks.select_nth_unstable_by(WORDS_MAX - 1, |a, b| b.cmp(a));
        // No two words have one stem, so exactly as many are left; the rest keep their order.
        self.words.retain(|word| rank(word) >= *least);
        self.filter = Filter::of(&self.words);
    }

    fn add_meaning(&mut self, meaning: Option<&Meaning>, speaker: Speaker) {
        match (&mut self.meaning, meaning) {
            (Some(sums), Some(meaning)) if sums.is_by(meaning) => sums.add(meaning, speaker),
            // Another embedder's sum cannot be added to: it begins anew.
            (sums, Some(meaning)) => *sums = Some(Sums::begin(meaning)),
            // What has no vector is not what was meant before.
            (Some(sums), None) if speaker == Speaker::User => sums.last.fill(0.0),
            (_, None) => {}
        }
    }
}

impl Sums {
    fn begin(meaning: &Meaning) -> Self {
        Self::new(meaning.by.clone(), meaning.vector.to_vec(), meaning.vector.to_vec())
    }

    pub(super) fn new(by: EmbedderId, all: Vec<f32>, last: Vec<f32>) -> Self {
        Self { by, direction: direction(&all), all, last }
    }

    pub(super) fn is_by(&self, meaning: &Meaning) -> bool {
        self.by == meaning.by && self.all.len() == meaning.vector.len()
    }

    fn add(&mut self, meaning: &Meaning, speaker: Speaker) {
        if speaker == Speaker::User {
            self.last.fill(0.0);
        }
        add(&mut self.all, &meaning.vector);
        add(&mut self.last, &meaning.vector);
        self.direction = direction(&self.all);
    }

    fn merge(earlier: Option<&Sums>, later: Option<&Sums>) -> Option<Sums> {
        let mut merged = later.or(earlier)?.clone();
        if let (Some(earlier), Some(_)) = (earlier, later)
            && earlier.by == merged.by
            && earlier.all.len() == merged.all.len()
        {
            add(&mut merged.all, &earlier.all);
            merged.direction = direction(&merged.all);
        }
        Some(merged)
    }
}

fn add(sum: &mut [f32], vector: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(vector) {
        *sum += value;
    }
}

/// Where a vector points, its length brought to one; nothing for one that says nothing.
pub(super) fn direction(vector: &[f32]) -> Option<Bytes> {
    let length = product(vector, vector).sqrt();
    quantise(&vector.iter().map(|value| value / length).collect::<Vec<f32>>()).filter(|_| length.is_finite())
}

/// How much two directions are the same; zero where one of them is not known.
pub(super) fn agreement(a: Option<&Bytes>, b: Option<&Bytes>) -> f32 {
    match (a, b) {
        (Some(a), Some(b)) if a.bytes.len() == b.bytes.len() => {
            (dot(&a.bytes, &b.bytes) as f32 * a.scale * b.scale).clamp(-1.0, 1.0)
        }
        _ => 0.0,
    }
}

/// How much two vectors point in the same direction; zero when one of them says nothing.
pub(super) fn similarity(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let similarity = product(a, b) / (product(a, a).sqrt() * product(b, b).sqrt());
    if similarity.is_finite() { similarity.clamp(-1.0, 1.0) } else { 0.0 }
}

/// Sums that are added up side by side.
const LANES: usize = 8;

/// The sum of products. A sum waits for the one before it; several of them need not wait for each other.
fn product(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.iter().zip(b) {
        (0..LANES).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::language::Tongue;

    fn remark(text: &str, vector: Option<&[f32]>) -> Remark {
        let meaning = vector.map(|vector| Meaning::new(EmbedderId::new("test"), vector));
        Remark::read(text, Tongue::English).meaning(meaning)
    }

    fn stem(text: &str) -> u64 {
        remark(text, None).words[0].stem
    }

    fn sketch(said: &[(&str, Option<&[f32]>, Speaker)]) -> Sketch {
        let mut sketch = Sketch::default();
        for (text, vector, speaker) in said {
            sketch.take_in(&remark(text, *vector), *speaker);
        }
        sketch
    }

    #[test]
    fn words_know_who_used_them() {
        let sketch = sketch(&[
            ("Which paint for the shed?", None, Speaker::User),
            ("Linseed paint lasts long.", None, Speaker::Assistant),
        ]);
        assert_eq!(sketch.used(stem("painting")), Some(Speaker::User));
        assert_eq!(sketch.used(stem("linseed")), Some(Speaker::Assistant));
        assert_eq!((sketch.used(stem("roof")), sketch.messages()), (None, 2));
    }

    #[test]
    fn meanings_add_up_and_the_last_exchange_is_apart() {
        let said: [(&str, Option<&[f32]>, Speaker); 3] = [
            ("one", Some(&[1.0, 0.0]), Speaker::User),
            ("two", Some(&[0.0, 1.0]), Speaker::User),
            ("three", Some(&[0.0, 2.0]), Speaker::Assistant),
        ];
        let sums = sketch(&said).meaning.expect("vectors");
        assert_eq!((sums.all, sums.last), (vec![1.0, 3.0], vec![0.0, 3.0]));
        let silent = sketch(&[said[0], ("four", None, Speaker::User)]).meaning.expect("vectors");
        assert_eq!((silent.all, silent.last), (vec![1.0, 0.0], vec![0.0, 0.0]));
    }

    #[test]
    fn another_embedder_begins_anew() {
        let mut sketch = sketch(&[("one", Some(&[1.0, 0.0]), Speaker::User)]);
        let other = Meaning::new(EmbedderId::new("other"), vec![0.0, 0.0, 5.0]);
        sketch.take_in(&remark("two", None).meaning(Some(other)), Speaker::User);
        assert_eq!(sketch.meaning.expect("vectors").all, [0.0, 0.0, 5.0]);
    }

    #[test]
    fn at_the_bound_the_least_used_words_go() {
        let mut sketch = sketch(&[("harness harness", None, Speaker::User), ("harness", None, Speaker::User)]);
        for n in 0..2 * WORDS_MAX {
            sketch.take_in(&remark(&format!("word{n}"), None), Speaker::User);
        }
        assert_eq!(sketch.words.len(), WORDS_MAX);
        assert!(sketch.used(stem("harness")).is_some() && sketch.used(stem("word0")).is_none());
    }

    #[test]
    fn of_a_long_answer_the_beginning_is_taken_in() {
        let answer: String = (0..500).map(|n| format!("thing{n} ")).collect();
        assert_eq!(sketch(&[(&answer, None, Speaker::Assistant)]).words.len(), ANSWER_WORDS_MAX);
    }

    #[test]
    fn two_become_one() {
        let (a, b) = (
            ("paint the shed", Some(&[1.0, 0.0][..]), Speaker::User),
            ("paint the fence", Some(&[0.0, 1.0][..]), Speaker::User),
        );
        assert_eq!(Sketch::merge(&sketch(&[a]), &sketch(&[b])), sketch(&[a, b]));
        assert_eq!(Sketch::merge(&Sketch::default(), &sketch(&[a])), sketch(&[a]));
    }

    proptest! {
        #[test]
        fn words_are_found_where_they_are(mut stems in prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..40], 0..60), other in any::<u64>()) {
            stems.sort_unstable();
            stems.dedup();
            let word = |stem: &u64| SketchWord { stem: *stem, weight: 0, asked: 1, answered: 0, last: 0 };
            let sketch = Sketch::of(stems.iter().map(word).collect(), None, 0);
            for stem in stems.iter().chain([&other, &0, &7, &u64::MAX]) {
                prop_assert_eq!(sketch.word(*stem).map(|word| word.stem), stems.contains(stem).then_some(*stem));
                prop_assert_eq!(sketch.used(*stem).is_some(), stems.contains(stem));
            }
        }

        #[test]
        fn similarity_is_the_cosine(vectors in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..40)) {
            let (a, b): (Vec<f32>, Vec<f32>) = vectors.into_iter().unzip();
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let lengths = (dot(&a, &a) * dot(&b, &b)).sqrt();
            prop_assume!(lengths > 1e-6);
            let cosine = dot(&a, &b) / lengths;
            prop_assert!((f64::from(similarity(&a, &b)) - cosine).abs() < 1e-4);
            let agree = agreement(direction(&a).as_ref(), direction(&b).as_ref());
            prop_assert!((f64::from(agree) - cosine).abs() < 0.03, "{agree} is not {cosine}");
        }

        #[test]
        fn similarity_is_finite(a in prop::collection::vec(any::<f32>(), 0..8), b in prop::collection::vec(any::<f32>(), 0..8)) {
            prop_assert!((-1.0..=1.0).contains(&similarity(&a, &b)));
            prop_assert!((-1.0..=1.0).contains(&agreement(direction(&a).as_ref(), direction(&b).as_ref())));
        }
    }
}
