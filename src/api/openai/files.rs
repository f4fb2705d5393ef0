//! Files that come with a chat message. Where the key may upload, they become what the tenant knows, after the answer is on its
//! way; they stay with their message in any case.

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::review::Upload;

/// Most files of a message that are taken in.
const FILES_MAX: usize = 8;

/// The files of the last message, if a user said it: those of earlier ones were taken in with them.
pub(super) fn files_in(body: &Map<String, Value>) -> Vec<Upload> {
    let last = body.get("messages").and_then(Value::as_array).and_then(|messages| messages.last());
    let parts = last.filter(|message| message["role"] == "user").and_then(|message| message["content"].as_array());
    parts.into_iter().flatten().filter_map(file).take(FILES_MAX).collect()
}

/// The words of the last message, if a person said it.
pub(super) fn last_said(body: &Map<String, Value>) -> Option<String> {
    let last = body.get("messages")?.as_array()?.last()?;
    let text = match (last.get("role")?.as_str()?, last.get("content")?) {
        ("user", Value::String(text)) => text.clone(),
        ("user", Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    Some(text)
}

/// A part with a file's bytes in it. One that is only named lies elsewhere; pictures and sound are for the model alone.
fn file(part: &Value) -> Option<Upload> {
    let file = part.get("file").filter(|_| part["type"] == "file")?;
    let (kind, data) = file.get("file_data")?.as_str()?.strip_prefix("data:")?.split_once(";base64,")?;
    let for_the_model = ["image/", "audio/", "video/"].iter().any(|begin| kind.starts_with(begin));
    let bytes = STANDARD.decode(data.trim()).ok().filter(|_| !for_the_model)?;
    let name = file.get("filename")?.as_str()?.to_owned();
    Some(Upload { name, title: None, bytes: Bytes::from(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(messages: Value, expected: &[&str]) {
        let Value::Object(body) = json!({ "messages": messages }) else { unreachable!("an object") };
        let names: Vec<String> = files_in(&body).into_iter().map(|file| file.name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn files_of_the_last_message_are_found() {
        let part = |name: &str, data: &str| json!({"type": "file", "file": {"filename": name, "file_data": data}});
        let text = part("a.txt", "data:text/plain;base64,SGVsbG8=");
        let said = |role: &str, parts: Vec<Value>| json!({"role": role, "content": parts});
        check(json!([said("user", vec![text.clone(), json!({"type": "text", "text": "?"})])]), &["a.txt"]);
        check(json!([said("user", vec![text.clone()]), said("assistant", vec![])]), &[]);
        check(json!([said("tool", vec![text])]), &[]);
        let picture = part("a.png", "data:image/png;base64,SGVsbG8=");
        let elsewhere = json!({"type": "file", "file": {"file_id": "file-1"}});
        check(
            json!([said("user", vec![picture, elsewhere, part("b", "data:text/plain;base64,%%"), part("c", "x")])]),
            &[],
        );
        check(json!(["odd", {"role": "user", "content": "text"}]), &[]);
    }
}
