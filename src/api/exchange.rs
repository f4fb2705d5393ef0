//! One request and its answer, as its connection sees them: when it begins, when it ends, and whether the client takes
//! the answer.
//!
//! On HTTP/1 a client that does not take its answer blocks the stream, which `stream` sees. On HTTP/2 a window of zero
//! blocks one answer while frames of control still pass, so there each answer is timed by itself, and what ends is its
//! stream: the other streams of a connection may be other people's.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Version;
use hyper::body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::Instant;

use super::budget::Reservation;
use super::connections::Connection;
use super::pace::Pace;

/// Bytes of an answer that are handed to a connection at once. While these wait in an HTTP/2 window the answer may count
/// as sent, so they are few.
const FRAME_BYTES_MAX: usize = 16 * 1024;

tokio::task_local! {
    /// The pace at which the client takes the answer of this task; only where each answer has a task, on HTTP/2.
    static TAKING: Arc<Mutex<Pace>>;
}

/// Runs the streams of HTTP/2 connections, and drops those whose client does not take the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamExecutor {
    pub(super) write_timeout: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let write_timeout = self.write_timeout;
        let pace = Arc::new(Mutex::new(Pace::new(write_timeout)));
        let taking = Arc::clone(&pace);
        tokio::spawn(TAKING.scope(taking, async move {
            tokio::select! { _ = stream => {}, () = overdue(&pace, write_timeout) => {} }
        }));
    }
}

/// Ready when the client's patience is used up.
async fn overdue(pace: &Mutex<Pace>, timeout: Duration) {
    loop {
        let now = Instant::now();
        let deadline = lock(pace).deadline();
        match deadline {
            Some(deadline) if deadline <= now => return,
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => tokio::time::sleep(timeout).await,
        }
    }
}

/// An open request; dropping it closes it.
pub(super) struct Exchange(Arc<Connection>);

impl Exchange {
    pub(super) fn open(connection: &Arc<Connection>, version: Version) -> Self {
        connection.activity().open(version);
        Self(Arc::clone(connection))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.activity().close(Instant::now());
    }
}

/// An answer on its way to the client.
pub(super) struct Answer {
    body: Body,
    /// What of the last frame is left.
    rest: Bytes,
    /// Bytes that were handed over last.
    handed: usize,
    taking: Option<Arc<Mutex<Pace>>>,
    _exchange: Exchange,
    /// The memory that the request took is free once it is answered.
    _reservation: Option<Arc<Reservation>>,
}

impl Answer {
    pub(super) fn new(body: Body, exchange: Exchange, reservation: Option<Arc<Reservation>>) -> Self {
        let taking = TAKING.try_with(Arc::clone).ok();
        let answer =
            Self { body, rest: Bytes::new(), handed: 0, taking, _exchange: exchange, _reservation: reservation };
        answer.wait();
        answer
    }

    /// From now on it waits for the client.
    fn wait(&self) {
        if let Some(taking) = &self.taking {
            lock(taking).wait(Instant::now());
        }
    }

    /// The client has taken what was handed over.
    fn advance(&mut self) {
        let bytes = std::mem::take(&mut self.handed);
        if let Some(taking) = &self.taking {
            lock(taking).advance(bytes, Instant::now());
        }
    }

    /// The next bytes, few enough.
    fn hand_over(&mut self, mut bytes: Bytes) -> Bytes {
        self.rest = bytes.split_off(bytes.len().min(FRAME_BYTES_MAX));
        self.handed = bytes.len();
        self.wait();
        bytes
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.advance();
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(Frame::data(self.hand_over(rest)))));
        }
        let Some(frame) = std::task::ready!(Pin::new(&mut self.body).poll_frame(task)) else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(frame.map(|frame| match frame.into_data() {
            Ok(data) => Frame::data(self.hand_over(data)),
            Err(frame) => frame,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        // An upper bound may not be set below the lower one, so it goes up first.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

fn lock(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}
