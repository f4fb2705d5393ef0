//! The secret that keys are sealed with, in a file beside the data file: who has a copy of the database alone has no key.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::store::StoreError;
use crate::tenant::Seal;

/// Where the secret of a data file is.
pub(super) fn secret_path(data: &Path) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(".secret");
    data.with_file_name(name)
}

/// Reads the secret of a data file, making it of `fresh` if there is none.
pub(super) fn seal(data: &Path, fresh: [u8; 32]) -> Result<Seal, StoreError> {
    let too_short =
        "it is too short to be the secret of our keys; put the right one back, or remove it and make new keys";
    secret(&secret_path(data), fresh, too_short).map(|secret| Seal::new(&secret))
}

/// Reads a secret, making it of `fresh` if there is none.
pub(super) fn secret(path: &Path, fresh: [u8; 32], too_short: &str) -> Result<Vec<u8>, StoreError> {
    let cannot = |error: std::io::Error| StoreError::CannotOpen { path: path.into(), reason: error.to_string() };
    let secret = match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(path, &fresh).map_err(cannot)?,
        read => read.map_err(cannot)?,
    };
    match secret.len() < fresh.len() {
        true => Err(StoreError::NotOurs { path: path.into(), reason: too_short.into() }),
        false => Ok(secret),
    }
}

/// The secret of a data file, if it has one.
pub(super) fn held(data: &Path) -> Option<Vec<u8>> {
    read(&secret_path(data)).ok()
}

/// The secret that was kept beside a file, if one was.
pub(in crate::store) fn kept(data: &Path) -> Option<Seal> {
    read(&secret_path(data)).ok().filter(|secret| secret.len() >= 32).map(|secret| Seal::new(&secret))
}

/// Keeps a secret beside a file, in place of another one.
pub(in crate::store) fn keep(data: &Path, secret: &[u8]) -> std::io::Result<()> {
    let path = secret_path(data);
    if read(&path).is_ok_and(|kept| kept == secret) {
        return Ok(());
    }
    make(&path, secret).map(drop)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut secret = Vec::new();
    File::open(path)?.take(4_096).read_to_end(&mut secret)?;
    Ok(secret)
}

/// Writes it whole under another name first: half a secret would be another one.
fn make(path: &Path, fresh: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    file.write_all(fresh)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(fresh.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_for_us_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("r.db");
        let first = seal(&data, [1; 32]).expect("made").of("rk_x");
        assert_eq!(seal(&data, [2; 32]).expect("read").of("rk_x"), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = secret_path(&data).metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::write(secret_path(&data), "short").expect("written");
        assert!(matches!(seal(&data, [3; 32]), Err(StoreError::NotOurs { .. })));
    }
}
