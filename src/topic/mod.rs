//! Topics: threads of meaning that run through a user's conversations.
//!
//! A message joins the topic it belongs to, returns to an older one or opens a new one. Topics that nobody comes back to
//! fade, those that are used often last for months, and two that grew together become one.
//!
//! Reading order: the nouns here, `title` (what a topic is called at first), `remark` (what is read of a message), `sketch` (what is kept of a topic), `place`
//! (where a message belongs) with `threshold` (how sure it must be), `decay` (what fades), `merge` (what grew together).
//!
//! **Invariant:** this room is handed values and hands back decisions. It knows no store, no clock and no socket.

mod decay;
mod encode;
mod merge;
mod place;
mod remark;
mod sketch;
mod threshold;
mod title;

pub use decay::{FORGOTTEN_BELOW, MemoryType, TOPICS_MAX, half_life, memory_type, priority, to_forget};
pub use merge::to_merge;
pub use place::{Known, Placed, Placement, Reason, place, signs};
pub use remark::{Meaning, Remark, Speaker};
pub use sketch::Sketch;
pub use threshold::{Signs, Thresholds};
pub use title::{TITLE_CHARS_MAX, title_of};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::TopicId;

/// What a topic is worth before anybody says otherwise.
pub const IMPORTANCE: f64 = 1.0;

/// The bounds of what feedback can make of it.
pub const IMPORTANCE_MIN: f64 = 0.25;
/// See [`IMPORTANCE_MIN`].
pub const IMPORTANCE_MAX: f64 = 4.0;

/// What one word of feedback changes.
const RATED_BY: f64 = 1.5;

/// A thread of meaning in a user's conversations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// What it is called: the beginning of its first message, unless somebody found better words.
    pub title: String,
    /// What was said in it before its last messages.
    pub summary: Option<String>,
    /// How much it matters, from feedback.
    pub importance: f64,
    /// How often somebody came to it.
    pub accesses: u64,
    /// How many messages it has, archived ones included.
    pub messages: u64,
    /// What people call it.
    pub tags: Vec<String>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used: Timestamp,
}

impl Topic {
    /// A topic that a message opens.
    pub fn begin(id: TopicId, first_message: &str, at: Timestamp) -> Self {
        Self {
            id,
            title: title_of(first_message),
            summary: None,
            importance: IMPORTANCE,
            accesses: 0,
            messages: 0,
            tags: Vec::new(),
            created_at: at,
            last_used: at,
        }
    }

    /// What is told about a topic; `archived` of its messages lie in the archive.
    pub fn stats(&self, archived: u64, now: Timestamp) -> TopicStats {
        let seconds_since = |then: Timestamp| now.duration_since(then).as_secs().max(0).unsigned_abs();
        TopicStats {
            topic_id: self.id,
            topic_title: self.title.clone(),
            active_messages: self.messages.saturating_sub(archived),
            compressed_messages: archived,
            total_messages: self.messages,
            has_summary: self.summary.is_some(),
            importance_score: self.importance,
            access_count: self.accesses,
            memory_type: memory_type(self.accesses),
            half_life_days: half_life(self.accesses).as_secs_f64() / 86_400.0,
            age_seconds: seconds_since(self.created_at),
            inactive_seconds: seconds_since(self.last_used),
        }
    }
}

/// What is told about a topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopicStats {
    /// Its id.
    pub topic_id: TopicId,
    /// What it is called.
    pub topic_title: String,
    /// Messages that are at hand.
    pub active_messages: u64,
    /// Messages that are archived.
    pub compressed_messages: u64,
    /// Both.
    pub total_messages: u64,
    /// Whether what was archived has a summary.
    pub has_summary: bool,
    /// How much it matters.
    pub importance_score: f64,
    /// How often somebody came to it.
    pub access_count: u64,
    /// How well it is remembered.
    pub memory_type: MemoryType,
    /// The time in which half of it fades.
    pub half_life_days: f64,
    /// How long ago it began.
    pub age_seconds: u64,
    /// How long ago it was used.
    pub inactive_seconds: u64,
}

/// What somebody thinks of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Feedback {
    /// It matters more.
    Up,
    /// It matters less.
    Down,
}

/// The importance after feedback: half as much again, or two thirds, within bounds. One `Down` takes one `Up` back.
pub fn rated(importance: f64, feedback: Feedback) -> f64 {
    let known = if importance.is_finite() { importance } else { IMPORTANCE };
    let rated = match feedback {
        Feedback::Up => known * RATED_BY,
        Feedback::Down => known / RATED_BY,
    };
    rated.clamp(IMPORTANCE_MIN, IMPORTANCE_MAX)
}

/// The importance of two topics that became one: as if all feedback had been given to one topic.
pub fn rated_together(one: f64, other: f64) -> f64 {
    let both = one * other / IMPORTANCE;
    if both.is_finite() { both.clamp(IMPORTANCE_MIN, IMPORTANCE_MAX) } else { IMPORTANCE }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{CountedIds, Ids};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn d5_stats_have_the_fields_of_the_document() {
        let mut topic = Topic::begin(CountedIds::default().topic(at(0)), "Paint for the shed", at(0));
        topic.accesses = 15;
        topic.messages = 12;
        topic.summary = Some("Green it is.".into());
        topic.last_used = at(3_480);
        let stats = serde_json::to_value(topic.stats(8, at(3_600))).expect("plain values");
        let expected = serde_json::json!({
            "topic_id": topic.id, "topic_title": "Paint for the shed", "active_messages": 4, "compressed_messages": 8,
            "total_messages": 12, "has_summary": true, "importance_score": 1.0, "access_count": 15,
            "memory_type": "long-term", "half_life_days": 8.0, "age_seconds": 3600, "inactive_seconds": 120,
        });
        assert_eq!(stats, expected);
    }

    #[test]
    fn what_was_said_of_two_topics_is_said_of_what_they_become() {
        let (up, down) = (rated(IMPORTANCE, Feedback::Up), rated(IMPORTANCE, Feedback::Down));
        assert_eq!((rated_together(up, IMPORTANCE), rated_together(IMPORTANCE, down)), (up, down));
        assert_eq!((rated_together(up, up), rated_together(up, down)), (rated(up, Feedback::Up), IMPORTANCE));
        assert_eq!((rated_together(4.0, 4.0), rated_together(0.25, 0.25)), (IMPORTANCE_MAX, IMPORTANCE_MIN));
        assert_eq!(rated_together(f64::NAN, up), IMPORTANCE);
    }

    #[test]
    fn d8_feedback_moves_importance_and_can_be_taken_back() {
        assert_eq!(rated(1.0, Feedback::Up), 1.5);
        assert_eq!(rated(rated(1.0, Feedback::Up), Feedback::Down), 1.0);
        assert_eq!(rated(3.9, Feedback::Up), IMPORTANCE_MAX);
        assert_eq!(rated(0.3, Feedback::Down), IMPORTANCE_MIN);
        assert_eq!(rated(f64::NAN, Feedback::Up), 1.5);
    }

    proptest! {
        #[test]
        fn feedback_stays_in_bounds(importance in any::<f64>(), up in any::<bool>()) {
            let feedback = if up { Feedback::Up } else { Feedback::Down };
            prop_assert!((IMPORTANCE_MIN..=IMPORTANCE_MAX).contains(&rated(importance, feedback)));
        }
    }
}
