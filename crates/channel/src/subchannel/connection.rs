//! One HTTP/2 connection as the request path sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hyper::client::conn::http2::SendRequest;
use oxds_client::transport::{self, DialError, Keepalive, ServerUri};

use crate::body::RequestBody;

/// Drives a connection; ends when it takes no more requests.
pub(crate) type Driver = transport::Driver<RequestBody>;

/// A ready connection. Cheap to share; the last clone's drop lets the socket close.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<RequestBody>,
    in_flight: AtomicU32,
    max_streams: u32,
}

/// An RPC counted on its connection, until dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Connection>);

impl Connection {
    /// A handle to send one request with.
    pub(crate) fn sender(&self) -> SendRequest<RequestBody> {
        self.sender.clone()
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Whether another stream may start at once.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.max_streams
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts one RPC from now until the drop of the guard.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects, and waits for the server's preface.
///
/// Cancel-safe: dropping the future closes the socket.
pub(crate) async fn dial(
    address: SocketAddr,
    keepalive: Keepalive,
) -> Result<(Arc<Connection>, Driver), DialError> {
    let (connected, driver) = transport::dial(&ServerUri::at(address), keepalive).await?;
    let connection = Connection {
        sender: connected.sender,
        in_flight: AtomicU32::new(0),
        max_streams: connected
            .settings
            .max_concurrent_streams
            .unwrap_or(u32::MAX),
    };
    Ok((Arc::new(connection), driver))
}
