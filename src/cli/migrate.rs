//! `recalld migrate`: makes the tables of a database that several instances share, or brings them up to date.

use std::process::ExitCode;

use super::Common;
use super::failure::Failure;
use crate::config::Settings;

pub(super) fn migrate(common: &Common) -> anyhow::Result<ExitCode> {
    let settings = common.load([])?.settings;
    if settings.database_url().is_none() {
        let usage = "there is no database to migrate; name one with --database or `database_url` (a data file is brought up to \
                     date when it is opened)";
        return Err(Failure::Usage(usage.to_owned()).into());
    }
    run(&settings, common.json)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "postgres")]
fn run(settings: &Settings, json: bool) -> anyhow::Result<()> {
    use super::output;
    use crate::store::Postgres;

    let settings = settings.database().expect("whoever asks has seen its address");
    let place = settings.place();
    let state = super::runtime()?.block_on(Postgres::migrate(settings)).map_err(super::database::unreachable)?;
    match (state.found, state.known) {
        _ if json => output::json(&serde_json::json!({"before": state.found, "now": state.known})),
        (found, known) if found == known => output::say(format!("{place}: version {known}, nothing to do")),
        (found, known) => output::say(format!("{place}: brought from version {found} to {known}")),
    }
}

#[cfg(not(feature = "postgres"))]
fn run(_: &Settings, _: bool) -> anyhow::Result<()> {
    anyhow::bail!("this recalld was built without the feature `postgres`")
}
