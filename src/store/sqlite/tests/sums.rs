//! Every row has a sum: damage is found, left out, and can still be removed.

use rusqlite::Connection;
use serde_json::json;

use super::*;
use crate::session::SessionPatch;
use crate::store::PageRequest;
use crate::store::sqlite::connect::{open_reader, open_writer};
use crate::store::sqlite::{session, sums};

/// Turns one bit of words over, in the file itself.
fn scratch(file: &DataFile, words: &str) {
    let mut bytes = std::fs::read(&file.path).expect("read");
    let at = bytes.windows(words.len()).position(|window| window == words.as_bytes()).expect("they are there");
    bytes[at] ^= 1;
    std::fs::write(&file.path, bytes).expect("written");
}

/// A conversation about a lighthouse, closed and whole.
async fn lived_in(file: &DataFile) -> SessionId {
    let (store, id) = (file.open(), RandomIds.session());
    add(&store, id, vec![draft("how tall is the lighthouse?", "so tall"), draft("and now?", "as before")]).await;
    let metadata = json!({"title": "of harbours"}).as_object().cloned().expect("an object");
    let patch = SessionPatch { metadata, ttl: None };
    store.update_session(&ann(), id, patch).await.expect("updated");
    store.close().await.expect("closes");
    assert_eq!(Sqlite::verify(&file.path).expect("looked").problems, Vec::<String>::new());
    id
}

#[tokio::test]
async fn a_damaged_conversation_is_told_of_and_can_be_removed() {
    let file = DataFile::new();
    let id = lived_in(&file).await;
    scratch(&file, "of harbours");
    let found = Sqlite::verify(&file.path).expect("looked");
    assert_eq!(found.problems, ["row 1 of table session is not what was written"]);
    let store = file.open();
    let refused = store.session(&ann(), id).await.expect_err("it is damaged");
    assert!(refused.to_string().contains("row 1 of table `session` is damaged"), "{refused}");
    // Writing to it does not make it whole.
    add(&store, id, vec![draft("still there?", "yes")]).await;
    store.session(&ann(), id).await.expect_err("it is damaged still");
    assert_eq!(store.delete_session(&ann(), id).await.expect("removed"), Some(3));
    assert!(store.sessions(&ann(), PageRequest::first(9)).await.expect("read").items.is_empty());
}

#[tokio::test]
async fn a_damaged_turn_can_be_removed() {
    let file = DataFile::new();
    let id = lived_in(&file).await;
    scratch(&file, "how tall is the lighthouse?");
    let problems = Sqlite::verify(&file.path).expect("looked").problems;
    assert!(problems.contains(&"row 1 of table turn is not what was written".to_owned()), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("does not match its checksum")), "{problems:?}");
    let store = file.open();
    assert_eq!(store.delete_session(&ann(), id).await.expect("removed"), Some(2));
}

#[test]
fn every_table_has_sums_and_they_follow_its_columns() {
    let file = DataFile::new();
    let db = open_writer(&file.path).expect("a new file");
    let count = |db: &Connection, like: &str| -> i64 {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql LIKE ?1";
        db.query_row(sql, [like], |row| row.get(0)).expect("a count")
    };
    assert_eq!(count(&db, "CREATE INDEX sum_of_%") as usize, sums::summed(&db).expect("tables").len());
    assert_eq!(count(&db, "%sum_of_episode%, more))"), 0);
    db.execute_batch("ALTER TABLE episode ADD COLUMN more TEXT").expect("a later migration");
    sums::keep(&db).expect("made anew");
    assert_eq!(count(&db, "%sum_of_episode%, more))"), 1);
}

/// Readers see views, and SQLite looks through them: no plan goes through a whole table.
#[test]
fn guarded_reads_walk_the_same_indexes() {
    let file = DataFile::new();
    drop(open_writer(&file.path).expect("a new file"));
    let db = open_reader(&file.path).expect("a reader");
    sums::guard(&db).expect("guarded");
    for (sql, index) in [
        (
            format!("SELECT {} FROM session WHERE tenant = ?1 AND user = ?2 AND id = ?3", session::COLUMNS),
            "SEARCH session USING INDEX sqlite_autoindex_session_1 (tenant=? AND user=? AND id=?)",
        ),
        (
            "SELECT summary FROM episode WHERE tenant = ?1 AND user = ?2 ORDER BY key".to_owned(),
            "SEARCH episode USING INDEX episode_by_user (tenant=? AND user=?)",
        ),
        (
            "SELECT text FROM document CROSS JOIN passage ON passage.document = document.key WHERE document.id = ?1"
                .to_owned(),
            "SEARCH passage USING PRIMARY KEY (document=?)",
        ),
    ] {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        let plan = steps.collect::<Result<Vec<_>, _>>().expect("a plan").join("; ");
        assert!(plan.contains(index) && !plan.contains("SCAN") && !plan.contains("MATERIALIZE"), "{plan}");
    }
}
