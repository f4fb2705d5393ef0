//! P5 with the real binary: killed at random points while jobs run, no job is lost and no effect happens twice.

use std::time::{Duration, Instant};

use recalld::id::{Ids, RandomIds};
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

pub(crate) fn messages(turns: u64) -> String {
    let pair = |n| {
        [
            json!({"role": "user", "content": format!("On day {n} I met Anna in Porto and paid {n} euros.")}),
            json!({"role": "assistant", "content": "Noted."}),
        ]
    };
    Value::Array((1..=turns).flat_map(pair).collect()).to_string()
}

fn get(server: &Server, path: &str) -> Value {
    let (status, body) = server.send("GET", path, &[], "");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Adds turns here and there, and is killed in the middle of what follows.
fn one_life(folder: &std::path::Path, sessions: &[String], dice: &mut Dice) {
    let server = Server::start(folder, &BUILTIN);
    for _ in 0..1 + dice.below(3) {
        let session = &sessions[dice.below(SESSIONS as u64) as usize];
        server.send("POST", "/api/v1/sessions", &[], &json!({ "id": session }).to_string());
        let (status, body) =
            server.send("POST", &format!("/api/v1/sessions/{session}/messages"), &[], &messages(5 + dice.below(30)));
        assert_eq!(status, 201, "{body}");
        std::thread::sleep(Duration::from_micros(dice.below(20_000)));
    }
    std::thread::sleep(Duration::from_micros(dice.below(60_000)));
    server.kill();
}

#[test]
fn kills_lose_no_job_and_double_no_effect() {
    let kills = std::env::var("RECALLD_DIGEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let seed = 0x5eed_0000 + kills as u64;
    println!("{kills} kills, seed {seed}");
    let (folder, mut dice) = (tempfile::tempdir().expect("a folder"), Dice(seed));
    let sessions: Vec<String> = (0..SESSIONS).map(|_| RandomIds.session().to_string()).collect();
    for _ in 0..kills {
        one_life(folder.path(), &sessions, &mut dice);
    }
    let server = Server::start(folder.path(), &BUILTIN);
    drain(&server);
    for session in &sessions {
        check(&server, session);
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

/// Every turn is told once or waits in the window; a stretch is made once, and once more when it grows.
pub(crate) fn check(server: &Server, session: &str) {
    let (status, found) = server.send("GET", &format!("/api/v1/sessions/{session}"), &[], "");
    if status == 404 {
        return;
    }
    let turns = found["turns"].as_u64().expect("a count");
    let mut told = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(server, &format!("/api/v1/episodes?session={session}&limit=50&after={after}"));
        told.extend(page["episodes"].as_array().expect("a list").iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
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
