//! Sees the server's connection preface pass by.
//!
//! hyper's handshake returns as soon as the *client's* preface is written, so a listener that
//! accepts and then says nothing would look connected. gRPC calls a connection ready only when the
//! server's SETTINGS frame (RFC 9113 §3.4) arrived. [`Preface`] wraps the socket, reads along until
//! that first frame is complete, reports it, and from then on costs one branch per read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

const FRAME_HEADER: usize = 9;
const SETTINGS_FRAME: u8 = 0x4;
const SETTINGS_MAX_CONCURRENT_STREAMS: u16 = 0x3;

/// What the server's first SETTINGS frame says that a pool needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `None`: the server sets no limit.
    pub max_concurrent_streams: Option<u32>,
}

/// A socket whose first inbound frame is reported.
#[derive(Debug)]
pub struct Preface<T> {
    io: T,
    watch: Option<Watch>,
}

#[derive(Debug)]
struct Watch {
    seen: Vec<u8>,
    tell: oneshot::Sender<io::Result<Settings>>,
}

impl<T> Preface<T> {
    /// The receiver gets the error if that comes first, and ends without a value when the peer's first frame is not
    /// SETTINGS.
    pub(super) fn watch(io: T) -> (Self, oneshot::Receiver<io::Result<Settings>>) {
        let (tell, settings) = oneshot::channel();
        let seen = Vec::with_capacity(64);
        let watch = Some(Watch { seen, tell });
        (Self { io, watch }, settings)
    }

    fn failed(&mut self, error: &io::Error) {
        if let Some(watch) = self.watch.take() {
            let copy = io::Error::new(error.kind(), error.to_string());
            drop(watch.tell.send(Err(copy)));
        }
    }

    fn saw(&mut self, bytes: &[u8]) {
        let Some(mut watch) = self.watch.take() else {
            return;
        };
        watch.seen.extend_from_slice(bytes);
        match parse(&watch.seen) {
            Parsed::Incomplete => self.watch = Some(watch),
            // The dial may have timed out meanwhile: then nobody listens.
            Parsed::Settings(settings) => drop(watch.tell.send(Ok(settings))),
            Parsed::Other => {}
        }
    }
}

impl<T: AsyncRead + Unpin> Preface<T> {
    /// Passes on the result of writing. Who has hung up may have said why: that is worth waiting for, as it is on its
    /// way, if it is not there.
    fn written<R>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if let (Poll::Ready(Err(error)), true) = (&result, self.watch.is_some()) {
            let mut bytes = [0; 256];
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut ReadBuf::new(&mut bytes))) {
                Err(said) => self.failed(&said),
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
        if self.watch.is_some() {
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
    fn settings_are_read_whatever_the_chunking() {
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
    fn another_protocol_is_told_apart() {
        assert_eq!(parse(b"HTTP/1.1 400 Bad Request\r\n"), Parsed::Other);
    }
}
