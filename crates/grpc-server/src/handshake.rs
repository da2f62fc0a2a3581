//! Connections whose handshake is not complete: how many there may be, and what a client must send first.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::status::{Counted, ListenerState};

/// Connection preface of a client (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame header, whose fourth byte is the type.
const FRAME_HEADER: usize = 9;
const TYPE_OFFSET: usize = 3;
const SETTINGS: u8 = 0x4;
/// First byte of a record with a TLS handshake message (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;
const FIRST: usize = PREFACE.len() + FRAME_HEADER;

/// Handshakes of an address that are under way.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By age. Dropping a sender closes the connection.
    senders: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A handshake under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    id: u64,
    closed: oneshot::Receiver<()>,
    _counted: Counted,
}

impl Handshakes {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            open: Mutex::default(),
        }
    }

    /// Begins a handshake. If there are too many, the oldest connection is closed: a slow client connects again, and
    /// clients that never finish do not keep others out.
    pub(crate) fn begin(this: &Arc<Self>, state: &Arc<ListenerState>) -> Handshake {
        let (sender, closed) = oneshot::channel();
        let mut open = this.lock();
        if open.senders.len() >= this.max {
            open.senders.pop_first();
        }
        open.next += 1;
        let id = open.next;
        open.senders.insert(id, sender);
        drop(open);
        Handshake {
            all: Arc::clone(this),
            id,
            closed,
            _counted: Counted::new(state, |state| &state.handshakes),
        }
    }

    /// Closes the oldest quarter of the connections that are in their handshake. Returns their number.
    pub(crate) fn close_oldest(&self) -> usize {
        let mut open = self.lock();
        let count = open.senders.len().div_ceil(4);
        for _ in 0..count {
            open.senders.pop_first();
        }
        count
    }

    /// Returns whether another connection may be accepted, if `live` handshakes have not ended. Closed ones count until
    /// their tasks have run, so that a burst of connections cannot outrun the limit.
    pub(crate) fn has_room(&self, live: usize) -> bool {
        live < self.max.saturating_mul(2)
    }

    /// Closes all connections that are in their handshake.
    pub(crate) fn close_all(&self) {
        self.lock().senders.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Every change is a single step.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Waits until the connection must be closed; cancel-safe.
    pub(crate) async fn closed(&mut self) {
        // The sender sends nothing; it is dropped.
        let _ = (&mut self.closed).await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().senders.remove(&self.id);
    }
}

/// A connection whose client has begun to speak HTTP/2. The bytes that show it are read again.
#[derive(Debug)]
pub(crate) struct Prefaced<T> {
    io: T,
    first: [u8; FIRST],
    /// Number of bytes of `first` that were read again.
    read: usize,
}

impl<T: AsyncRead + Unpin> Prefaced<T> {
    /// Waits for the client's preface and the header of its SETTINGS frame.
    ///
    /// # Errors
    /// The connection ends first, or the client speaks another protocol.
    pub(crate) async fn read(mut io: T) -> io::Result<Self> {
        let mut first = [0; FIRST];
        let mut filled = 0;
        while filled < FIRST {
            match io.read(&mut first[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
            // Another protocol is recognized by its first bytes: its client may wait for an answer.
            let preface = filled.min(PREFACE.len());
            if first[..preface] != PREFACE[..preface] {
                return Err(not_http2(&first));
            }
        }
        match first[PREFACE.len() + TYPE_OFFSET] {
            SETTINGS => Ok(Self { io, first, read: 0 }),
            _ => Err(not_http2(&first)),
        }
    }
}

fn not_http2(first: &[u8]) -> io::Error {
    let text = match first.first() {
        Some(&TLS_HANDSHAKE) => "the client speaks TLS, and the filter chain does not",
        _ => "the client does not speak HTTP/2",
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl<T: AsyncRead + Unpin> AsyncRead for Prefaced<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let rest = &this.first[this.read..];
        if rest.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prefaced<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given a client of another protocol, then the error names it: TLS is the usual mistake.
    #[tokio::test]
    async fn client_of_another_protocol_is_named() {
        for (sent, text) in [
            (
                &b"\x16\x03\x01\x02\x00\x01"[..],
                "the client speaks TLS, and the filter chain does not",
            ),
            (
                b"GET / HTTP/1.1\r\n\r\n",
                "the client does not speak HTTP/2",
            ),
        ] {
            let error = Prefaced::read(sent).await.unwrap_err();
            assert_eq!(error.to_string(), text);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
