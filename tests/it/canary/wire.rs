//! Requests byte by byte, so that a client can leave at any of them.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// Where a client leaves: after so many bytes of its request, or of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaves {
    Asking(usize),
    Reading(usize),
}

/// What a client heard, head and body; perhaps not all of it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) status: Option<u16>,
    pub(super) head: String,
    pub(super) body: String,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request on a connection of its own and reads the answer, or leaves.
pub(super) async fn send(address: &str, request: &Request, leaves: Option<Leaves>) -> Heard {
    timeout(PATIENCE, talk(address, request, leaves)).await.expect("an answer in time").unwrap_or_default()
}

async fn talk(address: &str, request: &Request, leaves: Option<Leaves>) -> std::io::Result<Heard> {
    let mut stream = TcpStream::connect(address).await?;
    let bytes = written(request);
    let (sent, read_max) = match leaves {
        None => (bytes.len(), usize::MAX),
        Some(Leaves::Asking(after)) => (after % bytes.len(), 0),
        Some(Leaves::Reading(after)) => (bytes.len(), after),
    };
    stream.write_all(&bytes[..sent]).await?;
    let (mut answer, mut piece) = (Vec::new(), [0_u8; 8192]);
    while answer.len() < read_max {
        let room = piece.len().min(read_max - answer.len());
        match stream.read(&mut piece[..room]).await {
            Ok(n) if n > 0 => answer.extend(&piece[..n]),
            _ => break,
        }
    }
    Ok(heard(&answer))
}

fn written(request: &Request) -> Vec<u8> {
    let Request { method, path, headers, body } = request;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str("content-type: application/json\r\n");
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

fn heard(answer: &[u8]) -> Heard {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = end.map_or((answer, &b""[..]), |at| (&answer[..at], &answer[at + 4..]));
    let head = String::from_utf8_lossy(head).into_owned();
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { joined(body) } else { body.to_vec() };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Heard { status, head, body: String::from_utf8_lossy(&body).into_owned() }
}

/// The bytes of chunks, as far as they came.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(at) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).ok().and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
        let (Some(size), body) = (size, &rest[at + 2..]) else { break };
        all.extend(&body[..size.min(body.len())]);
        rest = body.get(size + 2..).unwrap_or_default();
    }
    all
}

#[test]
fn chunks_are_put_together_however_little_came() {
    assert_eq!(joined(b"3\r\nzqx\r\n2\r\nab\r\n0\r\n\r\n"), b"zqxab");
    assert_eq!(joined(b"3\r\nzqx\r\n9\r\nab"), b"zqxab");
    let heard = heard(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    assert_eq!((heard.status, heard.body.as_str()), (Some(200), "x"));
}
