//! A client must say something soon: a connection whose first bytes do not come is closed.
//!
//! The HTTP/1 reader minds the time of a head, but only once it is known that HTTP/1 is spoken. Before
//! that, somebody has to mind the bytes that tell the version.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// So many bytes tell HTTP/2 from HTTP/1; no request of either is shorter.
const VERSION_BYTES: usize = 24;

/// A stream that ends unless its first bytes come in time.
pub(super) struct Greeting<S> {
    stream: S,
    heard: usize,
    patience: Pin<Box<Sleep>>,
}

impl<S> Greeting<S> {
    pub(super) fn within(patience: Duration, stream: S) -> Self {
        Self { stream, heard: 0, patience: Box::pin(tokio::time::sleep(patience)) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeting<S> {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(task, into);
        self.heard = self.heard.saturating_add(into.filled().len() - before);
        if read.is_pending() && self.heard < VERSION_BYTES && self.patience.as_mut().poll(task).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client said nothing")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeting<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(task, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
