//! Settings: one typed page, loaded once, handed down in pieces.
//!
//! Flags win over environment variables (`RECALLD_…`), those over the file, that over the defaults.
//! Reading order: [`Settings`] (every setting there is), `value` (what some are made of), `shared` (what several
//! instances share), `load` (putting the layers together).

mod check;
mod load;
mod networks;
mod shared;
mod value;

pub use load::{ConfigError, Loaded, Origin, file_in_use, load};
pub use networks::Networks;
pub use value::{Aliases, HeaderNames, Origins, Secret};

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::HeaderName;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::episode::{EpisodeSettings, Window};
use crate::language::when;
use crate::live::{HOURS_MAX, LiveSettings, MEGABYTE, MESSAGES_MAX, check_megabytes};
use crate::memory::{AskingSettings, ClarificationSettings, InjectInto, KnowledgeSettings, MemorySettings, WindowAs};
use crate::mode::Mode;
use crate::period::{Period, Ttl};
use crate::recall::{Profile, RecallSettings};
use crate::store::WaitingBounds;
use crate::tenant::Limits;
use crate::webhook::{HookSettings, HookUrl, SigningSecret};

/// The commented file with every setting and its default; a test keeps it in step.
pub const SAMPLE: &str = include_str!("../../recalld.sample.toml");

/// Every setting, as written in `recalld.toml`. `recalld.sample.toml` explains each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the sample file says what each one means, and a test keeps the two in step")]
pub struct Settings {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub database_url: String,
    pub database_root_certificate: PathBuf,
    pub database_connections_max: usize,
    pub database_wait_timeout: Period,
    pub database_connect_timeout: Period,
    pub database_statement_timeout: Period,
    pub database_passages_held_max: usize,
    pub database_timeout: Period,
    pub spool_file: PathBuf,
    pub spool_turns_max: usize,
    pub spool_bytes_max: usize,
    pub live_url: String,
    pub log: String,
    pub log_format: LogFormat,

    pub upstream: String,
    pub upstream_key_env: String,
    pub model: String,
    pub upstream_connect_timeout: Period,
    pub upstream_reply_timeout: Period,
    pub upstream_idle_timeout: Period,
    pub upstream_retries_max: u32,
    pub model_aliases: Aliases,
    pub passthrough: Passthrough,

    pub api_key: String,
    pub auth_cache_max: Period,
    pub client_address_header: String,
    pub cors_origins: Origins,
    pub trusted_proxies: Networks,
    pub require_session_header: bool,
    pub unidentified: Unidentified,
    pub user_headers: HeaderNames,
    pub session_headers: HeaderNames,
    pub openwebui_jwt_secret_env: String,
    /// What that variable holds, put here by whoever loads the settings; never in a file.
    #[serde(skip)]
    pub openwebui_jwt_secret: Option<Secret>,

    pub mode: Mode,
    pub context_messages: usize,
    pub model_tokens_max: usize,
    pub answer_tokens: usize,
    pub window_as: WindowAs,
    pub inject: InjectInto,
    pub tools_patience: Period,
    pub language: String,
    pub templates_dir: PathBuf,

    pub recall_tokens: usize,
    pub recall_timeout: Period,
    pub recall_profile: RecallProfile,
    pub time_zone: String,
    pub recall_episodes: usize,
    pub trace_candidates: usize,
    pub index_bytes_max: usize,
    pub weights_file: PathBuf,
    pub embedder: String,
    pub embedder_model: String,
    pub embedder_key_env: String,
    pub embedder_dimensions: usize,
    pub embedder_timeout: Period,

    pub memory_url: String,
    pub memory_model: String,
    pub memory_key_env: String,
    pub memory_timeout: Period,
    pub memory_model_tokens_max: usize,
    pub memory_idle: Period,
    pub memory_calls_per_day: u64,
    pub memory_tokens_per_day: u64,

    pub window_turns: usize,
    pub window_keep: usize,
    pub stretch_turns: usize,
    pub enable_session_memory: bool,
    pub session_ttl_hours: u64,
    pub session_max_messages: usize,
    pub session_summarize_after: usize,
    pub session_memory_max_mb: f64,
    pub session_max_sessions: usize,
    pub session_memory_total_mb: u64,
    pub summary_tokens: usize,
    pub summary_hours: Period,
    pub topics_max: usize,
    pub topic_messages: usize,
    pub topic_keep: usize,

    pub clarification_ttl: Period,
    pub clarifications_max: usize,
    pub clarifications_tenant_max: usize,

    pub ttl: Ttl,
    pub cleanup_every: Period,
    pub cleanup_batch: usize,

    pub session_end_webhook: String,
    pub session_end_secret: String,
    pub webhook_private_addresses: bool,

    pub requests_per_minute: u64,
    pub tokens_per_day: u64,
    pub sessions_max: u64,
    pub turns_max: u64,
    pub storage_bytes_max: u64,

    pub tenant_learns: bool,
    pub document_bytes_max: usize,
    pub knowledge_parser: PathBuf,

    pub query_chars_max: usize,
    pub answer_chars_max: usize,
    pub metadata_bytes_max: usize,
    pub body_bytes_max: usize,
    pub header_bytes_max: usize,
    pub header_timeout: Period,
    pub body_timeout: Period,
    pub bodies_bytes_max: usize,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    pub waiting_turns_max: usize,
    pub waiting_bytes_max: usize,
    pub shutdown_timeout: Period,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

/// Which requests under `/v1` are passed on that are no conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Passthrough {
    /// Embeddings, completions, audio, images, moderations.
    Listed,
    /// Everything. Files and batches at the provider are then shared by all tenants.
    All,
}

/// Which kind of chat recall assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecallProfile {
    /// Told by who speaks.
    Auto,
    /// People with names talk to each other.
    People,
    /// A person talks to a model.
    Assistant,
    /// Both.
    Mixed,
}

impl RecallProfile {
    /// The profile, unless it is to be told by who speaks.
    pub fn profile(self) -> Option<Profile> {
        match self {
            Self::Auto => None,
            Self::People => Some(Profile::People),
            Self::Assistant => Some(Profile::Assistant),
            Self::Mixed => Some(Profile::Mixed),
        }
    }
}

/// Whose memory a request without a user belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unidentified {
    /// `shared` on loopback without a key, else `session`.
    Auto,
    /// All of them are one user, `anonymous`.
    Shared,
    /// Each session is a user of its own.
    Session,
}

impl Default for Settings {
    fn default() -> Self {
        let memory = MemorySettings::default();
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7077)),
            data: PathBuf::new(),
            database_url: String::new(),
            database_root_certificate: PathBuf::new(),
            database_connections_max: 16,
            database_wait_timeout: Period::seconds(30),
            database_connect_timeout: Period::seconds(5),
            database_statement_timeout: Period::seconds(20),
            database_passages_held_max: 20_000,
            database_timeout: Period::seconds(2),
            spool_file: PathBuf::new(),
            spool_turns_max: 100_000,
            spool_bytes_max: 256 * 1024 * 1024,
            live_url: String::new(),
            log: "info".into(),
            log_format: LogFormat::Text,
            upstream: "auto".into(),
            upstream_key_env: "OPENAI_API_KEY".into(),
            model: String::new(),
            upstream_connect_timeout: Period::seconds(5),
            upstream_reply_timeout: Period::seconds(120),
            upstream_idle_timeout: Period::seconds(60),
            upstream_retries_max: 2,
            model_aliases: Aliases::default(),
            passthrough: Passthrough::Listed,
            api_key: String::new(),
            auth_cache_max: Period::seconds(memory.auth_cache_max.as_secs()),
            client_address_header: String::new(),
            cors_origins: Origins::default(),
            trusted_proxies: Networks::known(&["127.0.0.1", "::1"]),
            require_session_header: false,
            unidentified: Unidentified::Auto,
            user_headers: HeaderNames::known(&["X-User-ID", "X-OpenWebUI-User-Id"]),
            session_headers: HeaderNames::known(&["X-Session-ID", "X-OpenWebUI-Chat-Id", "X-Conversation-Id"]),
            openwebui_jwt_secret_env: String::new(),
            openwebui_jwt_secret: None,
            mode: Mode::Active,
            context_messages: memory.context_messages,
            model_tokens_max: memory.model_tokens_max,
            answer_tokens: memory.answer_tokens,
            window_as: memory.window_as,
            inject: memory.inject,
            tools_patience: Period::from_micros(memory.tools_patience.as_micros() as i64),
            language: "auto".into(),
            templates_dir: PathBuf::new(),
            recall_tokens: memory.recall.tokens_max,
            recall_timeout: Period::from_micros(memory.recall.patience.as_micros() as i64),
            recall_profile: RecallProfile::Auto,
            time_zone: "UTC".into(),
            recall_episodes: memory.recall.episodes_max,
            trace_candidates: memory.recall.trace_candidates,
            index_bytes_max: memory.recall.index_bytes_max,
            weights_file: PathBuf::new(),
            embedder: "builtin".into(),
            embedder_model: String::new(),
            embedder_key_env: "OPENAI_API_KEY".into(),
            embedder_dimensions: 0,
            embedder_timeout: Period::seconds(20),
            memory_url: String::new(),
            memory_model: String::new(),
            memory_key_env: "OPENAI_API_KEY".into(),
            memory_timeout: Period::seconds(60),
            memory_model_tokens_max: 8_192,
            memory_idle: Period::from_micros(memory.asking.idle.as_micros() as i64),
            memory_calls_per_day: memory.asking.calls_per_day,
            memory_tokens_per_day: memory.asking.tokens_per_day,
            window_turns: memory.episodes.durable.at,
            window_keep: memory.episodes.durable.keep,
            stretch_turns: memory.episodes.durable.stretch,
            enable_session_memory: memory.live.enabled,
            session_ttl_hours: memory.live.ttl.as_secs() / 3600,
            session_max_messages: memory.live.messages_max,
            session_summarize_after: memory.live.summarize_after,
            session_memory_max_mb: memory.live.bytes_max as f64 / MEGABYTE,
            session_max_sessions: memory.live.sessions_max,
            session_memory_total_mb: memory.live_bytes_max as u64 / MEGABYTE as u64,
            summary_tokens: memory.episodes.summary_tokens,
            summary_hours: Period::hours(24),
            topics_max: memory.topics_max,
            topic_messages: memory.episodes.topic.at - 1,
            topic_keep: memory.episodes.topic.keep,
            clarification_ttl: Period::seconds(memory.clarifications.ttl.as_secs()),
            clarifications_max: memory.clarifications.held_max,
            clarifications_tenant_max: memory.clarifications.tenant_max,
            ttl: memory.ttl,
            cleanup_every: Period::hours(6),
            cleanup_batch: memory.cleanup_batch,
            session_end_webhook: String::new(),
            session_end_secret: String::new(),
            webhook_private_addresses: memory.webhook.private_addresses,
            requests_per_minute: memory.limits.requests_per_minute,
            tokens_per_day: memory.limits.tokens_per_day,
            sessions_max: memory.limits.sessions_max,
            turns_max: memory.limits.turns_max,
            storage_bytes_max: memory.limits.storage_bytes_max,
            tenant_learns: memory.tenant_learns,
            document_bytes_max: memory.knowledge.bytes_max,
            knowledge_parser: PathBuf::new(),
            query_chars_max: memory.query_chars_max,
            answer_chars_max: memory.answer_chars_max,
            metadata_bytes_max: memory.metadata_bytes_max,
            body_bytes_max: 8 * 1024 * 1024,
            header_bytes_max: 32 * 1024,
            header_timeout: Period::seconds(10),
            body_timeout: Period::seconds(30),
            bodies_bytes_max: 128 * 1024 * 1024,
            connections_max: 4_096,
            connections_per_address_max: 0,
            waiting_turns_max: 1_000,
            waiting_bytes_max: 64 * 1024 * 1024,
            shutdown_timeout: Period::seconds(10),
        }
    }
}

impl Settings {
    /// Most open connections of one address.
    pub fn connections_per_address(&self) -> usize {
        match self.connections_per_address_max {
            0 => self.connections_max.div_ceil(2),
            max => max,
        }
    }

    /// Where the data file is: the setting, else the user's data folder.
    pub fn data_file(&self, home: impl Fn(&str) -> Option<String>) -> PathBuf {
        if !self.data.as_os_str().is_empty() {
            return self.data.clone();
        }
        let share = home("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let share = share.or_else(|| home("HOME").map(|home| PathBuf::from(home).join(".local/share")));
        share.unwrap_or_else(|| PathBuf::from(".")).join("recalld").join("recalld.db")
    }

    /// The key clients must show, if one is set.
    pub fn api_key(&self) -> Option<&str> {
        Some(self.api_key.as_str()).filter(|key| !key.is_empty())
    }

    /// Whether the secret that was asked for is there. Without it nobody could be told apart, so nobody
    /// should be served.
    pub fn check_secret(&self) -> Result<(), String> {
        let variable = &self.openwebui_jwt_secret_env;
        if variable.is_empty() || self.openwebui_jwt_secret.is_some() {
            return Ok(());
        }
        Err(format!(
            "`openwebui_jwt_secret_env` names the variable {variable}, which is not set; put Open WebUI's \
             FORWARD_USER_INFO_HEADER_JWT_SECRET into it"
        ))
    }

    /// Whether requests without a user share one memory. `keyed` says whether the data file has keys.
    pub fn share_unidentified(&self, keyed: bool) -> bool {
        match self.unidentified {
            Unidentified::Shared => true,
            Unidentified::Session => false,
            Unidentified::Auto => !keyed && self.api_key().is_none() && self.listen.ip().is_loopback(),
        }
    }

    /// Whether anybody may be served. `keyed` says whether the data file has keys.
    pub fn check_reach(&self, keyed: bool) -> Result<(), String> {
        if keyed || self.api_key().is_some() || self.listen.ip().is_loopback() {
            return Ok(());
        }
        Err(format!(
            "`listen` is {}, an address others can reach, and there is no key; set `api_key` (RECALLD_API_KEY), make a \
             key with `recalld keys create --rights admin`, or listen on 127.0.0.1",
            self.listen
        ))
    }

    /// The part the memory is made with.
    pub fn memory(&self) -> MemorySettings {
        MemorySettings {
            context_messages: self.context_messages,
            model_tokens_max: self.model_tokens_max,
            answer_tokens: self.answer_tokens,
            window_as: self.window_as,
            inject: self.inject,
            query_chars_max: self.query_chars_max,
            answer_chars_max: self.answer_chars_max,
            metadata_bytes_max: self.metadata_bytes_max,
            ttl: self.ttl,
            topics_max: self.topics_max,
            clarifications: self.clarifications(),
            tools_patience: self.tools_patience.duration(),
            cleanup_batch: self.cleanup_batch,
            recall: self.recall(),
            episodes: self.episodes(),
            asking: AskingSettings {
                calls_per_day: self.memory_calls_per_day,
                tokens_per_day: self.memory_tokens_per_day,
                idle: self.memory_idle.duration(),
            },
            zone: when::zone(&self.time_zone).unwrap_or(TimeZone::UTC),
            mode: self.mode,
            // The answerer is made with the server's model.
            model: None,
            limits: self.limits(),
            knowledge: self.knowledge(),
            auth_cache_max: self.auth_cache_max.duration(),
            // `check` has seen that it can be read.
            webhook: self.webhook().unwrap_or_default(),
            tenant_learns: self.tenant_learns,
            live: self.live(),
            // Tenants have their own.
            session_presets: std::collections::BTreeMap::new(),
            live_bytes_max: (self.session_memory_total_mb as usize).saturating_mul(MEGABYTE as usize),
        }
    }

    /// How live sessions behave.
    fn live(&self) -> LiveSettings {
        LiveSettings {
            enabled: self.enable_session_memory,
            ttl: Period::hours(self.session_ttl_hours).duration(),
            messages_max: self.session_max_messages,
            summarize_after: self.session_summarize_after,
            bytes_max: (self.session_memory_max_mb * MEGABYTE) as usize,
            sessions_max: self.session_max_sessions,
        }
    }

    /// Where the end of a session is told.
    fn webhook(&self) -> Result<HookSettings, String> {
        let said = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let about = |name: &str, error: String| format!("`{name}` is not valid: {error}");
        let url = said(&self.session_end_webhook).map(HookUrl::try_from).transpose();
        let secret = said(&self.session_end_secret).map(SigningSecret::try_from).transpose();
        let settings = HookSettings {
            url: url.map_err(|error| about("session_end_webhook", error))?,
            secret: secret.map_err(|error| about("session_end_secret", error))?,
            private_addresses: self.webhook_private_addresses,
        };
        settings.target().map_err(|error| about("session_end_webhook", error.to_string()))?;
        Ok(settings)
    }

    /// How much a tenant may use that has no limits of its own.
    fn limits(&self) -> Limits {
        Limits {
            requests_per_minute: self.requests_per_minute,
            tokens_per_day: self.tokens_per_day,
            sessions_max: self.sessions_max,
            turns_max: self.turns_max,
            storage_bytes_max: self.storage_bytes_max,
        }
    }

    /// How files become knowledge. Without a parser only notes do; whoever runs the program names it.
    fn knowledge(&self) -> KnowledgeSettings {
        let parser = Some(self.knowledge_parser.clone()).filter(|path| !path.as_os_str().is_empty());
        KnowledgeSettings { parser, bytes_max: self.document_bytes_max, ..KnowledgeSettings::default() }
    }

    /// How long clarifications wait, and how many.
    fn clarifications(&self) -> ClarificationSettings {
        ClarificationSettings {
            ttl: self.clarification_ttl.duration(),
            held_max: self.clarifications_max,
            tenant_max: self.clarifications_tenant_max,
        }
    }

    /// The part recall is made with. The embedder of a question has two thirds of the time, so that words can still
    /// do without it.
    fn recall(&self) -> RecallSettings {
        let patience = self.recall_timeout.duration();
        RecallSettings {
            tokens_max: self.recall_tokens,
            patience,
            embedder_patience: patience * 2 / 3,
            index_bytes_max: self.index_bytes_max,
            profile: self.recall_profile.profile(),
            trace_candidates: self.trace_candidates,
            episodes_max: self.recall_episodes,
            ..RecallSettings::default()
        }
    }

    /// When and how conversations are compressed. Of an ephemeral session two thirds go when there is more than its bound.
    pub fn episodes(&self) -> EpisodeSettings {
        let going = self.session_summarize_after * 2 / 3;
        let over = self.session_summarize_after + 1;
        EpisodeSettings {
            durable: Window { at: self.window_turns, keep: self.window_keep, stretch: self.stretch_turns },
            ephemeral: Window { at: over, keep: over - going, stretch: 2 * going },
            topic: self.topic_window(),
            summary_tokens: self.summary_tokens,
            hours_kept: self.summary_hours.duration(),
        }
    }

    /// When messages of a topic go into its summary, in steps of what a full one has too much; 0 is never.
    fn topic_window(&self) -> Window {
        let at = if self.topic_messages == 0 { 0 } else { self.topic_messages + 1 };
        Window { at, keep: self.topic_keep, stretch: at.saturating_sub(self.topic_keep).max(1) }
    }

    /// How much may wait: in memory for the disk, in the spool for a database.
    pub fn waiting(&self) -> WaitingBounds {
        match self.database_url() {
            None => WaitingBounds { turns_max: self.waiting_turns_max, bytes_max: self.waiting_bytes_max },
            Some(_) => WaitingBounds { turns_max: self.spool_turns_max, bytes_max: self.spool_bytes_max },
        }
    }
}
