//! An answer given again, in OpenAI's shapes, to a client that asked the same request twice.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::message::Message;
use crate::session::Turn;

/// The end of every stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

/// The answer of a turn as one object, or as a stream of two chunks.
pub(super) fn replay(turn: &Turn, answer: &Message, stream: bool) -> Bytes {
    let wire = answer.to_wire();
    let finish = answer.metadata.get("finish_reason").cloned().unwrap_or_else(|| json!("stop"));
    if !stream {
        let choice = json!({"index": 0, "message": wire, "logprobs": null, "finish_reason": finish});
        return Bytes::from(envelope(turn, answer, "chat.completion", choice).to_string());
    }
    let said = json!({"index": 0, "delta": wire, "finish_reason": null});
    let end = json!({"index": 0, "delta": {}, "finish_reason": finish});
    let chunk = |choice: Value| format!("data: {}\n\n", envelope(turn, answer, "chat.completion.chunk", choice));
    Bytes::from(format!("{}{}", chunk(said), chunk(end)))
}

fn envelope(turn: &Turn, answer: &Message, object: &str, choice: Value) -> Value {
    let model = answer.metadata.get("model").cloned().unwrap_or_else(|| json!("unknown"));
    let created = answer.created_at.as_second();
    json!({"id": format!("chatcmpl-{}", turn.id), "object": object, "created": created, "model": model, "choices": [choice]})
}
