//! Erased is erased: people, conversations, exchanges and documents with words of their own, in every place that keeps words; then
//! they are forgotten, and their words looked for in every file, or in every column of every table. The words are looked for
//! by their tails, because what compresses words by what they begin with keeps nothing but those.
//!
//! `RECALLD_ERASURES` says how many are forgotten on each store. Reading order: `life` (what is said, and where it ends up), `scan`
//! (finding words), then the campaigns here.

mod life;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recalld::clock::{Clock, SystemClock};
use recalld::lifecycle::ClockWatch;
use recalld::store::{Sqlite, Store, StoreError, backup};
use recalld::worker::Worker;

use self::life::{Held, Life, Target, memory_over};
use self::scan::{in_bytes, in_files, in_tables};
use crate::flaky::Flaky;

fn how_many() -> usize {
    std::env::var("RECALLD_ERASURES").ok().and_then(|count| count.parse().ok()).unwrap_or(16)
}

fn open(data: &Path) -> Arc<dyn Store> {
    let store = Sqlite::open(data, Arc::new(SystemClock::default())).expect("a data file");
    Arc::new(store.with_windows(&life::windows()))
}

/// A life on a data file, and a backup of it from before anything was forgotten.
async fn lived(folder: &Path) -> (Life, PathBuf) {
    let (data, copy) = (folder.join("data/r.db"), folder.join("older"));
    std::fs::create_dir_all(folder.join("data")).expect("a folder");
    let life = Life::live(&memory_over(open(&data)), how_many()).await;
    // Closing takes down samples of indexed values, which are a place, too.
    let memory = memory_over(open(&data));
    back_up(&memory, &copy).await;
    life::close(memory).await;
    (life, copy)
}

async fn back_up(memory: &Held, to: &Path) {
    let mut copy = memory.backup().await.expect("a backup");
    std::io::copy(&mut copy.file, &mut std::fs::File::create(to).expect("a file")).expect("written");
    backup::check(to).expect("whole");
}

fn put_back(copy: &Path, data: &Path) {
    Sqlite::restore(data, copy).expect("restored");
}

/// A life that was forgotten, and brought back by an older copy.
async fn brought_back(folder: &Path) -> Life {
    let ((life, copy), data) = (lived(folder).await, folder.join("data/r.db"));
    let memory = memory_over(open(&data));
    life.forget_all(&memory).await;
    life::close(memory).await;
    put_back(&copy, &data);
    life
}

fn none_is_left(what: &str, left: &[String]) {
    assert!(left.is_empty(), "{what}: {} words are left: {left:#?}", left.len());
}

/// Must show: after forgetting, and after an older copy was put back, no file has a word of what was forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_words_are_in_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (life, copy) = lived(folder.path()).await;
    let (files, data) = (folder.path().join("data"), folder.path().join("data/r.db"));
    life.check_that_all_is_found(&in_files(&files, &life.all_words()));

    let memory = memory_over(open(&data));
    life.forget_all(&memory).await;
    none_is_left("while it is open", &in_files(&files, &life.forgotten_words()));
    let newer = folder.path().join("newer");
    back_up(&memory, &newer).await;
    none_is_left("in a newer backup", &in_bytes(&newer, &life.forgotten_words()));
    life::settle(&memory).await;
    life::close(memory).await;
    none_is_left("when all was told anew", &in_files(&files, &life.forgotten_words()));
    life.check_that_the_rest_is_found(&in_files(&files, &life.kept_words()));

    put_back(&copy, &data);
    let memory = memory_over(open(&data));
    let again = memory.reapply_erasures().await.expect("erased once more");
    assert_eq!(again.found, life.forgotten() as u64, "{again:?}");
    none_is_left("after an older copy was put back", &in_files(&files, &life.forgotten_words()));
    life.check_that_the_rest_is_found(&in_files(&files, &life.kept_words()));
    life::close(memory).await;
    println!("{} forgotten on SQLite: 0 of {} words left", life.forgotten(), life.forgotten_words().len());
}

/// The campaign can fail: without the book an older copy brings everything back, and it is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_book_what_was_forgotten_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let life = brought_back(folder.path()).await;
    let (files, data) = (folder.path().join("data"), folder.path().join("data/r.db"));
    for ending in ["erased", "erased-key"] {
        std::fs::remove_file(files.join(format!("r.db.{ending}"))).expect("removed");
    }
    let memory = memory_over(open(&data));
    assert_eq!(memory.reapply_erasures().await.expect("nothing to do").entries, 0);
    life.check_that_all_is_found(&in_files(&files, &life.all_words()));
    life::close(memory).await;
}

/// A store that does not answer at the start is asked again and again: what an older copy brought back goes when it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_copy_brought_back_goes_when_the_store_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let life = brought_back(folder.path()).await;
    let (files, data) = (folder.path().join("data"), folder.path().join("data/r.db"));

    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(Flaky::new(Sqlite::open(&data, clock.clone()).expect("a data file")));
    store.fail(Some(StoreError::Away("it does not answer".into())));
    let memory = memory_over(Arc::clone(&store) as _);
    let watch = Arc::new(ClockWatch::starting(clock.reading()));
    let mut worker = Worker::start(memory.clone(), watch, Duration::from_secs(3_600));
    worker.erase_again(memory.clone());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    life.check_that_all_is_found(&in_files(&files, &life.all_words()));
    store.fail(None);
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if in_files(&files, &life.forgotten_words()).is_empty() {
            break;
        }
    }
    none_is_left("after the store came back", &in_files(&files, &life.forgotten_words()));
    worker.stop().await;
    life::close(memory).await;
}

/// An erasure that a process did not live to finish is finished at the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cut_short_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let (life, _) = lived(folder.path()).await;
    let data = folder.path().join("data/r.db");
    let before = std::fs::read(&data).expect("the data");
    let memory = memory_over(open(&data));
    life.forget(&memory, Target::User).await;
    life::close(memory).await;
    // As if the process had ended between the line in the book and the first row that goes.
    std::fs::write(&data, before).expect("the data as they were");
    let memory = memory_over(open(&data));
    assert!(memory.erasure_book().await.expect("a book").not_applied > 0);
    // Whoever erases next finishes what was begun.
    life.forget(&memory, Target::Document).await;
    assert_eq!(memory.erasure_book().await.expect("a book").not_applied, 0);
    none_is_left("of users", &in_files(&folder.path().join("data"), &life.words_of(Target::User)));
    life::close(memory).await;
}

/// Must show: the same on PostgreSQL, for every column of every table, and for what is taken down to plan queries by.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_words_are_in_no_row() {
    use recalld::store::{Postgres, PostgresSettings};

    let Ok(url) = std::env::var("RECALLD_TEST_POSTGRES") else {
        println!("SKIPPED: RECALLD_TEST_POSTGRES is not set; `scripts/services start`");
        return;
    };
    let schema = format!("erasure_{}", std::process::id());
    let settings = PostgresSettings { schema: schema.clone(), ..PostgresSettings::new(&url) };
    let opened = Postgres::open(settings, Arc::new(SystemClock::default())).await.expect("a store in a new schema");
    let memory = memory_over(Arc::new(opened.with_windows(&life::windows())));
    let life = Life::live_in(&memory, how_many()).await;
    let all = in_tables(&url, &schema, &life.all_words()).await;
    life.check_that_all_is_found(&all);

    life.forget_all(&memory).await;
    none_is_left("in the rows", &in_tables(&url, &schema, &life.forgotten_words()).await);
    life::settle(&memory).await;
    none_is_left("when all was told anew", &in_tables(&url, &schema, &life.forgotten_words()).await);
    life.check_that_the_rest_is_found(&in_tables(&url, &schema, &life.kept_words()).await);
    life::close(memory).await;
    scan::remove(&url, &schema).await;
    println!("{} forgotten on PostgreSQL: 0 of {} words left", life.forgotten(), life.forgotten_words().len());
}
