//! The memory model: whether it is there, what it cost today, and what went wrong.

use serde_json::Value;

use super::Check;
use super::there::{is_same, list_models};
use crate::cli::engine::variable;
use crate::cli::memory_model;
use crate::cli::table::counted;
use crate::config::Settings;

/// Who summarises, and whether it can.
pub(super) async fn model(settings: &Settings, server_runs: bool) -> Check {
    let choice = match memory_model::choose(settings, variable) {
        Ok(Some(choice)) => choice,
        Ok(None) => return Check::ok("memory", "the built-in summariser; `memory_url` and `memory_model` set another"),
        Err(reason) => return Check::fail("memory", reason),
    };
    let told = format!("{} at {}", choice.model, choice.url);
    match list_models(&choice.url, choice.key.as_deref()).await {
        // Some servers list nothing and answer all the same.
        Ok(list) if list.is_empty() || list.iter().any(|name| is_same(name, &choice.model)) => {
            Check::ok("memory", told)
        }
        Ok(list) => Check::warn(
            "memory",
            format!("{} does not list `{}`; it has {} others", choice.url, choice.model, list.len()),
        ),
        Err(reason) if server_runs => {
            Check::warn("memory", format!("{reason} (in this shell; the running server may know better)"))
        }
        Err(reason) => Check::warn("memory", format!("{reason}; until it answers the built-in summarises")),
    }
}

/// What a running server tells of the day. A server from before there were memory models does not say.
pub(super) fn judge(stats: &Value) -> Option<Check> {
    let model = stats["memory_model"].as_str()?;
    let today = stats["memory_today"].as_object()?;
    let count = |name: &str| today.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (calls, tokens, failures) = (count("calls"), count("tokens"), count("failures"));
    let (fallbacks, capped) = (count("fallbacks"), count("capped"));
    if calls + failures + fallbacks == 0 {
        return None;
    }
    let told = format!("{model} today: {} and {}", counted(calls, "call"), counted(tokens, "token"));
    if failures + fallbacks == 0 {
        return Some(Check::ok("memory", told));
    }
    let last = today.get("last_failure").and_then(Value::as_str).unwrap_or("none");
    let mut detail = format!(
        "{told}, {} (last: {last}), {} done by the built-in",
        counted(failures, "failure"),
        counted(fallbacks, "task")
    );
    if capped > 0 {
        detail.push_str(&format!("; {capped} because `memory_calls_per_day` or `memory_tokens_per_day` was reached"));
    }
    detail.push_str("; `GET /api/v1/jobs/answers` shows what could not be used");
    Some(Check::warn("memory", detail))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_day_is_told() {
        let stats = |today: Value| json!({ "memory_model": "qwen", "memory_today": today });
        assert_eq!(judge(&json!({})), None);
        assert_eq!(judge(&stats(json!({ "calls": 0 }))), None);
        let well = judge(&stats(json!({ "calls": 3, "tokens": 900 }))).expect("told");
        assert_eq!((well.status, well.detail.as_str()), (Status::Ok, "qwen today: 3 calls and 900 tokens"));
        let today =
            json!({ "calls": 3, "tokens": 9, "failures": 2, "last_failure": "busy", "fallbacks": 4, "capped": 1 });
        let ill = judge(&stats(today)).expect("told");
        assert_eq!(ill.status, Status::Warn);
        for part in ["2 failures (last: busy)", "4 tasks done by the built-in", "1 because `memory_calls_per_day`"] {
            assert!(ill.detail.contains(part), "{}", ill.detail);
        }
    }
}
