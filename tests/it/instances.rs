//! Several instances on one PostgreSQL and one Redis: real binaries, real servers, under load, killed in the middle.
//!
//! Small by default; `RECALLD_INSTANCES_TURNS=200` for a campaign. Where `RECALLD_TEST_POSTGRES` or `RECALLD_TEST_REDIS` is not set,
//! the tests say `SKIPPED` (see `scripts/services`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use recalld::id::{Ids, RandomIds};
use serde_json::{Value, json};

use crate::digest_kills::{check, drain, messages};
use crate::process::Server;
use crate::receiver::Receiver;

/// Turns of each conversation, by default.
const TURNS: usize = 8;
/// Conversations of each kind.
const TALKS: usize = 4;

fn turns() -> usize {
    std::env::var("RECALLD_INSTANCES_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(TURNS)
}

/// Where everything is that instances share: a database and names in Redis that are nobody else's.
struct Shared {
    postgres: String,
    name: String,
    redis: String,
}

impl Shared {
    async fn open() -> Option<Self> {
        let (Ok(postgres), Ok(redis)) = (std::env::var("RECALLD_TEST_POSTGRES"), std::env::var("RECALLD_TEST_REDIS"))
        else {
            println!("SKIPPED: RECALLD_TEST_POSTGRES or RECALLD_TEST_REDIS is not set; `scripts/services start`");
            return None;
        };
        let name = format!("recalld_{}", RandomIds.session().to_string().replace('-', ""));
        run(&postgres, &format!("CREATE DATABASE {name}")).await;
        let redis = format!("{redis}?prefix={name}");
        Some(Self { postgres, name, redis })
    }

    fn database(&self) -> String {
        let (server, _) = self.postgres.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.name)
    }

    /// An instance; what it writes on its own goes to a folder of its own.
    fn instance(&self, folder: &Path, more: &[(&str, &str)]) -> Server {
        let (database, redis) = (self.database(), self.redis.clone());
        let mut settings =
            vec![("RECALLD_DATABASE_URL", &*database), ("RECALLD_LIVE_URL", &*redis), ("RECALLD_UPSTREAM", "builtin")];
        settings.extend(more);
        Server::start(folder, &settings)
    }

    async fn close(self) {
        run(&self.postgres, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

async fn run(url: &str, statement: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("PostgreSQL answers");
    let driver = tokio::spawn(connection);
    client.batch_execute(statement).await.expect("the statement runs");
    drop(client);
    driver.await.expect("no panic").expect("it closes well");
}

/// Instances that clients go to one after the other; who finds one gone goes to the next.
struct Balancer {
    instances: Vec<Server>,
}

impl Balancer {
    /// Sends a request to the `nth` instance, or the next that answers.
    fn send(&self, nth: usize, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let order = (0..self.instances.len()).map(|more| &self.instances[(nth + more) % self.instances.len()]);
        let answer = order.into_iter().find_map(|server| server.try_send(method, path, headers, body));
        answer.expect("somebody answers")
    }

    /// A turn of a durable conversation. Answers how many earlier messages the model was shown.
    fn chat(&self, nth: usize, session: &str, query: &str) -> u64 {
        let body = json!({ "query": query }).to_string();
        let (status, answer) = self.send(nth, "POST", "/chat", &[("x-session-id", session)], &body);
        assert_eq!(status, 200, "{answer}");
        answer["metadata"]["messages_in_context"].as_u64().expect("a count")
    }

    /// A turn of a visitor's session.
    fn visit(&self, nth: usize, session: &str, words: &str, memory: Value) {
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": words}], "memory": memory}).to_string();
        let (status, answer) = self.send(nth, "POST", &format!("/v1/{session}/chat/completions"), &[], &body);
        assert_eq!(status, 200, "{answer}");
    }
}

/// Every turn of a session that an instance shows.
fn all_turns(server: &Server, session: &str) -> Vec<Value> {
    let (mut turns, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/sessions/{session}/turns?limit=50{after}");
        let (status, page) = server.send("GET", &path, &[], "");
        assert_eq!(status, 200, "{page}");
        turns.extend(page["turns"].as_array().expect("turns").iter().cloned());
        match &page["next"] {
            Value::Null => return turns,
            next => after = format!("&after={}", next.to_string().trim_matches('"')),
        }
    }
}

/// What was asked and answered. A question that was sent again because an instance died may be there twice.
fn questions(turns: &[Value]) -> Vec<String> {
    let complete = turns.iter().filter(|turn| turn["status"] == "complete");
    let mut asked: Vec<String> = complete.filter_map(|turn| Some(turn["query_text"].as_str()?.to_owned())).collect();
    asked.dedup();
    asked
}

/// Conversations of both kinds go on at whichever instance is asked, at the same time; one is killed in the middle of it.
fn talk_everywhere(shared: &Shared, instances: usize) {
    let (folder, turns) = (tempfile::tempdir().expect("a folder"), turns());
    let mut balancer = Balancer { instances: (0..instances).map(|_| shared.instance(folder.path(), &[])).collect() };
    let sessions: Vec<String> = (0..TALKS).map(|_| RandomIds.session().to_string()).collect();
    talk(&balancer, &sessions, 0..turns / 2, true);
    let victim = balancer.instances[instances / 2].pid().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| talk(&balancer, &sessions, turns / 2..turns, false));
        std::thread::sleep(Duration::from_millis(100));
        Command::new("kill").args(["-9", &victim]).status().expect("kill runs");
    });
    drop(balancer.instances.remove(instances / 2));
    for (talk, session) in sessions.iter().enumerate() {
        balancer.instances.iter().for_each(|server| check_talk(server, talk, session, turns));
    }
}

fn said(talk: usize, n: usize) -> String {
    format!("This is message {n} of conversation {talk}.")
}

/// Everybody says their part, at another instance each time.
fn talk(balancer: &Balancer, sessions: &[String], part: Range<usize>, all_are_well: bool) {
    std::thread::scope(|scope| {
        for (talk, session) in sessions.iter().enumerate() {
            let (durable, visits) = (part.clone(), part.clone());
            scope.spawn(move || {
                for n in durable {
                    let shown = balancer.chat(talk + n, session, &said(talk, n));
                    let earlier = (2 * n as u64).min(10);
                    assert!(!all_are_well || shown == earlier, "{shown} of {earlier} earlier messages were seen");
                }
            });
            scope.spawn(move || {
                visits.into_iter().for_each(|n| {
                    balancer.visit(talk + n, &format!("acme:v{talk}"), &said(talk, n), json!({}));
                });
            });
        }
    });
}

/// An instance shows everything that was answered, in order, with numbers that leave nothing out.
fn check_talk(server: &Server, talk: usize, session: &str, turns: usize) {
    let (durable, expected) = (all_turns(server, session), (0..turns).map(|n| said(talk, n)).collect::<Vec<_>>());
    assert_eq!(questions(&durable), expected);
    let numbers = durable.iter().map(|turn| turn["turn_number"].as_u64());
    assert!(numbers.eq((1..=durable.len() as u64).map(Some)), "{durable:#?}");
    let (status, visit) = server.send("GET", &format!("/api/v1/sessions/acme:v{talk}"), &[], "");
    let messages = visit["message_count"].as_u64().unwrap_or(0);
    assert!(status == 200 && messages >= 2 * turns as u64, "{visit}");
    let live = all_turns(server, &format!("acme:v{talk}"));
    let asked = questions(&live);
    assert!(expected.ends_with(&asked) && asked.len() >= turns.min(5), "{asked:?}");
}

/// C1, A3: two instances.
#[tokio::test(flavor = "multi_thread")]
async fn conversations_go_on_at_either_of_two() {
    let Some(shared) = Shared::open().await else { return };
    tokio::task::block_in_place(|| talk_everywhere(&shared, 2));
    shared.close().await;
}

/// C1, A3, C6: three instances.
#[tokio::test(flavor = "multi_thread")]
async fn conversations_go_on_at_any_of_three() {
    let Some(shared) = Shared::open().await else { return };
    tokio::task::block_in_place(|| talk_everywhere(&shared, 3));
    shared.close().await;
}

/// P5: three instances share the jobs of everybody; one is stopped in the middle, gives its jobs back, and each effect happens once.
#[tokio::test(flavor = "multi_thread")]
async fn every_turn_is_digested_once() {
    let Some(shared) = Shared::open().await else { return };
    tokio::task::block_in_place(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut balancer = Balancer { instances: (0..3).map(|_| shared.instance(folder.path(), &[])).collect() };
        let sessions: Vec<String> = (0..TALKS).map(|_| RandomIds.session().to_string()).collect();
        for round in 0..turns() {
            let session = &sessions[round % TALKS];
            balancer.send(round, "POST", "/api/v1/sessions", &[], &json!({ "id": session }).to_string());
            let path = format!("/api/v1/sessions/{session}/messages");
            let (status, body) = balancer.send(round + 1, "POST", &path, &[], &messages(12 + round as u64 % 20));
            assert_eq!(status, 201, "{body}");
            if round == turns() / 2 {
                let mut leaving = balancer.instances.remove(1);
                leaving.terminate();
                let ended = leaving.wait(Duration::from_secs(15)).expect("it ends in time");
                assert!(ended.success(), "{ended}");
            }
        }
        drain(&balancer.instances[0]);
        for session in &sessions {
            balancer.instances.iter().for_each(|server| check(server, session));
        }
    });
    shared.close().await;
}

/// A visitor's session; a tenant has fifty of them.
fn visitor(n: usize) -> String {
    format!("acme{}:v{n}", n / 50)
}

/// A5: the end of a visitor's session is told once, whether by time or by word, with three instances that all look for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_told_once() {
    let Some(shared) = Shared::open().await else { return };
    let receiver = Receiver::start(&[]).await;
    let url = receiver.url();
    let settings = [
        ("RECALLD_SESSION_END_WEBHOOK", &*url),
        ("RECALLD_SESSION_END_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("RECALLD_WEBHOOK_PRIVATE_ADDRESSES", "true"),
    ];
    let sessions = 3 * turns();
    tokio::task::block_in_place(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let balancer = Balancer { instances: (0..3).map(|_| shared.instance(folder.path(), &settings)).collect() };
        for n in 0..sessions {
            balancer.visit(n, &visitor(n), "Hello there", json!({"ttl": "5s"}));
            balancer.visit(n + 1, &visitor(n), "Anybody?", json!({}));
        }
        let words: Vec<usize> = (0..sessions).step_by(3).collect();
        for n in &words {
            // One that is over by now was told of already.
            balancer.send(n + 2, "POST", &format!("/api/v1/sessions/{}/end", visitor(*n)), &[], "");
        }
        let patience = Instant::now() + Duration::from_secs(60);
        while receiver.received().len() < sessions && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(50));
        }
        // Whoever would tell twice has had its turn by then.
        std::thread::sleep(Duration::from_secs(3));
    });
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for request in receiver.received() {
        let body: Value = serde_json::from_str(&request.body).expect("JSON");
        assert_eq!(body["data"]["message_count"], 4, "{body}");
        *told.entry(body["data"]["session_id"].as_str().expect("a name").to_owned()).or_default() += 1;
    }
    assert_eq!(told.len(), sessions, "everybody's end is told");
    assert!(told.values().all(|times| *times == 1), "once: {told:?}");
    shared.close().await;
}
