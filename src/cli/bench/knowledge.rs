//! `recalld bench knowledge`.

use clap::Args;

/// Flags of `bench knowledge`.
#[derive(Debug, Args)]
pub(super) struct KnowledgeArgs {
    /// The PostgreSQL to search in, with pgvector; the tables are its own and go afterwards.
    #[arg(long, value_name = "URL")]
    pub(super) url: String,
    /// How many passages a tenant has.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub(super) passages: usize,
    /// How many questions are asked.
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(super) questions: usize,
}
