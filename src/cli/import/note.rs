//! Where an import was, for the one that goes on with it. Without a note an import begins at the front, which takes longer and
//! comes to the same.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::cli::Common;
use crate::cli::engine::variable;
use crate::cli::lines::state_folder;

/// A note about a file, as it is now, and where it is imported to.
pub(super) struct Note {
    path: Option<PathBuf>,
}

impl Note {
    pub(super) fn of(file: &Path, common: &Common) -> Self {
        let known = file.canonicalize().ok().zip(file.metadata().ok());
        let path = known.and_then(|(file, about)| {
            let to = (&common.server, &common.data, &common.user, &common.tenant);
            let name = format!("{file:?} {} {:?} {to:?}", about.len(), about.modified().ok());
            let folder = state_folder(variable)?.join("imports");
            Some(folder.join(format!("{:016x}", xxh3_64(name.as_bytes()))))
        });
        Self { path }
    }

    /// How many records were sent.
    pub(super) fn done(&self) -> u64 {
        let text = self.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// A note that cannot be written costs time, not the import.
    pub(super) fn write(&self, records: u64) {
        let Some(path) = &self.path else { return };
        let folder = path.parent().map(std::fs::create_dir_all);
        if folder.is_some_and(|made| made.is_ok()) {
            let _ = std::fs::write(path, records.to_string());
        }
    }

    pub(super) fn forget(&self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
