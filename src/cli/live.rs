//! Where visitors' sessions are kept: here, or in a Redis that several instances share.

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Settings;
use crate::meter::Meters;
use crate::store::live::Live;

/// The store that the settings name; nothing where sessions are kept in this process.
#[cfg(feature = "redis")]
pub(super) fn open(
    settings: &Settings,
    bytes_max: usize,
    clock: &Arc<dyn Clock>,
    meters: &Arc<Meters>,
) -> anyhow::Result<Option<Arc<dyn Live>>> {
    use super::failure::Advised;
    use crate::store::live::{Redis, RedisSettings};

    let Some(url) = settings.live_url() else { return Ok(None) };
    let opened = Redis::new(RedisSettings::new(url), bytes_max, Arc::clone(clock), Arc::clone(meters));
    let hint = "`live_url` is redis://user:password@host:port/database, or rediss:// for TLS";
    let redis = opened.map_err(|error| Advised::new("cannot use the Redis of `live_url`", hint, error))?;
    tracing::info!("Visitors' sessions are kept in Redis at {}", redis.place());
    Ok(Some(Arc::new(redis)))
}

#[cfg(not(feature = "redis"))]
pub(super) fn open(
    settings: &Settings,
    _: usize,
    _: &Arc<dyn Clock>,
    _: &Arc<Meters>,
) -> anyhow::Result<Option<Arc<dyn Live>>> {
    match settings.live_url() {
        Some(_) => anyhow::bail!("this recalld was built without the feature `redis`"),
        None => Ok(None),
    }
}
