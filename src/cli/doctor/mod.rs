//! `recalld doctor`: what is well, what is not, and what to do about it.
//!
//! Reading order: the checks' shape here, `here` (this machine and its file), `database` (the one that
//! is used instead of a file), `there` (servers: ours and the model's), `jobs` (work in the background), `memory` (who
//! summarises there), `facts` (what is known), `webhooks` (what was not delivered); `privacy` (what is kept, and for how long).

mod database;
mod facts;
mod here;
mod jobs;
mod live;
mod memory;
mod privacy;
mod there;
mod webhooks;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::Common;
use super::engine::variable;
use super::output::{self, Colours, Tint};
use crate::store::Sqlite;

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Print only what is not well.
    #[arg(long, short)]
    quiet: bool,
    /// Say what is kept, where, for how long, and how much of it each tenant has.
    #[arg(long)]
    privacy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    check: &'static str,
    status: Status,
    /// What was found, and what to do when it is not well.
    detail: String,
}

impl Check {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, status: Status::Ok, detail: detail.into() }
    }

    fn warn(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, status: Status::Warn, detail: detail.into() }
    }

    fn fail(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, status: Status::Fail, detail: detail.into() }
    }
}

pub(super) fn doctor(common: &Common, args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if args.privacy {
        return privacy::privacy(common);
    }
    let runtime = super::runtime()?;
    let mut checks = runtime.block_on(examine(common));
    let well = checks.iter().all(|check| check.status != Status::Fail);
    checks.retain(|check| !args.quiet || check.status != Status::Ok);
    if common.json {
        output::json(&checks)?;
    } else {
        checks.iter().try_for_each(tell)?;
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(common: &Common) -> Vec<Check> {
    let mut checks = vec![here::version()];
    let loaded = match common.load([]) {
        Ok(loaded) => loaded,
        Err(error) => {
            checks.push(Check::fail("settings", format!("{error:#}")));
            return checks;
        }
    };
    let settings = &loaded.settings;
    if common.server().is_some() {
        // With `--server` the checks are about that server; this machine may not be related to it.
        checks.extend(there::server(common, settings, None).await.0);
        return checks;
    }
    let data = settings.data_file(variable);
    // Where there is a database, no file is looked at.
    let seen = if settings.database_url().is_some() { Ok(None) } else { Sqlite::inspect(&data) };
    checks.push(here::settings(common, settings));
    match settings.database_url() {
        Some(_) => {
            checks.extend(database::look(settings).await);
            checks.extend(here::log(None, &Sqlite::kept_logs(&settings.spool_file(variable))));
        }
        None => checks.extend(here::data_file(&data, &seen)),
    }
    if let Some(url) = settings.live_url() {
        checks.push(live::look(url).await);
    }
    let keys = seen.as_ref().ok().and_then(|seen| seen.as_ref()).map(|seen| (seen.keys.unwrap_or(0), seen.has_secret));
    let holder = seen.ok().flatten().and_then(|seen| seen.holder);
    let (server, running) = there::server(common, settings, holder).await;
    checks.extend(server);
    checks.push(there::model(settings, running).await);
    checks.push(there::embedder(settings, running).await);
    checks.push(memory::model(settings, running).await);
    let (keys, has_secret) = keys.unwrap_or((0, false));
    checks.extend([here::key(settings, keys, has_secret), here::users(settings, keys > 0), here::clock(&data)]);
    checks
}

fn tell(check: &Check) -> anyhow::Result<()> {
    let (mark, tint) = match check.status {
        Status::Ok => ("ok  ", Tint::Green),
        Status::Warn => ("warn", Tint::Yellow),
        Status::Fail => ("FAIL", Tint::Red),
    };
    let mark = Colours::of(&std::io::stdout()).paint(tint, mark);
    output::say(format!("{mark}  {:<9} {}", check.check, output::harmless(&check.detail)))
}
