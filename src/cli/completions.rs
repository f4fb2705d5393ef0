//! `recalld completions`: what a shell needs to complete our commands.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, output};

/// Flags of `completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// For which shell.
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "recalld", &mut script);
    output::say(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
