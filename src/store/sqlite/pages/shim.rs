//! Where pages pass on their way to a file and back: a virtual file system for SQLite that hands everything on to the one of the
//! operating system, and looks at the pages of data files meanwhile.
//!
//! Logs, journals and temporary files are opened by that one directly. SQLite uses a file from one thread at a time.
//!
//! **Invariant:** what SQLite hands over to be written is never changed; a page and its sum leave from a copy.

#![allow(
    unsafe_code,
    reason = "SQLite speaks to a file system by pointers; what each must be is said where it is used"
)]

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::size_of;
use std::ptr::{from_mut, null_mut};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use rusqlite::ffi::{
    self, SQLITE_ERROR, SQLITE_IOERR, SQLITE_IOERR_DATA, SQLITE_NOTFOUND, SQLITE_OK, SQLITE_OPEN_MAIN_DB, sqlite3_file,
    sqlite3_file_control, sqlite3_filename, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};
use rusqlite::{Connection, Error, Result};
use tracing::error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::sum::{self, HEAD_BYTES, PAGE_BYTES_MIN, SUM_BYTES};
use super::{OnDamage, gap};

/// What a connection can ask of its file beside what SQLite does.
const EXPECT_SUMS: c_int = 0x7265_6301;
const HAS_SUMS: c_int = 0x7265_6302;
const NOTED: c_int = 0x7265_6303;

/// Damaged pages that a connection remembers, and that the log is told of.
const NOTED_MAX: usize = 100_000;
const TOLD_MAX: usize = 1_000;

/// Pages that are looked at where the head says that there are no sums: one that has a right one says that the head is wrong.
const PROBED: u32 = 4;

/// A file system of ours, with the one behind it. SQLite sees the first part.
#[repr(C)]
struct Ours {
    base: sqlite3_vfs,
    real: *mut sqlite3_vfs,
    on_damage: OnDamage,
}

/// An open data file. SQLite sees the first part; behind the last comes the file of the operating system.
#[repr(C)]
struct Wrapped {
    base: sqlite3_file,
    state: *mut State,
}

/// Whether pages have sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    /// There is no page yet.
    Unknown,
    With,
    Without,
}

struct State {
    name: String,
    on_damage: OnDamage,
    sums: Sums,
    /// Whether pages of trees can be told from others, so that what belongs to nobody is blanked.
    blanks: bool,
    noted: BTreeSet<u32>,
    /// The page that is written, with its sum.
    leaving: Vec<u8>,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // The third version would have pages read past us (`xFetch`).
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Makes the file systems known to SQLite, once in a process.
pub(super) fn register(names: &[(&'static str, OnDamage)]) -> Result<()> {
    static DONE: OnceLock<c_int> = OnceLock::new();
    let code = *DONE.get_or_init(|| {
        let codes = names.iter().map(|(name, on_damage)| register_one(name, *on_damage));
        codes.into_iter().find(|code| *code != SQLITE_OK).unwrap_or(SQLITE_OK)
    });
    answered(code)
}

fn register_one(name: &'static str, on_damage: OnDamage) -> c_int {
    let Ok(name) = CString::new(name) else { return SQLITE_ERROR };
    // SAFETY: without a name SQLite answers its default file system, which lives as long as the process, or null.
    let real = unsafe { sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: see above; it is not null when it is read.
    let Some(default) = (unsafe { real.as_ref() }) else { return SQLITE_ERROR };
    let file_bytes = size_of::<Wrapped>() as c_int + default.szOsFile;
    // Whatever else there is to do with files is done as ever: those functions look at nothing that is changed here.
    let base =
        sqlite3_vfs { szOsFile: file_bytes, pNext: null_mut(), zName: name.into_raw(), xOpen: Some(open), ..*default };
    let ours = Box::leak(Box::new(Ours { base, real, on_damage }));
    // SAFETY: it and its name are leaked, so they outlive every use; 0 leaves SQLite's default what it is.
    unsafe { sqlite3_vfs_register(from_mut(ours).cast(), 0) }
}

/// Asks for room for a sum in every page: of a file that is still empty, or when it is written anew.
pub(super) fn reserve(db: &Connection) -> Result<()> {
    let mut bytes = SUM_BYTES as c_int;
    control(db, ffi::SQLITE_FCNTL_RESERVE_BYTES, from_mut(&mut bytes).cast())
}

/// Says that pages will have sums, before the first of them tells.
pub(super) fn expect(db: &Connection) -> Result<()> {
    control(db, EXPECT_SUMS, null_mut())
}

pub(super) fn has_sums(db: &Connection) -> Result<bool> {
    let mut has = false;
    control(db, HAS_SUMS, from_mut(&mut has).cast())?;
    Ok(has)
}

pub(super) fn noted(db: &Connection) -> Result<Vec<u32>> {
    let mut pages: Vec<u32> = Vec::new();
    control(db, NOTED, from_mut(&mut pages).cast())?;
    Ok(pages)
}

fn control(db: &Connection, asked: c_int, argument: *mut c_void) -> Result<()> {
    // SAFETY: the handle is open as long as the connection is, the name ends with a zero, and the argument is what
    // the one who asks for this says it is (the three functions above, and SQLite's own).
    answered(unsafe { sqlite3_file_control(db.handle(), c"main".as_ptr(), asked, argument) })
}

fn answered(code: c_int) -> Result<()> {
    if code == SQLITE_OK { Ok(()) } else { Err(Error::SqliteFailure(ffi::Error::new(code), None)) }
}

impl State {
    /// What is to be written for a page; `None` when it goes as it is.
    fn leave(&mut self, page: &[u8], offset: i64) -> Option<&[u8]> {
        if offset == 0 && page.len() >= HEAD_BYTES {
            self.sums = if sum::has_sums(page) { Sums::With } else { Sums::Without };
            self.blanks = gap::can_tell(page);
        }
        let number = sum::page_at(offset, page.len()).filter(|_| self.sums == Sums::With)?;
        let content = page.get(..page.len() - SUM_BYTES)?;
        self.leaving.clear();
        self.leaving.extend_from_slice(content);
        if self.blanks {
            gap::blank(&mut self.leaving, number);
        }
        let sum = sum::of(&self.leaving, number);
        self.leaving.extend_from_slice(&sum);
        Some(&self.leaving)
    }

    /// Looks at what was read. Answers whether it may be handed on.
    fn arrived(&mut self, page: &[u8], offset: i64) -> bool {
        let number = sum::page_at(offset, page.len()).filter(|_| self.sums == Sums::With);
        match number {
            Some(number) if !sum::is_right(page, number) => self.damaged(number),
            _ => true,
        }
    }

    fn damaged(&mut self, page: u32) -> bool {
        if self.noted.len() < NOTED_MAX {
            self.noted.insert(page);
        }
        if self.on_damage == OnDamage::Note {
            return true;
        }
        if is_news(&self.name, page) {
            error!(page, "Page {page} of `{}` is damaged and not shown; `recalld verify` says more", self.name);
        }
        false
    }
}

/// Whether the log was not told of a page yet, and there is room to remember it.
fn is_news(name: &str, page: u32) -> bool {
    static TOLD: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.len() < TOLD_MAX && told.insert(xxh3_64_with_seed(name.as_bytes(), u64::from(page)))
}

/// The file of the operating system behind one of ours.
///
/// SAFETY: `file` must be a data file that [`open`] was handed: SQLite makes room for both.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: there are `szOsFile` bytes, of which ours takes the first; its size keeps what follows aligned.
    unsafe { file.cast::<Wrapped>().add(1).cast() }
}

/// The methods of the file behind.
///
/// SAFETY: as for [`real`]; the file behind must be open.
unsafe fn methods<'a>(file: *mut sqlite3_file) -> Option<&'a sqlite3_io_methods> {
    // SAFETY: an open file has methods, and they live as long as the process.
    unsafe { (*real(file)).pMethods.as_ref() }
}

/// What is known about an open file.
///
/// SAFETY: as for [`real`]; nobody else may hold it. SQLite uses a file from one thread at a time.
unsafe fn state<'a>(file: *mut sqlite3_file) -> &'a mut State {
    // SAFETY: `open` set it before the file had methods, and `close` takes it when SQLite is done with the file.
    unsafe { &mut *(*file.cast::<Wrapped>()).state }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands us the file system that we registered.
    let ours = unsafe { &*vfs.cast::<Ours>() };
    // SAFETY: the default file system lives as long as the process.
    let Some(real_open) = (unsafe { (*ours.real).xOpen }) else { return SQLITE_ERROR };
    if flags & SQLITE_OPEN_MAIN_DB == 0 {
        // SAFETY: the arguments are SQLite's own, and there is more room in the file than the other needs.
        return unsafe { real_open(ours.real, name, file, flags, out) };
    }
    // SAFETY: there is room for ours and the one behind; until it has methods SQLite does not use or close it.
    unsafe { (*file).pMethods = std::ptr::null() };
    // SAFETY: as above; the file behind is given the name and flags that are meant for it.
    let code = unsafe { real_open(ours.real, name, real(file), flags, out) };
    if code != SQLITE_OK {
        // SAFETY: if the one behind got methods all the same, it wants to be closed.
        unsafe { close_real(file) };
        return code;
    }
    // SAFETY: a data file has a name that ends with a zero.
    let name =
        if name.is_null() { String::new() } else { unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned() };
    // SAFETY: the one behind is open now.
    let (sums, blanks) = unsafe { (probe(file), probe_blanks(file)) };
    let state = State { name, on_damage: ours.on_damage, sums, blanks, noted: BTreeSet::new(), leaving: Vec::new() };
    // SAFETY: the memory is SQLite's for this file and large enough; the state comes first, then what makes it usable.
    unsafe {
        (*file.cast::<Wrapped>()).state = Box::into_raw(Box::new(state));
        (*file).pMethods = &raw const METHODS;
    }
    SQLITE_OK
}

/// Looks whether the pages of a file have sums.
///
/// SAFETY: as for [`methods`].
unsafe fn probe(file: *mut sqlite3_file) -> Sums {
    let mut head = [0; HEAD_BYTES];
    // SAFETY: the caller's word.
    if unsafe { file_bytes(file) } < PAGE_BYTES_MIN as i64 || !unsafe { read_real(file, &mut head, 0) } {
        return Sums::Unknown;
    }
    if sum::has_sums(&head) {
        return Sums::With;
    }
    let mut page = vec![0; sum::page_bytes(&head)];
    let some_right = (1..=PROBED).any(|number| {
        let offset = i64::from(number - 1) * page.len() as i64;
        // SAFETY: the caller's word.
        unsafe { read_real(file, &mut page, offset) && sum::is_right(&page, number) }
    });
    if some_right { Sums::With } else { Sums::Without }
}

/// Looks whether the pages of trees can be told from others. In a file that has none yet the first page will say.
///
/// SAFETY: as for [`methods`].
unsafe fn probe_blanks(file: *mut sqlite3_file) -> bool {
    let mut head = [0; HEAD_BYTES];
    // SAFETY: the caller's word.
    unsafe { read_real(file, &mut head, 0) && sum::has_sums(&head) && gap::can_tell(&head) }
}

/// SAFETY: as for [`methods`].
unsafe fn file_bytes(file: *mut sqlite3_file) -> i64 {
    let mut bytes = 0;
    // SAFETY: the caller's word; the number is ours.
    let code = unsafe { file_size(file, &raw mut bytes) };
    if code == SQLITE_OK { bytes } else { 0 }
}

/// SAFETY: as for [`methods`].
unsafe fn read_real(file: *mut sqlite3_file, into: &mut [u8], offset: i64) -> bool {
    // SAFETY: the caller's word.
    let Some(read) = unsafe { methods(file) }.and_then(|methods| methods.xRead) else { return false };
    // SAFETY: as much is asked for as there is room; an error, also that of too few bytes, is no answer.
    unsafe { read(real(file), into.as_mut_ptr().cast(), into.len() as c_int, offset) == SQLITE_OK }
}

/// SAFETY: as for [`real`]; the file behind may be open or not.
unsafe fn close_real(file: *mut sqlite3_file) -> c_int {
    // SAFETY: a file that is not open has no methods.
    match unsafe { methods(file) }.and_then(|methods| methods.xClose) {
        // SAFETY: it is closed once, here.
        Some(close) => unsafe { close(real(file)) },
        None => SQLITE_OK,
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once and does not use it afterwards; the state was made by `Box` in `open`.
    unsafe {
        let code = close_real(file);
        drop(Box::from_raw((*file.cast::<Wrapped>()).state));
        (*file).pMethods = std::ptr::null();
        code
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite's arguments for a file that is open.
    let Some(read) = unsafe { methods(file) }.and_then(|methods| methods.xRead) else { return SQLITE_IOERR };
    // SAFETY: as above.
    let code = unsafe { read(real(file), into, bytes, offset) };
    if code != SQLITE_OK {
        return code;
    }
    // SAFETY: the file is open, and nobody else uses it meanwhile; the bytes were just written by the read.
    let (state, page) = unsafe { (state(file), std::slice::from_raw_parts(into.cast::<u8>(), bytes as usize)) };
    if state.sums == Sums::Unknown && page.len() >= PAGE_BYTES_MIN {
        // SAFETY: the file is open.
        state.sums = unsafe { probe(file) };
    }
    if state.arrived(page, offset) { SQLITE_OK } else { SQLITE_IOERR_DATA }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite's arguments for a file that is open.
    let Some(write) = unsafe { methods(file) }.and_then(|methods| methods.xWrite) else { return SQLITE_IOERR };
    // SAFETY: SQLite hands over that many bytes to read; nobody else uses the file meanwhile.
    let (state, page) = unsafe { (state(file), std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize)) };
    let leaving = state.leave(page, offset).map_or(from, |page| page.as_ptr().cast());
    // SAFETY: what leaves is as long as what was handed over.
    unsafe { write(real(file), leaving, bytes, offset) }
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, asked: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the file is open, and nobody else uses it meanwhile.
    let known = unsafe { state(file) };
    match asked {
        EXPECT_SUMS => known.sums = Sums::With,
        // SAFETY: `has_sums` and `noted` above hand over a flag and a list of their own.
        HAS_SUMS => unsafe {
            if known.sums == Sums::Unknown {
                known.sums = probe(file);
            }
            *argument.cast::<bool>() = known.sums == Sums::With;
        },
        // SAFETY: as above.
        NOTED => unsafe { (*argument.cast::<Vec<u32>>()).extend(&known.noted) },
        // SAFETY: everything else is meant for the file behind.
        _ => match unsafe { methods(file) }.and_then(|methods| methods.xFileControl) {
            // SAFETY: SQLite's own arguments.
            Some(control) => return unsafe { control(real(file), asked, argument) },
            None => return SQLITE_NOTFOUND,
        },
    }
    SQLITE_OK
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite asks an open file.
    match unsafe { methods(file) }.and_then(|methods| methods.xDeviceCharacteristics) {
        // Parts of pages would be read past us: a sum is of the whole.
        // SAFETY: the file behind is open.
        Some(asked) => (unsafe { asked(real(file)) }) & !ffi::SQLITE_IOCAP_SUBPAGE_READ,
        None => 0,
    }
}

/// What is handed on as it is.
macro_rules! handed_on {
    ($name:ident, $method:ident, ($($argument:ident: $kind:ty),*), $else:expr) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) -> c_int {
            // SAFETY: SQLite's own arguments for a file that is open.
            match unsafe { methods(file) }.and_then(|methods| methods.$method) {
                // SAFETY: as above.
                Some(method) => unsafe { method(real(file) $(, $argument)*) },
                None => $else,
            }
        }
    };
}

handed_on!(truncate, xTruncate, (bytes: i64), SQLITE_IOERR);
handed_on!(sync, xSync, (flags: c_int), SQLITE_IOERR);
handed_on!(file_size, xFileSize, (bytes: *mut i64), SQLITE_IOERR);
handed_on!(lock, xLock, (level: c_int), SQLITE_IOERR);
handed_on!(unlock, xUnlock, (level: c_int), SQLITE_IOERR);
handed_on!(check_reserved_lock, xCheckReservedLock, (out: *mut c_int), SQLITE_IOERR);
handed_on!(sector_size, xSectorSize, (), 0);
handed_on!(shm_map, xShmMap, (region: c_int, bytes: c_int, extend: c_int, out: *mut *mut c_void), SQLITE_IOERR);
handed_on!(shm_lock, xShmLock, (first: c_int, count: c_int, flags: c_int), SQLITE_IOERR);
handed_on!(shm_unmap, xShmUnmap, (delete: c_int), SQLITE_IOERR);

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: SQLite's own argument, for a file that is open.
    if let Some(barrier) = unsafe { methods(file) }.and_then(|methods| methods.xShmBarrier) {
        // SAFETY: as above.
        unsafe { barrier(real(file)) }
    }
}
