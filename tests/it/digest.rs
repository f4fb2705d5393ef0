//! What follows a conversation in the background: episodes by number of turns, hour and session, made once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;
use recalld::digest::JobsRun;
use recalld::episode::{Episode, Level};
use recalld::id::SessionId;
use recalld::model::ModelError;
use recalld::model::memory::{Failure, Proposal};
use recalld::model::summarise::{Summariser, SummaryFuture, Talk, Telling};
use recalld::scope::{Scope, Tenant, User};
use recalld::store::{PageRequest, Store};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::house::{House, SESSION, eventually};

pub(crate) fn scope() -> Scope {
    Scope::new(Tenant::default(), User::anonymous())
}

pub(crate) fn session() -> SessionId {
    SessionId::parse(SESSION).expect("a session id")
}

/// Adds exchanges, numbered on from `from`.
pub(crate) async fn say(house: &House, turns: std::ops::RangeInclusive<u64>) {
    for n in turns {
        let (query, response) = (format!("I planted {n} roses in bed {n}."), format!("Noted: {n} roses in bed {n}."));
        let turn = json!({ "query": query, "response": response });
        house.post(&format!("/api/v1/sessions/{SESSION}/turns")).json(turn).await.expect(201);
    }
}

pub(crate) async fn open(house: &House) {
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
}

pub(crate) async fn episodes(house: &House) -> Vec<Episode> {
    let page = PageRequest::first(1_000);
    house.store.episodes().list(&scope(), Some(session()), page).await.expect("episodes").items
}

pub(crate) async fn ranges(house: &House, level: Level) -> Vec<(u64, u64)> {
    let all = episodes(house).await;
    all.iter().filter(|episode| episode.level == level).map(|episode| (episode.first, episode.last)).collect()
}

pub(crate) async fn run(house: &House) -> JobsRun {
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
        // Open WebUI always sends everything, so that a question without any before it is an edit of the first.
        house.post("/v1/chat/completions").header("x-openwebui-chat-id", SESSION).json(body).await.expect(200);
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
pub(crate) struct Slow {
    pub(crate) told: AtomicUsize,
    pub(crate) go_on: Semaphore,
    metered: bool,
}

impl Slow {
    pub(crate) fn new(permits: usize) -> Arc<Self> {
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
