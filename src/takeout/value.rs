//! What other programs write, read with patience.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::clock::from_micros;

/// A time: RFC 3339, or seconds, milliseconds, microseconds or nanoseconds since 1970.
pub(super) fn time(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => parsed(text.trim()),
        number => since_1970(number.as_f64()?),
    }
}

fn parsed(text: &str) -> Option<Timestamp> {
    // Times without a zone are meant in UTC by the programs that write them.
    let with_zone = text.parse().or_else(|_| format!("{}Z", text.replace(' ', "T")).parse());
    let at: Timestamp = with_zone.ok().or_else(|| since_1970(text.parse().ok()?))?;
    Some(from_micros(at.as_microsecond()))
}

/// Programs count in different units; which one is told by what it would come to.
fn since_1970(number: f64) -> Option<Timestamp> {
    if !number.is_finite() || number <= 0.0 {
        return None;
    }
    let seconds = [1.0, 1e3, 1e6, 1e9].into_iter().map(|unit| number / unit).find(|seconds| *seconds < 1e11)?;
    Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()
}

/// A text that says something.
pub(super) fn text(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.trim().is_empty())
}

/// A text without what no keyboard types: other programs leave such in.
pub(super) fn clean(text: &str) -> String {
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if text.contains(odd) { text.chars().filter(|c| !odd(*c)).collect() } else { text.to_owned() }
}

/// Copies fields that are there and say something.
pub(super) fn copied(from: &Value, names: &[(&str, &str)]) -> Map<String, Value> {
    let told = |value: &Value| !value.is_null() && value.as_str() != Some("");
    let field = |(theirs, ours): &(&str, &str)| {
        from.get(theirs).filter(|value| told(value)).map(|value| ((*ours).to_owned(), value.clone()))
    };
    names.iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(written: Value, expected: Option<&str>) {
        assert_eq!(time(Some(&written)).map(|at| at.to_string()).as_deref(), expected, "{written}");
    }

    #[test]
    fn times_are_read_in_every_unit() {
        check(json!("2026-05-12T14:03:00.5Z"), Some("2026-05-12T14:03:00.5Z"));
        check(json!("2026-05-12T16:03:00+02:00"), Some("2026-05-12T14:03:00Z"));
        check(json!("2026-05-12 14:03:00"), Some("2026-05-12T14:03:00Z"));
        check(json!(1_778_594_580), Some("2026-05-12T14:03:00Z"));
        check(json!(1_778_594_580.25), Some("2026-05-12T14:03:00.25Z"));
        check(json!(1_778_594_580_000_u64), Some("2026-05-12T14:03:00Z"));
        check(json!(1_778_594_580_000_000_000_u64), Some("2026-05-12T14:03:00Z"));
        check(json!("1778594580"), Some("2026-05-12T14:03:00Z"));
        for wrong in [json!(null), json!("soon"), json!(-5), json!(0), json!([1])] {
            check(wrong, None);
        }
    }
}
