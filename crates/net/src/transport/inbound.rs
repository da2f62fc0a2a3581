//! Watches what a server sends: its connection preface, and the GOAWAY frame that ends the connection.
//!
//! hyper's handshake returns as soon as the *client's* preface is written, so a listener that accepts a connection and
//! then sends nothing would look connected. gRPC treats a connection as ready only when the server's SETTINGS frame
//! (RFC 9113 §3.4) has arrived. hyper also reports a GOAWAY only to the next request, or at the end of the connection.
//! [`Inbound`] wraps the socket, follows the headers of the inbound frames, and reports both at once. It reads nine
//! bytes of each frame, and copies none but the first ones. After a GOAWAY, an error of the socket is reported as its
//! end.
//!
//! ```text
//!  ┌─────────┐ SETTINGS ┌────────┐ GOAWAY ┌────────┐ its code ┌──────────────┐
//!  │ Preface ├─────────►│ Frames ├───────►│ GoAway ├─────────►│     Done     │
//!  └────┬────┘          └────────┘        └────────┘          └──────▲───────┘
//!       └────────────────────────────────────────────────────────────┘
//!         another protocol, end, error
//! ```

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, oneshot};

const FRAME_HEADER: usize = 9;
/// Length of the fixed fields of a GOAWAY frame: the last stream id and the error code (RFC 9113 §6.8).
const GOAWAY_FIELDS: usize = 8;
const SETTINGS_FRAME: u8 = 0x4;
const GOAWAY_FRAME: u8 = 0x7;
const SETTINGS_MAX_CONCURRENT_STREAMS: u16 = 0x3;

/// Number of bytes of another protocol that an error message shows: a status line, a banner, a TLS alert.
const SHOWN_BYTES: usize = 64;

/// Values of the server's first SETTINGS frame that a connection pool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Limit of concurrent streams; `None` if the server sets none.
    pub max_concurrent_streams: Option<u32>,
}

/// Reason why the first frame of a connection is not SETTINGS.
#[derive(Debug)]
pub(super) enum PrefaceError {
    /// The socket failed first.
    Io(io::Error),
    /// The peer sent other bytes; these are the first of them.
    NotHttp2(Box<[u8]>),
}

/// Whether the server has announced the end of the connection by GOAWAY (RFC 9113 §6.8). Clones share one state.
///
/// Requests in progress go on after that; the client must not start others.
#[derive(Clone, Debug, Default)]
pub struct GoingAway(Arc<GoingAwayState>);

#[derive(Debug, Default)]
struct GoingAwayState {
    received: AtomicBool,
    /// Error code of the frame.
    code: OnceLock<u32>,
    notify: Notify,
}

impl GoingAway {
    /// Returns whether a GOAWAY has arrived. Costs one atomic load.
    #[must_use]
    pub fn is_received(&self) -> bool {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Returns the error code of the GOAWAY, once its payload has arrived.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        self.0.code.get().copied()
    }

    /// Waits for a GOAWAY; never completes if the connection ends without one.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn received(&self) {
        // Created before the check, so that a frame between check and wait is not missed.
        let notified = self.0.notify.notified();
        if !self.is_received() {
            notified.await;
        }
    }

    /// Reports the end of the connection as a GOAWAY does: for a client that may not start another request for a reason
    /// of its own, such as used up stream ids.
    pub fn set(&self) {
        self.0.received.store(true, Ordering::Relaxed);
        self.0.notify.notify_waiters();
    }
}

/// Whether bytes have arrived on a connection. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct ReadActivity(Arc<AtomicBool>);

impl ReadActivity {
    /// Returns whether bytes have arrived since the last call.
    #[must_use]
    pub fn take(&self) -> bool {
        // A load is cheaper than an exchange, and most calls find nothing.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A socket that reports the server's preface and GOAWAY.
#[derive(Debug)]
pub struct Inbound<T> {
    io: T,
    state: InboundState,
    going_away: GoingAway,
    activity: ReadActivity,
}

#[derive(Debug)]
enum InboundState {
    Preface(PrefaceReader),
    Frames(FrameHeaders),
    /// A GOAWAY frame, of whose payload these bytes have arrived.
    GoAway(Vec<u8>),
    /// Nothing more to report.
    Done,
}

#[derive(Debug)]
struct PrefaceReader {
    /// Bytes received so far.
    seen: Vec<u8>,
    report: oneshot::Sender<Result<Settings, PrefaceError>>,
}

/// Position in a sequence of frames.
#[derive(Debug, Default)]
struct FrameHeaders {
    /// The first bytes of the current frame.
    header: [u8; FRAME_HEADER],
    /// Number of bytes in `header`.
    filled: usize,
    /// Number of payload bytes before the next header.
    payload: usize,
}

impl<T> Inbound<T> {
    /// Wraps a socket. The receiver gets the settings, or the error if that comes first; it ends without a value if the
    /// socket ends first. The [`GoingAway`] is set once the whole header of a GOAWAY frame has arrived.
    pub(super) fn watch(
        io: T,
    ) -> (
        Self,
        oneshot::Receiver<Result<Settings, PrefaceError>>,
        GoingAway,
    ) {
        let (report, settings) = oneshot::channel();
        let going_away = GoingAway::default();
        let seen = Vec::with_capacity(SHOWN_BYTES);
        let inbound = Self {
            io,
            state: InboundState::Preface(PrefaceReader { seen, report }),
            going_away: going_away.clone(),
            activity: ReadActivity::default(),
        };
        (inbound, settings, going_away)
    }

    /// Returns the handle that reports whether bytes have arrived.
    pub(super) fn activity(&self) -> ReadActivity {
        self.activity.clone()
    }

    /// Ends the wait for the preface.
    fn ended(&mut self, error: Option<&io::Error>) {
        let state = std::mem::replace(&mut self.state, InboundState::Done);
        if let (InboundState::Preface(reader), Some(error)) = (state, error) {
            let copy = io::Error::new(error.kind(), error.to_string());
            // The receiver is gone if the dial has timed out.
            drop(reader.report.send(Err(PrefaceError::Io(copy))));
        }
    }

    fn saw(&mut self, bytes: &[u8]) {
        match &mut self.state {
            InboundState::Preface(_) => self.saw_preface(bytes),
            InboundState::Frames(frames) => {
                if let Some(payload) = frames.find_goaway(bytes) {
                    self.state = InboundState::GoAway(Vec::with_capacity(GOAWAY_FIELDS));
                    self.saw(payload);
                    self.going_away.set();
                }
            }
            InboundState::GoAway(seen) => {
                let wanted = GOAWAY_FIELDS.saturating_sub(seen.len());
                seen.extend(bytes.iter().take(wanted));
                if let [_, _, _, _, code @ ..] = seen.as_slice()
                    && let Ok(code) = code.try_into()
                {
                    // Set once, because the state changes here.
                    let _ = self.going_away.0.code.set(u32::from_be_bytes(code));
                    self.state = InboundState::Done;
                }
            }
            InboundState::Done => {}
        }
    }

    fn saw_preface(&mut self, bytes: &[u8]) {
        let InboundState::Preface(mut reader) =
            std::mem::replace(&mut self.state, InboundState::Done)
        else {
            return;
        };
        reader.seen.extend_from_slice(bytes);
        match parse(&reader.seen) {
            Parsed::Incomplete => self.state = InboundState::Preface(reader),
            // The receiver is gone if the dial has timed out.
            Parsed::Settings(settings, length) => {
                drop(reader.report.send(Ok(settings)));
                self.state = InboundState::Frames(FrameHeaders::default());
                self.saw(&reader.seen[length..]);
            }
            Parsed::Other => {
                reader.seen.truncate(SHOWN_BYTES);
                let first = reader.seen.into();
                drop(reader.report.send(Err(PrefaceError::NotHttp2(first))));
            }
        }
    }
}

impl FrameHeaders {
    /// Moves over these bytes. Stops where they complete the header of a GOAWAY frame, and returns those behind it.
    fn find_goaway<'a>(&mut self, mut bytes: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return None;
            }
            let wanted = (FRAME_HEADER - self.filled).min(bytes.len());
            let (part, rest) = bytes.split_at(wanted);
            self.header[self.filled..][..wanted].copy_from_slice(part);
            self.filled += wanted;
            bytes = rest;
            if self.filled < FRAME_HEADER {
                return None;
            }
            if self.header[3] == GOAWAY_FRAME {
                return Some(bytes);
            }
            self.filled = 0;
            self.payload = payload_length(&self.header);
        }
    }
}

/// Returns the payload length in a frame header.
fn payload_length(header: &[u8]) -> usize {
    u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Incomplete,
    /// The settings, and the length of their frame with its header.
    Settings(Settings, usize),
    Other,
}

fn parse(bytes: &[u8]) -> Parsed {
    // RFC 9113 §3.4: the server's first frame must be SETTINGS. A TLS alert is shorter than a frame header, so the type
    // is checked as soon as it is there.
    if bytes.get(3).is_some_and(|&frame| frame != SETTINGS_FRAME) {
        return Parsed::Other;
    }
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER) else {
        return Parsed::Incomplete;
    };
    let length = payload_length(header);
    let Some(payload) = rest.get(..length) else {
        return Parsed::Incomplete;
    };
    let max_concurrent_streams = payload
        .chunks_exact(6)
        .filter(|entry| u16::from_be_bytes([entry[0], entry[1]]) == SETTINGS_MAX_CONCURRENT_STREAMS)
        .map(|entry| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
        // RFC 9113 §6.5: the last value of a repeated setting counts.
        .next_back();
    let settings = Settings {
        max_concurrent_streams,
    };
    Parsed::Settings(settings, FRAME_HEADER + length)
}

impl<T: AsyncRead + Unpin> AsyncRead for Inbound<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if let Err(error) = ready!(Pin::new(&mut self.io).poll_read(cx, buf)) {
            self.ended(Some(&error));
            // RFC 9113 §6.8: a request that is not sent yet can be sent elsewhere, because of the GOAWAY. h2 forgets
            // the GOAWAY for an error of the socket, and keeps it at the end of the stream.
            return Poll::Ready(if self.going_away.is_received() {
                Ok(())
            } else {
                Err(error)
            });
        }
        match &buf.filled()[before..] {
            [] if buf.remaining() > 0 => self.ended(None),
            bytes => {
                self.saw(bytes);
                self.activity.set();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Inbound<T> {
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

    /// A SETTINGS frame with two settings.
    const SETTINGS: [u8; 21] = [
        0, 0, 12, 4, 0, 0, 0, 0, 0, // header: 12 bytes of SETTINGS
        0, 4, 0, 0, 255, 255, // INITIAL_WINDOW_SIZE
        0, 3, 0, 0, 0, 200, // MAX_CONCURRENT_STREAMS
    ];

    #[test]
    fn settings_are_read_from_any_chunks() {
        for cut in 0..SETTINGS.len() {
            assert_eq!(parse(&SETTINGS[..cut]), Parsed::Incomplete);
        }
        let expected = Settings {
            max_concurrent_streams: Some(200),
        };
        assert_eq!(parse(&SETTINGS), Parsed::Settings(expected, SETTINGS.len()));
    }

    #[test]
    fn empty_settings_mean_no_limit() {
        let unlimited = Settings {
            max_concurrent_streams: None,
        };
        let frame = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        assert_eq!(parse(&frame), Parsed::Settings(unlimited, 9));
    }

    #[test]
    fn other_protocol_is_not_settings() {
        assert_eq!(parse(b"HTTP/1.1 400 Bad Request\r\n"), Parsed::Other);
        assert_eq!(parse(&[21, 3, 1, 0, 2, 2, 70]), Parsed::Other, "TLS alert");
    }

    #[test]
    fn goaway_is_found_in_any_chunks() {
        let data = [&[0, 1, 2, 0, 0, 0, 0, 0, 1][..], &[7; 258]].concat();
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7];
        let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 127, 255, 255, 255, 0, 0, 0, 0];
        let before = [&SETTINGS[..], &data, &ping].concat();
        let all = [&before[..], &goaway].concat();
        for size in 1..all.len() {
            let (mut inbound, mut settings, going_away) = Inbound::watch(());
            let mut sent = 0;
            for chunk in all.chunks(size) {
                inbound.saw(chunk);
                sent += chunk.len();
                let complete = sent >= before.len() + FRAME_HEADER;
                assert_eq!(going_away.is_received(), complete, "{sent} by {size}");
            }
            settings.try_recv().unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn goaway_before_and_during_the_wait_is_seen() {
        let going_away = GoingAway::default();
        let waiting = tokio::spawn({
            let going_away = going_away.clone();
            async move { going_away.received().await }
        });
        tokio::task::yield_now().await;
        going_away.set();
        waiting.await.unwrap();
        going_away.received().await;
    }
}
