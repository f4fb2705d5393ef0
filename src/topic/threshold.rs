//! How much each sign counts in placing a message. It belongs to the embedder: a similarity of 0.3 is much for one and
//! little for another.
//!
//! The numbers were fitted as a conditional logit (which of the topics, or a new one) to half of a public set of
//! interleaved conversations with the built-in embedder, and cross-validated; `docs/topics.md` tells how and what came out,
//! `recalld bench topics --refit` does it again.

use crate::model::embed::EmbedderId;

/// The embedder that the numbers were fitted with, and the similarity from which its texts are near.
const FITTED_WITH: &str = "builtin-256-1";
const FITTED_NEAR: f32 = 0.1;

/// What a new topic is given beyond the fit, which counts every mistake alike: a topic that was split can be merged
/// again, a mixture cannot be taken apart.
const IN_DOUBT_NEW: f32 = 0.4;

/// What speaks for a topic or for a new one, and also what each of these signs counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signs {
    /// For a topic: that it is the one that is talked about.
    pub current: f32,
    /// That it has the message's words.
    pub words: f32,
    /// That it means the same.
    pub similar: f32,
    /// That the last exchange of the current topic means the same.
    pub last: f32,
    /// That names of the message never came up in it.
    pub missing: f32,
    /// For a new topic: always, and when the message names something.
    pub new: f32,
    /// See above.
    pub named: f32,
    /// The share of the message's words that no topic has, and how much they weigh.
    pub unknown_share: f32,
    /// See above.
    pub unknown: f32,
}

impl Signs {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// What they are called, in the order of [`Signs::values`].
    pub const NAMES: [&str; Self::COUNT] =
        ["current", "words", "similar", "last", "missing", "new", "named", "unknown_share", "unknown"];

    /// All of them in a row.
    pub fn values(&self) -> [f32; Self::COUNT] {
        let Self { current, words, similar, last, missing, new, named, unknown_share, unknown } = *self;
        [current, words, similar, last, missing, new, named, unknown_share, unknown]
    }

    /// The reverse.
    pub fn from_values(values: [f32; Self::COUNT]) -> Self {
        let [current, words, similar, last, missing, new, named, unknown_share, unknown] = values;
        Self { current, words, similar, last, missing, new, named, unknown_share, unknown }
    }

    /// How much speaks for it, by what each sign counts.
    pub(super) fn weighed(&self, counts: &Signs) -> f32 {
        let [current, words, similar, last, missing, new, named, unknown_share, unknown] = self.values();
        let topic = counts.words * words + counts.missing * missing;
        let alike = counts.similar * similar + (counts.current * current + counts.last * last);
        let novel = counts.new * new + counts.named * named;
        topic + alike + (novel + counts.unknown_share * unknown_share + counts.unknown * unknown)
    }
}

const WITH_VECTORS: Signs = Signs {
    current: 1.79,
    words: 3.07,
    similar: 3.38,
    last: 2.29,
    missing: -1.07,
    new: -0.83 + IN_DOUBT_NEW,
    named: 0.84,
    unknown_share: 1.82,
    unknown: 0.76,
};

const WITHOUT_VECTORS: Signs = Signs {
    current: 2.34,
    words: 3.75,
    similar: 0.0,
    last: 0.0,
    missing: -1.12,
    new: -1.43 + IN_DOUBT_NEW,
    named: 0.53,
    unknown_share: 1.83,
    unknown: 0.98,
};

/// How sure placement must be, for one embedder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// The similarity from which texts are near.
    near: f32,
    with_vectors: Signs,
    without_vectors: Signs,
}

impl Thresholds {
    /// Those of an embedder, by its id and by the similarity from which it takes texts to be about the same
    /// ([`Embedder::near`](crate::model::embed::Embedder::near)).
    pub fn of(embedder: &EmbedderId, near: f32) -> Self {
        let usable = near.is_finite() && (0.0..1.0).contains(&near) && embedder.as_str() != FITTED_WITH;
        if usable { Self { near, ..Self::default() } } else { Self::default() }
    }

    /// The same with other numbers, as they were fitted.
    pub fn refitted(self, fitted: Signs) -> Self {
        let counts = Signs { new: fitted.new + IN_DOUBT_NEW, ..fitted };
        Self { with_vectors: counts, without_vectors: counts, ..self }
    }

    /// What each sign counts.
    pub(super) fn counts(&self, with_vectors: bool) -> &Signs {
        if with_vectors { &self.with_vectors } else { &self.without_vectors }
    }

    /// A similarity as the embedder of the numbers would have it: what is near for one is near for the other.
    pub fn measured(&self, similarity: f32) -> f32 {
        FITTED_NEAR + (similarity - self.near) * (1.0 - FITTED_NEAR) / (1.0 - self.near)
    }

    /// The similarity of what cannot be compared: neither near nor far.
    pub(super) fn unknown(&self) -> f32 {
        FITTED_NEAR
    }
}

/// Where there are no vectors, or nothing is known about who makes them.
impl Default for Thresholds {
    fn default() -> Self {
        Self { near: FITTED_NEAR, with_vectors: WITH_VECTORS, without_vectors: WITHOUT_VECTORS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_embedder_is_measured_as_it_is() {
        let thresholds = Thresholds::of(&EmbedderId::new(FITTED_WITH), 0.7);
        assert!((thresholds.measured(0.42) - 0.42).abs() < 1e-6);
    }

    #[test]
    fn others_are_measured_from_what_is_near_for_them() {
        let thresholds = Thresholds::of(&EmbedderId::new("openai:large:3"), 0.7);
        assert!((thresholds.measured(0.7) - thresholds.unknown()).abs() < 1e-6);
        assert!((thresholds.measured(1.0) - 1.0).abs() < 1e-6);
        assert!(thresholds.measured(0.4) < 0.0);
    }

    #[test]
    fn a_threshold_that_makes_no_sense_is_not_believed() {
        for near in [f32::NAN, 1.0, -3.0, 7.0] {
            assert_eq!(Thresholds::of(&EmbedderId::new("x"), near), Thresholds::default());
        }
    }
}
