//! Opening the data file: checks, settings, migrations.

use std::fs::OpenOptions;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::pages::{self, OnDamage};
use crate::store::StoreError;

/// Older releases of SQLite can corrupt a WAL under concurrent checkpoints.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// `recl` in the file's header: tells our files from other databases.
const APPLICATION_ID: i64 = 0x7265_636c;

/// Each entry brings a file from version `index` to `index + 1`. Entries are never edited.
const MIGRATIONS: [&str; 18] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    // A number that nothing came of; numbers are never given anew.
    "",
    include_str!("schema_9.sql"),
    include_str!("schema_10.sql"),
    include_str!("schema_11.sql"),
    include_str!("schema_12.sql"),
    include_str!("schema_13.sql"),
    include_str!("schema_14.sql"),
    include_str!("schema_15.sql"),
    // Blocks of version 3, which binaries of before would take for damaged ones.
    "",
    include_str!("schema_17.sql"),
    include_str!("schema_18.sql"),
];

/// The schema version this binary writes.
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// What is said of a page whose sum is wrong.
const DAMAGED_PAGE: &str = "a page is not what was written; the log says which, and `recalld verify` what was on it";

/// What every connection is set to. `FULL` is what makes an acknowledged turn survive a power loss.
const SETTINGS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 4000;
    PRAGMA secure_delete = ON;
    PRAGMA foreign_keys = ON;
    PRAGMA busy_timeout = 5000;
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -8000;";

/// Opens the writing connection: makes the file if need be, refuses what is not ours, migrates.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    assert!(rusqlite::version_number() >= SQLITE_VERSION_MIN, "recalld is built with SQLite 3.51.3 or later");
    let is_new = make_private(path)?;
    let db = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, OnDamage::Refuse)?;
    if is_new {
        pages::begin(&db).map_err(|error| opening(path, &error))?;
    }
    let version = check_ours(&db, path)?;
    db.execute_batch(SETTINGS).map_err(|error| opening(path, &error))?;
    #[cfg(debug_assertions)]
    lower_synchronous(&db).map_err(|error| opening(path, &error))?;
    migrate(&db, version).map_err(|error| opening(path, &error))?;
    pages::add(&db, path).map_err(|error| opening(path, &error))?;
    Ok(db)
}

/// Lets `scripts/sync-order --self-test` see that it notices a store that does not sync. No release has it.
#[cfg(debug_assertions)]
fn lower_synchronous(db: &Connection) -> rusqlite::Result<()> {
    match std::env::var("RECALLD_TEST_SYNCHRONOUS") {
        Ok(level) => db.pragma_update(None, "synchronous", level),
        Err(_) => Ok(()),
    }
}

/// Opens a connection that can only read.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    open_to_read(path, OnDamage::Refuse)
}

/// Opens a connection that can only read, and that reads on where a page is damaged.
pub(super) fn open_noting(path: &Path) -> Result<Connection, StoreError> {
    open_to_read(path, OnDamage::Note)
}

fn open_to_read(path: &Path, on_damage: OnDamage) -> Result<Connection, StoreError> {
    let db = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, on_damage)?;
    let settings = "PRAGMA busy_timeout = 5000; PRAGMA trusted_schema = OFF; \
                    PRAGMA query_only = ON; PRAGMA cache_size = -4000;";
    db.execute_batch(settings).map_err(|error| opening(path, &error))?;
    Ok(db)
}

fn open(path: &Path, access: OpenFlags, on_damage: OnDamage) -> Result<Connection, StoreError> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let db = pages::open(path, flags, on_damage).map_err(|error| opening(path, &error))?;
    db.set_prepared_statement_cache_capacity(64);
    // Plans must not depend on values: SQLite would else prepare a statement anew for each value it peeked at.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(|error| opening(path, &error))?;
    Ok(db)
}

/// Makes the folder and the file, readable by nobody else. SQLite gives the same mode to what it adds. Answers whether there is
/// nothing in the file yet.
pub(in crate::store) fn make_private(path: &Path) -> Result<bool, StoreError> {
    let cannot = |error: std::io::Error| StoreError::CannotOpen { path: path.into(), reason: error.to_string() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    if let Ok(known) = path.metadata() {
        return Ok(known.len() == 0);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(cannot)?;
    // The new name is in the folder, and the folder must reach the disk as well.
    #[cfg(unix)]
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot)?;
    Ok(true)
}

/// Answers the schema version of a file of ours, 0 for an empty one.
pub(super) fn check_ours(db: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = |pragma: &str| db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
    let not_ours = |reason: String| StoreError::NotOurs { path: path.into(), reason };
    let application = read("application_id").map_err(|error| opening(path, &error))?;
    let version = read("user_version").map_err(|error| opening(path, &error))?;
    // Before its first migration a file of ours can be a header without tables.
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = db.query_row(count, [], |row| row.get(0)).map_err(|error| opening(path, &error))?;
    match (application, version) {
        (0, 0) if tables == 0 => Ok(0),
        (APPLICATION_ID, found) if found > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: path.into(), found, known: SCHEMA_VERSION })
        }
        (APPLICATION_ID, found) => Ok(found),
        _ => Err(not_ours("it is a SQLite database of another program".into())),
    }
}

/// Brings the file to [`SCHEMA_VERSION`], all in one transaction.
fn migrate(db: &Connection, from: i64) -> rusqlite::Result<()> {
    if from == SCHEMA_VERSION {
        return Ok(());
    }
    let steps = MIGRATIONS[from.max(0) as usize..].join("\n");
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         {steps}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         COMMIT;"
    ))
}

/// An empty file of the newest version, in memory: what the schema should be like.
pub(super) fn newest_schema() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    migrate(&db, 0)?;
    Ok(db)
}

/// Says what an error means while a file is opened.
fn opening(path: &Path, error: &rusqlite::Error) -> StoreError {
    if pages::is_damage(error) {
        return StoreError::DamagedFile(format!("`{}`: {DAMAGED_PAGE}", path.display()));
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::NotOurs { path: path.into(), reason: error.to_string() }
        }
        _ => StoreError::CannotOpen { path: path.into(), reason: error.to_string() },
    }
}

/// Says what an error means while data is read or written.
pub(in crate::store) fn meaning(error: &rusqlite::Error) -> StoreError {
    if pages::is_damage(error) {
        return StoreError::DamagedFile(DAMAGED_PAGE.into());
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => StoreError::DamagedFile(error.to_string()),
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string()),
        // Too big or of the wrong kind is no passing trouble: the same write would be refused for ever.
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
            StoreError::Refused(error.to_string())
        }
        _ => StoreError::Disk(error.to_string()),
    }
}
