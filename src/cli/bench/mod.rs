//! `recalld bench`: what it costs and how well it finds, measured beside what there would be without us, in one run.

mod archive;
mod bare;
mod chatter;
mod facts;
mod knowledge;
mod live;
mod long;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "without_postgres.rs"]
mod postgres;
mod process;
mod proxy;
mod recall;
mod scene;
mod shrink;
mod spent;
mod store;
mod summaries;
mod table;
mod takeout;
mod topics;
mod wrapper;

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
    /// How much of what was said is found again: chats with questions in, a table out.
    Recall(recall::rank::RecallArgs),
    /// Whether follow-ups find what they are about.
    Followups(recall::followups::FollowupsArgs),
    /// Whether messages find their topic.
    Topics(topics::TopicsArgs),
    /// Whether the summary that tells of the answer is found.
    Episodes(recall::episodes::EpisodesArgs),
    /// Learn weights for recall from chats with questions.
    Learn(recall::learn::LearnArgs),
    /// What recall costs, and how that grows.
    RecallSpeed(recall::speed::SpeedArgs),
    /// Visitors' sessions: memory of each, how quickly they come, talk and go, and a flood of them.
    Live(live::LiveArgs),
    /// A conversation that never ends: context, recall and digest must not grow with it.
    Long(long::LongArgs),
    /// Archived turns beside gzip and base64: bytes and speed; and what that makes of a data file.
    Archive(archive::ArchiveArgs),
    /// A memory out to a file and into another store: messages a second, and memory.
    Takeout(takeout::TakeoutArgs),
    /// What of the answers survives in summaries of a twentieth.
    Summaries(summaries::SummariesArgs),
    /// What a large tenant knows, searched by PostgreSQL beside all of it in memory: how much is found, and how quickly.
    Knowledge(knowledge::KnowledgeArgs),
    /// What is learned from what people type, and what is not.
    Facts(facts::FactsArgs),
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
    match &args.what {
        What::Store(args) => runtime.block_on(store::run(args))?.print(json),
        What::Proxy(args) => runtime.block_on(proxy::run(args))?.print(json),
        What::Recall(args) => recall::print(&runtime.block_on(recall::rank::run(args))?, json)?,
        What::Followups(args) => recall::print(&runtime.block_on(recall::followups::run(args))?, json)?,
        What::Episodes(args) => recall::print(&runtime.block_on(recall::episodes::run(args))?, json)?,
        What::Topics(args) => recall::print(&runtime.block_on(topics::run(args))?, json)?,
        What::Learn(args) => recall::print(&runtime.block_on(recall::learn::run(args))?, json)?,
        What::RecallSpeed(args) => recall::print(&runtime.block_on(recall::speed::run(args))?, json)?,
        What::Live(args) => runtime.block_on(live::run(args))?.print(json),
        What::Long(args) => recall::print(&runtime.block_on(long::run(args))?, json)?,
        What::Archive(args) => runtime.block_on(archive::run(args))?.print(json),
        What::Takeout(args) => runtime.block_on(takeout::run(args))?.print(json),
        What::Summaries(args) => recall::print(&summaries::run(args)?, json)?,
        What::Knowledge(args) => runtime.block_on(postgres::knowledge::run(args))?.print(json),
        What::Facts(args) => recall::print(&facts::run(args)?, json)?,
        What::PassThrough { here, there } => {
            runtime.block_on(scene::serve_on(*here, scene::pass_through(*there)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
