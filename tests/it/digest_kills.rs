//! P5 with the real binary: killed at random points while jobs run, no job is lost and no effect happens twice.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recalld::clock::SystemClock;
use recalld::id::{Ids, RandomIds};
use recalld::store::{Sqlite, Store};
use serde_json::{Value, json};

use crate::process::Server;

/// Kills by default; `RECALLD_DIGEST_KILLS=200` for a campaign.
const KILLS: usize = 5;
const SESSIONS: usize = 4;
/// Nobody but ourselves is asked.
const BUILTIN: [(&str, &str); 1] = [("RECALLD_UPSTREAM", "builtin")];

/// Chance that can be repeated: the campaign says its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift: enough to spread kills over milliseconds.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Turns of a talk, the first of which says who is talking.
pub(crate) fn messages(turns: u64) -> String {
    let said = |n| match n {
        1 => "My name is Alex.".to_owned(),
        n => format!("On day {n} I met Anna in Porto and paid {n} euros."),
    };
    let pair = |n| [json!({"role": "user", "content": said(n)}), json!({"role": "assistant", "content": "Noted."})];
    Value::Array((1..=turns).flat_map(pair).collect()).to_string()
}

fn get(server: &Server, path: &str) -> Value {
    let (status, body) = server.send("GET", path, &[], "");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// What a life came to.
struct Life {
    /// Talks that were added.
    talks: u64,
    /// Whether it ended in the middle of a job.
    in_a_job: bool,
}

/// Adds turns here and there, and is killed in the middle of what follows: every other time while a job is seen to run.
fn one_life(folder: &Path, sessions: &[String], dice: &mut Dice) -> Life {
    let server = Server::start(folder, &BUILTIN);
    let talks = 1 + dice.below(3);
    for _ in 0..talks {
        let session = &sessions[dice.below(SESSIONS as u64) as usize];
        server.send("POST", "/api/v1/sessions", &[], &json!({ "id": session }).to_string());
        let (status, body) =
            server.send("POST", &format!("/api/v1/sessions/{session}/messages"), &[], &messages(5 + dice.below(30)));
        assert_eq!(status, 201, "{body}");
        std::thread::sleep(Duration::from_micros(dice.below(20_000)));
    }
    match dice.below(2) {
        0 => std::thread::sleep(Duration::from_micros(dice.below(60_000))),
        _ => watch_for_a_job(&server),
    }
    server.kill();
    Life { talks, in_a_job: left_running(folder) > 0 }
}

fn watch_for_a_job(server: &Server) {
    let patience = Instant::now() + Duration::from_millis(200);
    while Instant::now() < patience && get(server, "/api/v1/jobs")["counts"]["running"] == 0 {}
}

/// Jobs that nobody brought to an end, as the data file says before anybody frees them.
fn left_running(folder: &Path) -> u64 {
    let store = Sqlite::open(&folder.join("r.db"), Arc::new(SystemClock::default())).expect("a data file");
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(store.jobs().counts(None)).expect("counts").running
}

#[test]
fn kills_lose_no_job_and_double_no_effect() {
    let kills = std::env::var("RECALLD_DIGEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let seed = 0x5eed_0000 + kills as u64;
    let (folder, mut dice) = (tempfile::tempdir().expect("a folder"), Dice(seed));
    let sessions: Vec<String> = (0..SESSIONS).map(|_| RandomIds.session().to_string()).collect();
    let lives: Vec<Life> = (0..kills).map(|_| one_life(folder.path(), &sessions, &mut dice)).collect();
    let in_a_job = lives.iter().filter(|life| life.in_a_job).count();
    println!("{kills} kills, seed {seed}, {in_a_job} in the middle of a job");
    assert!(in_a_job > 0, "no kill hit a job");
    let server = Server::start(folder.path(), &BUILTIN);
    drain(&server);
    for session in &sessions {
        check(&server, session);
    }
    let turns = sessions.iter().map(|session| turns_of(&server, session).unwrap_or(0)).sum();
    check_topics(&server, turns);
    check_facts(&server, lives.iter().map(|life| life.talks).sum());
}

/// A page after the other of what a route lists.
fn all(server: &Server, path: &str, noun: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(server, &format!("{path}limit=50&after={after}"));
        found.extend(page[noun].as_array().expect("a list").iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return found,
        }
    }
}

/// Every turn is in one topic, and in its summary or among its last: none is left out, none is told and shown.
fn check_topics(server: &Server, turns: u64) {
    let messages = |topics: &[Value]| topics.iter().filter_map(|topic| topic["messages"].as_u64()).sum::<u64>();
    eventually("every turn is in a topic that is told", || {
        let topics = all(server, "/api/v1/topics?", "topics");
        let in_order = messages(&topics) == 2 * turns && topics.iter().all(|topic| is_told(server, topic));
        in_order.then_some(())
    });
}

/// Whether a topic's summary tells all but its last messages, and only then there is one.
fn is_told(server: &Server, topic: &Value) -> bool {
    let context = get(server, &format!("/api/v1/topics/{}/context", topic["id"].as_str().expect("an id")));
    let shown = context["messages"].as_array().expect("messages");
    let recent = shown.iter().filter(|message| message["role"] != "system").count();
    match recent < shown.len() {
        true => (4..=12).contains(&recent) && topic["messages"].as_u64() > Some(recent as u64),
        false => recent <= 12 && topic["messages"].as_u64() == Some(recent as u64),
    }
}

/// What was said in every talk is known once, and confirmed by each.
fn check_facts(server: &Server, talks: u64) {
    let known = || all(server, "/api/v1/users/anonymous/facts?status=any&", "facts");
    let said =
        |facts: &[Value]| facts.iter().filter_map(|fact| fact["evidence"]["confirmations"].as_u64()).sum::<u64>();
    let facts = eventually("every talk is understood", || Some(known()).filter(|facts| said(facts) >= talks));
    let told: Vec<(&Value, &Value)> = facts.iter().map(|fact| (&fact["key"], &fact["value"])).collect();
    assert_eq!((told, said(&facts)), (vec![(&json!("name"), &json!("Alex"))], talks));
}

/// Waits for what the background does by itself.
fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < patience, "not in two minutes: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until everything is done. What took its process with it too often is tried again: it is kept, not lost.
pub(crate) fn drain(server: &Server) {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        let counts = &get(server, "/api/v1/jobs")["counts"];
        let left = |state: &str| counts[state].as_u64().expect("a count");
        if left("dead") > 0 {
            server.send("POST", "/api/v1/jobs/retry", &[], "");
        } else if left("queued") + left("running") == 0 {
            return;
        }
        assert!(Instant::now() < patience, "jobs do not end: {counts}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn turns_of(server: &Server, session: &str) -> Option<u64> {
    let (status, found) = server.send("GET", &format!("/api/v1/sessions/{session}"), &[], "");
    (status != 404).then(|| found["turns"].as_u64().expect("a count"))
}

/// Every turn is told once or waits in the window; a stretch is made once, and once more when it grows.
pub(crate) fn check(server: &Server, session: &str) {
    let Some(turns) = turns_of(server, session) else { return };
    let told = all(server, &format!("/api/v1/episodes?session={session}&"), "episodes");
    let mut next = 1;
    for stretch in told.iter().filter(|episode| episode["level"] == "stretch") {
        assert_eq!(stretch["turn_first"], next, "no gap, no overlap: {told:#?}");
        assert!(stretch["version"].as_u64().is_some_and(|version| version <= 2), "made too often: {stretch}");
        assert!(stretch["summary"].as_str().is_some_and(|text| text.contains("Anna")), "{stretch}");
        next = stretch["turn_last"].as_u64().expect("a number") + 1;
    }
    let window = turns + 1 - next;
    assert!(window < 20 && (next == 1 || window >= 10), "{window} of {turns} turns wait");
}
