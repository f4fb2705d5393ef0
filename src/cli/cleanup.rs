//! `recalld cleanup`: removes what is older than its time to live, now.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Deserialize;

use super::Common;
use super::client::{Need, with_client};
use super::output;
use super::table::counted;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Deserialize)]
struct Report {
    sessions_deleted: u64,
    turns_deleted: u64,
    seconds: f64,
    errors: Vec<String>,
}

pub(super) fn cleanup(common: &Common) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Memory, async |client| {
        // Shown on a terminal only.
        let spinner = ProgressBar::new_spinner().with_message("removing what is too old");
        spinner.enable_steady_tick(TICK);
        let answer = client.post("/api/v1/cleanup").await;
        spinner.finish_and_clear();
        let answer = answer?;
        let report: Report = serde_json::from_value(answer.clone())?;
        if common.json {
            output::json(&answer)?
        } else {
            tell(&report)?
        }
        Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn tell(report: &Report) -> anyhow::Result<()> {
    let (turns, sessions) = (counted(report.turns_deleted, "turn"), counted(report.sessions_deleted, "session"));
    output::say(format!("removed {turns} and {sessions} in {:.1} s", report.seconds))?;
    report.errors.iter().for_each(|error| output::note(format!("error: {error}")));
    Ok(())
}
