//! Logs of this process, on stderr.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Loaded, LogFormat, Origin, Settings};

/// Commands tell by themselves what a door answered or how a turn went; of the rest only warnings.
const QUIET: &str = "warn,recalld::api=off,recalld::turn=off";

/// Logs as the settings say: for the server.
pub(super) fn start(settings: &Settings) -> anyhow::Result<()> {
    begin(&settings.log, settings.log_format)
}

/// Logs little, unless RECALLD_LOG asks for more: for all other commands. A line in the file is meant
/// for the server.
pub(super) fn start_quietly(loaded: &Loaded) -> anyhow::Result<()> {
    let asked = matches!(loaded.origins.get("log"), Some(Origin::Environment(_)));
    begin(if asked { &loaded.settings.log } else { QUIET }, loaded.settings.log_format)
}

/// Reads the setting `log`.
pub(super) fn filter(log: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(log).context("`log` is not a valid filter")
}

fn begin(log: &str, format: LogFormat) -> anyhow::Result<()> {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let logs = tracing_subscriber::fmt().with_env_filter(filter(log)?).with_writer(std::io::stderr).with_ansi(colours);
    let started = match format {
        LogFormat::Text => logs.with_target(false).try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
