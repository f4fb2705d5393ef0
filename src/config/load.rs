//! Putting the layers of settings together, and remembering where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Secret, Settings};
use crate::spelling::closest;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag on the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "{name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Settings and where each came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// By name.
    pub origins: BTreeMap<String, Origin>,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path} is not valid TOML: {source}")]
    NotToml {
        /// Which.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// Nobody knows this setting.
    #[error("there is no setting `{name}` ({origin}){}", .suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    Unknown {
        /// As written.
        name: String,
        /// Where.
        origin: Origin,
        /// What may have been meant.
        suggestion: Option<String>,
    },
    /// The value does not fit.
    #[error("`{name}` ({origin}) is not valid: {reason}")]
    Invalid {
        /// Which setting.
        name: String,
        /// Where it was set.
        origin: Origin,
        /// Why it does not fit.
        reason: String,
    },
    /// The values do not go together.
    #[error("{0}")]
    Together(String),
}

/// Environment variables that look like settings and are not.
const NOT_SETTINGS: [&str; 6] =
    ["RECALLD_BIN", "RECALLD_CONFIG", "RECALLD_SERVER", "RECALLD_USER", "RECALLD_TENANT", "RECALLD_KEY"];

/// Loads settings from a file, the environment and flags. Without `file`, `recalld.toml` in the current
/// folder is read if it exists.
pub fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: Table,
) -> Result<Loaded, ConfigError> {
    let mut layers = Layers::defaults();
    if let Some(path) = file_in_use(file) {
        layers.add_file(&path)?;
    }
    let environment: BTreeMap<_, _> = environment.collect();
    for (name, text) in environment.iter().filter(|(name, _)| is_setting(name)) {
        let setting = name["RECALLD_".len()..].to_lowercase();
        let value = layers.typed(&setting, text);
        layers.set(&setting, value, Origin::Environment(name.clone()))?;
    }
    for (setting, value) in flags {
        layers.set(&setting, value, Origin::Flag)?;
    }
    let mut loaded = layers.finish()?;
    let variable = Some(&loaded.settings.openwebui_jwt_secret_env).filter(|name| !name.is_empty());
    let secret = variable.and_then(|name| environment.get(name));
    loaded.settings.openwebui_jwt_secret = secret.and_then(|text| Secret::new(text));
    Ok(loaded)
}

/// The settings file that is read: the given one, else `recalld.toml` in the current folder.
pub fn file_in_use(given: Option<&Path>) -> Option<PathBuf> {
    given.map(Path::to_owned).or_else(|| Some(PathBuf::from("recalld.toml")).filter(|path| path.exists()))
}

fn is_setting(variable: &str) -> bool {
    variable.starts_with("RECALLD_") && !variable.starts_with("RECALLD_TEST_") && !NOT_SETTINGS.contains(&variable)
}

struct Layers {
    defaults: Table,
    values: Table,
    origins: BTreeMap<String, Origin>,
}

impl Layers {
    fn defaults() -> Self {
        let values = Table::try_from(Settings::default()).expect("the defaults are plain values");
        let origins = values.keys().map(|name| (name.clone(), Origin::Default)).collect();
        Self { defaults: values.clone(), values, origins }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let table: Table =
            text.parse().map_err(|source| ConfigError::NotToml { path: path.to_owned(), source: Box::new(source) })?;
        table.into_iter().try_for_each(|(name, value)| self.set(&name, value, Origin::File(path.to_owned())))
    }

    /// An environment variable has no type; it takes the default's, because a file may write `10` for `10.0`. A list is
    /// written with commas.
    fn typed(&self, setting: &str, text: &str) -> Value {
        let number = || text.parse().map(Value::Integer).ok();
        let float = || text.parse().map(Value::Float).ok();
        let switch = || text.parse().map(Value::Boolean).ok();
        let list = || text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect();
        let typed = match self.defaults.get(setting) {
            Some(Value::Integer(_)) => number(),
            Some(Value::Float(_)) => float(),
            Some(Value::Boolean(_)) => switch(),
            Some(Value::Array(_)) => Some(Value::Array(list())),
            _ => None,
        };
        typed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// Sets one value, after seeing that it fits by itself, so that the error names its origin.
    fn set(&mut self, name: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        if !self.values.contains_key(name) {
            let suggestion = closest(name, self.values.keys().map(String::as_str)).map(str::to_owned);
            return Err(ConfigError::Unknown { name: name.to_owned(), origin, suggestion });
        }
        let mut trial = self.values.clone();
        trial.insert(name.to_owned(), value);
        if let Err(error) = trial.clone().try_into::<Settings>() {
            let reason = error.message().to_owned();
            return Err(ConfigError::Invalid { name: name.to_owned(), origin, reason });
        }
        self.values = trial;
        self.origins.insert(name.to_owned(), origin);
        Ok(())
    }

    fn finish(self) -> Result<Loaded, ConfigError> {
        let settings: Settings = self.values.try_into().expect("each value was tried when it was set");
        settings.check().map_err(ConfigError::Together)?;
        Ok(Loaded { settings, origins: self.origins })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(file: &str, environment: &[(&str, &str)], flags: &str) -> Result<Loaded, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recalld.toml");
        std::fs::write(&path, file).expect("written");
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        load(Some(&path), environment, flags.parse().expect("flags are TOML here"))
    }

    #[track_caller]
    fn refused(file: &str, environment: &[(&str, &str)], expected: &str) {
        let error = with(file, environment, "").expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let file = "context_messages = 4\nttl = \"24h\"\nmodel = \"from-file\"";
        let environment =
            [("RECALLD_TTL", "48h"), ("RECALLD_MODEL", "from-env"), ("RECALLD_USER", "ann"), ("HOME", "/")];
        let loaded = with(file, &environment, "model = \"from-flag\"").expect("valid");
        let settings = &loaded.settings;
        assert_eq!(
            (settings.context_messages, settings.ttl.to_string().as_str(), settings.model.as_str()),
            (4, "48h", "from-flag")
        );
        assert_eq!(loaded.origins["model"], Origin::Flag);
        assert_eq!(loaded.origins["ttl"], Origin::Environment("RECALLD_TTL".into()));
        assert!(matches!(loaded.origins["context_messages"], Origin::File(_)));
        assert_eq!(loaded.origins["listen"], Origin::Default);
    }

    #[test]
    fn mistakes_are_explained() {
        refused("contxt_messages = 3", &[], "did you mean `context_messages`?");
        refused("ttl = \"soon\"", &[], "`ttl` (");
        refused("", &[("RECALLD_CONTEXT_MESSAGES", "many")], "RECALLD_CONTEXT_MESSAGES");
        refused("", &[("RECALLD_LISTE", "x")], "did you mean `listen`?");
        refused("context_messages = -1", &[], "context_messages");
        refused("client_address_header = \"no good\"", &[], "cannot be a header");
        refused("api_key = \"short\"", &[], "shorter than 16");
        refused("session_end_webhook = \"https://example.org/\"", &[], "no secret to sign with");
        refused("session_end_webhook = \"example.org\"", &[], "`session_end_webhook` is not valid");
        refused("session_end_secret = \"hush\"", &[], "`session_end_secret` is not valid");
        refused("time_zone = \"Mars/Olympus\"", &[], "such as Europe/Amsterdam");
        refused("recall_profile = \"robots\"", &[], "recall_profile");
        refused("index_bytes_max = 7", &[], "from 1048576 to");
        refused("clarification_ttl = \"25h\"", &[], "`clarification_ttl` is over 24h");
        refused("clarifications_max = 0", &[], "from 1 to 1000000");
        refused("= nonsense", &[], "not valid TOML");
        refused("", &[("RECALLD_USER_HEADERS", "X-User-ID, no good")], "`no good` cannot be the name of a header");
    }

    #[test]
    fn lists_are_written_with_commas_in_the_environment() {
        let loaded = with("", &[("RECALLD_USER_HEADERS", "X-Who, X-User-ID,")], "").expect("valid");
        assert_eq!(loaded.settings.user_headers.as_slice(), ["x-who", "x-user-id"]);
        let loaded = with("session_headers = []", &[], "").expect("valid");
        assert!(loaded.settings.session_headers.as_slice().is_empty());
    }

    #[test]
    fn the_secret_comes_from_the_variable_that_is_named() {
        let file = "openwebui_jwt_secret_env = \"OWUI_SECRET\"";
        let found = with(file, &[("OWUI_SECRET", "hush")], "").expect("valid").settings;
        assert_eq!(found.openwebui_jwt_secret.as_ref().map(Secret::reveal), Some("hush"));
        assert_eq!(found.check_secret(), Ok(()));
        let missing = with(file, &[("OWUI_SECRET", " ")], "").expect("valid").settings;
        assert!(missing.check_secret().is_err_and(|reason| reason.contains("OWUI_SECRET")));
        assert_eq!(with("", &[("", "hush")], "").expect("valid").settings.openwebui_jwt_secret, None);
    }

    /// Every setting is in the sample with its default, and nothing else is.
    #[test]
    fn the_sample_shows_every_setting_with_its_default() {
        let sample: Table = super::super::SAMPLE.parse().expect("the sample is valid TOML");
        let defaults = Table::try_from(Settings::default()).expect("plain values");
        assert_eq!(sample, defaults);
    }
}
