//! A line to the database that can be cut, held, and broken at any byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::Duration;

/// What the line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// Carries everything.
    Whole = 0,
    /// Ends every connection, and every new one at once.
    Cut = 1,
    /// Takes connections and carries nothing.
    Held = 2,
    /// Ends every connection after some more bytes.
    Broken = 3,
}

/// The line.
pub(super) struct Proxy {
    pub(super) port: u16,
    state: Arc<State>,
}

struct State {
    line: AtomicU8,
    /// How many bytes a broken line carries on each connection.
    bytes: AtomicI64,
}

impl Proxy {
    pub(super) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let state = Arc::new(State { line: AtomicU8::new(0), bytes: AtomicI64::new(0) });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || carry(client, port, &state));
            }
        });
        Self { port: own, state }
    }

    /// From now on the line does this; a broken one carries so many more bytes on each connection.
    pub(super) fn set(&self, line: Wire, bytes: i64) {
        self.state.bytes.store(bytes, Ordering::SeqCst);
        self.state.line.store(line as u8, Ordering::SeqCst);
    }
}

fn carry(client: TcpStream, port: u16, state: &Arc<State>) {
    if state.line.load(Ordering::SeqCst) == Wire::Cut as u8 {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (Ok(from), Ok(to)) = (server.try_clone(), client.try_clone()) else { return };
    let shared = Arc::clone(state);
    let back = std::thread::spawn(move || copy(from, to, &shared));
    copy(client, server, state);
    let _ = back.join();
}

/// Carries bytes one way until either end is gone, or the line is.
fn copy(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(20)));
    let (mut buffer, mut broken_after) = ([0; 4_096], None);
    loop {
        let line = state.line.load(Ordering::SeqCst);
        if line == Wire::Held as u8 {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        if line == Wire::Cut as u8 {
            break;
        }
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        let mut carried = read;
        if state.line.load(Ordering::SeqCst) == Wire::Broken as u8 {
            let left = broken_after.get_or_insert_with(|| state.bytes.load(Ordering::SeqCst));
            carried = read.min(usize::try_from(*left).unwrap_or(0));
            *left -= read as i64;
        } else {
            broken_after = None;
        }
        if to.write_all(&buffer[..carried]).is_err() || carried < read {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
