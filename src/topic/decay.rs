//! What fades: a topic that nobody comes back to is gone within days, one that is used often lasts for months.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Topic;
use crate::id::TopicId;

/// Topics that a user may have before any is forgotten.
pub const TOPICS_MAX: usize = 20;

/// A topic whose priority is below may be forgotten.
pub const FORGOTTEN_BELOW: f64 = 0.05;

const DAY: Duration = Duration::from_secs(86_400);
const HALF_LIFE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Accesses that double the half-life.
const ACCESSES_TO_DOUBLE: u64 = 5;

/// Accesses from which a topic is on its way to be remembered for long, and from which it is.
const TRANSITIONING: u64 = 5;
const LONG_TERM: u64 = 10;

/// How well a topic is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryType {
    /// For days.
    ShortTerm,
    /// For a week or two.
    Transitioning,
    /// For weeks and months.
    LongTerm,
}

/// How well a topic that was used so often is remembered.
pub fn memory_type(accesses: u64) -> MemoryType {
    match accesses {
        0..TRANSITIONING => MemoryType::ShortTerm,
        TRANSITIONING..LONG_TERM => MemoryType::Transitioning,
        LONG_TERM.. => MemoryType::LongTerm,
    }
}

/// The time in which half of a topic fades: a day, doubled with every five accesses, thirty days at most.
pub fn half_life(accesses: u64) -> Duration {
    // Five doublings are past the bound already.
    let doublings = (accesses / ACCESSES_TO_DOUBLE).min(5) as u32;
    (DAY * 2_u32.pow(doublings)).min(HALF_LIFE_MAX)
}

/// What is left of a topic's importance.
pub fn priority(topic: &Topic, now: Timestamp) -> f64 {
    // A clock that was set back makes nothing younger than new.
    let idle_seconds = now.duration_since(topic.last_used).as_secs_f64().max(0.0);
    let left = 0.5_f64.powf(idle_seconds / half_life(topic.accesses).as_secs_f64());
    let importance = if topic.importance.is_finite() { topic.importance.max(0.0) } else { super::IMPORTANCE };
    importance * left
}

/// The topics to forget, the lowest priority first: once a user has more than `limit`, all whose priority is below
/// [`FORGOTTEN_BELOW`], but never the active one.
pub fn to_forget(topics: &[Topic], now: Timestamp, limit: usize, active: Option<TopicId>) -> Vec<TopicId> {
    if topics.len() <= limit {
        return Vec::new();
    }
    let mut faded: Vec<(f64, &Topic)> = topics
        .iter()
        .filter(|topic| active != Some(topic.id))
        .map(|topic| (priority(topic, now), topic))
        .filter(|(priority, _)| *priority < FORGOTTEN_BELOW)
        .collect();
    faded.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| older(a.1, b.1)));
    faded.into_iter().map(|(_, topic)| topic.id).collect()
}

/// Two that faded to nothing go in the order in which they were last used.
fn older(a: &Topic, b: &Topic) -> Ordering {
    (a.last_used, a.id).cmp(&(b.last_used, b.id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{CountedIds, Ids};

    const NOW: i64 = 1_000_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// Topics by (days idle, accesses, importance).
    fn topics(of: &[(f64, u64, f64)]) -> Vec<Topic> {
        let ids = CountedIds::default();
        let topic = |(days, accesses, importance): &(f64, u64, f64)| {
            let last_used = at(NOW - (days * 86_400.0) as i64);
            let begun = Topic::begin(ids.topic(last_used), "a topic", last_used);
            Topic { accesses: *accesses, importance: *importance, ..begun }
        };
        of.iter().map(topic).collect()
    }

    fn priority_after(days: f64, accesses: u64) -> f64 {
        priority(&topics(&[(days, accesses, 1.0)])[0], at(NOW))
    }

    #[test]
    fn d3_half_lives_double_to_thirty_days() {
        let days = |accesses: u64| half_life(accesses).as_secs() / 86_400;
        for (accesses, expected) in [(0..=4, 1), (5..=9, 2), (10..=14, 4), (15..=19, 8), (20..=24, 16), (25..=60, 30)] {
            assert!(accesses.clone().all(|accesses| days(accesses) == expected), "{accesses:?}");
        }
        assert_eq!(days(u64::MAX), 30);
    }

    #[test]
    fn d3_short_term_memory() {
        for (days, expected) in [(0, 1.0), (1, 0.5), (2, 0.25), (3, 0.125), (4, 0.0625), (5, 0.03125)] {
            assert_eq!(priority_after(f64::from(days), 0), expected, "after {days} days");
        }
        assert!(priority_after(4.0, 4) > FORGOTTEN_BELOW && priority_after(5.0, 4) < FORGOTTEN_BELOW);
    }

    #[test]
    fn d3_long_term_memory() {
        for (days, expected) in [(0, 1.0), (16, 0.5), (32, 0.25), (48, 0.125), (64, 0.0625), (80, 0.03125)] {
            assert_eq!(priority_after(f64::from(days), 20), expected, "after {days} days");
        }
    }

    /// About five, ten, twenty, forty, eighty and a hundred and fifty days: the half-lives after which it is below 5 %.
    #[test]
    fn d3_survival() {
        for (accesses, days) in [(0, 5), (5, 10), (10, 20), (15, 40), (20, 80), (25, 150)] {
            assert!(priority_after(f64::from(days), accesses) < FORGOTTEN_BELOW, "{accesses} accesses");
            assert!(priority_after(0.86 * f64::from(days), accesses) > FORGOTTEN_BELOW, "{accesses} accesses");
        }
    }

    #[test]
    fn d3_types_of_memory() {
        use MemoryType::{LongTerm, ShortTerm, Transitioning};
        let types = [0, 4, 5, 9, 10, 14, 15, 24, 25].map(memory_type);
        assert_eq!(
            types,
            [ShortTerm, ShortTerm, Transitioning, Transitioning, LongTerm, LongTerm, LongTerm, LongTerm, LongTerm]
        );
        assert_eq!(serde_json::to_string(&LongTerm).expect("a word"), "\"long-term\"");
    }

    #[test]
    fn d3_over_the_limit_all_that_faded_go() {
        let topics = topics(&[(6.0, 0, 1.0), (9.0, 0, 1.0), (1.0, 0, 1.0), (7.0, 0, 1.0), (30.0, 30, 1.0)]);
        let ids = |places: &[usize]| places.iter().map(|place| topics[*place].id).collect::<Vec<_>>();
        assert_eq!(to_forget(&topics, at(NOW), 4, None), ids(&[1, 3, 0]), "not only the surplus");
        assert_eq!(to_forget(&topics, at(NOW), 0, Some(topics[1].id)), ids(&[3, 0]), "the active one stays");
        assert_eq!(to_forget(&topics, at(NOW), 5, None), ids(&[]), "none goes within the limit");
    }

    #[test]
    fn importance_makes_a_topic_last() {
        let topics = topics(&[(5.0, 0, 4.0), (5.0, 0, 1.0), (4.0, 0, 0.25)]);
        assert_eq!(to_forget(&topics, at(NOW), 0, None), [topics[2].id, topics[1].id]);
    }

    proptest! {
        #[test]
        fn only_over_the_limit_only_what_faded_and_never_the_active_one(
            of in prop::collection::vec((0.0..400.0, 0_u64..60, 0.0..4.0), 0..40),
            limit in 0_usize..30,
            active in any::<prop::sample::Index>(),
        ) {
            let topics = topics(&of);
            let active = (!topics.is_empty()).then(|| topics[active.index(topics.len())].id);
            let gone = to_forget(&topics, at(NOW), limit, active);
            let faded = |topic: &&Topic| priority(topic, at(NOW)) < FORGOTTEN_BELOW && active != Some(topic.id);
            let expected = if topics.len() > limit { topics.iter().filter(faded).count() } else { 0 };
            prop_assert_eq!(gone.len(), expected);
            prop_assert!(topics.iter().filter(|topic| gone.contains(&topic.id)).all(|topic| faded(&topic)));
        }

        #[test]
        fn time_only_fades(days in 0.0..4_000.0, more in 0.0..4_000.0, accesses in any::<u64>()) {
            prop_assert!(priority_after(days + more, accesses) <= priority_after(days, accesses));
        }

        #[test]
        fn any_topic_has_a_priority(
            used in any::<i32>(), now in any::<i32>(), accesses in any::<u64>(), importance in any::<f64>(),
        ) {
            let mut topic = topics(&[(0.0, accesses, importance)]).remove(0);
            topic.last_used = at(used.into());
            let priority = priority(&topic, at(now.into()));
            prop_assert!(priority.is_finite() && priority >= 0.0);
        }
    }
}
