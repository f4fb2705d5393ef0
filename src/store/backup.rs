//! A backup as a file: a copy of the data, and a last line that says what it is a copy of.
//!
//! The last line has the length and the SHA-256 of everything before it, so that a copy that broke off, or of which a bit
//! changed, is known for what it is before anything is done with it. SQLite takes no notice of the line: a backup can be looked at
//! with any tool that reads its files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::StoreError;

/// What the last line begins with.
const MARK: &str = "\nrecalld-backup ";

/// The version of the last line.
const FORMAT: u32 = 1;

/// The end of a file in which the last line is looked for: a name and a number for each table are much less.
const TAIL_BYTES: u64 = 32 << 10;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What a backup is a copy of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this description.
    pub format: u32,
    /// The version of recalld that made it.
    pub recalld: String,
    /// The version of its schema.
    pub schema: i64,
    /// When it was begun: what was acknowledged before is in it.
    pub taken_at: Timestamp,
    /// Bytes before the last line, and their SHA-256 in hexadecimal.
    pub bytes: u64,
    /// See `bytes`.
    pub sha256: String,
    /// How many rows each table has.
    pub rows: BTreeMap<String, u64>,
    /// Tells which secret the keys in it are sealed with, without being one; none when there was no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// What is wrong with a backup, or with restoring it.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It does not end as a backup does.
    #[error("`{0}` is not a whole backup: its last line is missing; the copy broke off, or it is another kind of file")]
    NotWhole(PathBuf),
    /// It ends as a backup does, but is not what was written.
    #[error("`{path}` is damaged: {reason}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// How that was seen.
        reason: String,
    },
    /// It was made by a newer version.
    #[error(
        "`{path}` was made by recalld {recalld} with schema version {found}, this binary knows {known}; use a newer recalld"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// By which version.
        recalld: String,
        /// What it has.
        found: i64,
        /// What we know.
        known: i64,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} `{path}`: {reason}")]
    File {
        /// To do what.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The store has something to say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    pub(super) fn file(what: &'static str, path: &Path, reason: impl ToString) -> Self {
        Self::File { what, path: path.into(), reason: reason.to_string() }
    }
}

/// A copy of everything that is kept, whole, to be read from its beginning. It has no name any more: it goes when it is closed.
#[derive(Debug)]
pub struct Backup {
    /// The copy.
    pub file: File,
    /// Its length, the last line included.
    pub bytes: u64,
}

/// The SHA-256 of as many bytes as are asked for, in hexadecimal; of fewer, if there are no more.
fn digest(file: &mut impl Read, bytes: u64) -> std::io::Result<(u64, String)> {
    let (mut hash, mut piece, mut read) = (Context::new(&SHA256), vec![0; PIECE_BYTES], 0);
    while read < bytes {
        let wanted = usize::try_from(bytes - read).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        match file.read(&mut piece[..wanted])? {
            0 => break,
            got => {
                hash.update(&piece[..got]);
                read += got as u64;
            }
        }
    }
    Ok((read, hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// What tells secrets apart without being one.
pub(super) fn told_apart(secret: &[u8]) -> String {
    let mut hash = Context::new(&SHA256);
    hash.update(b"recalld backup: which secret\0");
    hash.update(secret);
    hash.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the last line behind a copy. Answers the length of the whole.
pub(super) fn seal(file: &mut File, mut manifest: Manifest) -> std::io::Result<u64> {
    let bytes = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let (read, sha256) = digest(file, bytes)?;
    (manifest.format, manifest.bytes, manifest.sha256) = (FORMAT, read, sha256);
    let line = last_line(&manifest)?;
    file.seek(SeekFrom::Start(read))?;
    file.write_all(line.as_bytes())?;
    file.rewind()?;
    Ok(read + line.len() as u64)
}

fn last_line(manifest: &Manifest) -> std::io::Result<String> {
    let json = serde_json::to_string(manifest)?;
    Ok(format!("{MARK}{json} {:016x}\n", xxh3_64(json.as_bytes())))
}

/// Reads the last line of a file, if it has one of ours.
pub fn manifest(path: &Path) -> Result<Option<Manifest>, BackupError> {
    let cannot = |error: std::io::Error| BackupError::file("read", path, error);
    let mut file = File::open(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    let from = length.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut tail)).map_err(cannot)?;
    let Some(at) = tail.windows(MARK.len()).rposition(|window| window == MARK.as_bytes()) else { return Ok(None) };
    let damaged = |reason: &str| BackupError::Damaged { path: path.into(), reason: reason.to_owned() };
    let line = std::str::from_utf8(&tail[at + MARK.len()..]).map_err(|_| damaged("its last line is not text"))?;
    let whole = line.strip_suffix('\n').and_then(|line| line.rsplit_once(' '));
    let (json, _) = whole
        .filter(|(json, sum)| *sum == format!("{:016x}", xxh3_64(json.as_bytes())))
        .ok_or_else(|| damaged("its last line does not match its checksum"))?;
    let manifest: Manifest = serde_json::from_str(json).map_err(|_| damaged("its last line cannot be understood"))?;
    match manifest.bytes == from + at as u64 {
        true => Ok(Some(manifest)),
        false => Err(damaged("it is not as long as it was")),
    }
}

/// Reads a backup from its first byte to its last: it is what was written.
pub fn check(path: &Path) -> Result<Manifest, BackupError> {
    let manifest = manifest(path)?.ok_or_else(|| BackupError::NotWhole(path.into()))?;
    let digested = File::open(path).and_then(|mut file| digest(&mut file, manifest.bytes));
    let (_, sha256) = digested.map_err(|error| BackupError::file("read", path, error))?;
    match sha256 == manifest.sha256 {
        true => Ok(manifest),
        false => {
            Err(BackupError::Damaged { path: path.into(), reason: "its content does not match its checksum".into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(folder: &Path) -> PathBuf {
        let path = folder.join("copy");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
        file.write_all(&[7; 5_000]).expect("written");
        let rows = BTreeMap::from([("turn".to_owned(), 3)]);
        let manifest = Manifest {
            format: 0,
            recalld: "0.1.0".into(),
            schema: 12,
            taken_at: Timestamp::UNIX_EPOCH,
            bytes: 0,
            sha256: String::new(),
            rows,
            secret: None,
        };
        let length = seal(&mut file, manifest).expect("sealed");
        assert_eq!(length, path.metadata().expect("a file").len());
        path
    }

    #[test]
    fn a_backup_is_whole_or_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = sealed(folder.path());
        let manifest = check(&path).expect("whole");
        assert_eq!((manifest.bytes, manifest.rows["turn"]), (5_000, 3));
        let whole = std::fs::read(&path).expect("read");
        for length in [0, 100, 4_999, 5_000, 5_010, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("cut");
            let refused = check(&path).expect_err("a part is no backup");
            assert!(matches!(refused, BackupError::NotWhole(_) | BackupError::Damaged { .. }), "{length}: {refused}");
        }
    }

    #[test]
    fn every_bit_of_a_backup_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = sealed(folder.path());
        let whole = std::fs::read(&path).expect("read");
        // The bytes of the copy are alike; those of the last line are each of their own kind.
        for byte in (0..5_000).step_by(997).chain(5_000..whole.len()) {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1 << (byte % 8);
            std::fs::write(&path, &damaged).expect("written");
            assert!(check(&path).is_err(), "byte {byte}");
        }
    }
}
