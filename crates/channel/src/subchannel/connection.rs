//! One HTTP/2 connection, with the counts that picks and channelz need.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use oxds_client::channelz::{CallCounter, CallOutcome, Calls, Id};
use oxds_client::transport::{
    self, DialError, GoingAway, Keepalive, RequestSender, ServerUri, SocketAddresses,
};

use crate::body::RequestBody;

/// Future that drives a connection; ends when the connection is closed.
pub(crate) type ConnectionDriver = transport::Driver<RequestBody>;

/// A ready connection. The socket closes after the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: RequestSender<RequestBody>,
    /// Whether the server has sent a GOAWAY.
    pub(super) going_away: GoingAway,
    in_flight: AtomicU32,
    /// The server's `MAX_CONCURRENT_STREAMS`.
    max_streams: u32,
    /// Id of the socket in channelz.
    pub(super) id: Id,
    /// Local and remote address, for channelz.
    pub(super) addresses: SocketAddresses,
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
    /// Returns the handle that sends requests.
    pub(crate) fn sender(&self) -> RequestSender<RequestBody> {
        self.sender.clone()
    }

    /// Returns whether the connection takes new requests.
    pub(crate) fn is_open(&self) -> bool {
        // RFC 9113 §6.8: after a GOAWAY the client must not open streams.
        !self.going_away.is_received() && !self.sender.is_closed()
    }

    /// Returns whether a connection that has ended, or goes away, was of use: the endpoint ended a stream on it, or sent a
    /// GOAWAY while it had one.
    pub(super) fn was_useful(&self) -> bool {
        let busy = self.going_away.is_received() && self.in_flight() > 0;
        busy || self.ended.load(Ordering::Relaxed) > 0
    }

    /// Returns whether another stream may start at once.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.max_streams
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
    pub(super) fn streams(&self) -> Calls {
        let succeeded = self.ended.load(Ordering::Relaxed);
        let failed = self.broken.load(Ordering::Relaxed);
        Calls {
            started: succeeded + failed + u64::from(self.in_flight()),
            succeeded,
            failed,
        }
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

/// Connects and waits for the server's preface.
///
/// Cancel-safe: dropping the future closes the socket.
pub(crate) async fn dial(
    address: SocketAddr,
    keepalive: Keepalive,
    calls: &Arc<CallCounter>,
) -> Result<(Arc<Connection>, ConnectionDriver), DialError> {
    let (connected, driver) = transport::dial(&ServerUri::at(address), keepalive).await?;
    let connection = Connection {
        sender: connected.sender,
        going_away: connected.going_away,
        in_flight: AtomicU32::new(0),
        // HTTP/2, section 6.5.2: without the setting the number of streams has no limit.
        max_streams: connected
            .settings
            .max_concurrent_streams
            .unwrap_or(u32::MAX),
        id: Id::next(),
        addresses: connected.addresses,
        ended: AtomicU64::new(0),
        broken: AtomicU64::new(0),
        calls: Arc::clone(calls),
    };
    Ok((Arc::new(connection), driver))
}
