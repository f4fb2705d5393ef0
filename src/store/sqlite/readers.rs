//! Connections that only read. WAL lets them see the last commit while the next is being written.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connect::open_reader;
use super::writer::run;
use crate::store::StoreError;

/// Most reads at one time; more wait.
const READERS_MAX: usize = 8;

/// The pool. Connections are opened when first needed and kept.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.into(), idle: Arc::default(), places: Arc::new(Semaphore::new(READERS_MAX)) }
    }

    /// The data file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a read off the async threads: a cold disk may take its time. All it looks at is of one moment.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let pool = self.clone();
        let read = move || {
            let db = pool.take()?;
            let found = at_one_moment(&db, work);
            pool.put_back(db);
            drop(place);
            found
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| StoreError::Disk(error.to_string()))?
    }

    /// Runs a small read on the calling thread: handing it to another one would take longer than a few rows
    /// from memory do. Only for reads whose size is bounded by a setting.
    pub(super) async fn read_here<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError>,
    {
        let _place = self.places.acquire().await.map_err(|_| StoreError::Closed)?;
        let db = self.take()?;
        let found = at_one_moment(&db, work);
        self.put_back(db);
        found
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| open_reader(&self.path), Ok)
    }

    fn put_back(&self, db: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.places.is_closed() {
            idle.push(db);
        }
    }

    /// Lets go of all connections; reads that come later fail.
    pub(super) fn close(&self) {
        self.places.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A session that is deleted between two looks must not lend its key to another one's turns.
fn at_one_moment<T>(db: &Connection, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
    run(db, "BEGIN")?;
    let found = work(db);
    // A damaged page ends the transaction with the statement that met it.
    let ended = if db.is_autocommit() { Ok(()) } else { run(db, "COMMIT") };
    found.and_then(|found| ended.map(|()| found))
}
