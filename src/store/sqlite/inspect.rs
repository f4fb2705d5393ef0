//! A data file seen from outside: without taking it, changing it, or minding who has it.

use std::path::Path;

use rusqlite::Connection;

use super::Sqlite;
use super::connect::{SCHEMA_VERSION, check_ours, meaning, open_reader};
use super::kept_logs::{self, KeptLog};
use super::lock::{check_names, held_by};
use super::seal::secret_path;
use super::{job, outbox};
use crate::store::{Holder, JobCounts, ParcelCounts, StoreError};

/// Most problems that are told of one file.
const PROBLEMS_MAX: usize = 20;

/// What a data file is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Who has it open, if anybody.
    pub holder: Option<Holder>,
    /// The version of its schema; 0 when nothing was ever written to it.
    pub schema: i64,
    /// The version this binary writes.
    pub schema_known: i64,
    /// What waits in the background, if its schema has that.
    pub jobs: Option<JobCounts>,
    /// What is yet to be delivered, likewise.
    pub webhooks: Option<ParcelCounts>,
    /// How many keys it has, likewise.
    pub keys: Option<u64>,
    /// What is wrong with its write-ahead log, if no process has it open.
    pub log_damage: Option<String>,
    /// Copies of damaged logs, oldest first.
    pub kept_logs: Vec<KeptLog>,
    /// Whether the secret that they are sealed with lies beside it.
    pub has_secret: bool,
}

impl Sqlite {
    /// The version of SQLite that is compiled in.
    pub fn library_version() -> &'static str {
        rusqlite::version()
    }

    /// Looks at a data file. `None` when there is none.
    pub fn inspect(path: &Path) -> Result<Option<Inspection>, StoreError> {
        if !path.exists() {
            return Ok(None);
        }
        check_names(path)?;
        let log_damage = if held_by(path).is_none() { kept_logs::damage(path)? } else { None };
        let db = open_reader(path)?;
        let schema = check_ours(&db, path)?;
        let jobs = if schema == SCHEMA_VERSION { Some(job::counts(&db, None)?) } else { None };
        let webhooks = if schema == SCHEMA_VERSION { Some(outbox::counts(&db, None)?) } else { None };
        let keys = if schema == SCHEMA_VERSION { Some(count_keys(&db)?) } else { None };
        let has_secret = secret_path(path).exists();
        let (holder, schema_known) = (held_by(path), SCHEMA_VERSION);
        let (log_damage, kept_logs) = (log_damage.map(|damage| damage.to_string()), kept_logs::list(path));
        Ok(Some(Inspection { holder, schema, schema_known, jobs, webhooks, keys, log_damage, kept_logs, has_secret }))
    }

    /// What is damaged in a data file, by SQLite's own word. A `thorough` check compares every index
    /// with its table and takes several times as long.
    pub fn damage(path: &Path, thorough: bool) -> Result<Vec<String>, StoreError> {
        let db = open_reader(path)?;
        let pragma = if thorough { "integrity_check" } else { "quick_check" };
        let told = || -> rusqlite::Result<Vec<String>> {
            let mut statement = db.prepare(&format!("PRAGMA {pragma}({PROBLEMS_MAX})"))?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        match told() {
            Ok(told) => Ok(told.into_iter().filter(|problem| problem != "ok").collect()),
            // So damaged that not even the check gets through.
            Err(error) => match meaning(&error) {
                StoreError::DamagedFile(what) => Ok(vec![what]),
                error => Err(error),
            },
        }
    }
}

fn count_keys(db: &Connection) -> Result<u64, StoreError> {
    db.query_row("SELECT count(*) FROM api_key", [], |row| row.get(0)).map_err(|error| meaning(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::store::Store;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_file_is_seen_without_being_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.db");
        assert_eq!(Sqlite::inspect(&path).expect("looked"), None);

        let store = Sqlite::open(&path, Arc::new(SystemClock::default())).expect("opens");
        store.announce("http://127.0.0.1:7077");
        let seen = Sqlite::inspect(&path).expect("looked").expect("it is there");
        assert_eq!((seen.schema, seen.schema_known), (SCHEMA_VERSION, SCHEMA_VERSION));
        assert_eq!(seen.holder.and_then(|holder| holder.url).as_deref(), Some("http://127.0.0.1:7077"));

        store.close().await.expect("closes");
        drop(store);
        let seen = Sqlite::inspect(&path).expect("looked").expect("it is there");
        assert_eq!(seen.holder, None);
        assert_eq!(Sqlite::damage(&path, true).expect("checked"), Vec::<String>::new());
    }

    #[tokio::test]
    async fn damage_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.db");
        let store = Sqlite::open(&path, Arc::new(SystemClock::default())).expect("opens");
        store.close().await.expect("closes");
        drop(store);
        let mut bytes = std::fs::read(&path).expect("readable");
        // The head of the second page, where the first table begins.
        bytes[4096..4196].fill(0xff);
        std::fs::write(&path, bytes).expect("written");
        assert!(!Sqlite::damage(&path, false).expect("checked").is_empty());
    }

    #[test]
    fn what_is_not_ours_is_said_not_to_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.db");
        std::fs::write(&path, "a text, and not a short one: SQLite reads a header of a hundred bytes.".repeat(9))
            .expect("written");
        assert!(matches!(Sqlite::inspect(&path), Err(StoreError::NotOurs { .. })));
    }
}
