//! Putting a question to the memory, whole or as the answer comes.

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Ask, Client};
use super::failure::Failure;
use crate::id::SessionId;
use crate::model::sse::Events;

const SESSION_HEADER: HeaderName = HeaderName::from_static("x-session-id");
const MODE_HEADER: HeaderName = HeaderName::from_static("x-recalld-mode");

/// A question in a conversation.
pub(super) struct Question<'a> {
    pub(super) query: &'a str,
    pub(super) session: SessionId,
    pub(super) role: Option<&'a str>,
    /// Whether nothing is recalled from other conversations.
    pub(super) alone: bool,
}

impl Question<'_> {
    fn headers(&self) -> HeaderMap {
        let id = HeaderValue::try_from(self.session.to_string()).expect("a UUID is a valid header value");
        let alone = self.alone.then(|| (MODE_HEADER, HeaderValue::from_static("passive")));
        std::iter::once((SESSION_HEADER, id)).chain(alone).collect()
    }

    fn body(&self, stream: bool) -> Value {
        json!({ "query": self.query, "role": self.role, "stream": stream })
    }
}

/// What comes while an answer is told. The shapes differ, so their names are not needed.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Event {
    Piece { text: String },
    Failed { error: String, detail: String },
    Done(Value),
}

impl Client {
    /// The answer in one piece: the response of `POST /chat`.
    pub(super) async fn answer(&self, question: &Question<'_>) -> Result<Value, Failure> {
        let body = question.body(false);
        self.whole(Ask { method: Method::POST, path: "/chat", headers: question.headers(), body: Some(&body) }).await
    }

    /// The answer as it comes: `heard` is handed each piece, the whole response comes at the end.
    pub(super) async fn answer_aloud(
        &self,
        question: &Question<'_>,
        heard: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Value> {
        let body = question.body(true);
        let ask = Ask { method: Method::POST, path: "/chat", headers: question.headers(), body: Some(&body) };
        listen(self.send(ask).await?, heard).await
    }
}

async fn listen(response: Response<Body>, mut heard: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<Value> {
    let broke_off = |reason: String| Failure::BrokeOff(reason);
    let (mut body, mut events) = (response.into_body(), Events::default());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broke_off(error.to_string()))?;
        let Ok(bytes) = frame.into_data() else { continue };
        events.push(&bytes).map_err(|error| broke_off(error.to_string()))?;
        while let Some(data) = events.take() {
            match serde_json::from_str(&data).map_err(|error| broke_off(error.to_string()))? {
                Event::Piece { text } => heard(&text)?,
                Event::Done(answer) => return Ok(answer),
                Event::Failed { error, detail } => {
                    return Err(Failure::Refused { status: 200, code: String::new(), error, detail }.into());
                }
            }
        }
    }
    Err(broke_off("the connection ended before the answer did".into()).into())
}

/// Waits for something, unless Ctrl-C comes first; then it is dropped, which cancels it.
pub(super) async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        Ok(()) = tokio::signal::ctrl_c() => None,
    }
}

/// What a person should know about an answer beside its text.
pub(super) fn reservation(answer: &Value) -> Option<&'static str> {
    let degraded = answer["metadata"]["status"] == "degraded";
    degraded
        .then_some("degraded: part of the memory was missing, or this turn waits for the disk; see the server's log")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn heard(stream: &'static str) -> (String, anyhow::Result<Value>) {
        let mut text = String::new();
        let response = Response::new(Body::from(stream));
        let ended = listen(response, |piece| {
            text.push_str(piece);
            Ok(())
        })
        .await;
        (text, ended)
    }

    #[tokio::test]
    async fn pieces_are_told_and_the_end_is_the_answer() {
        let stream = "event: delta\ndata: {\"text\":\"Hel\"}\n\nevent: delta\ndata: {\"text\":\"lo\"}\n\n\
                      event: done\ndata: {\"answer\":\"Hello\",\"error\":null,\"metadata\":{\"status\":\"ok\"}}\n\n";
        let (text, ended) = heard(stream).await;
        let answer = ended.expect("it ended well");
        assert_eq!((text.as_str(), &answer["answer"]), ("Hello", &"Hello".into()));
        assert_eq!(reservation(&answer), None);
        assert!(reservation(&json!({ "metadata": { "status": "degraded" } })).is_some());
    }

    #[tokio::test]
    async fn an_error_in_the_stream_is_an_error() {
        let stream =
            "data: {\"text\":\"Hel\"}\n\ndata: {\"error\":\"Model unreachable\",\"detail\":\"nobody there\"}\n\n";
        let (text, ended) = heard(stream).await;
        assert_eq!(
            (text.as_str(), ended.expect_err("failed").to_string().as_str()),
            ("Hel", "Model unreachable: nobody there")
        );
        let (_, ended) = heard("data: {\"text\":\"Hel\"}\n\n").await;
        assert!(ended.expect_err("cut").to_string().contains("broke off"));
    }
}
