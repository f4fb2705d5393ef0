//! Putting a backup in the place of the data file.
//!
//! Everything that can be found wrong is found before anything is replaced. Then the old file gets a second name, and the new one
//! takes the first in one step: whenever a process is killed, there is a whole file under the name.
//!
//! What lies beside the data file stays as it is: the secret of the keys, and the book of what was erased, which the next start
//! compares with the data.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, copy};
use std::path::{Path, PathBuf};

use super::connect::{SCHEMA_VERSION, meaning, open_reader, open_writer};
use super::lock::Lock;
use super::{Sqlite, seal};
use crate::store::backup::{self, BackupError, Manifest, told_apart};

/// What became of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was restored.
    pub manifest: Manifest,
    /// Keys in it whose secret is not the one beside the data file: they open nothing.
    pub keys_without_secret: u64,
}

/// How the name of the old file ends until the new one is in its place.
const SET_ASIDE: &str = ".before-restore";
/// Most problems that are told of a backup that is not well.
const PROBLEMS_TOLD: usize = 3;

impl Sqlite {
    /// Puts a backup in the place of a data file, which nobody may have open.
    pub fn restore(data: &Path, from: &Path) -> Result<Restored, BackupError> {
        if let Some(folder) = data.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| BackupError::file("make", folder, error))?;
        }
        let _lock = Lock::take(data)?;
        let manifest = backup::check(from)?;
        if manifest.schema > SCHEMA_VERSION {
            let (recalld, found) = (manifest.recalld, manifest.schema);
            return Err(BackupError::Newer { path: from.into(), recalld, found, known: SCHEMA_VERSION });
        }
        let new = beside(data, ".restoring");
        let prepared = prepare(from, &new, &manifest);
        let keys = prepared.inspect_err(|_| remove(&new))?;
        replace(data, &new).inspect_err(|_| remove(&new))?;
        let is_theirs = seal::held(data).map(|secret| told_apart(&secret)) == manifest.secret;
        Ok(Restored { keys_without_secret: if is_theirs { 0 } else { keys }, manifest })
    }
}

/// Makes a file of the backup, brings it up to date, and looks through it. Answers how many keys it has.
fn prepare(from: &Path, new: &Path, manifest: &Manifest) -> Result<u64, BackupError> {
    remove(new);
    unpack(from, new, manifest.bytes).map_err(|error| BackupError::file("write", new, error))?;
    let damaged = |reason: String| BackupError::Damaged { path: from.into(), reason };
    let held = open_reader(new)
        .and_then(|db| Sqlite::count_rows(&db).map_err(|error| meaning(&error)))
        .map_err(|error| damaged(error.to_string()))?;
    let rows: BTreeMap<String, u64> = held.into_iter().collect();
    if rows != manifest.rows {
        return Err(damaged("it does not have the rows that its last line names".into()));
    }
    let db = open_writer(new)?;
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(|error| meaning(&error))?;
    db.close().map_err(|(_, error)| meaning(&error))?;
    let found = Sqlite::verify(new)?;
    if !found.is_well() {
        return Err(damaged(found.problems[..found.problems.len().min(PROBLEMS_TOLD)].join("; ")));
    }
    sweep(new);
    File::open(new).and_then(|file| file.sync_all()).map_err(|error| BackupError::file("write", new, error))?;
    Ok(rows.get("api_key").copied().unwrap_or(0))
}

/// Copies what comes before the last line, for nobody else to read.
fn unpack(from: &Path, new: &Path, bytes: u64) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(new)?;
    copy(&mut File::open(from)?.take(bytes), &mut file)?;
    file.sync_all()
}

/// Puts the new file in the place of the old one.
fn replace(data: &Path, new: &Path) -> Result<(), BackupError> {
    let old = beside(data, SET_ASIDE);
    if data.exists() {
        set_aside(data, &old)?;
    }
    let renamed = std::fs::rename(new, data).and_then(|()| sync_folder(data));
    renamed.map_err(|error| BackupError::file("replace", data, error))?;
    // The last look: what is there now opens. Only then the old one goes.
    open_reader(data)?;
    sweep(data);
    remove(&old);
    Ok(())
}

/// Gives the old file a second name. What is in its log goes into it first; if it is too damaged for that, the log goes along, because
/// it must not be taken for the new file's.
fn set_aside(data: &Path, old: &Path) -> Result<(), BackupError> {
    remove(old);
    let settled = open_writer(data).and_then(|db| {
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(|error| meaning(&error))?;
        db.close().map_err(|(_, error)| meaning(&error))
    });
    let cannot = |error: std::io::Error| BackupError::file("set aside", data, error);
    // Where there are no second names a copy must do.
    std::fs::hard_link(data, old).or_else(|_| std::fs::copy(data, old).map(drop)).map_err(cannot)?;
    for end in ["-wal", "-shm"] {
        let log = beside(data, end);
        if log.exists() {
            let kept =
                if settled.is_ok() { std::fs::remove_file(&log) } else { std::fs::rename(&log, beside(old, end)) };
            kept.map_err(cannot)?;
        }
    }
    sync_folder(data).map_err(cannot)
}

/// Takes back the second name that a restore gave to the data file before it was cut short. The caller holds the lock.
pub(super) fn tidy(data: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let old = beside(data, SET_ASIDE);
        let file = |path: &Path| path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()));
        if file(data).is_some_and(|this| file(&old) == Some(this)) {
            let _ = std::fs::remove_file(&old);
        }
    }
    #[cfg(not(unix))]
    let _ = data;
}

/// A file whose name is that of another, and then some.
fn beside(data: &Path, end: &str) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(end);
    data.with_file_name(name)
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    sweep(path);
}

/// Removes what reading a file may have left beside it.
fn sweep(path: &Path) {
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(path, end));
    }
}

fn sync_folder(data: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let folder = data.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = data;
    Ok(())
}
