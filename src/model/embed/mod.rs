//! Embeddings: what a text means, as a vector.
//!
//! An [`Embedder`] turns texts into vectors, and texts that mean similar things have vectors that point in
//! similar directions. [`builtin`] is compiled in and takes microseconds, [`openai`] asks any server that has
//! `/v1/embeddings`, [`folder`] computes a sentence transformer whose weights lie in a folder.
//!
//! Reading order: the trait here, `words` (text to words, shared by `builtin` and `folder`), then the three.
//!
//! **Invariant:** a vector is finite and its length is one, or it is the zero vector and says nothing.

pub mod builtin;
pub mod folder;
pub mod openai;
mod words;

pub use builtin::{Builtin, StaticTable};
pub use folder::{FolderEmbedder, FolderError};
pub use openai::{OpenAiEmbedder, OpenAiEmbedderSettings};

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::ModelError;

/// What [`Embedder::embed`] answers with: a vector for each text, in their order.
pub type EmbedFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Vec<f32>>, EmbedError>> + Send + 'a>>;

/// Whoever makes vectors of texts.
pub trait Embedder: Send + Sync + 'static {
    /// Who made its vectors. It changes whenever the vectors would.
    fn id(&self) -> &EmbedderId;

    /// How long its vectors are.
    fn dimensions(&self) -> usize;

    /// The similarity from which two texts are taken to be about the same. It differs between embedders.
    fn near(&self) -> f32 {
        0.1
    }

    /// The vector at once, from embedders that compute in microseconds in process; `None` from others. The first
    /// call may take a few milliseconds.
    fn at_once(&self, text: &str) -> Option<Vec<f32>>;

    /// Vectors for texts, in order. A text that says nothing to the embedder has the zero vector.
    /// Dropping the future cancels what has not been computed yet.
    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a>;
}

/// Who made a vector: vectors of different embedders are never compared.
///
/// It reads `builtin-256-1`, `openai:<model>:<dimensions>` or `folder:<name>:<dimensions>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmbedderId(Arc<str>);

impl EmbedderId {
    /// An id as it was stored, or of an embedder of your own.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EmbedderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why there are no vectors.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EmbedError {
    /// Not a server that can be asked.
    #[error("the settings of the embedding server cannot be used: {reason}")]
    Settings {
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The server was asked and did not help.
    #[error("no embeddings of `{model}` from {url}: {cause}; {advice}")]
    Server {
        /// Where it was asked.
        url: String,
        /// The model that was asked for.
        model: String,
        /// What to do about it.
        advice: &'static str,
        /// What the connection or the server said.
        #[source]
        cause: ModelError,
    },
    /// The request took longer than it may, repeated tries included.
    #[error(
        "the embedding server at {url} gave no vectors within {}s; raise its timeout or ask a faster model",
        .patience.as_secs_f32()
    )]
    TooSlow {
        /// Where it was asked.
        url: String,
        /// How long was waited.
        patience: Duration,
    },
    /// What came are not the vectors that were asked for.
    #[error("the embedding server's answer cannot be used: {0}; check that its model is an embedding model")]
    Unreadable(String),
    /// The vectors are of another length than before.
    #[error(
        "`{model}` gave a vector of {got} dimensions where {expected} were expected; \
         set the dimensions to what the model gives, or leave the setting out"
    )]
    Dimensions {
        /// The model that was asked for.
        model: String,
        /// The length that was set or learnt.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// The computation was cut short: the process is stopping, or it panicked.
    #[error("the computation of embeddings was interrupted: {0}; ask again")]
    Interrupted(String),
}

/// Brings a vector to length one; one without a length becomes the zero vector.
fn normalise(vector: &mut [f32]) {
    // In f64 no finite f32 can overflow or vanish when squared.
    let length = vector.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
    let usable = length.is_finite() && length > 0.0;
    for value in vector {
        *value = if usable { (f64::from(*value) / length) as f32 } else { 0.0 };
    }
}

/// The beginning of a text, of at most so many bytes, cut between characters.
pub(in crate::model) fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_length(mut vector: Vec<f32>, expected: f32) {
        normalise(&mut vector);
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!((length - expected).abs() < 1e-6, "{vector:?}");
    }

    #[test]
    fn vectors_have_length_one_or_none() {
        check_length(vec![3.0, 4.0], 1.0);
        check_length(vec![f32::MAX, f32::MAX], 1.0);
        check_length(vec![f32::MIN_POSITIVE, 0.0], 1.0);
        check_length(vec![0.0, -0.0], 0.0);
        check_length(vec![f32::NAN, 1.0], 0.0);
        check_length(vec![f32::INFINITY, 1.0], 0.0);
        check_length(vec![], 0.0);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(beginning("né", 2), "n");
        assert_eq!(beginning("né", 3), "né");
        assert_eq!(beginning("né", 9), "né");
        assert_eq!(beginning("é", 0), "");
    }

    #[test]
    fn an_id_is_its_words() {
        let id = EmbedderId::new("openai:small:3");
        assert_eq!((id.as_str(), id.to_string().as_str()), ("openai:small:3", "openai:small:3"));
    }
}
