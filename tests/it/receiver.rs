//! A receiver of webhooks on the loopback address: it takes what it is sent, or misbehaves as told, and remembers all of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How it answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// 204, with thanks.
    Takes,
    /// A status, and a body that nobody should read to its end.
    Fails(u16),
    /// Never.
    Hangs,
    /// "Try over there", on the same server.
    Redirects,
    /// It hangs up without a word.
    Closes,
    /// Something that is not HTTP.
    Babbles,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) path: String,
    head: String,
    pub(crate) body: String,
}

impl Received {
    /// The value of a header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

/// The server. When its script is over it takes everything.
pub(crate) struct Receiver {
    script: Mutex<VecDeque<Mood>>,
    received: Mutex<Vec<Received>>,
    pub(crate) port: u16,
}

impl Receiver {
    /// Starts one with a script.
    pub(crate) async fn start(script: &[Mood]) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let script = Mutex::new(script.iter().copied().collect());
        let receiver = Arc::new(Self { script, received: Mutex::default(), port });
        let answering = Arc::clone(&receiver);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let receiver = Arc::clone(&answering);
                tokio::spawn(async move { receiver.serve(socket).await });
            }
        });
        receiver
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks", self.port)
    }

    /// Everything it was sent, oldest first.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn serve(&self, mut socket: TcpStream) {
        let Some(request) = read(&mut socket).await else { return };
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let mood = self.script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let long = "x".repeat(1 << 20);
        let answer = match mood.unwrap_or(Mood::Takes) {
            Mood::Takes => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            Mood::Fails(status) => format!("HTTP/1.1 {status} No\r\ncontent-length: {}\r\n\r\n{long}", long.len()),
            Mood::Redirects => {
                let to = format!("http://127.0.0.1:{}/elsewhere", self.port);
                format!("HTTP/1.1 307 Over There\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
            }
            Mood::Hangs => return std::future::pending().await,
            Mood::Closes => return,
            Mood::Babbles => "Who is there?\r\n\r\n".to_owned(),
        };
        let _ = socket.write_all(answer.as_bytes()).await;
    }
}

async fn read(socket: &mut TcpStream) -> Option<Received> {
    let (mut bytes, mut piece) = (Vec::new(), [0_u8; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let request =
                Received { path: head.split(' ').nth(1)?.to_owned(), head: head.to_owned(), body: body.to_owned() };
            if request.header("content-length").parse() == Ok(body.len()) {
                return Some(request);
            }
        }
        match socket.read(&mut piece).await {
            Ok(n) if n > 0 => bytes.extend(&piece[..n]),
            _ => return None,
        }
    }
}
