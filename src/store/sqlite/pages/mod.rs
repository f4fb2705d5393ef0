//! A sum at the end of every page of a data file, so that no bit of what is kept changes unseen.
//!
//! The last eight bytes of a page are reserved, which SQLite knows by its own header, and hold the sum of the rest and of the page's
//! number. They are written and compared where pages pass on their way to the file and back (`shim`), so no statement, index or
//! plan knows of them, and a page is either what was written or an error. Other programs read the file as ever; a page that one of
//! them writes has no right sum any more and counts as damaged.
//!
//! What is still in the write-ahead log has the log's own checksums.
//!
//! Reading order: `sum` (what the sum of a page is), `gap` (what does not leave with a page), `shim` (where pages pass).

mod gap;
mod shim;
mod sum;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, Error, OpenFlags, Result};
use tracing::{info, warn};

/// The name under which SQLite knows where our pages pass.
const REFUSING: &str = "recalld";

/// The same for whoever wants to read on where a page is damaged.
const NOTING: &str = "recalld-noting";

/// What becomes of a read that meets a damaged page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDamage {
    /// It fails.
    Refuse,
    /// It is answered with what is there, and the page's number is noted.
    Note,
}

/// Opens a file so that its pages are looked at.
pub(super) fn open(path: &Path, flags: OpenFlags, on_damage: OnDamage) -> Result<Connection> {
    shim::register(&[(REFUSING, OnDamage::Refuse), (NOTING, OnDamage::Note)])?;
    let name = if on_damage == OnDamage::Note { NOTING } else { REFUSING };
    Connection::open_with_flags_and_vfs(path, flags, name)
}

/// A connection beside the store, for whoever has to write to its file: other connections leave no sums.
pub fn connection(path: &Path) -> Result<Connection> {
    open(path, OpenFlags::default(), OnDamage::Refuse)
}

/// Whether an error says that a page is not what was written.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(failure, _) if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_DATA)
}

/// Has a file that has nothing yet keep sums from its first page on.
pub(super) fn begin(db: &Connection) -> Result<()> {
    shim::reserve(db)?;
    shim::expect(db)
}

/// Has a file whose pages are copied from another keep sums, if that has them.
pub(super) fn begin_like(copy: &Connection, source: &Connection) -> Result<()> {
    if has_sums(source)? { shim::expect(copy) } else { Ok(()) }
}

/// Whether the pages of a file have sums.
pub(super) fn has_sums(db: &Connection) -> Result<bool> {
    shim::has_sums(db)
}

/// The damaged pages that were read by a connection that notes them.
pub(super) fn noted(db: &Connection) -> Result<Vec<u32>> {
    shim::noted(db)
}

/// Gives some pages of a file the sums of what is in them. Nobody else may have the file open.
pub(super) fn accept(path: &Path, numbers: &[u32]) -> std::io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    let mut head = [0; sum::HEAD_BYTES];
    file.read_exact(&mut head)?;
    let mut page = vec![0; sum::page_bytes(&head)];
    for number in numbers {
        let start = u64::from(number.saturating_sub(1)) * page.len() as u64;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut page)?;
        let content = &page[..page.len() - sum::SUM_BYTES];
        file.seek(SeekFrom::Start(start + content.len() as u64))?;
        file.write_all(&sum::of(content, *number))?;
    }
    file.sync_all()
}

/// Gives sums to the pages of a file of an older release, once. Without room for that, or while somebody else reads it, the file
/// stays as it is and works as before.
pub(super) fn add(db: &Connection, path: &Path) -> Result<()> {
    if has_sums(db)? {
        return Ok(());
    }
    let begun = Instant::now();
    match rewrite(db).and_then(|()| has_sums(db)) {
        Ok(true) => info!("Wrote `{}` anew with a sum in every page; took {:.1?}", path.display(), begun.elapsed()),
        Ok(false) => warn!(
            "The pages of `{}` have no sums yet: somebody else reads it; the next start tries again",
            path.display()
        ),
        Err(error) => warn!("The pages of `{}` have no sums yet: {error}; the next start tries again", path.display()),
    }
    Ok(())
}

/// Writes every page anew, with room for its sum. What that takes may be more than fits into memory.
fn rewrite(db: &Connection) -> Result<()> {
    shim::reserve(db)?;
    let kept: i64 = db.query_row("PRAGMA temp_store", [], |row| row.get(0))?;
    db.execute_batch("PRAGMA temp_store = FILE")?;
    let written = db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);");
    db.execute_batch(&format!("PRAGMA temp_store = {kept}")).and(written)
}
