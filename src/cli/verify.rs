//! `recalld verify`: whether everything that is kept is what was written.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, json};

use super::Common;
use super::engine::variable;
use super::output::{self, Colours, Tint};
use crate::store::{Findings, Sqlite, backup};

/// Flags of `verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// A backup or a data file [default: the data file or the database of the settings].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Give the pages of a data file that another program wrote their sums, if everything else is in order. No server may have the
    /// file. What only the sum of a page could tell is believed from then on.
    #[arg(long)]
    accept: bool,
}

pub(super) fn verify(common: &Common, args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let settings = common.load([])?.settings;
    if args.accept {
        anyhow::ensure!(settings.database_url().is_none() || args.file.is_some(), "--accept is for data files");
        let data = args.file.clone().unwrap_or_else(|| settings.data_file(variable));
        accept(&data)?;
    }
    let (place, found) = match (&args.file, settings.database_url()) {
        (Some(file), _) => (file.display().to_string(), of_file(file)?),
        (None, Some(url)) => of_database(url)?,
        (None, None) => {
            let data = settings.data_file(variable);
            (data.display().to_string(), of_file(&data)?)
        }
    };
    tell(common, &place, &found)?;
    Ok(if found.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Has the pages that another program wrote count. What is found beside them is told by the look that follows.
fn accept(data: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(data.exists(), "there is no file `{}`", data.display());
    anyhow::ensure!(backup::manifest(data)?.is_none(), "a backup is what was written, or it is not: take another one");
    let (found, pages) = Sqlite::accept_pages(data)?;
    if found.is_well() {
        output::note(format!("{}: {pages} pages count as written", data.display()));
    }
    Ok(())
}

/// A backup is compared with its last line first: what is no backup any more need not be looked at.
fn of_file(file: &Path) -> anyhow::Result<Findings> {
    anyhow::ensure!(file.exists(), "there is no file `{}`", file.display());
    if backup::manifest(file)?.is_some() {
        backup::check(file)?;
    }
    Ok(Sqlite::verify(file)?)
}

#[cfg(feature = "postgres")]
fn of_database(url: &str) -> anyhow::Result<(String, Findings)> {
    use crate::store::{Postgres, PostgresSettings};

    let settings = PostgresSettings::new(url);
    let place = settings.place();
    let found = super::runtime()?.block_on(Postgres::verify(settings)).map_err(super::database::unreachable)?;
    Ok((place, found))
}

#[cfg(not(feature = "postgres"))]
fn of_database(_: &str) -> anyhow::Result<(String, Findings)> {
    anyhow::bail!("this recalld was built without the feature `postgres`")
}

fn tell(common: &Common, place: &str, found: &Findings) -> anyhow::Result<()> {
    if common.json {
        let looked: Map<String, _> = found.looked_at.iter().map(|(what, count)| (what.clone(), json!(count))).collect();
        return output::json(&json!({
            "place": place, "well": found.is_well(), "looked_at": looked,
            "problems": found.problems, "problems_more": found.problems_more,
        }));
    }
    let colours = Colours::of(&std::io::stdout());
    for problem in &found.problems {
        output::say(format!("{}  {}", colours.paint(Tint::Red, "DAMAGED"), output::harmless(problem)))?;
    }
    if found.problems_more > 0 {
        output::say(format!("and {} more", found.problems_more))?;
    }
    let looked: Vec<String> = found.looked_at.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let looked = if looked.is_empty() { "its pages".to_owned() } else { looked.join(", ") };
    match found.is_well() {
        true => output::say(format!("{place}: everything is what was written ({looked})")),
        false => {
            output::say(format!("{place}: damaged (looked at {looked}); restore a backup, and keep this file"))?;
            output::note(
                "hint: where nothing but pages is named and another program wrote to the file: recalld verify --accept",
            );
            Ok(())
        }
    }
}
