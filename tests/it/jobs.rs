//! Jobs in the background: claimed by one, tried again, given up where everybody can see it, and whose they are.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use recalld::digest::{JobEnd, JobsRun};
use recalld::episode::Level;
use recalld::job::{JobKind, JobState};
use recalld::store::{Finished, PageRequest, Store};
use recalld::worker::Worker;
use serde_json::json;

use crate::digest::{Slow, episodes, open, ranges, run, say, scope, session};
use crate::house::{House, OTHER_SESSION, SESSION, eventually};

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
    let done = (&report["jobs_done"], &report["turns_understood"], waits);
    assert_eq!(done, (&json!(2), &json!(20), 2), "for each of them a session and a topic");
    let report = house.post("/api/v1/digest?everyone=true").send().await.expect(200);
    assert_eq!((&report["jobs_done"], house.metric("recalld_jobs_queued").await), (&json!(2), 0));
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
