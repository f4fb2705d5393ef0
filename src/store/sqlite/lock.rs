//! One process owns a data file. The lock lies beside it and says who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::{Holder, StoreError};

/// The held lock; the operating system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(in crate::store) struct Lock {
    file: File,
}

#[derive(Serialize, Deserialize)]
struct Note {
    pid: u32,
    url: Option<String>,
}

impl Lock {
    /// Takes the lock of a data file, or says who has it.
    pub(in crate::store) fn take(data: &Path) -> Result<Self, StoreError> {
        let path = lock_path(data);
        let cannot = |error: std::io::Error| StoreError::CannotOpen { path: path.clone(), reason: error.to_string() };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: data.into(), holder: holder(data) });
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        super::restore::tidy(data);
        check_names(data)?;
        let lock = Self { file };
        lock.note(None);
        Ok(lock)
    }

    /// Tells others where the holder serves. A courtesy: when it cannot be written, nothing is lost.
    pub(in crate::store) fn note(&self, url: Option<String>) {
        let note = serde_json::to_vec(&Note { pid: std::process::id(), url }).unwrap_or_default();
        let mut file = &self.file;
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&note));
    }

    /// Lets go before the end of the process, for the next one who opens the file.
    pub(in crate::store) fn release(&self) {
        let _ = self.file.unlock();
    }
}

/// Refuses a data file with a second name. SQLite keeps its log beside the name it was opened by: who opens the file by another
/// name does not see what is in the log, and the two overwrite each other.
pub(super) fn check_names(data: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        let names = data.metadata().map_or(1, |file| std::os::unix::fs::MetadataExt::nlink(&file));
        if names > 1 {
            let reason = format!(
                "it has {names} names (hard links), and each could be opened as a data file of its own; remove the others \
                 (`find -samefile` lists them), or copy the file instead of linking it"
            );
            return Err(StoreError::CannotOpen { path: data.into(), reason });
        }
    }
    #[cfg(not(unix))]
    let _ = data;
    Ok(())
}

/// Who holds a data file, as far as its lock file says.
fn holder(data: &Path) -> Holder {
    let mut text = String::new();
    let read = File::open(lock_path(data)).and_then(|mut file| file.read_to_string(&mut text));
    match read.ok().and_then(|_| serde_json::from_str::<Note>(&text).ok()) {
        Some(note) => Holder { pid: Some(note.pid), url: note.url },
        None => Holder::default(),
    }
}

/// Who holds a data file at this moment; `None` when nobody does.
pub(in crate::store) fn held_by(data: &Path) -> Option<Holder> {
    let file = File::open(lock_path(data)).ok()?;
    // The lock is free again when `file` goes, at the end of this function.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| holder(data))
}

/// Beside the file itself, wherever a symbolic link to it lies.
fn lock_path(data: &Path) -> PathBuf {
    let data = data.canonicalize().unwrap_or_else(|_| data.into());
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    data.with_file_name(name)
}
