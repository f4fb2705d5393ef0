//! Where a message belongs: to the topic that is talked about, to an older one, or to a new one.
//!
//! A bare follow-up stays; without words of its own and anything to follow, a message opens a topic. For everything else each topic is scored by the words it shares with the message (a word
//! that several topics have says less, a name says more, one that only came up in answers half as much), by what it
//! means, and by whether it is the current one; a new topic is scored by how much of the message is unknown.

use serde::Serialize;

use super::remark::{Meaning, Remark, Speaker};
use super::sketch::{Sketch, agreement, similarity};
use super::threshold::{Signs, Thresholds};
use crate::id::TopicId;

/// What a word counts that only came up in answers.
const ANSWERED: f32 = 0.5;

/// Shared, missing and unknown words count up to here: two names are as good as five.
const WORDS_WEIGHT_MAX: f32 = 2.0;

/// A topic that a message may belong to.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its id.
    pub id: TopicId,
    /// What is kept of it.
    pub sketch: &'a Sketch,
}

/// Where a message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// To the current topic.
    Stay(TopicId),
    /// To another one.
    Return(TopicId),
    /// To none that is known.
    New,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// There was no topic yet.
    First,
    /// The message needs what was said before it to be understood.
    FollowUp,
    /// It shares words, meaning or both with the topic; nothing else came nearer.
    Likeness,
    /// What it is about came up nowhere, or there is no telling what it is about.
    Novelty,
}

/// A placement with its reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    /// Where the message belongs.
    pub placement: Placement,
    /// Why.
    pub reason: Reason,
    /// How much speaks for it.
    pub score: f32,
    /// How much more that is than for the next best; nothing where there was no choice.
    pub lead: f32,
}

/// Decides where a user's message belongs. Looks nothing up and changes nothing.
///
/// `current` is the topic of the message before, if the conversation has one.
pub fn place(topics: &[Known<'_>], current: Option<TopicId>, remark: &Remark, thresholds: &Thresholds) -> Placed {
    let current = current.filter(|current| topics.iter().any(|topic| topic.id == *current));
    let by_rule = |placement, reason| Placed { placement, reason, score: 0.0, lead: 0.0 };
    match current {
        _ if topics.is_empty() => return by_rule(Placement::New, Reason::First),
        Some(current) if remark.leans => return by_rule(Placement::Stay(current), Reason::FollowUp),
        // A picture or a thumb at the beginning of a chat: all topics are as unlike it.
        None if remark.words.is_empty() => return by_rule(Placement::New, Reason::Novelty),
        _ => {}
    }
    let signs = signs(topics, current, remark, thresholds);
    let counts = thresholds.counts(meaning_among(topics, remark).is_some());
    let there = |topic: &Known<'_>| match current == Some(topic.id) {
        true => Placement::Stay(topic.id),
        false => Placement::Return(topic.id),
    };
    let placements = topics.iter().map(there).chain([Placement::New]);
    choose(placements.zip(signs.iter().map(|signs| signs.weighed(counts))))
}

/// What speaks for each topic, in their order, and last for a new one.
pub fn signs(topics: &[Known<'_>], current: Option<TopicId>, remark: &Remark, thresholds: &Thresholds) -> Vec<Signs> {
    let meaning = meaning_among(topics, remark);
    let shared = Shared::count(topics, remark);
    let of_topic = |(topic, words): (&Known<'_>, &TopicWords)| {
        let alike = alike(topic, current == Some(topic.id), meaning, thresholds);
        let (shared, missing) = (words.shared.min(WORDS_WEIGHT_MAX), words.missing.min(WORDS_WEIGHT_MAX));
        Signs { words: shared, missing, ..alike }
    };
    let of_topics = topics.iter().zip(&shared.topics).map(of_topic);
    of_topics.chain([shared.novelty(remark)]).collect()
}

/// What the message means, if any topic can be compared with it.
fn meaning_among<'a>(topics: &[Known<'_>], remark: &'a Remark) -> Option<&'a Meaning> {
    remark.meaning.as_ref().filter(|meaning| topics.iter().any(|topic| knows(topic, meaning)))
}

fn knows(topic: &Known<'_>, meaning: &Meaning) -> bool {
    topic.sketch.meaning.as_ref().is_some_and(|sums| sums.is_by(meaning))
}

/// What a topic's meaning and its place in the conversation say.
fn alike(topic: &Known<'_>, is_current: bool, meaning: Option<&Meaning>, thresholds: &Thresholds) -> Signs {
    let (mut similar, mut last) = (thresholds.unknown(), thresholds.unknown());
    if let (Some(meaning), Some(sums)) = (meaning, &topic.sketch.meaning)
        && sums.is_by(meaning)
    {
        similar = thresholds.measured(agreement(meaning.direction.as_ref(), sums.direction.as_ref()));
        if is_current {
            last = thresholds.measured(similarity(&meaning.vector, &sums.last));
        }
    }
    match is_current {
        true => Signs { similar, last, current: 1.0, ..Signs::default() },
        false => Signs { similar, ..Signs::default() },
    }
}

/// The best of all; in a tie the one that was there before.
fn choose(candidates: impl Iterator<Item = (Placement, f32)>) -> Placed {
    let (mut best, mut next) = ((Placement::New, f32::NEG_INFINITY), f32::NEG_INFINITY);
    for candidate in candidates {
        if best.1 < candidate.1 {
            (best, next) = (candidate, best.1);
        } else {
            next = next.max(candidate.1);
        }
    }
    let reason = if best.0 == Placement::New { Reason::Novelty } else { Reason::Likeness };
    Placed { placement: best.0, reason, score: best.1, lead: best.1 - next }
}

/// The message's words among the topics.
struct Shared {
    /// For each topic: the weight of the words it has, and of the names it has not.
    topics: Vec<TopicWords>,
    total: f32,
    unknown: f32,
}

#[derive(Clone, Copy, Default)]
struct TopicWords {
    shared: f32,
    missing: f32,
}

impl Shared {
    fn count(topics: &[Known<'_>], remark: &Remark) -> Self {
        let mut counted = Self { topics: vec![TopicWords::default(); topics.len()], total: 0.0, unknown: 0.0 };
        for word in &remark.words {
            let used: Vec<Option<Speaker>> = topics.iter().map(|topic| topic.sketch.used(word.stem)).collect();
            let users = used.iter().flatten().count();
            let weight = word.weight / users.max(1) as f32;
            counted.total += weight;
            counted.unknown += if users == 0 { weight } else { 0.0 };
            for (topic, used) in counted.topics.iter_mut().zip(used) {
                match used {
                    Some(Speaker::User) => topic.shared += weight,
                    Some(Speaker::Assistant) => topic.shared += ANSWERED * weight,
                    None if word.is_name => topic.missing += weight,
                    None => {}
                }
            }
        }
        counted
    }

    /// What speaks for a new topic.
    fn novelty(&self, remark: &Remark) -> Signs {
        let named = remark.words.iter().any(|word| word.is_name);
        let unknown_share = if self.total > 0.0 { self.unknown / self.total } else { 0.0 };
        let (named, unknown) = (if named { 1.0 } else { 0.0 }, self.unknown.min(WORDS_WEIGHT_MAX));
        Signs { new: 1.0, named, unknown_share, unknown, ..Signs::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::language::Tongue;
    use crate::model::embed::{Builtin, Embedder};

    /// Whether vectors are there.
    #[derive(Clone, Copy, PartialEq)]
    enum Vectors {
        Builtin,
        None,
    }

    /// A user's topics, lettered in the order in which they began.
    struct Talk {
        ids: CountedIds,
        topics: BTreeMap<TopicId, Sketch>,
        current: Option<TopicId>,
        vectors: Vectors,
    }

    impl Talk {
        fn new(vectors: Vectors) -> Self {
            Self { ids: CountedIds::default(), topics: BTreeMap::new(), current: None, vectors }
        }

        fn remark(&self, text: &str) -> Remark {
            let embedder = Builtin::default();
            let vector = embedder.at_once(text).filter(|_| self.vectors == Vectors::Builtin);
            Remark::read(text, Tongue::English)
                .meaning(vector.map(|vector| Meaning::new(embedder.id().clone(), vector)))
        }

        fn place(&self, remark: &Remark) -> Placed {
            let known: Vec<Known<'_>> = self.topics.iter().map(|(id, sketch)| Known { id: *id, sketch }).collect();
            place(&known, self.current, remark, &Thresholds::default())
        }

        /// Hears a message and answers with its topic's letter.
        fn hear(&mut self, text: &str) -> char {
            let remark = self.remark(text);
            let id = match self.place(&remark).placement {
                Placement::Stay(id) | Placement::Return(id) => id,
                Placement::New => self.ids.topic(Timestamp::UNIX_EPOCH),
            };
            self.topics.entry(id).or_default().take_in(&remark, Speaker::User);
            self.current = Some(id);
            let place = self.topics.keys().position(|known| *known == id).expect("just added");
            char::from(b'a' + place as u8)
        }
    }

    /// Lines of `letter: message`; every message goes where its letter says, with vectors and without.
    #[track_caller]
    fn check(lines: &str) {
        for vectors in [Vectors::Builtin, Vectors::None] {
            let mut talk = Talk::new(vectors);
            for line in lines.lines() {
                let (letter, text) = line.trim().split_once(": ").expect("letter: message");
                assert_eq!(talk.hear(text).to_string(), letter, "{text}");
            }
        }
    }

    #[test]
    fn follow_ups_stay_and_names_return() {
        check(
            "a: How do I paint the wooden shed in the garden?
             a: Which brush do I need for that?
             a: And in winter?
             b: What is the best train from Utrecht to Lisbon?
             b: How long does it take?
             b: Is there a night train to Lisbon?
             a: How many layers of paint does the shed need?
             b: Do I need a reservation for the train to Lisbon?
             c: Who wrote the opera about Rusalka?
             c: When was it first performed?",
        );
    }

    #[test]
    fn in_dutch_too() {
        check(
            "a: Welke verf gebruik ik voor de houten schuur?
             a: Hoeveel kost dat?
             a: en in de winter?
             b: Hoe laat vertrekt de trein naar Lissabon?
             b: Welke producten heb je daarvoor?
             a: Moet de schuur eerst geschuurd worden voor de verf erop gaat?",
        );
    }

    #[test]
    fn in_german_french_and_spanish_follow_ups_stay() {
        check("a: Welche Farbe nehme ich für den Schuppen?\na: Was kostet das?\na: Und im Winter?");
        check("a: Quelle peinture pour l'abri de jardin ?\na: Combien coûte cela ?\na: Et en hiver ?");
        check("a: ¿Qué pintura uso para el cobertizo?\na: ¿Cuánto cuesta eso?\na: ¿Y en invierno?");
    }

    #[test]
    fn reasons_are_told() {
        let mut talk = Talk::new(Vectors::Builtin);
        let reason = |talk: &Talk, text: &str| talk.place(&talk.remark(text)).reason;
        assert_eq!(reason(&talk, "How do I paint a shed?"), Reason::First);
        talk.hear("How do I paint a shed?");
        assert_eq!(reason(&talk, "How much does it cost?"), Reason::FollowUp);
        assert_eq!(reason(&talk, "Which paint is best for the shed?"), Reason::Likeness);
        assert_eq!(reason(&talk, "Who conducted the orchestra in Vienna for Karajan?"), Reason::Novelty);
    }

    #[test]
    fn without_a_current_topic_nothing_is_stayed_in() {
        let mut talk = Talk::new(Vectors::None);
        talk.hear("How do I paint the shed?");
        let shed = talk.current.take().expect("a topic");
        let placed = |text: &str| talk.place(&talk.remark(text)).placement;
        assert_eq!(placed("Does the shed need paint?"), Placement::Return(shed));
        for nothing_to_go_by in ["How much is that?", "Why?", "👍", "?", ""] {
            assert_eq!(placed(nothing_to_go_by), Placement::New, "{nothing_to_go_by:?}");
        }
    }

    #[test]
    fn vectors_of_another_embedder_are_left_alone() {
        let mut talk = Talk::new(Vectors::Builtin);
        talk.hear("How do I paint the shed?");
        let other = Meaning::new(crate::model::embed::EmbedderId::new("other"), vec![1.0; 3]);
        let words = talk.remark("Does the shed need paint?");
        let placed = talk.place(&words.clone().meaning(Some(other)));
        assert_eq!(placed, talk.place(&words.meaning(None)));
    }

    proptest! {
        #[test]
        fn any_talk_can_be_placed(texts in prop::collection::vec("\\PC{0,40}|[a-zA-Z ]{0,40}", 0..12)) {
            for vectors in [Vectors::Builtin, Vectors::None] {
                let mut talk = Talk::new(vectors);
                for text in &texts {
                    prop_assert!(talk.place(&talk.remark(text)).score.is_finite());
                    talk.hear(text);
                }
                prop_assert!(talk.topics.len() <= texts.len());
            }
        }
    }
}
