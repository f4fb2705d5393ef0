//! `recalld restore`: a backup in the place of the data file.

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::Common;
use super::engine::variable;
use super::failure::{Advised, Failure};
use super::output;
use crate::store::{BackupError, Restored, Sqlite, StoreError, backup};

/// Flags of `restore`.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// The backup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn restore(common: &Common, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let settings = common.load([])?.settings;
    if settings.database_url().is_some() {
        let told = "the settings name a PostgreSQL database, which is restored with its own tools (pg_restore)";
        return Err(Failure::Usage(told.into()).into());
    }
    let data = settings.data_file(variable);
    if data.exists() && !args.yes && !confirmed(&data, &args.file)? {
        return Ok(ExitCode::FAILURE);
    }
    let restored = Sqlite::restore(&data, &args.file).map_err(|error| advise(error, &data))?;
    tell(common, &data, &restored)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the person at the terminal; a script has to say `--yes`.
fn confirmed(data: &Path, file: &Path) -> anyhow::Result<bool> {
    if !stdin().is_terminal() {
        let told = format!("`{}` is there and would be replaced; say --yes to do so", data.display());
        return Err(Failure::Usage(told).into());
    }
    let taken = backup::manifest(file)?.map(|manifest| format!(" of {}", manifest.taken_at)).unwrap_or_default();
    output::prompt(&format!("Replace {} by the backup{taken}? What was said since is lost. [y/N] ", data.display()));
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn advise(error: BackupError, data: &Path) -> anyhow::Error {
    let hint = match &error {
        BackupError::Store(StoreError::InUse { .. }) => "stop the server first; nothing was changed".to_owned(),
        BackupError::NotWhole(_) | BackupError::Damaged { .. } => {
            format!("take another backup; {} is as it was", data.display())
        }
        _ => return error.into(),
    };
    match error {
        BackupError::Store(error) => Advised::new("cannot restore", hint, error).into(),
        error => Advised::new("cannot restore", hint, error).into(),
    }
}

fn tell(common: &Common, data: &Path, restored: &Restored) -> anyhow::Result<()> {
    let Restored { manifest, keys_without_secret } = restored;
    if common.json {
        return output::json(&json!({
            "data": data, "manifest": manifest, "keys_without_secret": keys_without_secret,
        }));
    }
    let turns = manifest.rows.get("turn").copied().unwrap_or(0);
    output::say(format!("{}: restored {turns} turns as of {}", data.display(), manifest.taken_at))?;
    output::note("note: what was erased since then is erased again at the next start");
    if *keys_without_secret > 0 {
        output::note(format!(
            "warning: none of its {keys_without_secret} keys opens anything: the file .secret beside the data file is not the \
             one they were sealed with; put that one back, or make new keys with `recalld keys create`"
        ));
    }
    Ok(())
}
