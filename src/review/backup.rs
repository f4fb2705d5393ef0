//! A copy of everything, for safe keeping.

use tracing::info;

use crate::memory::Memory;
use crate::store::{Backup, StoreError};

impl Memory {
    /// A copy of everything that is kept, of all tenants, as it is at one moment.
    pub async fn backup(&self) -> Result<Backup, StoreError> {
        let copy = self.parts.store.backup().await?;
        info!(backup.bytes = copy.bytes, "Made a backup of {} bytes", copy.bytes);
        Ok(copy)
    }
}
