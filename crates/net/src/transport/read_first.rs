//! Socket that reports a failed write only after everything that the peer sent has been read.
//!
//! A peer that closes a connection often says why in its last bytes: a GOAWAY frame that lists the calls it did not
//! process, the last responses, or a TLS alert. If a write fails before these bytes are read, hyper gives up the
//! connection and never reads them, so calls fail that could be retried or are answered already. [`ReadFirst`]
//! therefore drops what is written after the first failure, as a peer that is gone does, and lets the read side end the
//! connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Time limit for the peer's last bytes. They are in the socket already, or on their way before the reset that made the
/// write fail; only a peer that closed one direction of a Unix socket sends no end.
const GRACE: Duration = Duration::from_secs(1);

/// Socket that reports a failed write only after everything that the peer sent has been read.
#[derive(Debug)]
pub struct ReadFirst<T> {
    io: T,
    /// The first failed write. Boxed, because most connections have none.
    failed: Option<Box<FailedWrite>>,
}

#[derive(Debug)]
struct FailedWrite {
    error: io::Error,
    /// End of the wait for the peer's last bytes.
    grace: Pin<Box<Sleep>>,
}

impl FailedWrite {
    fn error(&self) -> io::Error {
        io::Error::new(self.error.kind(), self.error.to_string())
    }
}

impl<T> ReadFirst<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, failed: None }
    }

    /// Reports a failed write as accepted, with this result, and wakes the task, which must read next.
    fn written<R>(
        &mut self,
        cx: &Context<'_>,
        polled: Poll<io::Result<R>>,
        accepted: R,
    ) -> Poll<io::Result<R>> {
        let Poll::Ready(Err(error)) = polled else {
            return polled;
        };
        self.failed = Some(Box::new(FailedWrite {
            error,
            grace: Box::pin(sleep(GRACE)),
        }));
        // The last read may have been pending, without the timer that limits the wait from now on.
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(accepted))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadFirst<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        let Some(failed) = &mut self.failed else {
            return polled;
        };
        let ended = match &polled {
            Poll::Ready(Ok(())) => buf.filled().len() == before && buf.remaining() > 0,
            Poll::Ready(Err(_)) => false,
            Poll::Pending => failed.grace.as_mut().poll(cx).is_ready(),
        };
        if ended {
            Poll::Ready(Err(failed.error()))
        } else {
            polled
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadFirst<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(buf.len()));
        }
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.written(cx, polled, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        if self.failed.is_some() {
            return Poll::Ready(Ok(all));
        }
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.written(cx, polled, all)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.written(cx, polled, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A socket whose writes fail, with a script of reads.
    struct Broken(VecDeque<Poll<&'static [u8]>>);

    impl AsyncRead for Broken {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match self.0.pop_front() {
                Some(Poll::Ready(bytes)) => buf.put_slice(bytes),
                Some(Poll::Pending) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                None => return Poll::Pending,
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Broken {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
        }
    }

    fn broken(reads: impl IntoIterator<Item = Poll<&'static [u8]>>) -> ReadFirst<Broken> {
        ReadFirst::new(Broken(reads.into_iter().collect()))
    }

    #[tokio::test]
    async fn failed_write_is_reported_after_the_last_byte() {
        let last: [Poll<&[u8]>; 4] = [
            Poll::Ready(b"go"),
            Poll::Pending,
            Poll::Ready(b"away"),
            Poll::Ready(b""),
        ];
        let mut socket = broken(last);
        socket.write_all(b"request").await.unwrap();
        socket.write_all(b"another").await.unwrap();
        socket.flush().await.unwrap();
        let mut read = Vec::new();
        let error = socket.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(read, b"goaway");
        socket.shutdown().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn peer_without_an_end_has_a_second() {
        let mut socket = broken([Poll::Ready(&b"go"[..])]);
        let began = tokio::time::Instant::now();
        socket.write_all(b"request").await.unwrap();
        let mut read = Vec::new();
        let error = socket.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(read, b"go");
        assert!(began.elapsed() >= GRACE);
    }
}
