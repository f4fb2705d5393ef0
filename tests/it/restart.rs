//! The real binary: killed, stopped, started twice, and given files that are not its own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::house::SESSION;
use crate::process::{SERVE, Server, recalld, wait};

/// Nobody but ourselves is asked.
const BUILTIN: [(&str, &str); 1] = [("RECALLD_UPSTREAM", "builtin")];

fn ask(server: &Server, query: &str) -> serde_json::Value {
    let (status, body) =
        server.send("POST", "/chat", &[("x-session-id", SESSION)], &json!({ "query": query }).to_string());
    assert_eq!(status, 200, "{body}");
    body
}

/// C6, P1: `kill -9`, and the conversation goes on; a Dutch follow-up finds the earlier question.
#[test]
fn a_killed_server_remembers() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &BUILTIN);
    ask(&server, "Wat zijn de vereisten voor werken op hoogte?");
    server.kill();

    let server = Server::start(folder.path(), &BUILTIN);
    let answer = ask(&server, "Welke producten heb je daarvoor?");
    assert_eq!(
        (&answer["metadata"]["turn_number"], &answer["metadata"]["messages_in_context"]),
        (&json!(2), &json!(2))
    );
    let text = answer["answer"].as_str().expect("text");
    assert!(text.contains("Wat zijn de vereisten voor werken op hoogte?"), "{text}");
    server.kill();
    let server = Server::start(folder.path(), &BUILTIN);
    let (_, page) = server.send("GET", &format!("/api/v1/sessions/{SESSION}/turns"), &[], "");
    assert_eq!(page["turns"].as_array().map(Vec::len), Some(2));
}

/// C6: a question whose answer never came is found at the next start, and marked.
#[test]
fn a_turn_cut_off_by_a_kill_is_marked_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = silent_upstream();
    let server = Server::start(folder.path(), &[("RECALLD_UPSTREAM", &upstream), ("RECALLD_MODEL", "x")]);
    let mut stream = begin_chat(&server);
    let turns = format!("/api/v1/sessions/{SESSION}/turns");
    let patience = Instant::now() + Duration::from_secs(10);
    while server.send("GET", &turns, &[], "").1["turns"][0]["status"] != "pending" {
        assert!(Instant::now() < patience, "the question never reached the disk");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.kill();
    let _ = stream.read(&mut [0; 16]);

    let server = Server::start(folder.path(), &BUILTIN);
    let (_, page) = server.send("GET", &turns, &[], "");
    assert_eq!(page["turns"][0]["status"], "failed");
    assert_eq!(page["turns"][0]["metadata"]["reason"], "recalld stopped before the answer came");
}

/// A model server that takes questions and never answers.
fn silent_upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().flatten() {
            open.push(stream);
        }
    });
    format!("http://{address}/v1")
}

fn begin_chat(server: &Server) -> std::net::TcpStream {
    let body = json!({"query": "Is anybody there?"}).to_string();
    let mut stream = server.connect().expect("a connection");
    let head = format!(
        "POST /chat HTTP/1.1\r\nhost: localhost\r\nx-session-id: {SESSION}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
    stream
}

/// Section 9: SIGTERM ends the process within ten seconds, whatever is under way, and the turn is kept.
#[test]
fn sigterm_ends_within_ten_seconds_while_a_request_is_under_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = silent_upstream();
    let mut server = Server::start(folder.path(), &[("RECALLD_UPSTREAM", &upstream), ("RECALLD_MODEL", "x")]);
    let _stream = begin_chat(&server);
    std::thread::sleep(Duration::from_millis(300));
    server.terminate();
    let status = server.wait(Duration::from_secs(10)).expect("ended within ten seconds");
    assert_eq!(status.code(), Some(0));

    let server = Server::start(folder.path(), &BUILTIN);
    let (_, page) = server.send("GET", &format!("/api/v1/sessions/{SESSION}/turns"), &[], "");
    assert_eq!(page["turns"][0]["status"], "failed");
}

/// Section 9: an idle server stops at once.
#[test]
fn sigterm_ends_an_idle_server_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path(), &BUILTIN);
    ask(&server, "hello");
    let _idle = server.connect().expect("a connection");
    server.terminate();
    let status = server.wait(Duration::from_secs(3)).expect("ended at once");
    assert_eq!(status.code(), Some(0));
}

/// Starts a server that must refuse to, with this exit code; answers its words.
fn refused(folder: &Path, code: i32) -> String {
    let mut child = recalld(folder, &SERVE, &BUILTIN).spawn().expect("the binary starts");
    let status = wait(&mut child, Duration::from_secs(10));
    if status.is_none() {
        child.kill().expect("it runs");
    }
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(status.and_then(|status| status.code()), Some(code), "{said}");
    said
}

/// Section 8: one process owns a data file; a second one is told who.
#[test]
fn a_second_server_is_told_who_holds_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &BUILTIN);
    let said = refused(folder.path(), 4);
    assert!(
        said.contains(&format!("is in use by process {}, which serves http://{}", server.pid(), server.address)),
        "{said}"
    );
    assert!(said.contains("use another file with --data"), "{said}");
    ask(&server, "still there?");
    server.kill();
    drop(Server::start(folder.path(), &BUILTIN));
}

/// Section 8: what is not ours is left as it is, with a clear word.
#[test]
fn a_file_that_is_not_ours_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.db");
    let words = "Dear diary, today I was nearly opened as a database. ".repeat(100);
    std::fs::write(&file, &words).expect("written");
    let said = refused(folder.path(), 1);
    assert!(said.contains("is not a recalld database"), "{said}");
    assert!(said.contains("hint: name another file with --data; this one is left as it is"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), words);

    std::fs::remove_file(&file).expect("removed");
    let other = rusqlite::Connection::open(&file).expect("a database");
    other.execute_batch("CREATE TABLE theirs (x)").expect("made");
    drop(other);
    let said = refused(folder.path(), 1);
    assert!(said.contains("it is a SQLite database of another program"), "{said}");
}

/// Section 8: a file of a newer version is refused before anything is written.
#[test]
fn a_newer_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    Server::start(folder.path(), &BUILTIN).kill();
    let db = recalld::store::sqlite::connection(&folder.path().join("r.db")).expect("a database");
    db.execute_batch("PRAGMA user_version = 999").expect("set");
    drop(db);
    let said = refused(folder.path(), 1);
    assert!(said.contains("has schema version 999, this binary knows"), "{said}");
    assert!(said.contains("use a newer recalld"), "{said}");
}
