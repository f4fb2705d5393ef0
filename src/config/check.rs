//! Settings that do not fit together are refused before anything is done with them.

use super::*;

impl Settings {
    /// What is wrong with the settings as a whole, with what to do about it.
    pub fn check(&self) -> Result<(), String> {
        let bounds: [(&str, usize, std::ops::RangeInclusive<usize>); 29] = [
            ("context_messages", self.context_messages, 0..=1_000),
            ("recall_tokens", self.recall_tokens, 0..=100_000),
            ("recall_episodes", self.recall_episodes, 0..=20),
            ("window_turns", self.window_turns, 0..=10_000),
            ("stretch_turns", self.stretch_turns, 1..=1_000),
            ("session_summarize_after", self.session_summarize_after, 3..=1_000),
            ("session_ttl_hours", self.session_ttl_hours as usize, 1..=HOURS_MAX),
            ("session_max_messages", self.session_max_messages, 2..=MESSAGES_MAX),
            ("session_max_sessions", self.session_max_sessions, 1..=1_000_000),
            ("session_memory_total_mb", self.session_memory_total_mb as usize, 1..=1_000_000),
            ("summary_tokens", self.summary_tokens, 16..=10_000),
            ("trace_candidates", self.trace_candidates, 0..=200),
            ("index_bytes_max", self.index_bytes_max, 1 << 20..=1 << 40),
            ("embedder_dimensions", self.embedder_dimensions, 0..=65_536),
            ("model_tokens_max", self.model_tokens_max, 256..=100_000_000),
            ("topics_max", self.topics_max, 1..=200),
            ("topic_messages", self.topic_messages, 0..=1_000),
            ("memory_model_tokens_max", self.memory_model_tokens_max, 2_048..=100_000_000),
            ("clarifications_max", self.clarifications_max, 1..=1_000_000),
            ("clarifications_tenant_max", self.clarifications_tenant_max, 1..=1_000_000),
            ("cleanup_batch", self.cleanup_batch, 1..=100_000),
            ("document_bytes_max", self.document_bytes_max, 1_024..=64 << 20),
            ("query_chars_max", self.query_chars_max, 1..=10_000_000),
            ("answer_chars_max", self.answer_chars_max, 1..=10_000_000),
            ("body_bytes_max", self.body_bytes_max, 1_024..=1 << 30),
            ("header_bytes_max", self.header_bytes_max, 8_192..=1 << 20),
            ("bodies_bytes_max", self.bodies_bytes_max, 4_096..=1 << 40),
            ("connections_max", self.connections_max, 1..=1_000_000),
            ("connections_per_address_max", self.connections_per_address_max, 0..=1_000_000),
        ];
        for (name, value, allowed) in bounds {
            if !allowed.contains(&value) {
                return Err(format!("`{name}` is {value}, it must be from {} to {}", allowed.start(), allowed.end()));
            }
        }
        let bodies_bytes_min = self.body_bytes_max.saturating_mul(4).max(self.document_bytes_max.saturating_mul(2));
        if self.bodies_bytes_max < bodies_bytes_min {
            return Err(format!(
                "`bodies_bytes_max` is {}, it must be at least four times `body_bytes_max` and twice \
                 `document_bytes_max`: {bodies_bytes_min}",
                self.bodies_bytes_max
            ));
        }
        check_megabytes(self.session_memory_max_mb).map_err(|reason| format!("`session_memory_max_mb` {reason}"))?;
        if !(Period::seconds(1)..=Period::hours(7 * 24)).contains(&self.tools_patience) {
            return Err(format!("`tools_patience` is {}, it must be from 1s to 7d", self.tools_patience));
        }
        if self.clarification_ttl > Period::hours(24) {
            return Err("`clarification_ttl` is over 24h; what was asked so long ago is no open question".into());
        }
        if when::zone(&self.time_zone).is_none() {
            return Err(format!(
                "`time_zone` is `{}`, it must be a name such as Europe/Amsterdam or an offset such as +02:00",
                self.time_zone
            ));
        }
        if self.window_turns > 0 && self.window_keep >= self.window_turns {
            return Err("`window_keep` leaves nothing of `window_turns` to be summarised".into());
        }
        if self.topic_messages > 0 && self.topic_keep >= self.topic_messages {
            return Err("`topic_keep` leaves nothing of `topic_messages` to be summarised".into());
        }
        if self.answer_tokens >= self.model_tokens_max {
            return Err("`answer_tokens` leaves nothing of `model_tokens_max` for the question".into());
        }
        if HeaderName::try_from(self.client_address_header.as_str()).is_err() && !self.client_address_header.is_empty()
        {
            return Err(format!(
                "`client_address_header` is `{}`, which cannot be a header",
                self.client_address_header
            ));
        }
        let is_postgres = |url: &str| url.starts_with("postgres://") || url.starts_with("postgresql://");
        if self.database_url().is_some_and(|url| !is_postgres(url)) {
            return Err("`database_url` must begin with postgres://; a file is named by `data`".into());
        }
        if self.database_connections_max == 0 {
            return Err("`database_connections_max` must be 1 or more".into());
        }
        if self.database_url().is_some() && !cfg!(feature = "postgres") {
            return Err("`database_url` is set, and this recalld was built without the feature `postgres`".into());
        }
        let is_redis = |url: &str| url.starts_with("redis://") || url.starts_with("rediss://");
        if self.live_url().is_some_and(|url| !is_redis(url)) {
            return Err("`live_url` must begin with redis://, or rediss:// for TLS; empty keeps sessions here".into());
        }
        if self.live_url().is_some() && !cfg!(feature = "redis") {
            return Err("`live_url` is set, and this recalld was built without the feature `redis`".into());
        }
        self.webhook()?;
        if self.api_key().is_some_and(|key| key.len() < 16) {
            return Err("`api_key` is shorter than 16 characters; make one with `openssl rand -hex 32`".into());
        }
        Ok(())
    }
}
