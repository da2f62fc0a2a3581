//! Requests of picks to the driver: connect an endpoint that an RPC waits for.

use std::net::SocketAddr;

use tokio::sync::mpsc::UnboundedSender;

/// Request to connect an endpoint of a cluster, because an RPC waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionRequest {
    /// Token of the cluster's driver.
    pub(crate) token: u64,
    pub(crate) endpoint: RequestedEndpoint,
}

/// An endpoint that must connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedEndpoint {
    /// The idle child of a policy, by the id of its member.
    Member(usize),
    /// An address that a session uses.
    Session(SocketAddr),
}

/// Sends the connection requests of one cluster to the driver.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRequester {
    token: u64,
    requests: UnboundedSender<ConnectionRequest>,
}

impl ConnectionRequester {
    pub(crate) fn new(token: u64, requests: UnboundedSender<ConnectionRequest>) -> Self {
        Self { token, requests }
    }

    /// Asks the driver to connect an endpoint.
    pub(crate) fn send(&self, endpoint: RequestedEndpoint) {
        let token = self.token;
        // The driver ends with the channel, and then no RPC waits.
        let _ = self.requests.send(ConnectionRequest { token, endpoint });
    }
}
