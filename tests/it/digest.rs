//! What follows a conversation in the background: episodes by number of turns, hour and session, made once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use proptest::prelude::*;
use recalld::digest::{JobEnd, JobsRun};
use recalld::episode::{Episode, Level};
use recalld::id::SessionId;
use recalld::job::{JobKind, JobState};
use recalld::model::ModelError;
use recalld::model::memory::{Failure, Proposal};
use recalld::model::summarise::{Summariser, SummaryFuture, Talk, Telling};
use recalld::scope::{Scope, Tenant, User};
use recalld::store::{Finished, PageRequest, Store};
use recalld::worker::Worker;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::house::{House, OTHER_SESSION, SESSION, eventually};

fn scope() -> Scope {
    Scope::new(Tenant::default(), User::anonymous())
}

fn session() -> SessionId {
    SessionId::parse(SESSION).expect("a session id")
}

/// Adds exchanges, numbered on from `from`.
async fn say(house: &House, turns: std::ops::RangeInclusive<u64>) {
    for n in turns {
        let (query, response) = (format!("I planted {n} roses in bed {n}."), format!("Noted: {n} roses in bed {n}."));
        let turn = json!({ "query": query, "response": response });
        house.post(&format!("/api/v1/sessions/{SESSION}/turns")).json(turn).await.expect(201);
    }
}

async fn open(house: &House) {
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
}

async fn episodes(house: &House) -> Vec<Episode> {
    let page = PageRequest::first(1_000);
    house.store.episodes().list(&scope(), Some(session()), page).await.expect("episodes").items
}

async fn ranges(house: &House, level: Level) -> Vec<(u64, u64)> {
    let all = episodes(house).await;
    all.iter().filter(|episode| episode.level == level).map(|episode| (episode.first, episode.last)).collect()
}

async fn run(house: &House) -> JobsRun {
    house.memory.run_jobs_once().await.expect("jobs run")
}

/// E2, E7: at 20 turns the oldest are told, the last 10 stay; 100 turns are 5 stretches, each with its words and vector.
#[tokio::test]
async fn a_hundred_turns_become_five_episodes() {
    let house = House::open();
    open(&house).await;
    for n in 1..=100 {
        say(&house, n..=n).await;
        let ran = run(&house).await;
        assert_eq!(ran.done > 0, n >= 20 && n % 10 == 0, "after turn {n}: {ran:?}");
    }
    let told = [(1, 20), (21, 40), (41, 60), (61, 80), (81, 90)];
    assert_eq!(ranges(&house, Level::Stretch).await, told);
    for episode in episodes(&house).await {
        let Episode { summary, vector, made_by, .. } = &episode;
        assert!(summary.contains("roses in bed"), "{summary}");
        assert_eq!(made_by, "builtin-summary-1");
        assert!(vector.as_ref().is_some_and(|vector| vector.embedder.starts_with("builtin-256")), "{episode:?}");
    }
    assert_eq!(ranges(&house, Level::Hour).await, [(1, 90)], "all in one hour");
}

/// A4: hours are told together, and what lies further back than a day is one summary of the session.
#[tokio::test]
async fn hours_and_then_the_session_are_told() {
    let house = House::open();
    open(&house).await;
    for (n, hours) in [(1, 0), (2, 1), (3, 30), (4, 60)] {
        house.clock.advance(SignedDuration::from_hours(hours));
        say(&house, 20 * n - 19..=20 * n).await;
        run(&house).await;
    }
    assert_eq!(ranges(&house, Level::Stretch).await, [(1, 20), (21, 40), (41, 60), (61, 70)]);
    assert_eq!(ranges(&house, Level::Hour).await, [(1, 20), (21, 40), (41, 60), (61, 70)]);
    // The stretch that began with turn 41 was told when the third hour was the newest.
    assert_eq!(ranges(&house, Level::Session).await, [(1, 60)]);
}

/// A conversation with a turn every few hours: what its stretches tell is told of the session, however long each of them lasts.
#[tokio::test]
async fn a_slow_conversation_loses_nothing() {
    let house = House::plan().summariser(Slow::new(10_000)).open();
    open(&house).await;
    for n in 1..=70 {
        say(&house, n..=n).await;
        house.clock.advance(SignedDuration::from_hours(6));
        run(&house).await;
    }
    assert_eq!(ranges(&house, Level::Hour).await, [(1, 20), (21, 40), (41, 60)]);
    assert_eq!(ranges(&house, Level::Session).await, [(1, 40)], "the last stretch is told by itself");
    check_session(&house, |n| n <= 40).await;
}

/// The session's summary says what was said in these turns, once, and nothing of the others.
async fn check_session(house: &House, is_told: impl Fn(u64) -> bool) {
    let all = episodes(house).await;
    let session = all.iter().find(|episode| episode.level == Level::Session).expect("it is told");
    for n in 1..=100 {
        let said = format!("I planted {n} roses in bed {n}.");
        assert_eq!(session.summary.matches(&said).count(), usize::from(is_told(n)), "turn {n} in {}", session.summary);
    }
}

/// DESIGN 6: what is told again from the turns comes to the same.
#[tokio::test]
async fn digesting_again_comes_to_the_same() {
    let house = House::open();
    open(&house).await;
    told_with_gaps(&house, &[40; 75]).await;
    let before = all_told(&house).await;
    assert!(before.iter().any(|episode| episode.level == Level::Session), "{before:#?}");
    let gone = house.memory.digest_again(Some(&scope())).await.expect("done");
    assert_eq!((gone as usize, episodes(&house).await.len()), (before.len(), 0));
    run(&house).await;
    assert_eq!(all_told(&house).await, before);
}

/// A turn before each of these gaps in minutes, told as they come.
async fn told_with_gaps(house: &House, gaps: &[i64]) {
    for (n, gap) in (1..).zip(gaps) {
        say(house, n..=n).await;
        house.clock.advance(SignedDuration::from_mins(*gap));
        run(house).await;
    }
}

/// Everything that is told, as if it had been told once.
async fn all_told(house: &House) -> Vec<Episode> {
    let mut all = episodes(house).await;
    all.iter_mut().for_each(|episode| episode.version = 1);
    all.sort_by_key(|episode| (episode.level, episode.first));
    all
}

/// Minutes between two turns: within a talk, and sometimes days.
fn gap() -> impl Strategy<Value = i64> {
    prop_oneof![3 => 0..90_i64, 1 => 0..4 * 24 * 60_i64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// The same, however long people are silent between two turns.
    #[test]
    fn silence_makes_no_difference(gaps in proptest::collection::vec(gap(), 40..90)) {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let (before, after) = runtime.block_on(async {
            let house = House::open();
            open(&house).await;
            told_with_gaps(&house, &gaps).await;
            let before = all_told(&house).await;
            house.memory.digest_again(Some(&scope())).await.expect("done");
            run(&house).await;
            (before, all_told(&house).await)
        });
        prop_assert_eq!(after, before);
    }
}

/// A conversation as a client keeps it that sends all of it each time, in the words of its user.
struct Kept {
    words: Vec<String>,
}

impl Kept {
    fn of(turns: usize) -> Self {
        Self { words: (0..turns).map(|n| format!("We met Anna{n} in Porto.")).collect() }
    }

    /// Asks again what was asked at this place, and before it nothing else.
    async fn ask(&self, house: &House, at: usize) {
        let said =
            |words: &String| [json!({"role": "user", "content": words}), json!({"role": "assistant", "content": "ok"})];
        let mut messages: Vec<_> = self.words[..=at].iter().flat_map(said).collect();
        messages.pop();
        let body = json!({"model": "m", "messages": messages});
        house.post("/v1/chat/completions").session(SESSION).json(body).await.expect(200);
    }

    async fn edit(&mut self, house: &House, at: usize) {
        self.words[at] = "We met Bertram in Lisbon.".to_owned();
        self.ask(house, at).await;
    }
}

async fn all_words(house: &House) -> String {
    episodes(house).await.into_iter().map(|episode| episode.summary).collect()
}

/// An edit of what was told is told anew, and only that.
#[tokio::test]
async fn an_edited_turn_is_told_anew() {
    let house = House::open();
    let mut kept = Kept::of(40);
    for n in 0..40 {
        kept.ask(&house, n).await;
    }
    run(&house).await;
    assert_eq!(ranges(&house, Level::Stretch).await, [(1, 20), (21, 30)]);
    assert!(all_words(&house).await.contains("Anna25"));
    kept.edit(&house, 24).await;
    run(&house).await;
    let told = all_words(&house).await;
    assert!(!told.contains("Anna25") && !told.contains("Anna29") && told.contains("Anna22"), "{told}");
    assert_eq!(house.store.jobs().counts(None).await.expect("counts").queued, 0);
}

/// An edit far back takes back what several stretches, their hours and the session told, also where one is told at a time; an edit of the
/// beginning takes back all of it.
#[tokio::test]
async fn what_an_edit_takes_back_is_not_told_of_the_session() {
    for at in [4, 0] {
        let house = House::plan().summariser(Slow::metered(10_000)).open();
        let mut kept = Kept::of(60);
        for n in 0..60 {
            kept.ask(&house, n).await;
            house.clock.advance(SignedDuration::from_hours(2));
            run(&house).await;
        }
        assert_eq!(ranges(&house, Level::Session).await, [(1, 40)]);
        kept.edit(&house, at).await;
        run(&house).await;
        let told = all_words(&house).await;
        assert!(["Anna21 ", "Anna39 ", &format!("Anna{at} ")].iter().all(|gone| !told.contains(gone)), "{told}");
        assert_eq!(told.contains("Anna3 "), at > 3, "{told}");
    }
}

/// What two stretches told is told of the session without what was erased in them, also where one is told at a time.
#[tokio::test]
async fn the_session_tells_what_is_left_of_several_stretches() {
    let house = House::plan().summariser(Slow::metered(10_000)).open();
    open(&house).await;
    told_with_gaps(&house, &[120; 80]).await;
    check_session(&house, |n| n <= 60).await;
    let turns = house.turns(SESSION).await;
    for n in [7, 27] {
        let turn = turns[n - 1]["id"].as_str().expect("an id");
        house.ask("DELETE", &format!("/api/v1/turns/{turn}")).send().await.expect(200);
    }
    run(&house).await;
    check_session(&house, |n| n <= 60 && ![7, 27].contains(&n)).await;
}

/// Summarises when it is allowed to, and counts.
struct Slow {
    told: AtomicUsize,
    go_on: Semaphore,
    metered: bool,
}

impl Slow {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self { told: AtomicUsize::new(0), go_on: Semaphore::new(permits), metered: false })
    }

    /// One that costs something, and therefore tells one stretch at a time.
    fn metered(permits: usize) -> Arc<Self> {
        Arc::new(Self { told: AtomicUsize::new(0), go_on: Semaphore::new(permits), metered: true })
    }
}

impl Summariser for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn is_metered(&self) -> bool {
        self.metered
    }

    /// Numbers of all the beds that were spoken of, so that nothing told is lost on the way.
    fn summarise(&self, talk: Talk) -> SummaryFuture<'_> {
        Box::pin(async move {
            self.told.fetch_add(1, Ordering::SeqCst);
            let closed = |_| Failure::Model(ModelError::BrokeOff("closed".into()));
            self.go_on.acquire().await.map_err(closed)?.forget();
            let beds = talk.said.iter().filter(|told| told.speaker == "user").map(|told| told.text.clone());
            let before = talk.before.iter().map(|before| before.trim_start_matches("user: ").to_owned());
            let text = format!("user: {}", before.chain(beds).collect::<Vec<_>>().join(" "));
            Ok(Proposal::free(Telling { text, title: None, made_by: "slow".into() }))
        })
    }
}

/// P5: a worker that is paused in the middle until its lease lapses, and another that does its job: one effect.
#[tokio::test]
async fn a_paused_worker_changes_nothing() {
    let slow = Slow::new(0);
    let house = House::plan().summariser(Arc::clone(&slow) as _).open();
    open(&house).await;
    say(&house, 1..=20).await;
    let paused = house.memory.claim_job().await.expect("claimed").expect("one is due");
    let late = tokio::spawn({
        let memory = house.memory.clone();
        async move { memory.run_job(&paused).await.expect("answered") }
    });
    eventually("it summarises", async || (slow.told.load(Ordering::SeqCst) == 1).then_some(())).await;
    house.clock.advance(SignedDuration::from_mins(6));
    let second = house.memory.claim_job().await.expect("claimed").expect("the lease has lapsed");
    slow.go_on.add_permits(10);
    let ends = (late.await.expect("it ends"), house.memory.run_job(&second).await.expect("answered"));
    assert_eq!(ends, (JobEnd::Finished(Finished::Lost), JobEnd::Finished(Finished::Done)));
    assert_eq!(ranges(&house, Level::Stretch).await, [(1, 10)]);
    assert!(episodes(&house).await.iter().all(|episode| episode.version == 1), "told once");
    assert_eq!(run(&house).await, JobsRun::default());
}

/// A summariser that fails is tried again, later and later; the last try is the built-in's, so that nothing waits for ever.
#[tokio::test]
async fn a_failing_summariser_is_tried_again_and_then_replaced() {
    let slow = Slow::new(0);
    slow.go_on.close();
    let house = House::plan().summariser(slow).open();
    open(&house).await;
    say(&house, 1..=20).await;
    for attempt in 1..=4 {
        assert_eq!(run(&house).await.failed, 1, "attempt {attempt}");
        assert_eq!(run(&house).await, JobsRun::default(), "not before its time");
        house.clock.advance(SignedDuration::from_mins(11));
    }
    let counts = house.memory.job_counts(Some(&scope())).await.expect("counts");
    let why = "no summary: the model's answer broke off: closed";
    assert_eq!((counts.failing, counts.last_error.as_deref()), (1, Some(why)));
    assert_eq!(run(&house).await.done, 1);
    let told = episodes(&house).await;
    assert!(!told.is_empty() && told.iter().all(|episode| episode.made_by == "builtin-summary-1"), "{told:?}");
}

/// Turns whose text a newer recalld packed are not left out of what is told: that waits for whoever can read them.
#[tokio::test]
async fn what_a_newer_recalld_packed_is_not_told_without() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=40).await;
    run(&house).await;
    let before = all_told(&house).await;
    assert_eq!(ranges(&house, Level::Stretch).await, [(1, 20), (21, 30)]);
    let known = set_versions(&house, 99);
    house.memory.digest_again(Some(&scope())).await.expect("done");
    run(&house).await;
    assert_eq!(episodes(&house).await, []);
    let counts = house.memory.job_counts(Some(&scope())).await.expect("counts");
    assert_eq!((counts.queued, counts.failing, counts.dead), (counts.queued.max(1), 0, 0), "it waits");
    set_versions(&house, known);
    run(&house).await;
    assert_eq!(all_told(&house).await, before);
}

/// The data file as another program has it, which leaves moving pages into it to the server.
fn beside(house: &House) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(house.data()).expect("the data file");
    file.pragma_update(None, "wal_autocheckpoint", 0).expect("a setting");
    file
}

/// Writes another version into all blocks of archived text; answers the one that they had.
fn set_versions(house: &House, version: u8) -> u8 {
    const VERSION: usize = 2;
    let file = beside(house);
    let mut statement = file.prepare("SELECT key, bytes FROM block").expect("blocks");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("blocks");
    let blocks: Vec<(i64, Vec<u8>)> = rows.collect::<Result<_, _>>().expect("blocks");
    let known = blocks[0].1[VERSION];
    for (key, mut bytes) in blocks {
        bytes[VERSION] = version;
        file.execute("UPDATE block SET bytes = ?2 WHERE key = ?1", (key, bytes)).expect("it is written");
    }
    known
}

/// Damaged blocks stay as they are, and are not looked at again in place of others.
#[tokio::test]
async fn damaged_blocks_do_not_keep_others_from_being_packed() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=210).await;
    run(&house).await;
    let file = beside(&house);
    let scratch = "UPDATE block SET bytes = zeroblob(length(bytes)) WHERE key <= 8";
    assert_eq!(file.execute(scratch, []).expect("they are scratched"), 8);
    while house.memory.pack_blocks().await.expect("blocks are packed") > 0 {}
    let count = |which: &str| {
        let sql = format!("SELECT count(*) FROM block WHERE {which}");
        file.query_row(&sql, [], |row| row.get::<_, u64>(0)).expect("counted")
    };
    assert_eq!(count("thorough = 0 AND turns >= 20"), 0);
    assert_eq!(count("bytes = zeroblob(length(bytes))"), 8);
}

/// A job that cannot be done waits for a person, visibly.
#[tokio::test]
async fn a_dead_job_is_visible_and_can_be_tried_again() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=1).await;
    let kind = JobKind::named("of tomorrow");
    assert!(house.store.jobs().enqueue(&scope(), session(), kind).await.expect("asked for"));
    for attempt in 1..=5 {
        assert_eq!(run(&house).await.failed, 1, "attempt {attempt}");
        house.clock.advance(SignedDuration::from_mins(11));
    }
    assert_eq!(run(&house).await, JobsRun::default(), "it is dead");
    let counts = house.memory.job_counts(Some(&scope())).await.expect("counts");
    let why = "this version knows no jobs of the kind `of tomorrow`";
    assert_eq!((counts.dead, counts.last_error.as_deref()), (1, Some(why)));
    assert_eq!(house.memory.retry_jobs(Some(&scope()), None).await.expect("tried again"), 1);
    assert_eq!(run(&house).await.failed, 1);
}

/// A person who looks after the server brings back what anybody's jobs were given up on.
#[tokio::test]
async fn everybodys_dead_jobs_can_be_tried_again() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=20).await;
    let held = house.memory.claim_job().await.expect("claimed").expect("one is due");
    house.store.jobs().fail(&held, "no vectors", None).await.expect("noted");
    let stats = house.get("/api/v1/stats").user("bob").send().await.expect(200);
    assert_eq!((&stats["jobs_dead"], &stats["jobs_last_error"]), (&json!(1), &json!("no vectors")));
    let retry = async |path: &str| house.post(path).user("bob").send().await.expect(200)["jobs_retried"].clone();
    assert_eq!(retry("/api/v1/jobs/retry").await, 0);
    assert_eq!(retry("/api/v1/jobs/retry?everyone=true").await, 1);
    assert_eq!(run(&house).await.done, 1);
}

/// A job that takes its process with it each time is given up as visibly as one that fails.
#[tokio::test]
async fn a_job_that_is_never_seen_through_is_given_up() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=20).await;
    for attempt in 1..=5 {
        let claim = house.memory.claim_job().await.expect("claimed");
        assert_eq!(claim.map(|claim| claim.job.attempts), Some(attempt));
        house.clock.advance(SignedDuration::from_mins(6));
    }
    assert_eq!(run(&house).await, JobsRun { failed: 1, ..JobsRun::default() });
    let counts = house.memory.job_counts(Some(&scope())).await.expect("counts");
    let why = "whoever did it stopped before it was done, 5 times";
    assert_eq!((counts.dead, counts.last_error.as_deref()), (1, Some(why)));
    assert_eq!(house.metric("recalld_jobs_dead_total").await, 1);
}

/// Section 9: jobs and episodes are shown to whom they belong, in pages.
#[tokio::test]
async fn jobs_and_episodes_are_shown_to_their_owner() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=100).await;
    let jobs = house.get("/api/v1/jobs").send().await.expect(200);
    assert_eq!(jobs["counts"], json!({ "queued": 1, "failing": 0, "running": 0, "dead": 0 }));
    assert_eq!((&jobs["jobs"][0]["session_id"], &jobs["jobs"][0]["kind"]), (&json!(SESSION), &json!("consolidate")));
    assert_eq!(house.metric("recalld_jobs_queued").await, 1);
    let foreign = house.get("/api/v1/jobs").user("bob").send().await.expect(200);
    assert_eq!((foreign["jobs"].as_array().map(Vec::len), &foreign["counts"]["queued"]), (Some(0), &json!(0)));
    let report = house.post("/api/v1/digest").send().await.expect(200);
    assert_eq!(
        (&report["jobs_done"], &report["episodes_dropped"]),
        (&json!(3), &json!(0)),
        "the session, and a topic in two steps"
    );
    assert_eq!((house.metric("recalld_jobs_queued").await, house.metric("recalld_jobs_done_total").await), (0, 3));

    let path = format!("/api/v1/episodes?session={SESSION}&limit=2");
    let told = house.pages(&path, "episodes").await;
    assert_eq!(told.len(), 6, "five stretches and an hour");
    let first = json!([told[0]["level"], told[0]["turn_first"], told[0]["turn_last"], told[0]["version"]]);
    assert_eq!(first, json!(["stretch", 1, 20, 1]));
    assert_eq!(house.pages("/api/v1/episodes?limit=50", "episodes").await, told);
    let foreign = house.get(&path).user("bob").send().await.expect(200);
    assert_eq!(foreign, json!({ "episodes": [], "next": null }));
    assert_eq!(house.get("/api/v1/episodes?session=x").send().await.refusal(), (400, "invalid_session_id"));
    assert_eq!(house.post("/api/v1/jobs/retry?id=x").send().await.refusal(), (400, "invalid_job"));
    assert_eq!(house.post("/api/v1/jobs/retry").send().await.expect(200), json!({ "jobs_retried": 0 }));

    let report = house.post("/api/v1/digest?rebuild=true").send().await.expect(200);
    assert_eq!((&report["episodes_dropped"], &report["jobs_done"]), (&json!(6), &json!(3)));
    let again = house.pages(&path, "episodes").await;
    assert_eq!(again, told, "made again, it is the same");
}

/// A digest is of whoever asks for it: what waits for others is neither done nor counted, unless it is for everybody.
#[tokio::test]
async fn a_digest_is_of_whoever_asks() {
    let house = House::open();
    for (user, id) in [("ann", SESSION), ("bob", OTHER_SESSION)] {
        house.post("/api/v1/sessions").user(user).json(json!({ "id": id })).await.expect(201);
        for n in 1..=20 {
            let turn = json!({ "query": format!("I planted {n} roses."), "response": "Noted." });
            house.post(&format!("/api/v1/sessions/{id}/turns")).user(user).json(turn).await.expect(201);
        }
    }
    let report = house.post("/api/v1/digest").user("ann").send().await.expect(200);
    let waits = house.memory.job_counts(None).await.expect("counts").queued;
    assert_eq!((&report["jobs_done"], &report["turns_understood"], waits), (&json!(1), &json!(20), 1));
    let report = house.post("/api/v1/digest?everyone=true").send().await.expect(200);
    assert_eq!((&report["jobs_done"], house.metric("recalld_jobs_queued").await), (&json!(1), 0));
}

/// Deleting a session removes what was told of it, for everybody to see.
#[tokio::test]
async fn a_deleted_session_is_told_no_more() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=40).await;
    run(&house).await;
    assert!(!episodes(&house).await.is_empty());
    house.ask("DELETE", &format!("/api/v1/sessions/{SESSION}")).send().await.expect(200);
    assert_eq!(episodes(&house).await, []);
    let bytes = std::fs::read(house.data()).expect("the data file");
    assert!(!bytes.windows(12).any(|window| window == b"roses in bed"), "erased is erased");
}

/// A worker begins a fresh job at once, not when it looks next time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_of_a_job() {
    let house = House::open();
    let worker = Worker::start(house.memory.clone(), Arc::clone(&house.watch), Duration::from_secs(3600));
    open(&house).await;
    // It has looked and found nothing, and would look again in five seconds.
    tokio::time::sleep(Duration::from_millis(200)).await;
    say(&house, 1..=20).await;
    let asked = Instant::now();
    eventually("episodes", async || (!episodes(&house).await.is_empty()).then_some(())).await;
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    worker.stop().await;
}

/// A digest that is asked for beside a worker ends when the work is done, whoever did it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_waits_for_the_worker() {
    let house = House::open();
    open(&house).await;
    say(&house, 1..=60).await;
    let worker = Worker::start(house.memory.clone(), Arc::clone(&house.watch), Duration::from_secs(3600));
    for _ in 0..5 {
        house.post("/api/v1/digest?rebuild=true").send().await.expect(200);
        assert_eq!(ranges(&house, Level::Stretch).await, [(1, 20), (21, 40), (41, 50)]);
    }
    worker.stop().await;
}

/// A worker that is told to stop puts back what it cannot end in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_worker_gives_its_job_back() {
    let slow = Slow::new(0);
    let house = House::plan().summariser(Arc::clone(&slow) as _).open();
    let worker = Worker::start(house.memory.clone(), Arc::clone(&house.watch), Duration::from_secs(3600));
    open(&house).await;
    say(&house, 1..=20).await;
    eventually("it summarises", async || (slow.told.load(Ordering::SeqCst) == 1).then_some(())).await;
    let told = Instant::now();
    worker.stop().await;
    assert!(told.elapsed() < Duration::from_secs(3), "{:?}", told.elapsed());
    let job = house.memory.jobs(&scope(), PageRequest::first(9)).await.expect("jobs").items.remove(0);
    assert_eq!((job.state, job.attempts), (JobState::Queued, 0));
    slow.go_on.add_permits(10);
    assert!(run(&house).await.done > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Turns that arrive while others are summarised are neither lost nor told twice.
    #[test]
    fn what_arrives_meanwhile_is_told_once(arrivals in proptest::collection::vec(0..25_u64, 1..8), rest in 20..40_u64) {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(arriving(&arrivals, rest));
    }
}

async fn arriving(arrivals: &[u64], rest: u64) {
    let slow = Slow::new(0);
    let house = House::plan().summariser(Arc::clone(&slow) as _).open();
    open(&house).await;
    say(&house, 1..=20).await;
    let (mut last, mut let_go) = (20, 0);
    let working = Working::start(&house);
    for more in arrivals {
        // The summariser holds what it read, unless there is nothing to be told.
        let holds = until_asked(&house, || slow.told.load(Ordering::SeqCst) > let_go).await;
        say(&house, last + 1..=last + more).await;
        last += more;
        slow.go_on.add_permits(usize::from(holds));
        let_go += usize::from(holds);
    }
    assert!(let_go > 0, "something came while it was asked");
    slow.go_on.add_permits(10_000);
    say(&house, last + 1..=last + rest).await;
    last += rest;
    working.stop().await;
    run(&house).await;
    check_told_once(&house, last).await;
}

/// Whoever does jobs as they come, until told to stop.
pub(crate) struct Working {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Working {
    pub(crate) fn start(house: &House) -> Self {
        let (memory, stop) = (house.memory.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                memory.run_jobs_once().await.expect("jobs run");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.expect("it works");
    }
}

/// Waits until a summariser is asked, or no job is left that would ask it. Answers whether it is.
pub(crate) async fn until_asked(house: &House, is_asked: impl Fn() -> bool) -> bool {
    let settled = async || {
        let counts = house.memory.job_counts(None).await.expect("counts");
        let is_idle = counts.queued + counts.running == 0;
        (is_asked() || is_idle).then(&is_asked)
    };
    eventually("a summariser is asked, or nothing is due", settled).await
}

/// Every turn is in one stretch or in the window, and every stretch says what its turns say.
async fn check_told_once(house: &House, last: u64) {
    let mut next = 1;
    for stretch in episodes(house).await.iter().filter(|episode| episode.level == Level::Stretch) {
        assert_eq!(stretch.first, next, "no gap, no overlap");
        for n in stretch.first..=stretch.last {
            let said = format!("I planted {n} roses in bed {n}.");
            assert_eq!(stretch.summary.matches(&said).count(), 1, "turn {n} in {}", stretch.summary);
        }
        next = stretch.last + 1;
    }
    assert!((10..20).contains(&(last + 1 - next)), "{} turns wait in the window", last + 1 - next);
}
