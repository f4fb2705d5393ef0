//! An embedder whose weights lie in a folder: a sentence transformer of the BERT family, such as all-MiniLM-L6-v2.
//!
//! The folder has `model.safetensors` and `tokenizer.json` or `vocab.txt`, as they are published. `config.json`,
//! `sentence_bert_config.json` and `1_Pooling/config.json` are read when they are there. Nothing is downloaded.
//!
//! Reading order: [`FolderEmbedder`] here, `shape` (the sizes), `safetensors` (the weights' file), `tokens` (text to
//! numbers), `model` (numbers to a vector), and below it `attention`, `linear`, `curve` and `matrix`.
//!
//! **Invariant:** whatever is in the folder, opening it gives an embedder or an error that names the file.

mod attention;
mod curve;
mod linear;
mod matrix;
mod model;
mod safetensors;
mod shape;
mod tokens;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::{EmbedError, EmbedFuture, Embedder, EmbedderId};
use model::Model;
use safetensors::Tensors;
use shape::Shape;
use tokens::Tokenizer;

/// How many tokens are computed together: enough to keep the processor busy, little enough to stop soon.
const TOGETHER_TOKENS_MAX: usize = 512;

/// Largest file that is read whole. Tokenizers have some hundred kilobytes, or a few megabytes.
const SMALL_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file that is needed cannot be read.
    #[error("cannot read {}; the folder of a model has model.safetensors, and tokenizer.json or vocab.txt", .file.display())]
    Unread {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A file is not what its name promises.
    #[error("{} cannot be used: {reason}", .file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A tensor is missing or is not what the model needs.
    #[error("tensor `{tensor}` of {} cannot be used: {reason}", .file.display())]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

impl FolderError {
    fn unusable(file: &Path, reason: impl Into<String>) -> Self {
        Self::Unusable { file: file.to_owned(), reason: reason.into() }
    }
}

/// The embedder. It computes on threads of its own, as many at a time as there are processors.
pub struct FolderEmbedder {
    id: EmbedderId,
    engine: Arc<Engine>,
    turns: Semaphore,
}

impl std::fmt::Debug for FolderEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FolderEmbedder").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FolderEmbedder {
    /// Reads the folder. It takes as long as reading the weights does, so call it where blocking is fine.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let engine = Engine::open(folder)?;
        let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = name.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned());
        let id = EmbedderId::new(format!("folder:{name}:{}", engine.model.dimensions()));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { id, engine: Arc::new(engine), turns: Semaphore::new(processors) })
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let interrupted = |error: &dyn std::error::Error| EmbedError::Interrupted(error.to_string());
        let mut vectors = Vec::with_capacity(texts.len());
        while vectors.len() < texts.len() {
            let _turn = self.turns.acquire().await.map_err(|error| interrupted(&error))?;
            let (engine, some) = (self.engine.clone(), self.engine.next_portion(&texts[vectors.len()..]));
            let computed = spawn_blocking(move || engine.model.embed(&some)).await;
            vectors.extend(computed.map_err(|error| interrupted(&error))?);
        }
        Ok(vectors)
    }
}

impl Embedder for FolderEmbedder {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.engine.model.dimensions()
    }

    fn at_once(&self, _: &str) -> Option<Vec<f32>> {
        None
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        Box::pin(self.embed_all(texts))
    }
}

/// Tokenizer and model, which belong together.
struct Engine {
    tokenizer: Tokenizer,
    model: Model,
    tokens_max: usize,
}

impl Engine {
    fn open(folder: &Path) -> Result<Self, FolderError> {
        let tokenizer = Tokenizer::open(folder)?;
        let mut tensors = Tensors::open(&folder.join("model.safetensors"))?;
        let shape = Shape::read(folder, &tensors)?;
        tokenizer.check(shape.vocabulary)?;
        let model = Model::read(&mut tensors, &shape)?;
        Ok(Self { tokenizer, model, tokens_max: shape.tokens_max })
    }

    /// The tokens of the next few texts, at least of one.
    fn next_portion(&self, texts: &[String]) -> Vec<Vec<u32>> {
        let (mut portion, mut tokens) = (Vec::new(), 0);
        for text in texts {
            let next = self.tokenizer.encode(text, self.tokens_max);
            tokens += next.len();
            if tokens > TOGETHER_TOKENS_MAX && !portion.is_empty() {
                break;
            }
            portion.push(next);
        }
        portion
    }
}

/// A small file, whole.
fn read_small(file: &Path) -> Result<Vec<u8>, FolderError> {
    let unread = |cause| FolderError::Unread { file: file.to_owned(), cause };
    if fs::metadata(file).map_err(unread)?.len() > SMALL_FILE_BYTES_MAX {
        return Err(FolderError::unusable(file, format!("it is larger than {SMALL_FILE_BYTES_MAX} bytes")));
    }
    fs::read(file).map_err(unread)
}

/// JSON in a small file; `None` when there is no such file.
fn read_json<T: serde::de::DeserializeOwned>(file: &Path) -> Result<Option<T>, FolderError> {
    if !file.exists() {
        return Ok(None);
    }
    let json = serde_json::from_slice(&read_small(file)?);
    json.map(Some).map_err(|error| FolderError::unusable(file, format!("it is not the JSON expected: {error}")))
}

#[cfg(test)]
mod tests;
