//! A copy of the data file while it is in use, as it is at one moment.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::backup::{Backup as Copying, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::connect::{SCHEMA_VERSION, meaning, open_reader};
use super::pages::{self, OnDamage};
use super::{Sqlite, seal};
use crate::store::StoreError;
use crate::store::backup::{self, Backup, Manifest};

/// Pages that are copied at once.
const PAGES: i32 = 2_048;

/// Makes a copy. It holds a moment of the file, so that whoever writes meanwhile is not in its way, nor it in theirs.
pub(super) fn copy(data: &Path, now: Timestamp) -> Result<Backup, StoreError> {
    let beside = Beside::new(data)?;
    let db = open_reader(data)?;
    db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;").map_err(|error| meaning(&error))?;
    let rows = fill(&db, &beside.path)?;
    let failed = |error: std::io::Error| StoreError::Disk(format!("`{}`: {error}", beside.path.display()));
    let mut file = OpenOptions::new().read(true).write(true).open(&beside.path).map_err(failed)?;
    let manifest = Manifest {
        format: 0,
        recalld: env!("CARGO_PKG_VERSION").to_owned(),
        schema: SCHEMA_VERSION,
        taken_at: now,
        bytes: 0,
        sha256: String::new(),
        rows,
        secret: seal::held(data).map(|secret| backup::told_apart(&secret)),
    };
    let bytes = backup::seal(&mut file, manifest).map_err(failed)?;
    Ok(Backup { file, bytes })
}

fn fill(from: &Connection, to: &Path) -> Result<BTreeMap<String, u64>, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = pages::open(to, flags, OnDamage::Refuse).map_err(|error| meaning(&error))?;
    pages::begin_like(&copy, from).map_err(|error| meaning(&error))?;
    // What breaks off is thrown away, so nothing has to reach the disk before the next thing does.
    copy.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;").map_err(|error| meaning(&error))?;
    let copying = Copying::new(from, &mut copy).map_err(|error| meaning(&error))?;
    while copying.step(PAGES).map_err(|error| meaning(&error))? != StepResult::Done {}
    drop(copying);
    // A backup is one file: whoever looks at it must not need a log beside it.
    copy.execute_batch("PRAGMA journal_mode = DELETE;").map_err(|error| meaning(&error))?;
    let rows = Sqlite::count_rows(&copy).map_err(|error| meaning(&error))?;
    copy.close().map_err(|(_, error)| meaning(&error))?;
    Ok(rows.into_iter().collect())
}

/// A file beside the data file, for nobody else to read. Its name goes with this value, its content when it is closed.
struct Beside {
    path: PathBuf,
}

impl Beside {
    fn new(data: &Path) -> Result<Self, StoreError> {
        let mut name = data.file_name().unwrap_or_default().to_owned();
        name.push(format!(".copy-{}", uuid::Uuid::new_v4().simple()));
        let path = data.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let made: std::io::Result<File> = options.open(&path);
        made.map_err(|error| StoreError::CannotOpen { path: path.clone(), reason: error.to_string() })?;
        Ok(Self { path })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes what a process left that was killed while it copied. To be called by whoever holds the file.
pub(super) fn tidy(data: &Path) {
    let Some(folder) = data.parent() else { return };
    let begins = format!("{}.copy-", data.file_name().unwrap_or_default().to_string_lossy());
    let entries = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&begins) {
            // Another copy is made under another name; this one is only in the way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
