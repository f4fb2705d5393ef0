//! What a tenant may have of its own. What it does not say is as the server's settings say.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Limits;
use crate::mode::Mode;
use crate::period::Ttl;
use crate::session::{SessionPreset, TemplatePatch};
use crate::spelling::closest;
use crate::webhook::{HookSettings, HookUrl, SigningSecret};

/// Largest settings of a tenant, as JSON.
const SETTINGS_BYTES_MAX: usize = 64 * 1024;
/// Longest that a visitor's session may wait: a week.
const SESSION_HOURS_MAX: usize = 7 * 24;

/// A tenant's settings; each is named as the server's is. docs/tenants.md says what each does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the server's settings of the same names are explained in the sample file")]
pub struct TenantSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Words of its own, by language.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, TemplatePatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_messages: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tokens_max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_chars_max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_chars_max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_end_webhook: Option<HookUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_end_secret: Option<SigningSecret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_private_addresses: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_learns: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_session_memory: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_ttl_hours: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_max_messages: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_summarize_after: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_memory_max_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_max_sessions: Option<usize>,
    /// What sessions of visitors begin with, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub session_templates: BTreeMap<String, SessionPreset>,
}

/// Every name there is; a test keeps it in step.
const NAMES: [&str; 28] = [
    "ttl",
    "mode",
    "model",
    "language",
    "templates",
    "context_messages",
    "model_tokens_max",
    "answer_tokens",
    "recall_tokens",
    "time_zone",
    "query_chars_max",
    "answer_chars_max",
    "requests_per_minute",
    "tokens_per_day",
    "sessions_max",
    "turns_max",
    "storage_bytes_max",
    "session_end_webhook",
    "session_end_secret",
    "webhook_private_addresses",
    "tenant_learns",
    "enable_session_memory",
    "session_ttl_hours",
    "session_max_messages",
    "session_summarize_after",
    "session_memory_max_mb",
    "session_max_sessions",
    "session_templates",
];

/// Why settings cannot be a tenant's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Nobody knows this setting.
    #[error("there is no setting `{name}` of a tenant{}", .suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    Unknown {
        /// As written.
        name: String,
        /// What may have been meant.
        suggestion: Option<&'static str>,
    },
    /// The value does not fit.
    #[error("`{name}` is not valid: {reason}")]
    Invalid {
        /// Which setting.
        name: String,
        /// Why it does not fit.
        reason: String,
    },
    /// Too much of it.
    #[error("the settings take {0} bytes as JSON, at most {SETTINGS_BYTES_MAX} are allowed")]
    TooLarge(usize),
}

impl TenantSettings {
    /// These settings with some changed; `null` takes one away, so that the server's counts again.
    pub fn changed(&self, changes: &Map<String, Value>) -> Result<Self, SettingsError> {
        let mut all = self.to_map();
        for (name, value) in changes {
            if !NAMES.contains(&name.as_str()) {
                let suggestion = closest(name, NAMES.into_iter());
                return Err(SettingsError::Unknown { name: name.clone(), suggestion });
            }
            match value {
                Value::Null => drop(all.remove(name)),
                value => drop(all.insert(name.clone(), value.clone())),
            }
            // After each, so that the error names the one.
            read(&all).map_err(|reason| SettingsError::Invalid { name: name.clone(), reason })?;
        }
        let size = Value::Object(all.clone()).to_string().len();
        if size > SETTINGS_BYTES_MAX {
            return Err(SettingsError::TooLarge(size));
        }
        let changed = read(&all).map_err(|reason| SettingsError::Invalid { name: "settings".into(), reason })?;
        changed.check()?;
        Ok(changed)
    }

    /// The settings that are set, by name, to be kept.
    pub fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(all)) => all,
            _ => Map::new(),
        }
    }

    /// The same for people to see: secrets are masked.
    pub fn shown(&self) -> Map<String, Value> {
        let mut all = self.to_map();
        if let Some(secret) = all.get_mut("session_end_secret") {
            *secret = SigningSecret::MASK.into();
        }
        all
    }

    /// Reads what [`TenantSettings::to_map`] wrote, however old. A setting that is not known any more is passed over.
    pub fn stored(text: &str) -> Self {
        let all: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let known = all.into_iter().filter(|(name, _)| NAMES.contains(&name.as_str()));
        let mut settings = Map::new();
        for (name, value) in known {
            let mut trial = settings.clone();
            trial.insert(name, value);
            if read(&trial).is_ok() {
                settings = trial;
            }
        }
        read(&settings).unwrap_or_default()
    }

    fn check(&self) -> Result<(), SettingsError> {
        let bounds: [(&str, Option<usize>, RangeInclusive<usize>); 9] = [
            ("context_messages", self.context_messages, 0..=1_000),
            ("recall_tokens", self.recall_tokens, 0..=100_000),
            ("model_tokens_max", self.model_tokens_max, 256..=100_000_000),
            ("query_chars_max", self.query_chars_max, 1..=10_000_000),
            ("answer_chars_max", self.answer_chars_max, 1..=10_000_000),
            ("session_ttl_hours", self.session_ttl_hours.map(|hours| hours as usize), 1..=SESSION_HOURS_MAX),
            ("session_max_messages", self.session_max_messages, 2..=1_000),
            ("session_summarize_after", self.session_summarize_after, 3..=1_000),
            ("session_max_sessions", self.session_max_sessions, 1..=1_000_000),
        ];
        let invalid = |name: &str, reason: String| Err(SettingsError::Invalid { name: name.into(), reason });
        for (name, value, allowed) in bounds {
            if let Some(value) = value.filter(|value| !allowed.contains(value)) {
                return invalid(name, format!("{value} is not from {} to {}", allowed.start(), allowed.end()));
            }
        }
        if let Some(megabytes) = self.session_memory_max_mb.filter(|megabytes| !(0.1..=1_000.0).contains(megabytes)) {
            return invalid("session_memory_max_mb", format!("{megabytes} is not from 0.1 to 1000"));
        }
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return invalid("model", "it is empty; null takes it away".into());
        }
        Ok(())
    }

    /// The tenant's limits, where it has none of its own the server's.
    pub fn limits(&self, server: Limits) -> Limits {
        Limits {
            requests_per_minute: self.requests_per_minute.unwrap_or(server.requests_per_minute),
            tokens_per_day: self.tokens_per_day.unwrap_or(server.tokens_per_day),
            sessions_max: self.sessions_max.unwrap_or(server.sessions_max),
            turns_max: self.turns_max.unwrap_or(server.turns_max),
            storage_bytes_max: self.storage_bytes_max.unwrap_or(server.storage_bytes_max),
        }
    }
}

impl TenantSettings {
    /// Where the tenant's sessions' ends are told. A receiver of its own has a secret of its own: who knows the server's could
    /// speak in its name to others.
    pub fn webhook(&self, server: &HookSettings) -> HookSettings {
        let own = self.session_end_secret.clone();
        HookSettings {
            url: self.session_end_webhook.clone().or_else(|| server.url.clone()),
            secret: if self.session_end_webhook.is_some() { own } else { own.or_else(|| server.secret.clone()) },
            private_addresses: self.webhook_private_addresses.unwrap_or(server.private_addresses),
        }
    }
}

fn read(all: &Map<String, Value>) -> Result<TenantSettings, String> {
    serde_json::from_value(Value::Object(all.clone())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changed(settings: &TenantSettings, changes: Value) -> Result<TenantSettings, SettingsError> {
        settings.changed(changes.as_object().expect("an object"))
    }

    #[track_caller]
    fn refused(changes: Value, expected: &str) {
        let error = changed(&TenantSettings::default(), changes).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn settings_are_changed_one_by_one_and_null_takes_one_away() {
        let first = json!({"ttl": "24h", "model": "small", "templates": {"en": {"system": "You sell tea."}}});
        let settings = changed(&TenantSettings::default(), first).expect("valid");
        let settings = changed(&settings, json!({"ttl": null, "sessions_max": 5})).expect("valid");
        let shown = json!({"model": "small", "templates": {"en": {"system": "You sell tea."}}, "sessions_max": 5});
        assert_eq!(Value::Object(settings.to_map()), shown);
        assert_eq!(TenantSettings::stored(&shown.to_string()), settings);
    }

    #[test]
    fn mistakes_are_explained() {
        refused(json!({"contxt_messages": 3}), "did you mean `context_messages`?");
        refused(json!({"ttl": "soon"}), "`ttl` is not valid");
        refused(json!({"context_messages": -1}), "`context_messages` is not valid");
        refused(json!({"context_messages": 2_000}), "not from 0 to 1000");
        refused(json!({"mode": "loud"}), "`mode` is not valid");
        refused(json!({"model": " "}), "null takes it away");
        refused(json!({"templates": {"en": {"sytem": "x"}}}), "`templates` is not valid");
        refused(json!({"templates": {"en": {"system": "x".repeat(70_000)}}}), "at most 65536");
        refused(json!({"session_end_webhook": "example.org"}), "`session_end_webhook` is not valid");
        refused(json!({"session_end_secret": "hush"}), "`session_end_secret` is not valid");
        refused(json!({"listen": "0.0.0.0"}), "no setting `listen` of a tenant");
    }

    #[test]
    fn what_an_older_or_newer_version_wrote_is_read_as_far_as_it_goes() {
        let kept = TenantSettings::stored(r#"{"ttl":"24h","mode":"loud","hats":3}"#);
        assert_eq!(kept, TenantSettings { ttl: "24h".parse().ok(), ..TenantSettings::default() });
        assert_eq!(TenantSettings::stored("nonsense"), TenantSettings::default());
    }

    #[test]
    fn a_receiver_of_its_own_has_a_secret_of_its_own_that_nobody_sees() {
        let [server, own] = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"];
        let parsed = |text: &str| SigningSecret::parse(text).ok();
        let url = HookUrl::parse("https://a.example/").ok();
        let hook = HookSettings { url, secret: parsed(server), private_addresses: false };
        let own_url = json!({"session_end_webhook": "https://b.example/"});
        let settings = changed(&TenantSettings::default(), own_url).expect("valid");
        assert_eq!(settings.webhook(&hook).secret, None);
        let settings = changed(&settings, json!({"session_end_secret": own})).expect("valid");
        assert_eq!(settings.webhook(&hook).secret, parsed(own));
        assert_eq!(settings.shown()["session_end_secret"], SigningSecret::MASK);
        assert_eq!(TenantSettings::stored(&Value::Object(settings.to_map()).to_string()), settings);
        let neither = json!({"session_end_webhook": null, "session_end_secret": null});
        assert_eq!(changed(&settings, neither).expect("valid").webhook(&hook), hook);
    }

    #[test]
    fn every_setting_has_its_name_in_the_list() {
        let text = include_str!("settings.rs");
        let fields = text.lines().filter_map(|line| line.strip_prefix("    pub ")?.split_once(": "));
        let fields: Vec<&str> = fields.map(|(name, _)| name).filter(|name| !name.contains(' ')).collect();
        assert_eq!(fields, NAMES);
    }
}
