//! No client keeps others out by holding connections: neither with HTTP/2 frames that are no request, nor by not reading,
//! nor by their number. And an honest connection is kept between two requests.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::process::Server;

/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server whose timeouts for heads and bodies are a second.
fn server(settings: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let usual = [("RECALLD_UPSTREAM", "builtin"), ("RECALLD_HEADER_TIMEOUT", "1s"), ("RECALLD_BODY_TIMEOUT", "1s")];
    let server = Server::start(folder.path(), &[&usual, settings].concat());
    (folder, server)
}

/// A connection that comes from this address of the loopback network.
fn connect_from(address: &str, server: &Server) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let to: SocketAddr = server.address.parse().expect("an address");
    let from: SocketAddr = format!("{address}:0").parse().expect("an address");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(from).expect("an address of the loopback network");
        socket.connect(to).await.expect("a connection")
    });
    let stream = stream.into_std().expect("a socket");
    stream.set_nonblocking(false).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Asks on a connection that stays open. Answers the status, or nothing if the connection has ended.
fn ask(stream: &mut TcpStream) -> Option<u16> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(b"}") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        read.push(byte[0]);
    }
    String::from_utf8(read).ok()?.split(' ').nth(1)?.parse().ok()
}

fn healthy(server: &Server) -> bool {
    server.try_send("GET", "/healthz", &[], "").is_some_and(|(status, _)| status == 200)
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOODBYE: u8 = 7;
/// The last frame of a stream, or an answer to `SETTINGS` and `PING`.
const END_OR_ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// An HTTP/2 connection, frame by frame.
struct Http2(TcpStream);

impl Http2 {
    /// Begins with these settings: number and value.
    fn begin(mut stream: TcpStream, settings: &[(u16, u32)]) -> Self {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
        let mut client = Self(stream);
        let payload =
            settings.iter().flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat());
        assert!(client.send(SETTINGS, 0, 0, &payload.collect::<Vec<_>>()));
        client
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).is_ok()
    }

    /// Asks for a path on a stream.
    fn get(&mut self, stream: u32, path: &str) {
        // Of the static table: GET, http; then `:path` and `:authority` with values of their own.
        let mut head = vec![0x82, 0x86, 0x04, path.len() as u8];
        head.extend(path.as_bytes());
        head.extend([0x01, 9]);
        head.extend(b"localhost");
        assert!(self.send(HEADERS, END_OR_ACK | END_HEADERS, stream, &head));
    }

    /// The next frame: its kind, flags, stream and payload; nothing once the connection has ended.
    fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
    }

    /// Reads on and answers everything that wants an answer, pings as well, until a frame of this kind comes. Answers whether it
    /// came before the connection ended; fails when neither happens in time.
    fn wait_for(&mut self, wanted: Option<u8>) -> bool {
        let begun = Instant::now();
        while let Some((kind, flags, stream, payload)) = self.frame() {
            if Some(kind) == wanted {
                return true;
            }
            if matches!(kind, SETTINGS | PING) && flags & END_OR_ACK == 0 {
                let payload = if kind == PING { payload } else { Vec::new() };
                self.send(kind, END_OR_ACK, stream, &payload);
            }
            // Pings of one's own ask for more frames, so that a connection that stays open does not fall silent.
            std::thread::sleep(Duration::from_millis(20));
            self.send(PING, 0, 0, b"still on");
            assert!(begun.elapsed() < PATIENCE, "the connection is still open");
        }
        false
    }
}

#[test]
fn an_http2_connection_without_a_stream_ends_though_pings_are_answered() {
    let (_folder, server) = server(&[]);
    let mut never_asked = Http2::begin(server.connect().expect("a connection"), &[]);
    let mut asked = Http2::begin(server.connect().expect("a connection"), &[]);
    asked.get(1, "/healthz");
    assert!(asked.wait_for(Some(DATA)), "an answer comes first");
    never_asked.wait_for(None);
    assert!(asked.wait_for(Some(GOODBYE)), "a client that was served is told before it ends");
    asked.wait_for(None);
}

#[test]
fn a_window_of_zero_does_not_hold_a_place() {
    let (_folder, server) = server(&[("RECALLD_CONNECTIONS_MAX", "1")]);
    let window = (4, 0);
    let mut client = Http2::begin(server.connect().expect("a connection"), &[window]);
    client.get(1, "/openapi.json");
    client.get(3, "/healthz");
    assert!(client.wait_for(Some(HEADERS)));
    assert!(client.wait_for(Some(RESET)), "the answer that is not taken is given up");
    client.wait_for(None);
    assert!(healthy(&server), "its place is free");
}

#[test]
fn an_http1_client_that_stops_reading_does_not_hold_a_place() {
    let (_folder, server) = server(&[("RECALLD_CONNECTIONS_MAX", "1")]);
    let mut stream = server.connect().expect("a connection");
    let requests = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    stream.write_all(requests.as_bytes()).expect("sent");
    assert!(healthy(&server), "its place is free");
}

#[test]
fn a_slow_reader_that_goes_on_gets_all_of_it() {
    let (_folder, server) = server(&[]);
    let mut stream = server.connect().expect("a connection");
    let requests = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    stream.write_all(requests.as_bytes()).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let (begun, mut read, mut piece) = (Instant::now(), 0, vec![0; 1 << 20]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) => panic!("it broke off after {read} bytes: {error}"),
        }
        // Longer than the timeout altogether, and never so long at once.
        if begun.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let (status, _) = server.send("GET", "/openapi.json", &[], "");
    assert_eq!(status, 200);
    assert!(read > 10_000_000, "{read} bytes");
}

/// With nothing set, one address can have half of all places; this machine's own address is a proxy's and may have all.
#[test]
fn one_address_has_half_of_all_places() {
    let settings = [("RECALLD_CONNECTIONS_MAX", "4"), ("RECALLD_HEADER_TIMEOUT", "60s")];
    let (_folder, server) = server(&settings);
    let _held = [(); 2].map(|()| connect_from("127.0.0.2", &server));
    let _more = [(); 8].map(|()| connect_from("127.0.0.2", &server));
    assert!(healthy(&server), "others have places");
    let mut refused = String::new();
    let ended = connect_from("127.0.0.2", &server).read_to_string(&mut refused);
    assert!(ended.is_ok() && refused.starts_with("HTTP/1.1 503 "), "{ended:?} {refused}");
    let (head, body) = refused.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("x-recalld-code: too_many_connections"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head} {}", body.len());
    let held = [(); 2].map(|()| server.connect().expect("a connection"));
    let mut waiting = connect_from("127.0.0.3", &server);
    drop(held);
    assert_eq!(ask(&mut waiting), Some(200), "all four were taken, now two are free");
}

#[test]
fn a_trusted_proxy_may_have_all_places() {
    let settings = [
        ("RECALLD_CONNECTIONS_MAX", "4"),
        ("RECALLD_CONNECTIONS_PER_ADDRESS_MAX", "1"),
        ("RECALLD_TRUSTED_PROXIES", "127.0.0.2, 127.8.0.0/16"),
    ];
    let (_folder, server) = server(&settings);
    let mut of_a_proxy = ["127.0.0.2", "127.8.1.1", "127.8.1.1"].map(|address| connect_from(address, &server));
    for connection in &mut of_a_proxy {
        assert_eq!(ask(connection), Some(200));
    }
    let mut own = server.connect().expect("a connection");
    assert_eq!(ask(&mut own), Some(200));
}

/// A proxy or a pool sends its next request a minute later, and gets no reset for it.
#[test]
fn an_answered_http1_connection_outlives_the_header_timeout() {
    let (_folder, server) = server(&[("RECALLD_HEADER_TIMEOUT", "200ms")]);
    let mut stream = server.connect().expect("a connection");
    assert_eq!(ask(&mut stream), Some(200));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(ask(&mut stream), Some(200));
    // A head that has begun has to end, on such a connection too.
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: lo").expect("sent");
    let ended = stream.read_to_end(&mut Vec::new());
    assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "half a head holds the connection");
}

#[test]
fn the_longest_idle_connection_makes_room() {
    let (_folder, server) = server(&[("RECALLD_CONNECTIONS_MAX", "2"), ("RECALLD_HEADER_TIMEOUT", "60s")]);
    let mut longest = server.connect().expect("a connection");
    assert_eq!(ask(&mut longest), Some(200));
    let mut other = server.connect().expect("a connection");
    assert_eq!(ask(&mut other), Some(200));
    assert!(healthy(&server), "somebody else is served");
    assert_eq!(ask(&mut longest), None);
    assert_eq!(ask(&mut other), Some(200));
}
