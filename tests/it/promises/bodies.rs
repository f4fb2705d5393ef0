//! What is read costs what it should: request bodies all together and one by one, and the streams of an upstream.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::Response;
use futures_util::stream;
use http_body_util::BodyExt;
use recalld::model::ModelError;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::house::{Answer, House};
use crate::openai::CHAT;
use crate::process::Server;
use crate::upstream::{Reply, recording};

const MIB: usize = 1 << 20;

/// A house with 8 MiB for all bodies together, where the address of a client stands in a header.
fn house() -> House {
    let plan = House::plan().setting(|settings| {
        settings.bodies_bytes_max = 8 * MIB;
        settings.document_bytes_max = 4 * MIB;
        settings.client_address_header = "x-client".into();
        settings.knowledge_parser = env!("CARGO_BIN_EXE_recalld").into();
    });
    plan.open()
}

/// A body that has arrived up to here, and stands still.
struct Standing(mpsc::Sender<Bytes>);

impl Standing {
    /// Begins an upload from an address, and waits until that many bytes of it were taken.
    async fn upload(house: &House, address: &str, bytes: usize) -> (Self, impl Future<Output = Answer>) {
        let (pieces, taken) = mpsc::channel::<Bytes>(1);
        let body = stream::unfold(taken, |mut taken| async {
            taken.recv().await.map(|piece| (Ok::<_, std::io::Error>(piece), taken))
        });
        let ask = house.post("/api/v1/knowledge?name=a.txt").header("x-client", address);
        let mut answer = Box::pin(ask.header("content-type", "text/plain").body(Body::from_stream(body)));
        let standing = Self(pieces);
        let fed = async {
            for piece in vec![b'x'; bytes].chunks(MIB / 4) {
                standing.0.send(Bytes::copy_from_slice(piece)).await.ok();
            }
            // A channel of one: when this is taken in, what came before was read.
            standing.0.send(Bytes::new()).await.ok();
            standing.0.send(Bytes::new()).await.ok();
        };
        tokio::select! { () = fed => {}, _ = &mut answer => panic!("it was answered before it ended") }
        (standing, answer)
    }
}

/// An upload of one piece.
async fn upload(house: &House, address: &str, bytes: usize) -> Answer {
    let ask = house.post("/api/v1/knowledge?name=a.txt").header("x-client", address);
    ask.header("content-type", "text/plain").body(Body::from(vec![b'x'; bytes])).await
}

async fn question(house: &House, address: &str) -> u16 {
    house.post("/chat").header("x-client", address).json(json!({"query": "Hello?"})).await.status
}

#[tokio::test]
async fn all_bodies_together_have_one_budget() {
    let house = house();
    let proxy = "127.0.0.1";
    let (first, _first) = Standing::upload(&house, proxy, 3 * MIB).await;
    let (_second, _rest) = Standing::upload(&house, proxy, 3 * MIB).await;
    let refused = upload(&house, proxy, MIB / 2).await;
    assert_eq!((refused.refusal(), &refused.headers["retry-after"]), ((503, "busy"), &"1".parse().expect("a value")));
    assert_eq!(question(&house, proxy).await, 200, "small bodies have room left");
    drop((first, _first));
    assert_eq!(upload(&house, proxy, MIB / 2).await.status, 201, "what a request took is given back");
}

#[tokio::test]
async fn one_address_leaves_half_of_the_budget_to_others() {
    let house = house();
    let (_first, _answer) = Standing::upload(&house, "192.0.2.1", 2 * MIB).await;
    let (_second, _rest) = Standing::upload(&house, "192.0.2.1", 2 * MIB - 16).await;
    assert_eq!(question(&house, "192.0.2.1").await, 503);
    assert_eq!(question(&house, "192.0.2.2").await, 200);
    assert_eq!(upload(&house, "192.0.2.2", MIB).await.status, 201);
}

/// Eight megabytes of text are eight in memory; of small numbers they would be hundreds.
#[tokio::test]
async fn a_body_is_weighed_by_what_it_becomes() {
    let house = House::open();
    let numbers = format!("{{\"query\":\"q\",\"x\":[{}0]}}", "0,".repeat(3_000_000));
    let answer = house.post("/chat").header("content-type", "application/json").body(Body::from(numbers)).await;
    assert_eq!(answer.refusal(), (413, "body_too_large"));
    let text = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(7_000_000)}]});
    let answer = house.post(CHAT).json(text).await;
    assert_ne!(answer.code(), "body_too_large", "{}", answer.text());
}

fn server(settings: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), settings);
    (folder, server)
}

/// Begins a request with a body in chunks.
fn chunked(server: &Server, path: &str, kind: &str) -> TcpStream {
    let mut stream = server.connect().expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

fn send_chunk(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&chunk).is_ok()
}

/// The status that an answer begins with.
fn status(mut stream: TcpStream) -> Option<u16> {
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head).ok()?.split(' ').nth(1)?.parse().ok()
}

#[test]
fn a_trickle_ends_though_its_pauses_are_short() {
    let (_folder, server) = server(&[("RECALLD_UPSTREAM", "builtin"), ("RECALLD_BODY_TIMEOUT", "1s")]);
    for (path, kind) in [("/api/v1/import", "application/x-ndjson"), ("/chat", "application/json")] {
        let mut stream = chunked(&server, path, kind);
        let (mut reading, begun) = (stream.try_clone().expect("a socket"), Instant::now());
        reading.set_nonblocking(true).expect("a socket");
        while begun.elapsed() < Duration::from_secs(10) && reading.read(&mut [0]).is_err() {
            send_chunk(&mut stream, b" ");
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{path}: the trickle still runs");
    }
}

#[test]
fn a_body_that_keeps_its_pace_may_take_longer_than_the_timeout() {
    let (_folder, server) = server(&[("RECALLD_UPSTREAM", "builtin"), ("RECALLD_BODY_TIMEOUT", "1s")]);
    let mut stream = chunked(&server, "/chat", "application/json");
    for _ in 0..20 {
        send_chunk(&mut stream, &[b' '; 10_000]);
        std::thread::sleep(Duration::from_millis(100));
    }
    send_chunk(&mut stream, br#"{"query":"Hello?"}"#);
    stream.write_all(b"0\r\n\r\n").expect("sent");
    assert_eq!(status(stream), Some(200));
}

/// Sends a head and endless comments on every connection.
fn endless_comments() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 65_536]);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                let comments = ": still thinking\n\n".repeat(1_000);
                let mut open = stream.write_all(head.as_bytes()).is_ok();
                while open {
                    open = stream.write_all(comments.as_bytes()).is_ok();
                }
            });
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn an_upstream_that_only_comments_is_given_up() {
    let upstream = endless_comments();
    let (_folder, server) = server(&[("RECALLD_UPSTREAM", &upstream), ("RECALLD_MODEL", "m")]);
    let user = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hello?"}]});
    for (path, body) in [("/chat", json!({"query": "Hello?"})), ("/v1/chat/completions", user)] {
        let mut stream = server.connect().expect("a connection");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let (begun, mut read) = (Instant::now(), 0);
        let mut piece = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = stream.read(&mut piece) {
            read += bytes;
            assert!(read < 16 * MIB && begun.elapsed() < Duration::from_secs(20), "{path}: {read} bytes and no end");
        }
        assert!(read > 0, "{path}: an answer");
    }
}

/// A client of `/v1` is told, and what was said before is kept.
#[tokio::test]
async fn a_turn_ends_where_its_comments_become_too_many() {
    let upstream = recording();
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Well\"}}]}\n\n";
    let comment = ": still thinking, still thinking, still thinking, still thinking\n\n";
    let few = std::iter::repeat_n(comment, 10_000);
    let reply = |comments: usize| {
        let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        Reply::Raw(
            [said].into_iter().chain(few.clone().cycle().take(comments)).chain([end]).collect(),
            None::<ModelError>,
        )
    };
    let house = House::plan().upstream(Arc::clone(&upstream) as _).open();
    let ask = async |comments: usize| {
        upstream.then(reply(comments));
        let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hello?"}]});
        house.post(CHAT).json(body).await
    };
    let patient = ask(10_000).await;
    assert!(patient.text().ends_with("data: [DONE]\n\n"), "ten thousand comments are a model that thinks");
    let endless = ask(40_000).await;
    assert!(endless.text().contains("are comments"), "{}", &endless.text()[..200]);
}

async fn first_piece(answer: Response<Body>) -> Bytes {
    let frame = answer.into_body().frame().await.expect("a piece").expect("no error");
    frame.into_data().expect("data")
}

#[tokio::test]
async fn the_description_is_made_once() {
    let house = House::open();
    let [first, second] =
        [house.get("/openapi.json").stream(Value::Null), house.get("/openapi.json").stream(Value::Null)];
    let (first, second) = (first_piece(first.await).await, first_piece(second.await).await);
    assert!(first.len() > 10_000);
    assert_eq!(first.as_ptr(), second.as_ptr(), "both are the same bytes in memory");
}
