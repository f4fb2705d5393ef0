//! The real binary, started, spoken to over a socket, and killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running server. Killed when it goes out of scope.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

/// The binary with its arguments, in a folder of its own and with nothing of ours in its environment.
pub(crate) fn recalld(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Command {
    let released = std::env::var("RECALLD_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_recalld").to_owned());
    let mut command = Command::new(released);
    let ours = |name: &str| name.starts_with("RECALLD_") || name.starts_with("OPENAI_");
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(arguments).envs(settings.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// What a server is started with: a port of the system's choice and a data file.
pub(crate) const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--data", "r.db"];

impl Server {
    /// Starts a server on `r.db` in a folder, and waits until it says where it listens.
    pub(crate) fn start(folder: &Path, settings: &[(&str, &str)]) -> Self {
        Self::start_heard(folder, settings, drop)
    }

    /// The same, with somebody who hears every line of its log.
    pub(crate) fn start_heard(
        folder: &Path,
        settings: &[(&str, &str)],
        mut hear: impl FnMut(String) + Send + 'static,
    ) -> Self {
        let mut child = recalld(folder, &SERVE, settings).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = String::new();
        let address = loop {
            let line = lines.next().and_then(Result::ok).unwrap_or_else(|| panic!("the server gave up:\n{said}"));
            if let Some(address) = line.trim().strip_prefix("url").and_then(|rest| rest.trim().strip_prefix("http://"))
            {
                break address.to_owned();
            }
            said.push_str(&line);
            said.push('\n');
            hear(line);
        };
        // Somebody must go on reading, or the server would stop at a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(hear));
        let server = Self { child, address };
        let patience = Instant::now() + Duration::from_secs(10);
        while Instant::now() < patience && server.try_send("GET", "/readyz", &[], "").is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`: no time to say goodbye.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Asks the server to stop.
    pub(crate) fn terminate(&self) {
        let done = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().expect("kill runs");
        assert!(done.success());
    }

    /// How it ended, if it did in time.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        wait(&mut self.child, patience)
    }

    /// One request on a connection of its own.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        self.try_send(method, path, headers, body).expect("an answer")
    }

    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<(u16, Value)> {
        let (status, _, body) = send_to(&self.address, method, path, headers, body)?;
        Some((status, serde_json::from_str(&body).unwrap_or(Value::Null)))
    }

    pub(crate) fn connect(&self) -> Option<TcpStream> {
        connect(&self.address)
    }
}

fn connect(address: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    Some(stream)
}

/// One request on a connection of its own: status, head and body of what comes back.
pub(crate) fn send_to(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String, String)> {
    let mut stream = connect(address)?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in [("content-type", "application/json")].iter().chain(headers) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, head.to_owned(), body.to_owned()))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a process ended, if it did in time.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}
