//! Reading the answer: vectors in the order of the texts, or what is wrong with them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::normalise;
use crate::model::openai::error_message;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Which text it is about. Some servers leave it out and answer in order.
    index: Option<usize>,
    embedding: Floats,
}

/// The vectors of so many texts, at length one.
pub(super) fn read(bytes: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, String> {
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| misread(bytes, &error))?;
    if answer.data.len() != texts {
        return Err(format!("it has {} vectors for {texts} texts", answer.data.len()));
    }
    let mut vectors = in_order(answer.data)?;
    vectors.iter_mut().try_for_each(|vector| check(vector).map(|()| normalise(vector)))?;
    Ok(vectors)
}

/// Why it is no answer, in the server's words if it has some: some gateways send their errors with status 200.
fn misread(bytes: &[u8], error: &serde_json::Error) -> String {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => error_message(&value)
            .map_or_else(|| format!("it is no list of vectors: {error}"), |said| format!("it is an error: {said}")),
        Err(_) => format!("it is not JSON: {}", String::from_utf8_lossy(bytes)),
    }
}

/// The vectors by their index.
fn in_order(entries: Vec<Entry>) -> Result<Vec<Vec<f32>>, String> {
    let mut places: Vec<Option<Vec<f32>>> = entries.iter().map(|_| None).collect();
    for (at, entry) in entries.into_iter().enumerate() {
        let index = entry.index.unwrap_or(at);
        match places.get_mut(index) {
            Some(place @ None) => *place = Some(entry.embedding.0),
            Some(Some(_)) => return Err(format!("it has two vectors with the index {index}")),
            None => return Err(format!("it has a vector with the index {index} and none was asked for")),
        }
    }
    // As many places as entries and none filled twice: all are filled.
    Ok(places.into_iter().flatten().collect())
}

fn check(vector: &[f32]) -> Result<(), String> {
    if vector.is_empty() {
        return Err("it has an empty vector".into());
    }
    if vector.iter().any(|value| !value.is_finite()) {
        return Err("it has a vector with values that are no numbers (NaN or infinite)".into());
    }
    Ok(())
}

/// A vector, as a list of numbers or as base64 of little-endian floats.
struct Floats(Vec<f32>);

impl<'de> Deserialize<'de> for Floats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FloatsVisitor).map(Self)
    }
}

struct FloatsVisitor;

impl<'de> Visitor<'de> for FloatsVisitor {
    type Value = Vec<f32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector as a list of numbers or as base64")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Self::Value, A::Error> {
        let mut vector = Vec::new();
        while let Some(number) = numbers.next_element()? {
            vector.push(number);
        }
        Ok(vector)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let bytes = STANDARD.decode(text).map_err(|error| E::custom(format!("a vector is no base64: {error}")))?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(E::custom("a vector in base64 is cut off"));
        }
        Ok(floats.iter().map(|&float| f32::from_le_bytes(float)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, expected: Result<&[[f32; 2]], &str>) {
        let expected = expected.map(|vectors| vectors.iter().map(|vector| vector.to_vec()).collect::<Vec<_>>());
        assert_eq!(read(answer.as_bytes(), 2), expected.map_err(str::to_owned));
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let expected = Ok(&[[1.0, 0.0], [0.0, 1.0]][..]);
        check(r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[0,2.5]}],"model":"x"}"#, expected);
        check(r#"{"data":[{"embedding":[0,2.5],"index":1},{"index":0,"embedding":[1,0]}]}"#, expected);
        check(r#"{"data":[{"embedding":[1,0]},{"embedding":[0,9]}]}"#, expected);
        check(r#"{"data":[{"embedding":"AACAPwAAAAA="},{"embedding":"AAAAAAAAAEA="}]}"#, expected);
    }

    #[test]
    fn what_is_no_answer_says_why() {
        check("<html>", Err("it is not JSON: <html>"));
        check(r#"{"error":{"message":"no such model"}}"#, Err("it is an error: no such model"));
        check(r#"{"data":[{"embedding":[1,0]}]}"#, Err("it has 1 vectors for 2 texts"));
        check(
            r#"{"data":[{"index":7,"embedding":[1]},{"index":0,"embedding":[1]}]}"#,
            Err("it has a vector with the index 7 and none was asked for"),
        );
        check(
            r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#,
            Err("it has two vectors with the index 0"),
        );
        check(r#"{"data":[{"embedding":[]},{"embedding":[1]}]}"#, Err("it has an empty vector"));
        let infinite = Err("it has a vector with values that are no numbers (NaN or infinite)");
        check(r#"{"data":[{"embedding":"AADAfw=="},{"embedding":[1]}]}"#, infinite);
    }

    #[track_caller]
    fn check_misread(answer: &str, part: &str) {
        let error = read(answer.as_bytes(), 1).expect_err("no answer");
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn half_a_vector_is_none() {
        check_misread(r#"{"data":[{"embedding":[1,null]}]}"#, "it is no list of vectors: invalid type: null");
        check_misread(r#"{"data":[{"embedding":[1,1e39]}]}"#, "it is no list of vectors: number out of range");
        check_misread(r#"{"data":[{"embedding":"AACA"}]}"#, "a vector in base64 is cut off");
        check_misread(r#"{"data":[{"embedding":"%"}]}"#, "a vector is no base64");
        check_misread(r#"{"object":"list"}"#, "missing field `data`");
    }
}
