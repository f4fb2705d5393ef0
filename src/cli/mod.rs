//! The command line. Every command that looks at memory speaks to the HTTP doors: over a socket when a
//! server runs, in process when none does. So there is one way in, and it is the tested one.
//!
//! Reading order: the commands here, `engine` (a memory from settings), `upstream` (which model
//! answers), `embedder` (who makes vectors), `memory_model` (who summarises), `client` (the doors from the other side), `output` and `failure` (what is said), then a file
//! for each command.

// Parts that commands share.
mod client;
mod database;
mod embedder;
mod engine;
mod facts;
mod failure;
mod lines;
mod live;
mod logging;
mod memory_model;
mod output;
mod question;
mod table;
mod upstream;

// Commands.
mod ask;
mod backup;
mod bench;
mod chat;
mod clarifications;
mod cleanup;
mod completions;
mod config;
mod descriptors;
mod digest;
mod doctor;
mod export;
mod forget;
mod import;
mod keys;
mod knowledge;
mod migrate;
mod migrate_to;
mod parse;
mod recall;
mod restore;
mod serve;
mod sessions;
mod tenants;
mod topics;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use tokio::runtime::Runtime;
use toml::{Table, Value};

use self::failure::{EXIT_CODES, Failure};
use crate::config::{Loaded, load};
use crate::id::SessionId;

/// The memory of LLM applications.
#[derive(Debug, Parser)]
#[command(name = "recalld", version, about, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Flags of every command. Each setting has one where it is used often; all have a line in the file.
#[derive(Debug, Default, Args)]
struct Common {
    /// The settings file [default: recalld.toml in this folder, if there is one].
    #[arg(long, global = true, env = "RECALLD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data file [default: recalld/recalld.db in your data folder].
    #[arg(long, global = true, value_name = "FILE")]
    data: Option<PathBuf>,
    /// A PostgreSQL to use instead of a data file: postgres://user@host/database.
    #[arg(long, global = true, value_name = "URL")]
    database: Option<String>,
    /// A Redis where several instances keep visitors' sessions: redis://host:port/database.
    #[arg(long, global = true, value_name = "URL")]
    live_url: Option<String>,
    /// A running server to talk to [default: the one that has the data file, if any].
    #[arg(long, global = true, env = "RECALLD_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Whose memory it is about [default: nobody's in particular].
    #[arg(long, global = true, env = "RECALLD_USER", value_name = "NAME")]
    user: Option<String>,
    /// Whose users, where several share a server [default: default].
    #[arg(long, global = true, env = "RECALLD_TENANT", value_name = "NAME")]
    tenant: Option<String>,
    /// The key to show to a running server [default: `api_key` of the settings].
    #[arg(long, global = true, env = "RECALLD_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// Who answers: a base URL ending in /v1, auto, ollama or builtin.
    #[arg(long, global = true, value_name = "URL|auto|ollama|builtin")]
    upstream: Option<String>,
    /// The environment variable that holds the upstream's key.
    #[arg(long, global = true, value_name = "NAME")]
    upstream_key_env: Option<String>,
    /// The model to ask for.
    #[arg(long, global = true, value_name = "NAME")]
    model: Option<String>,
    /// Who summarises in the background: a base URL ending in /v1 [default: the built-in summariser].
    #[arg(long, global = true, value_name = "URL")]
    memory_url: Option<String>,
    /// The environment variable that holds its key.
    #[arg(long, global = true, value_name = "NAME")]
    memory_key_env: Option<String>,
    /// The model to ask for there.
    #[arg(long, global = true, value_name = "NAME")]
    memory_model: Option<String>,
    /// Answer in JSON, for scripts.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::ServeArgs),
    /// Talk, at the terminal or through a pipe.
    Chat(chat::ChatArgs),
    /// Ask one question.
    Ask(ask::AskArgs),
    /// Say what is remembered about a question.
    Recall(recall::RecallArgs),
    /// Look at conversations and remove them.
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// Look at what conversations are about, find topics, name and tag them.
    Topics(topics::TopicsArgs),
    /// Say who shares the server, and what each of them has of its own.
    #[command(subcommand)]
    Tenants(tenants::TenantsCommand),
    /// Make keys that open the doors, and end them.
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Look at what is known about a user, set it right, undo it.
    Facts(facts::FactsArgs),
    /// Add files to what a tenant knows, search and remove them.
    Knowledge(knowledge::KnowledgeArgs),
    /// Read a file from standard input, for a server that asks for it.
    #[command(hide = true)]
    Parse(parse::ParseArgs),
    /// Look at questions that wait for a choice, ask one, let one go.
    Clarifications(clarifications::ClarificationsArgs),
    /// Remove what is older than its time to live, now.
    Cleanup,
    /// Summarise what has left the window, now; or everything anew.
    Digest(digest::DigestArgs),
    /// Write a memory as lines of JSON: of one user, or of all.
    Export(export::ExportArgs),
    /// Take in what was exported here or from ChatGPT, Claude, Open WebUI, mem0, LangChain, or a transcript.
    Import(import::ImportArgs),
    /// Erase a conversation, a message, a document, a fact, a user or a tenant, for good.
    Forget(forget::ForgetArgs),
    /// Copy the data file, while it is in use.
    Backup(backup::BackupArgs),
    /// Put a backup in the place of the data file.
    Restore(restore::RestoreArgs),
    /// Look through everything that is kept, or through a backup: is it what was written?
    Verify(verify::VerifyArgs),
    /// Move a data file to a PostgreSQL database.
    MigrateTo(migrate_to::MigrateToArgs),
    /// Bring the database that `database_url` names up to date. `serve` does so by itself, where it may.
    Migrate,
    /// Say what is well, what is not, and what to do about it.
    Doctor(doctor::DoctorArgs),
    /// Look at the settings, check them, write a settings file.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print what a shell needs to complete our commands.
    Completions(completions::CompletionsArgs),
    /// Measure what it costs.
    Bench(bench::BenchArgs),
}

impl Common {
    /// The server to talk to, if one is given; an empty variable is none.
    fn server(&self) -> Option<&str> {
        self.server.as_deref().filter(|server| !server.trim().is_empty())
    }

    /// Whether it is about no user in particular.
    fn names_nobody(&self) -> bool {
        self.user.as_deref().is_none_or(|user| user.trim().is_empty())
    }

    /// The settings in force, with `more` flags of the command.
    fn load(&self, more: impl IntoIterator<Item = (&'static str, Option<String>)>) -> anyhow::Result<Loaded> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags: Table = [
            ("data", path(&self.data)),
            ("database_url", self.database.clone()),
            ("live_url", self.live_url.clone()),
            ("upstream", self.upstream.clone()),
            ("upstream_key_env", self.upstream_key_env.clone()),
            ("model", self.model.clone()),
            ("memory_url", self.memory_url.clone()),
            ("memory_key_env", self.memory_key_env.clone()),
            ("memory_model", self.memory_model.clone()),
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let json = cli.common.json;
    run(cli).unwrap_or_else(|error| failure::complain(&error, json))
}

/// Help, the version, or what is wrong with the command line; that in JSON too, if it was asked for.
fn explain(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        return failure::complain(&Failure::Usage(first.to_owned()).into(), true);
    }
    // A reader that left early has seen enough.
    let _ = error.print();
    if error.use_stderr() { failure::USAGE.into() } else { ExitCode::SUCCESS }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let common = &cli.common;
    match &cli.command {
        Some(Command::Serve(args)) => serve::serve(common, args),
        Some(Command::Chat(args)) => chat::chat(common, args),
        Some(Command::Ask(args)) => ask::ask(common, args),
        Some(Command::Recall(args)) => recall::recall(common, args),
        Some(Command::Sessions(command)) => sessions::sessions(common, command),
        Some(Command::Topics(args)) => topics::topics(common, args),
        Some(Command::Tenants(command)) => tenants::tenants(common, command),
        Some(Command::Keys(command)) => keys::keys(common, command),
        Some(Command::Facts(args)) => facts::facts(common, args),
        Some(Command::Clarifications(args)) => clarifications::clarifications(common, args),
        Some(Command::Knowledge(args)) => knowledge::knowledge(common, args),
        Some(Command::Parse(args)) => parse::parse(args),
        Some(Command::Cleanup) => cleanup::cleanup(common),
        Some(Command::Digest(args)) => digest::digest(common, args),
        Some(Command::Export(args)) => export::export(common, args),
        Some(Command::Import(args)) => import::import(common, args),
        Some(Command::Forget(args)) => forget::forget(common, args),
        Some(Command::Backup(args)) => backup::backup(common, args),
        Some(Command::Restore(args)) => restore::restore(common, args),
        Some(Command::Verify(args)) => verify::verify(common, args),
        Some(Command::MigrateTo(args)) => migrate_to::migrate_to(common, args),
        Some(Command::Migrate) => migrate::migrate(common),
        Some(Command::Doctor(args)) => doctor::doctor(common, args),
        Some(Command::Config(command)) => config::config(common, command),
        Some(Command::Completions(args)) => completions::completions(args),
        Some(Command::Bench(args)) => bench::bench(args, common.json),
        None => help(),
    }
}

fn help() -> anyhow::Result<ExitCode> {
    output::say(Cli::command().render_help().to_string().trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The threads everything asynchronous runs on.
fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// Reads a session id from the command line.
fn session_id(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).ok_or_else(|| "a session id is a UUID; `recalld sessions list` shows them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A command's own argument with the name of one that every command has would be read as that one, too.
    #[test]
    fn no_command_has_an_argument_that_all_have() {
        fn twice(command: &clap::Command, common: &[clap::Id]) -> Vec<String> {
            let of = |own: &clap::Command| {
                let names = own.get_arguments().map(|argument| argument.get_id()).filter(|name| common.contains(name));
                let here: Vec<String> = names.map(|name| format!("{} {name}", own.get_name())).collect();
                here.into_iter().chain(twice(own, common)).collect::<Vec<_>>()
            };
            command.get_subcommands().flat_map(of).collect()
        }
        let all = Cli::command();
        let common: Vec<clap::Id> = all.get_arguments().map(|argument| argument.get_id().clone()).collect();
        assert_eq!(twice(&all, &common), Vec::<String>::new());
    }

    #[test]
    fn an_empty_server_is_no_server() {
        let with = |server: &str| Common { server: Some(server.into()), ..Common::default() };
        assert_eq!((with(" ").server(), with("localhost:1").server()), (None, Some("localhost:1")));
    }
}
