//! `recalld migrate-to`: a data file moves into a PostgreSQL database.

use std::process::ExitCode;

use clap::Args;

use super::Common;

/// Flags of `migrate-to`.
#[derive(Debug, Args)]
pub(super) struct MigrateToArgs {
    /// Where to: postgres://user@host/database. It must be empty.
    #[arg(value_name = "URL")]
    url: String,
}

pub(super) fn migrate_to(common: &Common, args: &MigrateToArgs) -> anyhow::Result<ExitCode> {
    run(common, args)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "postgres")]
fn run(common: &Common, args: &MigrateToArgs) -> anyhow::Result<()> {
    use std::sync::Arc;
    use std::time::Duration;

    use indicatif::ProgressBar;

    use super::engine::variable;
    use super::failure::Advised;
    use crate::clock::SystemClock;
    use crate::store::{Postgres, PostgresSettings, Sqlite, Store};

    /// Moving takes as long as it takes.
    const PATIENCE: Duration = Duration::from_secs(24 * 3_600);

    let settings = common.load([])?.settings;
    let data = settings.data_file(variable);
    anyhow::ensure!(data.exists(), "there is no data file `{}`; name one with --data", data.display());
    super::runtime()?.block_on(async {
        // Whoever has the file open keeps servers out, and brings it up to date.
        let file = Sqlite::open(&data, Arc::new(SystemClock::default()))
            .map_err(|error| Advised::new("cannot move the data file", "stop the server that has it first", error))?;
        let mut target = PostgresSettings::new(&args.url);
        target.statement_timeout = PATIENCE;
        let place = target.place();
        let bar = ProgressBar::new_spinner();
        let shown = bar.clone();
        let told = move |table: &str, rows: u64| shown.set_message(format!("{table}: {rows} rows"));
        let moved = Postgres::move_in(target, data.clone(), told).await.map_err(super::database::unreachable);
        bar.finish_and_clear();
        file.close().await?;
        tell(common, &place, &moved?)
    })
}

#[cfg(feature = "postgres")]
fn tell(common: &Common, place: &str, moved: &crate::store::MovedIn) -> anyhow::Result<()> {
    use super::output;

    if common.json {
        let rows: serde_json::Map<_, _> =
            moved.rows.iter().map(|(table, rows)| (table.clone(), (*rows).into())).collect();
        return output::json(&serde_json::json!({"database": place, "rows": rows, "secret": moved.secret}));
    }
    let all: u64 = moved.rows.iter().map(|(_, rows)| rows).sum();
    let of = |table: &str| moved.rows.iter().find(|(name, _)| name == table).map_or(0, |(_, rows)| *rows);
    output::say(format!("{place}: {all} rows moved, {} turns among them; counts and digests agree", of("turn")))?;
    output::note("note: set `database_url` to serve it; the data file is as it was, remove it when you are sure");
    if !moved.secret && of("api_key") > 0 {
        output::note(
            "warning: the secret of the keys was not beside the data file; make new keys with `recalld keys create`",
        );
    }
    Ok(())
}

#[cfg(not(feature = "postgres"))]
fn run(_: &Common, _: &MigrateToArgs) -> anyhow::Result<()> {
    anyhow::bail!("this recalld was built without the feature `postgres`")
}
