//! The data file: whose it is, who holds it, what is left of it.

use rusqlite::Connection;

use super::*;
use crate::store::sqlite::connect::{SCHEMA_VERSION, open_writer};
use crate::store::{Erasure, Holder, PageRequest};

fn why(opened: Result<Sqlite, StoreError>) -> StoreError {
    opened.map(drop).expect_err("the file is refused")
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    for content in ["dear diary\n".repeat(200), "short".into(), "SQLite format 3\0 or so it says".repeat(40)] {
        let file = DataFile::new();
        std::fs::write(&file.path, &content).expect("a file");
        let refused = why(open(&file.path));
        assert!(matches!(refused, StoreError::NotOurs { .. }), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&file.path).expect("it is still there"), content);
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    for theirs in [
        "CREATE TABLE t (x)",
        "CREATE TABLE turn (x); PRAGMA user_version = 1",
        "PRAGMA application_id = 7; CREATE TABLE t (x)",
    ] {
        let file = DataFile::new();
        file.raw().execute_batch(theirs).expect("another program writes");
        let refused = why(open(&file.path));
        assert!(matches!(refused, StoreError::NotOurs { .. }), "{theirs}: {refused:?}");
        let tables: i64 =
            file.raw().query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).expect("a count");
        assert_eq!(tables, 1);
    }
}

#[tokio::test]
async fn a_newer_schema_is_left_alone_and_named() {
    let file = DataFile::new();
    drop(file.open());
    file.raw().pragma_update(None, "user_version", SCHEMA_VERSION + 1).expect("a newer release writes");
    let refused = why(open(&file.path));
    assert!(
        matches!(refused, StoreError::Newer { found, known, .. } if found == SCHEMA_VERSION + 1 && known == SCHEMA_VERSION),
        "{refused:?}"
    );
}

/// A process that died between its first two steps left a header and no tables.
#[tokio::test]
async fn a_file_that_was_only_begun_is_taken_up() {
    let file = DataFile::new();
    file.raw().pragma_update(None, "journal_mode", "WAL").expect("the first step");
    assert!(std::fs::metadata(&file.path).expect("the file").len() > 0);
    add(&file.open(), RandomIds.session(), vec![draft("how?", "so")]).await;
}

#[test]
fn an_empty_file_is_taken_up() {
    let file = DataFile::new();
    std::fs::write(&file.path, "").expect("a file");
    file.open();
}

#[test]
fn folders_are_made_and_what_cannot_be_made_is_told() {
    let file = DataFile::new();
    open(&file.beside(".d/deep/recalld.db")).expect("the folders are made");
    std::fs::write(&file.path, "").expect("a file");
    let refused = why(open(&file.path.join("recalld.db")));
    assert!(matches!(refused, StoreError::CannotOpen { .. }), "{refused:?}");
    let folder = file.beside(".d");
    let refused = why(open(&folder));
    assert!(matches!(refused, StoreError::CannotOpen { .. }), "a folder is no file: {refused:?}");
}

#[test]
fn a_second_opener_is_told_who_holds_the_file() {
    let file = DataFile::new();
    let first = file.open();
    let holder = |url: Option<&str>| Holder { pid: Some(std::process::id()), url: url.map(str::to_owned) };
    let refused = why(open(&file.path));
    assert!(matches!(&refused, StoreError::InUse { holder: by, .. } if *by == holder(None)), "{refused:?}");
    first.announce("http://127.0.0.1:7437");
    let refused = why(open(&file.path)).to_string();
    assert!(
        refused.ends_with(&format!("process {}, which serves http://127.0.0.1:7437", std::process::id())),
        "{refused}"
    );
    drop(first);
    file.open();
}

#[tokio::test]
async fn a_closed_store_lets_go_of_its_file() {
    let file = DataFile::new();
    let first = file.open();
    first.close().await.expect("the store closes");
    file.open();
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let file = DataFile::new();
    let store = file.open();
    add(&store, RandomIds.session(), vec![draft("how?", "so")]).await;
    for end in ["", "-wal", "-shm"] {
        let mode = std::fs::metadata(file.beside(end)).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "recalld.db{end}");
    }
}

#[test]
fn the_writer_syncs_fully_and_keeps_a_log() {
    let file = DataFile::new();
    let db = open_writer(&file.path).expect("a new file");
    let setting =
        |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).expect(name);
    assert_eq!(setting("synchronous"), 2.into(), "FULL");
    assert_eq!(setting("journal_mode"), "wal".to_owned().into());
    for (name, value) in
        [("secure_delete", 1), ("foreign_keys", 1), ("wal_autocheckpoint", 4_000), ("busy_timeout", 5_000)]
    {
        assert_eq!(setting(name), value.into(), "{name}");
    }
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    add(&store, session, vec![full_draft("how?", "so"), draft("and?", "so too")]).await;
    let page = PageRequest::first(9);
    let before = (store.session(&ann(), session).await, store.turns(&ann(), session, page).await);
    drop(store);
    let store = file.open();
    let after = (store.session(&ann(), session).await, store.turns(&ann(), session, page).await);
    // Having looked is noted and survives as well; nothing else may differ.
    let told = |session: Option<crate::session::Session>| session.map(|s| (s.id, s.metadata, s.turns, s.updated_at));
    assert_eq!(told(before.0.expect("an answer")), told(after.0.expect("an answer")));
    assert_eq!(before.1.expect("an answer"), after.1.expect("an answer"));
    add(&store, session, vec![draft("next", "so")]).await;
    assert_eq!(store.session(&ann(), session).await.expect("an answer").map(|s| s.turns), Some(3));
}

#[tokio::test]
async fn closing_leaves_nothing_in_the_log() {
    let file = DataFile::new();
    let store = file.open();
    add(&store, RandomIds.session(), vec![draft("how?", "so")]).await;
    assert!(std::fs::metadata(file.beside("-wal")).expect("the log").len() > 0);
    store.close().await.expect("the store closes");
    let left = std::fs::metadata(file.beside("-wal")).map_or(0, |log| log.len());
    assert_eq!(left, 0);
}

/// Erased is erased: from the rows, from free pages, from the log.
#[tokio::test]
async fn deleted_words_are_gone_from_the_disk() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let secret = "the treasure lies under the old oak";
    add(&store, session, vec![draft(secret, secret), draft(&secret.repeat(500), "long")]).await;
    add(&store, RandomIds.session(), vec![draft("keep", "this")]).await;
    assert!(on_disk(&file, secret));
    store.delete_session(&ann(), session).await.expect("the session is deleted");
    assert!(!on_disk(&file, secret));
    assert!(on_disk(&file, "keep"));
}

#[tokio::test]
async fn expired_words_are_gone_from_the_disk() {
    use crate::period::{Period, Ttl};
    use crate::store::Expiry;
    let file = DataFile::new();
    let store = file.open();
    let secret = "the treasure lies under the old oak";
    add(&store, RandomIds.session(), vec![draft(secret, secret), draft(secret, "again")]).await;
    let mut more = true;
    while more {
        let expiry = Expiry { now: Timestamp::MAX, server_ttl: Ttl::of(Period::seconds(1)), turns_max: 1 };
        more = store.expire(expiry).await.expect("expiry runs").more;
    }
    assert!(!on_disk(&file, secret));
}

#[tokio::test]
async fn what_is_unknown_leaves_no_line_in_the_book() {
    let file = DataFile::new();
    let store = open(&file.path).expect("opened");
    let unknown = Erasure::User(ann());
    assert_eq!(store.erasures().erase(unknown).await.expect("a look"), None);
    assert_eq!(store.erasures().book().await.expect("a book").entries, 0);
}

fn on_disk(file: &DataFile, words: &str) -> bool {
    let read = |end: &str| std::fs::read(file.beside(end)).unwrap_or_default();
    let holds = |bytes: Vec<u8>| bytes.windows(words.len()).any(|window| window == words.as_bytes());
    ["", "-wal", "-shm", "-journal"].into_iter().any(|end| holds(read(end)))
}

#[test]
fn a_reader_cannot_write() {
    let file = DataFile::new();
    drop(open_writer(&file.path).expect("a new file"));
    let _writer: Connection = open_writer(&file.path).expect("the writer");
    let reader = crate::store::sqlite::connect::open_reader(&file.path).expect("a reader");
    reader.execute("DELETE FROM turn", []).expect_err("a reader cannot write");
}
