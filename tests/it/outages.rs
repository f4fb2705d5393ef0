//! B-P8: chat goes on while PostgreSQL is stopped, killed, paused, read-only or cut off, at random points under load; afterwards
//! every answered turn is there exactly once, and numbers have no gap.
//!
//! `RECALLD_OUTAGES` says how many outages; by default one of each kind. `RECALLD_OUTAGES_INSTANCES` says how many instances share the
//! database. The test starts a PostgreSQL of its own. Reading order: `database` and `proxy` (what is broken), `story` (one outage,
//! step by step), then the campaign here.

pub(crate) mod database;
mod proxy;
mod story;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use recalld::id::{Ids, RandomIds};
use serde_json::{Value, json};

use self::database::Database;
use self::proxy::{Proxy, Wire};
use crate::process::Server;

const OUTAGES: usize = KINDS.len();
const CLIENTS: usize = 8;
/// Conversations that all of them take part in, and how many of them belong to one user.
const SESSIONS: usize = 20;
const SESSIONS_OF_ONE: usize = 2;
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

/// Who asked, where, and in which conversation.
type Line = (usize, usize, usize);

/// What the clients saw.
#[derive(Default)]
struct Seen {
    /// Questions that were answered, in the order in which one client asked them.
    answered: BTreeMap<Line, Vec<String>>,
    requests: usize,
    refused: Vec<String>,
    /// Answers by what was the matter when they were asked for and when they came, and how many of them were degraded.
    phases: BTreeMap<(Phase, Phase), (usize, usize)>,
    slowest: Duration,
}

/// What is the matter with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Calm,
    Broken,
    /// It is whole again, and what waited is being written.
    CatchingUp,
}

struct Stage {
    phase: Mutex<Phase>,
    addresses: Mutex<Vec<String>>,
    sessions: Vec<String>,
    /// Grows when the first server is killed, and when it is there again: who was asking then has no answer.
    kills: AtomicU64,
    over: AtomicBool,
    seen: Mutex<Seen>,
    asked: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn user(session: usize) -> String {
    format!("user{}", session / SESSIONS_OF_ONE)
}

/// One client: asks in one conversation or another, on its door, until the campaign is over.
fn client(stage: &Stage, number: usize) {
    let mut dice = Dice(0xc11e_0001 + number as u64);
    while !stage.over.load(Ordering::SeqCst) {
        let n = stage.asked.fetch_add(1, Ordering::SeqCst);
        let instances = lock(&stage.addresses).len() as u64;
        let line = (number, dice.below(instances) as usize, dice.below(SESSIONS as u64) as usize);
        ask(stage, line, &format!("{WORD} {n}"));
        sleep(Duration::from_millis(5));
    }
}

fn ask(stage: &Stage, line: Line, question: &str) {
    let (number, instance, session) = line;
    let (kills, address) = (stage.kills.load(Ordering::SeqCst), lock(&stage.addresses)[instance].clone());
    let (user, started, before) = (user(session), Instant::now(), *lock(&stage.phase));
    let headers = [("x-session-id", stage.sessions[session].as_str()), ("x-user-id", user.as_str())];
    let answer = if number.is_multiple_of(2) {
        crate::process::send_to(&address, "POST", "/chat", &headers, &json!({ "query": question }).to_string())
    } else {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": question }] });
        crate::process::send_to(&address, "POST", "/v1/chat/completions", &headers, &body.to_string())
    };
    let was_killed = kills % 2 == 1 || kills != stage.kills.load(Ordering::SeqCst);
    if instance == 0 && was_killed {
        return sleep(Duration::from_millis(50));
    }
    let mut seen = lock(&stage.seen);
    seen.requests += 1;
    seen.slowest = seen.slowest.max(started.elapsed());
    match answer {
        Some((200, head, _)) => {
            let phase = seen.phases.entry((before, *lock(&stage.phase))).or_default();
            phase.0 += 1;
            phase.1 += usize::from(head.to_ascii_lowercase().contains("x-recalld-status: degraded"));
            seen.answered.entry(line).or_default().push(question.to_owned());
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
        Kind::Cut => proxy.set(Wire::Cut, 0),
        Kind::Held => proxy.set(Wire::Held, 0),
        Kind::Broken => proxy.set(Wire::Broken, dice.below(5_000) as i64),
    }
}

/// Ends it.
fn end(kind: Kind, database: &mut Database, proxy: &Proxy) {
    match kind {
        Kind::Stopped | Kind::Killed => database.serve(),
        Kind::Paused => database.resume(),
        Kind::ReadOnly => database.read_only(false),
        Kind::Cut | Kind::Held | Kind::Broken => proxy.set(Wire::Whole, 0),
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

/// Every answered question is there once, complete, and numbers have no gap. What one client asked one instance is in order.
fn check(server: &Server, user: &str, session: &str, answered: &[&Vec<String>]) -> usize {
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
    for question in answered.iter().copied().flatten() {
        assert_eq!(times.get(question.as_str()), Some(&(1, "complete")), "`{question}` was answered");
    }
    for asked in answered {
        let there = turns.iter().map(|(_, question, _)| question).filter(|question| asked.contains(question));
        assert_eq!(there.collect::<Vec<_>>(), asked.iter().collect::<Vec<_>>(), "the order of {session}");
    }
    turns.len()
}

/// An instance that is started, and started again when it was killed.
struct Instance {
    folder: tempfile::TempDir,
    server: Option<Server>,
}

impl Instance {
    fn start(url: &str, log: &Arc<Mutex<Vec<String>>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut instance = Self { folder, server: None };
        instance.serve(url, log);
        instance
    }

    fn serve(&mut self, url: &str, log: &Arc<Mutex<Vec<String>>>) {
        let settings = [("RECALLD_UPSTREAM", "builtin"), ("RECALLD_DATABASE_URL", url)];
        let hearing = Arc::clone(log);
        let hear = move |line: String| lock(&hearing).push(line);
        self.server = Some(Server::start_heard(self.folder.path(), &settings, hear));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it is started")
    }

    /// `kill -9`, and a start while the database is away.
    fn kill_and_start(&mut self, url: &str, log: &Arc<Mutex<Vec<String>>>) {
        self.server.take().expect("it runs").kill();
        self.serve(url, log);
    }
}

fn number(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn outages_lose_nothing_and_double_nothing() {
    let outages = number("RECALLD_OUTAGES", OUTAGES);
    let Some(mut database) = Database::start() else { return };
    let seed = number("RECALLD_OUTAGES_SEED", 0x5eed_0b08) as u64;
    let (proxy, mut dice) = (Proxy::to(database.port), Dice(seed));
    let url = format!("postgres://recalld@127.0.0.1:{}/postgres", proxy.port);
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let instances = number("RECALLD_OUTAGES_INSTANCES", 1);
    println!("{outages} outages, {instances} instances, seed {seed}");
    let mut instances: Vec<Instance> = (0..instances).map(|_| Instance::start(&url, &log)).collect();
    let stage = Arc::new(Stage {
        phase: Mutex::new(Phase::Calm),
        addresses: Mutex::new(instances.iter().map(|instance| instance.server().address.clone()).collect()),
        sessions: (0..SESSIONS).map(|_| RandomIds.session().to_string()).collect(),
        kills: AtomicU64::new(0),
        over: AtomicBool::new(false),
        seen: Mutex::default(),
        asked: AtomicUsize::new(0),
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let stage = Arc::clone(&stage);
            std::thread::spawn(move || client(&stage, number))
        })
        .collect();

    let (mut slowest, mut kills) = (BTreeMap::<Kind, Duration>::new(), 0);
    for n in 0..outages {
        let kind = KINDS[n % KINDS.len()];
        sleep(Duration::from_millis(100 + dice.below(500)));
        *lock(&stage.phase) = Phase::Broken;
        begin(kind, &mut database, &proxy, &mut dice);
        sleep(Duration::from_millis(300 + dice.below(1_500)));
        // A broken line is none that a start can be expected to get through.
        if n % 3 == 0 && kind != Kind::Broken {
            kills += 1;
            stage.kills.fetch_add(1, Ordering::SeqCst);
            instances[0].kill_and_start(&url, &log);
            lock(&stage.addresses)[0].clone_from(&instances[0].server().address);
            stage.kills.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(300 + dice.below(1_000)));
        }
        end(kind, &mut database, &proxy);
        *lock(&stage.phase) = Phase::CatchingUp;
        let took = instances.iter().map(|instance| reconciled(instance.server(), &log)).max().unwrap_or_default();
        let most = slowest.entry(kind).or_default();
        *most = (*most).max(took);
        *lock(&stage.phase) = Phase::Calm;
    }
    stage.over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("a client that ends well"));
    for instance in &instances {
        reconciled(instance.server(), &log);
    }

    let seen = lock(&stage.seen);
    let mut stored = 0;
    for (number, session) in stage.sessions.iter().enumerate() {
        let answered: Vec<_> =
            seen.answered.iter().filter(|(line, _)| line.2 == number).map(|(_, asked)| asked).collect();
        stored += check(instances[0].server(), &user(number), session, &answered);
    }
    let answered: usize = seen.answered.values().map(Vec::len).sum();
    let degraded: usize = seen.phases.values().map(|(_, degraded)| degraded).sum();
    println!(
        "{answered} of {} requests answered, {degraded} of them degraded, {stored} turns stored, none lost, none twice, no gaps; \
         slowest answer {:?}; {kills} kills",
        seen.requests, seen.slowest
    );
    println!("answers by phase (asked in, answered in): (all, degraded): {:?}", seen.phases);
    println!("warnings and errors in the log: {:#?}", complaints(&lock(&log)));
    println!("slowest to be reconciled: {slowest:?}");
    assert!(
        seen.refused.len() * 1_000 <= seen.requests,
        "{} of {} had no answer: {:#?}",
        seen.refused.len(),
        seen.requests,
        &seen.refused[..seen.refused.len().min(10)]
    );
    assert!(degraded > 0, "no outage was noticed");
    instances.iter().for_each(|instance| nothing_is_left_in(instance.folder.path()));
}

/// What the log complains of, without what differs from line to line, and how often.
fn complaints(log: &[String]) -> BTreeMap<String, usize> {
    let mut complaints = BTreeMap::new();
    for line in log.iter().filter(|line| line.contains("WARN") || line.contains("ERROR")) {
        let said = line.split_once("WARN").or_else(|| line.split_once("ERROR")).map_or("", |(_, said)| said);
        let said: String =
            said.chars().filter(|c| !c.is_ascii_hexdigit() || c.is_ascii_alphabetic()).take(60).collect();
        *complaints.entry(said).or_default() += 1;
    }
    complaints
}

/// Nobody's words are left beside the database.
fn nothing_is_left_in(folder: &std::path::Path) {
    let patience = Instant::now() + Duration::from_secs(10);
    while let Some(file) = holding(folder) {
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
