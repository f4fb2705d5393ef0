//! How much each sign counts in placing a message. It belongs to the embedder: a similarity of 0.3 is much for one and
//! little for another.
//!
//! The numbers were fitted as a conditional logit (which of the topics, or a new one) to half of a public set of
//! interleaved conversations with the built-in embedder, and cross-validated; `docs/topics.md` tells how and what came out.

use crate::model::embed::EmbedderId;

/// The embedder that the numbers were fitted with, and the similarity from which its texts are near.
const FITTED_WITH: &str = "builtin-256-1";
const FITTED_NEAR: f32 = 0.1;

/// What a new topic is given beyond the fit, which counts every mistake alike: a topic that was split can be merged
/// again, a mixture cannot be taken apart.
const IN_DOUBT_NEW: f32 = 0.4;

/// What each sign counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weights {
    /// For a topic: that it is the one that is talked about.
    pub(super) current: f32,
    /// That it has the message's words.
    pub(super) words: f32,
    /// That it means the same.
    pub(super) similar: f32,
    /// That the last exchange of the current topic means the same.
    pub(super) last: f32,
    /// That names of the message never came up in it.
    pub(super) missing: f32,
    /// For a new topic: always, and when the message names something.
    pub(super) new: f32,
    pub(super) named: f32,
    /// The share of the message's words that no topic has, and how much they weigh.
    pub(super) unknown_share: f32,
    pub(super) unknown: f32,
}

const WITH_VECTORS: Weights = Weights {
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

const WITHOUT_VECTORS: Weights = Weights {
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
}

impl Thresholds {
    /// Those of an embedder, by its id and by the similarity from which it takes texts to be about the same
    /// ([`Embedder::near`](crate::model::embed::Embedder::near)).
    pub fn of(embedder: &EmbedderId, near: f32) -> Self {
        let usable = near.is_finite() && (0.0..1.0).contains(&near) && embedder.as_str() != FITTED_WITH;
        Self { near: if usable { near } else { FITTED_NEAR } }
    }

    pub(super) fn weights(&self, with_vectors: bool) -> &'static Weights {
        if with_vectors { &WITH_VECTORS } else { &WITHOUT_VECTORS }
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
        Self { near: FITTED_NEAR }
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
