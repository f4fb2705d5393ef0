//! Which topics grew together. Two that became one cannot be told apart again, so it takes a lot.

use super::place::Known;
use super::sketch::{Sketch, similarity};
use super::threshold::Thresholds;
use crate::id::TopicId;

/// Messages that a topic must have before it can be said to have grown.
const MESSAGES_MIN: u32 = 6;

/// The share of the smaller topic's words that both must have, with vectors to confirm it and without.
const OVERLAP_MIN: f32 = 0.5;
const OVERLAP_ALONE_MIN: f32 = 0.65;

/// How similar they must be where vectors can be compared.
const SIMILARITY_MIN: f32 = 0.8;

/// The words by which a topic is known: those that the user used most and that are rarest.
const TELLING_WORDS_MAX: usize = 32;

/// Two topics of a user that became one, if there are any: the one that stays, and the one that becomes part of it. The
/// older stays, by id. Of several pairs the one that has most in common is told.
pub fn to_merge(topics: &[Known<'_>], thresholds: &Thresholds) -> Option<(TopicId, TopicId)> {
    let grown = topics.iter().filter(|topic| topic.sketch.messages() >= MESSAGES_MIN);
    let grown: Vec<Grown<'_>> = grown.map(|topic| Grown { topic: *topic, telling: telling(topic.sketch) }).collect();
    let pairs = grown.iter().enumerate().flat_map(|(at, a)| grown[at + 1..].iter().map(move |b| (a, b)));
    let alike = pairs.filter_map(|(a, b)| {
        let (first, second) = (a.topic.id, b.topic.id);
        Some((in_common(a, b, thresholds)?, first.min(second), first.max(second)))
    });
    let most = alike.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (b.1, b.2).cmp(&(a.1, a.2))));
    most.map(|(_, into, from)| (into, from))
}

/// A topic, and the words by which it is known: it is compared with many.
struct Grown<'a> {
    topic: Known<'a>,
    telling: Vec<(u64, f32)>,
}

/// How much two topics have in common, if it is enough.
fn in_common(a: &Grown<'_>, b: &Grown<'_>, thresholds: &Thresholds) -> Option<f32> {
    let overlap = overlap(&a.telling, &b.telling);
    if overlap < OVERLAP_MIN {
        return None;
    }
    let similar = match (&a.topic.sketch.meaning, &b.topic.sketch.meaning) {
        (Some(a), Some(b)) if a.by == b.by && a.all.len() == b.all.len() => {
            Some(thresholds.measured(similarity(&a.all, &b.all)))
        }
        _ => None,
    };
    let enough = match similar {
        Some(similar) => SIMILARITY_MIN <= similar,
        None => OVERLAP_ALONE_MIN <= overlap,
    };
    enough.then_some(overlap)
}

/// The words by which a topic is known, in the order of their stems.
fn telling(sketch: &Sketch) -> Vec<(u64, f32)> {
    let mut words: Vec<(u64, f32)> = sketch.asked().collect();
    words.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    words.truncate(TELLING_WORDS_MAX);
    words.sort_unstable_by_key(|word| word.0);
    words
}

/// The share of the lighter one's words that both have, by weight.
fn overlap(a: &[(u64, f32)], b: &[(u64, f32)]) -> f32 {
    let weight = |words: &[(u64, f32)]| words.iter().map(|word| word.1).sum::<f32>();
    let other = |stem: u64| b.binary_search_by_key(&stem, |word| word.0).ok().map(|at| b[at].1);
    let shared: f32 = a.iter().filter_map(|word| other(word.0).map(|other| other.min(word.1))).sum();
    let lighter = weight(a).min(weight(b));
    if lighter > 0.0 { shared / lighter } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::remark::{Meaning, Remark, Speaker};
    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::language::Tongue;
    use crate::model::embed::{Builtin, Embedder};

    fn sketch(texts: &[&str], vectors: bool) -> Sketch {
        let (embedder, mut sketch) = (Builtin::default(), Sketch::default());
        for text in texts {
            let vector = embedder.at_once(text).filter(|_| vectors);
            let meaning = vector.map(|vector| Meaning::new(embedder.id().clone(), vector));
            sketch.take_in(&Remark::read(text, Tongue::English).meaning(meaning), Speaker::User);
        }
        sketch
    }

    /// Which of the topics become one, by place, with vectors and without.
    #[track_caller]
    fn check(topics: &[&[&str]], expected: Option<(usize, usize)>) {
        let ids = CountedIds::default();
        let ids: Vec<TopicId> = topics.iter().map(|_| ids.topic(Timestamp::UNIX_EPOCH)).collect();
        for vectors in [true, false] {
            let sketches: Vec<Sketch> = topics.iter().map(|texts| sketch(texts, vectors)).collect();
            let known: Vec<Known<'_>> =
                ids.iter().zip(&sketches).map(|(id, sketch)| Known { id: *id, sketch }).collect();
            let merged = to_merge(&known, &Thresholds::default());
            assert_eq!(merged, expected.map(|(into, from)| (ids[into], ids[from])), "vectors: {vectors}");
        }
    }

    const SHED: [&str; 6] = [
        "Which paint do I need for the garden shed?",
        "How many layers of paint does the shed need?",
        "Can I paint the shed in winter?",
        "Do I sand the shed before the paint?",
        "What colour of paint suits a garden shed?",
        "How long does the paint on the shed last?",
    ];
    const SHED_AGAIN: [&str; 6] = [
        "Is there green paint for a garden shed?",
        "How long must the paint dry on the shed?",
        "Does the shed need sanding before I paint?",
        "How many layers of paint in winter?",
        "What does paint for the shed cost?",
        "Which colour is the paint of our garden shed?",
    ];
    const FENCE: [&str; 6] = [
        "How deep are the posts of a fence?",
        "Which wood lasts longest in a fence?",
        "Do I ask the neighbours about the fence?",
        "Can I paint the fence in winter?",
        "How high may a garden fence be?",
        "What does a metre of fence cost?",
    ];

    #[test]
    fn d8_topics_that_grew_together_become_one() {
        check(&[&FENCE, &SHED, &SHED_AGAIN], Some((1, 2)));
    }

    #[test]
    fn neighbours_stay_apart() {
        check(&[&SHED, &FENCE], None);
        check(&[&SHED], None);
        check(&[], None);
    }

    #[test]
    fn young_topics_stay_apart() {
        check(&[&SHED[..3], &SHED[..3]], None);
    }
}
