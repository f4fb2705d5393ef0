//! A Redis that is paused, killed or empty: visitors are told, nobody else notices, and nothing hangs. A real server of its own, which
//! `RECALLD_TEST_REDIS_SERVER` names (see `scripts/services`).

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Server, recalld};

/// A Redis that belongs to its test.
struct OwnRedis {
    child: Child,
    port: u16,
    program: String,
}

impl OwnRedis {
    fn start() -> Option<Self> {
        let Ok(program) = std::env::var("RECALLD_TEST_REDIS_SERVER") else {
            println!("SKIPPED: RECALLD_TEST_REDIS_SERVER is not set; `scripts/services start`");
            return None;
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        Some(Self { child: spawn(&program, port), port, program })
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    fn signal(&self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(done.success());
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    fn start_again(&mut self) {
        self.child = spawn(&self.program, self.port);
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &str, port: u16) -> Child {
    let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let mut command = Command::new(program);
    let child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Redis starts");
    let patience = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < patience, "Redis does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn visit(server: &Server, words: &str) -> (u16, Value) {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": words}]}).to_string();
    server.send("POST", "/v1/acme:v/chat/completions", &[], &body)
}

/// Visits until one is let in.
fn visit_in_the_end(server: &Server, words: &str) {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let (status, body) = visit(server, words);
        if status == 200 {
            return;
        }
        assert!(Instant::now() < patience, "{status}: {body}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn chat(server: &Server) -> u16 {
    server.send("POST", "/chat", &[], r#"{"query": "Hello, my name is Ann."}"#).0
}

fn messages(server: &Server) -> Value {
    server.send("GET", "/api/v1/sessions/acme:v", &[], "").1["message_count"].clone()
}

fn metric(server: &Server, name: &str) -> String {
    let mut stream = server.connect().expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

#[track_caller]
fn check_refused((status, body): (u16, Value)) {
    assert_eq!((status, &body["error"]["code"]), (503, &json!("sessions_unreachable")), "{body}");
    assert!(
        body["error"]["message"].is_string() && body["error"]["type"].is_string(),
        "as OpenAI's errors are: {body}"
    );
}

/// A visitor gets a clear 503 while Redis is paused or gone, and everybody else an answer. When it is back, what it kept is there, and what
/// it lost is said to be lost.
#[test]
fn a_redis_that_is_away_costs_visitors_alone() {
    let Some(mut redis) = OwnRedis::start() else { return };
    let (folder, url) = (tempfile::tempdir().expect("a folder"), redis.url());
    let server = Server::start(folder.path(), &[("RECALLD_UPSTREAM", "builtin"), ("RECALLD_LIVE_URL", &url)]);
    assert_eq!(visit(&server, "Hello").0, 200);
    redis.signal("-STOP");
    for _ in 0..2 {
        check_refused(visit(&server, "Are you there?"));
        assert_eq!(chat(&server), 200, "a durable turn never needs Redis");
        assert_eq!(server.send("GET", "/readyz", &[], "").0, 200);
    }
    redis.signal("-CONT");
    visit_in_the_end(&server, "And now?");
    let known = messages(&server).as_u64().expect("a count");
    assert!(known >= 4, "what was said before is there: {known}");
    redis.kill();
    check_refused(visit(&server, "Gone?"));
    assert_eq!(chat(&server), 200);
    redis.start_again();
    visit_in_the_end(&server, "I begin anew.");
    assert_eq!(messages(&server), 2, "live sessions are lost with Redis");
    assert_eq!(metric(&server, "recalld_live_store_losses_total"), "1");
    assert!(metric(&server, "recalld_live_store_failures_total") != "0");
    let doctor = |setting: (&str, &str)| {
        let arguments = ["doctor", "--json", "--data", "r.db"];
        let output = recalld(folder.path(), &arguments, &[setting]).stdout(Stdio::piped()).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = doctor(("RECALLD_LIVE_URL", &url));
    assert!(told.contains("answers and has 1 session"), "{told}");
    let told = doctor(("RECALLD_SERVER", &format!("http://{}", server.address)));
    assert!(told.contains("lost with Redis since the server started"), "{told}");
}

/// A server starts while Redis is away, and lets visitors in when it comes.
#[test]
fn a_server_starts_without_its_redis() {
    let Some(mut redis) = OwnRedis::start() else { return };
    redis.kill();
    let (folder, url) = (tempfile::tempdir().expect("a folder"), redis.url());
    let server = Server::start(folder.path(), &[("RECALLD_UPSTREAM", "builtin"), ("RECALLD_LIVE_URL", &url)]);
    assert_eq!(chat(&server), 200);
    check_refused(visit(&server, "Hello?"));
    redis.start_again();
    visit_in_the_end(&server, "Hello!");
    assert_eq!(messages(&server), 2);
}
