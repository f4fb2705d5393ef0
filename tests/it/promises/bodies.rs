//! What is read costs what it should: the streams of an upstream, and what is the same for everybody.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::Response;
use http_body_util::BodyExt;
use recalld::model::ModelError;
use serde_json::{Value, json};

use crate::house::House;
use crate::openai::CHAT;
use crate::process::Server;
use crate::upstream::{Reply, recording};

const MIB: usize = 1 << 20;

fn server(settings: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), settings);
    (folder, server)
}

/// Sends a head and comments without end to everybody who connects.
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
