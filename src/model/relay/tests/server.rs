//! A server on the loopback address that does what it is told, down to the byte, and counts.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::model::openai::{OpenAi, OpenAiSettings};

pub(super) const KEY: &str = "sk-very-secret";

/// What is sent to whoever asks, and what happens then.
pub(super) struct Script {
    pub(super) bytes: Vec<u8>,
    pub(super) then: Then,
}

pub(super) enum Then {
    Close,
    /// The connection breaks with an error on the other side.
    Reset,
    /// Nothing more is sent until the other side leaves.
    Hang,
    /// This is sent until the other side leaves.
    Repeat(Vec<u8>),
}

/// What the server has seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) address: String,
    pub(super) requests: AtomicUsize,
    /// Connections that are over. One that hangs or repeats is over when the other side leaves.
    pub(super) left: AtomicUsize,
    pub(super) bytes_sent: AtomicUsize,
    pub(super) last_request: Mutex<String>,
}

impl Seen {
    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Waits until somebody left.
    pub(super) async fn somebody_left(&self) -> bool {
        for _ in 0..100 {
            if self.left.load(Ordering::SeqCst) > 0 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

/// Plays a script to everyone who asks; it may depend on how many asked before.
pub(super) fn playing(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> (OpenAi, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let (seen, script) = (Arc::new(Seen { address, ..Seen::default() }), Arc::new(script));
    let watching = seen.clone();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (seen, script) = (watching.clone(), script.clone());
            thread::spawn(move || play(socket, &seen, &*script));
        }
    });
    (OpenAi::new(settings(&seen.url())).expect("good settings"), seen)
}

/// The same answer to everyone.
pub(super) fn answering(bytes: impl Into<Vec<u8>>, then: fn() -> Then) -> (OpenAi, Arc<Seen>) {
    let bytes = bytes.into();
    playing(move |_| Script { bytes: bytes.clone(), then: then() })
}

/// More patience than a busy machine needs.
pub(super) fn settings(base_url: &str) -> OpenAiSettings {
    OpenAiSettings {
        base_url: base_url.into(),
        key: Some(KEY.into()),
        model: "small".into(),
        connect_timeout: Duration::from_secs(5),
        first_byte_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
        retries_max: 2,
    }
}

fn play(mut socket: TcpStream, seen: &Seen, script: &(impl Fn(usize) -> Script + ?Sized)) {
    let Script { bytes, then } = script(seen.requests.fetch_add(1, Ordering::SeqCst));
    if matches!(then, Then::Reset) {
        // Closing a socket with something left to read is what makes it break on the other side.
        let _ = socket.read(&mut [0; 8]);
    } else {
        *seen.last_request.lock().expect("no panics") = request(&mut socket);
    }
    let _ = socket.write_all(&bytes);
    match then {
        Then::Close => {}
        // What has not been read yet when the connection breaks would be lost with it.
        Then::Reset => thread::sleep(Duration::from_millis(60)),
        Then::Hang => while socket.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {},
        Then::Repeat(bytes) => {
            while socket.write_all(&bytes).is_ok() {
                seen.bytes_sent.fetch_add(bytes.len(), Ordering::SeqCst);
            }
        }
    }
    seen.left.fetch_add(1, Ordering::SeqCst);
}

/// Reads a request to its end.
fn request(socket: &mut TcpStream) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).to_lowercase();
        let length = |head: &str| {
            let value = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
            value.trim().parse::<usize>().ok()
        };
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| body.len() >= length(head).unwrap_or(0));
        if whole {
            return String::from_utf8_lossy(&all).into_owned();
        }
        match socket.read(&mut buffer) {
            Ok(read) if read > 0 => all.extend_from_slice(&buffer[..read]),
            _ => return String::new(),
        }
    }
}
