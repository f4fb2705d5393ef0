//! Damage in the write-ahead log is reported.
//!
//! `RECALLD_LOG_FLIPS` says how many flipped bits are tried, `RECALLD_DAMAGE_SEED` which.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use jiff::SignedDuration;
use recalld::store::Sqlite;
use serde_json::{Value, json};

use crate::house::{House, SESSION, eventually};
use crate::process::{Server, recalld};

const BUILTIN: [(&str, &str); 1] = [("RECALLD_UPSTREAM", "builtin")];

const HEADER: usize = 32;
const FRAME: usize = 24 + 4_096;

/// A data file and its log, as a server left them that was killed, and how many turns it had acknowledged.
struct Left {
    data: Vec<u8>,
    log: Vec<u8>,
    turns: usize,
}

impl Left {
    /// The turns of one half are in the data file, those of the other in the log alone.
    async fn by_a_killed_server() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start(folder.path(), &BUILTIN);
        (0..6).for_each(|n| chat(&server, &format!("question {n}: what is linseed oil?")));
        log_is_empty(folder.path()).await;
        (6..12).for_each(|n| chat(&server, &format!("question {n}: what is linseed oil?")));
        server.kill();
        let read = |end: &str| std::fs::read(folder.path().join(format!("r.db{end}"))).expect("it is there");
        let (data, log) = (read(""), read("-wal"));
        assert!(log.len() > HEADER + 10 * FRAME, "{} bytes of log", log.len());
        Self { data, log, turns: 12 }
    }

    fn frames(&self) -> usize {
        (self.log.len() - HEADER) / FRAME
    }

    fn flipped(&self, byte: usize, bit: usize) -> Vec<u8> {
        let mut log = self.log.clone();
        log[byte] ^= 1 << bit;
        log
    }

    /// Puts data and log into a folder.
    fn put(&self, folder: &Path, log: &[u8]) {
        std::fs::write(folder.join("r.db"), &self.data).expect("written");
        std::fs::write(folder.join("r.db-wal"), log).expect("written");
    }
}

fn chat(server: &Server, query: &str) {
    let body = json!({ "query": query }).to_string();
    assert_eq!(server.send("POST", "/chat", &[("x-session-id", SESSION)], &body).0, 200);
}

async fn log_is_empty(folder: &Path) {
    let log = folder.join("r.db-wal");
    eventually("the log is empty", async || log.metadata().is_ok_and(|log| log.len() == 0).then_some(())).await;
}

/// Copies of damaged logs beside a data file.
fn copies(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder").flatten().map(|file| file.path());
    files.filter(|path| path.to_string_lossy().contains("-wal.damaged-")).collect()
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let command = [arguments, &["--data", "r.db"]].concat();
    recalld(folder, &command, &BUILTIN).stdout(Stdio::piped()).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[tokio::test]
async fn the_log_is_emptied_when_nobody_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &BUILTIN);
    chat(&server, "what is linseed oil?");
    log_is_empty(folder.path()).await;
    chat(&server, "and what is it for?");
    log_is_empty(folder.path()).await;
}

/// A server is killed, a bit of its log flips: `/readyz` and `verify` report every flip that loses a turn.
#[tokio::test]
async fn a_flipped_bit_that_loses_a_turn_is_reported() {
    let left = Left::by_a_killed_server().await;
    let whole = look(&left, &left.log).await;
    assert_eq!((whole.turns, whole.ready, whole.problems), (left.turns, false, vec![]), "nothing is damaged");
    let flips = number("RECALLD_LOG_FLIPS", 100) as usize;
    let mut dice = Dice(number("RECALLD_DAMAGE_SEED", 0x9e37_79b9_7f4a_7c15));
    let last = left.log.len() - 3 * FRAME;
    let (mut lost, mut missed) = (0, Vec::new());
    for n in 0..flips {
        let byte = match n % 4 {
            0 => dice.roll(HEADER),
            1 => last + dice.roll(left.log.len() - last),
            _ => HEADER + dice.roll(left.frames() * FRAME),
        };
        let bit = dice.roll(8);
        let seen = look(&left, &left.flipped(byte, bit)).await;
        assert!(seen.turns >= left.turns / 2, "what is in the data file stays: {} turns", seen.turns);
        if seen.turns < left.turns {
            lost += 1;
            if !seen.ready || seen.problems.is_empty() {
                missed.push(format!("bit {bit} of byte {byte}: {} of {} turns", seen.turns, left.turns));
            }
        }
    }
    println!("{lost} of {flips} flips lost turns; {} were not reported", missed.len());
    assert!(lost > flips / 2, "{lost} of {flips}");
    assert_eq!(missed, Vec::<String>::new());
}

/// What is stored, and what is reported.
struct Seen {
    turns: usize,
    /// Whether `/readyz` reports it.
    ready: bool,
    /// What `verify` reports.
    problems: Vec<String>,
}

async fn look(left: &Left, log: &[u8]) -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    left.put(folder.path(), log);
    let problems = Sqlite::verify(&folder.path().join("r.db")).expect("it is looked at").problems;
    let house = House::plan().try_open_with(&left.data, log).expect("it goes on with what is whole");
    let ready = house.get("/readyz").send().await.expect(200);
    let told = ready["status"] == "degraded" && ready["log_damage"].is_string();
    Seen { turns: house.turns(SESSION).await.len(), ready: told, problems }
}

/// The running binary reports it, keeps a copy, goes on, and forgets the copy with the next erasure.
#[tokio::test]
async fn a_server_goes_on_with_what_is_whole_and_keeps_a_copy() {
    let left = Left::by_a_killed_server().await;
    let folder = tempfile::tempdir().expect("a folder");
    let log = left.flipped(HEADER + left.frames() / 2 * FRAME + 1_000, 3);
    left.put(folder.path(), &log);
    let verified = run(folder.path(), &["verify"]);
    assert!(!verified.status.success() && text(&verified.stdout).contains("write-ahead log"), "{verified:?}");
    let doctor = text(&run(folder.path(), &["doctor"]).stdout);
    assert!(doctor.contains("write-ahead log is damaged"), "{doctor}");
    assert_eq!(std::fs::read(folder.path().join("r.db-wal")).expect("the log"), log, "looking changes nothing");

    let said = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    let server =
        Server::start_heard(folder.path(), &BUILTIN, move |line| heard.lock().expect("a lock").push_str(&line));
    assert!(said.lock().expect("a lock").contains("write-ahead log"), "{said:?}");
    let ready = server.send("GET", "/readyz", &[], "");
    assert_eq!((ready.0, &ready.1["status"]), (200, &json!("degraded")), "{ready:?}");
    let turns = |server: &Server| {
        let path = format!("/api/v1/sessions/{SESSION}/turns?limit=50");
        server.send("GET", &path, &[], "").1["turns"].as_array().map_or(0, Vec::len)
    };
    let whole = turns(&server);
    assert!((6..12).contains(&whole), "{whole} turns");
    chat(&server, "what is it for?");
    assert_eq!(turns(&server), whole + 1);

    let copy = copies(folder.path()).pop().expect("a copy");
    assert_eq!(std::fs::read(&copy).expect("the copy"), log);
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&copy.metadata().expect("the copy").permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    let name = copy.file_name().expect("a name").to_string_lossy().into_owned();
    let doctor = text(&run(folder.path(), &["doctor"]).stdout);
    assert!(doctor.contains(&name), "{doctor}");
    let verified = run(folder.path(), &["verify"]);
    assert!(!verified.status.success() && text(&verified.stdout).contains(&name), "{verified:?}");

    server.kill();
    let server = Server::start(folder.path(), &BUILTIN);
    assert_eq!((turns(&server), copies(folder.path()).len()), (whole + 1, 1), "it is told of once");
    assert_eq!(server.send("GET", "/readyz", &[], "").1["status"], "degraded");
    chat_in(&server, "11111111-2222-4333-8444-555555555555");
    let erased = server.send("DELETE", "/api/v1/sessions/11111111-2222-4333-8444-555555555555", &[], "");
    assert_eq!(erased.0, 200, "{erased:?}");
    assert_eq!(copies(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(server.send("GET", "/readyz", &[], "").1["status"], "ok");
    assert!(run(folder.path(), &["verify"]).status.success());
}

fn chat_in(server: &Server, session: &str) {
    let body = json!({ "query": "what is a shed?" }).to_string();
    assert_eq!(server.send("POST", "/chat", &[("x-session-id", session)], &body).0, 200);
}

#[tokio::test]
async fn a_copy_goes_after_thirty_days() {
    let left = Left::by_a_killed_server().await;
    let house = House::plan().try_open_with(&left.data, &left.flipped(0, 0)).expect("it opens");
    let folder = house.data().parent().expect("a folder").to_owned();
    house.clock.advance(SignedDuration::from_hours(29 * 24));
    house.post("/api/v1/cleanup").send().await.expect(200);
    assert_eq!(copies(&folder).len(), 1);
    house.clock.advance(SignedDuration::from_hours(2 * 24));
    house.post("/api/v1/cleanup").send().await.expect(200);
    assert_eq!(copies(&folder).len(), 0);
    let ready: Value = house.get("/readyz").send().await.expect(200);
    assert_eq!(ready["status"], "ok");
}
