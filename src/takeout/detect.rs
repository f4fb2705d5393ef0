//! Which format a file has, by its beginning.

use super::{Format, transcript};

/// How much of a file's beginning tells.
pub const SAMPLE_BYTES: usize = 256 << 10;

/// How deep in the JSON names are looked at: an export is known by its outside.
const DEPTH_MAX: usize = 6;

/// The format of a file that begins so. `None` when it is none that is known.
pub fn detect(sample: &[u8]) -> Option<Format> {
    let text = String::from_utf8_lossy(sample);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    match text.starts_with(['{', '[']).then(|| names(text)) {
        Some(names) if !names.is_empty() => by_names(text, &names).or_else(|| by_lines(text)),
        _ => by_lines(text),
    }
}

fn by_names(text: &str, names: &[&str]) -> Option<Format> {
    let has = |name: &str| names.contains(&name);
    let ours = text.starts_with("{\"type\":") && (has("format") || has("sum"));
    Some(match () {
        () if ours => Format::Recalld,
        () if has("mapping") => Format::ChatGpt,
        () if has("chat_messages") => Format::Claude,
        () if has("history") && has("messages") => Format::OpenWebUi,
        () if has("lc") || (has("type") && has("data")) => Format::LangChain,
        () if has("memory") => Format::Mem0,
        () => return None,
    })
}

/// A transcript may begin with a bracket, too.
fn by_lines(text: &str) -> Option<Format> {
    transcript::is_one(text).then_some(Format::Transcript)
}

/// The names of fields near the surface, as far as the sample goes.
fn names(json: &str) -> Vec<&str> {
    let (mut found, mut depth) = (Vec::new(), 0_usize);
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = end_of_string(bytes, at + 1) else { break };
                let is_name = json[end + 1..].trim_start().starts_with(':');
                if is_name && depth <= DEPTH_MAX {
                    found.push(&json[at + 1..end]);
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Where the quote is that ends a string.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
}
