//! How near a summary must be to a question. It belongs to the embedder: a similarity of 0.3 is much for one and little
//! for another.

use crate::model::embed::EmbedderId;

/// The embedder that the numbers were chosen with, and the similarity from which its texts are near.
const FITTED_WITH: &str = "builtin-256-1";
const FITTED_NEAR: f32 = 0.1;

/// How similarities of one embedder are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nearness {
    near: f32,
}

impl Nearness {
    /// That of an embedder, by its id and by the similarity from which it takes texts to be about the same.
    pub(crate) fn of(embedder: &EmbedderId, near: f32) -> Self {
        let usable = near.is_finite() && (0.0..1.0).contains(&near) && embedder.as_str() != FITTED_WITH;
        Self { near: if usable { near } else { FITTED_NEAR } }
    }

    /// A similarity as the embedder of the numbers would have it: what is near for one is near for the other.
    pub(crate) fn measured(self, similarity: f32) -> f32 {
        FITTED_NEAR + (similarity - self.near) * (1.0 - FITTED_NEAR) / (1.0 - self.near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(embedder: &str, near: f32, similarity: f32, expected: f32) {
        let measured = Nearness::of(&EmbedderId::new(embedder), near).measured(similarity);
        assert!((measured - expected).abs() < 1e-6, "{measured}");
    }

    #[test]
    fn similarities_are_measured_by_what_is_near() {
        check(FITTED_WITH, 0.7, 0.42, 0.42);
        check("openai:large:3", 0.7, 0.7, FITTED_NEAR);
        check("openai:large:3", 0.7, 1.0, 1.0);
        check("nonsense", f32::NAN, 0.42, 0.42);
    }
}
