//! An embedder behind any server with `/v1/embeddings`: OpenAI, Ollama, vLLM, llama.cpp, a gateway.
//!
//! Reading order: the settings here, `batch` (which texts go in one request), `answer` (vectors out of what came),
//! `cache` (what was asked before). Retries, the key and the connection are those of the chat model's client.
//!
//! **Invariant:** nothing waits longer than its time-out for a request, retries included.

mod answer;
mod batch;
mod cache;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::timeout;
use tracing::debug;

use super::{EmbedError, EmbedFuture, Embedder, EmbedderId, beginning};
use crate::model::ModelError;
use crate::model::openai::{OpenAi, OpenAiSettings};
use cache::{Cache, Key, key_of};

/// What is asked to learn how long the vectors are.
const PROBE: &str = "Hello, world.";

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Which server, which model, how much at a time.
#[derive(Clone)]
pub struct OpenAiEmbedderSettings {
    /// Where it is, version included: `http://localhost:11434/v1`.
    pub base_url: String,
    /// Sent as a bearer token; local servers need none.
    pub key: Option<String>,
    /// The model's name, as the server knows it.
    pub model: String,
    /// How long its vectors shall be, for models that can choose. Learnt from the server otherwise.
    pub dimensions: Option<usize>,
    /// How long a request may take, retries included.
    pub request_timeout: Duration,
    /// How often a request is made again when that may help.
    pub retries_max: u32,
    /// How many texts go in one request.
    pub request_texts_max: usize,
    /// How many bytes of text go in one request; a single text may be longer.
    pub request_bytes_max: usize,
    /// How much of a text is sent: models read only so much, and many servers refuse what is longer.
    pub text_bytes_max: usize,
    /// How much memory vectors may take that are kept in case their text comes again.
    pub cache_bytes_max: usize,
}

impl OpenAiEmbedderSettings {
    /// A model at a server, with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: None,
            model: model.into(),
            dimensions: None,
            request_timeout: Duration::from_secs(20),
            retries_max: 3,
            request_texts_max: 64,
            request_bytes_max: 128 * 1024,
            text_bytes_max: 8 * 1024,
            cache_bytes_max: 8 * 1024 * 1024,
        }
    }

    /// The settings of the connection. The whole request is timed here, so its parts may take as long as it.
    fn connection(&self) -> OpenAiSettings {
        OpenAiSettings {
            base_url: self.base_url.clone(),
            key: self.key.clone(),
            model: self.model.clone(),
            connect_timeout: CONNECT_TIMEOUT.min(self.request_timeout),
            first_byte_timeout: self.request_timeout,
            idle_timeout: self.request_timeout,
            retries_max: self.retries_max,
        }
    }
}

impl fmt::Debug for OpenAiEmbedderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiEmbedderSettings")
            .field("base_url", &self.base_url)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("model", &self.model)
            .field("dimensions", &self.dimensions)
            .field("request_timeout", &self.request_timeout)
            .field("retries_max", &self.retries_max)
            .field("request_texts_max", &self.request_texts_max)
            .field("request_bytes_max", &self.request_bytes_max)
            .field("text_bytes_max", &self.text_bytes_max)
            .field("cache_bytes_max", &self.cache_bytes_max)
            .finish()
    }
}

/// The embedder.
pub struct OpenAiEmbedder {
    server: Server,
    id: EmbedderId,
    dimensions: usize,
    cache: Mutex<Cache>,
}

impl fmt::Debug for OpenAiEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiEmbedder").field("id", &self.id).field("settings", &self.server.settings).finish()
    }
}

impl OpenAiEmbedder {
    /// Checks the settings and asks the server once, to hear that it answers and how long its vectors are.
    pub async fn connect(settings: OpenAiEmbedderSettings) -> Result<Self, EmbedError> {
        let server = Server::new(settings)?;
        let probe = server.ask(&[PROBE]).await?;
        let dimensions = probe.first().map_or(0, Vec::len);
        server.check_dimensions(server.settings.dimensions.unwrap_or(dimensions), dimensions)?;
        let id = EmbedderId::new(format!("openai:{}:{dimensions}", server.settings.model));
        let cache = Mutex::new(Cache::new(server.settings.cache_bytes_max, dimensions));
        debug!(embedder.id = %id, url = server.settings.base_url, "Connected to the embedder `{id}`");
        Ok(Self { server, id, dimensions, cache })
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let texts: Vec<&str> = texts.iter().map(|text| self.sendable(text)).collect();
        let keys: Vec<Key> = texts.iter().map(|text| key_of(text)).collect();
        let mut known = self.remembered(&texts, &keys);
        for batch in self.batches(&texts, &keys, &known) {
            let vectors = self.ask(&batch).await?;
            self.remember(&batch, &vectors);
            known.extend(batch.iter().map(|text| key_of(text)).zip(vectors));
        }
        Ok(keys.iter().map(|key| known.get(key).cloned().unwrap_or_else(|| self.nothing())).collect())
    }

    /// What of a text is sent. Servers refuse empty texts, and blank ones say nothing.
    fn sendable<'a>(&self, text: &'a str) -> &'a str {
        beginning(text.trim(), self.server.settings.text_bytes_max)
    }

    fn nothing(&self) -> Vec<f32> {
        vec![0.0; self.dimensions]
    }

    /// The vectors that need not be asked for.
    fn remembered(&self, texts: &[&str], keys: &[Key]) -> HashMap<Key, Vec<f32>> {
        let mut cache = self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = |(text, key): (&&str, &Key)| {
            let vector = if text.is_empty() { Some(self.nothing()) } else { cache.get(*key) };
            vector.map(|vector| (*key, vector))
        };
        texts.iter().zip(keys).filter_map(known).collect()
    }

    fn remember(&self, texts: &[&str], vectors: &[Vec<f32>]) {
        let mut cache = self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (text, vector) in texts.iter().zip(vectors) {
            cache.put(key_of(text), vector);
        }
    }

    /// The texts to ask for, each once, in portions for one request.
    fn batches<'a>(&self, texts: &[&'a str], keys: &[Key], known: &HashMap<Key, Vec<f32>>) -> Vec<Vec<&'a str>> {
        let mut asked = HashSet::new();
        let missing = texts.iter().zip(keys).filter(|(_, key)| !known.contains_key(key) && asked.insert(**key));
        let settings = &self.server.settings;
        batch::batches(missing.map(|(text, _)| *text), settings.request_texts_max, settings.request_bytes_max)
    }

    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = self.server.ask(texts).await?;
        vectors.iter().try_for_each(|vector| self.server.check_dimensions(self.dimensions, vector.len()))?;
        Ok(vectors)
    }
}

impl Embedder for OpenAiEmbedder {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn at_once(&self, _: &str) -> Option<Vec<f32>> {
        None
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        Box::pin(self.embed_all(texts))
    }
}

/// Whom to ask.
struct Server {
    settings: OpenAiEmbedderSettings,
    client: OpenAi,
}

impl Server {
    fn new(settings: OpenAiEmbedderSettings) -> Result<Self, EmbedError> {
        let refuse = |reason: String| Err(EmbedError::Settings { reason });
        if settings.base_url.trim().trim_end_matches('/').ends_with("/embeddings") {
            return refuse("leave out /embeddings at the end of the URL, it is added to every request".into());
        }
        if settings.model.trim().is_empty() {
            return refuse("name an embedding model, such as `nomic-embed-text`".into());
        }
        if settings.text_bytes_max == 0 {
            return refuse("of a text at least one byte must be sent".into());
        }
        if settings.dimensions == Some(0) {
            return refuse("a vector has at least one dimension; leave the setting out to learn how many".into());
        }
        let client =
            OpenAi::new(settings.connection()).map_err(|error| EmbedError::Settings { reason: error.to_string() })?;
        Ok(Self { settings, client })
    }

    /// Asks for the vectors of some texts, in one request.
    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let patience = self.settings.request_timeout;
        let bytes = timeout(patience, self.client.post("embeddings", self.question(texts))).await;
        let bytes = bytes.map_err(|_| self.too_slow())?.map_err(|cause| self.failed(cause))?;
        answer::read(&bytes, texts.len()).map_err(|reason| EmbedError::Unreadable(self.client.quote(&reason)))
    }

    fn question(&self, texts: &[&str]) -> Bytes {
        let mut question = json!({ "model": self.settings.model, "input": texts, "encoding_format": "float" });
        if let Some(dimensions) = self.settings.dimensions {
            question["dimensions"] = dimensions.into();
        }
        Bytes::from(question.to_string())
    }

    fn too_slow(&self) -> EmbedError {
        EmbedError::TooSlow { url: self.settings.base_url.clone(), patience: self.settings.request_timeout }
    }

    fn failed(&self, cause: ModelError) -> EmbedError {
        if matches!(cause, ModelError::Silent(_)) {
            return self.too_slow();
        }
        let (url, model) = (self.settings.base_url.clone(), self.settings.model.clone());
        EmbedError::Server { url, model, advice: advice(&cause), cause }
    }

    fn check_dimensions(&self, expected: usize, got: usize) -> Result<(), EmbedError> {
        let model = || self.settings.model.clone();
        if expected == got { Ok(()) } else { Err(EmbedError::Dimensions { model: model(), expected, got }) }
    }
}

/// What somebody can do about a failure.
fn advice(cause: &ModelError) -> &'static str {
    match cause {
        ModelError::Unreachable { .. } => "check that it is running and that the URL is right, /v1 included",
        ModelError::Refused { status: 401 | 403, .. } => "check the key",
        ModelError::Refused { status: 404, .. } => "check the URL, and that the server has the model",
        ModelError::Refused { status: 429, .. } => "it is busy or a quota is used up, ask again later",
        ModelError::Refused { status: 500.., .. } => "look into the server's log",
        ModelError::Refused { .. } => "check the model's name, the dimensions, and how long its texts may be",
        _ => "ask again",
    }
}

#[cfg(test)]
mod tests;
