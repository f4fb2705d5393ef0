//! `recalld config`: which settings are in force and where they come from.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::engine::{variable, weights};
use super::failure::{Advised, Failure};
use super::upstream::choose;
use super::{Common, logging, output};
use super::{embedder, memory_model};
use crate::config::{Loaded, SAMPLE, Settings, file_in_use};
use crate::session::Templates;

/// What stands for a key. Too short to be one, so nobody can use it by mistake.
const MASK: &str = "********";

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// The settings in force.
    Show {
        /// Say where each came from.
        #[arg(long)]
        origin: bool,
    },
    /// Say whether the settings can be used.
    Check,
    /// Write a settings file with every setting, explained.
    Init(InitArgs),
}

/// Flags of `config init`.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Where [default: --config, else recalld.toml in this folder].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite a file that exists.
    #[arg(long)]
    force: bool,
}

pub(super) fn config(common: &Common, command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Show { origin } => show(common, *origin)?,
        ConfigCommand::Check => check(common)?,
        ConfigCommand::Init(args) => init(common, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(common: &Common, origin: bool) -> anyhow::Result<()> {
    let mut loaded = common.load([])?;
    loaded.settings = masked(loaded.settings);
    if common.json { output::json(&as_json(&loaded, origin)?) } else { output::say(as_toml(&loaded, origin)?) }
}

/// Settings that may be shown to anybody.
fn masked(settings: Settings) -> Settings {
    let mask = |secret: &str| if secret.is_empty() { "" } else { MASK }.to_owned();
    let (api_key, session_end_secret) = (mask(&settings.api_key), mask(&settings.session_end_secret));
    // An address may hold a password.
    Settings { api_key, session_end_secret, database_url: mask(&settings.database_url), ..settings }
}

/// In the order of the sample file, one line each.
fn as_toml(loaded: &Loaded, origin: bool) -> anyhow::Result<String> {
    let text = toml::to_string(&loaded.settings).context("cannot write the settings as TOML")?;
    let lines = text.lines().map(|line| {
        let name = line.split(" =").next().unwrap_or_default();
        match loaded.origins.get(name).filter(|_| origin) {
            Some(origin) => format!("{line:<40} # {origin}"),
            None => line.to_owned(),
        }
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn as_json(loaded: &Loaded, origin: bool) -> anyhow::Result<Value> {
    let Value::Object(values) = serde_json::to_value(&loaded.settings)? else { return Ok(Value::Null) };
    let with_origin = |(name, value): (String, Value)| {
        let origin = loaded.origins.get(&name).map(ToString::to_string);
        (name, json!({ "value": value, "origin": origin }))
    };
    let values = if origin { values.into_iter().map(with_origin).collect::<Map<_, _>>() } else { values };
    Ok(Value::Object(values))
}

fn check(common: &Common) -> anyhow::Result<()> {
    let loaded = common.load([])?;
    look_closer(&loaded.settings)?;
    let file = file_in_use(common.config.as_deref());
    if common.json {
        return output::json(&json!({ "valid": true, "file": file }));
    }
    output::say(match file {
        Some(file) => format!("the settings are valid; {} is read", file.display()),
        None => "the settings are valid; there is no settings file".into(),
    })
}

/// What is wrong with settings that only shows when they are used.
pub(super) fn look_closer(settings: &Settings) -> anyhow::Result<()> {
    logging::filter(&settings.log)?;
    settings.check_secret().map_err(anyhow::Error::msg)?;
    choose(settings, variable).map_err(anyhow::Error::msg)?;
    embedder::choose(settings, variable).map_err(anyhow::Error::msg)?;
    memory_model::choose(settings, variable).map_err(anyhow::Error::msg)?;
    weights(settings)?;
    let folder = Some(settings.templates_dir.as_path()).filter(|folder| !folder.as_os_str().is_empty());
    Templates::load(folder, &settings.language)?;
    Ok(())
}

fn init(common: &Common, args: &InitArgs) -> anyhow::Result<()> {
    let file = args.file.as_deref().or(common.config.as_deref()).unwrap_or(Path::new("recalld.toml"));
    write_sample(file, args.force)?;
    if common.json {
        return output::json(&json!({ "written": file }));
    }
    output::say(format!("wrote {}; every setting is in it, with its default", file.display()))
}

/// For its owner alone, because a key may come to stand in it.
fn write_sample(file: &Path, force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if force {
        options.create(true)
    } else {
        options.create_new(true)
    };
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(file).and_then(|mut file| {
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        file.write_all(SAMPLE.as_bytes())
    });
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::Usage(format!("{} exists; --force overwrites it", file.display())).into()
        }
        _ => Advised::new(format!("cannot write {}", file.display()), "name another file", error).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    fn loaded(file: &str) -> Loaded {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recalld.toml");
        std::fs::write(&path, file).expect("written");
        load(Some(&path), std::iter::empty(), toml::Table::new()).expect("valid")
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = "0123456789abcdef0123";
        let shown = masked(loaded(&format!("api_key = {key:?}")).settings);
        assert_eq!(shown.api_key, MASK);
        assert!(shown.check().is_err(), "the mask cannot be used as a key");
        assert_eq!(masked(Settings::default()).api_key, "", "no key is shown as no key");
    }

    #[test]
    fn origins_stand_beside_the_values() {
        let loaded = loaded("ttl = \"24h\"");
        let text = as_toml(&loaded, true).expect("TOML");
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
        assert!(line("ttl").starts_with("ttl = \"24h\"") && line("ttl").ends_with("recalld.toml"), "{}", line("ttl"));
        assert!(line("listen").ends_with("# default"));
        let json = as_json(&loaded, true).expect("JSON");
        assert_eq!(json["ttl"]["value"], "24h");
        assert_eq!(json["listen"]["origin"], "default");
        assert_eq!(as_json(&loaded, false).expect("JSON")["ttl"], "24h");
    }

    /// What is shown can be read again.
    #[test]
    fn settings_are_shown_as_a_settings_file() {
        let shown = as_toml(&loaded("context_messages = 4"), false).expect("TOML");
        assert_eq!(loaded(&shown).settings.context_messages, 4);
    }

    #[test]
    fn a_file_that_exists_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("recalld.toml");
        write_sample(&file, false).expect("new");
        assert!(write_sample(&file, false).expect_err("exists").to_string().contains("--force"));
        write_sample(&file, true).expect("forced");
        assert_eq!(std::fs::read_to_string(&file).expect("readable"), SAMPLE);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().expect("there").permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
