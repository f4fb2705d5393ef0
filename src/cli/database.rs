//! The store that the settings name: a file, or a database that several instances share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::engine::variable;
use super::failure::Advised;
use crate::clock::Clock;
use crate::config::Settings;
use crate::store::{Outage, Sqlite, Store, StoreError};
#[cfg(feature = "postgres")]
use crate::store::{Postgres, PostgresSettings, Spool};

/// A store that was opened.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// The file, if it is one.
    pub(super) file: Option<Arc<Sqlite>>,
    /// Where it is, for people.
    pub(super) place: PathBuf,
    /// What is needed for the time that it is away, if it can be.
    pub(super) outage: Option<Outage>,
}

/// Opens the store.
pub(super) async fn open(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Opened> {
    match settings.database_url() {
        Some(_) => open_database(settings, clock).await,
        None => open_file(settings, clock),
    }
}

fn open_file(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Opened> {
    let place = settings.data_file(variable);
    let file = Arc::new(open_sqlite(&place, clock)?.with_windows(&settings.episodes()));
    Ok(Opened { store: Arc::clone(&file) as _, file: Some(file), place, outage: None })
}

fn open_sqlite(data: &Path, clock: &Arc<dyn Clock>) -> anyhow::Result<Sqlite> {
    let opened = Sqlite::open(data, Arc::clone(clock));
    opened.map_err(|error| {
        let hint = match &error {
            StoreError::InUse { holder, .. } if holder.url.is_some() => {
                "stop that server, or use another file with --data"
            }
            StoreError::InUse { .. } => {
                "end that process first, or name another file with --data; several can share a running `recalld serve`"
            }
            StoreError::NotOurs { .. } => "name another file with --data; this one is left as it is",
            StoreError::CannotOpen { .. } => "check the folder's rights, or name another file with --data",
            _ => return error.into(),
        };
        Advised::new("cannot open the data file", hint, error).into()
    })
}

#[cfg(feature = "postgres")]
async fn open_database(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Opened> {
    let database = settings.database().expect("whoever asks has seen its address");
    let spool = open_spool(settings).await?;
    let store = open_postgres(database, clock, &spool).await?.with_windows(&settings.episodes());
    let place = PathBuf::from(format!("PostgreSQL at {}", store.place()));
    let (patience, keys_max) = (settings.database_timeout.duration(), settings.memory().auth_cache_max);
    let outage = Some(Outage::new(spool, store.circuit(), patience, keys_max));
    Ok(Opened { store: Arc::new(store), file: None, place, outage })
}

/// Opens the spool on a thread that may wait.
#[cfg(feature = "postgres")]
async fn open_spool(settings: &Settings) -> anyhow::Result<Spool> {
    let path = settings.spool_file(variable);
    let opened = tokio::task::spawn_blocking(move || Spool::open(&path)).await?;
    opened.map_err(|error| {
        let hint = "turns wait there while the database is away; name another file with `spool_file`";
        Advised::new("cannot open the spool", hint, error).into()
    })
}

/// What is noted in the spool about the database whose tables this version was the last to look at.
#[cfg(feature = "postgres")]
const TABLES: &str = "tables";

/// Opens a database. One that is away, and whose tables were right when it was last here, is waited for while chat goes on.
#[cfg(feature = "postgres")]
async fn open_postgres(database: PostgresSettings, clock: &Arc<dyn Clock>, spool: &Spool) -> anyhow::Result<Postgres> {
    let tables = format!("version {} at {}", Postgres::SCHEMA_VERSION, database.place());
    match Postgres::open(database.clone(), Arc::clone(clock)).await {
        Ok(store) => {
            spool.note(TABLES, tables);
            Ok(store)
        }
        Err(error @ StoreError::Away(_)) if spool.noted(TABLES) == Some(tables) => {
            Ok(Postgres::open_away(database, Arc::clone(clock), &error))
        }
        Err(error) => Err(unreachable(error)),
    }
}

/// How PostgreSQL says that a right is missing.
#[cfg(feature = "postgres")]
const NOT_ALLOWED: &str = "(42501)";

/// What to do when a database does not open.
#[cfg(feature = "postgres")]
pub(super) fn unreachable(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::Refused(reason) if reason.contains(NOT_ALLOWED) => {
            "as the owner of the database: `GRANT recalld_runtime TO … WITH SET TRUE` lets this user serve, `GRANT CREATE ON \
             DATABASE … TO …` lets it make the tables; `recalld migrate` makes them once, as a user who may"
        }
        _ => {
            "see `database_url` in the settings; is the server there, and may this user make tables? `recalld migrate` makes \
             them once, as a user who may"
        }
    };
    Advised::new("cannot open the database", hint, error).into()
}

#[cfg(not(feature = "postgres"))]
async fn open_database(_: &Settings, _: &Arc<dyn Clock>) -> anyhow::Result<Opened> {
    anyhow::bail!("this recalld was built without the feature `postgres`")
}
