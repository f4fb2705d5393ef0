//! `recalld bench`: what it costs, measured beside what it would cost without us, in one run.

mod bare;
mod process;
mod proxy;
mod scene;
mod store;
mod table;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

/// What to measure.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Durable turns a second, the last ten messages, start to ready, idle memory.
    Store(store::StoreArgs),
    /// A request through /v1 beside a bare pass-through: time, streams, memory.
    Proxy(proxy::ProxyArgs),
    /// The bare pass-through that `proxy` is measured beside, in a process of its own.
    #[command(hide = true)]
    PassThrough {
        /// Where it listens.
        here: SocketAddr,
        /// Where it passes requests on to.
        there: SocketAddr,
    },
}

pub(super) fn bench(args: &BenchArgs, json: bool) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let table = match &args.what {
        What::Store(args) => runtime.block_on(store::run(args))?,
        What::Proxy(args) => runtime.block_on(proxy::run(args))?,
        What::PassThrough { here, there } => {
            runtime.block_on(scene::serve_on(*here, scene::pass_through(*there)))?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    table.print(json);
    Ok(ExitCode::SUCCESS)
}
