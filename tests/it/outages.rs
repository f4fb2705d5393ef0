//! B-P8: chat goes on while PostgreSQL is stopped, killed, paused, read-only or cut off, at random points under load; afterwards every
//! answered turn is there exactly once, and numbers have no gap.
//!
//! `RECALLD_OUTAGES` says how many outages; by default one of each kind. The test starts a PostgreSQL of its own. Reading order:
//! `database` and `proxy` (what is broken), then the campaign here.

mod database;
mod proxy;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use recalld::id::{Ids, RandomIds};
use serde_json::{Value, json};

use self::database::Database;
use self::proxy::{Line, Proxy};
use crate::process::Server;

const OUTAGES: usize = KINDS.len();
const CLIENTS: usize = 6;
/// Conversations of each client.
const SESSIONS: usize = 2;
/// How long reconciling may take after the database is back.
const RECONCILED_MAX: Duration = Duration::from_secs(30);
/// In every question, to be looked for where it must not be.
const WORD: &str = "zirconium";

/// What befalls the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Stopped,
    Killed,
    Paused,
    ReadOnly,
    Cut,
    Held,
    Broken,
}

const KINDS: [Kind; 7] =
    [Kind::Killed, Kind::Paused, Kind::Broken, Kind::ReadOnly, Kind::Held, Kind::Stopped, Kind::Cut];

/// Chance that can be repeated: the campaign says its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    /// Questions that were answered, by session.
    answered: HashMap<String, Vec<String>>,
    requests: usize,
    refused: Vec<String>,
    degraded: usize,
    slowest: Duration,
}

struct Stage {
    address: Mutex<String>,
    /// Grows when the server is killed: who was asking then has no answer.
    kills: AtomicU64,
    over: AtomicBool,
    seen: Mutex<Seen>,
    asked: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn user(session: usize) -> String {
    format!("user{}", session / SESSIONS)
}

/// One client: asks in turn in its conversations, on either door, until the campaign is over.
fn client(stage: &Stage, number: usize, sessions: &[String]) {
    let mut asked = 0_usize;
    while !stage.over.load(Ordering::SeqCst) {
        let n = stage.asked.fetch_add(1, Ordering::SeqCst);
        let session = &sessions[number * SESSIONS + asked % SESSIONS];
        ask(stage, number, session, &format!("{WORD} {n}"));
        asked += 1;
        sleep(Duration::from_millis(5));
    }
}

fn ask(stage: &Stage, number: usize, session: &str, question: &str) {
    let (kills, address, started) = (stage.kills.load(Ordering::SeqCst), lock(&stage.address).clone(), Instant::now());
    let user = user(number * SESSIONS);
    let headers = [("x-session-id", session), ("x-user-id", user.as_str())];
    let answer = if number.is_multiple_of(2) {
        crate::process::send_to(&address, "POST", "/chat", &headers, &json!({ "query": question }).to_string())
    } else {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": question }] });
        crate::process::send_to(&address, "POST", "/v1/chat/completions", &headers, &body.to_string())
    };
    if kills != stage.kills.load(Ordering::SeqCst) {
        return sleep(Duration::from_millis(50));
    }
    let mut seen = lock(&stage.seen);
    seen.requests += 1;
    seen.slowest = seen.slowest.max(started.elapsed());
    match answer {
        Some((200, head, _)) => {
            seen.degraded += usize::from(head.to_ascii_lowercase().contains("x-recalld-status: degraded"));
            seen.answered.entry(session.to_owned()).or_default().push(question.to_owned());
        }
        other => {
            let told = other.map_or_else(|| "no answer".to_owned(), |(status, _, body)| format!("{status}: {body}"));
            seen.refused.push(format!("{question} after {:?}: {told}", started.elapsed()));
        }
    }
}

/// Brings an outage about.
fn begin(kind: Kind, database: &mut Database, proxy: &Proxy, dice: &mut Dice) {
    match kind {
        Kind::Stopped => database.stop(),
        Kind::Killed => database.kill(),
        Kind::Paused => database.pause(),
        Kind::ReadOnly => database.read_only(true),
        Kind::Cut => proxy.set(Line::Cut, 0),
        Kind::Held => proxy.set(Line::Held, 0),
        Kind::Broken => proxy.set(Line::Broken, dice.below(5_000) as i64),
    }
}

/// Ends it.
fn end(kind: Kind, database: &mut Database, proxy: &Proxy) {
    match kind {
        Kind::Stopped | Kind::Killed => database.serve(),
        Kind::Paused => database.resume(),
        Kind::ReadOnly => database.read_only(false),
        Kind::Cut | Kind::Held | Kind::Broken => proxy.set(Line::Whole, 0),
    }
}

/// Waits until nothing waits any more; answers how long that took.
fn reconciled(server: &Server, log: &Mutex<Vec<String>>) -> Duration {
    let started = Instant::now();
    loop {
        let ready = server.try_send("GET", "/readyz", &[], "");
        if ready.as_ref().is_some_and(|(status, body)| *status == 200 && body["status"] == "ok") {
            return started.elapsed();
        }
        if started.elapsed() > RECONCILED_MAX {
            let log = lock(log);
            panic!("not reconciled: {ready:?}\n{}", log[log.len().saturating_sub(40)..].join("\n"));
        }
        sleep(Duration::from_millis(20));
    }
}

/// All turns of a session, as (number, question, status).
fn turns(server: &Server, user: &str, session: &str) -> Vec<(u64, String, String)> {
    let (mut turns, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/sessions/{session}/turns?limit=50&include=superseded&after={after}");
        let (status, page) = server.send("GET", &path, &[("x-user-id", user)], "");
        assert_eq!(status, 200, "{page}");
        for turn in page["turns"].as_array().expect("a list") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let question = text(&turn["query_text"]);
            turns.push((turn["turn_number"].as_u64().expect("a number"), question, text(&turn["status"])));
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return turns,
        }
    }
}

/// Every answered question is there once, complete, and numbers have no gap.
fn check(server: &Server, user: &str, session: &str, answered: &[String]) -> usize {
    let turns = turns(server, user, session);
    let numbers: Vec<u64> = turns.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=turns.len() as u64).collect::<Vec<_>>(), "numbers of {session} have gaps");
    let mut times: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (_, question, status) in &turns {
        let entry = times.entry(question).or_insert((0, status));
        entry.0 += 1;
    }
    for (question, (count, _)) in &times {
        assert_eq!(*count, 1, "`{question}` is there {count} times");
    }
    for question in answered {
        assert_eq!(times.get(question.as_str()), Some(&(1, "complete")), "`{question}` was answered");
    }
    // What was asked is in the order of asking.
    let asked: Vec<&String> = answered.iter().collect();
    let there: Vec<&String> =
        turns.iter().map(|(_, question, _)| question).filter(|question| answered.contains(question)).collect();
    assert_eq!(there, asked, "the order of {session}");
    turns.len()
}

#[test]
fn outages_lose_nothing_and_double_nothing() {
    let outages = std::env::var("RECALLD_OUTAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(OUTAGES);
    let Some(mut database) = Database::start() else {
        println!("SKIPPED: there is no PostgreSQL to break; `scripts/services start` installs one");
        return;
    };
    let seed = std::env::var("RECALLD_OUTAGES_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0x5eed_0b08);
    println!("{outages} outages, seed {seed}");
    let (proxy, mut dice) = (Proxy::to(database.port), Dice(seed));
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("postgres://recalld@127.0.0.1:{}/postgres", proxy.port);
    let settings = [("RECALLD_UPSTREAM", "builtin"), ("RECALLD_DATABASE_URL", url.as_str())];
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let start = || {
        let hearing = Arc::clone(&log);
        Server::start_heard(folder.path(), &settings, move |line| lock(&hearing).push(line))
    };
    let mut server = start();
    let stage = Arc::new(Stage {
        address: Mutex::new(server.address.clone()),
        kills: AtomicU64::new(0),
        over: AtomicBool::new(false),
        seen: Mutex::default(),
        asked: AtomicUsize::new(0),
    });
    let sessions: Arc<Vec<String>> =
        Arc::new((0..CLIENTS * SESSIONS).map(|_| RandomIds.session().to_string()).collect());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (stage, sessions) = (Arc::clone(&stage), Arc::clone(&sessions));
            std::thread::spawn(move || client(&stage, number, &sessions))
        })
        .collect();

    let (mut slowest, mut kills) = (BTreeMap::<Kind, Duration>::new(), 0);
    for n in 0..outages {
        let kind = KINDS[n % KINDS.len()];
        sleep(Duration::from_millis(100 + dice.below(500)));
        begin(kind, &mut database, &proxy, &mut dice);
        sleep(Duration::from_millis(300 + dice.below(1_500)));
        // A broken line is none that a start can be expected to get through.
        if n % 3 == 0 && kind != Kind::Broken {
            kills += 1;
            stage.kills.fetch_add(1, Ordering::SeqCst);
            server.kill();
            server = start();
            *lock(&stage.address) = server.address.clone();
            stage.kills.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(300 + dice.below(1_000)));
        }
        end(kind, &mut database, &proxy);
        let took = reconciled(&server, &log);
        let most = slowest.entry(kind).or_default();
        *most = (*most).max(took);
    }
    stage.over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("a client that ends well"));
    reconciled(&server, &log);

    let seen = lock(&stage.seen);
    let mut stored = 0;
    for (number, session) in sessions.iter().enumerate() {
        let answered = seen.answered.get(session).cloned().unwrap_or_default();
        stored += check(&server, &user(number), session, &answered);
    }
    let answered: usize = seen.answered.values().map(Vec::len).sum();
    println!(
        "{answered} of {} requests answered, {} of them degraded, {stored} turns stored; slowest answer {:?}; {kills} kills",
        seen.requests, seen.degraded, seen.slowest
    );
    println!("slowest to be reconciled: {slowest:?}");
    assert!(
        seen.refused.len() * 1_000 <= seen.requests,
        "{} of {} had no answer: {:#?}",
        seen.refused.len(),
        seen.requests,
        &seen.refused[..seen.refused.len().min(10)]
    );
    assert!(seen.degraded > 0, "no outage was noticed");
    let patience = Instant::now() + Duration::from_secs(10);
    while let Some(file) = holding(folder.path()) {
        assert!(Instant::now() < patience, "{file} still holds what was said");
        sleep(Duration::from_millis(50));
    }
}

/// A file in which somebody's words still are.
fn holding(folder: &std::path::Path) -> Option<String> {
    let mut files = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let holds = |file: &std::path::PathBuf| {
        std::fs::read(file).is_ok_and(|bytes| bytes.windows(WORD.len()).any(|there| there == WORD.as_bytes()))
    };
    files.find(holds).map(|file| file.display().to_string())
}
