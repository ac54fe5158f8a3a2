//! Connections with a stall timeout. They are closed if the peer doesn't read for too long, or sends a
//! request that the HTTP library would reject without a reason.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::framing::HeadParser;

/// A connection that times out if the peer doesn't read.
pub(crate) struct StallTimeout<S> {
    inner: S,
    stall_timeout: Duration,
    /// Timer that runs while the peer isn't reading.
    timer: Option<Pin<Box<Sleep>>>,
    /// Parser fed with the same bytes as the HTTP library.
    head_parser: Option<HeadParser>,
    /// Response to a rejected head; empty once sent.
    rejection: Option<Vec<u8>>,
}

impl<S> StallTimeout<S> {
    pub fn new(inner: S, stall_timeout: Duration) -> Self {
        Self { inner, stall_timeout, timer: None, head_parser: None, rejection: None }
    }

    /// Adds a parser for request heads.
    pub fn with_head_parser(self, heads: HeadParser) -> Self {
        Self { head_parser: Some(heads), ..self }
    }

    fn track_write<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let stalled_for = self.stall_timeout;
        let giving_up = self.timer.get_or_insert_with(|| Box::pin(sleep(stalled_for)));
        ready!(giving_up.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> StallTimeout<S> {
    /// Sends the response to a rejected head, and returns the error that ends the connection.
    fn reject(&mut self, cx: &mut Context<'_>) -> io::Error {
        let response = self.rejection.as_mut().map(std::mem::take).unwrap_or_default();
        // In the middle of a response, the client would take this for part of it.
        if self.timer.is_none() {
            // Nothing else is waiting to be sent, so the response fits in the send buffer.
            let _ = Pin::new(&mut self.inner).poll_write(cx, &response);
            let _ = Pin::new(&mut self.inner).poll_shutdown(cx);
        }
        io::ErrorKind::InvalidData.into()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.rejection.is_none() {
            let before = into.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, into))?;
            let read = into.filled().get(before..).unwrap_or_default();
            let Some(rejection) = this.head_parser.as_mut().and_then(|heads| heads.parse_bytes(read)) else {
                return Poll::Ready(Ok(()));
            };
            let visible = read.len().saturating_sub(rejection.withheld);
            into.set_filled(before.saturating_add(visible));
            this.rejection = Some(rejection.into_response());
            if visible > 0 {
                // Earlier requests are answered before the rejected request.
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Ready(Err(this.reject(cx)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.track_write(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, bytes);
        this.track_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.track_write(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.track_write(cx, shut)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn only_peers_that_read_nothing_are_disconnected() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = duplex(16);
            let mut near = StallTimeout::new(near, Duration::from_secs(30));
            let slow = tokio::spawn(async move {
                let mut taken = [0; 16];
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_secs(29)).await;
                    far.read_exact(&mut taken).await.unwrap();
                }
                far
            });
            near.write_all(&[1; 64]).await.unwrap();
            let far = slow.await.unwrap();
            let begin = Instant::now();
            let error = near.write_all(&[1; 64]).await.unwrap_err();
            assert_eq!((error.kind(), begin.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
            drop(far);
        });
    }
}
