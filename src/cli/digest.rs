//! `recalld digest`: does what waits in the background, now.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde::Deserialize;

use super::Common;
use super::client::{Need, with_client};
use super::output;
use super::table::counted;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Flags of `digest`.
#[derive(Debug, Args)]
pub(super) struct DigestArgs {
    /// Make again what follows from turns: summaries, and facts but for what people wrote or undid.
    #[arg(long)]
    rebuild: bool,
    /// All of it for everybody, not for one user.
    #[arg(long)]
    everyone: bool,
    /// Try jobs again that were given up.
    #[arg(long)]
    retry: bool,
}

#[derive(Debug, Deserialize)]
struct Report {
    episodes_dropped: u64,
    /// Not told by older servers.
    #[serde(default)]
    turns_understood: u64,
    jobs_done: u64,
    jobs_failed: u64,
    seconds: f64,
}

pub(super) fn digest(common: &Common, args: &DigestArgs) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Recall, async |client| {
        if args.retry {
            client.post(&format!("/api/v1/jobs/retry?everyone={}", args.everyone)).await?;
        }
        // Shown on a terminal only.
        let spinner = ProgressBar::new_spinner().with_message("summarising");
        spinner.enable_steady_tick(TICK);
        let path = format!("/api/v1/digest?rebuild={}&everyone={}", args.rebuild, args.everyone);
        let answer = client.post(&path).await;
        spinner.finish_and_clear();
        let answer = answer?;
        let report: Report = serde_json::from_value(answer.clone())?;
        if common.json {
            output::json(&answer)?
        } else {
            tell(&report)?
        }
        Ok(if report.jobs_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn tell(report: &Report) -> anyhow::Result<()> {
    let (jobs, dropped) = (counted(report.jobs_done, "job"), counted(report.episodes_dropped, "episode"));
    let turns = counted(report.turns_understood, "turn");
    output::say(format!("removed {dropped}, understood {turns}, did {jobs} in {:.1} s", report.seconds))?;
    if report.jobs_failed > 0 {
        let failed = counted(report.jobs_failed, "job");
        output::note(format!("error: {failed} failed; `GET /api/v1/jobs` says why"));
    }
    Ok(())
}
