//! Copies of damaged write-ahead logs, kept beside the data file so that what they hold can be rescued.
//!
//! They hold what users said, so they are for the owner of the data file alone, and go with the next erasure or after 30 days.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tracing::{error, warn};

use super::wal_check::{self, LogDamage};
use crate::store::StoreError;

/// How long a copy is kept.
const KEPT_DAYS: i64 = 30;
/// Most copies; the oldest goes first.
const COPIES_MAX: usize = 5;
/// When a log was copied, as its copy's name says it.
const TIME: &str = "%Y%m%dT%H%M%S%.6fZ";

/// A copy of a damaged log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLog {
    /// Where it is.
    pub path: PathBuf,
    /// When the damage was found.
    pub found_at: Timestamp,
}

impl KeptLog {
    /// Until when it is kept.
    pub fn until(&self) -> Timestamp {
        self.found_at.checked_add(SignedDuration::from_hours(24 * KEPT_DAYS)).unwrap_or(Timestamp::MAX)
    }
}

/// The copies beside a file that this process has open.
#[derive(Debug)]
pub(in crate::store) struct KeptLogs {
    data: PathBuf,
    kept: Mutex<Vec<KeptLog>>,
}

impl KeptLogs {
    /// Checks the log of a file that no process has open, before SQLite opens it.
    pub(in crate::store) fn guard(data: &Path, now: Timestamp) -> Result<Self, StoreError> {
        Ok(Self { data: resolve_links(data), kept: Mutex::new(guard(data, now)?) })
    }

    /// When damage was found last in a log of which a copy is still there.
    pub(in crate::store) fn found_at(&self) -> Option<Timestamp> {
        self.kept().iter().filter(|kept| kept.path.exists()).map(|kept| kept.found_at).max()
    }

    /// Removes the copies whose time is over.
    pub(in crate::store) fn remove_old(&self, now: Timestamp) {
        let mut kept = self.kept();
        if !kept.is_empty() {
            *kept = remove_old(&self.data, now);
        }
    }

    /// Removes all of them: what is erased may stand in them. Answers whether none is left.
    pub(in crate::store) fn remove_all(&self) -> bool {
        let mut kept = self.kept();
        if !kept.is_empty() {
            *kept = remove_before(&self.data, Timestamp::MAX);
        }
        kept.is_empty()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<KeptLog>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The copies beside a file, oldest first.
pub(in crate::store) fn list(data: &Path) -> Vec<KeptLog> {
    let data = &resolve_links(data);
    let Some(name) = data.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let begins = format!("{name}-wal.damaged-");
    let Ok(files) = std::fs::read_dir(folder_of(data)) else { return Vec::new() };
    let found_at = |name: &str| {
        let at = DateTime::strptime(TIME, name.strip_prefix(&begins)?).ok()?;
        TimeZone::UTC.to_timestamp(at).ok()
    };
    let kept = |path: PathBuf| {
        let found_at = found_at(path.file_name()?.to_str()?)?;
        Some(KeptLog { path, found_at })
    };
    let mut found: Vec<KeptLog> = files.flatten().filter_map(|file| kept(file.path())).collect();
    found.sort_by_key(|kept| kept.found_at);
    found
}

/// Removes the copies that were made before this time. Answers those that are left.
fn remove_before(data: &Path, before: Timestamp) -> Vec<KeptLog> {
    let mut kept = list(data);
    kept.retain(|kept| {
        let goes = kept.found_at < before;
        if goes && let Err(error) = std::fs::remove_file(&kept.path) {
            error!("Cannot remove `{}`, a copy of a damaged log: {error}; remove it by hand", kept.path.display());
            return error.kind() != ErrorKind::NotFound;
        }
        !goes
    });
    kept
}

fn remove_old(data: &Path, now: Timestamp) -> Vec<KeptLog> {
    let age = SignedDuration::from_hours(24 * KEPT_DAYS);
    remove_before(data, now.checked_sub(age).unwrap_or(Timestamp::MIN))
}

/// Says in the log of this process that a log is damaged, and keeps a copy of it. What is whole stays for SQLite. Answers the
/// copies that are there.
fn guard(data: &Path, now: Timestamp) -> Result<Vec<KeptLog>, StoreError> {
    let data = &resolve_links(data);
    let mut kept = remove_old(data, now);
    let Some(damage) = damage(data)? else { return Ok(kept) };
    let log = log_path(data);
    // If the data file is newer than what counts of the log, SQLite would read old pages of some tables and new ones of others.
    let is_outdated = damage.first_lost() <= frames_checkpointed(data).unwrap_or(0);
    let copied = if is_outdated { set_aside(data, now) } else { copy(&log, now) };
    let told = format!(
        "The write-ahead log `{}` is damaged: {damage}. Turns that were acknowledged may be lost",
        log.display()
    );
    match copied {
        Ok(path) => {
            error!(
                "{told}; the server goes on with what is whole. A copy of the log is `{}`: `recalld doctor` names it until it is \
                 removed",
                path.display()
            );
            kept.push(KeptLog { path, found_at: now });
        }
        Err(error) if is_outdated => return Err(cannot(data, &error)),
        Err(error) => error!("{told}; the server goes on with what is whole. No copy of the log can be kept: {error}"),
    }
    while kept.len() > COPIES_MAX {
        let oldest = kept.remove(0);
        if let Err(error) = std::fs::remove_file(&oldest.path) {
            warn!("Cannot remove `{}`: {error}", oldest.path.display());
        }
    }
    Ok(kept)
}

/// What is wrong with the log of a data file, if there is one.
pub(in crate::store) fn damage(data: &Path) -> Result<Option<LogDamage>, StoreError> {
    match File::open(log_path(&resolve_links(data))) {
        Ok(log) => wal_check::check(BufReader::with_capacity(1 << 18, log)).map_err(|error| cannot(data, &error)),
        Err(error) => ignore_not_found(error).map(|()| None).map_err(|error| cannot(data, &error)),
    }
}

/// Copies a log, for its owner alone.
fn copy(log: &Path, now: Timestamp) -> std::io::Result<PathBuf> {
    let path = copy_path(log, now);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut copy = options.open(&path)?;
    let copied = std::io::copy(&mut File::open(log)?, &mut copy).and_then(|_| copy.sync_all());
    if let Err(error) = copied {
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    Ok(path)
}

/// Gives the log of a data file another name, so that SQLite finds none.
fn set_aside(data: &Path, now: Timestamp) -> std::io::Result<PathBuf> {
    let log = log_path(data);
    let path = copy_path(&log, now);
    #[cfg(unix)]
    std::fs::set_permissions(&log, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    std::fs::rename(&log, &path)?;
    std::fs::remove_file(beside(data, "-shm")).or_else(ignore_not_found)?;
    Ok(path)
}

fn copy_path(log: &Path, now: Timestamp) -> PathBuf {
    beside(log, &format!(".damaged-{}", TimeZone::UTC.to_datetime(now).strftime(TIME)))
}

/// How many frames of this round of the log SQLite had written to the data file. The index of the log (`-shm`), which outlives a
/// killed process, begins with two copies of a header of 48 bytes that has the log's salts, and goes on with this number.
fn frames_checkpointed(data: &Path) -> Option<u64> {
    let (mut index, mut header) = ([0; 100], [0; 32]);
    File::open(beside(data, "-shm")).ok()?.read_exact(&mut index).ok()?;
    File::open(log_path(data)).ok()?.read_exact(&mut header).ok()?;
    let frames = u32::from_ne_bytes([index[96], index[97], index[98], index[99]]);
    (index[32..40] == wal_check::salts(&header)).then_some(u64::from(frames))
}

/// SQLite keeps the log beside the file itself, wherever a symbolic link to it lies.
fn resolve_links(data: &Path) -> PathBuf {
    data.canonicalize().unwrap_or_else(|_| data.into())
}

fn log_path(data: &Path) -> PathBuf {
    beside(data, "-wal")
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

fn folder_of(data: &Path) -> &Path {
    data.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn ignore_not_found(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn cannot(data: &Path, error: &std::io::Error) -> StoreError {
    StoreError::CannotOpen { path: log_path(data), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const FRAME: usize = 24 + 4_096;

    /// A data file with rows in it and more in its log, as a killed process leaves it. `written_back` says whether the log was
    /// copied to the data file before.
    fn left(written_back: bool) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let (alive, dead) = (folder.path().join("alive.db"), folder.path().join("r.db"));
        let db = Connection::open(&alive).expect("a new file");
        db.execute_batch(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE said (text TEXT); PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("a table");
        for n in 0..20 {
            db.execute("INSERT INTO said VALUES (?1)", [n.to_string().repeat(300)]).expect("a row");
        }
        if written_back {
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).expect("a checkpoint");
        }
        for end in ["", "-wal", "-shm"] {
            std::fs::copy(beside(&alive, end), beside(&dead, end)).expect("copied");
        }
        (folder, dead)
    }

    fn flip(log: &Path, byte: usize) {
        let mut bytes = std::fs::read(log).expect("a log");
        bytes[byte] ^= 1;
        std::fs::write(log, bytes).expect("written");
    }

    fn rows(data: &Path) -> u64 {
        let db = Connection::open(data).expect("it opens");
        let problems: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
        assert_eq!(problems, "ok");
        db.query_row("SELECT count(*) FROM said", [], |row| row.get(0)).expect("counted")
    }

    #[test]
    fn what_is_whole_leaves_nothing() {
        let (_folder, data) = left(false);
        assert_eq!(guard(&data, Timestamp::UNIX_EPOCH).expect("looked"), []);
        assert_eq!((rows(&data), list(&data)), (20, vec![]));
    }

    #[test]
    fn a_damaged_log_is_kept_until_its_time_is_over() {
        let (_folder, data) = left(false);
        let now: Timestamp = "2026-03-01T10:00:00.25Z".parse().expect("a time");
        flip(&log_path(&data), 32 + 8 * FRAME);
        let log = std::fs::read(log_path(&data)).expect("a log");
        let kept = guard(&data, now).expect("looked");
        assert_eq!((&kept, kept[0].found_at), (&list(&data), now));
        assert!(kept[0].path.ends_with("r.db-wal.damaged-20260301T100000.250000Z"), "{kept:?}");
        assert_eq!(std::fs::read(&kept[0].path).expect("a copy"), log);
        assert!((1..20).contains(&rows(&data)), "SQLite goes on with what is whole");
        assert_eq!(remove_old(&data, kept[0].until()), kept);
        assert_eq!(remove_old(&data, kept[0].until() + SignedDuration::from_secs(1)), []);
        assert_eq!(list(&data), []);
    }

    #[cfg(unix)]
    #[test]
    fn a_log_is_found_beside_the_file_that_a_link_names() {
        let (_folder, data) = left(false);
        flip(&log_path(&data), 0);
        let elsewhere = tempfile::tempdir().expect("a folder");
        let link = elsewhere.path().join("link.db");
        std::os::unix::fs::symlink(&data, &link).expect("a link");
        assert_eq!(damage(&link).expect("looked"), Some(LogDamage::Header));
        let kept = guard(&link, Timestamp::UNIX_EPOCH).expect("looked");
        assert_eq!((list(&link), list(&data).len()), (kept, 1));
    }

    /// The log's first frames alone would put old pages beside new ones.
    #[test]
    fn what_was_written_back_is_not_taken_back() {
        let (_folder, data) = left(true);
        flip(&log_path(&data), 32 + 8 * FRAME);
        assert_eq!(guard(&data, Timestamp::UNIX_EPOCH).expect("looked").len(), 1);
        assert_eq!(rows(&data), 20, "all of it was in the data file");
    }

    #[test]
    fn the_oldest_of_many_copies_goes() {
        let (_folder, data) = left(false);
        flip(&log_path(&data), 32 + 8 * FRAME);
        for second in 0..COPIES_MAX as i64 + 2 {
            guard(&data, Timestamp::from_second(second).expect("a time")).expect("looked");
        }
        let seconds: Vec<i64> = list(&data).iter().map(|kept| kept.found_at.as_second()).collect();
        assert_eq!(seconds, [2, 3, 4, 5, 6]);
        let open = KeptLogs::guard(&data, Timestamp::from_second(10).expect("a time")).expect("looked");
        assert_eq!(open.found_at(), Timestamp::from_second(10).ok());
        assert!(open.remove_all() && open.found_at().is_none() && list(&data).is_empty());
    }
}
