//! What only SQLite can be asked about recall: older files, what is left of rows, how long it takes.

use std::time::{Duration, Instant};

use super::*;
use crate::id::TurnId;
use crate::period::{Period, Ttl};
use crate::session::{ClosedTurn, OpenTurn, TurnStatus};
use crate::store::sqlite::connect::SCHEMA_VERSION;
use crate::store::sqlite::trace::TRACES_MAX;
use crate::store::{Changes, DerivedRow, DueTurn, Expiry, RecallKept, Todo};

const TABLES: [&str; 5] = ["recall_row", "recall_vector", "recall_row_todo", "recall_vector_todo", "recall_trace"];

/// How many rows the tables of recall have, in the order of [`TABLES`].
fn counts(db: &Connection) -> [i64; 5] {
    let count = |table| db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count");
    TABLES.map(count)
}

/// A row and vectors of so many bytes each, all at once.
fn derived(due: &DueTurn, row: &[u8], vectors: &[u8]) -> DerivedRow {
    DerivedRow {
        scope: due.scope.clone(),
        turn: due.turn.id,
        stamp: due.stamp,
        row: Some(row.to_vec()),
        vectors: Some(("e".into(), vectors.to_vec())),
        then: None,
    }
}

async fn derive_all(store: &Sqlite, row: &[u8], vectors: &[u8]) {
    loop {
        let due = store.recall_todo(Todo::Row, 1_000).await.expect("the list");
        if due.is_empty() {
            return;
        }
        let rows = due.iter().map(|due| derived(due, row, vectors)).collect();
        store.keep_recall_rows(rows).await.expect("the rows are kept");
    }
}

async fn entries(store: &Sqlite) -> Vec<(TurnId, bool)> {
    let page = store.recall_entries(&ann(), "e", None, 9_999).await.expect("a page");
    page.entries.iter().map(|entry| (entry.turn, matches!(entry.kept, RecallKept::Row { .. }))).collect()
}

async fn chat(store: &Sqlite, session: SessionId, trace: &str) -> TurnId {
    let (now, metadata) = (Timestamp::UNIX_EPOCH, Map::new());
    let id = RandomIds.turn(now);
    let question = Message::new(Role::User, "how?", now);
    let (seed, place) = (SessionSeed::default(), Default::default());
    let open = OpenTurn { id, session, seed, question, metadata: metadata.clone(), asked_at: None, place };
    store.open_turn(&ann(), open).await.expect("the question is written");
    let (status, messages) = (TurnStatus::Complete, vec![Message::new(Role::Assistant, "so", now)]);
    let (others, trace) = (Vec::new(), Some(trace.to_owned()));
    let closed = ClosedTurn {
        id,
        session,
        status,
        messages,
        metadata,
        attempt: 0,
        others,
        trace,
        topic: None,
        waits_since: None,
    };
    store.close_turn(&ann(), closed).await.expect("the ending is written");
    id
}

/// A file of the first release: its schema alone, and turns in it as that release wrote them.
#[tokio::test]
async fn turns_of_the_first_release_are_recalled() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    add(&store, session, vec![full_draft("how?", "so"), draft("and?", "so too"), draft("old?", "so")]).await;
    let before = store.turns(&ann(), session, crate::store::PageRequest::first(9)).await.expect("a page");
    drop(store);
    // What later schemas added to the tables of the first.
    file.raw().execute_batch("ALTER TABLE session DROP COLUMN consolidated").expect("as it was");
    let old = DataFile::new();
    old.raw().execute_batch(include_str!("../schema.sql")).expect("the first schema");
    let columns = |table: &str| {
        let sql = "SELECT group_concat(name) FROM pragma_table_info(?1)";
        old.raw().query_row(sql, [table], |row| row.get::<_, String>(0)).expect("its columns")
    };
    let copy = |table: &str| {
        let columns = columns(table);
        format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table};")
    };
    let copies = ["session", "turn", "place"].map(copy).concat();
    let path = file.path.display();
    let fill = format!(
        "ATTACH '{path}' AS new; {copies} DETACH new;
         UPDATE turn SET superseded = 1 WHERE number = 3;
         PRAGMA application_id = 0x7265636c; PRAGMA user_version = 1;"
    );
    old.raw().execute_batch(&fill).expect("its turns");

    let store = old.open();
    assert_eq!(old.raw().pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)), Ok(SCHEMA_VERSION));
    let turns = before.expect("the session").items;
    let due = store.recall_todo(Todo::Row, 9).await.expect("the list");
    assert_eq!(due.iter().map(|due| &due.turn).collect::<Vec<_>>(), [&turns[0], &turns[1]]);
    assert_eq!(entries(&store).await, [(turns[0].id, false), (turns[1].id, false)]);
    derive_all(&store, b"row", b"vectors").await;
    assert_eq!(entries(&store).await, [(turns[0].id, true), (turns[1].id, true)]);
    drop(store);
    assert_eq!(entries(&old.open()).await, [(turns[0].id, true), (turns[1].id, true)], "and after a restart");
    assert_eq!(Sqlite::damage(&old.path, true).expect("checked"), Vec::<String>::new());
}

/// Erased is erased: what was derived is gone with the turn, from every table and from the disk.
#[tokio::test]
async fn nothing_derived_outlives_its_turn() {
    let file = DataFile::new();
    let store = file.open();
    let secret = "the treasure lies under the old oak";
    let bytes = secret.repeat(300);
    for expires in [false, true] {
        let session = RandomIds.session();
        add(&store, session, vec![draft("how?", "so"), draft("and?", "so")]).await;
        derive_all(&store, bytes.as_bytes(), secret.as_bytes()).await;
        chat(&store, session, secret).await;
        assert_eq!(counts(&file.raw()), [2, 2, 1, 0, 1]);
        assert!(on_disk(&file, secret));
        let mut more = expires;
        while more {
            let expiry = Expiry { now: Timestamp::MAX, server_ttl: Ttl::of(Period::seconds(1)), turns_max: 2 };
            more = store.expire(expiry).await.expect("expiry runs").more;
        }
        if !expires {
            store.delete_session(&ann(), session).await.expect("the session is deleted");
        }
        assert_eq!(counts(&file.raw()), [0; 5], "expires: {expires}");
        assert!(!on_disk(&file, secret), "expires: {expires}");
    }
}

fn on_disk(file: &DataFile, words: &str) -> bool {
    let read = |end: &str| std::fs::read(file.beside(end)).unwrap_or_default();
    let holds = |bytes: Vec<u8>| bytes.windows(words.len()).any(|window| window == words.as_bytes());
    ["", "-wal", "-shm", "-journal"].into_iter().any(|end| holds(read(end)))
}

#[tokio::test]
async fn a_session_keeps_its_newest_traces() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let first = chat(&store, session, "first").await;
    let second = chat(&store, session, "second").await;
    chat(&store, RandomIds.session(), "elsewhere").await;
    add(&store, session, (3..=TRACES_MAX).map(|n| draft(&n.to_string(), "so")).collect()).await;
    let trace = |id| store.trace(&ann(), id);
    assert_eq!(trace(first).await.expect("a look").as_deref(), Some("first"));
    let last = chat(&store, session, "last").await;
    assert_eq!(trace(first).await.expect("a look"), None);
    assert_eq!(trace(second).await.expect("a look").as_deref(), Some("second"));
    assert_eq!(trace(last).await.expect("a look").as_deref(), Some("last"));
    assert_eq!(counts(&file.raw())[4], 3, "the other session has its own");
}

/// What is damaged is left out and counted, and does not stand in the way of the others.
#[tokio::test]
async fn a_damaged_turn_is_passed_over() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    add(&store, session, vec![draft("one", "so"), draft("two", "so"), draft("three", "so")]).await;
    file.raw().execute("UPDATE turn SET answer = 'forged' WHERE number = 1", []).expect("a scratch");
    let page = store.recall_entries(&ann(), "e", None, 9).await.expect("a page");
    assert_eq!((page.entries.len(), page.damaged, page.next), (2, 1, None));
    let due = store.recall_todo(Todo::Row, 1).await.expect("the list");
    assert_eq!(due[0].turn.question().text, "two");
    let ids: Vec<TurnId> = due.iter().map(|due| due.turn.id).collect();
    assert_eq!(store.turns_by_id(&ann(), &ids).await.expect("a look").len(), 1);
}

/// Measures, for a release: `cargo test --release --lib -- --ignored --nocapture ten_thousand`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr, reason = "it tells what it measured")]
async fn ten_thousand_entries_are_loaded_in_no_time() {
    let file = DataFile::new();
    let store = file.open();
    let answer = "You decided on two anchor points with a horizontal lifeline. ".repeat(16);
    for _ in 0..100 {
        add(&store, RandomIds.session(), (0..100).map(|n| draft(&n.to_string(), &answer)).collect()).await;
    }
    let mut last = Instant::now();
    let mut step = |what: &str| eprintln!("{what}: {:?}", std::mem::replace(&mut last, Instant::now()).elapsed());
    load_all(&store).await;
    step("10 000 entries as turns");
    derive_all(&store, &[7; 300], &[7; 384]).await;
    step("derived, in batches of 1 000");
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        assert_eq!(load_all(&store).await, 10_000);
        times.push(started.elapsed());
    }
    times.sort_unstable();
    eprintln!("10 000 entries as rows of 300 B with vectors of 384 B: median {:?}, worst {:?}", times[10], times[19]);

    let Changes::Reload { mark } = store.recall_changes(&ann(), None, "e").await.expect("a mark") else {
        panic!("nobody watched")
    };
    let started = Instant::now();
    for _ in 0..100_000 {
        store.recall_changes(&ann(), Some(mark), "e").await.expect("nothing");
    }
    eprintln!("nothing changed: {:?} a call", started.elapsed() / 100_000);
    let mut mark = mark;
    let (mut told, session) = (Duration::ZERO, RandomIds.session());
    for n in 0..200 {
        add(&store, session, vec![draft(&n.to_string(), &answer)]).await;
        let started = Instant::now();
        let Changes::Turns { mark: now, entries, .. } =
            store.recall_changes(&ann(), Some(mark), "e").await.expect("one")
        else {
            panic!("one turn was added")
        };
        told += started.elapsed();
        assert_eq!(entries.len(), 1);
        mark = now;
    }
    eprintln!("one turn changed: {:?} a call", told / 200);
}

async fn load_all(store: &Sqlite) -> usize {
    let (mut count, mut after) = (0, None);
    loop {
        let page = store.recall_entries(&ann(), "e", after, 2_000).await.expect("a page");
        count += page.entries.len();
        after = page.next;
        if after.is_none() {
            return count;
        }
    }
}
