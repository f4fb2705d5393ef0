//! Where several instances keep what they share.

use std::path::PathBuf;

use super::Settings;
#[cfg(feature = "postgres")]
use crate::store::PostgresSettings;

impl Settings {
    /// The database that several instances share, if one is set.
    pub fn database_url(&self) -> Option<&str> {
        Some(self.database_url.as_str()).filter(|url| !url.is_empty())
    }

    /// How that database is reached.
    #[cfg(feature = "postgres")]
    pub fn database(&self) -> Option<PostgresSettings> {
        let mut database = PostgresSettings::new(self.database_url()?);
        let certificate = Some(self.database_root_certificate.clone());
        database.root_certificate = certificate.filter(|path| !path.as_os_str().is_empty());
        database.connections_max = self.database_connections_max;
        database.wait_timeout = self.database_wait_timeout.duration();
        database.connect_timeout = self.database_connect_timeout.duration();
        database.statement_timeout = self.database_statement_timeout.duration();
        database.passages_held_max = self.database_passages_held_max;
        Some(database)
    }

    /// Where turns wait while that database is away: the setting, else beside where the data file would be.
    pub fn spool_file(&self, home: impl Fn(&str) -> Option<String>) -> PathBuf {
        match self.spool_file.as_os_str().is_empty() {
            true => self.data_file(home).with_extension("spool.db"),
            false => self.spool_file.clone(),
        }
    }

    /// The Redis where several instances keep visitors' sessions, if one is set.
    pub fn live_url(&self) -> Option<&str> {
        Some(self.live_url.as_str()).filter(|url| !url.is_empty())
    }
}
