//! The canary campaign (P3, B6): many tenants, users and visitors with words of their own, requests of every kind, clients that
//! leave at any byte. Every answer, every request to the model, every webhook and every line of the log is looked through for
//! words of others.
//!
//! `RECALLD_CANARY_REQUESTS` says how many requests; a hundred thousand take a while, and less with a released binary (`RECALLD_TEST_BIN`).
//!
//! Reading order: `scan` (words that tell whose they are), `kinds` (what is asked), `wire` (how, and where clients leave), `echo`
//! (the model), then the campaign here.

mod echo;
mod kinds;
mod scan;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use self::echo::Echo;
use self::kinds::{Actor, Dice, KINDS, Kind, Seen, Shown, TENANTS, USERS, VISITS};
use self::scan::{CODE, foreign, is_mixed, spoken, word, words};
use self::wire::{Heard, Leaves, Request, send};
use crate::house::eventually;
use crate::process::Server;
use crate::receiver::Receiver;

const ADMIN_KEY: &str = "the admin's key of the canary campaign";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const REQUESTS: usize = 1_500;
/// Clients at one time.
const CLIENTS: usize = 16;
/// How many of a hundred clients leave early.
const LEAVING: usize = 30;
/// Names that are remembered for strangers to ask for.
const SEEN_MAX: usize = 4_000;

/// What came of a campaign.
#[derive(Debug, Default)]
struct Outcome {
    /// Words where they should not be.
    found: Vec<String>,
    /// Statuses by kind of request.
    statuses: BTreeMap<(&'static str, u16), usize>,
    left: usize,
    /// Requests that nobody answered in time.
    late: usize,
    /// Requests to the model, and those of them that told more than what was just said.
    prompts: usize,
    reminded: usize,
    webhooks: usize,
    log_lines: usize,
}

/// Everything that runs.
struct Stage {
    address: String,
    keys: HashMap<(usize, usize), String>,
    seen: Mutex<Seen>,
    outcome: Mutex<Outcome>,
    next: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn campaign(requests: usize, planted: Option<String>) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let ((echo, upstream), receiver) = (Echo::start(planted).await, Receiver::start(&[]).await);
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let hearing = Arc::clone(&log);
    let hook = receiver.url();
    let settings = [
        ("RECALLD_UPSTREAM", upstream.as_str()),
        ("RECALLD_MODEL", "m"),
        ("RECALLD_API_KEY", ADMIN_KEY),
        ("RECALLD_LOG", "trace"),
        ("RECALLD_SESSION_END_WEBHOOK", hook.as_str()),
        ("RECALLD_SESSION_END_SECRET", SECRET),
        ("RECALLD_WEBHOOK_PRIVATE_ADDRESSES", "true"),
    ];
    let mut server = tokio::task::block_in_place(|| {
        Server::start_heard(folder.path(), &settings, move |line| lock(&hearing).push(line))
    });
    let keys = keys(&server.address).await;
    let stage = Arc::new(Stage {
        address: server.address.clone(),
        keys,
        seen: Mutex::default(),
        outcome: Mutex::default(),
        next: AtomicUsize::new(0),
    });
    let clients = (0..CLIENTS).map(|n| tokio::spawn(client(Arc::clone(&stage), n, requests)));
    for client in futures_util::future::join_all(clients).await {
        client.expect("a client that ends well");
    }
    all_posted(&stage).await;
    tokio::task::block_in_place(|| {
        server.terminate();
        server.wait(Duration::from_secs(20)).expect("the server stops");
    });
    let mut outcome = std::mem::take(&mut *lock(&stage.outcome));
    look_at_prompts(&mut outcome, &echo.shown());
    look_at_webhooks(&mut outcome, &receiver);
    look_at_log(&mut outcome, &lock(&log));
    outcome
}

fn admin(method: &'static str, path: &str, body: Value) -> Request {
    Request { method, path: path.into(), headers: vec![("authorization", format!("Bearer {ADMIN_KEY}"))], body }
}

/// A key for each user of each tenant, without the right to speak for others.
async fn keys(address: &str) -> HashMap<(usize, usize), String> {
    let mut keys = HashMap::new();
    for (tenant, user) in (0..TENANTS).flat_map(|tenant| (0..USERS).map(move |user| (tenant, user))) {
        let actor = Actor { tenant, user, visits: false };
        if user == 0 {
            send(address, &admin("POST", "/api/v1/tenants", json!({"name": actor.tenant_name()})), None).await;
        }
        let rights = json!(["read", "write", "erase"]);
        let body = json!({"tenant": actor.tenant_name(), "user_id": actor.user_name(), "rights": rights});
        let made = send(address, &admin("POST", "/api/v1/keys", body), None).await;
        let body: Value = serde_json::from_str(&made.body).unwrap_or_default();
        let key = body["key"].as_str().unwrap_or_else(|| panic!("no key: {made:?}"));
        keys.insert((tenant, user), key.to_owned());
    }
    keys
}

/// Asks until everything is asked.
async fn client(stage: Arc<Stage>, n: usize, requests: usize) {
    let mut dice = Dice(n as u64 + 1);
    while stage.next.fetch_add(1, Ordering::Relaxed) < requests {
        let actor = Actor::any(&mut dice);
        let kind = if actor.visits { dice.one_of(&VISITS) } else { dice.one_of(&KINDS) };
        let key = &stage.keys[&(actor.tenant, actor.user)];
        let request = kind.request(actor, key, &mut dice, &lock(&stage.seen));
        let leaves = (dice.below(100) < LEAVING).then(|| match dice.below(2) {
            0 => Leaves::Asking(dice.below(2_000)),
            _ => Leaves::Reading(dice.below(3_000)),
        });
        let heard = send(&stage.address, &request, leaves).await;
        stage.look_at(actor, kind, &heard, leaves.is_some());
    }
}

impl Stage {
    fn look_at(&self, actor: Actor, kind: &Kind, heard: &Heard, left: bool) {
        let mut outcome = lock(&self.outcome);
        outcome.left += usize::from(left);
        outcome.late += usize::from(heard.late);
        if let Some(status) = heard.status {
            *outcome.statuses.entry((kind.name, status)).or_default() += 1;
            if kind.refused && status < 400 {
                outcome.found.push(format!("{}: {actor:?} got {status}", kind.name));
            }
        }
        for text in [&heard.head, &heard.body, &spoken(&heard.body)] {
            for word in foreign(text, &actor.code()) {
                outcome.found.push(format!("{}: {actor:?} was told `{word}`", kind.name));
            }
        }
        drop(outcome);
        self.remember(actor, &heard.body);
    }

    /// Names of things that a stranger may ask for next.
    fn remember(&self, to: Actor, body: &str) {
        let Ok(body) = serde_json::from_str::<Value>(body) else { return };
        let mut seen = lock(&self.seen);
        if let Some(id) = body["metadata"]["turn_id"].as_str().filter(|_| seen.len() < SEEN_MAX) {
            seen.push(Shown { noun: "turns", id: id.to_owned(), to });
        }
        for noun in ["turns", "topics", "facts"] {
            let ids = body[noun].as_array().into_iter().flatten().filter_map(|item| item["id"].as_str());
            for id in ids.map(str::to_owned).collect::<Vec<_>>() {
                if seen.len() < SEEN_MAX {
                    seen.push(Shown { noun, id, to });
                }
            }
        }
    }
}

/// Waits until no webhook waits any more.
async fn all_posted(stage: &Stage) {
    eventually("all webhooks are delivered", async || {
        let metrics = send(&stage.address, &admin("GET", "/metrics", Value::Null), None).await;
        metrics.body.lines().any(|line| line == "recalld_webhooks_queued 0").then_some(())
    })
    .await;
}

/// All that one request tells the model is of one person.
fn look_at_prompts(outcome: &mut Outcome, shown: &[String]) {
    outcome.prompts = shown.len();
    for body in shown {
        if is_mixed(body) {
            outcome.found.push(format!("the model was shown words of several: {:?}", words(body)));
        }
        let mut told = words(body);
        told.sort();
        told.dedup();
        outcome.reminded += usize::from(told.len() > 2);
    }
}

/// A webhook tells words of its tenant's user alone.
fn look_at_webhooks(outcome: &mut Outcome, receiver: &Receiver) {
    for request in receiver.received() {
        let told: Value = serde_json::from_str(&request.body).expect("JSON");
        let number = |field: &str| told["data"][field].as_str()?.rsplit('-').next()?.parse::<usize>().ok();
        outcome.webhooks += 1;
        match (number("tenant_id"), number("user_id")) {
            (Some(tenant), Some(user)) => {
                let code = Actor { tenant, user, visits: false }.code();
                let words = foreign(&request.body, &code);
                outcome.found.extend(words.iter().map(|word| format!("a webhook of `{code}` tells `{word}`")));
            }
            _ if is_mixed(&request.body) => outcome.found.push(format!("a webhook tells of several: {}", request.body)),
            _ => {}
        }
    }
}

/// Nobody's words are in the log.
fn look_at_log(outcome: &mut Outcome, log: &[String]) {
    outcome.log_lines = log.len();
    let telling = log.iter().filter(|line| !words(line).is_empty());
    outcome.found.extend(telling.map(|line| format!("the log tells: {line}")));
}

/// Nobody is told another's words; and everything that could tell them was asked for, answered, and had words to tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_anothers_words() {
    let asked = std::env::var("RECALLD_CANARY_REQUESTS").ok().and_then(|text| text.parse().ok());
    let requests = asked.unwrap_or(REQUESTS);
    let outcome = campaign(requests, None).await;
    let Outcome { found, statuses, left, late, prompts, reminded, webhooks, log_lines } = outcome;
    println!(
        "{requests} requests, {left} left early, {late} were answered late; {prompts} prompts, {reminded} of them with memories; \
         {webhooks} webhooks; {log_lines} log lines; {} foreign words",
        found.len()
    );
    assert!(found.is_empty(), "{} findings, such as:\n{}", found.len(), found[..found.len().min(20)].join("\n"));
    assert!(late * 1_000 <= requests, "{late} of {requests} were answered late or never");
    assert!(left * 100 > requests * (LEAVING - 10), "{left} of {requests} left early");
    assert!(prompts > requests / 10 && reminded > prompts / 10, "{reminded} of {prompts} prompts had memories");
    assert!(webhooks > 0 && log_lines > 0, "{webhooks} webhooks, {log_lines} log lines");
    // Of what anybody was shown, most is not there for whoever asks; some of it must be.
    let any = |what: &str, well: fn(u16) -> bool| {
        statuses.keys().any(|(name, status)| (*name == what || name.ends_with(what)) && well(*status))
    };
    assert!(any(" of anybody", |status| status < 400) && any(" of anybody", |status| status == 404), "{statuses:?}");
    for kind in KINDS.iter().chain(&VISITS).filter(|kind| !kind.name.ends_with(" of anybody")) {
        let well =
            if kind.refused { any(kind.name, |status| status >= 400) } else { any(kind.name, |status| status < 400) };
        assert!(well, "`{}` never came to anything: {statuses:?}", kind.name);
    }
}

/// The campaign can fail: a model that says a stranger's word by itself is noticed in answers, whole and streamed, and in what
/// is remembered of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_word_is_found() {
    let stranger = word(&"zzz"[..CODE], 0, 0);
    // Enough that each kind below is asked for about fifteen times, whoever leaves early.
    let outcome = campaign(400, Some(stranger)).await;
    let by = |what: &str| outcome.found.iter().any(|found| found.contains(what) && found.contains("zzz"));
    for what in ["chat: ", "chat, streamed: ", "completion, streamed: ", "the model was shown"] {
        assert!(by(what), "`{what}` is not among {:?}", &outcome.found[..outcome.found.len().min(20)]);
    }
}
