//! A connection that is given up when the other side takes nothing for too long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection, and how long the other side may take nothing of what is written.
pub(crate) struct Patient<S> {
    inner: S,
    stalled_for: Duration,
    /// Runs while nothing is taken.
    giving_up: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(inner: S, stalled_for: Duration) -> Self {
        Self { inner, stalled_for, giving_up: None }
    }

    fn after<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.giving_up = None;
            return written;
        }
        let stalled_for = self.stalled_for;
        let giving_up = self.giving_up.get_or_insert_with(|| Box::pin(sleep(stalled_for)));
        ready!(giving_up.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.after(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, bytes);
        this.after(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.after(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.after(cx, shut)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn who_takes_nothing_is_given_up_and_who_is_slow_is_not() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = duplex(16);
            let mut near = Patient::new(near, Duration::from_secs(30));
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
