//! A damaged row is named, never shown.

use std::sync::Arc;

use proptest::prelude::*;
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use tokio::runtime::Runtime;

use super::{DataFile, add, ann, full_draft};
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds, SessionId};
use crate::message::{Message, Role};
use crate::session::{ClosedTurn, OpenTurn, SessionSeed, Turn, TurnStatus};
use crate::store::sqlite::Sqlite;
use crate::store::{PageRequest, Store, StoreError};

/// The columns of a turn that hold what was said and what is known about it.
const COLUMNS: [&str; 10] =
    ["id", "status", "role", "question", "answer", "extra", "metadata", "created_at", "answered_at", "checksum"];

/// A conversation of three turns on a disk that can be scratched.
struct Scratched {
    file: DataFile,
    store: Sqlite,
    session: SessionId,
    raw: Connection,
}

impl Scratched {
    async fn new() -> Self {
        let file = DataFile::new();
        let (store, session) = (file.open(), RandomIds.session());
        let drafts = ["one", "two", "three"].map(|text| full_draft(text, "Schöne Grüße aus Porto 🌞"));
        add(&store, session, drafts.to_vec()).await;
        let raw = file.raw();
        // A scratch asks no constraint for leave.
        raw.pragma_update(None, "ignore_check_constraints", true).expect("a setting");
        Self { file, store, session, raw }
    }

    fn value(&self, column: &str, number: i64) -> Value {
        let sql = format!("SELECT {column} FROM turn WHERE number = ?1");
        self.raw.query_row(&sql, [number], |row| row.get(0)).expect("the row is there")
    }

    /// Overwrites one column; text stays text, even when its bytes are none.
    fn scratch(&self, column: &str, number: i64, value: &Value) {
        let set = match column {
            "id" | "created_at" | "answered_at" | "checksum" => "?2",
            _ => "CAST(?2 AS TEXT)",
        };
        let sql = format!("UPDATE turn SET {column} = {set} WHERE number = ?1");
        self.raw.execute(&sql, params![number, value]).expect("the row is scratched");
    }

    async fn turns(&self) -> Result<Vec<Turn>, StoreError> {
        let page = self.store.turns(&ann(), self.session, PageRequest::first(9)).await?;
        Ok(page.expect("the session is there").items)
    }
}

/// The value with one bit turned over.
fn flipped(value: &Value, bit: usize) -> Value {
    let flip = |mut bytes: Vec<u8>| {
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        Value::Blob(bytes)
    };
    match value {
        Value::Integer(number) => Value::Integer(number ^ (1 << (bit % 64))),
        Value::Text(text) => flip(text.clone().into_bytes()),
        Value::Blob(bytes) => flip(bytes.clone()),
        other => panic!("{other:?} has no bits"),
    }
}

#[test]
fn one_flipped_bit_anywhere_is_damage() {
    let runtime = Runtime::new().expect("a runtime");
    let disk = runtime.block_on(Scratched::new());
    let whole = runtime.block_on(disk.turns()).expect("nothing is damaged yet");
    let (column, number) = (prop::sample::select(&COLUMNS[..]), 1..=3_i64);
    proptest!(ProptestConfig::with_cases(512), |(column in column, number in number, bit in 0..100_000_usize)| {
        let before = disk.value(column, number);
        disk.scratch(column, number, &flipped(&before, bit));
        let listed = runtime.block_on(disk.turns());
        let recent = runtime.block_on(disk.store.last_turns(&ann(), disk.session, 9)).expect("the others are shown");
        disk.scratch(column, number, &before);
        prop_assert!(
            matches!(listed, Err(StoreError::Damaged { number: at, session, .. }) if at == number as u64 && session == disk.session),
            "{column} of {number}: {listed:?}"
        );
        let others: Vec<Turn> = whole.iter().filter(|turn| turn.number != number as u64).cloned().collect();
        prop_assert_eq!(recent.turns, others);
        // A turn whose state was hit is not found by its state; all others are named.
        prop_assert!(recent.damaged.len() == 1 || column == "status");
    });
    assert_eq!(runtime.block_on(disk.turns()).expect("the scratches are mended"), whole);
}

#[tokio::test]
async fn text_that_moved_is_damage() {
    let disk = Scratched::new().await;
    for sql in [
        "UPDATE turn SET question = answer, answer = question WHERE number = 1",
        "UPDATE turn SET question = question || substr(answer, 1, 1), answer = substr(answer, 2) WHERE number = 1",
        "UPDATE turn SET answered_at = NULL WHERE number = 1",
        "UPDATE turn SET extra = NULL WHERE number = 1",
        "UPDATE turn SET number = 7 WHERE number = 1",
        "UPDATE turn SET (question, answer) = (SELECT question || '?', answer FROM turn WHERE number = 2) WHERE number = 1",
    ] {
        disk.raw.execute_batch(&format!("SAVEPOINT whole; {sql}; RELEASE whole")).expect(sql);
        let listed = disk.turns().await;
        assert!(matches!(listed, Err(StoreError::Damaged { .. })), "{sql}: {listed:?}");
    }
}

#[tokio::test]
async fn a_turn_of_another_session_is_damage() {
    let disk = Scratched::new().await;
    let other = RandomIds.session();
    add(&disk.store, other, vec![full_draft("another's", "secret")]).await;
    let moved = "UPDATE turn SET session = 1, number = 4 WHERE session = 2";
    disk.raw.execute(moved, []).expect("the turn is moved");
    let listed = disk.turns().await;
    assert!(matches!(listed, Err(StoreError::Damaged { number: 4, .. })), "{listed:?}");
}

/// What is damaged costs only itself: it is not closed, it is not taken for a failing disk that would let
/// others wait, and it does not keep the store from starting.
#[tokio::test]
async fn a_damaged_question_costs_only_itself() {
    let disk = Scratched::new().await;
    let question = Message::new(Role::User, "how?", jiff::Timestamp::UNIX_EPOCH);
    let (id, session, seed) = (RandomIds.turn(jiff::Timestamp::UNIX_EPOCH), disk.session, SessionSeed::default());
    let open = OpenTurn {
        id,
        session,
        seed,
        question,
        metadata: Default::default(),
        asked_at: None,
        place: Default::default(),
    };
    disk.store.open_turn(&ann(), open).await.expect("the question is written");
    disk.scratch("question", 4, &Value::Blob(vec![0xff, b'?']));
    let messages = vec![Message::new(Role::Assistant, "so", jiff::Timestamp::UNIX_EPOCH)];
    let ending = ClosedTurn {
        id,
        session,
        status: TurnStatus::Complete,
        messages,
        metadata: Default::default(),
        attempt: 0,
        others: Vec::new(),
        trace: None,
        topic: None,
        waits_since: None,
    };
    let closed = disk.store.close_turn(&ann(), ending).await;
    assert!(matches!(closed, Err(StoreError::Damaged { number: 4, .. })), "{closed:?}");
    assert_eq!(disk.store.fail_abandoned().await.expect("the store starts"), 1);
    assert_eq!(disk.store.fail_abandoned().await.expect("the store starts"), 0);
    let listed = disk.turns().await;
    assert!(matches!(listed, Err(StoreError::Damaged { number: 4, .. })), "its damage stays visible: {listed:?}");
}

#[tokio::test]
async fn damage_survives_a_restart() {
    let disk = Scratched::new().await;
    disk.scratch("answer", 2, &Value::Text("Forged".into()));
    let Scratched { file, store, session, raw } = disk;
    drop((store, raw));
    let store = Sqlite::open(&file.path, Arc::new(SystemClock::default())).expect("the file is opened");
    let recent = store.last_turns(&ann(), session, 9).await.expect("the others are shown");
    assert_eq!((recent.turns.len(), recent.damaged.len()), (2, 1));
}
