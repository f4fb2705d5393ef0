//! Visitors' sessions: the Redis that several instances share, and what was lost of it.

use serde_json::Value;

use super::Check;
use crate::cli::table::counted;

/// Whether it answers, and whether it may throw sessions away.
#[cfg(feature = "redis")]
pub(super) async fn look(url: &str) -> Check {
    use crate::store::live::RedisSettings;

    let settings = RedisSettings::new(url);
    let place = settings.place();
    match settings.inspect().await {
        Ok(state) => {
            let (version, sessions) = (&state.version, counted(state.sessions, "session"));
            let told = format!("Redis {version} at {place} answers and has {sessions}");
            match state.evicts() {
                false => Check::ok("live", told),
                true => Check::warn(
                    "live",
                    format!(
                        "{told}; when its memory is full it throws sessions away (`maxmemory-policy {}`): set it to noeviction",
                        state.eviction
                    ),
                ),
            }
        }
        Err(error) => Check::fail(
            "live",
            format!(
                "Redis at {place}: {error}; is it there, and is `live_url` right? until it answers, visitors get 503"
            ),
        ),
    }
}

#[cfg(not(feature = "redis"))]
pub(super) async fn look(_: &str) -> Check {
    Check::fail("live", "`live_url` is set, and this recalld was built without the feature `redis`")
}

/// What a running server says of sessions that were lost. One that lost none says nothing.
pub(super) fn of_stats(stats: &Value) -> Option<Check> {
    let lost = stats["live_sessions_lost"].as_u64().filter(|lost| *lost > 0)?;
    let told = format!("{} lost with Redis since the server started; its log says when", counted(lost, "session"));
    Some(Check::warn("live", told))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use serde_json::json;

    #[test]
    fn sessions_that_were_lost_are_a_warning() {
        assert!(of_stats(&json!({})).is_none() && of_stats(&json!({"live_sessions_lost": 0})).is_none());
        assert_eq!(of_stats(&json!({"live_sessions_lost": 2})).expect("told").status, Status::Warn);
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn a_redis_that_is_not_there_is_a_failure() {
        // Port 9 is where nobody listens.
        let check = look("redis://:secret@127.0.0.1:9/").await;
        assert_eq!((check.status, check.detail.contains("secret")), (Status::Fail, false), "{}", check.detail);
    }
}
