//! Where Redis is, and what it is like.

use std::time::Duration;

use redis::Client;
use tokio::time::timeout;

use super::LiveError;

/// What all names begin with, unless the URL says otherwise.
const PREFIX: &str = "recalld";
/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where Redis is.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    pub(super) url: String,
    pub(super) prefix: String,
    pub(super) place: String,
}

impl RedisSettings {
    /// Reads `redis://user:password@host:port/database`, or `rediss://…` for TLS. `?prefix=name` keeps two deployments apart that share
    /// a database.
    pub fn new(url: &str) -> Self {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (own, others): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with("prefix="));
        let prefix = own.last().and_then(|part| part.strip_prefix("prefix=")).unwrap_or(PREFIX);
        let host = base.split_once("://").map_or(base, |(_, host)| host);
        let place = host.rsplit_once('@').map_or(host, |(_, host)| host).trim_end_matches('/');
        let url = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
        Self { url, prefix: format!("{prefix}:"), place: place.to_owned() }
    }

    /// Where it is, without its password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Looks at it from aside.
    pub async fn inspect(&self) -> Result<RedisState, LiveError> {
        let looked = timeout(PATIENCE, self.look()).await;
        let looked = looked.map_err(|_| LiveError::Unreachable("no answer within 2 s".to_owned()))?;
        looked.map_err(|error| LiveError::Unreachable(error.to_string()))
    }

    async fn look(&self) -> Result<RedisState, redis::RedisError> {
        let mut connection = Client::open(self.url.as_str())?.get_multiplexed_async_connection().await?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let sessions = redis::cmd("HLEN").arg(format!("{}w", self.prefix)).query_async(&mut connection).await?;
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(found, _)| *found == name).map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        Ok(RedisState { version: field("redis_version"), eviction: field("maxmemory_policy"), sessions })
    }
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSettings").field("place", &self.place).field("prefix", &self.prefix).finish()
    }
}

/// What a Redis is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisState {
    /// As it calls itself.
    pub version: String,
    /// What it does when its memory is full.
    pub eviction: String,
    /// Live sessions in it.
    pub sessions: u64,
}

impl RedisState {
    /// Whether it may throw sessions away that are in use.
    pub fn evicts(&self) -> bool {
        !matches!(self.eviction.as_str(), "noeviction" | "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: [&str; 3]) {
        let RedisSettings { url, prefix, place } = RedisSettings::new(url);
        assert_eq!([&*url, &*prefix, &*place], expected);
    }

    #[test]
    fn a_url_says_where_and_what_names_begin_with() {
        check("redis://localhost:6379/", ["redis://localhost:6379/", "recalld:", "localhost:6379"]);
        check(
            "rediss://me:s%40cret@cache.example/3?protocol=resp3&prefix=staging",
            ["rediss://me:s%40cret@cache.example/3?protocol=resp3", "staging:", "cache.example/3"],
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        assert!(!format!("{:?}", RedisSettings::new("redis://:hunter2@host/")).contains("hunter2"));
    }
}
