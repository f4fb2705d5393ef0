//! The book of what was erased, in a file beside the data file: whoever puts an older data file back leaves it where it is.
//!
//! A line has a number, a time, a kind, a mark, and a checksum over all of that and the checksum of the line before. So a line
//! that was changed, or taken out, is noticed. A last line that is not whole was never answered, and is cut off. The key
//! of the marks is in a file of its own.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::seal;
use crate::clock::from_micros;
use crate::id::{Ids, RandomIds};
use crate::store::StoreError;
use crate::store::erasure::{Entry, Erasure, ErasureKind, Mark, Marks, Meanwhile, Waited};

/// What the file begins with.
const HEAD: &str = "recalld erased 1\n";

/// The book of a data file.
#[derive(Debug)]
pub(super) struct Book {
    path: PathBuf,
    key: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    entries: Vec<Entry>,
    /// The checksum of the last line.
    chain: u64,
    /// Bytes up to the end of the last whole line.
    bytes: u64,
}

/// Where the book of a data file is, and the key of its marks.
pub(super) fn paths(data: &Path) -> (PathBuf, PathBuf) {
    let beside = |ending: &str| {
        let mut name = data.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        data.with_file_name(name)
    };
    (beside(".erased"), beside(".erased-key"))
}

impl Book {
    /// Opens the book of a data file. One that nothing was written into yet is no file.
    pub(super) fn open(data: &Path) -> Result<Self, StoreError> {
        let (path, key) = paths(data);
        let held = match read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Held::default(),
            read => parse(&path, &read.map_err(|error| cannot(&path, &error))?)?,
        };
        if !held.entries.is_empty() && !key.exists() {
            let reason = "the key of its marks is missing; put it back from where the data file's copies are";
            return Err(StoreError::NotOurs { path: key, reason: reason.into() });
        }
        Ok(Self { path, key, held: Mutex::new(held) })
    }

    /// What makes marks; their key is made when it is first needed.
    pub(super) fn marks(&self) -> Result<Marks, StoreError> {
        seal::secret(
            &self.key,
            RandomIds.chance(),
            "it is too short to be the key of what was erased; put the right one back",
        )
        .map(|key| Marks::new(&key))
    }

    /// All lines behind a number.
    pub(super) fn after(&self, id: u64) -> Vec<Entry> {
        self.held().entries.iter().filter(|entry| entry.id > id).copied().collect()
    }

    /// What was erased while a turn waited.
    pub(super) fn meanwhile(&self, waited: &Waited) -> Result<Meanwhile, StoreError> {
        let since: Vec<Entry> = self.held().entries.iter().filter(|entry| entry.at >= waited.since).copied().collect();
        if since.is_empty() {
            return Ok(Meanwhile::Nothing);
        }
        let lines = waited.lines(&self.marks()?);
        let is_it = since.iter().any(|entry| lines.contains(&(entry.kind, entry.mark)));
        Ok(if is_it { Meanwhile::This } else { Meanwhile::Another })
    }

    /// All lines.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.held().entries.clone()
    }

    /// Writes down that something is erased; on disk when this returns. Its number is above `follows`, which is where the data are.
    pub(super) fn write_down(&self, what: &Erasure, at: Timestamp, follows: u64) -> Result<Entry, StoreError> {
        let mark = self.marks()?.of(what);
        let mut held = self.held();
        let last = held.entries.last().map_or(0, |entry| entry.id);
        let entry = Entry { id: last.max(follows) + 1, at: from_micros(at.as_microsecond()), kind: what.kind(), mark };
        let (line, chain) = line(&entry, held.chain);
        let head = if held.bytes == 0 { HEAD } else { "" };
        let text = format!("{head}{line}");
        append(&self.path, held.bytes, text.as_bytes()).map_err(|error| failed(&error))?;
        held.bytes += text.len() as u64;
        held.chain = chain;
        held.entries.push(entry);
        Ok(entry)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::CannotOpen { path: path.into(), reason: error.to_string() }
}

fn failed(error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull => StoreError::Full(error.to_string()),
        _ => StoreError::Disk(error.to_string()),
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    // What is no text fails its checksum.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes behind the last whole line, whatever lies there, and lets it reach the disk; the file's name, too.
fn append(path: &Path, end: u64, text: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.set_len(end)?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(end))?;
    file.write_all(text)?;
    file.sync_all()?;
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| end == 0 && !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// An entry as a line, and the checksum it ends with.
fn line(entry: &Entry, before: u64) -> (String, u64) {
    let Entry { id, at, kind, mark } = entry;
    let said = format!("{id} {} {} {mark}", at.as_microsecond(), kind.as_str());
    let chain = xxh3_64_with_seed(said.as_bytes(), before);
    (format!("{said} {chain:016x}\n"), chain)
}

fn parse(path: &Path, text: &str) -> Result<Held, StoreError> {
    let not_ours = |reason: String| StoreError::NotOurs { path: path.into(), reason };
    // The very first line may have been cut off, too.
    let Some(lines) = text.strip_prefix(HEAD) else {
        return match HEAD.starts_with(text) {
            true => Ok(Held::default()),
            false => Err(not_ours("it is no book of what was erased".into())),
        };
    };
    let mut held = Held { bytes: HEAD.len() as u64, ..Held::default() };
    for (n, whole) in lines.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n')) {
        let entry = entry(whole).filter(|entry| line(entry, held.chain).0 == whole).ok_or_else(|| {
            not_ours(format!("line {} of what was erased is damaged; put a good copy of the file back", n + 2))
        })?;
        held.chain = line(&entry, held.chain).1;
        held.bytes += whole.len() as u64;
        held.entries.push(entry);
    }
    Ok(held)
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split_whitespace();
    let (id, at) = (words.next()?.parse().ok()?, from_micros(words.next()?.parse().ok()?));
    let (kind, mark) = (ErasureKind::parse(words.next()?)?, Mark::parse(words.next()?)?);
    Some(Entry { id, at, kind, mark })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Tenant;

    fn tenant(name: &str) -> Erasure {
        Erasure::Tenant(Tenant::parse(name).expect("a name"))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn what_is_written_down_is_there_after_a_restart_and_has_no_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("r.db");
        let book = Book::open(&data).expect("opened");
        assert!(!paths(&data).0.exists(), "nothing was erased");
        let first = book.write_down(&tenant("secretcorp"), at(1), 0).expect("written");
        let second = book.write_down(&tenant("other"), at(2), 7).expect("written");
        assert_eq!((first.id, second.id), (1, 8), "above what the data follow");
        let again = Book::open(&data).expect("opened");
        assert_eq!(again.entries(), [first, second]);
        assert_eq!(again.after(1), [second]);
        assert_eq!(again.marks().expect("marks").of(&tenant("secretcorp")), first.mark);
        for path in [paths(&data).0, paths(&data).1] {
            let bytes = std::fs::read(&path).expect("a file");
            assert!(!bytes.windows(6).any(|part| part == b"secret"), "{}", path.display());
            #[cfg(unix)]
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("a file").permissions()) & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn half_a_line_is_cut_off_and_a_changed_one_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("r.db");
        let book = Book::open(&data).expect("opened");
        let kept: Vec<Entry> = (1..4).map(|n| book.write_down(&tenant("acme"), at(n), 0).expect("written")).collect();
        let path = paths(&data).0;
        let whole = std::fs::read_to_string(&path).expect("a file");
        for cut in HEAD.len()..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let book = Book::open(&data).expect("a torn end is no damage");
            let lines = whole[HEAD.len()..cut].matches('\n').count();
            assert_eq!(book.entries(), kept[..lines], "{cut}");
            let next = book.write_down(&tenant("next"), at(9), 0).expect("written");
            assert_eq!(Book::open(&data).expect("opened").entries().last(), Some(&next));
        }
        for at in HEAD.len()..whole.len() - 1 {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).expect("written");
            assert!(matches!(Book::open(&data), Err(StoreError::NotOurs { .. })), "byte {at}");
        }
        let without: String =
            whole.lines().enumerate().filter(|(n, _)| *n != 2).map(|(_, line)| format!("{line}\n")).collect();
        std::fs::write(&path, without).expect("written");
        assert!(matches!(Book::open(&data), Err(StoreError::NotOurs { .. })), "a line was taken out");
    }

    #[test]
    fn marks_without_their_key_are_not_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("r.db");
        Book::open(&data).expect("opened").write_down(&tenant("acme"), at(1), 0).expect("written");
        std::fs::remove_file(paths(&data).1).expect("removed");
        assert!(matches!(Book::open(&data), Err(StoreError::NotOurs { .. })));
    }
}
