//! The command line. Every command that looks at memory speaks to the HTTP doors: over a socket when a
//! server runs, in process when none does. So there is one way in, and it is the tested one.
//!
//! Reading order: the commands here, `engine` (a memory from settings), `upstream` (which model
//! answers), `client` (the doors from the other side), then a file for each command.

mod bench;
mod engine;
mod serve;
mod upstream;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use toml::{Table, Value};

use crate::config::{Loaded, load};

/// The memory of LLM applications.
#[derive(Debug, Parser)]
#[command(name = "recalld", version, about, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command. Each setting has one where it is used often; all have a line in the file.
#[derive(Debug, Args)]
struct Common {
    /// The settings file [default: recalld.toml in this folder, if there is one].
    #[arg(long, global = true, env = "RECALLD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data file [default: recalld/recalld.db in your data folder].
    #[arg(long, global = true, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Who answers: a base URL ending in /v1, auto, ollama or builtin.
    #[arg(long, global = true, value_name = "URL|auto|ollama|builtin")]
    upstream: Option<String>,
    /// The environment variable that holds the upstream's key.
    #[arg(long, global = true, value_name = "NAME")]
    upstream_key_env: Option<String>,
    /// The model to ask for.
    #[arg(long, global = true, value_name = "NAME")]
    model: Option<String>,
    /// Answer in JSON, for scripts.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::ServeArgs),
    /// Measure what it costs.
    Bench(bench::BenchArgs),
}

impl Common {
    /// The settings in force, with `more` flags of the command.
    fn load(&self, more: impl IntoIterator<Item = (&'static str, Option<String>)>) -> anyhow::Result<Loaded> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags: Table = [
            ("data", path(&self.data)),
            ("upstream", self.upstream.clone()),
            ("upstream_key_env", self.upstream_key_env.clone()),
            ("model", self.model.clone()),
        ]
        .into_iter()
        .chain(more)
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), Value::String(value))))
        .collect();
        Ok(load(self.config.as_deref(), std::env::vars(), flags)?)
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve::serve(&cli.common, &args),
        Command::Bench(args) => bench::bench(&args, cli.common.json),
    }
}

/// Tells the whole chain of causes.
#[allow(clippy::print_stderr, reason = "this is where errors reach the terminal")]
fn complain(error: &anyhow::Error) {
    let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
    eprintln!("error: {}", chain.join(": "));
}
