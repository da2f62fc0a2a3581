//! One HTTP/2 connection, with the counts that picks and channelz need.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use bytes::Bytes;
use h2::client::SendRequest;
use oxds_client::channelz::{CallCounter, CallOutcome, Calls, Id};
use oxds_net::transport::{GoingAway, Settings, SocketAddresses};

use super::slots::StreamSlots;

/// Streams that a client can open on one connection: the odd ids of 31 bits (RFC 9113 §5.1.1).
const STREAM_IDS: u64 = 1 << 30;

/// A ready connection. The socket closes after the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Cloned by each RPC: a clone is what opens a stream.
    pub(super) sender: SendRequest<Bytes>,
    /// Whether it is encrypted: then the scheme of requests is `https`.
    pub(crate) is_private: bool,
    /// Whether the server has sent a GOAWAY.
    going_away: GoingAway,
    /// Whether the connection has ended.
    closed: AtomicBool,
    /// Whether it ended because the server did not answer a ping.
    silent: AtomicBool,
    /// Wakes the task that drives the connection.
    driver: OnceLock<Waker>,
    in_flight: AtomicU32,
    /// The streams that the server's `MAX_CONCURRENT_STREAMS` allows.
    pub(super) slots: StreamSlots,
    /// Id of the socket in channelz.
    pub(crate) id: Id,
    /// Local and remote address, for channelz.
    pub(crate) addresses: SocketAddresses,
    /// Number of streams that the endpoint ended.
    ended: AtomicU64,
    /// Number of streams that broke or were cancelled.
    broken: AtomicU64,
    /// The RPCs of the subchannel.
    calls: Arc<CallCounter>,
}

/// Guard that counts an RPC on its connection until dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    connection: Arc<Connection>,
    ended: CallOutcome,
}

impl InFlight {
    /// Records the end of the stream. Without it the stream counts as broken.
    pub(crate) fn end(&mut self, ended: CallOutcome) {
        self.ended = ended;
    }
}

impl Connection {
    pub(crate) fn new(
        sender: SendRequest<Bytes>,
        settings: Settings,
        addresses: SocketAddresses,
        going_away: GoingAway,
        calls: &Arc<CallCounter>,
    ) -> Self {
        // RFC 9113 §6.5.2: without the setting the number of streams has no limit.
        let max_streams = settings.max_concurrent_streams.unwrap_or(u32::MAX);
        Self {
            sender,
            is_private: false,
            going_away,
            closed: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            driver: OnceLock::new(),
            in_flight: AtomicU32::new(0),
            slots: StreamSlots::new(max_streams),
            id: Id::next(),
            addresses,
            ended: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            calls: Arc::clone(calls),
        }
    }

    /// Returns whether the connection takes new requests.
    pub(crate) fn is_open(&self) -> bool {
        // RFC 9113 §6.8: after a GOAWAY the client must not open streams.
        !self.going_away.is_received() && !self.closed.load(Ordering::Relaxed)
    }

    /// Returns whether a connection that has ended, or goes away, was useful: the endpoint ended a stream on it, or
    /// sent a GOAWAY while it had one.
    pub(crate) fn was_useful(&self) -> bool {
        let busy = self.going_away.is_received() && self.in_flight() > 0;
        busy || self.ended.load(Ordering::Relaxed) > 0
    }

    /// Returns whether another stream may start at once.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.slots.max()
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts one RPC until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.calls.begin();
        InFlight {
            connection: Arc::clone(self),
            ended: CallOutcome::Broken,
        }
    }

    /// Returns the counts of all streams so far.
    pub(crate) fn streams(&self) -> Calls {
        let succeeded = self.ended.load(Ordering::Relaxed);
        let failed = self.broken.load(Ordering::Relaxed);
        Calls {
            started: succeeded + failed + u64::from(self.in_flight()),
            succeeded,
            failed,
        }
    }

    /// Stores the waker of the task that drives the connection.
    pub(super) fn set_driver(&self, waker: &Waker) {
        self.driver.get_or_init(|| waker.clone());
    }

    /// Ends the waits for a stream, because the connection takes no more requests.
    pub(super) fn retire(&self) {
        self.slots.close();
    }

    /// Records the end of the connection.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.retire();
    }

    /// Records that the server did not answer a keepalive ping.
    pub(super) fn set_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Returns whether the connection ended because the server did not answer a keepalive ping.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Retires the connection if its stream ids are used up: the subchannel then dials the next one. Returns whether
    /// they are.
    pub(super) fn retire_if_used_up(&self) -> bool {
        let used_up = self.streams().started >= STREAM_IDS;
        if used_up {
            self.going_away.set();
            if let Some(driver) = self.driver.get() {
                driver.wake_by_ref();
            }
        }
        used_up
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let connection = &self.connection;
        let counter = match self.ended {
            CallOutcome::Ok | CallOutcome::NotOk => &connection.ended,
            CallOutcome::Broken => &connection.broken,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        connection.calls.end(self.ended);
        connection.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
