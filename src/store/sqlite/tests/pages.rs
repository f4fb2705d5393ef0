//! Every page has a sum: damage is found and never shown, whole files are read by anybody, older ones get their sums once.

use rusqlite::{Connection, OpenFlags};

use super::*;
use crate::store::PageRequest;
use crate::store::sqlite::connect::{open_reader, open_writer};

/// Bytes of a page of ours.
const PAGE: usize = 4_096;

/// Conversations that fill many pages, closed and whole.
async fn lived_in(file: &DataFile) -> Vec<SessionId> {
    let store = file.open();
    let mut sessions = Vec::new();
    for n in 0..40 {
        let id = RandomIds.session();
        let words = format!("conversation {n} goes on about the lighthouse. ").repeat(40);
        add(&store, id, vec![draft(&words, "so tall"), draft("and now?", "as before")]).await;
        sessions.push(id);
    }
    store.close().await.expect("closes");
    sessions
}

fn problems(file: &DataFile) -> Vec<String> {
    Sqlite::verify(&file.path).expect("looked").problems
}

/// Changes bytes of the file itself.
fn scratch(file: &DataFile, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(&file.path).expect("read");
    change(&mut bytes);
    std::fs::write(&file.path, bytes).expect("written");
}

fn place_of(bytes: &[u8], words: &str) -> usize {
    bytes.windows(words.len()).position(|window| window == words.as_bytes()).expect("they are there")
}

/// Every conversation is shown as it was, or is an error that says why.
async fn shown(file: &DataFile, sessions: &[SessionId]) -> (usize, usize) {
    let store = file.open();
    let (mut whole, mut refused) = (0, 0);
    for (n, id) in sessions.iter().enumerate() {
        match store.turns(&ann(), *id, PageRequest::first(9)).await {
            Ok(page) => {
                let turns = page.expect("the session is there").items;
                assert!(
                    turns[0].messages[0].text.starts_with(&format!("conversation {n} goes on about the lighthouse"))
                );
                whole += 1;
            }
            Err(error) => {
                assert!(matches!(error, StoreError::DamagedFile(_)), "{error}");
                refused += 1;
            }
        }
    }
    (whole, refused)
}

#[tokio::test]
async fn a_damaged_page_is_named_and_costs_what_is_on_it() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    assert_eq!(problems(&file), Vec::<String>::new());
    assert_eq!(shown(&file, &sessions).await, (40, 0));
    let mut page = 0;
    scratch(&file, |bytes| {
        let at = place_of(bytes, "conversation 7 goes on");
        page = at / PAGE + 1;
        bytes[at] ^= 1;
    });
    let found = problems(&file);
    assert_eq!(found[0], format!("page {page} is not what was written"));
    assert!(found.iter().any(|problem| problem.contains(&sessions[7].to_string())), "whose it is: {found:?}");
    let (whole, refused) = shown(&file, &sessions).await;
    assert!(refused >= 1 && whole > 30, "{whole} {refused}");
}

/// What another conversation has to say is still taken, and is not lost by what is damaged.
#[tokio::test]
async fn damage_costs_no_write_elsewhere() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    scratch(&file, |bytes| {
        let at = place_of(bytes, "conversation 7 goes on");
        bytes[at] ^= 1;
    });
    let store = file.open();
    let refused = store.delete_session(&ann(), sessions[7]).await.expect_err("it is damaged");
    assert!(matches!(refused, StoreError::DamagedFile(_)) && !refused.may_pass(), "{refused:?}");
    add(&store, RandomIds.session(), vec![draft("still there?", "yes")]).await;
}

#[tokio::test]
async fn a_page_in_the_place_of_another_is_damage() {
    let file = DataFile::new();
    lived_in(&file).await;
    scratch(&file, |bytes| {
        let from = place_of(bytes, "conversation 7 goes on") / PAGE;
        let to = place_of(bytes, "conversation 30 goes on") / PAGE;
        assert_ne!(from, to);
        bytes.copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
    });
    assert!(problems(&file)[0].ends_with("is not what was written"));
}

/// The head of the file says whether pages have sums: it cannot say otherwise unseen.
#[tokio::test]
async fn a_head_that_denies_the_sums_is_damage() {
    let file = DataFile::new();
    lived_in(&file).await;
    for reserved in [0, 9, 24] {
        scratch(&file, |bytes| bytes[20] = reserved);
        assert!(Sqlite::verify(&file.path).is_ok_and(|found| !found.is_well()), "{reserved}");
        assert!(matches!(open(&file.path), Err(StoreError::DamagedFile(_))), "{reserved}");
    }
    scratch(&file, |bytes| bytes[20] = 8);
    assert_eq!(problems(&file), Vec::<String>::new());
}

/// Anybody can read the file; what others write counts as damaged until it is restored.
#[tokio::test]
async fn other_programs_read_and_do_not_write() {
    let file = DataFile::new();
    lived_in(&file).await;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let other = Connection::open_with_flags(&file.path, flags).expect("a connection");
    let told: String = other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(told, "ok");
    assert_eq!(problems(&file), Vec::<String>::new(), "reading leaves no trace");
    other.execute("UPDATE turn SET answer = 'so small' WHERE answer = 'so tall' AND number = 1", []).expect("written");
    other.close().expect("closed");
    let found = problems(&file);
    assert!(found[0].starts_with("page ") && found.iter().any(|told| told.contains("checksum")), "{found:?}");
}

/// What a program that knows of no sums left behind can be made to count again, unless it changed what was said.
#[tokio::test]
async fn pages_of_other_programs_can_be_accepted() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    let written = |sql: &str| {
        let other = Connection::open_with_flags(&file.path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("a connection");
        other.execute_batch(sql).expect("written");
        other.close().map_err(|(_, error)| error).expect("closed");
    };
    written("UPDATE session SET last_accessed = last_accessed + 1");
    assert!(problems(&file)[0].starts_with("page "));
    let (found, pages) = Sqlite::accept_pages(&file.path).expect("looked");
    assert!(found.is_well() && pages > 0, "{found:?}");
    assert_eq!(problems(&file), Vec::<String>::new());
    assert_eq!(shown(&file, &sessions).await, (40, 0));
    written("UPDATE turn SET answer = 'so small' WHERE key = 1");
    let (found, _) = Sqlite::accept_pages(&file.path).expect("looked");
    assert!(!found.is_well());
    assert!(problems(&file)[0].starts_with("page "), "nothing was made to count");
    let held = file.open();
    assert!(matches!(Sqlite::accept_pages(&file.path), Err(StoreError::InUse { .. })), "a server has it");
    drop(held);
}

/// A row that was changed with the right sum of its page is found by its own.
#[tokio::test]
async fn a_changed_row_is_damage_whatever_its_page_says() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    file.raw().execute("UPDATE turn SET answer = 'so small' WHERE key = 1", []).expect("written");
    let found = problems(&file);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(&sessions[0].to_string()), "{found:?}");
}

/// Makes a file into one of an older release: the same rows, and no sums.
fn older(file: &DataFile) {
    let plain = file.beside(".plain");
    let db = Connection::open(&plain).expect("a connection");
    let settings = "PRAGMA journal_mode = WAL; PRAGMA application_id = 0x7265636c; PRAGMA foreign_keys = OFF;";
    db.execute_batch(&format!("{settings} ATTACH '{}' AS held;", file.path.display())).expect("attached");
    let made = |kind: &str| -> Vec<(String, String)> {
        let sql = "SELECT name, sql FROM held.sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'
                   AND (type = 'table') = (?1 = 'table') ORDER BY rowid";
        let mut statement = db.prepare(sql).expect("a statement");
        let rows = statement.query_map([kind], |row| Ok((row.get(0)?, row.get(1)?))).expect("a schema");
        rows.collect::<Result<_, _>>().expect("a schema")
    };
    for (table, sql) in made("table") {
        db.execute_batch(&format!("{sql}; INSERT INTO main.{table} SELECT * FROM held.{table};")).expect("copied");
    }
    for (name, sql) in made("the rest") {
        db.execute_batch(&sql).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let version: i64 = db.query_row("PRAGMA held.user_version", [], |row| row.get(0)).expect("a version");
    db.execute_batch(&format!("PRAGMA main.user_version = {version}; DETACH held; PRAGMA wal_checkpoint(TRUNCATE);"))
        .expect("copied");
    db.close().expect("closed");
    std::fs::rename(plain, &file.path).expect("renamed");
}

fn reserved(file: &DataFile) -> u8 {
    std::fs::read(&file.path).expect("read")[20]
}

#[tokio::test]
async fn a_file_without_sums_gets_them_once() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    older(&file);
    assert_eq!((reserved(&file), problems(&file)), (0, Vec::new()), "it is read as it is");
    assert_eq!(shown(&file, &sessions).await, (40, 0));
    assert_eq!((reserved(&file), problems(&file)), (8, Vec::new()));
    let looked = Sqlite::verify(&file.path).expect("looked").looked_at;
    assert!(looked.iter().any(|(what, pages)| what == "pages with a sum" && *pages > 40), "{looked:?}");
    assert_eq!(shown(&file, &sessions).await, (40, 0), "and again");
}

/// While somebody reads an old file it works as before; the next start gives it its sums.
#[tokio::test]
async fn a_file_in_use_gets_its_sums_later() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    older(&file);
    let reader = open_reader(&file.path).expect("a connection");
    reader.execute_batch("BEGIN; SELECT count(*) FROM turn;").expect("reads");
    let store = file.open();
    add(&store, sessions[3], vec![draft("and then?", "it went on")]).await;
    drop(store);
    reader.execute_batch("COMMIT").expect("done");
    drop(reader);
    assert_eq!(shown(&file, &sessions).await, (40, 0));
    assert_eq!((reserved(&file), problems(&file)), (8, Vec::new()));
}

/// A process that is killed leaves a log: what is in it counts, and the sums are right when it is written back.
#[tokio::test]
async fn a_log_that_was_left_is_written_back_with_sums() {
    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    let store = file.open();
    add(&store, sessions[3], vec![draft("and then?", "it went on")]).await;
    let killed = DataFile::new();
    for end in ["", "-wal"] {
        std::fs::copy(file.beside(end), killed.beside(end)).expect("copied");
    }
    drop(store);
    assert_eq!(problems(&killed), Vec::<String>::new());
    assert_eq!(shown(&killed, &sessions).await, (40, 0));
    assert_eq!(problems(&killed), Vec::<String>::new());
}

#[tokio::test]
async fn a_copy_has_sums_as_well() {
    use std::io::Read;

    let file = DataFile::new();
    let sessions = lived_in(&file).await;
    let store = file.open();
    add(&store, sessions[3], vec![draft("and then?", "it went on")]).await;
    let (mut copy, restored) = (Vec::new(), DataFile::new());
    store.backup().await.expect("copied").file.read_to_end(&mut copy).expect("read");
    std::fs::write(&restored.path, &copy).expect("written");
    assert_eq!((reserved(&restored), problems(&restored)), (8, Vec::new()));
    let mut one = 0;
    scratch(&restored, |bytes| {
        one = place_of(bytes, "conversation 9 goes on");
        bytes[one] ^= 1;
    });
    assert!(!problems(&restored).is_empty());
}

#[test]
fn a_new_file_has_sums_from_its_first_page_on() {
    let file = DataFile::new();
    let db = open_writer(&file.path).expect("a new file");
    assert!(crate::store::sqlite::pages::has_sums(&db).expect("asked"));
    assert_eq!(reserved(&file), 8);
}

/// Pages that are divided leave copies of what moved: those do not reach the file, so what goes later is gone.
#[test]
fn what_moved_from_a_page_leaves_no_copy() {
    let file = DataFile::new();
    let db = open_writer(&file.path).expect("a new file");
    db.execute_batch("CREATE TABLE names (name TEXT PRIMARY KEY) WITHOUT ROWID").expect("made");
    let name = |n: u32| format!("{:08x}-somebody-with-a-name-of-their-own-{n}", n.wrapping_mul(0x9e37_79b9));
    for n in 0..3_000 {
        db.execute("INSERT INTO names VALUES (?1)", [name(n)]).expect("added");
        if n % 50 == 0 {
            db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("written");
        }
    }
    db.execute_batch(
        "DELETE FROM names WHERE name LIKE '%-1___' OR name LIKE '%-2___'; PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .expect("gone");
    let bytes = std::fs::read(&file.path).expect("read");
    let held = |n: u32| bytes.windows(12).any(|window| window == &name(n).as_bytes()[..12]);
    let left: Vec<u32> = (1_000..3_000).step_by(7).filter(|n| held(*n)).collect();
    assert_eq!(left, Vec::<u32>::new(), "names that were deleted are in the file");
    assert!(held(7), "those that were not are");
    let told: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(told, "ok");
}
