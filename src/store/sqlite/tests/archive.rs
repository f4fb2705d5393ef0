//! Text in blocks: where it lies, what damage does to it, and what is left of it.

use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::{DataFile, add, ann, full_draft};
use crate::id::{Ids, RandomIds, SessionId};
use crate::session::Turn;
use crate::store::archive::{Level, recompress};
use crate::store::{Erasure, PageRequest, Store, StoreError};

const TURNS: usize = 30;

/// A conversation of thirty turns, of which twenty-five are in blocks.
async fn archived() -> (DataFile, super::Sqlite, SessionId, Vec<Turn>) {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let drafts = (0..TURNS).map(|n| full_draft(&format!("quixotic question {n}"), &format!("zephyr answer {n}")));
    add(&store, session, drafts.collect()).await;
    let before = turns(&store, session).await.expect("nothing is damaged yet");
    let moved = store.archive().move_out(&ann(), session, 26, 100).await.expect("moved");
    assert_eq!((moved.turns, moved.more), (25, false));
    (file, store, session, before)
}

async fn turns(store: &super::Sqlite, session: SessionId) -> Result<Vec<Turn>, StoreError> {
    Ok(store.turns(&ann(), session, PageRequest::first(50)).await?.expect("the session is there").items)
}

#[tokio::test]
async fn text_lies_in_its_row_or_in_a_block_and_never_in_both() {
    let (file, store, session, before) = archived().await;
    assert_eq!(turns(&store, session).await.expect("all are read"), before);
    let again = store.archive().move_out(&ann(), session, 26, 100).await.expect("moved");
    assert_eq!(again.turns, 0);
    let size = store.archive().archived().await.expect("counted");
    assert_eq!((size.blocks, size.turns), (2, 25));
    let left =
        "SELECT count(*) FROM turn WHERE block IS NOT NULL AND (question <> '.' OR answer <> '.' OR extra IS NOT NULL)";
    assert_eq!(file.raw().query_row(left, [], |row| row.get::<_, i64>(0)).expect("counted"), 0);
}

/// Pages that are in use; those that became free are filled before the file grows.
fn pages_used(file: &DataFile) -> i64 {
    let sql = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count";
    file.raw().query_row(sql, [], |row| row.get(0)).expect("counted")
}

#[tokio::test]
async fn the_room_that_text_took_can_be_used_again() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let empty = pages_used(&file);
    let long = "what one says to another when the evening is long and nobody has to leave early ".repeat(12);
    let drafts = (0..300).map(|n| full_draft(&format!("question {n}"), &long)).collect();
    add(&store, session, drafts).await;
    let mark = "INSERT OR REPLACE INTO recall_row_todo (turn) SELECT key FROM turn";
    let refer = |sql: &str| file.raw().query_row(sql, [], |row| row.get::<_, i64>(0)).expect("counted");
    file.raw().execute(mark, []).expect("something refers to each turn");
    let before = pages_used(&file);
    while store.archive().move_out(&ann(), session, 290, 100).await.expect("moved").more {}
    let after = pages_used(&file);
    assert!(2 * (after - empty) < before - empty, "{empty} pages empty, {before} before, {after} after");
    assert_eq!(refer("SELECT count(*) FROM recall_row_todo"), 300, "what refers to a turn is not lost");
    assert_eq!(refer("SELECT count(*) FROM turn WHERE key < 1"), 0);
    assert_eq!(refer("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    assert_eq!(refer("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

/// D2: the last four of a topic stay in full.
#[tokio::test]
async fn the_end_of_a_topic_stays_in_its_rows() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    add(&store, session, (0..TURNS).map(|n| full_draft(&format!("question {n}"), "answer")).collect()).await;
    let fill = "INSERT INTO topic (tenant, user, id, title, created_at, last_used)
                    VALUES ('default', 'ann', randomblob(16), 't', 0, 0);
                INSERT INTO topic_turn (turn, topic, messages) SELECT key, 1, 2 FROM turn WHERE number <= 20;";
    file.raw().execute_batch(fill).expect("a topic of the first twenty");
    let moved = store.archive().move_out(&ann(), session, 26, 100).await.expect("moved");
    assert_eq!(moved.turns, 25 - 4);
    let left = "SELECT group_concat(number) FROM turn WHERE block IS NULL";
    let left: String = file.raw().query_row(left, [], |row| row.get(0)).expect("the others");
    assert_eq!(left, "17,18,19,20,26,27,28,29,30");
    let id: [u8; 16] = file.raw().query_row("SELECT id FROM topic", [], |row| row.get(0)).expect("its id");
    let (id, page) = (crate::id::TopicId::from_uuid(uuid::Uuid::from_bytes(id)), PageRequest::first(50));
    assert_eq!(store.topics().archived_messages(&ann(), id).await.expect("counted"), 32);
    let counts = [true, false].map(|archived| store.topics().topic_turns(&ann(), id, archived, page));
    let [all, recent] = counts.map(|turns| async { turns.await.expect("read").expect("the topic").items.len() });
    assert_eq!((all.await, recent.await), (20, 4));
}

/// However long a session is, a look takes the same time; what was left further back is found by one of the next looks.
#[tokio::test]
async fn what_was_left_behind_is_moved_in_time() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let drafts = (0..2_000).map(|n| full_draft(&format!("question {n}"), "answer"));
    add(&store, session, drafts.collect()).await;
    let look = async |before| store.archive().move_out(&ann(), session, before, 2_000).await.expect("moved").turns;
    let mut moved = look(2_001).await;
    assert!((501..=1_000).contains(&moved), "the last ones, and a part of what is further back: {moved}");
    for before in 1_900..2_000 {
        moved += look(before).await;
    }
    let left = "SELECT count(*) FROM turn WHERE block IS NULL";
    let left: u64 = file.raw().query_row(left, [], |row| row.get(0)).expect("counted");
    assert_eq!((moved, left), (2_000, 0));
}

#[tokio::test]
async fn what_is_tightly_packed_is_the_same() {
    let (_file, store, session, before) = archived().await;
    let blocks = store.archive().quick_blocks(9).await.expect("blocks");
    assert_eq!(blocks.len(), 1, "one that still grows is left alone");
    let tight = recompress(&blocks[0].bytes, Level::Thorough).expect("recompressed");
    assert!(tight.len() < blocks[0].bytes.len());
    assert!(store.archive().replace_block(blocks[0].clone(), tight.clone()).await.expect("replaced"));
    assert!(!store.archive().replace_block(blocks[0].clone(), tight).await.expect("it has changed since"));
    assert_eq!(turns(&store, session).await.expect("all are read"), before);
    assert_eq!(store.archive().quick_blocks(9).await.expect("blocks"), []);
}

#[tokio::test]
async fn a_block_that_lost_a_turn_is_tightly_packed_too() {
    let (_file, store, _, before) = archived().await;
    store.erasures().erase(Erasure::Turn(ann(), before[2].id)).await.expect("it is erased").expect("it was there");
    let blocks = store.archive().quick_blocks(9).await.expect("blocks");
    assert_eq!(
        blocks.iter().map(|block| block.key).collect::<Vec<_>>(),
        [1],
        "it is not the last, and never fills again"
    );
}

#[tokio::test]
async fn somebody_elses_session_is_not_moved() {
    let (_file, store, session, _) = archived().await;
    let other = crate::scope::Scope::new(Default::default(), crate::scope::User::parse("bob").expect("a user"));
    let moved = store.archive().move_out(&other, session, 99, 99).await.expect("nothing happens");
    assert_eq!(moved.turns, 0);
}

/// Where a block says its version.
const VERSION_BYTE: usize = 2;

/// The first block as a newer recalld would have written it.
fn make_newer(file: &DataFile) -> Vec<u8> {
    let raw = file.raw();
    let whole: Vec<u8> = raw.query_row("SELECT bytes FROM block WHERE key = 1", [], |row| row.get(0)).expect("a block");
    let mut newer = whole.clone();
    newer[VERSION_BYTE] = 99;
    raw.execute("UPDATE block SET bytes = ?1 WHERE key = 1", [&newer]).expect("it is written");
    whole
}

/// After a step back to an older binary, or beside a newer instance, nothing that only the newer one can read is lost or left out.
#[tokio::test]
async fn a_newer_block_is_left_to_newer_hands() {
    let (file, store, session, before) = archived().await;
    let whole = make_newer(&file);
    let first = Erasure::Turn(ann(), before[0].id);
    let refused = store.erasures().erase(first.clone()).await.expect_err("others are in its block");
    assert!(matches!(refused, StoreError::Unreadable { number: 1, .. }), "{refused}");
    assert!(refused.to_string().ends_with("use a newer recalld"), "{refused}");
    let told = store.episodes().stretch(&ann(), session, 1, 20).await;
    assert!(matches!(told, Err(StoreError::Unreadable { .. })), "it is not told without them: {told:?}");
    let recent = store.last_turns(&ann(), session, 100).await.expect("the others are shown");
    assert_eq!((&recent.turns[..], recent.damaged.len()), (&before[20..], 20));
    let other = Erasure::Turn(ann(), before[29].id);
    store.erasures().erase(other).await.expect("the refused one is not in the book").expect("it was there");

    file.raw().execute("UPDATE block SET bytes = ?1 WHERE key = 1", [&whole]).expect("a newer binary again");
    assert_eq!(turns(&store, session).await.expect("all are read"), before[..29]);
    store.erasures().erase(first).await.expect("it is erased").expect("it was there");
    assert_eq!(turns(&store, session).await.expect("all are read"), before[1..29]);
}

/// What other turns were shown is taken away from turns that can be read, and those that cannot do not become damaged by it.
#[tokio::test]
async fn what_a_newer_turn_was_shown_refuses_the_erasure() {
    let (file, store, _, before) = archived().await;
    let shown = r#"{"injected":{"block":"zephyr"}}"#;
    let note = "UPDATE turn SET metadata = ?1 WHERE number = 1";
    make_newer(&file);
    file.raw().execute(note, [shown]).expect("it was shown something");
    let refused = store.erasures().erase(Erasure::Turn(ann(), before[29].id)).await;
    assert!(matches!(refused, Err(StoreError::Unreadable { number: 1, .. })), "{refused:?}");
    let kept: String =
        file.raw().query_row("SELECT metadata FROM turn WHERE number = 1", [], |row| row.get(0)).expect("there");
    assert_eq!(kept, shown);
}

#[test]
fn one_flipped_bit_in_a_block_is_damage_and_never_text() {
    let runtime = Runtime::new().expect("a runtime");
    let (file, store, session, before) = runtime.block_on(archived());
    let raw = file.raw();
    let whole: Vec<u8> = raw.query_row("SELECT bytes FROM block WHERE key = 1", [], |row| row.get(0)).expect("a block");
    proptest!(ProptestConfig::with_cases(256), |(bit in 0..whole.len() * 8)| {
        let mut scratched = whole.clone();
        scratched[bit / 8] ^= 1 << (bit % 8);
        raw.execute("UPDATE block SET bytes = ?1 WHERE key = 1", [&scratched]).expect("the block is scratched");
        let listed = runtime.block_on(turns(&store, session));
        // A version that nobody has seen yet may be a newer one.
        let is_hidden = match listed {
            Err(StoreError::Unreadable { number, .. }) => number == 1 && bit / 8 == VERSION_BYTE,
            Err(StoreError::Damaged { number, .. }) => number == 1,
            _ => false,
        };
        prop_assert!(is_hidden, "{listed:?}");
        let recent = runtime.block_on(store.last_turns(&ann(), session, 100)).expect("the others are shown");
        prop_assert_eq!(&recent.turns[..], &before[20..]);
        prop_assert_eq!(recent.damaged.len(), 20);
    });
    raw.execute("UPDATE block SET bytes = ?1 WHERE key = 1", [&whole]).expect("the block is mended");
    assert_eq!(runtime.block_on(turns(&store, session)).expect("all are read"), before);
}
