//! A model behind any OpenAI-compatible server: OpenAI, Ollama, vLLM, llama.cpp, a gateway.
//!
//! Reading order: the settings here, `send` (one question, asked again while that can help and `budget`
//! allows), `hear` (what came back, whole or piece by piece), `pass` (a client's own request, passed on), `post` (other
//! questions than chat), `redact` (the key, taken out of what came back).
//!
//! **Invariant:** the key goes to the configured host and nowhere else: redirects are not followed,
//! and neither `Debug` nor an error shows it.

mod budget;
mod hear;
mod list;
mod pass;
mod post;
mod redact;
mod send;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use serde_json::{Value, json};

use self::redact::Redaction;
use super::http::{HttpClient, client};
use super::{ChatModel, ModelError, ModelFuture, Pieces, Prompt};

/// Which server, which model, how much patience.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// Where it is, version included: `http://localhost:11434/v1`.
    pub base_url: String,
    /// Sent as a bearer token; local servers need none.
    pub key: Option<String>,
    /// The model's name, as the server knows it.
    pub model: String,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the answer may take to begin.
    pub first_byte_timeout: Duration,
    /// How long an answer may pause once it has begun.
    pub idle_timeout: Duration,
    /// How often a question is asked again when that may help.
    pub retries_max: u32,
}

impl fmt::Debug for OpenAiSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiSettings")
            .field("base_url", &self.base_url)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("model", &self.model)
            .field("connect_timeout", &self.connect_timeout)
            .field("first_byte_timeout", &self.first_byte_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("retries_max", &self.retries_max)
            .finish()
    }
}

/// Why the settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenAiError {
    /// Not a place to send questions to.
    #[error("the model's URL `{url}` cannot be used: {reason}")]
    Url {
        /// The setting, without any password in it.
        url: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Not something a header can carry.
    #[error("the model's key contains characters that no header can carry; was it copied whole?")]
    Key,
}

/// The model.
#[derive(Clone)]
pub struct OpenAi {
    settings: Arc<OpenAiSettings>,
    url: Uri,
    headers: HeaderMap,
    client: HttpClient,
    budget: Arc<budget::RetryBudget>,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Checks the settings. Nobody is called before the first question.
    pub fn new(settings: OpenAiSettings) -> Result<Self, OpenAiError> {
        let url = completions_url(&settings.base_url)?;
        let headers = headers(settings.key.as_deref())?;
        let client = client(settings.connect_timeout);
        Ok(Self { settings: Arc::new(settings), url, headers, client, budget: Arc::default() })
    }

    async fn converse(&self, prompt: Prompt) -> Result<Pieces, ModelError> {
        let asked_to_stream = prompt.stream;
        let response = self.send(self.question(prompt)).await?;
        let streams = is_stream(response.headers(), asked_to_stream);
        let body = hear::Body::new(response.into_body(), &self.settings);
        if streams { Ok(hear::stream(body, self.settings.clone())) } else { hear::whole(body, &self.settings).await }
    }

    fn question(&self, prompt: Prompt) -> Bytes {
        let model = prompt.model.as_ref().unwrap_or(&self.settings.model);
        let mut body = json!({ "model": model, "messages": prompt.messages, "stream": prompt.stream });
        if prompt.stream {
            body["stream_options"] = json!({ "include_usage": true });
        }
        Bytes::from(body.to_string())
    }
}

impl ChatModel for OpenAi {
    fn name(&self) -> &str {
        &self.settings.model
    }

    fn ask(&self, prompt: Prompt) -> ModelFuture<'_> {
        Box::pin(self.converse(prompt))
    }
}

/// Where questions go, or what is wrong with the setting in words that help to mend it.
fn completions_url(base_url: &str) -> Result<Uri, OpenAiError> {
    let base = base_url.trim().trim_end_matches('/');
    let refuse = |reason: &str| {
        let url = base.rsplit_once('@').map_or(base, |(_, host)| host).to_owned();
        Err(OpenAiError::Url { url, reason: reason.to_owned() })
    };
    if !["http://", "https://"].iter().any(|scheme| base.to_ascii_lowercase().starts_with(scheme)) {
        return refuse("it must begin with http:// or https://, like http://localhost:11434/v1");
    }
    if base.contains(['?', '#']) {
        return refuse("it must end after the path, without `?` or `#`");
    }
    if base.ends_with("/chat/completions") {
        return refuse("leave out /chat/completions, it is added to every request");
    }
    match format!("{base}/chat/completions").parse::<Uri>() {
        Ok(url) if url.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
            refuse("it must not contain a user or password; the key has a setting of its own")
        }
        Ok(url) => Ok(url),
        Err(error) => refuse(&error.to_string()),
    }
}

fn headers(key: Option<&str>) -> Result<HeaderMap, OpenAiError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("recalld/", env!("CARGO_PKG_VERSION"))));
    // What is relayed is also read, so it must not come compressed.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    // A key read from a file often ends in a line break.
    if let Some(key) = key.map(str::trim).filter(|key| !key.is_empty()) {
        headers.insert(AUTHORIZATION, bearer(key).ok_or(OpenAiError::Key)?);
    }
    Ok(headers)
}

/// A key as a header; `None` when no header can carry it.
fn bearer(key: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// How the answer comes. Some servers answer whole although a stream was asked for, so their word
/// counts first.
pub(in crate::model) fn is_stream(headers: &HeaderMap, asked_to_stream: bool) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    match content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase().as_str() {
        "text/event-stream" => true,
        "application/json" => false,
        _ => asked_to_stream,
    }
}

/// The error a server speaks of, in the shapes servers use.
pub(in crate::model) fn error_message(value: &Value) -> Option<String> {
    let error = value.get("error").filter(|error| !error.is_null())?;
    let message = error.get("message").unwrap_or(error);
    Some(message.as_str().map_or_else(|| message.to_string(), str::to_owned))
}

/// How much of a server's own words goes into an error.
const MESSAGE_CHARS_MAX: usize = 300;

/// A server's words, fit for an error: on one line, short, and without our key even if it was echoed.
fn tidy(text: &str, settings: &OpenAiSettings) -> String {
    shorten(&Redaction::of(settings).text(text))
}

/// A server's words on one line, and not too many of them.
pub(in crate::model) fn shorten(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
