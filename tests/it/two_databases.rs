//! The same memory on a file and on PostgreSQL: what is recalled is the same, in the same order, with the same scores.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use recalld::clock::{Clock, ManualClock};
use recalld::id::CountedIds;
use recalld::memory::{Memory, MemorySettings, Parts};
use recalld::recall::Ask;
use recalld::scope::{Scope, Tenant, User};
use recalld::session::SessionSeed;
use recalld::store::{PageRequest, Postgres, Sqlite, Store};

/// What ann says, one conversation a line.
const SAID: [&str; 4] = [
    "My name is Ann.|I live in Lisbon.|My dog is called Rex and he is afraid of thunder.|We take the ferry on Sundays.",
    "The crane in the yard needs a new cable.|The cable comes from Porto and costs 900 euros.|Fall protection is inspected in March.",
    "I am allergic to peanuts.|For the party on Friday I bake a walnut cake.|My sister Clara brings the wine.",
    "We moved to Porto in June.|The new flat has a garden for Rex.|The neighbours play the cello.",
];
const ASKED: [&str; 7] = [
    "What is my dog called?",
    "Where do I live?",
    "What does the cable of the crane cost?",
    "What am I allergic to?",
    "Who brings the wine to the party?",
    "When is fall protection inspected?",
    "What did we do on Sundays?",
];

fn start() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a time")
}

fn scope() -> Scope {
    Scope::new(Tenant::parse("acme").expect("a name"), User::parse("ann").expect("a name"))
}

fn memory(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Memory {
    let parts = Parts { ids: Arc::new(CountedIds::default()), ..Parts::builtin(store, clock) };
    Memory::new(parts, MemorySettings::default())
}

/// Says everything, lets it be digested, and asks; answers what was recalled, what is known and what was told.
async fn told(memory: &Memory) -> Vec<String> {
    let scope = scope();
    for (n, line) in SAID.iter().enumerate() {
        let session = memory.create_session(&scope, None, SessionSeed::default()).await.expect("a session").id;
        // Enough turns for a conversation to be told in brief.
        for (m, text) in line.split('|').cycle().take(40).enumerate() {
            let at = start() + SignedDuration::from_mins((n * 100 + m) as i64);
            let turn = recalld::review::PastTurn {
                query: text.to_owned(),
                response: format!("Noted, {m}."),
                metadata: Default::default(),
                created_at: Some(at),
            };
            memory.add_turn(&scope, session, turn).await.expect("it is added");
        }
    }
    memory.check_rows().await.expect("rows are looked at");
    while !memory.derive_rows().await.expect("rows are made").is_nothing() {}
    memory.check_topics().await.expect("topics are looked at");
    while !memory.tend_topics().await.expect("topics are tended").is_nothing() {}
    while memory.learn_facts().await.expect("facts are learned") > 0 {}
    memory.run_jobs_once().await.expect("jobs are done");
    while !memory.derive_rows().await.expect("rows are made").is_nothing() {}
    let mut told = Vec::new();
    for question in ASKED {
        let asked_at = Some(start() + SignedDuration::from_hours(48));
        let ask = Ask { question: question.to_owned(), tokens_max: 800, asked_at, ..Ask::default() };
        let recalled = memory.recall(&scope, &ask).await.expect("it is recalled");
        assert!(!recalled.ranked.is_empty(), "{question}");
        told.push(format!("{question}\n{:#?}\n{:#?}\n{}", recalled.ranked, recalled.asides, recalled.text));
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_and_postgres_recall_the_same_in_the_same_order() {
    let Ok(url) = std::env::var("RECALLD_TEST_POSTGRES") else { return };
    let clock = || Arc::new(ManualClock::at(start() + SignedDuration::from_hours(24)));
    let (here, there) = (clock(), clock());
    let file: Arc<dyn Store> = Arc::new(Sqlite::temporary(Arc::clone(&here) as _).expect("a data file"));
    let database = Postgres::temporary(&url, Arc::clone(&there) as _).await.expect("a store in a new schema");
    let database: Arc<dyn Store> = Arc::new(database);
    let (one, other) =
        (told(&memory(Arc::clone(&file), here)).await, told(&memory(Arc::clone(&database), there)).await);
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one, other);
    }
    let episodes = async |store: &Arc<dyn Store>| {
        let page = store.episodes().list(&scope(), None, PageRequest::first(50)).await.expect("episodes");
        page.items.into_iter().map(|episode| episode.summary).collect::<Vec<_>>()
    };
    let (one, other) = (episodes(&file).await, episodes(&database).await);
    assert!(!one.is_empty(), "nothing was told in brief");
    assert_eq!(one, other);
}
