//! Detects the server's connection preface.
//!
//! hyper's handshake returns as soon as the *client's* preface is written, so a listener that accepts a connection and
//! then sends nothing would look connected. gRPC treats a connection as ready only when the server's SETTINGS frame
//! (RFC 9113 §3.4) has arrived. [`Preface`] wraps the socket, inspects the bytes until that first frame is complete, and
//! reports it. After that it costs one branch per read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

const FRAME_HEADER: usize = 9;
const SETTINGS_FRAME: u8 = 0x4;
const SETTINGS_MAX_CONCURRENT_STREAMS: u16 = 0x3;

/// Values of the server's first SETTINGS frame that a connection pool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Limit of concurrent streams; `None` if the server sets none.
    pub max_concurrent_streams: Option<u32>,
}

/// A socket that reports its first inbound frame.
#[derive(Debug)]
pub struct Preface<T> {
    io: T,
    reader: Option<FrameReader>,
}

#[derive(Debug)]
struct FrameReader {
    /// Bytes received so far.
    seen: Vec<u8>,
    report: oneshot::Sender<io::Result<Settings>>,
}

impl<T> Preface<T> {
    /// Wraps a socket. The receiver gets the settings, or the socket's error if that comes first; it ends without a value
    /// if the first frame is not SETTINGS.
    pub(super) fn watch(io: T) -> (Self, oneshot::Receiver<io::Result<Settings>>) {
        let (report, settings) = oneshot::channel();
        let seen = Vec::with_capacity(64);
        let reader = Some(FrameReader { seen, report });
        (Self { io, reader }, settings)
    }

    fn failed(&mut self, error: &io::Error) {
        if let Some(reader) = self.reader.take() {
            let copy = io::Error::new(error.kind(), error.to_string());
            drop(reader.report.send(Err(copy)));
        }
    }

    fn saw(&mut self, bytes: &[u8]) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        reader.seen.extend_from_slice(bytes);
        match parse(&reader.seen) {
            Parsed::Incomplete => self.reader = Some(reader),
            // If the dial has timed out meanwhile, the receiver is gone.
            Parsed::Settings(settings) => drop(reader.report.send(Ok(settings))),
            Parsed::Other => {}
        }
    }
}

impl<T: AsyncRead + Unpin> Preface<T> {
    /// Passes on the result of a write. If the write fails, the peer has closed the connection, and may have sent the
    /// reason first (a TLS alert): this reads it, and waits for it if necessary.
    fn written<R>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if let (Poll::Ready(Err(error)), true) = (&result, self.reader.is_some()) {
            let mut bytes = [0; 256];
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut ReadBuf::new(&mut bytes))) {
                Err(reason) => self.failed(&reason),
                Ok(()) => self.failed(error),
            }
        }
        result
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Incomplete,
    Settings(Settings),
    Other,
}

fn parse(bytes: &[u8]) -> Parsed {
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER) else {
        return Parsed::Incomplete;
    };
    // RFC 9113 §3.4: the server's first frame must be SETTINGS.
    if header[3] != SETTINGS_FRAME {
        return Parsed::Other;
    }
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    let Some(payload) = rest.get(..length) else {
        return Parsed::Incomplete;
    };
    let max_concurrent_streams = payload
        .chunks_exact(6)
        .filter(|entry| u16::from_be_bytes([entry[0], entry[1]]) == SETTINGS_MAX_CONCURRENT_STREAMS)
        .map(|entry| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
        // RFC 9113 §6.5: the last value of a repeated setting counts.
        .next_back();
    Parsed::Settings(Settings {
        max_concurrent_streams,
    })
}

impl<T: AsyncRead + Unpin> AsyncRead for Preface<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if let Err(error) = ready!(Pin::new(&mut self.io).poll_read(cx, buf)) {
            self.failed(&error);
            return Poll::Ready(Err(error));
        }
        if self.reader.is_some() {
            self.saw(&buf.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Preface<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_flush(cx);
        self.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_any_chunks() {
        let frame = [
            0, 0, 12, 4, 0, 0, 0, 0, 0, // header: 12 bytes of SETTINGS
            0, 4, 0, 0, 255, 255, // INITIAL_WINDOW_SIZE
            0, 3, 0, 0, 0, 200, // MAX_CONCURRENT_STREAMS
        ];
        for cut in 0..frame.len() {
            assert_eq!(parse(&frame[..cut]), Parsed::Incomplete);
        }
        let expected = Settings {
            max_concurrent_streams: Some(200),
        };
        assert_eq!(parse(&frame), Parsed::Settings(expected));
    }

    #[test]
    fn empty_settings_mean_no_limit() {
        let unlimited = Settings {
            max_concurrent_streams: None,
        };
        let frame = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        assert_eq!(parse(&frame), Parsed::Settings(unlimited));
    }

    #[test]
    fn other_protocol_is_not_settings() {
        assert_eq!(parse(b"HTTP/1.1 400 Bad Request\r\n"), Parsed::Other);
    }
}
