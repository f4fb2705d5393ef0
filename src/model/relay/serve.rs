//! A model in process, answering as a server would: the shapes of OpenAI, from any [`ChatModel`].

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{PassFuture, Passed, Relayed, Upstream, error_body, whole_body};
use crate::model::builtin::Builtin;
use crate::model::scripted::Scripted;
use crate::model::{ChatModel, Ending, ModelError, Piece, Pieces, Prompt};

impl Upstream for Builtin {
    fn name(&self) -> &str {
        ChatModel::name(self)
    }

    fn pass(&self, request: Passed) -> PassFuture<'_> {
        Box::pin(serve(self, request))
    }
}

impl Upstream for Scripted {
    fn name(&self) -> &str {
        ChatModel::name(self)
    }

    fn pass(&self, request: Passed) -> PassFuture<'_> {
        Box::pin(serve(self, request))
    }
}

/// Any model in process, answering in OpenAI's format.
pub struct InProcess(pub Arc<dyn ChatModel>);

impl Upstream for InProcess {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn pass(&self, request: Passed) -> PassFuture<'_> {
        Box::pin(serve(&*self.0, request))
    }
}

async fn serve(model: &dyn ChatModel, request: Passed) -> Result<Relayed, ModelError> {
    let path = request.path.split('?').next().unwrap_or_default().trim_matches('/');
    match (&request.method, path) {
        (&Method::POST, "chat/completions") => match Question::read(&request.body) {
            Ok(question) => question.answer(model).await,
            Err(reason) => Ok(refuse(StatusCode::BAD_REQUEST, reason)),
        },
        (&Method::GET, "models") => Ok(found(&json!({ "object": "list", "data": [card(model)] }))),
        (&Method::GET, path) if path.strip_prefix("models/") == Some(model.name()) => Ok(found(&card(model))),
        (method, path) => {
            let hint = "no language model is connected, so only chat/completions and models are answered";
            Ok(refuse(StatusCode::NOT_FOUND, &format!("Invalid URL ({method} /v1/{path}): {hint}")))
        }
    }
}

/// What is asked of a chat model.
struct Question {
    prompt: Prompt,
    wants_usage: bool,
}

impl Question {
    fn read(body: &[u8]) -> Result<Self, &'static str> {
        let mut body: Value = serde_json::from_slice(body).map_err(|_| "the request body is not JSON")?;
        let is_true = |pointer: &str| body.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
        let (stream, wants_usage) = (is_true("/stream"), is_true("/stream_options/include_usage"));
        match body.get_mut("messages").map(Value::take) {
            Some(Value::Array(messages)) if !messages.is_empty() => {
                Ok(Self { prompt: Prompt { messages, stream, model: None }, wants_usage })
            }
            _ => Err("`messages` must be a list with at least one message"),
        }
    }

    async fn answer(self, model: &dyn ChatModel) -> Result<Relayed, ModelError> {
        let Self { prompt, wants_usage } = self;
        let stream = prompt.stream;
        let pieces = model.ask(prompt).await?;
        let envelope = Envelope::new(model.name());
        if stream {
            return Ok(streamed(envelope, wants_usage, pieces));
        }
        let (text, ending) = gather(pieces).await?;
        Ok(found(&envelope.whole(&text, &ending, usage(&ending))))
    }
}

/// What every part of one answer carries.
struct Envelope {
    id: String,
    created: i64,
    model: String,
}

impl Envelope {
    fn new(model: &str) -> Self {
        let id = format!("chatcmpl-{}", Uuid::new_v4().simple());
        Self { id, created: Timestamp::now().as_second(), model: model.to_owned() }
    }

    fn part(&self, object: &str, choices: Value) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices })
    }

    fn whole(&self, text: &str, ending: &Ending, usage: Value) -> Value {
        let message = json!({ "role": "assistant", "content": text, "refusal": null });
        let choice =
            json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(ending) });
        let mut whole = self.part("chat.completion", json!([choice]));
        whole["usage"] = usage;
        whole
    }

    fn delta(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
        self.part("chat.completion.chunk", json!([choice]))
    }
}

/// An answer as a stream: the role, the pieces, why it ended, usage if it was asked for, `[DONE]`.
fn streamed(envelope: Envelope, wants_usage: bool, pieces: Pieces) -> Relayed {
    let begin =
        event(&envelope.delta(json!({ "role": "assistant", "content": "", "refusal": null }), None), wants_usage);
    let parts = pieces.map(move |piece| {
        Ok(match piece? {
            Piece::Text(more) => event(&envelope.delta(json!({ "content": more }), None), wants_usage),
            Piece::End(ending) => last_events(&envelope, wants_usage, &ending),
        })
    });
    let body = stream::iter([Ok(Bytes::from(begin))]).chain(parts.map(|part| part.map(Bytes::from)));
    Relayed { status: StatusCode::OK, headers: content_type("text/event-stream"), body: Box::pin(body) }
}

fn last_events(envelope: &Envelope, wants_usage: bool, ending: &Ending) -> String {
    let mut last = event(&envelope.delta(json!({}), Some(finish_reason(ending))), wants_usage);
    if wants_usage {
        let mut chunk = envelope.part("chat.completion.chunk", json!([]));
        chunk["usage"] = usage(ending);
        last.push_str(&format!("data: {chunk}\n\n"));
    }
    last.push_str("data: [DONE]\n\n");
    last
}

/// A chunk as an event. Where usage is asked for, chunks without it say so.
fn event(chunk: &Value, wants_usage: bool) -> String {
    let mut chunk = chunk.clone();
    if wants_usage {
        chunk["usage"] = Value::Null;
    }
    format!("data: {chunk}\n\n")
}

async fn gather(mut pieces: Pieces) -> Result<(String, Ending), ModelError> {
    let mut text = String::new();
    while let Some(piece) = pieces.next().await {
        match piece? {
            Piece::Text(more) => text.push_str(&more),
            Piece::End(ending) => return Ok((text, ending)),
        }
    }
    Err(ModelError::BrokeOff("it ended without an end".into()))
}

/// Tokens by the model's own count. One in process that does not count has used none worth the name, and
/// counting for it would load a tokenizer of 60 MB.
fn usage(ending: &Ending) -> Value {
    let total = ending.tokens_used.unwrap_or(0);
    json!({ "prompt_tokens": total, "completion_tokens": 0, "total_tokens": total })
}

fn finish_reason(ending: &Ending) -> &str {
    ending.finish_reason.as_deref().unwrap_or("stop")
}

/// The model as the list of models shows it.
fn card(model: &dyn ChatModel) -> Value {
    json!({ "id": model.name(), "object": "model", "created": 0, "owned_by": "recalld" })
}

fn found(body: &Value) -> Relayed {
    let body = whole_body(Bytes::from(body.to_string()));
    Relayed { status: StatusCode::OK, headers: content_type("application/json"), body }
}

fn refuse(status: StatusCode, reason: &str) -> Relayed {
    let body = whole_body(error_body(reason, "invalid_request_error", None));
    Relayed { status, headers: content_type("application/json"), body }
}

fn content_type(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::relay::{Tee, TeeBounds, TeeKind};

    async fn pass(method: Method, path: &str, body: &str) -> (u16, String) {
        let headers = HeaderMap::new();
        let request = Passed { method, path: path.into(), headers, body: Bytes::from(body.to_owned()), bearer: None };
        let relayed = Builtin.pass(request).await.expect("an answer");
        let chunks: Vec<Bytes> = relayed.body.map(|chunk| chunk.expect("bytes")).collect().await;
        (relayed.status.as_u16(), String::from_utf8(chunks.concat()).expect("text"))
    }

    async fn ask(rest: &str) -> String {
        let messages =
            r#"[{"role":"user","content":"I live in Lisbon."},{"role":"user","content":"Where do I live?"}]"#;
        let (status, body) =
            pass(Method::POST, "chat/completions", &format!("{{\"messages\":{messages}{rest}}}")).await;
        assert_eq!(status, 200);
        body
    }

    #[tokio::test]
    async fn a_whole_answer_has_the_shape_of_a_completion() {
        let answer: Value = serde_json::from_str(&ask("").await).expect("JSON");
        assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("recalld-builtin")));
        assert!(answer["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")));
        let choice = &answer["choices"][0];
        assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
        assert!(choice["message"]["content"].as_str().is_some_and(|text| text.contains("Lisbon")));
        let usage = |key: &str| answer["usage"][key].as_u64().expect("a number");
        assert_eq!(usage("prompt_tokens") + usage("completion_tokens"), usage("total_tokens"));
    }

    fn chunks(stream: &str) -> Vec<Value> {
        let data = stream.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").expect("data"));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    #[tokio::test]
    async fn a_stream_has_the_shape_of_chunks() {
        let stream = ask(",\"stream\":true").await;
        assert!(stream.ends_with("\n\ndata: [DONE]\n\n"));
        let chunks = chunks(&stream);
        assert!(
            chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
        );
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        let last = chunks.last().expect("a chunk");
        assert_eq!((&last["choices"][0]["finish_reason"], &last["choices"][0]["delta"]), (&json!("stop"), &json!({})));
        assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    }

    #[tokio::test]
    async fn usage_comes_when_it_is_asked_for() {
        let chunks = chunks(&ask(",\"stream\":true,\"stream_options\":{\"include_usage\":true}").await);
        let (last, others) = chunks.split_last().expect("chunks");
        assert_eq!(last["choices"], json!([]));
        assert!(last["usage"]["total_tokens"].is_u64());
        assert!(others.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
    }

    #[tokio::test]
    async fn both_say_the_same() {
        let mut said = Vec::new();
        for (kind, rest) in [(TeeKind::Whole, ""), (TeeKind::Events, ",\"stream\":true")] {
            let mut tee = Tee::new(kind, false, TeeBounds::new(1 << 20));
            tee.feed(ask(rest).await.as_bytes()).expect("an answer");
            said.push(tee.finish().choices[0].message["content"].clone());
        }
        assert_eq!(said[0], said[1]);
    }

    #[tokio::test]
    async fn the_models_are_listed() {
        let (_, list) = pass(Method::GET, "models?x=1", "").await;
        assert!(list.starts_with(r#"{"object":"list","data":[{"id":"recalld-builtin","object":"model""#), "{list}");
        assert_eq!(pass(Method::GET, "models/recalld-builtin", "").await.0, 200);
    }

    #[tokio::test]
    async fn what_cannot_be_answered_says_why() {
        for (method, path, body, status) in [
            (Method::POST, "embeddings", "{}", 404),
            (Method::GET, "models/gpt-9", "", 404),
            (Method::POST, "chat/completions", "{", 400),
            (Method::POST, "chat/completions", r#"{"messages":[]}"#, 400),
        ] {
            let (got, body) = pass(method, path, body).await;
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!((got, &body["error"]["type"]), (status, &json!("invalid_request_error")), "{path}");
        }
    }

    #[tokio::test]
    async fn a_model_that_breaks_off_breaks_the_stream() {
        let script = Scripted::default();
        let error = ModelError::BrokeOff("gone".into());
        script.then(crate::model::scripted::Line { pieces: vec!["Hel".into()], error: Some(error.clone()) });
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":"hi"}],"stream":true}"#);
        let (method, path, headers) = (Method::POST, "chat/completions".into(), HeaderMap::new());
        let relayed = script.pass(Passed { method, path, headers, body, bearer: None }).await.expect("an answer");
        assert_eq!(relayed.body.map(|chunk| chunk.err()).collect::<Vec<_>>().await, [None, None, Some(error)]);
    }
}
