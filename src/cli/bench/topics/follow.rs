//! Two ways to place the messages of a stream, each seeing only what came before.

use jiff::Timestamp;
use serde::Serialize;

use crate::id::{CountedIds, Ids, TopicId};
use crate::language::Tongue;
use crate::topic::{Known, Meaning, Placement, Reason, Remark, Sketch, Speaker, Thresholds, place};

/// A text and what it means, if somebody made vectors.
pub(super) type Text = (String, Option<Meaning>);

/// A message as it is heard, with its answer.
pub(super) struct Heard {
    pub(super) user: Text,
    pub(super) answer: Option<Text>,
}

impl Heard {
    pub(super) fn remark(&self) -> Remark {
        remark(&self.user)
    }
}

pub(super) fn remark((text, meaning): &Text) -> Remark {
    Remark::read(text, Tongue::English).meaning(meaning.clone())
}

/// Where a message was placed.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Followed {
    /// The topic, numbered in the order in which they began.
    pub(super) topic: usize,
    pub(super) reason: Reason,
    pub(super) score: f32,
    pub(super) lead: f32,
}

/// A user's topics while a stream goes by.
#[derive(Default)]
struct Topics {
    ids: CountedIds,
    all: Vec<(TopicId, Sketch)>,
    current: Option<TopicId>,
}

impl Topics {
    fn hear(&mut self, heard: &Heard, thresholds: &Thresholds) -> Followed {
        let remark = heard.remark();
        let known: Vec<Known<'_>> = self.all.iter().map(|(id, sketch)| Known { id: *id, sketch }).collect();
        let placed = place(&known, self.current, &remark, thresholds);
        let topic = match placed.placement {
            Placement::Stay(id) | Placement::Return(id) => known.iter().position(|topic| topic.id == id),
            Placement::New => None,
        };
        let topic = topic.unwrap_or_else(|| {
            self.all.push((self.ids.topic(Timestamp::UNIX_EPOCH), Sketch::default()));
            self.all.len() - 1
        });
        let (id, sketch) = &mut self.all[topic];
        self.current = Some(*id);
        sketch.take_in(&remark, Speaker::User);
        if let Some(answer) = &heard.answer {
            sketch.take_in(&self::remark(answer), Speaker::Assistant);
        }
        Followed { topic, reason: placed.reason, score: placed.score, lead: placed.lead }
    }
}

/// Places the messages of a stream as the server does.
pub(super) fn follow(stream: &[Heard], thresholds: &Thresholds) -> Vec<Followed> {
    let mut topics = Topics::default();
    stream.iter().map(|heard| topics.hear(heard, thresholds)).collect()
}

/// Topics of several streams together, up to so many.
pub(super) fn shelf(streams: &[Vec<Heard>], thresholds: &Thresholds, topics_max: usize) -> Vec<(TopicId, Sketch)> {
    let (ids, mut shelf) = (CountedIds::default(), Vec::new());
    for stream in streams {
        let mut topics = Topics::default();
        for heard in stream {
            topics.hear(heard, thresholds);
        }
        shelf.extend(topics.all.into_iter().map(|(_, sketch)| (ids.topic(Timestamp::UNIX_EPOCH), sketch)));
        if topics_max <= shelf.len() {
            break;
        }
    }
    shelf.truncate(topics_max);
    shelf
}

/// Places each message in the topic whose centroid is most similar, or in a new one when none is above the threshold.
pub(super) fn centroids(stream: &[Heard], threshold: f32) -> Vec<usize> {
    let mut sums: Vec<Vec<f32>> = Vec::new();
    let mut placed = Vec::new();
    for heard in stream {
        let vector = heard.user.1.as_ref().map_or(&[][..], |meaning| &meaning.vector);
        let nearest = sums.iter().map(|sum| cosine(sum, vector)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let topic = match nearest {
            Some((topic, similarity)) if threshold < similarity => topic,
            _ => {
                sums.push(vec![0.0; vector.len()]);
                sums.len() - 1
            }
        };
        sums[topic].iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
        placed.push(topic);
    }
    placed
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    if cosine.is_finite() { cosine } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::embed::EmbedderId;

    fn heard(vector: [f32; 2]) -> Heard {
        Heard { user: ("text".into(), Some(Meaning::new(EmbedderId::new("test"), vector.to_vec()))), answer: None }
    }

    #[test]
    fn centroids_gather_what_is_similar() {
        let stream: Vec<Heard> = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 0.1]].map(heard).into();
        assert_eq!(centroids(&stream, 0.5), [0, 0, 1, 0]);
        assert_eq!(centroids(&stream, 1.0), [0, 1, 2, 3]);
        assert_eq!(centroids(&stream, -1.0), [0, 0, 0, 0]);
    }

    #[test]
    fn a_shelf_has_topics_of_many_streams() {
        let stream = |text: &str| vec![Heard { user: (text.into(), None), answer: None }];
        let streams = [stream("Paint for the shed"), stream("Trains to Lisbon"), stream("An opera")];
        assert_eq!(shelf(&streams, &Thresholds::default(), 2).len(), 2);
    }
}
