//! A memory model that does well, misbehaves, is down for an hour or costs too much: answers go on and nothing is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::SignedDuration;
use recalld::clock::ManualClock;
use recalld::digest::JobEnd;
use recalld::episode::{Episode, Level};
use recalld::id::SessionId;
use recalld::job::ATTEMPTS_MAX;
use recalld::model::ModelError;
use recalld::model::memory::{Failure, MemoryModel, MemoryModelSettings, Proposal};
use recalld::model::summarise::{Summariser, SummaryFuture, Talk, Telling};
use recalld::scope::{Scope, Tenant, User};
use recalld::store::{Finished, PageRequest, Store, StoreError, WhichTopics};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use proptest::prelude::*;

use crate::digest::{Working, until_asked};
use crate::house::{House, OTHER_SESSION, SESSION};
use crate::live::visit;
use crate::memory_server::{MemoryServer, Mood};

fn scope() -> Scope {
    Scope::new(Tenant::default(), User::anonymous())
}

fn words(n: u64) -> String {
    format!("I planted {n} roses in bed {n}.")
}

async fn say(house: &House, turns: std::ops::RangeInclusive<u64>) {
    for n in turns {
        let turn = json!({ "query": words(n), "response": "Noted." });
        house.post(&format!("/api/v1/sessions/{SESSION}/turns")).json(turn).await.expect(201);
    }
}

/// A house whose background asks this server, with an open session and room for long summaries.
pub(crate) async fn asking(server: &MemoryServer, set: impl FnOnce(&mut recalld::config::Settings)) -> House {
    let plan = House::plan().summariser(server.model()).setting(|settings| settings.summary_tokens = 2_000);
    let house = plan.setting(set).open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    house
}

async fn episodes(house: &House) -> Vec<Episode> {
    let page = PageRequest::first(1_000);
    house.store.episodes().list(&scope(), SessionId::parse(SESSION), page).await.expect("episodes").items
}

async fn stretches(house: &House) -> Vec<Episode> {
    episodes(house).await.into_iter().filter(|episode| episode.level == Level::Stretch).collect()
}

/// What a worker would do now, patiently.
pub(crate) async fn work(house: &House) -> Vec<JobEnd> {
    let mut ends = Vec::new();
    while let Some(claim) = house.memory.claim_job().await.expect("claimed") {
        ends.push(house.memory.run_job(&claim).await.expect("answered"));
    }
    ends
}

pub(crate) async fn rest(house: &House) {
    house.clock.advance(SignedDuration::from_secs(31));
}

async fn today(house: &House) -> Value {
    house.get("/api/v1/stats").send().await.expect(200)["memory_today"].clone()
}

/// Every turn that left the window is told, and by these.
async fn check_told(house: &House, last: u64, made_by: &[&str]) {
    let stretches = stretches(house).await;
    let told: String = stretches.iter().map(|stretch| format!("{}\n", stretch.summary)).collect();
    assert_eq!(stretches.last().map(|stretch| stretch.last), Some(last));
    assert!((1..=last).all(|n| told.contains(&words(n))), "{told}");
    let by: Vec<&str> = stretches.iter().map(|stretch| stretch.made_by.as_str()).collect();
    assert_eq!(by, made_by);
}

/// One call for a stretch, when the conversation rests; not one for each message.
#[tokio::test]
async fn a_conversation_is_told_when_it_rests() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |_| ()).await;
    say(&house, 1..=20).await;
    assert_eq!(work(&house).await, [JobEnd::Finished(Finished::Later)]);
    house.clock.advance(SignedDuration::from_secs(20));
    say(&house, 21..=25).await;
    house.clock.advance(SignedDuration::from_secs(20));
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Later)], 0));
    rest(&house).await;
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Done)], 1));
    check_told(&house, 10, &["small/summary-1"]).await;
    assert_eq!(house.metric("recalld_memory_calls_total").await, 1);
    assert_eq!(today(&house).await["tokens"], 100);
    // Asked for by hand, nothing waits.
    say(&house, 26..=40).await;
    house.post("/api/v1/digest").send().await.expect(200);
    check_told(&house, 30, &["small/summary-1", "small/summary-1"]).await;
}

/// Whoever ends a session need not wait for it to rest; what is said afterwards waits again.
#[tokio::test]
async fn an_ended_conversation_is_told_at_once() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |_| ()).await;
    say(&house, 1..=20).await;
    assert_eq!(work(&house).await, [JobEnd::Finished(Finished::Later)]);
    house.post(&format!("/api/v1/sessions/{SESSION}/end")).send().await.expect(200);
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Done)], 1));
    check_told(&house, 10, &["small/summary-1"]).await;
    say(&house, 21..=30).await;
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Later)], 1));
}

/// A conversation that never rests is told when there is enough to be told.
#[tokio::test]
async fn enough_is_told_while_the_conversation_goes_on() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |_| ()).await;
    for n in 1..=20 {
        let long = format!("{} {}", words(n), "And so on and so forth. ".repeat(30));
        let turn = json!({ "query": long, "response": "Noted." });
        house.post(&format!("/api/v1/sessions/{SESSION}/turns")).json(turn).await.expect(201);
    }
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Done)], 1));
}

/// Thoughts, fences, and a server that knows no schemas are no reason for the built-in.
#[tokio::test]
async fn a_difficult_server_is_understood() {
    for (mood, calls) in [(Mood::Wordy, 1), (Mood::NoSchemas, 2)] {
        let server = MemoryServer::start(mood).await;
        let house = asking(&server, |_| ()).await;
        say(&house, 1..=20).await;
        rest(&house).await;
        work(&house).await;
        check_told(&house, 10, &["small/summary-1"]).await;
        assert_eq!(server.calls(), calls);
    }
}

/// What cannot be used is kept for a person to see, and the built-in does the work at once.
#[tokio::test]
async fn garbage_is_kept_and_replaced() {
    for (mood, kind) in [(Mood::Garbage, "garbage"), (Mood::CutOff, "truncated"), (Mood::Locked, "refused")] {
        let server = MemoryServer::start(mood).await;
        let house = asking(&server, |_| ()).await;
        say(&house, 1..=20).await;
        rest(&house).await;
        assert_eq!(work(&house).await, [JobEnd::Finished(Finished::Done)]);
        check_told(&house, 10, &["builtin-summary-1"]).await;
        let kept = house.get("/api/v1/jobs/answers").send().await.expect(200);
        let today = today(&house).await;
        assert_eq!(
            (&today["failures"], &today["fallbacks"], &today["last_failure"]),
            (&json!(1), &json!(1), &json!(kind))
        );
        assert_eq!(house.metric(&format!("recalld_memory_failures_total{{kind=\"{kind}\"}}")).await, 1);
        if mood == Mood::Locked {
            assert_eq!(kept["answers"], json!([]), "there is no answer to keep");
            continue;
        }
        assert_eq!((&kept["answers"][0]["kind"], &kept["answers"][0]["session_id"]), (&json!(kind), &json!(SESSION)));
        assert!(kept["answers"][0]["answer"].as_str().is_some_and(|answer| !answer.is_empty()));
        let foreign = house.get("/api/v1/jobs/answers").user("bob").send().await.expect(200);
        assert_eq!(foreign, json!({ "answers": [], "next": null }));
        house.ask("DELETE", &format!("/api/v1/sessions/{SESSION}")).send().await.expect(200);
        assert_eq!(house.get("/api/v1/jobs/answers").send().await.expect(200)["answers"], json!([]));
    }
}

/// Nothing answers for a while: the job is tried again, and its last try is the built-in's.
#[tokio::test]
async fn a_server_that_hangs_is_left_alone() {
    let server = MemoryServer::start(Mood::Hangs).await;
    let house = asking(&server, |_| ()).await;
    say(&house, 1..=20).await;
    rest(&house).await;
    assert_eq!(work(&house).await, [JobEnd::Failed]);
    house.chat(OTHER_SESSION, "Are you there?").await;
    let mut minutes = 0;
    while stretches(&house).await.is_empty() {
        house.clock.advance(SignedDuration::from_mins(1));
        work(&house).await;
        minutes += 1;
        assert!(minutes < 30, "the built-in should have done it");
    }
    check_told(&house, 10, &["builtin-summary-1"]).await;
    assert!(server.calls() <= 5, "{} calls", server.calls());
    assert_eq!(house.memory.job_counts(None).await.expect("counts").dead, 0);
}

/// Takes five minutes to fail, and counts.
#[derive(Default)]
struct Tardy {
    clock: OnceLock<Arc<ManualClock>>,
    asked: AtomicUsize,
}

impl Summariser for Tardy {
    fn name(&self) -> &str {
        "tardy"
    }

    fn is_metered(&self) -> bool {
        true
    }

    fn summarise(&self, _: Talk) -> SummaryFuture<'_> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let minutes = 5;
            self.clock.get().expect("a clock").advance(SignedDuration::from_mins(minutes));
            Err(Failure::Model(ModelError::Silent(Duration::from_secs(60 * minutes as u64))).into())
        })
    }
}

/// Answers as often as it may, and is busy otherwise.
#[derive(Default)]
struct Sparing {
    may: AtomicUsize,
    asked: AtomicUsize,
}

impl Summariser for Sparing {
    fn name(&self) -> &str {
        "sparing"
    }

    fn is_metered(&self) -> bool {
        true
    }

    fn summarise(&self, talk: Talk) -> SummaryFuture<'_> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let left = self.may.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |may| may.checked_sub(1));
            left.map_err(|_| Failure::Model(ModelError::Silent(Duration::from_secs(60))))?;
            let said = talk.before.into_iter().chain(talk.said.into_iter().map(|told| format!("user: {}", told.text)));
            let text = said.collect::<Vec<_>>().join("\n");
            Ok(Proposal::free(Telling { text, title: None, made_by: "sparing".into() }))
        })
    }
}

/// What was answered is kept when what comes after is refused: a stretch is asked for once, whatever becomes of its hour.
#[tokio::test]
async fn a_stretch_outlives_the_failure_of_its_hour() {
    let sparing = Arc::new(Sparing::default());
    let house = House::plan().summariser(Arc::clone(&sparing) as _).open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    say(&house, 1..=40).await;
    sparing.may.store(2, Ordering::SeqCst);
    rest(&house).await;
    work(&house).await;
    let ranges = async |level: Level| {
        let all = episodes(&house).await.into_iter().filter(|episode| episode.level == level);
        all.map(|episode| (episode.first, episode.last)).collect::<Vec<_>>()
    };
    assert_eq!(ranges(Level::Stretch).await, [(1, 20), (21, 30)]);
    assert_eq!((ranges(Level::Hour).await, sparing.asked.load(Ordering::SeqCst)), (vec![(1, 20)], 3));
    sparing.may.store(9, Ordering::SeqCst);
    house.clock.advance(SignedDuration::from_mins(10));
    work(&house).await;
    assert_eq!((ranges(Level::Hour).await, sparing.asked.load(Ordering::SeqCst)), (vec![(1, 30)], 4));
    assert_eq!(house.memory.job_counts(None).await.expect("counts"), Default::default());
}

/// A server that was slow to fail is left alone from then on, and not from when it was asked.
#[tokio::test]
async fn a_rest_begins_with_the_failure() {
    let tardy = Arc::new(Tardy::default());
    let house = House::plan().summariser(Arc::clone(&tardy) as _).open();
    assert!(tardy.clock.set(Arc::clone(&house.clock)).is_ok());
    for session in [SESSION, OTHER_SESSION] {
        house.post("/api/v1/sessions").json(json!({ "id": session })).await.expect(201);
        for n in 1..=20 {
            let turn = json!({ "query": words(n), "response": "Noted." });
            house.post(&format!("/api/v1/sessions/{session}/turns")).json(turn).await.expect(201);
        }
    }
    rest(&house).await;
    assert_eq!(work(&house).await, [JobEnd::Failed, JobEnd::Failed]);
    assert_eq!(tardy.asked.load(Ordering::SeqCst), 1, "the second job need not find out by itself");
}

/// 429 for an hour: answers go on, jobs wait or fall back, nothing is lost, and it is told what happened.
#[tokio::test]
async fn an_hour_of_refusals_loses_nothing() {
    let server = MemoryServer::start(Mood::Busy).await;
    let house = asking(&server, |_| ()).await;
    let mut last = 0;
    for minute in 0..60 {
        say(&house, last + 1..=last + 2).await;
        last += 2;
        house.chat(OTHER_SESSION, &format!("Is it minute {minute}?")).await;
        house.clock.advance(SignedDuration::from_mins(1));
        work(&house).await;
    }
    let counts = house.memory.job_counts(None).await.expect("counts");
    assert_eq!(counts.dead, 0, "{counts:?}");
    let refused = server.calls();
    assert!((2..=12).contains(&refused), "it is taken at its word: {refused} calls in an hour");
    let today_busy = today(&house).await;
    assert_eq!((&today_busy["last_failure"], &today_busy["failures"]), (&json!("busy"), &json!(refused)));
    assert!(stretches(&house).await.iter().all(|stretch| stretch.made_by == "builtin-summary-1"));

    server.is(Mood::Well);
    for _ in 0..20 {
        house.clock.advance(SignedDuration::from_mins(5));
        work(&house).await;
    }
    let told = stretches(&house).await;
    let (mut next, all) = (1, told.iter().map(|stretch| format!("{}\n", stretch.summary)).collect::<String>());
    for stretch in &told {
        assert_eq!(stretch.first, next, "no gap, no overlap");
        next = stretch.last + 1;
    }
    assert!((10..20).contains(&(last + 1 - next)), "{last} turns, {next} is next");
    assert!((1..next).all(|n| all.contains(&words(n))), "{all}");
    assert_eq!(told.last().map(|stretch| stretch.made_by.as_str()), Some("small/summary-1"), "it is asked again");
    assert_eq!(house.memory.job_counts(None).await.expect("counts").queued, 0);
    assert_eq!(house.turns(OTHER_SESSION).await.len(), 60);
}

/// A tenant whose day is spent is served by the built-in, over a restart too; the next day the model is asked again.
#[tokio::test]
async fn a_spent_day_falls_back() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |settings| settings.memory_calls_per_day = 1).await;
    say(&house, 1..=20).await;
    rest(&house).await;
    work(&house).await;
    let house = house.reopen().await;
    say(&house, 21..=40).await;
    rest(&house).await;
    work(&house).await;
    assert_eq!(server.calls(), 1);
    check_told(&house, 30, &["builtin-summary-1", "builtin-summary-1"]).await;
    let spent = today(&house).await;
    assert!(spent["capped"].as_u64().is_some_and(|capped| capped > 0), "{spent}");
    assert_eq!((&spent["calls"], &spent["calls_max"]), (&json!(1), &json!(1)));
    assert!(house.metric("recalld_memory_capped_total").await > 0);
    house.clock.advance(SignedDuration::from_hours(24));
    say(&house, 41..=60).await;
    rest(&house).await;
    work(&house).await;
    let by_model = stretches(&house).await.iter().filter(|stretch| stretch.made_by == "small/summary-1").count();
    assert_eq!((by_model, server.calls()), (1, 2), "one more call is all that the next day allows");
}

/// Visitors' sessions are told by the same model within the same bounds, and what became of it is counted as everywhere.
#[tokio::test]
async fn what_visitors_cost_is_counted_alike() {
    for (mood, calls_max, counted) in [
        (Mood::Well, 1, "recalld_memory_capped_total"),
        (Mood::Garbage, 0, "recalld_memory_failures_total{kind=\"garbage\"}"),
        (Mood::Busy, 0, "recalld_memory_failures_total{kind=\"busy\"}"),
    ] {
        let server = MemoryServer::start(mood).await;
        let house = asking(&server, |settings| settings.memory_calls_per_day = calls_max).await;
        for n in 1..=60 {
            visit(&house, "default:guest", &[&words(n)]).await.expect(200);
            house.memory.live_told().await;
        }
        assert!(house.metric(counted).await > 0, "{mood:?}");
        assert_eq!(today(&house).await["capped"] != json!(0), calls_max > 0, "{mood:?}");
    }
}

/// By default nobody outside is asked.
#[tokio::test]
async fn the_built_in_asks_nobody() {
    let house = House::open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    say(&house, 1..=40).await;
    tend(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    assert!(!stretches(&house).await.is_empty());
    assert_eq!(house.model.shown().len(), 0, "the chat model is for chats");
    assert_eq!(today(&house).await["calls"], 0);
}

async fn tend(house: &House) {
    while !house.memory.tend_topics().await.expect("topics are tended").is_nothing() {}
}

async fn topic(house: &House) -> Value {
    let list = house.get("/api/v1/topics").send().await.expect(200);
    assert_eq!(list["topics"].as_array().map(Vec::len), Some(1), "{list}");
    list["topics"][0].clone()
}

/// D2: over 12 messages all but the last are told, on as more leave; by the built-in, and again the same.
#[tokio::test]
async fn d2_a_long_topic_is_summarised() {
    let house = House::open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    for n in 1..=40 {
        say(&house, n..=n).await;
        tend(&house).await;
        house.memory.run_jobs_once().await.expect("jobs run");
        let context = context(&house).await;
        let messages = context["messages"].as_array().expect("messages");
        let summaries = messages.iter().filter(|message| message["role"] == "system").count();
        assert_eq!(summaries == 1, 2 * n > 12, "after {} messages", 2 * n);
        let recent = messages.len() - summaries;
        assert!((4..=12).contains(&recent) || n == 1, "{recent} recent messages");
    }
    let told = topic(&house).await["summary"].clone();
    assert!(told.as_str().is_some_and(|told| told.contains("roses in bed")), "{told}");
    house.post("/api/v1/digest?rebuild=true").send().await.expect(200);
    assert_eq!(topic(&house).await["summary"], told, "told all at once it is the same");
    house.ask("DELETE", &format!("/api/v1/sessions/{SESSION}")).send().await.expect(200);
    let bytes = std::fs::read(house.data()).expect("the data file");
    assert!(!bytes.windows(12).any(|window| window == b"roses in bed"), "erased is erased");
}

async fn context(house: &House) -> Value {
    let id = topic(house).await["id"].as_str().expect("an id").to_owned();
    house.get(&format!("/api/v1/topics/{id}/context")).send().await.expect(200)
}

/// D1, D2: a memory model tells a topic with one call and finds a name for it; a person's name stays.
#[tokio::test]
async fn d1_a_memory_model_names_topics() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |settings| settings.window_turns = 0).await;
    say(&house, 1..=7).await;
    tend(&house).await;
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Later)], 0));
    rest(&house).await;
    assert_eq!((work(&house).await, server.calls()), (vec![JobEnd::Finished(Finished::Done)], 1));
    let told = topic(&house).await;
    let summary: Vec<String> = (1..=5).map(|n| format!("user: {}", words(n))).collect();
    assert_eq!((&told["title"], &told["summary"]), (&json!("Roses in beds"), &json!(summary.join("\n"))));
    let path = format!("/api/v1/topics/{}", told["id"].as_str().expect("an id"));
    house.ask("PATCH", &path).json(json!({ "title": "My garden" })).await.expect(200);
    say(&house, 8..=20).await;
    tend(&house).await;
    rest(&house).await;
    work(&house).await;
    let told = topic(&house).await;
    assert_eq!((&told["title"], server.calls()), (&json!("My garden"), 2));
    let summary = told["summary"].as_str().expect("a summary");
    assert!((1..=15).all(|n| summary.matches(&words(n)).count() == 1), "{summary}");
}

/// Tells everything that it is given, when it is let, and counts.
struct Slow {
    told: AtomicUsize,
    go_on: Semaphore,
}

impl Summariser for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn summarise(&self, talk: Talk) -> SummaryFuture<'_> {
        Box::pin(async move {
            self.told.fetch_add(1, Ordering::SeqCst);
            self.go_on.acquire().await.expect("an open gate").forget();
            let said = talk.said.iter().filter(|told| told.speaker == "user").map(|told| told.text.clone());
            let text = talk.before.into_iter().chain(said).collect::<Vec<_>>().join("\n");
            Ok(Proposal::free(Telling { text, title: None, made_by: "slow".into() }))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// D2: messages that arrive while their topic is told are neither lost nor told twice.
    #[test]
    fn d2_what_arrives_meanwhile_is_told_once(arrivals in proptest::collection::vec(0..12_u64, 1..10)) {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(arriving(&arrivals));
    }
}

async fn arriving(arrivals: &[u64]) {
    let slow = Arc::new(Slow { told: AtomicUsize::new(0), go_on: Semaphore::new(0) });
    let house = House::plan().summariser(Arc::clone(&slow) as _).open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    say(&house, 1..=8).await;
    tend(&house).await;
    let (mut last, mut let_go) = (8, 0);
    let working = Working::start(&house);
    for more in arrivals {
        // The summariser holds what it read, unless there is nothing to be told.
        let holds = until_asked(&house, || slow.told.load(Ordering::SeqCst) > let_go).await;
        say(&house, last + 1..=last + more).await;
        tend(&house).await;
        last += more;
        slow.go_on.add_permits(usize::from(holds));
        let_go += usize::from(holds);
    }
    assert!(let_go > 0, "something came while it was asked");
    slow.go_on.add_permits(10_000);
    working.stop().await;
    tend(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    check_topics(&house, last).await;
}

/// Every message of a topic is in its summary once, or among its last ones.
async fn check_topics(house: &House, last: u64) {
    let which = WhichTopics { limit: 50, ..WhichTopics::default() };
    let mut seen = 0;
    for kept in house.store.topics().topics_kept(&scope(), which).await.expect("topics").items {
        let page = PageRequest::first(1_000);
        let turns = house.store.topics().topic_turns(&scope(), kept.topic.id, true, page).await.expect("turns");
        let said: Vec<String> =
            turns.expect("a topic").items.into_iter().map(|(_, turn)| turn.question().text.clone()).collect();
        let told = said.len() - kept.untold as usize / 2;
        let summary = kept.topic.summary.unwrap_or_default();
        for (n, words) in said.iter().enumerate() {
            let times = summary.lines().filter(|line| line == words).count();
            assert_eq!(times, usize::from(n < told), "`{words}` in {summary}");
        }
        assert!((2..=6).contains(&(said.len() - told)) || said.len() <= 6, "{told} of {} are told", said.len());
        seen += said.len() as u64;
    }
    assert_eq!(seen, last);
}

/// A topic may be left to grow as long as the settings allow: once it is too long it is told, however many turns that takes.
#[tokio::test]
async fn a_very_long_topic_is_told_too() {
    let house = House::plan().setting(|settings| settings.topic_messages = 200).open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    say(&house, 1..=100).await;
    tend(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    assert_eq!(topic(&house).await["summary"], json!(null), "200 messages may stay");
    say(&house, 101..=101).await;
    tend(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    assert!(topic(&house).await["summary"].is_string(), "{}", topic(&house).await);
}

/// A database that goes away in the middle of a job, however often, is not the job's fault: it is done when that is back.
#[tokio::test]
async fn an_outage_is_no_try() {
    let server = MemoryServer::start(Mood::Well).await;
    let house = asking(&server, |_| ()).await;
    say(&house, 1..=20).await;
    rest(&house).await;
    house.flaky.fail(Some(StoreError::Away("nobody answers".into())));
    for _ in 0..2 * ATTEMPTS_MAX {
        assert_eq!(work(&house).await, [JobEnd::Finished(Finished::Later)]);
        house.clock.advance(SignedDuration::from_mins(11));
    }
    house.flaky.fail(None);
    assert_eq!(work(&house).await, [JobEnd::Finished(Finished::Done)]);
    check_told(&house, 10, &["small/summary-1"]).await;
}

/// A job is in one hand for as long as a patient server may answer it, however patient that is.
#[tokio::test]
async fn a_patient_server_is_waited_for() {
    let timeout = Duration::from_secs(15 * 60);
    let settings = MemoryModelSettings {
        url: "http://127.0.0.1:9/v1".into(),
        model: "slow".into(),
        key: None,
        timeout,
        tokens_max: 64_000,
    };
    let model = MemoryModel::new(settings).expect("good settings");
    let house = House::plan().summariser(Arc::new(model)).open();
    house.post("/api/v1/sessions").json(json!({ "id": SESSION })).await.expect(201);
    say(&house, 1..=20).await;
    assert!(house.memory.claim_job().await.expect("claimed").is_some());
    // A stretch, its hour and the session, each answered twice.
    house.clock.advance(SignedDuration::from_mins(6 * 15));
    assert_eq!(house.memory.claim_job().await.expect("claimed"), None);
}
