//! What `bench` says of PostgreSQL where it was left out.

use super::store::StoreArgs;
use super::table::Table;

pub(super) async fn run(_: &StoreArgs, _: &str) -> anyhow::Result<Table> {
    anyhow::bail!("this recalld was built without the feature `postgres`")
}
