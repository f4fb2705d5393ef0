//! Clients that hold a connection and do not behave.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::process::Server;

fn impatient(connections_max: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        ("RECALLD_UPSTREAM", "builtin"),
        ("RECALLD_HEADER_TIMEOUT", "1s"),
        ("RECALLD_CONNECTIONS_MAX", connections_max),
    ];
    let server = Server::start(folder.path(), &settings);
    (folder, server)
}

fn say(server: &Server, words: &str) -> TcpStream {
    let mut stream = server.connect().expect("a connection");
    stream.write_all(words.as_bytes()).expect("sent");
    stream
}

/// P8: whoever says nothing, or half of something, is let go.
#[test]
fn a_client_that_does_not_speak_is_let_go() {
    let (_folder, server) = impatient("100");
    let silent = ["", "PRI * HTTP/2.0", "GET /healthz HTTP/1.1\r\nhost: loc"].map(|words| say(&server, words));
    let begun = Instant::now();
    for mut stream in silent {
        let ended = stream.read_to_end(&mut Vec::new());
        let timed_out = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out && begun.elapsed() < Duration::from_secs(10), "still open after {:?}", begun.elapsed());
    }
    assert_eq!(server.send("GET", "/healthz", &[], "").0, 200);
}

/// P7: beyond the bound a client waits until another one leaves.
#[test]
fn clients_beyond_the_bound_wait_their_turn() {
    let (_folder, server) = impatient("2");
    let first = say(&server, "");
    let _second = say(&server, "");
    let begun = Instant::now();
    drop(first);
    assert_eq!(server.send("GET", "/healthz", &[], "").0, 200, "somebody left, so there is a place");
    let _third = say(&server, "");
    assert_eq!(server.send("GET", "/healthz", &[], "").0, 200, "the silent ones are let go in time");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// A body that is announced as too large is refused before it is sent.
#[test]
fn a_body_announced_as_too_large_is_refused_at_once() {
    let (_folder, server) = impatient("10");
    let head = "POST /chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut stream = say(&server, &format!("{head}content-length: 99999999\r\n\r\n{{"));
    let begun = Instant::now();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the body");
}

/// A head over the bound is refused, not read on.
#[test]
fn an_endless_head_is_refused() {
    let (_folder, server) = impatient("10");
    let mut stream = say(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ");
    let mut sent = 0;
    while sent < 10_000_000 && stream.write_all(&[b'x'; 4_096]).is_ok() {
        sent += 4_096;
    }
    assert!(sent < 10_000_000, "the server goes on reading");
}
