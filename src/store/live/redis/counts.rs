//! What several instances count of visitors' sessions, added up in one place. Numbers only: no word and no name of a session is in it.

use super::{LiveError, Redis, scripts};
use crate::scope::Tenant;
use crate::store::live::Counted;

/// What stands between a channel and what is counted of it; no channel has it in its name.
const BETWEEN: char = '\t';
/// What is counted by its largest begins with this.
const LARGEST: char = '^';

impl Redis {
    pub(super) async fn add_up(&self, counts: Vec<Counted>) -> Result<(), LiveError> {
        let four = |counted: &Counted| {
            let mark = if counted.largest { LARGEST.to_string() } else { String::new() };
            let what = format!("{}{BETWEEN}{mark}{}", counted.channel, counted.what);
            [counted.tenant.to_string(), what, counted.n.to_string(), mark]
        };
        let args: Vec<String> = counts.iter().flat_map(four).collect();
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let _added: u64 = self.link.run(&scripts::ADD_COUNTS, &args).await?;
        Ok(())
    }

    pub(super) async fn added_up(&self, tenant: &Tenant) -> Result<Vec<Counted>, LiveError> {
        let found: Vec<(String, u64)> = self.link.run(&scripts::COUNTS, &[tenant.as_str().as_bytes()]).await?;
        let counted = |(name, n): (String, u64)| {
            let (channel, what) = name.split_once(BETWEEN)?;
            let (tenant, channel) = (tenant.clone(), channel.to_owned());
            let (largest, what) = what.strip_prefix(LARGEST).map_or((false, what), |what| (true, what));
            Some(Counted { tenant, channel, what: what.to_owned(), n, largest })
        };
        Ok(found.into_iter().filter_map(counted).collect())
    }
}
