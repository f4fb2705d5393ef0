//! JSON, or lines of it. An object of plain values is one block; what is nested stands under its path.

use serde_json::{Map, Value};

use super::{Block, ParseError};

pub(super) fn parse(text: &str) -> Result<Vec<Block>, ParseError> {
    let mut blocks = Vec::new();
    match serde_json::from_str(text) {
        Ok(value) => walk(&value, "", &mut blocks),
        Err(error) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let values: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
            // What is neither is told as what it looks like.
            let values = values.map_err(|_| ParseError::broken(format!("it is no JSON: {error}")))?;
            values.iter().for_each(|value| walk(value, "", &mut blocks));
        }
    }
    Ok(blocks)
}

fn walk(value: &Value, path: &str, blocks: &mut Vec<Block>) {
    match value {
        Value::Object(fields) => object(fields, path, blocks),
        Value::Array(items) if items.iter().all(is_plain) => say(path, &listed(items), blocks),
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, blocks)),
        plain => say(path, &told(plain), blocks),
    }
}

/// The plain values of an object together, then the others under their names.
fn object(fields: &Map<String, Value>, path: &str, blocks: &mut Vec<Block>) {
    let is_short = |value: &Value| match value {
        Value::Array(items) => items.iter().all(is_plain),
        value => is_plain(value),
    };
    let line = |(name, value): (&String, &Value)| {
        let told = value.as_array().map_or_else(|| told(value), |items| listed(items));
        (!told.is_empty()).then(|| format!("{name}: {told}"))
    };
    let short: Vec<String> = fields.iter().filter(|(_, value)| is_short(value)).filter_map(line).collect();
    if !short.is_empty() {
        say(path, &short.join("; "), blocks);
    }
    for (name, value) in fields.iter().filter(|(_, value)| !is_short(value)) {
        let below = if path.is_empty() { name.clone() } else { format!("{path} › {name}") };
        walk(value, &below, blocks);
    }
}

fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Object(_) | Value::Array(_))
}

fn listed(items: &[Value]) -> String {
    items.iter().map(told).filter(|told| !told.is_empty()).collect::<Vec<_>>().join(", ")
}

fn told(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn say(path: &str, text: &str, blocks: &mut Vec<Block>) {
    if !text.is_empty() {
        blocks.push(Block::paragraph(text).at(path));
    }
}
