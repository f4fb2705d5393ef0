//! The promises of every store, on a real PostgreSQL: the one that `RECALLD_TEST_POSTGRES` names (see `scripts/services`).

mod losing;
mod tls;
mod walls;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Map;

use super::connect::meaning;
use super::schema::{AT_HOME, BY_TENANT};
use super::{Postgres, PostgresSettings};
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::id::{Ids, RandomIds, SessionId};
use crate::job::JobKind;
use crate::message::{Message, Role};
use crate::scope::Scope;
use crate::session::{OpenTurn, Placement, SessionSeed, TurnDraft, TurnStatus};
use crate::store::conformance::twins::two_stores_answer_alike;
use crate::store::whose::Whose;
use crate::store::{Changes, Erasure, Sqlite, Store, StoreError};

/// An empty store; `None` where there is no server, which is said aloud.
async fn scratch() -> Option<Postgres> {
    with_clock(Arc::new(SystemClock::default())).await
}

async fn with_clock(clock: Arc<dyn Clock>) -> Option<Postgres> {
    Some(Postgres::temporary(&address()?, clock).await.expect("a store in a new schema"))
}

/// Where the server is.
fn address() -> Option<String> {
    let url = std::env::var("RECALLD_TEST_POSTGRES").ok();
    if url.is_none() {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "SKIPPED: RECALLD_TEST_POSTGRES is not set; `scripts/services start`");
    }
    url
}

mod conformance {
    use super::*;

    crate::conformance! {
        match scratch().await {
            Some(store) => store,
            None => return,
        }
    }
}

/// The same promises where all text lies in blocks.
mod conformance_in_blocks {
    use super::*;

    crate::conformance! {
        match scratch().await {
            Some(mut store) => {
                store.moves_at_once = true;
                store
            }
            None => return,
        }
    }
}

/// A question that nobody has asked yet.
fn question(session: SessionId) -> OpenTurn {
    OpenTurn {
        id: RandomIds.turn(Timestamp::UNIX_EPOCH),
        session,
        seed: SessionSeed::default(),
        question: said("what is it?"),
        metadata: Map::new(),
        asked_at: None,
        place: Placement::default(),
    }
}

/// Somebody whom only the spool of an instance that is down knows is forgotten all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_unknown_here_is_written_down_for_whoever_has_it() {
    let Some(store) = scratch().await else { return };
    let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
    let unknown = store.erasures().erase(Erasure::User(scope.clone())).await.expect("a look");
    assert_eq!(unknown, None);
    let book = store.erasures().book().await.expect("a book");
    assert_eq!((book.entries, book.not_applied), (1, 0));
    let waited = OpenTurn { asked_at: Some(Timestamp::UNIX_EPOCH), ..question(session) };
    let gone = store.open_turn(&scope, waited).await;
    assert!(matches!(gone, Err(StoreError::Erased(_))), "{gone:?}");
    assert!(store.open_turn(&scope, question(session)).await.is_ok(), "who asks now is there");
}

/// How many random histories both databases go through, each of so many steps.
const HISTORIES: u64 = 6;
const STEPS: usize = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_and_postgres_answer_alike() {
    for seed in 1..=HISTORIES {
        let clock = || Arc::new(ManualClock::at(Timestamp::from_second(1_700_000_000).expect("a time")));
        let Some(postgres) = with_clock(clock()).await else { return };
        let sqlite = Sqlite::temporary(clock()).expect("a store in a new folder");
        two_stores_answer_alike([Arc::new(sqlite), Arc::new(postgres)], seed, STEPS).await;
    }
}

/// What a process was doing that was killed is done by another one as soon as it has not been heard of for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_an_instance_that_is_gone_are_taken_over() {
    let Some(one) = scratch().await else { return };
    let two = one.beside(Arc::new(SystemClock::default())).await.expect("another one");
    let (scope, session, lease) = (Scope::as_stored("acme", "ann"), RandomIds.session(), SignedDuration::from_mins(5));
    add(&one, &scope, session, "hello").await;
    one.jobs().enqueue(&scope, session, JobKind::CONSOLIDATE).await.expect("asked for");
    let claimed = one.jobs().claim(None, Timestamp::now(), lease).await.expect("a look").expect("a job");
    super::alive::say(&two.pool).await.expect("said");
    let again = two.jobs().claim(None, Timestamp::now(), lease).await.expect("a look");
    assert!(again.is_none(), "whoever does it is there: {again:?}");
    let gone =
        format!("UPDATE instance SET seen_at = now() - interval '61 seconds' WHERE id = '{}'", one.pool.instance());
    let age = move |db: &super::sql::Connection| super::session::execute(db, &gone, []).map(drop);
    two.pool.write(Whose::Ours, age).await.expect("aged");
    super::alive::say(&two.pool).await.expect("said");
    let again = two.jobs().claim(None, Timestamp::now(), lease).await.expect("a look").expect("it is free");
    assert_eq!((again.job.id, again.fence), (claimed.job.id, claimed.fence + 1));
}

/// So is a question that it never answered: it is marked as failed by one that goes on, without anybody starting anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_an_instance_that_is_gone_are_marked_by_another() {
    let Some(one) = scratch().await else { return };
    let two = one.beside(Arc::new(SystemClock::default())).await.expect("another one");
    let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
    one.open_turn(&scope, question(session)).await.expect("opened");
    two.open_turn(&scope, question(RandomIds.session())).await.expect("opened");
    assert_eq!(two.fail_deserted().await.expect("a look"), 0, "both are being answered");
    let age = |seconds: u64, which: &str| {
        format!("UPDATE instance SET seen_at = now() - interval '{seconds} seconds' WHERE id = '{which}'")
    };
    let write = async |sql: String| {
        let age = move |db: &super::sql::Connection| super::session::execute(db, &sql, []).map(drop);
        two.pool.write(Whose::Ours, age).await.expect("aged");
    };
    write(age(61, one.pool.instance())).await;
    write(age(31, two.pool.instance())).await;
    assert_eq!(two.fail_deserted().await.expect("a look"), 0, "two was not heard of either");
    write(age(0, two.pool.instance())).await;
    assert_eq!(two.fail_deserted().await.expect("a look"), 1, "only the one of the instance that is gone");
    let turns = two.turns(&scope, session, crate::store::PageRequest::first(9)).await.expect("read").expect("there");
    assert_eq!(turns.items[0].status, TurnStatus::Failed);
}

fn said(text: &str) -> Message {
    Message::new(Role::User, text, Timestamp::UNIX_EPOCH)
}

async fn add(store: &dyn Store, scope: &Scope, session: SessionId, text: &str) {
    let messages = vec![said(text), Message::new(Role::Assistant, "so", Timestamp::UNIX_EPOCH)];
    let id = RandomIds.turn(Timestamp::UNIX_EPOCH);
    let draft = TurnDraft { id, messages, metadata: Map::new(), created_at: None };
    store.add_turns(scope, session, Some(SessionSeed::default()), vec![draft]).await.expect("added");
}

/// Counts rows with the eyes of somebody.
async fn count(store: &Postgres, whose: Whose, sql: String) -> u64 {
    let count =
        move |db: &super::sql::Connection| db.query_row(&sql, [], |row| row.get(0)).map_err(|error| meaning(&error));
    store.pool.read(whose, count).await.expect("counted")
}

/// Without a word of whose rows are meant, a statement finds those of the transaction's tenant and nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_sees_another_tenant() {
    let Some(store) = scratch().await else { return };
    for tenant in ["acme", "other"] {
        add(&store, &Scope::as_stored(tenant, "ann"), RandomIds.session(), "hello").await;
    }
    let (acme, other) = (Whose::Tenant("acme".into()), Whose::Tenant("other".into()));
    for table in ["session", "turn", "place", "scope_change"] {
        let all = format!("SELECT count(*) FROM {table}");
        assert_eq!(count(&store, acme.clone(), all.clone()).await, 1, "{table}");
        assert_eq!(count(&store, other.clone(), all.clone()).await, 1, "{table}");
        assert_eq!(count(&store, Whose::Ours, all).await, 0, "{table}");
    }
    for table in AT_HOME.into_iter().chain(BY_TENANT).chain(["fact_refused"]) {
        let bound = format!(
            "SELECT count(*) FROM pg_class WHERE oid = '{table}'::regclass AND relrowsecurity AND relforcerowsecurity"
        );
        assert_eq!(count(&store, Whose::Ours, bound).await, 1, "`{table}` is not guarded");
    }
    let foreign = |db: &super::sql::Connection| {
        let sql = "UPDATE session SET tenant = 'other' WHERE tenant = 'acme'";
        super::session::execute(db, sql, []).map(drop)
    };
    assert!(store.pool.write(acme, foreign).await.is_err(), "a row was given away");
}

/// Several processes start at once on an empty database, share what is said, and leave each other's work alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_instances_share_a_database() {
    let Ok(url) = std::env::var("RECALLD_TEST_POSTGRES") else { return };
    let schema = format!("temporary_{}", uuid::Uuid::new_v4().simple());
    let settings = PostgresSettings { schema, ..PostgresSettings::new(&url) };
    let open = || Postgres::open(settings.clone(), Arc::new(SystemClock::default()));
    let (one, two, three) = tokio::join!(open(), open(), open());
    let (mut one, two) = (one.expect("opens"), two.expect("opens"));
    drop(three.expect("opens"));
    one.temporary = true;

    let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
    let Changes::Reload { mark } = two.recall_changes(&scope, None, "e").await.expect("a mark") else {
        panic!("nobody watched")
    };
    add(&one, &scope, session, "said to one").await;
    assert_eq!(two.last_turns(&scope, session, 10).await.expect("the end").turns.len(), 1);
    let changes = two.recall_changes(&scope, Some(mark), "e").await.expect("changes");
    assert!(matches!(changes, Changes::Turns { entries, .. } if entries.len() == 1), "two was not told");

    one.open_turn(&scope, question(session)).await.expect("opened");
    assert_eq!(two.fail_abandoned().await.expect("a look"), 0, "it is being answered");
    one.close().await.expect("closes");
    assert_eq!(two.fail_abandoned().await.expect("a look"), 1, "whoever answered it has left");
}

/// A schema that goes when the test does.
fn another_schema(url: &str) -> PostgresSettings {
    let schema = format!("temporary_{}", uuid::Uuid::new_v4().simple());
    let patience = std::time::Duration::from_secs(300);
    PostgresSettings { schema, statement_timeout: patience, wait_timeout: patience, ..PostgresSettings::new(url) }
}

/// A file with a random history moves as it is: every table, with its keys; the guards are up again, and a database that has
/// something is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_file_moves_into_a_database() {
    let Ok(url) = std::env::var("RECALLD_TEST_POSTGRES") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.db");
    let clock = || Arc::new(ManualClock::at(Timestamp::from_second(1_700_000_000).expect("a time")));
    let file = Arc::new(Sqlite::open(&path, clock()).expect("a file"));
    let beside = Sqlite::temporary(clock()).expect("a store in a new folder");
    two_stores_answer_alike([Arc::clone(&file) as Arc<dyn Store>, Arc::new(beside)], 7, STEPS).await;
    let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
    for n in 0..30 {
        add(&*file, &scope, session, &format!("said {n} in the file, with a \0 in it")).await;
    }
    file.archive().move_out(&scope, session, 20, 100).await.expect("moved into blocks");
    let kept = file.turns(&scope, session, crate::store::PageRequest::first(99)).await.expect("read").expect("there");

    let settings = another_schema(&url);
    let moved = Postgres::move_in(settings.clone(), path.clone(), |_, _| {}).await.expect("moved");
    let rows = |table: &str| moved.rows.iter().find(|(name, _)| name == table).expect(table).1;
    assert!(
        rows("turn") >= 30 && rows("session") > 1 && rows("block") > 0 && rows("place") == rows("turn"),
        "{moved:?}"
    );
    let found = Postgres::verify(settings.clone()).await.expect("looked");
    assert_eq!((found.problems, moved.secret), (Vec::<String>::new(), false));

    let again = Postgres::move_in(settings.clone(), path, |_, _| {}).await.expect_err("it is not empty");
    assert!(again.to_string().contains("the database is not empty"), "{again}");

    let mut store = Postgres::open(settings, clock()).await.expect("opens");
    store.temporary = true;
    let there = store.turns(&scope, session, crate::store::PageRequest::first(99)).await.expect("read").expect("there");
    assert_eq!(there.items, kept.items);
    add(&store, &scope, session, "said in the database").await;
    let open = store.pool.read(Whose::Ours, |db| {
        // `passage_words` does not bind its owner, who searches it for whoever asks (`shelf.sql`).
        let sql = "SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
                   WHERE n.nspname = current_schema() AND relrowsecurity AND NOT relforcerowsecurity
                   AND relname <> 'passage_words'";
        let unguarded: i64 = db.query_row(sql, [], |row| row.get(0)).map_err(|error| meaning(&error))?;
        let sql = "SELECT count(*) FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = current_schema() AND NOT tgisinternal AND tgenabled = 'D'";
        let asleep: i64 = db.query_row(sql, [], |row| row.get(0)).map_err(|error| meaning(&error))?;
        Ok((unguarded, asleep))
    });
    assert_eq!(open.await.expect("looked"), (0, 0), "guards and triggers are as they were");
}

/// Vectors that an older version put into its graph are made anew: its tables go, and the database is searched again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_shelf_is_made_anew() {
    let Some(store) = scratch().await else { return };
    if !store.searches() {
        return;
    }
    let settings = store.pool.settings().clone();
    let own = format!("SET search_path = {}, public;", settings.schema);
    let run = async |sql: &'static str| {
        let (settings, own) = (settings.clone(), own.clone());
        super::on_a_thread(move || {
            let db = super::connect::connect(&settings, super::connect::Who::Owner, "test")?;
            db.batch(&format!("{own} {sql}")).map_err(|error| meaning(&error))
        })
        .await
    };
    run("DROP TABLE passage_meaning, knowledge_centre; CREATE TABLE passage_vector (home text);").await.expect("older");
    assert!(!Postgres::inspect(settings.clone()).await.expect("a look").searches, "what is needed is missing");
    assert!(Postgres::migrate(settings.clone()).await.expect("made anew").searches);
    run("SELECT embedder FROM knowledge_centre; SELECT home FROM passage_meaning").await.expect("they are there");
    run("SELECT home FROM passage_vector").await.expect_err("its table is gone");
}
