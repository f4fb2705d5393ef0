//! What `bench` says of PostgreSQL where it was left out.

use super::store::StoreArgs;
use super::table::Table;

pub(super) async fn run(_: &StoreArgs, _: &str) -> anyhow::Result<Table> {
    anyhow::bail!("this recalld was built without the feature `postgres`")
}

pub(super) mod knowledge {
    use crate::cli::bench::knowledge::KnowledgeArgs;
    use crate::cli::bench::table::Table;

    pub(in crate::cli::bench) async fn run(_: &KnowledgeArgs) -> anyhow::Result<Table> {
        anyhow::bail!("this recalld was built without the feature `postgres`")
    }
}
